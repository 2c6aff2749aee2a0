//! What ops that StableHLO lacks mean in StableHLO.
//!
//! Each is written as a composite `tpu_core.<op>`, whose attributes are the op's and whose decomposition is a program
//! of the ops that StableHLO has. A target may have a kernel for the name; all others inline the decomposition.

use super::philox;
use crate::ir::{BinaryOp, Comparison, CustomCall, Graph, Op, Type, Value, Window};
use crate::{DType, Literal, Scalar, Shape};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The decomposition of `op` on operands of these types, if StableHLO lacks it.
pub(super) fn decompose(op: &Op, operands: &[&Type]) -> Option<Graph> {
    let write: fn(&mut Builder, &Op, &[Value]) -> Vec<Value> = match op {
        Op::Cumulative { .. } => cumulative,
        Op::TopK { .. } => top_k,
        Op::RngBits(_) => rng_bits,
        Op::Cholesky { .. } => cholesky,
        Op::Qr => qr,
        Op::Eigh => eigh,
        Op::Lu => lu,
        _ => return None,
    };
    let mut build = Builder(Graph::new());
    let main = build.0.main();
    let parameters: Vec<Value> = operands.iter().map(|&ty| build.0.parameter(main, ty.clone())).collect();
    let results = write(&mut build, op, &parameters);
    build.0.set_results(main, results);
    Some(build.0)
}

/// Writes a decomposition. Ops and operands are ours and fit each other, which tests check for every op and dtype.
pub(super) struct Builder(Graph);

impl Builder {
    /// The first result of a new node.
    pub(super) fn push(&mut self, op: Op, operands: &[Value]) -> Value {
        self.all(op, operands)[0]
    }

    /// All results of a new node.
    fn all(&mut self, op: Op, operands: &[Value]) -> SmallVec<[Value; 3]> {
        let node = self.0.push(self.0.main(), op, operands).expect("a decomposition fits together");
        (0..self.0[node].types.len() as u32).map(|result| Value { node, result }).collect()
    }

    pub(super) fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        self.push(Op::Binary(op), &[lhs, rhs])
    }

    /// A constant of one number.
    pub(super) fn filled(&mut self, dtype: DType, shape: &Shape, value: impl Into<Scalar>) -> Value {
        self.0.constant(self.0.main(), Literal::splat(dtype, shape, value))
    }

    /// A scalar repeated.
    pub(super) fn broadcast(&mut self, scalar: Value, shape: &Shape) -> Value {
        self.push(Op::BroadcastInDim { shape: shape.clone(), axes: smallvec![] }, &[scalar])
    }

    fn ty(&self, value: Value) -> Type {
        self.0.ty(value).clone()
    }

    /// The first `counts[i]` elements of the last axes.
    fn leading(&mut self, x: Value, counts: &[usize]) -> Value {
        let shape = self.ty(x).shape;
        let rank = shape.rank();
        let mut limit: SmallVec<[usize; 4]> = shape.sizes().into();
        limit[rank - counts.len()..].copy_from_slice(counts);
        self.push(Op::Slice { start: smallvec![0; rank], limit, strides: smallvec![1; rank] }, &[x])
    }

    /// Zeros outside of one triangle of the last two axes.
    fn triangle(&mut self, x: Value, lower: bool) -> Value {
        let Type { dtype, shape } = self.ty(x);
        let rank = shape.rank();
        let [row, column] =
            [rank - 2, rank - 1].map(|axis| self.push(Op::Iota { axis, dtype: DType::I64, shape: shape.clone() }, &[]));
        let direction = if lower { Comparison::Ge } else { Comparison::Le };
        let inside = self.push(Op::Compare(direction), &[row, column]);
        let zero = self.filled(dtype, &shape, 0);
        self.push(Op::Select, &[inside, x, zero])
    }

    fn call(
        &mut self,
        target: &str,
        backend_config: &str,
        operands: &[Value],
        results: Vec<Type>,
    ) -> SmallVec<[Value; 3]> {
        let (target, backend_config) = (target.to_string(), backend_config.to_string());
        let call = CustomCall { target, backend_config, has_side_effect: false, results };
        self.all(Op::CustomCall(Arc::new(call)), operands)
    }
}

/// A window over all elements up to this one.
fn cumulative(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let &Op::Cumulative { kind, axis, reverse } = op else { return Vec::new() };
    let shape = build.ty(operands[0]).shape;
    let rank = shape.rank();
    let mut window = Window {
        sizes: smallvec![1; rank],
        strides: smallvec![1; rank],
        base_dilations: smallvec![1; rank],
        window_dilations: smallvec![1; rank],
        padding: smallvec![(0, 0); rank],
    };
    // A window has at least one element, also when the operand has none.
    let size = shape.size(axis).max(1);
    window.sizes[axis] = size;
    let before = size as i64 - 1;
    window.padding[axis] = if reverse { (0, before) } else { (before, 0) };
    vec![build.push(Op::ReduceWindow { kind, window: Arc::new(window) }, operands)]
}

/// The first elements after a stable sort. `chlo.top_k` orders −0 before +0 and NaN by sign.
fn top_k(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let &Op::TopK { k, largest } = op else { return Vec::new() };
    let shape = build.ty(operands[0]).shape;
    let axis = shape.rank() - 1;
    let indices = build.push(Op::Iota { axis, dtype: DType::I32, shape }, &[]);
    let sorted = build.all(Op::Sort { axis, descending: largest, stable: true }, &[operands[0], indices]);
    sorted.iter().map(|&all| build.leading(all, &[k])).collect()
}

fn rng_bits(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::RngBits(shape) = op else { return Vec::new() };
    vec![philox::rng_bits(build, operands[0], operands[1], shape)]
}

/// StableHLO leaves the other triangle of the result open. Within a decomposition `cholesky` is StableHLO's.
fn cholesky(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let &Op::Cholesky { lower } = op else { return Vec::new() };
    let factor = build.push(op.clone(), operands);
    vec![build.triangle(factor, lower)]
}

/// XLA's `Qr` gives LAPACK's packed form: R above, Householder vectors below the diagonal, their factors beside.
fn qr(build: &mut Builder, _: &Op, operands: &[Value]) -> Vec<Value> {
    let x = build.ty(operands[0]);
    let rank = x.shape.rank();
    let (batch, k) = (&x.shape.sizes()[..rank - 2], x.shape.size(rank - 2).min(x.shape.size(rank - 1)));
    let (rows, columns) = (x.shape.size(rank - 2), x.shape.size(rank - 1));
    let factors = Type { dtype: x.dtype, shape: batch.iter().copied().chain([k]).collect() };
    let packed = build.call("Qr", "", operands, vec![x.clone(), factors]);
    let vectors = build.leading(packed[0], &[rows, k]);
    let vectors_type = build.ty(vectors);
    let q = build.call("ProductOfElementaryHouseholderReflectors", "", &[vectors, packed[1]], vec![vectors_type])[0];
    let upper = build.leading(packed[0], &[k, columns]);
    vec![q, build.triangle(upper, false)]
}

/// XLA's `Eigh` by Jacobi rotations: lower triangle, sorted, at most 100 sweeps, tolerance.
fn eigh(build: &mut Builder, _: &Op, operands: &[Value]) -> Vec<Value> {
    let x = build.ty(operands[0]);
    let sizes = x.shape.sizes();
    let real = if x.dtype == DType::Complex64 { DType::F32 } else { x.dtype };
    let values = Type::new(real, &sizes[..sizes.len() - 1]);
    let tolerance = if x.dtype == DType::F64 { "1,1,100,1e-14" } else { "1,1,100,1e-6" };
    let results = build.call("Eigh", tolerance, operands, vec![x, values]);
    vec![results[1], results[0]]
}

fn lu(build: &mut Builder, _: &Op, operands: &[Value]) -> Vec<Value> {
    let x = build.ty(operands[0]);
    let (&columns, rest) = x.shape.sizes().split_last().unwrap_or((&0, &[]));
    let (&rows, batch) = rest.split_last().unwrap_or((&0, &[]));
    let integers = |size: usize| Type::new(DType::I32, batch.iter().copied().chain([size]).collect::<Shape>());
    let results = vec![x.clone(), integers(rows.min(columns)), integers(rows)];
    build.call("LuDecomposition", "", operands, results).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Extreme, Reducer};
    use crate::reference::{Array, evaluate, evaluate_op};

    /// The results of an op's decomposition.
    fn decomposed(op: &Op, operands: &[Array]) -> Vec<Array> {
        let types: Vec<&Type> = operands.iter().map(Array::ty).collect();
        let graph = decompose(op, &types).expect("an op that StableHLO lacks");
        evaluate(&graph, operands).unwrap().results
    }

    fn word(value: u64) -> Array {
        Array::scalar(DType::U64, value)
    }

    /// The vector `philox4x32 10` of a zero counter and key in Random123's `kat_vectors`.
    #[test]
    fn random_bits_have_the_published_values() {
        let op = Op::RngBits([1, 4].into());
        let bits = decomposed(&op, &[word(0), word(0)]);
        assert_eq!(bits[0].to_vec::<u32>().unwrap(), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }

    #[test]
    fn decompositions_give_what_the_op_gives() {
        let numbers = [3.0f32, -0.0, f32::NAN, 0.0, -2.5, f32::INFINITY, -0.0, f32::NAN, 3.0, 1.0];
        let floats = || Array::new([2, 5], &numbers).unwrap();
        let small: Vec<f32> = (1..=10).map(|i| i as f32).collect();
        let exact = || Array::new([5, 2], &small).unwrap();
        let mut cases = Vec::new();
        for reverse in [false, true] {
            for kind in [Reducer::Sum, Reducer::Max] {
                cases.push((Op::Cumulative { kind, axis: 0, reverse }, vec![exact()]));
            }
        }
        for largest in [false, true] {
            cases.push((Op::TopK { k: 4, largest }, vec![floats()]));
            cases.push((Op::TopK { k: 2, largest }, vec![Array::new([4], &[-3i8, 7, -3, 7]).unwrap()]));
        }
        for (seed, offset) in [(1, 0), (0x1234_5678_9abc_def0, 0xffff_ffff), (u64::MAX, u64::MAX)] {
            cases.push((Op::RngBits([3, 5].into()), vec![word(seed), word(offset)]));
        }
        let positive = Array::new([2, 2], &[4.0f64, 2.0, 2.0, 5.0]).unwrap();
        for lower in [false, true] {
            cases.push((Op::Cholesky { lower }, vec![positive.clone()]));
        }
        for (op, operands) in cases {
            let expected = evaluate_op(&op, &operands).unwrap();
            let got = decomposed(&op, &operands);
            assert_eq!(got, expected, "{op:?}");
        }
    }

    #[test]
    fn ops_that_stablehlo_has_are_not_decomposed() {
        let x = Type::new(DType::F32, [2, 5]);
        assert!(decompose(&Op::ArgReduce { kind: Extreme::Max, axis: 0 }, &[&x]).is_none());
        assert!(decompose(&Op::Reduce { kind: Reducer::Sum, axes: smallvec![0] }, &[&x]).is_none());
    }
}
