//! Reductions over windows, and their transpose for extremes.

use super::array::Array;
use super::index::{for_each, offset};
use super::reduce::{Accumulator, better};
use crate::ir::{Extreme, Reducer, Type, Window};
use crate::{Result, with_element};

/// Numbers of the elements of `x` under the window that gives result element `place`, in row-major order of the window's taps.
fn taps(sizes: &[usize], window: &Window, place: &[usize]) -> Vec<usize> {
    let mut taps = Vec::new();
    for_each(&window.sizes, |_, tap| {
        let mut source = Vec::with_capacity(sizes.len());
        for axis in 0..sizes.len() {
            let from_padding = place[axis] * window.strides[axis] + tap[axis] * window.window_dilations[axis];
            let dilated = from_padding as i64 - window.padding[axis].0;
            let dilation = window.base_dilations[axis] as i64;
            if dilated < 0 || dilated % dilation != 0 || dilated / dilation >= sizes[axis] as i64 {
                return;
            }
            source.push((dilated / dilation) as usize);
        }
        taps.push(offset(sizes, &source));
    });
    taps
}

/// `reduce_window(x)`.
pub fn reduce_window(kind: Reducer, x: &Array, window: &Window, ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let values = x.to_vec::<T>()?;
        let mut results = vec![T::default(); super::array::check_size(ty)?];
        let mut outcome = Ok(());
        for_each(ty.shape.sizes(), |number, place| {
            let mut state = Accumulator::<T>::new(kind);
            for tap in taps(x.sizes(), window, place) {
                outcome = outcome.clone().and(state.add(values[tap]));
            }
            results[number] = state.value();
        });
        outcome?;
        Array::new(&ty.shape, &results)
    })
}

/// `select_and_scatter(x, source)`.
pub fn select_and_scatter(select: Extreme, x: &Array, source: &Array, window: &Window, ty: &Type) -> Result<Array> {
    with_element!(x.dtype(), T => {
        let (values, sources) = (x.to_vec::<T>()?, source.to_vec::<T>()?);
        let mut sums: Vec<_> = values.iter().map(|_| Accumulator::<T>::new(Reducer::Sum)).collect();
        let mut outcome = Ok(());
        for_each(source.sizes(), |number, place| {
            let taps = taps(x.sizes(), window, place);
            let Some(&first) = taps.first() else { return };
            let chosen = taps.iter().fold(first, |best, &tap| {
                if better(select, values[tap], values[best]) { tap } else { best }
            });
            outcome = outcome.clone().and(sums[chosen].add(sources[number]));
        });
        outcome?;
        Array::from_fn(ty, |i| sums[i].value())
    })
}

#[cfg(test)]
mod tests {
    use super::super::evaluate_op;
    use super::*;
    use crate::ir::Op;
    use smallvec::smallvec;
    use std::sync::Arc;

    fn window(size: usize, stride: usize, base: usize, dilation: usize, padding: (i64, i64)) -> Arc<Window> {
        Arc::new(Window {
            sizes: smallvec![size],
            strides: smallvec![stride],
            base_dilations: smallvec![base],
            window_dilations: smallvec![dilation],
            padding: smallvec![padding],
        })
    }

    #[test]
    fn windows_stride_dilate_and_pad() {
        let x = Array::new([5], &[1i32, 2, 3, 4, 5]).unwrap();
        let sum = |window| {
            let op = Op::ReduceWindow { kind: Reducer::Sum, window };
            evaluate_op(&op, std::slice::from_ref(&x)).unwrap()[0].to_vec::<i32>().unwrap()
        };
        assert_eq!(sum(window(2, 2, 1, 1, (0, 0))), [3, 7]);
        assert_eq!(sum(window(2, 1, 1, 3, (0, 0))), [5, 7]);
        assert_eq!(sum(window(3, 2, 1, 1, (1, 1))), [3, 9, 9]);
        // Dilated by 2: 1 0 2 0 3 0 4 0 5.
        assert_eq!(sum(window(3, 2, 2, 1, (0, 0))), [3, 5, 7, 9]);
        assert_eq!(sum(window(2, 1, 1, 1, (-1, -1))), [5, 7]);
    }

    #[test]
    fn the_first_maximum_of_each_window_takes_the_source() {
        let x = Array::new([5], &[1.0f32, 4.0, 4.0, 2.0, 3.0]).unwrap();
        let source = Array::new([2], &[10.0f32, 20.0]).unwrap();
        let op = Op::SelectAndScatter { select: Extreme::Max, window: window(3, 2, 1, 1, (0, 0)) };
        let result = evaluate_op(&op, &[x, source]).unwrap()[0].to_vec::<f32>().unwrap();
        assert_eq!(result, [0.0, 10.0, 20.0, 0.0, 0.0]);
    }
}
