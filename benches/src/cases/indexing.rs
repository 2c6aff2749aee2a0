//! Elements and rows at indices, and what goes along an axis in order.

use super::{Result, Run, tensor};
use crate::measure::{Parameters, integers};
use tpu_core::{DType, Tensor};
use tpu_ops::{cumsum, index_add, scatter_add, sort, topk};

/// Integers below `bound`, in memory.
fn indices(shape: &[usize], salt: u32, bound: usize) -> Result<Tensor> {
    let values = integers(shape.iter().product(), salt, bound as u32).map(i64::from).collect();
    let indices = Tensor::from_vec(values, shape)?;
    indices.wait()?;
    Ok(indices)
}

/// A matrix `x` of rows by columns, and `op`:
///
/// - `gather`: an element of the same row for each of its elements
/// - `scatter_add`: each element added to one of the same row
/// - `index_select`: as many rows, `axis=1` columns, by number
/// - `index_add`: as many rows added to rows by number
pub(super) fn indexing(parameters: &Parameters) -> Result<Run> {
    let [rows, columns] = parameters.sizes(["rows", "columns"])?;
    let axis = parameters.size_or("axis", 0)?;
    let x = tensor([rows, columns], 1, 1.0, DType::F32)?;
    Ok(match parameters.text("op")? {
        "gather" => {
            let at = indices(&[rows, columns], 2, columns)?;
            Box::new(move || Ok(vec![x.gather(1, &at)?]))
        }
        "scatter_add" => {
            let (at, source) = (indices(&[rows, columns], 2, columns)?, tensor([rows, columns], 3, 1.0, DType::F32)?);
            Box::new(move || Ok(vec![scatter_add(&x, 1, &at, &source)?]))
        }
        "index_select" => {
            let size = if axis == 0 { rows } else { columns };
            let at = indices(&[size], 2, size)?;
            Box::new(move || Ok(vec![x.index_select(axis as isize, &at)?]))
        }
        "index_add" => {
            let (at, source) = (indices(&[rows], 2, rows)?, tensor([rows, columns], 3, 1.0, DType::F32)?);
            Box::new(move || Ok(vec![index_add(&x, 0, &at, &source)?]))
        }
        other => {
            return Err(format!("requires op gather, scatter_add, index_select or index_add, got `{other}`").into());
        }
    })
}

/// A matrix of rows by columns, and what goes along `axis`: `sort` and `topk` with k=16, of which the values are taken, or `cumsum`.
pub(super) fn order(parameters: &Parameters) -> Result<Run> {
    let [rows, columns] = parameters.sizes(["rows", "columns"])?;
    let axis = parameters.size_or("axis", 1)? as isize;
    let x = tensor([rows, columns], 1, 1.0, DType::F32)?;
    Ok(match parameters.text("op")? {
        "sort" => Box::new(move || Ok(vec![sort(&x, axis, false)?.0])),
        "topk" => Box::new(move || Ok(vec![topk(&x, 16, axis, true)?.0])),
        "cumsum" => Box::new(move || Ok(vec![cumsum(&x, axis)?])),
        other => return Err(format!("requires op sort, topk or cumsum, got `{other}`").into()),
    })
}
