//! Loops and branches written as tensors, on the host, in every mode: numbers that mathematics knows.

use tpu_core::{DType, Device, ErrorKind, Mode, Result, Tensor};

/// Runs a test in every mode.
fn in_every_mode(test: impl Fn()) {
    for mode in [Mode::DeferAndFuse, Mode::DeferNever, Mode::DeferNeverAndLaunchBlocking] {
        Device::host().unwrap().scope(|| mode.scope(&test));
    }
}

type Branch<'a> = Box<dyn FnOnce(&[Tensor]) -> Result<Vec<Tensor>> + 'a>;

fn scalar(x: i64) -> Tensor {
    Tensor::scalar(x).unwrap()
}

fn number(x: &Tensor) -> i64 {
    x.to_vec::<i64>().unwrap()[0]
}

#[test]
fn the_ninetieth_fibonacci_number() {
    in_every_mode(|| {
        let rounds = scalar(90);
        let values = Tensor::while_loop(
            &[&scalar(0), &scalar(1), &rounds],
            |x| x[2].gt(0),
            |x| Ok(vec![x[1].clone(), x[0].add(&x[1])?, x[2].sub(1)?]),
        );
        assert_eq!(number(&values.unwrap()[0]), 2_880_067_194_370_816_120);
        assert_eq!(number(&rounds), 90);
    });
}

/// A branch in a loop: from 27 it takes 111 steps down to 1, by way of 9232 (Lagarias, *The 3x + 1 problem*, 1985).
#[test]
fn collatz_from_27() {
    in_every_mode(|| {
        let values = Tensor::while_loop(
            &[&scalar(27), &scalar(0), &scalar(0)],
            |x| x[0].gt(1),
            |x| {
                let odd = x[0].rem(2)?.to_dtype(DType::I32)?;
                let branches: Vec<Branch<'_>> =
                    vec![Box::new(|x| Ok(vec![x[0].div(2)?])), Box::new(|x| Ok(vec![x[0].mul(3)?.add(1)?]))];
                let next = odd.case(&[&x[0]], branches)?.swap_remove(0);
                let highest = next.maximum(&x[2])?;
                Ok(vec![next, x[1].add(1)?, highest])
            },
        );
        let values = values.unwrap();
        assert_eq!([number(&values[0]), number(&values[1]), number(&values[2])], [1, 111, 9232]);
    });
}

/// Newton's iteration for square roots doubles the correct digits: six rounds from 1 are enough for 2 and its neighbours.
#[test]
fn square_roots_by_newton_s_iteration_end_when_nothing_changes() {
    in_every_mode(|| {
        let squares = Tensor::from_slice(&[2.0f64, 3.0, 9.0, 1e6]).unwrap();
        let start = squares.ones_like().unwrap();
        let values = Tensor::while_loop(
            &[&start, &start.zeros_like().unwrap(), &squares],
            |x| x[0].sub(&x[1])?.abs()?.gt(&x[0].mul(1e-15)?)?.to_dtype(DType::I64)?.sum_all()?.gt(0),
            |x| Ok(vec![x[0].add(&x[2].div(&x[0])?)?.mul(0.5)?, x[0].clone(), x[2].clone()]),
        );
        let roots = values.unwrap()[0].to_vec::<f64>().unwrap();
        for (root, square) in roots.iter().zip([2.0f64, 3.0, 9.0, 1e6]) {
            assert!((root - square.sqrt()).abs() <= 2.0 * f64::EPSILON * root, "{root}");
        }
    });
}

#[test]
fn a_branch_out_of_range_is_the_last_one_and_reads_values_that_are_pending() {
    in_every_mode(|| {
        let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap().add(1).unwrap();
        for (index, want) in [(-3, [20.0f32, 30.0]), (0, [4.0, 6.0]), (1, [20.0, 30.0]), (9, [20.0, 30.0])] {
            let branches: Vec<Branch<'_>> =
                vec![Box::new(|x| Ok(vec![x[0].add(&x[0])?])), Box::new(|x| Ok(vec![x[0].mul(10)?]))];
            let y = Tensor::scalar(index).unwrap().case(&[&x], branches).unwrap();
            assert_eq!(y[0].to_vec::<f32>().unwrap(), want, "{index}");
        }
    });
}

/// An index that a loop has computed is checked like any other: what reads by it fails, and nothing else.
#[test]
fn an_index_out_of_a_loop_is_checked_where_it_is_used() {
    Device::host().unwrap().scope(|| {
        let table = Tensor::from_slice(&[1.0f32, 2.0, 3.0]).unwrap();
        let counted = |limit: i64| {
            let values = Tensor::while_loop(&[&scalar(0)], move |x| x[0].lt(limit), |x| Ok(vec![x[0].add(1)?]));
            values.unwrap().swap_remove(0).reshape([1]).unwrap()
        };
        assert_eq!(table.take(&counted(2), 0).unwrap().to_vec::<f32>().unwrap(), [3.0]);
        let (bad, good) = (table.take(&counted(3), 0).unwrap(), table.mul(2).unwrap());
        assert_eq!(bad.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Index);
        assert_eq!(good.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    });
}

/// Follows `table` from element 0 for some steps.
fn walk(table: &Tensor, steps: i64) -> Result<Tensor> {
    let next = |x: &[Tensor]| Ok(vec![x[2].take(&x[0], 0)?, x[1].sub(1)?, x[2].clone()]);
    Ok(Tensor::while_loop(&[&scalar(0), &scalar(steps), table], |x| x[1].gt(0), next)?.swap_remove(0))
}

#[test]
fn an_index_out_of_range_in_a_loop_is_an_error_at_the_loop() {
    in_every_mode(|| {
        let table = Tensor::from_slice(&[2i64, 7, 1]).unwrap();
        assert_eq!([1, 2, 3].map(|steps| number(&walk(&table, steps).unwrap())), [2, 1, 7]);
        // Element 7 is asked for in the fourth round, and whatever comes after it changes nothing.
        for steps in [4, 5, 9] {
            let error = match walk(&table, steps) {
                Ok(end) => end.to_vec::<i64>().unwrap_err(),
                // Where each operation is waited for.
                Err(error) => error,
            };
            assert_eq!(error.kind(), ErrorKind::Index, "{error}");
            assert!(error.to_string().starts_with("while requires indices in range"), "{error}");
            assert!(error.location().file().unwrap().ends_with("control_flow.rs"), "{error}");
        }
        let clamped = tpu_core::lazy::unchecked_indices(|| walk(&table, 4)).unwrap();
        assert_eq!(number(&clamped), 1, "the last element");
        assert_eq!(table.to_vec::<i64>().unwrap(), [2, 7, 1]);
    });
}

#[test]
fn an_index_counts_only_in_the_branch_that_is_taken() {
    in_every_mode(|| {
        let (table, at) = (Tensor::from_slice(&[2i64, 7]).unwrap(), Tensor::from_slice(&[1i64, 5]).unwrap());
        let choose = |branch: i64| -> Result<Vec<i64>> {
            let branches: Vec<Branch<'_>> =
                vec![Box::new(|x| Ok(vec![x[0].take(&x[1], 0)?])), Box::new(|x| Ok(vec![x[0].add(1)?]))];
            Tensor::scalar(branch)?.case(&[&table, &at], branches)?[0].to_vec()
        };
        assert_eq!(choose(1).unwrap(), [3, 8]);
        let error = choose(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Index);
        assert!(error.message().contains("at position 1 of the indices"), "{error}");
        // In a branch in a loop.
        let inner = |x: &[Tensor]| {
            let branches: Vec<Branch<'_>> =
                vec![Box::new(|x| Ok(vec![x[0].take(&x[1], 0)?])), Box::new(|x| Ok(vec![x[0].add(1)?]))];
            let chosen = x[2].rem(2)?.case(&[&x[0], &x[1]], branches)?.swap_remove(0);
            Ok(vec![chosen, x[1].clone(), x[2].add(2)?])
        };
        let run = |first: i64| -> Result<Vec<i64>> {
            Tensor::while_loop(&[&table, &at, &scalar(first)], |x| x[2].lt(6), inner)?[0].to_vec()
        };
        assert_eq!(run(1).unwrap(), [5, 10]);
        assert_eq!(run(0).unwrap_err().kind(), ErrorKind::Index);
    });
}

#[test]
fn a_loop_that_fails_leaves_what_it_was_to_replace() {
    in_every_mode(|| {
        let table = Tensor::from_slice(&[2i64, 7, 1]).unwrap();
        table.wait().unwrap();
        let doubled = |x: &[Tensor]| Ok(vec![x[0].put(&x[1], 0, &x[0].narrow(0, 0, 1)?, None)?, x[1].add(1)?]);
        let start = Tensor::from_slice(&[0i64]).unwrap();
        let looped = Tensor::while_loop(&[&table, &start], |x| x[1].i(0)?.lt(4), doubled);
        // Where each operation is waited for, the error comes at once.
        let Ok(mut values) = looped else { return };
        let new = values.swap_remove(0);
        new.replaces(&table);
        drop(table);
        assert_eq!(new.to_vec::<i64>().unwrap_err().kind(), ErrorKind::Index);
        // The mode that makes a program of each operation has run it before anybody could say what it replaces.
        if Mode::current() == Mode::DeferAndFuse {
            assert_eq!(new.restored().unwrap().to_vec::<i64>().unwrap(), [2, 7, 1]);
        }
    });
}
