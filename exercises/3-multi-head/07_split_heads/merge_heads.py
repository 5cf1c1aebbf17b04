"""How an answer to `merge_heads` is judged."""

import torch

from exercises.shared.many_heads import distinct_sizes
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)
    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    by_hand = torch.arange(1.0, 13.0).view(1, 2, 3, 2)
    turned = draw.normal(c.D, c.T, c.H, c.B).permute(3, 2, 1, 0)
    double = draw.normal(d.B, d.H, d.T, d.D, dtype=torch.float64)
    by_name, small = {"keywords": ("x",)}, {"small"}
    return [
        Case("three tokens, two heads by hand", {"x": by_hand}, roles=small),
        Case("random numbers", {"x": draw.normal(a.B, a.H, a.T, a.D)}, roles={"typical"}),
        Case("as it is after a split", {"x": draw.normal(b.B, b.T, b.H, b.D).transpose(1, 2)}),
        Case("not contiguous", {"x": turned}),
        Case("float64, given by name", {"x": double}, options=by_name),
        Case("one head", {"x": draw.normal(b.B, 1, b.T, b.D)}, roles=small),
        Case("heads of width 1", {"x": draw.normal(c.B, c.H, c.T, 1)}, roles=small),
        Case("one token", {"x": draw.normal(d.B, d.H, 1, d.D)}, roles=small),
        Case("one text", {"x": draw.normal(1, a.H, a.T, a.D)}, roles=small),
    ]


def oracle(x):
    return torch.cat(x.unbind(dim=1), dim=-1)


probe = FunctionProbe(gradients=("x",))
expect = expect_function(oracle, gradients=("x",))


@true_of("Every number of `x` is still there", gate=True)
def all_there(case, observed, expected):
    mine, wanted = (t["out"].flatten().sort().values for t in (observed.tensors, expected))
    return near(mine, wanted)


@true_of("A position holds the numbers of its own token", credit=True)
def tokens(case, observed, expected):
    """In whatever order."""
    return near(observed.tensors["out"].sort(-1).values, expected["out"].sort(-1).values)


@true_of(
    "Head 0 fills the first D channels",
    credit=True,
    breaks="Head 0 does not fill the first D channels with its own, in order",
)
def first_head(case, observed, expected):
    D = case["x"].shape[-1]
    return near(observed.tensors["out"][..., :D], expected["out"][..., :D])


properties = (all_there, tokens, first_head)

letters = {"x": "B H T D"}
