"""The measured side of `cargo xtask bench`: the line protocol, time and memory.

Set-up and warm-up first, then the script prints `ready`. A line `run` is answered with the milliseconds of one run,
`memory` with the bytes by which the process's peak grew since `Peak` was made. It ends with its input. Without
--interleave it runs alone and prints medians as `name value` lines.
"""

import gc
import resource
import statistics
import sys
import time


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
        return self._peak() - self.start

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


def milliseconds(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def add_arguments(parser):
    parser.add_argument("--interleave", action="store_true", help="measure on request, see measure.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15, help="without --interleave")


def serve(args, run, peak):
    """Warms up, then answers requests, or measures alone."""
    for _ in range(args.warm_up):
        run()
    if not args.interleave:
        times = [milliseconds(run) for _ in range(args.rounds)]
        print(f"median_ms {statistics.median(times):.3f}")
        print(f"min_ms {min(times):.3f}")
        print(f"peak_bytes {peak.growth()}")
        return
    print("ready", flush=True)
    for line in sys.stdin:
        request = line.strip()
        if request == "run":
            print(f"{milliseconds(run):.6f}", flush=True)
        elif request == "memory":
            print(peak.growth(), flush=True)
        else:
            raise SystemExit(f"unknown request {request!r}")
