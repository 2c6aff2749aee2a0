//! What of an operation goes into a program's key.
//!
//! A key has a structure (ops, ranks, dtypes, which sizes are equal, which are one) and, apart from it, the sizes
//! themselves, and the constants of one value, which often follow from sizes: the divisor of a mean, the rounds of a loop. Both
//! are compared in full.

use super::{
    Attributes, Axes, ConvDims, CustomCall, DotDims, GatherDims, Graph, Op, ReplicaGroups, ScatterDims, Type, Window,
};
use crate::{DType, Literal, Shape};
use std::sync::Arc;

/// A program's identity.
#[derive(Default, Clone, PartialEq, Debug)]
pub struct Key {
    /// Ops, operands, ranks, dtypes and equalities of sizes, written one after the other.
    pub structure: Vec<u32>,
    /// Attributes that are compared as a whole; equal pointers are equal at once.
    pub extras: Vec<Extra>,
    /// Each distinct size above one, the shape-valued attributes, the constants of one value.
    pub sizes: Sizes,
}

/// The sizes of a key.
#[derive(Default, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sizes {
    /// Each distinct size above one, in order of appearance.
    pub dims: Vec<usize>,
    /// Starts, limits, strides and paddings, in order of appearance.
    pub attributes: Vec<i64>,
    /// The bits of each constant of which one element is stored, in order of appearance.
    pub constants: Vec<u64>,
}

/// The bits of a literal of which one element is stored.
pub(crate) fn single(literal: &Literal) -> Option<u64> {
    let bytes = literal.bytes();
    (bytes.len() * 8 == literal.dtype().bits() as usize).then(|| {
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(bits)
    })
}

/// An attribute too large for a few words.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Extra {
    Constant(Arc<Literal>),
    Window(Arc<Window>),
    Dot(Arc<DotDims>),
    Convolution(Arc<ConvDims>),
    Gather(Arc<GatherDims>),
    Scatter(Arc<ScatterDims>),
    Groups(Arc<ReplicaGroups>),
    Pairs(Arc<[(u32, u32)]>),
    CustomCall(Arc<CustomCall>),
    Composite(Arc<str>, Arc<Attributes>),
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        fn same<T: PartialEq + ?Sized>(a: &Arc<T>, b: &Arc<T>) -> bool {
            Arc::ptr_eq(a, b) || a == b
        }
        match (self, other) {
            (Self::Constant(a), Self::Constant(b)) => same(a, b),
            (Self::Window(a), Self::Window(b)) => same(a, b),
            (Self::Dot(a), Self::Dot(b)) => same(a, b),
            (Self::Convolution(a), Self::Convolution(b)) => same(a, b),
            (Self::Gather(a), Self::Gather(b)) => same(a, b),
            (Self::Scatter(a), Self::Scatter(b)) => same(a, b),
            (Self::Groups(a), Self::Groups(b)) => same(a, b),
            (Self::Pairs(a), Self::Pairs(b)) => same(a, b),
            (Self::CustomCall(a), Self::CustomCall(b)) => same(a, b),
            (Self::Composite(a, x), Self::Composite(b, y)) => same(a, b) && same(x, y),
            _ => false,
        }
    }
}

impl Key {
    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        let Self { structure, extras, sizes: Sizes { dims, attributes, constants } } = self;
        structure.clear();
        extras.clear();
        dims.clear();
        attributes.clear();
        constants.clear();
    }

    /// A number that goes into the structure.
    pub fn word(&mut self, word: u32) {
        self.structure.push(word);
    }

    /// Rank and dtype, and for each size which earlier size it equals.
    pub fn ty(&mut self, ty: &Type) {
        self.word((ty.dtype as u32) << 16 | ty.shape.rank() as u32);
        for &size in ty.shape.sizes() {
            let word = match size {
                // Sizes of zero and one are structure: they decide what broadcasts and what is empty.
                0 | 1 => size,
                _ => match self.sizes.dims.iter().position(|&known| known == size) {
                    Some(at) => at + 2,
                    None => {
                        self.sizes.dims.push(size);
                        self.sizes.dims.len() + 1
                    }
                },
            };
            self.word(word as u32);
        }
    }

    fn axes(&mut self, axes: &Axes) {
        self.structure.extend(axes.iter().map(|&axis| axis as u32));
    }

    fn sizes(&mut self, numbers: &[usize]) {
        self.sizes.attributes.extend(numbers.iter().map(|&n| n as i64));
    }

    fn dtype(&mut self, dtype: DType) {
        self.word(dtype as u32);
    }

    /// A whole program, for example the body of a composite.
    pub fn graph(&mut self, graph: &Graph) {
        self.word(graph.nodes.len() as u32);
        for node in &graph.nodes {
            self.op(&node.op);
            self.structure.extend(node.operands.iter().flat_map(|value| [value.node.0, value.result]));
            self.structure.extend(node.op.blocks().iter().map(|block| block.0));
            node.types.iter().for_each(|ty| self.ty(ty));
        }
        for block in &graph.blocks {
            self.word(block.nodes.len() as u32);
            self.structure.extend(block.nodes.iter().map(|node| node.0));
            self.word(block.results.len() as u32);
            self.structure.extend(block.results.iter().flat_map(|value| [value.node.0, value.result]));
        }
    }

    /// Everything of an op that its operands and its result types do not say. Lists have the length of a rank that is
    /// in the key already, or write their length first.
    pub fn op(&mut self, op: &Op) {
        self.word(op.code());
        match op {
            // The index follows from the order; type and shape are written with the result.
            Op::Parameter { .. } => {}
            // The shape of a constant of one value is that of the result: no part of the structure.
            Op::Constant(literal) => match single(literal) {
                Some(bits) => self.sizes.constants.push(bits),
                None => self.extras.push(Extra::Constant(literal.clone())),
            },
            Op::Iota { axis, .. } => self.word(*axis as u32),
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) => {}
            Op::Select | Op::Clamp | Op::Complex => {}
            Op::Convert(_) | Op::BitcastConvert(_) => {}
            Op::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.word(*exponent_bits);
                self.word(*mantissa_bits);
            }
            Op::BroadcastInDim { axes, .. } => self.axes(axes),
            Op::Reshape(_) => {}
            Op::Transpose(permutation) => self.axes(permutation),
            Op::Slice { start, limit, strides } => {
                self.sizes(start);
                self.sizes(limit);
                self.sizes(strides);
            }
            Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => {}
            Op::Pad { low, high, interior } => {
                self.sizes.attributes.extend(low.iter().chain(high));
                self.sizes(interior);
            }
            Op::Concatenate { axis } => self.word(*axis as u32),
            Op::Reverse(axes) => {
                self.word(axes.len() as u32);
                self.axes(axes);
            }
            Op::Reduce { kind, axes } => {
                self.word(*kind as u32);
                self.axes(axes);
            }
            Op::ArgReduce { kind, axis } => {
                self.word(*kind as u32);
                self.word(*axis as u32);
            }
            Op::ReduceWindow { kind, window } => {
                self.word(*kind as u32);
                self.extras.push(Extra::Window(window.clone()));
            }
            Op::SelectAndScatter { select, window } => {
                self.word(*select as u32);
                self.extras.push(Extra::Window(window.clone()));
            }
            Op::Cumulative { kind, axis, reverse } => {
                self.word(*kind as u32);
                self.word(*axis as u32);
                self.word(*reverse as u32);
            }
            Op::DotGeneral(dims) => self.extras.push(Extra::Dot(dims.clone())),
            Op::Convolution(dims) => self.extras.push(Extra::Convolution(dims.clone())),
            Op::Gather(dims) => self.extras.push(Extra::Gather(dims.clone())),
            Op::Scatter(dims) => self.extras.push(Extra::Scatter(dims.clone())),
            Op::Sort { axis, descending, stable } => {
                self.word(*axis as u32);
                self.word(*descending as u32 | (*stable as u32) << 1);
            }
            Op::TopK { largest, .. } => self.word(*largest as u32),
            Op::RngBits(_) => {}
            Op::Fft { kind, lengths } => {
                self.word(*kind as u32);
                self.word(lengths.len() as u32);
                self.sizes(lengths);
            }
            Op::Cholesky { lower } => self.word(*lower as u32),
            Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
                self.word(*left as u32 | (*lower as u32) << 1 | (*unit_diagonal as u32) << 2);
                self.word(*transpose as u32);
            }
            Op::Qr | Op::Eigh | Op::Lu => {}
            // Blocks are written by the caller, with `graph`.
            Op::While { .. } => {}
            Op::Case { branches } => self.word(branches.len() as u32),
            Op::AllReduce { kind, groups } => {
                self.word(*kind as u32);
                self.extras.push(Extra::Groups(groups.clone()));
            }
            Op::AllGather { axis, groups } => {
                self.word(*axis as u32);
                self.extras.push(Extra::Groups(groups.clone()));
            }
            Op::ReduceScatter { kind, axis, groups } => {
                self.word(*kind as u32);
                self.word(*axis as u32);
                self.extras.push(Extra::Groups(groups.clone()));
            }
            Op::AllToAll { split_axis, concat_axis, groups } => {
                self.word(*split_axis as u32);
                self.word(*concat_axis as u32);
                self.extras.push(Extra::Groups(groups.clone()));
            }
            Op::CollectivePermute { pairs, channel } => {
                self.sizes.attributes.push(*channel as i64);
                self.extras.push(Extra::Pairs(pairs.clone()));
            }
            Op::ReplicaId | Op::PartitionId => {}
            Op::CustomCall(call) => self.extras.push(Extra::CustomCall(call.clone())),
            Op::OptimizationBarrier => {}
            Op::Composite { name, attributes, .. } => {
                self.extras.push(Extra::Composite(name.clone(), attributes.clone()));
            }
        }
        if let Op::BitcastConvert(dtype) | Op::Convert(dtype) = op {
            self.dtype(*dtype);
        }
    }

    /// A hash of the structure. Extras are left to the full comparison.
    pub fn hash(&self) -> u64 {
        let mut hash = 0u64;
        for pair in self.structure.chunks(2) {
            let word = pair[0] as u64 | (pair.get(1).copied().unwrap_or(0) as u64) << 32;
            hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        hash ^ self.structure.len() as u64
    }
}

impl Op {
    /// The operation of the same structure and other sizes: `dim` says what each size of a shape becomes, `attribute` what each of
    /// [`Sizes::attributes`]. What [`Key::op`] writes into the structure stays as it is.
    pub(crate) fn map_sizes(&mut self, dim: &dyn Fn(usize) -> usize, attribute: &dyn Fn(i64) -> i64) {
        let shape = |shape: &mut Shape| *shape = shape.sizes().iter().map(|&size| dim(size)).collect();
        let number = |n: &mut usize| *n = attribute(*n as i64) as usize;
        match self {
            Self::Parameter { ty, .. } => shape(&mut ty.shape),
            Self::Constant(literal) => {
                // Others are in the structure as a whole.
                let mut to = literal.shape().clone();
                shape(&mut to);
                if single(literal).is_some()
                    && let Ok(resized) = Literal::repeat(literal.dtype(), to, literal.bytes())
                {
                    *literal = Arc::new(resized);
                }
            }
            Self::Iota { shape: of, .. } | Self::BroadcastInDim { shape: of, .. } => shape(of),
            Self::Reshape(of) | Self::RngBits(of) => shape(of),
            Self::Slice { start, limit, strides } => {
                [start, limit, strides].into_iter().for_each(|list| list.iter_mut().for_each(number));
            }
            Self::DynamicSlice { sizes } => sizes.iter_mut().for_each(|size| *size = dim(*size)),
            Self::Pad { low, high, interior } => {
                low.iter_mut().chain(high).for_each(|n| *n = attribute(*n));
                interior.iter_mut().for_each(number);
            }
            Self::TopK { k, .. } => *k = dim(*k),
            Self::Fft { lengths, .. } => lengths.iter_mut().for_each(number),
            Self::CollectivePermute { channel, .. } => *channel = attribute(*channel as i64) as _,
            Self::Unary(_)
            | Self::Binary(_)
            | Self::Compare(_)
            | Self::Select
            | Self::Clamp
            | Self::Complex
            | Self::Convert(_)
            | Self::BitcastConvert(_)
            | Self::ReducePrecision { .. }
            | Self::Transpose(_)
            | Self::DynamicUpdateSlice
            | Self::Concatenate { .. }
            | Self::Reverse(_)
            | Self::Reduce { .. }
            | Self::ArgReduce { .. }
            | Self::ReduceWindow { .. }
            | Self::SelectAndScatter { .. }
            | Self::Cumulative { .. }
            | Self::DotGeneral(_)
            | Self::Convolution(_)
            | Self::Gather(_)
            | Self::Scatter(_)
            | Self::Sort { .. }
            | Self::Cholesky { .. }
            | Self::TriangularSolve { .. }
            | Self::Qr
            | Self::Eigh
            | Self::Lu
            | Self::While { .. }
            | Self::Case { .. }
            | Self::AllReduce { .. }
            | Self::AllGather { .. }
            | Self::ReduceScatter { .. }
            | Self::AllToAll { .. }
            | Self::ReplicaId
            | Self::PartitionId
            | Self::CustomCall(_)
            | Self::OptimizationBarrier
            | Self::Composite { .. } => {}
        }
    }

    /// A number for the kind of operation, the same within a process.
    pub(crate) fn code(&self) -> u32 {
        let (family, member) = match self {
            Self::Unary(op) => (1, *op as u32),
            Self::Binary(op) => (2, *op as u32),
            Self::Compare(op) => (3, *op as u32),
            Self::Parameter { .. } => (4, 0),
            Self::Constant(_) => (5, 0),
            Self::Iota { .. } => (6, 0),
            Self::Select => (7, 0),
            Self::Clamp => (8, 0),
            Self::Complex => (9, 0),
            Self::Convert(_) => (10, 0),
            Self::BitcastConvert(_) => (11, 0),
            Self::ReducePrecision { .. } => (12, 0),
            Self::BroadcastInDim { .. } => (13, 0),
            Self::Reshape(_) => (14, 0),
            Self::Transpose(_) => (15, 0),
            Self::Slice { .. } => (16, 0),
            Self::DynamicSlice { .. } => (17, 0),
            Self::DynamicUpdateSlice => (18, 0),
            Self::Pad { .. } => (19, 0),
            Self::Concatenate { .. } => (20, 0),
            Self::Reverse(_) => (21, 0),
            Self::Reduce { .. } => (22, 0),
            Self::ArgReduce { .. } => (23, 0),
            Self::ReduceWindow { .. } => (24, 0),
            Self::SelectAndScatter { .. } => (25, 0),
            Self::Cumulative { .. } => (26, 0),
            Self::DotGeneral(_) => (27, 0),
            Self::Convolution(_) => (28, 0),
            Self::Gather(_) => (29, 0),
            Self::Scatter(_) => (30, 0),
            Self::Sort { .. } => (31, 0),
            Self::TopK { .. } => (32, 0),
            Self::RngBits(_) => (33, 0),
            Self::Fft { .. } => (34, 0),
            Self::Cholesky { .. } => (35, 0),
            Self::TriangularSolve { .. } => (36, 0),
            Self::Qr => (37, 0),
            Self::Eigh => (38, 0),
            Self::Lu => (39, 0),
            Self::While { .. } => (40, 0),
            Self::Case { .. } => (41, 0),
            Self::AllReduce { .. } => (42, 0),
            Self::AllGather { .. } => (43, 0),
            Self::ReduceScatter { .. } => (44, 0),
            Self::AllToAll { .. } => (45, 0),
            Self::CollectivePermute { .. } => (46, 0),
            Self::ReplicaId => (47, 0),
            Self::PartitionId => (48, 0),
            Self::CustomCall(_) => (49, 0),
            Self::OptimizationBarrier => (50, 0),
            Self::Composite { .. } => (51, 0),
        };
        family << 8 | member
    }
}
