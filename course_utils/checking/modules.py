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
        found = ", ".join(n for n, _ in module.named_parameters()) or "none"
        raise WrongWeights(
            f"The module should have these parameters: {', '.join(weights)}. "
            f"Not found: {', '.join(missing)}. Yours has: {found}."
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

    MOVES = ("to", "type_as", "cuda", "cpu", "new_tensor", "__get__")

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
        if mine and name not in self.MOVES:
            if any(a.dim() and id(a) not in self.tracked for a in tensors):
                self.found = True
            for value in tree_iter(result):
                if isinstance(value, Tensor):
                    self.tracked[id(value)] = value
        return result


def expect_module(
    oracle: Callable[..., Tensor], gradients: Sequence[str] = ("x",)
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle `oracle(case, weights, *inputs) -> out`."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        dtype = case.options.get("dtype", torch.float32)
        weights = {
            n: w.double().requires_grad_() for n, w in case.options.get("weights", {}).items()
        }
        inputs = {
            n: v.double().requires_grad_(n in gradients)
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
