"""Right answers in unusual styles are right: observing a call must neither break nor change it."""

import math

import pytest
import torch

from whywrong import check_exercise
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


STYLES = (one_by_one, backward_of_a_product, forward_through_functions, forward_at_a_level)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_it_is_right(style):
    report = check_exercise(catalogue().find("gelu"), style, catalogue=catalogue())
    assert report.passed, str(report)
