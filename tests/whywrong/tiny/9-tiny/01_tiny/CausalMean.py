import torch

from whywrong import MODULE_PROPERTIES, Case, Draw, ModuleProbe, expect_module


def cases(seed):
    draw = Draw(seed)

    def case(name, dtype=torch.float32, roles=(), dropout=0.0):
        B, T, d_in, d_out = draw.sizes(4, 2, 9)
        weights = {"value.weight": draw.normal(d_out, d_in, dtype=dtype) / d_in**0.5}
        options = {"args": (d_in, d_out), "kwargs": {"dropout": dropout}}
        options |= {"weights": weights, "dtype": dtype}
        return Case(name, {"x": draw.normal(B, T, d_in, dtype=dtype)}, None, options, set(roles))

    return [
        case("random numbers", roles={"typical"}),
        case("float64", torch.float64),
        case("dropout", dropout=0.5),
    ]


def oracle(case, weights, x):
    counts = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
    return (x @ weights["value.weight"].mT).cumsum(1) / counts


probe = ModuleProbe()
expect = expect_module(oracle)
properties = MODULE_PROPERTIES
