"""After a failed cell, a check says that it is about the previous version, in a real kernel."""

import re

import pytest
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from whywrong.hosting import names_written

GOOD = """def naive_mean(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]"""
CHECK = 'check("naive_mean", naive_mean)'


def cards(*sources, tmp_path):
    """The output of each check when these cells run in sequence, including errors."""
    start = "import torch\nfrom course_utils import check"
    notebook = new_notebook(cells=[new_code_cell(s) for s in (start, *sources)])
    client = NotebookClient(
        notebook,
        allow_errors=True,
        kernel_name="python3",
        timeout=120,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    pages = [o.data["text/html"] for c in notebook.cells for o in c.outputs if "data" in o]
    return [re.sub(r"\s+", " ", BeautifulSoup(p, "html.parser").get_text()) for p in pages]


def test_a_syntax_error_and_any_other_failure_is_told_until_the_cell_runs(tmp_path):
    broken = GOOD.replace("return", "return )")
    raises = "1 / 0\n" + GOOD
    later = GOOD + "\n1 / 0"
    said = cards(
        CHECK.replace("naive_mean)", "...)"),
        GOOD,
        CHECK,
        broken,
        CHECK,
        GOOD,
        CHECK,
        raises,
        CHECK,
        later,
        CHECK,
        tmp_path=tmp_path,
    )
    before = "This result is for your previous version."
    assert [before in text for text in said] == [False, False, True, False, True, False]
    assert "(SyntaxError in line 2)" in said[2]
    assert "(ZeroDivisionError)" in said[4]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x):\n  y = 1", {"f"}),
        ("class A(B):\n    def g(self): ...", {"A"}),
        ("a = {'x': 1}\nb: int = 2\nif a == b: pass", {"a", "b"}),
        ("def f(x:\n    return )", {"f"}),
        ("", set()),
    ],
)
def test_names_are_found_even_in_invalid_code(source, names):
    assert names_written(source) == names
