"""Probes classes: weights set by name, gradients read by name, both modes, two devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ._errors import WrongWeights, first_lines, later_calls
from ._exercise import Case, Expected, Property, Verdict
from ._functions import (
    More,
    cotangent,
    doubled,
    fresh,
    further_calls,
    see_calls,
    see_gradients,
    set_seed,
)
from ._observation import Observation, class_name
from ._watching import THERE, Operators, happened_elsewhere, moved, own_code


def build(answer: Any, case: Case, dtype: torch.dtype | None = None) -> Any:
    """The student's module for a case: constructed, in the case's dtype and with its weights.

    `case.options` contains the constructor's `args` and `kwargs`, `weights` by name, and `dtype`.
    With `state_dict`, the weights may also be loaded by `load_state_dict`, however they are stored.

    Raises:
        WrongWeights: the module's parameters have different names or shapes.
    """
    module = answer(*case.options.get("args", ()), **case.options.get("kwargs", {}))
    if not isinstance(module, nn.Module):
        raise WrongWeights(
            f"The class should be an nn.Module, but calling it gave {type(module).__name__}."
        )
    module = placed(module, dtype or case.options.get("dtype", torch.float32))
    _give(module, case.options.get("weights", {}), case)
    return module


def _give(module: nn.Module, weights: Mapping[str, Tensor], case: Case) -> None:
    raised = _loading(module, weights) if case.options.get("state_dict") else "not tried"
    if raised:
        try:
            inject(module, weights)
        except WrongWeights as error:
            if type(module).load_state_dict is nn.Module.load_state_dict:
                raise
            told = f"{error} Your `load_state_dict` raised {raised}"
            raise WrongWeights(told, error.unregistered) from None


def placed(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Does what `module.to("cpu", dtype)` does, but returns at once if there is nothing to do."""
    return module if _is_there(module, dtype) else module.to("cpu", dtype)


def _is_there(module: nn.Module, dtype: torch.dtype) -> bool:
    """Whether moving a module would change nothing and run none of its own code."""
    if getattr(module.to, "__func__", None) is not nn.Module.to:
        return False
    for m in module.modules():
        if getattr(m._apply, "__func__", None) is not nn.Module._apply:
            return False
        for t in (*m._parameters.values(), *m._buffers.values()):
            if t is None:
                continue
            if t.device.type != "cpu" or t.grad is not None:
                return False
            if t.dtype != dtype and (t.is_floating_point() or t.is_complex()):
                return False
    return True


def _loading(module: nn.Module, weights: Mapping[str, Tensor]) -> str:
    """The error that `load_state_dict` raises, or an empty string."""
    try:
        module.load_state_dict({name: value.clone() for name, value in weights.items()})
    except Exception as error:
        return f"{class_name(error)}: {first_lines(error)}"
    return ""


def inject(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into a module by name; a name may also be a property that gives a view."""
    parts = {name: part(module, name) for name in weights}
    missing = [name for name, mine in parts.items() if not isinstance(mine, Tensor)]
    if missing:
        besides = [n for n, _ in module.named_parameters() if n not in weights]
        raise WrongWeights(
            f"{_counted(missing)} missing.\nmissing: {', '.join(missing)}\n"
            f"yours also has: {', '.join(besides) or 'none'}",
            unregistered(module),
        )
    with torch.no_grad():
        for name, value in weights.items():
            mine = parts[name]
            if mine.shape != value.shape:
                raise WrongWeights(
                    f"The parameter {name} should have shape {tuple(value.shape)}; "
                    f"yours has {tuple(mine.shape)}."
                )
            mine.copy_(value)


def _counted(names: Sequence[str]) -> str:
    return "1 parameter is" if len(names) == 1 else f"{len(names)} parameters are"


def part(module: Any, name: str) -> Any:
    """The object that a dotted name refers to in a module, or None."""
    try:
        for step in name.split("."):
            module = module[int(step)] if step.isdigit() else getattr(module, step)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    return module


class ModuleProbe:
    """Builds a module for a case and records what `forward` returns, in evaluation and training.

    Each case gives `out` (evaluation mode) and the facts of `see_calls`; `grad:<input>` and
    `grad:<weight>`; if the case's dropout is 0, also `train` and its gradients as `train-grad:…`,
    from training mode; as a trait, the number of trainable parameters. A case with the role
    "typical" or "device" also gives `elsewhere`. With the option `once`, a case gives only `out`,
    for sizes that take long. The option `others` contains arguments of additional modules. Without
    inputs, the module is only constructed.

    Args:
        gradients: names of inputs that gradients must reach; all injected weights are added.
        more: further calls of one module in evaluation mode, as in `FunctionProbe`. If the changed
            inputs contain "weights" by name, that call has a module of its own with these.
        extra: `(make, case, observation)`, for an exercise's additional observations; `make()`
            gives a fresh module in evaluation mode, `make(dtype, as_made=True)` one as built.
        results: the same, for results besides `out`, which a glance sees, too.
    """

    def __init__(
        self,
        gradients: Sequence[str] = ("x",),
        watch: bool = True,
        more: More | None = None,
        extra: Callable[[Callable[[], Any], Case, Observation], None] | None = None,
        results: Callable[[Callable[[], Any], Case, Observation], None] | None = None,
    ) -> None:
        self.gradients = tuple(gradients)
        self.watch = watch
        self.more = more or {}
        self.extra = extra
        self.results = results

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once") or not case.inputs:
            return self.glance(answer, case)
        observed = Observation()
        observed.facts["traits"] = {}
        set_seed(1)
        module = build(answer, case)
        before = _kept(module)
        if not self._see_first_calls(answer, module, case, observed) or case.refuses is not None:
            return observed
        # Construction takes as long as a call: a module that keeps nothing of a call is reused.
        steady = not UNSTEADY & observed.facts.keys() and _kept(module) == before
        self._see_gradients(
            (module if steady else build(answer, case)).eval(), case, observed, "grad:"
        )
        if not _dropout(case):
            steady = steady and "gradient_error" not in observed.facts
            self._see_training(module if steady else build(answer, case), case, observed)
        if case.roles & {"typical", "device"}:
            observed.facts["elsewhere"] = happened_there(module.eval(), case)
        with later_calls():
            with torch.no_grad():
                self._see_more(answer, case, observed)
            for see in filter(None, (self.results, self.extra)):
                see(partial(_made, answer, case), case, observed)
        return observed

    def _see_first_calls(
        self, answer: Any, module: nn.Module, case: Case, observed: Observation
    ) -> bool:
        """Records results, operators and parameters; returns whether there is a result."""
        for args, kwargs in case.options.get("others", ()):  # it keeps nothing of other modules
            with contextlib.suppress(Exception):
                answer(*args, **kwargs)
        operators = Operators() if self.watch and not own_code.get() else None
        module.eval()
        watch = operators.watch() if operators else None
        worth = see_calls(lambda args: module(*args), case, observed, watch)
        if operators:
            observed.facts["ops"] = operators.names()
        learned = [*module.parameters(), *module.buffers()]
        observed.traits["trainable"] = sum(t.numel() for t in learned if t.requires_grad)
        if besides := _besides(module, case):
            observed.facts["besides"] = besides
        if lost := unregistered(module):
            observed.facts["unregistered"] = lost
        return worth

    def _see_more(self, answer: Any, case: Case, observed: Observation) -> None:
        def made(weights: Mapping[str, Tensor]) -> nn.Module:
            set_seed(1)  # a parameter too many is the same in each
            every = {**case.options.get("weights", {}), **weights}
            return _made(answer, replace(case, options={**case.options, "weights": every}))

        as_before: list[nn.Module] = []
        for name, inputs in further_calls(self.more, case):
            weights = inputs.pop("weights", {})
            if not weights and not as_before:
                as_before.append(made({}))
            module = made(weights) if weights else as_before[0]
            observed.put(name, module(*inputs.values()))

    def _see_training(self, module: nn.Module, case: Case, observed: Observation) -> None:
        """With a dropout of 0, everything is as in evaluation mode."""
        module.train()
        if case.roles & {"typical", "device", "padded"}:
            trained = Observation()
            see_calls(lambda args: module(*args), case, trained)
            observed.facts["types"]["train"] = trained.facts["types"]["out"]
            if "out" in trained.tensors:
                observed.tensors["train"] = trained.tensors["out"]
            for fact in ("modified", "unstable", "overwritten", "device", "left_behind"):
                if fact in trained.facts:
                    observed.facts.setdefault(fact, trained.facts[fact])
            self._see_gradients(module, case, observed, "train-grad:")
        else:
            out = self._see_gradients(module, case, observed, "train-grad:")
            observed.put("train", module(*map(fresh, case.inputs.values())) if out is None else out)

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the result, in evaluation mode; with the option `drops`, also a few draws."""
        observed = Observation()
        set_seed(1)
        module = build(answer, case).eval()
        if not case.inputs:
            return observed
        set_seed(1)
        with torch.no_grad():
            observed.put("out", module(*map(fresh, case.inputs.values())))
        make = partial(_made, answer, case)
        if drops := case.options.get("drops"):
            drops.glance(make, case, observed)
        if self.results:
            with later_calls():
                self.results(make, case, observed)
        return observed

    def _see_gradients(
        self, module: nn.Module, case: Case, observed: Observation, prefix: str
    ) -> Any:
        """Restores the module afterwards, and returns the result."""
        out = see_gradients(lambda args: module(*args), case, self.gradients, observed, prefix)
        try:
            with gradients_as_weights(module):
                kept = module.state_dict() if case.options.get("state_dict") else {}
                for name in case.options.get("weights", {}):
                    value = part(module, name)
                    value = kept.get(name) if value is None else value
                    if value is None:  # it was loaded, but is stored in another form
                        observed.facts.setdefault("unread", []).append(f"{prefix}{name}")
                    elif not bool(value.isnan().any()):
                        observed.put(f"{prefix}{name}", value)
        except Exception as error:
            observed.facts["gradient_error"] = f"{type(error).__name__}: {first_lines(error)}"
        return out


@contextlib.contextmanager
def gradients_as_weights(module: nn.Module) -> Iterator[None]:
    """Temporarily replaces each parameter by its gradient, or NaN if it has none; afterwards
    restores its numbers, without a gradient.

    A gradient can then be read under the name of its weight, even if that weight is a view of a
    larger parameter.
    """
    before = [(p, p.detach().clone()) for p in module.parameters()]
    with torch.no_grad():
        for parameter, _ in before:
            grad = parameter.grad
            parameter.copy_(torch.full_like(parameter, torch.nan) if grad is None else grad)
    yield
    with torch.no_grad():
        for parameter, value in before:
            parameter.copy_(value)
            parameter.grad = None


def _kept(module: nn.Module) -> list[Any]:
    """What a module keeps besides its parameters and its mode; two such lists are equal as long as
    nothing was added or overwritten."""
    kept: list[Any] = []
    for m in module.modules():
        kept += [(n, id(v), _size(v)) for n, v in vars(m).items() if n not in PARTS_AND_MODE]
        kept += [(n, id(v), v is not None and v._version) for n, v in m._buffers.items()]
    return kept


def _size(value: Any) -> int:
    return len(value) if isinstance(value, dict | list | set) else 0


OF_EACH_MODULE = {*vars(nn.Module())}
UNSTEADY = {"modified", "unstable", "overwritten"}  # facts of a module that a call changes
PARTS_AND_MODE = {"_parameters", "_buffers", "_modules", "training"}


def _made(
    answer: Any, case: Case, dtype: torch.dtype | None = None, as_made: bool = False
) -> nn.Module:
    """A module for further observations, in evaluation mode or in its initial mode."""
    module: nn.Module = build(answer, case, dtype)
    return module if as_made else module.eval()


def _besides(module: nn.Module, case: Case) -> list[tuple[str, int]]:
    """Names and sizes of the first trainable parameters that the exercise doesn't ask for."""
    weights = case.options.get("weights", {})
    found = [(n[:60], p.numel()) for n, p in module.named_parameters() if p.requires_grad]
    return [f for f in found if f[0] not in weights][:5]


def unregistered(module: nn.Module) -> list[tuple[str, str]]:
    """Names and types of the first lists, tuples and dicts that contain parameters of which PyTorch
    doesn't know, whatever the attributes are called."""
    known, found = {*map(id, module.parameters())}, []
    with contextlib.suppress(Exception):  # an attribute may be anything
        for prefix, m in module.named_modules():
            for name, value in vars(m).items():
                if name not in OF_EACH_MODULE and _contains_more(value, known):
                    place = ".".join(filter(None, (prefix, name)))
                    found.append((place[:60], type(value).__name__[:60]))
    return found[:5]


def _contains_more(value: Any, known: set[int], depth: int = 3) -> bool:
    """Whether parameters that are not known are in a collection, or in collections inside it."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple | set) or not depth:
        return False
    for one in value:
        held = one.parameters() if isinstance(one, nn.Module) else [one]
        if any(isinstance(p, nn.Parameter) and id(p) not in known for p in held):
            return True
        if _contains_more(one, known, depth - 1):
            return True
    return False


def _dropout(case: Case) -> float:
    return case.options.get("kwargs", {}).get("dropout", 0.0)


def happened_there(module: nn.Module, case: Case) -> str:
    """Records what happens in a call on another device, for a module that has already run here."""
    inputs = [moved(fresh(v)) for v in case.inputs.values()]

    def call() -> Any:
        return module.to(THERE)(*inputs)

    return happened_elsewhere(call)


def expect_module(
    oracle: Callable[..., Tensor], gradients: Sequence[str] = ("x",)
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle `oracle(case, weights, *inputs) -> out`."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        dtype = case.options.get("dtype", torch.float32)
        weights = {n: doubled(w, True) for n, w in case.options.get("weights", {}).items()}
        inputs = {n: doubled(v, n in gradients) for n, v in case.inputs.items()}
        with torch.enable_grad():
            out = oracle(case, weights, *inputs.values())
        expected = {"out": out.detach().to(dtype)}
        if case.options.get("once"):
            return expected
        leaves = {n: inputs[n] for n in gradients if isinstance(inputs.get(n), Tensor)} | weights
        total = (out * cotangent(expected["out"]).double()).sum()
        grads = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        for name, grad in zip(leaves, grads, strict=True):
            expected[f"grad:{name}"] = grad.to(dtype)
        if not _dropout(case):
            expected["train"] = expected["out"]
            for name in leaves:
                expected[f"train-grad:{name}"] = expected[f"grad:{name}"]
        return expected

    return expect


def _parameters(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if "trainable" not in observed.traits or case.refuses is not None:
        return None
    wanted = sum(w.numel() for w in case.options.get("weights", {}).values())
    more = observed.traits["trainable"] - wanted
    if not more:
        return True
    besides = observed.facts.get("besides", ())
    if sum(size for _, size in besides) == more:  # otherwise some have other names, or are missing
        return f"also include: {', '.join(f'`{name}`' for name, _ in besides)}"
    return f"are {abs(more):,} too {'many' if more > 0 else 'few'}"


def _registered(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return "unregistered" not in observed.facts if "trainable" in observed.traits else None


MODULE_PROPERTIES = (
    Property(
        "parameters",
        "It has exactly the right trainable parameters",
        _parameters,
        secondary=True,
        breaks="Its trainable parameters are not the right ones",
    ),
    Property(
        "registered",
        "PyTorch finds all its parameters",
        _registered,
        breaks="PyTorch doesn't find all its parameters, so no optimizer trains them",
    ),
)
