"""Which cells of a notebook decide its points: the other demonstrations needn't run.

A demonstration is a cell of the lesson that is unchanged and not graded. It runs if a cell that
runs mentions a name that it binds, or whose value it may change. Every other cell runs, and all
cells run if a student's code may look up names that it doesn't mention.

Only the state of PyTorch's random numbers may differ from a run of all cells.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from .cells import Cell
from .helper import TooMuch, helper

WORD = re.compile(r"(?<!\.)\b[^\W\d]\w*")  # not after a dot, but in strings: they may be code
COMMAND = re.compile(r"^([ \t]*)[%!?].*$", re.M)  # of IPython
LOOKUPS = {"dir", "eval", "exec", "gc", "get_ipython", "globals", "importlib", "inspect", "locals"}
LOOKUPS |= {"sys", "vars", "__dict__", "__main__"}
RANDOM = "manual_seed"


class Names(NamedTuple):
    """What a cell does with the names of its notebook."""

    mentions: Sequence[str]
    binds: Sequence[str] = ()
    constant: Sequence[str] = ()  # those that it binds only by `import`, `def` or `class`


def needed(cells: Sequence[Cell]) -> list[bool]:
    """Returns for each cell whether it has to run."""
    lesson = [cell.source for cell in cells if cell.demonstration]
    own = [cell.source for cell in cells if not cell.demonstration and not cell.checks]
    if any(LOOKUPS & {*WORD.findall(source)} for source in own):
        return [True] * len(cells)
    found = {source: _of_a_lesson(source) for source in lesson}
    try:
        found |= zip(own, (Names(*n) for n in helper().ask("names", own)), strict=True)
    except TooMuch:
        found |= {source: Names(WORD.findall(source)) for source in own}
    of = [Names([cell.checks]) if cell.checks else found[cell.source] for cell in cells]
    effects = _with_effects(lesson)
    runs = [not cell.demonstration or cell.source in effects for cell in cells]

    changed = _changed(cells, of)
    seen, done = set[int](), set[str]()
    for place in reversed(range(len(cells))):
        # What a function mentions is needed not only where it is defined, but wherever it may be
        # called: above this place.
        left = [place] if runs[place] else []
        while left:
            number = left.pop()
            if number not in seen:
                seen.add(number)
                runs[number] = True
                for name in {*of[number].mentions} - done:
                    done.add(name)
                    left += [n for n in changed[name] if n < place]
    return runs


def _changed(cells: Sequence[Cell], of: Sequence[Names]) -> Mapping[str, Sequence[int]]:
    """Returns by name the cells that may change what it stands for."""
    # Calling or passing a function, a class or a module doesn't change it.
    constant = {*dir(builtins), *(cell.checks for cell in cells)}
    constant |= {name for one in of for name in one.constant}
    constant -= {name for one in of for name in {*one.binds} - {*one.constant}}
    changed = defaultdict[str, list[int]](list)
    for number, one in enumerate(of):
        for name in {*one.binds} | ({*one.mentions} - constant):
            changed[name].append(number)
    return changed


def names(sources: Sequence[str]) -> list[Names]:
    """Returns what cells do with names; for students' cells, this runs in the helper."""
    return list(map(_names, sources))


def _names(source: str) -> Names:
    plain = COMMAND.sub(r"\1pass", source)
    try:
        top, *inner = _scopes(symtable.symtable(plain, "a cell", "exec"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Names(WORD.findall(source))
    symbols = top.get_symbols()
    shared = [s for scope in inner for s in scope.get_symbols() if s.is_global()]
    words = [word for line in COMMAND.finditer(source) for word in WORD.findall(line[0])]
    mentions = {*words, *(s.get_name() for s in [*symbols, *shared])}
    bound = [s for s in symbols if s.is_assigned() or s.is_imported()]
    binds = {s.get_name() for s in [*bound, *(s for s in shared if s.is_declared_global())]}
    once = {s.get_name() for s in bound if s.is_imported() or s.is_namespace()}
    stored = {n.id for n in ast.walk(ast.parse(plain)) if isinstance(n, ast.Name) and _stores(n)}
    return Names([*mentions], [*binds], [*once - stored])


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    left = [table]
    while left:
        one = left.pop()
        yield one
        left += one.get_children()


def _stores(node: ast.Name | ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


@lru_cache(maxsize=1000)
def _of_a_lesson(source: str) -> Names:
    return _names(source)


def _with_effects(sources: Sequence[str]) -> set[str]:
    """Returns the demonstrations that may do more than their names say, such as those that call a
    library's function as a statement of its own, which may be a setting."""
    from whywrong.hosting import installed  # the helper has no memory for PyTorch

    course, trees = installed(), {source: _parsed(source) for source in sources}
    packages = {name: home for tree in trees.values() for name, home in _imported(tree)}
    return {
        source
        for source, tree in trees.items()
        if not tree.body
        or LOOKUPS & {*_of_a_lesson(source).mentions}
        or {packages.get(name) for name in _acted_on(tree)} - {None, course and course.package}
    }


@lru_cache(maxsize=1000)
def _parsed(source: str) -> ast.Module:
    """Returns a cell as a tree, which is empty if it isn't Python alone."""
    with suppress(SyntaxError):
        return ast.parse(source)
    return ast.Module([], [])


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yields the names that a cell imports, with their packages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in node.names:
                home = getattr(node, "module", None) or name.name
                yield name.asname or name.name.split(".")[0], home.split(".")[0]


def _acted_on(tree: ast.Module) -> Iterator[str]:
    """Yields the first names of calls that are statements, and of attributes that are set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if getattr(node.value.func, "attr", "") != RANDOM:
                yield _first(node.value)
        elif isinstance(node, ast.Attribute) and _stores(node):
            yield _first(node)


def _first(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
