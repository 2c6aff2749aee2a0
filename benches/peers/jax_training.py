"""Steps of training in JAX: forward, backward and AdamW as one jitted function that donates what it replaces; each gives the
loss before it.

A loss is a function of a dict of parameters, one of buffers and a batch; it gives the loss and the next buffers."""

import jax
import jax.numpy as jnp

import gpt_jax
import lstm_jax
import measure
import resnet_jax

BATCHES = 4  # that a case goes through in turn


def weights(shapes):
    """A dict of first weights, from shapes by name in PyTorch's order: see `weigh` in torch_training.py."""

    def one(at, name, shape):
        if len(shape) > 1:
            inner = 1
            for size in shape[1:]:
                inner *= size
            return jnp.asarray(measure.numbers(shape, at, inner**-0.5))
        return jnp.zeros(shape) if "bias" in name else jnp.ones(shape)

    return {name: one(at, name, shape) for at, (name, shape) in enumerate(shapes.items())}


def steps(p, buffers, loss, batches, betas):
    """A function that makes one step."""

    def step(p, m, v, buffers, batch, *corrections):
        (value, buffers), gradients = jax.value_and_grad(loss, has_aux=True)(p, buffers, *batch)
        return *gpt_jax.updated(p, gradients, m, v, *corrections, betas=betas), buffers, value

    step = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    # Dicts of their own: what is donated must be in one place only.
    m, v = ({name: jnp.zeros_like(value) for name, value in p.items()} for _ in range(2))
    state, count, lr = [p, m, v, buffers], 0, 1e-3

    def run():
        nonlocal count
        batch = batches[count % BATCHES]
        count += 1
        corrections = lr / (1 - betas[0] ** count), (1 - betas[1] ** count) ** 0.5, 1 - lr * 0.01
        *state[:], value = step(*state, batch, *corrections)
        # A step waits for the loss only, which the update does not need: wait for both.
        jax.block_until_ready(state)
        return [value]

    return run


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def classifier(w, buffers, forward, p, classes, shape, lies=lambda x: x):
    """Trains `forward`, of parameters, buffers and an input, to [batch, classes]; it gives the next buffers too. `lies` brings
    an input of `shape` into the order of axes that it takes."""
    batches = [
        (jnp.asarray(lies(measure.numbers(shape, 1000 + at))), jnp.asarray(measure.integers((p["batch"],), at, classes)))
        for at in range(BATCHES)
    ]

    def loss(w, buffers, x, labels):
        logits, buffers = forward(w, buffers, x)
        return cross_entropy(logits, labels), buffers

    return steps(w, buffers, loss, batches, (0.9, 0.999))


def next_byte(shapes, loss, p):
    """Trains a model on windows of bytes, by its loss of parameters and bytes."""
    tokens = (p["batch"], p["context"] + 1)
    batches = [(jnp.asarray(measure.integers(tokens, at, gpt_jax.VOCABULARY)),) for at in range(BATCHES)]
    return steps(weights(shapes), {}, lambda w, buffers, bytes: (loss(w, bytes), buffers), batches, (0.9, 0.95))


def register():
    """Makes the kinds known."""

    @measure.case("gpt")
    def _(p):
        loss = lambda w, bytes: gpt_jax.loss(w, bytes, p["layers"], p["heads"], jnp.float32)
        return next_byte(gpt_jax.parameters(p["layers"], p["width"]), loss, p)

    @measure.case("lstm")
    def _(p):
        loss = lambda w, bytes: lstm_jax.loss(w, bytes, p["layers"])
        return next_byte(lstm_jax.parameters(p["layers"], p["width"], p["hidden"]), loss, p)

    @measure.case("resnet")
    def _(p):
        classes = 10
        shapes = resnet_jax.parameters(p["channels"], p["width"], p["blocks"], classes)
        shape = (p["batch"], p["channels"], p["size"], p["size"])
        forward = lambda w, buffers, x: resnet_jax.forward(w, buffers, x, p["blocks"])
        w, buffers = resnet_jax.laid_out(weights(shapes)), resnet_jax.buffers(shapes)
        return classifier(w, buffers, forward, p, classes, shape, lambda x: x.transpose(0, 2, 3, 1))

    @measure.case("mlp")
    def _(p):
        sizes = p["inputs"], p["width"], p["width"], p["outputs"]
        shapes = {}
        for at, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            shapes |= {f"{2 * at}.weight": (outputs, inputs), f"{2 * at}.bias": (outputs,)}

        def forward(w, buffers, x):
            for at in (0, 2, 4):
                x = x @ w[f"{at}.weight"].T + w[f"{at}.bias"]
                x = jax.nn.relu(x) if at < 4 else x
            return x, buffers

        return classifier(weights(shapes), {}, forward, p, p["outputs"], (p["batch"], p["inputs"]))
