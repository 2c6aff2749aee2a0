"""Trains the CNN, the LSTM or the ResNet of this folder and writes all that is needed to repeat it elsewhere: the first weights,
the batches, and the loss of every step.

    python export_curve.py cnn --data target/data/mnist.safetensors --out FOLDER
    python export_curve.py lstm --data target/data/shakespeare.txt --out FOLDER
    python export_curve.py resnet --data target/data/mnist.safetensors --out FOLDER

writes FOLDER/init.safetensors (float32, PyTorch's names, buffers too), FOLDER/batches.safetensors (uint8; `tokens` [steps, batch,
context + 1], or `images` [steps, batch, 1, side, side] and `labels` [steps, batch]) and FOLDER/curve.json. `loss[i]` there is the
loss of batch i before update i; `loss_f64` is the same training in double precision: what separates the two is rounding, nothing
else. `buffers` are the running statistics after the last step.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import cnn
import lstm
import resnet

OPTIMIZER = {"name": "AdamW", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01}
STEPS, SEED = 50, 1
# Sizes, batch and learning rate. At 5e-3 the ResNet of PyTorch itself differs by 0.07 between float32 and float64.
CONFIGS = {
    "cnn": ({"side": 14, "channels": 8, "hidden": 32}, 16, 5e-3),
    "lstm": ({"layers": 2, "width": 16, "hidden": 32}, 8, 5e-3),
    "resnet": ({"width": 4, "blocks": 1}, 8, 2e-3),
}
CONTEXT = 32


def digits(path, batch, side):
    """Digits at places drawn with a generator of its own; means of 2 by 2 pixels."""
    data = load_file(path)
    places = torch.randint(len(data["train_labels"]), (STEPS, batch), generator=torch.Generator().manual_seed(SEED + 1))
    images = F.avg_pool2d(data["train_images"][places].float(), 28 // side).round().to(torch.uint8)
    return {"images": images[:, :, None].contiguous(), "labels": data["train_labels"][places].contiguous()}


def windows(path, batch):
    text = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    starts = torch.randint(len(text) - CONTEXT, (STEPS, batch), generator=torch.Generator().manual_seed(SEED + 1))
    return {"tokens": text[starts[..., None] + torch.arange(CONTEXT + 1)].contiguous()}


def train(model, batches, lr):
    adamw = torch.optim.AdamW(model.parameters(), lr=lr, **{k: v for k, v in OPTIMIZER.items() if k != "name"})
    losses = []
    for step in range(STEPS):
        loss = model.loss(*(tensor[step] for tensor in batches.values()))
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=CONFIGS)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    config, batch, lr = CONFIGS[args.model]
    make = lambda: {"cnn": cnn.Cnn, "lstm": lstm.ByteLstm, "resnet": resnet.ResNet}[args.model](**config)
    batches = windows(args.data, batch) if args.model == "lstm" else digits(args.data, batch, 14)

    torch.manual_seed(SEED)
    model = make()
    first = {name: value.clone() for name, value in model.state_dict().items()}
    loss = train(model, batches, lr)
    double = make().double()
    double.load_state_dict(first)
    loss_f64 = train(double, batches, lr)

    args.out.mkdir(parents=True, exist_ok=True)
    save_file(first, args.out / "init.safetensors")
    save_file(batches, args.out / "batches.safetensors")
    curve = {
        "torch": torch.__version__.split("+")[0],
        "config": config | {"steps": STEPS, "batch": batch, "seed": SEED},
        "optimizer": OPTIMIZER | {"lr": lr},
        "loss": loss,
        "loss_f64": loss_f64,
        "buffers": {name: value.flatten().tolist() for name, value in model.named_buffers()},
    }
    (args.out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n")
    rounding = max(abs(a - b) for a, b in zip(loss, loss_f64))
    print(f"loss {loss[0]:.4f} -> {loss[-1]:.4f} in {STEPS} steps; float32 against float64: at most {rounding:.1e}")


if __name__ == "__main__":
    main()
