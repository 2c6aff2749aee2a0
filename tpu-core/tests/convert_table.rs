//! Conversions between dtypes against what PyTorch gives: `tables/make_convert.py` says how the table was made.

use std::collections::HashMap;
use tpu_core::DType;
use tpu_core::dtype::convert::convert;

const TABLE: &str = include_str!("tables/convert.txt");

fn dtype(name: &str) -> DType {
    DType::ALL.into_iter().find(|dtype| dtype.name() == name).expect("a dtype of the table")
}

/// The words of each section: `bits~count` stands for equal ones in a row.
fn sections() -> HashMap<(&'static str, &'static str), Vec<&'static str>> {
    let mut sections: HashMap<_, Vec<&str>> = HashMap::new();
    let mut current = ("", "");
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => current = line.split_once(' ').expect("source and target"),
            Some(words) => {
                let section = sections.entry(current).or_default();
                for word in words.split(' ') {
                    let (word, count) = word.split_once('~').unwrap_or((word, "1"));
                    section.extend(std::iter::repeat_n(word, count.parse().expect("a count")));
                }
            }
        }
    }
    sections
}

fn bits(word: &str) -> u64 {
    u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("bits in hexadecimal, got {word}"))
}

fn is_nan(dtype: DType, bits: u64) -> bool {
    let (magnitude, infinity) = match dtype {
        DType::F16 => (bits & 0x7fff, 0x7c00),
        DType::BF16 => (bits & 0x7fff, 0x7f80),
        DType::F32 => (bits & 0x7fff_ffff, 0x7f80_0000),
        DType::F64 => (bits & (u64::MAX >> 1), 0x7ff << 52),
        _ => return false,
    };
    magnitude > infinity
}

/// Whether these bits are what the table's word says. Payloads of NaNs wider than 8 bits are not compared.
fn agrees(dtype: DType, got: u64, word: &str) -> bool {
    if dtype == DType::Complex64 {
        let (re, im) = word.split_once(',').expect("two parts");
        return agrees(DType::F32, got & 0xffff_ffff, re) && agrees(DType::F32, got >> 32, im);
    }
    // A star marks where PyTorch's vector loop differs from its scalar one, whose value this is.
    match word.trim_start_matches('*') {
        "n" => is_nan(dtype, got),
        word => got == bits(word),
    }
}

#[test]
fn every_pair_of_dtypes_converts_as_pytorch_does() {
    let sections = sections();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (&(from, to), expected) in sections.iter().filter(|(key, _)| key.1 != "inputs") {
        let (source, target) = (dtype(from), dtype(to));
        let inputs: Vec<u64> = sections[&(from, "inputs")].iter().map(|word| bits(word)).collect();
        assert_eq!(inputs.len(), expected.len(), "{from} to {to}");
        let width = |dtype: DType| dtype.bits() as usize / 8;
        let source_bytes: Vec<u8> =
            inputs.iter().flat_map(|input| input.to_le_bytes().into_iter().take(width(source))).collect();
        let mut results = vec![0; inputs.len() * width(target)];
        convert(source, &source_bytes, target, &mut results).unwrap();
        for ((input, word), result) in inputs.iter().zip(expected).zip(results.chunks_exact(width(target))) {
            let got = result.iter().rev().fold(0, |bits, &byte| bits << 8 | byte as u64);
            compared += 1;
            if !agrees(target, got, word) {
                wrong.push(format!("{from} {input:x} to {to}: {got:x}, PyTorch gives {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ, first {:#?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert_eq!(sections.len(), 16 * 17);
}

#[test]
fn every_16_bit_float_becomes_the_8_bit_float_that_pytorch_gives() {
    let rows: Vec<&str> = TABLE.lines().filter_map(|line| line.strip_prefix("# all ")).collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let words: Vec<&str> = row.split(' ').collect();
        let inputs: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut results = vec![0; 65536];
        convert(dtype(words[0]), &inputs, dtype(words[1]), &mut results).unwrap();
        // FNV-1a, as in the script.
        let hash = results
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3));
        assert_eq!(hash, bits(words[2]), "{row}");
    }
}
