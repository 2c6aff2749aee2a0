//! Selecting and ordering elements, where PyTorch's function does more than the tensor's method.

use crate::composite::accumulator;
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
