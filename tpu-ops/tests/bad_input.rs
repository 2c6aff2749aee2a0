//! Bad input is a typed error that names the op and the caller's line; nothing panics.

use tpu_core::ErrorKind::{self, Axis, DType as Dtype, Index, Shape, Value};
use tpu_core::{DType, Result, Tensor};
use tpu_ops::*;

fn f(sizes: &[usize]) -> Tensor {
    Tensor::ones(sizes, DType::F32).unwrap()
}

fn i(values: &[i64]) -> Tensor {
    Tensor::from_slice(values).unwrap()
}

/// Each call fails when recorded, with this kind and at a line of this file.
#[track_caller]
fn refused(kind: ErrorKind, calls: &[(&str, &dyn Fn() -> Result<Tensor>)]) {
    for (name, call) in calls {
        let error = call().err().unwrap_or_else(|| panic!("{name} is accepted"));
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert!(error.location().file().is_some_and(|file| file.ends_with("bad_input.rs")), "{name}: {error}");
    }
}

#[test]
fn integers_where_floats_are_needed() {
    let x = i(&[1, 2]);
    let images = Tensor::ones([1, 1, 2, 2], DType::I64).unwrap();
    refused(
        Dtype,
        &[
            ("gelu", &|| gelu(&x, Gelu::Erf)),
            ("silu", &|| silu(&x)),
            ("sigmoid", &|| sigmoid(&x)),
            ("tanh", &|| tanh(&x)),
            ("softmax", &|| softmax(&x, 0)),
            ("log_softmax", &|| log_softmax(&x, 0)),
            ("logsumexp", &|| logsumexp(&x, 0, false)),
            ("layer_norm", &|| layer_norm(&x, &[2], None, None, 1e-5)),
            ("rms_norm", &|| rms_norm(&x, &[2], None, 1e-5)),
            ("mse_loss", &|| mse_loss(&x, &x, Reduction::Mean)),
            ("cross_entropy", &|| cross_entropy(&x, &i(&[0]), CrossEntropy::default())),
            ("cross_entropy target", &|| {
                cross_entropy(&f(&[1, 2]), &Tensor::zeros([1], DType::Bool).unwrap(), CrossEntropy::default())
            }),
            ("dropout", &|| dropout(&x, 0.5, true, None)),
            ("conv2d", &|| conv2d(&images, &images, None, Conv2d::default())),
            ("avg_pool2d", &|| avg_pool2d(&images, [1, 1], AvgPool2d::default())),
            ("uniform", &|| uniform([1], 0.0, 1.0, DType::I32, None)),
            ("normal", &|| normal([1], 0.0, 1.0, DType::Complex64, None)),
            ("multinomial", &|| multinomial(&x, 1, true, None)),
            ("bernoulli_like", &|| random::bernoulli_like(&x, None)),
            ("attention", &|| scaled_dot_product_attention(&images, &images, &images, Attention::default())),
            ("rotary", &|| rotary(&x, &f(&[1]), &f(&[1]), Pairs::Halves)),
        ],
    );
}

#[test]
fn other_dtypes_that_do_not_fit() {
    let half = Tensor::ones([2, 2], DType::F16).unwrap();
    let flags = Tensor::ones([2, 2], DType::Bool).unwrap();
    let wrong_mask = Attention { mask: Some(&half), ..Default::default() };
    refused(
        Dtype,
        &[
            ("embedding", &|| embedding(&f(&[2, 2]), &f(&[2]))),
            ("one_hot", &|| one_hot(&f(&[2]), 2)),
            ("randint", &|| randint(0, 2, [2], DType::F32, None)),
            ("linear", &|| linear(&f(&[2, 2]), &half, None)),
            ("linear bias", &|| linear(&f(&[2, 2]), &f(&[2, 2]), Some(&half.i(0).unwrap()))),
            ("layer_norm", &|| layer_norm(&f(&[2, 2]), &[2, 2], Some(&half), None, 0.0)),
            ("mse_loss", &|| mse_loss(&f(&[2, 2]), &half, Reduction::Sum)),
            ("attention", &|| scaled_dot_product_attention(&half, &f(&[2, 2]), &half, Attention::default())),
            ("mask", &|| scaled_dot_product_attention(&f(&[2, 2]), &f(&[2, 2]), &f(&[2, 2]), wrong_mask)),
            ("einsum", &|| einsum("ij,ij", &[&half, &f(&[2, 2])])),
            ("einsum bool", &|| einsum("ij->", &[&flags])),
            ("masked_fill", &|| masked_fill(&half, &half, 0.0)),
            ("select", &|| select(&flags, &half, &f(&[2, 2]))),
            ("max_pool2d", &|| max_pool2d(&flags.unsqueeze(0).unwrap(), [1, 1], MaxPool2d::default())),
            ("argmax", &|| argmax(&Tensor::ones([2], DType::Complex64).unwrap(), None, false)),
        ],
    );
}

#[test]
fn shapes_that_do_not_fit() {
    let conv = |x: &[usize], weight: &[usize], bias: Option<&Tensor>, options| conv2d(&f(x), &f(weight), bias, options);
    let attend =
        |q: &[usize], k: &[usize], v: &[usize]| scaled_dot_product_attention(&f(q), &f(k), &f(v), Attention::default());
    let narrow = f(&[5]);
    let weighted = CrossEntropy { weight: Some(&narrow), ..Default::default() };
    let masked = Attention { mask: Some(&narrow), ..Default::default() };
    refused(
        Shape,
        &[
            ("layer_norm sizes", &|| layer_norm(&f(&[2, 3]), &[2], None, None, 0.0)),
            ("layer_norm none", &|| layer_norm(&f(&[2, 3]), &[], None, None, 0.0)),
            ("layer_norm weight", &|| layer_norm(&f(&[2, 3]), &[3], Some(&f(&[2])), None, 0.0)),
            ("layer_norm bias", &|| layer_norm(&f(&[2, 3]), &[3], None, Some(&f(&[1, 3])), 0.0)),
            ("rms_norm", &|| rms_norm(&f(&[3]), &[2, 3], None, 0.0)),
            ("cross_entropy scalar", &|| cross_entropy(&f(&[]), &i(&[0]), CrossEntropy::default())),
            ("cross_entropy rows", &|| cross_entropy(&f(&[2, 3]), &i(&[0]), CrossEntropy::default())),
            ("cross_entropy probabilities", &|| cross_entropy(&f(&[2, 3]), &f(&[2]), CrossEntropy::default())),
            ("cross_entropy weight", &|| cross_entropy(&f(&[2, 3]), &i(&[0, 1]), weighted)),
            ("mse_loss", &|| mse_loss(&f(&[2]), &f(&[3]), Reduction::Mean)),
            ("linear in", &|| linear(&f(&[2, 3]), &f(&[4, 2]), None)),
            ("linear scalar", &|| linear(&f(&[]), &f(&[4, 2]), None)),
            ("linear weight", &|| linear(&f(&[2, 3]), &f(&[3]), None)),
            ("linear bias", &|| linear(&f(&[2, 3]), &f(&[4, 3]), Some(&f(&[3])))),
            ("embedding", &|| embedding(&f(&[3]), &i(&[0]))),
            ("conv2d rank", &|| conv(&[2, 2], &[1, 1, 1, 1], None, Conv2d::default())),
            ("conv2d weight", &|| conv(&[1, 1, 2, 2], &[1, 1, 1], None, Conv2d::default())),
            ("conv2d channels", &|| conv(&[1, 3, 2, 2], &[1, 2, 1, 1], None, Conv2d::default())),
            ("conv2d groups", &|| conv(&[1, 4, 2, 2], &[3, 2, 1, 1], None, Conv2d { groups: 2, ..Default::default() })),
            ("conv2d bias", &|| conv(&[1, 1, 2, 2], &[1, 1, 1, 1], Some(&f(&[2])), Conv2d::default())),
            ("conv2d kernel", &|| conv(&[1, 1, 2, 2], &[1, 1, 3, 1], None, Conv2d::default())),
            ("conv2d no kernel", &|| conv(&[1, 1, 2, 2], &[1, 1, 0, 1], None, Conv2d::default())),
            ("max_pool2d rank", &|| max_pool2d(&f(&[2, 2]), [1, 1], MaxPool2d::default())),
            ("max_pool2d window", &|| max_pool2d(&f(&[1, 2, 2]), [3, 1], MaxPool2d::default())),
            ("avg_pool2d empty", &|| avg_pool2d(&f(&[1, 0, 2]), [1, 1], AvgPool2d::default())),
            ("attention ranks", &|| attend(&[2, 2], &[1, 2, 2], &[1, 2, 2])),
            ("attention rank", &|| attend(&[2], &[2], &[2])),
            ("attention width", &|| attend(&[2, 3], &[2, 2], &[2, 2])),
            ("attention keys", &|| attend(&[2, 2], &[3, 2], &[2, 2])),
            ("attention heads", &|| attend(&[3, 2, 2], &[2, 2, 2], &[2, 2, 2])),
            ("attention no heads", &|| attend(&[3, 2, 2], &[0, 2, 2], &[0, 2, 2])),
            ("attention batch", &|| attend(&[2, 3, 2, 2], &[1, 3, 2, 2], &[1, 3, 2, 2])),
            ("mask", &|| scaled_dot_product_attention(&f(&[2, 2]), &f(&[2, 2]), &f(&[2, 2]), masked)),
            ("rotary odd", &|| rotary(&f(&[2, 3]), &f(&[2, 1]), &f(&[2, 1]), Pairs::Halves)),
            ("rotary table", &|| rotary(&f(&[2, 4]), &f(&[3, 2]), &f(&[3, 2]), Pairs::Halves)),
            ("multinomial scalar", &|| multinomial(&f(&[]), 1, true, None)),
            ("multinomial empty", &|| multinomial(&f(&[2, 0]), 1, true, None)),
            ("take_along", &|| take_along(&f(&[2, 3]), &i(&[0]), 0)),
            ("masked_fill", &|| masked_fill(&f(&[2]), &Tensor::ones([3], DType::Bool).unwrap(), 0.0)),
            ("einsum rank", &|| einsum("ij", &[&f(&[2])])),
            ("einsum sizes", &|| einsum("ij,jk", &[&f(&[2, 3]), &f(&[2, 3])])),
            ("einsum diagonal", &|| einsum("ii", &[&f(&[2, 3])])),
            ("einsum diagonal of one", &|| einsum("ii", &[&f(&[1, 3])])),
            ("einsum ellipsis", &|| einsum("...i,...i", &[&f(&[2, 1]), &f(&[3, 1])])),
        ],
    );
}

#[test]
fn axes_out_of_range() {
    let x = f(&[2, 3]);
    refused(
        Axis,
        &[
            ("softmax", &|| softmax(&x, 2)),
            ("softmax scalar", &|| softmax(&f(&[]), 1)),
            ("log_softmax", &|| log_softmax(&x, -3)),
            ("logsumexp", &|| logsumexp(&x, 5, true)),
            ("argmax", &|| argmax(&x, Some(2), false)),
            ("topk", &|| topk(&x, 1, -3, true).map(|both| both.0)),
            ("cumsum", &|| cumsum(&x, 2)),
            ("take_along", &|| take_along(&x, &Tensor::zeros([2, 3], DType::I64).unwrap(), 2)),
            ("extreme", &|| softmax(&x, isize::MAX)),
            ("extreme", &|| softmax(&x, isize::MIN)),
        ],
    );
}

#[test]
fn numbers_out_of_range() {
    let image = f(&[1, 4, 4]);
    let kernel = f(&[1, 1, 2, 2]);
    let conv = |options| conv2d(&image, &kernel, None, options);
    let smoothed =
        |label_smoothing| cross_entropy(&f(&[1, 2]), &i(&[0]), CrossEntropy { label_smoothing, ..Default::default() });
    let max = |window, options| max_pool2d(&image, window, options);
    refused(
        Value,
        &[
            ("smoothing", &|| smoothed(1.5)),
            ("smoothing nan", &|| smoothed(f64::NAN)),
            ("probabilities", &|| {
                let options = CrossEntropy { ignore_index: 2, ..Default::default() };
                cross_entropy(&f(&[1, 2]), &f(&[1, 2]), options)
            }),
            ("attention dropout", &|| {
                let options = Attention { dropout: 1.1, ..Default::default() };
                scaled_dot_product_attention(&f(&[1, 2]), &f(&[1, 2]), &f(&[1, 2]), options)
            }),
            ("dropout", &|| dropout(&image, -0.1, true, None)),
            ("dropout nan", &|| dropout(&image, f64::NAN, true, None)),
            ("bernoulli", &|| bernoulli([1], 1.1, None)),
            ("uniform order", &|| uniform([1], 1.0, 0.0, DType::F32, None)),
            ("uniform infinite", &|| uniform([1], 0.0, f64::INFINITY, DType::F32, None)),
            ("normal", &|| normal([1], 0.0, -1.0, DType::F32, None)),
            ("normal nan", &|| normal([1], f64::NAN, 1.0, DType::F32, None)),
            ("randint", &|| randint(3, 3, [1], DType::I64, None)),
            ("randint bounds", &|| randint(0, 300, [1], DType::U8, None)),
            ("multinomial samples", &|| multinomial(&f(&[2]), 0, true, None)),
            ("multinomial classes", &|| multinomial(&f(&[2]), 3, false, None)),
            ("stride", &|| conv(Conv2d { stride: [0, 1], ..Default::default() })),
            ("dilation", &|| conv(Conv2d { dilation: [1, 0], ..Default::default() })),
            ("groups", &|| conv(Conv2d { groups: 0, ..Default::default() })),
            ("same", &|| conv(Conv2d { padding: Padding::Same, stride: [2, 1], ..Default::default() })),
            ("window", &|| max([0, 1], MaxPool2d::default())),
            ("window too large", &|| max([usize::MAX, 1], MaxPool2d::default())),
            ("pool stride", &|| max([1, 1], MaxPool2d { stride: Some([1, 0]), ..Default::default() })),
            ("pool padding", &|| max([2, 2], MaxPool2d { padding: [2, 0], ..Default::default() })),
            ("divisor", &|| avg_pool2d(&image, [1, 1], AvgPool2d { divisor_override: Some(0), ..Default::default() })),
            ("rotary width", &|| rotary_angles(&i(&[0]), 3, 10000.0).map(|both| both.0)),
            ("rotary base", &|| rotary_angles(&i(&[0]), 2, 0.0).map(|both| both.0)),
            ("einsum letters", &|| einsum("i1", &[&image])),
            ("einsum arrow", &|| einsum("i->i->i", &[&image])),
            ("einsum operands", &|| einsum("ijk,i", &[&image])),
            ("einsum none", &|| einsum("i", &[])),
            ("einsum result", &|| einsum("ijk->l", &[&image])),
            ("einsum result twice", &|| einsum("ijk->ii", &[&image])),
            ("einsum two ellipses", &|| einsum("...i...", &[&image])),
            ("einsum dots", &|| einsum("..i", &[&image])),
            ("einsum unicode", &|| einsum("é", &[&image])),
        ],
    );
}

#[test]
fn indices_out_of_range_are_errors_when_read() {
    let calls: [(&str, Result<Tensor>); 8] = [
        ("embedding", embedding(&f(&[3, 2]), &i(&[0, 3]))),
        ("embedding below", embedding(&f(&[3, 2]), &i(&[-1]))),
        ("one_hot", one_hot(&i(&[2]), 2)),
        ("one_hot below", one_hot(&i(&[-1]), 2)),
        ("cross_entropy", cross_entropy(&f(&[2, 3]), &i(&[0, 3]), CrossEntropy::default())),
        ("cross_entropy below", cross_entropy(&f(&[2, 3]), &i(&[-1, 0]), CrossEntropy::default())),
        (
            "cross_entropy weighted",
            cross_entropy(&f(&[1, 3]), &i(&[7]), CrossEntropy { weight: Some(&f(&[3])), ..Default::default() }),
        ),
        ("take_along", take_along(&f(&[3]), &i(&[3]), 0)),
    ];
    for (name, call) in calls {
        let error = call.unwrap().to_dtype(DType::F32).unwrap().to_vec::<f32>().unwrap_err();
        assert_eq!(error.kind(), Index, "{name}: {error}");
        assert!(error.location().file().is_some_and(|file| file.ends_with("bad_input.rs")), "{name}: {error}");
    }
}

#[test]
fn indices_into_nothing() {
    refused(
        Index,
        &[
            ("embedding", &|| embedding(&f(&[0, 2]), &i(&[0]))),
            ("one_hot", &|| one_hot(&i(&[0]), 0)),
            ("cross_entropy", &|| cross_entropy(&f(&[1, 0]), &i(&[0]), CrossEntropy::default())),
        ],
    );
}

#[test]
fn a_bad_target_leaves_other_tensors_alone() {
    let logits = f(&[2, 3]);
    let bad = cross_entropy(&logits, &i(&[0, 9]), CrossEntropy::default()).unwrap();
    let good = cross_entropy(&logits, &i(&[0, 1]), CrossEntropy::default()).unwrap();
    assert!(bad.item::<f32>().is_err());
    assert!((good.item::<f32>().unwrap() - 3f32.ln()).abs() < 1e-6);
    assert_eq!(logits.to_vec::<f32>().unwrap(), [1.0; 6]);
}

#[test]
fn networks_refuse_what_does_not_fit() {
    let x = f(&[2, 4, 3]);
    let half = Tensor::ones([2, 4, 3], DType::F16).unwrap();
    let (channels, state) = (half.i((0, .., 0)).unwrap(), half.i((..1, ..2, 0)).unwrap());
    refused(
        Dtype,
        &[
            ("softplus", &|| softplus(&i(&[1]), 1.0, 20.0)),
            ("hardtanh", &|| hardtanh(&i(&[1]), -1.0, 1.0)),
            ("glu", &|| glu(&i(&[1, 2]), 0)),
            ("l1_loss", &|| l1_loss(&x, &half, Reduction::Mean)),
            ("bce_loss weight", &|| bce_loss(&x, &x, Some(&half), Reduction::Mean)),
            ("bce_with_logits", &|| bce_with_logits(&x, &half, BceWithLogits::default())),
            ("nll_loss", &|| nll_loss(&x, &f(&[2, 3]), NllLoss::default())),
            ("batch_norm", &|| Ok(batch_norm(&x, BatchNorm { weight: Some(&channels), ..Default::default() })?.y)),
            ("conv1d", &|| conv1d(&x, &half, None, Conv1d::default())),
            ("adaptive_avg_pool1d", &|| adaptive_avg_pool1d(&i(&[1]), [Some(1)])),
            ("lstm", &|| Ok(lstm_layer(&f(&[3, 1, 8]), &f(&[8, 2]), &f(&[1, 2]), &state, false)?.cell)),
            ("index_add", &|| index_add(&f(&[3]), 0, &f(&[1]), &f(&[1]))),
        ],
    );
    let shapes: &[(&str, &dyn Fn() -> Result<Tensor>)] = &[
        ("glu", &|| glu(&x, -1)),
        ("prelu", &|| prelu(&x, &f(&[3]))),
        ("bce_loss", &|| bce_loss(&x, &f(&[2, 4, 1]), None, Reduction::Mean)),
        ("nll_loss", &|| nll_loss(&x, &i(&[0, 1]), NllLoss::default())),
        ("batch_norm", &|| Ok(batch_norm(&x, BatchNorm { bias: Some(&f(&[3])), ..Default::default() })?.y)),
        ("batch_norm of a vector", &|| Ok(batch_norm(&f(&[3]), BatchNorm::default())?.y)),
        ("instance_norm", &|| Ok(instance_norm(&f(&[2, 4]), BatchNorm::default())?.y)),
        ("conv1d", &|| conv1d(&f(&[1, 2, 3, 4]), &f(&[1, 2, 1]), None, Conv1d::default())),
        ("conv_transpose1d", &|| conv_transpose1d(&x, &f(&[3, 2, 2]), None, ConvTranspose1d::default())),
        ("conv_transpose1d of nothing", &|| {
            conv_transpose1d(&x, &f(&[4, 1, 1]), None, ConvTranspose1d { padding: [2], ..Default::default() })
        }),
        ("max_pool3d", &|| max_pool3d(&x, [1; 3], MaxPool3d::default())),
        ("adaptive_max_pool2d", &|| adaptive_max_pool2d(&f(&[1, 0, 2]), [Some(1), Some(1)])),
        ("lstm input", &|| Ok(lstm_layer(&x, &f(&[8, 2]), &f(&[4, 2]), &f(&[4, 2]), false)?.cell)),
        ("gru bias", &|| Ok(gru_layer(&f(&[2, 1, 6]), &f(&[6, 2]), &f(&[2]), &f(&[1, 2]), false)?.0)),
        ("index_add", &|| index_add(&x, 1, &i(&[0]), &f(&[2, 2, 3]))),
        ("scatter", &|| scatter(&x, 0, &i(&[0]), &x)),
    ];
    refused(Shape, shapes);
    refused(
        Value,
        &[
            ("hardtanh", &|| hardtanh(&x, 1.0, -1.0)),
            ("softshrink", &|| softshrink(&x, -1.0)),
            ("celu", &|| celu(&x, 0.0)),
            ("huber_loss", &|| huber_loss(&x, &x, 0.0, Reduction::Mean)),
            ("smooth_l1_loss", &|| smooth_l1_loss(&x, &x, -1.0, Reduction::Mean)),
            ("group_norm", &|| group_norm(&x, 3, None, None, 1e-5)),
            ("batch_norm of one element", &|| {
                Ok(batch_norm(&f(&[1, 4]), BatchNorm { training: true, ..Default::default() })?.y)
            }),
            ("conv_transpose1d", &|| {
                conv_transpose1d(
                    &x,
                    &f(&[4, 1, 2]),
                    None,
                    ConvTranspose1d { output_padding: [1], ..Default::default() },
                )
            }),
            ("conv_transpose1d groups", &|| {
                conv_transpose1d(&x, &f(&[4, 1, 2]), None, ConvTranspose1d { groups: 0, ..Default::default() })
            }),
        ],
    );
}
