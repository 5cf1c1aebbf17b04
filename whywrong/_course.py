"""The course that is installed with this engine, and the reader's language.

A package with exercises has an entry point in the group `whywrong.course`. The file `course.toml`
in that package describes the course, so its exercises are found without running its code.

Reports keep their English sentences, so an instructor's tables don't depend on a reader's language:
each sentence is looked up at the moment when it is shown. A course's translations are folders, one
per language, in which `strings/*.json` give for each English sentence the one to show. An English
sentence may have placeholders, as in "{done:g} of {total:g} exercises are done.": `:g` stands for a
number, `:w` for a word without blanks, `:v` for a value of Python, `:s` for sentences that are also
translated, `:e` for an error's message, and a name alone for any text, which is looked up too. A
sentence that isn't found stays English.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

libraries = {os.path.dirname(os.path.abspath(__file__))}  # folders whose code is not the student's


@dataclass(frozen=True)
class Course:
    """The description of a course.

    Args:
        exercises: the folder of its exercises.
        package: the package that lessons import.
        kept_out: modules and folders of that package that a graded submission does not see. The
            first is the module with `check`, `hint` and `progress`, which the sandbox replaces.
        loaded: modules of that package that are loaded before a submission runs.
        translations: the folder with a folder for each language: see below.
    """

    exercises: Path
    package: str
    kept_out: tuple[str, ...]
    loaded: tuple[str, ...] = ()
    translations: Path = Path()


@cache
def installed() -> Course | None:
    """The course that is installed with this engine, or None."""
    for entry in entry_points(group="whywrong.course"):
        package = entry.module.partition(".")[0]
        folder = package_folder(package)
        told = tomllib.loads((folder / "course.toml").read_text(encoding="utf-8"))
        exercises = (folder / told["exercises"]).resolve()
        places = folder / "translations", folder / told.get("translations", "translations")
        there = next((place for place in places if place.is_dir()), places[0]).resolve()
        course = Course(exercises, package, tuple(told["kept_out"]), tuple(told["loaded"]), there)
        libraries.update({str(course.exercises), str(package_folder(course.package))})
        return course
    return None


def package_folder(name: str) -> Path:
    """The path of a package, found without loading it.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is not installed", name=name)
    return Path(next(iter(found.submodule_search_locations))).resolve()


# ---------------------------------------------------------------- the reader's language

MARKER = ".course-language"  # next to an edition's notebooks; contains the folder's name
PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w))?\}")
SENTENCES = "_s"
STANDS_FOR = {
    "g": r"-?\d+(?:\.\d+)?",
    "w": r"\S+",
    "v": r"[-\d(\['\"].*?|True|False|\.\.\.",
    "s": ".+",
    "e": ".+",
    None: r"(?:(?!\. [A-Z]).)+?",  # not beyond the end of a sentence
}
BOUNDARY = re.compile(r"(?<=[.:?!]) (?=\S)")
_spoken: ContextVar[str | None] = ContextVar("spoken", default=None)


def language() -> str:
    """Returns the language's folder, from COURSE_LANGUAGE or the marker file; "" is English."""
    spoken = _spoken.get()
    if spoken is None:
        spoken = os.environ.get("COURSE_LANGUAGE") or _of_the_folder()
    return spoken if spoken and re.fullmatch(r"[\w-]+", spoken) else ""


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Shows everything in this language inside the `with` block; "" is English."""
    token = _spoken.set(name)
    try:
        yield
    finally:
        _spoken.reset(token)


def _of_the_folder() -> str:
    try:
        return _marked(os.getcwd())
    except OSError:  # it was removed
        return ""


@lru_cache(maxsize=64)
def _marked(here: str) -> str:
    for folder in (Path(here), *Path(here).parents):
        try:
            return (folder / MARKER).read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return ""


def localised(text: str) -> str:
    """Translates an English text, line by line or by sentence; what isn't known stays unchanged."""
    name = language()
    if not name or not text.strip():
        return text
    known = strings(name)
    return "\n".join(localised_line(line, known) for line in text.split("\n")) if known else text


class Strings:
    """The sentences of a language: those without placeholders, and patterns for the others."""

    def __init__(self, sentences: dict[str, str]) -> None:
        self.exact = {english: own for english, own in sentences.items() if own}
        templates = [english for english in self.exact if PLACEHOLDER.search(english)]
        templates.sort(key=lambda english: -len(PLACEHOLDER.sub("", english)))
        self.patterns = [(_begin(e), _pattern(e), self.exact[e]) for e in templates]

    def __bool__(self) -> bool:
        return bool(self.exact)

    @lru_cache(maxsize=4096)  # noqa: B019 - one object per language, and it stays
    def find(self, text: str) -> str | None:
        if text in self.exact:
            return self.exact[text]
        for begin, pattern, own in self.patterns:
            if text.startswith(begin) and (found := pattern.fullmatch(text)):
                parts = found.groupdict().items()
                values = {n: v for n, part in parts if (v := self._value(part, n)) is not None}
                if len(values) == len(parts):
                    return PLACEHOLDER.sub(partial(_put, values), own)
        return None

    def _value(self, value: str, name: str) -> str | None:
        """Returns what a placeholder stands for; None if a translation is needed and missing."""
        if name.endswith(SENTENCES):
            return _sentences(value, self)
        return localised_line(value, self) if " " in value else value


def _put(values: dict[str, str], placeholder: re.Match[str]) -> str:
    name = f"_{placeholder[1]}"
    return values[name] if name in values else values[f"{name}{SENTENCES}"]


@cache
def strings(name: str) -> Strings:
    """Returns the installed course's sentences in a language; empty if it has none."""
    course = installed()
    return Strings(sentences_of(course.translations / name) if course else {})


def sentences_of(folder: Path) -> dict[str, str]:
    """Returns a language's sentences; those whose English has changed are left out."""
    sentences: dict[str, str] = {}
    for file in sorted((folder / "strings").glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        sentences |= {english: own for english, own in found.items() if isinstance(own, str)}
    return sentences


def localised_line(text: str, known: Strings) -> str:
    """Translates a line as a whole, else all its sentences, or none if one of them is missing."""
    if text in known.exact:
        return known.exact[text]
    body = text.strip(" ")
    left = text[: len(text) - len(text.lstrip(" "))]
    found = _sentences(body, known) if body else None
    return text if found is None else left + found


def _sentences(text: str, known: Strings) -> str | None:
    whole = known.find(text)
    if whole is not None:
        return whole
    for boundary in BOUNDARY.finditer(text):
        first = known.find(text[: boundary.start()])
        if first is not None and (rest := _sentences(text[boundary.end() :], known)) is not None:
            wide = any(map(is_wide, first[-1:] + rest[:1]))  # no blank between such sentences
            return f"{first}{'' if wide else ' '}{rest}"
    return None


def is_wide(character: str) -> bool:
    """Returns whether a character takes two columns."""
    return unicodedata.east_asian_width(character) in "WF"


def columns(text: str) -> int:
    """Returns how many columns a text takes, in fonts in which wide characters take two."""
    return len(text) + sum(map(is_wide, text))


def filled(text: str, width: int) -> str:
    """Adds spaces after a text, so that it takes this many columns."""
    return text + " " * (width - columns(text))


def _begin(english: str) -> str:
    return PLACEHOLDER.split(english)[0]


def _pattern(english: str) -> re.Pattern[str]:
    pieces = PLACEHOLDER.split(english)
    found = re.escape(pieces[0])
    seen: set[str] = set()
    # A group's name can't begin with a digit; its ending says whether it must be sentences.
    for name, kind, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        name = f"_{name}" + SENTENCES * (kind == "s")
        found += f"(?P={name})" if name in seen else f"(?P<{name}>{STANDS_FOR[kind]})"
        found += re.escape(text)
        seen.add(name)
    return re.compile(found)
