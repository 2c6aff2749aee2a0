"""Times a step of training the GPT in eager PyTorch: forward, backward, AdamW, reading the loss."""

import argparse

import torch

import gpt
import measure


def training(config, seed):
    """A function that makes one step, over eight batches of random bytes in turn."""
    model = gpt.make(config, seed)
    adamw = gpt.optimizer(model)
    shape = (8, config.batch, config.context + 1)
    batches = torch.randint(gpt.VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))
    count = 0

    def run():
        nonlocal count
        count += 1
        return gpt.step(model, adamw, batches[count % len(batches)])

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    gpt.Config.add_arguments(parser)
    measure.add_arguments(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    # A tiny model first: it loads the library's code and starts its threads, which is no memory of a step.
    training(gpt.Config(layers=1, width=64, heads=1, context=16, batch=2), seed=1)()
    peak = measure.Peak()
    measure.serve(args, training(gpt.Config.from_arguments(args), seed=1), peak)


if __name__ == "__main__":
    main()
