"""The cases of `cargo xtask bench host` in JAX: each a jitted function."""

import os

import measure

ARGS = measure.arguments(__doc__)
if hasattr(os, "sched_setaffinity"):
    # XLA has no setting for it: it makes a thread for each processor that the process may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: ARGS.threads])

import jax
import jax.numpy as jnp
import numpy
from jax import lax

import jax_training

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}


def array(shape, salt, scale=1.0, dtype=jnp.float32):
    return jnp.asarray(measure.numbers(shape, salt, scale)).astype(dtype)


def waited(function, *operands):
    """A run of a jitted function that returns when the results are there."""
    work = jax.jit(function)
    return lambda: jax.block_until_ready(work(*operands))


@measure.case("matmul")
def matmul(p):
    layout, dtype = p.get("layout", "nn"), DTYPES[p["dtype"]]
    batch = (p["batch"],) if p.get("batch", 1) > 1 else ()
    operand = lambda rows, columns, lies, salt: array(batch + ((columns, rows) if lies == "t" else (rows, columns)), salt, dtype=dtype)
    a, b = operand(p["m"], p["k"], layout[0], 1), operand(p["k"], p["n"], layout[1], 2)
    turned = lambda x, lies: jnp.swapaxes(x, -1, -2) if lies == "t" else x
    return waited(lambda a, b: [turned(a, layout[0]) @ turned(b, layout[1])], a, b)


def layer_norm(x, gain, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * gain + bias


@measure.case("chain")
def chain(p):
    rows, columns, op = p["rows"], p["columns"], p["op"]
    w, b, gain, bias = (array((columns,), salt, 1.7) for salt in (3, 4, 5, 6))
    inner = lambda x, r, w, b: jax.nn.gelu(x * w + b, approximate=True) + r
    chains = {
        "gelu": lambda x, r, w, b, gain, bias: inner(x, r, w, b),
        "layer_norm": lambda x, r, w, b, gain, bias: layer_norm(inner(x, r, w, b), gain, bias),
        "softmax": lambda x, r, w, b, gain, bias: jax.nn.softmax(x * 0.125 + b, -1),
        "swiglu": lambda x, r, w, b, gain, bias: jax.nn.silu(x * w) * r + x,
    }
    x, r = array((rows, columns), 1, 1.7), None if op == "softmax" else array((rows, columns), 2, 1.7)
    return waited(lambda *operands: [chains[op](*operands)], x, r, w, b, gain, bias)


@measure.case("attention")
def attention(p):
    shape = (p["batch"], p["heads"], p["time"], p["width"])
    seen = jnp.tril(jnp.ones((p["time"], p["time"]), bool)) if p.get("causal", 1) else True
    q, k, v, gradient = (array(shape, salt, 1.7) for salt in (1, 2, 3, 4))

    def forward(q, k, v):
        # What jax.nn.dot_product_attention does on a CPU, in PyTorch's order of axes.
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * shape[-1] ** -0.5
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1), v)

    def passes(q, k, v, gradient):
        y, back = jax.vjp(forward, q, k, v)
        return [y, *back(gradient)]

    return waited(passes, q, k, v, gradient)


jax_training.register()

if __name__ == "__main__":
    measure.main(lambda results: [numpy.asarray(result.astype(jnp.float32)) for result in results])
