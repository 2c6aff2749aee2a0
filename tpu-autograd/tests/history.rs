//! What histories keep, when they end, and what backward passes say when something is wrong.

use tpu_autograd::{
    Backward, GradOptions, Param, checkpoint, clip_grad_value, enable_grad, grad, no_grad, requires_grad,
    value_and_grad,
};
use tpu_core::{DType, ErrorKind, Mode, Result, Tensor, lazy};
use tpu_ops::Generator;

fn param(values: &[f32]) -> Param {
    Param::new(Tensor::from_slice(values).unwrap())
}

#[test]
fn long_chains_fit_a_small_stack() {
    let run = || -> Result<()> {
        let w = param(&[1.0]);
        let mut x = w.value();
        for _ in 0..100_000 {
            x = x.neg()?;
        }
        x.sum_all()?.backward()?;
        drop(x);
        assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [1.0]);
        Ok(())
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap().unwrap();
}

#[test]
fn a_second_backward_over_freed_values_is_an_error_unless_retained() -> Result<()> {
    let w = param(&[2.0]);
    let loss = w.value().square()?.sum_all()?;
    loss.backward_retain_graph()?;
    loss.backward()?;
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [8.0]);
    let error = loss.backward().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.message().contains("freed") && error.message().contains("multiply"), "{error}");
    // A failed pass adds nothing.
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [8.0]);
    Ok(())
}

#[test]
fn backward_wants_one_element_and_a_history() -> Result<()> {
    let w = param(&[2.0, 3.0]);
    assert_eq!(w.value().square()?.backward().unwrap_err().kind(), ErrorKind::Shape);
    let error = w.value().detach().sum_all()?.backward().unwrap_err();
    assert!(error.message().contains("without history"), "{error}");
    w.value().square()?.backward_from(&Tensor::from_slice(&[1.0f32, 10.0])?)?;
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [4.0, 60.0]);
    Ok(())
}

#[test]
fn gradients_add_up_over_micro_batches() -> Result<()> {
    let (whole, parts) = (param(&[0.5, -1.0]), param(&[0.5, -1.0]));
    let x = Tensor::from_vec((0..12).map(|v| v as f32 / 4.0).collect(), [6, 2])?;
    let loss = |w: &Param, x: &Tensor| x.mul(&w.value())?.sum([1], false)?.square()?.sum_all();
    loss(&whole, &x)?.backward()?;
    for at in 0..3 {
        loss(&parts, &x.narrow(0, 2 * at, 2)?)?.backward()?;
    }
    let (a, b) = (whole.grad().unwrap().to_vec::<f32>()?, parts.grad().unwrap().to_vec::<f32>()?);
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4), "{a:?} {b:?}");
    Ok(())
}

#[test]
fn what_is_frozen_or_recorded_without_gradients_gets_none() -> Result<()> {
    let (w, frozen) = (param(&[2.0]), param(&[3.0]));
    frozen.set_requires_grad(false)?;
    assert!(frozen.value().history().is_none());
    assert!(no_grad(|| w.value().square())?.history().is_none());
    assert!(no_grad(|| enable_grad(|| w.value().square()))?.history().is_some());
    w.value().mul(&frozen.value())?.sum_all()?.backward()?;
    assert_eq!((w.grad().unwrap().item::<f32>()?, frozen.grad().is_none()), (3.0, true));
    assert_eq!(
        Param::new(Tensor::zeros([2], DType::I64)?).set_requires_grad(true).unwrap_err().kind(),
        ErrorKind::DType
    );
    assert_eq!(requires_grad(&Tensor::zeros([2], DType::I64)?).unwrap_err().kind(), ErrorKind::DType);
    Ok(())
}

#[test]
fn no_grad_ends_with_a_panic() {
    assert!(std::panic::catch_unwind(|| no_grad(|| panic!("inside"))).is_err());
    assert!(tpu_autograd::is_grad_enabled());
}

#[test]
fn unused_inputs_are_errors_or_zeros() -> Result<()> {
    let (x, y) = (requires_grad(&Tensor::scalar(2f64)?)?, requires_grad(&Tensor::scalar(3f64)?)?);
    let z = x.square()?;
    let error = grad(&[&z], &[&x, &y], GradOptions { retain_graph: true, ..Default::default() }).unwrap_err();
    assert!(error.message().contains("input 1"), "{error}");
    let both = grad(&[&z], &[&x, &y], GradOptions { allow_unused: true, ..Default::default() })?;
    assert_eq!((both[0].item::<f64>()?, both[1].item::<f64>()?), (4.0, 0.0));
    Ok(())
}

#[test]
fn gradients_of_values_in_between() -> Result<()> {
    let x = requires_grad(&Tensor::scalar(2f64)?)?;
    let y = x.square()?;
    let z = y.mul(&x)?;
    // ∂z/∂y = x, ∂z/∂x = y + x · 2x
    let both = grad(&[&z], &[&y, &x], GradOptions::default())?;
    assert_eq!((both[0].item::<f64>()?, both[1].item::<f64>()?), (2.0, 12.0));
    Ok(())
}

#[test]
fn value_and_grad_leaves_kept_gradients_alone() -> Result<()> {
    let (w, unused) = (param(&[2.0]), param(&[5.0]));
    let (loss, gradients) = value_and_grad(&[&w, &unused], || w.value().square()?.sum_all())?;
    assert!(loss.history().is_none() && w.grad().is_none());
    assert_eq!(gradients[0].to_vec::<f32>()?, [4.0]);
    assert_eq!(gradients[1].to_vec::<f32>()?, [0.0]);
    Ok(())
}

#[test]
fn recomputation_gives_the_same_gradients() -> Result<()> {
    let x = Tensor::from_slice(&[0.3f32, -0.8, 1.4])?;
    let mut found = Vec::new();
    for recompute in [false, true] {
        let (w, v) = (param(&[0.5, 1.0, -2.0]), param(&[1.5]));
        let scaled = x.mul(&v.value())?;
        let block = {
            let (w, captured) = (w.clone(), scaled.clone());
            move |inputs: &[Tensor]| Ok(vec![inputs[0].mul(&w.value())?.tanh()?.mul(&captured)?, inputs[0].sin()?])
        };
        let outputs = if recompute { checkpoint(block, &[&scaled])? } else { block(std::slice::from_ref(&scaled))? };
        drop(scaled);
        outputs[0].add(&outputs[1])?.square()?.sum_all()?.backward()?;
        found.push((w.grad().unwrap().to_vec::<f32>()?, v.grad().unwrap().to_vec::<f32>()?));
    }
    assert_eq!(found[0], found[1]);
    Ok(())
}

#[test]
fn recomputation_draws_the_same_random_numbers() -> Result<()> {
    let w = Param::new(Tensor::ones([64], DType::F32)?);
    let generator = Generator::new(3);
    let y = generator
        .scope(|| checkpoint(|x| Ok(vec![tpu_ops::dropout(&x[0], 0.5, true, None)?]), &[&w.value()]))?
        .remove(0);
    // Moves the generator on, as other layers would.
    generator.reserve(1000);
    y.sum_all()?.backward()?;
    // The mask times two is both the value and its gradient.
    let mask = y.to_vec::<f32>()?;
    assert!(mask.contains(&0.0) && mask.contains(&2.0));
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, mask);
    Ok(())
}

#[test]
fn recomputation_can_be_differentiated_twice() -> Result<()> {
    let x = requires_grad(&Tensor::scalar(2f64)?)?;
    let y = checkpoint(|x| Ok(vec![x[0].mul(&x[0])?.mul(&x[0])?]), &[&x])?.remove(0);
    let create_graph = GradOptions { create_graph: true, ..Default::default() };
    let first = grad(&[&y], &[&x], create_graph)?.remove(0);
    let second = grad(&[&first], &[&x], GradOptions::default())?.remove(0);
    assert_eq!((first.item::<f64>()?, second.item::<f64>()?), (12.0, 12.0));
    Ok(())
}

#[test]
fn clipping_by_value() -> Result<()> {
    let w = param(&[0.0, 0.0, 0.0]);
    w.set_grad(Some(Tensor::from_slice(&[-3.0f32, 0.5, 2.0])?))?;
    clip_grad_value(std::slice::from_ref(&w), 1.0)?;
    assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [-1.0, 0.5, 1.0]);
    Ok(())
}

#[test]
fn a_parameter_keeps_its_type() -> Result<()> {
    let w = param(&[1.0]);
    assert_eq!(w.set(Tensor::zeros([2], DType::F32)?).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(w.set_grad(Some(Tensor::zeros([1], DType::F64)?)).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(w.value().to_vec::<f32>()?, [1.0]);
    Ok(())
}

#[test]
fn a_failed_step_leaves_parameters_as_before_it() -> Result<()> {
    for mode in Mode::ALL {
        mode.scope(|| -> Result<()> {
            let table = Param::new(Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2])?);
            let other = param(&[5.0]);
            let step = |index: i64| -> Result<()> {
                let rows = table.value().take(&Tensor::from_slice(&[index])?, 0)?;
                let loss = rows.sum_all()?.mul(&other.value().sum_all()?)?;
                loss.backward()?;
                no_grad(|| {
                    for param in [&table, &other] {
                        let grad = param.take_grad().expect("both take part");
                        param.set(param.value().sub(&grad.mul(0.1)?)?)?;
                    }
                    lazy::mark_step();
                    Ok(())
                })
            };
            let shown = || Ok::<_, tpu_core::Error>((table.value().to_vec::<f32>()?, other.value().to_vec::<f32>()?));
            step(1)?;
            let before = shown()?;
            for _ in 0..2 {
                // In blocking mode the error shows at the call, in the others when a value is read.
                let failed = step(7).and_then(|()| lazy::synchronize());
                assert!(failed.is_ok() || failed.is_err_and(|error| error.kind() == ErrorKind::Index));
                table.zero_grad();
                other.zero_grad();
                // The first read of each is the error, the next one the value before.
                for param in [&table, &other] {
                    let told = param.value().to_vec::<f32>();
                    assert_eq!(told.is_err(), mode != Mode::DeferNeverAndLaunchBlocking, "{mode:?}");
                }
                assert_eq!(shown()?, before, "{mode:?}");
            }
            step(0)?;
            assert_ne!(shown()?, before, "{mode:?}");
            Ok(())
        })?;
    }
    Ok(())
}
