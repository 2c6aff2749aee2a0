//! Dense values on the host.

use crate::dtype::convert;
use crate::ir::Type;
use crate::{DType, Element, Literal, Result, Scalar, Shape, ensure, with_element};
use std::borrow::Cow;
use std::sync::Arc;

/// A dense row-major value: the operands and results of the interpreter. Clones share the elements.
///
/// ```
/// use tpu_core::reference::Array;
/// let array = Array::new([2, 2], &[1i32, 2, 3, 4]).unwrap();
/// assert_eq!(array.ty().to_string(), "int32[2, 2]");
/// assert_eq!(array.to_vec::<i32>().unwrap(), [1, 2, 3, 4]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    ty: Type,
    bytes: Arc<Vec<u8>>,
}

/// The interpreter refuses larger values: it is for small programs.
const MOST_BYTES: usize = 1 << 30;

impl Array {
    /// A value from its elements in row-major order. Errors when their number is not that of the shape.
    pub fn new<T: Element>(shape: impl Into<Shape>, elements: &[T]) -> Result<Self> {
        Self::from_bytes(Type::new(T::DTYPE, shape), bytemuck::cast_slice(elements).to_vec())
    }

    /// A value from little-endian bytes; of a `bool`, any byte but 0 is true. Errors when their number is not that of the type.
    pub fn from_bytes(ty: Type, mut bytes: Vec<u8>) -> Result<Self> {
        ensure!(ty.bytes() == Some(bytes.len()), Shape, "array", "requires the bytes of {ty}, got {}", bytes.len());
        if let Cow::Owned(canonical) = ty.dtype.canonical(&bytes) {
            bytes = canonical;
        }
        Ok(Self { ty, bytes: Arc::new(bytes) })
    }

    /// A scalar of `dtype`.
    pub fn scalar(dtype: DType, value: impl Into<Scalar>) -> Self {
        let bytes = value.into().to_bytes(dtype).as_slice().to_vec();
        Self { ty: Type::new(dtype, ()), bytes: Arc::new(bytes) }
    }

    /// All elements of a literal. Errors when it is too large to be stored.
    pub fn from_literal(literal: &Literal) -> Result<Self> {
        let ty = Type::new(literal.dtype(), literal.shape());
        check_size(&ty)?;
        with_element!(ty.dtype, T => Self::new(ty.shape, &literal.to_vec::<T>()?))
    }

    /// A value of type `ty` whose element number `i` is `element(i)`; `T` is the element type.
    pub(super) fn from_fn<T: Element>(ty: &Type, element: impl FnMut(usize) -> T) -> Result<Self> {
        let elements: Vec<T> = (0..check_size(ty)?).map(element).collect();
        Self::new(&ty.shape, &elements)
    }

    /// Element type and shape.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// The sizes of the axes.
    pub fn sizes(&self) -> &[usize] {
        self.ty.shape.sizes()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// Bytes of one element.
    pub(super) fn width(&self) -> usize {
        self.ty.dtype.bits() as usize / 8
    }

    /// All elements, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All elements. Errors when `T` is not the element type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        ensure!(
            T::DTYPE == self.dtype(),
            DType,
            "array",
            "requires elements of {}, asked for {}",
            self.dtype(),
            T::DTYPE
        );
        Ok(T::read_bytes(&self.bytes))
    }

    /// All elements converted to `T`.
    pub fn cast_vec<T: Element>(&self) -> Vec<T> {
        with_element!(self.dtype(), S => S::read_bytes(&self.bytes).into_iter().map(convert::cast).collect())
    }

    /// The same elements in another shape, which must have as many.
    pub(super) fn with_shape(&self, shape: &Shape) -> Result<Self> {
        let ty = Type::new(self.dtype(), shape);
        ensure!(
            ty.bytes() == Some(self.bytes.len()),
            Shape,
            "array",
            "requires as many elements, got {} and {ty}",
            self.ty
        );
        Ok(Self { ty, bytes: self.bytes.clone() })
    }
}

/// The number of elements of a type that is small enough for the interpreter.
pub(super) fn check_size(ty: &Type) -> Result<usize> {
    match ty.bytes().filter(|&bytes| bytes <= MOST_BYTES) {
        Some(bytes) => Ok(bytes / (ty.dtype.bits() as usize / 8)),
        None => crate::bail!(OutOfMemory, "reference", "requires values of at most {MOST_BYTES} bytes, got {ty}"),
    }
}
