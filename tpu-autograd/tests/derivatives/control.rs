//! Branches, and the operations that have no derivative.

use crate::differences::{check, given};
use crate::replicas::on_replicas;
use std::sync::Arc;
use tpu_autograd::{grad, requires_grad};
use tpu_core::ir::{CustomCall, Op, Type};
use tpu_core::{DType, ErrorKind, Result, Tensor};

type Branch<'a> = Box<dyn FnOnce(&[Tensor]) -> Result<Vec<Tensor>> + 'a>;

fn boxed<'a>(branch: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + 'a) -> Branch<'a> {
    Box::new(branch)
}

#[test]
fn branches() {
    // The last one is out of range, which takes the last branch.
    for index in [0i32, 1, 2, 7] {
        check("case", 2, &[given(&[2, 3], 0.3, 1.0), given(&[3], -1.0, 1.0)], 3, &|x| {
            let index = Tensor::scalar(index)?;
            let branches = vec![
                // A composite, an operand used twice, a result that is an argument.
                boxed(|x| Ok(vec![tpu_ops::softmax(&x[0].mul(&x[1])?, -1)?.mul(&x[0])?, x[1].clone()])),
                // A branch within a branch.
                boxed(|x| {
                    let inner = vec![boxed(|x| Ok(vec![x[0].sin()?])), boxed(|x| Ok(vec![x[0].square()?.mul(&x[0])?]))];
                    let which = x[1].sum_all()?.gt(0)?.to_dtype(DType::I32)?;
                    Ok(vec![which.case(&[&x[0]], inner)?.swap_remove(0), x[1].mul(&x[0].sum([0], false)?)?])
                }),
                // Depends on nothing, and on one operand only.
                boxed(|x| Ok(vec![x[0].ones_like()?, x[1].square()?.mul(2)?])),
            ];
            Ok(index.case(&[&x[0].square()?, &x[1].square()?], branches)?.into_vec())
        })
        .unwrap();
    }
}

#[test]
fn only_the_operands_that_have_a_history_get_gradients() {
    let x = requires_grad(&Tensor::from_slice(&[2.0f64]).unwrap()).unwrap();
    let plain = Tensor::from_slice(&[5.0f64]).unwrap();
    let count = Tensor::from_slice(&[1i64]).unwrap();
    let branches = vec![boxed(|x| Ok(vec![x[0].mul(&x[1])?, x[2].to_dtype(DType::F64)?]))];
    let y = Tensor::scalar(0i32).unwrap().case(&[&x, &plain, &count], branches).unwrap();
    let gradient = grad(&[&y[0]], &[&x], Default::default()).unwrap();
    assert_eq!(gradient[0].to_vec::<f64>().unwrap(), [5.0]);
}

/// One row for each row of the table in `rules`.
#[test]
fn operations_without_a_derivative_say_so_by_name() {
    let refused = |y: &Tensor, x: &Tensor| {
        let error = grad(&[y], &[x], Default::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        (error.op().to_owned(), error.message().to_owned())
    };
    on_replicas(1, || {
        let x = requires_grad(&Tensor::from_slice(&[2.0f32]).unwrap()).unwrap();
        let body = |x: &[Tensor]| Ok(vec![x[0].mul(&x[0])?]);
        let y = Tensor::while_loop(&[&x], |x| x[0].sum_all()?.lt(10), body).unwrap().swap_remove(0);
        let (op, message) = refused(&y, &x);
        assert_eq!(op, "while");
        assert!(message.starts_with("has no derivative") && message.contains("iteration"), "{message}");
        let inside = vec![boxed(|x| Ok(Tensor::while_loop(&[&x[0]], |x| x[0].sum_all()?.lt(10), body)?.into_vec()))];
        let y = Tensor::scalar(0i32).unwrap().case(&[&x], inside).unwrap().swap_remove(0);
        assert_eq!(refused(&y, &x), ("while".to_owned(), message));
        let call = CustomCall {
            target: "someone.elses".into(),
            backend_config: String::new(),
            has_side_effect: false,
            results: vec![Type::new(DType::F32, [1])],
        };
        let y = Tensor::record(Op::CustomCall(Arc::new(call)), &[(&x).into()]).unwrap().swap_remove(0);
        let (op, message) = refused(&y, &x);
        assert_eq!(op, "custom_call");
        assert!(message.starts_with("has no derivative") && message.contains("nothing is known"), "{message}");
        let y = x.bitcast(DType::F16).unwrap();
        let (op, message) = refused(&y, &x);
        assert_eq!(op, "bitcast_convert");
        assert!(message.starts_with("has no derivative") && message.contains("bits"), "{message}");
        assert!(x.bitcast(DType::I32).unwrap().history().is_none());
    });
}
