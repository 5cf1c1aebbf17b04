"""How an answer to `block_parameters` is judged."""

import math

import torch

from whywrong import Case, Draw, FunctionProbe, true_of


def cases(seed):
    draw = Draw(seed)
    random = [draw.sizes(2, 5, 40) for _ in range(3)]
    bias = {"d_model": 32 + draw.integer(1, 40), "qkv_bias": True}
    named = dict(zip(("d_model", "expansion", "qkv_bias"), (*random[2], False), strict=True))
    return [
        Case("as usual", {"d_model": random[0][0]}, roles={"typical", "plain"}),
        Case("as usual, with qkv bias", bias, options={"keywords": ("qkv_bias",)}),
        Case("three times as wide", {"d_model": random[1][0] + 4, "expansion": 3}),
        Case("with qkv bias, an odd width", in_order(2 * draw.integer(3, 20) + 1, 2, True)),
        Case("without qkv bias, by name", named, options={"keywords": tuple(named)}),
        Case("the smallest GPT-2's width", {"d_model": 768}),
        Case("a big GPT-2's width", in_order(1600, 4, True)),
        Case("one channel", {"d_model": 1, "expansion": 1}, roles={"small"}),
    ]


def in_order(d_model, expansion, qkv_bias):
    return {"d_model": d_model, "expansion": expansion, "qkv_bias": qkv_bias}


def oracle(d_model, expansion=4, qkv_bias=False):
    """The sizes of all tensors in a list, added up."""
    C, wide = d_model, d_model * expansion
    shapes = [(C, C)] * 4 + [(C,)] + [(wide, C), (wide,), (C, wide), (C,)] + [(C,)] * 4
    shapes += [(C,)] * 3 if qkv_bias else []
    return torch.tensor(sum(math.prod(shape) for shape in shapes))


def expect(case):
    return {"out": oracle(**case.inputs)}


probe = FunctionProbe()


@true_of("A usual block is counted right", credit=True, role="plain")
def usual(case, observed, expected):
    return bool(observed.tensors["out"] == expected["out"])


properties = (usual,)

letters = {"d_model": "d_model", "expansion": "expansion"}
