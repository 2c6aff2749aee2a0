//! Two functions of two elements as one loop, so that what is between them stays in registers.
//!
//! A sum, difference or product takes less time than to bring its operands from the cache and its result back; in a pair each
//! element is read and written once. Both functions round as they do alone: the bits are those of two loops.

use super::functions::{AddF, MulF, SubF};
use super::isa::Isa;
use super::loops::{Kernel, Map2, Map3, map3_kernel};
use crate::ir::BinaryOp;
use std::marker::PhantomData;

/// `G(F(x, y), z)`.
struct Then<F, G>(PhantomData<(F, G)>);
/// `G(z, F(x, y))`.
struct After<F, G>(PhantomData<(F, G)>);

impl<F: Map2<f32, f32>, G: Map2<f32, f32>> Map3<f32> for Then<F, G> {
    #[inline(always)]
    fn map(x: f32, y: f32, z: f32) -> f32 {
        G::map(F::map(x, y), z)
    }
}

impl<F: Map2<f32, f32>, G: Map2<f32, f32>> Map3<f32> for After<F, G> {
    #[inline(always)]
    fn map(x: f32, y: f32, z: f32) -> f32 {
        G::map(z, F::map(x, y))
    }
}

/// Which elements of a pair are one per row.
#[derive(Clone, Copy)]
pub(crate) struct Single {
    /// Of the first operation at most one.
    pub first: [bool; 2],
    pub other: bool,
}

/// The loop of `second(first(x, y), z)`, with `turned` of `second(z, first(x, y))`; `None` where there is none.
pub(crate) fn pair(isa: Isa, first: BinaryOp, second: BinaryOp, turned: bool, single: Single) -> Option<Kernel> {
    macro_rules! modes {
        ($f:ty) => {
            match (single.first, single.other) {
                ([false, false], false) => map3_kernel::<f32, $f, false, false, false>(isa),
                ([false, false], true) => map3_kernel::<f32, $f, false, false, true>(isa),
                ([false, true], false) => map3_kernel::<f32, $f, false, true, false>(isa),
                ([false, true], true) => map3_kernel::<f32, $f, false, true, true>(isa),
                ([true, false], false) => map3_kernel::<f32, $f, true, false, false>(isa),
                ([true, false], true) => map3_kernel::<f32, $f, true, false, true>(isa),
                ([true, true], _) => return None,
            }
        };
    }
    macro_rules! second {
        ($f:ident) => {
            match (second, turned) {
                (BinaryOp::Add, _) => modes!(Then<$f, AddF>),
                (BinaryOp::Multiply, _) => modes!(Then<$f, MulF>),
                (BinaryOp::Subtract, false) => modes!(Then<$f, SubF>),
                (BinaryOp::Subtract, true) => modes!(After<$f, SubF>),
                _ => return None,
            }
        };
    }
    Some(match first {
        BinaryOp::Add => second!(AddF),
        BinaryOp::Subtract => second!(SubF),
        BinaryOp::Multiply => second!(MulF),
        _ => return None,
    })
}
