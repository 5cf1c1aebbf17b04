"""The properties that every exercise checks, each with the message for a failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from ._card import Row
from ._exercise import Case, Exercise, Expected, Property, Trial, Verdict
from ._observation import Observation, within

COLLECTION = re.compile(r"a (?:list|dict) of|bytes$")  # what a probe has turned into a tensor
NOT_THERE = ("here", "two devices", "numpy")
RESULTS = {"out": "result", "train": "result in training mode (dropout 0)"}


def main_results(expected: Expected) -> list[str]:
    """The names of the results themselves, without gradients and other evidence."""
    return [n for n in expected if "grad:" not in n]


def finite(observed: Observation) -> bool:
    """Whether all results are finite, gradients left out."""
    if finite not in observed.verdicts:  # each property of an exercise calls this
        observed.verdicts[finite] = all(
            bool(t.isfinite().all())
            for n, t in observed.tensors.items()
            if "grad:" not in n and not n.startswith("judged:")
        )
    return bool(observed.verdicts[finite])


def ran(case: Case, observed: Observation) -> bool:
    return case.refuses is None and observed.error is None


# ---------------------------------------------------------------- whether a result is right


def tolerance(exercise: Exercise, case: Case, expected: Tensor) -> float:
    """Returns the exercise's tolerance, or that of a case in which right answers differ more."""
    usual = exercise.tolerance.get(expected.dtype, 0.0)
    return case.options.get("tolerance", {}).get(expected.dtype, usual)


def close(exercise: Exercise, case: Case, got: Tensor, expected: Tensor) -> Tensor:
    """Element by element, whether a result is right; the shapes must be equal."""
    if not expected.is_floating_point():
        return got == expected
    a, b = got.double(), expected.double()
    allowed = tolerance(exercise, case, expected) * b.abs().clamp(min=1.0)
    return within((a - b).abs(), allowed, case.name)


def agrees(exercise: Exercise, case: Case, got: Tensor | None, expected: Tensor) -> bool:
    return (
        got is not None
        and got.shape == expected.shape
        and bool(close(exercise, case, got, expected).all())
    )


def gradient_agrees(exercise: Exercise, case: Case, got: Tensor | None, expected: Tensor) -> bool:
    """Like `agrees`, relative to the largest number: a gradient sums the rounding errors of all.

    A missing gradient counts as zeros.
    """
    if got is None:
        return not bool(expected.any())
    if got.shape != expected.shape:
        return False
    largest = expected.abs().amax().clamp(min=1.0) if expected.numel() else torch.tensor(1.0)
    error = (got.double() - expected.double()).abs()
    allowed = tolerance(exercise, case, expected) * largest.double()
    return bool(within(error, allowed, f"{case.name}, gradient").all())


def alike(exercise: Exercise, case: Case, a: Tensor, b: Tensor) -> bool:
    """Whether two wrong results agree, also in NaN and infinity, at ten times the tolerance."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b) or not a.is_floating_point():
        return torch.equal(a, b)
    x, y = a.double(), b.double()
    slack = 10 * tolerance(exercise, case, a) * y.abs().nan_to_num(posinf=1.0).clamp(min=1.0)
    return bool(((x - y).abs() <= slack).logical_or(x == y).logical_or(x.isnan() & y.isnan()).all())


# ---------------------------------------------------------------- whether they are true


def _runs(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return None if case.refuses is not None else observed.error is None


def _refuses(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if case.refuses is None:
        return None
    error = observed.error
    if error is None or "ValueError" not in error["bases"]:
        return False
    alternatives = (text.split("|") for text in case.refuses)
    lost = [each[0] for each in alternatives if not any(t in error["message"] for t in each)]
    return f"doesn't name {' and '.join(dict.fromkeys(lost))}" if lost else True


def _shape(exercise: Exercise, case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not ran(case, observed):
        return None
    kinds = observed.facts.get("types", {})
    return all(
        kinds.get(n) == exercise.returns
        and n in observed.tensors
        and observed.tensors[n].shape == expected[n].shape
        for n in main_results(expected)
    )


def _values(exercise: Exercise, case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not _shape(exercise, case, observed, expected):
        return None
    return all(
        agrees(exercise, case, observed.tensors[n], expected[n]) for n in main_results(expected)
    )


def _dtype(exercise: Exercise, case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not _shape(exercise, case, observed, expected):
        return None
    return all(observed.tensors[n].dtype == expected[n].dtype for n in main_results(expected))


def _finite(exercise: Exercise, case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not _shape(exercise, case, observed, expected):
        return None
    return all(bool(observed.tensors[n].isfinite().all()) for n in main_results(expected))


def _gradients(
    exercise: Exercise, case: Case, observed: Observation, expected: Expected
) -> Verdict:
    unread = observed.facts.get("unread", ())
    wanted = [n for n in expected if "grad:" in n and n not in unread]
    off = {"gradient mode", "default device"} & set(observed.facts.get("left_behind", ()))
    if not wanted or off or observed.facts.get("modified"):
        return None
    if not _values(exercise, case, observed, expected):
        return None
    return all(
        gradient_agrees(exercise, case, observed.tensors.get(n), expected[n]) for n in wanted
    )


def _device(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not ran(case, observed) or observed.error:
        return None
    if observed.facts.get("device") or observed.facts.get("elsewhere") in NOT_THERE:
        return False
    return True if observed.facts.get("elsewhere") == "there" else None


def _without(fact: str) -> Callable[[Case, Observation, Expected], Verdict]:
    def holds(case: Case, observed: Observation, expected: Expected) -> Verdict:
        return not observed.facts.get(fact) if ran(case, observed) else None

    return holds


def _left_nothing(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return False if observed.facts.get("left_behind") else None


def _kept(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return False if observed.facts.get("overwritten") else None


# ---------------------------------------------------------------- messages for failures


def evidence(t: Trial) -> str:
    return f"Case: {t.case.name}. {t.case.describe()}"


def explain_error(exercise: Exercise, t: Trial) -> tuple[str, str]:
    error, given = t.observed.error or {}, t.case.describe()
    if error.get("later"):
        mode = ", by name or in the other mode" if exercise.kind == "class" else ""
        given = f"{given}: this ran. A later call, with other inputs{mode}, failed."
    where = "\n".join(error["where"])
    if error["kind"] == "time":
        said = f"Your code was {error['message']} and was stopped: is there a loop that never ends?"
        return said, "\n".join(filter(None, [given, where]))
    if error["kind"] == "call":
        called = "forward" if ".forward() " in error["message"] else exercise.call
        return f"`{called}` can't be called as the exercise asks: {error['message']}", given
    if error["kind"] == "weights":
        said, _, listed = error["message"].partition("\n")
        return said, "\n".join(filter(None, [given, listed]))
    if error["kind"] == "ours":
        said = f"The check itself failed here, not your answer: {error['type']}: {error['message']}"
        report = (
            f"Please report it, with your answer and the version of PyTorch: {torch.__version__}."
        )
        return said, "\n".join(filter(None, [given, where, report]))
    said = f"Your code raised {error['type']}" + (": " if error["message"] else ".")
    return said + error["message"], "\n".join(filter(None, [given, where]))


def explain_shape(exercise: Exercise, t: Trial) -> tuple[str, str]:
    kinds, given = t.observed.facts.get("types", {}), t.case.describe()
    for name in main_results(t.expected):
        kind, what = kinds.get(name, "nothing"), f"The {RESULTS.get(name, name)}"
        if kind == "NoneType" and t.observed.facts.get("forward_unwritten"):
            return "`forward` isn't written yet: it contains `...` and nothing else.", given
        if name == "out" and kind == "NoneType" and exercise.returns != "NoneType":
            return "Your function returns None: is there a `return`?", given
        if kind != exercise.returns:
            wanted = {"Tensor": "an ordinary tensor", "int": "an int", "NoneType": "None"}
            said = f"{what} should be {wanted.get(exercise.returns, exercise.returns)}."
            return said, f"{given}\nYours is: {kind}"
        got, expected = tuple(t.observed.tensors[name].shape), tuple(t.expected[name].shape)
        if got != expected and name == "out" and COLLECTION.match(exercise.returns):
            lengths = f"{given}\nexpected length {expected[0]}\ngot length      {got[0]}"
            return f"{what} has length {got[0]}, expected {expected[0]}.", lengths
        if got != expected and exercise.returns.startswith("a pair of tensors"):
            shapes = f"{given}\nexpected shape {expected[1:]}\ngot shape      {got[1:]}"
            return f"Your two tensors have shape {got[1:]}, expected {expected[1:]}.", shapes
        if got != expected:
            shapes = f"{given}\nexpected shape {expected}\ngot shape      {got}"
            return f"{what} has shape {got}, expected {expected}.", shapes
    return "A result has a different type or shape.", given


def explain_kind(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    """A result with the wrong kind of number is reported before its values."""
    if not _shape(exercise, t.case, t.observed, t.expected):
        return None
    for name in main_results(t.expected):
        got, expected = t.observed.tensors[name], t.expected[name]
        kinds = (got.is_floating_point(), got.dtype == torch.bool)
        if kinds != (expected.is_floating_point(), expected.dtype == torch.bool):
            said = f"The result is {_short(got.dtype)}, expected {_short(expected.dtype)}."
            return said, t.case.describe()
    return None


def explain_values(exercise: Exercise, t: Trial) -> tuple[str, str]:
    for name in main_results(t.expected):
        got, expected = t.observed.tensors[name], t.expected[name]
        wrong = ~close(exercise, t.case, got, expected)
        if not bool(wrong.any()):
            continue
        index = tuple(int(i) for i in wrong.nonzero()[0])
        label = RESULTS.get(name, name)
        place = f"{label}[{', '.join(map(str, index))}]" if index else label
        return _how_many(got, expected, wrong), (
            f"{evidence(t)}\n{_small_inputs(t.case)}"
            f"First difference at {place}:\n"
            f"expected {number(expected[index])}\ngot      {number(got[index])}"
        )
    return "A value is wrong.", evidence(t)


def wrong_row(exercise: Exercise, t: Trial, most: int = 8) -> Row | None:
    """The row with the first wrong number, or the part of the row around that number."""
    if not _shape(exercise, t.case, t.observed, t.expected):
        return None
    for name in main_results(t.expected):
        got, expected = t.observed.tensors[name], t.expected[name]
        wrong = ~close(exercise, t.case, got, expected)
        if not wrong.dim() or not bool(wrong.any()):
            continue
        *place, at = (int(i) for i in wrong.nonzero()[0])
        start = 0 if wrong.shape[-1] <= most else max(0, at - most // 2)
        stop = min(start + most, wrong.shape[-1])
        columns = ":" if stop - start == wrong.shape[-1] else f"{start}:{stop}"
        index: tuple[int | slice, ...] = (*place, slice(start, stop))
        return Row(
            f"{RESULTS.get(name, name)}[{', '.join([*map(str, place), columns])}]",
            tuple(number(v) for v in expected[index]),
            tuple(number(v) for v in got[index]),
            tuple(bool(w) for w in wrong[index]),
        )
    return None


def _how_many(got: Tensor, expected: Tensor, wrong: Tensor) -> str:
    if not bool(got.isfinite().all()) and bool(expected.isfinite().all()):
        bad = int((~got.isfinite()).sum())
        return f"{bad} of {counted(wrong.numel(), 'number')} {be(bad)} NaN or infinite."
    count = int(wrong.sum())
    if wrong.numel() == 1:
        return "The number differs from the right answer."
    differ = "differs" if count == 1 else "differ"
    return f"{count:,} of {wrong.numel():,} numbers {differ} from the right answer."


def be(count: int) -> str:
    return "is" if count == 1 else "are"


def counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _small_inputs(case: Case) -> str:
    """Inputs that fit on one line, so that a reader can redo the case by hand."""
    lines = []
    for name, value in case.inputs.items():
        if isinstance(value, Tensor) and value.dim() and value.numel() <= 12:
            lines.append(f"{name} = {_rounded(value.tolist())}\n")
    return "".join(lines)


def _rounded(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_rounded, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def explain_refusal(t: Trial) -> tuple[str, str]:
    given, error = evidence(t), t.observed.error
    if error is None:
        return "This input should be refused with a ValueError, but no error was raised.", given
    raised = f"{given}\ngot {error['type']}: {error['message']}"
    if "ValueError" not in error["bases"]:
        return "This input should be refused with a ValueError.", raised
    wanted = " and ".join(dict.fromkeys(text.split("|")[0] for text in t.case.refuses or ()))
    return f"The ValueError's message should contain {wanted}.", raised


def explain_dtype(t: Trial) -> tuple[str, str]:
    names = main_results(t.expected)
    name = next(n for n in names if t.observed.tensors[n].dtype != t.expected[n].dtype)
    got, expected = _short(t.observed.tensors[name].dtype), _short(t.expected[name].dtype)
    return f"The values are right, but the result is {got}, expected {expected}.", evidence(t)


def explain_modified(t: Trial) -> tuple[str, str]:
    names = ", ".join(t.observed.facts["modified"])
    return f"Your code changed its input ({names}). The caller still needs it.", evidence(t)


UNSTABLE = {
    "random": "Two calls with the same input gave different results.",
    "memory": "A call gave the result of an earlier one: your code keeps something between calls.",
    "seed": "The result depends on the global random seed, but this exercise needs no randomness.",
}


def explain_unstable(t: Trial) -> tuple[str, str]:
    return UNSTABLE[t.observed.facts["unstable"]], evidence(t)


def explain_kept(t: Trial) -> tuple[str, str]:
    said = "A later call wrote into an earlier result: each call must return a new tensor."
    return said, evidence(t)


def explain_device(t: Trial) -> tuple[str, str]:
    if t.observed.facts.get("device"):
        got, expected = t.observed.facts["device"]
        return f"The result is on {got}, but its input was on {expected}.", evidence(t)
    if t.observed.facts.get("elsewhere") == "numpy":
        said = "Your code turns its input into a NumPy array, which exists on the CPU alone."
        return said, evidence(t)
    if t.observed.facts.get("elsewhere") == "here":
        said = "With the input on another device, the result was on the CPU."
    else:
        said = "With the input on another device, a tensor of yours was still on the CPU."
    return f"{said} Create tensors on the input's device, or register them as buffers.", evidence(t)


def explain_gradient(exercise: Exercise, t: Trial) -> tuple[str, str]:
    unread = t.observed.facts.get("unread", ())
    for name in (n for n in t.expected if "grad:" in n and n not in unread):
        got, where = t.observed.tensors.get(name), name.partition("grad:")[2]
        if gradient_agrees(exercise, t.case, got, t.expected[name]):
            continue
        mode = " in training mode" if name.startswith("train") else ""
        if got is not None:
            return f"The values are right, but{mode} the gradient of {where} is wrong.", evidence(t)
        weight = where in t.case.options.get("weights", {})
        other = ", or this parameter is frozen or not used" if weight else ""
        said = f"The values are right, but no gradient reaches {where}{mode}{other}."
        raised = t.observed.facts.get("gradient_error", "")
        return said, "\n".join(filter(None, [evidence(t), raised]))
    return "The values are right, but a gradient is wrong.", evidence(t)


def explain_left_behind(t: Trial) -> tuple[str, str]:
    names = ", ".join(f"`{n}`" if "." in n else n for n in t.observed.facts["left_behind"])
    return (
        f"A call changed something global: {names}. The check restored it; later code would "
        "have been affected.",
        evidence(t),
    )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def number(value: Tensor) -> str:
    """One number for a reader: integers and booleans unchanged, floats to six digits."""
    v = value.item()
    return f"{v:.6g}" if isinstance(v, float) else str(v)


# ---------------------------------------------------------------- all of them, in order


TEXTS = {
    "runs": "It runs on every input",
    "shape": "The result has the right type and shape",
    "finite": "Every number is finite",
    "values": "The values are right on every case",
    "refuses": "Invalid input is refused with a ValueError",
    "dtype": "The result has the right dtype",
    "unmodified": "The input is left unchanged",
    "stable": "The same input gives the same result each time",
    "kept": "A later call leaves an earlier result unchanged",
    "device": "It works on the device of its input",
    "gradients": "Gradients reach every input that needs them",
    "leaves_settings": "PyTorch's settings and functions are as before",
}


@cache
def standard(exercise: Exercise) -> tuple[Property, ...]:
    """The properties that every exercise checks, in the order in which a card reports them."""

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(function, exercise)

    def essential(id: str, holds: Any, explain: Any) -> Property:
        return Property(id, TEXTS[id], holds, explain=explain)

    def extra(id: str, holds: Any, explain: Any) -> Property:
        return Property(id, TEXTS[id], holds, secondary=True, explain=explain)

    return (
        essential("runs", _runs, of(explain_error)),
        essential("shape", of(_shape), of(explain_shape)),
        essential("finite", of(_finite), of(explain_values)),
        essential("values", of(_values), of(explain_values)),
        extra("refuses", _refuses, explain_refusal),
        extra("dtype", of(_dtype), explain_dtype),
        extra("unmodified", _without("modified"), explain_modified),
        extra("stable", _without("unstable"), explain_unstable),
        extra("kept", _kept, explain_kept),
        extra("device", _device, explain_device),
        extra("gradients", of(_gradients), of(explain_gradient)),
        extra("leaves_settings", _left_nothing, explain_left_behind),
    )
