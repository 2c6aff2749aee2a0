"""Compiles a training step of the GPT of gpt.py, written in JAX (gpt_jax.py), for TPUs that are not there, and prints what Google's
compiler says of it: one JSON object per target.

    python plan_gpt_jax.py --targets v5e:2x2,v6e:2x2,tpu7x:2x2x1 [--text FILE]

needs JAX and the libtpu it is paired with (`pip install "jax[tpu]"`), no TPU. `--text` writes the step as StableHLO, for
`tpu-plan` to compile with the same libtpu.

The step is that of examples/train_gpt: float32 with float32 products, forward, backward, AdamW; parameters and both averages
are donated, gradients are not kept.
"""

import argparse
import json
import os
import re
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
import jax.numpy as jnp
from jax.experimental import topologies

import gpt_jax

DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


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
        p = {name: of(shape) for name, shape in gpt_jax.parameters(args.layers, args.width).items()}
        tokens = of((args.batch, args.context + 1), jnp.uint8)
        heads, dtype = args.heads or max(1, args.width // 64), DTYPES[args.dtype]
        step = gpt_jax.step_of(lambda p, tokens: gpt_jax.loss(p, tokens, args.layers, heads, dtype), (0.9, 0.95))
        lowered = jax.jit(step, donate_argnums=(0, 1, 2)).lower(p, p, p, (tokens,), of(()), of(()), of(()))
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
