//! Rules of operations whose indices are data.

use super::{AxisSet, Types, axis_set, exactly, increasing, is_integer, per_axis, same_dtype, single, takes};
use crate::ir::{GatherDims, Op, ScatterDims, Type};
use crate::{Error, ErrorKind, Result, Shape, ensure};

pub(super) fn dynamic_slice(op: &Op, operands: &[&Type], sizes: &[usize]) -> Result<Types> {
    let Some((x, start)) = operands.split_first() else {
        return Err(Error::new(ErrorKind::Value, op.name(), "requires an operand and its start indices, got none"));
    };
    start_indices(op, x, start)?;
    per_axis(op, "window sizes", sizes, x.shape.rank())?;
    for (axis, (&window, &size)) in sizes.iter().zip(x.shape.sizes()).enumerate() {
        ensure!(
            window <= size,
            Shape,
            op.name(),
            "requires window sizes of at most those of the operand, got {window} along axis {axis} of {x}"
        );
    }
    single(Type { dtype: x.dtype, shape: sizes.into() })
}

pub(super) fn dynamic_update_slice(op: &Op, operands: &[&Type]) -> Result<Types> {
    let [x, update, start @ ..] = operands else {
        let message = format!("requires an operand, an update and start indices, got {} operands", operands.len());
        return Err(Error::new(ErrorKind::Value, op.name(), message));
    };
    start_indices(op, x, start)?;
    same_dtype(op, ("operand", x), ("update", update))?;
    let (outer, inner) = (x.shape.sizes(), update.shape.sizes());
    ensure!(
        outer.len() == inner.len() && inner.iter().zip(outer).all(|(u, x)| u <= x),
        Shape,
        op.name(),
        "requires an update of the operand's rank and of at most its sizes, got operand {x} and update {update}"
    );
    single((*x).clone())
}

/// That there is one scalar integer per axis, all of one dtype.
fn start_indices(op: &Op, x: &Type, start: &[&Type]) -> Result<()> {
    let (rank, count) = (x.shape.rank(), start.len());
    ensure!(count == rank, Value, op.name(), "requires {rank} start indices for operand {x}, got {count}");
    for (axis, ty) in start.iter().enumerate() {
        ensure!(
            ty.shape.rank() == 0 && ty.dtype.is_integer(),
            DType,
            op.name(),
            "requires scalar integers as start indices, got {ty} for axis {axis}"
        );
        ensure!(
            ty.dtype == start[0].dtype,
            DType,
            op.name(),
            "requires start indices of one dtype, got {} and {ty}",
            start[0]
        );
    }
    Ok(())
}

/// Sizes of the axes of `indices` that number the index vectors, and the length of a vector.
fn index_batch(op: &Op, indices: &Type, vector_axis: usize) -> Result<(Vec<usize>, usize)> {
    let sizes = indices.shape.sizes();
    ensure!(
        vector_axis <= sizes.len(),
        Axis,
        op.name(),
        "requires index_vector_dim of at most the rank {} of indices {indices}, got {vector_axis}",
        sizes.len()
    );
    let length = sizes.get(vector_axis).copied().unwrap_or(1);
    let batch = sizes.iter().enumerate().filter(|&(axis, _)| axis != vector_axis).map(|(_, &size)| size).collect();
    Ok((batch, length))
}

/// The axis lists that gather and scatter have in common, under the names of one of them.
struct IndexAxes<'a> {
    operand: &'a Type,
    indices: &'a Type,
    vector_axis: usize,
    /// Operand axes missing from the window.
    dropped: (&'static str, &'a [usize]),
    operand_batch: (&'static str, &'a [usize]),
    index_batch: (&'static str, &'a [usize]),
    /// Operand axis of each index component.
    map: (&'static str, &'a [usize]),
    vector_length: usize,
}

impl IndexAxes<'_> {
    /// Checks the lists and returns the operand axes that are not in the window.
    fn check(&self, op: &Op) -> Result<AxisSet> {
        let rank = self.operand.shape.rank();
        increasing(op, self.dropped.0, self.dropped.1)?;
        increasing(op, self.operand_batch.0, self.operand_batch.1)?;
        let mut absent = axis_set(op, self.dropped.0, self.dropped.1, rank)?;
        absent.add(op, self.operand_batch.0, self.operand_batch.1, rank)?;
        self.check_batch(op)?;
        let (name, map) = self.map;
        ensure!(
            map.len() == self.vector_length,
            Value,
            op.name(),
            "requires a {name} with an entry per component of an index, got {map:?} for indices {} with \
             index_vector_dim {}",
            self.indices,
            self.vector_axis
        );
        axis_set(op, name, map, rank)?.add(op, self.operand_batch.0, self.operand_batch.1, rank)?;
        Ok(absent)
    }

    fn check_batch(&self, op: &Op) -> Result<()> {
        let ((operand_name, operand_batch), (index_name, index_batch)) = (self.operand_batch, self.index_batch);
        let set = axis_set(op, index_name, index_batch, self.indices.shape.rank())?;
        ensure!(
            !set.contains(self.vector_axis),
            Axis,
            op.name(),
            "requires {index_name} without the index_vector_dim {}, got {index_batch:?}",
            self.vector_axis
        );
        ensure!(
            operand_batch.len() == index_batch.len(),
            Axis,
            op.name(),
            "requires as many {operand_name} as {index_name}, got {operand_batch:?} and {index_batch:?}"
        );
        for (&a, &b) in operand_batch.iter().zip(index_batch) {
            ensure!(
                self.operand.shape.size(a) == self.indices.shape.size(b),
                Shape,
                op.name(),
                "requires equal sizes of batching axes, {a} of the operand and {b} of the indices, got operand {} and \
                 indices {}",
                self.operand,
                self.indices
            );
        }
        Ok(())
    }
}

pub(super) fn gather(op: &Op, operands: &[&Type], dims: &GatherDims) -> Result<Types> {
    let [x, indices] = exactly(op, operands)?;
    is_integer(op, "indices", indices)?;
    let rank = x.shape.rank();
    per_axis(op, "slice sizes", &dims.slice_sizes, rank)?;
    for (axis, (&slice, &size)) in dims.slice_sizes.iter().zip(x.shape.sizes()).enumerate() {
        ensure!(
            slice <= size,
            Shape,
            op.name(),
            "requires slice sizes of at most those of the operand, got {slice} along axis {axis} of {x}"
        );
    }
    let (batch, vector_length) = index_batch(op, indices, dims.index_vector_dim)?;
    let axes = IndexAxes {
        operand: x,
        indices,
        vector_axis: dims.index_vector_dim,
        dropped: ("collapsed_slice_dims", &dims.collapsed_slice_dims),
        operand_batch: ("operand_batching_dims", &dims.operand_batching_dims),
        index_batch: ("start_indices_batching_dims", &dims.start_indices_batching_dims),
        map: ("start_index_map", &dims.start_index_map),
        vector_length,
    };
    let absent = axes.check(op)?;
    for axis in (0..rank).filter(|&axis| absent.contains(axis)) {
        let slice = dims.slice_sizes[axis];
        ensure!(
            slice <= 1,
            Shape,
            op.name(),
            "requires slice size 1 along collapsed and batching axes, got {slice} along axis {axis} of operand {x}"
        );
    }
    let window: Vec<usize> = (0..rank).filter(|&axis| !absent.contains(axis)).map(|a| dims.slice_sizes[a]).collect();
    let shape = interleave(op, "offset_dims", &dims.offset_dims, &batch, &window)?;
    let reads_nothing = shape.elements() == Some(0);
    ensure!(
        reads_nothing || dims.slice_sizes.iter().all(|&slice| slice > 0),
        Shape,
        op.name(),
        "requires an operand with elements to read, got operand {x} and result shape {shape}"
    );
    single(Type { dtype: x.dtype, shape })
}

/// The shape with `window` sizes at the axes `places` and `batch` sizes at the others, in order.
fn interleave(op: &Op, name: &str, places: &[usize], batch: &[usize], window: &[usize]) -> Result<Shape> {
    ensure!(
        places.len() == window.len(),
        Value,
        op.name(),
        "requires as many {name} as the window has axes, {}, got {places:?}",
        window.len()
    );
    increasing(op, name, places)?;
    let rank = batch.len() + window.len();
    let set = axis_set(op, name, places, rank)?;
    let (mut batch, mut window) = (batch.iter(), window.iter());
    let sizes = (0..rank).filter_map(|axis| if set.contains(axis) { window.next() } else { batch.next() });
    Ok(sizes.copied().collect())
}

pub(super) fn scatter(op: &Op, operands: &[&Type], dims: &ScatterDims) -> Result<Types> {
    let [x, indices, updates] = exactly(op, operands)?;
    takes(op, "operand", x)?;
    same_dtype(op, ("operand", x), ("updates", updates))?;
    is_integer(op, "indices", indices)?;
    let (batch, vector_length) = index_batch(op, indices, dims.index_vector_dim)?;
    let axes = IndexAxes {
        operand: x,
        indices,
        vector_axis: dims.index_vector_dim,
        dropped: ("inserted_window_dims", &dims.inserted_window_dims),
        operand_batch: ("input_batching_dims", &dims.input_batching_dims),
        index_batch: ("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims),
        map: ("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims),
        vector_length,
    };
    let absent = axes.check(op)?;
    let largest: Vec<usize> =
        (0..x.shape.rank()).filter(|&axis| !absent.contains(axis)).map(|axis| x.shape.size(axis)).collect();
    let bound = interleave(op, "update_window_dims", &dims.update_window_dims, &batch, &largest)?;
    let window = axis_set(op, "update_window_dims", &dims.update_window_dims, bound.rank())?;
    let (have, most) = (updates.shape.sizes(), bound.sizes());
    let fits = |axis| if window.contains(axis) { have[axis] <= most[axis] } else { have[axis] == most[axis] };
    ensure!(
        have.len() == most.len() && (0..have.len()).all(fits),
        Shape,
        op.name(),
        "requires updates of shape {bound}, less only along the window axes {:?}, got updates {updates} for operand \
         {x} and indices {indices}",
        dims.update_window_dims
    );
    single(x.clone())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::DType::*;
    use crate::ir::*;
    use smallvec::smallvec;
    use std::sync::Arc;

    #[test]
    fn dynamic_slices_take_one_scalar_per_axis() {
        let (x, i) = (|| f32s(&[4, 5]), || ty(I32, &[]));
        let op = |sizes: &[usize]| Op::DynamicSlice { sizes: Axes::from_slice(sizes) };
        assert_eq!(shown(op(&[2, 5]), &[x(), i(), i()]), "float32[2, 5]");
        assert_eq!(shown(op(&[0, 5]), &[x(), i(), i()]), "float32[0, 5]");
        assert_eq!(shown(op(&[]), &[f32s(&[])]), "float32[]");
        assert_eq!(
            shown(op(&[5, 5]), &[x(), i(), i()]),
            "Shape: dynamic_slice requires window sizes of at most those of the operand, got 5 along axis 0 of \
             float32[4, 5]"
        );
        assert_eq!(
            shown(op(&[2, 5]), &[x(), i()]),
            "Value: dynamic_slice requires 2 start indices for operand float32[4, 5], got 1"
        );
        assert_eq!(
            shown(op(&[2, 5]), &[x(), i(), f32s(&[])]),
            "DType: dynamic_slice requires scalar integers as start indices, got float32[] for axis 1"
        );
        assert_eq!(
            shown(op(&[2, 5]), &[x(), i(), ty(I64, &[])]),
            "DType: dynamic_slice requires start indices of one dtype, got int32[] and int64[]"
        );
        assert_eq!(shown(Op::DynamicUpdateSlice, &[x(), f32s(&[1, 0]), i(), i()]), "float32[4, 5]");
        assert_eq!(
            shown(Op::DynamicUpdateSlice, &[x(), f32s(&[5, 1]), i(), i()]),
            "Shape: dynamic_update_slice requires an update of the operand's rank and of at most its sizes, got operand \
             float32[4, 5] and update float32[5, 1]"
        );
        assert_eq!(
            shown(Op::DynamicUpdateSlice, &[x()]),
            "Value: dynamic_update_slice requires an operand, an update and start indices, got 1 operands"
        );
    }

    /// The dimension numbers of the example of `gather` in StableHLO's specification: operand 2x3x4x2, indices
    /// 2x2x3x2, result 2x2x3x2x2.
    fn spec_gather() -> GatherDims {
        GatherDims {
            offset_dims: smallvec![3, 4],
            collapsed_slice_dims: smallvec![1],
            operand_batching_dims: smallvec![0],
            start_indices_batching_dims: smallvec![1],
            start_index_map: smallvec![2, 1],
            index_vector_dim: 3,
            slice_sizes: smallvec![1, 1, 2, 2],
            indices_are_sorted: false,
        }
    }

    fn gather(dims: GatherDims) -> String {
        shown(Op::Gather(Arc::new(dims)), &[f32s(&[2, 3, 4, 2]), ty(I64, &[2, 2, 3, 2])])
    }

    #[test]
    fn gather_gives_the_specifications_shape() {
        assert_eq!(gather(spec_gather()), "float32[2, 2, 3, 2, 2]");
    }

    #[test]
    fn gather_rejects_each_broken_dimension_number() {
        let base = spec_gather;
        for (dims, message) in [
            (
                GatherDims { slice_sizes: smallvec![1, 1, 2, 3], ..base() },
                "Shape: gather requires slice sizes of at most those of the operand, got 3 along axis 3 of \
                 float32[2, 3, 4, 2]",
            ),
            (
                GatherDims { slice_sizes: smallvec![1, 1, 2], ..base() },
                "Value: gather requires 4 slice sizes, one per axis, got [1, 1, 2]",
            ),
            (
                GatherDims { index_vector_dim: 5, ..base() },
                "Axis: gather requires index_vector_dim of at most the rank 4 of indices int64[2, 2, 3, 2], got 5",
            ),
            (
                GatherDims { start_index_map: smallvec![2], ..base() },
                "Value: gather requires a start_index_map with an entry per component of an index, got [2] for indices \
                 int64[2, 2, 3, 2] with index_vector_dim 3",
            ),
            (
                GatherDims { start_index_map: smallvec![2, 0], ..base() },
                "Axis: gather requires distinct operand_batching_dims, got 0 twice",
            ),
            (
                GatherDims { offset_dims: smallvec![4, 3], ..base() },
                "Axis: gather requires increasing offset_dims, got [4, 3]",
            ),
            (
                GatherDims { offset_dims: smallvec![3, 5], ..base() },
                "Axis: gather requires offset_dims below the rank 5, got [3, 5]",
            ),
            (
                GatherDims { offset_dims: smallvec![3], ..base() },
                "Value: gather requires as many offset_dims as the window has axes, 2, got [3]",
            ),
            (
                GatherDims { collapsed_slice_dims: smallvec![0], ..base() },
                "Axis: gather requires distinct operand_batching_dims, got 0 twice",
            ),
            (
                GatherDims { slice_sizes: smallvec![1, 2, 2, 2], ..base() },
                "Shape: gather requires slice size 1 along collapsed and batching axes, got 2 along axis 1 of operand \
                 float32[2, 3, 4, 2]",
            ),
            (
                GatherDims { start_indices_batching_dims: smallvec![2], ..base() },
                "Shape: gather requires equal sizes of batching axes, 0 of the operand and 2 of the indices, got operand \
                 float32[2, 3, 4, 2] and indices int64[2, 2, 3, 2]",
            ),
            (
                GatherDims { start_indices_batching_dims: smallvec![3], ..base() },
                "Axis: gather requires start_indices_batching_dims without the index_vector_dim 3, got [3]",
            ),
            (
                GatherDims { start_indices_batching_dims: smallvec![], ..base() },
                "Axis: gather requires as many operand_batching_dims as start_indices_batching_dims, got [0] and []",
            ),
        ] {
            assert_eq!(gather(dims), message);
        }
    }

    #[test]
    fn gather_reads_from_an_empty_operand_only_into_an_empty_result() {
        let dims = Arc::new(GatherDims {
            offset_dims: smallvec![],
            collapsed_slice_dims: smallvec![0],
            operand_batching_dims: smallvec![],
            start_indices_batching_dims: smallvec![],
            start_index_map: smallvec![0],
            index_vector_dim: 1,
            slice_sizes: smallvec![0],
            indices_are_sorted: false,
        });
        assert_eq!(shown(Op::Gather(dims.clone()), &[f32s(&[0]), ty(I64, &[0])]), "float32[0]");
        assert_eq!(
            shown(Op::Gather(dims.clone()), &[f32s(&[0]), ty(I64, &[2])]),
            "Shape: gather requires an operand with elements to read, got operand float32[0] and result shape [2]"
        );
        assert_eq!(
            shown(Op::Gather(dims), &[f32s(&[0]), f32s(&[2])]),
            "DType: gather requires indices of integer dtype, got float32[2]"
        );
    }

    /// The example of `scatter` in StableHLO's specification: input 2x3x4x2, indices 2x2x3x2, updates 2x2x3x2x2.
    fn spec_scatter() -> ScatterDims {
        ScatterDims {
            update_window_dims: smallvec![3, 4],
            inserted_window_dims: smallvec![1],
            input_batching_dims: smallvec![0],
            scatter_indices_batching_dims: smallvec![1],
            scatter_dims_to_operand_dims: smallvec![2, 1],
            index_vector_dim: 3,
            indices_are_sorted: false,
            unique_indices: false,
            combiner: Some(Reducer::Sum),
        }
    }

    fn scatter(dims: ScatterDims, updates: &[usize]) -> String {
        shown(Op::Scatter(Arc::new(dims)), &[f32s(&[2, 3, 4, 2]), ty(I64, &[2, 2, 3, 2]), f32s(updates)])
    }

    #[test]
    fn scatter_takes_the_specifications_shapes_and_narrower_windows() {
        assert_eq!(scatter(spec_scatter(), &[2, 2, 3, 2, 2]), "float32[2, 3, 4, 2]");
        assert_eq!(scatter(spec_scatter(), &[2, 2, 3, 4, 1]), "float32[2, 3, 4, 2]");
        let fits = "requires updates of shape [2, 2, 3, 4, 2], less only along the window axes [3, 4]";
        for wrong in [&[2, 2, 3, 5, 2][..], &[1, 2, 3, 2, 2], &[2, 2, 3, 2]] {
            let message = scatter(spec_scatter(), wrong);
            assert!(message.starts_with(&format!("Shape: scatter {fits}, got updates float32{wrong:?}")), "{message}");
        }
        assert_eq!(
            scatter(ScatterDims { update_window_dims: smallvec![3], ..spec_scatter() }, &[2, 2, 3, 2, 2]),
            "Value: scatter requires as many update_window_dims as the window has axes, 2, got [3]"
        );
        assert_eq!(
            scatter(ScatterDims { inserted_window_dims: smallvec![0], ..spec_scatter() }, &[2, 2, 3, 2, 2]),
            "Axis: scatter requires distinct input_batching_dims, got 0 twice"
        );
    }

    #[test]
    fn scatter_without_a_combiner_takes_every_dtype() {
        let types = |dtype| [ty(dtype, &[2, 3, 4, 2]), ty(I64, &[2, 2, 3, 2]), ty(dtype, &[2, 2, 3, 2, 2])];
        let op = |combiner| Op::Scatter(Arc::new(ScatterDims { combiner, ..spec_scatter() }));
        assert_eq!(shown(op(None), &types(F8E5M2)), "float8_e5m2[2, 3, 4, 2]");
        assert_eq!(
            shown(op(Some(Reducer::Sum)), &types(F8E5M2)),
            "DType: scatter requires operand of bool, integer, float or complex dtype, got float8_e5m2[2, 3, 4, 2]"
        );
    }
}
