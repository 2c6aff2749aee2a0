//! Constant tensor data that is part of a program.

use crate::{DType, Element, Error, ErrorKind, Result, Scalar, Shape, with_element};

/// A dense tensor value baked into a program: dtype, shape and row-major little-endian bytes.
///
/// A literal whose elements are all equal stores one of them (`splat`), so a constant of 2^40 zeros costs nothing.
///
/// ```
/// use tpu_core::{Literal, Shape};
/// let literal = Literal::new(Shape::from([3]), &[1.0f32, 2.0, 3.0]).unwrap();
/// assert_eq!(literal.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literal {
    dtype: DType,
    shape: Shape,
    /// One element when `splat`, else all of them.
    bytes: Box<[u8]>,
    splat: bool,
}

impl Literal {
    /// A literal from elements in row-major order. Errors when their number is not that of the shape.
    pub fn new<T: Element>(shape: impl Into<Shape>, values: &[T]) -> Result<Self> {
        Self::from_bytes(T::DTYPE, shape.into(), bytemuck::cast_slice(values))
    }

    /// A literal from raw little-endian bytes; of a `bool`, any byte but 0 is true. Errors when their number is not that of
    /// the shape.
    pub fn from_bytes(dtype: DType, shape: Shape, bytes: &[u8]) -> Result<Self> {
        let want = shape.elements().and_then(|n| dtype.bytes_for(n));
        if want != Some(bytes.len()) {
            let message = format!("requires the bytes of {dtype}{shape}, got {}", bytes.len());
            return Err(Error::new(ErrorKind::Shape, "constant", message));
        }
        let bytes = &*dtype.canonical(bytes);
        let width = dtype.bits() as usize / 8;
        let splat = bytes.len() > width && bytes.chunks_exact(width).all(|chunk| chunk == &bytes[..width]);
        let bytes = if splat { &bytes[..width] } else { bytes };
        Ok(Self { dtype, shape, bytes: bytes.into(), splat })
    }

    /// A literal of which every element has these little-endian bytes. Errors when they are not those of one element.
    pub fn repeat(dtype: DType, shape: impl Into<Shape>, element: &[u8]) -> Result<Self> {
        let shape = shape.into();
        if element.len() != dtype.bits() as usize / 8 {
            let message = format!("requires the bytes of one {dtype}, got {}", element.len());
            return Err(Error::new(ErrorKind::Shape, "constant", message));
        }
        let element = &*dtype.canonical(element);
        let (bytes, splat) = match shape.elements() {
            Some(0) => (Box::default(), false),
            Some(1) => (element.into(), false),
            _ => (element.into(), true),
        };
        Ok(Self { dtype, shape, bytes, splat })
    }

    /// A literal with every element equal to `value`, converted to `dtype`.
    pub fn splat(dtype: DType, shape: impl Into<Shape>, value: impl Into<Scalar>) -> Self {
        let shape = shape.into();
        let bytes = value.into().to_bytes(dtype);
        match shape.elements() {
            Some(0) => Self { dtype, shape, bytes: Box::default(), splat: false },
            Some(1) => Self { dtype, shape, bytes: bytes.as_slice().into(), splat: false },
            _ => Self { dtype, shape, bytes: bytes.as_slice().into(), splat: true },
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether only one element is stored because all are equal.
    pub fn is_splat(&self) -> bool {
        self.splat
    }

    /// The stored bytes: of one element when [`is_splat`](Self::is_splat), else of all.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All elements. Errors when `T` is not the element type or there are too many to store.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            let message = format!("requires elements of {}, asked for {}", self.dtype, T::DTYPE);
            return Err(Error::new(ErrorKind::DType, "constant", message));
        }
        let stored = T::read_bytes(&self.bytes);
        if !self.splat {
            return Ok(stored);
        }
        let elements = self.shape.elements().filter(|&n| self.dtype.bytes_for(n).is_some());
        let mut values = Vec::new();
        match elements.map(|n| (n, values.try_reserve_exact(n))) {
            Some((n, Ok(()))) => values.resize(n, stored[0]),
            _ => {
                let message = format!("of {}{} does not fit into memory", self.dtype, self.shape);
                return Err(Error::new(ErrorKind::OutOfMemory, "constant", message));
            }
        }
        Ok(values)
    }
}

impl Scalar {
    /// The little-endian bytes of this number as one element of `dtype`, by PyTorch's conversion rules.
    pub fn to_bytes(self, dtype: DType) -> ScalarBytes {
        let mut out = ScalarBytes { bytes: [0; 8], len: dtype.bits() as u8 / 8 };
        let n = out.len as usize;
        with_element!(dtype, T => {
            let value: T = crate::dtype::convert::from_scalar(self);
            out.bytes[..n].copy_from_slice(bytemuck::bytes_of(&value));
        });
        out
    }
}

/// The bytes of one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalarBytes {
    bytes: [u8; 8],
    len: u8,
}

impl ScalarBytes {
    /// As many bytes as the element has.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}
