"""The LSTM of lstm.py in JAX, with the same parameter names."""

import jax
import jax.numpy as jnp

VOCABULARY = 256


def parameters(layers, width, hidden):
    """Shapes by the names of lstm.py; weights are [out, in]."""
    shapes = {"wte.weight": (VOCABULARY, width)}
    for at in range(layers):
        shapes |= {
            f"lstm.weight_ih_l{at}": (4 * hidden, hidden if at else width),
            f"lstm.weight_hh_l{at}": (4 * hidden, hidden),
            f"lstm.bias_ih_l{at}": (4 * hidden,),
            f"lstm.bias_hh_l{at}": (4 * hidden,),
        }
    return shapes | {"head.weight": (VOCABULARY, hidden), "head.bias": (VOCABULARY,)}


def layer(p, at, x):
    """[time, batch, in] to [time, batch, hidden]. What inputs give to all gates is one product; the loop has the rest."""
    recurrent = p[f"lstm.weight_hh_l{at}"].T
    gates = x @ p[f"lstm.weight_ih_l{at}"].T + (p[f"lstm.bias_ih_l{at}"] + p[f"lstm.bias_hh_l{at}"])

    def step(state, given):
        h, c = state
        i, f, g, o = jnp.split(given + h @ recurrent, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((x.shape[1], recurrent.shape[0]), x.dtype)
    return jax.lax.scan(step, (start, start), gates)[1]


def loss(p, tokens, layers):
    """Mean cross entropy, in nats per byte, of tokens [batch, time + 1]."""
    seen, following = tokens[:, :-1].T.astype(jnp.int32), tokens[:, 1:].T.astype(jnp.int32)
    x = p["wte.weight"][seen]
    for at in range(layers):
        x = layer(p, at, x)
    logits = x @ p["head.weight"].T + p["head.bias"]
    picked = jnp.take_along_axis(logits, following[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()
