"""Exercises as texts: the task, the right answer, and the wrong lines that people write.

    ---
    call: mean(x)
    points: 1
    ---

    # Right answer

        def mean(x):
            return x.sum(-1) / x.shape[-1]

    # Misconceptions

    ## over_tokens
    The mean runs over the tokens.
    Why: A token should not depend on its neighbours.
    Look: Which dimension holds the channels?

        x.sum(-1) => x.sum(-2)

    # Hints

    - A first nudge.

`old => new` replaces part of one line. Lines that begin with `- ` are replaced by the following
lines that begin with `+ `. A block that begins with `def`, `class` or `@` is a complete answer.
Further blocks under one heading are the same idea written differently; between two blocks is `Or:`,
or the sentences that differ. `As in: attention` takes the sentences from the section of the same
name in `shared/attention.md`; the text may replace some of them. With `graded: no` in the header,
the exercise can be checked, but no total contains its points. `Formerly: name` below a question
keeps the key that older notebooks have.
The Python file of the same name defines how an answer is judged: see `exercise_from`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from ._exercise import Edit, Entry, Exercise, Misconception, Names, Program, Rules, place
from ._quizzes import quiz

FIELDS = {
    "call", "points", "after", "finished", "as_found", "uses", "same_as",
    "forbidden_text", "returns", "about", "graded",
}  # fmt: skip
USUAL_NAMES = """\
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
"""
LABELS = {"Why": "why", "Look": "look", "As in": "as_in", "Breaks": "breaks"}
LABELS |= {"Answer": "answer", "Ask": "ask", "Choices": "choices", "Example": "answer"}
LABELS |= {"Formerly": "formerly"}
LABEL = re.compile(rf"^({'|'.join(LABELS)}):\s*", re.M)


class TextError(ValueError):
    """A text is not in the form of an exercise; the message says where and what is expected."""


@dataclass(frozen=True)
class Section:
    """A heading and the lines below it, with the number of the first line."""

    title: str
    lines: tuple[str, ...]
    first: int

    @property
    def code(self) -> str:
        return textwrap.dedent("\n".join(self.lines)).strip("\n") + "\n" if self.lines else ""

    def sections(self, mark: str) -> Iterator[Section]:
        """The sections below headings of this level, such as `## `."""
        begins = [i for i, line in enumerate(self.lines) if line.startswith(mark)]
        for begin, end in zip(begins, [*begins[1:], len(self.lines)], strict=False):
            title = self.lines[begin].removeprefix(mark).strip()
            yield Section(title, self.lines[begin + 1 : end], self.first + begin + 1)

    def blocks(self) -> Iterator[tuple[str, str, int]]:
        """Prose and the indented code after it, with the line number of the code."""
        prose: list[str] = []
        code: list[str] = []
        begun = self.first
        for number, line in enumerate((*self.lines, ""), self.first):
            if line.startswith("    ") or (code and not line.strip()):
                if not code:
                    begun = number
                code.append(line)
                continue
            if code:
                yield "\n".join(prose), textwrap.dedent("\n".join(code)).strip("\n"), begun
                prose, code = [], []
            prose.append(line)
        if code or any(line.strip() for line in prose):
            yield "\n".join(prose), textwrap.dedent("\n".join(code)).strip("\n"), begun


def labelled(prose: str) -> dict[str, str]:
    """The sentences of a piece of prose: first those without a label, then the labelled ones."""
    parts = LABEL.split(prose)
    names = ["what", *(LABELS[label] for label in parts[1::2])]
    said = {name: " ".join(text.split()) for name, text in zip(names, parts[::2], strict=True)}
    return {name: text for name, text in said.items() if text and text != "Or:"}


class Text:
    """The text of one exercise.

    Raises:
        TextError: it can't be read; the message names the file and the line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.head, body = self._read_head()
        whole = Section("", tuple(self.lines[body:]), body + 1)
        self.parts = {section.title: section for section in whole.sections("# ")}

    def _read_head(self) -> tuple[dict[str, str], int]:
        if self.lines[:1] != ["---"] or "---" not in self.lines[1:]:
            self.refuse(1, "it should begin with a head between two lines `---`")
        end = self.lines.index("---", 1)
        head: dict[str, str] = {}
        for number, line in enumerate(self.lines[1:end], 2):
            name, colon, value = line.partition(":")
            if line.startswith(" ") and head:  # a long value continues
                head[next(reversed(head))] += f" {line.strip()}"
            elif not colon or name not in FIELDS:
                self.refuse(number, f"{line!r} is none of: {', '.join(sorted(FIELDS))}")
            else:
                head[name] = value.strip()
        try:
            float(head["points"])
        except (KeyError, ValueError):
            self.refuse(1, "`points:` should be a number")
        if head.get("graded", "no") != "no":
            self.refuse(1, "`graded:` should be `no`, or left out")
        return head, end + 1

    def line_of(self, field: str) -> int:
        """The number of the line in the head that gives this field."""
        return 1 + next(i for i, line in enumerate(self.lines) if line.startswith(f"{field}:"))

    def refuse(self, line: int, why: str) -> NoReturn:
        raise TextError(f"{self.path.parent.name}/{self.path.name}, line {line}: {why}.")

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def points(self) -> float:
        return float(self.head["points"])

    @property
    def graded(self) -> bool:
        return self.head.get("graded", "yes") != "no"

    def words(self, field: str) -> tuple[str, ...]:
        return tuple(self.head.get(field, "").split())

    @cached_property
    def names(self) -> Names:
        given = self.parts.get("Given")
        return Names(USUAL_NAMES + (given.code if given else ""))

    @cached_property
    def right(self) -> Program:
        if "Right answer" not in self.parts:
            self.refuse(1, "there is no section `# Right answer`")
        return Program(self.parts["Right answer"].code, self.names)

    @property
    def hints(self) -> tuple[str, ...]:
        lines = self.parts["Hints"].lines if "Hints" in self.parts else ()
        items = re.split(r"^- ", "\n".join(lines), flags=re.M)[1:]
        return tuple(" ".join(item.split()) for item in items)

    @property
    def other_way(self) -> str:
        part = self.parts.get("Another way")
        return part.code.rstrip("\n") if part else ""

    @cached_property
    def misconceptions(self) -> tuple[Misconception, ...]:
        part = self.parts.get("Misconceptions")
        sections = part.sections("## ") if part else ()
        return tuple(m for section in sections for m in self._misconceptions(section))

    def _misconceptions(self, section: Section) -> Iterator[Misconception]:
        said: dict[str, str] = {}
        for number, text in enumerate(section.lines, section.first):
            if " => " in text and not text.startswith("    "):
                self.refuse(number, "an edit is indented by four spaces")
        for prose, code, line in section.blocks():
            new = labelled(prose)
            if "as_in" in new:
                said = {**self._shared(section, new["as_in"]), **new}
            said |= new
            if missing := {"what", "why", "look"} - said.keys():
                self.refuse(
                    section.first - 1, f"{section.title} lacks {', '.join(sorted(missing))}"
                )
            if not code:
                self.refuse(section.first - 1, f"{section.title} has no code")
            yield self._misconception(section.title, said, code, line)

    def _misconception(
        self, id: str, said: Mapping[str, str], code: str, line: int
    ) -> Misconception:
        advice = said["what"], said["why"], said["look"]
        if self.is_quiz:
            entries = {name: self._value(value, line) for name, value in self._replaced(code, line)}
            return Misconception(id, *advice, entries=entries, breaks=said.get("breaks", ""))
        if re.match(r"(def|class|@)", code):
            return Misconception(id, *advice, program=Program(f"{code}\n", self.names))
        edits = tuple(self._replaced(code, line))
        for old, _ in edits:
            try:
                place(self.right.source, old)
            except ValueError as error:
                self.refuse(line, f"{id}: {error}")
        return Misconception(id, *advice, program=self.right.edited(*edits))

    def _shared(self, section: Section, name: str) -> dict[str, str]:
        place = self.path.parents[2] / "shared" / f"{name}.md"
        found = shared_sentences(place).get(section.title) if place.is_file() else None
        if found is None:
            self.refuse(section.first, f"shared/{name}.md has no section {section.title}")
        return dict(found)

    def _replaced(self, code: str, line: int) -> Iterator[Edit]:
        old: list[str] = []
        new: list[str] = []
        for number, text in enumerate(code.splitlines(), line):
            if old and (not text.startswith(("- ", "+ ")) or (new and text.startswith("- "))):
                yield "\n".join(old), "\n".join(new)
                old, new = [], []
            if text.startswith("- "):
                old.append(text[2:])
            elif text.startswith("+ ") and old:
                new.append(text[2:])
            elif " =>" in text:
                before, _, after = text.partition(" =>")
                yield before, after.removeprefix(" ")
            elif text.strip():
                self.refuse(number, f"{text!r} is not an edit: expected `old => new` or `- `, `+ `")
        if old:
            yield "\n".join(old), "\n".join(new)

    # ------------------------------------------------------------ quizzes

    @property
    def is_quiz(self) -> bool:
        return "Questions" in self.parts or self.is_account

    @property
    def is_account(self) -> bool:
        return "Entries" in self.parts

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        part = self.parts["Entries" if self.is_account else "Questions"]
        return tuple(self._entry(section) for section in part.sections("## "))

    def _entry(self, section: Section) -> Entry:
        said = labelled("\n".join(section.lines))
        if "answer" not in said or "what" not in said:
            self.refuse(section.first - 1, f"{section.title} needs an answer and a sentence")
        answer = self._value(said["answer"], section.first)
        sentence = said["what"]
        optional = sentence.startswith("(optional) ")
        sentence = sentence.removeprefix("(optional) ")
        handed = sentence.startswith("(object) ")
        sentence = sentence.removeprefix("(object) ")
        if self.is_account:
            return Entry(section.title, answer, "", sentence, optional=optional, handed=handed)
        choices = tuple(c.strip() for c in said.get("choices", "").split("|") if c.strip())
        ordered = sentence.startswith("(in order) ")
        sentence = sentence.removeprefix("(in order) ")
        asked, formerly = said.get("ask", ""), said.get("formerly", "")
        return Entry(section.title, answer, sentence, asked, choices, ordered, formerly=formerly)

    def _value(self, source: str, line: int) -> Any:
        try:
            return ast.literal_eval(source)
        except (ValueError, SyntaxError):
            self.refuse(line, f"{source!r} should be a number, a tuple, a list or a text in quotes")


@lru_cache(maxsize=100)
def shared_sentences(path: Path) -> dict[str, dict[str, str]]:
    """What, why and look by id, from a text whose sections several exercises share."""
    whole = Section("", tuple(path.read_text(encoding="utf-8").splitlines()), 1)
    return {s.title: labelled("\n".join(s.lines)) for s in whole.sections("## ")}


# ---------------------------------------------------------------- with its Python file


def exercise_from(text: Text, package: str) -> Exercise:
    """Builds the exercise that a text and the Python file next to it define.

    The Python file defines `cases(seed)`, `probe` and `expect(case)`; it may define `properties`, a
    tuple; `signs`, functions by misconception id; `notes`, a function; `forbidden`, operator names;
    `tolerance`; and in an account `fits`, functions by misconception id, `measure` and `made` (see
    `quiz`). A quiz needs no such file.

    Args:
        package: the name of the catalogue, a prefix of its modules' names.
    """
    lesson = "/".join(text.path.parts[-3:-1])
    module = _module(text, f"{package}.{lesson.replace('/', '.')}.{text.id}")
    if text.is_quiz:
        return _quiz(text, lesson, module)
    if module is None:
        text.refuse(1, f"there is no {text.id}.py next to it")
    for name in ("cases", "probe", "expect"):
        if not hasattr(module, name):
            text.refuse(1, f"{text.id}.py does not define `{name}`")
    known = ("properties", "signs", "notes", "tolerance")
    extra = {name: getattr(module, name) for name in known if hasattr(module, name)}
    definitions = re.findall(r"^(class|def)\b", text.right.source, re.M)
    if not definitions:
        text.refuse(1, "its right answer defines neither a function nor a class")
    return Exercise(
        id=text.id,
        lesson=lesson,
        call=text.head.get("call", text.id),
        points=text.points,
        cases=module.cases,
        probe=module.probe,
        expect=module.expect,
        reference=text.right.answer,
        finished=_finished(text, "finished"),
        right=text.right,
        kind="class" if definitions[-1] == "class" else "function",
        misconceptions=text.misconceptions,
        hints=text.hints,
        other_way=text.other_way,
        rules=_rules(text, module),
        returns=text.head.get("returns", "Tensor"),
        **extra,
    )


def _rules(text: Text, module: ModuleType) -> Rules:
    return Rules(
        uses=text.words("uses"),
        same_as=tuple(_found(text, "same_as", w) if "." in w else w for w in text.words("same_as")),
        forbidden=getattr(module, "forbidden", ()),
        forbidden_text=text.head.get("forbidden_text", ""),
        as_found=_finished(text, "as_found"),
    )


def _quiz(text: Text, lesson: str, module: ModuleType | None) -> Exercise:
    if text.is_account and module is None:
        text.refuse(1, f"there is no {text.id}.py next to it, with the relations of its entries")
    known = ("fits", "notes", "measure", "made")
    more = {name: getattr(module, name) for name in known if hasattr(module, name)}
    return quiz(
        text.id,
        lesson=lesson,
        points=text.points,
        about=text.head.get("about", ""),
        entries=text.entries,
        misconceptions=text.misconceptions,
        hints=text.hints,
        relations=getattr(module, "properties", ()),
        **more,
    )


def _module(text: Text, name: str) -> ModuleType | None:
    path = text.path.with_suffix(".py")
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        said = f"{type(error).__name__}: {error}"
        raise TextError(f"{path.parent.name}/{path.name} can't be run: {said}") from error
    return module


def _finished(text: Text, field: str) -> Any:
    return _found(text, field, text.head[field]) if field in text.head else None


def _found(text: Text, field: str, path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, ValueError):
        text.refuse(text.line_of(field), f"`{field}` names {path}, which does not exist")
