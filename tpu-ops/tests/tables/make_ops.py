"""Writes ops.json: what PyTorch 2.15 gives for the ops of this crate. `python make_ops.py`, from this directory.

A case is [op, options, inputs, outputs]. A tensor is [kind, shape, elements] with kind f, i or b; an absent one is null.
Inputs are multiples of 1/16 below 4 in magnitude, where they are no special values: exact in every float dtype, bfloat16 included.
Outputs are computed in float64, so that the table is right to nine digits whatever dtype is compared with it.
"""

import itertools
import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(15)
INF, NAN = math.inf, math.nan
cases = []


def element(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if math.isnan(value) or math.isinf(value):
        return str(value)
    short = float(f"{value:.10g}")
    return int(short) if short.is_integer() and abs(short) < 2**31 and not (short == 0 and math.copysign(1, short) < 0) else short


def tensor(value):
    if value is None:
        return None
    kind = "b" if value.dtype == torch.bool else "f" if value.is_floating_point() else "i"
    return [kind, list(value.shape), [element(v) for v in value.flatten().tolist()]]


def case(op, options, inputs, outputs):
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    cases.append([op, options, [tensor(t) for t in inputs], [tensor(t) for t in outputs]])


def rand(*shape):
    return (torch.randn(shape, dtype=torch.float64) * 16).round().clamp(-63, 63) / 16


def given(*values):
    return torch.tensor(values, dtype=torch.float64)


def activations():
    x = torch.cat([rand(12), given(0.0, -0.0, INF, -INF, NAN, 24.0, -24.0, 2.0**-10)])
    case("relu", {}, [x], F.relu(x))
    case("gelu", {"form": "none"}, [x], F.gelu(x))
    case("gelu", {"form": "tanh"}, [x], F.gelu(x, approximate="tanh"))
    case("silu", {}, [x], F.silu(x))
    case("sigmoid", {}, [x], torch.sigmoid(x))
    case("tanh", {}, [x], torch.tanh(x))
    case("gelu", {"form": "tanh"}, [rand(0, 3)], torch.zeros(0, 3))


def softmaxes():
    special = torch.stack([given(-INF, -INF, -INF), given(-INF, 1, 2), given(INF, 1, 2), given(NAN, 1, 2), given(62, -62, 60)])
    inputs = [(rand(3, 5), -1), (rand(3, 5), 0), (rand(2, 3, 4), 1), (special, -1), (rand(2, 0), 1), (rand(0, 3), -1), (rand(4, 1), 1)]
    for x, axis in inputs:
        case("softmax", {"axis": axis}, [x], F.softmax(x, axis))
        case("log_softmax", {"axis": axis}, [x], F.log_softmax(x, axis))
        for keep in (False, True):
            case("logsumexp", {"axis": axis, "keep": keep}, [x], torch.logsumexp(x, axis, keepdim=keep))


def norms():
    for shape, normalized in [((4, 8), (8,)), ((2, 3, 4), (3, 4)), ((3, 1), (1,)), ((0, 4), (4,)), ((5,), (5,))]:
        for eps, scaled, moved in [(1e-5, True, True), (0.125, False, False), (1e-5, True, False), (1e-5, False, True)]:
            x, w, b = rand(*shape), rand(*normalized) if scaled else None, rand(*normalized) if moved else None
            options = {"normalized": normalized, "eps": eps}
            case("layer_norm", options, [x, w, b], F.layer_norm(x, normalized, w, b, eps))
            if not moved:
                case("rms_norm", options, [x, w], F.rms_norm(x, normalized, w, eps))


def losses():
    for reduction in ("mean", "sum", "none"):
        x, y = rand(3, 4), rand(3, 4)
        case("mse_loss", {"reduction": reduction}, [x, y], F.mse_loss(x, y, reduction=reduction))
        case("mse_loss", {"reduction": reduction}, [rand(0), rand(0)], F.mse_loss(rand(0), rand(0), reduction=reduction))
        for smoothing, weighted, ignore in itertools.product((0.0, 0.125), (False, True), (-100, 2)):
            for shape in ((5, 4), (2, 4, 3)):
                x = rand(*shape)
                target = torch.randint(0, 4, (shape[0], *shape[2:]))
                if ignore == -100:
                    target.view(-1)[1] = -100
                cross_entropy(x, target, rand(4).abs() + 0.5 if weighted else None, ignore, reduction, smoothing)
        cross_entropy(rand(3, 4), torch.full((3,), -100), None, -100, reduction, 0.0)
        cross_entropy(rand(3, 4), torch.full((3,), -100), None, -100, reduction, 0.125)
        cross_entropy(rand(0, 4), torch.zeros(0, dtype=torch.int64), None, -100, reduction, 0.0)
        cross_entropy(rand(4), torch.tensor(3), None, -100, reduction, 0.125)
    x = torch.stack([given(-INF, 0, 1), given(-INF, 0, 1), given(-INF, -INF, -INF), given(NAN, 0, 1)])
    cross_entropy(x, torch.tensor([1, 0, 1, 1]), None, -100, "none", 0.0)
    cross_entropy(x, torch.tensor([1, -100, -100, -100]), None, -100, "mean", 0.0)


def cross_entropy(x, target, weight, ignore, reduction, smoothing):
    loss = F.cross_entropy(x, target, weight, ignore_index=ignore, reduction=reduction, label_smoothing=smoothing)
    case("cross_entropy", {"ignore": ignore, "reduction": reduction, "smoothing": smoothing}, [x, target, weight], loss)


def linears():
    for shape in ((4,), (3, 4), (2, 3, 4), (0, 4)):
        x, w, b = rand(*shape), rand(5, 4), rand(5)
        case("linear", {}, [x, w, None], F.linear(x, w))
        case("linear", {}, [x, w, b], F.linear(x, w, b))
    x, w, b = rand(2, 0), rand(3, 0), rand(3)
    case("linear", {}, [x, w, b], F.linear(x, w, b))
    w = rand(5, 3)
    for indices in (torch.tensor([[0, 4], [2, 2]]), torch.tensor(3), torch.zeros(0, dtype=torch.int64)):
        case("embedding", {}, [w, indices], F.embedding(indices, w))
        case("one_hot", {"classes": 5}, [indices], F.one_hot(indices, 5))


def convolutions():
    def conv(shape, weight, bias, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
        x, w, b = rand(*shape), rand(*weight), rand(weight[0]) if bias else None
        same = padding == "same"
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        case("conv2d", options, [x, w, b], F.conv2d(x, w, b, stride, padding if same else tuple(padding), dilation, groups))

    conv((1, 2, 5, 6), (3, 2, 3, 3), True)
    conv((2, 5, 6), (3, 2, 3, 2), False)
    conv((2, 2, 5, 6), (2, 2, 2, 3), True, stride=(2, 1), padding=(1, 2))
    conv((1, 1, 7, 7), (1, 1, 3, 3), False, dilation=(2, 3), padding=(1, 0))
    conv((1, 4, 4, 4), (6, 2, 2, 2), True, groups=2, stride=(2, 2))
    conv((1, 3, 4, 5), (3, 1, 3, 3), True, groups=3, padding=(1, 1))
    conv((1, 2, 5, 5), (2, 2, 4, 3), True, padding="same")
    conv((1, 2, 5, 5), (2, 2, 2, 3), False, padding="same", dilation=(3, 2))
    conv((0, 2, 5, 5), (2, 2, 2, 3), True)
    conv((1, 1, 1, 1), (1, 1, 3, 3), False, padding=(1, 1))


def poolings():
    for shape, window, stride, padding, ceil in [
        ((1, 2, 6, 5), (2, 2), None, (0, 0), False),
        ((1, 2, 6, 5), (2, 2), None, (0, 0), True),
        ((2, 5, 7), (3, 2), (2, 3), (1, 1), False),
        ((2, 5, 7), (3, 2), (2, 3), (1, 1), True),
        ((1, 1, 4, 4), (3, 3), (3, 3), (1, 1), True),
        ((1, 1, 3, 3), (2, 2), (4, 3), (0, 1), True),
        ((1, 1, 5, 5), (3, 3), (1, 1), (1, 0), False),
        ((0, 2, 4, 4), (2, 2), None, (0, 0), False),
    ]:
        options = {"window": window, "stride": stride, "padding": padding, "ceil": ceil}
        x = rand(*shape)
        for dilation in ((1, 1), (2, 1)):
            y = F.max_pool2d(x, window, stride, padding, dilation, ceil) if legal(shape, window, padding, dilation) else None
            if y is not None:
                case("max_pool2d", options | {"dilation": dilation}, [x], y)
        for counts, divisor in ((True, None), (False, None), (True, 3)):
            y = F.avg_pool2d(x, window, stride, padding, ceil, counts, divisor)
            case("avg_pool2d", options | {"counts": counts, "divisor": divisor}, [x], y)
    x = rand(1, 1, 2, 2)
    x[0, 0, 0, 1], x[0, 0, 1, 1] = NAN, -INF
    options = {"window": (2, 1), "stride": None, "padding": (1, 0), "ceil": False}
    case("max_pool2d", options | {"dilation": (1, 1)}, [x], F.max_pool2d(x, (2, 1), None, (1, 0)))


def legal(shape, window, padding, dilation):
    return all(dilation[i] * (window[i] - 1) < shape[i - 2] + 2 * padding[i] for i in range(2))


def attentions():
    def attend(q, k, v, mask=None, causal=False, scale=None):
        grouped = q.dim() > 2 and q.shape[-3] != k.shape[-3]
        y = F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped)
        case("attention", {"causal": causal, "scale": scale}, [q, k, v, mask], y)

    attend(rand(3, 4), rand(5, 4), rand(5, 2))
    attend(rand(1, 2, 3, 4), rand(1, 2, 3, 4), rand(1, 2, 3, 4), causal=True)
    attend(rand(2, 3, 4), rand(2, 5, 4), rand(2, 5, 3), causal=True, scale=0.25)
    attend(rand(2, 5, 4), rand(2, 2, 4), rand(2, 2, 3), causal=True)
    attend(rand(1, 4, 3, 2), rand(1, 2, 4, 2), rand(1, 2, 4, 2))
    attend(rand(2, 4, 3, 2), rand(2, 1, 3, 2), rand(2, 1, 3, 2), causal=True)
    q, k, v = rand(2, 2, 3, 4), rand(2, 2, 5, 4), rand(2, 2, 5, 4)
    attend(q, k, v, mask=rand(3, 5))
    attend(q, k, v, mask=rand(2, 1, 3, 5) > 0)
    hidden = torch.ones(3, 5, dtype=torch.bool)
    hidden[1] = False
    attend(q, k, v, mask=hidden)
    attend(q, k, v, mask=torch.zeros(3, 5, dtype=torch.float64).masked_fill(~hidden, -INF))
    attend(rand(1, 4, 3, 2), rand(1, 2, 4, 2), rand(1, 2, 4, 2), mask=rand(4, 3, 4))


def rotaries():
    """The formula of the paper, as rotations of complex numbers."""
    for pairs, shape in itertools.product(("halves", "neighbours"), ((2, 3, 8), (1, 2, 5, 2))):
        x, width, positions = rand(*shape), shape[-1], torch.arange(shape[-2]) + 7
        frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        turn = torch.polar(torch.ones(()).double(), positions[:, None] * frequency)
        a, b = x.chunk(2, -1) if pairs == "halves" else (x[..., 0::2], x[..., 1::2])
        y = torch.complex(a, b) * turn
        y = torch.cat([y.real, y.imag], -1) if pairs == "halves" else torch.stack([y.real, y.imag], -1).flatten(-2)
        case("rotary", {"pairs": pairs, "base": 10000.0}, [x, positions], y)


def selections():
    x = rand(3, 4)
    case("masked_fill", {"value": 2.5}, [x, x > 0], x.masked_fill(x > 0, 2.5))
    case("masked_fill", {"value": -1.0}, [x, x[:1] > 0], x.masked_fill(x[:1] > 0, -1.0))
    indices = torch.tensor([[3, 0]])
    case("take_along", {"axis": 1}, [x, indices], torch.take_along_dim(x, indices, 1))
    indices = torch.tensor([[2, 0, 1, 2]])
    case("take_along", {"axis": 0}, [x, indices], torch.take_along_dim(x, indices, 0))
    distinct = torch.randperm(12).double().view(3, 4)
    distinct[1, 2] = NAN
    for x in (distinct, torch.randperm(24).double().view(2, 3, 4)):
        for axis in (None, 0, -1, 1):
            for keep in (False, True):
                case("argmax", {"axis": axis, "keep": keep}, [x], torch.argmax(x, axis, keep))
            if axis is not None:
                for largest in (True, False):
                    case("topk", {"axis": axis, "k": 2, "largest": largest}, [x], torch.topk(x, 2, axis, largest))
    x = rand(2, 3, 4)
    for axis in (0, 1, -1):
        case("cumsum", {"axis": axis}, [x], torch.cumsum(x, axis))
    case("cumsum", {"axis": 0}, [torch.tensor([True, False, True])], torch.cumsum(torch.tensor([True, False, True]), 0))
    case("cumsum", {"axis": 0}, [rand(0, 2)], torch.cumsum(rand(0, 2), 0))


def einsums():
    for equation, shapes in [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba,cb", [(2, 3), (4, 2)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
        ("i,j->ij", [(3,), (2,)]),
        ("i,i", [(3,), (3,)]),
        ("i,i->i", [(3,), (3,)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("iij,jj->ij", [(3, 3, 2), (2, 2)]),
        ("iii->i", [(2, 2, 2)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 2), (4, 2, 3)]),
        ("...ij,jk", [(2, 3, 2), (2, 3)]),
        ("b...,b...->...", [(2, 3, 4), (2, 4)]),
        ("...i->i...", [(2, 3, 4)]),
        ("i...->i", [(2, 3, 4)]),
        ("...,...", [(3,), (2, 1)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 2, 4)]),
        ("a,b,c->abc", [(2,), (3,), (2,)]),
        ("ab,bc,cd->ad", [(2, 3), (3, 2), (2, 4)]),
        ("ab,ac,ad->bcd", [(2, 2), (2, 3), (2, 2)]),
        ("ij,ij,ij->", [(2, 3), (2, 3), (2, 3)]),
        ("ij,kl->il", [(2, 3), (3, 2)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("aB,Bc", [(2, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,ij->ij", [(2, 1), (1, 3)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
        ("ij,jk->ik", [(0, 3), (3, 4)]),
        ("->", [()]),
        (",i", [(), (3,)]),
    ]:
        inputs = [rand(*shape) for shape in shapes]
        case("einsum", {"equation": equation}, inputs, torch.einsum(equation, *inputs))


def scalars():
    for x in (torch.tensor(1.5, dtype=torch.float64), torch.tensor(INF, dtype=torch.float64)):
        for axis in (0, -1):
            case("softmax", {"axis": axis}, [x], F.softmax(x, axis))
            case("log_softmax", {"axis": axis}, [x], F.log_softmax(x, axis))
            for keep in (False, True):
                case("logsumexp", {"axis": axis, "keep": keep}, [x], torch.logsumexp(x, axis, keepdim=keep))
                case("argmax", {"axis": axis, "keep": keep}, [x], torch.argmax(x, axis, keep))
            case("topk", {"axis": axis, "k": 1, "largest": True}, [x], torch.topk(x, 1, axis, True))
            case("topk", {"axis": axis, "k": 0, "largest": True}, [x], torch.topk(x, 0, axis, True))
            case("cumsum", {"axis": axis}, [x], torch.cumsum(x, axis))


def probabilities():
    for reduction, smoothing, weighted in itertools.product(("mean", "sum", "none"), (0.0, 0.125), (False, True)):
        for shape in ((4,), (5, 4), (2, 4, 3), (0, 4)):
            x, classes = rand(*shape), shape[0 if len(shape) == 1 else 1]
            # Any numbers will do, and sixteenths are exact.
            p = (torch.rand(shape, dtype=torch.float64) * 16).round() / 16
            cross_entropy(x, p, rand(classes).abs() + 0.5 if weighted else None, -100, reduction, smoothing)


def more_activations():
    x = torch.cat([rand(12), given(0.0, -0.0, INF, -INF, NAN, 24.0, -24.0, 2.0**-10, 3.0, -3.0, 0.5, -0.5, 1.0, -1.0, 6.0)])
    for beta, threshold in ((1.0, 20.0), (0.5, 1.0), (2.0, 20.0)):
        case("softplus", {"beta": beta, "threshold": threshold}, [x], F.softplus(x, beta, threshold))
    for alpha in (1.0, 0.25):
        case("elu", {"alpha": alpha}, [x], F.elu(x, alpha))
        case("celu", {"alpha": alpha}, [x], F.celu(x, alpha))
    for low, high in ((-1.0, 1.0), (-0.5, 3.0)):
        case("hardtanh", {"low": low, "high": high}, [x], F.hardtanh(x, low, high))
    for slope in (0.0078125, 0.25, -0.5):
        case("leaky_relu", {"slope": slope}, [x], F.leaky_relu(x, slope))
    for limit in (0.5, 0.0):
        case("hardshrink", {"lambda": limit}, [x], F.hardshrink(x, limit))
        case("softshrink", {"lambda": limit}, [x], F.softshrink(x, limit))
    case("threshold", {"threshold": 0.5, "value": -2.0}, [x], F.threshold(x, 0.5, -2.0))
    plain = {
        "selu": F.selu,
        "relu6": F.relu6,
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "mish": F.mish,
        "logsigmoid": F.logsigmoid,
        "softsign": F.softsign,
        "tanhshrink": F.tanhshrink,
    }
    for name, f in plain.items():
        case(name, {}, [x], f(x))
    for shape, count in (((2, 3, 4), 3), ((2, 3), 1), ((5,), 1)):
        y, w = rand(*shape), rand(count)
        case("prelu", {}, [y, w], F.prelu(y, w))
    for axis in (0, 1, -1):
        y = rand(2, 4, 6)
        case("glu", {"axis": axis}, [y], F.glu(y, axis))


def more_losses():
    for reduction in ("mean", "sum", "none"):
        options = {"reduction": reduction}
        x, y, sign = rand(3, 4), rand(3, 4), rand(3, 4).sign() + (rand(3, 4) > 9)
        sign[sign == 0] = 1.0
        case("l1_loss", options, [x, y], F.l1_loss(x, y, reduction=reduction))
        for size in (1.0, 0.25):
            case("smooth_l1_loss", options | {"beta": size}, [x, y], F.smooth_l1_loss(x, y, reduction=reduction, beta=size))
            case("huber_loss", options | {"delta": size}, [x, y], F.huber_loss(x, y, reduction=reduction, delta=size))
        case("smooth_l1_loss", options | {"beta": 0.0}, [x, y], F.smooth_l1_loss(x, y, reduction=reduction, beta=0.0))
        p = (torch.rand(3, 4, dtype=torch.float64) * 16).round() / 16
        t = (torch.rand(3, 4, dtype=torch.float64) * 16).round() / 16
        p[0, 0], p[0, 1], t[0, 0], t[0, 1], t[1] = 0.0, 1.0, 1.0, 0.0, given(0.0, 1.0, 0.0, 1.0)
        w = rand(4).abs()
        logits = torch.cat([x[:2], given(40.0, -40.0, INF, -64.0)[None]])
        for weight in (None, w):
            case("bce_loss", options, [p, t, weight], F.binary_cross_entropy(p, t, weight, reduction=reduction))
            for positive in (None, w + 0.5):
                z = F.binary_cross_entropy_with_logits(logits, t, weight, reduction=reduction, pos_weight=positive)
                case("bce_with_logits", options, [logits, t, weight, positive], z)
        for log_target in (False, True):
            for kind in (reduction, "batchmean"):
                target = y if log_target else p
                z = F.kl_div(x, target, reduction=kind, log_target=log_target)
                case("kl_div", {"reduction": kind, "log_target": log_target}, [x, target], z)
        counts = rand(3, 4).abs().round()
        for log_input, full in itertools.product((True, False), (True, False)):
            rate = x if log_input else x.abs() + 0.5
            z = F.poisson_nll_loss(rate, counts, log_input, full, eps=0.125, reduction=reduction)
            case("poisson_nll_loss", options | {"log_input": log_input, "full": full, "eps": 0.125}, [rate, counts], z)
        for full in (True, False):
            v = rand(3, 4).abs()
            z = F.gaussian_nll_loss(x, y, v, full=full, eps=0.125, reduction=reduction)
            case("gaussian_nll_loss", options | {"full": full, "eps": 0.125}, [x, y, v], z)
        for margin in (1.0, 0.25):
            more = options | {"margin": margin}
            case("hinge_embedding_loss", more, [x, sign], F.hinge_embedding_loss(x, sign, margin, reduction=reduction))
            case("margin_ranking_loss", more, [x, y, sign], F.margin_ranking_loss(x, y, sign, margin, reduction=reduction))
            z = F.cosine_embedding_loss(x, y, given(1.0, -1.0, -1.0), margin - 0.5, reduction=reduction)
            case("cosine_embedding_loss", options | {"margin": margin - 0.5}, [x, y, given(1.0, -1.0, -1.0)], z)
            for power in (2.0, 1.0, 3.0):
                far = rand(3, 4)
                z = F.triplet_margin_loss(x, y, far, margin, power, 1e-6, reduction=reduction)
                case("triplet_margin_loss", more | {"p": power}, [x, y, far], z)
        case("soft_margin_loss", options, [x, sign], F.soft_margin_loss(x, sign, reduction=reduction))
        for weighted, ignore in itertools.product((False, True), (-100, 2)):
            for shape in ((5, 4), (2, 4, 3), (4,), (0, 4)):
                logs = rand(*shape)
                target = torch.randint(0, 4, () if len(shape) == 1 else (shape[0], *shape[2:]))
                if ignore == -100 and target.numel() > 1:
                    target.view(-1)[1] = -100
                weight = rand(4).abs() + 0.5 if weighted else None
                z = F.nll_loss(logs, target, weight, ignore_index=ignore, reduction=reduction)
                case("nll_loss", options | {"ignore": ignore}, [logs, target, weight], z)
    x, y = rand(3, 4), rand(3, 4)
    y[1] = 0.0
    for axis in (0, 1):
        case("cosine_similarity", {"axis": axis, "eps": 1e-8}, [x, y], F.cosine_similarity(x, y, axis, 1e-8))
    for power in (2.0, 1.0, 3.0):
        case("pairwise_distance", {"p": power, "eps": 0.125}, [x, y], F.pairwise_distance(x, y, power, 0.125))


def channel_norms():
    for shape in ((4, 3), (2, 3, 5), (2, 4, 3, 2), (2, 2, 2, 3, 2)):
        channels = shape[1]
        for weighted, biased, training, tracked in itertools.product((False, True), repeat=4):
            x = rand(*shape)
            w, b = rand(channels) if weighted else None, rand(channels) if biased else None
            mean, var = (rand(channels), rand(channels).abs() + 0.5) if tracked else (None, None)
            for op, f in (("batch_norm", F.batch_norm), ("instance_norm", F.instance_norm)):
                if not training and not tracked or op == "instance_norm" and len(shape) == 2:
                    continue
                inputs = [x, mean, var, w, b]
                new = [t.clone() if tracked else None for t in (mean, var)]
                y = f(x, *new, w, b, training, 0.25, 0.125)
                case(op, {"training": training, "momentum": 0.25, "eps": 0.125}, inputs, [y] + (new if tracked and training else []))
        for groups in (1, channels):
            w, b = rand(channels), rand(channels)
            case("group_norm", {"groups": groups, "eps": 0.125}, [x, w, b], F.group_norm(x, groups, w, b, 0.125))
            case("group_norm", {"groups": groups, "eps": 0.125}, [x, None, None], F.group_norm(x, groups, None, None, 0.125))


def more_convolutions():
    functions = {
        "conv1d": F.conv1d,
        "conv3d": F.conv3d,
        "conv_transpose1d": F.conv_transpose1d,
        "conv_transpose2d": F.conv_transpose2d,
        "conv_transpose3d": F.conv_transpose3d,
    }

    def conv(op, shape, weight, bias, stride=1, padding=0, dilation=1, groups=1, extra=0):
        axes = len(weight) - 2
        each = lambda number: list(number) if isinstance(number, tuple) else [number] * axes
        outputs = weight[0] if "transpose" not in op else weight[1] * groups
        x, w, b = rand(*shape), rand(*weight), rand(outputs) if bias else None
        options = {"stride": each(stride), "dilation": each(dilation), "groups": groups}
        options["padding"] = padding if padding == "same" else each(padding)
        f = functions[op]
        if "transpose" in op:
            options["output_padding"] = each(extra)
            y = f(x, w, b, options["stride"], options["padding"], options["output_padding"], groups, options["dilation"])
        else:
            y = f(x, w, b, options["stride"], options["padding"], options["dilation"], groups)
        case(op, options, [x, w, b], y)

    conv("conv1d", (2, 3, 7), (4, 3, 3), True)
    conv("conv1d", (3, 7), (4, 3, 2), False, stride=2, padding=1)
    conv("conv1d", (1, 4, 9), (4, 2, 3), True, dilation=2, groups=2, padding="same")
    conv("conv3d", (1, 2, 3, 4, 3), (3, 2, 2, 3, 2), True)
    conv("conv3d", (2, 3, 3, 4), (2, 2, 2, 2, 2), False, stride=(1, 2, 1), padding=(0, 1, 1))
    conv("conv3d", (1, 4, 3, 3, 3), (4, 1, 2, 2, 2), True, dilation=(2, 1, 1), groups=4)
    conv("conv_transpose1d", (2, 3, 4), (3, 2, 3), True)
    conv("conv_transpose1d", (3, 4), (3, 2, 3), False, stride=3, padding=1, extra=2)
    conv("conv_transpose1d", (1, 2, 4), (2, 1, 1), False, padding=1)
    conv("conv_transpose1d", (1, 4, 4), (4, 3, 2), True, groups=2, dilation=3, extra=1)
    conv("conv_transpose2d", (2, 3, 3, 4), (3, 2, 2, 3), True, stride=(2, 1), padding=(1, 0))
    conv("conv_transpose2d", (1, 4, 3, 3), (4, 2, 3, 3), True, stride=2, padding=1, groups=2, extra=1)
    conv("conv_transpose2d", (0, 4, 3, 3), (4, 2, 3, 3), True)
    conv("conv_transpose3d", (1, 2, 2, 3, 2), (2, 3, 2, 2, 2), True, stride=(1, 2, 1))


def more_poolings():
    """Windows over one and three axes, and windows for a given size."""
    for axes, shape in ((1, (2, 3, 7)), (1, (3, 6)), (3, (1, 2, 4, 3, 5)), (3, (2, 3, 4, 4))):
        maximum, mean = (F.max_pool1d, F.avg_pool1d) if axes == 1 else (F.max_pool3d, F.avg_pool3d)
        for window, stride, padding, ceil in ((2, None, 0, False), (3, 2, 1, False), (2, 3, 1, True)):
            x = rand(*shape)
            each = lambda number: None if number is None else [number] * axes
            options = {"window": each(window), "stride": each(stride), "padding": each(padding), "ceil": ceil}
            y = maximum(x, window, stride, padding, 1, ceil)
            case(f"max_pool{axes}d", options | {"dilation": each(1)}, [x], y)
            for counts in (True, False):
                y = mean(x, window, stride, padding, ceil, counts)
                case(f"avg_pool{axes}d", options | {"counts": counts, "divisor": None}, [x], y)
    for shape, sizes in [
        ((2, 3, 7), (3,)),
        ((3, 6), (2,)),
        ((1, 2, 5), (8,)),
        ((1, 2, 6, 5), (3, 2)),
        ((2, 6, 5), (1, 1)),
        ((2, 6, 5), (4, 7)),
        ((0, 2, 6, 5), (4, 2)),
        ((1, 2, 6, 5), (0, 2)),
        ((1, 2, 6, 5), (None, 2)),
        ((1, 2, 4, 3, 5), (3, 1, 2)),
    ]:
        axes, x = len(sizes), rand(*shape)
        if axes == 2 and x.numel():
            x.view(-1)[0], x.view(-1)[-1] = NAN, INF
        given_sizes = sizes[0] if axes == 1 else sizes
        for name in ("avg", "max"):
            f = getattr(F, f"adaptive_{name}_pool{axes}d")
            case(f"adaptive_{name}_pool{axes}d", {"sizes": sizes}, [x], f(x, given_sizes))


def orders():
    x = torch.randperm(24).double().view(2, 3, 4)
    x[1, 2, 1] = NAN
    for x in (x, torch.tensor([2, 1, 2, 1, 0]), torch.tensor(1.5, dtype=torch.float64)):
        for axis in (0, -1):
            for descending in (False, True):
                y = torch.sort(x, dim=axis, descending=descending, stable=True)
                case("sort", {"axis": axis, "descending": descending}, [x], y)
                case("argsort", {"axis": axis, "descending": descending}, [x], y[1])
    x, src = rand(3, 4), rand(3, 5)
    for axis, index in ((0, [[2, 0, 1, 1], [0, 1, 2, 0]]), (1, [[3, 0], [2, 1], [0, 1]])):
        index = torch.tensor(index)
        case("scatter", {"axis": axis}, [x, index, src], x.scatter(axis, index, src))
        case("scatter_add", {"axis": axis}, [x, index, src], x.scatter_add(axis, index, src))
        for kind in ("sum", "prod", "amax", "amin"):
            case("scatter_reduce", {"axis": axis, "kind": kind}, [x, index, src], x.scatter_reduce(axis, index, src, kind))
    index = torch.tensor([1, 1, 0])
    for axis, source in ((0, rand(3, 4)), (1, rand(3, 3))):
        case("index_add", {"axis": axis}, [x, index, source], x.index_add(axis, index, source))


for section in (
    activations,
    softmaxes,
    norms,
    losses,
    linears,
    convolutions,
    poolings,
    attentions,
    rotaries,
    selections,
    einsums,
    scalars,
    probabilities,
    more_activations,
    more_losses,
    channel_norms,
    more_convolutions,
    more_poolings,
    orders,
):
    section()
lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in cases)
pathlib.Path("ops.json").write_text(f"[\n{lines}\n]\n")
print(f"{len(cases)} cases")
