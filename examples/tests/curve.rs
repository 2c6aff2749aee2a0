//! PyTorch's training runs, repeated on the host.

#[path = "curve/mod.rs"]
mod recorded;

use recorded::{Recorded, assert_close, assert_same_buffers};

/// Counters of programs are of the whole process, so all of it runs in one test.
#[test]
fn the_loss_of_every_step_is_that_of_pytorch_and_a_step_is_one_program() {
    for (name, fall) in [("gpt", 1.0), ("cnn", 1.0), ("lstm", 1.0), ("resnet", 0.5)] {
        let run = Recorded::load(name);
        let here = run.repeat().expect("training runs");
        assert!(run.losses[0] - run.losses[run.losses.len() - 1] >= fall, "{name}: PyTorch's loss falls clearly");
        assert_close(&here.losses, &run.losses, &format!("in PyTorch ({name})"));
        let steps = here.losses.len() as u64 - 2;
        let done = &here.done;
        assert_eq!((done.programs, done.cache_hits, done.compiles), (steps, steps, 0), "{name}: {done}");
        assert_same_buffers(&here, &run);
    }
}
