//! What a training step keeps in memory. The peak is the device's, so this is the only test of its process.

use tpu_autograd::{Backward, Param};
use tpu_core::{DType, Device, Result, Tensor};
use tpu_ops::{Attention, scaled_dot_product_attention};

#[test]
fn attention_has_no_matrix_of_scores() -> Result<()> {
    const LAYERS: usize = 12;
    const TIME: usize = 512;
    let scores = TIME * TIME * DType::F32.bits() as usize / 8;
    let x = tpu_ops::uniform([1, TIME, 8], -1.0, 1.0, DType::F32, None)?;
    x.wait()?;
    let x = Param::new(x);
    let device = Device::host()?;
    device.reset_peak_memory();
    let before = device.memory().in_use;
    let mut y: Tensor = x.value();
    for _ in 0..LAYERS {
        y = scaled_dot_product_attention(&y, &y, &y, Attention { causal: true, ..Default::default() })?;
    }
    y.square()?.sum_all()?.backward()?;
    x.grad().expect("of the only parameter").wait()?;
    // All that is kept and computed is 8 or 1 numbers per query, here for 12 layers about as many as a layer has scores.
    let peak = device.memory().peak - before;
    assert!(peak < scores, "{peak} bytes, scores of one layer have {scores}");
    Ok(())
}
