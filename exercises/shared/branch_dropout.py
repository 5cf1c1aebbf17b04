"""Judges dropout at the end of a branch, from draws that show the effect on each channel.

A network gets weights with which its output is 1 in every channel: in some channels from its last
bias alone, in others from one hidden unit each. Each such unit serves two channels, which reveals
an answer that drops units. A block adds this output in some of its channels; in others it adds its
attention weights, twice, or a constant from attention's last bias, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whywrong import Case, Observation, Property
from whywrong.calling import fresh, set_seed
from whywrong.comparing import near
from whywrong.exercise import Expected, Verdict

from .draw import Draw
from .dropout import PADDED, see_slopes

SEQUENCES, TOKENS, COPIES, HEADS = 30, 3, 2, 2
# Channels of one head, in this order: the weights of its keys, the same again, attention's output
# from its bias, the network's from its bias, from units, from the same units; the sum of both
# from their biases; the stream alone.
PARTS = {
    "weights": TOKENS,
    "weights again": TOKENS,
    "attention": COPIES,
    "network": COPIES,
    "units": COPIES,
    "units again": COPIES,
    "both": 1,
    "stream": 1,
}
WIDTH = sum(PARTS.values())
ADDED = ("weights", "weights again", "attention"), ("network", "units", "units again")


def channels(part: str, heads: int = HEADS) -> list[int]:
    """The channels of a part, in all heads."""
    names = list(PARTS)
    start = sum(PARTS[name] for name in names[: names.index(part)])
    return [h * WIDTH + start + i for h in range(heads) for i in range(PARTS[part])]


def _network(C: int, wide: int, where: tuple[str, ...], heads: int) -> dict[str, Tensor]:
    """Weights of a network whose output is 1 in the channels of these parts, and 0 elsewhere."""
    by_bias, units, again = where
    bent = F.gelu(torch.tensor(3.0, dtype=torch.float64), approximate="tanh").item()
    weights = {
        "expand.weight": torch.zeros(wide, C),
        "expand.bias": torch.full((wide,), 3.0),
        "contract.weight": torch.zeros(C, wide),
        "contract.bias": torch.zeros(C),
    }
    weights["contract.bias"][channels(by_bias, heads)] = 1.0
    for part in (units, again):
        for unit, channel in enumerate(channels(part, heads)):
            weights["contract.weight"][channel, unit] = 1 / bent
    return weights


def _rate(draw: Draw) -> float:
    return (23, 33, 43)[draw.integer(0, 2)] / 100


def network_dropout_case(draw: Draw) -> Case:
    """A case for a module with the arguments `d_model` and `expansion`: a network alone."""
    x, weights = draw.normal(SEQUENCES, TOKENS, WIDTH), _network(WIDTH, 2 * WIDTH, ADDED[1], 1)
    one = channels("stream", 1)
    x[..., one] = 2.0  # the units need it; this also reveals dropout of the input tokens
    weights["expand.weight"][:, one], weights["expand.bias"][:] = 1.0, 1.0
    options = {
        "args": (WIDTH, 2),
        "kwargs": {"dropout": _rate(draw)},
        "weights": weights,
        "heads": 1,
    }
    return Case("dropout", {"x": x}, options=options, roles={"dropout"})


def block_dropout_case(draw: Draw) -> Case:
    """A case for a module with the arguments `d_model`, `num_heads` and `context_length`."""
    C = HEADS * WIDTH
    x = torch.zeros(SEQUENCES, TOKENS, C)
    order = torch.stack([torch.randperm(TOKENS, generator=draw.generator) for _ in x])
    x[:, :, :TOKENS] = F.one_hot(order, TOKENS).float()  # a token: one of three one-hot vectors
    x[:, :, channels("stream")] = 2.0
    mean, variance = x[0, 0].mean(), x[0, 0].var(correction=0)
    same = {"scale": torch.full((C,), float((variance + 1e-5).sqrt())), "shift": mean.expand(C)}
    weights = {f"norm1.{name}": value.clone() for name, value in same.items()}  # gives x again
    for name in ("query", "key"):
        weights[f"attention.{name}.weight"] = draw.normal(C, C) * 0.3
    value = weights["attention.value.weight"] = torch.zeros(C, C)
    for part in ADDED[0][:2]:
        for i, channel in enumerate(channels(part)):
            value[channel, i % TOKENS] = 1.0
    bias = torch.zeros(C)
    bias[channels("attention") + channels("both")] = 1.0
    weights |= {"attention.out_proj.weight": torch.eye(C), "attention.out_proj.bias": bias}
    weights |= {"norm2.scale": torch.ones(C), "norm2.shift": torch.zeros(C)}
    network = _network(C, 4 * C, ADDED[1], HEADS)
    network["contract.bias"][channels("both")] = 2.0
    weights |= {f"feed_forward.{name}": value for name, value in network.items()}
    options = {
        "args": (C, HEADS, TOKENS + 1),
        "kwargs": {"dropout": _rate(draw)},
        "weights": weights,
        "heads": HEADS,
        "pad_mask": torch.rand(x.shape[:2], generator=draw.generator) < 0.25,
    }
    return Case("dropout", {"x": x}, options=options, roles={"dropout"})


# ---------------------------------------------------------------- draws


def see_branch_dropout(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """Records training calls: two modules, two seeds, one repeated, with and without padding."""
    if "dropout" not in case.roles:
        return
    pad_mask = case.options.get("pad_mask")

    def call(module: Any, *mask: Any) -> Any:
        with torch.no_grad():
            return module(fresh(case["x"]), *map(fresh, mask))

    for seed in (1, 2):
        module = make(as_made=True)
        with suppress(Exception):  # a second module must not disturb the first
            type(module)(*case.options["args"])
        set_seed(seed)
        seen.put(f"draw:{seed}", call(module))
        seen.put(f"draw:{seed} again", call(module))
        if pad_mask is not None:
            seen.put(f"draw:{seed} padded", call(module, pad_mask))
    if pad_mask is not None:
        seen.put("padded", call(make(), pad_mask))
    see_slopes(make, case, seen)


def _holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not near(seen.tensors["out"], expected["out"]):
        return None
    stream = case["x"] if "attention.out_proj.bias" in case.options["weights"] else 0.0
    plain = ["draw:1", "draw:1 again", "draw:2", "draw:2 again"]
    looks = [("out", plain, "")]
    if "padded" in seen.tensors:
        looks.append(("padded", ["draw:1 padded", "draw:2 padded"], PADDED))
    for still, drawn, where in looks:
        draws = torch.stack([seen.tensors[name].double() for name in drawn]) - stream
        added = seen.tensors[still].double() - stream
        if where and (near(seen.tensors[still], seen.tensors["out"]) or _spoilt(added, case)):
            return None  # the mask is wrong, which another property reports
        fault = _fault(added, draws, case)
        if fault:
            return fault + where
    if torch.equal(seen.tensors["draw:1"], seen.tensors["draw:1 again"]):
        return "uses one draw for all calls"
    if torch.equal(seen.tensors["draw:1"], seen.tensors["draw:2"]):
        return "uses the same draw in each module, whatever the seed"
    if torch.equal(seen.tensors["draw:1 again"], seen.tensors["draw:2 again"]):
        return "sets the random seed, so that later calls repeat the draw"
    return True


def _spoilt(added: Tensor, case: Case) -> bool:
    """Whether a mask changes the stream itself, or removes the output of a branch."""
    stream, *constant = (
        added[..., channels(part, case.options["heads"])]
        for part in ("stream", "attention", "network")
    )
    return bool((stream.abs() > 1e-3).any() or any((c.abs() < 1e-4).any() for c in constant))


def _fault(still: Tensor, draws: Tensor, case: Case) -> str:
    """What is wrong with draws `(N, B, T, C)` of the added output, `(B, T, C)` without dropout."""
    if not bool(draws.isfinite().all()):
        return "gives NaN"
    heads, p = case.options["heads"], case.options["kwargs"]["dropout"]
    block = "attention.out_proj.bias" in case.options["weights"]

    def factors(part: str) -> Tensor:
        """The factors by which the numbers of a part changed; NaN where a number is 0."""
        where = channels(part, heads)
        base = still[..., where]
        return draws[..., where] / base.where(base.abs() > 1e-4, torch.nan)

    if block and bool((draws[..., channels("stream", heads)].abs() > 1e-3).any()):
        return "drops the stream itself, not only the branch"
    kept = 1 / (1 - p)
    branches = ("attention", "attention", "weights"), ("network", "the network", "units")
    for part, name, units in branches:
        if part == "attention" and not block:
            continue
        what = f"the output of {name}" if block else "the result"
        inside = "the attention weights" if units == "weights" else "the hidden layer"
        last, first = factors(part), factors(units)
        fault = _of_branch(last, p, what)
        if not fault:
            fault = _of_units(first, factors(f"{units} again"), kept, p, inside, units == "weights")
        elif units == "weights":
            fault += _beside(_left(first), _left(last), kept, inside)
        elif "nothing" in fault and not bool(_close(_seen(first), 1.0).all()):
            fault = _instead_of(what, inside, first, factors(f"{units} again"), kept)
        if fault:
            return fault
    if block and bool((draws[..., channels("both")] - kept).abs().min() > 1e-3):
        return "uses one draw for both branches"
    return ""


def _beside(first: Tensor, last: Tensor, kept: float, inside: str) -> str:
    """What happens to the attention weights if the end of that branch is wrong."""
    own = float(last.median()) if last.numel() else 1.0
    if bool(_close(first, own * kept).all()):
        return ""
    if bool(_close(first, own).all()):
        return f", and drops nothing of {inside}"
    return f", and acts on something other than {inside}"


def _instead_of(what: str, inside: str, first: Tensor, again: Tensor, kept: float) -> str:
    """What is dropped in a network without dropout at its end."""
    if not bool(_close(_left(first), kept).all()):
        return f"drops something earlier instead of {what}"
    both = ~(first.isnan() | again.isnan())
    one, two = (t[both].abs() > 1e-6 for t in (first, again))
    if torch.equal(one, two):  # two channels that come from one unit
        return f"drops {inside} instead of {what}"
    return f"drops {what} before its last bias is added"


def _of_branch(factors: Tensor, p: float, what: str) -> str:
    """What is wrong with factors `(N, B, T, channels)` of constants, which only a branch's last
    dropout can change."""
    left = factors[factors.abs() > 1e-6]
    scale = float(left.median()) if left.numel() else math.inf
    if bool(_close(factors, 1.0).all()):
        return f"drops nothing of {what}"
    if math.isinf(scale):
        return f"drops all of {what}"
    if not bool(_close(left, scale).all()):
        return f"changes {what} by more than one factor"
    share = float((factors.abs() < 1e-6).double().mean())
    if abs(scale - 1) < 2e-3:
        return f"leaves the rest of {what} unscaled instead of multiplying by 1/(1 - p)"
    if abs(scale - 1 / (1 - p) ** 2) < 4e-3:
        return f"drops {what} twice"
    if abs(scale - 1 / (1 - p)) > 2e-3:
        return f"drops {what} with probability {1 - 1 / scale:.2g} instead of {p:.2g}"
    lost = (factors.abs() < 1e-6).double()
    for axis, together in ((3, "channels of a token"), (2, "tokens of a text"), (1, "texts")):
        if bool((lost == lost.narrow(axis, 0, 1)).all()):
            return f"uses one draw for all {together}"
    return "" if abs(share - p) < 0.08 else f"drops {share:.2f} of {what} instead of {p:.2g}"


def _of_units(
    first: Tensor, again: Tensor, kept: float, p: float, inside: str, dropped_too: bool
) -> str:
    """What is wrong before the last dropout of a branch, which itself is right."""
    wanted = kept**2 if dropped_too else kept
    both = ~(first.isnan() | again.isnan())
    left = _left(first)
    if bool(_close(left, wanted).all()):
        if not dropped_too:
            return ""
        one, two = (t[both].abs() > 1e-6 for t in (first, again))
        chance = float(two[one].double().mean())  # one copy is dropped, but not the other
        return "" if chance > 1 - p - 0.12 else f"drops something other than {inside}"
    if bool(_close(left, kept).all()):
        return f"drops nothing of {inside}"
    if bool(_close(left, wanted * kept).all()):
        return f"drops {inside} twice" if dropped_too else f"drops {inside} as well"
    return f"drops something other than {inside}" if dropped_too else f"acts on {inside} as well"


def _seen(factors: Tensor) -> Tensor:
    return factors[~factors.isnan()]


def _left(factors: Tensor) -> Tensor:
    seen = _seen(factors)
    return seen[seen.abs() > 1e-6]


def _close(a: Tensor, b: float) -> Tensor:
    return (a - b).abs() < 4e-3 * max(b, 1.0)


BRANCH_DROPOUT = Property(
    "dropout",
    "In training, dropout acts once at the end of a branch, and scales the rest by 1/(1 - p)",
    _holds,
    role="dropout",
    any_number=True,
    draws=True,
    breaks="In training, dropout should act once at the end of a branch (in a block, also on the "
    "attention weights), and scale the rest by 1/(1 - p)",
)
