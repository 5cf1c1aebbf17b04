"""Every size in a case, by its letter: sizes that could be confused must differ."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from torch import Tensor

from whywrong import Case
from whywrong.hosting import Exercise

# The letters of each input's dimensions, by its name; an exercise's Python file has those of other
# inputs, as `letters`. An input "…" has one for each dimension, counted from the right, where a
# mask may have 1 instead of a size; "… T S" gives the letters at the right end. "1" and None are
# not sizes.
USUAL = {
    **dict.fromkeys(("ids", "targets", "decoder_input", "pad_mask"), "B T"),
    **dict.fromkeys(("source", "source_pad_mask", "context_pad_mask"), "B S"),
    **dict.fromkeys(("query", "key", "value"), "B H T D"),
    **dict.fromkeys(("scores", "hidden"), "…"),
    "x": "B T C",
    "context": "B S d_model",
    "logits": "B T V",
    "num_heads": "H",
    "T": "T",
}


class NoLetters(ValueError):
    """The letters of an input's or a weight's dimensions aren't known, or their number is wrong."""

    def __init__(self, name: str, why: str = "are missing") -> None:
        super().__init__(f"the letters for the dimensions of {name} {why}")
        self.name = name


def letters_of(exercise: Exercise) -> dict[str, str | None]:
    """The exercise's own."""
    module = sys.modules[f"exercises.{exercise.lesson.replace('/', '.')}.{exercise.id}"]
    return getattr(module, "letters", {})


def usual_letters(exercise: Exercise) -> dict[str, str]:
    """Those of other inputs; channels are called as in a constructor."""
    arguments = _signature(exercise.reference).parameters
    width = next((name for name in ("d_in", "d_model") if name in arguments), "C")
    return USUAL | {"x": f"B T {width}"}


# The letters of weights, by the ends of their names.
WEIGHTS = {
    r"((en|de)coder\.\d+\.)?(norm\d\.)?(scale|shift)": "d_model",
    r"((en|de)coder\.\d+\.)?((self_|cross_)?attention\.)"
    r"(query|key|value|out_proj)\.(weight|bias)": "d_model d_model",
    r"((en|de)coder\.\d+\.)?(feed_forward\.)?(gate|expand)\.(weight|bias)": "wide d_model",
    r"((en|de)coder\.\d+\.)?(feed_forward\.)?contract\.(weight|bias)": "d_model wide",
    r"router\.weight": "num_experts d_model",
    r"experts\.\d+\.(gate|expand)\.weight": "wide d_model",
    r"experts\.\d+\.contract\.weight": "d_model wide",
    r"heads\.\d+\.(query|key|value)\.(weight|bias)": "d_head d_in",
    r"(query|key|value)\.(weight|bias)": "d_out d_in",
    r"W_(query|key|value)": "d_in d_out",
    r"out_proj\.(weight|bias)": "d_out d_out",
    r"token\.weight": "vocab_size d_model",
    r"position\.weight": "context_length d_model",
    r"embed\.(token\.)?weight|head\.weight": "vocab_size d_model",
    r"embed(_\w+)?\.position\.weight": "context_length d_model",
    r"embed_source\.token\.weight": "source_vocab_size d_model",
    r"embed_target\.token\.weight": "target_vocab_size d_model",
    r"(blocks\.\d+\.norm\d|norm)\.(scale|shift)": "d_model",
    r"blocks\.\d+\.attention\.\w+\.(weight|bias)": "d_model d_model",
    r"blocks\.\d+\.feed_forward\.(gate|expand)\.(weight|bias)": "wide d_model",
    r"blocks\.\d+\.feed_forward\.contract\.weight": "d_model wide",
    r"blocks\.\d+\.feed_forward\.contract\.bias": "d_model",
}

# Two names for one size.
SAME = {
    "CrossAttention": {"d_in": "d_model", "d_out": "d_model"},
    "GroupedQueryAttention": {"d_in": "d_model", "d_out": "d_model"},
    "EncoderBlock": {"d_ff": "wide"},
    "DecoderBlock": {"d_ff": "wide"},
    "Translator": {"d_ff": "wide", "vocab_size": "target_vocab_size"},
    "SwiGLU": {"d_ff": "wide"},
    "MixtureOfExperts": {"d_ff": "wide"},
    "ModernLM": {"d_ff": "wide"},
    "make_mha": {"d_in": "d_out"},
}

# Sizes that are products of two others and occur in no tensor.
PRODUCTS = (("d_out", "d_head", "num_heads"), ("C", "D", "H"), ("d_model", "d_head", "num_heads"))


def sizes(exercise: Exercise, case: Case) -> dict[str, set[int]]:
    """The values of each letter; more than one only if the case contains inconsistent sizes."""
    found: dict[str, set[int]] = defaultdict(set)
    same = SAME.get(exercise.id, {})
    for letter, size in _named(exercise, case):
        found[same.get(letter, letter)].add(size)
    for whole, one, other in PRODUCTS:
        if whole == "d_model" and not found[whole]:
            continue  # here it is d_out, or C
        known = [len(found[letter]) == 1 for letter in (whole, one, other)]
        if sum(known) == 2:
            values = [min(found[letter], default=0) for letter in (whole, one, other)]
            if not known[0]:
                found[whole].add(values[1] * values[2])
            for place, factor in ((1, 2), (2, 1)):
                if not known[place] and values[0] % values[factor] == 0:
                    found[(whole, one, other)[place]].add(values[0] // values[factor])
    return {letter: values for letter, values in found.items() if values}


def coinciding(exercise: Exercise, case: Case) -> list[str]:
    """The faults in a case's sizes, in words; none for a case with the role "small"."""
    if "small" in case.roles:
        return []
    found = sizes(exercise, case)
    said = [
        f"{letter} is {size}" for letter, values in found.items() for size in values if size < 2
    ]
    for letter, values in found.items():
        if len(values) > 1 and case.refuses is None:
            said.append(f"{letter} is {' and '.join(map(str, sorted(values)))}")
        for other in found:
            if letter < other:
                said += [f"{letter} and {other} are both {s}" for s in values & found[other]]
    return said


def _named(exercise: Exercise, case: Case) -> Iterator[tuple[str, int]]:
    letters, usual = letters_of(exercise), usual_letters(exercise)
    seen = dict(case.inputs) | {
        name: value
        for name, value in case.options.items()
        if isinstance(value, Tensor) or name == "sizes"
    }
    for name, value in seen.items():
        if name in letters and not isinstance(value, dict):
            yield from _input(name, letters[name], value)
        elif isinstance(value, Tensor) or (isinstance(value, int) and name in usual):
            if name not in usual:
                raise NoLetters(name)
            yield from _input(name, usual[name], value)
        elif isinstance(value, dict) and name not in letters:  # a module's parameters
            yield from _weights(value, letters)
    yield from _weights(case.options.get("weights", {}), letters)
    if "args" in case.options:
        bound = _signature(exercise.reference).bind(
            *case.options["args"], **case.options.get("kwargs", {})
        )
        for name, value in bound.arguments.items():
            if type(value) is int:
                yield name, value
    for name in ("wrapper", "split"):
        if name in case.options:
            d_in, width, length, heads = case.options[name]
            yield from (("d_in", d_in), ("context_length", length), ("num_heads", heads))
            yield ("d_head" if name == "wrapper" else "d_out"), width


def _input(name: str, letters: str | None, value: Any) -> Iterator[tuple[str, int]]:
    if letters is None or value is None:
        return
    if isinstance(value, tuple) and any(isinstance(v, Tensor) for v in value):
        for one in value:
            yield from _input(name, letters, one)
        return
    shape = _shape(value)
    if letters == "…":
        broadcast = not value.is_floating_point()
        for place, size in enumerate(reversed(shape)):
            if not (broadcast and size == 1):
                yield f"{place} from the right", size
    elif letters.startswith("…"):
        pairs = zip(reversed(letters.split()[1:]), reversed(shape), strict=False)
        yield from (pair for pair in pairs if pair[1] != 1)
    else:
        if len(letters.split()) != len(shape):
            raise NoLetters(name, f"are {letters}, but its shape is {tuple(shape)}")
        pairs = zip(letters.split(), shape, strict=True)
        yield from (pair for pair in pairs if pair[0] != "1")


def _shape(value: Any) -> Sequence[int]:
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, list):
        return (len(value),)
    return value if isinstance(value, tuple) else (value,)


def _weights(weights: dict[str, Tensor], own: dict[str, str | None]) -> Iterator[tuple[str, int]]:
    """An exercise may define the letters of its own weights, by the ends of their names."""
    told = {}
    for name in weights:
        ours = next((letters for end, letters in own.items() if name.endswith(end)), None)
        told[name] = (None, ours.split()) if ours else _told_by(name)
    heads = {number for number, _ in told.values() if number is not None}
    if heads:
        yield "num_heads", len(heads)
    for name, value in weights.items():
        yield from zip(told[name][1], value.shape, strict=False)  # a bias has only the first


@cache
def _told_by(name: str) -> tuple[int | None, list[str]]:
    """The number of a weight's head, if any, and the weight's letters."""
    letters = next((w for pattern, w in WEIGHTS.items() if re.fullmatch(pattern, name)), None)
    if letters is None:
        raise NoLetters(name)
    head = re.match(r"heads\.(\d+)\.", name)
    return int(head[1]) if head else None, letters.split()


_signature = cache(inspect.signature)
