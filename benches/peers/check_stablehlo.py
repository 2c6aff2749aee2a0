"""Parses and verifies every `.mlir` file of a folder with the StableHLO dialect of jaxlib, and compiles it with XLA.

    cargo test -p tpu-core --lib ir::text
    pip install jax==0.10.2
    python benches/peers/check_stablehlo.py target/stablehlo [--compile]

Prints the files that fail and exits with their number. With `--compile`, files also go through XLA's compiler for
CPU; custom calls that only TPUs have, and programs for several devices, are expected to fail there and are listed.
"""

import pathlib
import sys

from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir


def verify(text):
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()


def compile(text):
    from jax._src import compiler

    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    backend = xla_bridge.get_backend("cpu")
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        backend.compile_and_load(module, xla_client.DeviceList(tuple(backend.devices()[:1])), options)


def main():
    steps = [verify] + ([compile] if "--compile" in sys.argv else [])
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.mlir"))
    failed = 0
    for file in files:
        for step in steps:
            try:
                step(file.read_text())
            except Exception as error:  # Errors of MLIR and XLA have no common class.
                failed += 1
                print(f"{step.__name__} {file.name}: {str(error)[:400]}")
                break
    print(f"{len(files)} files, {failed} failed")
    sys.exit(min(failed, 125))


main()
