//! The domains of fusion groups: which nodes fit together.

use super::rules::Kind;
use super::size::{self, Size};
use super::view::{Axes, View, dense_strides, refine, refine_strides};
use crate::ir::{Graph, NodeId, Op};

/// A fusion group.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Its nodes, operands first.
    pub nodes: Vec<NodeId>,
    /// Sizes of the domain's axes, none of them one: the coarsest that every node's shape is made of.
    pub shape: Axes,
    /// Elements of a row, when something is reduced.
    pub cols: Option<Size>,
    /// Rows that one column reduction covers.
    pub fold_rows: Option<Size>,
}

/// The first axis of the rows' inner part: the axes after it have `cols` elements.
pub(super) fn row_axes(shape: &[Size], cols: Size) -> Option<usize> {
    let mut product = Size::number(1);
    let mut axis = shape.len();
    while product < cols && axis > 0 {
        axis -= 1;
        product *= shape[axis];
    }
    (product == cols).then_some(axis)
}

/// Whether the view reads one element per row, each at its row.
pub(super) fn reads_rows(view: &View, shape: &[Size], rows: Size, cols: Size) -> bool {
    let Some(split) = row_axes(shape, cols) else { return false };
    let elements: Size = view.sizes.iter().product();
    if elements == rows {
        return view.is_dense();
    }
    let Some(strides) = (elements == rows * cols).then(|| refine_strides(view, shape)).flatten() else { return false };
    view.offset == 0 && strides[split..].iter().all(|&s| s == 0) && strides[..split] == *dense_strides(&shape[..split])
}

/// What a node asks of a group's domain.
pub(super) struct Need {
    /// Its elements, or its operand's for a reduction.
    sizes: Axes,
    /// Elements of a row.
    cols: Option<Size>,
    /// Rows of one column reduction.
    fold_rows: Option<Size>,
}

impl Need {
    pub fn of(graph: &Graph, id: NodeId, kind: Kind) -> Self {
        let node = &graph[id];
        let Op::Reduce { axes, .. } = &node.op else {
            let sizes = size::of(&node.types[0]);
            return Self { sizes, cols: None, fold_rows: None };
        };
        let sizes = size::of(graph.ty(node.operands[0]));
        let reduced: Size = axes.iter().map(|&axis| sizes[axis]).product();
        match kind {
            Kind::ColumnFold => {
                let inner = axes.last().map_or(0, |&axis| axis + 1);
                let cols = sizes[inner..].iter().product();
                Self { sizes, cols: Some(cols), fold_rows: Some(reduced) }
            }
            _ => Self { sizes, cols: Some(reduced), fold_rows: None },
        }
    }

    pub fn domain(&self) -> Group {
        let whole = refine(&self.sizes, &self.sizes).unwrap_or_default();
        let shape = match self.cols {
            Some(cols) => {
                let rows = self.sizes.iter().product::<Size>() / cols.max(Size::number(1));
                refine(&whole, &[rows, cols]).unwrap_or(whole)
            }
            None => whole,
        };
        Group { nodes: Vec::new(), shape, cols: self.cols, fold_rows: self.fold_rows }
    }
}

/// The one that is there, if the two do not differ.
fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) => (a == b).then_some(Some(a)),
        (a, b) => Some(a.or(b)),
    }
}

impl Group {
    /// Elements of the domain.
    pub fn elements(&self) -> Size {
        self.shape.iter().product()
    }

    /// Rows of the domain, when something is reduced.
    pub fn rows(&self) -> Size {
        self.cols.map_or(self.elements(), |cols| self.elements() / cols)
    }

    /// The domain with a node in it.
    pub fn with(&self, need: &Need) -> Option<Self> {
        let elements: Size = need.sizes.iter().product();
        if need.cols.is_none() && self.cols.is_some() && elements == self.rows() && elements != self.elements() {
            return self.with_rows(&need.sizes);
        }
        self.union(&need.domain())
    }

    /// The domain with a node of one element per row.
    fn with_rows(&self, sizes: &[Size]) -> Option<Self> {
        let cols = self.cols?;
        let split = row_axes(&self.shape, cols)?;
        let mut shape = refine(&self.shape[..split], sizes)?;
        shape.extend_from_slice(&self.shape[split..]);
        Some(Self { nodes: Vec::new(), shape, cols: self.cols, fold_rows: self.fold_rows })
    }

    /// The domain of two groups together: of the same elements, or one of them of the other's rows.
    pub fn union(&self, other: &Self) -> Option<Self> {
        let (mine, theirs) = (self.elements(), other.elements());
        if mine != theirs {
            return match (self.cols, other.cols) {
                (Some(_), None) if theirs == self.rows() => self.with_rows(&other.shape),
                (None, Some(_)) if mine == other.rows() => other.with_rows(&self.shape),
                _ => None,
            };
        }
        let cols = same(self.cols, other.cols)?;
        let fold_rows = same(self.fold_rows, other.fold_rows)?;
        let mut shape = refine(&self.shape, &other.shape)?;
        if let Some(cols) = cols {
            shape = refine(&shape, &[mine / cols, cols])?;
        }
        // A column reduction covers whole runs of rows.
        if let (Some(rows), Some(cols)) = (fold_rows, cols)
            && !(mine / cols).is_multiple_of(rows)
        {
            return None;
        }
        Some(Self { nodes: Vec::new(), shape, cols, fold_rows })
    }
}
