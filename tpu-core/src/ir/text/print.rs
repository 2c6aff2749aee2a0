//! From graphs to text.

use super::attributes::{self as attributes, ints, quoted, tensor};
use super::decompose::decompose;
use super::literal::dense;
use super::regions;
use crate::ir::verify::Verified;
use crate::ir::{BlockId, Check, Extreme, Graph, Node, NodeId, Op, Reducer, Type, UnaryOp, Value};
use crate::{DType, Literal, Location, Shape};
use std::collections::VecDeque;
use std::fmt::Write;

/// The program as the text of one StableHLO module. Equal programs give equal text.
///
/// ```
/// use tpu_core::ir::{Graph, Op, Type, UnaryOp, text, verify::verify};
/// use tpu_core::DType;
/// let mut graph = Graph::new();
/// let main = graph.main();
/// let x = graph.parameter(main, Type::new(DType::F32, [2]));
/// let y = graph.push(main, Op::Unary(UnaryOp::Tanh), &[x]).unwrap();
/// graph.set_results(main, vec![y.into()]);
/// let text = text::print(verify(&graph).unwrap());
/// assert!(text.contains(r#"%v1 = "stablehlo.tanh"(%v0) : (tensor<2xf32>) -> tensor<2xf32>"#));
/// assert_eq!(text::parse(&text).unwrap(), graph);
/// ```
pub fn print(program: Verified<'_>) -> String {
    print_with_donors(program, &[])
}

/// Whether a program may write results to a parameter's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Donor {
    /// No.
    No,
    /// Any result that fits.
    ToAny,
    /// The result of this number.
    To(usize),
}

/// As [`print()`], with the parameters marked that `donors` says: for a compiler, [`parse`](super::parse()) does not read
/// that.
pub(crate) fn print_with_donors(program: Verified<'_>, donors: &[Donor]) -> String {
    print_with_locations(program, donors, &[])
}

/// As [`print_with_donors`], with the place of each operation behind it. `locations` has one for each node of the program
/// but the last ones, or none at all. What is printed is never part of a key: equal programs have other places.
pub(crate) fn print_with_locations(program: Verified<'_>, donors: &[Donor], locations: &[Location]) -> String {
    let (graph, sources) = program.renumbered();
    let places = if locations.is_empty() { Vec::new() } else { places(&graph, &sources, locations) };
    let mut module = Module { out: "module @program {\n".to_string(), pending: VecDeque::new(), places };
    Function::of(&graph, &mut module).main(donors);
    while let Some(next) = module.pending.pop_front() {
        match next {
            Pending::Block(block) => Function::of(&graph, &mut module).private(&format!("b{}", block.0), block),
            Pending::Decomposition(node, body) => {
                let place = module.places.get(node.0 as usize).cloned().unwrap_or_default();
                let function = Function { graph: &body, module: &mut module, in_decomposition: true, place };
                function.private(&format!("v{}", node.0), body.main());
            }
        }
    }
    module.out.push_str("}\n");
    module.out
}

/// What is printed behind each node of a canonical graph, given which node of the program it is. A node in a block that
/// has no place of its own, such as one in the body of a composite, has that of the block's owner.
fn places(graph: &Graph, sources: &[NodeId], locations: &[Location]) -> Vec<String> {
    let of = |id: &NodeId| locations.get(id.0 as usize).unwrap_or(&Location::UNKNOWN);
    let mut known: Vec<&Location> = sources.iter().map(of).collect();
    // Owners come before what they own.
    for owner in 0..known.len() {
        for block in graph.nodes[owner].op.blocks() {
            for &NodeId(id) in &graph[block].nodes {
                if known[id as usize].file().is_none() {
                    known[id as usize] = known[owner];
                }
            }
        }
    }
    let place = |(node, location): (&Node, &Location)| {
        let (Some(file), Some(line)) = (location.file(), location.line()) else { return String::new() };
        let name = match location.scope() {
            Some(scope) => format!("{scope}/{}", node.op.name()),
            None => node.op.name().to_string(),
        };
        format!(" loc({}({}:{line}:1))", quoted(&name), quoted(file))
    };
    graph.nodes.iter().zip(known).map(place).collect()
}

/// A function that something printed so far names.
enum Pending {
    /// The block of a composite.
    Block(BlockId),
    /// The decomposition of a node.
    Decomposition(NodeId, Graph),
}

struct Module {
    out: String,
    pending: VecDeque<Pending>,
    /// What is printed behind each node of the program.
    places: Vec<String>,
}

/// What writes one function.
struct Function<'a> {
    graph: &'a Graph,
    module: &'a mut Module,
    /// Where every op is StableHLO's.
    in_decomposition: bool,
    /// What is printed behind the operations of the node at hand.
    place: String,
}

/// An operation in generic form; regions are written between the attributes and the types.
struct Line<'a> {
    results: String,
    name: &'a str,
    operands: Vec<String>,
    attributes: String,
    from: Vec<String>,
    to: Vec<String>,
}

impl<'a> Function<'a> {
    fn of(graph: &'a Graph, module: &'a mut Module) -> Self {
        Self { graph, module, in_decomposition: false, place: String::new() }
    }

    fn main(mut self, donors: &[Donor]) {
        let main = self.graph.main();
        let checks: Vec<Value> = self.graph.checks.iter().map(|check| check.value).collect();
        let guards = match self.graph.checks.len() {
            0 => String::new(),
            _ => {
                let guarded = self.graph.checks.iter().map(|&Check { guards, .. }| guards.0);
                format!(" attributes {{tpu_core.checks = {}}}", ints(guarded))
            }
        };
        let parameters = self.parameters(main).enumerate();
        let parameters = parameters.map(|(index, text)| match donors.get(index) {
            None | Some(Donor::No) => text,
            Some(Donor::ToAny) => text + " {jax.buffer_donor = true}",
            Some(Donor::To(result)) => format!("{text} {{tf.aliasing_output = {result} : i32}}"),
        });
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        self.function("public @main", &parameters, main, &checks, &guards);
    }

    fn private(mut self, name: &str, block: BlockId) {
        let parameters = self.declared(block);
        self.function(&format!("private @{name}"), &parameters, block, &[], "");
    }

    fn function(&mut self, name: &str, parameters: &str, block: BlockId, checks: &[Value], attributes: &str) {
        let results: Vec<Value> = self.graph[block].results.iter().chain(checks).copied().collect();
        let types = self.types(&results).join(", ");
        let _ = writeln!(self.module.out, "  func.func {name}({parameters}) -> ({types}){attributes} {{");
        self.nodes(block, 2);
        let (operands, from) = (self.names(&results), self.types(&results));
        self.whole(2, Line { operands, from, ..Line::new("func.return") });
        self.module.out.push_str("  }\n");
    }

    /// The parameters of a block with their types.
    fn declared(&self, block: BlockId) -> String {
        self.parameters(block).collect::<Vec<_>>().join(", ")
    }

    /// Each of them.
    fn parameters(&self, block: BlockId) -> impl Iterator<Item = String> + '_ {
        let parameters = self.graph[block].parameters.iter();
        parameters.map(|&node| format!("%v{}: {}", node.0, tensor(&self.graph[node].types[0])))
    }

    fn name(&self, value: Value) -> String {
        match self.graph[value.node].types.len() {
            1 => format!("%v{}", value.node.0),
            _ => format!("%v{}#{}", value.node.0, value.result),
        }
    }

    fn names(&self, values: &[Value]) -> Vec<String> {
        values.iter().map(|&value| self.name(value)).collect()
    }

    fn types(&self, values: &[Value]) -> Vec<String> {
        values.iter().map(|&value| tensor(self.graph.ty(value))).collect()
    }

    fn indent(&mut self, depth: usize) {
        self.module.out.extend(std::iter::repeat_n("  ", depth));
    }

    fn nodes(&mut self, block: BlockId, depth: usize) {
        for i in 0..self.graph[block].nodes.len() {
            let node = self.graph[block].nodes[i];
            if self.in_decomposition || self.module.places.is_empty() {
                self.node(node, depth);
            } else {
                let place = self.module.places[node.0 as usize].clone();
                let outer = std::mem::replace(&mut self.place, place);
                self.node(node, depth);
                self.place = outer;
            }
        }
    }

    /// Everything before the regions.
    fn begin(&mut self, depth: usize, line: &Line<'_>) {
        self.indent(depth);
        let Line { results, name, operands, attributes, .. } = line;
        let equals = if results.is_empty() { "" } else { " = " };
        let operands = operands.join(", ");
        let attributes = if attributes.is_empty() { String::new() } else { format!(" <{{{attributes}}}>") };
        let _ = write!(self.module.out, "{results}{equals}\"{name}\"({operands}){attributes}");
    }

    /// The types.
    fn end(&mut self, line: &Line<'_>) {
        let to = match &line.to[..] {
            [one] => one.clone(),
            all => format!("({})", all.join(", ")),
        };
        let _ = writeln!(self.module.out, " : ({}) -> {to}{}", line.from.join(", "), self.place);
    }

    fn whole(&mut self, depth: usize, line: Line<'_>) {
        self.begin(depth, &line);
        self.end(&line);
    }

    /// An operation with regions of the given lines.
    fn with_regions(&mut self, depth: usize, line: Line<'_>, regions: &[String]) {
        self.begin(depth, &line);
        self.module.out.push_str(" (");
        for (i, region) in regions.iter().enumerate() {
            self.module.out.push_str(if i > 0 { ", " } else { "" });
            for (number, text) in region.lines().enumerate() {
                if number > 0 {
                    self.module.out.push('\n');
                    self.indent(depth);
                }
                self.module.out.push_str(text);
            }
        }
        self.module.out.push(')');
        self.end(&line);
    }

    /// The node's own line without attributes.
    fn line<'n>(&self, node: NodeId, name: &'n str) -> Line<'n> {
        let Self { graph, .. } = self;
        let n = &graph[node];
        let results = match n.types.len() {
            0 => String::new(),
            1 => format!("%v{}", node.0),
            count => format!("%v{}:{count}", node.0),
        };
        let (operands, from) = (self.names(&n.operands), self.types(&n.operands));
        let to = n.types.iter().map(tensor).collect();
        Line { results, name, operands, attributes: String::new(), from, to }
    }

    /// An auxiliary constant of a node; adds it to the operands of the node's line.
    fn constant_operand(&mut self, depth: usize, line: &mut Line<'_>, node: NodeId, suffix: &str, literal: &Literal) {
        let (name, ty) = (format!("%v{}_{suffix}", node.0), tensor(&Type::new(literal.dtype(), literal.shape())));
        let attributes = format!("value = {} : {ty}", dense(literal));
        let (results, to) = (name.clone(), vec![ty.clone()]);
        self.whole(depth, Line { results, attributes, to, ..Line::new("stablehlo.constant") });
        line.operands.push(name);
        line.from.push(ty);
    }

    fn node(&mut self, node: NodeId, depth: usize) {
        let graph = self.graph;
        let op = &graph[node].op;
        if !self.in_decomposition
            && let Some(body) = decompose(op, &graph.operand_types(&graph[node]))
        {
            return self.decomposed(node, depth, body);
        }
        let full_name = match op {
            Op::Unary(kind @ (UnaryOp::Erf | UnaryOp::ErfInv)) => format!("chlo.{}", kind.name()),
            op => format!("stablehlo.{}", op.name()),
        };
        let mut line = self.line(node, &full_name);
        let dtype = graph[node].types.first().map_or(DType::Bool, |ty| ty.dtype);
        match op {
            // Parameters stand at the head of their block.
            Op::Parameter { .. } => {}
            Op::Reduce { kind, axes } => {
                self.constant_operand(depth, &mut line, node, "init", &regions::identity(*kind, dtype));
                line.attributes = format!("dimensions = {}", ints(axes));
                self.with_regions(depth, line, &[regions::combine(Some(*kind), dtype)]);
            }
            Op::ArgReduce { kind, axis } => self.arg_reduce(node, depth, *kind, *axis),
            Op::ReduceWindow { kind, window } => {
                self.constant_operand(depth, &mut line, node, "init", &regions::identity(*kind, dtype));
                line.attributes = attributes::window(window);
                self.with_regions(depth, line, &[regions::combine(Some(*kind), dtype)]);
            }
            Op::SelectAndScatter { select, window } => {
                self.constant_operand(depth, &mut line, node, "init", &regions::identity(Reducer::Sum, dtype));
                line.attributes = format!(
                    "padding = {}, window_dimensions = {}, window_strides = {}",
                    attributes::pairs(&window.padding),
                    ints(&window.sizes),
                    ints(&window.strides)
                );
                let both = [regions::kept(*select, dtype), regions::combine(Some(Reducer::Sum), dtype)];
                self.with_regions(depth, line, &both);
            }
            Op::Scatter(dims) => {
                line.attributes = attributes::scatter(dims);
                self.with_regions(depth, line, &[regions::combine(dims.combiner, dtype)]);
            }
            Op::Sort { axis, descending, stable } => {
                line.attributes = format!("dimension = {axis} : i64, is_stable = {stable}");
                let dtypes: Vec<DType> = graph[node].types.iter().map(|ty| ty.dtype).collect();
                self.with_regions(depth, line, &[regions::before(&dtypes, *descending)]);
            }
            Op::AllReduce { kind, groups } => {
                line.attributes = attributes::groups(groups);
                self.with_regions(depth, line, &[regions::combine(Some(*kind), dtype)]);
            }
            Op::ReduceScatter { kind, axis, groups } => {
                line.attributes = format!("{}, scatter_dimension = {axis} : i64", attributes::groups(groups));
                self.with_regions(depth, line, &[regions::combine(Some(*kind), dtype)]);
            }
            Op::While { cond, body } => self.while_loop(line, depth, [*cond, *body]),
            Op::Case { branches } => self.case(line, depth, branches),
            Op::Composite { name, attributes, body } => {
                line.attributes = format!(
                    "composite_attributes = {}, decomposition = @b{}, name = {}",
                    attributes::dictionary(attributes),
                    body.0,
                    quoted(name)
                );
                self.module.pending.push_back(Pending::Block(*body));
                self.whole(depth, line);
            }
            op => {
                line.attributes = plain_attributes(op);
                self.whole(depth, line);
            }
        }
    }

    /// A composite of ours with the op's attributes.
    fn decomposed(&mut self, node: NodeId, depth: usize, body: Graph) {
        let op = &self.graph[node].op;
        let mut line = self.line(node, "stablehlo.composite");
        line.attributes = format!(
            "composite_attributes = {{{}}}, decomposition = @v{}, name = \"tpu_core.{}\"",
            composite_attributes(op),
            node.0,
            op.name()
        );
        self.module.pending.push_back(Pending::Decomposition(node, body));
        self.whole(depth, line);
    }

    /// A reduction of pairs (value, index).
    fn arg_reduce(&mut self, node: NodeId, depth: usize, kind: Extreme, axis: usize) {
        let mut line = self.line(node, "stablehlo.reduce");
        let operand = self.graph.ty(self.graph[node].operands[0]).clone();
        let (iota, ty) = (format!("%v{}_iota", node.0), tensor(&Type::new(DType::I64, &operand.shape)));
        let attributes = format!("iota_dimension = {axis} : i64");
        let (results, to) = (iota.clone(), vec![ty.clone()]);
        self.whole(depth, Line { results, attributes, to, ..Line::new("stablehlo.iota") });
        line.operands.push(iota);
        line.from.push(ty);
        // The worst value at an index after all others.
        let worst = regions::extreme(operand.dtype, kind == Extreme::Max);
        self.constant_operand(depth, &mut line, node, "init", &worst);
        let last = Literal::splat(DType::I64, Shape::scalar(), i64::MAX);
        self.constant_operand(depth, &mut line, node, "last", &last);
        line.attributes = format!("dimensions = {}", ints([axis]));
        self.with_regions(depth, line, &[regions::better(kind, operand.dtype)]);
    }

    fn while_loop(&mut self, line: Line<'_>, depth: usize, blocks: [BlockId; 2]) {
        self.begin(depth, &line);
        for (i, block) in blocks.into_iter().enumerate() {
            self.module.out.push_str(if i > 0 { ", {\n" } else { " ({\n" });
            let declared = self.declared(block);
            if !declared.is_empty() {
                self.indent(depth);
                let _ = writeln!(self.module.out, "^bb0({declared}):");
            }
            self.region_body(block, depth);
        }
        self.module.out.push(')');
        self.end(&line);
    }

    /// Branches take no parameters in StableHLO: each begins by naming the arguments.
    fn case(&mut self, mut line: Line<'_>, depth: usize, branches: &[BlockId]) {
        let arguments = line.operands.split_off(1);
        let types = line.from.split_off(1);
        self.begin(depth, &line);
        for (i, &block) in branches.iter().enumerate() {
            self.module.out.push_str(if i > 0 { ", {\n" } else { " ({\n" });
            if !arguments.is_empty() {
                let parameters: Vec<Value> = self.graph[block].parameters.iter().map(|&node| node.into()).collect();
                let barrier = Line {
                    results: self.names(&parameters).join(", "),
                    operands: arguments.clone(),
                    from: types.clone(),
                    to: types.clone(),
                    ..Line::new("stablehlo.optimization_barrier")
                };
                self.whole(depth + 1, barrier);
            }
            self.region_body(block, depth);
        }
        self.module.out.push(')');
        self.end(&line);
    }

    fn region_body(&mut self, block: BlockId, depth: usize) {
        self.nodes(block, depth + 1);
        let results = &self.graph[block].results;
        let (operands, from) = (self.names(results), self.types(results));
        self.whole(depth + 1, Line { operands, from, ..Line::new("stablehlo.return") });
        self.indent(depth);
        self.module.out.push('}');
    }
}

impl<'a> Line<'a> {
    /// An operation without operands and results.
    fn new(name: &'a str) -> Self {
        let (results, attributes) = (String::new(), String::new());
        Self { results, name, operands: Vec::new(), attributes, from: Vec::new(), to: Vec::new() }
    }
}

/// The attributes of the composite that stands for an op.
fn composite_attributes(op: &Op) -> String {
    match op {
        Op::Reduce { kind, axes } => format!("dimensions = {}, kind = \"{}\"", ints(axes), kind.name()),
        Op::ReduceWindow { kind, window } => format!("{}, kind = \"{}\"", attributes::window(window), kind.name()),
        Op::SelectAndScatter { select, window } => {
            format!("{}, select = \"{}\"", attributes::window(window), select.name())
        }
        Op::Scatter(dims) => match dims.combiner {
            Some(kind) => format!("{}, kind = \"{}\"", attributes::scatter(dims), kind.name()),
            None => attributes::scatter(dims),
        },
        Op::AllReduce { kind, groups } => format!("{}, kind = \"{}\"", attributes::groups(groups), kind.name()),
        Op::ReduceScatter { kind, axis, groups } => {
            format!("{}, kind = \"{}\", scatter_dimension = {axis} : i64", attributes::groups(groups), kind.name())
        }
        op => plain_attributes(op),
    }
}

/// The attributes of an op whose text is one line. Of an op that StableHLO lacks, those of its composite.
fn plain_attributes(op: &Op) -> String {
    match op {
        Op::Constant(literal) => {
            format!("value = {} : {}", dense(literal), tensor(&Type::new(literal.dtype(), literal.shape())))
        }
        Op::Iota { axis, .. } => format!("iota_dimension = {axis} : i64"),
        Op::Compare(kind) => format!("comparison_direction = #stablehlo<comparison_direction {}>", kind.name()),
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            format!("exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32")
        }
        Op::BroadcastInDim { axes, .. } => format!("broadcast_dimensions = {}", ints(axes)),
        Op::Transpose(permutation) => format!("permutation = {}", ints(permutation)),
        Op::Slice { start, limit, strides } => {
            format!("limit_indices = {}, start_indices = {}, strides = {}", ints(limit), ints(start), ints(strides))
        }
        Op::DynamicSlice { sizes } => format!("slice_sizes = {}", ints(sizes)),
        Op::Pad { low, high, interior } => format!(
            "edge_padding_high = {}, edge_padding_low = {}, interior_padding = {}",
            ints(high),
            ints(low),
            ints(interior)
        ),
        Op::Concatenate { axis } => format!("dimension = {axis} : i64"),
        Op::Reverse(axes) => format!("dimensions = {}", ints(axes)),
        Op::Cumulative { kind, axis, reverse } => {
            format!("axis = {axis} : i64, kind = \"{}\", reverse = {reverse}", kind.name())
        }
        Op::DotGeneral(dims) => attributes::dot(dims),
        Op::Convolution(dims) => attributes::convolution(dims),
        Op::Gather(dims) => attributes::gather(dims),
        Op::TopK { k, largest } => format!("k = {k} : i64, largest = {largest}"),
        Op::Fft { kind, lengths } => {
            format!("fft_length = {}, fft_type = #stablehlo<fft_type {}>", ints(lengths), kind.name())
        }
        Op::Cholesky { lower } => format!("lower = {lower}"),
        Op::TriangularSolve { left, lower, unit_diagonal, transpose } => format!(
            "left_side = {left}, lower = {lower}, transpose_a = #stablehlo<transpose {}>, unit_diagonal = \
             {unit_diagonal}",
            transpose.name()
        ),
        Op::AllGather { axis, groups } => format!("all_gather_dim = {axis} : i64, {}", attributes::groups(groups)),
        Op::AllToAll { split_axis, concat_axis, groups } => format!(
            "{}, concat_dimension = {concat_axis} : i64, split_count = {} : i64, split_dimension = {split_axis} : i64",
            attributes::groups(groups),
            groups.groups.first().map_or(0, |group| group.len())
        ),
        Op::CollectivePermute { pairs, channel } => format!(
            "{}source_target_pairs = {}",
            attributes::channel(*channel),
            attributes::table(pairs.iter().map(|&(from, to)| [from, to]), 2)
        ),
        Op::CustomCall(call) => format!(
            "backend_config = {}, call_target_name = {}, has_side_effect = {}",
            quoted(&call.backend_config),
            quoted(&call.target),
            call.has_side_effect
        ),
        // The types of operands and results say the rest.
        Op::Parameter { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Select
        | Op::Clamp
        | Op::Complex
        | Op::Convert(_)
        | Op::BitcastConvert(_)
        | Op::Reshape(_)
        | Op::DynamicUpdateSlice
        | Op::RngBits(_)
        | Op::Qr
        | Op::Eigh
        | Op::Lu
        | Op::ReplicaId
        | Op::PartitionId
        | Op::OptimizationBarrier => String::new(),
        // Written with regions or functions, above.
        Op::Reduce { .. }
        | Op::ArgReduce { .. }
        | Op::ReduceWindow { .. }
        | Op::SelectAndScatter { .. }
        | Op::Scatter(_)
        | Op::Sort { .. }
        | Op::While { .. }
        | Op::Case { .. }
        | Op::AllReduce { .. }
        | Op::ReduceScatter { .. }
        | Op::Composite { .. } => String::new(),
    }
}
