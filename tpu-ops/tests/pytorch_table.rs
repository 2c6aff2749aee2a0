//! Every op gives what PyTorch 2.15 gives, in every float dtype: `tables/ops.json`, made by `tables/make_ops.py`.

use serde_json::Value;
use std::any::Any;
use std::sync::Arc;
use tpu_core::ir::Reducer;
use tpu_core::tensor::{History, Link, Recorded};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::*;

/// A row of the table.
struct Case<'a> {
    op: &'a str,
    options: &'a Value,
    inputs: Vec<Option<Tensor>>,
    dtype: DType,
}

impl Case<'_> {
    fn input(&self, at: usize) -> &Tensor {
        self.inputs[at].as_ref().unwrap()
    }

    fn optional(&self, at: usize) -> Option<&Tensor> {
        self.inputs[at].as_ref()
    }

    fn int(&self, name: &str) -> i64 {
        self.options[name].as_i64().unwrap()
    }

    fn axis(&self) -> isize {
        self.int("axis") as isize
    }

    fn float(&self, name: &str) -> f64 {
        self.options[name].as_f64().unwrap()
    }

    fn flag(&self, name: &str) -> bool {
        self.options[name].as_bool().unwrap()
    }

    fn text(&self, name: &str) -> &str {
        self.options[name].as_str().unwrap()
    }

    /// A number per axis.
    fn each<const N: usize>(&self, name: &str) -> [usize; N] {
        std::array::from_fn(|at| self.options[name][at].as_u64().unwrap() as usize)
    }

    fn sizes(&self, name: &str) -> Vec<usize> {
        self.options[name].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect()
    }

    fn reduction(&self) -> Reduction {
        match self.text("reduction") {
            "mean" => Reduction::Mean,
            "sum" => Reduction::Sum,
            "batchmean" => Reduction::BatchMean,
            _ => Reduction::None,
        }
    }

    fn run(&self) -> Result<Vec<Tensor>> {
        let x = self.input(0);
        let one = match self.op {
            "relu" => relu(x),
            "gelu" if self.text("form") == "tanh" => gelu(x, Gelu::Tanh),
            "gelu" => gelu(x, Gelu::Erf),
            "silu" => silu(x),
            "sigmoid" => sigmoid(x),
            "tanh" => tanh(x),
            "softmax" => softmax(x, self.axis()),
            "log_softmax" => log_softmax(x, self.axis()),
            "logsumexp" => logsumexp(x, self.axis(), self.flag("keep")),
            "layer_norm" => {
                layer_norm(x, &self.sizes("normalized"), self.optional(1), self.optional(2), self.float("eps"))
            }
            "rms_norm" => rms_norm(x, &self.sizes("normalized"), self.optional(1), self.float("eps")),
            "cross_entropy" => {
                let options = CrossEntropy {
                    weight: self.optional(2),
                    ignore_index: self.int("ignore"),
                    reduction: self.reduction(),
                    label_smoothing: self.float("smoothing"),
                };
                cross_entropy(x, self.input(1), options)
            }
            "linear" => linear(x, self.input(1), self.optional(2)),
            "embedding" => embedding(x, self.input(1)),
            "one_hot" => one_hot(x, self.int("classes") as usize),
            "conv1d" => conv1d(x, self.input(1), self.optional(2), self.convolution()),
            "conv2d" => conv2d(x, self.input(1), self.optional(2), self.convolution()),
            "conv3d" => conv3d(x, self.input(1), self.optional(2), self.convolution()),
            "conv_transpose1d" => conv_transpose1d(x, self.input(1), self.optional(2), self.transposed()),
            "conv_transpose2d" => conv_transpose2d(x, self.input(1), self.optional(2), self.transposed()),
            "conv_transpose3d" => conv_transpose3d(x, self.input(1), self.optional(2), self.transposed()),
            "max_pool1d" => max_pool1d(x, self.each("window"), self.max_pool()),
            "max_pool2d" => max_pool2d(x, self.each("window"), self.max_pool()),
            "max_pool3d" => max_pool3d(x, self.each("window"), self.max_pool()),
            "avg_pool1d" => avg_pool1d(x, self.each("window"), self.avg_pool()),
            "avg_pool2d" => avg_pool2d(x, self.each("window"), self.avg_pool()),
            "avg_pool3d" => avg_pool3d(x, self.each("window"), self.avg_pool()),
            "adaptive_avg_pool1d" => adaptive_avg_pool1d(x, self.targets()),
            "adaptive_avg_pool2d" => adaptive_avg_pool2d(x, self.targets()),
            "adaptive_avg_pool3d" => adaptive_avg_pool3d(x, self.targets()),
            "adaptive_max_pool1d" => adaptive_max_pool1d(x, self.targets()),
            "adaptive_max_pool2d" => adaptive_max_pool2d(x, self.targets()),
            "adaptive_max_pool3d" => adaptive_max_pool3d(x, self.targets()),
            "batch_norm" | "instance_norm" => {
                let running = self.optional(1).zip(self.optional(2));
                let (training, momentum, eps) = (self.flag("training"), self.float("momentum"), self.float("eps"));
                let (weight, bias) = (self.optional(3), self.optional(4));
                let options = BatchNorm { running, weight, bias, training, momentum, eps };
                let norm = if self.op == "batch_norm" { batch_norm } else { instance_norm };
                let Normalized { y, running } = norm(x, options)?;
                return Ok([y].into_iter().chain(running.into_iter().flat_map(<[Tensor; 2]>::from)).collect());
            }
            "group_norm" => {
                let groups = self.int("groups") as usize;
                group_norm(x, groups, self.optional(1), self.optional(2), self.float("eps"))
            }
            "attention" => {
                let options = Attention {
                    mask: self.optional(3),
                    causal: self.flag("causal"),
                    scale: self.options["scale"].as_f64(),
                    ..Attention::default()
                };
                scaled_dot_product_attention(x, self.input(1), self.input(2), options)
            }
            "rotary" => {
                let (cos, sin) = rotary_angles(self.input(1), *x.sizes().last().unwrap(), self.float("base"))?;
                let pairs = if self.text("pairs") == "halves" { Pairs::Halves } else { Pairs::Neighbours };
                rotary(x, &cos, &sin, pairs)
            }
            "masked_fill" => masked_fill(x, self.input(1), self.float("value")),
            "take_along" => take_along(x, self.input(1), self.axis()),
            "argmax" => argmax(x, self.options["axis"].as_i64().map(|axis| axis as isize), self.flag("keep")),
            "topk" => {
                let (values, indices) = topk(x, self.int("k") as usize, self.axis(), self.flag("largest"))?;
                return Ok(vec![values, indices]);
            }
            "cumsum" => cumsum(x, self.axis()),
            "sort" => {
                let (values, indices) = sort(x, self.axis(), self.flag("descending"))?;
                return Ok(vec![values, indices]);
            }
            "argsort" => argsort(x, self.axis(), self.flag("descending")),
            "scatter" => scatter(x, self.axis(), self.input(1), self.input(2)),
            "scatter_add" => scatter_add(x, self.axis(), self.input(1), self.input(2)),
            "scatter_reduce" => {
                let kind = match self.text("kind") {
                    "sum" => Reducer::Sum,
                    "prod" => Reducer::Product,
                    "amax" => Reducer::Max,
                    _ => Reducer::Min,
                };
                scatter_reduce(x, self.axis(), self.input(1), self.input(2), kind)
            }
            "index_add" => index_add(x, self.axis(), self.input(1), self.input(2)),
            "einsum" => {
                let operands: Vec<&Tensor> = self.inputs.iter().flatten().collect();
                einsum(self.text("equation"), &operands)
            }
            _ => self.activation(x).or_else(|| self.loss(x)).unwrap_or_else(|| panic!("no op {}", self.op)),
        };
        Ok(vec![one?])
    }

    fn activation(&self, x: &Tensor) -> Option<Result<Tensor>> {
        Some(match self.op {
            "softplus" => softplus(x, self.float("beta"), self.float("threshold")),
            "elu" => elu(x, self.float("alpha")),
            "celu" => celu(x, self.float("alpha")),
            "selu" => selu(x),
            "mish" => mish(x),
            "logsigmoid" => logsigmoid(x),
            "softsign" => softsign(x),
            "tanhshrink" => tanhshrink(x),
            "glu" => glu(x, self.axis()),
            "relu6" => relu6(x),
            "hardtanh" => hardtanh(x, self.float("low"), self.float("high")),
            "hardsigmoid" => hardsigmoid(x),
            "hardswish" => hardswish(x),
            "leaky_relu" => leaky_relu(x, self.float("slope")),
            "prelu" => prelu(x, self.input(1)),
            "hardshrink" => hardshrink(x, self.float("lambda")),
            "softshrink" => softshrink(x, self.float("lambda")),
            "threshold" => threshold(x, self.float("threshold"), self.float("value")),
            _ => return None,
        })
    }

    fn loss(&self, x: &Tensor) -> Option<Result<Tensor>> {
        let margin = || self.float("margin");
        if matches!(self.op, "cosine_similarity" | "pairwise_distance") {
            let (y, eps) = (self.input(1), self.float("eps"));
            return Some(match self.op {
                "cosine_similarity" => cosine_similarity(x, y, self.axis(), eps),
                _ => pairwise_distance(x, y, self.float("p"), eps),
            });
        }
        let (y, reduction) = (self.input(1), self.reduction());
        Some(match self.op {
            "mse_loss" => mse_loss(x, y, reduction),
            "l1_loss" => l1_loss(x, y, reduction),
            "smooth_l1_loss" => smooth_l1_loss(x, y, self.float("beta"), reduction),
            "huber_loss" => huber_loss(x, y, self.float("delta"), reduction),
            "bce_loss" => bce_loss(x, y, self.optional(2), reduction),
            "bce_with_logits" => {
                let (weight, pos_weight) = (self.optional(2), self.optional(3));
                bce_with_logits(x, y, BceWithLogits { weight, pos_weight, reduction })
            }
            "nll_loss" => {
                let (weight, ignore_index) = (self.optional(2), self.int("ignore"));
                nll_loss(x, y, NllLoss { weight, ignore_index, reduction })
            }
            "kl_div" => kl_div(x, y, self.flag("log_target"), reduction),
            "poisson_nll_loss" => {
                let (log_input, full, eps) = (self.flag("log_input"), self.flag("full"), self.float("eps"));
                poisson_nll_loss(x, y, PoissonNll { log_input, full, eps, reduction })
            }
            "gaussian_nll_loss" => {
                let (full, eps) = (self.flag("full"), self.float("eps"));
                gaussian_nll_loss(x, y, self.input(2), GaussianNll { full, eps, reduction })
            }
            "hinge_embedding_loss" => hinge_embedding_loss(x, y, margin(), reduction),
            "margin_ranking_loss" => margin_ranking_loss(x, y, self.input(2), margin(), reduction),
            "cosine_embedding_loss" => cosine_embedding_loss(x, y, self.input(2), margin(), reduction),
            "triplet_margin_loss" => triplet_margin_loss(x, y, self.input(2), margin(), self.float("p"), reduction),
            "soft_margin_loss" => soft_margin_loss(x, y, reduction),
            _ => return None,
        })
    }

    fn convolution<const N: usize>(&self) -> Conv<N> {
        let padding =
            if self.options["padding"] == "same" { Padding::Same } else { Padding::Explicit(self.each("padding")) };
        Conv {
            stride: self.each("stride"),
            padding,
            dilation: self.each("dilation"),
            groups: self.int("groups") as usize,
        }
    }

    fn transposed<const N: usize>(&self) -> ConvTranspose<N> {
        ConvTranspose {
            stride: self.each("stride"),
            padding: self.each("padding"),
            output_padding: self.each("output_padding"),
            groups: self.int("groups") as usize,
            dilation: self.each("dilation"),
        }
    }

    fn stride<const N: usize>(&self) -> Option<[usize; N]> {
        (!self.options["stride"].is_null()).then(|| self.each("stride"))
    }

    fn max_pool<const N: usize>(&self) -> MaxPool<N> {
        let (padding, dilation) = (self.each("padding"), self.each("dilation"));
        MaxPool { stride: self.stride(), padding, dilation, ceil_mode: self.flag("ceil") }
    }

    fn avg_pool<const N: usize>(&self) -> AvgPool<N> {
        AvgPool {
            stride: self.stride(),
            padding: self.each("padding"),
            ceil_mode: self.flag("ceil"),
            count_include_pad: self.flag("counts"),
            divisor_override: self.options["divisor"].as_u64().map(|divisor| divisor as usize),
        }
    }

    /// Sizes of a result, some of them open.
    fn targets<const N: usize>(&self) -> [Option<usize>; N] {
        std::array::from_fn(|at| self.options["sizes"][at].as_u64().map(|size| size as usize))
    }

    /// How far an element may be from `want`.
    ///
    /// float64: the table has ten digits, so it is off by 5e-10 of a number between 1 and 10. float32: no element of the table sums more than 40 numbers, none of them above 40 in
    /// magnitude when the result is of order 1, so √40 · 40 · 2⁻²⁴ = 1.5e-5 is a rounding error of likely size; the float64 run
    /// of the same formula is the sharp test. 16-bit floats: that, and one rounding of the result, half a unit in the last
    /// place; before it products are rounded that then meet a bias below 4, or weights that meet values below 4.
    fn tolerance(&self, want: f64) -> f64 {
        let float32 = 2e-5 * want.abs().max(1.0);
        let rounded = match self.op {
            "linear" | "attention" => 2.0 * want.abs() + 4.0,
            op if op.starts_with("conv") => 2.0 * want.abs() + 4.0,
            _ => want.abs(),
        };
        match self.dtype {
            DType::F64 if self.op != "rotary" => 5.1e-10 * want.abs().max(1.0),
            DType::F16 => float32 + rounded * 2f64.powi(-11),
            DType::BF16 => float32 + rounded * 2f64.powi(-8),
            // Angles are float32 always.
            _ => float32,
        }
    }

    /// Compares a result with the table's.
    fn compare(&self, got: &Tensor, want: &Value) {
        let (kind, shape, elements) = parts(want);
        let about = format!("{} {} of {}", self.op, self.options, self.dtype);
        assert_eq!(got.sizes(), shape, "{about}");
        let dtype = match kind {
            "f" => self.dtype,
            "i" => DType::I64,
            _ => DType::Bool,
        };
        assert_eq!(got.dtype(), dtype, "{about}");
        let got = got.to_dtype(DType::F64).unwrap().to_vec::<f64>().unwrap_or_else(|error| panic!("{about}: {error}"));
        for (at, (&got, &want)) in got.iter().zip(&elements).enumerate() {
            let equal = got == want || got.is_nan() && want.is_nan();
            let close = kind == "f" && (got - want).abs() <= self.tolerance(want);
            assert!(equal || close, "{about}: element {at} is {got}, should be {want}");
        }
    }
}

/// Kind, shape and elements of a tensor in the table.
fn parts(tensor: &Value) -> (&str, Vec<usize>, Vec<f64>) {
    let shape = tensor[1].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect();
    let element = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap(),
    };
    (tensor[0].as_str().unwrap(), shape, tensor[2].as_array().unwrap().iter().map(element).collect())
}

fn input(tensor: &Value, float: DType) -> Option<Tensor> {
    if tensor.is_null() {
        return None;
    }
    let (kind, shape, elements) = parts(tensor);
    let dtype = match kind {
        "f" => float,
        "i" => DType::I64,
        _ => DType::Bool,
    };
    Some(Tensor::from_vec(elements, shape).unwrap().to_dtype(dtype).unwrap())
}

/// A history that knows no composite, so that bodies are recorded op by op.
struct Primitives;

impl History for Primitives {
    fn extend(&self, _: &Recorded<'_>) -> Option<Arc<dyn History>> {
        Some(Arc::new(Self))
    }

    fn differentiates(&self, _: &str) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn table_in(dtype: DType, history: bool) {
    let table: Value = serde_json::from_str(include_str!("tables/ops.json")).unwrap();
    let rows = table.as_array().unwrap();
    assert!(rows.len() > 750);
    for row in rows {
        let op = row[0].as_str().unwrap();
        // Einsum rounds between pairs of operands, and sums into places round each time: their 16-bit errors depend on the order.
        if matches!(op, "einsum" | "scatter_add" | "scatter_reduce" | "index_add") && dtype.bits() == 16 {
            continue;
        }
        let link = || history.then(|| Link { history: Arc::new(Primitives), result: 0 });
        let input = |tensor: &Value| input(tensor, dtype).map(|tensor| tensor.with_history(link()));
        let inputs = row[2].as_array().unwrap().iter().map(input).collect();
        let case = Case { op, options: &row[1], inputs, dtype };
        let results = case.run().unwrap_or_else(|error| panic!("{op} {}: {error}", row[1]));
        let wanted = row[3].as_array().unwrap();
        assert_eq!(results.len(), wanted.len());
        for (at, (got, want)) in results.iter().zip(wanted).enumerate() {
            case.compare(got, want);
            // Running statistics are no function of a batch that anybody differentiates.
            let statistics = at > 0 && op.ends_with("_norm");
            let differentiable = got.dtype().is_float() && !statistics;
            assert_eq!(got.history().is_some(), history && differentiable, "{op} {}", row[1]);
        }
    }
}

#[test]
fn float64_agrees_with_pytorch() {
    table_in(DType::F64, false);
}

#[test]
fn float32_agrees_with_pytorch() {
    table_in(DType::F32, false);
}

#[test]
fn float16_computes_in_float32_and_rounds_once() {
    table_in(DType::F16, false);
}

#[test]
fn bfloat16_computes_in_float32_and_rounds_once() {
    table_in(DType::BF16, false);
}

#[test]
fn composites_recorded_op_by_op_agree_too_and_keep_the_history() {
    table_in(DType::F64, true);
}
