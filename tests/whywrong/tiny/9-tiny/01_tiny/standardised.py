import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)
    B, T, C = draw.sizes(3, 3, 8)
    return [
        Case("by hand", {"x": torch.tensor([[1.0, 3.0]])}),
        Case("random numbers", {"x": draw.normal(B, T, C)}, roles={"typical"}),
        Case("float64", {"x": draw.normal(C, B, dtype=torch.float64)}),
        Case("one channel", {"x": draw.normal(B, 1)}, refuses=("1",), roles={"small"}),
    ]


def oracle(x):
    return (x - x.mean(-1, keepdim=True)) / x.var(-1, correction=0, keepdim=True).sqrt()


probe = FunctionProbe(gradients=("x",), watch=True)
expect = expect_function(oracle, gradients=("x",))
forbidden = ("layer_norm",)


@true_of("The numbers change", gate=True, role="typical")
def moves(case, observed, expected):
    return not near(observed.tensors["out"], case["x"])


@true_of("Each row sums to 0", credit=True)
def centred(case, observed, expected):
    return bool((observed.tensors["out"].sum(-1).abs() < 1e-4).all())


properties = (moves, centred)
