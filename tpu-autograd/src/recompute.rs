//! Checkpointing: values of a function are not kept for the backward pass but computed again there.

use crate::history::{Kind, Node, freed, next_sequence};
use crate::mode::{enable_grad, is_grad_enabled, no_grad};
use crate::rules::Gradients;
use crate::tape::{self, Options, Reached};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tpu_core::ir::{Op, Type};
use tpu_core::tensor::{Link, Operand};
use tpu_core::{Result, Tensor, ensure};
use tpu_ops::Generator;

type Function = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// A function that runs again in the backward pass. The parents of its node are all values from outside that it uses:
/// its inputs, parameters, and what else it captured.
pub(crate) struct Recompute {
    results: SmallVec<[Type; 1]>,
    /// Freed by the backward pass.
    saved: Mutex<Option<(Arc<Function>, Vec<Tensor>)>>,
    /// Of the generator that it runs under both times.
    seed: u64,
}

/// Runs `function` on `inputs` without keeping what its backward pass needs; that pass runs it again, which takes less
/// memory and more time. PyTorch's `torch.utils.checkpoint`.
///
/// The function must give the same both times: random numbers of the [current generator](Generator::current) are, those of
/// other generators are not. It may use parameters and other tensors besides its inputs; gradients
/// flow to all of them.
///
/// ```
/// use tpu_autograd::{Backward, Param, checkpoint};
/// use tpu_core::Tensor;
/// let w = Param::new(Tensor::from_slice(&[0.5f32])?);
/// let block = { let w = w.clone(); move |x: &[Tensor]| Ok(vec![x[0].mul(&w.value())?.tanh()?]) };
/// let y = checkpoint(block, &[&Tensor::from_slice(&[1.0f32])?])?.remove(0);
/// y.sum_all()?.backward()?;
/// let expected = 1.0 - 0.5f32.tanh().powi(2);
/// assert!((w.grad().unwrap().to_vec::<f32>()?[0] - expected).abs() < 1e-6);
/// # Ok::<(), tpu_core::Error>(())
/// ```
pub fn checkpoint(
    function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    inputs: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let start = next_sequence();
    let inputs: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    // Recorded with history to see what it uses; that history is dropped with `outputs`, and what it saved with it.
    let generator = Generator::current().fork();
    let (seed, _) = generator.state();
    let outputs = generator.scope(|| function(&inputs))?;
    let plain = || outputs.iter().map(Tensor::detach);
    if !is_grad_enabled() {
        return Ok(plain().collect());
    }
    let parents = boundary(&outputs, start)?;
    if parents.is_empty() {
        return Ok(plain().collect());
    }
    let results = outputs.iter().map(|output| output.ty().clone()).collect();
    let saved = Mutex::new(Some((Arc::new(function) as Arc<Function>, inputs)));
    let node = Node::link(parents.into_iter().map(Some).collect(), Kind::Recompute(Recompute { results, saved, seed }));
    let linked = outputs.iter().enumerate().map(|(result, output)| match output.history() {
        Some(_) => output.with_history(Some(Link { history: node.history.clone(), result: result as u32 })),
        None => output.clone(),
    });
    Ok(linked.collect())
}

/// The values recorded before `start` that `outputs` were computed from, in an order that repeats.
fn boundary(outputs: &[Tensor], start: u64) -> Result<Vec<Link>> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut stack: Vec<&Link> = outputs.iter().rev().filter_map(Tensor::history).collect();
    while let Some(link) = stack.pop() {
        let node = Node::of(link)?;
        if seen.insert((std::ptr::from_ref(node), link.result)) {
            match node.sequence < start {
                true => found.push(link.clone()),
                false => stack.extend(node.parents.iter().flatten()),
            }
        }
    }
    Ok(found)
}

impl Recompute {
    pub fn results(&self) -> usize {
        self.results.len()
    }

    /// Runs the function again and takes the gradients through it.
    pub fn gradients(
        &self,
        node: &Node,
        arrived: &[Option<Tensor>],
        needs: &[bool],
        options: Options,
    ) -> Result<Gradients> {
        let saved = {
            let mut saved = self.saved.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if options.retain { saved.clone() } else { saved.take() }
        };
        let (function, inputs) = saved.ok_or_else(|| freed("checkpoint"))?;
        let inputs = behind_barrier(&inputs, arrived)?;
        let outputs = Generator::new(self.seed).scope(|| enable_grad(|| function(&inputs)))?;
        let types = outputs.iter().map(Tensor::ty);
        ensure!(
            types.eq(&self.results),
            Value,
            "checkpoint",
            "requires a function that gives the same again, got results of other types"
        );
        let seeds: Vec<(Link, Tensor)> = outputs
            .iter()
            .zip(arrived)
            .filter_map(|(output, gradient)| Some((output.history()?.clone(), gradient.clone()?)))
            .collect();
        drop(outputs);
        let wanted: Vec<Link> =
            node.parents.iter().zip(needs).filter_map(|(link, &needed)| link.clone().filter(|_| needed)).collect();
        let options = Options { retain: options.create_graph, stop: true, ..options };
        let mut reached = tape::to_links(&seeds, &wanted, options)?.into_iter();
        let gradient = |&needed: &bool| match needed.then(|| reached.next()).flatten() {
            Some(Reached::Gradient(gradient)) => Some(gradient),
            _ => None,
        };
        Ok(needs.iter().map(gradient).collect())
    }
}

/// The inputs behind a barrier that waits for the gradients: otherwise a backend would see that the values computed
/// again are those it has, and keep them.
pub(crate) fn behind_barrier(inputs: &[Tensor], arrived: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
    if inputs.is_empty() {
        return Ok(Vec::new());
    }
    let plain: Vec<Tensor> = inputs.iter().chain(arrived.iter().flatten()).map(Tensor::detach).collect();
    let operands: Vec<Operand<'_>> = plain.iter().map(Into::into).collect();
    let held = no_grad(|| Tensor::record(Op::OptimizationBarrier, &operands))?;
    Ok(held.iter().zip(inputs).map(|(held, input)| held.with_history(input.history().cloned())).collect())
}
