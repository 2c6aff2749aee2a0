//! Reductions over windows.

use super::{Context, Gradients, Saves, conjugate, constant, record, scalar};
use smallvec::SmallVec;
use std::sync::Arc;
use tpu_core::ir::{Axes, Extreme, Op, Reducer, Window};
use tpu_core::{DType, Result, Shape, Tensor};

pub(super) fn saves(kind: Reducer) -> Saves {
    match kind {
        Reducer::Max | Reducer::Min | Reducer::Product => Saves::input(0),
        Reducer::Sum | Reducer::And | Reducer::Or | Reducer::Xor => Saves::NOTHING,
    }
}

pub(super) fn gradients(cx: &Context<'_>, kind: Reducer, window: &Arc<Window>) -> Result<Gradients> {
    let select = match kind {
        Reducer::Sum => return cx.one(|g| spread_sum(g, &cx.operands[0].shape, window)),
        Reducer::Max => Extreme::Max,
        Reducer::Min => Extreme::Min,
        Reducer::Product => return cx.one(|g| spread_product(&cx.input(0)?, g, window)),
        Reducer::And | Reducer::Or | Reducer::Xor => return cx.no_derivative(""),
    };
    let is_plain = window.base_dilations.iter().chain(&window.window_dilations).all(|&dilation| dilation == 1);
    cx.one(|g| match is_plain {
        true => record(Op::SelectAndScatter { select, window: window.clone() }, &[&cx.input(0)?, g]),
        false => Taps::new(&cx.input(0)?, &cx.operands[0].shape, select, window)?.scatter(g),
    })
}

/// Length with `dilation − 1` holes between elements.
fn dilated(size: usize, dilation: usize) -> i64 {
    if size == 0 { 0 } else { (size as i64 - 1) * dilation as i64 + 1 }
}

/// The reverse of a window sum: each element gets the gradients of all windows that it is in, which is a window sum
/// over the gradients with strides and dilations of the operand swapped.
fn spread_sum(g: &Tensor, operand: &Shape, window: &Window) -> Result<Tensor> {
    if operand.elements() == Some(0) {
        return Tensor::zeros(operand, g.dtype());
    }
    let padding = (0..g.rank()).map(|axis| {
        let reach = dilated(window.sizes[axis], window.window_dilations[axis]) - 1;
        let before = window.padding[axis].0;
        let lengths = dilated(operand.size(axis), window.base_dilations[axis])
            - dilated(g.shape().size(axis), window.strides[axis]);
        (reach - before, lengths + before)
    });
    let back = Window {
        sizes: window.sizes.clone(),
        strides: window.base_dilations.clone(),
        base_dilations: window.strides.clone(),
        window_dilations: window.window_dilations.clone(),
        padding: padding.collect(),
    };
    record(Op::ReduceWindow { kind: Reducer::Sum, window: Arc::new(back) }, &[g])
}

/// The reverse of a window product: each element gets, of every window that it is in, the gradient times the product of the
/// others: no division, so zeros are no exception.
fn spread_product(x: &Tensor, g: &Tensor, window: &Window) -> Result<Tensor> {
    let frame = Frame { window, operand: x.shape() };
    let mut sum = Tensor::zeros(x.shape(), g.dtype())?;
    if x.elements() == 0 || g.elements() == 0 {
        return Ok(sum);
    }
    let places = places(&window.sizes);
    let read = |place| conjugate(&frame.read(x, place, g.shape(), 1.0)?);
    let values = places.iter().map(read).collect::<Result<Vec<_>>>()?;
    // Behind each place, from the last one on.
    let mut behind = vec![constant(g, 1)?];
    for value in values.iter().skip(1).rev() {
        behind.push(behind[behind.len() - 1].mul(value)?);
    }
    let mut before = g.clone();
    for ((place, value), behind) in places.iter().zip(&values).zip(behind.iter().rev()) {
        sum = sum.add(&frame.write(&before.mul(behind)?, place)?)?;
        before = before.mul(value)?;
    }
    Ok(sum)
}

/// Of the scattered source: what lies where its windows selected. Nothing of the operand, whose values only select.
pub(super) fn select_and_scatter(cx: &Context<'_>, select: Extreme, window: &Arc<Window>) -> Result<Gradients> {
    let g = cx.grad()?;
    let operand = if cx.needs(0) { Some(constant(g, 0)?) } else { None };
    let source = match cx.needs(1) {
        true => Some(Taps::new(&cx.input(0)?, &cx.operands[0].shape, select, window)?.gather(g)?),
        false => None,
    };
    Ok(SmallVec::from_iter([operand, source]))
}

/// Windows over an operand.
struct Frame<'a> {
    window: &'a Window,
    operand: &'a Shape,
}

/// For each place in the window the windows that select it, as bools of one shape.
struct Taps<'a> {
    frame: Frame<'a>,
    hits: Vec<(Axes, Tensor)>,
}

impl Frame<'_> {
    /// Amounts that pad or cut the dilated operand so that it starts at a place of the first window, and ends at that of
    /// the last one.
    fn amounts(&self, place: &Axes, windows: &Shape) -> (SmallVec<[i64; 4]>, SmallVec<[i64; 4]>) {
        let along = |axis: usize| {
            let start = (place[axis] * self.window.window_dilations[axis]) as i64 - self.window.padding[axis].0;
            let span = dilated(windows.size(axis), self.window.strides[axis]);
            (-start, span + start - dilated(self.operand.size(axis), self.window.base_dilations[axis]))
        };
        (0..windows.rank()).map(along).unzip()
    }

    /// What each window has at a place.
    fn read(&self, x: &Tensor, place: &Axes, windows: &Shape, fill: f64) -> Result<Tensor> {
        let (low, high) = self.amounts(place, windows);
        let interior = self.window.base_dilations.iter().map(|&dilation| dilation - 1).collect();
        let all = record(Op::Pad { low, high, interior }, &[x, &scalar(x.dtype(), fill)?])?;
        let strides = self.window.strides.clone();
        let op = Op::Slice { start: SmallVec::from_elem(0, x.rank()), limit: all.sizes().into(), strides };
        record(op, &[&all])
    }

    /// One value per window put back at a place of the operand.
    fn write(&self, values: &Tensor, place: &Axes) -> Result<Tensor> {
        let (low, high) = self.amounts(place, values.shape());
        let zero = scalar(values.dtype(), 0)?;
        let interior = self.window.strides.iter().map(|&stride| stride - 1).collect();
        let none = || SmallVec::from_elem(0, values.rank());
        let spread = record(Op::Pad { low: none(), high: none(), interior }, &[values, &zero])?;
        let back = |amounts: SmallVec<[i64; 4]>| amounts.iter().map(|&amount| -amount).collect();
        let op = Op::Pad { low: back(low), high: back(high), interior: SmallVec::from_elem(0, values.rank()) };
        let dense = record(op, &[&spread, &zero])?;
        let strides = self.window.base_dilations.clone();
        let op = Op::Slice { start: SmallVec::from_elem(0, values.rank()), limit: dense.sizes().into(), strides };
        record(op, &[&dense])
    }
}

impl<'a> Taps<'a> {
    fn new(x: &Tensor, operand: &'a Shape, select: Extreme, window: &'a Window) -> Result<Self> {
        let x = x.detach();
        let kind = match select {
            Extreme::Max => Reducer::Max,
            Extreme::Min => Reducer::Min,
        };
        let best = record(Op::ReduceWindow { kind, window: Arc::new(window.clone()) }, &[&x])?;
        let lowest = match select {
            Extreme::Max => f64::NEG_INFINITY,
            Extreme::Min => f64::INFINITY,
        };
        let mut taps = Self { frame: Frame { window, operand }, hits: Vec::new() };
        let is_there = Tensor::ones(x.shape(), DType::F32)?;
        let mut free = Tensor::ones(best.shape(), DType::Bool)?;
        for place in places(&window.sizes) {
            let value = taps.frame.read(&x, &place, best.shape(), lowest)?;
            // Padding is never selected, even where all of a window is as low.
            let there = taps.frame.read(&is_there, &place, best.shape(), 0.0)?;
            let there = there.ne(&constant(&there, 0)?)?;
            let equal = value.eq(&best)?.bitwise_or(&value.ne(&value)?)?;
            let hit = equal.bitwise_and(&there)?.bitwise_and(&free)?;
            free = free.bitwise_and(&hit.not()?)?;
            taps.hits.push((place, hit));
        }
        Ok(taps)
    }

    /// The sum over windows of their value at the element that each selected.
    fn scatter(&self, values: &Tensor) -> Result<Tensor> {
        let mut sum = Tensor::zeros(self.frame.operand, values.dtype())?;
        for (place, hit) in &self.hits {
            sum = sum.add(&self.frame.write(&hit.select(values, &constant(values, 0)?)?, place)?)?;
        }
        Ok(sum)
    }

    /// For each window the element of `x` at the place that it selected.
    fn gather(&self, x: &Tensor) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for (place, hit) in &self.hits {
            let value = self.frame.read(x, place, hit.shape(), 0.0)?;
            let value = hit.select(&value, &constant(&value, 0)?)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&value)?,
                None => value,
            });
        }
        match sum {
            Some(sum) => Ok(sum),
            None => Tensor::zeros(self.frame.operand, x.dtype()),
        }
    }
}

/// All places in a window, in row-major order.
fn places(sizes: &Axes) -> Vec<Axes> {
    let mut places = vec![Axes::new()];
    for &size in sizes {
        places =
            places.iter().flat_map(|place| (0..size).map(|at| place.iter().copied().chain([at]).collect())).collect();
    }
    places
}
