//! Learning rates are PyTorch's, step by step.

#[path = "pytorch/schedules.rs"]
mod table;

use tpu_autograd::optim::{
    Anneal, Better, Exponential, LinearWarmup, MultiStep, OneCycle, Plateau, StepDecay, Threshold,
};

fn recorded(name: &str) -> &'static [f64] {
    table::RATES.iter().find(|(known, _)| *known == name).expect("a row").1
}

#[test]
fn rates_of_steps() {
    let linear = OneCycle {
        rising: 0.25,
        anneal: Anneal::Linear,
        initial_divisor: 4.0,
        final_divisor: 8.0,
        ..OneCycle::new(2.0, 24)
    };
    let rate = |name: &str, step: u64| match name {
        "step" => StepDecay { rate: 1.0, every: 5, gamma: 0.5 }.at(step),
        "multistep" => MultiStep { rate: 1.0, milestones: vec![3, 3, 10], gamma: 0.5 }.at(step),
        "exponential" => Exponential { rate: 1.0, gamma: 0.75 }.at(step),
        "linear" => LinearWarmup { rate: 1.0, start: 0.25, end: 1.0, steps: 8 }.at(step),
        "one cycle" => OneCycle::new(2.0, 24).at(step),
        _ => linear.at(step),
    };
    for name in ["step", "multistep", "exponential", "linear", "one cycle", "one cycle linear"] {
        for (step, &expected) in recorded(name).iter().enumerate() {
            let found = rate(name, step as u64);
            // PyTorch multiplies from step to step: 24 roundings.
            assert!((found - expected).abs() <= 1e-14, "{name}, step {step}: {found}, PyTorch {expected}");
        }
    }
}

#[test]
fn plateaus_wait_change_and_cool() {
    let plain = Plateau { factor: 0.5, patience: 1, ..Plateau::new(1.0) };
    let cooling = Plateau {
        better: Better::Larger,
        factor: 0.5,
        patience: 0,
        threshold: Threshold::Absolute(0.5),
        cooldown: 2,
        least: 0.1,
        ..Plateau::new(1.0)
    };
    for (name, mut plateau) in [("plateau", plain), ("plateau cooling", cooling)] {
        for (step, (&expected, &watched)) in recorded(name).iter().zip(recorded("watched")).enumerate() {
            assert_eq!(plateau.rate, expected, "{name}, step {step}");
            plateau.observe(watched);
        }
    }
}
