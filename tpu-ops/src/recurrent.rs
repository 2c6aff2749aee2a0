//! Recurrent layers in one direction. What the input adds to the gates of all steps is one product, made before; the loop over
//! the steps has the product with the state and the gates.
//!
//! Each is a composite of a `while` with a derivative of its own, which is a `while` in the other direction, so that the program of
//! a training step has the same size for any number of steps. For that derivative they also give the gates, if an operand has a
//! history.

use crate::composite::{attributes, widened};
use crate::scan::Scan;
use crate::{linear, require};
use smallvec::SmallVec;
use tpu_core::ir::{Attribute, Precision};
use tpu_core::{DType, Result, Tensor, ensure};

/// What [`lstm_layer`] gives.
#[derive(Clone, Debug)]
pub struct LstmOutput {
    /// The hidden state after each step: `[time, batch, hidden]`.
    pub outputs: Tensor,
    /// The last hidden state: `[batch, hidden]`.
    pub hidden: Tensor,
    /// The last cell: `[batch, hidden]`.
    pub cell: Tensor,
}

/// One layer of long short-term memory in one direction, as in PyTorch's `LSTM`:
///
/// ```text
/// i, f, g, o = the four parts of input + weight · h, through σ, σ, tanh, σ
/// c ← f c + i g
/// h ← o tanh(c)
/// ```
///
/// `input`: `[time, batch, 4 · hidden]`, the products with the inputs and both biases; `weight`: `[4 · hidden, hidden]`;
/// `hidden`, `cell`: `[batch, hidden]`, the states before the first step; one float dtype. With `reverse` the last element of the
/// input comes first, and outputs stand where their inputs do. Gates of 16-bit floats are computed in float32. Errors on other
/// shapes or dtypes.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// let (input, weight) = (Tensor::zeros([3, 1, 8], DType::F32)?, Tensor::zeros([8, 2], DType::F32)?);
/// let (hidden, cell) = (Tensor::zeros([1, 2], DType::F32)?, Tensor::ones([1, 2], DType::F32)?);
/// let out = tpu_ops::lstm_layer(&input, &weight, &hidden, &cell, false)?;
/// // Forget gates of one half, three times.
/// assert_eq!(out.cell.to_vec::<f32>()?, [0.125, 0.125]);
/// assert_eq!(out.outputs.sizes(), [3, 1, 2]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn lstm_layer(
    input: &Tensor,
    weight: &Tensor,
    hidden: &Tensor,
    cell: &Tensor,
    reverse: bool,
) -> Result<LstmOutput> {
    Tensor::checked(|| {
        check("lstm", 4, input, weight, hidden)?;
        require::sizes("lstm", "a cell", cell, hidden.sizes())?;
        require::same_dtype("lstm", ("input", input), ("cell", cell))
    })?;
    let operands = [input, weight, hidden, cell];
    let layer = Layer::new(&operands, "", reverse);
    // The gates, and the cell before the step.
    let results = layer.record("tpu.lstm", &[4, 1], 2, |at, constants, state| {
        let c = widened(&state[1])?;
        let gates = widened(&at)?.add(&widened(&linear(&state[0], &constants[0], None)?)?)?;
        let part = |at| part(&gates, 4, at);
        let (i, f, g, o) = (part(0)?.sigmoid()?, part(1)?.sigmoid()?, part(2)?.tanh()?, part(3)?.sigmoid()?);
        let next = f.mul(&c)?.add(&i.mul(&g)?)?;
        let hidden = o.mul(&next.tanh()?)?;
        let gates = Tensor::concat(&[&i, &f, &g, &o], 1)?;
        Ok((vec![hidden, next], vec![gates, c]))
    })?;
    let [outputs, hidden, cell] = [0, 1, 2].map(|at: usize| results[at].clone());
    Ok(LstmOutput { outputs, hidden, cell })
}

/// One layer of gated recurrent units in one direction, as in PyTorch's `GRU`:
///
/// ```text
/// r, z = the first two parts of input + (weight · h + bias), through σ
/// n = tanh(third part of input + r · third part of (weight · h + bias))
/// h ← (1 − z) n + z h
/// ```
///
/// Gives the hidden state after each step, `[time, batch, hidden]`, and the last one.
///
/// `input`: `[time, batch, 3 · hidden]`, the products with the inputs and their bias; `weight`: `[3 · hidden, hidden]`; `bias`:
/// `[3 · hidden]`; `hidden`: `[batch, hidden]`. The rest is as in [`lstm_layer`].
///
/// ```
/// use tpu_core::{DType, Tensor};
/// let (input, weight) = (Tensor::zeros([2, 1, 3], DType::F32)?, Tensor::zeros([3, 1], DType::F32)?);
/// let (bias, hidden) = (Tensor::zeros([3], DType::F32)?, Tensor::ones([1, 1], DType::F32)?);
/// let (outputs, _) = tpu_ops::gru_layer(&input, &weight, &bias, &hidden, false)?;
/// assert_eq!(outputs.to_vec::<f32>()?, [0.5, 0.25]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn gru_layer(
    input: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    hidden: &Tensor,
    reverse: bool,
) -> Result<(Tensor, Tensor)> {
    Tensor::checked(|| {
        check("gru", 3, input, weight, hidden)?;
        require::sizes("gru", "a bias", bias, &weight.sizes()[..1])?;
        require::same_dtype("gru", ("input", input), ("bias", bias))
    })?;
    let operands = [input, weight, hidden, bias];
    let layer = Layer::new(&operands, "", reverse);
    // The gates, and the third part of the product with the state.
    let results = layer.record("tpu.gru", &[4], 1, |at, constants, state| {
        let (given, h) = (widened(&at)?, widened(&state[0])?);
        let product = widened(&linear(&state[0], &constants[0], None)?)?.add(&widened(&constants[1])?)?;
        let (r, z) =
            (part(&given, 3, 0)?.add(&part(&product, 3, 0)?)?, part(&given, 3, 1)?.add(&part(&product, 3, 1)?)?);
        let (r, z, m) = (r.sigmoid()?, z.sigmoid()?, part(&product, 3, 2)?);
        let n = part(&given, 3, 2)?.add(&r.mul(&m)?)?.tanh()?;
        let next = n.add(&z.mul(&h.sub(&n)?)?)?;
        Ok((vec![next], vec![Tensor::concat(&[&r, &z, &n, &m], 1)?]))
    })?;
    Ok((results[0].clone(), results[1].clone()))
}

/// What a plain recurrent layer puts the sum through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// max(x, 0)
    Relu,
}

/// One plain recurrent layer in one direction, as in PyTorch's `RNN`: h ← tanh(input + weight · h), or `relu` of it.
///
/// Gives the hidden state after each step, `[time, batch, hidden]`, and the last one.
///
/// `input`: `[time, batch, hidden]`, the products with the inputs and both biases; `weight`: `[hidden, hidden]`; `hidden`:
/// `[batch, hidden]`. The rest is as in [`lstm_layer`].
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::{Nonlinearity, rnn_layer};
/// let (input, weight) = (Tensor::ones([3, 1, 1], DType::F32)?, Tensor::ones([1, 1], DType::F32)?);
/// let hidden = Tensor::zeros([1, 1], DType::F32)?;
/// let (outputs, _) = rnn_layer(&input, &weight, &hidden, Nonlinearity::Relu, false)?;
/// assert_eq!(outputs.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn rnn_layer(
    input: &Tensor,
    weight: &Tensor,
    hidden: &Tensor,
    nonlinearity: Nonlinearity,
    reverse: bool,
) -> Result<(Tensor, Tensor)> {
    Tensor::checked(|| check("rnn", 1, input, weight, hidden))?;
    let name = if nonlinearity == Nonlinearity::Tanh { "tanh" } else { "relu" };
    let operands = [input, weight, hidden];
    let layer = Layer::new(&operands, name, reverse);
    let results = layer.record("tpu.rnn", &[], 1, |at, constants, state| {
        let sum = widened(&at)?.add(&widened(&linear(&state[0], &constants[0], None)?)?)?;
        let next = if nonlinearity == Nonlinearity::Tanh { sum.tanh()? } else { crate::relu(&sum)? };
        Ok((vec![next], Vec::new()))
    })?;
    Ok((results[0].clone(), results[1].clone()))
}

/// Part `at` of the last axis of `[batch, parts · hidden]`.
fn part(x: &Tensor, parts: usize, at: usize) -> Result<Tensor> {
    let width = x.shape().size(1) / parts;
    x.narrow(1, at * width, width)
}

/// The operands: input, weight, hidden state, then what there is besides: a cell, which is state, or a bias.
struct Layer<'a> {
    operands: &'a [&'a Tensor],
    nonlinearity: &'static str,
    reverse: bool,
}

impl<'a> Layer<'a> {
    fn new(operands: &'a [&'a Tensor], nonlinearity: &'static str, reverse: bool) -> Self {
        Self { operands, nonlinearity, reverse }
    }

    /// The composite: the outputs, the last states, and, if a derivative may be asked for, what is `kept` of each step: that
    /// many times the hidden size. `step` gives the next states, the first of which is the output, and what
    /// is kept.
    #[track_caller]
    fn record(
        &self,
        name: &str,
        kept: &[usize],
        states: usize,
        step: impl Fn(Tensor, &[Tensor], &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    ) -> Result<SmallVec<[Tensor; 1]>> {
        let keep = self.operands.iter().any(|operand| operand.history().is_some());
        let attributes = attributes([
            ("reverse", Attribute::Bool(self.reverse)),
            ("nonlinearity", Attribute::Text(self.nonlinearity.into())),
            ("keep", Attribute::Bool(keep)),
            ("precision", Attribute::Text(Precision::current().name().into())),
        ]);
        Tensor::composite(name, attributes, self.operands, |operands| {
            let [input, weight, rest @ ..] = operands else { unreachable!("three operands or more") };
            let (state, constants) = rest.split_at(states);
            let (batch, width, dtype) = (state[0].sizes()[0], state[0].sizes()[1], input.dtype());
            let mut emitted: Vec<(Vec<usize>, DType)> = vec![(vec![batch, width], dtype)];
            if keep {
                emitted.extend(kept.iter().map(|times| (vec![batch, times * width], dtype)));
            }
            let constants: Vec<&Tensor> = std::iter::once(weight).chain(constants).collect();
            let scan = Scan {
                reverse: self.reverse,
                // Somebody else's history, who wants it op by op.
                unrolled: operands.iter().any(|operand| operand.history().is_some()),
                sequences: &[input],
                constants: &constants,
                ..Scan::new(input.shape().size(0))
            };
            let initial: Vec<&Tensor> = state.iter().collect();
            let (last, mut sequences) = scan.run(&initial, &emitted, |at, constants, state| {
                let (next, kept) = step(at[0].clone(), constants, state)?;
                let next = next.iter().map(|value| value.to_dtype(dtype)).collect::<Result<Vec<_>>>()?;
                let mut rows = vec![next[0].clone()];
                if keep {
                    for row in kept {
                        rows.push(row.to_dtype(dtype)?);
                    }
                }
                Ok((next, rows))
            })?;
            let mut results = vec![sequences.remove(0)];
            results.extend(last);
            results.extend(sequences);
            Ok(results)
        })
    }
}

fn check(op: &'static str, gates: usize, input: &Tensor, weight: &Tensor, hidden: &Tensor) -> Result<()> {
    require::float(op, "an input", input)?;
    require::rank(op, "an input", input, 3)?;
    require::rank(op, "a hidden state", hidden, 2)?;
    let [batch, width] = [hidden.sizes()[0], hidden.sizes()[1]];
    ensure!(
        input.sizes()[1..] == [batch, gates * width],
        Shape,
        op,
        "requires an input [time, {batch}, {}] for a hidden state {}, got {}",
        gates * width,
        hidden.shape(),
        input.shape()
    );
    require::sizes(op, "a weight", weight, &[gates * width, width])?;
    require::same_dtype(op, ("input", input), ("weight", weight))?;
    require::same_dtype(op, ("input", input), ("hidden state", hidden))
}
