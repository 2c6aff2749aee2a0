//! Einstein summation.

mod equation;

use equation::{Equation, Label};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tpu_core::ir::{Axes, DotDims, Precision};
use tpu_core::{DType, Result, Tensor, ensure};

const OP: &str = "einsum";

/// Products of elements, summed over the axes that the result does not name. PyTorch's `einsum`.
///
/// `equation`: a term of letters per operand, a letter per axis, separated by commas; `->` and the letters of the result. A
/// letter twice in one term takes the diagonal. `...` stands for the axes that a term does not name; they broadcast. Sizes of one
/// letter agree or are 1. Without `->` the result has the axes of `...`, then the letters that occur once, `A` to `Z` before
/// `a` to `z`. Spaces count nothing.
///
/// Operands have one dtype, a number; they are contracted from left to right, each pair as one matrix product. Errors on an
/// equation that is malformed or does not fit the operands.
///
/// ```
/// use tpu_core::{DType, Tensor};
/// use tpu_ops::einsum;
/// let x = Tensor::arange(0, 4, 1, DType::F32)?.reshape([2, 2])?;
/// assert_eq!(einsum("ij,jk->ik", &[&x, &x])?.to_vec::<f32>()?, [2.0, 3.0, 6.0, 11.0]);
/// assert_eq!(einsum("ii", &[&x])?.item::<f32>()?, 3.0);
/// # Ok::<(), tpu_core::Error>(())
/// ```
#[track_caller]
pub fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
    let (equation, sizes) = Tensor::checked(|| {
        let equation = Equation::parse(equation, operands)?;
        let sizes = sizes(&equation, operands)?;
        Ok((equation, sizes))
    })?;
    let mut terms = Vec::with_capacity(operands.len());
    for (&operand, labels) in operands.iter().zip(&equation.terms) {
        terms.push(Term::new(operand, labels, &sizes)?);
    }
    let mut terms = terms.into_iter();
    // An equation has a term, if an empty one, so there is an operand.
    let first = terms.next().expect("as many operands as terms");
    let mut rest = terms.as_slice();
    let mut product = first.summed(|label| equation.result.contains(&label) || occurs(rest, label))?;
    while let [next, later @ ..] = rest {
        let needed = |label| equation.result.contains(&label) || occurs(later, label);
        let next = next.clone().summed(|label| needed(label) || product.labels.contains(&label))?;
        product = product.times(&next, needed)?;
        rest = later;
    }
    let order = |label| product.labels.iter().position(|&other| other == label).map(|axis| axis as isize);
    product.tensor.permute(equation.result.iter().filter_map(|&label| order(label)))
}

/// Whether one of the terms has the label.
fn occurs(terms: &[Term], label: Label) -> bool {
    terms.iter().any(|term| term.labels.contains(&label))
}

/// The size of every label.
fn sizes(equation: &Equation, operands: &[&Tensor]) -> Result<BTreeMap<Label, usize>> {
    let mut sizes = BTreeMap::new();
    let Some(first) = operands.first() else { return Ok(sizes) };
    for (&operand, labels) in operands.iter().zip(&equation.terms) {
        let dtype = operand.dtype();
        let same = dtype == first.dtype() && dtype != DType::Bool;
        ensure!(same, DType, OP, "requires operands of one dtype of numbers, got {} and {dtype}", first.dtype());
        for (axis, &label) in labels.iter().enumerate() {
            let size = operand.shape().size(axis);
            let first_here = labels.iter().position(|&other| other == label) == Some(axis);
            let known = sizes.entry(label).or_insert(size);
            // The two sides of a diagonal do not broadcast.
            let mine = labels.iter().position(|&other| other == label).map(|first| operand.shape().size(first));
            let fits = if first_here { *known == size || *known == 1 || size == 1 } else { mine == Some(size) };
            ensure!(
                fits,
                Shape,
                OP,
                "requires axes of one letter of one size, got {size} and {} for {label} of an operand of shape {}",
                if first_here { *known } else { mine.unwrap_or(0) },
                operand.shape()
            );
            if *known == 1 {
                *known = size;
            }
        }
    }
    Ok(sizes)
}

/// A tensor with a distinct label for each axis.
#[derive(Clone)]
struct Term {
    tensor: Tensor,
    labels: SmallVec<[Label; 6]>,
}

impl Term {
    /// An operand with diagonals taken, and without the axes of size one that broadcast.
    #[track_caller]
    fn new(operand: &Tensor, labels: &[Label], sizes: &BTreeMap<Label, usize>) -> Result<Self> {
        let mut term = Self { tensor: operand.clone(), labels: SmallVec::from_slice(labels) };
        while let Some((first, second)) = term.repeated() {
            term.take_diagonal(first, second)?;
        }
        for axis in (0..term.labels.len()).rev() {
            let size = term.tensor.shape().size(axis);
            if size == 1 && sizes.get(&term.labels[axis]) != Some(&1) {
                term.tensor = term.tensor.squeeze(axis as isize)?;
                term.labels.remove(axis);
            }
        }
        Ok(term)
    }

    /// Two axes of one label.
    fn repeated(&self) -> Option<(usize, usize)> {
        let labels = self.labels.iter().enumerate();
        labels.rev().find_map(|(second, label)| {
            let first = self.labels.iter().position(|other| other == label)?;
            (first < second).then_some((first, second))
        })
    }

    /// Axis `first` becomes the diagonal of both, `second` vanishes.
    #[track_caller]
    fn take_diagonal(&mut self, first: usize, second: usize) -> Result<()> {
        let rank = self.labels.len();
        let others = (0..rank).filter(|&axis| axis != first && axis != second);
        let order: SmallVec<[usize; 6]> = others.chain([first, second]).collect();
        let moved = self.tensor.permute(order.iter().map(|&axis| axis as isize))?;
        let size = moved.shape().size(rank - 1);
        // In row-major order the diagonal is every (n + 1)-th element.
        let flat = moved.flatten(-2, -1)?;
        let flat_size = flat.shape().size(rank - 2);
        self.tensor = flat.slice(-1, 0, flat_size, size + 1)?;
        self.labels = order[..rank - 1].iter().map(|&axis| self.labels[axis]).collect();
        Ok(())
    }

    /// Summed over the labels that are not needed.
    #[track_caller]
    fn summed(self, needed: impl Fn(Label) -> bool) -> Result<Self> {
        let (kept, gone): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|&axis| needed(self.labels[axis]));
        let tensor = self.tensor.sum(gone.into_iter().map(|axis| axis as isize), false)?;
        Ok(Self { tensor, labels: kept.into_iter().map(|axis| self.labels[axis]).collect() })
    }

    /// The product, summed over common labels that are not needed. Its axes are common ones, then its own, then the other's.
    #[track_caller]
    fn times(&self, other: &Self, needed: impl Fn(Label) -> bool) -> Result<Self> {
        let axes = |of: &Self, wanted: &dyn Fn(Label) -> bool| -> SmallVec<[Label; 6]> {
            of.labels.iter().copied().filter(|&label| wanted(label)).collect()
        };
        let common = |label: Label| self.labels.contains(&label) && other.labels.contains(&label);
        let batch = axes(self, &|label| common(label) && needed(label));
        let contracted = axes(self, &|label| common(label) && !needed(label));
        let (mine, others) = (axes(self, &|label| !common(label)), axes(other, &|label| !common(label)));
        let labels = batch.iter().chain(&mine).chain(&others).copied().collect();
        let tensor = if contracted.is_empty() {
            let left = self.arranged(&batch, &mine)?;
            let mut wide: SmallVec<[usize; 6]> = SmallVec::from_slice(left.sizes());
            wide.extend(std::iter::repeat_n(1, others.len()));
            let right = other.arranged(&batch, &others)?;
            let mut thin: SmallVec<[usize; 6]> = SmallVec::from_slice(&right.sizes()[..batch.len()]);
            thin.extend(std::iter::repeat_n(1, mine.len()));
            thin.extend_from_slice(&right.sizes()[batch.len()..]);
            left.reshape(&wide[..])?.mul(&right.reshape(&thin[..])?)?
        } else {
            let dims = DotDims {
                lhs_batch: self.axes(&batch),
                rhs_batch: other.axes(&batch),
                lhs_contract: self.axes(&contracted),
                rhs_contract: other.axes(&contracted),
                precision: Precision::current(),
                result: self.tensor.dtype(),
            };
            self.tensor.dot_general(&other.tensor, dims)?
        };
        Ok(Self { tensor, labels })
    }

    /// The tensor with its axes in the order of two lists of labels.
    #[track_caller]
    fn arranged(&self, first: &[Label], second: &[Label]) -> Result<Tensor> {
        let axes = self.axes(first).into_iter().chain(self.axes(second));
        self.tensor.permute(axes.map(|axis| axis as isize))
    }

    /// Where labels are.
    fn axes(&self, labels: &[Label]) -> Axes {
        labels.iter().filter_map(|label| self.labels.iter().position(|other| other == label)).collect()
    }
}
