"""Calls functions that translate with a model, and judges what they do to the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Observation, Property, fresh, set_seed
from whywrong.probing import THERE, happened_elsewhere, moved, see_calls

from .traits import MODE_AND_QUIET, fate_of, see_without_gradients, trait


class TranslateProbe:
    """Lets an answer translate the sources of a case, each time with a fresh model.

    Each case gives `out`, the facts of `calling.see_calls` and `elsewhere`, and as `traits` the
    model's mode and weights afterwards and whether calls were recorded for gradients.

    Args:
        make: creates the model of a case; `recorded` counts the calls that record gradients.
        shown: takes the part to compare from a result and its case.
    """

    def __init__(
        self, make: Callable[[Case], Any], shown: Callable[[Any, Case], Any] = lambda out, _: out
    ) -> None:
        self.make = make
        self.shown = shown

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        observed = Observation()
        models: list[Any] = []

        def call(args: list[Any]) -> Any:
            models.append(self.make(case))
            return self.shown(_translated(answer, case, models[-1], args[1:]), case)

        if not see_calls(call, case, observed):
            return observed
        args = [fresh(v) for v in case.inputs.values()]
        see_without_gradients(lambda: call(args), case, observed)
        new = self.make(case).state_dict()
        observed.facts["traits"] = fate_of(models[0], case.options["training"], new)
        if case.roles & {"typical", "elsewhere"}:
            rest = [moved(v) for v in list(case.inputs.values())[1:]]
            observed.facts["elsewhere"] = happened_elsewhere(
                lambda: _translated(answer, case, self.make(case).to(THERE), rest)
            )
        return observed

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the result."""
        observed = Observation()
        set_seed(1)
        args = [fresh(v) for v in case.inputs.values()]
        out = _translated(answer, case, self.make(case), args[1:])
        observed.put("out", self.shown(out, case))
        return observed


def _translated(answer: Callable[..., Any], case: Case, model: Any, rest: list[Any]) -> Any:
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, [model, *rest], strict=True)))
    return answer(model, *rest)


def expect_translated(oracle: Callable[[Case], Tensor]) -> Callable[[Case], dict[str, Tensor]]:
    def expect(case: Case) -> dict[str, Tensor]:
        with torch.no_grad():
            return {"out": oracle(case)}

    return expect


OF_THE_MODEL = (
    *(replace(p, credit=True) for p in MODE_AND_QUIET),
    Property(
        "kept",
        "The model's weights are unchanged and can still be trained",
        trait("kept"),
        secondary=True,
        breaks="The model was changed: its weights, their gradients, or whether they are trained",
    ),
)
