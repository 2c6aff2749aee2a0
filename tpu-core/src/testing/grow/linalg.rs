//! Fourier transforms and dense linear algebra.

use super::{Choices, Grower};
use crate::ir::{FftKind, Op, TransposeKind, Type, Value};
use crate::testing::arguments;

pub fn fft(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let kind = *choices.pick(FftKind::ALL);
    let x = grower.operand(choices, &Op::Fft { kind, lengths: Default::default() })?;
    let sizes = grower.ty(x).shape.sizes().to_vec();
    let count = (1 + choices.below(3)).min(sizes.len());
    let mut lengths = sizes[sizes.len() - count..].to_vec();
    if kind == FftKind::Irfft {
        let last = lengths.last_mut()?;
        *last = last.saturating_sub(1) * 2 + choices.below(2);
    }
    grower.push(Op::Fft { kind, lengths: lengths.into_iter().collect() }, &[x])
}

pub fn decompose(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = choices.pick(&[Op::Qr, Op::Eigh, Op::Lu]).clone();
    let some = grower.operand(choices, &op)?;
    let dtype = grower.ty(some).dtype;
    let rows = choices.below(6);
    let columns = if matches!(op, Op::Qr | Op::Lu) { choices.below(6) } else { rows };
    let batch = 1 + choices.below(2);
    let x = grower.like(choices, &Type::new(dtype, [batch, rows, columns]));
    grower.push(op, &[x])
}

/// The factor of positive definite matrices, now and then of any.
pub fn cholesky(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::Cholesky { lower: choices.one_in(2) };
    let some = grower.operand(choices, &op)?;
    let (batch, n) = (1 + choices.below(2), choices.below(6));
    let ty = Type::new(grower.ty(some).dtype, [batch, n, n]);
    let x = if choices.one_in(4) { grower.like(choices, &ty) } else { dominant(grower, choices, &ty) };
    grower.push(op, &[x])
}

/// New matrices whose diagonal outweighs their rows.
fn dominant(grower: &mut Grower<'_>, choices: &mut Choices<'_>, ty: &Type) -> Value {
    let seed = choices.below(1 << 16) as u64;
    grower.given(arguments::dominant(ty, seed))
}

pub fn triangular_solve(grower: &mut Grower<'_>, choices: &mut Choices<'_>) -> Option<Value> {
    let op = Op::TriangularSolve {
        left: choices.one_in(2),
        lower: choices.one_in(2),
        unit_diagonal: choices.one_in(2),
        transpose: *choices.pick(TransposeKind::ALL),
    };
    let some = grower.operand(choices, &op)?;
    let (dtype, n) = (grower.ty(some).dtype, choices.below(5));
    let ty = Type::new(dtype, [n, n]);
    let a = if choices.one_in(4) { grower.like(choices, &ty) } else { dominant(grower, choices, &ty) };
    let b = grower.like(choices, &Type::new(dtype, [n, n]));
    grower.push(op, &[a, b])
}
