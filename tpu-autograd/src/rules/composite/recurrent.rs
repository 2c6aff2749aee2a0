//! Recurrent layers: loops against the direction of the forward pass, which kept the gates of each step.
//!
//! Only what one step hands to the step before is computed in the loop. The gradient of the weight is one product over all steps,
//! afterwards. Gradients of gradients walk over every round: their loops are unrolled.

use super::super::{Context, Gradients, constant};
use super::widened;
use tpu_core::ir::{Attributes, Axes, DotDims, Precision};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::Scan;

/// Of `input, weight, hidden, cell`; gives `outputs, hidden, cell, gates, cells before the steps`.
///
/// With h̄ and c̄ from the step after, ḡ of the output and t = tanh(c):
///
/// ```text
/// ō = (h̄ + ḡ) t,  c̄ += (h̄ + ḡ) o (1 − t²),  ī = c̄ g,  f̄ = c̄ c₋₁,  ḡ = c̄ i,  c̄₋₁ = c̄ f
/// ```
///
/// each gate's then through its function, and h̄₋₁ = gates · weight.
pub(super) fn lstm(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let layer = Layer::new(cx, attributes)?;
    let (gates, cells) = (cx.output(3)?, cx.output(4)?);
    let mut sequences = vec![layer.of_outputs.clone(), gates.clone(), cells.clone()];
    let kept = [cx.grad_of(3).cloned(), cx.grad_of(4).cloned()];
    sequences.extend(kept.iter().flatten().cloned());
    let state = [cx.grad_or_zeros(1)?, cx.grad_or_zeros(2)?];
    let (last, found) = layer.back(cx, &sequences, &state, &[4], |at, state, weight| {
        let (_, more) = at.split_at(3);
        let (of_gates, more) = more.split_at(usize::from(kept[0].is_some()));
        let (i, f, g, o) = (part(&at[1], 0)?, part(&at[1], 1)?, part(&at[1], 2)?, part(&at[1], 3)?);
        let before = widened(&at[2])?;
        let t = f.mul(&before)?.add(&i.mul(&g)?)?.tanh()?;
        let of_h = widened(&state[0])?.add(&widened(&at[0])?)?;
        let of_c = widened(&state[1])?.add(&of_h.mul(&o)?.mul(&less(&t.square()?)?)?)?;
        let mut each = [of_c.mul(&g)?, of_c.mul(&before)?, of_c.mul(&i)?, of_h.mul(&t)?];
        if let [of_gates] = of_gates {
            for (at, each) in each.iter_mut().enumerate() {
                *each = each.add(&part(of_gates, at)?)?;
            }
        }
        let [of_i, of_f, of_g, of_o] = &each;
        let sums = [
            through_sigmoid(of_i, &i)?,
            through_sigmoid(of_f, &f)?,
            through_tanh(of_g, &g)?,
            through_sigmoid(of_o, &o)?,
        ];
        let sums = joined(&sums, layer.dtype)?;
        let mut of_before = of_c.mul(&f)?;
        if let [of_cell] = more {
            of_before = of_before.add(&widened(of_cell)?)?;
        }
        Ok((vec![layer.product(&sums, weight)?, of_before.to_dtype(layer.dtype)?], vec![sums]))
    })?;
    let mut gradients = cx.none();
    layer.weight(cx, &found[0], &mut gradients)?;
    gradients[0] = Some(found[0].clone());
    gradients[2] = Some(last[0].clone());
    gradients[3] = Some(last[1].clone());
    Ok(gradients)
}

/// Of `input, weight, hidden, bias`; gives `outputs, hidden, gates`, which are r, z, n and m, the product with the state that r
/// multiplies.
///
/// With h̄ from the step after and of the output:
///
/// ```text
/// n̄ = h̄ (1 − z),  z̄ = h̄ (h₋₁ − n),  m̄ = n̄' r,  r̄ = n̄' m,  h̄₋₁ = h̄ z + [r̄', z̄', m̄] · weight
/// ```
///
/// where ' is through the gate's function.
pub(super) fn gru(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let layer = Layer::new(cx, attributes)?;
    let gates = cx.output(2)?;
    let mut sequences = vec![layer.of_outputs.clone(), gates.clone(), layer.before.clone()];
    let kept = cx.grad_of(2).cloned();
    sequences.extend(kept.iter().cloned());
    let (last, found) = layer.back(cx, &sequences, &[cx.grad_or_zeros(1)?], &[3, 1], |at, state, weight| {
        let (r, z, n, m) = (part(&at[1], 0)?, part(&at[1], 1)?, part(&at[1], 2)?, part(&at[1], 3)?);
        let of_h = widened(&state[0])?.add(&widened(&at[0])?)?;
        let of = |gate: usize, found: Tensor| match at.get(3) {
            Some(kept) => found.add(&part(kept, gate)?),
            None => Ok(found),
        };
        let of_n = through_tanh(&of(2, of_h.mul(&less(&z)?)?)?, &n)?;
        let of_z = through_sigmoid(&of(1, of_h.mul(&widened(&at[2])?.sub(&n)?)?)?, &z)?;
        let of_m = of(3, of_n.mul(&r)?)?;
        let of_r = through_sigmoid(&of(0, of_n.mul(&m)?)?, &r)?;
        let sums = joined(&[of_r, of_z, of_m], layer.dtype)?;
        let through = widened(&layer.product(&sums, weight)?)?;
        let of_before = of_h.mul(&z)?.add(&through)?.to_dtype(layer.dtype)?;
        Ok((vec![of_before], vec![sums, of_n.to_dtype(layer.dtype)?]))
    })?;
    let mut gradients = cx.none();
    layer.weight(cx, &found[0], &mut gradients)?;
    if cx.needs(0) {
        // The input's third part does not go through r.
        let width = found[1].shape().size(2);
        gradients[0] = Some(Tensor::concat(&[&found[0].narrow(2, 0, 2 * width)?, &found[1]], 2)?);
    }
    gradients[2] = Some(last[0].clone());
    if cx.needs(3) {
        gradients[3] = Some(widened(&found[0])?.sum([0, 1], false)?.to_dtype(layer.dtype)?);
    }
    Ok(gradients)
}

/// Of `input, weight, hidden`; gives `outputs, hidden`.
pub(super) fn rnn(cx: &Context<'_>, attributes: &Attributes) -> Result<Gradients> {
    let layer = Layer::new(cx, attributes)?;
    let relu = attributes.text("nonlinearity") == Some("relu");
    let sequences = [layer.of_outputs.clone(), cx.output(0)?.clone()];
    let (last, found) = layer.back(cx, &sequences, &[cx.grad_or_zeros(1)?], &[1], |at, state, weight| {
        let of_h = widened(&state[0])?.add(&widened(&at[0])?)?;
        let h = widened(&at[1])?;
        let sums =
            if relu { h.gt(&constant(&h, 0)?)?.select(&of_h, &constant(&h, 0)?)? } else { through_tanh(&of_h, &h)? };
        let sums = sums.to_dtype(layer.dtype)?;
        Ok((vec![layer.product(&sums, weight)?], vec![sums]))
    })?;
    let mut gradients = cx.none();
    layer.weight(cx, &found[0], &mut gradients)?;
    gradients[0] = Some(found[0].clone());
    gradients[2] = Some(last[0].clone());
    Ok(gradients)
}

/// What the three have in common.
struct Layer {
    reverse: bool,
    precision: Precision,
    dtype: DType,
    /// Of the outputs, zeros if none arrived.
    of_outputs: Tensor,
    /// The hidden state before each step.
    before: Tensor,
}

impl Layer {
    fn new(cx: &Context<'_>, attributes: &Attributes) -> Result<Self> {
        let named = |precision: &&Precision| attributes.text("precision") == Some(precision.name());
        let (hidden, outputs) = (cx.input(2)?, cx.output(0)?);
        let reverse = attributes.flag("reverse");
        let rounds = outputs.shape().size(0);
        let before = match (rounds, reverse) {
            (0, _) => outputs.clone(),
            (_, false) => Tensor::concat(&[&hidden.unsqueeze(0)?, &outputs.narrow(0, 0, rounds - 1)?], 0)?,
            (_, true) => Tensor::concat(&[&outputs.narrow(0, 1, rounds - 1)?, &hidden.unsqueeze(0)?], 0)?,
        };
        Ok(Self {
            reverse,
            precision: Precision::ALL.iter().copied().find(|precision| named(&precision)).unwrap_or(Precision::Highest),
            dtype: outputs.dtype(),
            of_outputs: cx.grad_or_zeros(0)?,
            before,
        })
    }

    /// The loop from the last step to the first: `step(elements of the sequences, gradients of the state, weight)`. Of each step it
    /// gives sequences of so many times the hidden size.
    fn back(
        &self,
        cx: &Context<'_>,
        sequences: &[Tensor],
        state: &[Tensor],
        widths: &[usize],
        step: impl Fn(&[Tensor], &[Tensor], &Tensor) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let weight = cx.input(1)?;
        let unrolled = sequences.iter().chain(state).chain([&weight]).any(|tensor| tensor.history().is_some());
        let [batch, width] = [self.before.sizes()[1], self.before.sizes()[2]];
        let emitted: Vec<_> = widths.iter().map(|times| (vec![batch, times * width], self.dtype)).collect();
        let sequences: Vec<&Tensor> = sequences.iter().collect();
        let scan = Scan {
            rounds: self.before.shape().size(0),
            reverse: !self.reverse,
            unrolled,
            sequences: &sequences,
            constants: &[&weight],
        };
        scan.run(&state.iter().collect::<Vec<_>>(), &emitted, |at, constants, state| step(at, state, &constants[0]))
    }

    /// `[batch, gates] · [gates, hidden]`.
    fn product(&self, sums: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let contract = |lhs: &[usize], rhs: &[usize]| (Axes::from_slice(lhs), Axes::from_slice(rhs));
        self.dot(sums, weight, contract(&[1], &[0]))
    }

    /// The gradient of the weight: that of the sums times the states before, over all steps.
    fn weight(&self, cx: &Context<'_>, sums: &Tensor, gradients: &mut Gradients) -> Result<()> {
        if cx.needs(1) {
            let both = Axes::from_slice(&[0, 1]);
            gradients[1] = Some(self.dot(sums, &self.before, (both.clone(), both))?);
        }
        Ok(())
    }

    fn dot(&self, a: &Tensor, b: &Tensor, (lhs_contract, rhs_contract): (Axes, Axes)) -> Result<Tensor> {
        let (lhs_batch, rhs_batch) = (Axes::new(), Axes::new());
        let (precision, result) = (self.precision, self.dtype);
        a.dot_general(b, DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract, precision, result })
    }
}

/// A quarter of `[batch, 4 · hidden]`.
fn part(gates: &Tensor, at: usize) -> Result<Tensor> {
    let width = gates.shape().size(1) / 4;
    widened(&gates.narrow(1, at * width, width)?)
}

/// 1 − x
fn less(x: &Tensor) -> Result<Tensor> {
    constant(x, 1)?.sub(x)
}

/// A gradient of σ(x), of x.
fn through_sigmoid(gradient: &Tensor, result: &Tensor) -> Result<Tensor> {
    gradient.mul(&result.mul(&less(result)?)?)
}

/// A gradient of tanh(x), of x.
fn through_tanh(gradient: &Tensor, result: &Tensor) -> Result<Tensor> {
    gradient.mul(&less(&result.square()?)?)
}

fn joined(parts: &[Tensor], dtype: DType) -> Result<Tensor> {
    Tensor::concat(&parts.iter().collect::<Vec<_>>(), 1)?.to_dtype(dtype)
}
