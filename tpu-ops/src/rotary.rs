//! Rotary position embedding (Su et al., *RoFormer*, 2021).

use crate::composite::widened;
use crate::place::beside;
use crate::require;
use smallvec::SmallVec;
use tpu_core::{DType, Result, Shape, Tensor, ensure};

/// Which two elements of a head form a pair that is turned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pairs {
    /// Elements i and i + width/2, as Llama's published Hugging Face weights and GPT-NeoX have it.
    #[default]
    Halves,
    /// Elements 2i and 2i + 1, as in the paper.
    Neighbours,
}

/// Cosines and sines of the angles `position · base^(−2i / width)`: both `[…, width / 2]`, float32.
///
/// `positions`: integers or floats of any shape. `width`: even, of one head. `base`: 10000 in the paper. Errors on another dtype,
/// an odd or zero width, or a base that is not positive and finite.
///
/// ```
/// use tpu_core::Tensor;
/// let (cos, sin) = tpu_ops::rotary_angles(&Tensor::from_slice(&[0i64, 1])?, 2, 10000.0)?;
/// assert_eq!(cos.to_vec::<f32>()?, [1.0, 1f32.cos()]);
/// assert_eq!(sin.to_vec::<f32>()?, [0.0, 1f32.sin()]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn rotary_angles(positions: &Tensor, width: usize, base: f64) -> Result<(Tensor, Tensor)> {
    const OP: &str = "rotary_angles";
    Tensor::checked(|| {
        let dtype = positions.dtype();
        ensure!(dtype.is_float() || dtype.is_integer(), DType, OP, "requires real positions, got {dtype}");
        ensure!(width > 0 && width.is_multiple_of(2), Value, OP, "requires an even width above 0, got {width}");
        ensure!(base > 0.0 && base.is_finite(), Value, OP, "requires a finite base above 0, got {base}");
        Ok(())
    })?;
    let index = beside(positions, || Tensor::iota(width / 2, 0, DType::F32))?;
    let frequency = index.mul(-2.0 * base.ln() / width as f64)?.exp()?;
    let angle = positions.to_dtype(DType::F32)?.unsqueeze(-1)?.mul(&frequency)?;
    Ok((angle.cos()?, angle.sin()?))
}

/// Pairs of elements (a, b) of the last axis turned: (a cos − b sin, b cos + a sin).
///
/// `x`: `[…, positions, width]`, float, width even; `cos`, `sin`: `[positions, width / 2]`, or what stretches to the shape of `x`
/// with half its width, of one float dtype. Computed in the wider of the two dtypes, rounded to that of `x`. Errors on other
/// shapes or dtypes.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Pairs, rotary, rotary_angles};
/// let x = Tensor::ones([1, 2, 4], DType::F32)?;
/// let (cos, sin) = rotary_angles(&Tensor::arange(0, 2, 1, DType::I64)?, 4, 10000.0)?;
/// let y = rotary(&x, &cos, &sin, Pairs::Halves)?.to_vec::<f32>()?;
/// assert_eq!(y[..4], [1.0; 4]); // position 0 is not turned
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn rotary(x: &Tensor, cos: &Tensor, sin: &Tensor, pairs: Pairs) -> Result<Tensor> {
    Tensor::checked(|| check(x, cos, sin))?;
    let half = x.shape().size(x.rank() - 1) / 2;
    let wide = widened(x)?;
    let dtype = if cos.dtype() == DType::F64 { DType::F64 } else { wide.dtype() };
    let (wide, cos, sin) = (wide.to_dtype(dtype)?, cos.to_dtype(dtype)?, sin.to_dtype(dtype)?);
    // x cos + partner · ±sin over whole rows: slices of half the width and their concatenation would be passes of their own,
    // in the backward pass too.
    let (pair, axis) = match pairs {
        Pairs::Halves => ([2, half], -2),
        Pairs::Neighbours => ([half, 2], -1),
    };
    let lead = |of: &Tensor| -> SmallVec<[usize; 8]> { of.sizes()[..of.rank() - 1].into() };
    let paired: Shape = lead(&wide).into_iter().chain(pair).collect();
    let partner = wide.reshape(paired)?.flip([axis])?.reshape(wide.shape())?;
    let row = |of: &Tensor| -> Shape { lead(of).into_iter().chain([2 * half]).collect() };
    let cos = Tensor::stack(&[&cos, &cos], axis)?.reshape(row(&cos))?;
    let sin = Tensor::stack(&[&sin.neg()?, &sin], axis)?.reshape(row(&sin))?;
    wide.mul(&cos)?.add(&partner.mul(&sin)?)?.to_dtype(x.dtype())
}

fn check(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<()> {
    const OP: &str = "rotary";
    require::float(OP, "an input", x)?;
    require::float(OP, "cosines", cos)?;
    require::same_dtype(OP, ("cosines", cos), ("sines", sin))?;
    let width = x.sizes().last().copied().unwrap_or(0);
    let even = width > 0 && width.is_multiple_of(2);
    ensure!(even, Shape, OP, "requires an input with an even last axis, got {}", x.shape());
    let halved: Shape = x.sizes()[..x.rank() - 1].iter().copied().chain([width / 2]).collect();
    for (name, table) in [("cosines", cos), ("sines", sin)] {
        let fits = Shape::broadcast(table.shape(), &halved).as_ref() == Some(&halved);
        ensure!(fits, Shape, OP, "requires {name} that stretch to {halved}, got {}", table.shape());
    }
    Ok(())
}
