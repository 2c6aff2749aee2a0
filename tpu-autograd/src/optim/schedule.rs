//! Learning rates over time.

use std::f64::consts::PI;

/// A learning rate that rises linearly to `peak` over the first steps, then falls along half a cosine to `floor`.
///
/// ```
/// use tpu_autograd::optim::CosineWithWarmup;
/// let schedule = CosineWithWarmup { peak: 1.0, floor: 0.1, warmup: 10, total: 110 };
/// assert_eq!((schedule.at(0), schedule.at(9), schedule.at(10)), (0.1, 1.0, 1.0));
/// assert!((schedule.at(60) - 0.55).abs() < 1e-12);
/// assert_eq!(schedule.at(1000), 0.1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineWithWarmup {
    /// The highest rate.
    pub peak: f64,
    /// The last rate.
    pub floor: f64,
    /// Steps that rise; the last of them has the peak.
    pub warmup: u64,
    /// Steps until the floor.
    pub total: u64,
}

impl CosineWithWarmup {
    /// The rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        if step >= self.total {
            return self.floor;
        }
        let part = (step - self.warmup) as f64 / (self.total - self.warmup) as f64;
        self.floor + (self.peak - self.floor) * 0.5 * (1.0 + (PI * part).cos())
    }
}
