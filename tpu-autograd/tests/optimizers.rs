//! The course of optimizers, step by step, as PyTorch's.

#[path = "pytorch/optimizers.rs"]
mod table;

use tpu_autograd::optim::{
    Adadelta, AdadeltaOptions, Adagrad, AdagradOptions, Adam, AdamOptions, AdamW, AdamWOptions, Adamax, AdamaxOptions,
    Group, Lion, LionOptions, Optimizer, RmsProp, RmsPropOptions, Sgd, SgdOptions,
};
use tpu_autograd::{Backward, Param, clip_grad_norm};
use tpu_core::{DType, Result, Tensor};

type Named = Vec<(String, Param)>;

fn params() -> Result<Named> {
    let named = [("a", &[0.5f32, -1.0][..]), ("b", &[2.0, 0.25]), ("c", &[3.0])];
    named.iter().map(|(name, values)| Ok((name.to_string(), Param::new(Tensor::from_slice(values)?)))).collect()
}

fn optimizer(name: &str, params: Named) -> Result<Box<dyn Optimizer>> {
    let sgd = |options| Ok(Box::new(Sgd::new(params.clone(), options)?) as Box<dyn Optimizer>);
    let adamw = |options| Ok(Box::new(AdamW::new(params.clone(), options)?) as Box<dyn Optimizer>);
    let decay = SgdOptions { lr: 0.1, weight_decay: 0.05, ..Default::default() };
    match name {
        "sgd" => sgd(SgdOptions { lr: 0.1, ..Default::default() }),
        "sgd momentum" | "sgd late" => sgd(SgdOptions { momentum: 0.9, dampening: 0.3, ..decay }),
        "sgd nesterov" => sgd(SgdOptions { momentum: 0.8, nesterov: true, ..decay }),
        "adamw" | "adamw late" => adamw(AdamWOptions { lr: 0.1, ..Default::default() }),
        "adamw decay" => adamw(AdamWOptions { lr: 0.05, betas: (0.8, 0.95), eps: 1e-6, weight_decay: 0.1 }),
        "sgd groups" => {
            let options = SgdOptions { lr: 0.1, momentum: 0.9, ..Default::default() };
            let first = Group { params: params[..1].to_vec(), options: SgdOptions { lr: 0.2, ..Default::default() } };
            Ok(Box::new(Sgd::with_groups(vec![first, Group { params: params[1..].to_vec(), options }])?))
        }
        "adamw groups" => {
            let options = AdamWOptions { lr: 0.1, weight_decay: 0.1, ..Default::default() };
            let rest = AdamWOptions { lr: 0.02, weight_decay: 0.0, ..options };
            let (middle, outer) = (vec![params[1].clone()], vec![params[0].clone(), params[2].clone()]);
            let groups = vec![Group { params: middle, options }, Group { params: outer, options: rest }];
            Ok(Box::new(AdamW::with_groups(groups)?))
        }
        other => adaptive(other, params),
    }
}

fn adaptive(name: &str, params: Named) -> Result<Box<dyn Optimizer>> {
    let adam = AdamOptions { lr: 0.1, ..Default::default() };
    let (betas, weight_decay) = ((0.8, 0.5), 0.1);
    let adagrad = AdagradOptions { lr: 0.1, lr_decay: 0.25, initial_accumulator_value: 0.5, ..Default::default() };
    let rmsprop = RmsPropOptions { lr: 0.02, alpha: 0.8, ..Default::default() };
    let lion = LionOptions { lr: 0.05, ..Default::default() };
    Ok(match name {
        "adam" => Box::new(Adam::new(params, adam)?),
        "adam decay" => {
            let options = AdamOptions { lr: 0.05, betas: (0.8, 0.95), eps: 1e-6, weight_decay, amsgrad: false };
            Box::new(Adam::new(params, options)?)
        }
        "adam amsgrad" => Box::new(Adam::new(params, AdamOptions { betas, weight_decay, amsgrad: true, ..adam })?),
        "adam amsgrad late" => Box::new(Adam::new(params, AdamOptions { betas, amsgrad: true, ..adam })?),
        "adamax" => {
            Box::new(Adamax::new(params, AdamaxOptions { lr: 0.1, betas, weight_decay, ..Default::default() })?)
        }
        "adagrad" => Box::new(Adagrad::new(params, AdagradOptions { lr: 0.1, ..Default::default() })?),
        "adagrad decay" => Box::new(Adagrad::new(params, AdagradOptions { weight_decay, eps: 1e-3, ..adagrad })?),
        "adagrad decay late" => Box::new(Adagrad::new(params, adagrad)?),
        "rmsprop" => Box::new(RmsProp::new(params, RmsPropOptions { lr: 0.05, ..Default::default() })?),
        "rmsprop centered" => {
            let options = RmsPropOptions { lr: 0.05, eps: 1e-3, weight_decay, centered: true, ..rmsprop };
            Box::new(RmsProp::new(params, options)?)
        }
        "rmsprop momentum" => Box::new(RmsProp::new(params, RmsPropOptions { momentum: 0.9, ..rmsprop })?),
        "rmsprop both" => {
            let options = RmsPropOptions { eps: 1e-3, momentum: 0.5, centered: true, ..rmsprop };
            Box::new(RmsProp::new(params, options)?)
        }
        "adadelta" => Box::new(Adadelta::new(params, AdadeltaOptions::default())?),
        "adadelta decay" => {
            Box::new(Adadelta::new(params, AdadeltaOptions { lr: 0.5, rho: 0.8, eps: 1e-3, weight_decay })?)
        }
        "lion" | "lion late" => Box::new(Lion::new(params, lion)?),
        "lion decay" => Box::new(Lion::new(params, LionOptions { betas: (0.6, 0.8), weight_decay: 0.5, ..lion })?),
        other => panic!("no optimizer named {other}"),
    })
}

/// The loss of step `at` of a course: in those named late, `c` takes part from the third step on and `b` not in the fourth.
fn backward(name: &str, at: usize, params: &Named) -> Result<()> {
    let [a, mut b, mut c] = [0, 1, 2].map(|at| params[at].1.value());
    if name.ends_with("late") {
        (b, c) = (if at == 3 { b.detach() } else { b }, if at < 2 { c.detach() } else { c });
    }
    a.sin()?.mul(&b)?.sum_all()?.add(&c.square()?.mul(0.5)?.sum_all()?)?.backward()
}

fn step(name: &str, at: usize, params: &Named, optimizer: &mut dyn Optimizer) -> Result<()> {
    let lrs: Vec<f64> = optimizer.lrs().iter().map(|lr| lr * 0.9).collect();
    optimizer.set_lrs(&lrs)?;
    optimizer.zero_grad();
    backward(name, at, params)?;
    if at == 2 {
        clip_grad_norm(&params.iter().map(|(_, param)| param.clone()).collect::<Vec<_>>(), 0.5)?;
    }
    optimizer.step()
}

fn values(params: &Named) -> Result<Vec<f32>> {
    let each: Vec<Vec<f32>> = params.iter().map(|(_, param)| param.value().to_vec()).collect::<Result<_>>()?;
    Ok(each.concat())
}

#[test]
fn each_step_is_pytorchs() -> Result<()> {
    for &(name, steps) in table::COURSES {
        let params = params()?;
        let mut optimizer = optimizer(name, params.clone())?;
        for (at, expected) in steps.iter().enumerate() {
            step(name, at, &params, &mut *optimizer)?;
            for (found, expected) in values(&params)?.iter().zip(*expected) {
                // A step rounds about ten times in float32, 6e-8 each; six steps of values up to 3 stay below 1e-5.
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{name}, step {at}: {found}, PyTorch {expected}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_saved_state_goes_on_bit_for_bit() -> Result<()> {
    for &(name, _) in table::COURSES {
        let (straight, resumed) = (params()?, params()?);
        let mut first = optimizer(name, straight.clone())?;
        let mut second = optimizer(name, resumed.clone())?;
        for at in 0..3 {
            step(name, at, &straight, &mut *first)?;
            step(name, at, &resumed, &mut *second)?;
        }
        let state = second.state()?;
        let mut third = optimizer(name, resumed.clone())?;
        third.load_state(&state)?;
        third.set_lrs(&second.lrs())?;
        for at in 3..6 {
            step(name, at, &straight, &mut *first)?;
            step(name, at, &resumed, &mut *third)?;
        }
        assert_eq!(values(&straight)?, values(&resumed)?, "{name}");
    }
    Ok(())
}

#[test]
fn a_state_saved_after_a_skipped_step_goes_on_bit_for_bit() -> Result<()> {
    for &(name, _) in table::COURSES {
        let update = |at: usize, params: &Named, optimizer: &mut dyn Optimizer| -> Result<()> {
            optimizer.zero_grad();
            backward(name, at, params)?;
            optimizer.update(Some(&Tensor::scalar(at == 1)?))
        };
        let (straight, resumed) = (params()?, params()?);
        let mut first = optimizer(name, straight.clone())?;
        let mut second = optimizer(name, resumed.clone())?;
        for at in 0..4 {
            update(at, &straight, &mut *first)?;
            update(at, &resumed, &mut *second)?;
        }
        let mut third = optimizer(name, resumed.clone())?;
        third.load_state(&second.state()?)?;
        for at in 4..6 {
            update(at, &straight, &mut *first)?;
            update(at, &resumed, &mut *third)?;
        }
        assert_eq!(values(&straight)?, values(&resumed)?, "{name}");
    }
    Ok(())
}

#[test]
fn a_skipped_step_changes_nothing_and_does_not_count() -> Result<()> {
    for &(name, _) in table::COURSES {
        let (plain, skipping) = (params()?, params()?);
        let mut first = optimizer(name, plain.clone())?;
        let mut second = optimizer(name, skipping.clone())?;
        for at in 0..5 {
            let before = values(&skipping)?;
            second.zero_grad();
            backward(name, at, &skipping)?;
            let skip = at == 1 || at == 3;
            second.update(Some(&Tensor::scalar(skip)?))?;
            match skip {
                true => assert_eq!(values(&skipping)?, before, "{name}, step {at}"),
                false => {
                    first.zero_grad();
                    backward(name, at, &plain)?;
                    first.update(None)?;
                }
            }
            for (a, b) in values(&plain)?.iter().zip(values(&skipping)?) {
                // The corrections are computed in float32 where steps may be skipped: 1e-7 of a step of 0.1, five times.
                assert!((a - b).abs() < 1e-6, "{name}, step {at}: {a} and {b}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_foreign_state_is_refused_and_changes_nothing() -> Result<()> {
    let params = params()?;
    let mut adamw = optimizer("adamw", params.clone())?;
    step("adamw", 0, &params, &mut *adamw)?;
    let good = adamw.state()?;
    let shown = |state: &std::collections::BTreeMap<String, Tensor>| -> Result<Vec<Vec<u8>>> {
        state.values().map(Tensor::to_bytes).collect()
    };
    let before = shown(&good)?;
    let mut bad = good.clone();
    bad.insert("b.exp_avg".into(), Tensor::zeros([3], DType::F32)?);
    let error = adamw.load_state(&bad).unwrap_err();
    assert_eq!(error.kind(), tpu_core::ErrorKind::Format);
    assert!(error.message().contains("b.exp_avg"), "{error}");
    let mut bad = good.clone();
    bad.remove("c.exp_avg_sq");
    assert!(adamw.load_state(&bad).unwrap_err().message().contains("c.exp_avg_sq"));
    bad.remove("step");
    assert!(adamw.load_state(&bad).unwrap_err().message().contains("step"));
    assert_eq!(shown(&adamw.state()?)?, before);
    // Of other optimizers, either way, and of one with other options.
    let mut sgd = optimizer("sgd momentum", params.clone())?;
    let error = sgd.load_state(&good).unwrap_err();
    assert!(error.kind() == tpu_core::ErrorKind::Format && error.message().contains("a.exp_avg"), "{error}");
    step("sgd momentum", 0, &params, &mut *sgd)?;
    let momenta = sgd.state()?;
    assert!(adamw.load_state(&momenta).unwrap_err().message().contains("a.momentum_buffer"));
    assert!(optimizer("sgd", params)?.load_state(&momenta).unwrap_err().message().contains("a.momentum_buffer"));
    assert_eq!(shown(&adamw.state()?)?, before);
    Ok(())
}

#[test]
fn groups_that_do_not_fit_are_refused() -> Result<()> {
    let (all, options) = (params()?, AdamWOptions::default());
    let group = |params: &[(String, Param)]| Group { params: params.to_vec(), options };
    let refused = |groups: Vec<Group<AdamWOptions>>, part: &str| {
        let error = AdamW::with_groups(groups).err().expect("refused");
        assert!(error.message().contains(part), "{error}");
    };
    refused(vec![], "at least one group");
    refused(vec![group(&all), group(&all[..1])], "got a twice");
    refused(vec![group(&[all[0].clone(), ("a".into(), all[1].1.clone())])], "got a twice");
    let mut optimizer = AdamW::with_groups(vec![group(&all[..1]), group(&all[1..])])?;
    assert!(optimizer.set_lrs(&[0.1]).unwrap_err().message().contains("2 groups, got 1"));
    optimizer.set_lrs(&[0.5, 0.25])?;
    assert_eq!((optimizer.lr(), optimizer.lrs()), (0.5, vec![0.5, 0.25]));
    optimizer.set_lr(0.125)?;
    assert_eq!(optimizer.lrs(), [0.125, 0.125]);
    Ok(())
}
