"""Writes display.txt: how PyTorch 2.15 prints tensors. `python make_display.py`, from this directory.

An entry is a line `dtype [sizes] elements`, the printed lines, and a line `--`. Elements are numbers (complex ones `re:im`), or
`from START by STEP`.
"""

import math
import pathlib

import torch

INF, NAN = math.inf, math.nan
entries = []


def write(dtype, shape, text, tensor):
    name = str(dtype).removeprefix("torch.")
    entries.append(f"{name} {list(shape)} {text}\n{tensor!s}\n--\n")


def show(values, dtype=torch.float32, shape=None):
    tensor = torch.tensor(values, dtype=dtype)
    tensor = tensor if shape is None else tensor.reshape(shape)
    def number(v):
        if isinstance(v, complex):
            return f"{v.real!r}:{v.imag!r}"
        return str(int(v)) if isinstance(v, bool) else repr(v)
    write(dtype, tensor.shape, " ".join(number(v) for v in tensor.flatten().tolist()), tensor)


def count(shape, start=0, step=1, dtype=torch.float32):
    n = math.prod(shape)
    tensor = (torch.arange(n, dtype=torch.float64) * step + start).to(dtype).reshape(shape)
    write(dtype, shape, f"from {start!r} by {step!r}", tensor)


# Scalars.
for value in (0.0, -0.0, 1.0, 1.5, -2.25, 1e-5, 1e9, 123456789.0, 3.14159265, INF, -INF, NAN):
    show(value)
# Integers, decimals, exponents; ties; NaN and infinities beside each.
show([1.0, 2.0, -3.0])
show([1.0, 2.5, -3.0, 0.0])
show([1.0, 1000.0])
show([1.0, 1001.0])
show([0.5, 1000.5])
show([1e-4, 0.05])
show([9.9e-5, 0.05])
show([1e8])
show([1.1e8])
show([1e8, 3e8])
show([0.03125, 0.09375, 0.15625])
show([1e-10, 1e10, -1e30])
show([1e-300, 2e-300], torch.float64)
show([1e300, -2e300, 0.0], torch.float64)
show([NAN, INF, -INF])
show([NAN, 0.0, -0.0])
show([NAN, 1.0, -INF])
show([NAN, 1.25, INF])
show([NAN, 1.25e9, INF])
show([-12345.0, 1.0, INF])
show([100.0, 0.25, NAN], shape=(3, 1))
# Every dtype.
for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64):
    info = torch.iinfo(dtype)
    show([0, 7, info.min, info.max], dtype)
    show(5, dtype)
show([True, False], torch.bool)
show([True, True], torch.bool, (2, 1))
show(True, torch.bool)
for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2):
    show([1.0, -0.5, 96.0], dtype)
    show([1.0, 2.0], dtype)
    show([0.1, 0.3], dtype)
    show([1.0, 2.0**-9, NAN], dtype)
show([1 + 2j, -1.5 - 0.25j, 0j], torch.complex64)
show([1 + 2j, 3 - 4j], torch.complex64)
show(1 - 2j, torch.complex64)
show([complex(NAN, INF), complex(1e-6, -INF), complex(0.0, -0.0)], torch.complex64)
show([[1 + 2j, 1e9 + 0.5j]], torch.complex64)
# Empty ones.
for shape in ((0,), (0, 3), (2, 0, 1), (3, 0)):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        write(dtype, shape, "", torch.empty(shape, dtype=dtype))
# Nesting and lines.
count((2, 3))
count((2, 3, 4), dtype=torch.int64)
count((2, 1, 2, 3), 0.5)
count((1, 1, 1, 1, 2))
count((30,))
count((30,), 0.25, 1.125)
count((2, 25), -7, 3, dtype=torch.int32)
count((17,), dtype=torch.int32)
count((9,), 10000000, 1, dtype=torch.int32)
count((40,), 1e-7, 1.0)
# Abridged.
count((1000,))
count((1001,))
count((1001,), dtype=torch.int32)
count((2000,), 0.0, 0.5)
count((7, 200))
count((6, 200), dtype=torch.int64)
count((400, 3))
count((11, 10, 10), 0.25, 0.5)
count((2, 3, 400), dtype=torch.int16)
count((8, 2, 7, 10))
count((1001,), 1e-3, 1.0)
pathlib.Path("display.txt").write_text("".join(entries))
print(len(entries), "entries")
