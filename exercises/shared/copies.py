"""Probes answers that copy one module's values into another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from whywrong import Case, Observation, Property, fresh, same
from whywrong.probing import THERE, Expected, Verdict, happened_elsewhere, inject, part, placed


class CopyProbe:
    """Calls an answer that copies one module's values into another, and inspects both afterwards.

    Each case gives the target's parameters by name and `out`, the target's output for the case's
    option `x` in evaluation mode; the type of the `returned` value; the fact `modified` if anything
    in the source changed; and as `traits` the changes of the target, see `COPY_PROPERTIES`. A case
    with the role "typical" is copied twice, first from other values, and again on another device.

    Options of a case: `dtype`; `frozen`, names of the target's parameters that require no gradient;
    `turned_round`, whether both create their parts in a different order; `keywords`, whether the
    answer is called by name.

    Args:
        make: builds the source and the target of a case; the case's two inputs are their
            parameters by name.
    """

    def __init__(self, make: Callable[[Case], tuple[nn.Module, nn.Module]]) -> None:
        self.make = make

    def _modules(self, case: Case) -> list[nn.Module]:
        dtype = case.options.get("dtype", torch.float32)
        modules = [placed(m, dtype) for m in self.make(case)]
        for module, weights in zip(modules, case.inputs.values(), strict=True):
            inject(module, weights)
            if case.options.get("turned_round"):
                _turn_round(module)
        source, target = modules
        for name in case.options.get("frozen", ()):
            part(target, name).requires_grad_(False)
        for i, module in enumerate((*source.modules(), *target.modules())):
            module.training = i % 2 == 1  # both modes, which must be kept
        for parameter in (*source.parameters(), *target.parameters()):
            if parameter.requires_grad:
                parameter.grad = torch.full_like(parameter, 0.5)
        return modules

    def __call__(self, answer: Any, case: Case) -> Observation:
        observed = Observation()
        source, target = self._modules(case)
        if case.refuses is not None:
            observed.put("returned", _call(answer, case, source, target))
            return observed
        given, before = _whole(source), dict(target.named_parameters())
        asked = {n: p.requires_grad for n, p in before.items()}
        held = [*source.parameters()]
        rest, modes = _rest(target), _modes(source, target)
        values = [p.detach().clone() for p in held]
        if "typical" in case.roles:
            with torch.no_grad():
                for p in held:
                    p.mul_(-0.5).add_(0.25)
            _call(answer, case, source, target)
            with torch.no_grad():
                for p, value in zip(held, values, strict=True):
                    if p.shape != value.shape:
                        p.data = torch.empty_like(value)
                    p.copy_(value)

        returned = _call(answer, case, source, target)

        mode = _modes(source, target) != modes
        after = dict(target.named_parameters())
        theirs = [part(target, n) for n in before]
        tensors = [t for t in theirs if isinstance(t, Tensor)]
        observed.facts["traits"] = {
            "kept": after.keys() == before.keys() and all(after[n] is before[n] for n in before),
            "asks_as_before": all(
                getattr(t, "requires_grad", None) == asked[n]
                for n, t in zip(before, theirs, strict=True)
            ),
            "leaves": all(t.is_leaf for t in tensors),
            "shared": bool(_memory(held, source.buffers()) & _memory(tensors, target.buffers())),
            "mode": mode,
            "rest": _alike(_rest(target), rest),
        }
        if not _alike(_whole(source), given):
            observed.facts["modified"] = [next(iter(case.inputs))]
        observed.put("returned", returned)
        for name, value in zip(before, theirs, strict=True):
            observed.put(name, value)
        with torch.no_grad():
            observed.put("out", target.eval()(fresh(case.options["x"])))
        if "typical" in case.roles:
            observed.facts["elsewhere"] = self._happened_elsewhere(answer, case)
        return observed

    def _happened_elsewhere(self, answer: Any, case: Case) -> str:
        modules = self._modules(case)
        name = next(n for n, _ in modules[1].named_parameters())

        def call() -> Any:
            source, target = (m.to(THERE) for m in modules)
            _call(answer, case, source, target)
            return part(target, name)

        return happened_elsewhere(call)

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the target's output afterwards."""
        observed = Observation()
        source, target = self._modules(case)
        _call(answer, case, source, target)
        if case.refuses is None:
            with torch.no_grad():
                observed.put("out", target.eval()(fresh(case.options["x"])))
        return observed


def _call(answer: Any, case: Case, source: nn.Module, target: nn.Module) -> Any:
    if case.options.get("keywords"):
        return answer(**dict(zip(case.inputs, (source, target), strict=True)))
    return answer(source, target)


def _turn_round(module: nn.Module) -> None:
    """The same parts, as if they had been created in reverse order."""
    for owner in list(module.modules()):
        parts = list(owner.named_children())
        if not isinstance(owner, nn.ModuleList):
            for name, child in reversed(parts):
                delattr(owner, name)
                setattr(owner, name, child)


def _modes(*modules: nn.Module) -> list[bool]:
    return [m.training for module in modules for m in module.modules()]


Kept = tuple[list[Tensor], list[Any]]  # tensors, and plain data


def _rest(module: nn.Module) -> Kept:
    """What a module contains besides parameters and modes: buffers, settings, hooks."""
    plain: list[Any] = [
        [(n, _plain(v)) for n, v in vars(m).items() if n not in _NOT_THE_REST and v is not None]
        for m in module.modules()
    ]
    for p in module.parameters():
        plain.append((len(p._backward_hooks or ()), len(p._post_accumulate_grad_hooks or ())))
    return [b.detach().clone() for b in module.buffers()], plain


_NOT_THE_REST = {"_parameters", "_buffers", "_modules", "training"}


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    return len(value) if hasattr(value, "__len__") else id(value)


def _whole(module: nn.Module) -> Kept:
    """Everything that a source contains, including its parameters and their gradients."""
    named = dict(module.named_parameters())
    buffers, plain = _rest(module)
    tensors = [t.detach().clone() for p in named.values() for t in (p, p.grad) if t is not None]
    asked = [(n, id(p), p.requires_grad, p.grad is None) for n, p in named.items()]
    return [*tensors, *buffers], [asked, plain]


def _alike(a: Kept, b: Kept) -> bool:
    return a[1] == b[1] and same(a[0], b[0])


def _memory(*tensors: Iterable[Tensor]) -> set[int]:
    return {t.untyped_storage().data_ptr() for group in tensors for t in group if t.numel()}


def _trait(name: str, wanted: Any) -> Callable[..., Verdict]:
    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        return bool(observed.traits[name] == wanted) if name in observed.traits else None

    return holds


def _returns_none(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return (
        bool(observed.facts["types"]["returned"] == "NoneType")
        if "types" in observed.facts
        else None
    )


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
        "The `Parameter` objects are still the same ones",
        _trait("kept", True),
        credit=True,
        breaks="The `Parameter` objects were replaced; an optimizer made earlier "
        "would still train the old ones",
    ),
    Property(
        "asks_as_before",
        "Each parameter requires a gradient, or doesn't, as before",
        _trait("asks_as_before", True),
        credit=True,
        breaks="Some parameter no longer requires a gradient, or newly does",
    ),
    Property(
        "leaves",
        "No parameter is computed from others, which no optimizer would accept",
        _trait("leaves", True),
        breaks="A parameter is now computed from others, so no optimizer accepts it",
    ),
    Property(
        "modes",
        "Both modules keep their mode",
        _trait("mode", False),
        breaks="One of the two modules changed its mode",
    ),
    Property(
        "rest",
        "Nothing else of the target changes",
        _trait("rest", True),
        secondary=True,
        breaks="Something else in the target changed: a buffer, an attribute, dropout or a hook",
    ),
    Property(
        "returns_none",
        "It works in place and returns None",
        _returns_none,
        secondary=True,
        breaks="It returns something, but it should work in place and return None",
    ),
)
