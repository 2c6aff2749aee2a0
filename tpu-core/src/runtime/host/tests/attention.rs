//! Attention by blocks against its formulas in f64, with the error that its arithmetic can make.

use super::build::Build;
use super::*;
use crate::ir::{Attribute, Attributes, NodeId};
use crate::{Literal, Scalar, Shape};

/// Sizes and options of one attention.
#[derive(Clone, Debug)]
struct Case {
    dtype: DType,
    batch: usize,
    heads: usize,
    group: usize,
    queries: usize,
    keys: usize,
    width: usize,
    out: usize,
    causal: bool,
    mask: Option<(DType, Vec<usize>)>,
}

impl Case {
    fn new(queries: usize, keys: usize, width: usize, out: usize) -> Self {
        let (dtype, mask) = (DType::F32, None);
        Self { dtype, batch: 1, heads: 2, group: 1, queries, keys, width, out, causal: false, mask }
    }

    fn scale(&self) -> f64 {
        1.0 / (self.width as f64).sqrt()
    }

    /// Types of query, key, value, gradient, logarithms of sums and common parts.
    fn types(&self) -> [Type; 6] {
        let &Self { batch, heads, queries, keys, width, out, .. } = self;
        let shared = heads / self.group;
        let of = |sizes: &[usize]| Type::new(self.dtype, sizes);
        let rows = Type::new(DType::F32, [batch, heads, queries]);
        [
            of(&[batch, heads, queries, width]),
            of(&[batch, shared, keys, width]),
            of(&[batch, shared, keys, out]),
            of(&[batch, heads, queries, out]),
            rows.clone(),
            rows,
        ]
    }

    fn attributes(&self) -> Arc<Attributes> {
        let pairs = [
            ("causal", Attribute::Bool(self.causal)),
            ("scale", Attribute::Float(self.scale())),
            ("mask", Attribute::Bool(self.mask.is_some())),
        ];
        Arc::new(Attributes(pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()))
    }

    /// The program of a composite whose body gives zeros, which nothing but its kernel can make more of; all operands are
    /// dense, or with `turned` `[batch, rows, heads, columns]` read with their axes in order.
    fn program(&self, backward: bool, turned: bool) -> Graph {
        let types = self.types();
        let wide = |ty: &Type| Type::new(DType::F32, &ty.shape);
        let results = match backward {
            false => vec![types[3].clone(), types[4].clone()],
            true => types[..3].iter().map(wide).collect(),
        };
        let mut operands = types[..if backward { 6 } else { 3 }].to_vec();
        operands.extend(self.mask.iter().map(|(dtype, sizes)| Type::new(*dtype, sizes.as_slice())));
        let mut b = Build::new();
        let body = b.0.block();
        operands.iter().for_each(|ty| _ = b.0.parameter(body, ty.clone()));
        let zeros = |b: &mut Build, ty: &Type| {
            let zero = b.0.constant(body, Literal::splat(ty.dtype, Shape::scalar(), Scalar::Float(0.0)));
            let spread = Op::BroadcastInDim { shape: ty.shape.clone(), axes: Default::default() };
            b.0.push(body, spread, &[zero]).unwrap().into()
        };
        let values = results.iter().map(|ty| zeros(&mut b, ty)).collect();
        b.0.set_results(body, values);
        let name = if backward { "tpu.attention_backward" } else { "tpu.attention" };
        let inputs: Vec<Value> = operands
            .iter()
            .map(|ty| match ty.shape.sizes() {
                &[batch, heads, rows, columns] if turned => {
                    let x = b.input(ty.dtype, &[batch, rows, heads, columns]);
                    b.transpose(x, &[0, 2, 1, 3])
                }
                sizes => b.input(ty.dtype, sizes),
            })
            .collect();
        let op = Op::Composite { name: name.into(), attributes: self.attributes(), body };
        let main = b.0.main();
        let node: NodeId = b.0.push(main, op, &inputs).unwrap();
        let results: Vec<Value> = (0..results.len() as u32).map(|result| Value { node, result }).collect();
        b.done(&results)
    }
}

/// A number and the largest error that computing it in f32 can make.
#[derive(Clone, Copy, Default)]
struct Near {
    value: f64,
    error: f64,
}

/// Half an ulp of 1 in f32.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// Σ x y of numbers that have errors of their own: one rounding for each addition, of at most the sum of magnitudes.
fn dot(pairs: impl Iterator<Item = (Near, Near)>) -> Near {
    let (mut sum, mut size, mut error, mut terms) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in pairs {
        sum += x.value * y.value;
        size += (x.value * y.value).abs();
        error += x.error * (y.value.abs() + y.error) + y.error * x.value.abs();
        terms += 1.0;
    }
    Near { value: sum, error: error + (terms + 1.0) * U * size }
}

struct Formulas<'a> {
    case: &'a Case,
    operands: Vec<Vec<f64>>,
}

impl Formulas<'_> {
    fn exact(&self, operand: usize, at: usize) -> Near {
        Near { value: self.operands[operand][at], error: 0.0 }
    }

    /// Row `row` of an operand's matrix.
    fn row(&self, operand: usize, matrix: usize, row: usize, rows: usize, width: usize) -> impl Iterator<Item = Near> {
        (0..width).map(move |column| self.exact(operand, (matrix * rows + row) * width + column))
    }

    /// Scaled and masked scores of a query; `None` where it does not see the key.
    fn scores(&self, batch: usize, head: usize, query: usize) -> Vec<Option<Near>> {
        let case = self.case;
        let &Case { heads, group, queries, keys, width, .. } = case;
        let (of_query, of_key) = (batch * heads + head, batch * (heads / group) + head / group);
        let mask = case.mask.as_ref().map(|(dtype, sizes)| {
            let at = |key: usize| {
                let place = [batch, head, query, key];
                let places = &place[4 - sizes.len()..];
                sizes.iter().zip(places).fold(0, |at, (&size, &i)| at * size + if size == 1 { 0 } else { i })
            };
            (*dtype, at)
        });
        let score = |key: usize| {
            if case.causal && key > query {
                return None;
            }
            let q = self.row(0, of_query, query, queries, width);
            let product = dot(q.zip(self.row(1, of_key, key, keys, width)));
            let value = product.value * case.scale();
            // Two roundings: of the factor and of the product with it.
            let mut score = Near { value, error: product.error * case.scale() + 2.0 * U * value.abs() };
            if let Some((dtype, at)) = &mask {
                let with = self.operands.last().unwrap()[at(key)];
                if *dtype == DType::Bool {
                    return (with != 0.0).then_some(score);
                }
                score.value += with;
                score.error += U * score.value.abs();
            }
            Some(score)
        };
        (0..keys).map(score).collect()
    }

    /// e^(score − shift), which is known to `error`: the error of the argument, and an exponential within 2 ulp.
    fn exponential(score: Option<Near>, shift: f64, error: f64) -> Near {
        let Some(score) = score else { return Near::default() };
        let argument = score.value - shift;
        let value = argument.exp();
        // At most a tenth, so that its exponential is below 1.06 of it and one more.
        let relative = score.error + error + U * argument.abs() + 4.0 * U;
        assert!(relative < 0.1, "operands are too large for a bound");
        Near { value, error: 1.06 * relative * value }
    }

    /// Results and logarithms of sums.
    fn forward(&self) -> [Vec<Near>; 2] {
        let &Case { batch, heads, group, queries, keys, out, .. } = self.case;
        let (mut results, mut logs) = (Vec::new(), Vec::new());
        for (batch, head, query) in points(batch, heads, queries) {
            let scores = self.scores(batch, head, query);
            let most = scores.iter().flatten().map(|score| score.value).fold(f64::NEG_INFINITY, f64::max);
            // What is subtracted is a score, and cancels with all its errors; a block of keys rescales what came before it, with
            // one exponential and one rounding each.
            let blocks = keys.div_ceil(128) as f64;
            let weights = || scores.iter().map(|&score| Self::exponential(score, most, 8.0 * blocks * U));
            let one = Near { value: 1.0, error: 0.0 };
            let sum = dot(weights().map(|weight| (weight, one)));
            let of_value = batch * (heads / group) + head / group;
            for column in 0..out {
                let values = (0..keys).map(|key| self.exact(2, (of_value * keys + key) * out + column));
                let product = dot(weights().zip(values));
                results.push(match sum.value == 0.0 {
                    true => Near::default(),
                    false => {
                        let value = product.value / sum.value;
                        Near {
                            value,
                            error: (product.error + value.abs() * sum.error) / (sum.value - sum.error)
                                + U * value.abs(),
                        }
                    }
                });
            }
            let value = most + sum.value.ln();
            let error = sum.error / sum.value + U * (3.0 * value.abs() + most.abs() + 2.0);
            logs.push(Near { value, error: if value.is_finite() { error } else { 0.0 } });
        }
        [results, logs]
    }

    /// Gradients of query, key and value.
    fn backward(&self) -> [Vec<Near>; 3] {
        let &Case { batch, heads, group, queries, keys, width, out, .. } = self.case;
        let types = self.case.types();
        let elements = |at: usize| types[at].shape.elements().unwrap();
        let mut terms: [Vec<Vec<(Near, Near)>>; 3] = [0, 1, 2].map(|at| vec![Vec::new(); elements(at)]);
        for (batch, head, query) in points(batch, heads, queries) {
            let (of_query, of_key) = (batch * heads + head, batch * (heads / group) + head / group);
            let row = of_query * queries + query;
            let (log_sum, common) = (self.operands[4][row], self.operands[5][row]);
            for (key, score) in self.scores(batch, head, query).into_iter().enumerate() {
                let weight = match log_sum == f64::NEG_INFINITY {
                    true => Near::default(),
                    false => Self::exponential(score, log_sum, 0.0),
                };
                let g = self.row(3, of_query, query, queries, out);
                let of_weight = dot(g.zip(self.row(2, of_key, key, keys, out)));
                let difference = of_weight.value - common;
                let value = weight.value * difference * self.case.scale();
                let error = weight.error * difference.abs()
                    + (weight.value + weight.error) * (of_weight.error + U * difference.abs());
                let slope = Near { value, error: error * self.case.scale() * (1.0 + U) + 3.0 * U * value.abs() };
                for column in 0..width {
                    let (q, k) =
                        ((of_query * queries + query) * width + column, (of_key * keys + key) * width + column);
                    terms[0][q].push((slope, self.exact(1, k)));
                    terms[1][k].push((slope, self.exact(0, q)));
                }
                for column in 0..out {
                    let g = self.exact(3, (of_query * queries + query) * out + column);
                    terms[2][(of_key * keys + key) * out + column].push((weight, g));
                }
            }
        }
        terms.map(|terms| terms.into_iter().map(|terms| dot(terms.into_iter())).collect())
    }
}

fn points(batch: usize, heads: usize, queries: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..batch * heads * queries).map(move |at| (at / (heads * queries), at / queries % heads, at % queries))
}

fn assert_near(name: &str, ty: &Type, got: &[u8], want: &[Near]) {
    // A result in 16 bits is rounded once more.
    let round = match ty.dtype {
        DType::BF16 => 2f64.powi(-8),
        DType::F16 => 2f64.powi(-11),
        _ => 0.0,
    };
    for (at, (got, want)) in numbers(ty, got).into_iter().zip(want).enumerate() {
        let error = want.error + round * (want.value.abs() + want.error);
        let same = got == want.value || (got - want.value).abs() <= error;
        assert!(same, "{name}: element {at}: got {got}, want {} ± {error}", want.value);
    }
}

/// Operands of the dense program with queries, keys and so on small enough for the bounds.
fn operands(case: &Case, graph: &Graph, seed: u64) -> Vec<Vec<u8>> {
    let mut operands = arguments(graph, seed);
    if let (Some((DType::Bool, _)), Some(mask)) = (&case.mask, operands.last_mut()) {
        // One query sees nothing.
        mask[..case.keys.min(4)].fill(0);
        if case.mask.as_ref().is_some_and(|(_, sizes)| sizes.len() == 2) {
            mask[..case.keys].fill(0);
        }
    }
    operands
}

/// Axes 1 and 2 of `[a, b, c, d]` exchanged.
fn exchanged(bytes: &[u8], ty: &Type) -> Vec<u8> {
    let &[a, b, c, d] = ty.shape.sizes() else { return bytes.to_vec() };
    let row = d * ty.dtype.bits() as usize / 8;
    let rows = (0..a).flat_map(|a| (0..c).flat_map(move |y| (0..b).map(move |x| (a * b + x) * c + y)));
    rows.flat_map(|at| &bytes[at * row..][..row]).copied().collect()
}

fn check(case: &Case) {
    let name = format!("{case:?}");
    let forward = case.program(false, false);
    let types = case.types();
    let given = operands(case, &forward, 5);
    let doubles = |graph: &Graph, operands: &[Vec<u8>]| -> Vec<Vec<f64>> {
        graph.parameter_types(graph.main()).zip(operands).map(|(ty, bytes)| numbers(ty, bytes)).collect()
    };
    let results = check_bits(&name, "attention", case, false, &given);
    let [out, logs] = Formulas { case, operands: doubles(&forward, &given) }.forward();
    assert_near(&name, &types[3], &results[0], &out);
    assert_near(&name, &types[4], &results[1], &logs);

    let backward = case.program(true, false);
    let mut all = operands(case, &backward, 6);
    all[..3].clone_from_slice(&given[..3]);
    if case.mask.is_some() {
        all[6].clone_from(&given[3]);
    }
    all[4].clone_from(&results[1]);
    let results = check_bits(&name, "attention_backward", case, true, &all);
    let want = Formulas { case, operands: doubles(&backward, &all) }.backward();
    for ((ty, got), want) in types.iter().zip(&results).zip(&want) {
        assert_near(&name, &Type::new(DType::F32, &ty.shape), got, want);
    }
}

/// The results, which are the same on each instruction set, for any number of threads, and of operands with their axes in
/// another order in memory, which are read where they are.
fn check_bits(name: &str, kernel: &str, case: &Case, backward: bool, given: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let graph = case.program(backward, false);
    let results = run(&graph, given);
    for isa in levels() {
        for threads in [1, 2, 4] {
            let again = run_with(&host(threads, isa), &graph, CompileOptions::default(), given).unwrap().0;
            assert!(again == results, "{name}: {kernel} with {isa:?}, {threads} threads");
        }
    }
    let turned = case.program(backward, true);
    let exchanged: Vec<Vec<u8>> =
        graph.parameter_types(graph.main()).zip(given).map(|(ty, bytes)| exchanged(bytes, ty)).collect();
    assert!(run(&turned, &exchanged) == results, "{name}: {kernel} of turned operands");
    for graph in [&graph, &turned] {
        let kernels = host(1, Isa::available()).compile(graph, CompileOptions::default()).unwrap().kernels();
        let kinds: Vec<_> = kernels.iter().map(|kernel| kernel.kind.as_str()).collect();
        assert_eq!(kinds, [kernel], "{name}");
    }
    results
}

#[test]
fn attention_is_its_formula_whatever_the_sizes() {
    for (queries, keys, width, out) in
        [(1, 1, 1, 1), (3, 5, 2, 7), (16, 128, 16, 16), (70, 130, 9, 20), (65, 300, 33, 16)]
    {
        for causal in [false, true] {
            check(&Case { causal, ..Case::new(queries, keys, width, out) });
        }
    }
    check(&Case { causal: true, ..Case::new(150, 40, 8, 8) });
}

#[test]
fn heads_share_keys_and_values() {
    check(&Case { batch: 2, heads: 6, group: 3, causal: true, ..Case::new(20, 30, 8, 4) });
}

#[test]
fn masks_of_any_shape_hide_keys_or_add_to_scores() {
    let (queries, keys) = (70, 140);
    let masks = [
        (DType::Bool, vec![queries, keys]),
        (DType::Bool, vec![2, 1, 1, keys]),
        (DType::F32, vec![2, queries, keys]),
        (DType::F32, vec![queries, 1]),
    ];
    for (at, mask) in masks.into_iter().enumerate() {
        check(&Case { batch: 2, mask: Some(mask), causal: at == 1, ..Case::new(queries, keys, 8, 8) });
    }
}

#[test]
fn floats_of_16_bits_are_computed_in_f32() {
    for dtype in [DType::BF16, DType::F16] {
        check(&Case { dtype, causal: true, ..Case::new(70, 140, 20, 16) });
        check(&Case { dtype, mask: Some((dtype, vec![1, 140])), ..Case::new(30, 140, 16, 8) });
    }
}

#[test]
fn composites_of_other_attributes_or_widths_are_inlined() {
    let kinds = |graph: &Graph| -> Vec<String> {
        let kernels = host(1, Isa::available()).compile(graph, CompileOptions::default()).unwrap().kernels();
        kernels.into_iter().map(|kernel| kernel.kind).collect()
    };
    let is_inlined = |graph: &Graph| kinds(graph).iter().all(|kind| !kind.starts_with("attention"));
    assert!(is_inlined(&Case::new(4, 4, 300, 4).program(false, false)));
    assert!(is_inlined(&Case { dtype: DType::F64, ..Case::new(4, 4, 4, 4) }.program(false, false)));
    let mut graph = Case::new(4, 4, 4, 4).program(true, false);
    assert!(!is_inlined(&graph));
    for node in &mut graph.nodes {
        if let Op::Composite { attributes, .. } = &mut node.op {
            *attributes = Arc::default();
        }
    }
    assert!(is_inlined(&graph), "without a scale");
}
