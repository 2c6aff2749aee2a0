//! Rows of a table by number, and numbers as rows.

use crate::place::beside;
use crate::require;
use tpu_core::{DType, Result, Tensor, ensure};

/// The rows of `weight` that `indices` name. PyTorch's `embedding`.
///
/// `weight`: `[rows, width]`; `indices`: integers of any shape; result `[…, width]` in the dtype of `weight`. Errors on other
/// ranks or dtypes; an index outside `0..rows` is an error when the value is read.
///
/// ```
/// use tpu_core::Tensor;
/// let table = Tensor::from_vec(vec![0.0f32, 1.0, 2.0, 3.0], [2, 2])?;
/// let rows = tpu_ops::embedding(&table, &Tensor::from_slice(&[1i64, 1])?)?;
/// assert_eq!(rows.to_vec::<f32>()?, [2.0, 3.0, 2.0, 3.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn embedding(weight: &Tensor, indices: &Tensor) -> Result<Tensor> {
    Tensor::checked(|| {
        require::rank("embedding", "a weight", weight, 2)?;
        require::integer("embedding", "indices", indices)?;
        any_row("embedding", weight.shape().size(0), indices)
    })?;
    weight.take(indices, 0)
}

/// [`embedding`] where row `padding` of the table is like any other but gets no gradient. PyTorch's `padding_idx`.
///
/// Errors if there is no such row.
///
/// ```
/// use tpu_core::Tensor;
/// let table = Tensor::from_vec(vec![0.0f32, 1.0, 2.0, 3.0], [2, 2])?;
/// let rows = tpu_ops::embedding_padded(&table, &Tensor::from_slice(&[1i64, 0])?, 0)?;
/// assert_eq!(rows.to_vec::<f32>()?, [2.0, 3.0, 0.0, 1.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn embedding_padded(weight: &Tensor, indices: &Tensor, padding: usize) -> Result<Tensor> {
    let rows = embedding(weight, indices)?;
    Tensor::checked(|| {
        let count = weight.shape().size(0);
        ensure!(padding < count, Index, "embedding", "requires a padding row below {count}, got {padding}");
        Ok(())
    })?;
    indices.to_dtype(DType::I64)?.eq(padding)?.unsqueeze(-1)?.select(&rows.detach(), &rows)
}

/// One where the new last axis is at the index, zero elsewhere: i64. PyTorch's `one_hot`, the number of classes explicit.
///
/// `indices`: integers of any shape; result `[…, classes]`. An index outside `0..classes` is an error when the value is read.
///
/// ```
/// use tpu_core::Tensor;
/// let y = tpu_ops::one_hot(&Tensor::from_slice(&[2i64, 0])?, 3)?;
/// assert_eq!(y.to_vec::<i64>()?, [0, 0, 1, 1, 0, 0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn one_hot(indices: &Tensor, classes: usize) -> Result<Tensor> {
    Tensor::checked(|| {
        require::integer("one_hot", "indices", indices)?;
        any_row("one_hot", classes, indices)
    })?;
    let counted = beside(indices, || Tensor::iota(classes, 0, DType::I64))?;
    checked_indices(indices, classes)?.unsqueeze(-1)?.eq(&counted)?.to_dtype(DType::I64)
}

/// That indices have something to choose from.
fn any_row(op: &'static str, rows: usize, indices: &Tensor) -> Result<()> {
    ensure!(rows > 0, Index, op, "requires something to choose from, got indices {} of no rows", indices.shape());
    Ok(())
}

/// The same numbers as i64, guarded: reading what depends on them is an error if one is outside `0..size`. Numbers that only
/// take part in comparisons need it. `size` is not 0.
#[track_caller]
pub(crate) fn checked_indices(indices: &Tensor, size: usize) -> Result<Tensor> {
    // A look-up in the numbers 0, 1, … changes none of them.
    beside(indices, || Tensor::iota(size, 0, DType::I64))?.take(indices, 0)
}
