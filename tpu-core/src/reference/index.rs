//! Walking over the elements of a shape.

/// The row-major number of the element at `index`.
pub fn offset(sizes: &[usize], index: &[usize]) -> usize {
    sizes.iter().zip(index).fold(0, |offset, (&size, &i)| offset * size + i)
}

/// Calls `visit(number, index)` for each element in row-major order.
pub fn for_each(sizes: &[usize], mut visit: impl FnMut(usize, &[usize])) {
    if sizes.contains(&0) {
        return;
    }
    let mut index = vec![0; sizes.len()];
    for number in 0.. {
        visit(number, &index);
        let Some(axis) = (0..sizes.len()).rev().find(|&axis| index[axis] + 1 < sizes[axis]) else { return };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

/// All row-major numbers of the elements along `axis`, one list per line through the array.
pub fn lines(sizes: &[usize], axis: usize) -> Vec<Vec<usize>> {
    let stride: usize = sizes[axis + 1..].iter().product();
    let mut lines = Vec::new();
    let mut starts = sizes.to_vec();
    starts[axis] = 1;
    for_each(&starts, |_, index| {
        let first = offset(sizes, index);
        lines.push((0..sizes[axis]).map(|i| first + i * stride).collect());
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_visited_in_row_major_order() {
        let mut seen = Vec::new();
        for_each(&[2, 3], |number, index| seen.push((number, index.to_vec())));
        let expected = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]];
        assert_eq!(seen, expected.iter().enumerate().map(|(i, e)| (i, e.to_vec())).collect::<Vec<_>>());
    }

    #[test]
    fn a_scalar_has_one_element_and_an_empty_shape_none() {
        let count = |sizes: &[usize]| {
            let mut n = 0;
            for_each(sizes, |_, _| n += 1);
            n
        };
        assert_eq!((count(&[]), count(&[3, 0, 2])), (1, 0));
    }

    #[test]
    fn lines_run_along_their_axis() {
        assert_eq!(lines(&[2, 3], 0), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(lines(&[2, 3], 1), [[0, 1, 2], [3, 4, 5]]);
    }
}
