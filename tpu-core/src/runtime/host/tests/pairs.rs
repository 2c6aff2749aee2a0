//! Two operations as one instruction.

use super::build::Build;
use super::*;
use crate::ir::BinaryOp;
use crate::runtime::host::compile;
use crate::runtime::host::program::Step;

const ROWS: usize = 3;
/// Not a multiple of what a loop has in registers.
const COLUMNS: usize = 71;

/// Instructions that go through all elements.
fn instructions(graph: &Graph, isa: Isa) -> usize {
    let (_, program) = compile::compile(graph, CompileOptions::default(), isa, false).unwrap();
    let row_programs = program.steps.iter().filter_map(|step| match step {
        Step::Rows(program, _) => Some(program.phases.iter().map(|phase| phase.body.len()).sum::<usize>()),
        _ => None,
    });
    row_programs.sum()
}

fn apply(op: BinaryOp, x: f32, y: f32) -> f32 {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Subtract => x - y,
        _ => x * y,
    }
}

/// Numbers of all sizes, with what is special among them.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut numbers = Numbers::new(seed);
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 0.0, f32::MAX, 1e-45, f32::MIN_POSITIVE];
    let number = |_| match numbers.next() % 32 {
        at @ 0..8 => special[at as usize],
        at => numbers.float() as f32 * 2f32.powi(at as i32 - 20),
    };
    (0..count).map(number).collect()
}

/// Each pair, in both orders, with each operand full or one per row: one instruction, and what the two give one after the other.
#[test]
fn pairs_give_the_bits_of_two_operations() {
    let ops = [BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply];
    let full = |single: bool| if single { [ROWS, 1] } else { [ROWS, COLUMNS] };
    let mut pairs = 0;
    for (first, second) in ops.iter().flat_map(|&first| ops.map(|second| (first, second))) {
        for case in 0..12 {
            let (turned, other) = (case % 2 == 1, case / 2 % 2 == 1);
            let singles = [[false, false], [false, true], [true, false]][case / 4];
            let shapes = [full(singles[0]), full(singles[1]), full(other)];
            let mut b = Build::new();
            let inputs = shapes.map(|shape| b.input(DType::F32, &shape));
            let wide = inputs.map(|x| {
                let shape = [ROWS, COLUMNS][..].into();
                b.op(Op::BroadcastInDim { shape, axes: [0, 1][..].into() }, &[x])
            });
            let inner = b.op(Op::Binary(first), &[wide[0], wide[1]]);
            let outer = if turned { [wide[2], inner] } else { [inner, wide[2]] };
            let result = b.op(Op::Binary(second), &outer);
            let graph = b.done(&[result]);
            let data = [0, 1, 2].map(|i| values(shapes[i][0] * shapes[i][1], 10 * case as u64 + i as u64));
            let arguments = data.each_ref().map(|x| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
            for isa in levels() {
                assert_eq!(instructions(&graph, isa), 1, "{first:?} {second:?} {case}");
                let (got, _) = run_with(&host(1, isa), &graph, CompileOptions::default(), &arguments).unwrap();
                for at in 0..ROWS * COLUMNS {
                    let element = |i: usize| if shapes[i][1] == 1 { data[i][at / COLUMNS] } else { data[i][at] };
                    let inner = apply(first, element(0), element(1));
                    let want = if turned { apply(second, element(2), inner) } else { apply(second, inner, element(2)) };
                    let got = f32::from_le_bytes(got[0][4 * at..][..4].try_into().unwrap());
                    let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                    assert!(same, "{isa:?} {first:?} {second:?} {case} at {at}: {got}, expected {want}");
                }
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, 108 * levels().len());
}

/// Each value of a chain is read once but `h`, which stays a value of its own.
#[test]
fn what_is_read_twice_or_is_a_result_stays() {
    let mut b = Build::new();
    let [x, w] = [(); 2].map(|()| b.input(DType::F32, &[ROWS, COLUMNS]));
    let scaled = b.mul(x, w);
    let h = b.add(scaled, w);
    let square = b.mul(h, h);
    let cube = b.mul(square, h);
    let result = b.sub(cube, x);
    let graph = b.done(&[h, result]);
    // x w + w; h h h; … - x.
    assert_eq!(instructions(&graph, Isa::available()), 3);
    fusion::assert_same_bits("a chain with a result inside", &graph);
}
