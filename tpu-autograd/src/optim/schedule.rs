//! Learning rates over time.

use std::f64::consts::PI;

/// A learning rate that rises linearly to `peak` over the first steps, then falls along half a cosine to `floor`.
///
/// ```
/// use tpu_autograd::optim::CosineWithWarmup;
/// let schedule = CosineWithWarmup { peak: 1.0, floor: 0.1, warmup: 10, total: 110 };
/// assert_eq!((schedule.at(0), schedule.at(9), schedule.at(10)), (0.1, 1.0, 1.0));
/// assert!((schedule.at(60) - 0.55).abs() < 1e-12);
/// assert_eq!(schedule.at(1000), 0.1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineWithWarmup {
    /// The highest rate.
    pub peak: f64,
    /// The last rate.
    pub floor: f64,
    /// Steps that rise; the last of them has the peak.
    pub warmup: u64,
    /// Steps until the floor.
    pub total: u64,
}

impl CosineWithWarmup {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        if step >= self.total {
            return self.floor;
        }
        let part = (step - self.warmup) as f64 / (self.total - self.warmup) as f64;
        self.floor + (self.peak - self.floor) * 0.5 * (1.0 + (PI * part).cos())
    }
}

/// A rate that is multiplied by `gamma` every so many steps. PyTorch's `StepLR`.
///
/// ```
/// use tpu_autograd::optim::StepDecay;
/// let schedule = StepDecay { rate: 1.0, every: 10, gamma: 0.5 };
/// assert_eq!((schedule.at(9), schedule.at(10), schedule.at(25)), (1.0, 0.5, 0.25));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepDecay {
    /// The first rate.
    pub rate: f64,
    /// Steps of one rate.
    pub every: u64,
    /// What the rate is multiplied by.
    pub gamma: f64,
}

impl StepDecay {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        self.rate * self.gamma.powf((step / self.every.max(1)) as f64)
    }
}

/// A rate that is multiplied by `gamma` at each of some steps. PyTorch's `MultiStepLR`.
///
/// ```
/// use tpu_autograd::optim::MultiStep;
/// let schedule = MultiStep { rate: 1.0, milestones: vec![10, 15], gamma: 0.5 };
/// assert_eq!((schedule.at(9), schedule.at(10), schedule.at(25)), (1.0, 0.5, 0.25));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStep {
    /// The first rate.
    pub rate: f64,
    /// The first steps of the next rates.
    pub milestones: Vec<u64>,
    /// What the rate is multiplied by.
    pub gamma: f64,
}

impl MultiStep {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        let passed = self.milestones.iter().filter(|&&milestone| milestone <= step).count();
        self.rate * self.gamma.powf(passed as f64)
    }
}

/// A rate that is multiplied by `gamma` every step. PyTorch's `ExponentialLR`.
///
/// ```
/// use tpu_autograd::optim::Exponential;
/// assert_eq!(Exponential { rate: 1.0, gamma: 0.5 }.at(3), 0.125);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    /// The first rate.
    pub rate: f64,
    /// What the rate is multiplied by.
    pub gamma: f64,
}

impl Exponential {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        self.rate * self.gamma.powf(step as f64)
    }
}

/// A rate times a factor that goes from `start` to `end` in a line. PyTorch's `LinearLR`, whose defaults are 1/3, 1 and 5 steps.
///
/// ```
/// use tpu_autograd::optim::LinearWarmup;
/// let schedule = LinearWarmup { rate: 2.0, start: 0.5, end: 1.0, steps: 4 };
/// assert_eq!((schedule.at(0), schedule.at(2), schedule.at(9)), (1.0, 1.5, 2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearWarmup {
    /// The rate that is multiplied.
    pub rate: f64,
    /// The first factor.
    pub start: f64,
    /// The last factor.
    pub end: f64,
    /// Steps until the last factor.
    pub steps: u64,
}

impl LinearWarmup {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        let part = if step >= self.steps { 1.0 } else { step as f64 / self.steps as f64 };
        self.rate * (self.start + (self.end - self.start) * part)
    }
}

/// How a rate goes from one value to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Anneal {
    /// Along half a cosine.
    #[default]
    Cosine,
    /// In a line.
    Linear,
}

impl Anneal {
    fn between(self, from: f64, to: f64, part: f64) -> f64 {
        match self {
            Self::Cosine => to + (from - to) / 2.0 * (1.0 + (PI * part).cos()),
            Self::Linear => from + (to - from) * part,
        }
    }
}

/// Up from `peak / initial_divisor` to `peak`, then down to `peak / initial_divisor / final_divisor` (Smith and Topin:
/// *Super-convergence*, 2018). PyTorch's `OneCycleLR` of two phases, without its cycle of the momentum.
///
/// ```
/// use tpu_autograd::optim::OneCycle;
/// let schedule = OneCycle::new(1.0, 100);
/// assert_eq!(schedule.at(29), 1.0);
/// assert!((schedule.at(0) - 0.04).abs() < 1e-12 && (schedule.at(99) - 4e-6).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycle {
    /// The highest rate.
    pub peak: f64,
    /// All steps.
    pub total: u64,
    /// Part of the steps that rise.
    pub rising: f64,
    /// How the rate goes.
    pub anneal: Anneal,
    /// The peak divided by the first rate.
    pub initial_divisor: f64,
    /// The first rate divided by the last one.
    pub final_divisor: f64,
}

impl OneCycle {
    /// With PyTorch's defaults.
    pub fn new(peak: f64, total: u64) -> Self {
        let (initial_divisor, final_divisor) = (25.0, 1e4);
        Self { peak, total, rising: 0.3, anneal: Anneal::Cosine, initial_divisor, final_divisor }
    }

    /// The rate of step `step`, counted from 0; the last one from there on.
    pub fn at(&self, step: u64) -> f64 {
        let first = self.peak / self.initial_divisor;
        let last = first / self.final_divisor;
        let top = self.rising * self.total as f64 - 1.0;
        let end = self.total as f64 - 1.0;
        let step = (step as f64).min(end);
        match step <= top {
            true => self.anneal.between(first, self.peak, if top > 0.0 { step / top } else { 1.0 }),
            false => self.anneal.between(self.peak, last, (step - top) / (end - top)),
        }
    }
}
