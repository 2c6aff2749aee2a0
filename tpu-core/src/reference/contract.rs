//! Sums of products: matrix products and convolutions.

use super::array::{Array, check_size};
use super::index::{for_each, offset};
use super::movement::integers;
use super::reduce::Sum;
use crate::dtype::convert::cast;
use crate::ir::{ConvDims, DotDims, Type};
use crate::{Complex64, Result, with_element};

/// The place of an element of a convolution's input that is not there: a zero of the padding or between dilated elements.
const PADDING: usize = usize::MAX;

/// The elements of an operand, in the type that products are formed in.
enum Factors {
    Float(Vec<f64>),
    Complex(Vec<Complex64>),
    /// Booleans too.
    Integer(Vec<i128>),
}

impl Factors {
    fn of(x: &Array) -> Self {
        match x.dtype() {
            dtype if dtype.is_float() => Self::Float(x.cast_vec()),
            dtype if dtype.is_complex() => Self::Complex(x.cast_vec()),
            _ => Self::Integer(integers(x)),
        }
    }
}

fn at<T: Copy + Default>(x: &[T], i: usize) -> T {
    if i == PADDING { T::default() } else { x[i] }
}

/// The sum of `lhs[i] · rhs[j]` over all `(i, j)`, as one element of `T`.
fn sum_of_products<T: crate::Element>(lhs: &Factors, rhs: &Factors, pairs: &[(usize, usize)]) -> T {
    match (lhs, rhs) {
        (Factors::Float(x), Factors::Float(y)) => {
            let mut sum = Sum::default();
            pairs.iter().for_each(|&(i, j)| sum.add_product(at(x, i), y[j]));
            cast(sum.value())
        }
        (Factors::Complex(x), Factors::Complex(y)) => {
            let (mut re, mut im) = (Sum::default(), Sum::default());
            for &(i, j) in pairs {
                let (x, y) = (at(x, i), y[j]);
                let ((a, b), (c, d)) = ((x.re as f64, x.im as f64), (y.re as f64, y.im as f64));
                re.add_product(a, c);
                re.add_product(-b, d);
                im.add_product(a, d);
                im.add_product(b, c);
            }
            cast(Complex64::new(re.value() as f32, im.value() as f32))
        }
        (Factors::Integer(x), Factors::Integer(y)) => {
            let sum = pairs.iter().fold(0i128, |sum, &(i, j)| sum.wrapping_add(at(x, i).wrapping_mul(y[j])));
            // The low bits are right whatever the width, and for `bool` any product makes it true.
            if T::DTYPE == crate::DType::Bool { cast(sum != 0) } else { cast(sum as u64) }
        }
        // The shape rule asks for one kind of operands.
        _ => T::default(),
    }
}

/// `dot_general(lhs, rhs)`.
pub fn dot(lhs: &Array, rhs: &Array, dims: &DotDims, ty: &Type) -> Result<Array> {
    let free = |x: &Array, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..x.sizes().len()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
    };
    let lhs_free = free(lhs, &dims.lhs_batch, &dims.lhs_contract);
    let rhs_free = free(rhs, &dims.rhs_batch, &dims.rhs_contract);
    let contracted: Vec<_> = dims.lhs_contract.iter().map(|&axis| lhs.sizes()[axis]).collect();
    let (x, y) = (Factors::of(lhs), Factors::of(rhs));
    let (mut i, mut j) = (vec![0; lhs.sizes().len()], vec![0; rhs.sizes().len()]);
    let mut place = |index: &[usize], pairs: &mut Vec<(usize, usize)>| {
        let (batch, free) = index.split_at(dims.lhs_batch.len());
        for (n, &at) in batch.iter().enumerate() {
            i[dims.lhs_batch[n]] = at;
            j[dims.rhs_batch[n]] = at;
        }
        let (left, right) = free.split_at(lhs_free.len());
        left.iter().zip(&lhs_free).for_each(|(&at, &axis)| i[axis] = at);
        right.iter().zip(&rhs_free).for_each(|(&at, &axis)| j[axis] = at);
        for_each(&contracted, |_, k| {
            for (n, &at) in k.iter().enumerate() {
                i[dims.lhs_contract[n]] = at;
                j[dims.rhs_contract[n]] = at;
            }
            pairs.push((offset(lhs.sizes(), &i), offset(rhs.sizes(), &j)));
        });
    };
    contract(&x, &y, ty, &mut place)
}

/// `convolution(input, kernel)`. Zeros of the padding and between dilated elements are factors like any other.
pub fn convolution(input: &Array, kernel: &Array, dims: &ConvDims, ty: &Type) -> Result<Array> {
    let output = ty.shape.sizes();
    let features_per_group = output[dims.output_feature] / dims.feature_groups;
    let features_per_batch_group = output[dims.output_feature] / dims.batch_groups;
    let mut window: Vec<_> = dims.kernel_spatial.iter().map(|&axis| kernel.sizes()[axis]).collect();
    let kernel_features = kernel.sizes()[dims.kernel_input_feature];
    window.push(kernel_features);
    let (x, y) = (Factors::of(input), Factors::of(kernel));
    let (mut i, mut j) = (vec![0; input.sizes().len()], vec![0; kernel.sizes().len()]);
    let mut place = |index: &[usize], pairs: &mut Vec<(usize, usize)>| {
        let feature = index[dims.output_feature];
        let (group, batch_group) = (feature / features_per_group, feature / features_per_batch_group);
        i[dims.input_batch] = batch_group * output[dims.output_batch] + index[dims.output_batch];
        j[dims.kernel_output_feature] = feature;
        for_each(&window, |_, tap| {
            let mut inside = true;
            for axis in 0..dims.input_spatial.len() {
                let from_padding =
                    index[dims.output_spatial[axis]] * dims.strides[axis] + tap[axis] * dims.kernel_dilation[axis];
                let (dilated, dilation) =
                    (from_padding as i64 - dims.padding[axis].0, dims.input_dilation[axis] as i64);
                let size = input.sizes()[dims.input_spatial[axis]] as i64;
                if dilated < 0 || dilated % dilation != 0 || dilated / dilation >= size {
                    inside = false;
                } else {
                    i[dims.input_spatial[axis]] = (dilated / dilation) as usize;
                }
                let reversed = window[axis] - 1 - tap[axis];
                j[dims.kernel_spatial[axis]] = if dims.reversal[axis] { reversed } else { tap[axis] };
            }
            let channel = tap[dims.input_spatial.len()];
            i[dims.input_feature] = group * kernel_features + channel;
            j[dims.kernel_input_feature] = channel;
            let from = if inside { offset(input.sizes(), &i) } else { PADDING };
            pairs.push((from, offset(kernel.sizes(), &j)));
        });
    };
    contract(&x, &y, ty, &mut place)
}

/// One sum of products for each result element, over the pairs that `place` lists for its index.
fn contract(
    lhs: &Factors,
    rhs: &Factors,
    ty: &Type,
    place: &mut dyn FnMut(&[usize], &mut Vec<(usize, usize)>),
) -> Result<Array> {
    let count = check_size(ty)?;
    with_element!(ty.dtype, T => {
        let (mut results, mut pairs) = (Vec::<T>::with_capacity(count), Vec::new());
        for_each(ty.shape.sizes(), |_, index| {
            pairs.clear();
            place(index, &mut pairs);
            results.push(sum_of_products(lhs, rhs, &pairs));
        });
        Array::new(&ty.shape, &results)
    })
}
