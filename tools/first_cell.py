"""The first code cell of every lesson: it imports the course, or says how to get it and stops.

`python -m tools.editions` adds it to a lesson that has none. With `--tidy`, it writes it into all
lessons that have it, without running anything. Colab's remedy has the address in pyproject.toml,
if there is one.
"""

from __future__ import annotations

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from .address import declared, install

BEGINS = "try:\n    from course_utils import report_environment"
TEXT = """\
try:
    from course_utils import report_environment
except ModuleNotFoundError:
    import sys

    said = "This Python does not have the course: choose its kernel, or start with `make lab`."
    if "google.colab" in sys.modules:
        said = "Colab does not have the course yet. {remedy}"
    get_ipython().set_custom_exc((Exception,), lambda *_, **__: print(said))  # in later cells too
    raise
report_environment()"""
KNOWN = "Run this in a new cell, then run this cell again:\\n\\n    %pip install --quiet {address}"
UNKNOWN = (
    "Install it in a new cell with `%pip install git+` and the address of the repository that this "
    "notebook is from; then run this cell again."
)


def text() -> str:
    remedy = KNOWN.format(address=install()) if declared() else UNKNOWN
    return TEXT.format(remedy=remedy)


def put(notebook: NotebookNode, add: bool = False) -> None:
    """Write it where a notebook has one, in place; with `add`, also where it has none."""
    is_code = [cell.cell_type == "code" for cell in notebook.cells]
    at = is_code.index(True) if True in is_code else len(is_code)
    if at < len(is_code) and notebook.cells[at].source.startswith(BEGINS):
        notebook.cells[at].source = text()
    elif add:
        notebook.cells.insert(at, new_code_cell(text()))
