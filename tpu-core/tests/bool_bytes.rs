//! Bytes of a bool other than 0 and 1 are true wherever bytes come in, as NumPy and PyTorch read them, and are 1 from then on.

use std::sync::Arc;
use tpu_core::ir::Type;
use tpu_core::reference::{Array, ReferenceBackend};
use tpu_core::runtime::Backend;
use tpu_core::runtime::host::Host;
use tpu_core::{DType, Device, Literal, Shape, Tensor};

/// `numpy.frombuffer(b"\x00\x01\x02\x80\xff", dtype=bool)` and `torch.frombuffer(…, dtype=torch.bool)` give this.
const BYTES: [u8; 5] = [0, 1, 2, 0x80, 0xff];
const VALUES: [bool; 5] = [false, true, true, true, true];
const CANONICAL: [u8; 5] = [0, 1, 1, 1, 1];

#[test]
fn literals_and_arrays_hold_zeros_and_ones() {
    let literal = Literal::from_bytes(DType::Bool, Shape::from([5]), &BYTES).unwrap();
    assert_eq!(literal.bytes(), CANONICAL);
    assert_eq!(literal, Literal::new([5], &VALUES).unwrap());
    // All are true, so one is stored.
    let all = Literal::from_bytes(DType::Bool, Shape::from([4]), &BYTES[1..]).unwrap();
    assert_eq!((all.is_splat(), all.bytes()), (true, &[1][..]));
    assert_eq!(Literal::repeat(DType::Bool, 3, &[2]).unwrap().bytes(), [1]);
    // Other dtypes keep their bytes.
    assert_eq!(Literal::from_bytes(DType::U8, Shape::from([5]), &BYTES).unwrap().bytes(), BYTES);
    let array = Array::from_bytes(Type::new(DType::Bool, [5]), BYTES.to_vec()).unwrap();
    assert_eq!(array.bytes(), CANONICAL);
}

#[test]
fn backends_upload_zeros_and_ones() {
    let backends: [&dyn Backend; 2] = [&Host::from_env().unwrap(), &ReferenceBackend];
    for backend in backends {
        let buffer = backend.upload(0, &Type::new(DType::Bool, [5]), &BYTES).unwrap();
        let mut read = [9; 5];
        buffer.read(&mut read).unwrap();
        assert_eq!(read, CANONICAL, "{}", backend.name());
    }
}

#[test]
fn tensors_compute_with_truth_values() {
    let test = || {
        let constant = Literal::from_bytes(DType::Bool, Shape::from([5]), &BYTES).unwrap();
        for x in [Tensor::from_bytes(DType::Bool, 5, &BYTES).unwrap(), Tensor::constant(constant).unwrap()] {
            assert_eq!(x.to_vec::<bool>().unwrap(), VALUES);
            assert_eq!(x.to_bytes().unwrap(), CANONICAL);
            assert_eq!(x.to_dtype(DType::I32).unwrap().sum_all().unwrap().item::<i32>().unwrap(), 4);
            let same = x.eq(&Tensor::from_slice(&VALUES).unwrap()).unwrap();
            assert_eq!(same.to_vec::<bool>().unwrap(), [true; 5]);
            assert_eq!((!&x).to_bytes().unwrap(), [1, 0, 0, 0, 0]);
            assert_eq!(x.bitwise_xor(&x).unwrap().to_bytes().unwrap(), [0; 5]);
            let (ones, twos) = (Tensor::full([5], 1, DType::I32).unwrap(), Tensor::full([5], 2, DType::I32).unwrap());
            assert_eq!(x.select(&ones, &twos).unwrap().to_vec::<i32>().unwrap(), [2, 1, 1, 1, 1]);
        }
    };
    Device::host().unwrap().scope(test);
    Device::open(Arc::new(ReferenceBackend))[0].scope(test);
}
