//! Bools: sum is or, product is and.

use super::super::cell::{Cell, Flag};
use super::{Combine, Map, Wide, Zip, combine, map, reducer, zip};
use crate::ir::{BinaryOp, Reducer, UnaryOp};
use std::cmp::Ordering;

impl PartialOrd for Flag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.get().cmp(&other.get()))
    }
}

fn or(x: Flag, y: Flag) -> Flag {
    Flag::new(x.get() | y.get())
}
fn and(x: Flag, y: Flag) -> Flag {
    Flag::new(x.get() & y.get())
}
fn xor(x: Flag, y: Flag) -> Flag {
    Flag::new(x.get() ^ y.get())
}

impl Wide for Flag {
    fn unary<T: Cell<Wide = Self>>(op: UnaryOp) -> Option<Map<T>> {
        match op {
            UnaryOp::Not => Some(map!(|x| Self::new(!x.get()))),
            _ => None,
        }
    }

    fn binary<T: Cell<Wide = Self>>(op: BinaryOp) -> Option<Zip<T>> {
        match op {
            BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Or => Some(zip!(|x, y| or(x, y))),
            BinaryOp::Multiply | BinaryOp::Minimum | BinaryOp::And => Some(zip!(|x, y| and(x, y))),
            BinaryOp::Xor => Some(zip!(|x, y| xor(x, y))),
            _ => None,
        }
    }

    fn reducer<T: Cell<Wide = Self>>(kind: Reducer) -> Option<Combine<T>> {
        Some(match kind {
            Reducer::Sum | Reducer::Max | Reducer::Or => reducer!(Self::new(false), |x, y| or(x, y)),
            Reducer::Product | Reducer::Min | Reducer::And => reducer!(Self::new(true), |x, y| and(x, y)),
            Reducer::Xor => reducer!(Self::new(false), |x, y| xor(x, y)),
        })
    }

    fn is_nan(self) -> bool {
        false
    }

    fn plus(self, x: Self) -> Self {
        Self::new(self.get() | x.get())
    }
}
