"""Writes convert.txt: what PyTorch's CPU conversions give at the boundary values of every pair of dtypes.

    python make_convert.py > convert.txt        # with PyTorch 2.15

Each line is `source target` and then, for each input of the source (listed once, in a line `source inputs`), the bits of
the result in hexadecimal, `bits~count` for equal ones in a row. NaN results of types with more than eight bits are written `n`: their payload is not compared.

Lines `# all source target hash` hold the FNV-1a hash of the results of all 65536 inputs of a 16-bit float.

C++ leaves conversions of floats out of an integer's range undefined, and PyTorch's scalar and vector loops may answer
differently. So every input is converted alone and in a tensor of 64 equal elements. Where the two differ the scalar loop's
value is written, with a `*` before it: that one is what `dtype/convert.rs` documents.
"""

import itertools
import sys

import torch

TYPES = {
    "bool": torch.uint8, "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64,
    "int8": torch.uint8, "int16": torch.uint16, "int32": torch.uint32, "int64": torch.uint64,
    "float16": torch.uint16, "bfloat16": torch.uint16, "float32": torch.uint32, "float64": torch.uint64,
    "float8_e4m3fn": torch.uint8, "float8_e5m2": torch.uint8, "complex64": torch.uint64,
}
# (exponent bits, mantissa bits, largest finite) of the floats.
FLOATS = {
    "float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52),
    "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2),
}


def bits(tensor):
    """The bits of each element, as Python integers."""
    if tensor.dtype == torch.complex64:
        pairs = torch.view_as_real(tensor).contiguous().view(torch.uint32).tolist()
        return [re | im << 32 for re, im in pairs]
    return tensor.view(TYPES[name(tensor.dtype)]).tolist()


def name(dtype):
    return str(dtype).removeprefix("torch.")


def from_bits(source, values):
    """A tensor of `source` from the bits of its elements."""
    if source == "complex64":
        halves = torch.tensor([[v & 0xFFFFFFFF, v >> 32] for v in values], dtype=torch.uint32)
        return torch.view_as_complex(halves.view(torch.float32))
    return torch.tensor(values, dtype=TYPES[source]).view(getattr(torch, source))


def edges():
    """Numbers at which some dtype changes its mind, exact as f64."""
    numbers = [0.0, 0.5, 1.0, 1.5, 2.5, 3.5, 0.1, 0.999, 127.5, 254.5, 255.5, 300.7, 1e10, 1e20, 3e38]
    for exponent, mantissa in FLOATS.values():
        if exponent == 11:
            continue
        bias = 2 ** (exponent - 1) - 1
        least = 2.0 ** (1 - bias - mantissa)
        numbers += [least, least / 2, least * 1.5, least * 0.75, least * 0.5000001, 2.0 ** (1 - bias), 2.0 ** (1 - bias) - least]
        largest = 2.0 ** bias * (2 - 2.0**-mantissa)
        numbers += [largest, largest + 2.0 ** (bias - mantissa - 1), largest + 2.0 ** (bias - mantissa - 2)]
        numbers += [1 + 2.0**-mantissa, 1 + 2.0 ** (-mantissa - 1), 1 + 3 * 2.0 ** (-mantissa - 1)]
        # Just above a tie: rounding through f32 makes it one.
        numbers += [1 + 2.0 ** (-mantissa - 1) + 2.0**-30]
    numbers += [448.0, 464.0, 465.0, 480.0, 512.0, 57344.0, 61440.0, 61441.0, 65504.0, 65519.0, 65520.0, 65536.0]
    for k in (7, 8, 15, 16, 24, 31, 32, 33, 53, 62, 63, 64):
        numbers += [2.0**k, 2.0**k - 1, 2.0**k + 1, 2.0**k - 0.5, 2.0**k + 0.5]
    numbers += [2.0**40 + 5 * 256 + 3, 2.0**33 + 70000.75]
    return sorted({sign * x for x in numbers for sign in (1.0, -1.0)}, key=lambda x: (abs(x), x))


def inputs(source):
    """Bits of the boundary inputs of a dtype."""
    width = torch.empty((), dtype=getattr(torch, source)).element_size() * 8
    if source == "bool":
        return [0, 1]
    if source in ("float8_e4m3fn", "float8_e5m2"):
        return list(range(256))
    if source in FLOATS:
        exponent, mantissa = FLOATS[source]
        infinity = (2**exponent - 1) << mantissa
        patterns = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity, infinity | 1 << (mantissa - 1)]
        sign = 1 << (width - 1)
        wanted = torch.tensor(edges(), dtype=torch.float64).to(getattr(torch, source))
        return sorted({p | s for p in patterns for s in (0, sign)} | set(bits(wanted)))
    if source == "complex64":
        parts = bits(torch.tensor([0.0, -0.0, 1.0, -1.5, 300.7, 65520.0, 3e9, 1e20, float("inf"), float("nan")]))
        return [re | im << 32 for re in parts for im in (parts[0], parts[2], parts[-1])]
    values = {0, 1, 2, 3, 10, 100}
    for k in range(1, width + 1):
        values |= {2**k, 2**k - 1, 2**k + 1}
    for digits in (3, 4, 8, 11, 24, 53):
        # Ties at the end of every float's mantissa, and their neighbours.
        for shift in (1, 2, width - digits - 2):
            for tail in (-1, 0, 1):
                values |= {((2**digits + odd) << max(shift, 0)) + (1 << max(shift - 1, 0)) + tail for odd in (0, 1)}
    values |= {465, 464, 480, 57344, 61440, 61441, 65504, 65519, 65520, 65535}
    mask = 2**width - 1
    return sorted({v & mask for v in values} | {-v & mask for v in values})


def line(words, width=130):
    """Words separated by blanks, equal ones counted, wrapped with a leading blank."""
    text = ""
    for word, run in itertools.groupby(words):
        count = len(list(run))
        word += f"~{count}" if count > 1 else ""
        if len(text) - text.rfind("\n") + len(word) > width:
            text += "\n"
        text += " " + word
    return text


def shown(target, value):
    if target in FLOATS and not target.startswith("float8"):
        exponent, mantissa = FLOATS[target]
        if value & ((1 << (exponent + mantissa)) - 1) > (2**exponent - 1) << mantissa:
            return "n"
    return f"{value:x}"


def fnv1a(values):
    """The 64-bit hash of bytes."""
    hashed = 0xCBF29CE484222325
    for value in values:
        hashed = ((hashed ^ value) * 0x100000001B3) & (2**64 - 1)
    return hashed


def main():
    print(f"# PyTorch {torch.__version__.split('+')[0]}, by make_convert.py")
    for source in ("float16", "bfloat16"):
        every = from_bits(source, list(range(65536)))
        for target in ("float8_e4m3fn", "float8_e5m2"):
            print(f"# all {source} {target} {fnv1a(bits(every.to(getattr(torch, target)))):x}")
    for source in TYPES:
        values = inputs(source)
        print(f"{source} inputs\n{line([f'{v:x}' for v in values])}")
        for target in TYPES:
            dtype = getattr(torch, target)
            words = []
            for value in values:
                alone = from_bits(source, [value])
                one = bits(alone.to(dtype, copy=True))[0]
                many = bits(alone.repeat(64).to(dtype, copy=True))
                if target == "complex64":
                    words.append(shown("float32", one & 0xFFFFFFFF) + "," + shown("float32", one >> 32))
                    continue
                words.append(("" if all(shown(target, m) == shown(target, one) for m in many) else "*") + shown(target, one))
            print(f"{source} {target}\n{line(words)}")
            print(f"{source} {target}", end="\r", file=sys.stderr)


main()
