//! Selecting and ordering elements, where PyTorch's function does more than the tensor's method.

use crate::composite::accumulator;
use crate::require;
use tpu_core::ir::Reducer;
use tpu_core::{DType, Result, Scalar, Tensor, ensure};

/// `value` where `mask` is true, `x` elsewhere. PyTorch's `masked_fill`.
///
/// `mask`: bool, stretches with `x`. Errors on another dtype, shapes that do not broadcast, or a number that the dtype of `x`
/// cannot hold.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[1.0f32, 2.0])?;
/// let y = tpu_ops::masked_fill(&x, &x.gt(1.0)?, f64::NEG_INFINITY)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, f32::NEG_INFINITY]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
    Tensor::checked(|| {
        let dtype = mask.dtype();
        ensure!(dtype == DType::Bool, DType, "masked_fill", "requires a mask of bool, got {dtype}");
        Ok(())
    })?;
    mask.select(value.into(), x)
}

/// `on_true` where `condition` is true, else `on_false`; all broadcast. PyTorch's `where`.
///
/// `condition`: bool; the others of one dtype. Errors on other dtypes or shapes that do not broadcast.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[-1i64, 2])?;
/// assert_eq!(tpu_ops::select(&x.lt(0)?, &x.neg()?, &x)?.to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn select(condition: &Tensor, on_true: &Tensor, on_false: &Tensor) -> Result<Tensor> {
    condition.select(on_true, on_false)
}

/// Elements of `x` along `axis` at `indices`, which broadcasts with `x` on the other axes. PyTorch's `take_along_dim`.
///
/// `indices`: integers of as many axes as `x`. An index outside `0..size` is an error when the value is read. Errors on other
/// ranks or dtypes or shapes that do not broadcast.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1i64, 2, 3, 4], [2, 2])?;
/// let last = Tensor::from_vec(vec![1i64], [1, 1])?;
/// assert_eq!(tpu_ops::take_along(&x, &last, 1)?.to_vec::<i64>()?, [2, 4]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn take_along(x: &Tensor, indices: &Tensor, axis: isize) -> Result<Tensor> {
    let (source, index) = Tensor::checked(|| {
        let axis = x.axis(axis, "take_along")?;
        let shapes = || format!("{} and indices {}", x.shape(), indices.shape());
        ensure!(x.rank() == indices.rank(), Shape, "take_along", "requires indices of as many axes, got {}", shapes());
        let (mut source, mut index) = (x.sizes().to_vec(), indices.sizes().to_vec());
        for other in (0..x.rank()).filter(|&other| other != axis) {
            let (a, b) = (source[other], index[other]);
            let fits = a == b || a == 1 || b == 1;
            ensure!(fits, Shape, "take_along", "requires indices that broadcast but on axis {axis}, got {}", shapes());
            let both = if a == 1 { b } else { a };
            (source[other], index[other]) = (both, both);
        }
        Ok((source, index))
    })?;
    x.broadcast_to(source)?.gather(axis, &indices.broadcast_to(index)?)
}

/// The index (i64) of the largest element along an axis, of all elements in row-major order if there is none; the first of
/// equals, NaN wins. A scalar counts as an axis of one element. PyTorch's `argmax`, which leaves the choice among equals open.
///
/// Errors on bool being compared, an axis out of range, or no elements to choose from.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 5.0, 7.0, 0.0], [2, 2])?;
/// assert_eq!(tpu_ops::argmax(&x, None, false)?.item::<i64>()?, 2);
/// assert_eq!(tpu_ops::argmax(&x, Some(-1), false)?.to_vec::<i64>()?, [1, 0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn argmax(x: &Tensor, axis: Option<isize>, keep: bool) -> Result<Tensor> {
    let Some(axis) = axis else {
        let flat = x.reshape(x.elements())?.argmax(0, false)?;
        return if keep { flat.reshape(vec![1; x.rank()]) } else { Ok(flat) };
    };
    if x.rank() == 0 { x.unsqueeze(0)?.argmax(axis, false) } else { x.argmax(axis, keep) }
}

/// The `k` largest, or smallest, elements along an axis, best first, and their indices (i64); NaN is the largest. PyTorch's
/// `topk` with `sorted=True`; of equals the first come first. Of a scalar it is that scalar, for a `k` of 0 too, as in PyTorch.
///
/// Errors on bool or complex elements, an axis out of range, or `k` above its size.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_vec(vec![1.0f32, 5.0, 7.0, 0.0], [2, 2])?;
/// let (values, indices) = tpu_ops::topk(&x, 1, 0, true)?;
/// assert_eq!(values.to_vec::<f32>()?, [7.0, 5.0]);
/// assert_eq!(indices.to_vec::<i64>()?, [1, 0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn topk(x: &Tensor, k: usize, axis: isize, largest: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        let (values, indices) = topk(&x.unsqueeze(0)?, k.max(1), axis, largest)?;
        return Ok((values.squeeze(0)?, indices.squeeze(0)?));
    }
    let plain = Tensor::checked(|| x.axis(axis, "topk"))?;
    if plain + 1 == x.rank() {
        return x.topk(k, largest);
    }
    let (values, indices) = x.transpose(axis, -1)?.topk(k, largest)?;
    Ok((values.transpose(axis, -1)?, indices.transpose(axis, -1)?))
}

/// The running sum along an axis. PyTorch's `cumsum`: of bools and integers it is i64.
///
/// 16-bit floats are summed in float32 and rounded once per element. A scalar counts as an axis of one element. Errors on an axis out of range or 8-bit floats.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[true, false, true])?;
/// assert_eq!(tpu_ops::cumsum(&x, 0)?.to_vec::<i64>()?, [1, 1, 2]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn cumsum(x: &Tensor, axis: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return cumsum(&x.unsqueeze(0)?, axis)?.squeeze(0);
    }
    let integer = x.dtype() == DType::Bool || x.dtype().is_integer();
    let (sum, result) = if integer { (DType::I64, DType::I64) } else { (accumulator(x.dtype()), x.dtype()) };
    x.to_dtype(sum)?.cumsum(axis)?.to_dtype(result)
}

/// The elements sorted along an axis, and the indices (i64) that sort them. NaN is the largest; equals stay in order. PyTorch's
/// `sort` with `stable=True`. A scalar counts as an axis of one element.
///
/// Errors on complex elements or an axis out of range.
///
/// ```
/// use tpu_core::Tensor;
/// let (values, indices) = tpu_ops::sort(&Tensor::from_slice(&[3i64, 1, 2])?, 0, false)?;
/// assert_eq!(values.to_vec::<i64>()?, [1, 2, 3]);
/// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn sort(x: &Tensor, axis: isize, descending: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        let (values, indices) = x.unsqueeze(0)?.sort(axis, descending)?;
        return Ok((values.squeeze(0)?, indices.squeeze(0)?));
    }
    x.sort(axis, descending)
}

/// The indices (i64) of [`sort`]. PyTorch's `argsort` with `stable=True`.
///
/// ```
/// use tpu_core::Tensor;
/// let order = tpu_ops::argsort(&Tensor::from_slice(&[3.0f32, 1.0, 2.0])?, 0, true)?;
/// assert_eq!(order.to_vec::<i64>()?, [0, 2, 1]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn argsort(x: &Tensor, axis: isize, descending: bool) -> Result<Tensor> {
    Ok(sort(&x.detach(), axis, descending)?.1)
}

/// `x` with `out[i][indices[i][j]] = src[i][j]` for axis 1, and so on. PyTorch's `scatter`. Which of several elements for one
/// place stays is left open there; here it is the last.
///
/// `indices`: integers of as many axes as `x`, on the others none longer than those of `x`; `src`: at least as large along each axis,
/// of the dtype of `x`; what is larger is not read. An index outside `0..size` is an error when the value is read. Errors on other
/// ranks, sizes or dtypes.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[0i64, 0, 0])?;
/// let y = tpu_ops::scatter(&x, 0, &Tensor::from_slice(&[2i64, 0])?, &Tensor::from_slice(&[7i64, 8, 9])?)?;
/// assert_eq!(y.to_vec::<i64>()?, [8, 0, 7]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn scatter(x: &Tensor, axis: isize, indices: &Tensor, src: &Tensor) -> Result<Tensor> {
    x.scatter(axis, indices, &corner(src, indices)?, None)
}

/// [`scatter`] that adds. PyTorch's `scatter_add`.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[1i64, 1])?;
/// let y = tpu_ops::scatter_add(&x, 0, &Tensor::from_slice(&[1i64, 1])?, &Tensor::from_slice(&[7i64, 8])?)?;
/// assert_eq!(y.to_vec::<i64>()?, [1, 16]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn scatter_add(x: &Tensor, axis: isize, indices: &Tensor, src: &Tensor) -> Result<Tensor> {
    x.scatter(axis, indices, &corner(src, indices)?, Some(Reducer::Sum))
}

/// [`scatter`] that combines: sums, products, maxima or minima of what is there and what comes. PyTorch's `scatter_reduce`;
/// its mean is a sum divided by a count of ones.
///
/// ```
/// use tpu_core::{Tensor, ir::Reducer};
/// let x = Tensor::from_slice(&[1i64, 1])?;
/// let (indices, src) = (Tensor::from_slice(&[1i64, 1])?, Tensor::from_slice(&[7i64, 8])?);
/// let y = tpu_ops::scatter_reduce(&x, 0, &indices, &src, Reducer::Max)?;
/// assert_eq!(y.to_vec::<i64>()?, [1, 8]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn scatter_reduce(x: &Tensor, axis: isize, indices: &Tensor, src: &Tensor, kind: Reducer) -> Result<Tensor> {
    x.scatter(axis, indices, &corner(src, indices)?, Some(kind))
}

/// The first elements of `src` along each axis, as many as there are indices.
#[track_caller]
fn corner(src: &Tensor, indices: &Tensor) -> Result<Tensor> {
    if src.rank() != indices.rank() {
        // The scatter says what is wrong.
        return Ok(src.clone());
    }
    let mut src = src.clone();
    for (axis, &size) in indices.sizes().iter().enumerate() {
        if size < src.shape().size(axis) {
            src = src.narrow(axis as isize, 0, size)?;
        }
    }
    Ok(src)
}

/// `x` with slice i of `src` added to slice `indices[i]` of it along an axis. PyTorch's `index_add`.
///
/// `indices`: `[n]`, integers; `src`: of the shape of `x` but for n elements along the axis. An index outside `0..size` is an error
/// when the value is read. Errors on other shapes or dtypes.
///
/// ```
/// use tpu_core::Tensor;
/// let x = Tensor::from_slice(&[1.0f32, 1.0])?;
/// let y = tpu_ops::index_add(&x, 0, &Tensor::from_slice(&[1i64, 1])?, &Tensor::from_slice(&[2.0f32, 3.0])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 6.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn index_add(x: &Tensor, axis: isize, indices: &Tensor, src: &Tensor) -> Result<Tensor> {
    Tensor::checked(|| {
        require::integer("index_add", "indices", indices)?;
        require::rank("index_add", "indices", indices, 1)?;
        let axis = x.axis(axis, "index_add")?;
        let mut sizes = x.sizes().to_vec();
        sizes[axis] = indices.elements();
        require::sizes("index_add", "a source", src, &sizes)?;
        require::same_dtype("index_add", ("input", x), ("source", src))
    })?;
    x.put(indices, axis, src, Some(Reducer::Sum))
}
