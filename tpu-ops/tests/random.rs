//! Random ops: exact numbers from published Philox words, moments and frequencies within five standard deviations of what the
//! distribution says (seeds are fixed, so a run that passes always passes).

use tpu_core::dtype::half::{bf16, f16};
use tpu_core::random::random_group;
use tpu_core::{DType, ErrorKind, Mode, Tensor};
use tpu_ops::random::bernoulli_like;
use tpu_ops::*;

/// Philox 4x32-10 of counter 0 and key 0, from `kat_vectors` in the Random123 distribution.
const PUBLISHED: [u32; 4] = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];

/// Number of draws in the tests of moments, and its root.
const N: usize = 1 << 16;
const ROOT: f64 = 256.0;

fn word(seed: u64, offset: u64, at: usize) -> u32 {
    random_group(seed, offset, at as u64 / 4)[at % 4]
}

fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().to_vec().unwrap()
}

#[test]
fn uniforms_are_the_leading_bits_of_the_published_words() {
    let draw = |dtype, count: usize| uniform(count, 0.0, 1.0, dtype, Some(&Generator::new(0))).unwrap();
    let singles = PUBLISHED.map(|word| (word >> 8) as f32 / 16777216.0);
    assert_eq!(draw(DType::F32, 4).to_vec::<f32>().unwrap(), singles);
    let halves = PUBLISHED.map(|word| f16::from_f32((word >> 21) as f32 / 2048.0));
    assert_eq!(draw(DType::F16, 4).to_vec::<f16>().unwrap(), halves);
    let brains = PUBLISHED.map(|word| bf16::from_f32((word >> 24) as f32 / 256.0));
    assert_eq!(draw(DType::BF16, 4).to_vec::<bf16>().unwrap(), brains);
    let [a, b, c, d] = PUBLISHED.map(u64::from);
    let double = |high: u64, low: u64| ((high >> 5 << 26) + (low >> 6)) as f64 / 9007199254740992.0;
    assert_eq!(draw(DType::F64, 2).to_vec::<f64>().unwrap(), [double(a, b), double(c, d)]);
}

#[test]
fn draws_go_on_where_the_last_one_stopped_in_every_mode() {
    let expected: Vec<f32> = [0, 1, 2].map(|at| (word(7, 2, at) >> 8) as f32 / 16777216.0).into();
    for mode in Mode::ALL {
        mode.scope(|| {
            let generator = Generator::new(7);
            let first = uniform([5], 0.0, 1.0, DType::F32, Some(&generator)).unwrap();
            let second = uniform([3], 0.0, 1.0, DType::F32, Some(&generator)).unwrap();
            assert_eq!(second.to_vec::<f32>().unwrap(), expected);
            assert_ne!(first.to_vec::<f32>().unwrap()[..3], expected);
            assert_eq!(generator.state(), (7, 3));
        });
    }
}

#[test]
fn manual_seed_makes_draws_repeat() {
    Generator::new(1).scope(|| {
        manual_seed(5);
        let first = normal([6], 0.0, 1.0, DType::F32, None).unwrap().to_vec::<f32>().unwrap();
        manual_seed(5);
        assert_eq!(normal([6], 0.0, 1.0, DType::F32, None).unwrap().to_vec::<f32>().unwrap(), first);
    });
}

#[test]
fn uniforms_have_their_moments() {
    // u has variance 1/12 and fourth central moment 1/80: its mean has deviation √(1/12)/√n, its variance √(1/80 − 1/144)/√n.
    for dtype in [DType::F32, DType::F64] {
        let values = doubles(&uniform([N], -2.0, 4.0, dtype, Some(&Generator::new(1))).unwrap());
        assert!(values.iter().all(|v| (-2.0..4.0).contains(v)));
        let (mean, variance) = moments(&values);
        assert!((mean - 1.0).abs() < 5.0 * 6.0 * 0.2887 / ROOT, "{mean}");
        assert!((variance - 3.0).abs() < 5.0 * 36.0 * 0.07454 / ROOT, "{variance}");
    }
}

#[test]
fn normals_have_their_moments() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let values = doubles(&normal([N], 1.0, 2.0, dtype, Some(&Generator::new(2))).unwrap());
        let (mean, variance) = moments(&values);
        // bfloat16 rounds evenly: its mean does not move, its variance by less than one in 2¹⁴.
        assert!((mean - 1.0).abs() < 5.0 * 2.0 / ROOT, "{dtype}: {mean}");
        assert!((variance - 4.0).abs() < 5.0 * 4.0 * 2f64.sqrt() / ROOT, "{dtype}: {variance}");
        let fourth = values.iter().map(|v| ((v - 1.0) / 2.0).powi(4)).sum::<f64>() / N as f64;
        // E z⁴ = 3, Var z⁴ = 105 − 9.
        assert!((fourth - 3.0).abs() < 5.0 * 96f64.sqrt() / ROOT, "{dtype}: {fourth}");
    }
}

#[test]
fn a_normal_is_the_quantile_of_its_word() {
    for (dtype, bound) in [(DType::F32, 1e-6), (DType::F64, 1e-12)] {
        let z = normal([64], 0.0, 1.0, dtype, Some(&Generator::new(3))).unwrap();
        let back = z.to_dtype(DType::F64).unwrap().mul(std::f64::consts::FRAC_1_SQRT_2).unwrap().erf().unwrap();
        for (at, erf) in back.to_vec::<f64>().unwrap().into_iter().enumerate() {
            let u = ((word(3, 0, at) >> 8) as f64 + 0.5) / 16777216.0;
            assert!((erf - (2.0 * u - 1.0)).abs() < bound, "{dtype}: element {at}");
        }
    }
}

#[test]
fn coins_fall_as_often_as_they_should() {
    for p in [0.0, 0.1, 0.5, 1.0f64] {
        let bound = 5.0 * (p * (1.0 - p)).sqrt() / ROOT;
        let coins = bernoulli([N], p, Some(&Generator::new(4))).unwrap();
        assert!((moments(&doubles(&coins)).0 - p).abs() <= bound, "{p}");
        let each = Tensor::full([N], p, DType::F32).unwrap();
        let coins = bernoulli_like(&each, Some(&Generator::new(4))).unwrap();
        assert!((moments(&doubles(&coins)).0 - p).abs() <= bound, "{p}");
    }
}

#[test]
fn dropout_keeps_the_mean_and_drops_as_many_as_it_should() {
    let x = Tensor::ones([N], DType::F32).unwrap();
    let y = doubles(&dropout(&x, 0.25, true, Some(&Generator::new(5))).unwrap());
    assert!(y.iter().all(|&v| v == 0.0 || v == f64::from(1.0f32 / 0.75)));
    let dropped = y.iter().filter(|&&v| v == 0.0).count() as f64 / N as f64;
    assert!((dropped - 0.25).abs() < 5.0 * (0.25f64 * 0.75).sqrt() / ROOT, "{dropped}");
    let again = dropout(&x, 0.25, true, Some(&Generator::new(5))).unwrap();
    assert_eq!(doubles(&again), y);
}

#[test]
fn dropout_of_none_or_outside_training_is_the_operand_and_of_all_is_zero() {
    let x = Tensor::from_slice(&[1.0f32, f32::NAN, f32::INFINITY]).unwrap();
    assert!(dropout(&x, 0.5, false, None).unwrap().same_value(&x));
    assert!(dropout(&x, 0.0, true, None).unwrap().same_value(&x));
    assert_eq!(dropout(&x, 1.0, true, None).unwrap().to_vec::<f32>().unwrap(), [0.0; 3]);
    let empty = Tensor::zeros([0, 2], DType::F32).unwrap();
    assert_eq!(dropout(&empty, 0.5, true, None).unwrap().sizes(), [0, 2]);
}

#[test]
fn attention_drops_as_many_weights_as_it_should() {
    // Equal weights of 64 keys whose values are unit vectors: the result is the weights.
    let (q, k) = (Tensor::zeros([1024, 4], DType::F64).unwrap(), Tensor::zeros([64, 4], DType::F64).unwrap());
    let v = Tensor::eye(64, DType::F64).unwrap();
    let attend = |dropout, seed| {
        let generator = Generator::new(seed);
        let options = Attention { dropout, generator: Some(&generator), ..Default::default() };
        doubles(&scaled_dot_product_attention(&q, &k, &v, options).unwrap())
    };
    let kept = 1.0 / 64.0 / 0.75;
    let weights = attend(0.25, 5);
    // One division and one product: three roundings of 2⁻⁵³.
    assert!(weights.iter().all(|&weight| weight == 0.0 || (weight - kept).abs() < 4e-16 * kept));
    let dropped = weights.iter().filter(|&&weight| weight == 0.0).count() as f64 / N as f64;
    assert!((dropped - 0.25).abs() < 5.0 * (0.25f64 * 0.75).sqrt() / ROOT, "{dropped}");
    assert_eq!(attend(0.25, 5), weights);
    assert_ne!(attend(0.25, 6), weights);
    assert!(attend(0.0, 5).iter().all(|&weight| weight == 1.0 / 64.0));
    assert!(attend(1.0, 5).iter().all(|&weight| weight == 0.0));
}

#[test]
fn draws_with_replacement_have_the_frequencies_of_their_weights() {
    let weights =
        Tensor::from_vec(vec![0.0f32, 1.0, 2.0, 0.0, 5.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0], [2, 6]).unwrap();
    let draws = multinomial(&weights, 1 << 14, true, Some(&Generator::new(6))).unwrap();
    assert_eq!(draws.sizes(), [2, 1 << 14]);
    let draws = draws.to_vec::<i64>().unwrap();
    for (row, expected) in [[0.0f64, 0.125, 0.25, 0.0, 0.625, 0.0], [0.75, 0.0, 0.0, 0.0, 0.0, 0.25]].iter().enumerate()
    {
        for (class, &p) in expected.iter().enumerate() {
            let row = &draws[row << 14..(row + 1) << 14];
            let share = row.iter().filter(|&&draw| draw == class as i64).count() as f64 / 16384.0;
            assert!((share - p).abs() <= 5.0 * (p * (1.0 - p)).sqrt() / 128.0, "class {class}: {share}");
        }
    }
}

#[test]
fn draws_without_replacement_are_distinct_and_the_first_follows_the_weights() {
    const ROWS: usize = 1 << 12;
    let weights = Tensor::from_slice(&[1.0f64, 0.0, 2.0, 5.0]).unwrap().broadcast_to([ROWS, 4]).unwrap();
    let draws = multinomial(&weights, 3, false, Some(&Generator::new(7))).unwrap().to_vec::<i64>().unwrap();
    let mut first = [0usize; 4];
    for row in draws.chunks(3) {
        first[row[0] as usize] += 1;
        let mut sorted = row.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 2, 3]);
    }
    for (class, p) in [(0, 0.125), (1, 0.0), (2, 0.25), (3, 0.625f64)] {
        let share = first[class] as f64 / ROWS as f64;
        assert!((share - p).abs() <= 5.0 * (p * (1.0 - p)).sqrt() / 64.0, "class {class}: {share}");
    }
}

#[test]
fn weights_that_are_no_distribution_are_an_index_error_when_read() {
    for bad in [[0.0f32, 0.0], [-1.0, 2.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0]] {
        for replacement in [true, false] {
            let draws = multinomial(&Tensor::from_slice(&bad).unwrap(), 1, replacement, None).unwrap();
            let error = draws.to_vec::<i64>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Index, "{bad:?} {replacement}: {error}");
        }
    }
    let short = multinomial(&Tensor::from_slice(&[1.0f32, 0.0]).unwrap(), 2, false, None).unwrap();
    assert_eq!(short.to_vec::<i64>().unwrap_err().kind(), ErrorKind::Index);
}

#[test]
fn integers_fall_evenly_and_ranges_may_be_as_wide_as_the_dtype() {
    let draws = randint(-2, 3, [N], DType::I8, Some(&Generator::new(8))).unwrap().to_vec::<i8>().unwrap();
    for value in -2..3 {
        let share = draws.iter().filter(|&&draw| draw == value).count() as f64 / N as f64;
        assert!((share - 0.2).abs() < 5.0 * 0.4 / ROOT, "{value}: {share}");
    }
    let wide = randint(i64::MIN, i64::MAX, [64], DType::I64, Some(&Generator::new(8))).unwrap();
    let wide = wide.to_vec::<i64>().unwrap();
    assert!(wide.iter().any(|&v| v < i64::MIN / 2) && wide.iter().any(|&v| v > i64::MAX / 2));
    assert_eq!(randint(3, 4, [5], DType::U8, None).unwrap().to_vec::<u8>().unwrap(), [3; 5]);
}

#[test]
fn orders_are_permutations_each_position_as_likely() {
    let generator = Generator::new(9);
    let mut first = [0usize; 4];
    for _ in 0..400 {
        let order = randperm(4, Some(&generator)).unwrap().to_vec::<i64>().unwrap();
        first[order[0] as usize] += 1;
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
    }
    // 100 expected, deviation √(400 · ¼ · ¾) = 8.7.
    assert!(first.iter().all(|&count| count.abs_diff(100) < 44), "{first:?}");
    assert_eq!(randperm(0, None).unwrap().sizes(), [0]);
}
