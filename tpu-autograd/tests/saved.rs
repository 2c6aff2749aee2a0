//! What is in memory after a cut: values saved for a backward pass as long as one may come, and no longer. Counters are of the
//! whole process, so all of it runs in one test.

use tpu_autograd::nn::{Function, Linear, Module, Sequential};
use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
use tpu_autograd::{Backward, no_grad};
use tpu_core::{DType, Device, Result, Tensor, lazy};
use tpu_ops::Generator;

const ROWS: usize = 256;
const WIDTH: usize = 128;
/// Bytes of one layer's result.
const LAYER: usize = ROWS * WIDTH * 4;
/// More than numbers take, less than any layer.
const SMALL: usize = 16 << 10;

struct Fixture {
    model: Sequential,
    x: Tensor,
    device: Device,
}

impl Fixture {
    fn new() -> Result<Self> {
        let generator = Generator::new(3);
        let mut model = Sequential::new();
        for _ in 0..4 {
            model = model.push(Linear::new(WIDTH, WIDTH, false, DType::F32, &generator)?).push(Function(Tensor::tanh));
        }
        let x = tpu_ops::uniform([ROWS, WIDTH], -1.0, 1.0, DType::F32, Some(&generator))?;
        let fixture = Self { model, x, device: Device::current()? };
        fixture.in_use()?;
        Ok(fixture)
    }

    fn loss(&self) -> Result<Tensor> {
        self.model.forward(&self.x)?.square()?.mean_all()
    }

    /// Bytes in use once everything that is pending has been cut and run.
    fn in_use(&self) -> Result<usize> {
        lazy::synchronize()?;
        Ok(self.device.memory().in_use)
    }
}

fn an_output_that_was_dropped_costs_nothing(fixture: &Fixture) -> Result<()> {
    let (bytes, before) = (fixture.in_use()?, lazy::statistics());
    drop(fixture.loss()?);
    assert_eq!(fixture.in_use()?, bytes);
    assert_eq!(lazy::statistics().since(&before).programs, 0);
    // Beside a value that is read, the program holds what that needs.
    let kept = fixture.x.sum_all()?;
    drop(fixture.loss()?);
    assert!(fixture.in_use()? < bytes + SMALL);
    kept.item::<f32>().map(|_| ())
}

fn an_evaluation_that_forgot_no_grad_keeps_what_backward_may_ask_for(fixture: &Fixture) -> Result<()> {
    let bytes = fixture.in_use()?;
    let plain = no_grad(|| fixture.loss())?;
    plain.item::<f32>()?;
    assert!(fixture.in_use()? < bytes + SMALL, "without gradients only the loss");
    drop(plain);
    let bytes = fixture.in_use()?;
    let loss = fixture.loss()?;
    loss.item::<f32>()?;
    // Four results of tanh, which are the inputs of the next layers too.
    let held = fixture.in_use()? - bytes;
    assert!((4 * LAYER..4 * LAYER + SMALL).contains(&held), "{held} bytes of {LAYER} each");
    drop(loss);
    assert_eq!(fixture.in_use()?, bytes, "they go with the loss");
    for _ in 0..3 {
        fixture.loss()?.item::<f32>()?;
        assert_eq!(fixture.in_use()?, bytes, "a loop keeps nothing");
    }
    Ok(())
}

fn losses_that_are_kept_hold_no_other_values(fixture: &Fixture) -> Result<()> {
    let mut optimizer = Sgd::new(fixture.model.named_parameters(), SgdOptions::default())?;
    let mut losses = Vec::new();
    let mut step = || -> Result<()> {
        let loss = fixture.loss()?;
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss);
        Ok(())
    };
    step()?;
    let bytes = fixture.in_use()?;
    for _ in 0..8 {
        step()?;
    }
    assert!(fixture.in_use()? < bytes + SMALL);
    assert!(losses.iter().all(|loss| loss.history().is_some()));
    // Read before the backward pass: saved at the first cut, gone after the second.
    let loss = fixture.loss()?;
    loss.item::<f32>()?;
    optimizer.zero_grad();
    let bytes = fixture.in_use()?;
    loss.backward()?;
    optimizer.step()?;
    optimizer.zero_grad();
    let held = bytes - fixture.in_use()?;
    assert!((4 * LAYER - SMALL..=4 * LAYER).contains(&held), "{held} bytes given back");
    drop(loss);
    Ok(())
}

#[test]
fn saved_values_are_in_memory_as_long_as_a_backward_pass_may_come() -> Result<()> {
    let fixture = Fixture::new()?;
    an_output_that_was_dropped_costs_nothing(&fixture)?;
    an_evaluation_that_forgot_no_grad_keeps_what_backward_may_ask_for(&fixture)?;
    losses_that_are_kept_hold_no_other_values(&fixture)
}
