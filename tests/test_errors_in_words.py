"""PyTorch's own errors, provoked, and what is said of them."""

import math

import pytest
import torch
from torch import nn

from course_utils.desk import check
from whywrong.errors import first_lines
from whywrong.errors_in_words import MEANINGS, in_words

X = torch.zeros(2, 3, 4)


class Made(nn.Module):
    def __init__(self, make):
        super().__init__()
        make(self)


class Hasty(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 3)


def twice(module):
    module.mask = None
    module.register_buffer("mask", X)


def written_over(module):
    module.register_buffer("mask", X)
    module.mask = 3


def written_over_on_the_way():
    x = torch.ones(3, requires_grad=True) * 2
    y = x**2
    x += 1
    y.sum().backward()


PROVOKED = {
    "a mask of numbers": (lambda: X.masked_fill(torch.ones(3, 4), 0), "holds numbers"),
    "numbers joined": (lambda: torch.ones(3) | torch.ones(3), "`|`, `&` and `~`"),
    "numbers inverted": (lambda: ~torch.ones(3), "`|`, `&` and `~`"),
    "a buffer named twice": (lambda: Made(twice), '`register_buffer("mask", …)`'),
    "a buffer written over": (lambda: Made(written_over), "`mask` is a buffer"),
    "a layer of another width": (lambda: nn.Linear(5, 2)(X), "is 4 wide, and this matrix or layer"),
    "a product of other dtypes": (lambda: X.double() @ torch.ones(4, 2), "dtype of the input"),
    "a layer of another dtype": (lambda: nn.Linear(4, 2)(X.double()), "Double, the other Float"),
    "half a product": (lambda: X.bfloat16() @ X.transpose(1, 2), "dtype of the input"),
    "not transposed": (lambda: X @ X, "2 and 4 were wanted, 2 and 3 came"),
    "no size of 1": (lambda: X + torch.zeros(2, 3), "a size of 4 meets a size of 3"),
    "stretched": (lambda: X.expand(2, 5, 4), "3 numbers can't fill 5 places"),
    "numbers lost": (lambda: X.view(2, 5), "2, 5 multiplied together should be 24"),
    "view after transpose": (lambda: X.transpose(1, 2).view(2, 12), "`reshape` copies"),
    "joined along another": (lambda: torch.cat([X, X[..., :3]], 1), "one is 4 here and 3 there"),
    "another number of dimensions": (lambda: torch.cat([X, X[0]]), "another 2"),
    "stacked": (lambda: torch.stack([X, X[0]]), "Number 0 is (2, 3, 4), and another is (3, 4)"),
    "classes at the end": (
        lambda: nn.functional.cross_entropy(X, torch.zeros(2, 3).long()),
        "looks for the classes in dimension 1",
    ),
    "a tensor for one number": (lambda: math.tanh(X), "`torch.tanh`"),
    "written over on the way": (written_over_on_the_way, "Make a new tensor instead"),
    "no such dimension": (lambda: X.sum(3), "There is no dimension 3"),
    "no such row": (lambda: nn.Embedding(3, 2)(torch.tensor([3])), "a row that it lacks"),
    "a row of a fraction": (lambda: nn.Embedding(3, 2)(X), "`torch.long`"),
    "a tensor for a number": (lambda: range(torch.ones(2).long()), "one Python integer"),
    "a weight written into": (lambda: nn.Parameter(X).add_(1), "under `torch.no_grad()`"),
    "part of a weight": (lambda: nn.Parameter(X)[0].zero_(), "under `torch.no_grad()`"),
    "no super().__init__()": (Hasty, "`super().__init__()`"),
    "a weight replaced": (lambda: setattr(nn.Linear(2, 3), "weight", X), "`weight` is a parameter"),
    "another name": (lambda: nn.Linear(2, 3).wieght, "`wieght` was looked for in a Linear"),
    "a tensor as a question": (lambda: not X, "whole tensor"),
    "nothing to go back": (lambda: X.sum().backward(), "no way back"),
}


@pytest.mark.parametrize(("provoke", "said"), PROVOKED.values(), ids=PROVOKED)
def test_it_is_told_in_words(provoke, said):
    with pytest.raises(Exception) as raised:
        provoke()
    assert said in in_words(first_lines(raised.value))


def test_each_meaning_is_provoked_but_that_of_a_second_device():
    messages = []
    for provoke, _ in PROVOKED.values():
        try:
            provoke()
        except Exception as error:
            messages.append(in_words(first_lines(error)).split("{")[0])
    heads = {meaning.partition("{")[0] for meaning in MEANINGS.values()}
    unseen = [h for h in heads if not any(m.startswith(h) for m in messages)]
    assert [h[:24] for h in unseen] == ["A tensor made inside lie"]


def test_what_is_not_known_is_left_as_it_is():
    assert in_words("no such thing") == ""


def test_the_card_says_it_below_the_error():
    report = check("tril_mean", lambda x: torch.ones(5, 5) @ x)
    assert "must match" in report.message or "Expected size" in report.message
    assert "than you thought?" in report.detail or "lined up from the right" in report.detail
