"""The cases of `cargo xtask bench host` in PyTorch: eager, or compiled by Inductor with --compile."""

import torch
import torch.nn.functional as F

import measure
import torch_kernels  # registers its cases
import torch_training

ARGS = measure.arguments(__doc__, compile="compile with Inductor")
torch.set_num_threads(ARGS.threads)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def tensor(shape, salt, scale=1.0, dtype=torch.float32):
    return torch.from_numpy(measure.numbers(shape, salt, scale)).to(dtype)


def compiled(function):
    """The function, as a program for its exact shapes where that was asked for."""
    if not ARGS.compile:
        return function
    # Each case starts over: what was compiled for other sizes would make this one generic in them.
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


@measure.case("matmul")
def matmul(p):
    layout, dtype = p.get("layout", "nn"), DTYPES[p["dtype"]]
    batch = (p["batch"],) if p.get("batch", 1) > 1 else ()

    def operand(rows, columns, lies, salt):
        shape = (columns, rows) if lies == "t" else (rows, columns)
        made = tensor(batch + shape, salt, dtype=dtype)
        return made.mT if lies == "t" else made

    a, b = operand(p["m"], p["k"], layout[0], 1), operand(p["k"], p["n"], layout[1], 2)
    then = p.get("then")
    other = tensor((p["m"], p["n"]) if then == "residual" else (p["n"],), 3, dtype=dtype)
    follow = {
        None: lambda y: y,
        "bias": lambda y: F.relu(y + other),
        "gelu": lambda y: F.gelu(y + other, approximate="tanh"),
        "residual": lambda y: y + other,
    }[then]
    return torch.no_grad()(lambda: [follow(a @ b)])


@measure.case("chain")
def chain(p):
    rows, columns, op = p["rows"], p["columns"], p["op"]
    matrix = lambda salt: tensor((rows, columns), salt, 1.7)
    w, b, gain, bias = (tensor((columns,), salt, 1.7) for salt in (3, 4, 5, 6))
    inner = lambda x, r: F.gelu(x * w + b, approximate="tanh") + r
    chains = {
        "gelu": inner,
        "layer_norm": lambda x, r: F.layer_norm(inner(x, r), (columns,), gain, bias, 1e-5),
        "softmax": lambda x, r: torch.softmax(x * 0.125 + b, -1),
        "swiglu": lambda x, r: F.silu(x * w) * r + x,
    }
    x, r = matrix(1), None if op == "softmax" else matrix(2)
    work = compiled(chains[op])
    return torch.no_grad()(lambda: [work(x, r)])


@measure.case("attention")
def attention(p):
    shape = (p["batch"], p["heads"], p["time"], p["width"])
    causal = bool(p.get("causal", 1))
    q, k, v, gradient = (tensor(shape, salt, 1.7) for salt in (1, 2, 3, 4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    work = compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal))

    def run():
        y = work(*inputs)
        return [y.detach(), *torch.autograd.grad(y, inputs, gradient)]

    return run


@measure.case("convolution")
def convolution(p):
    dims, kernel = p["dims"], p["kernel"]
    stride, dilation, groups = p.get("stride", 1), p.get("dilation", 1), p.get("groups", 1)
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    x = tensor((p["batch"], p["in"]) + (p["size"],) * dims, 1)
    weight = tensor((p["out"], p["in"] // groups) + (kernel,) * dims, 2)
    forward = lambda: function(x, weight, None, stride, kernel // 2 * dilation, dilation, groups)
    if p["pass"] == "forward":
        return torch.no_grad()(lambda: [forward()])
    inputs = [x.requires_grad_(), weight.requires_grad_()]
    y = forward()
    gradient = tensor(tuple(y.shape), 3)
    wanted = {"gradients": inputs, "input": inputs[:1], "weights": inputs[1:]}[p["pass"]]
    return lambda: torch.autograd.grad(y, wanted, gradient, retain_graph=True)


torch_training.register(compiled, ARGS.compile)

if __name__ == "__main__":
    measure.main(lambda results: [result.detach().float().contiguous().numpy() for result in results])
