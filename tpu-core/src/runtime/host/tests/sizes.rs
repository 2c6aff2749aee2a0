//! Programs for other sizes: made from what was compiled, and the same as compiled from nothing.

use super::build::Build;
use super::*;
use crate::Literal;
use crate::ir::{Axes, BlockId, Reducer, verify::verify};
use crate::runtime::host::compile;
use crate::testing::cases;
use crate::testing::graphs::{Config, generate};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;

/// Elements of a value at most: some kernels are slow.
const ELEMENTS: usize = 4096;

/// Another vector of sizes: `of` says what each prime factor becomes, so that products of sizes stay products of sizes; sums,
/// such as those of concatenations, follow by the shape rules.
struct Change {
    of: fn(usize) -> usize,
    /// What became of sizes so far.
    known: HashMap<usize, usize>,
}

impl Change {
    fn size(&self, old: usize) -> usize {
        if old < 2 {
            return old;
        }
        self.known.get(&old).copied().unwrap_or_else(|| {
            let prime = (2..=old).find(|&prime| old.is_multiple_of(prime)).unwrap();
            (self.of)(prime) * self.size(old / prime)
        })
    }

    fn shape(&self, shape: &crate::Shape) -> crate::Shape {
        shape.sizes().iter().map(|&size| self.size(size)).collect()
    }

    /// The program with other sizes, if there is one.
    fn graph(&mut self, old: &Graph) -> Option<Graph> {
        let mut new = Graph::new();
        let (main, mut renamed) = (new.main(), HashMap::new());
        for &id in &old[old.main()].nodes {
            let node = &old[id];
            let operands: Vec<Value> =
                node.operands.iter().map(|v| Value { result: v.result, ..Value::from(renamed[&v.node]) }).collect();
            let mut op = node.op.clone();
            if let Op::Parameter { ty, .. } = &op {
                let ty = Type::new(ty.dtype, self.shape(&ty.shape));
                if ty.shape.elements()? > ELEMENTS {
                    return None;
                }
                let value = new.parameter(main, ty);
                renamed.insert(id, value.node);
                continue;
            }
            let mut blocks = Vec::new();
            for block in op.blocks() {
                let inner = self.graph(&old.program_of(block))?;
                blocks.push(new.import(&inner));
            }
            let mut blocks = blocks.into_iter();
            op.map_blocks(|block: BlockId| blocks.next().unwrap_or(block));
            let operand = |at: usize| (old.ty(node.operands[at]), new.ty(operands[at]));
            match &mut op {
                Op::Constant(literal) => {
                    if let Ok(repeated) = Literal::repeat(literal.dtype(), self.shape(literal.shape()), literal.bytes())
                    {
                        *literal = repeated.into();
                    }
                }
                Op::Iota { shape, .. } | Op::BroadcastInDim { shape, .. } => *shape = self.shape(shape),
                Op::Reshape(shape) | Op::RngBits(shape) => *shape = self.shape(shape),
                Op::Slice { start, limit, strides } => {
                    let (was, is) = operand(0);
                    for axis in 0..start.len() {
                        // What ends with the axis does so still.
                        let (was, is) = (was.shape.size(axis), is.shape.size(axis));
                        limit[axis] = if limit[axis] == was { is } else { limit[axis].min(is) };
                        start[axis] = start[axis].min(limit[axis]);
                        strides[axis] = strides[axis].max(1);
                    }
                }
                Op::DynamicSlice { sizes } => {
                    let (was, is) = operand(0);
                    for (axis, size) in sizes.iter_mut().enumerate() {
                        let (was, is) = (was.shape.size(axis), is.shape.size(axis));
                        *size = if *size == was { is } else { (*size).min(is) };
                    }
                }
                Op::Fft { lengths, .. } => lengths.iter_mut().for_each(|length| *length = self.size(*length)),
                Op::TopK { k, .. } => *k = self.size(*k).min(operand(0).1.shape.sizes().last().copied()?),
                _ => {}
            }
            let made = new.push(main, op, &operands).ok()?;
            for (was, is) in node.types.iter().zip(&new[made].types) {
                if is.shape.elements()? > ELEMENTS {
                    return None;
                }
                self.known.extend(was.shape.sizes().iter().copied().zip(is.shape.sizes().iter().copied()));
            }
            renamed.insert(id, made);
        }
        let rename = |v: &Value| Value { result: v.result, ..Value::from(renamed[&v.node]) };
        new.set_results(main, old[old.main()].results.iter().map(rename).collect());
        Some(new)
    }
}

/// Asserts that what is made for the sizes of `new` from what was compiled for `old`, if anything is, is what is compiled for them
/// from nothing: kernel by kernel, byte by byte of the memory plan, and in the bits of the results. Says whether it was made.
fn assert_same(old: &Graph, new: &Graph, values: &[Vec<u8>]) -> bool {
    let (options, isa) = (CompileOptions::default(), Isa::available());
    let (template, _) = compile::compile(old, options, isa, true).unwrap();
    let Ok(made) = template.at(new, true).unwrap() else { return false };
    let (_, fresh) = compile::compile(new, options, isa, true).unwrap();
    assert_eq!(made.description, fresh.description, "{old:#?}\n{new:#?}");
    assert_eq!(made.listing(), fresh.listing());
    let host = host(1, isa);
    let resized = host.compile(old, options).unwrap().resize(new).unwrap();
    assert!(resized.compiled.is_none());
    let got = execute(&host, &*resized.executable, new, values).map_err(|error| error.kind());
    let want = run_with(&host, new, options, values).map_err(|error| error.kind());
    assert_eq!(got, want, "{old:#?}\n{new:#?}");
    true
}

#[test]
fn random_programs_with_other_sizes_are_what_they_are_compiled_from_nothing() {
    let changes: [fn(usize) -> usize; 3] = [
        // Small primes are exchanged: 16 becomes 81, 3 becomes 2.
        |prime| match prime {
            2 => 3,
            3 => 2,
            5 => 7,
            7 => 5,
            prime => prime,
        },
        |prime| if prime == 3 { 11 } else { prime },
        |prime| if prime == 2 { 13 } else { prime },
    ];
    let (changed, made) = (Cell::new(0), Cell::new(0));
    let config = ProptestConfig {
        cases: cases(300),
        failure_persistence: None,
        max_shrink_iters: 0,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x512e),
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    let tried = runner.run(&bytes, |bytes| {
        let (old, given) = generate(&bytes, &Config::default());
        for of in changes {
            let Some(new) = (Change { of, known: HashMap::new() }).graph(&old) else { continue };
            if new == old || verify(&new).is_err() {
                continue;
            }
            changed.set(changed.get() + 1);
            // Numbers of rounds and the like are what they are.
            let mut values = arguments(&new, 3);
            for ((value, given), ty) in values.iter_mut().zip(&given).zip(new.parameter_types(new.main())) {
                if given.ty() == ty {
                    *value = given.bytes().to_vec();
                }
            }
            made.set(made.get() + assert_same(&old, &new, &values) as u32);
        }
        Ok(())
    });
    tried.unwrap();
    // Most programs have other sizes at all, and small sizes are where decisions change; but many are as they were.
    let (changed, made) = (changed.get(), made.get());
    assert!(changed > cases(300) / 2 && 3 * made > changed, "{made} of {changed}");
}

/// A layer of a network and its norm for so many rows: `mean((x w + b)²)` by row, and what it is of all.
fn layer(rows: usize) -> Graph {
    let mut b = Build::new();
    let (x, w, c) = (b.input(DType::F32, &[rows, 3, 20]), b.input(DType::F32, &[20, 48]), b.input(DType::F32, &[48]));
    let flat = b.op(Op::Reshape([rows * 3, 20].into()), &[x]);
    let y = b.matmul(flat, w);
    let y = b.add(y, c);
    let square = b.mul(y, y);
    let mean = b.mean(square);
    let y = b.div(y, mean);
    let y = b.op(Op::Reshape([rows, 3, 48].into()), &[y]);
    let turned = b.transpose(y, &[1, 0, 2]);
    let all = b.op(Op::Reduce { kind: Reducer::Sum, axes: Axes::from_slice(&[0, 1]) }, &[turned]);
    // A constant that follows from sizes.
    let all = b.scale(all, 1.0 / (rows * 3) as f64);
    b.done(&[turned, all])
}

#[test]
fn a_layer_is_made_for_any_batch_between_those_where_decisions_change() {
    for rows in [7, 8, 64, 1000] {
        let new = layer(rows);
        assert!(assert_same(&layer(10), &new, &arguments(&new, 3)), "{rows} rows");
    }
    // One row is a case of its own.
    let resized = host(1, Isa::available()).compile(&layer(10), CompileOptions::default()).unwrap().resize(&layer(1));
    assert!(resized.unwrap().compiled.is_some());
}

#[test]
fn what_was_compiled_for_other_facts_is_kept_beside_what_was_there() {
    let host = host(1, Isa::available());
    let product = |rows: usize| {
        let mut b = Build::new();
        // Of f64, of which small products are of another kind.
        let (x, w) = (b.input(DType::F64, &[30, rows]), b.input(DType::F64, &[30, 40]));
        let x = b.transpose(x, &[1, 0]);
        let y = b.matmul(x, w);
        b.done(&[y])
    };
    let first = host.compile(&product(50), CompileOptions::default()).unwrap();
    let second = first.resize(&product(5)).unwrap();
    assert_eq!(second.compiled.as_deref(), Some("256 < 2000 was true, 256 < 200 is false"));
    // Whichever of the two it is asked of.
    for executable in [first, second.executable] {
        for rows in [60, 4, 70, 3] {
            let resized = executable.resize(&product(rows)).unwrap();
            assert_eq!(resized.compiled, None, "{rows} rows");
            let values = arguments(&product(rows), 5);
            let got = execute(&host, &*resized.executable, &product(rows), &values).unwrap().0;
            assert_eq!(got, run(&product(rows), &values));
        }
    }
}

#[test]
fn another_program_is_compiled() {
    let host = host(1, Isa::available());
    let mut b = Build::new();
    let x = b.input(DType::F32, &[6]);
    let y = b.add(x, x);
    let other = b.done(&[y]);
    let resized = host.compile(&layer(4), CompileOptions::default()).unwrap().resize(&other).unwrap();
    assert_eq!(resized.compiled.as_deref(), Some("it is another program"));
    let values = arguments(&other, 1);
    assert_eq!(execute(&host, &*resized.executable, &other, &values).unwrap().0, run(&other, &values));
}

#[test]
fn sizes_without_an_address_are_an_error_of_theirs() {
    let host = host(1, Isa::available());
    let double = |rows: usize| {
        let mut b = Build::new();
        let x = b.input(DType::F32, &[rows, 40]);
        let y = b.add(x, x);
        b.done(&[y])
    };
    let executable = host.compile(&double(3), CompileOptions::default()).unwrap();
    let error = executable.resize(&double(1 << 60)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::OutOfMemory);
}
