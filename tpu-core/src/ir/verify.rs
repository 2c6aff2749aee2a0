//! The checker of the IR's invariants, as the module's documentation numbers them.
//!
//! Passes run it on what they produce, the text form on what it prints and reads. [`Verified`] is the proof that it
//! passed: whoever holds one may index blocks, nodes and results without asking.

use super::{BlockId, Graph, NodeId, Op, Type, Value, infer::infer};
use crate::{DType, Error, ErrorKind, Shape};
use smallvec::SmallVec;
use std::fmt::{self, Write};
use std::ops::Deref;

/// How deep blocks may be nested: a block of the program has depth 1.
pub const MAX_DEPTH: usize = 64;

/// A graph that satisfies the invariants.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a>(&'a Graph);

impl<'a> Verified<'a> {
    /// The graph.
    pub fn graph(self) -> &'a Graph {
        self.0
    }
}

impl Deref for Verified<'_> {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        self.0
    }
}

/// Which invariant a graph breaks, where, and what stands around it.
#[derive(Clone, Debug)]
pub struct VerifyError {
    invariant: usize,
    message: String,
    neighbourhood: String,
}

impl VerifyError {
    /// The number of the broken invariant in the documentation of [`ir`](super).
    pub fn invariant(&self) -> usize {
        self.invariant
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} of the IR is broken: {}", self.invariant, self.message)?;
        if !self.neighbourhood.is_empty() {
            write!(f, "\n{}", self.neighbourhood)?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        Self::new(ErrorKind::Internal, "verify", error.to_string())
    }
}

/// Checks all invariants, in time linear in the size of the graph and without recursion.
///
/// ```
/// use tpu_core::ir::{Graph, Type, Value, NodeId, verify::verify};
/// use tpu_core::DType;
/// let mut graph = Graph::new();
/// let main = graph.main();
/// graph.parameter(main, Type::new(DType::F32, [4]));
/// assert!(verify(&graph).is_ok());
/// graph.set_results(main, vec![Value { node: NodeId(0), result: 1 }]);
/// assert_eq!(verify(&graph).unwrap_err().invariant(), 2);
/// ```
pub fn verify(graph: &Graph) -> Result<Verified<'_>, VerifyError> {
    let checker = Checker { graph, places: place_nodes(graph)? };
    checker.operands()?;
    checker.parameters()?;
    checker.blocks()?;
    checker.types()?;
    checker.checks()?;
    Ok(Verified(graph))
}

/// Where a node stands: its block and its position there.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    block: BlockId,
    position: usize,
}

struct Checker<'a> {
    graph: &'a Graph,
    places: Vec<Place>,
}

/// Invariant 1, first half: each node is in exactly one block.
fn place_nodes(graph: &Graph) -> Result<Vec<Place>, VerifyError> {
    let fail = |message: String, near: Option<NodeId>| {
        let neighbourhood = near.map_or_else(String::new, |node| neighbourhood(graph, node));
        Err(VerifyError { invariant: 1, message, neighbourhood })
    };
    if graph.blocks.is_empty() {
        return fail("there is no block 0".into(), None);
    }
    let mut places: Vec<Option<Place>> = vec![None; graph.nodes.len()];
    for (number, block) in graph.blocks.iter().enumerate() {
        let block_id = BlockId(number as u32);
        for (position, &node) in block.nodes.iter().enumerate() {
            match places.get_mut(node.0 as usize) {
                None => return fail(format!("{block_id:?} lists {node:?}, which does not exist"), None),
                Some(Some(first)) => {
                    let message = format!("{node:?} is listed in {:?} and in {block_id:?}", first.block);
                    return fail(message, Some(node));
                }
                Some(empty) => *empty = Some(Place { block: block_id, position }),
            }
        }
    }
    match places.iter().position(Option::is_none) {
        Some(node) => {
            let node = NodeId(node as u32);
            fail(format!("{node:?} is in no block"), Some(node))
        }
        None => Ok(places.into_iter().flatten().collect()),
    }
}

impl Checker<'_> {
    fn fail<T>(&self, invariant: usize, near: NodeId, message: String) -> Result<T, VerifyError> {
        Err(VerifyError { invariant, message, neighbourhood: neighbourhood(self.graph, near) })
    }

    fn fail_block<T>(&self, invariant: usize, block: BlockId, message: String) -> Result<T, VerifyError> {
        let neighbourhood = match self.graph[block].nodes.last() {
            Some(&last) => neighbourhood(self.graph, last),
            None => String::new(),
        };
        Err(VerifyError { invariant, message, neighbourhood })
    }

    fn place(&self, node: NodeId) -> Option<Place> {
        self.places.get(node.0 as usize).copied()
    }

    /// Whether a value exists, and the place of its node.
    fn find(&self, value: Value) -> Option<Place> {
        let node = self.graph.nodes.get(value.node.0 as usize)?;
        if value.result as usize >= node.types.len() {
            return None;
        }
        self.place(value.node)
    }

    /// Invariant 1, second half, and 2: operands and results exist, belong to the block and come first.
    fn operands(&self) -> Result<(), VerifyError> {
        for (number, block) in self.graph.blocks.iter().enumerate() {
            let id = BlockId(number as u32);
            for (position, &node) in block.nodes.iter().enumerate() {
                for &value in &self.graph[node].operands {
                    match self.find(value) {
                        None => return self.fail(2, node, format!("{node:?} reads {value:?}, which does not exist")),
                        Some(place) if place.block != id => {
                            let message = format!("{node:?} of {id:?} reads {value:?} of {:?}", place.block);
                            return self.fail(2, node, message);
                        }
                        Some(place) if place.position >= position => {
                            return self.fail(1, node, format!("{node:?} reads {value:?}, which comes later"));
                        }
                        Some(_) => {}
                    }
                }
            }
            for &value in &block.results {
                match self.find(value) {
                    None => return self.fail_block(2, id, format!("{id:?} gives {value:?}, which does not exist")),
                    Some(place) if place.block != id => {
                        return self.fail_block(2, id, format!("{id:?} gives {value:?} of {:?}", place.block));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Invariant 4: the list of parameters is the block's `Parameter` nodes in the order of their numbers.
    fn parameters(&self) -> Result<(), VerifyError> {
        for (number, block) in self.graph.blocks.iter().enumerate() {
            let id = BlockId(number as u32);
            for (i, &parameter) in block.parameters.iter().enumerate() {
                let message = match self.place(parameter) {
                    Some(place) if place.block == id => match &self.graph[parameter].op {
                        Op::Parameter { index, ty }
                            if *index == i && self.graph[parameter].types[..] == [ty.clone()] =>
                        {
                            continue;
                        }
                        Op::Parameter { index, .. } if *index != i => format!("{parameter:?} has number {index}"),
                        Op::Parameter { .. } => format!("{parameter:?} has other result types than it says"),
                        op => format!("{parameter:?} is a {}", op.name()),
                    },
                    _ => format!("{parameter:?} is not in it"),
                };
                return self.fail_block(4, id, format!("parameter {i} of {id:?}: {message}"));
            }
            let nodes = block.nodes.iter().filter(|&&node| matches!(self.graph[node].op, Op::Parameter { .. }));
            let (have, listed) = (nodes.count(), block.parameters.len());
            if have != listed {
                return self.fail_block(4, id, format!("{id:?} has {have} parameter nodes and lists {listed}"));
            }
        }
        Ok(())
    }

    /// Invariant 5: blocks form a tree of bounded depth.
    fn blocks(&self) -> Result<(), VerifyError> {
        let mut owners: Vec<Option<NodeId>> = vec![None; self.graph.blocks.len()];
        let mut owned: Vec<SmallVec<[BlockId; 2]>> = vec![SmallVec::new(); self.graph.blocks.len()];
        for (number, node) in self.graph.nodes.iter().enumerate() {
            let id = NodeId(number as u32);
            for block in node.op.blocks() {
                match owners.get_mut(block.0 as usize) {
                    None => return self.fail(5, id, format!("{id:?} owns {block:?}, which does not exist")),
                    Some(_) if block == self.graph.main() => {
                        return self.fail(5, id, format!("{id:?} owns {block:?}, the program"));
                    }
                    Some(Some(first)) => {
                        return self.fail(5, id, format!("{block:?} is owned by {first:?} and by {id:?}"));
                    }
                    Some(owner) => *owner = Some(id),
                }
                owned[self.places[number].block.0 as usize].push(block);
            }
        }
        // From the program outwards; what a cycle owns is never reached.
        let (mut level, mut reached) = (vec![self.graph.main()], 1);
        for depth in 0.. {
            if let (Some(&block), true) = (level.first(), depth > MAX_DEPTH) {
                return self.fail_block(5, block, format!("{block:?} is nested more than {MAX_DEPTH} deep"));
            }
            level = level.iter().flat_map(|block| owned[block.0 as usize].iter().copied()).collect();
            reached += level.len();
            if level.is_empty() {
                break;
            }
        }
        match owners.iter().skip(1).position(Option::is_none) {
            Some(before) => {
                let block = BlockId(before as u32 + 1);
                self.fail_block(5, block, format!("{block:?} is owned by no node"))
            }
            None if reached < owners.len() => {
                self.fail_block(5, self.graph.main(), "some blocks own each other".to_string())
            }
            None => Ok(()),
        }
    }

    /// Invariant 3: types follow from the shape rule.
    fn types(&self) -> Result<(), VerifyError> {
        for (number, node) in self.graph.nodes.iter().enumerate() {
            let id = NodeId(number as u32);
            let operands: SmallVec<[&Type; 4]> = node.operands.iter().map(|&value| self.graph.ty(value)).collect();
            match infer(&node.op, &operands, self.graph) {
                Ok(types) if types == node.types => {}
                Ok(types) => {
                    let message = format!("{id:?} has the types {:?}, the shape rule says {types:?}", node.types);
                    return self.fail(3, id, message);
                }
                Err(error) => return self.fail(3, id, format!("{id:?}: {error}")),
            }
        }
        Ok(())
    }

    /// Invariant 6: checks are scalar i32 values of the program that guard its nodes.
    fn checks(&self) -> Result<(), VerifyError> {
        let main = self.graph.main();
        for (i, check) in self.graph.checks.iter().enumerate() {
            let scalar = Type::new(DType::I32, Shape::scalar());
            let message = match (self.find(check.value), self.place(check.guards)) {
                (Some(place), _) if place.block != main => format!("{:?} is not of the program", check.value),
                (None, _) => format!("{:?} does not exist", check.value),
                (Some(_), _) if *self.graph.ty(check.value) != scalar => {
                    format!("{:?} has type {:?}, not {scalar}", check.value, self.graph.ty(check.value))
                }
                (_, Some(place)) if place.block == main => continue,
                (_, _) => format!("{:?} is no node of the program", check.guards),
            };
            return self.fail_block(6, main, format!("check {i}: {message}"));
        }
        Ok(())
    }
}

/// The nodes before and after `node` in the arena, one a line, the node itself marked.
fn neighbourhood(graph: &Graph, node: NodeId) -> String {
    const AROUND: usize = 3;
    let center = node.0 as usize;
    let mut text = String::new();
    let range = center.saturating_sub(AROUND)..(center + AROUND + 1).min(graph.nodes.len());
    for (number, node) in graph.nodes.iter().enumerate().take(range.end).skip(range.start) {
        let mark = if number == center { '>' } else { ' ' };
        let (name, operands, types) = (node.op.name(), &node.operands, &node.types);
        // Writing into a string does not fail.
        let _ = write!(text, "{mark} n{number} = {name}{operands:?} : {types:?}");
        for block in node.op.blocks() {
            let _ = write!(text, " {block:?}");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::samples::{every_op, identity};
    use crate::ir::{BinaryOp, Block, Check, UnaryOp};
    use smallvec::smallvec;
    use std::sync::Arc;

    /// x: f32[4], y = x + x, z = −y, a composite of z with the block b1.
    fn valid() -> Graph {
        let mut graph = Graph::new();
        let main = graph.main();
        let ty = Type::new(DType::F32, [4]);
        let x = graph.parameter(main, ty.clone());
        let y = graph.push(main, Op::Binary(BinaryOp::Add), &[x, x]).unwrap();
        let z = graph.push(main, Op::Unary(UnaryOp::Neg), &[y.into()]).unwrap();
        let body = identity(&mut graph, &[ty]);
        let op = Op::Composite { name: "tpu.same".into(), attributes: Arc::default(), body };
        let same = graph.push(main, op, &[z.into()]).unwrap();
        graph.set_results(main, vec![same.into()]);
        graph
    }

    /// The invariant that a change breaks, and the message.
    fn broken(change: impl FnOnce(&mut Graph)) -> (usize, String) {
        let mut graph = valid();
        verify(&graph).expect("valid before the change");
        change(&mut graph);
        let error = verify(&graph).expect_err("broken by the change");
        (error.invariant(), error.message)
    }

    fn value(node: u32) -> Value {
        NodeId(node).into()
    }

    #[test]
    fn samples_are_valid() {
        for (name, graph) in every_op() {
            if let Err(error) = verify(&graph) {
                panic!("{name}: {error}");
            }
        }
    }

    #[test]
    fn invariant_1_nodes_are_listed_once_and_after_their_operands() {
        assert_eq!(broken(|g| g.blocks.clear()), (1, "there is no block 0".into()));
        assert_eq!(broken(|g| g.blocks[0].nodes.push(NodeId(9))), (1, "b0 lists n9, which does not exist".into()));
        assert_eq!(broken(|g| g.blocks[1].nodes.push(NodeId(2))), (1, "n2 is listed in b0 and in b1".into()));
        assert_eq!(broken(|g| g.blocks[0].nodes.retain(|&node| node != NodeId(1))), (1, "n1 is in no block".into()));
        assert_eq!(broken(|g| g.blocks[0].nodes.swap(1, 2)), (1, "n2 reads %1, which comes later".into()));
    }

    #[test]
    fn invariant_2_operands_are_values_of_the_same_block() {
        assert_eq!(broken(|g| g.nodes[2].operands[0] = value(7)), (2, "n2 reads %7, which does not exist".into()));
        assert_eq!(broken(|g| g.nodes[2].operands[0].result = 1), (2, "n2 reads %1#1, which does not exist".into()));
        assert_eq!(broken(|g| g.nodes[4].operands[0] = value(3)), (2, "n4 of b0 reads %3 of b1".into()));
        assert_eq!(broken(|g| g.blocks[0].results.push(value(3))), (2, "b0 gives %3 of b1".into()));
        assert_eq!(broken(|g| g.blocks[0].results.push(value(9))), (2, "b0 gives %9, which does not exist".into()));
    }

    #[test]
    fn invariant_3_types_follow_from_the_shape_rule() {
        assert_eq!(
            broken(|g| g.nodes[2].types[0] = Type::new(DType::F32, [5])),
            (3, "n2 has the types [float32[5]], the shape rule says [float32[4]]".into())
        );
        assert_eq!(
            broken(|g| g.nodes[2].op = Op::Unary(UnaryOp::Not)),
            (3, "n2: not requires operand of bool or integer dtype, got float32[4]".into())
        );
    }

    #[test]
    fn invariant_4_parameters_are_numbered() {
        let wrong = |index| Op::Parameter { index, ty: Type::new(DType::F32, [4]) };
        assert_eq!(broken(|g| g.nodes[0].op = wrong(1)), (4, "parameter 0 of b0: n0 has number 1".into()));
        assert_eq!(broken(|g| g.blocks[0].parameters[0] = NodeId(1)), (4, "parameter 0 of b0: n1 is a add".into()));
        assert_eq!(broken(|g| g.blocks[0].parameters[0] = NodeId(3)), (4, "parameter 0 of b0: n3 is not in it".into()));
        assert_eq!(broken(|g| g.blocks[0].parameters.clear()), (4, "b0 has 1 parameter nodes and lists 0".into()));
        assert_eq!(
            broken(|g| g.nodes[0].types[0] = Type::new(DType::F64, [4])),
            (4, "parameter 0 of b0: n0 has other result types than it says".into())
        );
    }

    fn composite(body: u32) -> Op {
        Op::Composite { name: "tpu.same".into(), attributes: Arc::default(), body: BlockId(body) }
    }

    #[test]
    fn invariant_5_blocks_form_a_tree() {
        assert_eq!(broken(|g| g.nodes[4].op = composite(5)), (5, "n4 owns b5, which does not exist".into()));
        assert_eq!(broken(|g| g.nodes[4].op = composite(0)), (5, "n4 owns b0, the program".into()));
        assert_eq!(broken(|g| g.blocks.push(Block::default())), (5, "b2 is owned by no node".into()));
        assert_eq!(broken(|g| g.nodes[2].op = composite(1)), (5, "b1 is owned by n2 and by n4".into()));
        // b2 owns b3 owns b2.
        let cycle = broken(|g| {
            let ty = Type::new(DType::F32, [4]);
            let (a, b) = (identity(g, std::slice::from_ref(&ty)), identity(g, &[ty]));
            let (x, y) = (g[a].parameters[0], g[b].parameters[0]);
            g.insert(a, composite(b.0), smallvec![x.into()], smallvec![Type::new(DType::F32, [4])]);
            g.insert(b, composite(a.0), smallvec![y.into()], smallvec![Type::new(DType::F32, [4])]);
        });
        assert_eq!(cycle, (5, "some blocks own each other".into()));
    }

    /// A program that nests composites `depth` deep.
    fn nested(depth: usize) -> Graph {
        let mut graph = Graph::new();
        let ty = Type::new(DType::F32, [4]);
        let mut inner = identity(&mut graph, std::slice::from_ref(&ty));
        for level in (0..depth).rev() {
            let block = if level == 0 { graph.main() } else { graph.block() };
            let x = graph.parameter(block, ty.clone());
            let node = graph.push(block, composite(inner.0), &[x]).unwrap();
            graph.set_results(block, vec![node.into()]);
            inner = block;
        }
        graph
    }

    #[test]
    fn invariant_5_depth_is_bounded() {
        verify(&nested(64)).unwrap();
        let error = verify(&nested(65)).unwrap_err();
        assert_eq!((error.invariant(), error.message.as_str()), (5, "b1 is nested more than 64 deep"));
    }

    #[test]
    fn invariant_6_checks_are_scalars_of_the_program() {
        let check = |value: Value, guards| Check { value, guards: NodeId(guards) };
        assert_eq!(
            broken(|g| g.checks.push(check(value(1), 1))),
            (6, "check 0: %1 has type float32[4], not int32[]".into())
        );
        assert_eq!(broken(|g| g.checks.push(check(value(9), 1))), (6, "check 0: %9 does not exist".into()));
        assert_eq!(broken(|g| g.checks.push(check(value(3), 1))), (6, "check 0: %3 is not of the program".into()));
        let guards_elsewhere = broken(|g| {
            let number = g.constant(BlockId(0), crate::Literal::splat(DType::I32, Shape::scalar(), -1));
            g.checks.push(check(number, 3));
        });
        assert_eq!(guards_elsewhere, (6, "check 0: n3 is no node of the program".into()));
    }

    #[test]
    fn failures_show_the_neighbourhood() {
        let mut graph = valid();
        graph.nodes[2].types[0] = Type::new(DType::F32, [5]);
        assert_eq!(
            verify(&graph).unwrap_err().to_string(),
            "invariant 3 of the IR is broken: n2 has the types [float32[5]], the shape rule says [float32[4]]\n  \
             n0 = parameter[] : [float32[4]]\n  n1 = add[%0, %0] : [float32[4]]\n> n2 = negate[%1] : [float32[5]]\n  \
             n3 = parameter[] : [float32[4]]\n  n4 = composite[%2] : [float32[4]] b1"
        );
    }

    #[test]
    fn a_long_chain_is_verified_on_a_small_stack() {
        let check = || {
            let mut graph = Graph::new();
            let main = graph.main();
            let mut x = graph.parameter(main, Type::new(DType::F32, [4]));
            for _ in 0..1_000_000 {
                x = graph.push(main, Op::Unary(UnaryOp::Neg), &[x]).unwrap().into();
            }
            graph.set_results(main, vec![x]);
            verify(&graph).is_ok()
        };
        assert!(std::thread::Builder::new().stack_size(256 << 10).spawn(check).unwrap().join().unwrap());
    }
}
