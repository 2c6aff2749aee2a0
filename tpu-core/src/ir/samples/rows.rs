//! One row per op, applicable to any dtype.

use crate::ir::{
    Attributes, BinaryOp, BlockId, Comparison, ConvDims, CustomCall, DotDims, Extreme, FftKind, GatherDims, Op,
    Precision, Reducer, ReplicaGroups, ScatterDims, TransposeKind, Type, UnaryOp, Window, support,
};
use crate::{DType, Literal, Shape};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

type Apply = Box<dyn Fn(DType) -> (Vec<Type>, Op)>;

/// An op, ready to be applied to a dtype.
pub struct Row {
    /// StableHLO's name, and the attribute on which the dtypes depend.
    pub name: String,
    apply: Apply,
}

impl Row {
    /// Operand types and the op for data of this dtype, whether or not the op takes it. Block numbers are made up.
    pub fn apply(&self, dtype: DType) -> (Vec<Type>, Op) {
        (self.apply)(dtype)
    }
}

/// One row per op, and per attribute on which the dtypes depend.
pub fn rows() -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    sources(&mut rows);
    elementwise(&mut rows);
    shapes(&mut rows);
    reductions(&mut rows);
    contractions(&mut rows);
    indexing(&mut rows);
    linalg(&mut rows);
    control(&mut rows);
    collectives(&mut rows);
    rows.0
}

struct Rows(Vec<Row>);

impl Rows {
    /// A row of an op without attributes that depend on the dtype, applied to operands of these shapes.
    fn plain(&mut self, op: Op, shapes: &'static [&'static [usize]]) {
        self.of(op.name(), move |dtype| (shapes.iter().map(|&s| Type::new(dtype, s)).collect(), op.clone()));
    }

    fn of(&mut self, name: impl Into<String>, apply: impl Fn(DType) -> (Vec<Type>, Op) + 'static) {
        self.0.push(Row { name: name.into(), apply: Box::new(apply) });
    }
}

fn scalar(dtype: DType) -> Type {
    Type::new(dtype, ())
}

fn sources(rows: &mut Rows) {
    rows.of("parameter", |dtype| {
        let ty = Type::new(dtype, [2, 3]);
        (vec![ty.clone()], Op::Parameter { index: 0, ty })
    });
    rows.of("constant", |dtype| {
        let shape = Shape::from([2, 3]);
        let mut bytes: Vec<u8> = (0..6 * dtype.bits() as usize / 8).map(|i| i as u8).collect();
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte %= 2);
        }
        (vec![], Op::Constant(Arc::new(Literal::from_bytes(dtype, shape, &bytes).expect("as many bytes"))))
    });
    rows.of("iota", |dtype| (vec![], Op::Iota { axis: 1, dtype, shape: Shape::from([2, 3]) }));
    rows.of("rng_bits", |dtype| (vec![scalar(dtype), scalar(dtype)], Op::RngBits(Shape::from([3, 5]))));
}

fn elementwise(rows: &mut Rows) {
    for &op in UnaryOp::ALL {
        rows.plain(Op::Unary(op), &[&[2, 3]]);
    }
    for &op in BinaryOp::ALL {
        rows.plain(Op::Binary(op), &[&[2, 3], &[2, 3]]);
    }
    for &op in Comparison::ALL {
        rows.of(format!("compare {}", op.name()), move |dtype| (vec![Type::new(dtype, [2, 3]); 2], Op::Compare(op)));
    }
    rows.of("select", |dtype| {
        let x = Type::new(dtype, [2, 3]);
        (vec![Type::new(DType::Bool, [2, 3]), x.clone(), x], Op::Select)
    });
    rows.plain(Op::Clamp, &[&[2, 3], &[2, 3], &[2, 3]]);
    rows.plain(Op::Complex, &[&[2, 3], &[2, 3]]);
    for to in DType::ALL {
        rows.of(format!("convert to {to}"), move |dtype| (vec![Type::new(dtype, [2, 3])], Op::Convert(to)));
    }
    rows.of("bitcast_convert", |dtype| {
        // To the unsigned integer of half the width: one more axis.
        let to = match dtype.bits() {
            8 => DType::U8,
            16 => DType::U8,
            32 => DType::U16,
            _ => DType::U32,
        };
        (vec![Type::new(dtype, [2, 3])], Op::BitcastConvert(to))
    });
    rows.plain(Op::ReducePrecision { exponent_bits: 5, mantissa_bits: 7 }, &[&[2, 3]]);
}

fn shapes(rows: &mut Rows) {
    rows.plain(Op::BroadcastInDim { shape: [3, 4, 2].into(), axes: smallvec![2, 0] }, &[&[2, 1]]);
    rows.plain(Op::Reshape([3, 2, 1].into()), &[&[2, 3]]);
    rows.plain(Op::Transpose(smallvec![2, 0, 1]), &[&[2, 3, 4]]);
    let slice = Op::Slice { start: smallvec![1, 0], limit: smallvec![4, 5], strides: smallvec![1, 2] };
    rows.plain(slice, &[&[4, 5]]);
    rows.of("dynamic_slice", |dtype| {
        let types = vec![Type::new(dtype, [4, 5]), scalar(DType::I32), scalar(DType::I32)];
        (types, Op::DynamicSlice { sizes: smallvec![2, 3] })
    });
    rows.of("dynamic_update_slice", |dtype| {
        let data = [Type::new(dtype, [4, 5]), Type::new(dtype, [2, 3])];
        (data.into_iter().chain([scalar(DType::I64), scalar(DType::I64)]).collect(), Op::DynamicUpdateSlice)
    });
    let pad = Op::Pad { low: smallvec![1, -1], high: smallvec![0, 2], interior: smallvec![0, 2] };
    rows.plain(pad, &[&[2, 3], &[]]);
    rows.plain(Op::Concatenate { axis: 1 }, &[&[2, 3], &[2, 1], &[2, 0]]);
    rows.plain(Op::Reverse(smallvec![1]), &[&[2, 3]]);
}

/// A window of 2 x 3 over a matrix, with everything that a window can have.
fn window() -> Arc<Window> {
    Arc::new(Window {
        sizes: smallvec![2, 3],
        strides: smallvec![1, 2],
        base_dilations: smallvec![1, 2],
        window_dilations: smallvec![2, 1],
        padding: smallvec![(1, 0), (-1, 2)],
    })
}

fn reductions(rows: &mut Rows) {
    for &kind in Reducer::ALL {
        let named = |op: &Op| format!("{} {}", op.name(), kind.name());
        let ops = [
            Op::Reduce { kind, axes: smallvec![0, 2] },
            Op::ReduceWindow { kind, window: window() },
            Op::Cumulative { kind, axis: 1, reverse: false },
        ];
        for op in ops {
            let sizes: &[usize] = if matches!(op, Op::Reduce { .. }) { &[2, 3, 4] } else { &[4, 6] };
            rows.of(named(&op), move |dtype| (vec![Type::new(dtype, sizes)], op.clone()));
        }
    }
    rows.plain(Op::ArgReduce { kind: Extreme::Max, axis: 1 }, &[&[2, 5]]);
    let pooling = Window {
        sizes: smallvec![1, 2, 2, 1],
        strides: smallvec![1, 2, 2, 1],
        base_dilations: smallvec![1; 4],
        window_dilations: smallvec![1; 4],
        padding: smallvec![(0, 0), (0, 0), (1, 1), (0, 0)],
    };
    let op = Op::SelectAndScatter { select: Extreme::Max, window: Arc::new(pooling) };
    rows.plain(op, &[&[1, 4, 4, 2], &[1, 2, 3, 2]]);
}

/// The dtype itself where a contraction may give it, else f32.
fn accumulator(dtype: DType) -> DType {
    if support::widens(dtype, dtype) { dtype } else { DType::F32 }
}

pub(super) fn batched_dot(result: DType, precision: Precision) -> Op {
    Op::DotGeneral(Arc::new(DotDims {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![0],
        lhs_contract: smallvec![2],
        rhs_contract: smallvec![1],
        precision,
        result,
    }))
}

/// A two-dimensional convolution of NHWC input with an HWIO kernel.
pub(super) fn conv2d(result: DType) -> ConvDims {
    ConvDims {
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: smallvec![1, 2],
        strides: smallvec![1, 2],
        padding: smallvec![(1, 1), (0, 2)],
        input_dilation: smallvec![1, 1],
        kernel_dilation: smallvec![1, 1],
        reversal: smallvec![false, false],
        feature_groups: 1,
        batch_groups: 1,
        precision: Precision::Highest,
        result,
    }
}

fn contractions(rows: &mut Rows) {
    rows.of("dot_general", |dtype| {
        let types = vec![Type::new(dtype, [2, 3, 4]), Type::new(dtype, [2, 4, 5])];
        (types, batched_dot(accumulator(dtype), Precision::Highest))
    });
    rows.of("convolution", |dtype| {
        let types = vec![Type::new(dtype, [2, 5, 6, 3]), Type::new(dtype, [3, 3, 3, 4])];
        (types, Op::Convolution(Arc::new(conv2d(accumulator(dtype)))))
    });
}

/// Rows of a table of 5 x 3 by a vector of four numbers, as in an embedding.
pub(super) fn row_gather() -> GatherDims {
    GatherDims {
        offset_dims: smallvec![1],
        collapsed_slice_dims: smallvec![0],
        operand_batching_dims: smallvec![],
        start_indices_batching_dims: smallvec![],
        start_index_map: smallvec![0],
        index_vector_dim: 1,
        slice_sizes: smallvec![1, 3],
        indices_are_sorted: false,
    }
}

/// The transpose of [`row_gather`].
pub(crate) fn row_scatter(combiner: Option<Reducer>) -> ScatterDims {
    ScatterDims {
        update_window_dims: smallvec![1],
        inserted_window_dims: smallvec![0],
        input_batching_dims: smallvec![],
        scatter_indices_batching_dims: smallvec![],
        scatter_dims_to_operand_dims: smallvec![0],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
        combiner,
    }
}

fn indexing(rows: &mut Rows) {
    rows.of("gather", |dtype| {
        (vec![Type::new(dtype, [5, 3]), Type::new(DType::I64, [4])], Op::Gather(Arc::new(row_gather())))
    });
    for combiner in [None].into_iter().chain(Reducer::ALL.iter().copied().map(Some)) {
        let name = combiner.map_or("overwriting", Reducer::name);
        rows.of(format!("scatter {name}"), move |dtype| {
            let types = vec![Type::new(dtype, [5, 3]), Type::new(DType::I32, [4]), Type::new(dtype, [4, 3])];
            (types, Op::Scatter(Arc::new(row_scatter(combiner))))
        });
    }
    rows.plain(Op::Sort { axis: 1, descending: false, stable: true }, &[&[2, 5]]);
    rows.plain(Op::TopK { k: 2, largest: true }, &[&[2, 5]]);
}

fn linalg(rows: &mut Rows) {
    for &kind in FftKind::ALL {
        let last = if kind == FftKind::Irfft { 5 } else { 8 };
        rows.of(format!("fft {}", kind.name()), move |dtype| {
            (vec![Type::new(dtype, [2, 4, last])], Op::Fft { kind, lengths: smallvec![4, 8] })
        });
    }
    rows.plain(Op::Cholesky { lower: true }, &[&[2, 3, 3]]);
    let transpose = TransposeKind::None;
    let solve = Op::TriangularSolve { left: true, lower: true, unit_diagonal: false, transpose };
    rows.plain(solve, &[&[2, 3, 3], &[2, 3, 4]]);
    rows.plain(Op::Qr, &[&[2, 4, 3]]);
    rows.plain(Op::Eigh, &[&[2, 3, 3]]);
    rows.plain(Op::Lu, &[&[2, 4, 3]]);
}

fn control(rows: &mut Rows) {
    // `program` makes the blocks.
    let block = BlockId(0);
    rows.of("while", move |dtype| {
        (vec![Type::new(dtype, [2, 3]), scalar(DType::I32)], Op::While { cond: block, body: block })
    });
    rows.of("case", move |dtype| {
        let types = vec![scalar(DType::I32), Type::new(dtype, [2, 3]), scalar(dtype)];
        (types, Op::Case { branches: smallvec![block, block] })
    });
    rows.of("composite", move |dtype| {
        let op = Op::Composite { name: "tpu.sample".into(), attributes: Arc::new(Attributes::default()), body: block };
        (vec![Type::new(dtype, [2, 3])], op)
    });
    rows.of("custom_call", |dtype| {
        let ty = Type::new(dtype, [2, 3]);
        let call = CustomCall {
            target: "sample".into(),
            backend_config: String::new(),
            has_side_effect: false,
            results: vec![ty.clone()],
        };
        (vec![ty], Op::CustomCall(Arc::new(call)))
    });
    rows.plain(Op::OptimizationBarrier, &[&[2, 3], &[]]);
}

/// Two pairs of four devices.
pub(super) fn pairs_of_four(channel: u64) -> Arc<ReplicaGroups> {
    let group = |a, b| SmallVec::from_slice(&[a, b]);
    Arc::new(ReplicaGroups { groups: vec![group(0, 1), group(2, 3)], channel })
}

fn collectives(rows: &mut Rows) {
    let groups = pairs_of_four(0);
    for &kind in Reducer::ALL {
        let ops = [
            Op::AllReduce { kind, groups: groups.clone() },
            Op::ReduceScatter { kind, axis: 0, groups: groups.clone() },
        ];
        for op in ops {
            rows.of(format!("{} {}", op.name(), kind.name()), move |dtype| {
                (vec![Type::new(dtype, [4, 3])], op.clone())
            });
        }
    }
    rows.plain(Op::AllGather { axis: 1, groups: groups.clone() }, &[&[2, 3]]);
    rows.plain(Op::AllToAll { split_axis: 0, concat_axis: 1, groups }, &[&[4, 3]]);
    rows.plain(Op::CollectivePermute { pairs: Arc::new([(0, 1), (1, 0), (2, 3)]), channel: 0 }, &[&[2, 3]]);
    rows.of("replica_id", |_| (vec![], Op::ReplicaId));
    rows.of("partition_id", |_| (vec![], Op::PartitionId));
}
