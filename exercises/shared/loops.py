"""What exercises on a training loop share: an answer trains a small model on a list of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from whywrong import Case, Observation, set_seed, true_of
from whywrong.probing import Expected, Trial, Verdict

from .pairs import as_pair, kind_of

LIST = "a list of floats"
SETTINGS = ("weight_decay", "betas", "eps", "amsgrad", "maximize")


def after(name: str) -> str:
    return f"`{name}` after the last step"


def see_loop(
    answer: Any, case: Case, model: nn.Module, batches: Sequence[Any], weights: Sequence[str]
) -> tuple[Observation, list[Any]]:
    """The losses, these weights afterwards, and each step's optimizer with its learning rate."""
    observed, steps = Observation(), []

    def look(optimizer: Any, *_: Any) -> None:
        steps.append((optimizer, optimizer.param_groups[0]["lr"]))

    given = {**case.inputs, "model": model, "batches": batches}
    set_seed(1)
    hook = register_optimizer_step_pre_hook(look)
    try:
        returned = answer(**given) if case.options.get("by_name") else answer(*given.values())
    finally:
        hook.remove()
    losses = None
    if type(returned) is list and returned and all(type(loss) is float for loss in returned):
        losses = torch.tensor(returned).to(case.options["dtype"])
    elif type(returned) is list:
        what = f"holding {type(returned[0]).__name__}" if returned else "with nothing in it"
        returned = kind_of(f"a list {what}")
    observed.put("out", returned if losses is None else losses)
    for name in weights:
        observed.put(after(name), getattr(model, name))
    named = [name for name in observed.tensors if name != "out"]
    as_pair(observed, LIST, *named, *(["out"] if losses is not None else []))
    optimizers = [optimizer for optimizer, _ in steps]
    observed.facts["traits"] = {
        "optimizers": sorted({type(optimizer).__name__ for optimizer in optimizers}),
        "made": len({id(optimizer) for optimizer in optimizers}),
        "steps": len(steps),
    }
    observed.put_judged("rates", torch.tensor([float(rate) for _, rate in steps]))
    return observed, optimizers


def with_many(case: Callable[..., Case]) -> Case:
    """So many batches that a warm-up, a restart or a limit on the steps shows; exact, because
    rounding adds up."""
    return case("60 batches", 60, 0.002, "many central", dtype=torch.float64)


def settings_of(
    optimizers: Sequence[Any], model: nn.Module, names: Sequence[str]
) -> dict[str, str]:
    """For each parameter, what affects its steps in the first optimizer besides the learning rate;
    an optimizer may leave parameters out, or give some of them other settings."""
    found = {}
    for group in optimizers[0].param_groups if optimizers else ():
        own = str([group.get(key) for key in SETTINGS])
        found |= {
            name: own for name in names if any(getattr(model, name) is p for p in group["params"])
        }
    return found


def weights_after(model: nn.Module, case: Case, weights: Sequence[str]) -> dict[str, Tensor]:
    dtype = case.options["dtype"]
    return {after(name): getattr(model, name).detach().to(dtype) for name in weights}


def rates(case: Case) -> Tensor:
    """The learning rate of each step, on a straight line to 0."""
    n = len(case.options["batches"])
    return case["learning_rate"] * (1 - torch.arange(n, dtype=torch.float64) / n)


@true_of("Each batch gives one step and one loss", credit=True)
def one_step_each(case: Case, observed: Observation, expected: Expected) -> bool:
    n, losses = len(case.options["batches"]), observed.tensors.get("out")
    return observed.traits["steps"] == n and losses is not None and losses.shape == (n,)


@true_of("The learning rate falls to 0 in a straight line", credit=True)
def falls(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not case.roles & {"typical", "many"}:
        return None
    mine, right = observed.tensors["judged:rates"], rates(case).float()
    if len(mine) == len(right) and _on_line(mine, right):
        return True
    if len(mine) > 6 and _on_line(mine[:6], right[:6]):
        off = next((i for i, r in enumerate(mine[: len(right)]) if not _on_line(r, right[i])), None)
        if off is not None:
            return f"is {float(mine[off]):.3g} at step {off} of {len(right)}, counted from 0"
    return f"goes {', '.join(f'{rate:.3g}' for rate in mine.tolist()[:6])}"


def _on_line(mine: Tensor, right: Tensor) -> bool:
    return bool(((mine - right).abs() <= 1e-6).all())


def warms_up(trials: Sequence[Trial]) -> bool:
    """Whether the learning rate rises over some of many steps, and then falls."""
    mine = next(t.observed.tensors["judged:rates"] for t in trials if "many" in t.case.roles)
    top = int(mine.argmax())
    rises, falls = mine[: top + 1].diff(), mine[top:].diff()
    return 0 < top < len(mine) / 2 and bool((rises >= 0).all()) and bool((falls <= 0).all())


@true_of("One AdamW takes all steps", credit=True, role="typical")
def one_optimizer(case: Case, observed: Observation, expected: Expected) -> bool:
    return observed.traits["optimizers"] == ["AdamW"] and observed.traits["made"] == 1
