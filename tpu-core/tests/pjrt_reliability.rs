//! What holds when a plugin fails in the middle of work, and in whatever order its objects go.

#[path = "pjrt/fakes.rs"]
mod fakes;

use fakes::*;
use std::any::Any;
use std::sync::Arc;
use tpu_core::runtime::{Argument, HostMemory};
use tpu_core::{Device, ErrorKind, Tensor};

/// The `number`-th order of `items`, of as many as there are.
fn order<T>(mut items: Vec<T>, mut number: usize) -> Vec<T> {
    let mut ordered = Vec::new();
    while !items.is_empty() {
        ordered.push(items.remove(number % items.len()));
        number /= items.len() + 1;
    }
    ordered
}

#[test]
fn there_are_24_orders_of_4() {
    let orders: std::collections::HashSet<_> = (0..24).map(|number| order(vec![1, 2, 3, 4], number)).collect();
    assert_eq!(orders.len(), 24);
}

#[test]
fn objects_are_dropped_in_any_order() {
    for number in 0..24 {
        let fake = Fake::new(WORKS);
        let backend = fake.open().unwrap();
        let (program, buffer) = (compile(&backend).unwrap(), upload(&backend).unwrap());
        let mut arguments = [Argument::Shared(buffer.clone()), Argument::Donated(upload(&backend).unwrap())];
        let outcome = program.run(0, &mut arguments).unwrap();
        drop(arguments);
        // A transfer under way is dropped with what it reads.
        let reading = outcome.results[0].start_read(HostMemory::from(vec![0; 8])).unwrap();
        let items: Vec<Box<dyn Any>> =
            vec![Box::new(backend), Box::new(program), Box::new(buffer), Box::new((reading, outcome))];
        order(items, number).into_iter().for_each(drop);
        assert_live_soon(&fake, 0);
    }
}

#[test]
fn a_step_that_fails_takes_nothing_with_it() {
    let cases = [
        (EXECUTE_FAILS, ErrorKind::Execution, "a core melted"),
        (EXECUTE_EVENT_FAILS, ErrorKind::Execution, "lost on the way"),
        (EXECUTE_OUT_OF_MEMORY, ErrorKind::OutOfMemory, "3 GB of 2 GB"),
        (COMPILE_FAILS, ErrorKind::OutOfMemory, "24.00G exceeds"),
        (UPLOAD_FAILS, ErrorKind::OutOfMemory, "full"),
        (UPLOAD_EVENT_FAILS, ErrorKind::Execution, "lost on the way"),
        (DIED, ErrorKind::Execution, "no connection"),
    ];
    for (mode, kind, text) in cases {
        let fake = Fake::new(WORKS);
        let device = Device::open(Arc::new(fake.open().unwrap())).swap_remove(0);
        let on_host = Device::host().unwrap().scope(|| Tensor::from_slice(&[3.0f32, 4.0])).unwrap();
        device.scope(|| {
            let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
            let before = x.add(&x).unwrap();
            before.wait().unwrap();
            fake.fail(mode);
            // The number is uploaded with the run, of a program that was not compiled before.
            let updated = before.sub(&x.mul(2.5).unwrap()).unwrap();
            let error = updated.to_vec::<f32>().unwrap_err();
            assert_eq!(error.location().file().unwrap(), file!());
            assert_error(error, kind, text);
            // What is not on the device is none of its business.
            assert_eq!(on_host.add(&on_host).unwrap().to_vec::<f32>().unwrap(), [6.0, 8.0]);
            if mode == DIED {
                assert_eq!(x.to_vec::<f32>().unwrap_err().kind(), ErrorKind::Execution);
            } else {
                assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
                assert_eq!(before.to_vec::<f32>().unwrap(), [1.0, 2.0]);
            }
            // The failed value stays failed, others go on.
            fake.fail(WORKS);
            assert_eq!(updated.to_vec::<f32>().unwrap_err().kind(), kind);
            assert_eq!(before.to_vec::<f32>().unwrap(), [1.0, 2.0]);
            assert_eq!(x.sub(&before).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
        });
    }
}

#[test]
fn what_a_step_took_before_it_failed_is_lost_and_says_so() {
    for (mode, begins) in [(EXECUTE_FAILS, false), (EXECUTE_EVENT_FAILS, true), (NO_BUFFER, true)] {
        let fake = Fake::new(WORKS);
        let device = Device::open(Arc::new(fake.open().unwrap())).swap_remove(0);
        device.scope(|| {
            let weights = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
            let gradient = Tensor::from_slice(&[3.0f32, 4.0]).unwrap();
            let updated = weights.sub(&gradient).unwrap();
            updated.replaces(&weights);
            drop(weights);
            fake.fail(mode);
            let error = updated.wait().unwrap_err();
            fake.fail(WORKS);
            assert_eq!(error.location().file().unwrap(), file!());
            let lost = error.message().contains("lost with it: 1 values that the program was to overwrite");
            assert_eq!(lost, begins, "{error}");
            match updated.restored() {
                Some(weights) if !begins => assert_eq!(weights.to_vec::<f32>().unwrap(), [1.0, 2.0]),
                restored => assert!(begins && restored.is_none(), "{mode}"),
            }
            // Not donated, as there is a handle.
            assert_eq!(gradient.to_vec::<f32>().unwrap(), [3.0, 4.0]);
        });
    }
}
