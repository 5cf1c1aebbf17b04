"""How an answer to `causal_mean_weights` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, near, true_of


def cases(seed):
    draw = Draw(seed)
    small, large = sorted(draw.sizes(2, 4, 9))
    return [
        Case("T = 3", {"T": 3}, roles={"typical"}),
        Case("one token", {"T": 1}, roles={"small"}),
        Case(f"T = {small}", {"T": small}),
        Case(f"T = {large + 9}", {"T": large + 9}),
        Case(f"T = {large + 30}", {"T": large + 30}),
        Case("T = 130", {"T": 130}, options={"once": True}, roles={"stability"}),
    ]


probe = FunctionProbe()


def expect(case):
    T = case["T"]
    row, column = torch.meshgrid(torch.arange(T), torch.arange(T), indexing="ij")
    return {"out": torch.where(column <= row, 1.0 / (row + 1).double(), 0.0).float()}


@true_of("Every token gives weight to itself and to the first token", gate=True)
def shares_out(case, observed, expected):
    out = observed.tensors["out"]
    return bool((out.diagonal() > 0).all()) and bool((out[:, 0] > 0).all())


@true_of("Every row sums to 1", credit=True)
def rows(case, observed, expected):
    return near(observed.tensors["out"].sum(1), torch.ones(case["T"]))


@true_of("Columns after t are 0 in row t", credit=True)
def future(case, observed, expected):
    return bool((observed.tensors["out"].triu(1) == 0).all()) if case["T"] > 1 else None


@true_of("The tokens up to t have equal weights", credit=True)
def equal(case, observed, expected):
    out = observed.tensors["out"]
    past = torch.ones_like(out).tril() > 0
    return bool(((out - out[:, :1]).abs()[past] < 1e-5).all())


properties = (shares_out, rows, future, equal)
