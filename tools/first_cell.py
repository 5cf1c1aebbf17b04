"""The first code cell of every lesson: it imports the course, or says how to get it and stops.

`python -m tools.editions --tidy` writes it into all lessons, without running anything. Colab's
remedy has the address in pyproject.toml, if there is one.
"""

from __future__ import annotations

from nbformat import NotebookNode

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


def put(notebook: NotebookNode) -> None:
    """Write it where a notebook has one, in place."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if code and code[0].source.startswith(BEGINS):
        code[0].source = text()
