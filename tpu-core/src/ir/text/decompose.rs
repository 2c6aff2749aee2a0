//! What ops mean in StableHLO that StableHLO lacks, or that its compilers compute otherwise.
//!
//! Each is written as a composite `tpu_core.<op>`, whose attributes are the op's and whose decomposition is a program
//! of the ops that StableHLO has. A target may have a kernel for the name; all others inline the decomposition. Within
//! one, every op is StableHLO's.

mod convert;
mod dot;
mod lu;
mod padding;
mod philox;
mod power;

use crate::ir::infer::infer;
use crate::ir::{
    BinaryOp, BlockId, Comparison, CustomCall, Graph, Op, Reducer, ReplicaGroups, ScatterDims, Type, UnaryOp, Value,
    Window,
};
use crate::{DType, Literal, Scalar, Shape};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// The decomposition of `op` on operands of these types, unless StableHLO has the op as it is.
pub(super) fn decompose(op: &Op, operands: &[&Type]) -> Option<Graph> {
    use DType::{BF16, F16};
    let dtype = operands.first().map(|ty| ty.dtype);
    let narrow = matches!(dtype, Some(F16 | BF16));
    let adds = |kind: &Reducer| matches!(kind, Reducer::Sum | Reducer::Product);
    let write: fn(&mut Builder, &Op, &[Value]) -> Vec<Value> = match op {
        Op::Cumulative { .. } => cumulative,
        Op::TopK { .. } => top_k,
        Op::RngBits(_) => rng_bits,
        Op::Cholesky { .. } => cholesky,
        Op::Qr => qr,
        Op::Eigh => eigh,
        Op::Lu => |build, _, operands| lu::lu(build, operands[0]),
        Op::Convert(to) if convert::differs(dtype?, *to) => |build, op, operands| match op {
            Op::Convert(to) => vec![convert::convert(build, operands[0], *to)],
            _ => Vec::new(),
        },
        Op::Binary(BinaryOp::Power) if !dtype?.is_differentiable() => {
            |build, _, operands| vec![power::integer(build, operands[0], operands[1])]
        }
        Op::Binary(BinaryOp::Power) if dtype?.is_complex() => {
            |build, _, operands| vec![power::complex(build, operands[0], operands[1])]
        }
        Op::Clamp if dtype? == DType::Bool => clamp_bool,
        Op::DotGeneral(dims) if matches!(dims.result, DType::I64 | DType::U64) => |build, op, operands| match op {
            Op::DotGeneral(dims) => vec![dot::of_64_bits(build, op, dims, operands)],
            _ => Vec::new(),
        },
        Op::Unary(op) if narrow && is_function(*op) => in_f32,
        Op::Unary(UnaryOp::Sin) if dtype?.is_complex() => |build, _, operands| vec![complex_sine(build, operands[0])],
        Op::Unary(UnaryOp::Sqrt) if dtype?.is_complex() => {
            |build, op, operands| vec![complex_sqrt(build, op, operands[0])]
        }
        Op::Binary(BinaryOp::Power | BinaryOp::Atan2) if narrow => in_f32,
        Op::Reduce { axes, .. } if axes.iter().all(|&axis| operands[0].shape.size(axis) == 1) => reshaped,
        // XLA ends the process for some of these with negative padding.
        Op::ReduceWindow { window, .. } if window.sizes.iter().all(|&size| size == 1) => padding::windows_of_one,
        Op::Reduce { kind, .. } | Op::ReduceWindow { kind, .. } if narrow && adds(kind) => in_f32,
        Op::Scatter(_) if operands[0].shape.rank() == 0 => scatter_scalar,
        Op::Scatter(dims)
            if dims.scatter_dims_to_operand_dims.is_empty()
                && dims.input_batching_dims.len() < operands[0].shape.rank() =>
        {
            scatter_at_zero
        }
        Op::AllReduce { .. }
        | Op::AllGather { .. }
        | Op::ReduceScatter { .. }
        | Op::AllToAll { .. }
        | Op::CollectivePermute { .. }
            if operands[0].shape.elements() == Some(0) =>
        {
            nothing
        }
        Op::AllReduce { kind, .. } | Op::ReduceScatter { kind, .. } if !is_reduced_between_devices(*kind, dtype?) => {
            gathered
        }
        Op::AllToAll { groups, .. } if groups.channel != 0 => without_channel,
        Op::CollectivePermute { channel: 1.., .. } => without_channel,
        Op::Convolution(_) if !dtype?.is_differentiable() => unfolded,
        Op::Convolution(dims) if dims.padding.iter().any(|&(low, high)| low < 0 && high > 0) => padding::cut_before,
        // XLA ends the process for a scalar's.
        Op::SelectAndScatter { .. } if operands[0].shape.rank() == 0 => |_, _, operands| vec![operands[1]],
        _ => return None,
    };
    let mut build = Builder::new();
    let main = build.block;
    let parameters: Vec<Value> = operands.iter().map(|&ty| build.graph.parameter(main, ty.clone())).collect();
    let results = write(&mut build, op, &parameters);
    build.graph.set_results(main, results);
    Some(build.graph)
}

/// Writes a decomposition. Ops and operands are ours and fit each other, which tests check for every op and dtype.
struct Builder {
    graph: Graph,
    /// Where nodes go.
    block: BlockId,
}

impl Builder {
    fn new() -> Self {
        let graph = Graph::new();
        Self { block: graph.main(), graph }
    }

    /// The first result of a new node.
    fn push(&mut self, op: Op, operands: &[Value]) -> Value {
        self.all(op, operands)[0]
    }

    /// All results of a new node.
    fn all(&mut self, op: Op, operands: &[Value]) -> SmallVec<[Value; 4]> {
        let node = self.graph.push(self.block, op, operands).expect("a decomposition fits together");
        (0..self.graph[node].types.len() as u32).map(|result| Value { node, result }).collect()
    }

    fn unary(&mut self, op: UnaryOp, x: Value) -> Value {
        self.push(Op::Unary(op), &[x])
    }

    fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Value {
        self.push(Op::Binary(op), &[lhs, rhs])
    }

    fn compare(&mut self, op: Comparison, lhs: Value, rhs: Value) -> Value {
        self.push(Op::Compare(op), &[lhs, rhs])
    }

    fn select(&mut self, predicate: Value, on_true: Value, on_false: Value) -> Value {
        self.push(Op::Select, &[predicate, on_true, on_false])
    }

    fn convert(&mut self, x: Value, to: DType) -> Value {
        if self.ty(x).dtype == to { x } else { self.push(Op::Convert(to), &[x]) }
    }

    /// A constant of one number.
    fn filled(&mut self, dtype: DType, shape: &Shape, value: impl Into<Scalar>) -> Value {
        self.graph.constant(self.block, Literal::splat(dtype, shape, value))
    }

    /// A constant of one number, of the type of `x`.
    fn like(&mut self, x: Value, value: impl Into<Scalar>) -> Value {
        let Type { dtype, shape } = self.ty(x);
        self.filled(dtype, &shape, value)
    }

    /// A scalar repeated.
    fn broadcast(&mut self, scalar: Value, shape: &Shape) -> Value {
        self.spread(scalar, shape, &[])
    }

    /// `x` repeated along the axes of `shape` that are not in `axes`.
    fn spread(&mut self, x: Value, shape: &Shape, axes: &[usize]) -> Value {
        self.push(Op::BroadcastInDim { shape: shape.clone(), axes: axes.into() }, &[x])
    }

    fn ty(&self, value: Value) -> Type {
        self.graph.ty(value).clone()
    }

    /// The values after the last round of a loop.
    fn repeat(
        &mut self,
        initial: &[Value],
        cond: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> SmallVec<[Value; 4]> {
        let types: Vec<Type> = initial.iter().map(|&value| self.ty(value)).collect();
        let cond = self.inner(&types, |build, values| vec![cond(build, values)]);
        let body = self.inner(&types, body);
        self.all(Op::While { cond, body }, initial)
    }

    /// A block of its own.
    fn inner(&mut self, types: &[Type], write: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>) -> BlockId {
        let block = self.graph.block();
        let outer = std::mem::replace(&mut self.block, block);
        let parameters: Vec<Value> = types.iter().map(|ty| self.graph.parameter(block, ty.clone())).collect();
        let results = write(self, &parameters);
        self.graph.set_results(block, results);
        self.block = outer;
        block
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
        let inside = self.compare(if lower { Comparison::Ge } else { Comparison::Le }, row, column);
        let zero = self.filled(dtype, &shape, 0);
        self.select(inside, x, zero)
    }

    /// `x` with 0 in place of −0.
    fn without_negative_zeros(&mut self, x: Value) -> Value {
        let dtype = self.ty(x).dtype;
        if dtype.is_complex() {
            let parts = [UnaryOp::Real, UnaryOp::Imag].map(|part| {
                let part = self.unary(part, x);
                self.without_negative_zeros(part)
            });
            return self.push(Op::Complex, &parts);
        }
        if !dtype.is_differentiable() {
            return x;
        }
        let zero = self.like(x, 0);
        let is_zero = self.compare(Comparison::Eq, x, zero);
        self.select(is_zero, zero, x)
    }

    /// `x` where the flag of its matrix is true, NaN elsewhere.
    fn or_nan(&mut self, flags: Value, x: Value) -> Value {
        let axes: SmallVec<[usize; 4]> = (0..self.ty(flags).shape.rank()).collect();
        let Type { dtype, shape } = self.ty(x);
        let flags = self.spread(flags, &shape, &axes);
        let nan = self.filled(dtype, &shape, f64::NAN);
        self.select(flags, x, nan)
    }

    fn call(
        &mut self,
        target: &str,
        backend_config: &str,
        operands: &[Value],
        results: Vec<Type>,
    ) -> SmallVec<[Value; 4]> {
        let (target, backend_config) = (target.to_string(), backend_config.to_string());
        let call = CustomCall { target, backend_config, has_side_effect: false, results };
        self.all(Op::CustomCall(Arc::new(call)), operands)
    }
}

/// Whether more than one rounding makes a result.
fn is_function(op: UnaryOp) -> bool {
    use UnaryOp::{Cbrt, Cos, Erf, ErfInv, Exp, Expm1, Log, Log1p, Logistic, Rsqrt, Sin, Tan, Tanh};
    matches!(op, Exp | Expm1 | Log | Log1p | Logistic | Tanh | Sin | Cos | Tan | Rsqrt | Cbrt | Erf | ErfInv)
}

/// Functions, sums and products of 16-bit floats in `f32`, rounded once. A compiler may round at each step.
fn in_f32(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let wide: Vec<Value> = operands.iter().map(|&x| build.convert(x, DType::F32)).collect();
    let result = build.push(op.clone(), &wide);
    vec![build.convert(result, build.ty(operands[0]).dtype)]
}

/// XLA for TPU has no clamp of truth values.
fn clamp_bool(build: &mut Builder, _: &Op, operands: &[Value]) -> Vec<Value> {
    let raised = build.binary(BinaryOp::Or, operands[1], operands[0]);
    vec![build.binary(BinaryOp::And, raised, operands[2])]
}

/// Every update has the scalar's place. XLA makes an invalid program of it.
fn scatter_scalar(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::Scatter(dims) = op else { return Vec::new() };
    let count = build.ty(operands[2]).shape.elements().unwrap_or(0);
    let all = [(operands[0], 1), (operands[2], count)].map(|(x, n)| build.push(Op::Reshape([n].into()), &[x]));
    let all = build.push(Op::Concatenate { axis: 0 }, &all);
    vec![match dims.combiner {
        Some(kind) => build.push(Op::Reduce { kind, axes: smallvec![0] }, &[all]),
        None => {
            let last = Op::Slice { start: smallvec![count], limit: smallvec![count + 1], strides: smallvec![1] };
            let last = build.push(last, &[all]);
            build.push(Op::Reshape(Shape::scalar()), &[last])
        }
    }]
}

/// Every update at the same place, which no index says: one says 0 here. XLA forgets all updates but one otherwise.
fn scatter_at_zero(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::Scatter(dims) = op else { return Vec::new() };
    let Type { dtype, shape } = build.ty(operands[1]);
    let sizes = shape.sizes().iter().enumerate();
    let shape: Shape = sizes.map(|(axis, &size)| if axis == dims.index_vector_dim { 1 } else { size }).collect();
    let zeros = build.filled(dtype, &shape, 0);
    let rank = build.ty(operands[0]).shape.rank();
    let axis = (0..rank).find(|axis| !dims.input_batching_dims.contains(axis)).unwrap_or(0);
    let dims = ScatterDims { scatter_dims_to_operand_dims: smallvec![axis], ..ScatterDims::clone(dims) };
    vec![build.push(Op::Scatter(Arc::new(dims)), &[operands[0], zeros, operands[2]])]
}

/// Whether XLA for CPU has the reduction between devices, and NaN is the largest and the smallest in it as everywhere.
fn is_reduced_between_devices(kind: Reducer, dtype: DType) -> bool {
    match kind {
        Reducer::Sum | Reducer::Product => true,
        Reducer::Max | Reducer::Min => !dtype.is_float(),
        Reducer::And | Reducer::Or => dtype == DType::Bool,
        Reducer::Xor => false,
    }
}

/// The operands of the group, or the parts of them that are this device's, above each other and reduced.
fn gathered(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let sizes = build.ty(operands[0]).shape;
    let one: Shape = [1].into_iter().chain(sizes.sizes().iter().copied()).collect();
    let x = build.push(Op::Reshape(one), operands);
    let (kind, all) = match op {
        Op::AllReduce { kind, groups } => (*kind, Op::AllGather { axis: 0, groups: groups.clone() }),
        Op::ReduceScatter { kind, axis, groups } => {
            let groups = ReplicaGroups { channel: 0, ..ReplicaGroups::clone(groups) };
            (*kind, Op::AllToAll { split_axis: axis + 1, concat_axis: 0, groups: Arc::new(groups) })
        }
        _ => return Vec::new(),
    };
    let all = build.push(all, &[x]);
    vec![build.push(Op::Reduce { kind, axes: smallvec![0] }, &[all])]
}

/// Nothing, which StableHLO refuses to gather and to scatter, in the shape that the op gives it.
fn nothing(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let ty = build.ty(operands[0]);
    let types = infer(op, &[&ty], &build.graph).expect("an op that was recorded");
    vec![build.push(Op::Reshape(types[0].shape.clone()), operands)]
}

/// XLA computes a convolution of constants itself and has integers end at the largest of the type, where they wrap in
/// the program: constants behind a barrier are none.
fn unfolded(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let operands = build.all(Op::OptimizationBarrier, operands);
    vec![build.push(op.clone(), &operands)]
}

/// On a channel these ops speak of partitions in StableHLO, of which a program of ours has one; the devices are replicas.
fn without_channel(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let mut op = op.clone();
    match &mut op {
        Op::AllToAll { groups, .. } => Arc::make_mut(groups).channel = 0,
        Op::CollectivePermute { channel, .. } => *channel = 0,
        _ => {}
    }
    vec![build.push(op, operands)]
}

/// `sin a cosh b + i cos a sinh b`. XLA takes `sinh b` for half of `eᵇ − e⁻ᵇ`, in which a small `b` is lost: this takes
/// `(m + m / (m + 1)) / 2` with `m = eᵇ − 1` for it.
fn complex_sine(build: &mut Builder, x: Value) -> Value {
    let [a, b] = [UnaryOp::Real, UnaryOp::Imag].map(|part| build.unary(part, x));
    let (half, one) = (build.like(b, 0.5), build.like(b, 1));
    let minus_b = build.unary(UnaryOp::Neg, b);
    let [up, down] = [b, minus_b].map(|x| build.unary(UnaryOp::Exp, x));
    let [sum, difference] = [BinaryOp::Add, BinaryOp::Subtract].map(|op| build.binary(op, up, down));
    let less = build.unary(UnaryOp::Expm1, b);
    let more = build.binary(BinaryOp::Add, less, one);
    let quotient = build.binary(BinaryOp::Divide, less, more);
    let near = build.binary(BinaryOp::Add, less, quotient);
    let size = build.unary(UnaryOp::Abs, b);
    let is_near = build.compare(Comparison::Lt, size, one);
    let difference = build.select(is_near, near, difference);
    let parts = [(UnaryOp::Sin, sum), (UnaryOp::Cos, difference)].map(|(op, twice)| {
        let (factor, hyperbolic) = (build.unary(op, a), build.binary(BinaryOp::Multiply, twice, half));
        build.binary(BinaryOp::Multiply, factor, hyperbolic)
    });
    build.push(Op::Complex, &parts)
}

/// The root whose imaginary part has the sign of the operand's, also where that is a zero: XLA takes −0 for 0, so numbers
/// just below the negative axis would have the roots of those above it.
fn complex_sqrt(build: &mut Builder, op: &Op, x: Value) -> Value {
    let root = build.push(op.clone(), &[x]);
    let [re, im] = [UnaryOp::Real, UnaryOp::Imag].map(|part| build.unary(part, root));
    let sign = build.unary(UnaryOp::Imag, x);
    let sign = build.push(Op::BitcastConvert(DType::I32), &[sign]);
    let zero = build.like(sign, 0);
    let below = build.compare(Comparison::Lt, sign, zero);
    let size = build.unary(UnaryOp::Abs, im);
    let minus = build.unary(UnaryOp::Neg, size);
    let im = build.select(below, minus, size);
    build.push(Op::Complex, &[re, im])
}

/// A reduction over one element is that element, also where combining it with the identity would change it: a complex
/// product of one and NaN is NaN in both parts. A sum starts from 0, so that of −0 alone is 0; XLA takes `x + 0` for `x`.
fn reshaped(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let Op::Reduce { kind, axes } = op else { return Vec::new() };
    let shape = build.ty(operands[0]).shape;
    let kept = shape.sizes().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let shape: Shape = kept.map(|(_, &size)| size).collect();
    let x = build.push(Op::Reshape(shape), operands);
    vec![if *kind == Reducer::Sum { build.without_negative_zeros(x) } else { x }]
}

/// A window over all elements up to this one.
fn cumulative(build: &mut Builder, op: &Op, operands: &[Value]) -> Vec<Value> {
    let &Op::Cumulative { kind, axis, reverse } = op else { return Vec::new() };
    let Type { dtype, shape } = build.ty(operands[0]);
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
    let windows = Op::ReduceWindow { kind, window: Arc::new(window) };
    match (dtype, kind) {
        // A window of one element is no sum to XLA.
        (_, Reducer::Sum) if shape.size(axis) == 1 => vec![build.without_negative_zeros(operands[0])],
        (DType::F16 | DType::BF16, Reducer::Sum | Reducer::Product) => in_f32(build, &windows, operands),
        _ => vec![build.push(windows, operands)],
    }
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
    let x = if build.ty(operands[0]).dtype.is_complex() { real_diagonal(build, operands[0]) } else { operands[0] };
    let factor = build.push(op.clone(), &[x]);
    vec![build.triangle(factor, lower)]
}

/// Imaginary parts of the diagonal, which LAPACK does not read and XLA does, are zero.
fn real_diagonal(build: &mut Builder, x: Value) -> Value {
    let [re, im] = [UnaryOp::Real, UnaryOp::Imag].map(|part| build.unary(part, x));
    let shape = build.ty(x).shape;
    let rank = shape.rank();
    let [row, column] =
        [rank - 2, rank - 1].map(|axis| build.push(Op::Iota { axis, dtype: DType::I64, shape: shape.clone() }, &[]));
    let diagonal = build.compare(Comparison::Eq, row, column);
    let zero = build.like(im, 0);
    let im = build.select(diagonal, zero, im);
    build.push(Op::Complex, &[re, im])
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
    let finite = triangle_is_finite(build, operands[0]);
    vec![build.or_nan(finite, results[1]), build.or_nan(finite, results[0])]
}

/// Whether all is finite that `Eigh` reads of each matrix: with a NaN its rotations end at once, and would leave the diagonal
/// as eigenvalues.
fn triangle_is_finite(build: &mut Builder, x: Value) -> Value {
    let rank = build.ty(x).shape.rank();
    let read = build.triangle(x, true);
    let finite = if build.ty(x).dtype.is_complex() {
        let [re, im] = [UnaryOp::Real, UnaryOp::Imag].map(|part| build.unary(part, read));
        let [re, im] = [re, im].map(|part| build.unary(UnaryOp::IsFinite, part));
        build.binary(BinaryOp::And, re, im)
    } else {
        build.unary(UnaryOp::IsFinite, read)
    };
    build.push(Op::Reduce { kind: Reducer::And, axes: smallvec![rank - 2, rank - 1] }, &[finite])
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
        let bools = |bits: usize| Array::new([8], &[0, 1, 2, 3, 4, 5, 6, 7].map(|i| bits >> i & 1 == 1)).unwrap();
        cases.push((Op::Clamp, [0b1111_0000, 0b1100_1100, 0b1010_1010].map(bools).to_vec()));
        let positive = Array::new([2, 2], &[4.0f64, 2.0, 2.0, 5.0]).unwrap();
        for lower in [false, true] {
            cases.push((Op::Cholesky { lower }, vec![positive.clone()]));
        }
        for base in [-3i8, -1, 0, 1, 2, 3, i8::MIN] {
            let exponents: Vec<i8> = (0..=u8::MAX).map(|bits| bits as i8).collect();
            let bases = Array::new([256], &[base; 256]).unwrap();
            cases.push((Op::Binary(BinaryOp::Power), vec![bases, Array::new([256], &exponents).unwrap()]));
        }
        let wide: Vec<u64> = (0..64).map(|i| u64::MAX >> i).collect();
        let wide = Array::new([64], &wide).unwrap();
        cases.push((Op::Binary(BinaryOp::Power), vec![wide.clone(), wide]));
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
