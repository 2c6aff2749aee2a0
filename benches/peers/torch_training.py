"""Steps of training in PyTorch: forward, backward and AdamW; each gives the loss before it."""

import torch
import torch.nn.functional as F
from torch import nn

import gpt
import lstm
import measure
import resnet

BATCHES = 4  # that a case goes through in turn


def weigh(model):
    """The first weights that every library can make: numbers within 1/sqrt(elements of an output), by the place of the
    parameter among all; zeros for biases; the ones of norms stay."""
    with torch.no_grad():
        for at, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() > 1:
                scale = parameter[0].numel() ** -0.5
                parameter.copy_(torch.from_numpy(measure.numbers(tuple(parameter.shape), at, scale)))
            elif "bias" in name:
                parameter.zero_()
    return model


def steps(model, loss, batches, betas, compiled, fused):
    """A function that makes one step. Compiled, the forward and the backward pass are, and AdamW is PyTorch's fused one."""
    weigh(model)
    loss = compiled(loss)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=betas, eps=1e-8, weight_decay=0.01, fused=fused or None)
    count = 0

    def run():
        nonlocal count
        value = loss(*batches[count % BATCHES])
        count += 1
        adamw.zero_grad()
        value.backward()
        adamw.step()
        return [value.detach()]

    return run


def classifier(model, p, classes, shape, compiled, fused):
    """Trains a model of `shape` to [batch, classes]."""
    batches = [
        (
            torch.from_numpy(measure.numbers(shape, 1000 + at)),
            torch.from_numpy(measure.integers((p["batch"],), at, classes)),
        )
        for at in range(BATCHES)
    ]
    loss = lambda x, labels: F.cross_entropy(model(x), labels)
    return steps(model, loss, batches, (0.9, 0.999), compiled, fused)


def next_byte(model, p, compiled, fused):
    """Trains a model on windows of bytes."""
    shape = (p["batch"], p["context"] + 1)
    batches = [(torch.from_numpy(measure.integers(shape, at, gpt.VOCABULARY)),) for at in range(BATCHES)]
    return steps(model, model.loss, batches, (0.9, 0.95), compiled, fused)


def register(compiled, fused):
    """Makes the kinds known. `compiled` is what functions are wrapped with."""

    @measure.case("gpt")
    def _(p):
        config = gpt.Config(p["layers"], p["width"], p["heads"], p["context"], p["batch"])
        return next_byte(gpt.Gpt(config), p, compiled, fused)

    @measure.case("lstm")
    def _(p):
        # Compiled, the layer itself stays PyTorch's own kernel: its compiler leaves recurrent layers alone.
        return next_byte(lstm.ByteLstm(p["layers"], p["width"], p["hidden"]), p, compiled, fused)

    @measure.case("resnet")
    def _(p):
        classes = 10
        model = resnet.ResNet(p["channels"], p["width"], p["blocks"], classes)
        shape = (p["batch"], p["channels"], p["size"], p["size"])
        return classifier(model, p, classes, shape, compiled, fused)

    @measure.case("mlp")
    def _(p):
        width = p["width"]
        model = nn.Sequential(
            nn.Linear(p["inputs"], width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, p["outputs"])
        )
        return classifier(model, p, p["outputs"], (p["batch"], p["inputs"]), compiled, fused)
