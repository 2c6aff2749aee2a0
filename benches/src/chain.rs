//! layer_norm(gelu_tanh(x · w + b) + r): memory traffic if every operation is a pass, one pass if they are fused.

use tpu_core::{Result, Tensor};
use tpu_ops::{Gelu, gelu, layer_norm};

/// The operands.
#[derive(Debug)]
pub struct Chain {
    x: Tensor,
    r: Tensor,
    rows: [Tensor; 4],
}

impl Chain {
    /// Matrices of `size` squared and rows of `size`, of numbers around zero.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn new(size: usize) -> Result<Self> {
        let numbers = |len: usize, salt: usize| -> Vec<f32> {
            // A Weyl sequence: spread evenly over −1.7 to 1.7.
            (0..len).map(|at| ((at * 0x9e37_79b1 + salt * 977) % 65_536) as f32 / 19_275.0 - 1.7).collect()
        };
        let row = |salt| Tensor::from_vec(numbers(size, salt), size);
        let matrix = |salt| Tensor::from_vec(numbers(size * size, salt), [size, size]);
        Ok(Self { x: matrix(1)?, r: matrix(2)?, rows: [row(3)?, row(4)?, row(5)?, row(6)?] })
    }

    /// One run; waits for the result.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self) -> Result<()> {
        // Only the result is held by then, as in PyTorch's program.
        self.record()?.wait()
    }

    fn record(&self) -> Result<Tensor> {
        let [w, b, gain, bias] = &self.rows;
        let y = gelu(&self.x.mul(w)?.add(b)?, Gelu::Tanh)?.add(&self.r)?;
        layer_norm(&y, &y.sizes()[1..], Some(gain), Some(bias), 1e-5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_runs() {
        Chain::new(8).unwrap().run().unwrap();
    }
}
