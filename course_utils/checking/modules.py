"""Probing classes: weights injected by name, gradients read by name, masks that move along."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from .exercise import Behaviour, Case, Observation, plain
from .probing import WrongWeights, cotangent, fresh, same, target_device


def build(answer: Any, case: Case) -> Any:
    """The student's module for a case: constructed, in the case's dtype, with its weights.

    `case.options` holds `args` and `kwargs` of the constructor, `weights` by name, and `dtype`.

    Raises:
        WrongWeights: the module's parameters have other names or shapes.
    """
    module = answer(*case.options.get("args", ()), **case.options.get("kwargs", {}))
    if not isinstance(module, nn.Module):
        raise WrongWeights(
            f"The class should be an nn.Module; calling it gave {type(module).__name__}."
        )
    module = module.to(target_device(), case.options.get("dtype", torch.float32))
    inject(module, case.options.get("weights", {}))
    return module


def inject(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies weights into a module by name; a name may also be a property that gives a view."""
    missing = [name for name in weights if not isinstance(_resolve(module, name), Tensor)]
    if missing:
        found = [n for n, _ in module.named_parameters()]
        raise WrongWeights(
            f"These parameters are missing: {_listed(missing)}. Yours has: {_listed(found)}. "
            f"It should have: {_listed(list(weights))}."
        )
    for name, value in weights.items():
        mine = _resolve(module, name)
        if mine.shape != value.shape:
            raise WrongWeights(
                f"The parameter {name} should have shape {tuple(value.shape)}; "
                f"yours has {tuple(mine.shape)}."
            )
        with torch.no_grad():
            mine.copy_(value)


def _listed(names: Sequence[str], most: int = 9) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _resolve(module: Any, name: str) -> Any:
    try:
        for part in name.split("."):
            module = module[int(part)] if part.isdigit() else getattr(module, part)
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    return module


class ModuleProbe:
    """Builds a module on a case and sees what `forward` gives, in evaluation and in training.

    Each case gives `out` (evaluation mode), `train` (training mode, where the case's dropout is 0),
    `grad:<input>` and `grad:<weight>`, the facts `modified`, `unstable`, and as `traits` the number
    of trainable parameters and whether a tensor would stay behind on `.to(device)`.

    Args:
        gradients: names of inputs that gradients must reach; all injected weights are added.
        extra: `(build_module, case, observation)`, for what an exercise wants to see besides;
            `build_module()` gives a fresh module in evaluation mode.
    """

    def __init__(
        self,
        gradients: Sequence[str] = ("x",),
        watch: bool = True,
        extra: Callable[[Callable[[], Any], Case, Observation], None] | None = None,
    ) -> None:
        self.gradients = tuple(gradients)
        self.watch = watch
        self.extra = extra

    def __call__(self, answer: Any, case: Case) -> Observation:
        from .probing import Operators

        seen = Observation()
        operators = Operators()
        torch.manual_seed(1)
        module = build(answer, case).eval()
        leftovers = _LeftBehind(module)

        def call(seed: int) -> tuple[Any, list[Any]]:
            torch.manual_seed(seed)
            args = [fresh(v) for v in case.inputs.values()]
            return module(*args), args

        with leftovers, operators.watch() if self.watch else contextlib.nullcontext():
            out, args = call(1)
        seen.put("out", out)
        if self.watch:
            seen.facts["ops"] = sorted({*operators.written, *operators.executed})
        names = list(case.inputs)
        changed = [n for n, a in zip(names, args, strict=True) if not same(a, case[n])]
        if changed:
            seen.facts["modified"] = changed
        if isinstance(out, Tensor) and out.device != target_device():
            seen.facts["device"] = [str(out.device), str(target_device())]
        trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
        seen.facts["traits"] = {"trainable": trainable, "left_behind": leftovers.found}
        if "out" not in seen.tensors:
            return seen

        first = seen.tensors["out"]
        second = plain(call(2)[0])[1]
        if second is None or not same(first, second):
            again = plain(call(1)[0])[1]
            seen.facts["unstable"] = (
                "seed" if again is not None and same(first, again) else "random"
            )
        if not case.options.get("kwargs", {}).get("dropout"):
            seen.put("train", build(answer, case).train()(*map(fresh, case.inputs.values())))
        self._see_gradients(answer, case, seen)
        if self.extra:
            self.extra(lambda: build(answer, case).eval(), case, seen)
        return seen

    def _see_gradients(self, answer: Any, case: Case, seen: Observation) -> None:
        try:
            module = build(answer, case).eval()
            args = {n: fresh(v, n in self.gradients) for n, v in case.inputs.items()}
            out = module(*args.values())
            if isinstance(out, Tensor) and out.requires_grad:
                out.backward(cotangent(out))
            for name in self.gradients:
                if isinstance(args.get(name), Tensor) and args[name].grad is not None:
                    seen.put(f"grad:{name}", args[name].grad)
            # With each parameter's gradient in its place, a gradient is read under the name of
            # its weight even where that weight is a view of a larger parameter.
            with torch.no_grad():
                for parameter in module.parameters():
                    grad = parameter.grad
                    parameter.copy_(torch.full_like(parameter, torch.nan) if grad is None else grad)
            for name in case.options.get("weights", {}):
                value = _resolve(module, name)
                if not bool(value.isnan().any()):
                    seen.put(f"grad:{name}", value)
        except Exception as error:
            seen.facts["gradient_error"] = f"{type(error).__name__}: {error}"[:300]


class _LeftBehind(TorchFunctionMode):
    """Notices a tensor that is neither parameter nor buffer and meets others without `.to(…)`.

    Such a tensor stays on the CPU when the module moves. Tensors that sit in plain attributes are
    followed through views until `.to`, `.type_as` or the like brings them along, or until they
    meet another tensor.
    """

    MOVES = ("to", "type_as", "cuda", "cpu", "new_tensor")

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.found = False
        self.tracked: dict[int, Tensor] = {}
        for part in module.modules():
            for value in tree_iter({k: v for k, v in vars(part).items() if k[0] != "_"}):
                if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                    self.tracked[id(value)] = value

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self.tracked:
            return result
        tensors = [a for a in tree_iter((args, kwargs)) if isinstance(a, Tensor)]
        mine = [a for a in tensors if id(a) in self.tracked]
        name = getattr(func, "__name__", "")
        if mine and name in self.MOVES and isinstance(result, Tensor):
            # Nothing to move here and now gives the same object back: it is told apart as a view.
            return result.view_as(result) if id(result) in self.tracked else result
        if mine and name not in self.MOVES:
            if any(a.dim() and id(a) not in self.tracked for a in tensors):
                self.found = True
            for value in tree_iter(result):
                if isinstance(value, Tensor):
                    self.tracked[id(value)] = value
        return result


class CopyProbe:
    """Calls an answer that copies one module's values into another, and looks at both afterwards.

    Each case gives the target's parameters by name and `out`, what the target makes of the case's
    option `x` in evaluation mode; the type of what was `returned`; the fact `modified` if the
    source changed; and as `traits` whether the target's `Parameter` objects are still the same
    ones, whether each asks for a gradient as before (the option `frozen` names some that don't),
    and whether any shares its memory with the source.

    Args:
        make: builds the source and the target of a case; the case's two inputs are their
            parameters by name.
    """

    def __init__(self, make: Callable[[Case], tuple[nn.Module, nn.Module]]) -> None:
        self.make = make

    def __call__(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        dtype = case.options.get("dtype", torch.float32)
        modules = [m.to(target_device(), dtype).eval() for m in self.make(case)]
        for module, weights in zip(modules, case.inputs.values(), strict=True):
            inject(module, weights)
        source, target = modules
        for name in case.options.get("frozen", ()):
            _resolve(target, name).requires_grad_(False)
        given = {n: (p, p.detach().clone(), p.requires_grad) for n, p in source.named_parameters()}
        before = {n: (p, p.requires_grad) for n, p in target.named_parameters()}

        returned = answer(source, target)

        seen.put("returned", returned)
        for name in before:
            seen.put(name, _resolve(target, name))
        with torch.no_grad():
            seen.put("out", target(fresh(case.options["x"])))
        left = dict(source.named_parameters())
        if left.keys() != given.keys() or not all(
            left[n] is p and same(p, value) and p.requires_grad == asked
            for n, (p, value, asked) in given.items()
        ):
            seen.facts["modified"] = [next(iter(case.inputs))]
        after = dict(target.named_parameters())
        mine = {p.untyped_storage().data_ptr() for p, _, _ in given.values()}
        values = [t for n in before if isinstance(t := _resolve(target, n), Tensor)]
        seen.facts["traits"] = {
            "kept": after.keys() == before.keys()
            and all(after[n] is p for n, (p, _) in before.items()),
            "asks_as_before": all(
                getattr(_resolve(target, n), "requires_grad", None) == asked
                for n, (_, asked) in before.items()
            ),
            "shared": any(t.untyped_storage().data_ptr() in mine for t in values),
        }
        return seen


def _copy_trait(name: str, wanted: Any) -> Callable[..., bool | None]:
    def holds(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
        return seen.facts["traits"][name] == wanted if "traits" in seen.facts else None

    return holds


def _returns_none(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    return seen.facts["types"]["returned"] == "NoneType" if "types" in seen.facts else None


COPY_BEHAVIOURS = (
    Behaviour(
        "independent",
        "Afterwards the two modules share no memory",
        _copy_trait("shared", False),
        credit=True,
        breaks="The two modules share memory: training one would change the other",
    ),
    Behaviour(
        "same_objects",
        "The `Parameter` objects are the ones that were there",
        _copy_trait("kept", True),
        credit=True,
        breaks="A `Parameter` object was replaced: an optimizer would go on training the old one",
    ),
    Behaviour(
        "asks_as_before",
        "Each parameter asks for a gradient as before",
        _copy_trait("asks_as_before", True),
        credit=True,
    ),
    Behaviour("returns_none", "It works in place and returns None", _returns_none),
)


def expect_module(
    oracle: Callable[..., Tensor], gradients: Sequence[str] = ("x",)
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle `oracle(case, weights, *inputs) -> out`."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        dtype = case.options.get("dtype", torch.float32)
        weights = {
            n: w.detach().to(torch.float64, copy=True).requires_grad_()
            for n, w in case.options.get("weights", {}).items()
        }
        inputs = {
            n: v.detach().to(torch.float64, copy=True).requires_grad_(n in gradients)
            if isinstance(v, Tensor) and v.is_floating_point()
            else v
            for n, v in case.inputs.items()
        }
        with torch.enable_grad():
            out = oracle(case, weights, *inputs.values())
        expected = {"out": out.detach().to(dtype)}
        if not case.options.get("kwargs", {}).get("dropout"):
            expected["train"] = expected["out"]
        leaves = {n: inputs[n] for n in gradients if isinstance(inputs.get(n), Tensor)} | weights
        direction = cotangent(expected["out"]).double()
        grads = torch.autograd.grad(out, list(leaves.values()), direction, materialize_grads=True)
        for name, grad in zip(leaves, grads, strict=True):
            expected[f"grad:{name}"] = grad.to(dtype)
        return expected

    return expect


def _parameters(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    if "traits" not in seen.facts or case.refuses is not None:
        return None
    wanted = sum(w.numel() for w in case.options.get("weights", {}).values())
    return seen.facts["traits"]["trainable"] == wanted


def _moves(case: Case, seen: Observation, expected: dict[str, Tensor]) -> bool | None:
    return not seen.facts["traits"]["left_behind"] if "traits" in seen.facts else None


MODULE_BEHAVIOURS = (
    Behaviour(
        "parameters",
        "It learns its projections and nothing else",
        _parameters,
        breaks="Its trainable parameters are not its projections alone (is a mask among them?)",
    ),
    Behaviour(
        "moves",
        "It moves to another device as a whole",
        _moves,
        breaks="A tensor in a plain attribute stays behind when the module moves to another device",
    ),
)
