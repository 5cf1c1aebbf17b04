"""Right answers in unusual styles are right: observing a call must neither break nor change it."""

import copy
import linecache
import math
import re
from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from whywrong import _errors, _settings, check_exercise
from whywrong.hosting import catalogue

from .answers import in_einops

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


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


def compiled_on_the_way(x):
    return torch.compile(gelu, backend=no_backend)(x)


STYLES = (
    one_by_one,
    backward_of_a_product,
    forward_through_functions,
    forward_at_a_level,
    compiled_on_the_way,
)


def checked(answer):
    return check_exercise(catalogue().find("gelu"), answer, catalogue=catalogue())


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_it_is_right(style):
    report = checked(style)
    assert report.passed, str(report)
    assert any("torch.compile" in note for note in report.notes) == ("compiled" in style.__name__)


def test_a_compiled_answer_is_right_and_is_told_that_it_ran_as_written():
    report = checked(torch.compile(lambda x: gelu(x), backend=no_backend))
    assert report.passed, str(report)
    assert any("torch.compile" in note for note in report.notes)


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


# ---------------------------------------------------------------- around any right answer


class Marked(torch.Tensor):
    """A subclass that does nothing."""


class Passes(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class PassesOn(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_vmap(call, x, *others):
    return torch.vmap(lambda one: call(one, *others), randomness="different")(x[None])[0]


def under_jacrev(call, x, *others):
    return torch.func.jacrev(lambda one: call(x, *others) * one)(torch.ones((), dtype=x.dtype))


def with_a_gradient_inside(call, x, *others):
    with torch.enable_grad():
        copy = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad((copy * 0).sum(), copy)
    return call(x + grad, *others)


def with_func_grad_inside(call, x, *others):
    return call(x + 0 * torch.func.grad(lambda one: one.sum())(x.detach()), *others)


def under_checkpoint(call, *args):
    return checkpoint(call, *args, use_reentrant=False)


def in_modes(call, *args):
    with Passes(), PassesOn():
        return call(*args)


def as_a_subclass(call, x, *others):
    return call(x.as_subclass(Marked), *others).as_subclass(torch.Tensor)


def compiled_for(backend):
    def style(call, *args):
        return torch.compile(call, backend=backend)(*args)

    return style


AROUND = {
    "vmap": under_vmap,
    "jacrev": under_jacrev,
    "autograd.grad inside": with_a_gradient_inside,
    "func.grad inside": with_func_grad_inside,
    "checkpoint": under_checkpoint,
    "nested modes": in_modes,
    "a subclass of Tensor": as_a_subclass,
    "compile, eager": compiled_for("eager"),
    "compile, inductor": compiled_for("inductor"),
}
FUNCTIONS = "naive_mean", "softmax", "masked_softmax", "attention_scores", "merge_heads", "gelu"
MODULES = (
    *("CausalSelfAttention", "PaddedCausalSelfAttention", "MultiHeadAttentionWrapper"),
    *("MultiHeadAttention", "LayerNorm", "FeedForward", "TransformerBlock", "CrossAttention"),
    *("RMSNorm", "SwiGLU"),
)
SOME = FUNCTIONS + MODULES
# TorchScript takes an argument without a type for a tensor: these have no other arguments.
SCRIPTED = (
    *("naive_mean", "masked_softmax", "attention_scores", "merge_heads", "gelu"),
    *("CausalSelfAttention", "LayerNorm", "FeedForward", "RMSNorm", "SwiGLU"),
)


def in_style(right, style):
    """A right function, or the `forward` of a right class, within a style."""
    if not isinstance(right, type):

        def answer(x, *others, **named):
            return style(lambda x, *others: right(x, *others, **named), x, *others)

        return answer

    class Answer(right):
        def forward(self, x, *others, **named):
            call = super().forward
            return style(lambda x, *others: call(x, *others, **named), x, *others)

    return Answer


def by_functional_call(right):
    """A right class whose parameters are given to its `forward` from outside."""

    class Answer(right):
        inside = False

        def forward(self, *args, **named):
            if self.inside:
                return super().forward(*args, **named)
            self.inside = True
            try:
                return torch.func.functional_call(
                    self, {**dict(self.named_parameters())}, args, named
                )
            finally:
                self.inside = False

    return Answer


def scripted(exercise):
    """The reference in TorchScript, which reads its text."""
    right, lines = exercise.reference, exercise.right.text.splitlines(keepends=True)

    def script(written):
        linecache.cache["<answer>"] = sum(map(len, lines)), None, lines, "<answer>"
        return torch.jit.script(written)

    if not isinstance(right, type):
        return script(right)

    class Answer(right):
        def forward(self, *args, **named):
            plain = copy.copy(self)
            plain.__class__ = right
            return script(plain)(*args, **named)

    return Answer


def right_answers(id):
    """The right answer to an exercise in every style in which it can be written."""
    exercise = catalogue().find(id)
    answers = {name: in_style(exercise.reference, style) for name, style in AROUND.items()}
    if id in MODULES:  # a function has no parameters
        answers["functional_call"] = by_functional_call(exercise.reference)
    if id in SCRIPTED:
        answers["jit.script"] = scripted(exercise)
    if hasattr(in_einops, id):
        answers["einops"] = getattr(in_einops, id)
    return answers


def refused(id, answers):
    """The reports on answers without all points. Prints the points of each."""
    exercise = catalogue().find(id)
    reports = {n: check_exercise(exercise, a, catalogue=catalogue()) for n, a in answers.items()}
    print(*(f"{id}, {name}: {report.points:g}" for name, report in reports.items()), sep="\n")
    return {n: str(r) for n, r in reports.items() if not r.passed or r.points < exercise.points}


def test_each_style_has_ten_exercises():
    styles = Counter(style for id in SOME for style in right_answers(id))
    assert set(styles) > set(AROUND) and min(styles.values()) >= 10, styles


def test_a_right_answer_is_right_in_each_style():
    tried = set()
    for id in SOME:
        untried = {n: a for n, a in right_answers(id).items() if n not in tried}
        for style in [*untried][:1]:
            tried.add(style)
            assert not refused(id, {style: untried[style]})
    assert tried == set(right_answers("LayerNorm"))


@pytest.mark.full("right answers in every style")
@pytest.mark.parametrize("id", SOME)
def test_a_right_answer_is_right_in_any_style(id):
    assert not refused(id, right_answers(id))
