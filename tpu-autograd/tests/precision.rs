//! Which precision products are recorded with.

use std::sync::{Arc, Mutex};
use tpu_autograd::{GradOptions, grad, requires_grad};
use tpu_core::ir::{Graph, Op, Type};
use tpu_core::reference::ReferenceBackend;
use tpu_core::runtime::{Backend, Buffer, CompileOptions, Executable, MemoryStats};
use tpu_core::{DType, Device, Precision, Result, Tensor};
use tpu_ops::{Attention, Conv2d, conv2d, einsum, linear, scaled_dot_product_attention};

/// The interpreter, which keeps the precisions of all products that it compiles.
#[derive(Debug, Default)]
struct Listener(Mutex<Vec<Precision>>);

impl Backend for Listener {
    fn name(&self) -> &str {
        "listener"
    }
    fn device_count(&self) -> usize {
        1
    }
    fn generic_in_sizes(&self) -> bool {
        false
    }
    fn supports(&self, op: &Op, operands: &[&Type]) -> Result<()> {
        ReferenceBackend.supports(op, operands)
    }
    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Arc<dyn Executable>> {
        self.0.lock().unwrap().extend(graph.nodes.iter().filter_map(|node| match &node.op {
            Op::DotGeneral(dims) => Some(dims.precision),
            Op::Convolution(dims) => Some(dims.precision),
            _ => None,
        }));
        ReferenceBackend.compile(graph, options)
    }
    fn upload(&self, device: usize, ty: &Type, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        ReferenceBackend.upload(device, ty, bytes)
    }
    fn memory(&self, device: usize) -> MemoryStats {
        ReferenceBackend.memory(device)
    }
    fn reset_peak_memory(&self, device: usize) {
        ReferenceBackend.reset_peak_memory(device);
    }
}

/// Every op that multiplies: seven products of `x [1, 2, 4, 4]`.
fn products(x: &Tensor) -> Result<Tensor> {
    let matrix = x.reshape([8, 4])?;
    let square = matrix.matmul(&x.reshape([4, 8])?)?;
    let layer = linear(&matrix, &matrix, None)?;
    let sum = einsum("ij,kj->ik", &[&matrix, &matrix])?;
    let attended = scaled_dot_product_attention(x, x, x, Attention::default())?;
    let kernel = Tensor::ones([3, 2, 2, 2], DType::F32)?;
    let image = conv2d(x, &kernel, None, Conv2d::default())?;
    let vector = matrix.i(0)?.matmul(&matrix.i(1)?)?;
    let parts = [&square, &layer, &sum, &attended, &image];
    parts.iter().try_fold(vector, |total, part| total.add(&part.sum_all()?))
}

fn recorded(listener: &Listener) -> Vec<Precision> {
    std::mem::take(&mut *listener.0.lock().unwrap())
}

#[test]
fn products_have_the_precision_of_their_scope_and_are_full_outside() -> Result<()> {
    let listener = Arc::new(Listener::default());
    Device::open(listener.clone())[0].scope(|| {
        let x = Tensor::ones([1, 2, 4, 4], DType::F32)?;
        products(&x)?.item::<f32>()?;
        assert_eq!(recorded(&listener), [Precision::Highest; 7]);
        for &precision in Precision::ALL {
            precision.scope(|| products(&x))?.item::<f32>()?;
            // Another precision is another program; the first was compiled above.
            let want = if precision == Precision::Highest { vec![] } else { vec![precision; 7] };
            assert_eq!(recorded(&listener), want);
        }
        let inner = Precision::Default.scope(|| Precision::High.scope(Precision::current));
        assert_eq!(inner, Precision::High);
        Ok(())
    })
}

#[test]
fn a_derivative_has_the_precision_of_its_product_wherever_it_is_taken() -> Result<()> {
    let listener = Arc::new(Listener::default());
    Device::open(listener.clone())[0].scope(|| {
        let x = requires_grad(&Tensor::ones([1, 2, 4, 4], DType::F32)?)?;
        let y = Precision::Default.scope(|| products(&x))?;
        let gradient = grad(&[&y], &[&x], GradOptions::default())?.remove(0);
        gradient.to_vec::<f32>()?;
        let all = recorded(&listener);
        assert!(all.len() > 14 && all.iter().all(|&precision| precision == Precision::Default), "{all:?}");
        Ok(())
    })
}

#[test]
fn the_host_computes_in_full_whatever_the_precision() -> Result<()> {
    // 1 + 2⁻²⁰ is 1 in bfloat16.
    let x = Tensor::full([3, 3], 1.0 + 2f64.powi(-20), DType::F32)?;
    let full = x.matmul(&x)?.to_vec::<f32>()?;
    assert!(full.iter().all(|&sum| sum > 3.0));
    for &precision in Precision::ALL {
        assert_eq!(precision.scope(|| x.matmul(&x))?.to_vec::<f32>()?, full);
    }
    Ok(())
}

#[test]
fn a_composite_is_traced_anew_for_another_precision() {
    let listener = Arc::new(Listener::default());
    let device = Device::open(listener.clone()).remove(0);
    device.scope(|| {
        let x = Tensor::from_vec(vec![1.0f32; 9], [3, 3]).unwrap();
        let square = || {
            let body = |x: &[Tensor]| Ok(vec![x[0].matmul(&x[0])?]);
            Tensor::composite("test.square", Default::default(), &[&x], body).unwrap()[0].to_vec::<f32>().unwrap()
        };
        Precision::Default.scope(square);
        square();
    });
    assert_eq!(*listener.0.lock().unwrap(), [Precision::Default, Precision::Highest]);
}
