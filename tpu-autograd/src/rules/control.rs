//! Branches. The derivative of a `case` is a `case` of the derivatives of its branches.

use super::{Context, Gradients, gradients, saves};
use crate::history::SavedOperand;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use tpu_core::ir::{BlockId, Graph, Node, NodeId, Op, Type, Value};
use tpu_core::tensor::Operand;
use tpu_core::{Error, ErrorKind, Result, Tensor, bail};

type Branch<'a> = Box<dyn FnOnce(&[Tensor]) -> Result<Vec<Tensor>> + 'a>;

/// Each branch of the derivative runs its branch again, then goes backwards through it.
pub(super) fn case(cx: &Context<'_>) -> Result<Gradients> {
    let index = cx.input(0)?;
    let arguments = (1..cx.operands.len()).map(|at| cx.input(at)).collect::<Result<Vec<_>>>()?;
    let arrived: Vec<usize> = (0..cx.results.len()).filter(|&at| cx.grad_of(at).is_some()).collect();
    let wanted: Vec<usize> = (1..cx.operands.len()).filter(|&at| cx.needs(at)).collect();
    let given: Vec<&Tensor> = arguments.iter().chain(arrived.iter().filter_map(|&at| cx.grad_of(at))).collect();
    let mut branches: Vec<Branch<'_>> = Vec::with_capacity(cx.blocks.len());
    for &(graph, block) in &cx.blocks {
        let (arrived, wanted) = (&arrived, &wanted);
        branches.push(Box::new(move |given| {
            let (arguments, gradients) = given.split_at(cx.operands.len() - 1);
            let mut seeds = vec![None; cx.results.len()];
            for (&at, gradient) in arrived.iter().zip(gradients) {
                seeds[at] = Some(gradient.clone());
            }
            let found = Tape::record(graph, block, arguments)?.back(&seeds, &cx.needs[1..])?;
            let gradient = |&at: &usize| match &found[at - 1] {
                Some(gradient) => Ok(gradient.clone()),
                None => Tensor::zeros(&cx.operands[at].shape, cx.operands[at].dtype),
            };
            wanted.iter().map(gradient).collect()
        }));
    }
    let found = index.case(&given, branches)?;
    let mut gradients = cx.none();
    for (at, gradient) in wanted.into_iter().zip(found) {
        gradients[at] = Some(gradient);
    }
    Ok(gradients)
}

/// The nodes of a block recorded on tensors, those of its composites among them, and what each gave. There are no histories
/// inside of a program that is being traced, so this is one for a single walk.
struct Tape<'a> {
    graph: &'a Graph,
    values: HashMap<Value, Tensor>,
    /// In order of recording.
    steps: Vec<NodeId>,
    /// Values that are others by another name: parameters and results of composites.
    aliases: HashMap<Value, Value>,
    block: BlockId,
}

impl<'a> Tape<'a> {
    fn record(graph: &'a Graph, block: BlockId, arguments: &[Tensor]) -> Result<Self> {
        let mut tape = Self { graph, values: HashMap::new(), steps: Vec::new(), aliases: HashMap::new(), block };
        for (&node, argument) in graph[block].parameters.iter().zip(arguments) {
            tape.values.insert(node.into(), argument.clone());
        }
        tape.run(block)?;
        Ok(tape)
    }

    /// Records the nodes of a block whose parameters are known. The depth of this recursion is that of blocks.
    fn run(&mut self, block: BlockId) -> Result<()> {
        let graph = self.graph;
        for &id in &graph[block].nodes {
            let node = &graph[id];
            match &node.op {
                Op::Parameter { .. } => {}
                Op::Composite { body, .. } => {
                    let inner = &graph[*body];
                    for (&parameter, &operand) in inner.parameters.iter().zip(&node.operands) {
                        self.aliases.insert(parameter.into(), operand);
                    }
                    self.run(*body)?;
                    for (result, &value) in inner.results.iter().enumerate() {
                        self.aliases.insert(Value { node: id, result: result as u32 }, value);
                    }
                }
                op => {
                    let operands =
                        node.operands.iter().map(|&operand| self.value(operand)).collect::<Result<Vec<_>>>()?;
                    for (result, tensor) in replay(graph, op, &operands)?.into_iter().enumerate() {
                        self.values.insert(Value { node: id, result: result as u32 }, tensor);
                    }
                    self.steps.push(id);
                }
            }
        }
        Ok(())
    }

    fn source(&self, mut value: Value) -> Value {
        while let Some(&other) = self.aliases.get(&value) {
            value = other;
        }
        value
    }

    fn value(&self, value: Value) -> Result<Tensor> {
        let missing = || Error::new(ErrorKind::Internal, "case", "requires operands before what reads them");
        self.values.get(&self.source(value)).cloned().ok_or_else(missing)
    }

    fn results(&self) -> Result<Vec<Tensor>> {
        self.graph[self.block].results.iter().map(|&value| self.value(value)).collect()
    }

    /// From the gradients of the block's results to those of its parameters.
    fn back(&self, seeds: &[Option<Tensor>], needs: &[bool]) -> Result<Vec<Option<Tensor>>> {
        let block = &self.graph[self.block];
        let mut leads: HashSet<Value> = HashSet::new();
        for (&parameter, _) in block.parameters.iter().zip(needs).filter(|&(_, &needed)| needed) {
            leads.insert(parameter.into());
        }
        for &id in &self.steps {
            let node = &self.graph[id];
            if node.operands.iter().any(|&operand| leads.contains(&self.source(operand))) {
                for (value, ty) in results_of(id, node) {
                    if ty.dtype.is_differentiable() {
                        leads.insert(value);
                    }
                }
            }
        }
        let mut found: HashMap<Value, Tensor> = HashMap::new();
        for (&result, seed) in block.results.iter().zip(seeds) {
            if let Some(seed) = seed {
                add(&mut found, self.source(result), seed.clone())?;
            }
        }
        for &id in self.steps.iter().rev() {
            let node = &self.graph[id];
            let needs: SmallVec<[bool; 4]> =
                node.operands.iter().map(|&operand| leads.contains(&self.source(operand))).collect();
            let arrived: SmallVec<[Option<Tensor>; 1]> =
                results_of(id, node).map(|(value, _)| found.get(&value).cloned()).collect();
            if !needs.contains(&true) || arrived.iter().all(Option::is_none) {
                continue;
            }
            let gradients = self.step(id, node, &arrived, &needs)?;
            for ((&operand, gradient), needed) in node.operands.iter().zip(gradients).zip(needs) {
                if let (Some(gradient), true) = (gradient, needed) {
                    add(&mut found, self.source(operand), gradient)?;
                }
            }
        }
        Ok(block.parameters.iter().map(|&parameter| found.remove(&Value::from(parameter))).collect())
    }

    /// The gradients of one node's operands.
    fn step(&self, id: NodeId, node: &Node, arrived: &[Option<Tensor>], needs: &[bool]) -> Result<Gradients> {
        let kept = saves(&node.op, needs);
        let mut saved_operands = SmallVec::new();
        for (at, &operand) in node.operands.iter().enumerate() {
            saved_operands.push(match kept.operand(at) {
                true => SavedOperand::Tensor(self.value(operand)?),
                false => SavedOperand::TypeOnly,
            });
        }
        let results = results_of(id, node).enumerate();
        let saved_results =
            results.map(|(at, (value, _))| kept.result(at).then(|| self.values[&value].clone())).collect();
        let operands: SmallVec<[Type; 2]> =
            node.operands.iter().map(|&operand| self.graph.ty(operand).clone()).collect();
        gradients(&Context {
            op: &node.op,
            operands: &operands,
            results: &node.types,
            arrived,
            needs,
            checked: false,
            blocks: node.op.blocks().iter().map(|&block| (self.graph, block)).collect(),
            saved_operands,
            saved_results,
        })
    }
}

fn results_of(id: NodeId, node: &Node) -> impl Iterator<Item = (Value, &Type)> {
    node.types.iter().enumerate().map(move |(result, ty)| (Value { node: id, result: result as u32 }, ty))
}

fn add(found: &mut HashMap<Value, Tensor>, value: Value, gradient: Tensor) -> Result<()> {
    let sum = match found.remove(&value) {
        Some(sum) => sum.add(&gradient)?,
        None => gradient,
    };
    found.insert(value, sum);
    Ok(())
}

/// Records an operation of a program, with its blocks, on tensors.
fn replay(graph: &Graph, op: &Op, operands: &[Tensor]) -> Result<Vec<Tensor>> {
    let block = |block: BlockId| move |arguments: &[Tensor]| Tape::record(graph, block, arguments)?.results();
    match op {
        Op::Case { branches } => {
            let [index, arguments @ ..] = operands else { bail!(Internal, "case", "requires an index") };
            let branches = branches.iter().map(|&branch| Box::new(block(branch)) as Branch<'_>).collect();
            Ok(index.case(&arguments.iter().collect::<Vec<_>>(), branches)?.into_vec())
        }
        Op::While { cond, body } => {
            let cond = |values: &[Tensor]| Ok(block(*cond)(values)?.swap_remove(0));
            Ok(Tensor::while_loop(&operands.iter().collect::<Vec<_>>(), cond, block(*body))?.into_vec())
        }
        op => {
            let operands: Vec<Operand<'_>> = operands.iter().map(Into::into).collect();
            Ok(Tensor::record(op.clone(), &operands)?.into_vec())
        }
    }
}
