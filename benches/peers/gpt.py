"""A small byte-level GPT in PyTorch: the model that examples/train_gpt trains, with the same parameter names.

Pre-norm blocks, causal attention with rotary positions, a tanh-form gelu, an untied output layer without bias. Linear
weights are [out, in].
`attn.qkv` gives the queries, keys and values in this order, each split into heads of width / heads.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a model and of its batches; the defaults are those of examples/train_gpt."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    context: int = 256
    batch: int = 8

    @staticmethod
    def add_arguments(parser, **defaults):
        """Adds a flag per size. Heads default to one per 64 of width."""
        default = Config(**defaults)
        parser.add_argument("--layers", type=int, default=default.layers)
        parser.add_argument("--width", type=int, default=default.width)
        parser.add_argument("--heads", type=int, help="default: width / 64, at least 1")
        parser.add_argument("--context", type=int, default=default.context)
        parser.add_argument("--batch", type=int, default=default.batch)

    @staticmethod
    def from_arguments(args):
        heads = args.heads or max(1, args.width // 64)
        return Config(args.layers, args.width, heads, args.context, args.batch)


def rotated(x):
    """Elements i and i + width/2 of each head turned by position * 10000^(-2i / width)."""
    time, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.arange(time, dtype=torch.float32)[:, None] * torch.exp(torch.arange(half) * (-math.log(10000.0) / half))
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x):
        batch, context, width = x.shape
        # [batch, context, 3, heads, width of a head] -> three of [batch, heads, context, width of a head]
        q, k, v = self.qkv(x).view(batch, context, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, context, width))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, 4 * config.width)
        self.proj = nn.Linear(4 * config.width, config.width)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, eps=1e-5)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width, eps=1e-5)
        self.mlp = Mlp(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, VOCABULARY, bias=False)

    def forward(self, tokens):
        """Logits [batch, context, 256] of int64 tokens [batch, context]."""
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))

    def loss(self, tokens):
        """Mean cross entropy, in nats per byte, of int64 tokens [batch, context + 1]."""
        logits = self(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def make(config, seed):
    """A model with its first weights: normal with deviation 0.02, those that end in the residual stream smaller by
    sqrt(2 layers), biases 0, norms 1."""
    model = Gpt(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "ln_" in name:
                parameter.fill_(1.0)
            else:
                std = 0.02 / math.sqrt(2 * config.layers) if name.endswith("proj.weight") else 0.02
                parameter.normal_(0.0, std, generator=generator)
    return model


def optimizer(model):
    """AdamW with the settings of the comparison; weight decay on every parameter."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)


def step(model, adamw, tokens):
    """One step of training; returns the loss before it."""
    loss = model.loss(tokens)
    adamw.zero_grad()
    loss.backward()
    adamw.step()
    return loss.item()
