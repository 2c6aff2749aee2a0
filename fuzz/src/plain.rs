//! Arrays of i64 and what indexing does to them, element by element: the oracle.

/// A dense row-major array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Sizes.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Vec<i64>,
}

impl Array {
    /// Element by element, from its position.
    pub fn build(shape: &[usize], mut element: impl FnMut(&[usize]) -> i64) -> Self {
        let count = shape.iter().product();
        let mut at = vec![0; shape.len()];
        let mut data = Vec::with_capacity(count);
        for _ in 0..count {
            data.push(element(&at));
            for axis in (0..shape.len()).rev() {
                at[axis] += 1;
                if at[axis] < shape[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
        Self { shape: shape.to_vec(), data }
    }

    /// The place of a position in `data`.
    pub fn offset(&self, at: &[usize]) -> usize {
        self.shape.iter().zip(at).fold(0, |offset, (size, at)| offset * size + at)
    }

    /// The element at a position.
    pub fn get(&self, at: &[usize]) -> i64 {
        self.data[self.offset(at)]
    }

    /// Axes reordered: axis `i` of the result is axis `axes[i]`.
    pub fn permute(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let mut source = vec![0; axes.len()];
        Self::build(&shape, |at| {
            axes.iter().zip(at).for_each(|(&axis, &at)| source[axis] = at);
            self.get(&source)
        })
    }

    /// For each axis the elements of it that are kept, in order.
    pub fn select(&self, kept: &[Vec<usize>]) -> Self {
        let shape: Vec<usize> = kept.iter().map(Vec::len).collect();
        Self::build(&shape, |at| {
            let source: Vec<usize> = kept.iter().zip(at).map(|(kept, &at)| kept[at]).collect();
            self.get(&source)
        })
    }

    /// Slices along an axis at `indices`, whose axes take its place. `None` if one is out of range.
    pub fn take(&self, axis: usize, indices: &Self) -> Option<Self> {
        self.in_range(axis, indices)?;
        let mut shape = self.shape[..axis].to_vec();
        shape.extend(&indices.shape);
        shape.extend(&self.shape[axis + 1..]);
        let rank = indices.shape.len();
        Some(Self::build(&shape, |at| {
            let index = indices.get(&at[axis..axis + rank]) as usize;
            let source: Vec<usize> =
                at[..axis].iter().copied().chain([index]).chain(at[axis + rank..].iter().copied()).collect();
            self.get(&source)
        }))
    }

    /// PyTorch's `gather`. `None` if an index is out of range.
    pub fn gather(&self, axis: usize, indices: &Self) -> Option<Self> {
        self.in_range(axis, indices)?;
        Some(Self::build(&indices.shape, |at| {
            let mut source = at.to_vec();
            source[axis] = indices.get(at) as usize;
            self.get(&source)
        }))
    }

    /// PyTorch's `scatter` with a reduction. `None` if an index is out of range.
    pub fn scatter(&self, axis: usize, indices: &Self, src: &Self, combine: impl Fn(i64, i64) -> i64) -> Option<Self> {
        self.in_range(axis, indices)?;
        let mut out = self.clone();
        Self::build(&indices.shape, |at| {
            let mut target = at.to_vec();
            target[axis] = indices.get(at) as usize;
            let offset = out.offset(&target);
            out.data[offset] = combine(out.data[offset], src.get(at));
            0
        });
        Some(out)
    }

    /// The reverse of `take`: `updates` combined into the slices at `indices`. `None` if an index is out of range.
    pub fn put(&self, axis: usize, indices: &Self, updates: &Self, combine: impl Fn(i64, i64) -> i64) -> Option<Self> {
        self.in_range(axis, indices)?;
        let rank = indices.shape.len();
        let mut out = self.clone();
        Self::build(&updates.shape, |at| {
            let index = indices.get(&at[axis..axis + rank]) as usize;
            let target: Vec<usize> =
                at[..axis].iter().copied().chain([index]).chain(at[axis + rank..].iter().copied()).collect();
            let offset = out.offset(&target);
            out.data[offset] = combine(out.data[offset], updates.get(at));
            0
        });
        Some(out)
    }

    fn in_range(&self, axis: usize, indices: &Self) -> Option<()> {
        indices.data.iter().all(|&index| index >= 0 && (index as u64) < self.shape[axis] as u64).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], data: &[i64]) -> Array {
        Array { shape: shape.to_vec(), data: data.to_vec() }
    }

    // The examples of PyTorch's documentation.
    #[test]
    fn gather_and_scatter_do_as_documented() {
        let x = array(&[2, 2], &[1, 2, 3, 4]);
        let index = array(&[2, 2], &[0, 0, 1, 0]);
        assert_eq!(x.gather(1, &index), Some(array(&[2, 2], &[1, 1, 4, 3])));
        let src = array(&[1, 4], &[1, 2, 3, 4]);
        let zeros = array(&[3, 5], &[0; 15]);
        let out = zeros.scatter(0, &array(&[1, 4], &[0, 1, 2, 0]), &src, |_, new| new);
        assert_eq!(out, Some(array(&[3, 5], &[1, 0, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0])));
    }

    #[test]
    fn take_puts_the_axes_of_the_indices_in_place_of_the_axis() {
        let x = array(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let taken = x.take(1, &array(&[2, 1], &[2, 0]));
        assert_eq!(taken, Some(array(&[2, 2, 1], &[3, 1, 6, 4])));
        assert_eq!(x.take(1, &array(&[1], &[3])), None);
    }
}
