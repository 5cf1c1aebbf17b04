"""Lessons compute on `device()`: with a simulated GPU, they print the same as without."""

import html
import io
import re
from contextlib import redirect_stdout
from types import SimpleNamespace

import matplotlib
import nbformat
import pytest
import torch
from PIL import Image

import course_utils
from course_utils.desk.guesses import NONE_YET
from course_utils.show import drawing
from tools import SOLUTIONS

from .pretend_gpu import PretendGPU

pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
LESSONS = sorted(SOLUTIONS.glob("*/*.ipynb"))
# Small models or none.
ON_THE_CPU = "00_before_you_start", "03_softmax_masking", "12_translation"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setenv("COURSE_DEVICE", "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with PretendGPU() as gpu:
        yield gpu


def passes(exercise, answer, seed=None):
    """Replaces `check`, which has its own tests and runs on the CPU, whatever `device()` is."""
    return SimpleNamespace(passed=True)


def usable(name, answer, finished):
    """Replaces `yours`, which runs a check."""
    if not callable(answer):
        print(f"{name}: the finished one runs here, because yours isn't written yet.")
        return finished
    print(f"{name}: yours runs here.")
    return answer


def printed(cell):
    """The output of a cell, even if a missing prediction folds it with the result."""
    pages = "".join(o.get("data", {}).get("text/html", "") for o in cell.outputs)
    folded = re.findall(r"</pre><pre[^>]*>(.*?)</pre>", pages, re.DOTALL)  # the first is the result
    folded = folded if NONE_YET in pages else []
    shown = [o.text for o in cell.outputs if o.get("name") == "stdout"]
    return "".join([*shown, *map(html.unescape, folded)])


@pytest.mark.full("lessons on a pretended GPU")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_prints_the_same_on_a_gpu_and_computes_there(path, gpu, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(course_utils, "check", passes, raising=False)
    monkeypatch.setattr(course_utils, "yours", usable, raising=False)
    monkeypatch.setattr("IPython.display.display", lambda shown: None)
    # Figures get plain numbers, which have no device.
    monkeypatch.setattr(drawing, "_drawn", lambda figure: Image.new("RGB", (4, 4)))
    space = {"__name__": "__main__"}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(cell.source, cell.id, "exec"), space)
            if "nbval-ignore-output" not in cell.metadata.get("tags", []):
                assert out.getvalue() == printed(cell), cell.source
    if path.stem not in ON_THE_CPU:
        assert gpu.used.keys() & {"mean", "linear", "matmul", "__matmul__"}
