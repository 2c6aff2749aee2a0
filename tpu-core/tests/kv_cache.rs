//! A cache that grows by a row a step is written in place.

use tpu_core::{DType, Device, Result, Tensor};

#[test]
fn a_loop_that_appends_to_a_cache_copies_nothing() -> Result<()> {
    const ROWS: usize = 512;
    const BYTES: usize = 2 * 4 * ROWS * 64 * 4;
    let device = Device::host()?;
    let mut cache = Tensor::zeros([2, 4, ROWS, 64], DType::F32)?;
    let step = |cache: Tensor, at: usize| -> Result<(Tensor, f32)> {
        let row = Tensor::full([2, 4, 1, 64], at as f64, DType::F32)?;
        let [zero, at] = [0, at as i64];
        let next = cache.dynamic_update_slice(&row, &[zero.into(), zero.into(), at.into(), zero.into()])?;
        drop(cache);
        // What attention does with it: everything is read.
        let mean = next.mean_all()?.item::<f32>()?;
        Ok((next, mean))
    };
    for at in 0..2 {
        (cache, _) = step(cache, at)?;
    }
    // The executor lets go of a program's values a moment after they can be read.
    device.synchronize()?;
    device.reset_peak_memory();
    let before = device.memory().in_use;
    let mut mean = 0.0;
    for at in 2..ROWS {
        (cache, mean) = step(cache, at)?;
    }
    // Rows hold their numbers. A pairwise sum of 2^18 terms loses a few units of the last place.
    let want = (ROWS - 1) as f32 / 2.0;
    assert!((mean - want).abs() < want * 32.0 * f32::EPSILON, "{mean} instead of {want}");
    device.synchronize()?;
    let memory = device.memory();
    assert_eq!(memory.in_use, before);
    assert!(memory.peak - before < BYTES / 8, "{memory:?}: some step had the old and the new cache of {BYTES} bytes");
    // With another handle, the old one stays.
    let old = cache.clone();
    (cache, _) = step(cache, 0)?;
    assert!(device.memory().peak - before >= BYTES);
    drop((old, cache));
    Ok(())
}
