//! From a graph to a program of the host: simplify → fuse → lower, then plan memory and place.
//!
//! The first three make a [`Template`], which is good for all sizes that answer the questions asked on the way as the sizes did
//! that it was made from (`size.rs`). The last two make the program for one vector of sizes. A fresh compilation does both;
//! a program for other sizes is the second half alone.

mod assemble;
mod attention;
mod batch;
mod constants;
mod describe;
mod domain;
mod dot;
mod form;
mod fuse;
mod lower;
mod lowered;
pub(super) mod memory;
mod pairs;
mod place;
mod recompute;
mod rules;
mod simplify;
mod size;
mod view;

use super::program::Program;
use super::row::isa::Isa;
use crate::ir::key::Key;
use crate::ir::{Block, Check, Graph, Op};
use crate::runtime::CompileOptions;
use crate::{Error, ErrorKind, Result, bail};
use form::Form;
use size::{Broken, Sizes};

/// Errors with `Unsupported` when the host does not have an op: all that it has not are other people's functions.
pub(super) fn supports(op: &Op) -> Result<()> {
    match op {
        Op::CustomCall(call) => bail!(Unsupported, op.name(), "of {} is not supported on host", call.target),
        _ => Ok(()),
    }
}

/// A program for all sizes with the same facts.
pub(super) struct Template {
    /// What the program is: two that differ in the sizes of their keys alone may be one template's.
    key: Key,
    blocks: Vec<Block>,
    checks: Vec<Check>,
    form: Form,
    sizes: Sizes,
}

/// Compiles a program that `verify` accepts; `described`: with its description.
pub(super) fn compile(
    source: &Graph,
    options: CompileOptions,
    isa: Isa,
    described: bool,
) -> Result<(Template, Program)> {
    let key = key_of(source);
    let (form, sizes) = size::record(&key.sizes, || Form::new(source, options, isa, false));
    let form = form?;
    let program = form.at(&sizes.own(), described)?;
    Ok((Template { key, blocks: source.blocks.clone(), checks: source.checks.clone(), form, sizes }, program))
}

fn key_of(source: &Graph) -> Key {
    let mut key = Key::default();
    key.graph(source);
    key
}

impl Template {
    /// The program for the sizes of another graph. Says what differs if it is not one of this template's.
    pub fn at(&self, source: &Graph, described: bool) -> Result<std::result::Result<Program, Broken>> {
        let key = key_of(source);
        let same = key.structure == self.key.structure && key.extras == self.key.extras;
        if !same || source.blocks != self.blocks || source.checks != self.checks {
            return Ok(Err(Broken::other_program()));
        }
        match self.sizes.at(&key.sizes) {
            Ok(values) => self.form.at(&values, described).map(Ok),
            Err(broken) => Ok(Err(broken)),
        }
    }
}

fn fault(what: &str) -> Error {
    Error::new(ErrorKind::Internal, "compile", format!("met {what}"))
}
