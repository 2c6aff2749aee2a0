"""Compiles a training step of the GPT of gpt.py, written in JAX, for TPUs that are not there, and prints what Google's
compiler says of it: one JSON object per target.

    python plan_gpt_jax.py --targets v5e:2x2,v6e:2x2,tpu7x:2x2x1 [--text FILE]

needs JAX and the libtpu it is paired with (`pip install "jax[tpu]"`), no TPU. `--text` writes the step as StableHLO, for
`tpu-plan` to compile with the same libtpu.

The step is that of examples/train_gpt: float32 with float32 products, forward, backward, AdamW; parameters and both averages
are donated, gradients are not kept.
"""

import argparse
import json
import math
import os
import re
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
import jax.numpy as jnp
from jax.experimental import topologies

VOCABULARY = 256
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


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


def adamw(p, g, m, v, step_size, root, decay):
    """As tpu_autograd::optim::AdamW: the bias corrections are numbers that the host computes."""
    m = m + (1 - 0.9) * (g - m)
    v = 0.95 * v + (1 - 0.95) * g * g
    return p * decay - step_size * m / (jnp.sqrt(v) / root + 1e-8), m, v


def training_step(layers, heads, dtype):
    def step(p, m, v, tokens, step_size, root, decay):
        value, gradients = jax.value_and_grad(loss)(p, tokens, layers, heads, dtype)
        new = {name: adamw(p[name], gradients[name], m[name], v[name], step_size, root, decay) for name in p}
        return *({name: parts[at] for name, parts in new.items()} for at in range(3)), value

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="v5e:2x2,v6e:2x2,tpu7x:2x2x1")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--text", help="write the step as StableHLO text and compile nothing")
    args = parser.parse_args()
    # What PyTorch and this project mean by a float32 product.
    jax.config.update("jax_default_matmul_precision", "highest" if args.dtype == "f32" else "default")

    for target in args.targets.split(","):
        device = topologies.get_topology_desc(platform="tpu", topology_name=target).devices[0]
        place = jax.sharding.SingleDeviceSharding(device)
        of = lambda shape, dtype=jnp.float32: jax.ShapeDtypeStruct(shape, dtype, sharding=place)
        p = {name: of(shape) for name, shape in parameters(args.layers, args.width).items()}
        tokens = of((args.batch, args.context + 1), jnp.uint8)
        step = training_step(args.layers, args.heads or max(1, args.width // 64), DTYPES[args.dtype])
        lowered = jax.jit(step, donate_argnums=(0, 1, 2)).lower(p, p, p, tokens, of(()), of(()), of(()))
        if args.text:
            with open(args.text, "w") as file:
                file.write(lowered.as_text())
            return
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
        memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
        # Those inside of fusions have no note of their own. The largest number that there is means that it is not known.
        cycles = [int(c) for c in re.findall(r'"estimated_cycles":"(\d+)"', compiled.as_text())]
        cycles = [c for c in cycles if c < 2**63 - 1]
        line = {
            "target": target,
            "compile_seconds": round(seconds, 1),
            "estimated_cycles": sum(cycles),
            "operations_with_estimate": len(cycles),
            "flops": cost["flops"],
            "peak_bytes": memory.peak_memory_in_bytes,
            "argument_bytes": memory.argument_size_in_bytes,
            "output_bytes": memory.output_size_in_bytes,
            "alias_bytes": memory.alias_size_in_bytes,
            "temp_bytes": memory.temp_size_in_bytes,
            "code_bytes": memory.generated_code_size_in_bytes,
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
