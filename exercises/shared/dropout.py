"""Judges dropout from draws in which each attention weight can be read from the result.

In such a case, each token contains its position as a one-hot vector, and the values are copies of
that vector: channel s of the result is the weight of key s. Each weight appears twice, to
distinguish dropout of values or of the result from dropout of weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Observation, true_of
from whywrong.calling import cotangent, fresh, see_half, set_seed
from whywrong.errors import first_lines
from whywrong.exercise import Expected, Verdict
from whywrong.modules import happened_there, inject

from .draw import Draw

SEQUENCES, TOKENS, FEATURES = 40, 4, 3
D_IN = TOKENS + FEATURES
WIDTH = 2 * TOKENS + 1  # of a head
CONTEXT = TOKENS + 1

# Added to a message if only the calls with a mask show the fault.
PADDED = " when there is a pad_mask"


# ---------------------------------------------------------------- the case and its draws


def dropout_case(
    draw: Draw,
    heads: int,
    args: tuple[Any, ...],
    join: Callable[[list[dict[str, Tensor]]], dict[str, Tensor]],
    padded: bool = True,
) -> Case:
    """A case whose result is its attention weights.

    Args:
        heads: their number; their results are concatenated in the last dimension.
        args: the constructor's, for widths `D_IN` and, per head, `WIDTH`, and `CONTEXT` tokens.
        join: builds the module's weights by name from those of each head, which are named as for a
            single head; an output projection must be the identity without a bias.
        padded: whether the module takes a `pad_mask`.
    """
    places = torch.eye(TOKENS).expand(SEQUENCES, -1, -1)
    x = torch.cat([places, draw.normal(SEQUENCES, TOKENS, FEATURES)], -1)
    options: dict[str, Any] = {
        "args": args,
        "kwargs": {"dropout": (23, 33, 43)[draw.integer(0, 2)] / 100},
    }
    made = [_head(draw) for _ in range(heads)]
    options["weights"] = join(made)
    options["scores"] = torch.stack([_scores(x, head) for head in made], 1)
    if padded:
        options["pad_mask"] = torch.rand(x.shape[:2], generator=draw.generator) < 0.25
    return Case("dropout", {"x": x}, options=options | {"heads": heads}, roles={"dropout"})


def _head(draw: Draw) -> dict[str, Tensor]:
    weights = {f"{name}.weight": torch.zeros(WIDTH, D_IN) for name in ("query", "key", "value")}
    for name in ("query", "key"):
        weights[f"{name}.weight"][:, TOKENS:] = draw.normal(WIDTH, FEATURES) / 3
    weights["value.weight"][: 2 * TOKENS, :TOKENS] = torch.eye(TOKENS).repeat(2, 1)
    return weights


def _scores(x: Tensor, head: Mapping[str, Tensor]) -> Tensor:
    query, key = (x.double() @ head[f"{name}.weight"].double().mT for name in ("query", "key"))
    return query @ key.mT / math.sqrt(WIDTH)


def see_dropout(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """Records calls in training mode: two modules, two seeds, one repeated, with and without
    padding, with and without gradients; in bfloat16, and on another device."""
    if "dropout" not in case.roles:
        return
    pad_mask = case.options.get("pad_mask")
    masks = [()] if pad_mask is None else [(), (pad_mask,)]

    def call(module: Any, gradients: bool, *mask: Any) -> Any:
        with torch.set_grad_enabled(gradients):
            return module(*map(fresh, case.inputs.values()), *map(fresh, mask))

    for seed in (1, 2):
        module = make(as_made=True)
        with suppress(Exception):  # another module, created in addition
            type(module)(*case.options["args"])
        if seed == 1:
            module.train()
        set_seed(seed)
        seen.put(f"draw:{seed}", call(module, True))
        seen.put(f"draw:{seed} again", call(module, False))
        if pad_mask is not None:
            seen.put(f"draw:{seed} padded", call(module, seed == 1, pad_mask))
    if pad_mask is not None:
        seen.put("padded", call(make(), True, pad_mask))
    see_slopes(make, case, seen, *masks[-1])
    half = make(torch.bfloat16, as_made=True).train()
    see_half(lambda args: half(*args, *map(fresh, masks[-1])), case, seen)
    seen.tensors.pop("half", None)  # draws
    seen.facts["elsewhere"] = happened_there(make(as_made=True).train(), case)


# Rounding may hide a short step; a long one may cross the kink of ReLU.
STEPS = (1e-3, 1e-5, 1e-7)


def see_slopes(
    make: Callable[..., Any],
    case: Case,
    seen: Observation,
    *mask: Tensor,
    steps: Sequence[float] = STEPS,
) -> None:
    """Records `draw:slopes`, for `TRAINS`, or the fact `slopes` with the error."""
    try:
        scores = _slopes(make, case, True, *mask, steps=steps)
        others = _slopes(make, case, False, steps=steps)
        seen.put("draw:slopes", torch.stack([scores, others]))
    except Exception as error:
        seen.facts["slopes"] = f"{type(error).__name__}: {first_lines(error)}"


def _slopes(
    make: Callable[..., Any], case: Case, scores: bool, *mask: Tensor, steps: Sequence[float]
) -> Tensor:
    """The slope of one draw's result along a direction.

    The direction is in the weights of query and key, or in all others and the tokens. The slope is
    computed from the gradients, and also measured: with the first step size that agrees with the
    gradients, else with the last.
    """
    module, way = (make(torch.float64, as_made=True) for _ in range(2))
    with torch.no_grad():
        for parameter in way.parameters():
            parameter.zero_()
    along = {
        name: cotangent(w) * (("query" in name or "key" in name) == scores)
        for name, w in case.options["weights"].items()
    }
    inject(way, along)
    x, *others = (fresh(v, dtype=torch.float64) for v in case.inputs.values())
    x.requires_grad_()
    places = [x, *module.parameters()]
    directions = [cotangent(x) * (not scores), *(p.detach() for p in way.parameters())]

    @torch.no_grad()
    def go(step: float) -> None:
        for place, direction in zip(places, directions, strict=True):
            place.add_(direction, alpha=step)

    def total() -> Tensor:
        set_seed(3)
        out = module(x * 1.0, *others, *map(fresh, mask))
        return (out * cotangent(out)).sum()

    total().backward()
    by_gradient = x.new_zeros(())
    for place, direction in zip(places, directions, strict=True):
        if place.grad is not None:
            by_gradient = by_gradient + (place.grad * direction).sum()
    for step in steps:
        with torch.no_grad():
            go(step)
            above = total()
            go(-2 * step)
            measured = (above - total()) / (2 * step)
            go(step)
        slopes = torch.stack([measured, by_gradient])
        if not bool(_differ(slopes)):
            break
    return slopes.detach()


def _differ(slopes: Tensor) -> Tensor:
    measured, by_gradient = slopes.unbind(-1)
    far = (measured - by_gradient).abs() > 0.02 * measured.abs().clamp(min=0.1)
    return far | ~by_gradient.isfinite()


# ---------------------------------------------------------------- what the draws show


def shown(out: Tensor, heads: int) -> Tensor:
    """The weights in a result, `(copy, B, H, T, T)`."""
    parts = out.double().unflatten(-1, (heads, WIDTH))[..., : 2 * TOKENS]
    return parts.unflatten(-1, (2, TOKENS)).permute(3, 0, 2, 1, 4)


def _right(case: Case, expected: Expected, padded: bool) -> Tensor:
    """The right weights `(B, H, T, T)` without dropout."""
    weights = shown(expected["out"], case.options["heads"])[0]
    if not padded:
        return weights
    weights = weights * ~case.options["pad_mask"][:, None, None, :]
    sums = weights.sum(-1, keepdim=True)
    return weights / sums.where(sums > 0, 1.0)


@true_of(
    "In training, dropout sets individual weights to 0 and scales the others by 1/(1 - p)",
    role="dropout",
    any_number=True,
    draws=True,
    breaks="In training, dropout should set some weights to 0, after the softmax, and scale the "
    "others by 1/(1 - p)",
)
def dropout(case: Case, seen: Observation, expected: Expected) -> Verdict:
    heads, p = case.options["heads"], case.options["kwargs"]["dropout"]
    plain = ["draw:1", "draw:1 again", "draw:2", "draw:2 again"]
    looks = [("out", plain, ""), ("padded", ["draw:1 padded", "draw:2 padded"], PADDED)]
    for still, drawn, where in looks[: 2 if "padded" in seen.tensors else 1]:
        weights = shown(seen.tensors[still], heads)
        if not bool(is_close(weights, _right(case, expected, padded=bool(where))).all()):
            return None  # the weights are wrong even without dropout, which other properties report
        draws = torch.stack([shown(seen.tensors[n], heads) for n in drawn])
        fault = fault_of(weights[0], draws, p, case.options["scores"])
        if fault:
            return fault + where
    if torch.equal(seen.tensors["draw:1"], seen.tensors["draw:1 again"]):
        return "draws once for all calls"
    if torch.equal(seen.tensors["draw:1"], seen.tensors["draw:2"]):
        return "draws the same in each module, whatever the seed"
    if torch.equal(seen.tensors["draw:1 again"], seen.tensors["draw:2 again"]):
        return "sets the random seed, so that later calls draw the same"
    return True


@true_of(
    "Gradients match the result in training with dropout, too",
    secondary=True,
    role="dropout",
    draws=True,
    breaks="In training with dropout, gradients don't match the result: is a step detached, or "
    "written over?",
)
def trains(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if "slopes" in seen.facts:
        return f"raises {seen.facts['slopes']}"
    return not bool(_differ(seen.tensors["draw:slopes"]).any())


DROPOUT, TRAINS = dropout, trains


def fault_of(weights: Tensor, draws: Tensor, p: float, scores: Tensor) -> str:
    """What is wrong with draws `(N, copy, B, H, T, T)` from weights `(B, H, T, T)`, or ""."""
    if not bool(draws.isfinite().all()):
        return "gives NaN"
    visible = weights > 1e-6
    if bool((draws.abs() > 1e-6)[:, :, ~visible].any()):
        return "makes hidden tokens visible"
    ratios = draws / weights.where(visible, torch.ones(()).double())
    factors = ratios[:, :, visible]
    idle = is_close(factors, 1.0).flatten(1).all(1)
    if bool(idle.all()):
        return "drops nothing"
    if bool(idle.any()):
        return "drops nothing in some calls"
    heads = range(weights.shape[1])
    resting = [
        h for h in heads if bool(is_close(ratios[:, :, :, h][:, :, visible[:, h]], 1.0).all())
    ]
    if resting:
        return f"drops nothing in head {resting[0]}, counted from 0"
    dropped = factors.abs() < 1e-6
    kept = factors[~dropped]
    scale = float(kept.median()) if kept.numel() else math.inf
    if not bool(is_close(factors[:, 0], factors[:, 1]).all()):
        return _on_channels(draws, visible, kept, p)
    if not bool(is_close(kept, scale).all()):
        if _drops_scores(draws[:, 0, ..., 1, :], scores[..., 1, :], visible[..., 1, :], p):
            return "drops scores, before the softmax"
        return _before_the_weights(weights, draws[:, 0], visible)
    lost = draws[:, 0].abs() < 1e-6
    share = float(lost[:, visible].double().mean())
    return _of_weights(scale, share, p) or _together(lost, visible, p)


def is_close(a: Tensor, b: Tensor | float) -> Tensor:
    return (a - b).abs() < 2e-3 * (1.0 if isinstance(b, float) else b.abs().clamp(min=1.0))


def _on_channels(draws: Tensor, visible: Tensor, kept: Tensor, p: float) -> str:
    """Why the two copies of a weight differ: something besides the weights is dropped."""
    if bool(is_close(kept, 1 / (1 - p) ** 2).all()):
        return "drops the weights, and the result or the values as well"
    dropped, both = draws.abs() < 1e-6, visible & visible[..., -1:, :]
    same = bool((dropped == dropped[..., -1:, :])[:, :, both].all())
    return "drops channels of the values" if same else "drops channels of the result"


def _before_the_weights(weights: Tensor, draws: Tensor, visible: Tensor) -> str:
    """Why the remaining weights have no common factor."""
    sums = draws.sum(-1)
    factors = (draws / weights.where(visible, torch.ones(()).double())).where(draws > 1e-6, 0.0)
    alike = is_close(factors, factors.amax(-1, keepdim=True)) | (draws <= 1e-6)
    if bool((alike.all(-1) & (is_close(sums, 1.0) | is_close(sums, 0.0))).all()):
        return "makes the remaining weights sum to 1 again"
    lost = (draws == 0) & visible
    if bool((is_close(sums, 1.0) | ~visible.any(-1)).all()):
        if bool(lost.any()):
            return "drops before the softmax, so that the remaining weights sum to 1 again"
        return "acts before the softmax, on queries or keys"
    if bool(lost.any()) and bool(
        (lost == lost[..., -1:, :])[:, visible & visible[..., -1:, :]].all()
    ):
        return "acts on the input tokens"
    return "acts on something other than the weights"


def _drops_scores(drawn: Tensor, scores: Tensor, visible: Tensor, p: float) -> bool:
    """Whether the weights of each row come from scores that are 0 or 1/(1 - p) times as large."""
    kept = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * TOKENS) / (1 - p)
    possible = kept * scores[..., None, :]  # (B, H, 16, T)
    possible = torch.softmax(possible.where(visible[..., None, :], -math.inf), -1).nan_to_num()
    return bool(is_close(drawn[..., None, :], possible).all(-1).any(-1).all())


def _of_weights(scale: float, share: float, p: float) -> str:
    """What is wrong with the factor of the remaining weights, or with the fraction dropped."""
    if math.isinf(scale):
        return "drops everything"
    if _near(scale, 1 / (1 - p)):
        return ""
    if _near(scale, 1.0):
        return "leaves the others unscaled"
    if _near(scale, 1 / (1 - p) ** 2):
        return "drops twice"
    if scale < 1:
        return f"scales the others by {scale:.2f}, down instead of up"
    if abs(share - p) < 0.05:
        return f"scales the others by {scale:.2f} instead of {1 / (1 - p):.2f}"
    return f"drops with probability {1 - 1 / scale:.2g} instead of {p:.2g}"


def _near(a: float, b: float) -> bool:
    return abs(a - b) < 2e-3 * b


def _together(dropped: Tensor, visible: Tensor, p: float) -> str:
    """Whether each weight is drawn independently, from `dropped` `(N, B, H, T, T)`."""
    share = dropped[:, visible].double()
    pairs = [_neighbours(dropped, visible, axis) for axis in (-1, -2, -3, -4)]
    always = [bool(equal.all()) and equal.numel() > 0 for equal in pairs]
    if always[0] and always[1]:
        whole = "text" if always[2] or not pairs[2].numel() else "head"
        return f"drops all weights of a {whole} together"
    for together, fault in zip(always, TOGETHER, strict=True):
        if together:
            return fault
    if not _by_chance(share, p):
        return f"drops with probability {float(share.mean()):.2f} instead of {p:.2g}"
    chance = p * p + (1 - p) ** 2
    if not all(_by_chance(equal, chance) for equal in pairs):
        return "does not draw each weight independently, with probability p"
    return ""


TOGETHER = (
    "drops whole rows: all weights of a query together",
    "drops whole columns: a key for all queries together",
    "uses one draw for all heads",
    "uses one draw for the whole batch",
)


def _neighbours(dropped: Tensor, visible: Tensor, axis: int) -> Tensor:
    """Whether visible neighbours along an axis are both dropped or both kept."""
    size = dropped.shape[axis]

    def pair(t: Tensor) -> tuple[Tensor, Tensor]:
        return t.narrow(axis, 0, size - 1), t.narrow(axis, 1, size - 1)

    return torch.eq(*pair(dropped))[:, torch.logical_and(*pair(visible))].double()


def _by_chance(found: Tensor, p: float) -> bool:
    """Whether the share of `found` is near p, within six standard deviations."""
    sigma = math.sqrt(p * (1 - p) / max(found.numel(), 1))
    return not found.numel() or abs(float(found.mean()) - p) < 6 * sigma


_shown, _close, _fault = shown, is_close, fault_of  # names that kinds.py uses


# ---------------------------------------------------------------- weights by name


def joined(heads: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of a single head."""
    return heads[0]


def beside(heads: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of heads in a list, `heads.0.query.weight`, …, and of an output projection."""
    named = {f"heads.{h}.{n}": w for h, head in enumerate(heads) for n, w in head.items()}
    return named | identity(len(heads))


def split(heads: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The weights of heads that share their projections, in consecutive rows, and of an output
    projection."""
    return {n: torch.cat([h[n] for h in heads]) for n in heads[0]} | identity(len(heads))


def identity(heads: int) -> dict[str, Tensor]:
    size = heads * WIDTH
    return {"out_proj.weight": torch.eye(size), "out_proj.bias": torch.zeros(size)}
