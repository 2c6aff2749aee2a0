//! Short spellings for programs of primitives.

use super::*;
use crate::ir::{Axes, BinaryOp, DotDims, NodeId, Precision, Reducer, UnaryOp};
use crate::{Literal, Scalar, Shape};

/// A program being written.
pub(super) struct Build(pub Graph);

impl Build {
    pub fn new() -> Self {
        Self(Graph::new())
    }

    pub fn input(&mut self, dtype: DType, sizes: &[usize]) -> Value {
        self.0.parameter(self.0.main(), Type::new(dtype, sizes))
    }

    pub fn op(&mut self, op: Op, operands: &[Value]) -> Value {
        let main = self.0.main();
        let node: NodeId = self.0.push(main, op, operands).unwrap();
        node.into()
    }

    pub fn sizes(&self, x: Value) -> Vec<usize> {
        self.0.ty(x).shape.sizes().to_vec()
    }

    /// Broadcasts `x`, aligned at the last axis, to the shape of `like`.
    pub fn like(&mut self, x: Value, like: Value) -> Value {
        let (from, to) = (self.sizes(x), self.sizes(like));
        let axes: Axes = (to.len() - from.len()..to.len()).collect();
        if from == to { x } else { self.op(Op::BroadcastInDim { shape: to.as_slice().into(), axes }, &[x]) }
    }

    fn number(&mut self, x: f64, like: Value) -> Value {
        let dtype = self.0.ty(like).dtype;
        let main = self.0.main();
        let constant = self.0.constant(main, Literal::splat(dtype, Shape::scalar(), Scalar::Float(x)));
        self.like(constant, like)
    }

    pub fn binary(&mut self, op: BinaryOp, x: Value, y: Value) -> Value {
        let y = self.like(y, x);
        self.op(Op::Binary(op), &[x, y])
    }

    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.binary(BinaryOp::Add, x, y)
    }

    pub fn sub(&mut self, x: Value, y: Value) -> Value {
        self.binary(BinaryOp::Subtract, x, y)
    }

    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.binary(BinaryOp::Multiply, x, y)
    }

    pub fn div(&mut self, x: Value, y: Value) -> Value {
        self.binary(BinaryOp::Divide, x, y)
    }

    pub fn scale(&mut self, x: Value, factor: f64) -> Value {
        let factor = self.number(factor, x);
        self.mul(x, factor)
    }

    pub fn shift(&mut self, x: Value, term: f64) -> Value {
        let term = self.number(term, x);
        self.add(x, term)
    }

    pub fn unary(&mut self, op: UnaryOp, x: Value) -> Value {
        self.op(Op::Unary(op), &[x])
    }

    /// Reduces the last axis and keeps it as one.
    pub fn last(&mut self, kind: Reducer, x: Value) -> Value {
        let mut sizes = self.sizes(x);
        let axis = sizes.len() - 1;
        let y = self.op(Op::Reduce { kind, axes: [axis][..].into() }, &[x]);
        sizes[axis] = 1;
        self.op(Op::Reshape(sizes.as_slice().into()), &[y])
    }

    /// Sums all axes but the last.
    pub fn columns(&mut self, x: Value) -> Value {
        let rank = self.sizes(x).len();
        self.op(Op::Reduce { kind: Reducer::Sum, axes: (0..rank - 1).collect() }, &[x])
    }

    pub fn mean(&mut self, x: Value) -> Value {
        let n = *self.sizes(x).last().unwrap();
        let sum = self.last(Reducer::Sum, x);
        self.scale(sum, 1.0 / n as f64)
    }

    /// `gelu_tanh` in primitives.
    pub fn gelu(&mut self, x: Value) -> Value {
        let square = self.mul(x, x);
        let cube = self.mul(square, x);
        let cube = self.scale(cube, 0.044715);
        let inner = self.add(x, cube);
        let inner = self.scale(inner, 0.797_884_560_802_865_4);
        let t = self.unary(UnaryOp::Tanh, inner);
        let t = self.shift(t, 1.0);
        let half = self.scale(x, 0.5);
        self.mul(half, t)
    }

    /// `(normalised, reciprocal standard deviation)`.
    pub fn normalise(&mut self, x: Value) -> (Value, Value) {
        let mean = self.mean(x);
        let centred = self.sub(x, mean);
        let square = self.mul(centred, centred);
        let variance = self.mean(square);
        let variance = self.shift(variance, 1e-5);
        let rstd = self.unary(UnaryOp::Rsqrt, variance);
        (self.mul(centred, rstd), rstd)
    }

    pub fn layer_norm(&mut self, x: Value, w: Value, b: Value) -> Value {
        let (x, _) = self.normalise(x);
        let x = self.mul(x, w);
        self.add(x, b)
    }

    pub fn softmax(&mut self, x: Value) -> Value {
        let top = self.last(Reducer::Max, x);
        let x = self.sub(x, top);
        let e = self.unary(UnaryOp::Exp, x);
        let sum = self.last(Reducer::Sum, e);
        self.div(e, sum)
    }

    /// `x [.., m, k] · y [.., k, n]`, leading axes are batch.
    pub fn matmul(&mut self, x: Value, y: Value) -> Value {
        let rank = self.sizes(x).len();
        let batch: Axes = (0..rank - 2).collect();
        let result = self.0.ty(x).dtype;
        let dims = DotDims {
            lhs_batch: batch.clone(),
            rhs_batch: batch,
            lhs_contract: [rank - 1][..].into(),
            rhs_contract: [rank - 2][..].into(),
            precision: Precision::Highest,
            result,
        };
        self.op(Op::DotGeneral(dims.into()), &[x, y])
    }

    pub fn transpose(&mut self, x: Value, permutation: &[usize]) -> Value {
        self.op(Op::Transpose(permutation.into()), &[x])
    }

    pub fn done(mut self, results: &[Value]) -> Graph {
        let main = self.0.main();
        self.0.set_results(main, results.to_vec());
        self.0
    }
}
