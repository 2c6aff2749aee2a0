"""The GPT of gpt.py and a step of AdamW in JAX, with the same parameter names."""

import math

import jax
import jax.numpy as jnp

VOCABULARY = 256


def parameters(layers, width):
    """Shapes by the names of gpt.py; linear weights are [out, in]."""
    shapes = {"wte.weight": (VOCABULARY, width)}
    for at in range(layers):
        block = {
            "ln_1.weight": (width,),
            "ln_1.bias": (width,),
            "attn.qkv.weight": (3 * width, width),
            "attn.qkv.bias": (3 * width,),
            "attn.proj.weight": (width, width),
            "attn.proj.bias": (width,),
            "ln_2.weight": (width,),
            "ln_2.bias": (width,),
            "mlp.fc.weight": (4 * width, width),
            "mlp.fc.bias": (4 * width,),
            "mlp.proj.weight": (width, 4 * width),
            "mlp.proj.bias": (width,),
        }
        shapes |= {f"blocks.{at}.{name}": shape for name, shape in block.items()}
    return shapes | {"ln_f.weight": (width,), "ln_f.bias": (width,), "head.weight": (VOCABULARY, width)}


def layer_norm(p, name, x):
    x = x.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def linear(p, name, x, dtype):
    y = x.astype(dtype) @ p[f"{name}.weight"].astype(dtype).T
    bias = p.get(f"{name}.bias")
    return y if bias is None else y + bias.astype(dtype)


def rotated(x):
    """As in gpt.py, of [batch, time, heads, width of a head]."""
    time, half = x.shape[1], x.shape[-1] // 2
    angle = jnp.arange(time)[:, None] * jnp.exp(jnp.arange(half) * (-math.log(10000.0) / half))
    cos, sin = (f(angle).astype(x.dtype)[:, None, :] for f in (jnp.cos, jnp.sin))
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def loss(p, tokens, layers, heads, dtype):
    seen, following = tokens[:, :-1].astype(jnp.int32), tokens[:, 1:].astype(jnp.int32)
    x = p["wte.weight"][seen]
    for at in range(layers):
        name = f"blocks.{at}"
        qkv = linear(p, f"{name}.attn.qkv", layer_norm(p, f"{name}.ln_1", x), dtype)
        q, k, v = jnp.moveaxis(qkv.reshape(*x.shape[:2], 3, heads, -1), 2, 0)
        y = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + linear(p, f"{name}.attn.proj", y.reshape(x.shape), dtype)
        h = jax.nn.gelu(linear(p, f"{name}.mlp.fc", layer_norm(p, f"{name}.ln_2", x), dtype), approximate=True)
        x = x + linear(p, f"{name}.mlp.proj", h, dtype)
    logits = linear(p, "head", layer_norm(p, "ln_f", x), dtype).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, following[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def adamw(p, g, m, v, step_size, root, decay, betas):
    """As tpu_autograd::optim::AdamW: the bias corrections are numbers that the host computes."""
    m = m + (1 - betas[0]) * (g - m)
    v = betas[1] * v + (1 - betas[1]) * g * g
    return p * decay - step_size * m / (jnp.sqrt(v) / root + 1e-8), m, v


def updated(p, gradients, m, v, *corrections, betas):
    """The dicts of parameters and of both averages after a step."""
    new = {name: adamw(p[name], gradients[name], m[name], v[name], *corrections, betas) for name in p}
    return tuple({name: parts[at] for name, parts in new.items()} for at in range(3))


def step_of(loss, betas):
    """A step of training for a loss of a dict of parameters and a batch; gives parameters, both averages and the loss before."""

    def step(p, m, v, batch, step_size, root, decay):
        value, gradients = jax.value_and_grad(loss)(p, *batch)
        return *updated(p, gradients, m, v, step_size, root, decay, betas=betas), value

    return step
