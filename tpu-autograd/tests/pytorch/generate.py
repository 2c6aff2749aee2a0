"""Writes the tables beside it: what PyTorch gives where derivatives are a matter of convention, the course of its optimizers,
learning rates and gradient scaler, what it draws first values from, its multi-head attention, recurrent networks and batch
norms. Run with PyTorch 2.15 (CPU)."""

import math
import pathlib

import numpy
import torch
import torch.nn.functional as F

here = pathlib.Path(__file__).parent
F64 = torch.float64


def number(x):
    if math.isnan(x):
        return "f64::NAN"
    if math.isinf(x):
        return "f64::INFINITY" if x > 0 else "f64::NEG_INFINITY"
    return repr(float(x))


def numbers(xs):
    return "&[" + ", ".join(number(x) for x in xs) + "]"


def gradient(f, *inputs):
    inputs = [torch.tensor(x, dtype=F64, requires_grad=True) for x in inputs]
    y = f(*inputs)
    w = torch.arange(1, y.numel() + 1, dtype=F64).reshape(y.shape)
    (y * w).sum().backward()
    return [x.grad.flatten().tolist() for x in inputs]


nan, inf = float("nan"), float("inf")
places = torch.tensor([0, 1, 1, 3, 1])
zeros = [0.0, 2.0, 0.0, 3.0]
ties = [1.0, 3.0, 3.0, -1.0, 3.0]
cases = [
    ("abs", torch.abs, [[-1.0, 0.0, -0.0, 2.0, nan]]),
    ("sign", torch.sign, [[-1.0, 0.0, 2.0]]),
    ("relu", torch.relu, [[-1.0, 0.0, -0.0, 2.0]]),
    ("amax", lambda x: torch.amax(x, 0), [ties]),
    ("amin", lambda x: torch.amin(x, 0), [[2.0, 1.0, 1.0]]),
    ("max_with_index", lambda x: torch.max(x, 0)[0], [ties]),
    ("maximum", torch.maximum, [[1.0, 2.0, 3.0, nan], [1.0, 3.0, 2.0, 1.0]]),
    ("minimum", torch.minimum, [[1.0, 2.0, 3.0, nan], [1.0, 3.0, 2.0, 1.0]]),
    ("clamp", lambda x: torch.clamp(x, -1.0, 1.0), [[-2.0, -1.0, 0.0, 1.0, 2.0, nan]]),
    ("clamp by tensors", torch.clamp, [[-2.0, -1.0, 0.0, 1.0, 2.0], [-1.0, -1.0, 0.5, -1.0, 3.0], [1.0, 1.0, 0.5, 1.0, 1.0]]),
    ("clamp by tensors", torch.clamp, [[1.0, 3.0, 1.0, 2.0, 0.0, 1.0, nan], [1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0]]),
    ("pow", torch.pow, [[0.0, 0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 2.0, 0.0, -1.0]]),
    ("pow 2", lambda x: x**2.0, [[0.0, -1.0, 3.0]]),
    ("prod", lambda x: torch.prod(x, 0), [zeros]),
    ("prod one zero", lambda x: torch.prod(x, 0), [[2.0, 0.0, 3.0]]),
    ("cumprod", lambda x: torch.cumprod(x, 0), [zeros]),
    ("cummax", lambda x: torch.cummax(x, 0)[0], [ties]),
    ("cummin", lambda x: torch.cummin(x, 0)[0], [[3.0, 1.0, 1.0, 2.0, 1.0]]),
    ("sort", lambda x: torch.sort(x, dim=0, stable=True)[0], [ties]),
    ("sort descending", lambda x: torch.sort(x, dim=0, descending=True, stable=True)[0], [ties]),
    ("atan2", torch.atan2, [[0.0, 1.0, 0.0, -1.0], [1.0, 0.0, -1.0, 2.0]]),
    ("fmod", torch.fmod, [[5.5, -5.5, 1.0], [2.0, 2.0, -3.0]]),
    ("sqrt", torch.sqrt, [[0.0, 4.0]]),
    ("floor", torch.floor, [[0.5, 2.0]]),
    ("scatter amax", lambda x, s: x.scatter_reduce(0, places, s, "amax"), [[1.0, 3.0, 2.0, -1.0], [1.0, 3.0, 3.0, -2.0, 2.0]]),
    ("scatter amin", lambda x, s: x.scatter_reduce(0, places, s, "amin"), [[1.0, 3.0, 2.0, -1.0], [1.0, 2.0, 3.0, -2.0, 2.0]]),
    ("scatter prod", lambda x, s: x.scatter_reduce(0, places, s, "prod"), [[0.0, 3.0, 2.0, -1.0], [4.0, 0.0, 3.0, -2.0, 2.0]]),
    ("scatter prod", lambda x, s: x.scatter_reduce(0, places, s, "prod"), [[0.0, 0.0, 2.0, 5.0], [0.0, 0.0, 3.0, 0.0, 0.0]]),
    ("max_pool", lambda x: torch.nn.functional.max_pool1d(x[None], 3, 1)[0], [[1.0, 2.0, 2.0, 2.0, 0.0]]),
    ("relu6", F.relu6, [[-1.0, 0.0, 2.0, 6.0, 7.0]]),
    ("hardtanh", F.hardtanh, [[-2.0, -1.0, 0.5, 1.0, 2.0]]),
    # Between them the slope is 1/6 rounded to float32.
    ("hardsigmoid", F.hardsigmoid, [[-4.0, -3.0, 3.0, 4.0]]),
    ("hardswish", F.hardswish, [[-4.0, -3.0, 0.5, 3.0, 4.0]]),
    ("hardshrink", F.hardshrink, [[-0.75, -0.5, 0.25, 0.5, 0.75]]),
    ("softshrink", F.softshrink, [[-0.75, -0.5, 0.25, 0.5, 0.75]]),
    ("threshold", lambda x: F.threshold(x, 0.5, 2.0), [[0.25, 0.5, 0.75]]),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.25), [[-1.0, 0.0, 1.0]]),
    ("prelu", F.prelu, [[-1.0, 0.0, 1.0], [0.25]]),
    ("elu", F.elu, [[-1.0, 0.0, 1e3]]),
    ("celu", lambda x: F.celu(x, 2.0), [[-1.0, 0.0, 1e4]]),
    ("selu", F.selu, [[-1.0, 0.0, 1e3]]),
    ("softplus", F.softplus, [[-1e3, 0.0, 20.5, 1e4]]),
    ("logsigmoid", F.logsigmoid, [[-1e3, 0.0, 1e3]]),
    ("softsign", F.softsign, [[-1.0, 0.0, 1.0]]),
    ("l1_loss", lambda x, y: F.l1_loss(x, y, reduction="none"), [[1.0, 2.0], [1.0, 3.0]]),
    ("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), [[1.0, 2.0, 4.0], [2.0, 2.0, 1.0]]),
    ("huber_loss", lambda x, y: F.huber_loss(x, y, reduction="none"), [[1.0, 2.0, 4.0], [2.0, 2.0, 1.0]]),
    ("bce_loss", lambda x: F.binary_cross_entropy(x, torch.tensor([0.0, 0.25, 1.0], dtype=F64), reduction="none"), [[0.0, 0.5, 1.0]]),
    ("kl_div", lambda x: F.kl_div(x, torch.tensor([0.0, 0.5], dtype=F64), reduction="none"), [[-1.0, -2.0]]),
    ("margin_ranking_loss", lambda x, y: F.margin_ranking_loss(x, y, torch.tensor([1.0, -1.0], dtype=F64), reduction="none"), [[1.0, 2.0], [1.0, 3.0]]),
    ("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 0).reshape(1), [[3.0, 4.0], [1.0, 0.0]]),
]


def row(name, f, inputs):
    given = ", ".join(numbers(x) for x in inputs)
    found = ", ".join(numbers(g) for g in gradient(f, *inputs))
    return f'    ("{name}", &[{given}], &[{found}]),'


lines = [row(*case) for case in cases]
(here / "conventions.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": name, operands, gradients of Σ (i + 1) · result[i].\n"
    "#[rustfmt::skip]\npub const CONVENTIONS: &[(&str, &[&[f64]], &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)


class Lion:
    """The paper's algorithm 2 in NumPy, behind PyTorch's interface."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        self.param_groups = [{"params": list(params), "lr": lr}]
        self.betas, self.weight_decay = betas, weight_decay
        self.averages = [numpy.zeros(tuple(p.shape)) for p in params]

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None

    def step(self):
        lr, (b1, b2) = self.param_groups[0]["lr"], self.betas
        for p, m in zip(self.param_groups[0]["params"], self.averages):
            if p.grad is None:
                continue
            theta, g = p.detach().numpy().astype(numpy.float64), p.grad.numpy().astype(numpy.float64)
            c = b1 * m + (1 - b1) * g
            theta = theta - lr * (numpy.sign(c) + self.weight_decay * theta)
            m[...] = b2 * m + (1 - b2) * g
            p.data = torch.tensor(theta, dtype=torch.float32)


def course(make, late=False):
    """Three parameters' values after each of six steps; the loss is Σ sin(a) · b + c² / 2, the third step's gradient is
    clipped to norm 0.5. If late, c takes part from the third step on, and b does not in the fourth."""
    torch.manual_seed(0)
    params = [torch.tensor(v, dtype=torch.float32, requires_grad=True) for v in ([0.5, -1.0], [2.0, 0.25], [3.0])]
    optimizer = make(params)
    rows = []
    for step in range(6):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        optimizer.zero_grad()
        a, b, c = params
        if late:
            b, c = b.detach() if step == 3 else b, c.detach() if step < 2 else c
        ((a.sin() * b).sum() + (c * c / 2).sum()).backward()
        if step == 2:
            torch.nn.utils.clip_grad_norm_(params, 0.5)
        optimizer.step()
        rows.append([x for p in params for x in p.detach().flatten().tolist()])
    return rows


optimizers = [
    ("sgd", lambda p: torch.optim.SGD(p, lr=0.1)),
    ("sgd momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)),
    ("sgd nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, weight_decay=0.05, nesterov=True)),
    ("adamw", lambda p: torch.optim.AdamW(p, lr=0.1)),
    ("adamw decay", lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("sgd late", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05)),
    ("adamw late", lambda p: torch.optim.AdamW(p, lr=0.1)),
    ("sgd groups", lambda p: torch.optim.SGD([{"params": [p[0]], "lr": 0.2}, {"params": p[1:], "momentum": 0.9}], lr=0.1)),
    (
        "adamw groups",
        lambda p: torch.optim.AdamW(
            [{"params": [p[1]], "weight_decay": 0.1}, {"params": [p[0], p[2]], "lr": 0.02, "weight_decay": 0.0}], lr=0.1
        ),
    ),
    ("adam", lambda p: torch.optim.Adam(p, lr=0.1)),
    ("adam decay", lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    ("adam amsgrad", lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.5), weight_decay=0.1, amsgrad=True)),
    ("adam amsgrad late", lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.5), amsgrad=True)),
    ("adamax", lambda p: torch.optim.Adamax(p, lr=0.1, betas=(0.8, 0.5), weight_decay=0.1)),
    ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1)),
    ("adagrad decay", lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.25, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3)),
    ("adagrad decay late", lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.25, initial_accumulator_value=0.5)),
    ("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.05)),
    ("rmsprop centered", lambda p: torch.optim.RMSprop(p, lr=0.05, alpha=0.8, eps=1e-3, weight_decay=0.1, centered=True)),
    ("rmsprop momentum", lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.8, momentum=0.9)),
    ("rmsprop both", lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.8, eps=1e-3, momentum=0.5, centered=True)),
    ("adadelta", lambda p: torch.optim.Adadelta(p)),
    ("adadelta decay", lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)),
    ("lion", lambda p: Lion(p, lr=0.05)),
    ("lion decay", lambda p: Lion(p, lr=0.05, betas=(0.6, 0.8), weight_decay=0.5)),
    ("lion late", lambda p: Lion(p, lr=0.05)),
]
lines = [f'    ("{name}", &[{", ".join(numbers(row) for row in course(make, name.endswith("late")))}]),' for name, make in optimizers]
(here / "optimizers.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": name, parameters after each step.\n"
    "#[rustfmt::skip]\npub const COURSES: &[(&str, &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def scaler(factors, **options):
    """Scale, good steps since it changed, and a parameter after each step; the loss is factor · w² / 2."""
    w = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.125)
    scaler = torch.amp.GradScaler("cpu", **options)
    rows = []
    for factor in factors:
        optimizer.zero_grad()
        scaler.scale(w * w / 2 * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        state = scaler.state_dict()
        rows.append([state["scale"], state["_growth_tracker"], w.item()])
    return rows


runs = [
    ([1, 1, inf, 1, 1, 1, 1], {"init_scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.25, "growth_interval": 2}),
    ([inf, nan, 1, 1, 1, -inf, 1], {"init_scale": 1.0, "growth_factor": 4.0, "backoff_factor": 0.5, "growth_interval": 3}),
    # A scale that would become infinite stays, and counts anew.
    ([1, 1, 1], {"init_scale": 2.0**127, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2}),
    # The gradient overflows because of the scale alone.
    ([2.0**100, 1, 1], {"init_scale": 2.0**60, "growth_factor": 2.0, "backoff_factor": 2.0**-30, "growth_interval": 1}),
]
lines = [
    f'    ({numbers([*options.values()])}, {numbers(factors)}, &[{", ".join(map(numbers, scaler(factors, **options)))}]),'
    for factors, options in runs
]
(here / "scaler.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": first scale, growth, backoff and interval; the factor of\n"
    "// each step; scale, good steps and parameter after it.\n"
    "#[rustfmt::skip]\npub const RUNS: &[(&[f64], &[f64], &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def draws(make):
    """The bounds, or mean and deviation, that random first values are drawn with."""
    found, originals = [], (torch.Tensor.uniform_, torch.Tensor.normal_)

    def noted(original):
        def draw(tensor, a, b, **rest):
            found.append((list(tensor.shape), original is originals[0], float(a), float(b)))
            return original(tensor, a, b, **rest)

        return draw

    torch.Tensor.uniform_, torch.Tensor.normal_ = map(noted, originals)
    make()
    torch.Tensor.uniform_, torch.Tensor.normal_ = originals
    return found


init, nn = torch.nn.init, torch.nn
makers = []
for shape in ([6, 5], [8, 3, 5, 2]):
    for gain in (1.0, 2.5):
        makers.append((f"xavier uniform {gain}", lambda s=shape, g=gain: init.xavier_uniform_(torch.empty(s), g)))
        makers.append((f"xavier normal {gain}", lambda s=shape, g=gain: init.xavier_normal_(torch.empty(s), g)))
    for slope in (0.0, math.sqrt(5)):
        makers.append((f"kaiming uniform {slope}", lambda s=shape, a=slope: init.kaiming_uniform_(torch.empty(s), a)))
        makers.append((f"kaiming normal {slope}", lambda s=shape, a=slope: init.kaiming_normal_(torch.empty(s), a)))
makers.append(("linear", lambda: nn.Linear(7, 3)))
makers.append(("conv", lambda: nn.Conv2d(4, 6, (3, 2), groups=2)))
makers.append(("conv transpose", lambda: nn.ConvTranspose1d(4, 6, 3, groups=2)))
makers.append(("lstm", lambda: nn.LSTM(3, 4, 2, bidirectional=True)))
makers.append(("gru", lambda: nn.GRU(3, 4)))
makers.append(("embedding", lambda: nn.Embedding(5, 3)))
makers.append(("attention", lambda: nn.MultiheadAttention(8, 2)))
lines = []
for name, make in makers:
    # The biases of attention are drawn too, but then set to zero.
    kept = [draw for draw in draws(make) if name != "attention" or len(draw[0]) > 1]
    found = ", ".join(f"(&{s}, {str(u).lower()}, {number(a)}, {number(b)})" for s, u, a, b in kept)
    lines.append(f'    ("{name}", &[{found}]),')
(here / "init.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": for each tensor drawn its shape, whether uniformly, and the\n"
    "// bounds, or mean and deviation.\n"
    "#[rustfmt::skip]\npub const DRAWS: &[(&str, &[(&[usize], bool, f64, f64)])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def attention():
    torch.manual_seed(1)
    module = nn.MultiheadAttention(4, 2, batch_first=True, dtype=F64)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.randn_like(p) * 16).round() / 16)
    q, k, v = ((torch.randn(2, n, 4, dtype=F64) * 16).round() / 16 for n in (3, 5, 5))
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    hidden = torch.rand(3, 5) > 0.6
    hidden[:, 0] = False
    cases = [
        ("plain", (q, k, v), None),
        ("self", (q, q, q), None),
        ("causal", (q, q, q), causal),
        ("masked", (q, k, v), hidden),
        ("added", (q, k, v), (torch.randn(3, 5, dtype=F64) * 16).round() / 16),
    ]
    rows = []
    for name, (a, b, c), mask in cases:
        module.zero_grad()
        y = module(a, b, c, attn_mask=mask, need_weights=False)[0]
        w = torch.arange(1, y.numel() + 1, dtype=F64).reshape(y.shape) / 16
        (y * w).sum().backward()
        # True takes part, unlike in attn_mask.
        given = mask if mask is None or mask.is_floating_point() else ~mask
        lists = [x.flatten().tolist() for x in ([] if given is None else [given]) + [y] + [p.grad for p in module.parameters()]]
        rows.append((name, ([] if given is not None else [[]]) + lists))
    return [p.detach().flatten().tolist() for p in module.parameters()], [x.flatten().tolist() for x in (q, k, v)], rows


weights, inputs, rows = attention()
lines = [f'    ("{name}", &[{", ".join(map(numbers, lists))}]),' for name, lists in rows]
(here / "attention.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": multi-head attention of width 4 with 2 heads. Parameters in order of\n"
    "// name; query [2, 3, 4], key and value [2, 5, 4]; for each case the mask, the result, and the gradients of the parameters,\n"
    "// the loss being Σ (i + 1) / 16 · result[i].\n"
    "#[rustfmt::skip]\npub const WEIGHTS: &[&[f64]] = &[" + ", ".join(map(numbers, weights)) + "];\n"
    "#[rustfmt::skip]\npub const INPUTS: &[&[f64]] = &[" + ", ".join(map(numbers, inputs)) + "];\n"
    "#[rustfmt::skip]\npub const CASES: &[(&str, &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def recurrent(make, state, batch_first=False):
    """Parameters by name; input, states; outputs, last states; gradients of all that, the loss being Σ (i + 1) / 16 · result[i]
    of outputs and states in turn."""
    torch.manual_seed(2)
    module = make()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.randn_like(p) * 8).round() / 16)
    directions = 2 if module.bidirectional else 1
    draw = lambda *shape: ((torch.randn(shape, dtype=F64) * 16).round() / 16).requires_grad_()
    x = draw(2, 4, 3) if batch_first else draw(4, 2, 3)
    states = [draw(module.num_layers * directions, 2, 2) for _ in range(2 if isinstance(module, nn.LSTM) else 1)] if state else []
    given = (tuple(states) if len(states) > 1 else states[0]) if state else None
    y, last = module(x, given)
    last = last if isinstance(last, tuple) else (last,)
    results = [y, *last]
    flat = torch.cat([r.flatten() for r in results])
    (flat * torch.arange(1, flat.numel() + 1, dtype=F64) / 16).sum().backward()
    tensors = [*module.parameters(), x, *states, *results, *(p.grad for p in module.parameters()), x.grad, *(s.grad for s in states)]
    return [t.detach().flatten().tolist() for t in tensors]


networks = [
    ("lstm", lambda: nn.LSTM(3, 2, dtype=F64), False, False),
    ("lstm state", lambda: nn.LSTM(3, 2, 2, batch_first=True, bidirectional=True, dtype=F64), True, True),
    ("lstm no bias", lambda: nn.LSTM(3, 2, bias=False, dtype=F64), True, False),
    ("gru", lambda: nn.GRU(3, 2, dtype=F64), False, False),
    ("gru state", lambda: nn.GRU(3, 2, 2, batch_first=True, bidirectional=True, dtype=F64), True, True),
    ("gru no bias", lambda: nn.GRU(3, 2, bias=False, dtype=F64), True, False),
    ("rnn", lambda: nn.RNN(3, 2, dtype=F64), False, False),
    ("rnn state", lambda: nn.RNN(3, 2, 2, nonlinearity="relu", batch_first=True, bidirectional=True, dtype=F64), True, True),
]
lines = [f'    ("{name}", &[{", ".join(map(numbers, recurrent(*rest)))}]),' for name, *rest in networks]
(here / "recurrent.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": recurrent networks of 3 inputs and 2 hidden numbers over 4 steps of 2\n"
    "// sequences. Parameters in order of name, input, states; outputs and last states; gradients of parameters, input and states,\n"
    "// the loss being Σ (i + 1) / 16 · result[i] of outputs and last states in turn.\n"
    "#[rustfmt::skip]\npub const NETWORKS: &[(&str, &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def rates(make, count=24, metrics=None):
    """The learning rate of each step from 1."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimizer)
    found = []
    for step in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step() if metrics is None else schedule.step(metrics[step])
    return found


schedules, lr = [], torch.optim.lr_scheduler
schedules += [("step", rates(lambda o: lr.StepLR(o, 5, 0.5)))]
schedules += [("multistep", rates(lambda o: lr.MultiStepLR(o, [3, 3, 10], 0.5)))]
schedules += [("exponential", rates(lambda o: lr.ExponentialLR(o, 0.75)))]
schedules += [("linear", rates(lambda o: lr.LinearLR(o, 0.25, 1.0, 8)))]
schedules += [("one cycle", rates(lambda o: lr.OneCycleLR(o, 2.0, 24)))]
schedules += [("one cycle linear", rates(lambda o: lr.OneCycleLR(o, 2.0, 24, pct_start=0.25, anneal_strategy="linear", div_factor=4.0, final_div_factor=8.0)))]
watched = [5.0, 4.0, 4.0, 3.9999, 4.0, 3.0, 3.5, nan, 3.5, 3.5, 3.5, 2.0, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 1.0, 1.0]
schedules += [("watched", watched)]
schedules += [("plateau", rates(lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=1), metrics=watched))]
schedules += [("plateau cooling", rates(lambda o: lr.ReduceLROnPlateau(o, "max", factor=0.5, patience=0, threshold=0.5, threshold_mode="abs", cooldown=2, min_lr=0.1), metrics=watched))]
lines = [f'    ("{name}", {numbers(found)}),' for name, found in schedules]
(here / "schedules.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": learning rates of the steps from the first on; the numbers that\n"
    "// plateaus watch.\n"
    "#[rustfmt::skip]\npub const RATES: &[(&str, &[f64])] = &[\n" + "\n".join(lines) + "\n];\n"
)


def batch_norms(make, shape):
    """Parameters and buffers after three batches in training, the result of the last, that of another in evaluation."""
    torch.manual_seed(3)
    module = make()
    draw = lambda: (torch.randn(shape, dtype=F64) * 16).round() / 16
    batches = [draw() for _ in range(4)]
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.randn_like(p) * 16).round() / 16)
        y = [module(batch) for batch in batches[:3]][-1]
        module.eval()
        z = module(batches[3])
    state = module.state_dict()
    return [t.flatten().tolist() for t in (*batches, *module.parameters(), *(state[k].double() for k in state if k.startswith(("running", "num"))), y, z)]


norms = [
    ("batch", lambda: nn.BatchNorm2d(2, dtype=F64), (2, 2, 3, 2)),
    ("batch mean", lambda: nn.BatchNorm1d(2, eps=0.125, momentum=None, dtype=F64), (4, 2)),
    ("instance", lambda: nn.InstanceNorm1d(2, affine=True, track_running_stats=True, momentum=0.25, dtype=F64), (2, 2, 3)),
]
lines = [f'    ("{name}", &{list(shape)}, &[{", ".join(map(numbers, batch_norms(make, shape)))}]),' for name, make, shape in norms]
(here / "norms.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": shape; four batches, weight and bias; then running mean, running variance and\n"
    "// count after three of them, the result of the third, that of the fourth in evaluation.\n"
    "#[rustfmt::skip]\npub const NORMS: &[(&str, &[usize], &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)
