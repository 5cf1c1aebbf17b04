from torch import nn

from exercises.shared.copies import COPY_PROPERTIES, CopyProbe
from whywrong import Case, Draw


def pair(case):
    d_out, d_in = case["source"]["weight"].shape
    return nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)


def cases(seed):
    draw = Draw(seed)
    B, d_in, d_out = draw.sizes(3, 2, 9)
    modules = [
        {"weight": draw.normal(d_out, d_in), "bias": draw.normal(d_out)}
        for _ in ("source", "target")
    ]
    inputs = dict(zip(("source", "target"), modules, strict=True))
    return [Case("random", inputs, options={"x": draw.normal(B, d_in)}, roles={"typical"})]


def expect(case):
    source, x = case["source"], case.options["x"]
    return {**source, "out": x @ source["weight"].mT + source["bias"]}


probe = CopyProbe(pair)
properties = COPY_PROPERTIES
