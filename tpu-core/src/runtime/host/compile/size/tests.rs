//! Formulas and facts.

use super::*;

fn sizes(dims: &[usize], attributes: &[i64]) -> key::Sizes {
    key::Sizes { dims: dims.into(), attributes: attributes.into(), ..key::Sizes::default() }
}

#[test]
fn formulas_are_good_for_other_sizes_as_long_as_the_answers_are_the_same() {
    let ((small, bytes), recorded) = record(&sizes(&[8, 5], &[]), || {
        let (rows, cols) = (Size::dim(8), Size::dim(5));
        let elements = rows * cols;
        (elements < 100, (elements + 3) * 4 / cols)
    });
    assert!(small);
    assert_eq!(recorded.own().of(bytes), 34);
    assert_eq!(recorded.at(&sizes(&[9, 7], &[])).unwrap().of(bytes), (9 * 7 + 3) * 4 / 7);
    let broken = recorded.at(&sizes(&[20, 5], &[])).unwrap_err();
    assert_eq!(broken.to_string(), "40 < 100 was true, 100 < 100 is false");
}

#[test]
fn what_the_structure_says_of_sizes_leaves_no_fact() {
    let (_, recorded) = record(&sizes(&[8, 5], &[]), || {
        let (a, b) = (Size::dim(8), Size::dim(5));
        assert!(a != b && a != 1 && a != 0 && b > 1 && a == Size::dim(8));
        assert!(((a * b) / b == a) && (a * b).is_multiple_of(b) && a / a == 1 && a * b >= b * a);
        assert!(Size::dim(1) == 1 && Size::dim(0) == 0);
    });
    assert!(recorded.facts.is_empty(), "{recorded:?}");
    // What two different formulas give is not part of the structure.
    let (_, recorded) = record(&sizes(&[8, 5, 40], &[]), || assert!(Size::dim(8) * Size::dim(5) == Size::dim(40)));
    assert!(recorded.at(&sizes(&[3, 5, 15], &[])).is_ok());
    assert!(recorded.at(&sizes(&[3, 5, 16], &[])).is_err());
}

#[test]
fn attributes_stay_equal_or_different_and_keep_their_signs() {
    let (last, recorded) = record(&sizes(&[], &[7, -3, 7, 4, 0, 1]), || Size::attribute(7) * Size::attribute(-3));
    let at = |attributes: &[i64]| recorded.at(&sizes(&[], attributes)).map(|values| values.of(last));
    assert_eq!(at(&[9, -5, 9, 4, 0, 1]), Ok(45));
    for other in [[9, -5, 8, 4, 0, 1], [9, 5, 9, 4, 0, 1], [4, -3, 4, 4, 0, 1], [1, -3, 1, 4, 0, 1]] {
        assert!(at(&other).is_err(), "{other:?}");
    }
    assert!(at(&[7, -3, 7, 4, 2, 1]).is_err() && at(&[7, -3, 7, 4, 0, 2]).is_err());
}

#[test]
fn constants_stay_equal_different_and_other_than_zero() {
    let constants = |bits: &[u64]| key::Sizes { constants: bits.into(), ..key::Sizes::default() };
    let ((), recorded) = record(&constants(&[5, 0, 5, 6]), || ());
    let at = |bits: &[u64]| recorded.at(&constants(bits)).map(|values| [5, 6].map(|old| values.constant(old)));
    assert_eq!(at(&[7, 0, 7, 6]), Ok([Some(7), None]));
    assert_eq!(at(&[6, 0, 6, 5]), Ok([Some(6), Some(5)]));
    for other in [[7, 0, 8, 6], [6, 0, 6, 6], [0, 0, 0, 6], [5, 1, 5, 6]] {
        assert!(at(&other).is_err(), "{other:?}");
    }
}

#[test]
fn sizes_that_are_none_of_the_programs_are_good_for_nothing_else() {
    let (_, recorded) = record(&sizes(&[8], &[]), || Size::dim(9));
    assert!(recorded.at(&sizes(&[4], &[])).is_err());
}

#[test]
fn numbers_beyond_addresses_are_the_largest_number() {
    let (area, recorded) = record(&sizes(&[1 << 40], &[]), || Size::dim(1 << 40) * Size::dim(1 << 40));
    assert_eq!(recorded.own().of(area), usize::MAX);
    assert_eq!(recorded.at(&sizes(&[1 << 41], &[])).unwrap().of(area), usize::MAX);
    assert_eq!(recorded.at(&sizes(&[3], &[])).unwrap().of(area), 9);
}
