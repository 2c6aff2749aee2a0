//! From a program to the flat, smaller one that is fused: composites without a kernel inlined, common subexpressions merged, dead nodes
//! dropped, and a few rewrites.
//!
//! How a rewrite is written, and why so, is in `docs/rewrites.md`. Each law of this table has a test in `tests.rs`.
//!
//! | law | |
//! |---|---|
//! | a conversion to the same type, a transpose by the identity, a reshape or broadcast to the same shape is its operand | `identity` |
//! | a constant of one value in another shape is the constant of that shape | `identity` |
//! | a reshape of a reshape is the outer one | `reshape` |
//! | a reduction over axes of size one is a reshape; a sum, which starts from 0, is one plus 0 | `reduce` |
//! | a 16-bit float reduces in f32, rounded once at the end: what the op means here | `reduce` |
//! | a product of 16-bit floats into f64 is one of f64: what the op means here | `dot` |
//! | a reduction over separate runs of axes is one after the other, from the inside: what it means here | `reduce` |
//! | a product over an axis that strides cannot reach is one of a transpose | `dot` |
//! | a value equal by construction to another (same op, attributes, operands) is that one, unless it is `is_cheap` | `merge` |
//! | a barrier's results are its operands, once nothing is merged any more | fusion, as a view |

use crate::ir::{BinaryOp, Block, BlockId, Check, DotDims, Graph, Node, NodeId, Op, Reducer, Type, Value};
use crate::{DType, Literal, Shape};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What becomes of a program.
pub(super) struct Simplified {
    /// One block; operands come first. Blocks of loops, branches and composites are those of the source, by its numbers.
    pub graph: Graph,
}

struct Builder<'a> {
    source: &'a Graph,
    graph: Graph,
    /// What each node of the source became.
    values: Vec<SmallVec<[Value; 1]>>,
    /// Nodes by the hash of op and operands.
    known: HashMap<u64, SmallVec<[NodeId; 1]>>,
}

/// Inlines, rewrites and merges.
pub(super) fn simplify(source: &Graph) -> Simplified {
    let mut builder = Builder {
        source,
        graph: Graph::new(),
        values: vec![SmallVec::new(); source.nodes.len()],
        known: HashMap::with_capacity(source.nodes.len()),
    };
    builder.program();
    let mut graph = builder.graph;
    drop_dead(&mut graph);
    Simplified { graph }
}

/// A block being copied.
struct Frame {
    block: BlockId,
    next: usize,
    /// The composite whose body it is.
    owner: Option<NodeId>,
}

impl Builder<'_> {
    fn program(&mut self) {
        let source = self.source;
        let main = source.main();
        for &parameter in &source[main].parameters {
            let ty = source[parameter].types[0].clone();
            let value = self.graph.parameter(self.graph.main(), ty);
            self.values[parameter.0 as usize] = smallvec![value];
        }
        // Composites nest at most 64 deep; their bodies are copied with an explicit stack.
        let mut stack = vec![Frame { block: main, next: 0, owner: None }];
        while let Some(frame) = stack.last_mut() {
            let block = &source[frame.block];
            let Some(&id) = block.nodes.get(frame.next) else {
                let results = block.results.iter().map(|&v| self.value(v)).collect();
                if let Some(owner) = frame.owner {
                    self.values[owner.0 as usize] = results;
                }
                stack.pop();
                continue;
            };
            frame.next += 1;
            let node = &source[id];
            match &node.op {
                Op::Parameter { .. } => {}
                Op::Composite { body, .. } if !self.is_known(node) => {
                    for (&parameter, &operand) in source[*body].parameters.iter().zip(&node.operands) {
                        self.values[parameter.0 as usize] = smallvec![self.value(operand)];
                    }
                    stack.push(Frame { block: *body, next: 0, owner: Some(id) });
                }
                op => {
                    let operands: SmallVec<[Value; 3]> = node.operands.iter().map(|&v| self.value(v)).collect();
                    self.values[id.0 as usize] = self.add(op, operands, &node.types);
                }
            }
        }
        let results = source[main].results.iter().map(|&v| self.value(v)).collect();
        self.graph.set_results(self.graph.main(), results);
        let checks = source.checks.iter().map(|check| {
            let value = self.value(check.value);
            Check { value, guards: value.node }
        });
        self.graph.checks = checks.collect();
    }

    /// Whether there is a kernel for the composite.
    fn is_known(&self, node: &Node) -> bool {
        let operands: SmallVec<[&Type; 8]> = node.operands.iter().map(|&v| self.source.ty(v)).collect();
        super::attention::is_known(&node.op, &operands, &node.types)
    }

    fn value(&self, old: Value) -> Value {
        self.values[old.node.0 as usize][old.result as usize]
    }

    /// Adds a node, or finds what it is equal to.
    fn add(&mut self, op: &Op, operands: SmallVec<[Value; 3]>, types: &[Type]) -> SmallVec<[Value; 1]> {
        match op {
            Op::Convert(_) | Op::Reshape(_) | Op::Transpose(_) | Op::BroadcastInDim { .. } | Op::Slice { .. } => {
                smallvec![self.identity(op, operands[0], &types[0])]
            }
            Op::Reduce { kind, axes } => smallvec![self.reduce(*kind, axes, operands[0], &types[0])],
            Op::DotGeneral(dims) => smallvec![self.dot(dims, operands, &types[0])],
            Op::While { .. } => {
                let operands = operands.into_iter().map(|value| self.fresh(value)).collect();
                let node = self.graph.insert(self.graph.main(), op.clone(), operands, SmallVec::from(types));
                (0..types.len() as u32).map(|result| Value { node, result }).collect()
            }
            _ => {
                let node = self.merge(op.clone(), operands, SmallVec::from(types));
                (0..types.len() as u32).map(|result| Value { node, result }).collect()
            }
        }
    }

    /// An operand of a loop, which the loop changes where it is: what is one number all over is made anew for it, since one that
    /// several loops start from would have to be kept and copied.
    fn fresh(&mut self, value: Value) -> Value {
        let node = &self.graph[value.node];
        match &node.op {
            Op::Constant(literal) if literal.is_splat() => {
                let (op, types) = (node.op.clone(), node.types.clone());
                self.graph.insert(self.graph.main(), op, smallvec![], types).into()
            }
            _ => value,
        }
    }

    /// Movement that moves nothing is its operand.
    fn identity(&mut self, op: &Op, x: Value, ty: &Type) -> Value {
        let from = self.graph.ty(x);
        let same = from == ty;
        let nothing = match op {
            Op::Convert(_) | Op::Reshape(_) | Op::Slice { .. } => same,
            Op::Transpose(permutation) => same && permutation.iter().enumerate().all(|(i, &p)| i == p),
            Op::BroadcastInDim { axes, .. } => same && axes.iter().enumerate().all(|(i, &a)| i == a),
            _ => false,
        };
        if nothing {
            return x;
        }
        if let (Op::Constant(literal), false) = (&self.graph[x.node].op, matches!(op, Op::Convert(_)))
            && literal.bytes().len() * 8 == literal.dtype().bits() as usize
            && let Ok(literal) = Literal::repeat(literal.dtype(), &ty.shape, literal.bytes())
        {
            return self.merge(Op::Constant(literal.into()), smallvec![], smallvec![ty.clone()]).into();
        }
        if let Op::Reshape(_) = op {
            return self.reshape(x, ty.shape.clone());
        }
        self.merge(op.clone(), smallvec![x], smallvec![ty.clone()]).into()
    }

    /// A reshape, of a reshape's operand rather than of the reshape.
    fn reshape(&mut self, x: Value, shape: Shape) -> Value {
        let x = match &self.graph[x.node] {
            Node { op: Op::Reshape(_), operands, .. } => operands[0],
            _ => x,
        };
        let from = self.graph.ty(x);
        if from.shape == shape {
            return x;
        }
        let ty = Type::new(from.dtype, &shape);
        self.merge(Op::Reshape(shape), smallvec![x], smallvec![ty]).into()
    }

    fn convert(&mut self, x: Value, dtype: DType) -> Value {
        let from = self.graph.ty(x);
        if from.dtype == dtype {
            return x;
        }
        let ty = Type::new(dtype, &from.shape);
        self.merge(Op::Convert(dtype), smallvec![x], smallvec![ty]).into()
    }

    /// A reduction as one over the innermost axes, or over one run of neighbouring axes; 16-bit floats in f32.
    fn reduce(&mut self, kind: Reducer, axes: &[usize], x: Value, ty: &Type) -> Value {
        let shape = self.graph.ty(x).shape.clone();
        let long: SmallVec<[usize; 4]> = axes.iter().copied().filter(|&axis| shape.size(axis) != 1).collect();
        let empty = shape.sizes().contains(&0);
        if long.is_empty() || ty.shape.sizes().contains(&0) {
            let value = self.reshape(x, ty.shape.clone());
            // A sum starts from 0, so that of −0 alone is 0.
            let signed_zeros = kind == Reducer::Sum && ty.dtype.is_differentiable();
            return if signed_zeros { self.plus_zero(value) } else { value };
        }
        if long.len() < axes.len() && !empty {
            // Axes of size one only go: the shape without them, so that what is left is truly what is reduced.
            let sizes = shape.sizes().iter().enumerate().filter(|(axis, _)| !long.contains(axis));
            let inner = Type::new(ty.dtype, sizes.map(|(_, &size)| size).collect::<Shape>());
            let value = self.reduce(kind, &long, x, &inner);
            return self.reshape(value, ty.shape.clone());
        }
        let kept = |axis: usize| !axes.contains(&axis) && shape.size(axis) != 1;
        // Whether the reduced axes are neighbours, axes of size one aside.
        let one_run = long.windows(2).all(|pair| (pair[0]..pair[1]).all(|axis| !kept(axis)));
        // What fusion takes: floats, and the smallest of positions.
        let fused = ty.dtype.is_float() || (ty.dtype, kind) == (DType::I32, Reducer::Min);
        let whole = empty || one_run || !fused;
        let half = is_half(ty.dtype);
        let dtype = if half { DType::F32 } else { ty.dtype };
        let mut value = if half { self.convert(x, dtype) } else { x };
        if whole {
            let node = self.merge(
                Op::Reduce { kind, axes: axes.into() },
                smallvec![value],
                smallvec![Type::new(dtype, &ty.shape)],
            );
            value = node.into();
        } else {
            // Runs of neighbours, the innermost first.
            let mut left: Vec<usize> = axes.to_vec();
            while let Some(&last) = left.last() {
                let mut run: crate::ir::Axes = smallvec![last];
                left.pop();
                while let Some(&axis) = left.last() {
                    if (axis..run[0]).any(kept) {
                        break;
                    }
                    run.insert(0, axis);
                    left.pop();
                }
                let from = &self.graph.ty(value).shape;
                let sizes = from.sizes().iter().enumerate().filter(|(axis, _)| !run.contains(axis));
                let ty = Type::new(dtype, sizes.map(|(_, &size)| size).collect::<Shape>());
                value = self.merge(Op::Reduce { kind, axes: run }, smallvec![value], smallvec![ty]).into();
            }
        }
        if half { self.convert(value, ty.dtype) } else { value }
    }

    /// `x + 0`, which is `x` but for −0.
    fn plus_zero(&mut self, x: Value) -> Value {
        let ty = self.graph.ty(x).clone();
        let zero = Op::Constant(Literal::splat(ty.dtype, ty.shape.clone(), 0).into());
        let zero = self.merge(zero, smallvec![], smallvec![ty.clone()]).into();
        self.merge(Op::Binary(BinaryOp::Add), smallvec![x, zero], smallvec![ty]).into()
    }

    /// A product of matrices: into f64 of operands in f64, of operands with scattered axes after a transpose.
    fn dot(&mut self, dims: &DotDims, mut operands: SmallVec<[Value; 3]>, ty: &Type) -> Value {
        let mut dims = dims.clone();
        if is_half(self.graph.ty(operands[0]).dtype) && ty.dtype == DType::F64 {
            operands = operands.iter().map(|&x| self.convert(x, DType::F64)).collect();
        }
        for (x, batch, contract) in
            [(0, &mut dims.lhs_batch, &mut dims.lhs_contract), (1, &mut dims.rhs_batch, &mut dims.rhs_contract)]
        {
            let from = self.graph.ty(operands[x]).clone();
            let float = from.dtype.is_float() && from.dtype.bits() >= 16 || from.dtype == DType::Complex64;
            let Some(order) = super::dot::matrix_order(&from, batch, contract).filter(|_| float) else { continue };
            let shape: Shape = order.iter().map(|&axis| from.shape.size(axis)).collect();
            let rank = order.len();
            *batch = (0..batch.len()).collect();
            *contract = (rank - contract.len()..rank).collect();
            let turned = Type::new(from.dtype, shape);
            operands[x] = self.identity(&Op::Transpose(order), operands[x], &turned);
        }
        self.merge(Op::DotGeneral(dims.into()), operands, smallvec![ty.clone()]).into()
    }

    /// Whether the op reads constants and counters only, element by element: a causal mask. Merged, the one of the first
    /// layer would be in memory until the backward pass is over, or keep the two passes in one fusion group.
    fn is_cheap(&self, op: &Op, operands: &[Value]) -> bool {
        let elementwise = matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Convert(_));
        elementwise && operands.iter().all(|&operand| self.is_generated(operand))
    }

    fn is_generated(&self, mut value: Value) -> bool {
        loop {
            let node = &self.graph[value.node];
            match &node.op {
                Op::Constant(_) | Op::Iota { .. } => return true,
                Op::BroadcastInDim { .. } | Op::Reshape(_) | Op::Transpose(_) | Op::Slice { .. } => {
                    value = node.operands[0];
                }
                _ => return false,
            }
        }
    }

    /// A new node, unless there is one with the same op and operands.
    fn merge(&mut self, op: Op, operands: SmallVec<[Value; 3]>, types: SmallVec<[Type; 1]>) -> NodeId {
        let main = self.graph.main();
        if op.has_side_effect() || matches!(op, Op::OptimizationBarrier) || self.is_cheap(&op, &operands) {
            return self.graph.insert(main, op, operands, types);
        }
        let mut hasher = DefaultHasher::new();
        (op.name(), &operands, &types).hash(&mut hasher);
        if let Op::Constant(literal) = &op {
            literal.hash(&mut hasher);
        }
        let hash = hasher.finish();
        let graph = &self.graph;
        let same =
            |id: &&NodeId| graph[**id].operands == operands && graph[**id].types == types && graph[**id].op == op;
        if let Some(&id) = self.known.get(&hash).and_then(|ids| ids.iter().find(same)) {
            return id;
        }
        let id = self.graph.insert(main, op, operands, types);
        self.known.entry(hash).or_default().push(id);
        id
    }
}

/// Whether it is a 16-bit float, which is summed in a wider one.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// Drops nodes that no result, check or side effect needs. Parameters stay.
fn drop_dead(graph: &mut Graph) {
    let mut alive = vec![false; graph.nodes.len()];
    for value in graph.blocks[0].results.iter().chain(graph.checks.iter().map(|check| &check.value)) {
        alive[value.node.0 as usize] = true;
    }
    for (id, node) in graph.nodes.iter().enumerate().rev() {
        if node.op.has_side_effect() || matches!(node.op, Op::Parameter { .. }) {
            alive[id] = true;
        }
        if alive[id] {
            node.operands.iter().for_each(|v| alive[v.node.0 as usize] = true);
        }
    }
    let mut number = vec![NodeId(0); graph.nodes.len()];
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (id, mut node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        if alive[id] {
            number[id] = NodeId(nodes.len() as u32);
            node.operands.iter_mut().for_each(|v| v.node = number[v.node.0 as usize]);
            nodes.push(node);
        }
    }
    let map = |id: NodeId| number[id.0 as usize];
    let old = std::mem::take(&mut graph.blocks[0]);
    graph.blocks[0] = Block {
        parameters: old.parameters.into_iter().map(map).collect(),
        nodes: (0..nodes.len() as u32).map(NodeId).collect(),
        results: old.results.into_iter().map(|v| Value { node: map(v.node), result: v.result }).collect(),
    };
    for check in &mut graph.checks {
        check.value.node = map(check.value.node);
        check.guards = map(check.guards);
    }
    graph.nodes = nodes;
}

#[cfg(test)]
mod tests;
