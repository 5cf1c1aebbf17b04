"""Repairs the code of a submission before it is restored: what tools and editors did to it.

It only parses, and changes nothing that compiles. It runs in the process that reads submissions."""

from __future__ import annotations

import ast
import html
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from textwrap import dedent

from .other_forms import fenced
from .readable import shortened
from .reading import SIDES

MOST_PARSED = 20_000  # characters of a cell
SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
NOTHING = re.compile("[\0\u200b-\u200d\u2060\ufeff\u00ad]")
QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u201e\u2032\u2033", '\'\'"""\'"')
ENTITY = re.compile(r"&(gt|lt|amp|quot|#39);")
# IPython takes %% only at a cell's beginning, and % only before the name of a command.
MISPLACED = re.compile(r"(?<=\n)%%\w.*|^% +\w.*", re.M)
FULL_WIDTH = {0xFEE0 + code: code for code in range(0x21, 0x7F) if not chr(code).isalnum()}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign


def compiles(source: str) -> bool:
    """Returns whether Python accepts a text, without what only IPython accepts."""
    plain = re.sub(r"^(\s*)[%!].*", r"\1pass", source[:MOST_PARSED], flags=re.M)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(plain, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return len(source) <= MOST_PARSED


def mended(source: str) -> tuple[str, str]:
    """Returns a cell's code that compiles, and what was repaired; or the code as it is."""
    if len(source) > MOST_PARSED or not _is_wrong(source):
        return source, ""
    for what, repair in REPAIRS.items():
        if (alone := repair(source)) != source and not _is_wrong(alone):
            return alone, what
    new, said = source, list[str]()
    for what, repair in REPAIRS.items():
        if (better := repair(new)) != new:
            new, said = better, [*said, what]
            if not _is_wrong(new):
                return new, " and ".join(said)
    return source, ""


def _is_wrong(source: str) -> bool:
    if not compiles(source) or (MISPLACED.search(source) and not source.startswith("%%")):
        return True
    return "google.colab" in source or _names_an_entity(source)


def _names_an_entity(source: str) -> bool:
    """Whether `a &gt; b` is in code, which Python reads as `a & gt` and `b`."""
    if not ENTITY.search(source) or len(source) > MOST_PARSED:
        return False
    named = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return not named.isdisjoint(("gt", "lt", "amp", "quot"))


def _first_of_two(source: str) -> str:
    """A text that is there twice, such as after a lost connection, once."""
    half = source.strip()[: len(source.strip()) // 2]
    return half if half * 2 == source.strip() else source


def _of_one_side(source: str) -> str:
    """The side of a merge conflict that has an answer; the first one if both have."""
    first, second = (SIDES.sub(side, source) for side in (r"\1", r"\2"))
    return second if compiles(first) and _only_stubs(first) and compiles(second) else first


def _only_stubs(source: str) -> bool:
    own = [node for node in ast.parse(source).body if isinstance(node, Definition)]
    return all(map(_is_stub, own))


def _without_colab(source: str) -> str:
    """The code without the statements that use a module which exists only on Google's machines."""
    if "google.colab" not in source or not compiles(source):
        return source
    plain = re.sub(r"^([%!].*)", r"pass  # \1", source, flags=re.M)
    gone, names = list[ast.stmt](), {"google"}
    for node in ast.parse(plain).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            if "google.colab" in ast.unparse(node):
                names |= {one.asname or one.name.split(".")[0] for one in node.names}
                gone.append(node)
        elif names & {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}:
            gone.append(node)
    lines = source.split("\n")
    for node in gone:
        for number in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[number] = ""
    return "\n".join(lines)


def joined(first: str, second: str) -> str:
    """Returns two cells as one if a definition was split between them; otherwise nothing."""
    begins = re.match(r"\s*\n?([ \t]+)\S", second)
    if not begins or not re.search(r"^(?:async +def|def|class) ", first, re.M):
        return ""
    both = f"{first.rstrip()}\n{second}"
    return both if compiles(both) and not compiles(dedent(second)) else ""


def without_stub(source: str, exercise: str) -> str:
    """Returns a cell's code without the stub of an exercise that follows an answer to it."""
    if len(re.findall(rf"\b{exercise}\b", source)) < 2 or len(source) > MOST_PARSED:
        return source
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    own = [node for node in body if isinstance(node, Definition) and _name(node) == exercise]
    if len(own) < 2 or not _is_stub(own[-1]) or all(map(_is_stub, own)):
        return source
    lines = source.split("\n")
    del lines[own[-1].lineno - 1 : own[-1].end_lineno]
    return "\n".join(lines).rstrip()


def _name(node: Definition) -> str:
    if not isinstance(node, ast.Assign):
        return node.name
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _is_stub(node: ast.AST) -> bool:
    """Whether nothing of a definition is filled in."""
    if isinstance(node, ast.Assign):
        values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
        return all(isinstance(v, ast.Constant) and v.value is ... for v in values)
    if isinstance(node, ast.ClassDef):
        return all(map(_is_stub, node.body))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return all(map(_is_stub, node.body))
    text = ast.unparse(node)
    return (
        isinstance(node, ast.Pass)
        or text == "super().__init__()"
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )


def in_text(source: str) -> list[str]:
    """Returns the programs in a text cell: in fences, or the whole text if it is one."""
    source = html.unescape(source)
    found = fenced(source[:MOST_PARSED])
    whole = [source] if not found and compiles(source) else []
    return [part for part in found + whole if compiles(part)]


# What was wrong with a text, and how it is repaired; tried in this order, first each alone.
REPAIRS: dict[str, Callable[[str], str]] = {
    "invisible characters were removed": lambda t: NOTHING.sub("", SPACES.sub(" ", t)),
    "`&gt;` and the like were replaced": lambda t: ENTITY.sub(lambda e: html.unescape(e[0]), t),
    "typographic quotes were replaced": lambda t: t.translate(QUOTES),
    "full-width punctuation was replaced": lambda t: t.translate(FULL_WIDTH),
    "tabs were replaced": lambda t: t.expandtabs(4),
    "misplaced lines with % were left out": lambda t: MISPLACED.sub("", t),
    "lines for Colab were left out": _without_colab,
    "the text around the code was left out": lambda t: "\n\n".join(fenced(t)) or t,
    "a text that was there twice is there once": _first_of_two,
    "the marks of a merge conflict were left out": _of_one_side,
}


def joined_cells(cells: Sequence[dict[str, str]]) -> tuple[list[dict[str, str]], list[str]]:
    """Returns the cells of a notebook with repaired code, and what was repaired."""
    made: list[dict[str, str]] = []
    noticed, repaired = list[str](), defaultdict[str, list[str]](list)
    number = 0
    for cell in cells:
        if cell["kind"] != "code":
            made.append(cell)
            continue
        number += 1
        source, said = mended(cell["source"])
        if said:
            repaired[said].append(str(number))
        last = made[-1] if made and made[-1]["kind"] == "code" else None
        if last is not None and (both := joined(last["source"], source)):
            made[-1] = last | {"source": both, "name": last["name"] or cell["name"]}
            noticed.append(f"code cells {number - 1} and {number} are one answer that was split")
        else:
            made.append(cell | {"source": source})
    for said, numbers in repaired.items():
        plural = "s" if len(numbers) > 1 else ""
        noticed.append(f"{said} in code cell{plural} {', '.join(shortened(numbers))}")
    return made, noticed
