"""Pooling, indexing and what goes along an axis in PyTorch."""

import torch
import torch.nn.functional as F

import measure


def tensor(shape, salt):
    return torch.from_numpy(measure.numbers(shape, salt))


def indices(shape, salt, bound):
    return torch.from_numpy(measure.integers(shape, salt, bound))


@measure.case("pooling")
def pooling(p):
    function = {"max": F.max_pool2d, "mean": F.avg_pool2d}[p["op"]]
    x = tensor((p["batch"], p["channels"], p["size"], p["size"]), 1)
    forward = lambda: function(x, p["kernel"], p["stride"], p.get("padding", 0))
    if p["pass"] == "forward":
        return torch.no_grad()(lambda: [forward()])
    x.requires_grad_()
    y = forward()
    gradient = tensor(tuple(y.shape), 2)
    return lambda: torch.autograd.grad(y, [x], gradient, retain_graph=True)


@measure.case("indexing")
def indexing(p):
    shape, axis, op = (p["rows"], p["columns"]), p.get("axis", 0), p["op"]
    x = tensor(shape, 1)
    if op in ("gather", "scatter_add"):
        at, source = indices(shape, 2, shape[1]), tensor(shape, 3)
        if op == "gather":
            return lambda: [x.gather(1, at)]
        return lambda: [x.scatter_add(1, at, source)]
    at = indices((shape[axis],), 2, shape[axis])
    if op == "index_select":
        return lambda: [x.index_select(axis, at)]
    source = tensor(shape, 3)
    return lambda: [x.index_add(0, at, source)]


@measure.case("order")
def order(p):
    x, axis = tensor((p["rows"], p["columns"]), 1), p.get("axis", 1)
    ops = {
        "sort": lambda: x.sort(axis)[0],
        "topk": lambda: x.topk(16, axis)[0],
        "cumsum": lambda: x.cumsum(axis),
    }
    work = ops[p["op"]]
    return lambda: [work()]
