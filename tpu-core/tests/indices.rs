//! Index checks of every integer dtype against tables of sizes around what the dtype can hold.

use std::sync::Arc;
use tpu_core::lazy::unchecked_indices;
use tpu_core::reference::ReferenceBackend;
use tpu_core::{DType, Device, ErrorKind, Result, Scalar, Tensor};

const DTYPES: [DType; 8] =
    [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];
const SIZES: [usize; 12] = [1, 2, 100, 127, 128, 129, 255, 256, 257, 300, 32_768, 65_537];

/// The smallest and the largest number of a dtype.
fn range(dtype: DType) -> (i128, i128) {
    let bits = dtype.bits();
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Numbers at the edges of the table and of the dtype that the dtype can hold.
fn candidates(dtype: DType, size: usize) -> Vec<i128> {
    let (least, most) = range(dtype);
    let size = size as i128;
    let all = [0, 1, size - 1, size, size + 1, -1, -size, least, most, i64::MAX as i128 + 1, 127, 128, 255, 256];
    all.into_iter().filter(|index| (least..=most).contains(index)).collect()
}

/// `[0, index]`.
fn indices(dtype: DType, index: i128) -> Result<Tensor> {
    let scalar = if index < 0 { Scalar::Int(index as i64) } else { Scalar::UInt(index as u64) };
    let bytes: Vec<u8> = [Scalar::Int(0), scalar].iter().flat_map(|s| s.to_bytes(dtype).as_slice().to_vec()).collect();
    Tensor::from_bytes(dtype, 2, &bytes)
}

fn on_every_backend(test: impl Fn()) {
    Device::host().unwrap().scope(&test);
    Device::open(Arc::new(ReferenceBackend))[0].scope(test);
}

/// Runs `read` for every dtype, size and candidate: it must fail exactly for an index outside the table.
fn check(read: impl Fn(&Tensor, &Tensor, usize, i128) -> Result<()>) {
    on_every_backend(|| {
        for size in SIZES {
            let table = Tensor::iota(size, 0, DType::I32).unwrap();
            for dtype in DTYPES {
                for index in candidates(dtype, size) {
                    let name = format!("{index} as {dtype} into {size} on {}", table.device());
                    let outcome = read(&table, &indices(dtype, index).unwrap(), size, index);
                    let inside = (0..size as i128).contains(&index);
                    match outcome {
                        Ok(()) => assert!(inside, "{name} is not refused"),
                        Err(error) => assert!(!inside && error.kind() == ErrorKind::Index, "{name}: {error}"),
                    }
                }
            }
        }
    });
}

#[test]
fn taking_and_gathering_refuse_exactly_what_is_outside() {
    check(|table, indices, _, index| {
        let taken = table.take(indices, 0)?.to_vec::<i32>()?;
        let gathered = table.gather(0, indices)?.to_vec::<i32>()?;
        assert_eq!((taken[0], taken[1]), (0, index as i32));
        assert_eq!(gathered, taken);
        Ok(())
    });
}

#[test]
fn putting_and_scattering_refuse_exactly_what_is_outside() {
    check(|table, indices, size, index| {
        let updates = Tensor::from_slice(&[-7i32, -8])?;
        let put = table.put(indices, 0, &updates, None)?.to_vec::<i32>()?;
        let scattered = table.scatter(0, indices, &updates, None)?.to_vec::<i32>()?;
        let mut want: Vec<i32> = (0..size as i32).collect();
        want[0] = -7;
        want[index as usize] = -8;
        assert_eq!(put, want);
        assert_eq!(scattered, want);
        Ok(())
    });
}

/// `take` of an index that was refused in one call is refused in the other too, so the checks above see each on its own here.
#[test]
fn each_checked_op_refuses_on_its_own() {
    on_every_backend(|| {
        let table = Tensor::iota(300, 0, DType::I32).unwrap();
        let updates = Tensor::from_slice(&[1i32, 2]).unwrap();
        let bad = indices(DType::U64, i64::MAX as i128 + 1).unwrap();
        let results = [
            table.take(&bad, 0),
            table.gather(0, &bad),
            table.put(&bad, 0, &updates, None),
            table.scatter(0, &bad, &updates, None),
        ];
        for result in results {
            let error = result.unwrap().to_vec::<i32>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Index);
            assert!(error.message().starts_with("requires indices in range (at most 299), got"), "{error}");
        }
    });
}

#[test]
fn unchecked_indices_are_clamped_when_read_and_dropped_when_written() {
    on_every_backend(|| {
        for size in SIZES {
            let table = Tensor::iota(size, 0, DType::I32).unwrap();
            let updates = Tensor::from_slice(&[-7i32, -8]).unwrap();
            for dtype in DTYPES {
                for index in candidates(dtype, size) {
                    let name = format!("{index} as {dtype} into {size} on {}", table.device());
                    let indices = indices(dtype, index).unwrap();
                    let (taken, put) = unchecked_indices(|| {
                        let put = table.put(&indices, 0, &updates, None).unwrap();
                        (table.take(&indices, 0).unwrap().to_vec::<i32>().unwrap(), put.to_vec::<i32>().unwrap())
                    });
                    assert_eq!(taken[1] as i128, index.clamp(0, size as i128 - 1), "{name}");
                    let mut want: Vec<i32> = (0..size as i32).collect();
                    want[0] = -7;
                    if let Some(place) = usize::try_from(index).ok().and_then(|index| want.get_mut(index)) {
                        *place = -8;
                    }
                    assert!(put == want, "{name}");
                }
            }
        }
    });
}
