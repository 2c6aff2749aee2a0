"""Steps of training in JAX: forward, backward and AdamW as one jitted function that donates what it replaces; each gives the
loss before it."""

import jax
import jax.numpy as jnp

import gpt_jax
import measure

BATCHES = 4  # that a case goes through in turn


def weights(shapes):
    """A dict of first weights, from shapes by name in PyTorch's order: see `weigh` in torch_training.py."""

    def one(at, name, shape):
        if len(shape) > 1:
            inner = 1
            for size in shape[1:]:
                inner *= size
            return jnp.asarray(measure.numbers(shape, at, inner**-0.5))
        return jnp.zeros(shape) if name.endswith("bias") else jnp.ones(shape)

    return {name: one(at, name, shape) for at, (name, shape) in enumerate(shapes.items())}


def steps(shapes, loss, batches, betas):
    """A function that makes one step."""
    step = jax.jit(gpt_jax.step_of(loss, betas), donate_argnums=(0, 1, 2))
    p = weights(shapes)
    # Three dicts of their own: what is donated must be in one place only.
    m, v = ({name: jnp.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
    state, count, lr = [p, m, v], 0, 1e-3

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


def classifier(shapes, forward, p, classes, shape):
    """Trains `forward`, of a dict of parameters and an input of `shape`, to [batch, classes]."""
    batches = [
        (jnp.asarray(measure.numbers(shape, 1000 + at)), jnp.asarray(measure.integers((p["batch"],), at, classes)))
        for at in range(BATCHES)
    ]
    return steps(shapes, lambda w, x, labels: cross_entropy(forward(w, x), labels), batches, (0.9, 0.999))


def register():
    """Makes the kinds known."""

    @measure.case("gpt")
    def _(p):
        tokens = (p["batch"], p["context"] + 1)
        batches = [(jnp.asarray(measure.integers(tokens, at, gpt_jax.VOCABULARY)),) for at in range(BATCHES)]
        loss = lambda w, bytes: gpt_jax.loss(w, bytes, p["layers"], p["heads"], jnp.float32)
        return steps(gpt_jax.parameters(p["layers"], p["width"]), loss, batches, (0.9, 0.95))

    @measure.case("mlp")
    def _(p):
        sizes = p["inputs"], p["width"], p["width"], p["outputs"]
        shapes = {}
        for at, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            shapes |= {f"{2 * at}.weight": (outputs, inputs), f"{2 * at}.bias": (outputs,)}

        def forward(w, x):
            for at in (0, 2, 4):
                x = x @ w[f"{at}.weight"].T + w[f"{at}.bias"]
                x = jax.nn.relu(x) if at < 4 else x
            return x

        return classifier(shapes, forward, p, p["outputs"], (p["batch"], p["inputs"]))
