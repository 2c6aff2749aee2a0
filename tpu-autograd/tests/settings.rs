//! Settings that PyTorch's constructors refuse are refused here, and their limits are taken.

use tpu_autograd::Param;
use tpu_autograd::optim::{
    AdadeltaOptions, AdagradOptions, AdamOptions, AdamWOptions, AdamaxOptions, Descent, Group, LionOptions, Optimizer,
    RmsPropOptions, Rule, Sgd, SgdOptions,
};
use tpu_core::{ErrorKind, Result, Tensor};

fn params() -> Result<Vec<(String, Param)>> {
    Ok(vec![("w".into(), Param::new(Tensor::from_slice(&[1.0f32])?))])
}

/// Where a setting's range ends: on both sides what is taken and what is not.
struct Range {
    taken: &'static [f64],
    refused: &'static [f64],
}

/// `not 0.0 <= lr` raises in PyTorch, so that infinity is taken and NaN is not.
const FROM_ZERO: Range =
    Range { taken: &[0.0, 2.0, f64::INFINITY], refused: &[-1e-30, -1.0, f64::NEG_INFINITY, f64::NAN] };
/// `not 0.0 <= beta < 1.0`.
const BELOW_ONE: Range = Range { taken: &[0.0, 0.999], refused: &[-1e-30, 1.0, 1.5, f64::NAN] };
/// `not 0.0 <= rho <= 1.0`.
const TO_ONE: Range = Range { taken: &[0.0, 1.0], refused: &[-1e-30, 1.0 + 1e-15, f64::NAN] };

fn check<R: Rule + Copy + Default>(name: &str, range: &Range, set: impl Fn(&mut R, f64)) -> Result<()> {
    for (numbers, taken) in [(range.taken, true), (range.refused, false)] {
        for &number in numbers {
            let mut options = R::default();
            set(&mut options, number);
            let made = Descent::new(params()?, options);
            let line = line!() - 1;
            assert_eq!(made.is_ok(), taken, "{} with {name} of {number}", R::NAME);
            let Err(error) = made else { continue };
            assert_eq!((error.kind(), error.op()), (ErrorKind::Value, R::NAME));
            let says = error.message().contains(name) && error.message().contains(&number.to_string());
            assert!(says, "{name} of {number}: {error}");
            assert_eq!((error.location().file(), error.location().line()), (Some(file!()), Some(line)));
        }
    }
    Ok(())
}

macro_rules! ranges {
    ($options:ty: $($($field:tt).+ = $range:ident),*) => {
        $(check::<$options>(stringify!($($field).+), &$range, |options, number| options.$($field).+ = number)?;)*
    };
}

#[test]
fn settings_are_taken_in_pytorchs_ranges() -> Result<()> {
    ranges!(SgdOptions: lr = FROM_ZERO, momentum = FROM_ZERO, weight_decay = FROM_ZERO);
    ranges!(AdamOptions: lr = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, betas.0 = BELOW_ONE, betas.1 = BELOW_ONE);
    ranges!(AdamWOptions: lr = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, betas.0 = BELOW_ONE, betas.1 = BELOW_ONE);
    ranges!(AdamaxOptions: lr = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, betas.0 = BELOW_ONE, betas.1 = BELOW_ONE);
    ranges!(AdadeltaOptions: lr = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, rho = TO_ONE);
    ranges!(AdagradOptions: lr = FROM_ZERO, lr_decay = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, initial_accumulator_value = FROM_ZERO);
    ranges!(RmsPropOptions: lr = FROM_ZERO, alpha = FROM_ZERO, eps = FROM_ZERO, weight_decay = FROM_ZERO, momentum = FROM_ZERO);
    // Not in PyTorch; Adam's ranges, as in the paper's code.
    ranges!(LionOptions: lr = FROM_ZERO, weight_decay = FROM_ZERO, betas.0 = BELOW_ONE, betas.1 = BELOW_ONE);
    Ok(())
}

#[test]
fn no_parameters_at_all_are_refused_and_an_empty_group_is_not() -> Result<()> {
    let group = |params| Group { params, options: SgdOptions::default() };
    let error = Sgd::new(Vec::new(), SgdOptions::default()).err().expect("no parameters");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Value, "requires at least one parameter, got none"));
    assert!(Sgd::with_groups(vec![group(Vec::new()), group(Vec::new())]).is_err());
    assert_eq!(Sgd::with_groups(vec![group(Vec::new()), group(params()?)])?.params().len(), 1);
    Ok(())
}

#[test]
fn a_learning_rate_that_is_none_is_refused_later_too() -> Result<()> {
    let mut optimizer = Sgd::new(params()?, SgdOptions { lr: 0.5, ..Default::default() })?;
    for bad in [-0.5, f64::NAN] {
        assert!(optimizer.set_lr(bad).is_err() && optimizer.set_lrs(&[bad]).is_err());
        assert_eq!(optimizer.lr(), 0.5);
    }
    let (line, error) = (line!(), optimizer.set_lr(-0.5).unwrap_err());
    assert_eq!((error.location().file(), error.location().line()), (Some(file!()), Some(line)));
    Ok(())
}
