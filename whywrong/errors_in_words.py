"""What PyTorch's most common errors mean, in words, with the numbers of the case."""

from __future__ import annotations

import re
from collections.abc import Mapping

# A part of a message, as a pattern, and what it means; groups fill the braces.
MEANINGS: Mapping[str, str] = {
    r"only supports boolean masks": (
        "This mask holds numbers. `.bool()` turns 0 into False and everything else into True."
    ),
    r'"bitwise_\w+" not implemented|operator\.invert\) is only implemented': (
        "`|`, `&` and `~` join masks of True and False; one of these holds floating-point numbers. "
        "`.bool()` makes a mask of it."
    ),
    r"attribute '(\w+)' already exists": (
        '`register_buffer("{0}", …)` makes `self.{0}` itself, and something of that name is there '
        "already. Leave the earlier assignment out, or take another name."
    ),
    r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)": (
        "The last dimension of what comes in is {1} wide, and this matrix or layer takes {2}."
    ),
    r"mat1 and mat2 must have the same dtype, but got (\w+) and (\w+)": (
        "One side holds {0}, the other {1} numbers. Make new tensors with the dtype of the input: "
        "`x.new_zeros(…)`, or `dtype=x.dtype`."
    ),
    r"expected (?:m1 and m2|scalar type) .*": (
        "Two dtypes meet. Make new tensors with the dtype of the input: `x.new_zeros(…)`, or "
        "`dtype=x.dtype`."
    ),
    r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: "
    r"\[(\d+), (\d+)\]": (
        "In a matrix product of batches the batches must be as many, and the last dimension on the "
        "left as wide as the second to last on the right: {0} and {1} were wanted, {2} and {3} "
        "came. Which of the two has another shape than you thought?"
    ),
    r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton "
    r"dimension (\d+)": (
        "Shapes are lined up from the right, and in dimension {2} a size of {0} meets a size of "
        "{1}. Does one of them lack a dimension of size 1, from `keepdim=True` or `[:, None]`, or "
        "should both be equally long?"
    ),
    r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\) at "
    r"non-singleton dimension (\d+)": (
        "Only a dimension of size 1 can be stretched: in dimension {2}, {1} numbers can't fill {0} "
        "places."
    ),
    r"shape '\[([^]]*)\]' is invalid for input of size (\d+)": (
        "`view` and `reshape` keep all numbers: {0} multiplied together should be {1}."
    ),
    r"view size is not compatible with input tensor's size and stride": (
        "`view` can't follow `transpose` here, because neighbours in the result are no longer "
        "neighbours in memory. `reshape` copies where it must; so does `.contiguous()` before it."
    ),
    r"Sizes of tensors must match except in dimension (\d+)\. Expected size (\d+) but got size "
    r"(\d+)": (
        "`torch.cat` along dimension {0} wants all other sizes equal; one is {1} here and {2} "
        "there. Is it the dimension you meant?"
    ),
    r"Tensors must have same number of dimensions: got (\d+) and (\d+)": (
        "One of what is joined has {0} dimensions and another {1}. Did one lose a dimension that "
        "`keepdim=True` or `[:, None]` keeps?"
    ),
    r"stack expects each tensor to be equal size, but got \[(.*?)\] at entry (\d+) and "
    r"\[(.*?)\]": (
        "`torch.stack` joins tensors of one shape. Number {1} is ({0}), and another is ({2})."
    ),
    r"Expected target size \[(\d+), (\d+)\], got \[(\d+), (\d+)\]": (
        "`cross_entropy` looks for the classes in dimension 1. Flatten the logits to (N, V), the "
        "targets to (N,)."
    ),
    r"only one element tensors can be converted to Python scalars": (
        "A function that takes one Python number got a tensor of many. For `math.tanh` and its "
        "like, PyTorch has its own, `torch.tanh`."
    ),
    r"modified by an inplace operation": (
        "Going back needs numbers that were written over on the way, by `+=`, a name with `_` at "
        "its end, or an assignment into a slice. Make a new tensor instead: `x = x + …`."
    ),
    r"Dimension out of range \(expected to be in range of \[(\S+), (\S+)\], but got (\S+)\)": (
        "There is no dimension {2}: this tensor's are numbered {0} to {1}, and -1 is the last."
    ),
    r"index out of range in self": (
        "An embedding was asked for a row that it lacks: an id or a position is as large as its "
        "number of rows, or larger."
    ),
    r"only integer tensors of a single element can be converted to an index": (
        "A whole tensor stands where one Python integer is wanted."
    ),
    r"(?:a leaf Variable that requires grad|a view of a leaf Variable that requires grad) .*"
    r"in-place": (
        "A tensor that asks for gradients is written into. Work on a new tensor, or, to copy "
        "weights, under `torch.no_grad()`."
    ),
    r"cannot assign (?:module|parameters?) before Module\.__init__\(\) call": (
        "The first line of `__init__` should be `super().__init__()`: only then can a module hold "
        "layers."
    ),
    r"cannot assign '([\w.]+)' as parameter '(\w+)'": (
        "`{1}` is a parameter and should stay one: `{1}.copy_(…)`, under `torch.no_grad()`, writes "
        "numbers into it."
    ),
    r"cannot assign '([\w.]+)' as (child module|buffer) '(\w+)'": (
        "`{2}` is a {1} of this module. Give what you assign a name of its own."
    ),
    r"'NoneType' object has no attribute '(\w+)'": (
        "`{0}` was looked for in None: which name in this line holds None, and who made it so?"
    ),
    r"'(\w+)' object has no attribute '(\w+)'": (
        "`{1}` was looked for in a {0}, which has nothing of that name: is it set in `__init__`, "
        "and spelled alike?"
    ),
    r"'indices' to have one of the following scalar types": (
        "An embedding looks up whole numbers: ids are `torch.long`, not floating point."
    ),
    r"element 0 of tensors does not require grad": (
        "`backward()` found no way back: the loss was cut off from the weights on its way "
        "(`.item()`, `.detach()`, `torch.no_grad()`, `torch.tensor(…)`)."
    ),
    r"Boolean value of Tensor with more than one value is ambiguous": (
        "`if`, `and` and `not` want one True or False, and got a whole tensor. `|`, `&` and `~` "
        "work number by number; `.any()` and `.all()` make one answer of many."
    ),
    r"Expected all tensors to be on the same device": (
        "A tensor made inside lies on the CPU, the input elsewhere. Make it on `x.device`, or keep "
        "it with `register_buffer`."
    ),
}


def in_words(message: str) -> str:
    """What an error's message means and what to look at, or nothing if it isn't known here.

    >>> in_words("mat1 and mat2 shapes cannot be multiplied (6x4 and 3x2)")
    'The last dimension of what comes in is 4 wide, and this matrix or layer takes 3.'
    """
    for pattern, meaning in MEANINGS.items():
        found = re.search(pattern, message)
        if found:
            return meaning.format(*found.groups())
    return ""
