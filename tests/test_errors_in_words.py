"""Provokes PyTorch's own errors and tests the explanation of each."""

import math
import operator
import re

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_utils.desk.checks import check
from whywrong._judging import meaning, meanings
from whywrong.probing import first_lines

X = torch.zeros(2, 3, 4)
library = nn.MultiheadAttention(4, 2, batch_first=True)


class Made(nn.Module):
    def __init__(self, make):
        super().__init__()
        make(self)


class Hasty(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(2, 3)


def calls_itself():
    return calls_itself()


def product(query, key):
    return query @ key


def input_without_anybody():
    raise EOFError("EOF when reading a line")


def twice(module):
    module.mask = None
    module.register_buffer("mask", X)


def dotted(module):
    module.register_buffer("self.mask", X)


def written_over(module):
    module.register_buffer("mask", X)
    module.mask = 3


def written_over_on_the_way():
    x = torch.ones(3, requires_grad=True) * 2
    y = x**2
    x += 1
    y.sum().backward()


def unassigned():
    for _ in ():
        value = 1
    return value


def two_of(shape):
    first, second = shape
    return first, second


def with_nothing():
    with torch.no_grad:
        pass


def unpacked(pair):
    first, _ = pair
    return first


PROVOKED = {
    "joined in place": (lambda: X.clone()[0].add_(X), "can't make its tensor larger"),
    "None unpacked": (lambda: unpacked(None), "unpacks `None`"),
    "a hint alone": (lambda: library(X, X, X, is_causal=True), "is only a hint"),
    "a mask of other tokens": (
        lambda: nn.MultiheadAttention(4, 2)(X, X, X, attn_mask=X[0, :, :3]),
        "3 tokens, and `nn.MultiheadAttention` takes its input for texts of 2",
    ),
    "a number in a cat": (lambda: torch.cat([X, X[0, 0, 0]]), "`x.reshape(1, 1)`"),
    "a loop over a module": (lambda: torch.optim.SGD(nn.Linear(2, 3)), "`model.parameters()`"),
    "a range backwards": (lambda: torch.arange(5, 3), "counts upwards"),
    "a mask subtracted": (lambda: 1 - (X > 0), "inverts a bool"),
    "a mask of numbers": (lambda: X.masked_fill(torch.ones(3, 4), 0), "contains numbers"),
    "numbers joined": (lambda: torch.ones(3) | torch.ones(3), "`|`, `&` and `~`"),
    "numbers inverted": (lambda: ~torch.ones(3), "`|`, `&` and `~`"),
    "a buffer named twice": (lambda: Made(twice), '`register_buffer("mask", …)`'),
    "a buffer written over": (lambda: Made(written_over), "`mask` is a buffer"),
    "a layer of another width": (lambda: nn.Linear(5, 2)(X), "has size 4, but this matrix"),
    "a product of other dtypes": (lambda: X.double() @ torch.ones(4, 2), "dtype of the input"),
    "a layer of another dtype": (lambda: nn.Linear(4, 2)(X.double()), "Double, the other Float"),
    "half a product": (lambda: X.bfloat16() @ X.transpose(1, 2), "dtype of the input"),
    "not transposed": (lambda: X @ X, "4 on the left and 3 on the right"),
    "in TorchScript": (lambda: torch.jit.script(product)(X, X), "4 on the left and 3 on the right"),
    "no size of 1": (lambda: X + torch.zeros(2, 3), "sizes 4 and 3 don't match"),
    "stretched": (lambda: X.expand(2, 5, 4), "can't be expanded to 5"),
    "numbers lost": (lambda: X.view(2, 5), "2, 5, multiplied together, should"),
    "view after transpose": (lambda: X.transpose(1, 2).view(2, 12), "`reshape` copies"),
    "joined along another": (lambda: torch.cat([X, X[..., :3]], 1), "the sizes 4 and 3"),
    "another number of dimensions": (lambda: torch.cat([X, X[0]]), "3 and 2"),
    "stacked": (lambda: torch.stack([X, X[0]]), "tensor 0 has shape (2, 3, 4)"),
    "classes at the end": (
        lambda: cross_entropy(X, torch.zeros(2, 3).long()),
        "looks for the classes in dimension 1",
    ),
    "a tensor for one number": (lambda: math.tanh(X), "`torch.tanh`"),
    "written over on the way": (written_over_on_the_way, "Create a new tensor"),
    "no such dimension": (lambda: X.sum(3), "There is no dimension 3"),
    "no such row": (lambda: nn.Embedding(3, 2)(torch.tensor([3])), "has no row"),
    "a row of a fraction": (lambda: nn.Embedding(3, 2)(X), "`torch.long`"),
    "a tensor for a number": (lambda: range(torch.ones(2).long()), "needs an integer"),
    "a weight written into": (lambda: nn.Parameter(X).add_(1), "under `torch.no_grad()`"),
    "part of a weight": (lambda: nn.Parameter(X)[0].zero_(), "under `torch.no_grad()`"),
    "no super().__init__()": (Hasty, "`super().__init__()`"),
    "a weight replaced": (lambda: setattr(nn.Linear(2, 3), "weight", X), "`weight` is a parameter"),
    "another name": (lambda: nn.Linear(2, 3).wieght, "`.wieght` of a Linear"),
    "a tensor as a question": (lambda: not X, "whole tensor"),
    "nothing to go back": (lambda: X.sum().backward(), "can't reach any parameter"),
    "a parameter of a number": (lambda: nn.Parameter(3), "was given a Python int"),
    "a layer multiplied": (lambda: X @ nn.Linear(4, 2), "A Linear is not a tensor"),
    "a buffer named self.": (lambda: Made(dotted), "`self.mask`"),
    "two open sizes": (lambda: X.view(-1, -1), "more than one -1"),
    "other names": (lambda: nn.Linear(2, 3).load_state_dict({}), "Linear has other names"),
    "the root of a number": (lambda: torch.sqrt(4), "given a Python int"),
    "a list's column": (lambda: operator.getitem([1, 2], (slice(None), None)), "a Python list"),
    "a list compared": (lambda: [1, 2] > X, "on a Python list"),
    "minus infinity as a text": (lambda: X.masked_fill(X > 0, "-inf"), '`float("-inf")`'),
    "values and places": (lambda: X - X.max(1), "`.values`"),
    "a mask in brackets": (lambda: X[torch.ones(3, 4) > 0], "mask has shape (3, 4)"),
    "an attribute of nothing": (lambda: None.shape, "`.shape` of a value that is `None`"),
    "nothing inverted": (lambda: ~None, "is `None`"),
    "a name": (lambda: nonsense, "`nonsense`"),  # noqa: F821
    "a name without a value": (unassigned, "`value` is used before"),
    "logits and targets": (
        lambda: cross_entropy(torch.zeros(4, 2), torch.zeros(3).long()),
        "4 predictions, but 3 targets",
    ),
    "out of bounds": (lambda: X[3], "no index 3 in a dimension of size 2"),
    "too many indices": (lambda: X[0, 0, 0, 0], "dimensions (3)"),
    "a shape of three": (lambda: two_of(X.shape), "How many dimensions"),
    "a row cut": (lambda: torch.ones(3).tril(), "has one dimension"),
    "a list of layers called": (lambda: nn.ModuleList()(X), "only holds layers"),
    "shapes added up": (lambda: sum([X.shape]), "`numel()`"),
    "an argument less": (lambda: two_of(), "was called without 'shape'"),
    "an argument more": (lambda: two_of(1, 2), "more arguments than it takes: 2 instead of 1"),
    "numbers as a condition": (lambda: torch.where(X, X, X), "`torch.where`"),
    "a power": (lambda: X ^ X, "`x ** 2`"),
    "too large for half": (lambda: X.half().masked_fill(X > 0, -1e9), "float16 is 65,504"),
    "an attribute of a function": (lambda: two_of.weight, "`.weight` of a function"),
    "a method misspelled": (lambda: X.masked_fil(X > 0, 0), "`masked_fil`"),
    "a function misspelled": (lambda: torch.squeez(X), "`torch` has no `squeez`"),
    "one number of many": (lambda: X.item(), "exactly one element"),
    "no forward": (lambda: Made(bool)(X), "`Made` has none"),
    "an argument unknown": (lambda: two_of(form=3), "no argument of that name"),
    "Python's own sum": (lambda: sum(X, dim=1), "`x.sum(dim=…)`"),
    "rows of unequal length": (lambda: torch.tensor([[1, 2], [3]]), "2 here, 1 there"),
    "a number joined": (lambda: torch.cat([X, 0]), "element 1 of the list"),
    "tensors without a list": (lambda: torch.cat(X, X), "takes a list of tensors"),
    "a list in a sum": (lambda: operator.add(X, [1.0]), "a Python list or tuple with a number"),
    "an index of a fraction": (lambda: X[torch.tensor([0.5])], "must be an integer"),
    "a shape's end": (lambda: X.shape[3], "beyond the end of a tuple"),
    "a number indexed": (lambda: X.sum()[0], "no dimension to index"),
    "more than there are": (lambda: X.topk(5), "more entries than there are"),
    "a norm of another width": (lambda: nn.LayerNorm(5)(X), "dimension of size 5"),
    "one prediction": (lambda: cross_entropy(X[0, 0], torch.tensor([1, 2])), "(N, V)"),
    "ids as logits": (lambda: torch.ones(2, 3).long().softmax(1), "integers"),
    "with and no brackets": (with_nothing, "`with torch.no_grad():`"),
    "a method not called": (lambda: X.size[1], "`x.size(1)`"),
    "a shape called": (lambda: X.shape(1), "A Size was called"),
    "a list of no layers": (lambda: nn.ModuleList([3]), "of type `int`"),
    "a layer for a list": (lambda: nn.ModuleList(nn.Linear(2, 3)), "a single Linear"),
    "super without brackets": (lambda: super.__init__(), "both pairs of parentheses"),
    "half a head": (lambda: X.view(2, 3, 2.0, 2), "`//`"),
    "a tensor as an end": (lambda: torch.arange(X), "`end` takes a Python number"),
    "a key of a list": (lambda: operator.getitem([{"a": 1}], "a"), "as if it were a dict"),
    "a number's length": (lambda: len(3), "of type `int`"),
    "a size looped over": (lambda: iter(X.shape[0]), "`for t in range(n)`"),
    "too many dimensions": (lambda: operator.setitem(X[0], 0, X), "the shape (4) is needed"),
    "a size unknown": (lambda: T, "`B, T, C = x.shape`"),  # noqa: F821
    "mm of three dimensions": (lambda: X.mm(X), "`@` multiplies matrices"),
    "bytes encoded": (lambda: b"low".encode(), "`list(b"),
    "a text decoded": (lambda: "low".decode(), "has `.encode`"),
    "nothing to choose from": (lambda: max([]), "its argument is empty"),
    "a division by 0": (lambda: 1 / 0, "divides by 0"),
    "dots": (lambda: ... / X, "still stands for `...`"),
    "no package": (lambda: __import__("no_such_package"), "`no_such_package` isn't installed"),
    "a question": (lambda: input_without_anybody(), "waits for somebody"),
    "an array": (lambda: nn.Parameter(X).numpy(), "records no gradients"),
    "itself": (lambda: calls_itself(), "again and again"),
    "other arguments": (lambda: X.sum(keepdim=True), "`sum` doesn't take arguments of these types"),
}


@pytest.mark.parametrize(("provoke", "said"), PROVOKED.values(), ids=PROVOKED)
def test_each_error_is_explained(provoke, said):
    with pytest.raises(Exception) as raised:
        provoke()
    known = meaning(first_lines(raised.value))
    assert known and said in f"{known.what} {known.look}"


def test_each_explanation_is_provoked_except_for_a_second_device():
    messages = []
    for provoke, _ in PROVOKED.values():
        try:
            provoke()
        except Exception as error:
            messages.append(first_lines(error))
    first = {next((p for p, _ in meanings() if re.search(p, m)), "") for m in messages}
    unseen = [known.id for pattern, known in meanings() if pattern not in first]
    by_type = ["debugger_left_in", "assertion_left_in", "program_ended"]  # without a message
    assert unseen == [*by_type, "stays_on_the_cpu", "no_cuda"]
    assert all(meaning(kind) for kind in ("BdbQuit", "AssertionError", "SystemExit"))


def test_an_unknown_error_is_not_explained():
    assert meaning("no such thing") is None


def test_the_card_leads_with_the_explanation_and_keeps_the_error():
    report = check("tril_mean", lambda x: torch.ones(5, 5) @ x)
    assert report.misconception in ("product_of_other_sizes", "sizes_do_not_line_up")
    assert "must match" in report.message or "Expected size" in report.message
