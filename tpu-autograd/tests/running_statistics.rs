//! Running statistics are results of the program of a step. Counters are of the whole process, so this is the only test here.

use tpu_autograd::Backward;
use tpu_autograd::nn::{BatchNorm1d, Linear, Module, Sequential};
use tpu_autograd::optim::{Optimizer, Sgd, SgdOptions};
use tpu_core::{DType, Result, Tensor, lazy};

#[test]
fn a_step_with_running_statistics_is_one_program() -> Result<()> {
    let generator = tpu_ops::Generator::new(1);
    let model =
        Sequential::new().push(Linear::new(2, 2, true, DType::F32, &generator)?).push(BatchNorm1d::new(2, DType::F32)?);
    let mut optimizer = Sgd::new(model.named_parameters(), SgdOptions::default())?;
    let mut step = |at: usize| -> Result<()> {
        let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 5.0 + at as f32], [2, 2])?;
        optimizer.zero_grad();
        let loss = model.forward(&x)?.square()?.sum_all()?;
        loss.backward()?;
        optimizer.update(None)?;
        optimizer.zero_grad();
        lazy::mark_step();
        loss.item::<f32>().map(drop)
    };
    (0..3).try_for_each(&mut step)?;
    let before = lazy::statistics();
    (3..10).try_for_each(&mut step)?;
    let done = lazy::statistics().since(&before);
    assert_eq!((done.programs, done.compiles), (7, 0), "{done}");
    Ok(())
}
