"""Judges dropout in a Post-LN block, wherever in a branch it acts.

One branch at a time adds 1 in the first half of the channels; all others add 0. The second half is
the stream alone. Norms change each token by a factor and a shift, which those channels show. So the
output of a branch can be computed from the result, whatever norms came after it, and compared with
its output without dropout.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Observation, true_of
from whywrong.calling import fresh, set_seed
from whywrong.comparing import near
from whywrong.exercise import Expected, Verdict
from whywrong.modules import inject

from .draw import Draw
from .dropout import STEPS, see_slopes

TEXTS, TOKENS, SOURCE, HEADS, D, WIDE, LENGTH = 50, 3, 4, 2, 7, 21, 5
WIDTH = HEADS * D
ADDED, ANCHORS = range(WIDTH // 2), range(WIDTH // 2, WIDTH)
NAMES = {
    "attention": "the output of attention",
    "self_attention": "the output of self-attention",
    "cross_attention": "the output of cross-attention",
    "feed_forward": "the output of the network",
}

FIRST = ("attention", "self_attention")  # their branches have no norm before them

# Each number is the sum of this many equal parts before the end of its branch.
PARTS = {"cross_attention": SOURCE, "feed_forward": WIDE}


def post_dropout_case(
    draw: Draw, args: tuple[int, ...], weights: dict[str, Tensor], context: bool
) -> Case:
    """A case in float64 for a block of width `WIDTH`."""
    inputs = {"x": draw.normal(TEXTS, TOKENS, WIDTH, dtype=torch.float64)}
    if context:
        inputs["context"] = draw.normal(TEXTS, SOURCE, WIDTH, dtype=torch.float64)
    for tokens in inputs.values():
        tokens[..., -1] = 2.0
    options = {
        "args": args,
        "kwargs": {"dropout": (23, 33, 43)[draw.integer(0, 2)] / 100},
        "weights": weights,
        "heads": HEADS,
        "dtype": torch.float64,
    }
    return Case("dropout", inputs, options=options, roles={"dropout"})


def branches(case: Case) -> list[str]:
    names = {name.split(".")[0] for name in case.options["weights"]}
    return [name for name in NAMES if name in names]


def _alone(case: Case, branch: str) -> dict[str, Tensor]:
    """Weights with which only this branch adds something."""
    weights = {n: torch.zeros_like(w) for n, w in case.options["weights"].items()}
    for name, weight in weights.items():
        if name.endswith("scale"):
            weight.fill_(1.0)
    if branch == "feed_forward":
        weights["feed_forward.expand.bias"].fill_(1.0)
        weights["feed_forward.contract.weight"][: len(ADDED)] = 1 / WIDE
    else:
        weights[f"{branch}.value.weight"][:, -1] = 0.5  # all values are 1, on tokens of 2
        out = torch.eye(WIDTH)
        out[list(ANCHORS)] = 0.0
        weights[f"{branch}.out_proj.weight"].copy_(out)
    return weights


def see_post_dropout(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """Records calls of each branch alone: in evaluation mode, and in training mode with two modules
    and two seeds, twice each."""
    if "dropout" not in case.roles:
        return

    def call(module: Any) -> Any:
        with torch.no_grad():
            return module(*map(fresh, case.inputs.values()))

    still, modules = make(), [make(as_made=True) for _ in range(2)]
    with suppress(Exception):  # another module, created in addition
        type(still)(*case.options["args"])
    for branch in branches(case):
        weights = _alone(case, branch)
        for module in (still, *modules):
            inject(module, weights)
        seen.put(f"still:{branch}", call(still))
        for seed, module in enumerate(modules, start=1):
            set_seed(seed)
            for again in ("", " again"):
                seen.put(f"draw:{branch}:{seed}{again}", call(module))
    # A long step may cross 0, where ReLU has a kink.
    see_slopes(make, case, seen, steps=STEPS[1:])


def _added(out: Tensor, x: Tensor) -> Tensor | None:
    """The branch's output for the last token in the first half of the channels, `(…, channels)`;
    None if the second half is not the stream up to a factor and a shift."""
    y, x = out[..., -1, :].double(), x[:, -1].double()
    ys, xs = y[..., list(ANCHORS)], x[..., list(ANCHORS)]
    rise_x, rise_y = xs - xs.mean(-1, keepdim=True), ys - ys.mean(-1, keepdim=True)
    slope = (rise_x * rise_y).sum(-1, keepdim=True) / rise_x.square().sum(-1, keepdim=True)
    if bool((rise_y - slope * rise_x).abs().max() > 1e-4) or bool((slope.abs() < 1e-3).any()):
        return None
    shift = ys.mean(-1, keepdim=True) - slope * xs.mean(-1, keepdim=True)
    return (y[..., list(ADDED)] - shift) / slope - x[..., list(ADDED)]


@true_of(
    "In training, dropout acts on each branch before it is added, and scales the rest by 1/(1 - p)",
    role="dropout",
    any_number=True,
    draws=True,
    breaks="In training, dropout should act on each branch before it is added, and scale what is "
    "left by 1/(1 - p)",
)
def dropout(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]):
        return None
    x, p = case["x"], case.options["kwargs"]["dropout"]
    for branch in branches(case):
        still = _added(seen.tensors[f"still:{branch}"], x)
        if still is None or bool(still.abs().min() < 0.05):
            return None  # nothing can be read; other properties report why
        if branch in FIRST and bool((still - still.mean()).abs().max() > 1e-4):
            return None  # the branch reads normalised tokens, so its parts aren't equal
        names = [f"draw:{branch}:{seed}{again}" for seed in (1, 2) for again in ("", " again")]
        first, second, third, fourth = (seen.tensors[name] for name in names)
        what = NAMES[branch]
        added = _added(torch.stack([first, second, third, fourth]), x)
        if added is None:
            return f"drops something other than {what}, such as the stream itself"
        fault = _fault(added / still, p, PARTS.get(branch, TOKENS), what)
        if fault:
            return fault
        if torch.equal(first, second):
            return f"uses one draw for all calls, in {what}"
        if torch.equal(first, third) or torch.equal(second, fourth):
            return "uses the same draw whatever the seed"
    return True


def _fault(added: Tensor, p: float, parts: int, what: str) -> str:
    """What is wrong with draws of numbers that are 1 without dropout, sums of `parts` equal parts.

    With dropout at the end of the branch, a number is 0 or 1/(1 - p). With earlier dropout, some
    parts remain, times 1/(1 - p); with both, times 1/(1 - p) squared.
    """
    if float(added.var()) < 1e-6:
        return f"drops nothing of {what}"
    left = added[added.abs() > 1e-6]
    if bool(((left * (1 - p) ** 2 - 1).abs() < 1e-4).all()):
        return f"drops {what} twice"
    counts = [added * parts * (1 - p) ** places for places in (1, 2)]
    if not any(bool(((n - n.round()).abs() < 1e-3).all()) for n in counts):
        return f"drops {what} with a wrong probability or scale, or more than once"
    if abs(float(added.mean()) - 1) > 0.17:
        return f"changes {what} on average: the rest must be scaled up by 1/(1 - p)"
    return ""


POST_DROPOUT = dropout
