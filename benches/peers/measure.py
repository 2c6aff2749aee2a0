"""The other side of `cargo xtask bench host`: the line protocol, time, memory, and the numbers that every side starts from.

README.md has the protocol. A script registers what it can do with `@case(kind)` and calls `main`.
"""

import argparse
import gc
import os
import resource
import sys
import time

import numpy

KINDS = {}
SAMPLED = 1024  # most elements of a result that are compared


def case(kind):
    """Registers a function of a dict of parameters. It sets a case up and returns a function that makes one run."""

    def register(set_up):
        KINDS[kind] = set_up
        return set_up

    return register


def arguments(description, **flags):
    """Reads the command line: --threads, and flags by name with their help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=2)
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    return parser.parse_args()


def _hashes(count, salt):
    """24 bits each: "lowbias32" of C. Wellons' hash-prospector, of position and salt."""
    x = numpy.arange(count, dtype=numpy.uint32)
    x += numpy.uint32(salt * 0x9E3779B9 & 0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> numpy.uint32(shift)
        x *= numpy.uint32(factor)
    x ^= x >> numpy.uint32(16)
    x >>= numpy.uint32(8)
    return x


def numbers(shape, salt, scale=1.0):
    """float32 from -scale to scale."""
    values = _hashes(int(numpy.prod(shape)), salt).astype(numpy.float32)
    values *= numpy.float32(2.0**-23)
    values -= numpy.float32(1.0)
    values *= numpy.float32(scale)
    return values.reshape(shape)


def integers(shape, salt, bound):
    """int64 from 0 to bound - 1."""
    return (_hashes(int(numpy.prod(shape)), salt) % numpy.uint32(bound)).astype(numpy.int64).reshape(shape)


def read(words):
    """A dict of `key=value` words; what looks like a number is one."""
    pairs = (word.split("=", 1) for word in words)
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


class Peak:
    """How far the peak of resident memory rises above what is resident now.

    On Linux the peak is first set back to now, so what a library's start-up took does not hide anything.
    """

    def __init__(self):
        gc.collect()
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass
        self.start = self._peak()

    def growth(self):
        return max(0, self._peak() - self.start)

    @staticmethod
    def _peak():
        try:
            with open("/proc/self/status") as file:
                for line in file:
                    if line.startswith("VmHWM:"):
                        return int(line.split()[1]) * 1024
        except OSError:
            pass
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _sample(results):
    """What is compared of float32 arrays, with `;` between them: the root mean square, then elements spread evenly."""
    texts = []
    for values in results:
        values = values.ravel()
        # In double precision, piece by piece: of 16 million squares a sum in float32 is off by 1e-4.
        pieces = (values[at : at + 65536].astype(numpy.float64) for at in range(0, values.size, 65536))
        square = sum(float(piece @ piece) for piece in pieces) / max(1, values.size)
        count = min(values.size, SAMPLED)
        picked = values[numpy.arange(count) * values.size // max(1, count)]
        texts.append(" ".join(f"{float(value):.9g}" for value in (square**0.5, *picked)))
    return ";".join(texts)


class _Case:
    def __init__(self, request, read_back):
        kind, *words = request.split()
        if kind not in KINDS:
            raise ValueError(f"requires a known kind, got `{kind}`")
        self.peak = Peak()
        parameters = read(words)
        self.run = KINDS[kind](parameters)
        outputs = [_sample(read_back(self.run()))]
        for _ in range(1, max(2, parameters.get("compared", 2))):
            start = time.perf_counter()
            results = self.run()
            self.milliseconds = (time.perf_counter() - start) * 1e3
            outputs.append(_sample(read_back(results)))
        self.outputs = ";".join(outputs)

    def times(self, count):
        """Milliseconds of a run: by the wall, and of all threads together."""
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.run()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        return f"{wall * 1e3 / count:.6f} {processor * 1e3 / count:.6f}"


def main(read_back):
    """Answers requests until they end. A run returns when it is done; `read_back` makes float32 arrays of what it gives."""
    # Standard output is the protocol: whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    current = None
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        try:
            if verb == "case":
                current = None
                current = _Case(rest, read_back)
                answer = f"ready {current.milliseconds:.6f}"
            elif verb == "run":
                answer = current.times(int(rest))
            elif verb == "outputs":
                answer = current.outputs
            elif verb == "memory":
                answer = str(current.peak.growth())
            else:
                raise ValueError(f"requires case, run, outputs or memory, got `{verb}`")
        except Exception as error:  # whatever it is, it is the answer, and the next request may go well
            answer = f"error {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, file=answers, flush=True)
