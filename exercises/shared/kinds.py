"""Observes a module that the exercise asks for by name, however it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from whywrong import Case, ModuleProbe, Observation
from whywrong.probing import WrongWeights, class_name

from .heads import PROJECTIONS
from .many_heads import ATTENTION_PROPERTIES


class Part:
    """A projection of one head or of all heads: its weight and its bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias


class Judged(nn.Module):
    """A module that an answer created, with its parameters under the names of a case's weights.

    However it is built, `heads.0.query.weight` and so on are views of its parameters: of a list of
    heads, of three projections to be split, or of the parameters of `nn.MultiheadAttention`. A
    tensor without effect replaces a missing bias.
    """

    def __init__(self, made: nn.Module, d_in: int, d_out: int, num_heads: int) -> None:
        super().__init__()
        self.made = made
        self.sizes = d_in, d_out, num_heads
        self.known: dict[str, Any] = {}

    def _apply(self, *args: Any, **named: Any) -> Any:
        self.known = {}  # views of the parameters before `.to(…)`
        return super()._apply(*args, **named)

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.made(*args, **named)

    @property
    def heads(self) -> list[SimpleNamespace]:
        if "heads" not in self.known:
            self.known["heads"] = self._heads()
        return self.known["heads"]

    @property
    def out_proj(self) -> Part:
        if "out_proj" not in self.known:
            self.known["out_proj"] = self._out_proj()
        return self.known["out_proj"]

    def _heads(self) -> list[SimpleNamespace]:
        style, module = self._found()
        if style == "side by side":
            parts = [{n: _part(head, n) for n in PROJECTIONS} for head in module.heads]
        else:
            whole = _in_one(module) if style == "built-in" else None
            parts = self._cut(whole or {n: _part(module, n) for n in PROJECTIONS})
        for head in parts:
            for part in head.values():
                part.bias = self._or_nowhere(part.bias, part.weight)
        return [SimpleNamespace(**head) for head in parts]

    def _out_proj(self) -> Part:
        _, module = self._found()
        layer = getattr(module, "out_proj", None)
        if not isinstance(getattr(layer, "weight", None), Tensor):
            layer = next(
                (one.out_proj for one in self.made.modules() if _has_weight(one, "out_proj")), layer
            )
        if layer is None or not isinstance(getattr(layer, "weight", None), Tensor):
            raise WrongWeights(_not_found(self.made))
        weight, bias = layer.weight, getattr(layer, "bias", None)
        if bias is None:  # it may be a separate parameter
            known = [
                weight,
                *(getattr(module, n, None) for n in ("in_proj_bias", "in_proj_weight")),
            ]
            left = [
                p
                for name, p in self.made.named_parameters()
                if p.shape == weight.shape[:1]
                and all(p is not k for k in known)
                and not name.endswith(("query.bias", "key.bias", "value.bias"))
            ]
            bias = left[0] if len(left) == 1 else None
        return Part(weight, self._or_nowhere(bias, weight))

    def _found(self) -> tuple[str, Any]:
        for module in self.made.modules():
            if _is_built_in(module):
                return "built-in", module
            heads = getattr(module, "heads", None)
            if isinstance(heads, nn.ModuleList) and all(_has_weight(one, "query") for one in heads):
                return "side by side", module
            if all(_has_weight(module, name) for name in PROJECTIONS):
                return "split", module
        raise WrongWeights(_not_found(self.made))

    def _cut(self, whole: Mapping[str, Part]) -> list[dict[str, Part]]:
        d_in, d_out, num_heads = self.sizes
        for name, part in whole.items():
            if part.weight.shape != (d_out, d_in):
                raise WrongWeights(
                    f"The weight of {name} should have shape {(d_out, d_in)}; "
                    f"yours has {tuple(part.weight.shape)}."
                )
        rows = d_out // num_heads
        return [
            {
                name: Part(
                    part.weight[i * rows : (i + 1) * rows],
                    None if part.bias is None else part.bias[i * rows : (i + 1) * rows],
                )
                for name, part in whole.items()
            }
            for i in range(num_heads)
        ]

    def _or_nowhere(self, bias: Tensor | None, weight: Tensor) -> Tensor:
        return weight.detach().new_zeros(len(weight)) if bias is None else bias


def _has_weight(module: Any, name: str) -> bool:
    return isinstance(getattr(getattr(module, name, None), "weight", None), Tensor)


def _is_built_in(module: nn.Module) -> bool:
    return any(
        isinstance(getattr(module, n, None), Tensor) for n in ("in_proj_weight", "q_proj_weight")
    )


def _part(module: Any, name: str) -> Part:
    layer = getattr(module, name)
    return Part(layer.weight, getattr(layer, "bias", None))


def _in_one(module: Any) -> dict[str, Part]:
    """Query, key and value of an `nn.MultiheadAttention`, which stores them in one parameter."""
    weight, bias = getattr(module, "in_proj_weight", None), getattr(module, "in_proj_bias", None)
    if isinstance(weight, Tensor):
        weights = weight.chunk(3)
    else:
        weights = tuple(getattr(module, f"{n}_proj_weight") for n in "qkv")
    biases = [None] * 3 if bias is None else bias.chunk(3)
    return {n: Part(*pair) for n, *pair in zip(PROJECTIONS, weights, biases, strict=True)}


def _not_found(module: nn.Module) -> str:
    names = [n for n, _ in module.named_parameters()]
    return (
        "The module's weights weren't found. They are looked for as `heads` and `out_proj` (lesson "
        "06), as `query`, `key`, `value` and `out_proj` (lesson 07), and inside an "
        f"`nn.MultiheadAttention`. Yours has: {', '.join(names[:9]) or 'no parameters'}."
    )


def judged(answer: Callable[..., Any], *args: Any, **named: Any) -> Judged:
    """The module that an answer creates, ready for the weights of a case.

    Raises:
        WrongWeights: it creates no module, or one whose weights can't be found.
    """
    made = answer(*args, **named)
    if not isinstance(made, nn.Module):
        what = f"a class, {made.__name__}" if isinstance(made, type) else class_name(made)
        raise WrongWeights(f"`make_mha` should return a module, but it returned {what}.")
    return Judged(made, named["d_in"], named["d_out"], named["num_heads"])


class KindProbe(ModuleProbe):
    """Asks for a module of a case's kind and records what `ModuleProbe` records."""

    def __call__(self, answer: Any, case: Case) -> Observation:
        made = answer(*case.options["args"], **case.options["kwargs"])
        if made is None or made is ...:
            observed = Observation()
            observed.put("out", made)
            return observed
        return super().__call__(partial(judged, answer), case)

    def glance(self, answer: Any, case: Case) -> Observation:
        known = isinstance(answer, partial) and answer.func is judged
        return super().glance(answer if known else partial(judged, answer), case)


CHANGED: dict[str, dict[str, Any]] = {
    "listens": {"gate": False},
    "nothing_seen": {"role": "blind"},  # also without recording gradients
}
PROPERTIES = tuple(
    replace(property, **CHANGED.get(property.id, {})) for property in ATTENTION_PROPERTIES
)
