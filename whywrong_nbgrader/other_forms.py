"""Notebooks that were saved as something else: programs, documents, pages, mails.

Students run this too (`course look`), so it imports the standard library alone."""

from __future__ import annotations

import ast
import base64
import binascii
import html
import quopri
import re
from contextlib import suppress
from textwrap import dedent

# Where the cells begin in programs that Jupyter, VS Code and jupytext write, and in pages.
PROGRAM_CELL = re.compile(r"^# *(?:%%.*|In *\[[ \d]*\]:.*|<codecell>)$\n?", re.M)
PAGE_CELL = re.compile(r'<div class="\s*highlight hl-i?python3?\s*">\s*<pre>(.*?)</pre>', re.S)
FENCED = re.compile(r"^[ \t]*(```+|~~~+)([^\n`]*)\n(.*?)^[ \t]*\1", re.M | re.S)
OF_PYTHON = re.compile(r"[{ .]*(?:i?py(?:thon)?\d?\b|code-cell|$)", re.I)  # what follows a fence
OPTIONS = re.compile(r"---\n.*?\n---\n|(?::\w[^\n]*\n)+", re.S)  # of MyST, above the code
DEFINITION = re.compile(r"^(def|class) ", re.M)
ENCODED = re.compile(rb"[A-Za-z0-9+/=\s]+")


def out_of_a_mail(data: bytes) -> bytes:
    """Returns a file that a mail program didn't decode; or nothing, if it is not one."""
    if ENCODED.fullmatch(data):
        with suppress(binascii.Error):
            return base64.b64decode(data)
    if b"=3D" in data and re.search(rb"=\r?\n", data):
        return quopri.decodestring(data)
    return b""


def fenced(text: str) -> list[str]:
    """Returns the Python code between the fences of a document."""
    found = [dedent(code) for _, kind, code in FENCED.findall(text) if OF_PYTHON.match(kind)]
    return [OPTIONS.sub("", code, count=1) if OPTIONS.match(code) else code for code in found]


def sources(data: bytes) -> tuple[str, list[str]]:
    """Returns what was made from a notebook, and its cells; none if it was made from another."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    if re.match(r"\s*<", text):
        cells = [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in PAGE_CELL.findall(text)]
        return "a web page", cells
    if not re.search(r"^\s*(?:def|class) ", text, re.M):
        return "", []
    tree = None
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(text)
    if tree is None and (cells := fenced(text)):
        return "a document", cells
    if tree is not None and re.search(r"^import marimo$", text, re.M):
        return "a program", [_of_marimo(node, text) for node in tree.body if _is_a_cell(node)]
    cells = [cell for cell in PROGRAM_CELL.split(text) if cell.strip()]
    return "a program", cells if DEFINITION.search(text) else []


def _is_a_cell(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and bool(node.decorator_list)


def _of_marimo(node: ast.stmt, text: str) -> str:
    """A cell's code, which marimo writes as a function with a last line that returns its names."""
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    if ast.unparse(node.decorator_list[0]).startswith("app.cell"):
        body = node.body[:-1] if isinstance(node.body[-1], ast.Return) else node.body
        lines = text.split("\n")[node.body[0].lineno - 1 : body[-1].end_lineno if body else 0]
        return dedent("\n".join(lines))
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])
