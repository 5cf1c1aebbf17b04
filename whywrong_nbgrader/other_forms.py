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
FENCED = re.compile(
    r"^(?:```+|~~~+) *(?:\{code-cell\}|(?:\{ *)?i?python\d?\b)[^\n]*\n"
    r"(?:---\n.*?\n---\n|(?::\w[^\n]*\n)*)(.*?)^(?:```|~~~)",
    re.M | re.S,
)
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


def sources(data: bytes) -> list[str]:
    """Returns the cells of a program, a document or a page that was made from a notebook; none if
    it is another."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    if re.match(r"\s*<", text):
        return [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in PAGE_CELL.findall(text)]
    if not re.search(r"^\s*(?:def|class) ", text, re.M):
        return []
    tree = None
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.parse(text)
    if tree is None and (fenced := FENCED.findall(text)):
        return fenced
    if tree is not None and re.search(r"^import marimo$", text, re.M):
        return [_of_marimo(node, text) for node in tree.body if _is_a_cell(node)]
    return [cell for cell in PROGRAM_CELL.split(text) if cell.strip()] * bool(
        DEFINITION.search(text)
    )


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
