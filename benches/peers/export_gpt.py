"""Trains the GPT of gpt.py and writes all that is needed to repeat it elsewhere: the first weights, the batches, and the
loss of every step.

    python export_gpt.py --text FILE --out FOLDER --layers 2 --width 32 --heads 2 --context 32 --batch 8 --steps 50

writes FOLDER/init.safetensors (float32, PyTorch's parameter names), FOLDER/batches.safetensors (`tokens`, uint8
[steps, batch, context + 1]) and FOLDER/curve.json. `loss[i]` there is the loss of batch i before update i; `loss_f64` is
the same training in double precision: what separates the two is rounding, nothing else.
"""

import argparse
import dataclasses
import json
import pathlib

import torch
from safetensors.torch import save_file

import gpt


def draw(text, config, steps, seed):
    """Windows of the text at places drawn with a generator of its own."""
    last = len(text) - config.context - 1
    if last < 0:
        raise SystemExit(f"the text must have at least {config.context + 1} bytes, got {len(text)}")
    starts = torch.randint(last + 1, (steps, config.batch), generator=torch.Generator().manual_seed(seed))
    return text[starts[..., None] + torch.arange(config.context + 1)]


def train(model, batches):
    adamw = gpt.optimizer(model)
    return [gpt.step(model, adamw, tokens.long()) for tokens in batches]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="read as bytes")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    gpt.Config.add_arguments(parser)
    args = parser.parse_args()
    config = gpt.Config.from_arguments(args)
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)

    text = torch.frombuffer(bytearray(args.text.read_bytes()), dtype=torch.uint8)
    batches = draw(text, config, args.steps, args.seed + 1)
    model = gpt.make(config, args.seed)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    loss = train(model, batches)
    double = gpt.make(config, args.seed).double()
    double.load_state_dict(first)
    loss_f64 = train(double, batches)

    args.out.mkdir(parents=True, exist_ok=True)
    save_file(first, args.out / "init.safetensors")
    save_file({"tokens": batches.contiguous()}, args.out / "batches.safetensors")
    curve = {
        "torch": torch.__version__.split("+")[0],
        "config": dataclasses.asdict(config) | {"steps": args.steps, "seed": args.seed, "vocabulary": gpt.VOCABULARY},
        "optimizer": {"name": "AdamW", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01},
        "loss": loss,
        "loss_f64": loss_f64,
    }
    (args.out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n")
    rounding = max(abs(a - b) for a, b in zip(loss, loss_f64))
    print(f"loss {loss[0]:.4f} -> {loss[-1]:.4f} in {args.steps} steps; float32 against float64: at most {rounding:.1e}")


if __name__ == "__main__":
    main()
