//! The host against independent implementations: the plain kernels op by op, f64 mathematics, the reference interpreter.

mod accuracy;
mod assembly;
mod attention;
mod batch;
mod build;
mod control;
mod fusion;
mod memory;
mod models;
mod ops;
mod pairs;
mod scratch;
mod sizes;
mod steady;
mod trace;

use super::kernels::{self, Operand, Target};
use super::pool::{Aligned, Pool};
use super::row::isa::Isa;
use super::scratch::{Memory, Piece};
use super::{Host, HostOptions};
use crate::ir::{Graph, Op, Type, Value};
use crate::runtime::{Argument, Backend, Buffer, CompileOptions, Executable};
use crate::{DType, Element, Result};
use std::sync::Arc;

/// A host with so many threads and this instruction set.
pub(super) fn host(threads: usize, isa: Isa) -> Host {
    Host::with_isa(HostOptions { threads: Some(threads), ..HostOptions::default() }, isa).unwrap()
}

/// Instruction sets that this machine has.
pub(super) fn levels() -> Vec<Isa> {
    [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|&isa| isa <= Isa::available()).collect()
}

/// Numbers whose sums round, and which a 16-bit float rounds.
pub(super) fn roundable(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 10_007) as f32 / 5000.0 - 1.0).collect()
}

/// Numbers that are the same in every run.
pub(super) struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Between −2 and 2.
    pub fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 51) as f64 - 2.0
    }

    /// Bytes of a value: floats between −2 and 2, small integers, truth values.
    pub fn value(&mut self, ty: &Type) -> Vec<u8> {
        let n = ty.shape.elements().unwrap();
        let mut bytes = Vec::new();
        for _ in 0..n {
            let scalar = match ty.dtype {
                DType::Bool => crate::Scalar::Bool(self.next() & 1 == 1),
                DType::Complex64 => crate::Scalar::Complex(self.float(), self.float()),
                dtype if dtype.is_float() => crate::Scalar::Float(self.float()),
                _ => crate::Scalar::Int((self.next() % 7) as i64),
            };
            bytes.extend_from_slice(scalar.to_bytes(ty.dtype).as_slice());
        }
        bytes
    }
}

/// Random arguments of a program.
pub(super) fn arguments(graph: &Graph, seed: u64) -> Vec<Vec<u8>> {
    let mut numbers = Numbers::new(seed);
    graph.parameter_types(graph.main()).map(|ty| numbers.value(ty)).collect()
}

/// Runs a program on a host; results and checks.
pub(super) fn run_with(
    host: &Host,
    graph: &Graph,
    options: CompileOptions,
    arguments: &[Vec<u8>],
) -> Result<(Vec<Vec<u8>>, Vec<i32>)> {
    let executable = host.compile(graph, options)?;
    execute(host, &*executable, graph, arguments)
}

/// Runs an executable.
pub(super) fn execute(
    host: &Host,
    executable: &dyn Executable,
    graph: &Graph,
    arguments: &[Vec<u8>],
) -> Result<(Vec<Vec<u8>>, Vec<i32>)> {
    let types = graph.parameter_types(graph.main());
    let mut arguments: Vec<Argument> = types
        .zip(arguments)
        .map(|(ty, bytes)| host.upload(0, ty, bytes).map(Argument::Shared))
        .collect::<Result<_>>()?;
    let outcome = executable.run(0, &mut arguments)?;
    let results = outcome.results.iter().map(|buffer| read(&**buffer)).collect();
    Ok((results, outcome.checks))
}

pub(super) fn read(buffer: &dyn Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.ty().bytes().unwrap()];
    buffer.read(&mut bytes).unwrap();
    bytes
}

/// Runs a program with default options on the default host.
pub(super) fn run(graph: &Graph, arguments: &[Vec<u8>]) -> Vec<Vec<u8>> {
    run_with(&host(1, Isa::available()), graph, CompileOptions::default(), arguments).unwrap().0
}

/// Runs a program op by op with the plain kernels.
pub(super) fn run_plain(graph: &Graph, arguments: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let pool = Arc::new(Pool::new(None));
    let mut values: Vec<Vec<Aligned>> = graph.nodes.iter().map(|_| Vec::new()).collect();
    for &id in &graph[graph.main()].nodes {
        let node = &graph[id];
        if let Op::Parameter { index, .. } = node.op {
            values[id.0 as usize] = vec![Aligned::copy_of(&arguments[index])];
            continue;
        }
        let mut results: Vec<Aligned> =
            node.types.iter().map(|ty| Aligned::copy_of(&vec![0; ty.bytes().unwrap()])).collect();
        let bytes = |value: Value| {
            let ty = graph.ty(value);
            let memory = &values[value.node.0 as usize][value.result as usize];
            // SAFETY: the memory was made with this many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(memory.at(), ty.bytes().unwrap()) };
            Operand { ty, bytes }
        };
        let operands: Vec<Operand<'_>> = node.operands.iter().map(|&v| bytes(v)).collect();
        let mut targets: Vec<Target<'_>> = results
            .iter_mut()
            .zip(&node.types)
            .map(|(memory, ty)| {
                let n = ty.bytes().unwrap();
                // SAFETY: as above, and borrowed mutably.
                let bytes = unsafe { std::slice::from_raw_parts_mut(memory.reserve(n), n) };
                Target { ty, bytes }
            })
            .collect();
        kernels::run(&node.op, &operands, &mut targets, Memory::new(&pool, &Piece::none()))?;
        drop(targets);
        values[id.0 as usize] = results;
    }
    let result = |&value: &Value| {
        let n = graph.ty(value).bytes().unwrap();
        let memory = &values[value.node.0 as usize][value.result as usize];
        // SAFETY: the memory was made with this many bytes.
        unsafe { std::slice::from_raw_parts(memory.at(), n) }.to_vec()
    };
    Ok(graph[graph.main()].results.iter().map(result).collect())
}

/// Elements of a value as f64, real and imaginary parts one after the other.
pub(super) fn numbers(ty: &Type, bytes: &[u8]) -> Vec<f64> {
    crate::with_element!(ty.dtype, T => T::read_bytes(bytes).into_iter().flat_map(|x| Wide::wide(x)).collect())
}

trait Wide {
    fn wide(self) -> Vec<f64>;
}
macro_rules! wide {
    ($($t:ty: |$x:ident| $e:expr;)*) => {$(
        impl Wide for $t {
            fn wide(self) -> Vec<f64> { let $x = self; $e }
        }
    )*};
}
wide! {
    bool: |x| vec![x as u8 as f64];
    u8: |x| vec![x as f64]; u16: |x| vec![x as f64]; u32: |x| vec![x as f64]; u64: |x| vec![x as f64];
    i8: |x| vec![x as f64]; i16: |x| vec![x as f64]; i32: |x| vec![x as f64]; i64: |x| vec![x as f64];
    half::f16: |x| vec![x.to_f64()]; half::bf16: |x| vec![x.to_f64()];
    f32: |x| vec![x as f64]; f64: |x| vec![x];
    crate::F8E4M3FN: |x| vec![x.to_f32() as f64]; crate::F8E5M2: |x| vec![x.to_f32() as f64];
    crate::Complex64: |x| vec![x.re as f64, x.im as f64];
}

/// Panics unless two values agree: integers and truth values exactly, floats to a few roundings of their dtype, relative to
/// the largest element for sums that cancel.
pub(super) fn assert_close(name: &str, ty: &Type, got: &[u8], want: &[u8]) {
    if !ty.dtype.is_differentiable() {
        assert_eq!(got, want, "{name}: {ty}");
        return;
    }
    // Roundings of the dtype, times a few of them.
    let epsilon = 8.0
        * match ty.dtype {
            DType::F64 => f64::EPSILON,
            DType::F32 | DType::Complex64 => f32::EPSILON as f64,
            DType::F16 => 2f64.powi(-10),
            DType::BF16 => 2f64.powi(-7),
            _ => 2f64.powi(-2),
        };
    let (got, want) = (numbers(ty, got), numbers(ty, want));
    let scale = want.iter().copied().filter(|x| x.is_finite()).fold(0.0, |a: f64, x| a.max(x.abs()));
    for (i, (a, b)) in got.iter().zip(&want).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= epsilon * (b.abs() + 0.1 * scale);
        assert!(same, "{name}: {ty} element {i}: got {a}, want {b}");
    }
}
