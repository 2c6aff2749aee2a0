use super::*;
use crate::runtime::host::tests::{levels, roundable};

/// How an operand or the result lies: its own order of axes, or turned, in memory with a gap between lines.
#[derive(Clone, Copy, Debug)]
struct Lies {
    turned: bool,
    gap: usize,
}

impl Lies {
    /// Steps of rows and columns, and elements of all.
    fn steps(self, rows: usize, columns: usize) -> (usize, usize, usize) {
        let line = self.gap + if self.turned { rows } else { columns };
        match self.turned {
            true => (1, line, line * columns),
            false => (line, 1, line * rows),
        }
    }
}

/// A product of matrices of `T`, by blocks on so many threads.
fn product<T: Number>(
    [rows, columns, depth]: [usize; 3],
    (factors, result): (DType, DType),
    lies: [Lies; 3],
    (isa, threads): (Isa, usize),
) -> (Vec<f32>, Vec<f32>, Vec<u8>) {
    let place = |numbers: &[f32], (rows, columns): (usize, usize), lies: Lies| {
        let (down, along, len) = lies.steps(rows, columns);
        let mut all = vec![T::narrow(f32::NAN); len];
        (0..rows * columns).for_each(|at| all[at / columns * down + at % columns * along] = T::narrow(numbers[at]));
        (all, down, along)
    };
    let (a, b) = (roundable(rows * depth, 1), roundable(depth * columns, 2));
    let ((a_placed, a_row, a_depth), (b_placed, b_depth, b_column)) =
        (place(&a, (rows, depth), lies[0]), place(&b, (depth, columns), lies[1]));
    let (y_row, y_column, len) = lies[2].steps(rows, columns);
    let width = result.bits() as usize / 8;
    let mut y = vec![0xffu8; len * width];
    let of = Panels {
        rows,
        columns,
        depth,
        factors,
        a: a_placed.as_ptr().cast(),
        a_row,
        a_depth,
        b: b_placed.as_ptr().cast(),
        b_column,
        b_depth,
        result,
        y: y.as_mut_ptr(),
        y_row,
        y_column,
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    // SAFETY: the vectors have what the steps reach, and the machine has the instruction set.
    pool.install(|| unsafe { run(&of, isa, threads) });
    let element = |at: usize| (at / columns * y_row + at % columns * y_column) * width;
    let got = (0..rows * columns).flat_map(|at| y[element(at)..][..width].to_vec()).collect();
    let rounded = |x: Vec<f32>| x.into_iter().map(|x| T::narrow(x).wide()).collect();
    (rounded(a), rounded(b), got)
}

const PLAIN: Lies = Lies { turned: false, gap: 0 };

/// Sums of the products of the operands' elements in f64.
fn assert_sums<T: Number>([rows, columns, depth]: [usize; 3], factors: DType, result: DType, epsilon: f64) {
    let plain = product::<T>([rows, columns, depth], (factors, result), [PLAIN; 3], (Isa::Portable, 1));
    let (a, b, got) = &plain;
    for (at, got) in got.chunks_exact(result.bits() as usize / 8).enumerate() {
        let (row, column) = (at / columns, at % columns);
        let pairs = || (0..depth).map(|p| f64::from(a[row * depth + p]) * f64::from(b[p * columns + column]));
        let (want, size): (f64, f64) = (pairs().sum(), pairs().map(f64::abs).sum());
        let got = match result {
            DType::F32 => f64::from(f32::from_le_bytes(got.try_into().unwrap())),
            DType::BF16 => bf16::from_le_bytes(got.try_into().unwrap()).to_f64(),
            _ => f16::from_le_bytes(got.try_into().unwrap()).to_f64(),
        };
        // One rounding of f32 for each term, of at most the sum of magnitudes, and one of the result's dtype; below the
        // smallest normal f16, half of its last place.
        let error = size * depth as f64 * 2f64.powi(-24) + want.abs() * epsilon / 2.0 + 2f64.powi(-25);
        assert!((got - want).abs() <= error, "{factors}, {rows} × {columns} × {depth}, {at}: got {got}, want {want}");
    }
    // Every level, layout and number of threads gives the same bits.
    for isa in levels() {
        for bits in 0..8 {
            let lies = std::array::from_fn(|at| Lies { turned: bits >> at & 1 == 1, gap: bits });
            let threads = if bits % 2 == 0 { 1 } else { 3 };
            let again = product::<T>([rows, columns, depth], (factors, result), lies, (isa, threads));
            assert!(again.2 == *got_bytes(&plain), "{factors}: {rows} × {columns} × {depth}, {lies:?}, {isa:?}");
        }
    }
}

fn got_bytes(of: &(Vec<f32>, Vec<f32>, Vec<u8>)) -> &Vec<u8> {
    &of.2
}

#[test]
fn elements_are_sums_of_products_whatever_the_layout() {
    let sizes =
        [[1, 1, 1], [1, 40, 300], [5, 16, 9], [40, 3, 17], [7, 33, 8], [250, 17, 5], [9, 530, 12], [13, 21, 530]];
    for sizes in sizes {
        assert_sums::<bf16>(sizes, DType::BF16, DType::BF16, 2f64.powi(-7));
        assert_sums::<bf16>(sizes, DType::BF16, DType::F32, 2f64.powi(-23));
        assert_sums::<f16>(sizes, DType::F16, DType::F16, 2f64.powi(-10));
        assert_sums::<f16>(sizes, DType::F16, DType::F32, 2f64.powi(-23));
        assert_sums::<f32>(sizes, DType::F32, DType::F32, 2f64.powi(-23));
    }
}

#[test]
fn a_sum_of_nothing_is_zero() {
    let got = product::<bf16>([3, 20, 0], (DType::BF16, DType::BF16), [PLAIN; 3], (Isa::available(), 1)).2;
    assert_eq!(got, [0; 3 * 20 * 2]);
}

#[test]
fn every_16_bit_number_is_widened_as_it_is() {
    for isa in levels() {
        for factors in [DType::BF16, DType::F16] {
            let all: Vec<u16> = (0..=u16::MAX).collect();
            let (one, exact): (u16, fn(u16) -> f32) = match factors {
                DType::BF16 => (bf16::ONE.to_bits(), |x| bf16::from_bits(x).to_f32()),
                _ => (f16::ONE.to_bits(), |x| f16::from_bits(x).to_f32()),
            };
            let mut y = vec![0f32; all.len()];
            let of = Panels {
                rows: 1,
                columns: all.len(),
                depth: 1,
                factors,
                a: (&raw const one).cast(),
                a_row: 1,
                a_depth: 1,
                b: all.as_ptr().cast(),
                b_column: 1,
                b_depth: all.len(),
                result: DType::F32,
                y: y.as_mut_ptr().cast(),
                y_row: all.len(),
                y_column: 1,
            };
            // SAFETY: the vectors have what the steps reach, and the machine has the instruction set.
            unsafe { run(&of, isa, 1) };
            for (x, y) in all.into_iter().zip(y) {
                // Added to 0, which −0 is not.
                let want = exact(x) + 0.0;
                assert!(
                    y.to_bits() == want.to_bits() || (y.is_nan() && want.is_nan()),
                    "{factors} {x:#x}: {y}, {want}"
                );
            }
        }
    }
}
