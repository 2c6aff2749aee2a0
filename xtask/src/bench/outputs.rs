//! Comparing what programs computed.

use crate::Result;

/// By how much two answers to `outputs` differ: the largest difference of two elements, in root mean squares of that result.
///
/// An answer has results with `;` between them: the root mean square of all elements, then some of the elements.
pub fn difference(reference: &str, other: &str) -> Result<f64> {
    let (reference, other) = (parse(reference)?, parse(other)?);
    let sizes = |results: &[Vec<f64>]| results.iter().map(Vec::len).collect::<Vec<_>>();
    if sizes(&reference) != sizes(&other) {
        return Err(format!("results of {:?} and of {:?} numbers", sizes(&reference), sizes(&other)));
    }
    let mut worst = 0.0f64;
    for (reference, other) in reference.iter().zip(&other) {
        // A result of zeros has no size: there the difference counts as it is.
        let size = if reference[0] > 0.0 { reference[0] } else { 1.0 };
        for (a, b) in reference.iter().zip(other) {
            worst = worst.max((a - b).abs() / size);
        }
    }
    Ok(worst)
}

fn parse(answer: &str) -> Result<Vec<Vec<f64>>> {
    let results = answer.split(';').map(|result| {
        let numbers = result.split_whitespace().map(|word| word.parse().ok().filter(|number: &f64| number.is_finite()));
        numbers.collect::<Option<Vec<f64>>>().filter(|numbers| !numbers.is_empty())
    });
    results.collect::<Option<_>>().ok_or_else(|| format!("results that are no finite numbers: {answer:.80}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_element_counts_in_root_mean_squares() {
        assert_eq!(difference("2 1 3;1 1", "2 1.5 3;1 1").unwrap(), 0.25);
        assert_eq!(difference("2 1 3;1 1", "2 1 3;1 1.5").unwrap(), 0.5);
        assert_eq!(difference("0 0", "0 0.125").unwrap(), 0.125);
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        for (a, b) in [("1 1", "1 1 1"), ("1 1", "1 1;1 1"), ("1 NaN", "1 NaN"), ("1 1", ""), ("1 inf", "1 inf")] {
            assert!(difference(a, b).is_err(), "{a} {b}");
        }
    }
}
