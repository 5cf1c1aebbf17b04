"""The record of a probe: plain tensors by name, and facts that can be stored as JSON; and whether
two such values are equal, bit for bit or within rounding."""

from __future__ import annotations

import contextlib
import json
import operator
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

MAX_ELEMENTS = 1_000_000  # no exercise of this course has a larger result


@dataclass
class Observation:
    """The record of one probe on one case.

    Facts the judge knows: `error` (type, bases, message, where, kind, later), `types` (the type of
    each result), `modified` (names of changed inputs), `unstable` ("random", "seed" or "memory"),
    `overwritten` (an earlier result changed), `device` (where the result was, where it should be),
    `elsewhere` (what happened on another device), `left_behind` (changed settings), `borrowed`
    (finished parts that were called), `gradient_error`, `unregistered` (collections whose
    parameters PyTorch doesn't find), `unread` (gradients of weights that are stored in another
    form), `ops` (operators that ran), `printed` (count, first lines), `not_attempted`, `entries`
    (of a quiz), `traits` (anything else that distinguishes an exercise's wrong answers).

    Named tensors are results. An exercise's own properties judge those that begin with `judged:`,
    because the right values are not known where answers run.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    # Cached judgements of properties for its case: naming needs them many times.
    verdicts: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def error(self) -> dict[str, Any] | None:
        return self.facts.get("error")

    @property
    def traits(self) -> dict[str, Any]:
        return self.facts.get("traits", {})

    def put_judged(self, name: str, value: Any) -> None:
        """Store a tensor for an exercise's own property."""
        tensor = plain(value)[1]
        if tensor is not None:
            self.tensors[f"judged:{name}"] = tensor

    def put(self, name: str, value: Any) -> Tensor | None:
        """Store a result: a plain, detached CPU copy if it is a tensor or number, else its type."""
        kind, tensor = plain(value)
        self.facts.setdefault("types", {})[name] = kind
        if tensor is not None:
            self.tensors[name] = tensor
        return tensor


def class_name(value: Any) -> str:
    """The name of a value's class, even if the class hides it."""
    try:
        return str(type(value).__name__)
    except Exception:
        return "an object"


def plain(value: Any) -> tuple[str, Tensor | None]:
    """The type of a value in words, and the value as an ordinary CPU tensor if it is one."""
    if isinstance(value, bool):
        return "bool", torch.tensor(value)
    if isinstance(value, Integral):  # includes numpy's integers
        number = operator.index(value)
        return "int", torch.tensor(number) if abs(number) < 2**63 else None
    if isinstance(value, float):
        return "float", torch.tensor(value, dtype=torch.float64)
    if not isinstance(value, Tensor):
        return ("...", None) if value is Ellipsis else (class_name(value), None)
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        if value.layout != torch.strided:
            return f"a {str(value.layout).removeprefix('torch.')} tensor", None
        if value.device.type == "meta":
            return "a tensor without data (on the meta device)", None
        if value.is_quantized or value.is_complex():
            return f"a {str(value.dtype).removeprefix('torch.')} tensor", None
        if value.numel() > MAX_ELEMENTS:
            return f"a tensor of {value.numel():,} elements", None
        tensor = torch.Tensor.detach(value).as_subclass(Tensor).resolve_neg()
        return "Tensor", tensor.to("cpu", copy=True).contiguous()


def pack(observations: Sequence[Observation]) -> bytes:
    """Observations as safetensors bytes, to cross a process boundary without pickle."""
    tensors = {
        f"{i}/{name}": t for i, o in enumerate(observations) for name, t in o.tensors.items()
    }
    return save_safetensors(tensors, {"facts": json.dumps([o.facts for o in observations])})


def unpack(data: bytes) -> list[Observation]:
    """The inverse of `pack`.

    Raises:
        ValueError: the bytes are not packed observations.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["facts"])
        observations = [Observation({}, f) for f in facts if isinstance(f, dict)]
        for key, tensor in load_safetensors(data).items():
            index, name = key.split("/", 1)
            observations[int(index)].tensors[name] = tensor
    except Exception as error:
        raise ValueError(f"these {len(data)} bytes are not packed observations: {error}") from None
    return observations


# ---------------------------------------------------------------- equal

_shares: ContextVar[list[tuple[float, str]] | None] = ContextVar("shares", default=None)


@contextlib.contextmanager
def measured() -> Iterator[list[tuple[float, str]]]:
    """Collects from each comparison the largest error, as a share of the error that is allowed, and
    the case. The share shows how near a right answer is to being refused."""
    shares: list[tuple[float, str]] = []
    before = _shares.set(shares)
    try:
        yield shares
    finally:
        _shares.reset(before)


def within(error: Tensor, allowed: Tensor, place: str = "") -> Tensor:
    """Element by element, whether an error is one that rounding makes."""
    shares = _shares.get()
    if shares is not None and error.numel() and bool(allowed.all()):
        shares.append((float((error / allowed).max()), place))
    return error <= allowed


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit: tensors (NaN equals NaN), numbers, and lists and dicts of them."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b = a.detach().cpu(), b.detach().cpu()
        if torch.equal(a, b):  # nearly always true, and a single step
            return True
        equal = (a == b) | ((a != a) & (b != b)) if a.dtype != torch.bool else a == b
        return bool(equal.all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def near(a: Tensor, b: Tensor, tolerance: float = 1e-4) -> bool:
    """For properties: the same shape, and no difference beyond rounding."""
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    return bool(within((a - b).abs(), tolerance * b.abs().clamp(min=1.0)).all())
