"""A lesson gives its stored outputs with one and with two threads, which split sums differently.

The tests of the solutions run all lessons with one thread.
"""

import os
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from tools import ROOT as COURSE
from tools import SOLUTIONS

# Its sums are the longest, and its figures show medians of thousands of them.
LESSON = SOLUTIONS / "2-single-head" / "04_single_head.ipynb"


@pytest.mark.full("a lesson on two threads")
def test_a_lesson_gives_its_stored_outputs_with_two_threads(tmp_path):
    threads = 2
    notebook = nbformat.read(LESSON, as_version=4)
    settle = new_code_cell(
        f"import torch\ntorch.set_num_threads({threads})\nprint(torch.get_num_threads())",
        execution_count=1,
        outputs=[new_output("stream", name="stdout", text=f"{threads}\n")],
    )
    # The checks are slow and have their own tests.
    kept = [cell for cell in notebook.cells if not cell.metadata.get("nbgrader", {}).get("grade")]
    notebook.cells = [settle, *kept]
    nbformat.write(notebook, tmp_path / LESSON.name)
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    settings = ["-c", str(COURSE / "pyproject.toml"), "--rootdir", str(COURSE)]
    sanitize = f"--nbval-sanitize-with={COURSE / 'tests' / 'nbval_sanitize.cfg'}"
    done = subprocess.run(
        [*command, *settings, sanitize, "--nbval", str(tmp_path / LESSON.name)],
        cwd=COURSE,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]
