//! Kernels against independent answers: the reference interpreter over all samples and random programs, PyTorch's
//! values, worked examples.

mod convolutions;
mod examples;
mod indexing;
mod random_programs;
mod samples;
mod threads;
mod torch;
mod windows;

use super::{Operand, Target, run};
use crate::dtype::Kind;
use crate::dtype::convert::cast;
use crate::ir::{Graph, Op, Reducer, Type, UnaryOp, infer};
use crate::reference::{Array, evaluate_op};
use crate::runtime::host::pool::Pool;
use crate::runtime::host::scratch;
use crate::{Complex64, DType, Element, Result, with_element};
use std::sync::Arc;

/// 64 bytes on their boundary.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Memory as the executor gives it to kernels.
struct Memory {
    lines: Vec<Line>,
    len: usize,
}

impl Memory {
    /// Filled with a pattern that is no value of interest, to show what is not written.
    fn new(len: usize) -> Self {
        Self { lines: vec![Line([0xA5; 64]); len.div_ceil(64)], len }
    }

    fn of(bytes: &[u8]) -> Self {
        let mut memory = Self::new(bytes.len());
        memory.bytes_mut().copy_from_slice(bytes);
        memory
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the lines are at least `len` initialised bytes, borrowed as long as the result.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// The result types of an op.
fn result_types(op: &Op, inputs: &[Array]) -> Result<Vec<Type>> {
    let types: Vec<&Type> = inputs.iter().map(Array::ty).collect();
    Ok(infer::infer(op, &types, &Graph::new())?.to_vec())
}

/// The results of the kernel.
fn kernel(op: &Op, inputs: &[Array]) -> Result<Vec<Array>> {
    let types = result_types(op, inputs)?;
    let memory: Vec<Memory> = inputs.iter().map(|x| Memory::of(x.bytes())).collect();
    let operands: Vec<Operand<'_>> =
        inputs.iter().zip(&memory).map(|(x, m)| Operand { ty: x.ty(), bytes: m.bytes() }).collect();
    let mut outputs: Vec<Memory> = types.iter().map(|ty| Memory::new(ty.bytes().expect("small"))).collect();
    let mut targets: Vec<Target<'_>> =
        types.iter().zip(&mut outputs).map(|(ty, m)| Target { ty, bytes: m.bytes_mut() }).collect();
    let pool = Arc::new(Pool::new(None));
    run(op, &operands, &mut targets, scratch::Memory::new(&pool, &scratch::Piece::none()))?;
    assert_eq!(pool.stats().in_use, 0, "{op:?} keeps memory");
    types.into_iter().zip(&outputs).map(|(ty, m)| Array::from_bytes(ty, m.bytes().to_vec())).collect()
}

/// The only result, as numbers.
fn numbers<T: Element>(op: &Op, inputs: &[Array]) -> Vec<T> {
    let results = kernel(op, inputs).expect("a kernel");
    assert_eq!(results.len(), 1);
    results[0].to_vec().expect("the element type")
}

/// A sequence of numbers that looks random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// In [-2, 2].
    fn moderate(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 51) as f64 - 2.0
    }

    /// Elements of moderate size; integers up to the bounds of their type, so that sums and products wrap. When
    /// `special`, with NaN, infinities, signed zeros, bounds and repeated values among them.
    fn array(&mut self, ty: &Type, special: bool) -> Array {
        const SPECIAL: [f64; 9] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e-45, 3e38];
        let count = ty.shape.elements().expect("small");
        with_element!(ty.dtype, T => {
            let mut values: Vec<T> = Vec::with_capacity(count);
            for _ in 0..count {
                let odd = special && self.below(3) == 0;
                values.push(match ty.dtype.kind() {
                    Kind::Float if odd => cast(SPECIAL[self.below(SPECIAL.len())]),
                    Kind::Float => cast(self.moderate()),
                    Kind::Complex => cast(Complex64::new(self.moderate() as f32, self.moderate() as f32)),
                    Kind::Bool => cast(self.below(2) == 0),
                    Kind::Signed | Kind::Unsigned if odd => {
                        cast([0, 1, -1, i64::MAX, i64::MIN, 1 << 31, 127, 128][self.below(8)])
                    }
                    Kind::Signed | Kind::Unsigned if self.below(2) == 0 => cast(self.below(7) as i64 - 2),
                    Kind::Signed | Kind::Unsigned => cast(self.next() as i64),
                });
            }
            Array::new(ty.shape.clone(), &values).expect("as many elements")
        })
    }

    /// Operands for an op: indices small but not all in range, matrices that can be solved.
    fn operands(&mut self, op: &Op, types: &[Type], special: bool) -> Vec<Array> {
        let mut inputs: Vec<Array> = types.iter().map(|ty| self.array(ty, special)).collect();
        let indices = match op {
            Op::Gather(_) | Op::Scatter(_) => 1..2,
            Op::DynamicSlice { .. } => 1..types.len(),
            Op::DynamicUpdateSlice => 2..types.len(),
            _ => 0..0,
        };
        for input in indices {
            let ty = &types[input];
            with_element!(ty.dtype, T => {
                let count = ty.shape.elements().expect("small");
                let values: Vec<T> = (0..count).map(|_| cast(self.below(8) as i64 - 2)).collect();
                inputs[input] = Array::new(ty.shape.clone(), &values).expect("as many elements");
            });
        }
        match op {
            Op::Cholesky { .. } => inputs[0] = dominant(&inputs[0], true),
            Op::TriangularSolve { .. } => inputs[0] = dominant(&inputs[0], false),
            _ => {}
        }
        inputs
    }
}

/// The matrices with a diagonal that outweighs their rows, so that factors and solutions are of moderate size; with a
/// real diagonal when `hermitian`.
fn dominant(x: &Array, hermitian: bool) -> Array {
    let n = *x.sizes().last().expect("matrices");
    with_element!(x.dtype(), T => {
        let mut values: Vec<T> = x.to_vec().expect("its own type");
        for (i, value) in values.iter_mut().enumerate() {
            let (row, column) = (i / n % n, i % n);
            if row == column {
                let own: Complex64 = cast(*value);
                let imaginary = if hermitian { 0.0 } else { own.im };
                *value = cast(Complex64::new(3.0 * n as f32 + own.re, imaginary));
            }
        }
        Array::new(x.ty().shape.clone(), &values).expect("as many elements")
    })
}

/// Distance between neighbours near one.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F32 | DType::Complex64 => f32::EPSILON.into(),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F8E4M3FN => 2f64.powi(-3),
        DType::F8E5M2 => 2f64.powi(-2),
        _ => 0.0,
    }
}

/// How far a float result may be from the reference: `(relative to the value, absolute)`, in units of the rounding of
/// the result's dtype. Zero, zero means the same number.
fn allowance(op: &Op, inputs: &[Array], result: &Type) -> (f64, f64) {
    let unit = epsilon(result.dtype);
    // Sums are rounded in the accumulator's precision; operands are at most 2 in magnitude.
    let partial = unit.min(f32::EPSILON.into());
    let terms = |count: usize| (unit, 4.0 * count as f64 * partial);
    let ratio = || inputs[0].elements() / result.shape.elements().unwrap_or(1).max(1);
    match op {
        Op::Unary(op) => match op {
            UnaryOp::Exp | UnaryOp::Expm1 | UnaryOp::Log | UnaryOp::Log1p | UnaryOp::Logistic | UnaryOp::Tanh
            | UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan | UnaryOp::Rsqrt | UnaryOp::Cbrt | UnaryOp::Erf
            | UnaryOp::ErfInv
            // Two units, and for bits below the smallest normal number one of them.
            => (2.0 * unit, 2f64.powi(-149)),
            // Of a complex number, by the norm.
            UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Sqrt if result.dtype.is_complex() || inputs[0].dtype().is_complex() => (2.0 * unit, 0.0),
            _ => (0.0, 0.0),
        },
        Op::Binary(crate::ir::BinaryOp::Power | crate::ir::BinaryOp::Atan2) => (2.0 * unit, 0.0),
        Op::Binary(_) if result.dtype.is_complex() => (2.0 * unit, 0.0),
        // Partial products are rounded, one rounding a factor.
        Op::Reduce { kind: Reducer::Product, .. }
        | Op::ReduceWindow { kind: Reducer::Product, .. }
        | Op::Cumulative { kind: Reducer::Product, .. } => ((8 + ratio()) as f64 * unit, 0.0),
        Op::Reduce { kind: Reducer::Sum, .. } => terms(ratio()),
        Op::ReduceWindow { kind: Reducer::Sum, window } => terms(window.sizes.iter().product()),
        Op::SelectAndScatter { window, .. } => terms(window.sizes.iter().product()),
        Op::Cumulative { kind: Reducer::Sum, axis, .. } => terms(inputs[0].sizes()[*axis]),
        Op::DotGeneral(dims) => terms(dims.lhs_contract.iter().map(|&a| inputs[0].sizes()[a]).product()),
        Op::Convolution(_) => terms(inputs[1].elements()),
        // Every update is rounded to the dtype.
        Op::Scatter(dims) if matches!(dims.combiner, Some(Reducer::Sum | Reducer::Product)) => {
            let count = inputs[2].elements() as f64;
            (count * unit, 4.0 * count * unit)
        }
        // Both in double precision, of operands of modulus below 3.
        Op::Fft { lengths, .. } => {
            let terms = lengths.iter().product::<usize>() as f64;
            (unit, 3.0 * terms * terms * f64::EPSILON)
        }
        Op::Cholesky { .. } | Op::TriangularSolve { .. } => (16.0 * unit, 16.0 * unit),
        _ => (0.0, 0.0),
    }
}

/// Compares with the reference, within [`allowance`]; NaN equals NaN.
fn assert_agrees(name: &str, op: &Op, inputs: &[Array]) {
    let want = evaluate_op(op, inputs).unwrap_or_else(|error| panic!("{name}: the reference says {error}"));
    let got = kernel(op, inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(got.len(), want.len(), "{name}");
    if let Op::Qr | Op::Eigh | Op::Lu = op {
        let found = crate::testing::backward::violation(op, inputs, &want, &got);
        return assert_eq!(found, None, "{name}: {op:?}\ninputs {inputs:?}\ngot {got:?}");
    }
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.ty(), want.ty(), "{name}");
        let (relative, absolute) = allowance(op, inputs, want.ty());
        let close = |g: f64, w: f64, size: f64| {
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= relative * size + absolute
        };
        let same = match want.dtype().kind() {
            Kind::Bool | Kind::Signed | Kind::Unsigned => got.bytes() == want.bytes(),
            Kind::Float => {
                let pairs = got.cast_vec::<f64>().into_iter().zip(want.cast_vec::<f64>());
                pairs.into_iter().all(|(g, w)| close(g, w, w.abs()))
            }
            Kind::Complex => {
                let pairs = got.cast_vec::<Complex64>().into_iter().zip(want.cast_vec::<Complex64>());
                pairs.into_iter().all(|(g, w)| {
                    let size = f64::from(w.re).hypot(w.im.into());
                    close(g.re.into(), w.re.into(), size) && close(g.im.into(), w.im.into(), size)
                })
            }
        };
        assert!(same, "{name}: {op:?}\ninputs {inputs:?}\ngot {got:?}\nwant {want:?}");
    }
}
