"""Judges dropout by what it does to the result: the mean and the covariance of many draws in
training mode, compared with those of the course's part, which drops in the right places.

One text, many times in a batch, gives many draws in a few calls. An answer that drops in too many
or too few places, with another probability, or without scaling the rest has another mean or another
covariance. What the course's part gives with one place changed tells which place it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whywrong import Case, Draw, Observation, fresh, set_seed, true_of
from whywrong.probing import (
    Expected,
    Trial,
    Verdict,
    happened_there,
    inject,
)

TEXTS, REFERENCE = 4_000, 8_000  # draws of an answer or a mistake, and of what is right
FEW = 1_200  # draws that show whether a mistake can be the one observed
AT_ONCE = 200  # texts of a batch: an answer may let all of them attend to each other
CLOSE = 0.28  # samples from the same distribution are 0.05 to 0.2 apart, wrong ones 0.4 and more
FAR = 0.55  # few draws from the same distribution are at most 0.3 apart
ALWAYS = "drops with a fixed probability, whatever `dropout` is"
# How often the course's part drops, in parts of p, by the name of a dropout, or of another layer:
# its input ("> name") or its output ("name >"); the name "" is that of all dropouts.
Rates = Mapping[str, float]


@dataclass(frozen=True)
class Drops:
    """The draws that are right, and those of likely mistakes, from the course's part.

    Args:
        part: makes the course's part from the case's arguments; its dropouts have the rate p.
        places: what its dropouts act on, by name: "the output of attention".
        right: what is right; at first nothing but what the part does.
        more: further mistakes.
    """

    part: Callable[..., nn.Module]
    case: Case = field(compare=False)
    places: Mapping[str, str]
    right: Sequence[Rates] = ({},)
    more: Mapping[str, Rates] = field(default_factory=dict)

    def accepts(self, mine: Tensor) -> bool:
        return any(distance(mine, self.moments(rates)) < CLOSE for rates in self.right)

    def mistake(self, mine: Tensor) -> str:
        """The likeliest, or an empty string."""
        far = [(distance(mine, self.moments(rates)), fault) for fault, rates in self.faults]
        nearest, fault = min(far)
        return fault if nearest < CLOSE else ""

    def may_make(self, fault: str, few: Tensor) -> bool:
        """Whether few draws may be those of a mistake."""
        made = (rates for name, rates in self.faults if name == fault)
        return any(distance(few, self.moments(rates)) < FAR for rates in made)

    @property
    def faults(self) -> list[tuple[str, Rates]]:
        p = self.case.options["kwargs"]["dropout"]
        made = [*self.more.items()]
        made += [(ALWAYS, {"": fixed / p}) for fixed in (0.1, 0.2, 0.5)]
        for name, what in self.places.items():
            made.append((f"drops nothing of {what}", {name: 0.0}))
            made.append((f"drops {what} twice", {name: 2 - p}))  # 1 - (1 - p)² in all
        return made

    def glance(self, make: Callable[..., Any], case: Case, observed: Observation) -> None:
        """What a few draws show of a mistake: see `alike`."""
        module = _see_in_common(make, case, observed)
        observed.put("draw:few", moments_of(module, case, FEW))

    def moments(self, rates: Rates) -> Tensor:
        known = self.__dict__.setdefault("known", {})
        if (place := tuple(rates.items())) not in known:
            known[place] = self._moments(rates)
        return known[place]

    def _moments(self, rates: Rates) -> Tensor:
        options = self.case.options
        p = options["kwargs"]["dropout"]
        part = self.part(*options["args"], **options["kwargs"]).train()
        inject(part, options["weights"])
        for name, factor in rates.items():
            layer, rate = part.get_submodule(name.strip("> ")), factor * p
            if not name:
                for dropout in (d for d in part.modules() if isinstance(d, nn.Dropout)):
                    dropout.p = rate
            elif isinstance(layer, nn.Dropout):
                layer.p = rate
            elif name.startswith(">"):
                layer.register_forward_pre_hook(lambda _, x, p=rate: F.dropout(x[0], p))
            else:
                layer.register_forward_hook(lambda _, x, out, p=rate: F.dropout(out, p))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(5)
            draws = REFERENCE if rates in self.right else TEXTS
            return moments(part(*many(self.case, draws)))


def many(case: Case, texts: int) -> list[Tensor]:
    """The first text, so many times."""
    return [fresh(x[:1].expand(texts, *x.shape[1:])) for x in case.inputs.values()]


def moments(draws: Tensor) -> Tensor:
    """The mean of a text's numbers, and below it their covariance."""
    numbers = draws.detach().cpu().double().flatten(1)
    return torch.cat([numbers.mean(0)[None], numbers.T.cov()])


def distance(mine: Tensor, other: Tensor) -> float:
    """Relative to the other's spread, so that 1 is as much as there is."""
    spread = other[1:].norm()
    apart = (mine[0] - other[0]).square().sum() / other[1:].trace()
    return float((mine[1:] - other[1:]).norm() / spread + 3 * apart.sqrt())


# ---------------------------------------------------------------- the case and its draws


def with_dropout(
    draw: Draw,
    part: Callable[..., nn.Module],
    case: Case,
    places: Mapping[str, str],
    **drops: Any,
) -> Case:
    """The case with a dropout, for `see_dropout` and `DROPOUT`. Its weights should be those of a
    fixed draw, for which `faults` are far from right."""
    # Far enough from 0.2 and 0.5, which people write into their code.
    kwargs = {**case.options["kwargs"], "dropout": (37, 39, 41)[draw.integer(0, 2)] / 100}
    options = {**case.options, "kwargs": kwargs}
    made = Case(case.name, case.inputs, options=options, roles={"dropout", "small"})
    options["drops"] = Drops(part, made, places, **drops)
    return made


def see_dropout(make: Callable[..., Any], case: Case, observed: Observation) -> None:
    """Records the moments of draws in training mode; what calls of two modules with two seeds have
    in common, though they shouldn't; and another device."""
    if "dropout" not in case.roles:
        return
    module = _see_in_common(make, case, observed)
    observed.put("draw:moments", moments_of(module, case, TEXTS))
    observed.facts["elsewhere"] = happened_there(make(as_made=True).train(), case)


def _see_in_common(make: Callable[..., Any], case: Case, observed: Observation) -> Any:
    """Records what calls in training mode have in common, and returns the last module."""
    draws = []
    for seed in (1, 2):
        module = make(as_made=True)
        with suppress(Exception):  # another module, made in addition
            type(module)(*case.options["args"])
        if seed == 1:  # a call in evaluation mode must leave nothing behind
            with torch.no_grad():
                module.eval()(*many(case, 2))
            module.train()
        set_seed(seed)
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                draws.append(module(*many(case, 8)))
    observed.facts.setdefault("traits", {})["draws"] = _in_common(draws, make()(*many(case, 8)))
    return module


def moments_of(module: Any, case: Case, texts: int) -> Tensor:
    with torch.no_grad():
        batch = many(case, AT_ONCE)
        return moments(torch.cat([module(*map(fresh, batch)) for _ in range(texts // AT_ONCE)]))


def _in_common(draws: Sequence[Tensor], still: Tensor) -> str:
    one, again, two, again_two = draws
    if all(torch.allclose(d, still, atol=1e-5) for d in draws):
        return "drops nothing"
    if torch.allclose(one, still, atol=1e-5):
        return "drops nothing after a call in evaluation mode"
    if torch.equal(one, again):
        return "uses one draw for all calls"
    if torch.equal(one, two):
        return "uses the same draw in each module, whatever the seed"
    if torch.equal(again, again_two):
        return "sets the random seed, so that later calls repeat the draw"
    if torch.allclose(one, one[:1], atol=1e-6):
        return "uses one draw for the whole batch"
    return ""


# ---------------------------------------------------------------- what the draws show


def alike(one: Trial, other: Trial) -> bool:
    """Whether two answers of which the same is said make the same mistake: one that has words of
    its own, or else draws from the same distribution. Few draws of the other show only whether it
    may be so."""
    drops, mine = one.case.options["drops"], one.observed.tensors.get("draw:moments")
    few, theirs = (other.observed.tensors.get(f"draw:{kind}") for kind in ("few", "moments"))
    if mine is None or (few is None and theirs is None):
        return True
    fault = drops.mistake(mine)
    if few is not None:
        if one.observed.traits["draws"] != other.observed.traits["draws"]:
            return False
        if one.observed.traits["draws"] or not bool(mine.isfinite().all()):
            return True
        return drops.may_make(fault, few) if fault else distance(few, mine) < FAR
    if fault or theirs is None:
        return True
    if not bool(mine.isfinite().all()):
        return not bool(theirs.isfinite().all())
    return not bool(mine[1:].any() or theirs[1:].any()) or distance(mine, theirs) < CLOSE


@true_of(
    "In training, dropout acts in the right places, and scales the rest by 1/(1 - p)",
    role="dropout",
    any_number=True,
    draws=alike,
    breaks="In training, dropout should act in the right places, and scale the rest by 1/(1 - p)",
)
def dropout(case: Case, observed: Observation, expected: Expected) -> Verdict:
    still, drops = observed.tensors["out"], case.options["drops"]
    if not torch.allclose(still.double(), expected["out"].double(), atol=1e-4):
        return None  # wrong even without dropout, which other properties report
    if observed.traits["draws"]:
        return observed.traits["draws"]
    mine = observed.tensors["draw:moments"]
    if not bool(mine.isfinite().all()):
        return "gives NaN"
    if drops.accepts(mine):
        return True
    return drops.mistake(mine) or _how_much(mine, drops.moments({}))


def _how_much(mine: Tensor, right: Tensor) -> str:
    more = float(mine[1:].trace() / right[1:].trace())
    how = "less than it should" if more < 0.7 else "more than it should" if more > 1.4 else ""
    apart = (mine[0] - right[0]).square().sum() / right[1:].trace()
    average = ", and changes the result on average" if float(apart) > 0.01 else ""
    return f"drops {how or 'something else'}{average}"


DROPOUT = dropout
