"""Writes promotion.txt: PyTorch 2.15's type promotion. `python make_promotion.py`, from this directory.

`promote A B RESULT`: torch.promote_types. `result TENSOR ZERO NUMBER RESULT`: torch.result_type of one or two of a
tensor with axes, a tensor without and a Python number, `-` for none. RESULT is `error` where PyTorch refuses.
"""

import itertools
import pathlib

import torch

NAMES = """bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2
complex64""".split()
NUMBERS = {"bool": True, "int": 3, "float": 0.5, "complex": 1j, "-": None}


def name(call):
    try:
        return str(call()).removeprefix("torch.")
    except RuntimeError:
        return "error"


def combined(operands):
    first, *rest = [operand for operand in operands if operand is not None]
    return torch.result_type(first, rest[0] if rest else first)


lines = []
for a, b in itertools.product(NAMES, NAMES):
    lines.append(f"promote {a} {b} {name(lambda: torch.promote_types(getattr(torch, a), getattr(torch, b)))}")
for tensor, zero, number in itertools.product([*NAMES, "-"], [*NAMES, "-"], NUMBERS):
    parts = [
        None if tensor == "-" else torch.zeros(2).to(getattr(torch, tensor)),
        None if zero == "-" else torch.zeros(()).to(getattr(torch, zero)),
        NUMBERS[number],
    ]
    if 1 <= sum(part is not None for part in parts) <= 2:
        lines.append(f"result {tensor} {zero} {number} {name(lambda: combined(parts))}")
pathlib.Path("promotion.txt").write_text("\n".join(lines) + "\n")
print(len(lines), "lines")
