//! What networks are made of: activations, losses, norms of channels, convolutions, pooling and recurrent layers.

use crate::differences::{check, given};
use tpu_core::{Result, Tensor};
use tpu_ops::*;

type Function = fn(&Tensor) -> Result<Tensor>;

#[test]
fn activations() {
    let functions: [(&str, Function); 19] = [
        ("softplus", |x| softplus(x, 1.5, 2.0)),
        ("elu", |x| elu(x, 0.7)),
        ("celu", |x| celu(x, 0.7)),
        ("selu", selu),
        ("mish", mish),
        ("logsigmoid", logsigmoid),
        ("softsign", softsign),
        ("tanhshrink", tanhshrink),
        ("glu", |x| glu(x, 1)),
        ("relu6", |x| relu6(&x.mul(3.0)?)),
        ("hardtanh", |x| hardtanh(x, -0.9, 1.1)),
        ("hardsigmoid", |x| hardsigmoid(&x.mul(2.0)?)),
        ("hardswish", |x| hardswish(&x.mul(2.0)?)),
        ("leaky_relu", |x| leaky_relu(x, 0.1)),
        ("hardshrink", |x| hardshrink(x, 0.5)),
        ("softshrink", |x| softshrink(x, 0.5)),
        ("threshold", |x| threshold(x, 0.3, 2.0)),
        ("cosine_similarity", |x| cosine_similarity(x, &x.square()?, 1, 1e-8)),
        ("pairwise_distance", |x| pairwise_distance(x, &x.square()?, 3.0, 1e-6)),
    ];
    for (name, f) in functions {
        // Multiplied by itself, so that piecewise lines have a second derivative too.
        check(name, 2, &[given(&[3, 4], -2.0, 2.5)], 3, &|x| Ok(vec![f(&x[0])?, f(&x[0])?.square()?])).unwrap();
    }
    let operands = [given(&[2, 3, 2], -2.0, 2.5), given(&[3], 0.1, 0.9)];
    check("prelu", 2, &operands, 3, &|x| Ok(vec![prelu(&x[0], &x[1])?.square()?])).unwrap();
}

type Loss = fn(&Tensor, &Tensor, Reduction) -> Result<Tensor>;

#[test]
fn losses_of_two_tensors() {
    let losses: [(&str, Loss); 11] = [
        ("mse_loss", mse_loss),
        ("l1_loss", l1_loss),
        ("smooth_l1_loss", |x, y, r| smooth_l1_loss(x, y, 0.5, r)),
        ("huber_loss", |x, y, r| huber_loss(x, y, 0.5, r)),
        ("bce_loss", |x, y, r| bce_loss(x, y, Some(&y.add(0.5)?), r)),
        ("kl_div", |x, y, r| kl_div(x, y, false, r)),
        ("kl_div of logarithms", |x, y, r| kl_div(x, y, true, r)),
        ("poisson_nll_loss", |x, y, reduction| {
            poisson_nll_loss(x, &y.add(1.5)?, PoissonNll { full: true, reduction, ..PoissonNll::default() })
        }),
        ("gaussian_nll_loss", |x, y, reduction| {
            gaussian_nll_loss(x, &x.square()?, y, GaussianNll { reduction, ..GaussianNll::default() })
        }),
        ("soft_margin_loss", soft_margin_loss),
        ("bce_with_logits", |x, y, reduction| {
            let pos_weight = y.add(1.0)?;
            bce_with_logits(x, y, BceWithLogits { pos_weight: Some(&pos_weight), weight: Some(y), reduction })
        }),
    ];
    for (name, f) in losses {
        for reduction in [Reduction::Mean, Reduction::Sum, Reduction::None, Reduction::BatchMean] {
            let operands = [given(&[3, 4], 0.1, 0.9), given(&[3, 4], 0.15, 0.85)];
            check(name, 2, &operands, 3, &|x| Ok(vec![f(&x[0], &x[1], reduction)?])).unwrap();
        }
    }
}

#[test]
fn losses_of_classes_and_margins() {
    let target = Tensor::from_slice(&[1i64, -100, 3]).unwrap();
    check("nll_loss", 2, &[given(&[3, 4], -1.0, 1.5), given(&[4], 0.5, 1.5)], 3, &|x| {
        let log = log_softmax(&x[0], 1)?;
        Ok(vec![nll_loss(&log, &target, NllLoss { weight: Some(&x[1]), ..NllLoss::default() })?])
    })
    .unwrap();
    let signs = Tensor::from_slice(&[1.0f64, -1.0, 1.0]).unwrap();
    let operands = [given(&[3, 4], -1.0, 1.5), given(&[3, 4], -1.2, 1.1), given(&[3, 4], -1.1, 1.6)];
    check("margins", 2, &operands, 3, &|x| {
        let (a, b, c) = (&x[0], &x[1], &x[2]);
        let column = signs.unsqueeze(1)?;
        Ok(vec![
            margin_ranking_loss(a, b, &column, 0.3, Reduction::Mean)?,
            hinge_embedding_loss(a, &column.broadcast_to([3, 4])?, 0.7, Reduction::Sum)?,
            cosine_embedding_loss(a, b, &signs, 0.1, Reduction::Sum)?,
            triplet_margin_loss(a, b, c, 2.0, 2.0, Reduction::Sum)?,
        ])
    })
    .unwrap();
}

#[test]
fn norms_of_channels() {
    for shape in [&[4, 3][..], &[2, 3, 4], &[2, 3, 2, 2]] {
        let operands = [given(shape, -1.0, 1.5), given(&[3], 0.5, 1.5), given(&[3], -0.5, 0.5)];
        check("batch_norm", 2, &operands, 3, &|x| {
            let options =
                BatchNorm { weight: Some(&x[1]), bias: Some(&x[2]), training: true, eps: 0.1, ..BatchNorm::default() };
            Ok(vec![batch_norm(&x[0], options)?.y])
        })
        .unwrap();
        check("batch_norm with bias only", 2, &[operands[0].clone(), operands[2].clone()], 3, &|x| {
            let options = BatchNorm { bias: Some(&x[1]), training: true, eps: 0.1, ..BatchNorm::default() };
            Ok(vec![batch_norm(&x[0], options)?.y])
        })
        .unwrap();
        let running = [given(&[3], -0.5, 0.5), given(&[3], 0.5, 1.5)];
        check("batch_norm in evaluation", 2, &[&operands[..], &running].concat(), 3, &|x| {
            let running = Some((&x[3], &x[4]));
            let options = BatchNorm { running, weight: Some(&x[1]), bias: Some(&x[2]), ..BatchNorm::default() };
            Ok(vec![batch_norm(&x[0], options)?.y])
        })
        .unwrap();
        check("group_norm", 2, &operands, 3, &|x| Ok(vec![group_norm(&x[0], 1, Some(&x[1]), Some(&x[2]), 0.1)?]))
            .unwrap();
    }
    check("instance_norm", 2, &[given(&[2, 3, 4], -1.0, 1.5), given(&[3], 0.5, 1.5)], 3, &|x| {
        let options = BatchNorm { weight: Some(&x[1]), training: true, eps: 0.1, ..BatchNorm::default() };
        Ok(vec![instance_norm(&x[0], options)?.y])
    })
    .unwrap();
}

#[test]
fn convolutions_of_other_dimensions() {
    let operands = [given(&[2, 2, 5], -1.0, 1.0), given(&[4, 1, 2], -1.0, 1.0), given(&[4], -1.0, 1.0)];
    check("conv1d", 2, &operands, 3, &|x| {
        let options = Conv { stride: [2], padding: Padding::Explicit([1]), dilation: [2], groups: 2 };
        Ok(vec![conv1d(&x[0], &x[1], Some(&x[2]), options)?])
    })
    .unwrap();
    let operands = [given(&[1, 1, 3, 2, 3], -1.0, 1.0), given(&[2, 1, 2, 1, 2], -1.0, 1.0)];
    check("conv3d", 2, &operands, 3, &|x| Ok(vec![conv3d(&x[0], &x[1], None, Conv3d::default())?])).unwrap();
    let operands = [given(&[1, 4, 2, 3], -1.0, 1.0), given(&[4, 1, 2, 2], -1.0, 1.0), given(&[2], -1.0, 1.0)];
    check("conv_transpose2d", 2, &operands, 3, &|x| {
        let options = ConvTranspose {
            stride: [2, 1],
            padding: [1, 0],
            output_padding: [1, 0],
            groups: 2,
            ..ConvTranspose::default()
        };
        Ok(vec![conv_transpose2d(&x[0], &x[1], Some(&x[2]), options)?])
    })
    .unwrap();
}

#[test]
fn pooling_of_other_dimensions_and_to_given_sizes() {
    check("pooling", 2, &[given(&[2, 2, 5], -1.0, 1.0)], 3, &|x| {
        let x = x[0].square()?.add(&x[0])?;
        let avg = AvgPool { padding: [1], count_include_pad: false, ..AvgPool::default() };
        Ok(vec![
            max_pool1d(&x, [2], MaxPool1d::default())?,
            avg_pool1d(&x, [3], avg)?,
            adaptive_avg_pool1d(&x, [Some(3)])?,
            adaptive_max_pool1d(&x, [Some(3)])?,
            max_pool3d(&x.unsqueeze(0)?, [2, 1, 2], MaxPool3d::default())?,
        ])
    })
    .unwrap();
    check("adaptive_avg_pool2d", 2, &[given(&[1, 2, 5, 4], -1.0, 1.0)], 3, &|x| {
        Ok(vec![adaptive_avg_pool2d(&x[0].square()?, [Some(3), Some(2)])?])
    })
    .unwrap();
}

#[test]
fn orders_and_places() {
    let indices = Tensor::from_vec(vec![2i64, 0, 1, 1, 0, 1], [2, 3]).unwrap();
    let operands = [given(&[3, 3], -1.0, 1.0), given(&[2, 3], -1.1, 1.2)];
    check("scatter", 2, &operands, 3, &|x| {
        let (a, b) = (x[0].square()?, x[1].square()?);
        let rows = Tensor::from_slice(&[2i64, 2])?;
        Ok(vec![
            scatter(&a, 0, &indices.narrow(0, 0, 1)?, &b)?,
            scatter_add(&a, 0, &indices, &b)?,
            index_add(&a, 0, &rows, &b)?,
            sort(&a, 1, true)?.0,
        ])
    })
    .unwrap();
}

#[test]
fn recurrent_layers() {
    for reverse in [false, true] {
        let state = || given(&[2, 2], -0.8, 0.8);
        let operands = [given(&[3, 2, 8], -1.0, 1.0), given(&[8, 2], -1.0, 1.0), state(), state()];
        check("lstm", 2, &operands, 3, &|x| {
            let out = lstm_layer(&x[0], &x[1], &x[2], &x[3], reverse)?;
            Ok(vec![out.outputs, out.hidden, out.cell])
        })
        .unwrap();
        let operands = [given(&[3, 2, 6], -1.0, 1.0), given(&[6, 2], -1.0, 1.0), given(&[6], -0.5, 0.5), state()];
        check("gru", 2, &operands, 3, &|x| {
            let (outputs, hidden) = gru_layer(&x[0], &x[1], &x[2], &x[3], reverse)?;
            Ok(vec![outputs, hidden])
        })
        .unwrap();
        let operands = [given(&[3, 2, 2], -1.0, 1.0), given(&[2, 2], -1.0, 1.0), state()];
        for nonlinearity in [Nonlinearity::Tanh, Nonlinearity::Relu] {
            check("rnn", 2, &operands, 3, &|x| {
                let (outputs, hidden) = rnn_layer(&x[0], &x[1], &x[2], nonlinearity, reverse)?;
                Ok(vec![outputs.square()?, hidden])
            })
            .unwrap();
        }
    }
    // Only the outputs, only the last state.
    let operands = [given(&[3, 2, 8], -1.0, 1.0), given(&[8, 2], -1.0, 1.0)];
    for outputs in [true, false] {
        check("lstm in part", 2, &operands, 3, &|x| {
            let zeros = Tensor::zeros([2, 2], tpu_core::DType::F64)?;
            let out = lstm_layer(&x[0], &x[1], &zeros, &zeros, false)?;
            Ok(vec![if outputs { out.outputs } else { out.cell }])
        })
        .unwrap();
    }
}
