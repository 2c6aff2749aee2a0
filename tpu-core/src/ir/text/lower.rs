//! From the tree of a text to a graph.

use super::lex;
use super::tree::{Function, Operation, Region};
use crate::ir::verify::MAX_DEPTH;
use crate::ir::{BlockId, Check, Graph, NodeId, Op, Type, Value};
use crate::{Error, Result};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Values by the names that stand for them; several results share a name.
type Scope<'t> = HashMap<&'t str, SmallVec<[Value; 1]>>;

/// The graph of a module whose functions these are.
pub(super) fn lower<'t>(source: &'t str, functions: &'t [Function<'t>]) -> Result<Graph> {
    let mut by_name = HashMap::new();
    for function in functions {
        if by_name.insert(function.name, function).is_some() {
            return Err(lex::error(source, function.start, format_args!("one function {}, got two", function.name)));
        }
    }
    let Some(main) = by_name.remove("@main") else {
        return Err(lex::error(source, 0, "a function @main, got none"));
    };
    let mut lowering = Lowering { source, functions: by_name, graph: Graph::new(), depth: 0 };
    let block = lowering.graph.main();
    lowering.region(block, &main.body, &main.body.arguments, &main.body.operations)?;
    lowering.checks(main)?;
    Ok(lowering.graph)
}

pub(super) struct Lowering<'t> {
    pub(super) source: &'t str,
    /// Functions that no composite has used yet.
    functions: HashMap<&'t str, &'t Function<'t>>,
    graph: Graph,
    depth: usize,
}

impl<'t> Lowering<'t> {
    /// Fills a block with what a region or function says.
    fn region(
        &mut self,
        block: BlockId,
        region: &'t Region<'t>,
        arguments: &[(&'t str, Type)],
        operations: &'t [Operation<'t>],
    ) -> Result<()> {
        let place = region.operations.first().map_or(0, |operation| operation.start);
        if self.depth > MAX_DEPTH {
            return Err(lex::error(self.source, place, format_args!("blocks at most {MAX_DEPTH} deep")));
        }
        let mut scope = Scope::new();
        for (name, ty) in arguments {
            let value = self.graph.parameter(block, ty.clone());
            scope.insert(name, SmallVec::from_elem(value, 1));
        }
        let Some((last, nodes)) = operations.split_last() else {
            return Err(lex::error(self.source, place, "a return at the end of a region, got nothing"));
        };
        for operation in nodes {
            self.operation(block, &mut scope, operation)?;
        }
        if !matches!(last.name.as_str(), "func.return" | "stablehlo.return") {
            return Err(lex::error(self.source, last.start, format_args!("a return at the end, got {}", last.name)));
        }
        let results = self.values(&scope, last, &last.operands)?;
        self.graph.set_results(block, results);
        Ok(())
    }

    /// The values of some operands of an operation.
    fn values(&self, scope: &Scope<'t>, operation: &Operation<'t>, names: &[&'t str]) -> Result<Vec<Value>> {
        let find = |&name: &&'t str| {
            let (base, result) = match name.split_once('#') {
                Some((base, number)) => (base, number.parse().ok()?),
                None => (name, 0),
            };
            scope.get(base)?.get::<usize>(result).copied()
        };
        let unknown = |name: &str| {
            lex::error(self.source, operation.start, format_args!("a value of the same block, got {name}"))
        };
        names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
    }

    fn operation(&mut self, block: BlockId, scope: &mut Scope<'t>, operation: &'t Operation<'t>) -> Result<()> {
        if is_auxiliary(operation) {
            return Ok(());
        }
        let (op, operands) = match operation.name.as_str() {
            "stablehlo.while" => (self.while_loop(operation)?, &operation.operands[..]),
            "stablehlo.case" => return self.case(block, scope, operation),
            "stablehlo.composite" => (self.composite(operation)?, &operation.operands[..]),
            _ => super::operation::read(self.source, operation)?,
        };
        let operands = self.values(scope, operation, operands)?;
        self.push(block, scope, operation, op, &operands)
    }

    fn push(
        &mut self,
        block: BlockId,
        scope: &mut Scope<'t>,
        operation: &'t Operation<'t>,
        op: Op,
        operands: &[Value],
    ) -> Result<()> {
        let failed =
            |error: Error| lex::error(self.source, operation.start, format_args!("a valid operation, got: {error}"));
        let node = self.graph.push(block, op, operands).map_err(failed)?;
        let mut first = 0;
        for &(name, count) in &operation.results {
            // The tree has checked that names stand for as many results as there are types.
            let numbers = first..first + count as u32;
            scope.insert(name, numbers.map(|result| Value { node, result }).collect());
            first += count as u32;
        }
        if self.graph[node].types[..] != operation.to[..] {
            let (types, got) = (&self.graph[node].types, &operation.to);
            return Err(lex::error(self.source, operation.start, format_args!("results {types:?}, got {got:?}")));
        }
        Ok(())
    }

    /// A block of its own for a region.
    fn nested(
        &mut self,
        region: &'t Region<'t>,
        arguments: &[(&'t str, Type)],
        operations: &'t [Operation<'t>],
    ) -> Result<BlockId> {
        let block = self.graph.block();
        self.depth += 1;
        self.region(block, region, arguments, operations)?;
        self.depth -= 1;
        Ok(block)
    }

    fn while_loop(&mut self, operation: &'t Operation<'t>) -> Result<Op> {
        let [cond, body] = &operation.regions[..] else {
            return Err(lex::error(self.source, operation.start, "a condition and a body, got other regions"));
        };
        let cond = self.nested(cond, &cond.arguments, &cond.operations)?;
        let body = self.nested(body, &body.arguments, &body.operations)?;
        Ok(Op::While { cond, body })
    }

    /// The arguments are what the barrier at the beginning of each branch names.
    fn case(&mut self, block: BlockId, scope: &mut Scope<'t>, operation: &'t Operation<'t>) -> Result<()> {
        let mut names = operation.operands.clone();
        let mut branches = SmallVec::new();
        for region in &operation.regions {
            let (arguments, rest) = match region.operations.split_first() {
                Some((barrier, rest)) if is_argument_barrier(barrier) => {
                    names.truncate(operation.operands.len());
                    names.extend(&barrier.operands);
                    let results = barrier.results.iter().map(|&(name, _)| name);
                    (results.zip(barrier.to.iter().cloned()).collect(), rest)
                }
                _ => (Vec::new(), &region.operations[..]),
            };
            branches.push(self.nested(region, &arguments, rest)?);
        }
        let operands = self.values(scope, operation, &names)?;
        self.push(block, scope, operation, Op::Case { branches }, &operands)
    }

    /// One of the ops that StableHLO lacks, or a composite with the function that defines it.
    fn composite(&mut self, operation: &'t Operation<'t>) -> Result<Op> {
        if let Some(op) = super::operation::composite_of_ours(self.source, operation)? {
            return Ok(op);
        }
        let (name, attributes, function) = super::operation::composite_parts(self.source, operation)?;
        let Some(function) = self.functions.remove(function) else {
            let message = format_args!("a function that no other composite uses, got {function}");
            return Err(lex::error(self.source, operation.start, message));
        };
        let body = self.nested(&function.body, &function.body.arguments, &function.body.operations)?;
        Ok(Op::Composite { name, attributes, body })
    }

    /// The last results of the program are the checks of the nodes that its attribute lists.
    fn checks(&mut self, main: &Function<'t>) -> Result<()> {
        let Some(guarded) = super::operation::checks_attribute(self.source, main)? else {
            return Ok(());
        };
        let nodes = self.graph.blocks[0].nodes.clone();
        let results = &mut self.graph.blocks[0].results;
        let Some(ordinary) = results.len().checked_sub(guarded.len()) else {
            return Err(lex::error(self.source, main.start, "a result per check, got fewer"));
        };
        let values = results.split_off(ordinary);
        for (&number, value) in guarded.iter().zip(values) {
            // In canonical form the nodes of the program have the lowest numbers.
            let guards: Option<NodeId> = usize::try_from(number).ok().and_then(|number| nodes.get(number).copied());
            let Some(guards) = guards else {
                let message = format_args!("guarded nodes of the program, got {number}");
                return Err(lex::error(self.source, main.start, message));
            };
            self.graph.checks.push(Check { value, guards });
        }
        Ok(())
    }
}

/// Whether an operation is part of another node: its results are not called after a node alone.
fn is_auxiliary(operation: &Operation<'_>) -> bool {
    let of_node =
        |name: &str| name.strip_prefix("%v").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    operation.results.first().is_some_and(|&(name, _)| !of_node(name))
}

/// Whether the first operation of a branch names its arguments. A barrier of values of the branch cannot be the first.
fn is_argument_barrier(operation: &Operation<'_>) -> bool {
    operation.name == "stablehlo.optimization_barrier" && !operation.operands.is_empty()
}
