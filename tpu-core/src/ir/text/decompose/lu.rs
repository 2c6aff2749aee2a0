//! LU factors with partial pivoting: XLA has a custom call for them on TPU and GPU, none on CPU.
//!
//! One column a round, all matrices of the batch at once: the row of the largest entry in LAPACK's measure
//! `|re| + |im|` is exchanged with the current one, the column below is divided by the pivot, and its product with the
//! pivot's row is taken from what is right of it. A column of zeros is left as it is.

use super::Builder;
use crate::ir::{Axes, BinaryOp, Comparison, Extreme, GatherDims, Op, UnaryOp, Value};
use crate::{DType, Shape};
use smallvec::smallvec;
use std::sync::Arc;

/// Both factors in one matrix, pivots, and the permutation of rows that they amount to.
pub(super) fn lu(build: &mut Builder, x: Value) -> Vec<Value> {
    let shape = build.ty(x).shape;
    let (batch, rows, columns) = parts(&shape);
    let of = |size: usize| batch.iter().copied().chain([size]).collect::<Shape>();
    let steps = rows.min(columns);
    let pivots = build.filled(DType::I32, &of(steps), 0);
    let permutation = build.push(Op::Iota { axis: batch.len(), dtype: DType::I32, shape: of(rows) }, &[]);
    if shape.elements() == Some(0) {
        return vec![x, pivots, permutation];
    }
    let step = build.filled(DType::I32, &Shape::scalar(), 0);
    let more = |build: &mut Builder, values: &[Value]| {
        let end = build.like(values[0], steps as i64);
        build.compare(Comparison::Lt, values[0], end)
    };
    build.repeat(&[step, x, pivots, permutation], more, round)[1..].to_vec()
}

/// Sizes of the batch, rows, columns.
fn parts(shape: &Shape) -> (&[usize], usize, usize) {
    match shape.sizes() {
        [batch @ .., rows, columns] => (batch, *rows, *columns),
        _ => (&[], 0, 0),
    }
}

fn round(build: &mut Builder, values: &[Value]) -> Vec<Value> {
    let &[step, x, pivots, permutation] = values else { return Vec::new() };
    let at = Place::new(build, step, x);
    let pivot = pivot(build, &at, x);
    let spread = build.spread(pivot, &at.rows, &at.batch_axes());
    // Row `step` comes from the pivot's place, the pivot's row from `step`.
    let is_pivot = build.compare(Comparison::Eq, at.row, spread);
    let source = build.select(is_pivot, at.now, at.row);
    let source = build.select(at.is_now, spread, source);
    let x = at.taken(build, x, source);
    let permutation = at.taken(build, permutation, source);
    let column = build.push(Op::Reshape(at.batch.iter().copied().chain([1]).collect()), &[pivot]);
    let mut place: Vec<Value> = vec![pivots, column];
    place.extend(at.starts(&[step]));
    let pivots = build.push(Op::DynamicUpdateSlice, &place);
    let x = eliminated(build, &at, x);
    let one = build.like(step, 1);
    vec![build.binary(BinaryOp::Add, step, one), x, pivots, permutation]
}

/// Where a round is.
struct Place {
    batch: Vec<usize>,
    /// Shape of the matrices.
    all: Shape,
    /// Shape of their columns.
    rows: Shape,
    step: Value,
    zero: Value,
    /// The number of each row, and the current one as often.
    row: Value,
    now: Value,
    is_now: Value,
}

impl Place {
    fn new(build: &mut Builder, step: Value, x: Value) -> Self {
        let all = build.ty(x).shape;
        let (batch, rows, _) = parts(&all);
        let batch = batch.to_vec();
        let rows: Shape = batch.iter().copied().chain([rows]).collect();
        let row = build.push(Op::Iota { axis: batch.len(), dtype: DType::I32, shape: rows.clone() }, &[]);
        let now = build.broadcast(step, &rows);
        let is_now = build.compare(Comparison::Eq, row, now);
        let zero = build.like(step, 0);
        Self { batch, all, rows, step, zero, row, now, is_now }
    }

    fn batch_axes(&self) -> Axes {
        (0..self.batch.len()).collect()
    }

    /// Starts of a slice: at the beginning of the batch, then these.
    fn starts(&self, last: &[Value]) -> Vec<Value> {
        self.batch.iter().map(|_| self.zero).chain(last.iter().copied()).collect()
    }

    /// The entries from `row` and `column` on, as many as `sizes` says, in the shape of what they are.
    fn window(&self, build: &mut Builder, x: Value, start: [Value; 2], sizes: [usize; 2], shape: Shape) -> Value {
        let mut operands = vec![x];
        operands.extend(self.starts(&start));
        let sizes = self.batch.iter().copied().chain(sizes).collect();
        let window = build.push(Op::DynamicSlice { sizes }, &operands);
        build.push(Op::Reshape(shape), &[window])
    }

    /// The current column, from the first row on.
    fn column(&self, build: &mut Builder, x: Value) -> Value {
        let (_, rows, _) = parts(&self.all);
        self.window(build, x, [self.zero, self.step], [rows, 1], self.rows.clone())
    }

    /// The rows, or elements, of these numbers.
    fn taken(&self, build: &mut Builder, x: Value, numbers: Value) -> Value {
        let axis = self.batch.len();
        let rest: Axes = build.ty(x).shape.sizes()[axis + 1..].into();
        let dims = GatherDims {
            offset_dims: (axis + 1..axis + 1 + rest.len()).collect(),
            collapsed_slice_dims: smallvec![axis],
            operand_batching_dims: self.batch_axes(),
            start_indices_batching_dims: self.batch_axes(),
            start_index_map: smallvec![axis],
            index_vector_dim: axis + 1,
            slice_sizes: std::iter::repeat_n(1, axis + 1).chain(rest.iter().copied()).collect(),
            indices_are_sorted: false,
        };
        build.push(Op::Gather(Arc::new(dims)), &[x, numbers])
    }
}

/// The row of the largest entry of the column from the current row on. As in LAPACK a NaN is the largest only in the
/// current row, since it compares as larger than nothing.
fn pivot(build: &mut Builder, at: &Place, x: Value) -> Value {
    let column = at.column(build, x);
    let size = match build.ty(column).dtype.is_complex() {
        true => {
            let [re, im] = [UnaryOp::Real, UnaryOp::Imag].map(|part| {
                let part = build.unary(part, column);
                build.unary(UnaryOp::Abs, part)
            });
            build.binary(BinaryOp::Add, re, im)
        }
        false => build.unary(UnaryOp::Abs, column),
    };
    let (never, always) = (build.like(size, -1), build.like(size, f64::INFINITY));
    let is_nan = build.compare(Comparison::Ne, size, size);
    let of_nan = build.select(at.is_now, always, never);
    let size = build.select(is_nan, of_nan, size);
    let reached = build.compare(Comparison::Ge, at.row, at.now);
    let size = build.select(reached, size, never);
    let found = build.all(Op::ArgReduce { kind: Extreme::Max, axis: at.batch.len() }, &[size]);
    build.convert(found[1], DType::I32)
}

/// The matrix after the elimination of the current column.
fn eliminated(build: &mut Builder, at: &Place, x: Value) -> Value {
    let (axis, (_, _, columns)) = (at.batch.len(), parts(&at.all));
    let column = at.column(build, x);
    let pivot = at.window(build, x, [at.step, at.step], [1, 1], at.batch.iter().copied().collect());
    let pivot = build.spread(pivot, &at.rows, &at.batch_axes());
    let below = build.compare(Comparison::Gt, at.row, at.now);
    let zero = build.like(pivot, 0);
    let divides = build.compare(Comparison::Ne, pivot, zero);
    let changes = build.binary(BinaryOp::And, below, divides);
    let factors = build.binary(BinaryOp::Divide, column, pivot);
    let along_rows: Axes = (0..=axis).collect();
    let factors = build.spread(factors, &at.all, &along_rows);
    let changes = build.spread(changes, &at.all, &along_rows);
    let of_row = at.batch.iter().copied().chain([columns]).collect();
    let row = at.window(build, x, [at.step, at.zero], [1, columns], of_row);
    let along_columns: Axes = (0..axis).chain([axis + 1]).collect();
    let row = build.spread(row, &at.all, &along_columns);
    let product = build.binary(BinaryOp::Multiply, factors, row);
    let less = build.binary(BinaryOp::Subtract, x, product);
    let number = build.push(Op::Iota { axis: axis + 1, dtype: DType::I32, shape: at.all.clone() }, &[]);
    let current = build.broadcast(at.step, &at.all);
    let is_later = build.compare(Comparison::Gt, number, current);
    let is_current = build.compare(Comparison::Eq, number, current);
    let changed = build.select(is_current, factors, x);
    let changed = build.select(is_later, less, changed);
    build.select(changes, changed, x)
}
