"""How an answer to `apply_rope` is judged."""

import contextlib

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, fresh, near, true_of


def cases(seed):
    draw = Draw(seed)
    by_hand = torch.tensor([[[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]]])
    B, H, T, D = sizes(draw)
    small, once = {"small"}, {"once": True}

    def case(name, x, **inputs):
        more = {key: inputs.pop(key) for key in ("options", "roles") if key in inputs}
        return Case(name, {"x": x} | inputs, **more)

    by_name = {"keywords": ("x", "base")}
    after = {"keywords": ("offset",)}
    return [
        case("three tokens by hand", by_hand, roles=small),
        case("random numbers", draw.normal(B, H, T, D), roles={"typical"}),
        case("more heads than tokens", draw.normal(2, 7, 4, 6), options=once),
        case("base 100", draw.normal(2, 3, 5, 6), base=100.0),
        case("base 50, by name", draw.normal(B, H, T, D), base=50.0, options=by_name | once),
        case("float64", 0.5 * draw.normal(2, 5, 3, 4, dtype=torch.float64)),
        case("one token", draw.normal(B, H, 1, D), roles=small),
        case("offset 5", draw.normal(B, H, T, D), base=10000.0, offset=5, options=after),
        case("one token, offset 3", draw.normal(2, 3, 1, D), base=30.0, offset=3, roles=small),
        case("one sequence, one head", draw.normal(1, 1, T, 64), roles=small, options=once),
        case("not contiguous", draw.normal(3, 7, 2, 4).transpose(1, 2)),
        case("as many heads as tokens", draw.normal(2, 4, 4, 4), roles=small, options=once),
        far_away(draw),
    ]


def far_away(draw):
    """Angles in float32 round by a ten-millionth of their size, here by 1e-4."""
    inputs = {"x": draw.normal(2, 3, 5, 4), "base": 10000.0, "offset": 1_030}
    options = {"once": True, "tolerance": {torch.float32: 1e-3}}
    return Case("offset 1,030", inputs, options=options, roles={"stability"})


def sizes(draw):
    """B, H, T, D, all different, and from the width of all heads; D is even, T at least 3."""
    while True:
        B, H, T = draw.sizes(3, 2, 8)
        D = 2 * draw.integer(2, 4)
        if T >= 3 and H <= 5 and len({B, H, T, D, H * D}) == 5:
            return B, H, T, D


def oracle(x, base=10000.0, offset=0, factor=1.0):
    """A pair is a complex number, and a rotation a product with one of length 1."""
    T, D = x.shape[-2:]
    angles = [[t / base ** (d / D) for d in range(0, D, 2)] for t in range(offset, offset + T)]
    angles = factor * torch.tensor(angles, dtype=torch.float64)
    numbers = pairs(x)
    turned = numbers * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def pairs(x):
    return torch.complex(x[..., 0::2], x[..., 1::2])


def see_scores(answer, case, observed):
    """More calls: one query and one key at every position."""
    if "typical" not in case.roles:
        return
    long = torch.ones(1, 1, 1_025, 8, dtype=torch.bfloat16)  # 1,024 and 1,023 are one there
    with contextlib.suppress(Exception):
        turned = answer(long)
        observed.facts.setdefault("traits", {})["long"] = str(turned.dtype).removeprefix("torch.")
        observed.put_judged("long", turned[0, 0, -2:].float())
        observed.put_judged("float32 after it", answer(long.float())[0, 0, -2:])
    x = case["x"]
    query, key = (v.expand(-1, -1, 7, -1).contiguous() for v in (x[:, :, :1], x[:, :, 1:2]))
    observed.put("scores", answer(fresh(query)) @ answer(fresh(key)).transpose(-2, -1))


probe = FunctionProbe(gradients=("x",), extra=see_scores)
expect = expect_function(oracle, gradients=("x",))


@true_of("Later tokens are turned", gate=True, role="typical")
def turns(case, observed, expected):
    """They change, and each in its own way."""
    out, x = observed.tensors["out"], case["x"]
    moved = out.double() - x.double()
    return not near(out[:, :, 1:], x[:, :, 1:]) and not bool((moved == moved[:, :, :1]).all())


@true_of("The token at position 0 stays as it is", credit=True)
def first_token(case, observed, expected):
    if "offset" in case.inputs:
        return None
    return near(observed.tensors["out"][:, :, 0], case["x"][:, :, 0])


@true_of("Each pair of neighbours keeps its length", credit=True)
def lengths(case, observed, expected):
    mine, wanted = (v.double().unflatten(-1, (-1, 2)) for v in (observed.tensors["out"], case["x"]))
    return near(mine.norm(dim=-1), wanted.norm(dim=-1))


@true_of("The score of a query and a key depends on their distance", credit=True, role="typical")
def relative(case, observed, expected):
    scores = observed.tensors["scores"].double()
    diagonals = near(scores[..., 1:, 1:], scores[..., :-1, :-1])
    return diagonals and not near(scores, scores[..., :1].expand_as(scores))


@true_of("Channels 0 and 1 are right", credit=True)
def first_pair(case, observed, expected):
    return near(observed.tensors["out"][..., :2], expected["out"][..., :2])


@true_of(
    "A bfloat16 input gives a bfloat16 result, with exact angles at a thousand positions",
    secondary=True,
    role="typical",
)
def exact_angles(case, observed, expected):
    if not near(observed.tensors["out"], expected["out"]):
        return None  # what is wrong there is wrong here too
    if (dtype := observed.traits.get("long")) != "bfloat16":
        return f"is {dtype}"
    t = torch.tensor([1023.0, 1024.0], dtype=torch.float64)
    angles = torch.stack([t, t / 10, t / 100, t / 1000], dim=-1)
    wanted = torch.stack([angles.cos() - angles.sin(), angles.sin() + angles.cos()], dim=-1)
    mine = observed.tensors["judged:long"]
    if near(mine, wanted.flatten(-2), 0.02):
        later = near(observed.tensors["judged:float32 after it"], wanted.flatten(-2), 1e-3)
        return later or "gives a later float32 input the rounded angles"
    if near(mine[0], mine[1]):
        return "has angles as coarse as bfloat16, which can't tell position 1,023 from 1,024"
    return "has other angles at positions 1,023 and 1,024"


def stale(trials):
    """Whether each wrong result has the angles of another call, with another base or offset."""
    calls = {(t.case.inputs.get("base", 10000.0), t.case.inputs.get("offset", 0)) for t in trials}
    shown = False
    for t in trials:
        if t.observed.error or near(t.observed.tensors["out"], t.expected["out"]):
            continue
        x = t.case["x"].double()
        turned = (oracle(x, *call) for call in calls)
        if not any(near(t.observed.tensors["out"].double(), other, 1e-4) for other in turned):
            return False
        shown = True
    return shown


def scaled(trials):
    """Whether all positions are multiplied by one factor, the angle of the first pair at position
    1, up to half a turn."""
    (typical,) = (t for t in trials if "typical" in t.case.roles)
    x, out = (
        pairs(v[:, :, 1].double()) for v in (typical.case["x"], typical.observed.tensors["out"])
    )
    factor = float((out / x)[0, 0, 0].angle())
    return abs(factor - 1) > 1e-3 and all(
        t.observed.error is None
        and near(
            t.observed.tensors["out"].double(),
            oracle(t.case["x"].double(), *list(t.case.inputs.values())[1:], factor=factor),
            1e-3,
        )
        for t in trials
    )


signs = {"offset_ignored 3": stale, "positions_scaled": scaled}
properties = (turns, first_token, lengths, relative, first_pair, exact_angles)

letters = {"x": "B H T D"}
