//! A step of training is one program, found in the cache from the third step on.

use examples::data::Corpus;
use examples::gpt::{Config, Gpt};
use examples::train::Trainer;
use tpu_core::{DType, Result, lazy};
use tpu_ops::Generator;

#[test]
fn a_step_is_one_program_whether_its_loss_is_read_or_not() {
    let run = || -> Result<()> {
        let config = Config { layers: 1, width: 16, heads: 1, context: 8 };
        let text = Corpus::new((0..=255u8).collect(), config.context)?;
        let mut trainer = Trainer::new(Gpt::new(config, &Generator::new(1))?, DType::F32)?;
        let mut step = |rate: f64| trainer.step(&text.batch(1, trainer.step, 2, config.context)?, rate);
        for _ in 0..3 {
            step(1e-3)?.item::<f32>()?;
        }
        let before = lazy::statistics();
        let mut last = None;
        for at in 0..10 {
            // Another rate is no other program.
            let loss = step(1e-3 / (at + 1) as f64)?;
            if let Some(previous) = last.replace(loss).filter(|_| at % 3 == 0) {
                previous.item::<f32>()?;
            }
        }
        let done = lazy::statistics().since(&before);
        assert_eq!((done.programs, done.cache_hits, done.compiles), (10, 10, 0), "{done}");
        Ok(())
    };
    run().expect("training runs");
}
