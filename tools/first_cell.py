"""The first code cell of every lesson: it imports the course, or says how to get it and stops.

    python -m tools.editions --first-cells

writes it into solutions/ and notebooks/ without running anything, as `make notebooks` does with the
lessons that it runs. Colab's remedy has the address in pyproject.toml, if there is one.
"""

from __future__ import annotations

from nbformat import NotebookNode

from .address import declared, install

BEGINS = "try:\n    from course_utils import report_environment"
ON_THE_START_PAGE = "%run ../course_utils/desk/environment.py"  # as it was until 0.1
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


def put(notebook: NotebookNode) -> bool:
    """Write it where a notebook has one, in place; whether something changed."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code or not code[0].source.startswith((BEGINS, ON_THE_START_PAGE)):
        return False
    changed = code[0].source != text()
    code[0].source = text()
    return changed
