"""Lesson 12, first part: what the decoder is given while it learns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import translation
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
    expect_function,
)
from ..checking.exercise import Expected, Verdict
from .kit import mistakes as m
from .kit.draw import Draw

LESSON = "5-encoder-decoder/12_translation"


class Forcing:
    """The right answer in steps."""

    def __call__(self, targets, bos_id):
        return self.joined(self.begin(targets, bos_id), self.kept(targets))

    def begin(self, targets, bos_id):
        return targets.new_full((len(targets), 1), bos_id)

    def kept(self, targets):
        return targets[:, :-1]

    def joined(self, begin, kept):
        return torch.cat([begin, kept], dim=1)


class NotShifted(Mistake):
    """The decoder is given its labels as they are: nothing was moved.

    Why: At each place it then sees the word that it is asked for, and learns to copy.
    Mend: When the first word is to be said, which words may the decoder have seen?
    """

    def __call__(self, targets, bos_id):
        return targets.clone()


class BosOverTheFirst(Mistake):
    """`bos` stands over the first word, and the others stay where they were.

    Why: From the second place on, the decoder sees the word that it is asked for.
    Mend: The first word isn't thrown away: where does it go?
    """

    def __call__(self, targets, bos_id):
        return torch.cat([self.begin(targets, bos_id), targets[:, 1:]], dim=1)


class ShiftedToTheLeft(Mistake):
    """Everything was moved to the left.

    Why: The decoder would see the word *after* the one that it is asked for.
    Mend: Write a row and its labels below each other. Which way must they part?
    """

    def __call__(self, targets, bos_id):
        return torch.cat([targets[:, 1:], self.begin(targets, bos_id)], dim=1)


class ShiftedTwice(Mistake):
    """Everything was moved two places to the right.

    Why: The decoder never sees the last word that it wrote, only the one before.
    Mend: How many places lie between a word as an input and the same word as a label?
    """

    def joined(self, begin, kept):
        once = super().joined(begin, kept)
        return super().joined(begin, once[:, :-1])


class BosBehind(Mistake):
    """`bos` was put at the end.

    Why: It says "begin", and the first word is said after it.
    Mend: Look at the order of the two in `torch.cat`.
    """

    def joined(self, begin, kept):
        return torch.cat([kept, begin], dim=1)


class BosMissing(Mistake):
    """The last column went round to the front, where `bos` should stand.

    Why: Each text would begin with another token, and when the model writes there is none of them.
    Mend: `roll` moves in a circle. What should stand in the first column?
    """

    def __call__(self, targets, bos_id):
        return targets.roll(1, dims=1)


class LastColumnKept(Mistake):
    """`bos` was put in front and nothing was dropped, so a row has T + 1 tokens.

    Why: There is no label for the last of them.
    Mend: Which token is never an input, because nothing is to be said after it?
    """

    def kept(self, targets):
        return targets


class EosTakenOut(Mistake):
    """In shorter rows `eos` was taken out: where the label is padding, the input is padding too.

    Why: Only `bos_id` is known here, not which ids are padding; and those places have no loss.
    Mend: What does the plain shift put below the first padding?
    """

    def __call__(self, targets, bos_id):
        return super().__call__(targets, bos_id).masked_fill(targets == 0, 0)


class BosForPadding(Mistake):
    """Places whose label is padding hold `bos`.

    Why: There is one beginning a row.
    Mend: In how many columns should `bos` stand?
    """

    def __call__(self, targets, bos_id):
        return super().__call__(targets, bos_id).masked_fill(targets == 0, bos_id)


class Smeared(Mistake):
    """The first word has spread over the whole row.

    Why: `t[:, 1:] = t[:, :-1]`, or a loop from the left, reads what it has just written.
    Mend: `torch.cat` builds a new tensor. Else copy what you read first, with `clone()`.
    """

    def joined(self, begin, kept):
        first = kept[:, :1].expand_as(kept)
        return torch.cat([begin, first], dim=1)


class SmearedBos(Smeared):
    """Every place holds `bos`.

    Why: The decoder never sees a word.
    Mend: Where do the targets come in? If by `t[:, 1:] = t[:, :-1]`: it reads from the memory that
        it writes to; copy first, or use `torch.cat`.
    """

    def joined(self, begin, kept):
        return begin.repeat(1, kept.shape[1] + 1)


class ShiftedThroughTheBatch(Mistake):
    """Rows were shifted as one long text: each begins with the end of the one before.

    Why: Rows of a batch have nothing to do with each other.
    Mend: Shift along the tokens, `dim=1`, and put `bos` into each row.
    """

    def __call__(self, targets, bos_id):
        flat = targets.flatten()
        return torch.cat([flat.new_tensor([bos_id]), flat[:-1]]).view_as(targets)


class ShiftedDown(Mistake):
    """Rows were moved, not tokens: the first row is all `bos`.

    Why: Each text would be learned with the words of another.
    Mend: Which of the two dimensions holds the tokens?
    """

    def __call__(self, targets, bos_id):
        return torch.cat([torch.full_like(targets[:1], bos_id), targets[:-1]])


class ReversedOrder(Mistake):
    """The words stand in reverse order behind `bos`.

    Why: The decoder would be given words that come later.
    Mend: The order stays; everything moves by one place.
    """

    def kept(self, targets):
        return targets[:, :-1].flip(1)


class AsFloats(Mistake):
    """The result holds floats.

    Why: Ids are places in a table, and `nn.Embedding` refuses floats.
    Mend: `torch.zeros` makes floats unless it is told a dtype; `new_full` makes what targets are.
    """

    def __call__(self, targets, bos_id):
        return super().__call__(targets, bos_id).float()


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, lengths: list[int], pad_id: int, bos_id: int, eos_id: int, **more: Any):
        longest, special = max(lengths), {pad_id, bos_id, eos_id}
        words = torch.tensor([id for id in range(60) if id not in special])
        rows = []
        for length in lengths:
            text = words[torch.randperm(len(words), generator=draw.generator)[: length - 1]]
            rows.append([*text.tolist(), eos_id, *[pad_id] * (longest - length)])
        return Case(name, {"targets": torch.tensor(rows), "bos_id": bos_id}, **more)

    small = {"roles": frozenset({"small"})}
    B, T = draw.sizes(2, 4, 8)
    lengths = [T, *[draw.integer(2, T - 1) for _ in range(B - 1)]]
    return [
        case("a row and a shorter one", [4, 3], 0, 1, 2, **small),
        case("unequal lengths", lengths, 0, 1, 2, roles=frozenset({"typical"})),
        case("other ids", [3, 7, 5, 2, 6], 41, 17, 5),
        case("no padding", [5, 5, 5], 0, 1, 2),
        case("by name", [6, 4, 3], 9, 33, 0, options={"keywords": ("targets", "bos_id")}),
        case("one text", [6], 0, 1, 2, **small),
        case("as many texts as tokens", [4, 2, 3, 4], 0, 2, 1, **small),
        case("one token", [1, 1, 1], 0, 1, 2, **small),
    ]


def _oracle(targets: Tensor, bos_id: int) -> Tensor:
    return torch.tensor([[bos_id, *row[:-1]] for row in targets.tolist()])


def _begins(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"][:, 0] == case["bos_id"]).all())


def _moved(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"][:, 1:] == case["targets"][:, :-1]).all())


def _blind(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """At no place with a word as its label does the same word come in."""
    targets, out = case["targets"], seen.tensors["out"]
    words = targets != targets[:, -1:].amin()  # padding, where there is any, repeats
    return not bool(((out == targets) & words)[:, 1:].any())


TEACHER_FORCING = Exercise(
    id="teacher_forcing",
    lesson=LESSON,
    call="teacher_forcing(targets, bos_id)",
    points=0.5,
    cases=_cases,
    probe=FunctionProbe(),
    expect=expect_function(_oracle),
    reference=translation.teacher_forcing,
    properties=(
        Property(
            "blind",
            "No word comes in where it is asked for",
            _blind,
            role="typical",
        ),
        Property("begins", "Each row begins with bos_id", _begins, credit=True),
        Property("moved", "Behind it stand the targets, one place later", _moved, credit=True),
    ),
    misconceptions=Misconceptions.of(
        NotShifted,
        LastColumnKept,
        ShiftedToTheLeft,
        BosOverTheFirst,
        BosMissing,
        Smeared,
        m.ChangesItsInput.on(Forcing, what="The result is right, but the input was changed."),
        EosTakenOut,
        ShiftedTwice,
        BosBehind,
        SmearedBos,
        BosForPadding,
        ShiftedThroughTheBatch,
        ShiftedDown,
        ReversedOrder,
        AsFloats,
        on=Forcing,
    ),
    hints=(
        "Write the labels [5, 7, eos, pad], and above each what the decoder has said before it.",
        "`targets.new_full((B, 1), bos_id)` is a column of bos, and `targets[:, :-1]` all columns "
        "but the last. `torch.cat` puts one before the other along `dim=1`.",
    ),
    other_way="""\
# Moved in a circle, and the column that came round written over.
def teacher_forcing(targets, bos_id):
    moved = targets.roll(1, dims=1)  # a new tensor: targets stay as they are
    moved[:, 0] = bos_id
    return moved
""",
)
