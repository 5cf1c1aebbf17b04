"""Programs as text: a right answer, and its variants with some lines changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

Edit = tuple[str, str]  # the lines to remove, and the lines that replace them


@dataclass(frozen=True, eq=False)
class Names:
    """The names that a program may use: defined by some lines of code, which run on first use."""

    source: str

    @cached_property
    def values(self) -> Mapping[str, Any]:
        space: dict[str, Any] = {"__name__": "answer"}
        exec(compile(self.source, "<given>", "exec"), space)
        return space


@dataclass(frozen=True, eq=False)
class Program:
    """Source code that defines an answer: its last function or class.

    Args:
        source: the code before `edits`.
        names: the names that it may use.
        edits: local changes, the old text of each found exactly once.
    """

    source: str
    names: Names
    edits: tuple[Edit, ...] = ()

    @cached_property
    def text(self) -> str:
        """The source with the edits applied.

        Raises:
            ValueError: the lines of an edit are not found, or found more than once.
        """
        text = self.source
        places = sorted(((*place(text, old), new) for old, new in self.edits), reverse=True)
        if any(end > begun for (begun, *_), (_, end, _) in pairwise(places)):
            raise ValueError("two edits change the same words: is `Or:` missing between them?")
        for start, end, new in places:  # from the end, so that positions stay valid
            indent = " " * (start - text.rfind("\n", 0, start) - 1)
            text = text[:start] + new.replace("\n", "\n" + indent) + text[end:]
        return text

    @cached_property
    def answer(self) -> Any:
        space = dict(self.names.values)
        known = set(space)
        exec(compile(self.text, "<answer>", "exec"), space)
        return [value for name, value in space.items() if name not in known][-1]

    def edited(self, *edits: Edit) -> Program:
        return Program(self.source, self.names, (*self.edits, *edits))

    def joined(self, other: Program) -> Program | None:
        """A program with the edits of both; None if they share a line or differ otherwise."""
        if self.source != other.source or not self.edits or not other.edits:
            return None
        if self._touched & other._touched:
            return None
        return Program(self.source, self.names, (*self.edits, *other.edits))

    @cached_property
    def _touched(self) -> set[int]:
        """The line numbers that the edits change."""
        places = [place(self.source, old) for old, _ in self.edits]
        return {
            line
            for start, end in places
            for line in range(
                self.source.count("\n", 0, start), self.source.count("\n", 0, end) + 1
            )
        }


def place(source: str, old: str) -> tuple[int, int]:
    """The position of these lines, at any indentation.

    Raises:
        ValueError: they are not found, or found more than once.
    """
    pattern = r"\n\s*".join(re.escape(line.strip()) for line in old.splitlines())
    found = [m.span() for m in re.finditer(pattern, source)]
    if len(found) != 1:
        raise ValueError(
            f"{old!r} should be found once in the right answer, not {len(found)} times"
        )
    return found[0]
