//! Functions of each element.

use crate::differences::{cases, check, given, shapes};
use proptest::prelude::any;
use tpu_core::ir::{BinaryOp, Op, UnaryOp};
use tpu_core::{DType, Tensor};

/// The function and a range where it is smooth.
fn range(op: UnaryOp) -> Option<(f64, f64)> {
    use UnaryOp::*;
    Some(match op {
        Abs | Neg | Sign | Floor | Ceil | RoundNearestEven | RoundNearestAfz | Exp | Expm1 | Logistic | Tanh | Sin
        | Cos | Erf => (-1.9, 1.7),
        Tan | ErfInv => (-0.8, 0.8),
        Log | Sqrt | Rsqrt | Cbrt => (0.4, 3.0),
        Log1p => (-0.5, 2.0),
        // Of other dtypes.
        IsFinite | Not | PopulationCount | CountLeadingZeros | Real | Imag => return None,
    })
}

#[test]
fn of_one_operand() {
    for &op in UnaryOp::ALL {
        let Some((low, high)) = range(op) else { continue };
        cases(5, (shapes(0..3), any::<u64>()), |(sizes, seed)| {
            check(op.name(), 2, &[given(&sizes, low, high)], seed >> 8, &|x| {
                Ok(Tensor::record(Op::Unary(op), &[(&x[0]).into()])?.into_vec())
            })
        });
    }
}

#[test]
fn of_two_operands() {
    use BinaryOp::*;
    for op in [Add, Subtract, Multiply, Divide, Remainder, Power, Atan2, Maximum, Minimum] {
        let (low, high) = if op == Remainder { (0.31, 0.45) } else { (0.5, 2.0) };
        cases(6, (shapes(0..3), any::<u64>()), |(sizes, seed)| {
            check(op.name(), 2, &[given(&sizes, 0.4, 2.2), given(&sizes, low, high)], seed >> 8, &|x| {
                Ok(Tensor::record(Op::Binary(op), &[(&x[0]).into(), (&x[1]).into()])?.into_vec())
            })
        });
    }
}

#[test]
fn of_an_operand_and_itself() {
    cases(4, (shapes(0..3), any::<u64>()), |(sizes, seed)| {
        check("x·x/(x+x²)", 2, &[given(&sizes, 0.4, 2.2)], seed >> 8, &|x| {
            Ok(vec![x[0].mul(&x[0])?.div(&x[0].add(&x[0].square()?)?)?])
        })
    });
}

#[test]
fn of_numbers_on_either_side() {
    let sizes = [2, 3];
    let ops = [
        BinaryOp::Add,
        BinaryOp::Subtract,
        BinaryOp::Multiply,
        BinaryOp::Divide,
        BinaryOp::Power,
        BinaryOp::Atan2,
        BinaryOp::Maximum,
    ];
    for op in ops {
        for number in [1.3, -0.7] {
            check(op.name(), 2, &[given(&sizes, 0.4, 2.2)], 5, &|x| {
                Ok(Tensor::record(Op::Binary(op), &[(&x[0]).into(), number.into()])?.into_vec())
            })
            .unwrap();
        }
        check(op.name(), 2, &[given(&sizes, 0.4, 2.2)], 6, &|x| {
            Ok(Tensor::record(Op::Binary(op), &[1.3.into(), (&x[0]).into()])?.into_vec())
        })
        .unwrap();
    }
    check("x^3", 2, &[given(&sizes, -1.0, 1.0)], 7, &|x| Ok(vec![x[0].pow(3)?])).unwrap();
    check("x^0", 2, &[given(&sizes, -1.0, 1.0)], 8, &|x| Ok(vec![x[0].pow(0)?])).unwrap();
}

#[test]
fn select_and_clamp() {
    cases(6, (shapes(0..3), any::<u64>()), |(sizes, seed)| {
        let operands = [given(&sizes, -1.0, 1.0), given(&sizes, -1.1, 1.2), given(&sizes, -0.9, 1.3)];
        check("select", 2, &operands[..2], seed >> 8, &|x| Ok(vec![x[0].gt(&x[1])?.select(&x[0].square()?, &x[1])?]))?;
        check("clamp", 2, &operands, seed >> 8, &|x| Ok(vec![x[0].clamp(&x[1], &x[2])?.square()?]))?;
        check("clamp by numbers", 2, &operands[..1], seed >> 8, &|x| Ok(vec![x[0].clamp(-0.5, 0.5)?]))
    });
}

#[test]
fn conversions_and_rounding() {
    cases(4, (shapes(0..3), any::<u64>()), |(sizes, seed)| {
        let mut operand = given(&sizes, -1.0, 1.0);
        operand.dtype = DType::F32;
        check("convert", 2, &[operand], seed >> 8, &|x| Ok(vec![x[0].to_dtype(DType::F64)?.square()?]))
    });
}
