//! A learning rate that falls when a number that is watched stops getting better.

/// Which numbers are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Better {
    /// Smaller ones: losses.
    #[default]
    Smaller,
    /// Larger ones: accuracies.
    Larger,
}

/// By how much a number must be better to count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Threshold {
    /// By this part of the best one.
    Relative(f64),
    /// By this.
    Absolute(f64),
}

/// Multiplies the rate by `factor` when the number it is [told](Self::observe) has not been better for more than `patience` times in
/// a row. PyTorch's `ReduceLROnPlateau`.
///
/// ```
/// use tpu_autograd::optim::Plateau;
/// let mut plateau = Plateau { patience: 1, ..Plateau::new(1.0) };
/// let rates: Vec<f64> = [3.0, 2.0, 2.0, 2.0, 1.0].into_iter().map(|loss| plateau.observe(loss)).collect();
/// assert_eq!(rates, [1.0, 1.0, 1.0, 0.1, 0.1]);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plateau {
    /// The rate of the next step.
    pub rate: f64,
    /// Which numbers are better.
    pub better: Better,
    /// What the rate is multiplied by.
    pub factor: f64,
    /// How often in a row the number may be no better.
    pub patience: u64,
    /// What counts as better.
    pub threshold: Threshold,
    /// How often after a change nothing is counted.
    pub cooldown: u64,
    /// The least rate.
    pub least: f64,
    /// A change of the rate by no more than this is not made.
    pub eps: f64,
    /// The best number so far.
    pub best: Option<f64>,
    /// How often in a row it was no better.
    pub waited: u64,
    /// How often still nothing is counted.
    pub cooling: u64,
}

impl Plateau {
    /// With PyTorch's defaults.
    pub fn new(rate: f64) -> Self {
        Self {
            rate,
            better: Better::Smaller,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Relative(1e-4),
            cooldown: 0,
            least: 0.0,
            eps: 1e-8,
            best: None,
            waited: 0,
            cooling: 0,
        }
    }

    /// Takes a loss or an accuracy of the held-out data; gives the rate from here on. NaN is never better.
    pub fn observe(&mut self, number: f64) -> f64 {
        if self.is_better(number) {
            (self.best, self.waited) = (Some(number), 0);
        } else {
            self.waited += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.waited = 0;
        }
        if self.waited > self.patience {
            (self.cooling, self.waited) = (self.cooldown, 0);
            let next = (self.rate * self.factor).max(self.least);
            if self.rate - next > self.eps {
                self.rate = next;
            }
        }
        self.rate
    }

    fn is_better(&self, number: f64) -> bool {
        // Before the first one, everything is: infinity is what it is compared with.
        let best = self.best.unwrap_or(if self.better == Better::Smaller { f64::INFINITY } else { f64::NEG_INFINITY });
        match (self.better, self.threshold) {
            (Better::Smaller, Threshold::Relative(part)) => number < best * (1.0 - part),
            (Better::Smaller, Threshold::Absolute(by)) => number < best - by,
            (Better::Larger, Threshold::Relative(part)) => number > best * (1.0 + part),
            (Better::Larger, Threshold::Absolute(by)) => number > best + by,
        }
    }
}
