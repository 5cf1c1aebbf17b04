"""Words that no lesson needs but a cheater might: a reason to look, but no proof.

A submission's process contains the finished parts, because lessons use them. An answer that calls
one by name is refused; one that works around this leaves such a word behind.

    python -m whywrong_nbgrader.oddities < CELLS.json

parses cells in a process that ends where one takes too much time or memory; see `understood`.
"""

from __future__ import annotations

import ast
import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
MODULES, OF_THE_ENGINE, NAMES, ATTRIBUTES = map(set, WORDS.values())
MOST_READ = 20_000  # characters of a cell
PACKAGES = ("whywrong", "course_utils", "/course")  # as text: imports need no quotation marks
DYNAMIC = {"delattr", "getattr", "setattr"}
COMMAND = re.compile(
    r"^\s*(?:!|%%?(?:bash|sh|script|system|sx|run|load_ext|writefile|python\w*)\b)"
)
LIMITS, AT_ONCE = ("2", str(2**30)), 500  # seconds of a cell, bytes and cells of a process


def understood(cells: Iterable[tuple[str, str]]) -> tuple[dict[str, list[str]], set[str]]:
    """Each cell's `normal` text and its odd words, and the students whose cells can't be parsed;
    `cells` are pairs of a student and a source."""
    whose: dict[str, str] = {}
    for student, source in cells:
        whose.setdefault(source[:MOST_READ], student)
    left = [*whose.items()]
    found: dict[str, list[str]] = {}
    stuck: set[str] = set()
    while left:
        now = [source for source, _ in left[:AT_ONCE]]
        program = [sys.executable, "-P", "-m", __spec__.name, *LIMITS]
        done = subprocess.run(program, input=json.dumps(now), capture_output=True, text=True)
        lines = done.stdout.split("\n")[:-1]
        found |= zip(now, map(json.loads, lines), strict=False)
        if len(lines) < len(now):
            stuck.add(left[len(lines)][1])
        left = [(s, student) for s, student in left[len(lines) :] if student not in stuck]
    return found, stuck


def normal(source: str) -> str:
    """Code without comments, docstrings and layout; unchanged if it can't be parsed."""
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            body: Any = getattr(node, "body", None)
            first = body[0] if isinstance(body, list) and len(body) > 1 else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del body[0]  # a docstring
        return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError):
        return re.sub(r"\s+", " ", source)


def odd_words(source: str) -> frozenset[str]:
    """The suspicious words of a cell."""
    lines = source.splitlines()
    found = frozenset("a system command" for line in lines if COMMAND.match(line))
    python = "\n".join("" if re.match(r"\s*[!%]", line) else line for line in lines)
    try:
        tree = ast.parse(python)
    except (SyntaxError, ValueError, RecursionError):
        return found | (
            set(re.findall(r"\w+", source)) & (MODULES | NAMES | ATTRIBUTES - {"ops", "_C"})
        )
    return found | {word for node in ast.walk(tree) for word in _odd(node)}


def _odd(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for name in node.names:
            yield from _odd_module(name.name)
    elif isinstance(node, ast.ImportFrom):
        yield from _odd_module(node.module or "")
        for name in node.names:
            yield from _odd_module(f"{node.module}.{name.name}")
            yield from {name.name} & ATTRIBUTES
            if node.module == "sys" and name.name in ("modules", "path"):
                yield f"sys.{name.name}"
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield node.id
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in DYNAMIC:
        if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
            yield "getattr with a name that is computed"
    elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        yield node.attr
    elif isinstance(node, ast.Attribute) and node.attr in ("modules", "path"):
        if isinstance(node.value, ast.Name) and node.value.id == "sys":  # models have `modules` too
            yield f"sys.{node.attr}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from {node.value} & ATTRIBUTES
        yield from (f'"{name}"' for name in PACKAGES if name in node.value)


def _odd_module(name: str) -> Iterator[str]:
    parts = name.split(".")
    if parts[0] in MODULES:
        yield parts[0]
    if parts[0] in OF_THE_ENGINE or parts[1:2] == ["desk"]:
        yield ".".join(parts[:2])


if __name__ == "__main__":
    seconds, most = float(sys.argv[1]), int(sys.argv[2])
    with suppress(ValueError):  # macOS refuses limits below what it has reserved
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for cell in json.load(sys.stdin):
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends this process
        print(json.dumps([normal(cell), *sorted(odd_words(cell))]), flush=True)
