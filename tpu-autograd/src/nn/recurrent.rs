//! Recurrent networks: layers and directions of [`tpu_ops::recurrent`], with PyTorch's weights and names.

use super::{Module, Visitor, is_training};
use crate::{Param, amp};
use tpu_core::{DType, Result, Tensor, ensure, lazy};
use tpu_ops::{Generator, Nonlinearity, dropout, gru_layer, linear, lstm_layer, rnn_layer, uniform};

/// Settings of [`Recurrent`]; the default is PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentOptions {
    /// Layers, each of which reads the outputs of the one before.
    pub layers: usize,
    /// Whether there are biases.
    pub bias: bool,
    /// Inputs and outputs are `[batch, time, width]` instead of `[time, batch, width]`; states are not changed by this.
    pub batch_first: bool,
    /// Probability with which the outputs of all layers but the last are dropped in training.
    pub dropout: f64,
    /// A second direction, from the end, whose outputs stand behind those of the first.
    pub bidirectional: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { layers: 1, bias: true, batch_first: false, dropout: 0.0, bidirectional: false }
    }
}

/// What a step of a recurrent network is.
pub trait Cell {
    /// The name in errors.
    const NAME: &'static str;
    /// Numbers per hidden number that weights give.
    const GATES: usize;
    /// Tensors of a state.
    const STATES: usize;

    /// Outputs and last states of one layer in one direction.
    ///
    /// `input`: what inputs and biases add to the gates, without the second bias if the cell [takes it](Self::TAKES_BIAS).
    fn layer(
        &self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        state: &[Tensor],
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)>;

    /// Whether the second bias goes through a gate.
    const TAKES_BIAS: bool;
}

/// The cell of [`Lstm`].
#[derive(Clone, Copy, Debug)]
pub struct LstmCell;

impl Cell for LstmCell {
    const NAME: &'static str = "lstm";
    const GATES: usize = 4;
    const STATES: usize = 2;
    const TAKES_BIAS: bool = false;

    fn layer(
        &self,
        input: &Tensor,
        weight: &Tensor,
        _bias: Option<&Tensor>,
        state: &[Tensor],
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let out = lstm_layer(input, weight, &state[0], &state[1], reverse)?;
        Ok((out.outputs, vec![out.hidden, out.cell]))
    }
}

/// The cell of [`Gru`].
#[derive(Clone, Copy, Debug)]
pub struct GruCell;

impl Cell for GruCell {
    const NAME: &'static str = "gru";
    const GATES: usize = 3;
    const STATES: usize = 1;
    const TAKES_BIAS: bool = true;

    fn layer(
        &self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        state: &[Tensor],
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let none = match bias {
            Some(bias) => bias.clone(),
            None => Tensor::zeros([weight.shape().size(0)], weight.dtype())?,
        };
        let (outputs, hidden) = gru_layer(input, weight, &none, &state[0], reverse)?;
        Ok((outputs, vec![hidden]))
    }
}

/// The cell of [`Rnn`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RnnCell(pub Nonlinearity);

impl Cell for RnnCell {
    const NAME: &'static str = "rnn";
    const GATES: usize = 1;
    const STATES: usize = 1;
    const TAKES_BIAS: bool = false;

    fn layer(
        &self,
        input: &Tensor,
        weight: &Tensor,
        _bias: Option<&Tensor>,
        state: &[Tensor],
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let (outputs, hidden) = rnn_layer(input, weight, &state[0], self.0, reverse)?;
        Ok((outputs, vec![hidden]))
    }
}

/// A recurrent network of one or more layers and one or two directions.
///
/// ```
/// use tpu_autograd::nn::{Lstm, Module, RecurrentOptions};
/// use tpu_core::{DType, Tensor};
/// let options = RecurrentOptions { layers: 2, batch_first: true, bidirectional: true, ..Default::default() };
/// let lstm = Lstm::new(3, 5, options, DType::F32, &tpu_ops::Generator::new(0))?;
/// let (outputs, state) = lstm.run(&Tensor::ones([7, 4, 3], DType::F32)?, None)?;
/// assert_eq!(outputs.sizes(), [7, 4, 10]);
/// // The hidden state and the cell, of each layer and direction.
/// assert_eq!((state[0].sizes(), state[1].sizes()), (&[4, 7, 5][..], &[4, 7, 5][..]));
/// assert_eq!(lstm.named_parameters()[4].0, "weight_ih_l0_reverse");
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recurrent<C> {
    /// Of each layer the weights of each direction.
    pub layers: Vec<Vec<Weights>>,
    /// What a step is.
    pub cell: C,
    options: RecurrentOptions,
    hidden: usize,
}

/// PyTorch's `nn.LSTM`. A state is the hidden state and the cell.
pub type Lstm = Recurrent<LstmCell>;
/// PyTorch's `nn.GRU`. A state is the hidden state.
pub type Gru = Recurrent<GruCell>;
/// PyTorch's `nn.RNN`. A state is the hidden state.
pub type Rnn = Recurrent<RnnCell>;

/// The weights of a layer in one direction. Rows belong to the gates in PyTorch's order: input, forget, cell and output gate of an
/// LSTM, reset, update and new gate of a GRU.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[gates · hidden, inputs]`
    pub input: Param,
    /// `[gates · hidden, hidden]`
    pub hidden: Param,
    /// `[gates · hidden]` each, beside the two products.
    pub bias: Option<(Param, Param)>,
}

impl Lstm {
    /// First values as in [`Recurrent::with_cell`].
    pub fn new(
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        Self::with_cell(LstmCell, inputs, hidden, options, dtype, generator)
    }
}

impl Gru {
    /// First values as in [`Recurrent::with_cell`].
    pub fn new(
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        Self::with_cell(GruCell, inputs, hidden, options, dtype, generator)
    }
}

impl Rnn {
    /// First values as in [`Recurrent::with_cell`].
    pub fn new(
        inputs: usize,
        hidden: usize,
        nonlinearity: Nonlinearity,
        options: RecurrentOptions,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        Self::with_cell(RnnCell(nonlinearity), inputs, hidden, options, dtype, generator)
    }
}

impl<C: Cell> Recurrent<C> {
    /// Weights and biases uniform in ±1/√hidden, PyTorch's default. Errors without a layer, without hidden numbers, or on a dropout
    /// that is not from 0 to 1.
    pub fn with_cell(
        cell: C,
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
        dtype: DType,
        generator: &Generator,
    ) -> Result<Self> {
        let RecurrentOptions { layers, bias, bidirectional, dropout, .. } = options;
        ensure!(
            layers > 0 && hidden > 0,
            Value,
            C::NAME,
            "requires layers and hidden numbers, got {layers} and {hidden}"
        );
        ensure!((0.0..=1.0).contains(&dropout), Value, C::NAME, "requires a dropout from 0 to 1, got {dropout}");
        let bound = 1.0 / (hidden as f64).sqrt();
        let draw = |shape: &[usize]| -> Result<Param> {
            Ok(Param::new(uniform(shape, -bound, bound, dtype, Some(generator))?))
        };
        let directions = 1 + usize::from(bidirectional);
        let weights = |inputs: usize| -> Result<Weights> {
            let rows = C::GATES * hidden;
            let (input, hidden) = (draw(&[rows, inputs])?, draw(&[rows, hidden])?);
            Ok(Weights { input, hidden, bias: if bias { Some((draw(&[rows])?, draw(&[rows])?)) } else { None } })
        };
        let layers = (0..layers).map(|layer| {
            let inputs = if layer == 0 { inputs } else { directions * hidden };
            (0..directions).map(|_| weights(inputs)).collect::<Result<Vec<_>>>()
        });
        Ok(Self { layers: layers.collect::<Result<_>>()?, cell, options, hidden })
    }

    /// Outputs of the last layer, `[time, batch, directions · hidden]`, or as `batch_first` says, and the last states: each
    /// `[layers · directions, batch, hidden]`, of the first layer's first direction first.
    ///
    /// `x`: `[time, batch, inputs]`, or as `batch_first` says; `state`: what a state is of this network, in the shapes of the last
    /// ones, zeros if absent. Errors on other shapes.
    pub fn run(&self, x: &Tensor, state: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        let x = amp::cast(x)?;
        ensure!(x.rank() == 3, Shape, C::NAME, "requires an input of three axes, got {}", x.shape());
        let mut x = if self.options.batch_first { x.transpose(0, 1)? } else { x };
        let given = self.given(&x, state)?;
        let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); C::STATES];
        for (number, directions) in self.layers.iter().enumerate() {
            let mut outputs = Vec::with_capacity(directions.len());
            for (direction, weights) in directions.iter().enumerate() {
                let at = number * directions.len() + direction;
                let first = given.iter().map(|state| state.narrow(0, at, 1)?.squeeze(0)).collect::<Result<Vec<_>>>()?;
                let name = format!("l{number}{}", if direction == 1 { "_reverse" } else { "" });
                let (output, states) = lazy::scope(&name, || self.direction(&x, weights, &first, direction == 1))?;
                outputs.push(output);
                last.iter_mut().zip(states).for_each(|(all, state)| all.push(state));
            }
            x = if outputs.len() == 1 { outputs.remove(0) } else { Tensor::concat(&[&outputs[0], &outputs[1]], 2)? };
            if number + 1 < self.layers.len() {
                x = dropout(&x, self.options.dropout, is_training(), None)?;
            }
        }
        let stack = |states: Vec<Tensor>| Tensor::stack(&states.iter().collect::<Vec<_>>(), 0);
        let last = last.into_iter().map(stack).collect::<Result<_>>()?;
        Ok((if self.options.batch_first { x.transpose(0, 1)? } else { x }, last))
    }

    /// One product for the inputs of all steps, then the loop over these.
    fn direction(
        &self,
        x: &Tensor,
        weights: &Weights,
        state: &[Tensor],
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let (first, second) = match &weights.bias {
            Some((first, second)) => (Some(amp::value(first)?), Some(amp::value(second)?)),
            None => (None, None),
        };
        let first = match (&first, &second) {
            (Some(first), Some(second)) if !C::TAKES_BIAS => Some(first.add(second)?),
            _ => first,
        };
        let input = linear(x, &amp::value(&weights.input)?, first.as_ref())?;
        self.cell.layer(&input, &amp::value(&weights.hidden)?, second.as_ref(), state, reverse)
    }

    /// The states before the first step.
    fn given(&self, x: &Tensor, state: Option<&[Tensor]>) -> Result<Vec<Tensor>> {
        let shape = [self.layers.iter().map(Vec::len).sum(), x.shape().size(1), self.hidden];
        let Some(state) = state else {
            let zeros = x.device().scope(|| Tensor::zeros(shape, x.dtype()))?;
            return Ok(vec![zeros; C::STATES]);
        };
        let count = state.len();
        ensure!(count == C::STATES, Value, C::NAME, "requires {} tensors as state, got {count}", C::STATES);
        for tensor in state {
            ensure!(tensor.sizes() == shape, Shape, C::NAME, "requires states {shape:?}, got {}", tensor.shape());
        }
        state.iter().map(|tensor| tensor.to_dtype(x.dtype())).collect()
    }
}

impl<C: Cell> Module for Recurrent<C> {
    /// The outputs of [`run`](Recurrent::run) from zero states.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.run(x, None)?.0)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (number, directions) in self.layers.iter().enumerate() {
            for (weights, suffix) in directions.iter().zip(["", "_reverse"]) {
                let name = |kind: &str| format!("{kind}_l{number}{suffix}");
                visitor.param(&name("weight_ih"), &weights.input);
                visitor.param(&name("weight_hh"), &weights.hidden);
                if let Some((first, second)) = &weights.bias {
                    visitor.param(&name("bias_ih"), first);
                    visitor.param(&name("bias_hh"), second);
                }
            }
        }
    }
}
