"""Verdicts on answers in another process, whose replies can't be trusted.

The cases are drawn here and sent one at a time; the reply must be data in a known form. These data
are judged with the key, which never leaves this process.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import torch

from whywrong import Case, Catalogue, Observation, Report
from whywrong.hosting import (
    MAX_ELEMENTS,
    AnswerKey,
    Described,
    Exercise,
    Rules,
    installed,
    report_on,
    unpack,
)

from .fork_server import BACKSTOP, Fork
from .inside import wire
from .inside.answers import Probing
from .inside.codes import MOST_CODES, prints
from .readable import all_readable, readable

GRACE = 3.0  # seconds after the time limit that an honest process needs to report it
ALIKE = 0.8  # the share of a finished part's instructions that make an answer the same
NOT_INSIDE = "exercises", "own_exercises_"  # only needed parts of these are sent
KEPT_CASES = 2000  # all cases of the course are about 30 MB
MOST_TENSORS, MOST_FACTS = 400, 200_000
MOST_HEADER = 2**20  # bytes of names, shapes and facts; in memory, a hundred times as much
DTYPES = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
DTYPES |= {torch.float16, torch.bfloat16, torch.float32, torch.float64}


class NotThere(Exception):
    """The notebook defines nothing of this name."""


class Untrustworthy(Exception):
    """The reply doesn't have the form of an observation; the message says what is wrong."""


# What is sent --------------------------------------------------------------------------------

# It is the same for every student, and built once per process.
_gone_in: dict[tuple, tuple[Exercise, Catalogue, bytes]] = {}
_shown: dict[int, tuple[Case, bytes]] = {}
_by_value: dict[str, Any] = {}


def goes_in(exercise: Exercise, catalogue: Catalogue, names: Mapping[str, Any]) -> bytes:
    """The part of an exercise that a submission's process gets: no expectation, misconception or
    case, but finished parts by `names`; as code, if the package inside lacks them."""
    place = id(exercise), id(catalogue), *names
    known = _gone_in.get(place)
    if known is None or known[0] is not exercise or known[1] is not catalogue:
        watched = catalogue.not_to_borrow(exercise)
        parts = _parts_inside(watched | _finished(catalogue, watched))
        rules = Rules(forbidden=exercise.rules.forbidden, as_found=exercise.rules.as_found)
        probing = Probing(exercise.id, exercise.kind, exercise.probe, rules, parts)
        known = _gone_in[place] = exercise, catalogue, _sent((probing, _parts_inside(names)))
    return known[2]


def _parts_inside(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if _is_inside(part)}


def _finished(catalogue: Catalogue, ids: Iterable[str]) -> dict[str, Any]:
    known = map(catalogue.find, ids)
    return {e.id: e.finished for e in known if e is not None and e.finished}


def _is_inside(part: Any) -> bool:
    """Whether the package inside contains it."""
    course, home = installed(), getattr(part, "__module__", "") or ""
    if course is None or home.split(".")[0] != course.package:
        return False
    kept_out = (n.removesuffix(".py").replace("/", ".") for n in course.kept_out)
    return not any(home == f"{course.package}.{name}" for name in kept_out)


def _sent(value: Any) -> bytes:
    for name, module in list(sys.modules.items()):
        if name.startswith(NOT_INSIDE) and _by_value.get(name) is not module:
            cloudpickle.register_pickle_by_value(module)
            _by_value[name] = module
    return bytes(cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def shown_case(case: Case) -> bytes:
    """A case as it is sent, without the words that a refusal must contain."""
    known = _shown.get(id(case))
    if known is None or known[0] is not case:
        if len(_shown) >= KEPT_CASES:
            _shown.clear()
        data = _sent(replace(case, refuses=None if case.refuses is None else ()))
        known = _shown[id(case)] = case, data
    return known[1]


# What is received ----------------------------------------------------------------------------


# The allowed forms of facts.
TEXTS = "unstable", "elsewhere", "gradient_error", "not_given_back"
LISTS = "modified", "device", "left_behind", "borrowed", "unread", "ops", "read_instead"
SWITCHES = "overwritten", "not_attempted", "compiles", "forward_unwritten"


def observation(data: bytes) -> Observation:
    """An observation from untrusted bytes.

    Raises:
        Untrustworthy: it doesn't have the form of an observation.
    """
    if int.from_bytes(data[:8], "little") > MOST_HEADER:
        raise Untrustworthy("it contains more than an observation does")
    try:
        found = unpack(data)
    except (ValueError, RecursionError) as error:
        raise Untrustworthy(readable(str(error)[:200])) from None
    if len(found) != 1 or len(found[0].tensors) > MOST_TENSORS:
        raise Untrustworthy("it is not the observation of a single case")
    (seen,) = found
    for name, tensor in seen.tensors.items():
        if len(name) > 200 or tensor.dtype not in DTYPES or tensor.numel() > MAX_ELEMENTS:
            raise Untrustworthy(f"{readable(name[:60])} is not a tensor of an exercise")
    return Observation(seen.tensors, facts(seen.facts))


def facts(raw: dict[str, Any]) -> dict[str, Any]:
    """The facts in a known form; others are left out.

    Raises:
        Untrustworthy: there are too many, or they are nested too deeply.
    """
    _bounded(raw)
    raw = all_readable(raw)
    kept = {n: raw[n][:1000] for n in TEXTS if isinstance(raw.get(n), str)}
    kept |= {n: [t[:300] for t in raw[n]] for n in LISTS if _texts(raw.get(n))}
    kept |= {n: True for n in SWITCHES if raw.get(n) is True}
    kept |= {n: raw[n] for n in ("traits", "entries") if isinstance(raw.get(n), dict)}
    if isinstance(raw.get("types"), dict) and _texts(list(raw["types"].values())):
        kept["types"] = raw["types"]
    if _texts(raw.get("unknown")):
        kept["unknown"] = raw["unknown"][:5]
    if _names_with(int, raw.get("besides")) and all(0 <= n < 2**63 for _, n in raw["besides"]):
        kept["besides"] = [(name[:60], size) for name, size in raw["besides"][:5]]
    if _names_with(str, raw.get("unregistered")):
        kept["unregistered"] = [(name[:60], kind[:60]) for name, kind in raw["unregistered"][:5]]
    if isinstance(raw.get("unfit"), dict) and _texts([*raw["unfit"].values()]):
        kept["unfit"] = {name: said[:300] for name, said in raw["unfit"].items()}
    if isinstance(raw.get("measured"), dict):
        kept["measured"] = {n: v for n, v in raw["measured"].items() if type(v) in (int, float)}
    printed = raw.get("printed")
    if isinstance(printed, dict) and _texts(printed.get("first")):
        if type(printed.get("lines")) is not int:
            raise Untrustworthy("the printed lines can't be counted")
        kept["printed"] = {"lines": printed["lines"], "first": printed["first"][:5]}
    if "error" in raw:
        kept["error"] = _error(raw["error"])
    return kept


def _error(given: Any) -> dict[str, Any]:
    """An exception as facts; an unknown form still counts as an exception."""
    given = given if isinstance(given, dict) else {}
    text = {n: given[n][:2000] for n in ("type", "message") if isinstance(given.get(n), str)}
    lists = {n: given[n][:20] for n in ("bases", "where") if _texts(given.get(n))}
    known = given.get("kind") in ("exception", "stub", "call", "weights", "time", "ours")
    kept = {"type": "Exception", "message": "", "bases": [], "where": [], **text, **lists}
    kept["kind"] = given["kind"] if known else "exception"
    if _names_with(str, given.get("unregistered")):
        kept["unregistered"] = [(name[:60], kind[:60]) for name, kind in given["unregistered"][:5]]
    return kept | ({"later": True} if given.get("later") is True else {})


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _names_with(kind: type, value: Any) -> bool:
    """Whether it is a list of pairs, of a name and a value of this type."""
    return isinstance(value, list) and all(
        isinstance(pair, list) and [type(part) for part in pair] == [str, kind] for pair in value
    )


def _bounded(value: Any, room: int = MOST_FACTS, depth: int = 8) -> int:
    """The budget that remains after a value of plain data."""
    room -= len(value) if isinstance(value, str | list | dict) else 1
    if room < 0 or depth < 0:
        raise Untrustworthy("there are more facts than an observation has")
    parts = value.items() if isinstance(value, dict) else ()
    for part in value if isinstance(value, list) else (p for pair in parts for p in pair):
        room = _bounded(part, room, depth - 1)
    return room


def described(description: Any) -> Described:
    """A description from a process's own statement about its answer."""
    if not isinstance(description, dict):
        raise Untrustworthy("there is no description")
    _bounded(description)
    description = all_readable(description)
    names, kind = description.get("names"), description.get("kind")
    return Described(
        missing=description.get("missing") is True,
        kind=kind[:100] if isinstance(kind, str) else "an object",
        is_class=description.get("is_class") is True,
        callable=description.get("callable") is True,
        forward=description.get("forward") is True,
        signature=_signature(description.get("arguments")),
        names=frozenset(names or ()) if _texts(names) else frozenset(),
        of_torch=description.get("of_torch") is True,
    )


def _signature(arguments: Any) -> inspect.Signature | None:
    parameters = []
    try:
        for name, kind, given in arguments:
            default = None if given else inspect.Parameter.empty
            how = getattr(inspect._ParameterKind, kind)
            parameters.append(inspect.Parameter(name, how, default=default))
        return inspect.Signature(parameters)
    except (TypeError, ValueError, AttributeError):
        return None


# What the sandbox says about where an answer comes from.
ORIGINS = {
    "package": "is a function of the course's own package",
    "torch": "is a program that PyTorch made, not one of a cell",
    "text": "was compiled from a text: no cell shows what it does",
}


def _codes(said: Any) -> dict[str, int]:
    if not isinstance(said, dict) or len(said) > MOST_CODES:
        return {}
    return {k: n for k, n in said.items() if isinstance(n, int) and 0 < n < 10_000}


def same_code(exercise: Exercise, digests: Mapping[str, int]) -> dict[str, int]:
    """Returns how many instructions of an exercise's finished part its answer shares, if it shares
    most of them."""
    part = exercise.finished
    if part is None or exercise.kind == "quiz" or exercise.rules.as_found is not None:
        return {}
    ours = prints(part, alone=True)
    shared = sum(n for digest, n in ours.items() if digest in digests)
    return {exercise.id: shared} if shared >= ALIKE * max(sum(ours.values()), 1) else {}


# Verdicts ------------------------------------------------------------------------------------


@dataclass
class SandboxedAnswer:
    """An answer in a notebook's process, with the interface `HandedIn` for `report_on`."""

    exercise: Exercise
    catalogue: Catalogue
    fork: Fork
    seconds: float  # its limit on processor time
    observations: list[Observation] = field(default_factory=list)  # the last

    def described(self) -> Described:
        asked = {"do": "look", "name": self.exercise.id}
        parts = self.catalogue.earlier_parts(self.exercise, set(self.exercise.rules.uses))
        parts |= _finished(self.catalogue, sorted(parts))
        data = goes_in(self.exercise, self.catalogue, parts)
        said, _ = self.fork.ask(asked, data, self.seconds + GRACE)
        if said.get("there") is False:
            raise NotThere
        if "described" not in said:
            raise Untrustworthy(readable(str(said.get("error", "it gave no description"))[:300]))
        self.fork.codes = _codes(said.get("codes"))
        self.fork.origin = ORIGINS.get(str(said.get("origin")), "")
        return described(said["described"])

    def observe(self, cases: list[Case], parts: Mapping[str, Any]) -> list[Observation]:
        begun = self.fork.used
        self.observations = observations = []
        for number, case in enumerate(cases):
            left = max(self.seconds - (self.fork.used - begun), 0.1)
            # Inside, the wall clock ends an answer only if nothing outside has ended it.
            asked = {"do": "observe", "seconds": BACKSTOP * left, "computing": self.seconds}
            asked |= {"first": number == 0, "parts": bool(parts)}
            said, data = self.fork.ask(asked, shown_case(case), left + GRACE)
            if not data:
                raise Untrustworthy(readable(str(said.get("error", "nothing was observed"))[:300]))
            observations.append(observation(data))
            error = observations[-1].error or {}
            if error.get("kind") == "time":
                error["message"] = f"still running after {self.seconds:g} seconds"
                used = self.fork.used - begun
                self.fork.starved |= used < self.seconds / 2
                break
        return observations


def verdict(
    exercise: Exercise,
    catalogue: Catalogue,
    fork: Fork,
    key: AnswerKey,
    seconds: float,
    observations: list[Observation] | None = None,
    alone: Report | None = None,
) -> Report:
    """The report on the answer with the exercise's name in a notebook's process. What was observed
    is put into `observations`; `alone` is as in `report_on`.

    Raises:
        wire.Ended, wire.OutOfTime: the process has ended, or no longer replies.
    """
    answer = SandboxedAnswer(exercise, catalogue, fork, seconds)
    try:
        return report_on(exercise, answer, key, catalogue, alone)
    except NotThere:
        said = f"NameError: name '{exercise.id}' is not defined. No cell that ran defines it."
    except (Untrustworthy, wire.BadMessage) as error:
        said = f"The results of this answer can't be judged: {error}."
    except (wire.Ended, wire.OutOfTime):
        raise
    except Exception as error:
        said = f"The results of this answer can't be judged ({type(error).__name__})."
    finally:
        if observations is not None:
            observations[:] = answer.observations
    return Report.nothing(exercise, said)
