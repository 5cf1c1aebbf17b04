"""Probes functions: the result, its gradients and its side effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._answers import takes_names
from ._calling import cotangent, fresh, see_calls, see_gradients, set_seed
from ._errors import later_calls
from ._exercise import Case
from ._observation import Observation
from ._watching import Operators, happened_elsewhere, moved


class FunctionProbe:
    """Calls a function on a case and records its result, its gradients and its side effects.

    Each case gives `out`; `grad:<name>` for each floating-point input named in `gradients`; the
    facts of `calling.see_calls` and `elsewhere`; and with `watch`, the fact `ops`. A case with the
    option `once` gives only `out`, for sizes that take long.

    Args:
        gradients: names of inputs that gradients must reach.
        watch: record which operators ran.
        extra: `(answer, case, observation)`, for an exercise's additional observations.
    """

    def __init__(
        self,
        gradients: Sequence[str] = (),
        watch: bool = False,
        extra: Callable[[Any, Case, Observation], None] | None = None,
    ) -> None:
        self.gradients = tuple(gradients)
        self.watch = watch
        self.extra = extra

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        observed = Observation()
        operators = Operators()
        call = _caller(answer, case)
        worth = see_calls(call, case, observed, operators.watch() if self.watch else None)
        if self.watch:
            observed.facts["ops"] = operators.names()
        if not worth or case.refuses is not None:
            return observed
        if self.gradients and not observed.facts.get("modified"):
            see_gradients(call, case, self.gradients, observed)
        tensors = [v for v in case.inputs.values() if isinstance(v, Tensor)]
        if tensors:
            inputs = [moved(v) for v in case.inputs.values()]
            observed.facts["elsewhere"] = happened_elsewhere(lambda: call(inputs))
        if self.extra:
            with later_calls():
                self.extra(answer, case, observed)
        return observed

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the result."""
        observed = Observation()
        set_seed(1)
        observed.put("out", _caller(answer, case)([fresh(v) for v in case.inputs.values()]))
        return observed


def _caller(answer: Any, case: Case) -> Callable[[list[Any]], Any]:
    """Calls the answer on a list of inputs, with those in the option `keywords` by name."""
    names, by_name = list(case.inputs), case.options.get("keywords", ())
    by_name = by_name if takes_names(answer) else ()

    def call(args: list[Any]) -> Any:
        given = [a for n, a in zip(names, args, strict=True) if n not in by_name]
        return answer(*given, **{n: args[names.index(n)] for n in by_name})

    return call


def doubled(value: Any, gradients: bool = False) -> Any:
    """A floating-point tensor as a float64 copy; anything else unchanged."""
    if not (isinstance(value, Tensor) and value.is_floating_point()):
        return value
    return value.detach().to(torch.float64, copy=True).requires_grad_(gradients)


def expect_function(
    oracle: Callable[..., Tensor],
    gradients: Sequence[str] = (),
    dtype: torch.dtype | None = None,
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle, in `dtype` or else in the first float input's."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        args = {name: doubled(v, name in gradients) for name, v in case.inputs.items()}
        floats = [
            v.dtype for v in case.inputs.values() if isinstance(v, Tensor) and v.is_floating_point()
        ]
        wanted = dtype or (floats[0] if floats else None)
        with torch.enable_grad():
            out = oracle(*args.values())
        expected = {"out": out.detach().to(wanted) if wanted else out.detach()}
        given = [n for n in gradients if isinstance(case.inputs.get(n), Tensor)]
        if given and not case.options.get("once"):
            total = (out * cotangent(expected["out"]).double()).sum()
            grads = torch.autograd.grad(total, [args[n] for n in given])
            for name, grad in zip(given, grads, strict=True):
                expected[f"grad:{name}"] = grad.to(case[name].dtype)
        return expected

    return expect
