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
