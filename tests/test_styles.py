"""Right answers in unusual styles are right: observing a call must neither break nor change it."""

import math
import re

import pytest
import torch

from whywrong import _errors, _settings, check_exercise
from whywrong.hosting import catalogue


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def one_by_one(x):
    """`torch.vmap` passes Python numbers to operators as they are."""
    return torch.vmap(gelu)(x[None])[0]


def backward_of_a_product(x):
    return torch.func.jacrev(lambda one: gelu(x) * one)(torch.ones((), dtype=x.dtype))


def forward_through_functions(x):
    return torch.func.jvp(gelu, (x,), (torch.zeros_like(x),))[0]


def forward_at_a_level(x):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.zeros_like(x))
        return torch.autograd.forward_ad.unpack_dual(gelu(dual)).primal


def no_backend(graph, inputs):
    raise RuntimeError("a check has no compiler")


@torch.compile(backend=no_backend)
def compiled(x):
    return gelu(x)


def compiled_on_the_way(x):
    return torch.compile(gelu, backend=no_backend)(x)


STYLES = (
    one_by_one,
    backward_of_a_product,
    forward_through_functions,
    forward_at_a_level,
    compiled,
    compiled_on_the_way,
)


def checked(answer):
    return check_exercise(catalogue().find("gelu"), answer, catalogue=catalogue())


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_it_is_right(style):
    report = checked(style)
    assert report.passed, str(report)
    assert any("torch.compile" in note for note in report.notes) == ("compiled" in style.__name__)


def test_a_compiled_stub_is_not_attempted():
    assert not checked(torch.compile(lambda x: ..., backend=no_backend)).attempted


def test_a_pattern_that_is_compiled_is_no_program():
    def searches(x):
        return gelu(x) if re.compile("a").match("a") else x

    assert checked(searches).passed and not checked(searches).notes


def test_what_the_compiler_replaces_when_it_is_loaded_is_not_the_answers_doing():
    import torch._dynamo.mutation_guard as tags

    torch.nn.Module.___needs_generation_tag_patch = True
    before = torch.nn.Module.__init__
    tags.install_generation_tagging_init()
    assert torch.nn.Module.__init__ is not before
    assert _settings.restore_functions() == [] and torch.nn.Module.__init__ is before


def test_an_error_of_the_check_is_told_as_one():
    code = "def watches(x):\n    return x.no_such_attribute\n"
    space = {}
    exec(compile(code, _errors.OURS + "_watches.py", "exec"), space)

    def answer(x):
        return space["watches"](x)

    report = checked(answer)
    assert report.message.startswith(
        "The check itself failed here, not your answer: AttributeError"
    )
    assert "(whywrong/_watches.py:2)" in report.message
    assert "Please report it" in report.detail and torch.__version__ in report.detail
    assert not report.misconceptions and "Your code raised" not in str(report)
