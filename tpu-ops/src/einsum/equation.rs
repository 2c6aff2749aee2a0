//! Reading equations.

use super::OP;
use smallvec::SmallVec;
use std::fmt;
use tpu_core::{Result, Tensor, bail, ensure};

/// Names an axis. Letters order as they do in implicit results, after the axes of the ellipsis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Label {
    /// An axis of the ellipsis, counted from its end.
    Rest(std::cmp::Reverse<usize>),
    /// A letter.
    Letter(char),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rest(_) => f.write_str("..."),
            Self::Letter(letter) => write!(f, "{letter}"),
        }
    }
}

pub(super) type Labels = SmallVec<[Label; 6]>;

/// A label for every axis of the operands and of the result.
pub(super) struct Equation {
    pub terms: Vec<Labels>,
    pub result: Labels,
}

/// Letters and ellipsis as written.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Rest,
    Letter(char),
}

impl Equation {
    pub fn parse(text: &str, operands: &[&Tensor]) -> Result<Self> {
        let (inputs, output) = match text.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (text, None),
        };
        let written: Vec<Vec<Part>> = inputs.split(',').map(|term| parts(term, text)).collect::<Result<_>>()?;
        let output = output.map(|output| parts(output, text)).transpose()?;
        ensure!(
            written.len() == operands.len(),
            Value,
            OP,
            "requires a term per operand, got {} terms in \"{text}\" and {} operands",
            written.len(),
            operands.len()
        );
        let mut terms = Vec::with_capacity(written.len());
        let mut rest = 0;
        for (number, (term, operand)) in written.iter().zip(operands).enumerate() {
            let letters = term.iter().filter(|&&part| part != Part::Rest).count();
            let open = term.contains(&Part::Rest);
            let fits = if open { letters <= operand.rank() } else { letters == operand.rank() };
            ensure!(
                fits,
                Shape,
                OP,
                "requires a letter per axis in \"{text}\", got operand {number} of shape {}",
                operand.shape()
            );
            rest = rest.max(if open { operand.rank() - letters } else { 0 });
            terms.push(labels(term, operand.rank() - letters));
        }
        let result = match output {
            Some(output) => Self::explicit(&output, &terms, rest, text)?,
            None => Self::implicit(&terms, rest),
        };
        Ok(Self { terms, result })
    }

    fn explicit(output: &[Part], terms: &[Labels], rest: usize, text: &str) -> Result<Labels> {
        let result = labels(output, rest);
        for (at, label) in result.iter().enumerate() {
            let known = terms.iter().any(|term| term.contains(label));
            ensure!(known, Value, OP, "requires a result of letters of its terms, got {label} in \"{text}\"");
            let once = !result[..at].contains(label);
            ensure!(once, Value, OP, "requires distinct letters in its result, got {label} twice in \"{text}\"");
        }
        Ok(result)
    }

    /// The axes of the ellipsis, then the letters that occur once.
    fn implicit(terms: &[Labels], rest: usize) -> Labels {
        let mut all: Vec<Label> =
            terms.iter().flatten().copied().filter(|label| matches!(label, Label::Letter(_))).collect();
        all.sort_unstable();
        let once = all.chunk_by(|a, b| a == b).filter(|chunk| chunk.len() == 1).map(|chunk| chunk[0]);
        labels(&[Part::Rest], rest).into_iter().chain(once).collect()
    }
}

/// The labels of a term whose ellipsis stands for `rest` axes.
fn labels(term: &[Part], rest: usize) -> Labels {
    let mut labels = Labels::new();
    for part in term {
        match *part {
            Part::Rest => labels.extend((0..rest).rev().map(|from_end| Label::Rest(std::cmp::Reverse(from_end)))),
            Part::Letter(letter) => labels.push(Label::Letter(letter)),
        }
    }
    labels
}

/// Letters and ellipsis of one term.
fn parts(term: &str, text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut left = term.trim_start();
    while let Some(letter) = left.chars().next() {
        if let Some(after) = left.strip_prefix("...") {
            ensure!(!parts.contains(&Part::Rest), Value, OP, "requires at most one ... a term, got \"{text}\"");
            parts.push(Part::Rest);
            left = after.trim_start();
        } else if letter.is_ascii_alphabetic() {
            parts.push(Part::Letter(letter));
            left = left[1..].trim_start();
        } else {
            bail!(Value, OP, "requires letters, commas, ... and one ->, got {letter:?} in \"{text}\"");
        }
    }
    Ok(parts)
}
