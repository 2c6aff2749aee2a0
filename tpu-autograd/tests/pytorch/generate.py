"""Writes conventions.rs and optimizers.rs beside it: what PyTorch gives where derivatives are a matter of convention, and
the course of its optimizers. Run with PyTorch 2.15 (CPU)."""

import math
import pathlib

import torch

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
    ("max_pool", lambda x: torch.nn.functional.max_pool1d(x[None], 3, 1)[0], [[1.0, 2.0, 2.0, 2.0, 0.0]]),
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


def course(make):
    """Three parameters' values after each of six steps; the loss is Σ sin(a) · b + c² / 2, the third step's gradient is
    clipped to norm 0.5."""
    torch.manual_seed(0)
    params = [torch.tensor(v, dtype=torch.float32, requires_grad=True) for v in ([0.5, -1.0], [2.0, 0.25], [3.0])]
    optimizer = make(params)
    rows = []
    for step in range(6):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        optimizer.zero_grad()
        a, b, c = params
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
]
lines = [f'    ("{name}", &[{", ".join(numbers(row) for row in course(make))}]),' for name, make in optimizers]
(here / "optimizers.rs").write_text(
    "// Written by generate.py from PyTorch " + torch.__version__ + ": name, parameters after each step.\n"
    "#[rustfmt::skip]\npub const COURSES: &[(&str, &[&[f64]])] = &[\n" + "\n".join(lines) + "\n];\n"
)
