//! Programs per step of the usual training loops, and memory over many steps. Counters are of the whole process, so all
//! of it runs in one test.

use tpu_autograd::amp::{LossScaler, LossScalerOptions, autocast};
use tpu_autograd::nn::{Function, Linear, Module, MultiHeadAttention, Sequential, evaluating};
use tpu_autograd::optim::{AdamW, AdamWOptions, Group, Optimizer};
use tpu_autograd::{Backward, clip_grad_norm, no_grad};
use tpu_core::lazy::{self, Statistics};
use tpu_core::{DType, Device, Result, Tensor};
use tpu_ops::Generator;

struct Training {
    model: Sequential,
    optimizer: AdamW,
    x: Tensor,
    y: Tensor,
    generator: Generator,
}

impl Training {
    fn new(seed: u64) -> Result<Self> {
        let generator = Generator::new(seed);
        let model = Sequential::new()
            .push(Linear::new(4, 8, true, DType::F32, &generator)?)
            .push(Function(|x: &Tensor| tpu_ops::gelu(x, tpu_ops::Gelu::Tanh)))
            .push(Linear::new(8, 2, true, DType::F32, &generator)?);
        let optimizer = AdamW::new(model.named_parameters(), AdamWOptions::default())?;
        let x = tpu_ops::uniform([16, 4], -1.0, 1.0, DType::F32, Some(&generator))?;
        let y = tpu_ops::uniform([16, 2], -1.0, 1.0, DType::F32, Some(&generator))?;
        x.wait()?;
        y.wait()?;
        Ok(Self { model, optimizer, x, y, generator })
    }

    fn loss(&self) -> Result<Tensor> {
        // A random mask: its counters are inputs, other ones every step.
        let x = tpu_ops::dropout(&self.x, 0.1, true, Some(&self.generator))?;
        tpu_ops::mse_loss(&self.model.forward(&x)?, &self.y, tpu_ops::Reduction::Mean)
    }

    fn update(&mut self, loss: &Tensor, step: u64) -> Result<()> {
        self.optimizer.set_lr(1e-3 / (1.0 + step as f64))?;
        self.optimizer.zero_grad();
        loss.backward()?;
        self.optimizer.step()
    }
}

/// What a loop does per step after 5 steps of warm-up.
fn measured(steps: u64, mut body: impl FnMut(u64) -> Result<()>) -> Result<Statistics> {
    for step in 0..5 {
        body(step)?;
    }
    lazy::synchronize()?;
    let before = lazy::statistics();
    for step in 5..5 + steps {
        body(step)?;
    }
    lazy::synchronize()?;
    Ok(lazy::statistics().since(&before))
}

/// Resident bytes of the process, where the system says.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

/// Runs 1,000 steps more and asserts that nothing piles up.
fn stays_flat(name: &str, mut body: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let device = Device::current()?;
    // The allocator's own pools fill while threads take turns; then they are full.
    for step in 0..1000 {
        body(step)?;
    }
    device.synchronize()?;
    let (resident_before, live_before) = (resident(), device.memory().in_use);
    for step in 1000..2000 {
        body(step)?;
    }
    device.synchronize()?;
    assert_eq!(device.memory().in_use, live_before, "{name}: bytes in use");
    if let (Some(before), Some(after)) = (resident_before, resident()) {
        // A leak of 4 KiB per step, what a step's histories and handles take, would be 4 MiB.
        assert!(after < before + (2 << 20), "{name}: resident set grew from {before} to {after}");
    }
    Ok(())
}

fn loss_read_after_the_update() -> Result<()> {
    let mut training = Training::new(1)?;
    let mut body = |step| {
        let loss = training.loss()?;
        training.update(&loss, step)?;
        loss.item::<f32>().map(|_| ())
    };
    let done = measured(20, &mut body)?;
    assert_eq!((done.programs, done.cache_misses), (20, 0), "{done}");
    stays_flat("read after the update", body)
}

fn loss_read_before_backward() -> Result<()> {
    let mut training = Training::new(2)?;
    let mut body = |step| {
        let loss = training.loss()?;
        loss.item::<f32>()?;
        training.update(&loss, step)
    };
    let done = measured(20, &mut body)?;
    assert_eq!((done.programs, done.cache_misses), (40, 0), "{done}");
    stays_flat("read before backward", body)
}

fn loss_read_sometimes_or_never() -> Result<()> {
    for every in [7, u64::MAX] {
        let mut training = Training::new(3)?;
        let mut body = |step| {
            let loss = training.loss()?;
            training.update(&loss, step)?;
            if step % every == every - 1 { loss.item::<f32>().map(|_| ()) } else { Ok(()) }
        };
        let done = measured(21, &mut body)?;
        // Steps whose loss nobody holds at the cut are the same program: the loss is dropped only after the step.
        assert_eq!((done.programs, done.cache_misses), (21, 0), "every {every}: {done}");
        stays_flat("read sometimes", body)?;
    }
    Ok(())
}

fn evaluation_now_and_then() -> Result<()> {
    let mut training = Training::new(4)?;
    let mut keys = Vec::new();
    let mut body = |step: u64| {
        let before = lazy::statistics();
        let loss = training.loss()?;
        training.update(&loss, step)?;
        if step % 6 == 5 {
            let held_out = no_grad(|| evaluating(|| training.model.forward(&training.x)?.square()?.mean_all()))?;
            held_out.item::<f32>()?;
        }
        keys.push(lazy::statistics().since(&before).cache_misses);
        Ok(())
    };
    let done = measured(24, &mut body)?;
    assert_eq!(done.programs, 24 + 4, "{done}");
    // The first evaluation is the one key more.
    assert_eq!(done.cache_misses, 1, "{done}");
    stays_flat("evaluation", body)
}

fn groups_with_a_scaler_and_clipping() -> Result<()> {
    let generator = Generator::new(5);
    let attention = MultiHeadAttention::new(8, 2, true, DType::F32, &generator)?;
    let x = tpu_ops::uniform([2, 6, 8], -1.0, 1.0, DType::F32, Some(&generator))?;
    x.wait()?;
    let (matrices, rest) = attention.named_parameters().into_iter().partition(|(_, param)| param.shape().rank() > 1);
    let options = AdamWOptions::default();
    let groups = vec![
        Group { params: matrices, options },
        Group { params: rest, options: AdamWOptions { weight_decay: 0.0, ..options } },
    ];
    let mut optimizer = AdamW::with_groups(groups)?;
    let scaler = LossScaler::new(LossScalerOptions { interval: 7, ..LossScalerOptions::default() })?;
    let body = |step: u64| {
        optimizer.set_lrs(&[1e-3 / (1.0 + step as f64), 1e-4])?;
        optimizer.zero_grad();
        let y = autocast(DType::BF16, || attention.forward(&x))?;
        scaler.scale(&y.to_dtype(DType::F32)?.square()?.mean_all()?)?.backward()?;
        let bad = scaler.unscale(optimizer.params())?;
        clip_grad_norm(&attention.parameters(), 1.0)?;
        scaler.step_unscaled(&mut optimizer, &bad)
    };
    let done = measured(20, body)?;
    assert_eq!((done.programs, done.cache_misses), (20, 0), "{done}");
    Ok(())
}

fn eight_threads() -> Result<()> {
    let run = |seed: u64, steps: u64| -> Result<()> {
        let mut training = Training::new(seed)?;
        for step in 0..steps {
            let loss = training.loss()?;
            training.update(&loss, step)?;
            if step % 3 == 0 {
                loss.item::<f32>()?;
            }
        }
        Ok(())
    };
    // Warm: everything that the threads will do has been done by this one.
    run(10, 5)?;
    lazy::synchronize()?;
    let before = lazy::statistics();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || run(seed, 40))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    lazy::synchronize()?;
    let done = lazy::statistics().since(&before);
    assert_eq!(done.cache_misses, 0, "{done}; {:?}", lazy::compile_causes().last());
    Ok(())
}

#[test]
fn loops_settle_to_the_fewest_programs_and_constant_memory() -> Result<()> {
    loss_read_after_the_update()?;
    loss_read_before_backward()?;
    loss_read_sometimes_or_never()?;
    evaluation_now_and_then()?;
    groups_with_a_scaler_and_clipping()?;
    eight_threads()
}
