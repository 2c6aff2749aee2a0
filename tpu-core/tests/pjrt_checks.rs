//! Steps of training with checked indices: parameters and moments are updated in place, and a bad index leaves them as they
//! were.
#![allow(clippy::print_stderr, reason = "a test that does not run says so")]

mod pjrt;

use std::sync::Arc;
use tpu_core::ir::Reducer;
use tpu_core::plan::{Compiler, Program};
use tpu_core::runtime::pjrt::{OptionValue, Pjrt, PjrtOptions};
use tpu_core::{DType, Device, ErrorKind, Result, Tensor};

const ROWS: usize = 1024;
const COLUMNS: usize = 128;
/// Of the table, and of each moment.
const BYTES: usize = 4 * ROWS * COLUMNS;

/// What a step of training updates.
struct State {
    table: Tensor,
    momentum: Tensor,
}

impl State {
    fn new() -> Result<Self> {
        let table = Tensor::iota([ROWS, COLUMNS], 0, DType::F32)?.mul(0.25)?;
        let state = Self { table, momentum: Tensor::ones([ROWS, COLUMNS], DType::F32)? };
        state.table.wait()?;
        state.momentum.wait()?;
        Ok(state)
    }

    /// Halves the rows of these tokens, with momentum; gives a loss and something that the tokens do not matter to.
    fn step(&mut self, tokens: &Tensor) -> Result<(Tensor, Tensor)> {
        let rows = self.table.take(tokens, 0)?;
        let loss = rows.square()?.sum_all()?;
        let gradient = self.table.mul(0.0)?.put(tokens, 0, &rows, Some(Reducer::Sum))?;
        // In the same program, as both are computed from it.
        let unguarded = self.momentum.mul(4.0)?;
        let momentum = unguarded.mul(0.125)?.add(&gradient)?;
        let table = self.table.sub(&momentum.mul(0.5)?)?;
        momentum.replaces(&self.momentum);
        table.replaces(&self.table);
        *self = Self { table, momentum };
        Ok((loss, unguarded.i((0, 0))?))
    }

    /// After a step that failed: what there was before.
    fn restore(&mut self) {
        let restored = |value: &Tensor| value.restored().expect("the old value is intact");
        *self = Self { table: restored(&self.table), momentum: restored(&self.momentum) };
    }

    fn values(&self) -> [Vec<f32>; 2] {
        [&self.table, &self.momentum].map(|tensor| tensor.to_vec::<f32>().unwrap())
    }
}

/// Some steps and what is there then. All numbers are exact in float32, so any order of adding gives these.
fn train() -> [Vec<f32>; 2] {
    let mut state = State::new().unwrap();
    for tokens in [[1i64, 5, 9], [5, 5, 1023]] {
        state.step(&Tensor::from_slice(&tokens).unwrap()).unwrap().0.wait().unwrap();
    }
    state.values()
}

#[test]
fn parameters_are_updated_in_place_and_a_bad_index_leaves_them_as_they_were() {
    let host = Device::host().unwrap().scope(train);
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(path) = pjrt::plugin(file) else { continue };
        let client = vec![("cpu_device_count".to_string(), OptionValue::Int(1))];
        let plugin = Pjrt::open(path, &PjrtOptions { client, ..Default::default() }).unwrap();
        let device = Device::open(Arc::new(plugin)).swap_remove(0);
        device.scope(|| {
            assert!(train() == host, "{file}");
            let mut state = State::new().unwrap();
            let good = Tensor::from_slice(&[7i64, 3]).unwrap();
            let bad = Tensor::from_slice(&[7i64, ROWS as i64]).unwrap();
            for round in 0..2 {
                device.reset_peak_memory();
                assert!(device.memory().in_use < 2 * BYTES + BYTES / 10, "{file}");
                state.step(&good).unwrap().0.wait().unwrap();
                let peak = device.memory().peak;
                assert!(
                    peak < 2 * BYTES + BYTES / 10,
                    "{file}, round {round}: {peak} bytes for a state of {}",
                    2 * BYTES
                );
                let before = state.values();
                let (loss, unguarded) = state.step(&bad).unwrap();
                let error = loss.to_vec::<f32>().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Index, "{file}: {error}");
                assert!(error.to_string().contains("at position 1 of the indices"), "{error}");
                assert_eq!(error.location().file().unwrap(), file!());
                assert!(state.table.wait().is_err() && state.momentum.wait().is_err());
                assert_eq!(unguarded.item::<f32>().unwrap(), 4.0 * before[1][0], "{file}");
                state.restore();
                assert!(state.values() == before, "{file}, round {round}");
            }
        });
    }
}

#[test]
fn an_index_out_of_range_in_a_loop_is_found_there_too() {
    for file in [pjrt::CPU, pjrt::OLD_CPU] {
        let Some(path) = pjrt::plugin(file) else { continue };
        let device = Device::pjrt(path).unwrap();
        device.scope(|| {
            let table = Tensor::from_slice(&[2i64, 7, 1]).unwrap();
            let walk = |steps: i64| -> Result<i64> {
                let next = |x: &[Tensor]| Ok(vec![x[2].take(&x[0], 0)?, x[1].sub(1)?, x[2].clone()]);
                let start = [Tensor::scalar(0i64)?, Tensor::scalar(steps)?];
                Tensor::while_loop(&[&start[0], &start[1], &table], |x| x[1].gt(0), next)?[0].item()
            };
            assert_eq!([1, 2, 3].map(|steps| walk(steps).unwrap()), [2, 1, 7]);
            let error = walk(4).unwrap_err();
            assert_eq!((error.kind(), error.op()), (ErrorKind::Index, "while"), "{error}");
        });
    }
}

#[test]
fn googles_compiler_updates_them_in_place_too() {
    let Some(path) = pjrt::plugin(pjrt::TPU) else { return };
    let compiler = Compiler::open(path).unwrap();
    let make = || Ok((State::new()?, Tensor::from_slice(&[7i64, 3])?));
    let programs = Program::record(make, |(state, tokens)| state.step(tokens).map(drop)).unwrap();
    let [program] = &programs[..] else { panic!("{} programs", programs.len()) };
    let plan = compiler.target("v5e:1x1").unwrap().plan(program, &mut |_| {}).unwrap();
    let figures = plan.outcome.as_ref().unwrap();
    assert!(figures.memory.aliased >= 2 * BYTES as u64, "{plan}");
    assert!(figures.memory.outputs - figures.memory.aliased < BYTES as u64 / 100, "{plan}");
}
