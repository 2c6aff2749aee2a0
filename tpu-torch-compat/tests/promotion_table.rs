//! Promotion gives what PyTorch 2.15 gives: `tables/promotion.txt`, made by `tables/make_promotion.py`.

use tpu_core::{DType, ErrorKind, Result, Scalar, Tensor};
use tpu_torch_compat::{Operand, promote_types, result_type};

fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.name() == name)
}

/// The row's result: a dtype, or the kind of error for one that PyTorch refuses or that is not here.
fn compare(line: &str, got: Result<DType>, want: &str) {
    let want = dtype(want).ok_or(if want == "error" { ErrorKind::DType } else { ErrorKind::Unsupported });
    assert_eq!(got.map_err(|error| error.kind()), want, "{line}");
}

#[test]
fn all_pairs_and_categories_promote_as_in_pytorch() {
    let mut lines = 0;
    for line in include_str!("tables/promotion.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["promote", a, b, want] => compare(line, promote_types(dtype(a).unwrap(), dtype(b).unwrap()), want),
            ["result", tensor, zero, number, want] => {
                let number = match number {
                    "bool" => Some(Scalar::Bool(true)),
                    "int" => Some(Scalar::Int(3)),
                    "float" => Some(Scalar::Float(0.5)),
                    "complex" => Some(Scalar::Complex(0.0, 1.0)),
                    _ => None,
                };
                let operands =
                    [dtype(tensor).map(Operand::Tensor), dtype(zero).map(Operand::Scalar), number.map(Operand::Number)];
                let mut operands: Vec<Operand> = operands.into_iter().flatten().collect();
                compare(line, result_type(&operands), want);
                operands.reverse();
                compare(line, result_type(&operands), want);
            }
            _ => panic!("{line}"),
        }
        lines += 1;
    }
    assert!(lines > 600, "{lines} lines");
}

#[test]
fn numbers_decide_last_among_three_categories() {
    // A number beside a scalar is int32; beside a bool tensor that decides.
    let operands = [Operand::Tensor(DType::Bool), Operand::Scalar(DType::I32), 7.into()];
    assert_eq!(result_type(&operands).unwrap(), DType::I32);
    let operands = [Operand::Tensor(DType::I8), Operand::Scalar(DType::F64), 0.5.into()];
    assert_eq!(result_type(&operands).unwrap(), DType::F64);
    let operands = [Operand::Tensor(DType::F16), Operand::Scalar(DType::F64), Operand::Tensor(DType::I64)];
    assert_eq!(result_type(&operands).unwrap(), DType::F16);
}

#[test]
fn a_tensor_is_of_the_category_of_its_rank() {
    let vector = Tensor::from_slice(&[1u8]).unwrap();
    let scalar = Tensor::scalar(1i64).unwrap();
    assert_eq!(result_type(&[(&vector).into(), (&scalar).into()]).unwrap(), DType::U8);
    assert_eq!(result_type(&[(&scalar).into(), true.into()]).unwrap(), DType::I64);
}

#[test]
fn no_operands_are_an_error_at_the_callers_line() {
    let error = result_type(&[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(error.location().file().is_some_and(|file| file.ends_with("promotion_table.rs")), "{error}");
}
