//! Tensors print as in PyTorch 2.15: `tables/display.txt`, made by `tables/make_display.py`.

use tpu_core::{Complex64, DType, Tensor};

/// The tensor that a line `dtype [sizes] elements` describes.
fn described(line: &str) -> Tensor {
    let (name, rest) = line.split_once(" [").unwrap();
    let (sizes, elements) = rest.split_once(']').unwrap();
    let dtype = DType::ALL.into_iter().find(|dtype| dtype.name() == name).unwrap();
    let sizes: Vec<usize> =
        sizes.split(", ").filter(|size| !size.is_empty()).map(|size| size.parse().unwrap()).collect();
    let count: usize = sizes.iter().product();
    let words: Vec<&str> = elements.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().unwrap();
    let tensor = match words[..] {
        ["from", start, "by", step] => {
            let (start, step) = (number(start), number(step));
            Tensor::from_vec((0..count).map(|i| i as f64 * step + start).collect(), sizes)
        }
        _ if dtype == DType::U64 => {
            Tensor::from_vec(words.iter().map(|word| word.parse::<u64>().unwrap()).collect(), sizes)
        }
        _ if dtype.is_integer() => {
            Tensor::from_vec(words.iter().map(|word| word.parse::<i64>().unwrap()).collect(), sizes)
        }
        _ if dtype.is_complex() => {
            let part = |word: &str| word.parse::<f32>().unwrap();
            let parts = words.iter().map(|word| word.split_once(':').unwrap());
            Tensor::from_vec(parts.map(|(re, im)| Complex64::new(part(re), part(im))).collect(), sizes)
        }
        _ => Tensor::from_vec(words.iter().map(|word| number(word)).collect(), sizes),
    };
    tensor.unwrap().to_dtype(dtype).unwrap()
}

#[test]
fn tensors_print_as_in_pytorch() {
    let mut entries = 0;
    for entry in include_str!("tables/display.txt").split_terminator("\n--\n") {
        let (line, printed) = entry.split_once('\n').unwrap();
        assert_eq!(described(line).to_string(), printed, "{line}");
        entries += 1;
    }
    assert!(entries > 100, "{entries} entries");
}

#[test]
fn a_value_that_failed_prints_its_error() {
    let x = Tensor::from_slice(&[1.0f32, 2.0]).unwrap();
    let bad = x.take(&Tensor::from_slice(&[5i64]).unwrap(), 0).unwrap();
    let printed = bad.to_string();
    assert!(printed.starts_with("tensor(") && printed.ends_with(')'), "{printed}");
    assert!(printed.contains(&bad.to_vec::<f32>().unwrap_err().message().to_owned()), "{printed}");
}

#[test]
fn a_tensor_larger_than_memory_prints_an_error() {
    let x = Tensor::full([1 << 30, 1 << 30], 1.0, DType::F32).unwrap();
    assert!(x.to_string().starts_with("tensor("), "{x}");
    assert!(!x.to_string().contains("1."), "{x}");
}
