"""Notebook cells that failed: a check then says that it is about the previous version."""

from __future__ import annotations

import re
from typing import Any

_WRITES = re.compile(r"^(?:(?:async\s+)?def\s+|class\s+)(\w+)|^(\w+)\s*(?::[^=\n]+)?=(?!=)", re.M)
_before: dict[str, Any] = {}
_failed: dict[str, str] = {}
_watched: set[int] = set()  # shells, by id


def watch() -> None:
    """Follows the runs of this notebook's cells from now on; does nothing outside a notebook."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None and id(shell) not in _watched:
        _watched.add(id(shell))
        shell.events.register("pre_run_cell", lambda info: _begin(shell, info.raw_cell))
        shell.events.register("post_run_cell", lambda result: _end(shell, result))


def last(name: str) -> str:
    """How the last run of the cell that writes `name` failed ("SyntaxError in line 3"), or ""."""
    return _failed.get(name, "")


def names_written(source: str) -> set[str]:
    """The functions, classes and variables that a cell defines, even if it can't be parsed."""
    return {a or b for a, b in _WRITES.findall(source or "")}


def _begin(shell: Any, source: str) -> None:
    _before.clear()
    _before.update({name: shell.user_ns.get(name) for name in names_written(source)})


def _end(shell: Any, result: Any) -> None:
    error = result.error_before_exec or result.error_in_exec
    source = result.info.raw_cell if result.info else ""
    for name in names_written(source):
        written = name in shell.user_ns and shell.user_ns[name] is not _before.get(name)
        if error is None or written:
            _failed.pop(name, None)
        else:
            _failed[name] = _described(error)


def _described(error: BaseException) -> str:
    line = getattr(error, "lineno", None)
    return type(error).__name__ + (f" in line {line}" if line else "")
