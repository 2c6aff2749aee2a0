//! Pooling to a given size: window i of n runs from ⌊i · size / n⌋ to ⌈(i + 1) · size / n⌉.

use super::ranks;
use crate::composite::widened;
use crate::place::beside;
use crate::require;
use tpu_core::{DType, Result, Tensor, ensure};

macro_rules! adaptive {
    ($($(#[$doc:meta])* $name:ident = $kind:ident over $axes:literal),* $(,)?) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(x: &Tensor, sizes: [Option<usize>; $axes]) -> Result<Tensor> {
            pool(stringify!($name), x, sizes, Kind::$kind)
        }
    )*};
}

adaptive! {
    /// [`adaptive_avg_pool2d`] over one axis: `x` is `[batch, channels, length]` or without the batch. PyTorch's
    /// `adaptive_avg_pool1d`.
    adaptive_avg_pool1d = Mean over 1,
    /// The means of as many windows as `sizes` says, along height and width; `None` leaves an axis as it is. PyTorch's
    /// `adaptive_avg_pool2d`.
    ///
    /// `x`: `[batch, channels, height, width]` or without the batch, float; sums of 16-bit floats are float32. Errors on another
    /// rank or dtype, or without elements along an axis.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 1, 2, 3])?;
    /// let y = tpu_ops::adaptive_avg_pool2d(&x, [Some(1), Some(2)])?;
    /// assert_eq!(y.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    adaptive_avg_pool2d = Mean over 2,
    /// [`adaptive_avg_pool2d`] over three axes: `x` is `[batch, channels, depth, height, width]` or without the batch. PyTorch's
    /// `adaptive_avg_pool3d`.
    adaptive_avg_pool3d = Mean over 3,
    /// [`adaptive_max_pool2d`] over one axis: `x` is `[batch, channels, length]` or without the batch. PyTorch's
    /// `adaptive_max_pool1d`.
    adaptive_max_pool1d = Max over 1,
    /// The largest elements of as many windows as `sizes` says, along height and width, NaN if there is one; `None` leaves an axis
    /// as it is. PyTorch's `adaptive_max_pool2d`.
    ///
    /// Shapes, dtypes and errors as of [`adaptive_avg_pool2d`].
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 1, 2, 3])?;
    /// let y = tpu_ops::adaptive_max_pool2d(&x, [Some(1), None])?;
    /// assert_eq!(y.to_vec::<f32>()?, [4.0, 5.0, 6.0]);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
    adaptive_max_pool2d = Max over 2,
    /// [`adaptive_max_pool2d`] over three axes: `x` is `[batch, channels, depth, height, width]` or without the batch. PyTorch's
    /// `adaptive_max_pool3d`.
    adaptive_max_pool3d = Max over 3,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Mean,
    Max,
}

#[track_caller]
fn pool<const N: usize>(op: &'static str, x: &Tensor, sizes: [Option<usize>; N], kind: Kind) -> Result<Tensor> {
    Tensor::checked(|| {
        require::float(op, "an input", x)?;
        ranks::<N>(op, x)?;
        let some = x.sizes()[x.rank() - N..].iter().all(|&size| size > 0);
        ensure!(some, Shape, op, "requires elements along each axis, got {}", x.shape());
        Ok(())
    })?;
    let mut y = widened(x)?;
    // Windows are boxes: one axis after the other.
    for (at, size) in sizes.into_iter().enumerate() {
        if let Some(size) = size {
            y = along(&y, x.rank() - N + at, size, kind)?;
        }
    }
    y.to_dtype(x.dtype())
}

/// Pools axis `axis` to `windows` elements.
#[track_caller]
fn along(x: &Tensor, axis: usize, windows: usize, kind: Kind) -> Result<Tensor> {
    let size = x.shape().size(axis);
    if windows == size {
        return Ok(x.clone());
    }
    if windows > 0 && size.is_multiple_of(windows) {
        let mut apart = x.sizes().to_vec();
        apart[axis] = windows;
        apart.insert(axis + 1, size / windows);
        let apart = x.reshape(apart)?;
        return match kind {
            Kind::Mean => apart.mean([axis as isize + 1], false),
            Kind::Max => apart.max([axis as isize + 1], false),
        };
    }
    let start = |window: usize| window * size / windows;
    let count = |window: usize| ((window + 1) * size).div_ceil(windows) - start(window);
    let widest = (0..windows).map(count).max().unwrap_or(0);
    let places = (0..windows).flat_map(|window| (0..widest).map(move |at| (window, at)));
    // Short windows repeat their first element, which wins no maximum by it, and is taken out of sums.
    let inside: Vec<bool> = places.clone().map(|(window, at)| at < count(window)).collect();
    let indices: Vec<i64> =
        places.map(|(window, at)| (start(window) + if at < count(window) { at } else { 0 }) as i64).collect();
    let indices = beside(x, || Tensor::from_vec(indices, [windows, widest]))?;
    let taken = x.take(&indices, axis as isize)?;
    let axis = axis as isize + 1;
    if kind == Kind::Max {
        return taken.max([axis], false);
    }
    let mut sizes = vec![1; taken.rank()];
    (sizes[axis as usize - 1], sizes[axis as usize]) = (windows, widest);
    let inside = beside(x, || Tensor::from_vec(inside, sizes))?;
    let sums = inside.select(&taken, 0)?.sum([axis], false)?;
    let counts = inside.to_dtype(DType::I64)?.sum([axis], false)?.to_dtype(x.dtype())?;
    sums.div(&counts)
}
