//! Loops and branches whose condition is a tensor.
//!
//! What is indexed in the body of a loop or in a branch is checked as it is elsewhere: the number of the first bad index, or
//! −1, is one more value of the loop, and one more result of the branches. It says that the whole loop has failed.

use super::record::{Check, record, several};
use super::{Operand, Tensor};
use crate::ir::{BlockId, Comparison, Graph, Op, Type, Value};
use crate::lazy::mode::locate;
use crate::lazy::trace::{trace, trace_checked};
use crate::{DType, Error, ErrorKind, Literal, Result, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

impl Tensor {
    /// While `cond(values)` is true, `values = body(values)`; gives the last ones. Both functions are traced once and may use
    /// only their arguments and numbers.
    ///
    /// Errors if `cond` does not give a scalar bool or `body` not the types it was given. An index out of range in `body`
    /// is an error when one of the results is read, at this call; in `cond` such an index is clamped.
    ///
    /// ```
    /// use tpu_core::Tensor;
    /// let table = Tensor::from_slice(&[1i64, 2, 7])?;
    /// let walk = |steps: i64| -> tpu_core::Result<i64> {
    ///     let values = Tensor::while_loop(
    ///         &[&Tensor::scalar(0i64)?, &Tensor::scalar(steps)?, &table],
    ///         |x| x[1].gt(0),
    ///         |x| Ok(vec![x[2].take(&x[0], 0)?, x[1].sub(1)?, x[2].clone()]),
    ///     )?;
    ///     values[0].item()
    /// };
    /// assert_eq!(walk(3)?, 7);
    /// assert_eq!(walk(4).unwrap_err().kind(), tpu_core::ErrorKind::Index);
    /// # Ok::<(), tpu_core::Error>(())
    /// ```
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
        let mut cond = trace(device, &types, |values| Ok(vec![cond(values)?])).map_err(|error| error.at(&location))?;
        let (mut body, checks) = trace_checked(device, &types, body).map_err(|error| error.at(&location))?;
        let none;
        let mut operands: Vec<Operand<'_>> = initial.iter().map(|&value| value.into()).collect();
        let mut check = Check::None;
        if !checks.is_empty() {
            none = Self::constant_on(device, Literal::splat(DType::I32, Shape::scalar(), -1))?;
            check = Check::Result(operands.len());
            operands.push((&none).into());
            let (main, bad) = (cond.main(), Type::new(DType::I32, ()));
            cond.parameter(main, bad.clone());
            let before = body.parameter(main, bad);
            let checks: Vec<Value> = [before].into_iter().chain(checks).collect();
            add_first_bad(&mut body, &checks)?;
        }
        let op = Op::While { cond: BlockId(0), body: BlockId(1) };
        let mut results = several(record(op, &operands, &[Arc::new(cond), Arc::new(body)], check)?);
        results.truncate(initial.len());
        Ok(results)
    }

    /// The results of the branch that this scalar i32 names, of the last one when it is out of range. All branches take
    /// `arguments` and must give the same types. An index out of range in the branch that is taken is an error when one of
    /// the results is read, at this call.
    #[track_caller]
    pub fn case(
        &self,
        arguments: &[&Self],
        branches: Vec<Box<dyn FnOnce(&[Self]) -> Result<Vec<Self>> + '_>>,
    ) -> Result<SmallVec<[Self; 1]>> {
        let location = locate(std::panic::Location::caller());
        let types: Vec<Type> = arguments.iter().map(|value| value.ty().clone()).collect();
        let mut traced = Vec::with_capacity(branches.len());
        for branch in branches {
            traced.push(trace_checked(self.device(), &types, branch).map_err(|error| error.at(&location))?);
        }
        let mut check = Check::None;
        if traced.iter().any(|(_, checks)| !checks.is_empty()) {
            check = Check::Result(traced[0].0[BlockId(0)].results.len());
            traced.iter_mut().try_for_each(|(branch, checks)| add_first_bad(branch, checks))?;
        }
        let regions: Vec<Arc<Graph>> = traced.into_iter().map(|(branch, _)| Arc::new(branch)).collect();
        let index = self.to_dtype(DType::I32)?;
        let mut operands: Vec<Operand<'_>> = vec![(&index).into()];
        operands.extend(arguments.iter().map(|&value| Operand::from(value)));
        let op = Op::Case { branches: (0..regions.len() as u32).map(BlockId).collect() };
        let mut results = several(record(op, &operands, &regions, check)?);
        if let Check::Result(own) = check {
            results.truncate(own);
        }
        Ok(results)
    }
}

/// One more result of a program: the first of `checks` that is no −1, else −1.
fn add_first_bad(program: &mut Graph, checks: &[Value]) -> Result<()> {
    let main = program.main();
    let number = |program: &mut Graph, x: i64| program.constant(main, Literal::splat(DType::I32, Shape::scalar(), x));
    let mut first = number(program, -1);
    let zero = number(program, 0);
    for &check in checks.iter().rev() {
        let is_bad = program.push(main, Op::Compare(Comparison::Ge), &[check, zero])?.into();
        first = program.push(main, Op::Select, &[is_bad, check, first])?.into();
    }
    let mut results = program[main].results.clone();
    results.push(first);
    program.set_results(main, results);
    Ok(())
}
