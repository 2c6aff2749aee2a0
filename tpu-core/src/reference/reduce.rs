//! Reductions over axes and along axes.

use super::array::Array;
use super::index::{for_each, lines, offset};
use super::number::{Number, combiner, identity, narrow, widen};
use crate::dtype::convert::cast;
use crate::ir::{BinaryOp, Comparison, Extreme, Reducer, Type};
use crate::{Complex64, Result, with_element};

/// A sum of `f64` that keeps what each addition lost (Neumaier's variant of Kahan's).
#[derive(Clone, Copy, Default)]
pub struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    /// Adds a term.
    pub fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    /// Adds the product of two numbers, with what its rounding lost.
    pub fn add_product(&mut self, x: f64, y: f64) {
        let product = x * y;
        self.add(product);
        if product.is_finite() {
            self.add(x.mul_add(y, -product));
        }
    }

    /// The sum of all terms.
    pub fn value(self) -> f64 {
        // Among infinities what was lost is not a number.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The state of a reduction over elements of type `T`.
pub enum Accumulator<T> {
    /// Floats, added in `f64`.
    Sum(Sum),
    /// Floats, multiplied in `f64`.
    Product(f64),
    /// Complex numbers, added in `f64`.
    ComplexSum(Sum, Sum),
    /// Complex numbers, multiplied in `f64`.
    ComplexProduct(num_complex::Complex<f64>),
    /// Everything that does not round.
    Exact(BinaryOp, T),
}

impl<T: Number> Accumulator<T> {
    /// Starts from the identity of `kind`.
    pub fn new(kind: Reducer) -> Self {
        Self::from(kind, identity(kind))
    }

    /// Starts from `x`.
    pub fn from(kind: Reducer, x: T) -> Self {
        let sum = |x: f64| Sum { sum: x, lost: 0.0 };
        let wide = widen(cast::<T, Complex64>(x));
        match (kind, T::DTYPE) {
            (Reducer::Sum, dtype) if dtype.is_float() => Self::Sum(sum(cast(x))),
            (Reducer::Product, dtype) if dtype.is_float() => Self::Product(cast(x)),
            (Reducer::Sum, dtype) if dtype.is_complex() => Self::ComplexSum(sum(wide.re), sum(wide.im)),
            (Reducer::Product, dtype) if dtype.is_complex() => Self::ComplexProduct(wide),
            _ => Self::Exact(combiner(kind), x),
        }
    }

    /// Combines with one more element.
    pub fn add(&mut self, x: T) -> Result<()> {
        let wide = widen(cast::<T, Complex64>(x));
        match self {
            Self::Sum(sum) => sum.add(cast(x)),
            Self::Product(product) => *product *= cast::<T, f64>(x),
            Self::ComplexSum(re, im) => {
                re.add(wide.re);
                im.add(wide.im);
            }
            Self::ComplexProduct(product) => *product *= wide,
            Self::Exact(op, value) => *value = T::binary(*op, *value, x)?,
        }
        Ok(())
    }

    /// The result so far, rounded.
    pub fn value(&self) -> T {
        match *self {
            Self::Sum(sum) => cast(sum.value()),
            Self::Product(product) => cast(product),
            Self::ComplexSum(re, im) => cast(Complex64::new(re.value() as f32, im.value() as f32)),
            Self::ComplexProduct(product) => cast(narrow(product)),
            Self::Exact(_, value) => value,
        }
    }
}

/// `reduce(x)`. Sums start from 0, so that −0 alone gives 0 as in PyTorch. All others start from the first element: a complex
/// product with one is not always the other factor.
pub fn reduce(kind: Reducer, x: &Array, axes: &[usize], ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let values = x.to_vec::<T>()?;
        let count = super::array::check_size(ty)?;
        let mut results: Vec<Option<Accumulator<T>>> = (0..count).map(|_| None).collect();
        let mut failed = Ok(());
        for_each(x.sizes(), |number, index| {
            let kept: Vec<_> = (0..index.len()).filter(|axis| !axes.contains(axis)).map(|axis| index[axis]).collect();
            let state = &mut results[offset(ty.shape.sizes(), &kept)];
            if state.is_none() && kind == Reducer::Sum {
                *state = Some(Accumulator::new(kind));
            }
            match state {
                Some(state) => failed = failed.clone().and(state.add(values[number])),
                empty => *empty = Some(Accumulator::from(kind, values[number])),
            }
        });
        failed?;
        Array::from_fn(ty, |i| results[i].as_ref().map_or(identity(kind), Accumulator::value))
    })
}

/// Whether `x` goes before `best` in the search for an extreme: NaN before all, then strictly better.
pub fn better<T: Number>(kind: Extreme, x: T, best: T) -> bool {
    let nan = |x: T| T::compare(Comparison::Ne, x, x);
    let better = match kind {
        Extreme::Max => T::compare(Comparison::Gt, x, best),
        Extreme::Min => T::compare(Comparison::Lt, x, best),
    };
    better || (nan(x) && !nan(best))
}

/// `arg_reduce(x)`: values and indices.
pub fn arg_reduce(kind: Extreme, x: &Array, axis: usize, types: &[Type]) -> Result<Vec<Array>> {
    let lines = lines(x.sizes(), axis);
    with_element!(x.dtype(), T => {
        let values = x.to_vec::<T>()?;
        let places: Vec<usize> = lines.iter().map(|line| {
            let mut best = 0;
            for (i, &number) in line.iter().enumerate() {
                if better(kind, values[number], values[line[best]]) {
                    best = i;
                }
            }
            best
        }).collect();
        let extremes = Array::from_fn(&types[0], |i| values[lines[i][places[i]]])?;
        Ok(vec![extremes, Array::from_fn(&types[1], |i| places[i] as i64)?])
    })
}

/// `cumulative(x)`.
pub fn cumulative(kind: Reducer, x: &Array, axis: usize, reverse: bool, ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let mut values = x.to_vec::<T>()?;
        for mut line in lines(x.sizes(), axis) {
            if reverse {
                line.reverse();
            }
            let mut running = Accumulator::<T>::new(kind);
            for number in line {
                running.add(values[number])?;
                values[number] = running.value();
            }
        }
        Array::new(&ty.shape, &values)
    })
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::ir::Op;
    use smallvec::smallvec;

    fn sum_of(values: &[f64]) -> f64 {
        let mut sum = Sum::default();
        values.iter().for_each(|&x| sum.add(x));
        sum.value()
    }

    #[test]
    fn sums_keep_small_terms_and_infinities() {
        assert_eq!(sum_of(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(sum_of(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum_of(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn empty_reductions_give_the_identity() {
        let empty = Array::new::<i8>([0, 2], &[]).unwrap();
        for (kind, expected) in [
            (Reducer::Sum, 0),
            (Reducer::Product, 1),
            (Reducer::Max, i8::MIN),
            (Reducer::Min, i8::MAX),
            (Reducer::And, -1),
            (Reducer::Or, 0),
            (Reducer::Xor, 0),
        ] {
            let op = Op::Reduce { kind, axes: smallvec![0] };
            let result = evaluate_op(&op, std::slice::from_ref(&empty)).unwrap().remove(0);
            assert_eq!(result.to_vec::<i8>().unwrap(), [expected; 2], "{kind:?}");
        }
        let op = Op::Reduce { kind: Reducer::Max, axes: smallvec![0] };
        let empty = Array::new::<f32>([0], &[]).unwrap();
        assert_eq!(evaluate_op(&op, &[empty]).unwrap()[0].to_vec::<f32>().unwrap(), [f32::NEG_INFINITY]);
    }

    #[test]
    fn a_sum_of_negative_zeros_is_zero() {
        for count in [1, 2, 5] {
            let x = Array::new([count], &vec![-0.0f32; count]).unwrap();
            let op = Op::Reduce { kind: Reducer::Sum, axes: smallvec![0] };
            let sum = evaluate_op(&op, std::slice::from_ref(&x)).unwrap()[0].to_vec::<f32>().unwrap()[0];
            assert!(sum == 0.0 && sum.is_sign_positive(), "{count}");
        }
    }

    #[test]
    fn the_first_nan_then_the_first_of_equals_is_the_extreme() {
        let x = Array::new([2, 4], &[1.0f32, 3.0, 3.0, 2.0, 5.0, f32::NAN, 9.0, f32::NAN]).unwrap();
        let results = evaluate_op(&Op::ArgReduce { kind: Extreme::Max, axis: 1 }, &[x]).unwrap();
        assert_eq!(results[1].to_vec::<i64>().unwrap(), [1, 1]);
        let values = results[0].to_vec::<f32>().unwrap();
        assert!(values[0] == 3.0 && values[1].is_nan());
    }

    #[test]
    fn running_sums_go_both_ways() {
        let x = Array::new([4], &[1i32, 2, 3, 4]).unwrap();
        let run = |reverse| {
            let op = Op::Cumulative { kind: Reducer::Sum, axis: 0, reverse };
            evaluate_op(&op, std::slice::from_ref(&x)).unwrap()[0].to_vec::<i32>().unwrap()
        };
        assert_eq!((run(false), run(true)), (vec![1, 3, 6, 10], vec![10, 9, 7, 4]));
    }
}
