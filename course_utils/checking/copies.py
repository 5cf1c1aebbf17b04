"""Probing answers that copy one module's values into another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .calling import fresh, target_device
from .comparing import same
from .exercise import Case, Expected, Property, Verdict
from .modules import inject, part
from .observation import Observation


class CopyProbe:
    """Calls an answer that copies one module's values into another, and looks at both afterwards.

    Each case gives the target's parameters by name and `out`, what the target makes of the case's
    option `x` in evaluation mode; the type of what was `returned`; the fact `modified` if the
    source changed; and as `traits` whether the target's `Parameter` objects are still the same
    ones, whether each asks for a gradient as before (the option `frozen` names some that don't),
    whether any shares its memory with the source, and whether a module's mode was changed.

    Args:
        make: builds the source and the target of a case; the case's two inputs are their
            parameters by name.
    """

    def __init__(self, make: Callable[[Case], tuple[nn.Module, nn.Module]]) -> None:
        self.make = make

    def _modules(self, case: Case) -> list[nn.Module]:
        dtype = case.options.get("dtype", torch.float32)
        modules = [m.to(target_device(), dtype) for m in self.make(case)]
        for module, weights in zip(modules, case.inputs.values(), strict=True):
            inject(module, weights)
        for name in case.options.get("frozen", ()):
            part(modules[1], name).requires_grad_(False)
        return modules

    def __call__(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        source, target = self._modules(case)
        source.eval()  # one in each mode: neither is the answer's to change
        given = {n: (p, p.detach().clone(), p.requires_grad) for n, p in source.named_parameters()}
        before = {n: (p, p.requires_grad) for n, p in target.named_parameters()}

        returned = answer(source, target)

        mode = source.training or not target.training
        seen.put("returned", returned)
        for name in before:
            seen.put(name, part(target, name))
        with torch.no_grad():
            seen.put("out", target.eval()(fresh(case.options["x"])))
        left = dict(source.named_parameters())
        if left.keys() != given.keys() or not all(
            left[n] is p and same(p, value) and p.requires_grad == asked
            for n, (p, value, asked) in given.items()
        ):
            seen.facts["modified"] = [next(iter(case.inputs))]
        after = dict(target.named_parameters())
        mine = {p.untyped_storage().data_ptr() for p, _, _ in given.values()}
        values = [t for n in before if isinstance(t := part(target, n), Tensor)]
        seen.facts["traits"] = {
            "kept": after.keys() == before.keys()
            and all(after[n] is p for n, (p, _) in before.items()),
            "asks_as_before": all(
                getattr(part(target, n), "requires_grad", None) == asked
                for n, (_, asked) in before.items()
            ),
            "shared": any(t.untyped_storage().data_ptr() in mine for t in values),
            "mode": mode,
        }
        return seen

    def glance(self, answer: Any, case: Case) -> Observation:
        """What the target gives afterwards, alone."""
        seen = Observation()
        source, target = self._modules(case)
        answer(source.eval(), target)
        with torch.no_grad():
            seen.put("out", target.eval()(fresh(case.options["x"])))
        return seen


def _trait(name: str, wanted: Any) -> Callable[..., Verdict]:
    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return bool(seen.traits[name] == wanted) if name in seen.traits else None

    return holds


def _returns_none(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.facts["types"]["returned"] == "NoneType") if "types" in seen.facts else None


COPY_PROPERTIES = (
    Property(
        "independent",
        "Afterwards the two modules share no memory",
        _trait("shared", False),
        credit=True,
        breaks="The two modules share memory: training one would change the other",
    ),
    Property(
        "same_objects",
        "The `Parameter` objects are the ones that were there",
        _trait("kept", True),
        credit=True,
        breaks="A `Parameter` object was replaced: an optimizer would go on training the old one",
    ),
    Property(
        "asks_as_before",
        "Each parameter asks for a gradient as before",
        _trait("asks_as_before", True),
        credit=True,
    ),
    Property("modes", "Both modules stay in the mode they were in", _trait("mode", False)),
    Property("returns_none", "It works in place and returns None", _returns_none, secondary=True),
)
