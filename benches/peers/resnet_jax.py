"""The ResNet of resnet.py in JAX, with the same parameter names. Channels are the last axis, which is JAX's order and the one
that its compiler has convolutions in."""

import jax
import jax.numpy as jnp

STAGES = 4


def layout(inputs, width, blocks):
    """Name, channels in and out and stride of each block."""
    channels = inputs
    for stage in range(STAGES):
        for block in range(blocks):
            outputs = width << stage
            yield f"layer{stage + 1}.{block}", channels, outputs, 2 if stage > 0 and block == 0 else 1
            channels = outputs


def parameters(inputs, width, blocks, classes):
    """Shapes by the names of resnet.py, in PyTorch's order of axes."""
    norm = lambda name, size: {f"{name}.weight": (size,), f"{name}.bias": (size,)}
    shapes = {"conv1.weight": (width, inputs, 3, 3)} | norm("bn1", width)
    for name, channels, outputs, stride in layout(width, width, blocks):
        shapes |= {f"{name}.conv1.weight": (outputs, channels, 3, 3)} | norm(f"{name}.bn1", outputs)
        shapes |= {f"{name}.conv2.weight": (outputs, outputs, 3, 3)} | norm(f"{name}.bn2", outputs)
        if stride != 1 or channels != outputs:
            shapes |= {f"{name}.downsample.0.weight": (outputs, channels, 1, 1)} | norm(f"{name}.downsample.1", outputs)
    return shapes | {"fc.weight": (classes, width << STAGES - 1), "fc.bias": (classes,)}


def laid_out(p):
    """Parameters with kernels [height, width, in, out]."""
    return {name: value.transpose(2, 3, 1, 0) if value.ndim == 4 else value for name, value in p.items()}


def buffers(shapes):
    """The running statistics of all norms, as PyTorch starts them."""
    norms = [(name.removesuffix(".bias"), shape) for name, shape in shapes.items() if name.endswith(".bias") and name != "fc.bias"]
    start = {f"{name}.running_mean": jnp.zeros(shape) for name, shape in norms}
    return start | {f"{name}.running_var": jnp.ones(shape) for name, shape in norms}


def forward(p, buffers, x, blocks):
    """Logits of images [batch, side, side, channels], and the next running statistics."""
    new = dict(buffers)

    def conv(name, x, stride):
        axes = ("NHWC", "HWIO", "NHWC")
        pad = p[f"{name}.weight"].shape[0] // 2
        return jax.lax.conv_general_dilated(x, p[f"{name}.weight"], (stride,) * 2, ((pad, pad),) * 2, dimension_numbers=axes)

    def norm(name, x):
        mean, variance, count = x.mean((0, 1, 2)), x.var((0, 1, 2)), x.size // x.shape[-1]
        for kind, value in (("mean", mean), ("var", variance * (count / (count - 1)))):
            new[f"{name}.running_{kind}"] = 0.9 * buffers[f"{name}.running_{kind}"] + 0.1 * value
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    x = jax.nn.relu(norm("bn1", conv("conv1", x, 1)))
    width = x.shape[-1]
    for name, _, _, stride in layout(width, width, blocks):
        y = jax.nn.relu(norm(f"{name}.bn1", conv(f"{name}.conv1", x, stride)))
        y = norm(f"{name}.bn2", conv(f"{name}.conv2", y, 1))
        if f"{name}.downsample.0.weight" in p:
            x = norm(f"{name}.downsample.1", conv(f"{name}.downsample.0", x, stride))
        x = jax.nn.relu(y + x)
    return x.mean((1, 2)) @ p["fc.weight"].T + p["fc.bias"], new
