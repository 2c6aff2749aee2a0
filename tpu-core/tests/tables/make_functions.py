"""Makes functions.txt: elementary functions of float64 numbers, correctly rounded.

    python make_functions.py > functions.txt

Each value is computed with mpmath at 200 bits more than the argument needs and rounded once. Needs mpmath (comes with
PyTorch's sympy). The arguments are every thirty-second power of two with a mantissa that looks random, the ends of each
exponent's range there, subnormal numbers, and an even grid where a function is neither its limit nor its first term.
"""

import math
import struct

import mpmath

mpmath.mp.prec = 1400  # Sines of numbers up to 2^1024 keep 300 bits.


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def number(word):
    return struct.unpack("<d", struct.pack("<Q", word))[0]


def everywhere():
    """Positive numbers of every thirty-second exponent."""
    state = 1
    for exponent in range(0, 2047, 32):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        for mantissa in (0, state >> 12, 2**52 - 1):
            yield number(exponent << 52 | mantissa)
    yield from (number(1), number(12345), number(2**52 - 1))


def grid(low, high, count):
    """Numbers between two ends, none of them round."""
    return [low + (high - low) * (i + 0.618) / count for i in range(count)]


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


# Name, function, where its domain starts, where to look closely.
FUNCTIONS = [
    ("exponential", mpmath.exp, -math.inf, grid(-746, 711, 160) + grid(-2, 2, 40)),
    ("exponential_minus_one", mpmath.expm1, -math.inf, grid(-50, 711, 100) + grid(-2, 2, 80)),
    ("log", mpmath.log, 0, grid(0, 3, 120) + grid(0.99, 1.01, 60)),
    ("log_plus_one", mpmath.log1p, -1, grid(-1, 3, 120) + grid(-0.01, 0.01, 60)),
    ("logistic", logistic, -math.inf, grid(-746, 40, 200)),
    ("tanh", mpmath.tanh, -math.inf, grid(-20, 20, 160) + grid(-1, 1, 40)),
    ("erf", mpmath.erf, -math.inf, grid(-6.5, 6.5, 200)),
    ("sine", mpmath.sin, -math.inf, grid(-50, 50, 120) + [k * math.pi for k in range(1, 60)]),
    ("cosine", mpmath.cos, -math.inf, grid(-50, 50, 120) + [(k + 0.5) * math.pi for k in range(60)]),
]


def rounded(value):
    """To the nearest float64, ties to even; mpmath's own conversion loses subnormal numbers' last bits."""
    if value == 0:
        return 0.0
    sign, man, exp, bc = value._mpf_
    top = exp + bc  # 2^(top-1) <= |value| < 2^top
    step = max(top - 53, -1074)
    shift = exp - step
    if shift >= 0:
        whole = man << shift
    else:
        whole, rest = man >> -shift, man & ((1 << -shift) - 1)
        half = 1 << (-shift - 1)
        whole += rest > half or (rest == half and whole & 1)
    try:
        result = math.ldexp(whole, step)
    except OverflowError:
        result = math.inf
    return -result if sign else result


def main():
    print("# Made by make_functions.py: bits of x, bits of the correctly rounded f(x).")
    for name, function, low, close in FUNCTIONS:
        print(name)
        arguments = list(close)
        for x in everywhere():
            arguments += [x, -x]
        for x in arguments:
            if x < low or (x == low and x != 0):
                continue
            if name.startswith("exponential") and x > 720:
                value = math.inf
            elif name.startswith("exponential") and x < -1000:
                value = -1.0 if name.endswith("one") else 0.0
            elif name == "logistic" and abs(x) > 1000:
                value = 1.0 if x > 0 else 0.0
            elif name in ("tanh", "erf") and abs(x) > 1000:
                value = math.copysign(1.0, x)
            elif name == "log" and x == 0:
                value = -math.inf
            else:
                value = rounded(function(mpmath.mpf(x)))
            if value == 0.0 and x == 0.0 and name not in ("cosine", "exponential"):
                value = math.copysign(0.0, x)
            print(f" {bits(x):x} {bits(value):x}")


main()
