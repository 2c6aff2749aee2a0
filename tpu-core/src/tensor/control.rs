//! Loops and branches whose condition is a tensor.

use super::record::{record, several};
use super::{Operand, Tensor};
use crate::ir::{BlockId, Op, Type};
use crate::lazy::mode::locate;
use crate::lazy::trace::trace;
use crate::{DType, Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::sync::Arc;

impl Tensor {
    /// While `cond(values)` is true, `values = body(values)`; gives the last ones. Both functions are traced once and may use
    /// only their arguments and numbers.
    ///
    /// Errors if `cond` does not give a scalar bool or `body` not the types it was given.
    #[track_caller]
    pub fn while_loop(
        initial: &[&Self],
        cond: impl FnOnce(&[Self]) -> Result<Self>,
        body: impl FnOnce(&[Self]) -> Result<Vec<Self>>,
    ) -> Result<SmallVec<[Self; 1]>> {
        let location = locate(std::panic::Location::caller());
        let types: Vec<Type> = initial.iter().map(|value| value.ty().clone()).collect();
        let Some(first) = initial.first() else {
            return Err(Error::new(ErrorKind::Value, "while", "requires at least one value").at(&location));
        };
        let device = first.device();
        let cond = trace(device, &types, |values| Ok(vec![cond(values)?])).map_err(|error| error.at(&location))?;
        let body = trace(device, &types, body).map_err(|error| error.at(&location))?;
        let operands: Vec<Operand<'_>> = initial.iter().map(|&value| value.into()).collect();
        let op = Op::While { cond: BlockId(0), body: BlockId(1) };
        Ok(several(record(op, &operands, &[Arc::new(cond), Arc::new(body)], None)?))
    }

    /// The results of the branch that this scalar i32 names, of the last one when it is out of range. All branches take
    /// `arguments` and must give the same types.
    #[track_caller]
    pub fn case(
        &self,
        arguments: &[&Self],
        branches: Vec<Box<dyn FnOnce(&[Self]) -> Result<Vec<Self>> + '_>>,
    ) -> Result<SmallVec<[Self; 1]>> {
        let location = locate(std::panic::Location::caller());
        let types: Vec<Type> = arguments.iter().map(|value| value.ty().clone()).collect();
        let mut regions = Vec::with_capacity(branches.len());
        for branch in branches {
            regions.push(Arc::new(trace(self.device(), &types, branch).map_err(|error| error.at(&location))?));
        }
        let index = self.to_dtype(DType::I32)?;
        let mut operands: Vec<Operand<'_>> = vec![(&index).into()];
        operands.extend(arguments.iter().map(|&value| Operand::from(value)));
        let op = Op::Case { branches: (0..regions.len() as u32).map(BlockId).collect() };
        Ok(several(record(op, &operands, &regions, None)?))
    }
}
