//! PyTorch's training run, repeated on the host.

#[path = "curve/mod.rs"]
mod recorded;

use recorded::{Recorded, assert_close};

#[test]
fn the_loss_of_every_step_is_that_of_pytorch() {
    let run = Recorded::load();
    let (losses, _) = run.repeat().expect("training runs");
    let fall = run.losses[0] - run.losses[run.losses.len() - 1];
    assert!(fall >= 1.0, "PyTorch's loss falls by at least a nat");
    assert_close(&losses, &run.losses, "in PyTorch");
}
