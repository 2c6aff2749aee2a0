use super::*;
use crate::runtime::host::tests::{levels, roundable};

/// How a product is run: operands turned, the right one laid in panels before, instruction set, threads.
#[derive(Clone, Copy, Debug)]
struct How {
    turned: [bool; 2],
    laid: bool,
    isa: Isa,
    threads: usize,
}

const PLAIN: How = How { turned: [false; 2], laid: false, isa: Isa::Portable, threads: 1 };

/// An operand in lines that are three numbers apart, of its rows or, turned, of its columns: its numbers and its steps.
fn placed(numbers: &[f32], columns: usize, turned: bool) -> (Vec<f32>, usize, usize) {
    let rows = numbers.len() / columns;
    let line = if turned { rows } else { columns } + 3;
    let (down, along) = if turned { (1, line) } else { (line, 1) };
    let mut all = vec![f32::NAN; line * if turned { columns } else { rows }];
    numbers.iter().enumerate().for_each(|(at, &x)| all[at / columns * down + at % columns * along] = x);
    (all, down, along)
}

fn product([rows, columns, depth]: [usize; 3], how: How) -> Vec<f32> {
    let (a, a_row, a_depth) = placed(&roundable(rows * depth, 1), depth, how.turned[0]);
    let (b, b_depth, b_column) = placed(&roundable(depth * columns, 2), columns, how.turned[1]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(how.threads).build().unwrap();
    let (line, parallel) = (columns + 5, how.threads > 1);
    let mut y = vec![f32::NAN; rows * line];
    let mut panels = vec![f32::NAN; laid(depth, columns)];
    pool.install(|| {
        let mut right = Right::Matrix { from: b.as_ptr(), depth: b_depth, column: b_column };
        if how.laid {
            let to = panels.as_mut_ptr();
            // SAFETY: the vectors have what the steps reach, and the machine has the instruction set.
            unsafe { lay((depth, columns), b.as_ptr(), (b_depth, b_column), to, how.isa, parallel) };
            right = Right::Laid(to);
        }
        let (a, y) = (a.as_ptr(), y.as_mut_ptr());
        let of = Blocked { rows, columns, depth, a, a_row, a_depth, b: right, y, y_row: line };
        // SAFETY: as above.
        unsafe { run(&of, how.isa, how.threads) };
    });
    assert!(y.chunks(line).all(|row| row[columns..].iter().all(|x| x.is_nan())), "wrote beside the result");
    y.chunks(line).flat_map(|row| &row[..columns]).copied().collect()
}

/// Sizes around those of tiles, panels and blocks: rows and columns of one block and of more, depth of one and of more.
const SIZES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [6, 16, 8],
    [17, 33, 20],
    [100, 7, 130],
    [9, 40, 1100],
    [ROWS + 5, 250, 40],
    [ROWS + 1, IN_PLACE * COLUMNS + 1, 70],
    [20, WIDTH + 18, DEPTH + 9],
];

#[test]
fn elements_are_the_sums_of_products() {
    for [rows, columns, depth] in SIZES {
        let (a, b) = (roundable(rows * depth, 1), roundable(depth * columns, 2));
        for isa in levels() {
            let got = product([rows, columns, depth], How { isa, ..PLAIN });
            for (at, got) in got.into_iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let term = |p: usize| f64::from(a[row * depth + p]) * f64::from(b[p * columns + column]);
                let want: f64 = (0..depth).map(term).sum();
                // One rounding for each term, of at most the sum of magnitudes.
                let magnitudes: f64 = (0..depth).map(|p| term(p).abs()).sum();
                let error = magnitudes * depth as f64 * f64::from(f32::EPSILON) / 2.0;
                assert!(
                    (f64::from(got) - want).abs() <= error,
                    "{rows} × {columns}: {row}, {column}: {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn bits_depend_on_neither_layouts_nor_threads_nor_instruction_sets_nor_panels_laid_before() {
    for sizes in SIZES {
        let want = product(sizes, PLAIN);
        for isa in levels() {
            let turns = [[false, false], [false, true], [true, false], [true, true]];
            for (turned, laid) in turns.into_iter().flat_map(|turned| [false, true].map(|laid| (turned, laid))) {
                let how = How { turned, laid, isa, threads: 1 };
                assert_eq!(product(sizes, how), want, "{sizes:?}: {how:?}");
            }
        }
    }
    // Enough for several tasks, in which rows and columns are cut.
    for sizes in [[300, 190, 257], [40, 1000, 530], [2000, 20, 600]] {
        let isa = Isa::available();
        let want = product(sizes, How { isa, ..PLAIN });
        for (threads, laid) in [(2, false), (3, false), (3, true)] {
            let how = How { laid, isa, threads, ..PLAIN };
            assert_eq!(product(sizes, how), want, "{sizes:?}: {how:?}");
        }
    }
}
