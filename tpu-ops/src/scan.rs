//! Loops over a sequence.

use crate::place::beside;
use smallvec::SmallVec;
use tpu_core::tensor::Operand;
use tpu_core::{DType, Result, Tensor, ensure, lazy};

/// A loop over the first axis of sequences.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::Scan;
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0])?;
/// let scan = Scan { sequences: &[&x], ..Scan::new(3) };
/// let zero = Tensor::zeros([], DType::F32)?;
/// let (last, sums) = scan.run(&[&zero], &[(vec![], DType::F32)], |at, _, state| {
///     let sum = state[0].add(&at[0])?;
///     Ok((vec![sum.clone()], vec![sum]))
/// })?;
/// assert_eq!(last[0].item::<f32>()?, 7.0);
/// assert_eq!(sums[0].to_vec::<f32>()?, [1.0, 3.0, 7.0]);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Number of rounds.
    pub rounds: usize,
    /// From the last element to the first.
    pub reverse: bool,
    /// Record every round for itself: such a loop has derivatives, if its operands do. Otherwise it is one `while`, whose size as a
    /// program does not depend on the rounds.
    pub unrolled: bool,
    /// Tensors of `rounds` elements along the first axis, of which a round sees one.
    pub sequences: &'a [&'a Tensor],
    /// What all rounds see. A loop that is not unrolled sees nothing else.
    pub constants: &'a [&'a Tensor],
}

/// State after a round, and the element of each result of that round.
type Round = (Vec<Tensor>, Vec<Tensor>);

impl Scan<'_> {
    /// Rounds over nothing, forwards.
    pub fn new(rounds: usize) -> Self {
        Self { rounds, reverse: false, unrolled: false, sequences: &[], constants: &[] }
    }

    /// Runs `round(elements of the sequences, constants, state)` for each element. It gives the next state, and an element for each
    /// of the `emitted` sequences, whose shapes and dtypes are given. Results are the last state and these sequences.
    ///
    /// Errors if a sequence has another length, or a round gives other types.
    #[track_caller]
    pub fn run(
        &self,
        initial: &[&Tensor],
        emitted: &[(Vec<usize>, DType)],
        round: impl Fn(&[Tensor], &[Tensor], &[Tensor]) -> Result<Round>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        Tensor::checked(|| {
            for sequence in self.sequences {
                let fits = sequence.sizes().first() == Some(&self.rounds);
                ensure!(
                    fits,
                    Shape,
                    "scan",
                    "requires sequences of {} elements, got {}",
                    self.rounds,
                    sequence.shape()
                );
            }
            Ok(())
        })?;
        lazy::at_caller(|| match self.unrolled || self.rounds == 0 {
            true => self.unroll(initial, emitted, round),
            false => self.repeat(initial, emitted, round),
        })
    }

    /// Zeros where the operands are.
    fn zeros(&self, initial: &[&Tensor], sizes: Vec<usize>, dtype: DType) -> Result<Tensor> {
        match self.sequences.iter().chain(self.constants).chain(initial).next() {
            Some(tensor) => beside(tensor, || Tensor::zeros(sizes, dtype)),
            None => Tensor::zeros(sizes, dtype),
        }
    }

    fn unroll(
        &self,
        initial: &[&Tensor],
        emitted: &[(Vec<usize>, DType)],
        round: impl Fn(&[Tensor], &[Tensor], &[Tensor]) -> Result<Round>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let constants: Vec<Tensor> = self.constants.iter().map(|&constant| constant.clone()).collect();
        let mut state: Vec<Tensor> = initial.iter().map(|&value| value.clone()).collect();
        let mut rows: Vec<Vec<Tensor>> = vec![Vec::new(); emitted.len()];
        for at in 0..self.rounds {
            let at = if self.reverse { self.rounds - 1 - at } else { at };
            let mut elements = Vec::with_capacity(self.sequences.len());
            for sequence in self.sequences {
                elements.push(sequence.narrow(0, at, 1)?.squeeze(0)?);
            }
            let (next, row) = round(&elements, &constants, &state)?;
            state = next;
            rows.iter_mut().zip(row).for_each(|(rows, row)| rows.push(row));
        }
        let mut sequences = Vec::with_capacity(rows.len());
        for (mut rows, (sizes, dtype)) in rows.into_iter().zip(emitted) {
            if self.reverse {
                rows.reverse();
            }
            sequences.push(match rows.is_empty() {
                true => self.zeros(initial, [&[0], &sizes[..]].concat(), *dtype)?,
                false => Tensor::stack(&rows.iter().collect::<Vec<_>>(), 0)?,
            });
        }
        Ok((state, sequences))
    }

    fn repeat(
        &self,
        initial: &[&Tensor],
        emitted: &[(Vec<usize>, DType)],
        round: impl Fn(&[Tensor], &[Tensor], &[Tensor]) -> Result<Round>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let rounds = self.rounds as i64;
        let (inputs, constants, states) = (self.sequences.len(), self.constants.len(), initial.len());
        let mut values = vec![self.zeros(initial, Vec::new(), DType::I64)?];
        values.extend(self.sequences.iter().chain(self.constants).chain(initial).map(|&value| value.clone()));
        for (sizes, dtype) in emitted {
            values.push(self.zeros(initial, [&[self.rounds], &sizes[..]].concat(), *dtype)?);
        }
        let body = |values: &[Tensor]| -> Result<Vec<Tensor>> {
            let (counter, rest) = (&values[0], &values[1..]);
            let at = if self.reverse { counter.neg()?.add(rounds - 1)? } else { counter.clone() };
            let start = |rank: usize| -> SmallVec<[Operand<'_>; 4]> {
                std::iter::once((&at).into()).chain(std::iter::repeat_n(0.into(), rank - 1)).collect()
            };
            let (sequences, rest) = rest.split_at(inputs);
            let (constants, rest) = rest.split_at(constants);
            let (state, stacks) = rest.split_at(states);
            let mut elements = Vec::with_capacity(inputs);
            for sequence in sequences {
                let one = [&[1], &sequence.sizes()[1..]].concat();
                elements.push(sequence.dynamic_slice(&start(one.len()), &one)?.squeeze(0)?);
            }
            let (next, rows) = round(&elements, constants, state)?;
            let mut values = vec![counter.add(1)?];
            values.extend(sequences.iter().chain(constants).cloned());
            values.extend(next);
            for (stack, row) in stacks.iter().zip(rows) {
                values.push(stack.dynamic_update_slice(&row.unsqueeze(0)?, &start(stack.rank()))?);
            }
            Ok(values)
        };
        let operands: Vec<&Tensor> = values.iter().collect();
        let mut results = Tensor::while_loop(&operands, |values| values[0].lt(rounds), body)?.into_vec();
        let sequences = results.split_off(1 + inputs + constants + states);
        let state = results.split_off(1 + inputs + constants);
        Ok((state, sequences))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(reverse: bool, unrolled: bool) -> Result<(Vec<f64>, Vec<f64>)> {
        let x = Tensor::from_vec(vec![1.0f64, 2.0, 4.0, 8.0], [4, 1])?;
        let scale = Tensor::from_slice(&[10.0f64])?;
        let scan = Scan { reverse, unrolled, sequences: &[&x], constants: &[&scale], ..Scan::new(4) };
        let zero = Tensor::zeros([1], DType::F64)?;
        let (last, rows) = scan.run(&[&zero], &[(vec![1], DType::F64)], |at, constants, state| {
            let sum = state[0].add(&at[0].mul(&constants[0])?)?;
            Ok((vec![sum.clone()], vec![sum]))
        })?;
        assert_eq!(rows[0].sizes(), [4, 1]);
        Ok((last[0].to_vec()?, rows[0].to_vec()?))
    }

    #[test]
    fn loops_and_unrolled_loops_give_the_same_in_both_directions() {
        for unrolled in [false, true] {
            assert_eq!(sums(false, unrolled).unwrap(), (vec![150.0], vec![10.0, 30.0, 70.0, 150.0]));
            assert_eq!(sums(true, unrolled).unwrap(), (vec![150.0], vec![150.0, 140.0, 120.0, 80.0]));
        }
    }

    #[test]
    fn a_sequence_of_another_length_is_an_error() {
        let x = Tensor::zeros([3], DType::F32).unwrap();
        let scan = Scan { sequences: &[&x], ..Scan::new(4) };
        let error = scan.run(&[], &[], |_, _, _| Ok((vec![], vec![]))).unwrap_err();
        assert!(error.to_string().contains("requires sequences of 4 elements, got"), "{error}");
    }
}
