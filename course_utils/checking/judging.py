"""From observations to a report: pure, and blind to where the observations came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .exercise import Behaviour, Case, Exercise, Misconception, Observation
from .report import BehaviourResult, Report

Expected = dict[str, Tensor]


@dataclass(frozen=True)
class Trial:
    """One case with what was seen and what is right."""

    case: Case
    seen: Observation
    expected: Expected


def judge(exercise: Exercise, cases: Sequence[Case], observations: Sequence[Observation]) -> Report:
    """The report on an answer, from what its probe saw.

    Uses nothing but plain tensors and facts; runs the exercise's own code only (`expect`, and the
    misconceptions when the answer is wrong).
    """
    if exercise.kind == "quiz":
        return _judge_quiz(exercise, cases[0], observations[0])
    trials = [Trial(c, o, exercise.expect(c)) for c, o in zip(cases, observations, strict=False)]

    unattempted = any(t.seen.facts.get("not_attempted") for t in trials) or any(
        t.seen.error and t.seen.error["kind"] == "stub" for t in trials
    )
    if unattempted:
        return Report.not_attempted(exercise)

    results = [_standard(exercise, b, trials) for b in STANDARD]
    if results[0].holds is False:  # nothing holds on every case if it doesn't run on every case
        results = [r for r in results if not r.holds]
    results += [_result(b, trials) for b in exercise.behaviours]
    results = [r for r in results if r.holds is not None]
    passed = bool(trials) and len(trials) == len(cases) and all(r.holds for r in results)
    forbidden = _forbidden(exercise, observations)
    if forbidden:
        text = exercise.forbidden_text
        results.append(BehaviourResult("own_work", text, False))
        passed = False
    borrowed = sorted({n for o in observations for n in o.facts.get("borrowed", ())})
    if passed and borrowed:
        return Report(
            exercise.id,
            0.0,
            exercise.points,
            False,
            message=f"This calls the course's own finished part ({', '.join(borrowed)}). Read it "
            "if you are stuck, then close it and write yours.",
            hints_left=len(exercise.hints),
        )
    notes = _notes(exercise, trials, passed)
    if passed:
        return Report(
            exercise.id,
            exercise.points,
            exercise.points,
            True,
            results,
            message="Right on every case.",
            notes=notes,
        )

    named = None if forbidden else name_misconception(exercise, trials)
    message, detail = _explain(exercise, trials, results, forbidden)
    return Report(
        exercise.id,
        0.0 if forbidden else _partial(exercise, results),
        exercise.points,
        False,
        results,
        misconception=named.id if named else None,
        advice=(named.what, named.why, named.mend) if named else (),
        message=message,
        detail=detail,
        notes=notes,
        hints_left=len(exercise.hints),
    )


# ---------------------------------------------------------------- behaviours every exercise has


def tolerance(exercise: Exercise, expected: Tensor) -> float:
    return exercise.tolerance.get(expected.dtype, 0.0)


def close(exercise: Exercise, got: Tensor, expected: Tensor) -> Tensor:
    """Element by element, whether a result is right; shapes are equal already."""
    if not expected.is_floating_point():
        return got == expected
    a, b = got.double(), expected.double()
    return (a - b).abs() <= tolerance(exercise, expected) * b.abs().clamp(min=1.0)


def _agrees(exercise: Exercise, got: Tensor | None, expected: Tensor) -> bool:
    return (
        got is not None
        and got.shape == expected.shape
        and bool(close(exercise, got, expected).all())
    )


def _gradient_agrees(exercise: Exercise, got: Tensor | None, expected: Tensor) -> bool:
    """As `_agrees`, against the largest number: a gradient adds up what rounding does to all."""
    if got is None or got.shape != expected.shape:
        return False
    largest = expected.abs().amax().clamp(min=1.0) if expected.numel() else torch.tensor(1.0)
    error = (got.double() - expected.double()).abs()
    return bool((error <= tolerance(exercise, expected) * largest.double()).all())


def _main(trial: Trial) -> list[str]:
    """The names of the results themselves, gradients and other evidence left out."""
    return [n for n in trial.expected if not n.startswith("grad:")]


def _runs(exercise: Exercise, t: Trial) -> bool | None:
    if t.case.refuses is not None:
        return None
    return t.seen.error is None


def _refuses(exercise: Exercise, t: Trial) -> bool | None:
    if t.case.refuses is None:
        return None
    error = t.seen.error
    return (
        error is not None
        and error["type"] == "ValueError"
        and all(text in error["message"] for text in t.case.refuses)
    )


def _shape(exercise: Exercise, t: Trial) -> bool | None:
    if t.case.refuses is not None or t.seen.error:
        return None
    kinds = t.seen.facts.get("types", {})
    for name in _main(t):
        if kinds.get(name) != exercise.returns or name not in t.seen.tensors:
            return False
        if t.seen.tensors[name].shape != t.expected[name].shape:
            return False
    return True


def _dtype(exercise: Exercise, t: Trial) -> bool | None:
    if not _shape(exercise, t):
        return None
    return all(t.seen.tensors[n].dtype == t.expected[n].dtype for n in _main(t))


def _finite(exercise: Exercise, t: Trial) -> bool | None:
    if not _shape(exercise, t):
        return None
    return all(bool(t.seen.tensors[n].isfinite().all()) for n in _main(t))


def _values(exercise: Exercise, t: Trial) -> bool | None:
    if not _shape(exercise, t):
        return None
    return all(_agrees(exercise, t.seen.tensors[n], t.expected[n]) for n in _main(t))


def _gradients(exercise: Exercise, t: Trial) -> bool | None:
    wanted = [n for n in t.expected if n.startswith("grad:")]
    if not wanted or not _values(exercise, t) or t.seen.facts.get("modified"):
        return None
    return all(_gradient_agrees(exercise, t.seen.tensors.get(n), t.expected[n]) for n in wanted)


def _unmodified(exercise: Exercise, t: Trial) -> bool | None:
    if t.case.refuses is not None or t.seen.error:
        return None
    return not t.seen.facts.get("modified")


def _stable(exercise: Exercise, t: Trial) -> bool | None:
    if t.case.refuses is not None or t.seen.error:
        return None
    return not t.seen.facts.get("unstable")


def _kept(exercise: Exercise, t: Trial) -> bool | None:
    return False if t.seen.facts.get("overwritten") else None


def _device(exercise: Exercise, t: Trial) -> bool | None:
    return False if t.seen.facts.get("device") else None


STANDARD = (
    ("runs", "It runs on every input", _runs),
    ("refuses", "Input that makes no sense is refused with a ValueError that says so", _refuses),
    ("shape", "The result has the right type and shape", _shape),
    ("finite", "Every number is finite", _finite),
    ("values", "The values are right on every case", _values),
    ("dtype", "The result has the right dtype", _dtype),
    ("device", "The result stays on the input's device", _device),
    ("gradients", "Gradients reach every input that they should", _gradients),
    ("unmodified", "The input is left as it was", _unmodified),
    ("stable", "The same input gives the same result each time", _stable),
    ("kept", "An earlier result stays as it was", _kept),
)
# Of these a wrong answer may keep or break any without being nearer to the right one.
SECONDARY = (
    "dtype",
    "device",
    "gradients",
    "unmodified",
    "stable",
    "kept",
    "refuses",
    "parameters",
    "moves",
    "returns_none",
)


def _verdict(values: Sequence[bool | None]) -> bool | None:
    known = [v for v in values if v is not None]
    return all(known) if known else None


def _standard(exercise: Exercise, standard: tuple, trials: Sequence[Trial]) -> BehaviourResult:
    id, text, holds = standard
    return BehaviourResult(id, text, _verdict([holds(exercise, t) for t in trials]))


def _result(behaviour: Behaviour, trials: Sequence[Trial]) -> BehaviourResult:
    verdicts: list[bool | None] = []
    if any(t.seen.error for t in _ordinary(trials)):  # what is left over could only mislead
        return BehaviourResult(behaviour.id, behaviour.text, None, behaviour.credit, behaviour.gate)
    for t in trials:
        if t.seen.facts.get("unstable"):
            continue  # chance would break it for another reason
        try:
            verdicts.append(behaviour.holds(t.case, t.seen, t.expected))
        except (KeyError, IndexError, RuntimeError, TypeError):
            verdicts.append(None)  # what it looks at isn't there; the standard rows say why
    verdict = _verdict(verdicts)
    text = behaviour.breaks if verdict is False and behaviour.breaks else behaviour.text
    return BehaviourResult(behaviour.id, text, verdict, behaviour.credit, behaviour.gate)


def _partial(exercise: Exercise, results: Sequence[BehaviourResult]) -> float:
    """Three quarters when the values are right and something beside them isn't; else up to half,
    by the share of creditable properties, if the answer is more than a constant or a copy."""
    holds = {r.id: r.holds for r in results}
    essential = [r for r in results if r.id not in SECONDARY]
    if all(r.holds for r in essential) and holds.get("values"):
        return _quarter(0.75 * exercise.points)
    if not holds.get("runs") or not holds.get("shape") or not holds.get("finite", True):
        return 0.0
    if any(r.gate and not r.holds for r in results):
        return 0.0
    credit = [bool(r.holds) for r in results if r.credit]
    return _quarter(0.5 * exercise.points * sum(credit) / len(credit)) if credit else 0.0


def _quarter(points: float) -> float:
    return math.floor(points * 4) / 4


# ---------------------------------------------------------------- forbidden operators, notes


def _forbidden(exercise: Exercise, observations: Sequence[Observation]) -> list[str]:
    used = {op for o in observations for op in o.facts.get("ops", ())}
    return sorted(used & set(exercise.forbidden))


def _notes(exercise: Exercise, trials: Sequence[Trial], passed: bool) -> list[str]:
    seen = [t.seen for t in trials]
    notes = []
    if passed and exercise.notes:
        notes += exercise.notes([t.case for t in trials], seen)
    if passed and any(_float32_step(exercise, t) for t in trials):
        notes.append(
            "Somewhere on the way your float64 input passes through float32 (the last digits "
            "show it). It costs nothing here; `dtype=x.dtype` keeps the precision."
        )
    printed = seen[0].facts.get("printed") if seen else None
    if printed:
        count = printed["lines"]
        lines = "1 line" if count == 1 else f"{count:,} lines"
        first = "\n".join(printed["first"])
        notes.append(f"Your code printed {lines} while it was checked. The beginning:\n{first}")
    return notes


def _float32_step(exercise: Exercise, t: Trial) -> bool:
    for name, expected in t.expected.items():
        got = t.seen.tensors.get(name)
        if (
            got is not None
            and got.dtype == expected.dtype == torch.float64
            and expected.numel()
            and _agrees(exercise, got, expected)
            and (got - expected).abs().max() > 1e-8 * expected.abs().max().clamp(min=1)
        ):
            return True
    return False


# ---------------------------------------------------------------- which misconception it is


def name_misconception(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """The misconception whose code gives what was seen, on every case; None if there is none.

    The next best is one that gives the same wrong values wherever both gave values, twice at
    least, whatever else differs.
    """
    from .probing import run

    likely = None
    # An answer that never ran shows only its errors: then they must be the same to the word.
    said = {id(t): t.seen.error["message"] if t.seen.error else None for t in _ordinary(trials)}
    ran = not all(said.values())
    # Where the answer is wrong most misconceptions part from it at once.
    telling_first = sorted(trials, key=lambda t: _holds(exercise, t))
    for misconception in exercise.misconceptions:
        alike, near, telling, told = True, likely is None, 0, {}
        for t in telling_first:
            wrong = run(exercise, misconception.answer, [t.case])[0]
            if id(t) in said:
                told[id(t)] = wrong.error["message"] if wrong.error else None
            alike = alike and same_observation(exercise, t.seen, wrong)
            found = _same_values(exercise, t, wrong) if near else None
            near, telling = found is not None, telling + (found or 0)
            if not alike and not near:
                break
        if alike and (ran or told == said):
            return misconception
        if near and telling >= 2:
            likely = misconception
    return likely


def _ordinary(trials: Sequence[Trial]) -> list[Trial]:
    return [t for t in trials if t.case.refuses is None]


def _holds(exercise: Exercise, t: Trial) -> bool:
    return not any(holds(exercise, t) is False for _, _, holds in STANDARD)


def same_observation(exercise: Exercise, a: Observation, b: Observation) -> bool:
    """Whether two answers behaved alike on one case: errors, values, dtypes, side effects."""
    if (a.error or {}).get("type") != (b.error or {}).get("type"):
        return False
    if a.error:
        return True
    facts = ("types", "modified", "unstable", "overwritten", "not_attempted", "traits")
    if any(a.facts.get(f) != b.facts.get(f) for f in facts):
        return False
    if a.facts.get("unstable"):
        return True
    return a.tensors.keys() == b.tensors.keys() and all(
        _alike(exercise, a.tensors[n], b.tensors[n]) for n in a.tensors
    )


def _alike(exercise: Exercise, a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    x, y = a.double(), b.double()
    slack = 10 * tolerance(exercise, a) * y.abs().nan_to_num(posinf=1.0).clamp(min=1.0)
    return bool(((x - y).abs() <= slack).logical_or(x == y).logical_or(x.isnan() & y.isnan()).all())


def _same_values(exercise: Exercise, t: Trial, wrong: Observation) -> int | None:
    """How many of the values that both gave are wrong ones; None if any two differ."""
    telling = 0
    for name in _main(t):
        mine, theirs = t.seen.tensors.get(name), wrong.tensors.get(name)
        if mine is None or theirs is None:
            continue
        if mine.shape != theirs.shape or not _alike(exercise, mine.double(), theirs.double()):
            return None
        telling += not _agrees(exercise, theirs, t.expected[name])
    return telling


# ---------------------------------------------------------------- what to say first


def _explain(
    exercise: Exercise,
    trials: Sequence[Trial],
    results: Sequence[BehaviourResult],
    forbidden: Sequence[str],
) -> tuple[str, str]:
    """The first thing that is wrong, as one sentence and the evidence for it."""
    if forbidden and not any(t.seen.error for t in _ordinary(trials)):
        return exercise.forbidden_text, f"Your answer calls {', '.join(forbidden)}."
    for t in _ordinary(trials):
        if t.seen.error:
            return _explain_error(exercise, t, t.seen.error)
        for check in (_explain_shape, _explain_dtype_kind, _explain_values):
            said = check(exercise, t)
            if said:
                return said
    for t in trials:
        said = _explain_refusal(exercise, t)
        if said:
            return said
    for t in trials:
        said = _explain_rest(exercise, t)
        if said:
            return said
    broken = next(r for r in results if r.holds is False)
    breaks = {b.id: b.breaks for b in exercise.behaviours}.get(broken.id)
    if breaks:
        return f"The values are right. But: {breaks}.", ""
    return f"The values are right, but this does not hold: {broken.text}.", ""


def _explain_error(exercise: Exercise, t: Trial, error: dict) -> tuple[str, str]:
    given = t.case.describe()
    where = "\n".join(error["where"])
    if error["kind"] == "time":
        said = f"Your code was {error['message']} and was stopped: is there a loop that never ends?"
        return said, "\n".join(filter(None, [given, where]))
    if error["kind"] == "call":
        return f"`{exercise.call}` can't be called as asked: {error['message']}", given
    if error["kind"] == "weights":
        return error["message"], given
    said = f"Your code raised {error['type']}" + (": " if error["message"] else ".")
    return said + error["message"], "\n".join(filter(None, [given, where]))


RESULTS = {"out": "result", "train": "result in training mode (dropout 0)"}


def _explain_shape(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    if _shape(exercise, t) is not False:
        return None
    kinds = t.seen.facts.get("types", {})
    given = t.case.describe()
    for name in _main(t):
        kind = kinds.get(name, "nothing")
        what = f"The {RESULTS.get(name, name)}"
        if kind == "NoneType" and exercise.returns != "NoneType":
            return "Your function returns None: is there a `return`?", given
        if kind != exercise.returns:
            wanted = {"Tensor": "an ordinary tensor", "int": "an int", "NoneType": "None"}
            return f"{what} should be {wanted.get(exercise.returns, exercise.returns)}.", (
                f"{given}\nYours is: {kind}"
            )
        got, expected = tuple(t.seen.tensors[name].shape), tuple(t.expected[name].shape)
        if got != expected:
            return (
                f"{what} has shape {got}, expected {expected}.",
                f"{given}\nexpected shape {expected}\ngot shape      {got}",
            )
    return None


def _explain_dtype_kind(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    """A result of another kind of number is told before its values are."""
    if not _shape(exercise, t):
        return None
    for name in _main(t):
        got, expected = t.seen.tensors[name], t.expected[name]
        kinds = (got.is_floating_point(), got.dtype == torch.bool)
        if kinds != (expected.is_floating_point(), expected.dtype == torch.bool):
            return (
                f"The result is {_short(got.dtype)}, expected {_short(expected.dtype)}.",
                t.case.describe(),
            )
    return None


def _explain_values(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    if _values(exercise, t) is not False:
        return None
    for name in _main(t):
        got, expected = t.seen.tensors[name], t.expected[name]
        wrong = ~close(exercise, got, expected)
        if not bool(wrong.any()):
            continue
        index = tuple(int(i) for i in wrong.nonzero()[0])
        label = RESULTS.get(name, name)
        place = f"{label}[{', '.join(map(str, index))}]" if index else label
        count = int(wrong.sum())
        which = "number" if count == 1 else "numbers"
        said = f"{count} of {wrong.numel()} {which} differ from the right answer."
        if not bool(got.isfinite().all()) and bool(expected.isfinite().all()):
            bad = int((~got.isfinite()).sum())
            are = "is" if bad == 1 else "are"
            said = f"{bad} of {wrong.numel()} numbers {are} NaN or infinite."
        return said, (
            f"Case: {t.case.name}. {t.case.describe()}\n{_small_inputs(t.case)}"
            f"First difference at {place}:\n"
            f"expected {number(expected[index])}\ngot      {number(got[index])}"
        )
    return None


def _small_inputs(case: Case) -> str:
    """Inputs that fit on a line, so that a reader can redo the case by hand."""
    lines = []
    for name, value in case.inputs.items():
        if isinstance(value, Tensor) and value.dim() and value.numel() <= 12:
            lines.append(f"{name} = {_rounded(value.tolist())}\n")
    return "".join(lines)


def _rounded(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_rounded, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _explain_refusal(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    if _refuses(exercise, t) is not False:
        return None
    given = f"Case: {t.case.name}. {t.case.describe()}"
    wanted = " and ".join(t.case.refuses or ())
    error = t.seen.error
    if error is None:
        return "This input should be refused with a ValueError, and was accepted.", given
    got = f"got {error['type']}: {error['message']}"
    if error["type"] != "ValueError":
        return "This input should be refused with a ValueError.", f"{given}\n{got}"
    return f"The ValueError's message should hold {wanted}.", f"{given}\n{got}"


def _explain_rest(exercise: Exercise, t: Trial) -> tuple[str, str] | None:
    given = f"Case: {t.case.name}. {t.case.describe()}"
    facts = t.seen.facts
    if _dtype(exercise, t) is False:
        name = next(n for n in _main(t) if t.seen.tensors[n].dtype != t.expected[n].dtype)
        got, expected = _short(t.seen.tensors[name].dtype), _short(t.expected[name].dtype)
        return f"The values are right, but the result is {got}, expected {expected}.", given
    if facts.get("modified"):
        names = ", ".join(facts["modified"])
        return (
            f"The values are right, but your code changed its input ({names}). "
            "Whoever calls it still needs that tensor.",
            given,
        )
    if facts.get("unstable") == "random":
        return "Two calls with the same input gave different results.", given
    if facts.get("unstable") == "seed":
        return (
            "The result depends on the global random seed, and this answer needs no chance.",
            given,
        )
    if facts.get("overwritten"):
        return (
            "A later call wrote into an earlier result: each call needs a tensor of its own.",
            given,
        )
    if facts.get("device"):
        got, expected = facts["device"]
        return f"The result is on {got}, its input was on {expected}.", given
    if _gradients(exercise, t) is False:
        return _explain_gradient(exercise, t, given)
    return None


def _explain_gradient(exercise: Exercise, t: Trial, given: str) -> tuple[str, str]:
    for name in (n for n in t.expected if n.startswith("grad:")):
        who = name.removeprefix("grad:")
        got = t.seen.tensors.get(name)
        if got is None:
            reason = t.seen.facts.get("gradient_error", "")
            return (
                f"The values are right, but no gradient reaches {who}: somewhere the result is cut "
                "off from its input (`.item()`, `.tolist()`, `.detach()`, `torch.no_grad()`, "
                "`torch.tensor(…)`).",
                "\n".join(filter(None, [given, reason])),
            )
        if not _gradient_agrees(exercise, got, t.expected[name]):
            return f"The values are right, but the gradient of {who} is not.", given
    return "The values are right, but a gradient is not.", given


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def number(value: Tensor) -> str:
    """One number for a reader: integers and booleans as they are, floats to six digits."""
    v = value.item()
    if isinstance(v, float):
        return f"{v:.6g}"
    return str(v)


# ---------------------------------------------------------------- quizzes


def _judge_quiz(exercise: Exercise, case: Case, seen: Observation) -> Report:
    expected = exercise.expect(case)
    kinds = seen.facts.get("types", {})
    if seen.error:
        return Report(exercise.id, 0.0, exercise.points, False, [], message=seen.error["message"])
    if kinds.get("quiz") != "dict":
        return Report(
            exercise.id,
            0.0,
            exercise.points,
            False,
            [],
            message=f"A quiz is answered by a dict; yours is: {kinds.get('quiz')}.",
            hints_left=len(exercise.hints),
        )
    entries = case.options["entries"]
    blank = all(kinds.get(name) in ("...", "missing") for name in entries)
    if blank and not seen.facts.get("unknown"):
        return Report.not_attempted(exercise)
    why, rows, right = case.options["why"], [], 0
    for name in entries:
        got, wanted = seen.tensors.get(name), expected[name]
        good = got is not None and got.shape == wanted.shape and torch.equal(got, wanted)
        right += good
        if good:
            text = f"{name} is {spell(wanted)}. {why[name]}"
        elif kinds.get(name) == "missing":
            text = f"{name}: there is no such entry in your dict."
        elif kinds.get(name) == "...":
            text = f"{name}: not answered yet."
        elif got is None:
            text = f"{name}: a shape is a tuple of integers."
        elif got.dim() == 0 and wanted.dim() == 1:
            text = f"{name}: {spell(got)} is a number; the shape that holds it is ({spell(got)},)."
        else:
            text = f"{name} is not {spell(got)}. {case.options['ask'].get(name, '')}".strip()
        rows.append(BehaviourResult(name, text, bool(good)))
    passed = right == len(entries)
    named = None
    if not passed:
        for m in exercise.misconceptions:
            wrong = exercise.probe(m.answer, case).tensors
            differing = [
                n for n in entries if n in wrong and not torch.equal(wrong[n], expected[n])
            ]
            mine = [seen.tensors.get(n) for n in differing]
            if differing and all(
                g is not None and torch.equal(g, wrong[n])
                for g, n in zip(mine, differing, strict=True)
            ):
                named = m
                break
    notes = []
    if seen.facts.get("unknown"):
        notes.append(f"Entries that were not asked for: {', '.join(seen.facts['unknown'])}.")
    points = exercise.points if passed else _quarter(exercise.points * right / len(entries))
    return Report(
        exercise.id,
        points,
        exercise.points,
        passed,
        rows,
        misconception=named.id if named else None,
        advice=(named.what, named.why, named.mend) if named else (),
        message="Every entry is right." if passed else f"{right} of {len(entries)} are right.",
        notes=notes,
        hints_left=0 if passed else len(exercise.hints),
    )


def spell(value: Tensor) -> str:
    """An entry of a quiz as Python would write it: `(4, 8, 2)`, `12`, `[(1, 2), (2, 1)]`."""
    numbers = value.tolist()
    if value.dim() == 0:
        return str(numbers)
    if value.dim() == 1:
        return f"({numbers[0]},)" if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"
    return str([tuple(row) for row in numbers])
