"""Functions that write with a model, word by word: a model to write with, the text, and what became
of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from whywrong import Case, Draw, Observation, Property, fresh, same, set_seed
from whywrong.probing import (
    THERE,
    Expected,
    Verdict,
    happened_elsewhere,
    moved,
    see_calls,
)

from .traits import trait

# ---------------------------------------------------------------- a model


def writer_numbers(draw: Draw, V: int, context_length: int) -> dict[str, Tensor]:
    """Parameters of a `Writer`, in float64 so that rounding changes no choice."""
    return {
        "token": draw.normal(V, 7, dtype=torch.float64),
        "position": draw.normal(context_length, 7, dtype=torch.float64),
        "head": draw.normal(7, V, dtype=torch.float64),
    }


class Writer(nn.Module):
    """A model whose next word depends on every word that it gets and on the words' positions.

    In training mode, it prefers a different word; it has a layer with its own mode. Texts longer
    than its context raise an error. `recorded` counts the calls recorded for gradients.
    """

    token: Tensor
    position: Tensor
    head: Tensor

    def __init__(self, numbers: dict[str, Tensor]) -> None:
        super().__init__()
        self.context_length = len(numbers["position"])
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.inner = nn.Identity()  # it has its own mode
        self.recorded = 0

    def read(self, ids: Tensor, begin: int = 0) -> Tensor:
        """The contribution of the words from position `begin` on, `(B, T, C)`."""
        end = begin + ids.shape[1]
        if end > self.context_length:
            raise ValueError(f"got {end} tokens, but context_length is {self.context_length}")
        return self.token[ids] * self.position[begin:end]  # (B, T, C) * (T, C)

    def logits(self, sums: Tensor) -> Tensor:
        logits = torch.sin(7 * sums) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        self.recorded += logits.requires_grad
        return self.inner(logits.roll(1, -1) if self.inner.training else logits)

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits(self.read(ids).cumsum(dim=1))


# ---------------------------------------------------------------- the probe


class WritingProbe:
    """Lets an answer write with a fresh model each time; the model is its first input.

    Each case gives `out`, the facts of `see_calls` and `elsewhere`, and as traits what became of
    the model: see `OF_THE_MODEL`. With the option `once`, a case gives only `out`.

    Args:
        make: creates the model of a case; `recorded` counts the calls that record gradients.
        shown: takes the part to compare from a result and its case.
        counts: attributes of the model that are traits as well.
    """

    def __init__(
        self,
        make: Callable[[Case], Any],
        shown: Callable[[Any, Case], Any] = lambda out, _: out,
        counts: tuple[str, ...] = (),
    ) -> None:
        self.make = make
        self.shown = shown
        self.counts = counts

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        observed = Observation()
        models: list[Any] = []

        def call(args: list[Any]) -> Any:
            models.append(self.make(case))
            return self.shown(_written(answer, case, models[-1], args[1:]), case)

        if not see_calls(call, case, observed):
            return observed
        args = [fresh(v) for v in case.inputs.values()]
        if "typical" in case.roles:  # switched off by the caller, gradients must stay off
            with torch.no_grad():
                call(args)
                if torch.is_grad_enabled():
                    observed.facts.setdefault("left_behind", []).append("gradient mode")
        model, numbers = models[0], self.make(case).state_dict()
        now, parameters = model.state_dict(), [*model.parameters()]
        observed.facts["traits"] = {
            "mode": all(m.training == case.options["training"] for m in model.modules()),
            "quiet": not model.recorded,
            "kept": all(same(now.get(n), v) for n, v in numbers.items())
            and all(p.requires_grad and p.grad is None for p in parameters),
            **{name: getattr(model, name) for name in self.counts},
        }
        rest = [moved(v) for v in args[1:]]
        observed.facts["elsewhere"] = happened_elsewhere(
            lambda: _written(answer, case, self.make(case).to(THERE), rest)
        )
        return observed

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the result."""
        observed = Observation()
        set_seed(1)
        args = [fresh(v) for v in case.inputs.values()]
        out = _written(answer, case, self.make(case), args[1:])
        observed.put("out", self.shown(out, case))
        return observed


def _written(answer: Callable[..., Any], case: Case, model: Any, rest: list[Any]) -> Any:
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, [model, *rest], strict=True)))
    return answer(model, *rest)


def expect_text(oracle: Callable[[Case], Tensor]) -> Callable[[Case], dict[str, Tensor]]:
    def expect(case: Case) -> dict[str, Tensor]:
        with torch.no_grad():
            return {"out": oracle(case)}

    return expect


# ---------------------------------------------------------------- what is true of text and model


def begins(case: Case, observed: Observation, expected: Expected) -> Verdict:
    T = case["ids"].shape[1]
    return bool((observed.tensors["out"][:, :T] == case["ids"]).all())


def first_word(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not case["max_new_tokens"]:
        return None
    T = case["ids"].shape[1]
    return bool((observed.tensors["out"][:, T] == expected["out"][:, T]).all())


OF_THE_MODEL = (
    Property(
        "mode",
        "The model is left in its original mode",
        trait("mode"),
        credit=True,
        secondary=True,
        breaks="The model is not left in its original mode",
    ),
    Property(
        "quiet",
        "No call is recorded for gradients",
        trait("quiet"),
        credit=True,
        secondary=True,
        breaks="The model was called with gradients recorded",
    ),
    Property(
        "kept",
        "The model's weights are unchanged and can still be trained",
        trait("kept"),
        secondary=True,
        breaks="The model was changed: its weights, their gradients, or whether they are trained",
    ),
)
