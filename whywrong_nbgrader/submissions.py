"""Reads submissions as untrusted data: restores them, or replaces unreadable ones."""

from __future__ import annotations

import json
import os
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from .readable import in_a_line
from .restoring import Released, released

MOST_BYTES = 20 * 2**20  # of a notebook
MOST_CELLS = 1000
MOST_BESIDE = 100 * 2**20  # of another file


class Unreadable(Exception):
    """The submission is not a notebook; the message says what it is."""


def read(path: Path) -> NotebookNode:
    """A notebook from an untrusted file; raises `Unreadable` if it is none."""
    try:
        found = os.lstat(path)
    except OSError:
        raise Unreadable("it is missing") from None
    if stat.S_ISLNK(found.st_mode):
        raise Unreadable("it is a link to another file")
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is not a file")
    if found.st_size > MOST_BYTES:
        raise Unreadable(f"it has {found.st_size / 2**20:,.0f} MiB; delete its outputs")
    if not found.st_size:
        raise Unreadable("the file is empty")
    try:
        with warnings.catch_warnings(action="ignore"):  # of equal ids, once per cell
            text = path.read_text(encoding="utf-8-sig")
            notebook: NotebookNode = nbformat.reads(text, as_version=4)
            nbformat.validate(notebook, relax_add_props=True)
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8 text") from None
    except (json.JSONDecodeError, nbformat.reader.NotJSONError):
        raise Unreadable("it is not JSON, the format of notebooks") from None
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except Exception as error:
        raise Unreadable(f"it is not a notebook ({type(error).__name__})") from None
    if len(notebook.cells) > MOST_CELLS:
        raise Unreadable(f"it has {len(notebook.cells):,} cells")
    return notebook


def stand_in(cells: Mapping[str, Released], why: str) -> NotebookNode:
    """Graded instead of an unreadable notebook: the released cells, unsolved."""
    said = f"**This is not the submission.** It can't be read: {why}."
    return new_notebook(cells=[new_markdown_cell(said), *(cell.new() for cell in cells.values())])


def strange_in(folder: Path) -> list[str]:
    """Everything in a submission that is not a file or folder of normal size, in words."""
    found = []
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(at) / name
            if said := _strange(path):
                found.append(f"{in_a_line(str(path.relative_to(folder)))} {said}")
    return found


def _strange(path: Path | str) -> str:
    kind = os.lstat(path)
    if stat.S_ISDIR(kind.st_mode):
        return ""
    if not stat.S_ISREG(kind.st_mode):
        return "is a link or not a file, and is ignored"
    large = kind.st_size > MOST_BESIDE
    return f"has {kind.st_size / 2**20:,.0f} MiB, and is ignored" if large else ""


def leave_out_what_is_strange() -> None:
    """From now on, nbgrader copies only files of normal size that are next to a notebook: a link
    may lead to anyone's file, or to one that never ends."""
    from nbgrader.converters import base

    found = base.find_all_files

    def files_alone(path: str, exclude: list[str] | None = None) -> list[str]:
        return [name for name in found(path, exclude) if not _strange(name)]

    base.find_all_files = files_alone


class CarefulExporter(NotebookExporter):
    """nbgrader's interface for reading and writing notebooks, for untrusted files."""

    def from_filename(self, filename: str, resources: Any = None, **_: Any) -> tuple[Any, Any]:
        ids, folder = resources["nbgrader"], os.path.dirname(filename)
        resources["metadata"] = {"name": resources["unique_key"], "path": folder}
        try:
            notebook = read(Path(filename))
        except Unreadable as error:
            resources["unreadable"] = str(error)
            self.log.warning("%s can't be read: %s", filename, error)
            cells = released(ids["db_url"], ids["assignment"], ids["notebook"])
            notebook = stand_in(cells, str(error))
        output, resources = self.from_notebook_node(notebook, resources=resources)
        return output, resources
