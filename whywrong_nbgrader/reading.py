"""Reads a notebook file in whatever form editors, converters, sync tools and habits leave it.

Only what grading needs is read: each cell's kind, text and name. The rest may be missing, damaged
or large. Students run this too (`course look`), so it imports the standard library alone.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .other_forms import out_of_a_mail, sources

MOST_BYTES = 100 * 2**20  # size of a notebook with its outputs
MOST_CELLS, MOST_TEXT = 1000, 3_000_000  # characters in all cells
KINDS = {"code": "code", "raw": "raw", "rawnbconvert": "raw", "": ""}  # all others are text
# How files begin that are sometimes saved under a notebook's name.
OTHERS = {
    rb"version https://git-lfs": "it is a pointer of Git LFS, not the file (`git lfs pull`)",
    rb"\s*(<!doctype html|<html|<head|<\?xml)": "it is a web page, not a notebook: download it raw",
    rb"PK\x03\x04|\x1f\x8b|7z\xbc\xaf|Rar!": "it is an archive, not a notebook: unpack it",
    rb"%PDF": "it is a PDF, not a notebook",
    rb"bplist00": "it is a file of Apple's that stands for the notebook: hand in the .ipynb itself",
    rb"\0+\Z": "it contains only zeros, as after a full disk or a power failure",
    rb"\s*(#|import |from |def |class |@|\"\"\"|---|%%)": "it is a program, not a notebook",
}
MOST_MEMBERS = 500  # files in an archive
# What notebooks are exported as, and answers copied into.
WRITTEN = (".py", ".html", ".htm", ".md", ".qmd", ".rmd", ".rst", ".tex", ".txt")
MOST_INSIDE = 50  # cells that are searched for a notebook in a cell
CONFLICT = re.compile(r"^(<<<<<<<|=======|>>>>>>>)", re.M)
SIDES = re.compile(
    r"^<{7}.*\n((?:(?!={7}|\|{7}).*\n)*)(?:\|{7}.*\n(?:(?!={7}).*\n)*)?={7}.*\n((?:(?!>{7}).*\n)*)>{7}.*(?:\n|\Z)",
    re.M,
)
CELL = re.compile(
    r'\{\s*"(?:cell_type|attachments|execution_count|id|metadata|outputs|source)"\s*:'
)
CELLS = re.compile(r'"cells"\s{0,9}:\s{0,9}\[')
WRAPPERS = "content", "notebook", "ipynb", "nb"  # keys below which interfaces put a notebook
PARTS = {"metadata": dict, "outputs": list, "execution_count": (int, type(None))}


class Unreadable(Exception):
    """The file is not a notebook; the message says what it is."""


@dataclass
class Read:
    """A notebook's cells, and what was repaired."""

    cells: list[dict[str, str]] = field(default_factory=list)  # kind, source, name
    repairs: Counter[str] = field(default_factory=Counter)
    broken: str = ""  # why only some cells could be read
    gaps: int = 0  # how often a cell was lost before others that could be read
    language: str = ""  # of the edition that it comes from; "" is English
    # More cells: the file's other notebooks, where only the last or the first would be opened.
    others: list[list[dict[str, str]]] = field(default_factory=list)

    @property
    def damage(self) -> str:
        """Returns which cells could be read, and why not all; empty if all could be."""
        known = f"only its first {len(self.cells)} cells"
        if self.gaps:
            known = f"cells are lost in {self.gaps} place{'s' if self.gaps > 1 else ''}"
        return f"{known}: {self.broken}" if self.broken else ""

    def notes(self) -> list[str]:
        """Returns the repairs in one line, if there are any."""
        said = [f"{what} ({n} cells)" if n > 1 else what for what, n in self.repairs.items()]
        return [f"the file was repaired when it was read: {', '.join(said)}"] if said else []


def contents(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Returns a file's first bytes, at most `most`; the file may be anything but a link."""
    with _opened(path) as file:
        return file.read(most)


def _opened(path: str | Path) -> io.BufferedReader:
    """A file of normal size."""
    try:
        found = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK)
    except FileNotFoundError:
        raise Unreadable("it is missing") from None
    except OSError as error:
        link = os.path.islink(path)
        why = "it is a link to another file" if link else f"it can't be opened ({error.strerror})"
        raise Unreadable(why) from None
    about = os.fstat(found)
    if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_BYTES:
        return open(found, "rb")
    os.close(found)
    large = f"it has {about.st_size / 2**20:,.0f} MiB; delete its outputs"
    raise Unreadable(large if stat.S_ISREG(about.st_mode) else "it is not a file")


def read(path: str | Path, member: str = "") -> Read:
    """Returns a notebook's cells from a file, or from a file in an archive."""
    return parsed(taken(path, member))


def taken(path: str | Path, member: str = "") -> bytes:
    """Returns the bytes of a file, or of a file in an archive."""
    return _unpacked(path, member) if member else contents(path)


def members(path: str | Path) -> list[str]:
    """The files in an archive that may be notebooks."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(_opened(path)) as archive:
        names = [one.filename for one in archive.infolist()[:MOST_MEMBERS] if not one.is_dir()]
        names = [name for name in names if not re.search(r"(?:^|/)(?:__MACOSX/|\._)", name)]
        return [n for n in names if ".ipynb" in n.lower() or n.lower().endswith(WRITTEN)]
    return []


def _unpacked(path: str | Path, member: str) -> bytes:
    try:
        with zipfile.ZipFile(_opened(path)) as archive, archive.open(member) as file:
            data = file.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise Unreadable(f"it can't be unpacked ({type(error).__name__})") from None
    if len(data) > MOST_BYTES:
        raise Unreadable(f"it has more than {MOST_BYTES / 2**20:,.0f} MiB")
    return data


def parsed(data: bytes) -> Read:
    """Returns a notebook's cells from its bytes; raises `Unreadable` if no cell can be read."""
    if not data.strip():
        raise Unreadable("the file is empty")
    made = Read()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = _decoded(data, made.repairs).encode()
    if (decoded := out_of_a_mail(data)).lstrip().startswith(b"{"):
        data = decoded
        made.repairs["it was encoded as in a mail"] += 1
    what, cells = sources(data) if data.lstrip()[:1] not in (b"{", b"[") else ("", [])
    if cells and len(cells) <= MOST_CELLS and sum(map(len, cells)) <= MOST_TEXT:
        made.cells = [{"kind": "code", "source": cell, "name": ""} for cell in cells]
        made.repairs[f"it was {what}"] += 1
        return made
    for beginning, said in OTHERS.items():
        if re.match(beginning, data[:2000] if b"Z" not in beginning else data, re.I):
            raise Unreadable(said)
    text = _decoded(data, made.repairs)
    try:
        _read_notebook(made, text)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    if not made.cells and made.broken:
        raise Unreadable(made.broken)
    return made


def _read_notebook(made: Read, text: str) -> None:
    sides = [SIDES.sub(side, text) for side in (r"\1", r"\2")] if SIDES.search(text) else [text]
    found, made.broken, made.gaps = _json(sides[0], made.repairs)
    if len(sides) > 1 and not made.broken:
        made.repairs["the marks of a merge conflict (Git) were left out"] += 1
    elif len(sides) > 1:
        sides = [text]
        found, made.broken, made.gaps = _json(text, made.repairs)
    _fill(made, _unwrapped(found))
    others = [_cells_at(side, m.end()) for side in sides for m in [*CELLS.finditer(side)][:5]]
    for cell in made.cells[:MOST_INSIDE]:
        if re.match(r'\s*\{\s*"', cell["source"]) and '"cells"' in cell["source"]:
            with suppress(Unreadable):
                others.append(parsed(cell["source"].encode()).cells)
    if not made.broken:
        made.others = [cells for cells in others if cells != made.cells]


def _cells_at(text: str, at: int) -> list[dict[str, str]]:
    """The cells of a list that begins at this place."""
    cells, *_ = _first_cells(_decoder(), text, at)
    return [_cell(cell, Counter()) for cell in cells if isinstance(cell, dict)]


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(strict=False, parse_int=_whole, parse_constant=lambda _: None)


def _decoded(data: bytes, repairs: Counter[str]) -> str:
    encoding = json.detect_encoding(data[:4])
    if not encoding.startswith("utf-8"):
        repairs[f"it was {encoding.upper()[:6]} text"] += 1
        return data.decode(encoding, "replace").strip("\ufeff\0")
    text = data.removeprefix(codecs.BOM_UTF8).rstrip(b"\0 \r\n").decode("utf-8", "replace")
    if data.rstrip(b" \r\n").endswith(b"\0"):
        repairs["zeros at its end were left out"] += 1
    lost = text.count("\N{REPLACEMENT CHARACTER}")
    if lost > 1 or (lost and not text.endswith("\N{REPLACEMENT CHARACTER}")):
        # Text in another encoding has hardly any valid letters outside ASCII.
        others = sum(1 for letter in text if ord(letter) > 127) - lost
        if lost > others:
            repairs["it was not UTF-8 text"] += 1
            return _decoded_otherwise(data.rstrip(b"\0"))
        repairs["some letters were not UTF-8"] += 1
    return text


def _decoded_otherwise(data: bytes) -> str:
    """A text in an unknown encoding. In those of East Asia, a letter's second byte may be that of a
    backslash; read as GB 18030, their letters begin and end where they should. In Western ones,
    some letter is followed by a space, which GB 18030 doesn't allow."""
    try:
        return data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _json(text: str, repairs: Counter[str]) -> tuple[Any, str, int]:
    """Returns the object in a text, or as much of it as can be read, and the reason, and how often
    a cell before others was lost."""
    decoder = _decoder()
    begin = len(text) - len(text.lstrip())
    try:
        found, end = decoder.raw_decode(text, begin)
        if isinstance(found, str) and found.lstrip().startswith("{"):
            repairs["it was a notebook inside a string"] += 1
            found, end = decoder.decode(found), len(text)
        if text[end:].strip():
            repairs["text after its end was left out"] += 1
        return found, "", 0
    except json.JSONDecodeError as error:
        if isinstance(error.doc, str) and error.doc is not text:
            raise Unreadable("it is not JSON, the format of notebooks") from None
        line = text.count("\n", 0, error.pos) + 1
        conflict = CONFLICT.search(text)
        if conflict:
            line = text.count("\n", 0, conflict.start()) + 1
            said = f"it has the marks of a merge conflict in line {line} (Git)"
        elif error.pos >= len(text) - 2 or error.msg.startswith("Unterminated"):
            said = f"it is cut off in line {line}"
        else:
            said = f"it is not JSON, the format of notebooks, from line {line} on"
    place = CELLS.search(text)
    if place is None:
        raise Unreadable(said if text.lstrip()[:1] in "{[" else said.split(", from")[0]) from None
    cells, end, gaps = _first_cells(decoder, text, place.end())
    if re.compile(r"[\s,]*\]").match(text, end) and not conflict and not gaps:
        repairs["it was not valid JSON"] += 1
        said = ""
    return {"cells": cells}, said, gaps


def _whole(digits: str) -> int:
    return int(digits[:18])


def _first_cells(decoder: json.JSONDecoder, text: str, at: int) -> tuple[list[Any], int, int]:
    """The cells of a list that can be read, where they end, and how often one was left out before
    others."""
    gap, cells, gaps = re.compile(r"[\s,]*"), list[Any](), 0
    while len(cells) <= MOST_CELLS:
        between = gap.match(text, at)
        assert between is not None
        try:
            cell, at = decoder.raw_decode(text, between.end())
        except (json.JSONDecodeError, StopIteration):
            if text[between.end() : between.end() + 1] == "]":
                break
            cell, end = _next_cell(decoder, text, between.end() + 1)
            if cell is None:
                break
            at, gaps = end, gaps + 1
        cells.append(cell)
    return cells, at, gaps


def _next_cell(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int]:
    """The next cell that can be read, and where it ends; None if there is none."""
    for begin in islice(CELL.finditer(text, at), MOST_CELLS):
        with suppress(json.JSONDecodeError, StopIteration):
            cell, end = decoder.raw_decode(text, begin.start())
            if {"cell_type", "source"} <= cell.keys():  # nbgrader's metadata has a type, too
                return cell, end
    return None, 0


def _unwrapped(found: Any) -> dict[str, Any]:
    """Returns the notebook in an object."""
    for _ in range(3):
        if isinstance(found, list):
            whole = found and isinstance(found[0], dict) and "cell_type" in found[0]
            found = {"cells": found} if whole else found[0] if found else None
        if not isinstance(found, dict):
            raise Unreadable("it is not a notebook")
        if "cells" in found or "worksheets" in found:
            return found
        found = next((found[key] for key in WRAPPERS if key in found), None)
        if found is None:
            break
    raise Unreadable("it is not a notebook: it has no cells")


def _fill(made: Read, notebook: dict[str, Any]) -> None:
    if not made.broken:
        lacks = {"nbformat": int, "nbformat_minor": int, "metadata": dict}
        made.repairs.update(
            f"it had no valid `{part}`"
            for part, kind in lacks.items()
            if not isinstance(notebook.get(part), kind)
        )
        about = notebook.get("metadata")
        kernel = about.get("kernelspec", {"name": ""}) if isinstance(about, dict) else {"name": ""}
        if not (isinstance(kernel, dict) and isinstance(kernel.get("name"), str)):
            made.repairs["its kernel had no name"] += 1
        edition = about.get("course") if isinstance(about, dict) else None
        language = edition.get("language") if isinstance(edition, dict) else None
        if isinstance(language, str) and re.fullmatch(r"[\w-]{1,20}", language, re.A):
            made.language = language
    cells = notebook.get("cells")
    if cells is None:  # notebooks before 2015
        sheets = notebook["worksheets"] if isinstance(notebook["worksheets"], list) else []
        cells = [c for s in sheets if isinstance(s, dict) for c in s.get("cells") or ()]
    if isinstance(cells, dict):
        cells = list(cells.values())
    if not isinstance(cells, list):
        raise Unreadable("it is not a notebook: its cells are no list")
    if len(cells) > MOST_CELLS:
        raise Unreadable(f"it has {len(cells):,} cells")
    ids = Counter[str]()
    for cell in cells:
        if isinstance(cell, dict):
            made.cells.append(_cell(cell, made.repairs))
            ids[str(cell.get("id", f"none {len(ids)}"))[:80]] += 1
        else:
            made.repairs["something between the cells was left out"] += 1
    if any(number > 1 for number in ids.values()):
        made.repairs["cells had the same id"] += 1
    if sum(len(cell["source"]) for cell in made.cells) > MOST_TEXT:
        raise Unreadable(f"its cells have more than {MOST_TEXT:,} characters of text")


def _cell(cell: dict[str, Any], repairs: Counter[str]) -> dict[str, str]:
    given = str(cell.get("cell_type") or "").lower()[:20]
    kind = KINDS.get(given, "markdown")
    if not kind:
        kind = "code" if cell.keys() & {"outputs", "execution_count", "input"} else "markdown"
        repairs["a cell had no type"] += 1
    old = "input" in cell and "source" not in cell  # notebooks before 2015
    wanted: dict[str, Any] = PARTS if kind == "code" and not old else {"metadata": dict}
    for part, form in wanted.items():
        if part not in cell or not isinstance(cell[part], form):
            repairs[f"cells had no valid `{part}`"] += 1
    id = cell.get("id", "none")
    if not (isinstance(id, str) and re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", id)):
        repairs["cells had no valid `id`"] += 1
    source = _source(cell.get("input") if old else cell.get("source"), repairs)
    if given == "heading":
        source = f"# {source}"
    about = cell.get("metadata")
    claimed = about.get("nbgrader") if isinstance(about, dict) else None
    name = claimed.get("grade_id") if isinstance(claimed, dict) else ""
    return {"kind": kind, "source": source, "name": name if isinstance(name, str) else ""}


def _source(given: Any, repairs: Counter[str]) -> str:
    """Returns a cell's text, with lines that end as in Python."""
    if isinstance(given, list):
        lines = [line for line in given if isinstance(line, str)]
        if len(lines) < len(given):
            repairs["cells had lines that are no text"] += 1
        without_ends = len(lines) > 1 and not any(re.search(r"[\r\n]", line) for line in lines)
        if without_ends and max(map(len, lines)) > 1:  # otherwise it is one line, as letters
            repairs["cells had lines without ends"] += 1
            lines = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
        text = "".join(lines)
    elif isinstance(given, str):
        text = given
    else:
        repairs["cells had no valid `source`"] += 1
        text = ""
    text = text.encode("utf-8", "replace").decode().removeprefix("\ufeff")  # no lone surrogates
    return text.replace("\r\n", "\n").replace("\r", "\n")


def look(paths: list[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Yields each notebook of these files and folders, with what will happen to it, and whether
    it is fine."""
    for path in paths:
        found = sorted(path.glob("*.ipynb")) if path.is_dir() else [path]
        if not found:
            yield path, "there is no notebook in this folder", False
        for file in found:
            yield file, *_looked(file)


def _looked(path: Path) -> tuple[str, bool]:
    try:
        made = read(path)
    except Unreadable as error:
        return f"this file can't be read: {error}", False
    except MemoryError:
        return "this file can't be read: it takes too much memory", False
    if made.broken:
        remedy = "Open it in Jupyter, save it again, and look again"
        return f"this file can't be read completely, {made.damage}. {remedy}", False
    said = "this file will be read"
    return f"{said}; {made.notes()[0]}" if made.notes() else said, True
