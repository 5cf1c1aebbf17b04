"""What an exercise is made of: cases, a probe, an expectation, behaviours, misconceptions.

The three steps of a check are kept apart so that each can run where it is safe:

- `cases(seed)` draws the inputs, anywhere;
- `probe(answer, case)` runs beside the student's code and brings back plain data;
- `expect(case)` and the judging run away from it and never touch the student's objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

MAX_ELEMENTS = 1_000_000  # a bigger result is no answer to an exercise of this course


@dataclass(frozen=True)
class Case:
    """One set of inputs.

    Args:
        name: what is particular about it, to be read in a report ("float64", "one token").
        inputs: plain tensors, numbers, strings, lists and dicts by name, in the order of the call.
        refuses: when not None, a `ValueError` is the right answer and each of these strings
            must stand in its message.
        options: switches for the probe that are no input of the answer.
    """

    name: str
    inputs: Mapping[str, Any]
    refuses: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.inputs[name]

    def describe(self) -> str:
        """The call as a reader would tell it: `Called with x: (2, 5, 3) float32`."""
        inputs = ", ".join(f"{name}: {describe_value(v)}" for name, v in self.inputs.items())
        if "args" not in self.options:
            return f"Called with {inputs}"
        made = [*map(repr, self.options["args"])]
        made += [f"{k}={v!r}" for k, v in self.options.get("kwargs", {}).items()]
        return f"Made with ({', '.join(made)}), called with {inputs}"


def describe_value(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {describe_value(v)}" for k, v in value.items()) + "}"
    return repr(value)


@dataclass
class Observation:
    """What one probe saw: tensors by name, and facts that survive JSON.

    Facts the judge knows: `error` (type, message, where, kind), `types` (what each result was),
    `modified` (names of inputs that were changed), `unstable` ("random" or "seed"),
    `overwritten` (an earlier result changed), `borrowed` (finished parts that were called),
    `gradient_error`, `ops` (operators seen), `printed` (count, first lines), `not_attempted`,
    `traits` (whatever else tells an exercise's wrong answers apart).
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> dict[str, Any] | None:
        return self.facts.get("error")

    def put(self, name: str, value: Any) -> None:
        """Keep a result: a plain detached CPU copy if it is a tensor or number, else its type."""
        kind, tensor = plain(value)
        self.facts.setdefault("types", {})[name] = kind
        if tensor is not None:
            self.tensors[name] = tensor


def class_name(value: Any) -> str:
    """The name of a value's class, also where the class would rather not say."""
    try:
        return str(type(value).__name__)
    except Exception:
        return "an object"


def plain(value: Any) -> tuple[str, Tensor | None]:
    """The kind of a value in words, and the value as an ordinary CPU tensor where it is one."""
    if isinstance(value, bool):
        return "bool", torch.tensor(value)
    if isinstance(value, int):
        return "int", torch.tensor(value) if abs(value) < 2**63 else None
    if isinstance(value, float):
        return "float", torch.tensor(value, dtype=torch.float64)
    if not isinstance(value, Tensor):
        if value is Ellipsis:
            return "...", None
        return class_name(value), None
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
        ValueError: the bytes are no packed observations.
    """
    try:
        size = int.from_bytes(data[:8], "little")
        facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["facts"])
        observations = [Observation({}, f) for f in facts if isinstance(f, dict)]
        for key, tensor in load_safetensors(data).items():
            index, name = key.split("/", 1)
            observations[int(index)].tensors[name] = tensor
    except Exception as error:
        raise ValueError(f"these {len(data)} bytes are no packed observations: {error}") from None
    return observations


@dataclass(frozen=True)
class Behaviour:
    """A named property of a right answer, judged case by case.

    Args:
        id: short name, stable.
        text: the property as a sentence that is true of a right answer.
        holds: `(case, observation, expected) -> True, False, or None where it does not apply`.
        credit: counts for partial credit when the values are wrong.
        gate: no partial credit at all unless it holds (a constant or a copy of the input would
            otherwise collect points for properties that hold of it by accident).
        breaks: what to say when it fails; the text itself if empty.
    """

    id: str
    text: str
    holds: Callable[[Case, Observation, dict[str, Tensor]], bool | None]
    credit: bool = False
    gate: bool = False
    breaks: str = ""


@dataclass(frozen=True)
class Misconception:
    """A small wrong answer, and what a tutor would say to it.

    Args:
        id: short name, stable.
        answer: the wrong answer as code; same signature as the right one.
        what: what happened, in one sentence.
        why: why it matters, in one sentence.
        mend: where to look, without giving it away.
    """

    id: str
    answer: Any
    what: str
    why: str
    mend: str


@dataclass(frozen=True)
class Exercise:
    """An exercise of the course; its id is the name of what the student writes.

    Args:
        id: the name of the function, class or quiz.
        lesson: the notebook it belongs to, as `assignment/notebook`.
        call: the signature as the student writes it, or the name of the dict for a quiz.
        points: the most it can earn, a multiple of 0.25.
        kind: "function", "class" or "quiz".
        cases: draws the inputs from a seed.
        probe: runs an answer on one case.
        expect: the right tensors for one case, in the dtypes asked for.
        reference: the finished answer, as it stands in `course_utils`.
        behaviours: named properties beyond those every exercise has.
        misconceptions: wrong answers that are told by name.
        hints: from a nudge to nearly the answer.
        forbidden: operator names, as PyTorch spells them, that *are* the exercise.
        forbidden_text: what to say when one of them is used.
        notes: remarks that cost nothing, from what was seen.
        returns: the Python type of the result where it is no tensor ("int", "NoneType").
        tolerance: largest error by dtype, relative for expected values above one.
        uses: earlier exercises whose answers this one may call by name. An answer that fails with
            the reader's own is tried with the finished ones: no fault counts twice.
    """

    id: str
    lesson: str
    call: str
    points: float
    cases: Callable[[int], list[Case]]
    probe: Callable[[Any, Case], Observation]
    expect: Callable[[Case], dict[str, Tensor]]
    reference: Any
    kind: str = "function"
    behaviours: tuple[Behaviour, ...] = ()
    misconceptions: tuple[Misconception, ...] = ()
    hints: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    forbidden_text: str = ""
    notes: Callable[[Sequence[Case], Sequence[Observation]], list[str]] | None = None
    returns: str = "Tensor"
    uses: tuple[str, ...] = ()
    tolerance: Mapping[torch.dtype, float] = field(
        default_factory=lambda: {torch.float32: 1e-5, torch.float64: 1e-6}
    )
