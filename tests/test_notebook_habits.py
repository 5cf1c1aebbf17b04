"""What notebooks contain besides an answer: the card says what it is and what to do about it."""

import linecache
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention, language_model
from whywrong import check_exercise
from whywrong.hosting import catalogue

RIGHT = (
    "    e = (scores - scores.amax(dim, keepdim=True)).exp()\n"
    "    return e / e.sum(dim, keepdim=True)"
)
HABITS = {
    "NumPy inside": (
        "def softmax(scores, dim=-1):\n    s = np.exp(scores.numpy())\n"
        "    return torch.from_numpy(s / s.sum(axis=dim, keepdims=True))",
        "Your code turns a tensor into a NumPy array.",
    ),
    "a NumPy array returned": (
        "def softmax(scores, dim=-1):\n    return np.exp(np.asarray(scores))",
        "`np.exp(x)` is `torch.exp(x)`",
    ),
    "a global instead of the argument": (
        "scores = torch.ones(1, 3)\ndef softmax(s, dim=-1):\n" + RIGHT,
        "Your code never reads its argument `s`, but it reads `scores`",
    ),
    "a name of PyTorch": (
        "def softmax(scores, dim=-1):\n" + RIGHT + "\nfrom torch import softmax",
        "`softmax` is PyTorch's own function here, not yours",
    ),
    "dots left in": (
        "def softmax(scores, dim=-1):\n    e = ...\n    return e / e.sum(dim, keepdim=True)",
        "A name in this line still stands for `...`",
    ),
    "yield": ("def softmax(scores, dim=-1):\n    yield scores", "contains `yield`"),
    "async": ("async def softmax(scores, dim=-1):\n    return scores", "defined by `async def`"),
    "a missing package": (
        "def softmax(scores, dim=-1):\n    import no_such_package",
        "The package `no_such_package` isn't installed",
    ),
    "input": ("def softmax(scores, dim=-1):\n    return input()", "`input()` waits"),
    "a debugger": ("def softmax(scores, dim=-1):\n    breakpoint()", "A debugger was started"),
    "randomness": (
        "def softmax(scores, dim=-1):\n    scores = scores + torch.randn_like(scores)\n" + RIGHT,
        "something in your code is random",
    ),
    "a misspelt method": (
        "def softmax(scores, dim=-1):\n    return scores.expp()",
        "Did you mean: 'exp'?",
    ),
    "a misspelt name": (
        "def softmax(scores, dim=-1):\n    weights = scores.exp()\n    return weigths",
        "Did you mean: 'weights'?",
    ),
    "no gradients": (
        "@torch.no_grad()\ndef softmax(scores, dim=-1):\n" + RIGHT,
        "also as `@torch.no_grad()` above the function",
    ),
    "an error on another input": (
        "def softmax(scores, dim=-1):\n    B, C = scores.shape\n    return scores / scores.sum()",
        "It runs on every input; yours raised ValueError: too many values to unpack",
    ),
    "the commonest mistake first": (
        "def softmax(scores, dim=-1):\n    return scores / scores.sum()",
        "What happened: You divided the scores themselves by their sum: `exp` is missing.\n",
    ),
}


def checked(id, source):
    space = {"torch": torch, "nn": nn, "F": F, "np": np, "math": math, "attention": attention}
    space["language_model"] = language_model
    file = f"<ipython-input-{abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)
    return check_exercise(catalogue().find(id), space[id], catalogue=catalogue())


@pytest.mark.parametrize("habit", HABITS)
def test_the_card_says_what_it_is(habit):
    source, said = HABITS[habit]
    report = checked("softmax", source)
    assert not report.passed
    every = [*report.advice, (report.message, report.detail), [r.text for r in report.behaviours]]
    first = "\n".join(f"What happened: {what}\n" for what, *_ in report.advice[:1])
    assert any(said in text for part in every for text in part) or said in first, str(report)


def test_a_class_whose_forward_is_not_written_is_told_so():
    source = (
        "class FeedForward(nn.Module):\n"
        "    def __init__(self, d_model, expansion=4, dropout=0.0):\n"
        "        super().__init__()\n"
        "        self.expand = nn.Linear(d_model, expansion * d_model)\n"
        "        self.contract = nn.Linear(expansion * d_model, d_model)\n"
        "    def forward(self, x):\n        ...  # your code here\n"
    )
    report = checked("FeedForward", source)
    assert "`forward` isn't written yet" in report.message and not report.advice


def test_the_readers_default_dtype_changes_nothing():
    """Not even if the exercise is loaded after the cell that sets it."""
    program = (
        "import torch; torch.set_default_dtype(torch.float64)\n"
        "from whywrong import check_exercise; from whywrong.hosting import catalogue\n"
        "e = catalogue().find('CausalSelfAttention'); print(e.cases(0)[0]['x'].dtype)\n"
        "print(check_exercise(e, e.reference).notes, torch.get_default_dtype())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert said.splitlines() == ["torch.float32", "[] torch.float64"]
