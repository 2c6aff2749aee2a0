//! A step of small operations of many kinds, for benches of what comes before and around kernels.
//!
//! Of `f32[8, 8]` and smaller, in rounds of 25: 52 % elementwise of two tensors, 8 % of a tensor and a number, 12 % of one
//! tensor, and 4 % each of sums over an axis, reshapes, broadcasts, transposes, slices, concatenations and matrix products.

use tpu_core::{Result, Tensor};

/// Operations of a round.
pub const ROUND: usize = 25;

/// Two operands of numbers between 0 and 0.1.
///
/// # Errors
/// When there is no memory.
pub fn operands() -> Result<(Tensor, Tensor)> {
    let numbers = |salt: usize| (0..64).map(|at| ((at * 37 + salt) % 64) as f32 / 640.0).collect();
    Ok((Tensor::from_vec(numbers(1), [8, 8])?, Tensor::from_vec(numbers(2), [8, 8])?))
}

/// Records so many operations: whole rounds, then products of two tensors.
///
/// # Errors
/// Never, of what [`operands`] gives.
pub fn record(x: &Tensor, w: &Tensor, operations: usize) -> Result<Tensor> {
    let mut x = x.clone();
    for _ in 0..operations / ROUND {
        x = round(&x, w)?;
    }
    for _ in 0..operations % ROUND {
        x = x.mul(w)?;
    }
    Ok(x)
}

fn round(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    // 13 of two tensors.
    let mut y = x.mul(w)?;
    for _ in 0..6 {
        y = y.add(w)?.maximum(x)?;
    }
    // 2 with a number, 3 of one tensor.
    y = y.mul(0.5)?.add(0.25)?;
    y = y.abs()?.neg()?.tanh()?;
    // A sum, reshaped to keep its axis, and its broadcast; a transpose, a slice.
    let total = y.sum([1], true)?.broadcast_to([8, 8])?;
    let part = total.t()?.slice(0, 0, 8, 2)?;
    // A product: [4, 8] x [8, 8], and back to eight rows.
    let product = part.matmul(w)?;
    Tensor::concat(&[&product, &product], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_operations_are_recorded_as_were_asked_for() {
        let (x, w) = operands().unwrap();
        for operations in [1, 24, 25, 60] {
            let before = tpu_core::lazy::statistics().recorded;
            let pending = record(&x, &w, operations).unwrap();
            // Other tests record too, on other threads.
            assert!(tpu_core::lazy::statistics().recorded - before >= operations as u64);
            assert_eq!(pending.sizes(), [8, 8]);
        }
    }
}
