"""Lesson 10, first part: a text is cut into windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from .. import language_model
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
from .kit.pairs import as_pair, kind_of
from .kit.steps import Refusing

LESSON = "4-transformer/10_tiny_lm"
PAIR = "a pair of tensors, (inputs, targets)"


# ---------------------------------------------------------------- sliding_windows


class PairProbe(FunctionProbe):
    """As `FunctionProbe`, for an answer that returns two tensors of one shape: `out` holds both."""

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        return as_pair(super().__call__(_stacked(answer), case), PAIR, "out")

    def glance(self, answer: Any, case: Case) -> Observation:
        return as_pair(super().glance(_stacked(answer), case), PAIR, "out")


def _stacked(answer: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        out = answer(*args, **named)
        if isinstance(out, Tensor) and (out.dim() == 0 or len(out) != 2):
            return kind_of("one tensor")
        if not isinstance(out, (tuple, list)):
            return out  # two in one, which can be taken apart as a pair can; or nothing of the kind
        if len(out) != 2 or not all(isinstance(part, Tensor) for part in out):
            what, parts = f"{type(out).__name__} of {len(out)}", out[:4]
            return _in_parts(what, [type(part).__name__ for part in parts])
        if out[0].shape != out[1].shape:
            return _in_parts("two tensors of different shapes", [tuple(part.shape) for part in out])
        if out[0].dtype != out[1].dtype:
            return _in_parts("two tensors of different dtypes", [str(part.dtype) for part in out])
        return torch.stack(tuple(out))

    return call


def _in_parts(said: str, parts: list[Any]) -> Any:
    return kind_of(f"{said}: {', '.join(map(str, parts))}" if parts else said)


class Windows(Refusing):
    """The right answer in steps."""

    shift = 1

    def __call__(self, ids, length, stride):
        if self.too_short(len(ids), length):
            self.complain(len(ids), length + 1)
        starts = self.starts(len(ids), length, stride)
        inputs = [self.cut(ids, start, length) for start in starts]
        targets = [self.cut(ids, start + self.shift, length) for start in starts]
        return self.answer(torch.stack(inputs), torch.stack(targets))

    def too_short(self, tokens, length):
        return tokens < length + 1

    def starts(self, tokens, length, stride):
        return range(0, tokens - length, stride)

    def cut(self, ids, start, length):
        return ids[start : start + length]

    def answer(self, inputs, targets):
        return inputs, targets


class TargetsEqualInputs(Mistake):
    """Targets equal inputs: nothing was moved.

    Why: The model would be asked for the token that it sees, and learn to copy.
    Mend: What should be said after the first token of a window? Where does that stand?
    """

    shift = 0


class TargetsTwoOn(Mistake):
    """Targets stand two to the right.

    Why: The token after the next would be learned, and a text is written one by one.
    Mend: By how much do the two slices differ?
    """

    shift = 2

    def starts(self, tokens, length, stride):
        return range(0, tokens - length - 1, stride) or range(1)

    def cut(self, ids, start, length):
        return super().cut(ids, min(start, len(ids) - length), length)


class InputsAndTargetsSwapped(Mistake):
    """Inputs and targets changed places: targets stand one to the *left*.

    Why: The model would learn to write backwards.
    Mend: Which of the two begins with the first token of the text?
    """

    def answer(self, inputs, targets):
        return targets, inputs


class StrideIgnored(Mistake):
    """Each window begins one after the last, whatever the stride.

    Why: Windows then overlap nearly all of their length, and an epoch takes `stride` times as long.
    Mend: `range` takes a step.
    """

    def starts(self, tokens, length, stride):
        return range(tokens - length)


class StrideIsLength(Mistake):
    """Windows stand side by side, whatever the stride.

    Why: The caller chooses how much windows overlap.
    Mend: From the begin of a window to the begin of the next: which number is that?
    """

    def starts(self, tokens, length, stride):
        return super().starts(tokens, length, length)


class StridePlusLength(Mistake):
    """`stride` was taken for the gap between windows.

    Why: Tokens in the gaps are never learned from.
    Mend: The stride goes from begin to begin, not from end to begin.
    """

    def starts(self, tokens, length, stride):
        return super().starts(tokens, length, length + stride)


class LastWindowForgotten(Mistake):
    """The last full window is missing where the text ends with it.

    Why: Text that was paid for is never learned from.
    Mend: Try 4 tokens and windows of 3: there is one. `range` leaves out its end.
    """

    def starts(self, tokens, length, stride):
        return range(0, tokens - length - 1, stride) or range(1)


def _without_the_last(self, tokens, length, stride):
    return range(0, tokens - length - 1, stride)


class OneWindowTooMany(Mistake):
    """Where the text ends with a window, that window has no token behind it for its last target.

    Why: The last targets are one short, and pieces of two lengths can't be stacked.
    Mend: A window and its targets are `length + 1` tokens. Where must it begin at the latest?
    """

    def starts(self, tokens, length, stride):
        return range(0, tokens - length + 1, stride)


class LastWindowPadded(Mistake):
    """A last window that the text doesn't fill was filled up.

    Why: Tokens that nobody wrote would be learned from.
    Mend: Only full windows: where must the last one begin at the latest?
    """

    def starts(self, tokens, length, stride):
        return range(0, tokens - 1, stride)

    def cut(self, ids, start, length):
        part = super().cut(ids, start, length)
        return torch.cat([part, part.new_zeros(length - len(part))])


class LastWindowMovedBack(Mistake):
    """Where the last window isn't full, one was taken from the end of the text.

    Why: It isn't a stride away from the one before; its tokens count twice.
    Mend: Only windows that begin at a multiple of the stride are asked.
    """

    def starts(self, tokens, length, stride):
        starts = [*super().starts(tokens, length, stride)]
        return starts if starts[-1] == tokens - length - 1 else [*starts, tokens - length - 1]


class WindowWithItsTarget(Mistake):
    """Windows of `length` were cut first and shifted afterwards, so each is one token short.

    Why: The last token of a window has a target too: the one behind the window.
    Mend: How many tokens must you cut out for `length` inputs and `length` targets?
    """

    def answer(self, inputs, targets):
        return inputs[:, :-1], inputs[:, 1:]


class OneTargetAWindow(Mistake):
    """There is one target a window, the token behind it.

    Why: A window teaches `length` things at once: each of its tokens has a next one.
    Mend: Inputs and targets have the same shape.
    """

    def answer(self, inputs, targets):
        return inputs, targets[:, -1]


class WindowsNotStacked(Mistake):
    """Lists were returned, or a list of pairs.

    Why: A model takes one tensor of `(N, length)`.
    Mend: `torch.stack` makes one of a list of tensors.
    """

    def answer(self, inputs, targets):
        return list(inputs), list(targets)


class TokensInRows(Mistake):
    """Windows stand side by side as columns.

    Why: Whoever takes row 0 for a window gets the first token of each.
    Mend: `(N, length)`: a row is a window.
    """

    def answer(self, inputs, targets):
        return inputs.T, targets.T


class NextWindowAsTarget(Mistake):
    """Each window's targets are the window a stride further on.

    Why: A token's target is the token right behind it, whatever the stride.
    Mend: By how many tokens should targets stand to the right?
    """

    def __call__(self, ids, length, stride):
        if self.too_short(len(ids), length):
            self.complain(len(ids), length + 1)
        starts = self.starts(len(ids), length, stride)
        inputs = torch.stack([self.cut(ids, start, length) for start in starts])
        return inputs, inputs.roll(-1, dims=0)


class TooShortLeftToPyTorch(Mistake):
    """A text that is too short is left to whatever error comes.

    Why: Whoever meets it has to guess what was too short, and by how much.
    Mend: Compare before you cut, and raise a ValueError with both numbers.
    """

    def too_short(self, tokens, length):
        return False


class NoRoomForTheTarget(Mistake):
    """A text as long as one window was not refused as too short.

    Why: The token behind the window is missing, and it is the last target.
    Mend: How many tokens are needed for one window and its targets?
    """

    def too_short(self, tokens, length):
        return tokens < length


class OneWindowRefused(Mistake):
    """A text that holds exactly one window and the token behind it was refused.

    Why: One full window is there.
    Mend: Which of `<` and `<=` says "too short"?
    """

    def too_short(self, tokens, length):
        return tokens <= length + 1


def _window_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, N: int, length: int, stride: int, roles: str = "", **more: Any) -> Case:
        ids = torch.randperm(10 * N + 3, generator=draw.generator)[:N]  # each once: it shows where
        inputs = {"ids": ids, "length": length, "stride": stride}
        return Case(name, inputs, roles=frozenset(roles.split()), **more)

    def refused(name: str, N: int, length: int, stride: int) -> Case:
        return case(name, N, length, stride, "small", refuses=(str(N), f"{length + 1}|{length}"))

    length, stride = draw.sizes(2, 3, 8)
    more = draw.integer(1, stride - 1)
    by_hand = Case(
        "six tokens by hand",
        {"ids": torch.tensor([7, 3, 5, 2, 8, 6]), "length": 3, "stride": 2},
        roles={"small"},
    )
    by_name = {"keywords": ("ids", "length", "stride")}
    return [
        by_hand,
        case("random tokens", length + 4 * stride + more, length, stride, "typical"),
        case(
            "the last window ends with the text", length + 3 * stride + 1, length, stride, "small"
        ),
        case("one token too few for the last", length + 3 * stride, length, stride, "small"),
        case("side by side", 26, 5, 5, "small", options=by_name),
        case("gaps between windows", 29, 3, 7),
        case("a stride of one", 13, 4, 1, "small"),
        case("one window and the token behind it", length + 1, length, stride, "small"),
        case("one window, a wide stride", length + 2, length, 40, "small"),
        case("windows of one token", 9, 1, 2, "small"),
        case("2,000 tokens", 2000, 50, 20, options={"once": True}),
        refused("as many tokens as a window", length, length, stride),
        refused("too few tokens", 4, 9, 2),
        refused("one token", 1, 3, 2),
    ]


def _window_oracle(ids: Tensor, length: int, stride: int) -> Tensor:
    rows, text, start = [], ids.tolist(), 0
    while start + length + 1 <= len(text):
        rows.append(text[start : start + length + 1])
        start += stride
    windows = torch.tensor(rows)
    return torch.stack([windows[:, :-1], windows[:, 1:]])


def _next_of_each(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Each target stands right behind its input in the text."""
    if case.refuses is not None:
        return None
    text = case["ids"].tolist()
    behind = dict(pairwise(text))
    inputs, targets = seen.tensors["out"].flatten(1).tolist()
    return all(behind.get(a) == b for a, b in zip(inputs, targets, strict=True))


def _inputs_right(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return None if case.refuses else bool((seen.tensors["out"][0] == expected["out"][0]).all())


def _runs_of_text(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Each row of either is a piece of the text."""
    text = case["ids"].tolist()
    pieces = {tuple(text[i : i + case["length"]]) for i in range(len(text))}
    return all(tuple(row) in pieces for row in seen.tensors["out"].flatten(0, 1).tolist())


SLIDING_WINDOWS = Exercise(
    id="sliding_windows",
    lesson=LESSON,
    call="sliding_windows(ids, length, stride)",
    points=1.0,
    cases=_window_cases,
    probe=PairProbe(),
    expect=expect_function(_window_oracle),
    reference=language_model.sliding_windows,
    returns=PAIR,
    properties=(
        Property(
            "pieces",
            "Each row, of inputs and of targets, is a piece of the text",
            _runs_of_text,
            gate=True,
            role="typical",
        ),
        Property("inputs", "The inputs are the right windows", _inputs_right, credit=True),
        Property(
            "next", "Each target is the token right behind its input", _next_of_each, credit=True
        ),
    ),
    misconceptions=Misconceptions.of(
        TargetsEqualInputs,
        LastWindowForgotten,
        LastWindowForgotten.but(starts=_without_the_last),
        OneWindowTooMany,
        StrideIgnored,
        LastWindowPadded,
        WindowWithItsTarget,
        NoRoomForTheTarget,
        InputsAndTargetsSwapped,
        TargetsTwoOn,
        StrideIsLength,
        StridePlusLength,
        LastWindowMovedBack,
        OneTargetAWindow,
        WindowsNotStacked,
        TokensInRows,
        NextWindowAsTarget,
        TooShortLeftToPyTorch,
        OneWindowRefused,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        on=Windows,
    ),
    hints=(
        "A window and its targets together are `length + 1` tokens in a row. Where does the first "
        "such piece begin, where the next, and where at the latest the last?",
        "`starts = range(0, len(ids) - length, stride)`. For each start, the inputs are "
        "`ids[start : start + length]`; the targets begin one further on. `torch.stack` joins "
        "them. First: `if len(ids) < length + 1: raise ValueError(…)` with both numbers.",
    ),
    other_way="""\
# `unfold` cuts all pieces of length + 1 at once, without copying anything.
def sliding_windows(ids, length, stride):
    if len(ids) < length + 1:
        raise ValueError(f"{len(ids)} tokens are fewer than {length + 1}: a window and one more")
    pieces = ids.unfold(0, length + 1, stride)  # (tokens,) -> (N, length + 1)
    return pieces[:, :-1], pieces[:, 1:]
""",
)
