"""Times layer_norm(gelu_tanh(x * w + b) + r) over 4096 x 4096 float32 in eager PyTorch; w and b are rows."""

import argparse

import torch
import torch.nn.functional as F

import measure


def chain(size):
    generator = torch.Generator().manual_seed(1)
    x, r = (torch.randn(size, size, generator=generator) for _ in range(2))
    w, b, gain, bias = (torch.randn(size, generator=generator) for _ in range(4))

    def run():
        y = F.gelu(x * w + b, approximate="tanh") + r
        return F.layer_norm(y, (size,), gain, bias, 1e-5)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    measure.add_arguments(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.no_grad():
        chain(64)()
        peak = measure.Peak()
        measure.serve(args, chain(args.size), peak)


if __name__ == "__main__":
    main()
