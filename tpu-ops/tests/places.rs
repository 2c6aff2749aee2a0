//! Whatever a function records is attributed to the line that called the function, not to one of ours.

use std::collections::BTreeSet;
use std::path::Path;
use tpu_core::ir::{Attributes, Axes, DotDims, GatherDims, Precision, Reducer, ScatterDims, Type};
use tpu_core::plan::Program;
use tpu_core::{DType, Literal, Result, Tensor};
use tpu_ops::*;

/// Operands for all kinds of functions.
struct Given {
    /// Floats `[4, 4]`.
    x: Tensor,
    /// Floats `[1, 4]`, which stretch to `x`.
    row: Tensor,
    /// Floats `[2, 4, 4]`.
    stack: Tensor,
    /// Floats `[1, 2, 4, 4]`.
    image: Tensor,
    /// Indices `[4]`.
    n: Tensor,
    /// Indices `[4, 4]`.
    at: Tensor,
    /// Indices `[4, 2]`.
    few: Tensor,
    /// Bools `[4, 4]`.
    mask: Tensor,
    /// Complex numbers `[4]`.
    z: Tensor,
}

/// Places of the operations that `f` records.
fn places(f: impl FnOnce(&Given) -> Result<Vec<Tensor>>) -> Result<BTreeSet<String>> {
    let float = |sizes: &[usize]| Type::new(DType::F32, sizes);
    let index = |sizes: &[usize]| Type::new(DType::I64, sizes);
    let types = [
        float(&[4, 4]),
        float(&[1, 4]),
        float(&[2, 4, 4]),
        float(&[1, 2, 4, 4]),
        index(&[4]),
        index(&[4, 4]),
        index(&[4, 2]),
        Type::new(DType::Bool, [4, 4]),
        Type::new(DType::Complex64, [4]),
    ];
    let program = Program::trace(&types, |given| {
        let [x, row, stack, image, n, at, few, mask, z] = given.to_vec().try_into().expect("as many as types");
        f(&Given { x, row, stack, image, n, at, few, mask, z })
    })?;
    // loc("add"("file.rs":12:1))
    let file = |line: &str| Some(line.split_once(" loc(")?.1.rsplit_once("\":")?.0.rsplit_once('"')?.1.to_string());
    Ok(program.text().lines().filter_map(file).collect())
}

/// Calls and their names.
macro_rules! calls {
    (|$given:ident| $($name:ident: $call:expr),* $(,)?) => {
        [$((stringify!($name), Box::new(|$given: &Given| $call) as Box<dyn FnOnce(&Given) -> Result<Vec<Tensor>>>)),*]
    };
}

/// One result in a list.
fn one(tensor: Result<Tensor>) -> Result<Vec<Tensor>> {
    Ok(vec![tensor?])
}

fn two((a, b): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![a, b]
}

#[test]
fn operations_have_the_place_of_the_call() {
    let (mut wrong, mut called) = (Vec::new(), BTreeSet::new());
    for (name, call) in methods().into_iter().chain(operators()) {
        match places(call) {
            Ok(found) if found.iter().eq([file!()]) => {}
            found => wrong.push((name, found)),
        }
        called.insert(name.to_string());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all = functions();
    let missing: Vec<_> = all.iter().filter(|name| !called.contains(*name)).collect();
    assert!(missing.is_empty() && all.len() > 120, "not called here, of {}: {missing:?}", all.len());
}

type Calls = Vec<(&'static str, Box<dyn FnOnce(&Given) -> Result<Vec<Tensor>>>)>;

/// What records nothing: values that are given, other names for a value.
const EXEMPT: &[&str] = &[
    "from_slice",
    "from_vec",
    "from_bytes",
    "from_memory",
    "scalar",
    "detach",
    "restored",
    "with_history",
    "parse",
    "checked",
];

/// Names of all public functions that give tensors, as their sources have them.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.join("src"), here.join("../tpu-core/src/tensor")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]").next().unwrap();
            for declared in source.split("pub fn ").skip(1) {
                let signature = declared.split('{').next().unwrap();
                let name = signature.split(['(', '<']).next().unwrap();
                let gives = signature
                    .split_once("-> Result<")
                    .is_some_and(|(_, ty)| ty.contains("Self") || ty.contains("Tensor"));
                if gives && !name.starts_with('$') {
                    names.insert(name.to_string());
                }
            }
            // Rows of the tables of elementwise functions: name = Op,
            for line in source.lines().filter(|_| path.ends_with("elementwise.rs")) {
                if let Some((name, op)) = line.trim().split_once(" = ")
                    && op.ends_with(',')
                    && !line.contains([':', '(', '.'])
                {
                    names.insert(name.to_string());
                }
            }
        }
    }
    names.retain(|name| !EXEMPT.contains(&&**name));
    names
}

fn methods() -> Calls {
    let unary = calls![|g|
        abs: one(g.x.abs()), neg: one(g.x.neg()), sign: one(g.x.sign()), floor: one(g.x.floor()), ceil: one(g.x.ceil()),
        round: one(g.x.round()), exp: one(g.x.exp()), expm1: one(g.x.expm1()), log: one(g.x.log()), log1p: one(g.x.log1p()),
        sigmoid: one(g.x.sigmoid()), tanh: one(g.x.tanh()), sin: one(g.x.sin()), cos: one(g.x.cos()), tan: one(g.x.tan()),
        sqrt: one(g.x.sqrt()), rsqrt: one(g.x.rsqrt()), cbrt: one(g.x.cbrt()), erf: one(g.x.erf()),
        erf_inv: one(g.x.erf_inv()), is_finite: one(g.x.is_finite()), not: one(g.mask.not()),
        popcount: one(g.n.popcount()), leading_zeros: one(g.n.leading_zeros()), real: one(g.z.real()), imag: one(g.z.imag()),
        square: one(g.x.square()), recip: one(g.x.recip()), to_dtype: one(g.x.to_dtype(DType::F64)),
        bitcast: one(g.x.bitcast(DType::I32)), complex: one(g.x.complex(&g.x)),
    ];
    let binary = calls![|g|
        // Of two shapes, so that one is stretched.
        add: one(g.x.add(&g.row)), sub: one(g.x.sub(&g.row)), mul: one(g.x.mul(&g.row)), div: one(g.x.div(&g.row)),
        rem: one(g.x.rem(&g.row)), pow: one(g.x.pow(&g.row)), atan2: one(g.x.atan2(&g.row)),
        maximum: one(g.x.maximum(&g.row)), minimum: one(g.x.minimum(&g.row)), bitwise_and: one(g.at.bitwise_and(&g.n)),
        bitwise_or: one(g.at.bitwise_or(&g.n)), bitwise_xor: one(g.at.bitwise_xor(&g.n)),
        shift_left: one(g.at.shift_left(&g.n)), shift_right: one(g.at.shift_right(&g.n)),
        shift_right_logical: one(g.at.shift_right_logical(&g.n)), eq: one(g.x.eq(&g.row)), ne: one(g.x.ne(&g.row)),
        lt: one(g.x.lt(&g.row)), le: one(g.x.le(&g.row)), gt: one(g.x.gt(&g.row)), ge: one(g.x.ge(1.5)),
        select: one(g.mask.select(&g.x, &g.row)), clamp: one(g.x.clamp(&g.row, 1.0)),
    ];
    let reductions = calls![|g|
        sum: one(g.x.sum([0], true)), sum_all: one(g.x.sum_all()), mean: one(g.x.mean([-1], false)),
        mean_all: one(g.x.mean_all()), max_with_index: Ok(two(g.x.max_with_index(0, true)?)),
        min_with_index: Ok(two(g.x.min_with_index(1, false)?)), argmax: one(g.x.argmax(0, true)),
        argmin: one(g.x.argmin(0, false)), cumsum: one(g.x.cumsum(0)), cumprod: one(g.x.cumprod(1)),
        cumulative: one(g.x.cumulative(Reducer::Max, 0, true)), all_true: one(g.mask.all_true()),
        reduce: one(g.x.reduce(Reducer::Max, [0], false)), prod: one(g.x.prod([0], true)), max: one(g.x.max([0], false)),
        min: one(g.x.min([0], false)), all: one(g.mask.all([0], false)), any: one(g.mask.any_all()),
    ];
    let created = calls![|g|
        i: one(g.x.i((1, ..2))), constant: one(Tensor::constant(Literal::splat(DType::F32, [4, 4], 2)).and_then(|y| g.x.add(&y))),
        full: one(Tensor::full([4, 4], 1.5, DType::F32)?.mul(&g.x)), zeros: one(Tensor::zeros([4, 4], DType::F32)?.mul(&g.x)),
        ones: one(Tensor::ones([4, 4], DType::F32)?.mul(&g.x)), zeros_like: one(g.x.zeros_like()?.mul(&g.x)),
        ones_like: one(g.x.ones_like()?.mul(&g.x)), iota: one(Tensor::iota([4, 4], 0, DType::F32)?.mul(&g.x)),
        arange: one(Tensor::arange(1, 9, 2, DType::I64)?.mul(&g.n)), eye: one(Tensor::eye(4, DType::F32)?.mul(&g.x)),
        rng_bits: one(Tensor::rng_bits(1, 2, [4])?.to_dtype(DType::I64)?.mul(&g.n)),
    ];
    let moved = calls![|g|
        reshape: one(g.x.reshape([2, 8])), broadcast_to: one(g.row.broadcast_to([3, 4])), permute: one(g.x.permute([1, 0])),
        transpose: one(g.x.transpose(0, 1)), t: one(g.x.t()), unsqueeze: one(g.x.unsqueeze(0)), squeeze: one(g.row.squeeze(0)),
        flatten: one(g.stack.flatten(0, 1)), slice: one(g.x.slice(0, 0, 4, 2)), narrow: one(g.x.narrow(1, 1, 2)),
        split: g.x.split(0, &[1, 3]), chunk: g.x.chunk(2, 1), dynamic_slice: one(g.x.dynamic_slice(&[1.into(), 0.into()], &[2, 2])),
        dynamic_update_slice: one(g.x.dynamic_update_slice(&g.row, &[1.into(), 0.into()])),
        pad: one(g.x.pad(&[(1, 1, 0), (0, 0, 1)], 0.5)), concat: one(Tensor::concat(&[&g.x, &g.row], 0)),
        stack: one(Tensor::stack(&[&g.x, &g.x], -1)), flip: one(g.x.flip([0])), tril: one(g.x.tril(0)), triu: one(g.x.triu(1)),
        sort: Ok(two(g.x.sort(0, true)?)), topk: Ok(two(g.x.topk(2, true)?)),
    ];
    let indexed = calls![|g|
        gather_general: one(g.x.gather_general(&g.n, rows())), index_select: one(g.x.index_select(0, &g.n)),
        scatter_general: one(g.x.scatter_general(&g.n, &g.x, into_rows())), take: one(g.x.take(&g.n, 1)),
        gather: Ok(vec![g.x.gather(1, &g.few)?, g.x.gather(0, &g.few)?]), scatter: Ok(vec![g.x.scatter(0, &g.at, &g.x, None)?, g.x.scatter(0, &g.few, &g.x.narrow(1, 0, 2)?, Some(Reducer::Sum))?]),
        put: one(g.x.put(&g.n, 0, &g.x, Some(Reducer::Sum))),
    ];
    let products = calls![|g|
        matmul: Ok(vec![g.x.matmul(&g.x)?, g.x.matmul(&g.stack)?]),
        dot_general: one(g.x.dot_general(&g.x, DotDims {
            lhs_batch: Axes::new(), rhs_batch: Axes::new(), lhs_contract: Axes::from_slice(&[1]), rhs_contract: Axes::from_slice(&[0]),
            precision: Precision::Highest, result: DType::F32,
        })),
        convolution: one(conv2d(&g.image, &g.image, None, Conv2d::default())),
    ];
    let general = calls![|g|
        record: Ok(Tensor::record(tpu_core::ir::Op::Unary(tpu_core::ir::UnaryOp::Exp), &[(&g.x).into()])?.into_vec()),
        composite: Ok(Tensor::composite("test.square", Attributes::default(), &[&g.x], |x| one(x[0].square()))?.into_vec()),
        while_loop: Ok(Tensor::while_loop(&[&g.x, &g.n], |x| x[0].sum_all()?.lt(9), |x| Ok(vec![x[0].index_select(0, &x[1])?, x[1].clone()]))?.into_vec()),
        case: Ok(g.n.i(0)?.case(&[&g.x, &g.n], vec![Box::new(|x| one(x[0].take(&x[1], 0))), Box::new(|x| one(x[0].exp()))])?.into_vec()),
    ];
    [
        unary.into(),
        binary.into(),
        reductions.into(),
        created.into(),
        moved.into(),
        indexed.into(),
        products.into(),
        general.into(),
    ]
    .into_iter()
    .flat_map(|calls: Calls| calls)
    .collect()
}

fn operators() -> Calls {
    let all = calls![|g|
        rotary_angles: Ok(two(rotary_angles(&g.n, 4, 1e4)?)),
        rotary: { let (cos, sin) = rotary_angles(&g.n, 4, 1e4)?; one(rotary(&g.x, &cos, &sin, Pairs::Halves)) },
        conv2d: one(conv2d(&g.image, &g.image, Some(&g.x.i((0, ..1))?), Conv2d { padding: Padding::Same, ..Conv2d::default() })),
        embedding: one(embedding(&g.x, &g.n)), embedding_padded: one(embedding_padded(&g.x, &g.n, 1)),
        one_hot: one(one_hot(&g.n, 5)), uniform: one(uniform([4, 4], 0.0, 1.0, DType::F32, None)?.mul(&g.x)),
        normal: one(normal([4, 4], 0.0, 1.0, DType::F32, None)?.mul(&g.x)), bernoulli: one(bernoulli([4, 4], 0.5, None)?.bitwise_and(&g.mask)),
        bernoulli_like: one(random::bernoulli_like(&g.x, None)), randint: one(randint(0, 9, [4], DType::I64, None)?.mul(&g.n)),
        randperm: one(randperm(4, None)?.mul(&g.n)),
        multinomial: Ok(vec![multinomial(&g.x, 2, true, None)?, multinomial(&g.x, 2, false, None)?]),
        max_pool2d: one(max_pool2d(&g.image, [2, 2], MaxPool2d::default())),
        avg_pool2d: one(avg_pool2d(&g.image, [3, 3], AvgPool2d { padding: [1, 1], count_include_pad: false, ..AvgPool2d::default() })),
        linear: one(linear(&g.x, &g.x, Some(&g.row.squeeze(0)?))),
        scaled_dot_product_attention: {
            let options = Attention { mask: Some(&g.mask), causal: true, ..Attention::default() };
            let attend = |dropout| scaled_dot_product_attention(&g.image, &g.image, &g.image, Attention { dropout, ..options });
            Ok(vec![attend(0.0)?, attend(0.5)?])
        },
        softmax: one(softmax(&g.x, 0)), log_softmax: one(log_softmax(&g.x, 1)), logsumexp: one(logsumexp(&g.x, 1, true)),
        dropout: one(dropout(&g.x, 0.5, true, None)), layer_norm: one(layer_norm(&g.x, &[4], Some(&g.row.squeeze(0)?), None, 1e-5)),
        rms_norm: one(rms_norm(&g.x, &[4], None, 1e-5)), masked_fill: one(masked_fill(&g.x, &g.mask, 0.5)),
        take_along: one(take_along(&g.x, &g.few, 1)), gelu: Ok(vec![gelu(&g.x, Gelu::Erf)?, gelu(&g.x, Gelu::Tanh)?]),
        relu: one(relu(&g.x)), silu: one(silu(&g.x)), mse_loss: one(mse_loss(&g.x, &g.x, Reduction::Mean)),
        einsum: Ok(vec![einsum("ij,jk,kl->il", &[&g.x, &g.x, &g.x])?, einsum("ii", &[&g.x])?, einsum("ij,kj->", &[&g.x, &g.row])?]),
        cross_entropy: {
            let smooth = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
            let weight = g.row.squeeze(0)?;
            let weighted = CrossEntropy { weight: Some(&weight), ..CrossEntropy::default() };
            Ok(vec![
                cross_entropy(&g.x, &g.n, CrossEntropy::default())?,
                cross_entropy(&g.x, &g.n, smooth)?,
                cross_entropy(&g.x, &g.n, weighted)?,
                cross_entropy(&g.x, &g.x, CrossEntropy::default())?,
            ])
        },
        // The functions of the names of methods.
        select: one(select(&g.mask, &g.x, &g.row)), argmax: Ok(vec![argmax(&g.x, None, true)?, argmax(&g.x, Some(1), false)?]),
        topk: Ok(two(topk(&g.x, 2, 0, false)?)), cumsum: one(cumsum(&g.x, 1)),
        sigmoid: one(sigmoid(&g.x)), tanh: one(tanh(&g.x)),
    ];
    all.into_iter().chain(activations()).chain(losses()).chain(networks()).collect()
}

fn activations() -> Calls {
    let all = calls![|g|
        softplus: one(softplus(&g.x, 2.0, 20.0)), elu: one(elu(&g.x, 2.0)), celu: one(celu(&g.x, 2.0)), selu: one(selu(&g.x)),
        mish: one(mish(&g.x)), logsigmoid: one(logsigmoid(&g.x)), softsign: one(softsign(&g.x)), tanhshrink: one(tanhshrink(&g.x)),
        glu: one(glu(&g.x, 1)), relu6: one(relu6(&g.x)), hardtanh: one(hardtanh(&g.x, -1.0, 1.0)),
        hardsigmoid: one(hardsigmoid(&g.x)), hardswish: one(hardswish(&g.x)), leaky_relu: one(leaky_relu(&g.x, 0.1)),
        prelu: one(prelu(&g.x, &g.row.squeeze(0)?)), hardshrink: one(hardshrink(&g.x, 0.5)), softshrink: one(softshrink(&g.x, 0.5)),
        threshold: one(threshold(&g.x, 0.5, 0.0)),
    ];
    all.into()
}

fn losses() -> Calls {
    const MEAN: Reduction = Reduction::Mean;
    let all = calls![|g|
        l1_loss: one(l1_loss(&g.x, &g.row, MEAN)), smooth_l1_loss: one(smooth_l1_loss(&g.x, &g.row, 2.0, MEAN)),
        huber_loss: one(huber_loss(&g.x, &g.row, 2.0, MEAN)), bce_loss: one(bce_loss(&g.x, &g.x, Some(&g.row), MEAN)),
        bce_with_logits: {
            let options = BceWithLogits { weight: Some(&g.row), pos_weight: Some(&g.row), reduction: MEAN };
            one(bce_with_logits(&g.x, &g.x, options))
        },
        nll_loss: {
            let weight = g.row.squeeze(0)?;
            let weighted = NllLoss { weight: Some(&weight), ..NllLoss::default() };
            Ok(vec![nll_loss(&g.x, &g.n, weighted)?, nll_loss(&g.x, &g.n, NllLoss::default())?])
        },
        kl_div: Ok(vec![kl_div(&g.x, &g.row, false, MEAN)?, kl_div(&g.x, &g.row, true, MEAN)?]),
        poisson_nll_loss: one(poisson_nll_loss(&g.x, &g.row, PoissonNll { full: true, ..PoissonNll::default() })),
        gaussian_nll_loss: one(gaussian_nll_loss(&g.x, &g.row, &g.row, GaussianNll { full: true, ..GaussianNll::default() })),
        cosine_similarity: one(cosine_similarity(&g.x, &g.row, 1, 1e-8)),
        pairwise_distance: Ok(vec![pairwise_distance(&g.x, &g.row, 2.0, 1e-6)?, pairwise_distance(&g.x, &g.row, 3.0, 1e-6)?]),
        hinge_embedding_loss: one(hinge_embedding_loss(&g.x, &g.row, 1.0, MEAN)),
        margin_ranking_loss: one(margin_ranking_loss(&g.x, &g.row, &g.row, 1.0, MEAN)),
        soft_margin_loss: one(soft_margin_loss(&g.x, &g.x, MEAN)),
        cosine_embedding_loss: one(cosine_embedding_loss(&g.x, &g.x, &g.row.squeeze(0)?, 0.5, MEAN)),
        triplet_margin_loss: one(triplet_margin_loss(&g.x, &g.row, &g.row, 1.0, 2.0, MEAN)),
    ];
    all.into()
}

fn networks() -> Calls {
    let all = calls![|g|
        conv1d: one(conv1d(&g.stack, &g.stack, None, Conv1d::default())),
        conv3d: one(conv3d(&g.image.unsqueeze(0)?, &g.image.unsqueeze(0)?, None, Conv3d::default())),
        conv_transpose1d: one(conv_transpose1d(&g.stack, &g.stack.reshape([4, 2, 4])?, None, ConvTranspose1d { groups: 2, ..Default::default() })),
        conv_transpose2d: one(conv_transpose2d(&g.image, &g.image.transpose(0, 1)?, Some(&g.x.i((0, ..1))?), ConvTranspose2d::default())),
        conv_transpose3d: one(conv_transpose3d(&g.image.unsqueeze(0)?, &g.image.unsqueeze(0)?, None, ConvTranspose3d::default())),
        max_pool1d: one(max_pool1d(&g.stack, [2], MaxPool1d::default())), max_pool3d: one(max_pool3d(&g.image, [2; 3], MaxPool3d::default())),
        avg_pool1d: one(avg_pool1d(&g.stack, [2], AvgPool1d { padding: [1], count_include_pad: false, ..AvgPool1d::default() })),
        avg_pool3d: one(avg_pool3d(&g.image, [2; 3], AvgPool3d::default())),
        adaptive_avg_pool1d: one(adaptive_avg_pool1d(&g.stack, [Some(3)])), adaptive_max_pool1d: one(adaptive_max_pool1d(&g.stack, [Some(3)])),
        group_norm: one(group_norm(&g.image, 2, Some(&g.x.i((0, ..2))?), None, 1e-5)),
        batch_norm: {
            let channels = g.x.i((0, ..2))?;
            let options = BatchNorm { running: Some((&channels, &channels)), weight: Some(&channels), ..BatchNorm::default() };
            let (trained, evaluated) = (batch_norm(&g.image, BatchNorm { training: true, ..options })?, batch_norm(&g.image, options)?);
            let each = instance_norm(&g.image, BatchNorm { training: true, ..options })?;
            let (mean, var) = trained.running.expect("asked for");
            Ok(vec![trained.y, mean, var, evaluated.y, each.y, each.running.expect("asked for").0])
        },
        argsort: one(argsort(&g.x, 0, true)), scatter_add: one(scatter_add(&g.x, 0, &g.few, &g.x)),
        scatter_reduce: one(scatter_reduce(&g.x, 0, &g.few, &g.x, Reducer::Max)), index_add: one(index_add(&g.x, 0, &g.n, &g.x)),
        lstm_layer: one(Ok(lstm_layer(&g.x.unsqueeze(0)?, &g.x.i((.., ..1))?, &g.x.i((.., ..1))?, &g.x.i((.., ..1))?, true)?.outputs)),
        gru_layer: {
            let (input, weight) = (g.stack.i((.., .., ..3))?, g.x.i((..3, ..1))?);
            Ok(two(gru_layer(&input, &weight, &g.x.i((0, ..3))?, &g.x.i((.., ..1))?, false)?))
        },
        rnn_layer: Ok(two(rnn_layer(&g.stack, &g.x, &g.x, Nonlinearity::Relu, false)?)),
        run: {
            let scan = |unrolled| Scan { unrolled, sequences: &[&g.stack], ..Scan::new(2) }.run(&[&g.x], &[], |at, _, state| {
                Ok((vec![state[0].add(&at[0])?], Vec::new()))
            });
            Ok([scan(false)?.0, scan(true)?.0].concat())
        },
    ];
    all.into()
}

/// Whole rows.
fn rows() -> GatherDims {
    GatherDims {
        offset_dims: Axes::from_slice(&[1]),
        collapsed_slice_dims: Axes::from_slice(&[0]),
        operand_batching_dims: Axes::new(),
        start_indices_batching_dims: Axes::new(),
        start_index_map: Axes::from_slice(&[0]),
        index_vector_dim: 1,
        slice_sizes: Axes::from_slice(&[1, 4]),
        indices_are_sorted: false,
    }
}

fn into_rows() -> ScatterDims {
    ScatterDims {
        update_window_dims: Axes::from_slice(&[1]),
        inserted_window_dims: Axes::from_slice(&[0]),
        input_batching_dims: Axes::new(),
        scatter_indices_batching_dims: Axes::new(),
        scatter_dims_to_operand_dims: Axes::from_slice(&[0]),
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
        combiner: None,
    }
}
