//! Random programs.

use super::arguments;
use super::choices::Choices;
use super::grow;
use crate::ir::{BlockId, Graph, Op, Type, Value, infer};
use crate::reference::Array;
use crate::{DType, Literal, Shape};

/// What random programs may hold.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most nodes that are grown; what they need (constants, conversions) comes on top.
    pub nodes: usize,
    /// Most elements of a value.
    pub elements: usize,
    /// Element types of parameters and conversions.
    pub dtypes: Vec<DType>,
    /// Infinities, NaNs, subnormal numbers, signed zeros and numbers at the end of the range.
    pub special_values: bool,
    /// Composites.
    pub composites: bool,
    /// `while` and `case`.
    pub control_flow: bool,
    /// `cholesky` and `triangular_solve`.
    pub solvers: bool,
    /// `fft`, `qr`, `eigh` and `lu`.
    pub decompositions: bool,
    /// Matrix products, convolutions, windows: what is slow to interpret.
    pub contractions: bool,
}

impl Default for Config {
    /// All dtypes, everything.
    fn default() -> Self {
        Self {
            nodes: 24,
            elements: 2048,
            dtypes: DType::ALL.to_vec(),
            special_values: true,
            composites: true,
            control_flow: true,
            solvers: true,
            decompositions: true,
            contractions: true,
        }
    }
}

/// A valid program, and arguments for it, out of any bytes: deterministic, every op and dtype the configuration allows, ranks from 0
/// to 5, sizes from 0. More bytes make a longer program.
///
/// ```
/// use tpu_core::testing::graphs::{Config, generate};
/// let (graph, arguments) = generate(b"some bytes that say which ops", &Config::default());
/// let outcome = tpu_core::reference::evaluate(&graph, &arguments).unwrap();
/// assert_eq!(outcome.results.len(), graph[graph.main()].results.len());
/// ```
pub fn generate(bytes: &[u8], config: &Config) -> (Graph, Vec<Array>) {
    let (graph, mut rows) = generate_replicas(bytes, config, 1);
    (graph, rows.remove(0))
}

/// The same for a program that several devices run together, with collectives among them: row `i` of the arguments is that
/// of device `i`. All devices go through its loops and branches in the same way.
///
/// ```
/// use tpu_core::testing::graphs::{Config, generate_replicas};
/// let (graph, rows) = generate_replicas(b"other bytes", &Config::default(), 4);
/// let outcomes = tpu_core::reference::evaluate_spmd(&graph, &rows).unwrap();
/// assert_eq!(outcomes.len(), 4);
/// ```
pub fn generate_replicas(bytes: &[u8], config: &Config, replicas: usize) -> (Graph, Vec<Vec<Array>>) {
    let mut choices = Choices::new(bytes);
    let mut grower = Grower::new(config, replicas, None, 0);
    for _ in 0..1 + choices.below(3) {
        let ty = grower.any_type(&mut choices);
        grower.fresh(&mut choices, ty);
    }
    grower.grow(&mut choices, config.nodes);
    let results = grower.some_results(&mut choices);
    let main = grower.graph.main();
    grower.graph.set_results(main, results);
    (grower.graph, grower.arguments)
}

/// A program under construction.
pub(in crate::testing) struct Grower<'c> {
    pub config: &'c Config,
    pub graph: Graph,
    /// What the parameters are given, on each device.
    pub arguments: Vec<Vec<Array>>,
    /// Whether parameters may be added: not in a block, whose parameters its owner fixes.
    open: bool,
    /// Values that later nodes may use.
    pub values: Vec<Value>,
    /// How deep in blocks this program will be.
    pub depth: usize,
}

/// How deep random blocks nest.
pub(super) const DEEPEST: usize = 3;

impl<'c> Grower<'c> {
    /// An empty program, or one whose parameters have the given types.
    pub fn new(config: &'c Config, replicas: usize, parameters: Option<&[Type]>, depth: usize) -> Self {
        let mut graph = Graph::new();
        let main = graph.main();
        let values = parameters.into_iter().flatten().map(|ty| graph.parameter(main, ty.clone())).collect::<Vec<_>>();
        let arguments = vec![Vec::new(); replicas];
        Self { config, graph, arguments, open: parameters.is_none(), values, depth }
    }

    /// Adds nodes until the bytes or `nodes` are used up.
    pub fn grow(&mut self, choices: &mut Choices<'_>, nodes: usize) {
        for _ in 0..nodes {
            if choices.is_empty() {
                return;
            }
            grow::node(self, choices);
        }
    }

    /// The last value and a few more.
    fn some_results(&self, choices: &mut Choices<'_>) -> Vec<Value> {
        let mut results: Vec<Value> = self.values.last().copied().into_iter().collect();
        for _ in 0..choices.below(4) {
            results.push(*choices.pick(&self.values));
        }
        results
    }

    pub fn ty(&self, value: Value) -> &Type {
        self.graph.ty(value)
    }

    /// A type of a random dtype and shape.
    pub fn any_type(&self, choices: &mut Choices<'_>) -> Type {
        let dtype = *choices.pick(&self.config.dtypes);
        Type::new(dtype, self.any_shape(choices))
    }

    /// A shape of rank 0 to 5 with at most as many elements as are allowed.
    pub fn any_shape(&self, choices: &mut Choices<'_>) -> Shape {
        const SIZES: [usize; 12] = [3, 1, 2, 4, 5, 7, 8, 16, 33, 6, 1, 0];
        let rank = *choices.pick(&[2, 1, 3, 2, 4, 0, 5, 1]);
        let mut sizes: Vec<usize> = Vec::new();
        for _ in 0..rank {
            let size = *choices.pick(&SIZES);
            let elements: usize = sizes.iter().product::<usize>() * size;
            sizes.push(if elements <= self.config.elements { size } else { 1 });
        }
        sizes.into()
    }

    /// Applies an op if its shape rule accepts the operands and the results are small enough; all results can be used from then on.
    pub fn push(&mut self, op: Op, operands: &[Value]) -> Option<Value> {
        let types: Vec<&Type> = operands.iter().map(|&value| self.graph.ty(value)).collect();
        let results = infer::infer(&op, &types, &self.graph).ok()?;
        if !results.iter().all(|ty| ty.shape.elements().is_some_and(|n| n <= self.config.elements)) {
            return None;
        }
        let node = self.graph.push(self.graph.main(), op, operands).ok()?;
        self.values.extend((0..results.len() as u32).map(|result| Value { node, result }));
        Some(Value { node, result: 0 })
    }

    /// How many devices run the program together.
    pub fn replicas(&self) -> usize {
        self.arguments.len()
    }

    /// A new parameter with random elements, or a constant where there can be no parameters.
    pub fn fresh(&mut self, choices: &mut Choices<'_>, ty: Type) -> Value {
        let special_values = self.config.special_values;
        self.made(choices, |seed| arguments::random(&ty, seed, special_values))
    }

    /// New indices into an axis of `size`.
    pub fn fresh_indices(&mut self, choices: &mut Choices<'_>, ty: Type, size: usize) -> Value {
        self.made(choices, |seed| arguments::indices(&ty, size, seed))
    }

    /// A parameter with what is made of a seed, another on each device.
    fn made(&mut self, choices: &mut Choices<'_>, make: impl Fn(u64) -> Array) -> Value {
        let seed = choices.below(1 << 16) as u64;
        let value = self.given(make(seed));
        if self.open {
            for (device, row) in self.arguments.iter_mut().enumerate().skip(1) {
                row.pop();
                row.push(make(seed + ((device as u64) << 16)));
            }
        }
        value
    }

    /// A parameter with this argument on all devices, or a constant where there can be no parameters.
    pub fn given(&mut self, array: Array) -> Value {
        let main = self.graph.main();
        let ty = array.ty().clone();
        let value = if self.open {
            self.arguments.iter_mut().for_each(|row| row.push(array.clone()));
            self.graph.parameter(main, ty)
        } else {
            let literal =
                Literal::from_bytes(ty.dtype, ty.shape, array.bytes()).expect("an array has its type's bytes");
            self.graph.constant(main, literal)
        };
        self.values.push(value);
        value
    }

    /// Any value, the latest ones more often. None before there are values.
    pub fn any(&mut self, choices: &mut Choices<'_>) -> Option<Value> {
        let count = self.values.len();
        let recent = if choices.one_in(3) { count } else { count.min(4) };
        (count > 0).then(|| self.values[count - 1 - choices.below(recent)])
    }

    /// A value of one of the dtypes that an op takes, converted if need be.
    pub fn operand(&mut self, choices: &mut Choices<'_>, op: &Op) -> Option<Value> {
        let value = self.any(choices)?;
        let takes = |dtype: DType| crate::ir::support::supported(op, dtype);
        if takes(self.ty(value).dtype) {
            return Some(value);
        }
        let fitting: Vec<Value> = self.values.iter().copied().filter(|&v| takes(self.ty(v).dtype)).collect();
        if !fitting.is_empty() && choices.one_in(2) {
            return Some(*choices.pick(&fitting));
        }
        let targets: Vec<DType> = self.config.dtypes.iter().copied().filter(|&dtype| takes(dtype)).collect();
        if targets.is_empty() {
            return None;
        }
        let target = *choices.pick(&targets);
        self.push(Op::Convert(target), &[value])
    }

    /// A value of exactly this type: one that is there, or a new one.
    pub fn like(&mut self, choices: &mut Choices<'_>, ty: &Type) -> Value {
        let fitting: Vec<Value> = self.values.iter().copied().filter(|&v| self.ty(v) == ty).collect();
        if fitting.is_empty() || choices.one_in(3) {
            return self.fresh(choices, ty.clone());
        }
        *choices.pick(&fitting)
    }

    /// Applies an op that owns blocks, which become copies of these programs. Nothing is left of them if it does not fit.
    pub fn push_owner(
        &mut self,
        programs: &[&Graph],
        op: impl FnOnce(&[BlockId]) -> Op,
        operands: &[Value],
    ) -> Option<Value> {
        let (nodes, blocks) = (self.graph.nodes.len(), self.graph.blocks.len());
        let owned: Vec<BlockId> = programs.iter().map(|program| self.graph.import(program)).collect();
        let result = self.push(op(&owned), operands);
        if result.is_none() {
            self.graph.nodes.truncate(nodes);
            self.graph.blocks.truncate(blocks);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::choices::Stream;
    use super::*;
    use std::collections::BTreeSet;

    fn bytes(seed: u64, count: usize) -> Vec<u8> {
        let mut stream = Stream(seed);
        (0..count).map(|_| stream.bits() as u8).collect()
    }

    #[test]
    fn any_bytes_make_a_program_that_the_interpreter_runs() {
        for seed in 0..300 {
            let (graph, arguments) = generate(&bytes(seed, 40 + seed as usize % 300), &Config::default());
            assert!(
                crate::ir::verify::verify(&graph).is_ok(),
                "seed {seed}: {:?}",
                crate::ir::verify::verify(&graph).err()
            );
            let outcome = crate::reference::evaluate(&graph, &arguments);
            let outcome = outcome.unwrap_or_else(|error| panic!("seed {seed}: {error:?}\n{graph:#?}"));
            for (result, ty) in outcome.results.iter().zip(graph.result_types(graph.main())) {
                assert_eq!(result.ty(), ty);
            }
        }
        generate(&[], &Config::default());
    }

    #[test]
    fn equal_bytes_make_equal_programs() {
        let (bytes, config) = (bytes(7, 200), Config::default());
        assert_eq!(generate(&bytes, &config), generate(&bytes, &config));
    }

    #[test]
    fn every_op_appears() {
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let (graph, _) = generate(&bytes(seed, 400), &Config::default());
            seen.extend(graph.nodes.iter().map(|node| node.op.name()));
        }
        let samples = crate::ir::samples::every_op();
        let all: BTreeSet<&str> = samples.iter().flat_map(|(_, g)| &g.nodes).map(|node| node.op.name()).collect();
        let elsewhere = [
            "all_gather",
            "all_reduce",
            "all_to_all",
            "collective_permute",
            "custom_call",
            "partition_id",
            "reduce_scatter",
            "replica_id",
        ];
        let missing: Vec<_> = all.difference(&seen).filter(|name| !elsewhere.contains(name)).collect();
        assert!(missing.is_empty(), "never generated: {missing:?}");
    }
}
