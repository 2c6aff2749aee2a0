//! Walking a history backwards.

use crate::history::{Kind, Node};
use crate::mode::with_grad;
use crate::param::Cell;
use crate::rules::{self, Context};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Weak;
use tpu_core::tensor::Link;
use tpu_core::{Result, Tensor, ensure, lazy};

/// How a history is walked.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// Gradients get a history of their own.
    pub create_graph: bool,
    /// Saved values stay for another walk.
    pub retain: bool,
    /// What is wanted is where the walk ends, even if other wanted values lie beyond.
    pub stop: bool,
}

/// The part of a history that lies behind some outputs, and the gradients that have arrived in it.
struct Walk<'a> {
    /// What was computed last comes first.
    nodes: Vec<&'a Node>,
    /// A link to each node.
    links: Vec<&'a Link>,
    numbers: HashMap<*const Node, usize>,
    /// Whether something wanted lies at the node or behind it.
    leads: Vec<bool>,
    /// For each node, for each of its results.
    gradients: Vec<SmallVec<[Option<Tensor>; 1]>>,
}

impl<'a> Walk<'a> {
    fn new(seeds: &'a [(Link, Tensor)], is_wanted: impl Fn(&Node) -> bool, stop: bool) -> Result<Self> {
        let mut numbers = HashMap::new();
        let mut found = Vec::new();
        let mut stack: Vec<&Link> = seeds.iter().map(|(link, _)| link).collect();
        while let Some(link) = stack.pop() {
            let node = Node::of(link)?;
            if numbers.insert(std::ptr::from_ref(node), 0).is_none() {
                found.push((node, link));
                if !(stop && is_wanted(node)) {
                    stack.extend(node.parents.iter().flatten());
                }
            }
        }
        found.sort_unstable_by_key(|(node, _)| std::cmp::Reverse(node.sequence));
        let (nodes, links): (Vec<&Node>, Vec<&Link>) = found.into_iter().unzip();
        for (at, &node) in nodes.iter().enumerate() {
            numbers.insert(node, at);
        }
        let mut leads = vec![false; nodes.len()];
        for (at, node) in nodes.iter().enumerate().rev() {
            let mut behind = false;
            for link in node.parents.iter().flatten() {
                // Beyond what stops the walk there are no numbers.
                behind |= numbers.get(&std::ptr::from_ref(Node::of(link)?)).is_some_and(|&parent| leads[parent]);
            }
            leads[at] = behind || is_wanted(node);
        }
        let gradients = nodes.iter().map(|node| SmallVec::from_elem(None, node.results())).collect();
        let mut walk = Self { nodes, links, numbers, leads, gradients };
        for (link, gradient) in seeds {
            walk.arrive(link, gradient.clone())?;
        }
        Ok(walk)
    }

    fn number(&self, link: &Link) -> Option<usize> {
        self.numbers.get(&std::ptr::from_ref(Node::of(link).ok()?)).copied()
    }

    /// Adds to the gradient of a value.
    fn arrive(&mut self, link: &Link, gradient: Tensor) -> Result<()> {
        let Some(at) = self.number(link) else { return Ok(()) };
        let slot = &mut self.gradients[at][link.result as usize];
        *slot = Some(match slot.take() {
            Some(sum) => sum.add(&gradient)?,
            None => gradient,
        });
        Ok(())
    }

    /// Takes the gradients of a node's results through it, to those of its operands.
    fn pass(&mut self, at: usize, options: Options) -> Result<()> {
        let node = self.nodes[at];
        let needs: SmallVec<[bool; 4]> = node
            .parents
            .iter()
            .map(|link| link.as_ref().and_then(|link| self.number(link)).is_some_and(|parent| self.leads[parent]))
            .collect();
        if !needs.contains(&true) || self.gradients[at].iter().all(Option::is_none) {
            return Ok(());
        }
        let arrived = std::mem::take(&mut self.gradients[at]);
        let gradients = match &node.kind {
            Kind::Leaf(_) => return Ok(()),
            Kind::Recompute(recompute) => recompute.gradients(node, &arrived, &needs, options)?,
            Kind::Operation(operation) => {
                let saved = operation.saved(options.retain)?;
                let histories = options.create_graph.then_some(self.links[at]);
                let context = Context::new(node, operation, saved, &arrived, &needs, histories);
                let gradients = rules::gradients(&context)?;
                let typed = gradients.iter().zip(&operation.operands);
                for (gradient, ty) in typed.filter_map(|(gradient, ty)| Some((gradient.as_ref()?, ty))) {
                    let (op, got) = (operation.op.name(), gradient.ty());
                    ensure!(got == ty, Internal, op, "requires a gradient of the operand's type {ty}, got {got}");
                }
                gradients
            }
        };
        drop(arrived);
        for ((link, gradient), needed) in node.parents.iter().zip(gradients).zip(needs) {
            if let (Some(link), Some(gradient), true) = (link, gradient, needed) {
                self.arrive(link, gradient)?;
            }
        }
        Ok(())
    }

    fn run(&mut self, options: Options, is_wanted: impl Fn(&Node) -> bool) -> Result<()> {
        let Some(first) = self.gradients.iter().flatten().flatten().next() else { return Ok(()) };
        let device = first.device().clone();
        let mut all = || {
            for at in 0..self.nodes.len() {
                if is_wanted(self.nodes[at]) {
                    // Gradients of what is wanted are the answer, and may go on to what lies behind it.
                    let kept = self.gradients[at].clone();
                    self.pass(at, options)?;
                    self.gradients[at] = kept;
                } else {
                    self.pass(at, options)?;
                }
            }
            Ok(())
        };
        let all = || with_grad(options.create_graph, || lazy::scope("backward", &mut all));
        device.scope(all)
    }
}

/// The gradients of the leaves that belong to a parameter.
pub(crate) fn to_leaves(seeds: &[(Link, Tensor)], options: Options) -> Result<Vec<(Weak<Cell>, Tensor)>> {
    let is_leaf = |node: &Node| matches!(node.kind, Kind::Leaf(_));
    let mut walk = Walk::new(seeds, is_leaf, options.stop)?;
    walk.run(options, is_leaf)?;
    let mut leaves = Vec::new();
    // The first recorded leaf first.
    for (node, gradients) in walk.nodes.iter().zip(&mut walk.gradients).rev() {
        if let Kind::Leaf(cell) = &node.kind
            && let Some(gradient) = gradients[0].take()
        {
            leaves.push((cell.clone(), gradient));
        }
    }
    Ok(leaves)
}

/// The gradients of some values, `None` where the seeds do not depend on one, or not by anything that has a derivative
/// other than zero.
pub(crate) fn to_links(seeds: &[(Link, Tensor)], wanted: &[Link], options: Options) -> Result<Vec<Reached>> {
    let mut set = HashMap::new();
    for link in wanted {
        set.insert(std::ptr::from_ref(Node::of(link)?), ());
    }
    let is_wanted = |node: &Node| set.contains_key(&std::ptr::from_ref(node));
    let mut walk = Walk::new(seeds, is_wanted, options.stop)?;
    walk.run(options, is_wanted)?;
    let reached = |link: &Link| match walk.number(link) {
        None => Reached::No,
        Some(at) => walk.gradients[at][link.result as usize].clone().map_or(Reached::Zero, Reached::Gradient),
    };
    Ok(wanted.iter().map(reached).collect())
}

/// Whether and with what gradient a walk came to a value.
pub(crate) enum Reached {
    No,
    Zero,
    Gradient(Tensor),
}
