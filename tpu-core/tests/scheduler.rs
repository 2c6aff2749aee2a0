//! How recorded operations become programs: how many, with which keys, and what they make real.
//!
//! The counters are those of the process, so these tests run one at a time.

use std::sync::{Mutex, MutexGuard};
use tpu_core::lazy::{self, Cause, Reason, Statistics};
use tpu_core::{DType, Device, ErrorKind, Mode, Result, Tensor};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    lazy::synchronize().unwrap();
    guard
}

/// What happened while `f` ran.
fn during<T>(f: impl FnOnce() -> T) -> (T, Statistics) {
    let before = lazy::statistics();
    let value = f();
    (value, lazy::statistics().since(&before))
}

fn ready(values: &[f32]) -> Tensor {
    Tensor::from_slice(values).unwrap()
}

/// A step as a training loop has it: something that looks like a loss, and new parameters.
fn step(w: &Tensor, x: &Tensor, rate: f64) -> Result<(Tensor, Tensor)> {
    let y = (w * x).tanh()?;
    let loss = y.square()?.mean_all()?;
    let gradient = &y * x;
    Ok((loss, w - gradient * rate))
}

#[test]
fn a_loop_that_marks_its_steps_is_one_cached_program_per_step() {
    let _alone = alone();
    let (x, mut w) = (ready(&[0.5; 64]), ready(&[0.25; 64]));
    for (name, every) in [("reads every loss", 1), ("reads every 7th loss", 7), ("never reads", usize::MAX)] {
        let mut run = |steps: usize| {
            for i in 0..steps {
                // Another rate every step: a number is an input, not a constant.
                let (loss, new) = step(&w, &x, 0.1 / (i + 1) as f64).unwrap();
                w = new;
                lazy::mark_step();
                if i % every == 0 && every != usize::MAX {
                    loss.item::<f32>().unwrap();
                }
            }
        };
        run(3);
        let ((), done) = during(|| run(50));
        assert_eq!((done.programs, done.cache_misses), (50, 0), "{name}: {done}");
        assert_eq!(done.cuts_by(Reason::MarkStep), 50, "{name}");
    }
}

#[test]
fn a_loss_read_in_the_middle_of_a_step_makes_it_two_programs() {
    let _alone = alone();
    let (x, mut w) = (ready(&[0.5; 64]), ready(&[0.25; 64]));
    let mut run = |steps: usize| {
        for _ in 0..steps {
            let y = (&w * &x).tanh().unwrap();
            y.square().unwrap().mean_all().unwrap().item::<f32>().unwrap();
            w = &w - &y * &x * 0.1;
            lazy::mark_step();
        }
    };
    run(3);
    let ((), done) = during(|| run(20));
    assert_eq!((done.programs, done.cache_misses), (40, 0), "{done}");
}

#[test]
fn a_loop_that_neither_reads_nor_marks_is_cut_where_it_recurs() {
    let _alone = alone();
    let old = lazy::limits();
    lazy::set_limits(lazy::Limits { nodes: 500, ..old });
    let (x, mut w) = (ready(&[0.5; 64]), ready(&[0.25; 64]));
    let mut run = |steps: usize| {
        for _ in 0..steps {
            w = step(&w, &x, 0.1).unwrap().1;
        }
    };
    run(400);
    let ((), done) = during(|| run(1000));
    lazy::set_limits(old);
    lazy::synchronize().unwrap();
    assert_eq!(done.cache_misses, 0, "{done}");
    assert!(done.programs >= 10 && done.cuts_by(Reason::SizeLimit) == done.programs, "{done}");
}

#[test]
fn evaluation_in_between_is_one_more_program() {
    let _alone = alone();
    let (x, mut w) = (ready(&[0.5; 48]), ready(&[0.25; 48]));
    let mut run = |steps: usize| {
        for i in 0..steps {
            w = step(&w, &x, 0.1).unwrap().1;
            lazy::mark_step();
            if i % 10 == 9 {
                (&w * &x).tanh().unwrap().sum_all().unwrap().item::<f32>().unwrap();
            }
        }
    };
    let ((), warm) = during(|| run(20));
    assert!(warm.cache_misses <= 3, "{warm}");
    let ((), done) = during(|| run(50));
    assert_eq!((done.programs, done.cache_misses), (55, 0), "{done}");
}

#[test]
fn eight_unsynchronised_threads_make_no_new_programs_once_warm() {
    let _alone = alone();
    let shared = ready(&[0.5; 32]);
    let work = |steps: usize| {
        let mut w = ready(&[0.25; 32]);
        for i in 0..steps {
            let (loss, new) = step(&w, &shared, 0.1).unwrap();
            w = new;
            lazy::mark_step();
            if i % 3 == 0 {
                loss.item::<f32>().unwrap();
            }
        }
        w.to_vec::<f32>().unwrap()
    };
    let alone = work(30);
    let (all, done) = during(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| work(30))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(done.cache_misses, 0, "{done}");
    assert!(all.iter().all(|result| *result == alone));
}

#[test]
fn values_cross_threads_while_pending() {
    let _alone = alone();
    let pending = ready(&[1.0, 2.0]) + 1.0;
    let sum = std::thread::spawn(move || (&pending * 10.0).to_vec::<f32>()).join().unwrap().unwrap();
    assert_eq!(sum, [20.0, 30.0]);
}

#[test]
fn values_without_a_handle_are_not_computed() {
    let _alone = alone();
    let x = ready(&[1.0; 16]);
    let ((), done) = during(|| {
        for _ in 0..100 {
            drop(&x + 1.0);
        }
        lazy::mark_step();
    });
    assert_eq!((done.recorded, done.programs), (100, 0));
    assert_eq!(lazy::pending(), 0);
}

#[test]
fn independent_operations_are_programs_of_their_own() {
    let _alone = alone();
    let (a, b) = (ready(&[1.0; 3]) + 1.0, ready(&[2.0; 5]) * 2.0);
    let (_, done) = during(|| a.to_vec::<f32>().unwrap());
    assert_eq!(done.programs, 1);
    assert_eq!(lazy::pending(), 1, "b has nothing to do with a");
    assert_eq!(b.to_vec::<f32>().unwrap(), [4.0; 5]);
}

#[test]
fn a_million_operations_are_recorded_cut_and_dropped_on_a_small_stack() {
    let _alone = alone();
    let old = lazy::limits();
    lazy::set_limits(lazy::Limits { nodes: usize::MAX, ..old });
    let run = || {
        // Cut as one program.
        let mut x = ready(&[0.0]);
        for _ in 0..1_000_000 {
            x = x + 1.0;
        }
        assert_eq!(x.item::<f32>().unwrap(), 1e6);
        // Dropped without being cut.
        for _ in 0..1_000_000 {
            x = x + 1.0;
        }
        drop(x);
        assert_eq!(lazy::pending(), 0);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
    lazy::set_limits(old);
    Device::host().unwrap().clear_program_cache();
}

#[test]
fn a_broadcast_to_the_sky_costs_nothing_until_it_is_read() {
    let _alone = alone();
    let x = ready(&[1.0, 2.0]);
    let wide = x.broadcast_to([1 << 59, 2]).unwrap();
    // Cut together with something it is connected to.
    let y = &x + 1.0;
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    assert_eq!(wide.i((7, 1)).unwrap().item::<f32>().unwrap(), 2.0);
    let error = wide.to_vec::<f32>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!((&x * 2.0).to_vec::<f32>().unwrap(), [2.0, 4.0], "what it came from is as it was");
}

#[test]
fn a_new_batch_size_is_planned_not_compiled() {
    let _alone = alone();
    Device::host().unwrap().clear_program_cache();
    let run = |rows: usize| {
        let x = Tensor::from_vec(vec![1.0f32; rows * 6], [rows, 6]).unwrap();
        let y = (&x + 1.0).sum([-1], true).unwrap();
        (&x - y).to_vec::<f32>().unwrap()
    };
    run(10);
    let (values, done) = during(|| run(20));
    assert_eq!((done.cache_misses, done.compiles, done.resizes), (1, 0, 1), "{done}");
    assert_eq!(values, vec![-11.0; 120]);
    let cause = lazy::compile_causes().pop().unwrap();
    assert!(matches!(&cause, Cause::Input { number: 0, .. }), "{cause}");
    assert_eq!(cause.to_string(), "shape of input 0 changed from [10, 6] to [20, 6]");
}

#[test]
fn a_compile_for_other_sizes_names_the_fact_that_does_not_hold() {
    let _alone = alone();
    Device::host().unwrap().clear_program_cache();
    let run = |rows: usize| {
        let x = Tensor::from_vec(vec![1.0f64; 30 * rows], [30, rows]).unwrap();
        let w = Tensor::from_vec(vec![1.0f64; 30 * 40], [30, 40]).unwrap();
        assert_eq!(x.t().unwrap().matmul(&w).unwrap().to_vec::<f64>().unwrap(), vec![30.0; rows * 40]);
    };
    run(50);
    // At most 256 results in f64 are summed in an order of their own.
    let ((), done) = during(|| run(5));
    assert_eq!((done.compiles, done.resizes), (1, 0), "{done}");
    let cause = lazy::compile_causes().pop().unwrap();
    assert!(matches!(cause, Cause::Sizes { .. }), "{cause}");
    let fact = "256 < 2000 was true, 256 < 200 is false";
    assert_eq!(cause.to_string(), format!("the executable for other sizes does not serve these: {fact}"));
    // What was compiled for each answer serves all sizes with that answer.
    for rows in [60, 4] {
        let ((), done) = during(|| run(rows));
        assert_eq!((done.compiles, done.resizes), (0, 1), "{rows} rows: {done}");
    }
}

#[test]
fn the_cause_of_a_compile_names_what_changed() {
    let _alone = alone();
    let run = |dtype: DType, cut: usize| {
        let x = ready(&[1.0; 20]).to_dtype(dtype).unwrap();
        x.wait().unwrap();
        x.narrow(0, 0, 20 - cut).unwrap().narrow(0, cut, 2).unwrap().cumsum(0).unwrap().wait().unwrap();
        lazy::compile_causes().pop().unwrap().to_string()
    };
    // No number is equal to another one, so that what was compiled for one cut serves the other.
    run(DType::F32, 5);
    assert_eq!(run(DType::F64, 5), "dtype of input 0 changed from float32 to float64");
    assert_eq!(run(DType::F64, 6), "an attribute of slice changed");
}

#[test]
fn the_cache_forgets_the_least_recently_used_beyond_its_bound() {
    let _alone = alone();
    let device = Device::host().unwrap();
    device.clear_program_cache();
    device.set_program_cache_bound(3);
    let run = |n: usize| ready(&vec![1.0; n]).add(1.0).unwrap().wait().unwrap();
    let ((), done) = during(|| {
        for n in [2, 3, 4, 2, 5] {
            run(n);
        }
        // 3 was the oldest; 2, 4 and 5 are there.
        for n in [2, 4, 5] {
            run(n);
        }
    });
    device.set_program_cache_bound(1024);
    assert_eq!((done.evictions, done.cache_misses, device.cached_programs()), (1, 4, 3), "{done}");
}

#[test]
fn modes_give_the_same_bits_and_each_operation_its_program() {
    let _alone = alone();
    let run = || {
        let x = Tensor::iota([4, 5], 1, DType::F32).unwrap();
        let y = (&x * 0.37).exp().unwrap().sum([0], false).unwrap();
        (x / y.sqrt().unwrap()).to_vec::<f32>().unwrap()
    };
    let fused = run();
    for mode in [Mode::DeferNever, Mode::DeferNeverAndLaunchBlocking] {
        let (values, done) = during(|| mode.scope(run));
        assert_eq!(values, fused, "{mode:?}");
        assert_eq!(done.cuts_by(Reason::EveryOperation), 5, "{mode:?}: mul, exp, sum, sqrt, div");
    }
}

#[test]
fn only_what_depends_on_a_bad_index_fails() {
    let _alone = alone();
    for mode in [Mode::DeferAndFuse, Mode::DeferNever] {
        mode.scope(|| {
            let table = ready(&[1.0, 2.0, 3.0]);
            let line = line!() + 1;
            let bad = table.take(&Tensor::from_slice(&[0i64, 2, 7]).unwrap(), 0).unwrap();
            let (depends, free) = (&bad * 0.0, &table + 1.0);
            let mixed = &depends + &free;
            let error = mixed.to_vec::<f32>().unwrap_err();
            assert_eq!((error.kind(), error.op()), (ErrorKind::Index, "gather"));
            assert!(error.to_string().contains("position 2"), "{error}");
            assert_eq!(error.location().line(), Some(line), "{mode:?}");
            assert_eq!(free.to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0], "{mode:?}");
            // Operations on a failed value fail with the first error, others of the same program do not.
            let (later, fine) = (&bad + 1.0, &table * 2.0);
            let together = &later + &fine;
            assert_eq!(together.to_vec::<f32>().unwrap_err().to_string(), error.to_string());
            assert_eq!(fine.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        });
    }
    let error = Mode::DeferNeverAndLaunchBlocking.scope(|| ready(&[1.0]).take(&Tensor::from_slice(&[1u8]).unwrap(), 0));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Index, "surfaces at the call");
}

#[test]
fn a_cached_program_reports_todays_line() {
    let _alone = alone();
    let look = |index: i64, at: &mut u32| {
        let indices = Tensor::from_slice(&[index]).unwrap();
        let table = ready(&[1.0, 2.0]);
        *at = line!() + 1;
        let first = table.take(&indices, 0);
        first.unwrap().to_vec::<f32>()
    };
    let mut line = 0;
    look(1, &mut line).unwrap();
    assert_eq!(look(5, &mut line).unwrap_err().location().line(), Some(line));
    let elsewhere = ready(&[1.0, 2.0]).take(&Tensor::from_slice(&[-3i64]).unwrap(), 0).unwrap();
    let here = line!() - 1;
    assert_eq!(elsewhere.to_vec::<f32>().unwrap_err().location().line(), Some(here));
}

#[test]
fn unchecked_indices_clamp() {
    let _alone = alone();
    let x = ready(&[1.0, 2.0]);
    let y = lazy::unchecked_indices(|| x.take(&Tensor::from_slice(&[9i64, -9]).unwrap(), 0).unwrap());
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 1.0]);
}

#[test]
fn a_failed_step_leaves_what_it_would_have_overwritten() {
    let _alone = alone();
    for mode in [Mode::DeferAndFuse, Mode::DeferNever] {
        mode.scope(|| {
            let mut w = ready(&[1.0, 2.0, 3.0]) + 0.0;
            lazy::mark_step();
            for indices in [[0i64, 1, 2], [0, 1, 3], [2, 1, 0]] {
                let picked = w.take(&Tensor::from_slice(&indices).unwrap(), 0).unwrap();
                let new = &w + picked;
                new.replaces(&w);
                w = new;
                lazy::mark_step();
            }
            lazy::synchronize().unwrap();
            assert_eq!(w.error().unwrap().kind(), ErrorKind::Index);
            // The first step worked, the second failed, the third failed with it.
            assert_eq!(w.restored().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0], "{mode:?}");
        });
    }
}

#[test]
fn tracing_rejects_tensors_from_outside() {
    let _alone = alone();
    let (x, outside) = (ready(&[1.0]), ready(&[2.0]));
    let result = Tensor::composite("test.leak", Default::default(), &[&x], |x| Ok(vec![x[0].add(&outside)?]));
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Value);
    assert_eq!((&x + &outside).item::<f32>().unwrap(), 3.0, "recording goes on");
}

#[test]
fn composites_are_one_node_with_the_bits_of_their_body() {
    let _alone = alone();
    let x = ready(&[0.5, -1.5, 2.0]);
    let body = |x: &Tensor| x.exp()?.div(&x.exp()?.sum([-1], true)?);
    let (outcome, done) =
        during(|| Tensor::composite("test.softmax", Default::default(), &[&x], |x| Ok(vec![body(&x[0])?])));
    assert_eq!(done.recorded, 1);
    assert_eq!(outcome.unwrap()[0].to_vec::<f32>().unwrap(), body(&x).unwrap().to_vec::<f32>().unwrap());
}

/// Bytes of memory that this process holds.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn memory_does_not_grow_over_a_thousand_steps() {
    let _alone = alone();
    let x = ready(&vec![0.5; 50_000]);
    let mut w = ready(&vec![0.25; 50_000]);
    let mut run = |steps: usize, read: bool| {
        for i in 0..steps {
            let (loss, new) = step(&w, &x, 0.1 / (i + 1) as f64).unwrap();
            w = new;
            lazy::mark_step();
            if read {
                loss.item::<f32>().unwrap();
            }
        }
        lazy::synchronize().unwrap();
        (resident(), Device::host().unwrap().memory().in_use)
    };
    for read in [true, false] {
        let warm = run(100, read);
        let done = run(1000, read);
        assert_eq!(done.1, warm.1, "buffers in use");
        // One buffer is 200 kB: a leak of one a step would be 200 MB.
        assert!(done.0 < warm.0 + (8 << 20), "resident grew from {} to {}", warm.0, done.0);
    }
}

#[test]
fn a_value_that_nobody_else_holds_is_overwritten_by_its_successor() {
    let _alone = alone();
    const BYTES: usize = 4 << 20;
    let device = Device::host().unwrap();
    let mut w = Tensor::ones([BYTES / 4], DType::F32).unwrap();
    let step = |w: &Tensor| -> Result<(Tensor, Tensor)> { Ok((w.mean_all()?, w * 0.5 + 1.0)) };
    let run = |steps: usize, w: &mut Tensor| {
        for _ in 0..steps {
            let (loss, next) = step(w).unwrap();
            *w = next;
            lazy::mark_step();
            // Read at once, so that the next step is cut while this program's thread still lets go of what it had.
            loss.item::<f32>().unwrap();
        }
        lazy::synchronize().unwrap();
    };
    run(3, &mut w);
    device.reset_peak_memory();
    let before = device.memory().in_use;
    run(200, &mut w);
    let memory = device.memory();
    assert_eq!(memory.in_use, before);
    assert!(memory.peak - before < BYTES / 2, "{memory:?}: some step had the old and the new value");
    // With another handle, the old value stays.
    let old = w.clone();
    run(1, &mut w);
    assert!(device.memory().peak - before >= BYTES);
    assert_eq!(old.i(0).unwrap().item::<f32>().unwrap(), 2.0, "the fixed point of x / 2 + 1");
}

#[test]
fn a_forked_child_gets_an_error_instead_of_a_hang() {
    let _alone = alone();
    let value = ready(&[1.0, 2.0]);
    (&value + 1.0).to_vec::<f32>().unwrap();
    let pending = &value * 2.0;
    // SAFETY: the child runs only the code below and leaves with `_exit`, so no destructor or exit handler runs twice.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |result: Result<Vec<f32>>| matches!(result, Err(error) if error.kind() == ErrorKind::Device);
        let code = if refused(pending.to_vec()) && Tensor::from_slice(&[1.0f32]).is_err() { 0 } else { 1 };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process; `status` outlives the call.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert_eq!(pending.to_vec::<f32>().unwrap(), [2.0, 4.0], "the parent goes on");
}

#[test]
fn the_process_ends_with_work_pending() {
    if std::env::var_os("TPU_TEST_EXIT").is_some() {
        // Queued, running and recorded work, and nobody who waits for it.
        let mut x = Tensor::ones([512, 512], DType::F32).unwrap();
        for _ in 0..8 {
            x = x.matmul(&x).unwrap() * 0.001;
            lazy::mark_step();
        }
        let _pending = &x + 1.0;
        std::process::exit(0);
    }
    let this = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(this)
        .args(["--exact", "the_process_ends_with_work_pending"])
        .env("TPU_TEST_EXIT", "1")
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn synchronize_looks_at_each_pending_operation_a_bounded_number_of_times() {
    let _alone = alone();
    let old = lazy::limits();
    lazy::set_limits(lazy::Limits { nodes: usize::MAX, ..old });
    const COUNT: usize = 20_000;
    let x = ready(&[1.0, 2.0]);
    let (sums, done) = during(|| {
        // A component each, every fourth of two operations; and broadcasts, which stay pending.
        let sums: Vec<Tensor> = (0..COUNT)
            .map(|i| match i % 4 {
                0 => (&x + i as f64).exp().unwrap(),
                1 => Tensor::full([2], i as f64, DType::F32).unwrap(),
                _ => &x + i as f64,
            })
            .collect();
        lazy::synchronize().unwrap();
        sums
    });
    lazy::set_limits(old);
    assert_eq!(done.cuts_by(Reason::Synchronize), 3 * COUNT as u64 / 4, "{done}");
    assert!(done.visited <= 2 * done.recorded, "{} visits of {} operations", done.visited, done.recorded);
    // Nothing was left behind: reading makes no new program, but for the broadcasts.
    let ((), read) = during(|| {
        for (i, sum) in sums.iter().enumerate().filter(|(i, _)| i % 4 != 1) {
            let plain = [1.0 + i as f32, 2.0 + i as f32];
            let want = if i % 4 == 0 { None } else { Some(plain) };
            let got = sum.to_vec::<f32>().unwrap();
            assert!(want.is_none_or(|want| got == want), "{i}: {got:?}");
        }
    });
    assert_eq!(read.programs, 0, "{read}");
    assert_eq!(sums[1].to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn synchronize_keeps_what_is_connected_in_one_program() {
    let _alone = alone();
    let (x, y) = (ready(&[1.0, 2.0]), ready(&[3.0, 4.0]));
    // Joined last, from the youngest to the oldest: the way up to a component's representative is long.
    let (sum, done) = during(|| {
        let parts: Vec<Tensor> = (0..500).map(|i| if i % 2 == 0 { &x + i as f64 } else { &y * i as f64 }).collect();
        let sum = parts.iter().rev().skip(1).fold(parts[499].clone(), |sum, part| sum + part);
        lazy::synchronize().unwrap();
        sum
    });
    assert_eq!((done.programs, done.cuts_by(Reason::Synchronize)), (1, 1), "{done}");
    // Σ (1 + i) over even i and Σ 3 i over odd i below 500; every partial sum is below 2²⁴, so exact.
    let (even, odd) = (249.0 * 250.0, 250.0 * 250.0);
    assert_eq!(sum.to_vec::<f32>().unwrap(), [250.0 + even + 3.0 * odd, 500.0 + even + 4.0 * odd]);
}
