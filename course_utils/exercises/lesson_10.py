"""Lesson 10: a small language model: windows, model, loss, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import language_model, transformer
from ..checking import (
    Case,
    Entry,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_function,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES
from ..checking.quizzes import quiz, slip
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.heads import linear_weights, projections
from .kit.steps import Refusing
from .lesson_10_sampling import GENERATE, NEXT_TOKEN_PROBABILITIES
from .lesson_10_training import TRAINING_STEP, NoShift, ShiftedBackwards, ShiftedTwice

LESSON = "4-transformer/10_tiny_lm"
PAIR = "a pair of tensors, (inputs, targets)"


# ---------------------------------------------------------------- sliding_windows


class PairProbe(FunctionProbe):
    """As `FunctionProbe`, for an answer that returns two tensors of one shape: `out` is both, one on
    the other."""

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        return _as_pair(super().__call__(_stacked(answer), case))

    def glance(self, answer: Any, case: Case) -> Observation:
        return _as_pair(super().glance(_stacked(answer), case))


def _stacked(answer: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        out = answer(*args, **named)
        if isinstance(out, Tensor) and (out.dim() == 0 or len(out) != 2):
            return _kind("one tensor", ())
        if not isinstance(out, (tuple, list)):
            return out  # two in one, which can be taken apart as a pair can; or nothing of the kind
        if len(out) != 2 or not all(isinstance(part, Tensor) for part in out):
            return _kind(f"{type(out).__name__} of {len(out)}", [type(p).__name__ for p in out[:4]])
        if out[0].shape != out[1].shape:
            return _kind("two tensors of different shapes", [tuple(part.shape) for part in out])
        if out[0].dtype != out[1].dtype:
            return _kind("two tensors of different dtypes", [str(part.dtype) for part in out])
        return torch.stack(tuple(out))

    return call


def _kind(said: str, parts: Any) -> Any:
    """Something whose class tells what came."""
    name = f"{said}: {', '.join(map(str, parts))}" if len(parts) else said
    return type(name, (), {})()


def _as_pair(seen: Observation) -> Observation:
    kinds = seen.facts.get("types", {})
    if kinds.get("out") == "Tensor":
        kinds["out"] = PAIR
    return seen


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
        return case(name, N, length, stride, "small", refuses=(str(N), f"{length}|{length + 1}"))

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
    behind = dict(zip(text, text[1:], strict=False))
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
            "pieces", "Each window is a piece of the text", _runs_of_text, gate=True, role="typical"
        ),
        Property("inputs", "The inputs are the right windows", _inputs_right, credit=True),
        Property(
            "next", "Each target is the token right behind its input", _next_of_each, credit=True
        ),
    ),
    misconceptions=Misconceptions.of(
        TargetsEqualInputs,
        LastWindowForgotten,
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


# ---------------------------------------------------------------- next_token_loss


class NextTokenLoss:
    """The right answer in steps."""

    def __call__(self, logits, ids, pad_id=None):
        logits, targets = self.shifted(logits, ids)
        counted = self.counted(targets, ids, pad_id)
        self.refuse(counted)
        return self.answer(self.mean(self.losses(self.logs(logits), targets), counted))

    def shifted(self, logits, ids):
        return logits[:, :-1], ids[:, 1:]

    def counted(self, targets, ids, pad_id):
        return targets == targets if not self.given(pad_id) else self.real(targets, ids, pad_id)

    def given(self, pad_id):
        return pad_id is not None

    def real(self, targets, ids, pad_id):
        return targets != pad_id

    def refuse(self, counted):
        if not counted.any():
            self.complain()

    def complain(self):
        raise ValueError("no token to predict")

    def logs(self, logits):
        return torch.log_softmax(logits, dim=-1)

    def losses(self, logs, targets):
        return -logs.gather(-1, targets[..., None])[..., 0]

    def mean(self, losses, counted):
        return losses[counted].mean()

    def answer(self, loss):
        return loss


class PaddingCounted(Mistake):
    """Padding counts as a token to predict.

    Why: The model learns to write padding, and the loss falls with every padded place.
    Mend: Which *targets* are padding? Leave them out of the mean.
    """

    def real(self, targets, ids, pad_id):
        return targets == targets


class PaddedInputsLeftOut(Mistake):
    """Places were left out whose *input* is padding, not those whose target is.

    Why: The last real token is then asked for padding.
    Mend: After the shift, which of the two tensors holds what is to be predicted?
    """

    def real(self, targets, ids, pad_id):
        return ids[:, : targets.shape[1]] != pad_id


class PaddingInTheDivisor(Mistake):
    """The losses at padding were cleared, but the sum was divided by all places.

    Why: The more padding, the smaller the loss, for the same predictions.
    Mend: Divide by the number of targets that count.
    """

    def mean(self, losses, counted):
        return (losses * counted).sum() / counted.numel()


class MeanOverRows(Mistake):
    """Each row was averaged for itself, and then the rows.

    Why: A token in a short text then counts more than one in a long text.
    Mend: All targets that count lie in one bag: their sum, divided by their number.
    """

    def mean(self, losses, counted):
        return ((losses * counted).sum(-1) / counted.sum(-1).clamp(min=1)).mean()


class ZeroIsNoPadding(Mistake):
    """A `pad_id` of 0 was taken for none: `if pad_id:` is false for 0, too.

    Why: 0 is the most usual number for padding.
    Mend: Ask `is not None`.
    """

    def given(self, pad_id):
        return bool(pad_id)


class ZeroAlwaysPadding(Mistake):
    """Tokens of id 0 are left out, whatever `pad_id` says.

    Why: Without a `pad_id`, 0 is a word like any other.
    Mend: Compare with `pad_id`, and only where there is one.
    """

    def counted(self, targets, ids, pad_id):
        return super().counted(targets, ids, pad_id) & (targets != 0)


class OnlyOnePadding(Mistake):
    """Everything behind the first padding of a row was left out, or everything up to it.

    Why: Padding may stand in front, too.
    Mend: Look at each target by itself.
    """

    def real(self, targets, ids, pad_id):
        return (targets == pad_id).cumsum(-1) == 0


class LossesAdded(Mistake):
    """The losses were added up.

    Why: The sum grows with the batch; a mean can be compared with log V.
    Mend: Divide by the number of targets that count.
    """

    def mean(self, losses, counted):
        return losses[counted].sum()


class LossesNotReduced(Mistake):
    """There is a loss for each token; the mean is missing.

    Why: `backward` starts from one number.
    Mend: A 0-d tensor is asked.
    """

    def mean(self, losses, counted):
        return losses * counted


class SignMissing(Mistake):
    """The sign is missing: the result is negative.

    Why: Going downhill on it makes the right token ever less likely.
    Mend: The log of a probability is at most 0. Which number should get smaller?
    """

    def losses(self, logs, targets):
        return -super().losses(logs, targets)


class LogMissing(Mistake):
    """Probabilities were averaged, without their log.

    Why: Where a model is sure and wrong, its gradient is next to nothing.
    Mend: `-log(p)` for each token, then the mean.
    """

    def losses(self, logs, targets):
        return super().losses(-logs.exp(), targets).neg().add(1)


class SoftmaxBefore(Mistake):
    """Probabilities went into `cross_entropy`, which takes a softmax itself.

    Why: A softmax of numbers between 0 and 1 is nearly flat: the loss can't fall far.
    Mend: `F.cross_entropy` wants logits.
    """

    def logs(self, logits):
        return super().logs(torch.softmax(logits, dim=-1))


class OverTokens(Mistake):
    """The softmax runs over the tokens, not over the vocabulary.

    Why: The tokens of a text then compete for one word.
    Mend: In `(B, T, V)`, which dimension holds the words? `F.cross_entropy` takes the second.
    """

    def logs(self, logits):
        return torch.log_softmax(logits, dim=1)


class LogitsScrambled(Mistake):
    """Logits were transposed on the way to `(N, V)`, and rows no longer belong to their targets.

    Why: The shape is right, and each token gets the logits of others.
    Mend: `flatten(0, 1)` joins batch and tokens as they stand.
    """

    def shifted(self, logits, ids):
        logits, targets = super().shifted(logits, ids)
        B, T, V = logits.shape
        return logits.transpose(0, 1).reshape(B, T, V), targets


class LogitsAsTheyAre(Mistake):
    """The logits themselves were averaged: there is no softmax.

    Why: All logits could grow together for ever, and nothing would be more likely than before.
    Mend: `F.cross_entropy` takes the softmax, and its log, for you.
    """

    def logs(self, logits):
        return logits


class InBits(Mistake):
    """The logarithm is to the base 2.

    Why: Losses here are in nats, so that exp(loss) is the perplexity and log V the start.
    Mend: `torch.log` and `log_softmax` are to the base e.
    """

    def answer(self, loss):
        return loss / torch.log(torch.tensor(2.0, dtype=loss.dtype))


class PerplexityReturned(Mistake):
    """The exponential of the loss was returned: the perplexity.

    Why: Gradients of it are as large as the model is bad, and steps with them are wild.
    Mend: Return the mean itself.
    """

    def answer(self, loss):
        return loss.exp()


class LastPredictionOnly(Mistake):
    """Only the last prediction of each text counts.

    Why: A window of T tokens teaches T - 1 things at once; this uses one.
    Mend: All targets of a row count.
    """

    def shifted(self, logits, ids):
        return logits[:, -2:-1], ids[:, -1:]


class NumberReturned(Mistake):
    """A plain number was returned.

    Why: `backward` needs the tensor that knows where it came from.
    Mend: Leave out `.item()`.
    """

    def answer(self, loss):
        return loss.item()


class NothingToPredict(Mistake):
    """Where there is no target, something was returned all the same.

    Why: The mean of nothing is NaN, and one step with it makes every weight NaN.
    Mend: Count the targets first; if there are none, raise a ValueError.
    """

    def refuse(self, counted):
        pass


def _zero_of_nothing(self, losses, counted):
    return (losses * counted).sum() / counted.sum().clamp(min=1)


class RefusedByAnother(Mistake):
    """Where there is no target, the error is no ValueError.

    Why: An `assert` is left out when Python runs with `-O`, and whoever calls catches ValueErrors.
    Mend: `raise ValueError(…)`.
    """

    def complain(self):
        raise AssertionError("no token to predict")


class PaddedTextsRefused(Mistake):
    """A batch was refused because *one* of its texts has nothing to predict.

    Why: The others have, and the mean is over tokens.
    Mend: Refuse only where the whole batch has no target.
    """

    def refuse(self, counted):
        if not counted.any(-1).all():
            self.complain()


def _loss_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, ...] = (),
        pad_id: int | None = None,
        padded: str = "",
        roles: str = "",
        scale: float = 2.0,
        dtype: torch.dtype = torch.float32,
        **more: Any,
    ) -> Case:
        B, T, V = sizes or draw.sizes(3, 3, 9)
        logits = scale * draw.normal(B, T, V, dtype=dtype)
        ids = torch.randint(V, (B, T), generator=draw.generator)
        if pad_id is not None:
            ids[ids == pad_id] = (pad_id + 1) % V
            ids = ids.masked_fill(_padding(draw, padded, B, T), pad_id)
        inputs = {"logits": logits, "ids": ids} | ({} if pad_id is None else {"pad_id": pad_id})
        return Case(name, inputs, roles=frozenset(roles.split()), **more)

    two = torch.tensor([[[0.0, 0.0], [0.0, 1.0], [5.0, 0.0]]])
    by_hand = {"logits": two, "ids": torch.tensor([[0, 1, 1]])}
    turned = case("not contiguous in memory", (4, 5, 7), 1, "behind", "padded")
    turned.inputs["logits"] = turned["logits"].mT.contiguous().mT  # type: ignore[index]
    by_name = {"keywords": ("logits", "ids", "pad_id")}
    nothing = (5, 4, 6)
    return [
        Case("three tokens by hand", by_hand, roles={"small"}),
        case("no padding", roles="typical"),
        case("padding behind", (5, 7, 6), 3, "behind", "padded"),
        case("padding in front", (4, 6, 5), 2, "front", "padded"),
        case("padding anywhere, named 0", (6, 8, 7), 0, "anywhere", "padded"),
        case("a text of nothing but padding", (4, 7, 5), 4, "one text", "padded"),
        case("a pad_id that doesn't occur", (3, 5, 8), 6, "none"),
        case("tokens of id 0, no pad_id", (6, 5, 2), roles="small"),
        case("two tokens", (5, 2, 7), roles="small"),
        case("one text", (1, 6, 4), roles="small"),
        case(
            "float64, by name",
            (3, 6, 4),
            1,
            "behind",
            "padded",
            2.0,
            torch.float64,
            options=by_name,
        ),
        case("logits of thousands", (3, 4, 5), scale=3000.0),
        turned,
        case("as many tokens as words", (6, 6, 6), 2, "behind", "small padded"),
        case("600 words", (3, 5, 600), options={"once": True}),
        case("one token each", (4, 1, 6), roles="small", refuses=()),
        case("padding only", nothing, 3, "all", "small", refuses=()),
        case("one token each, then padding", nothing, 2, "all but the first", "small", refuses=()),
    ]


def _padding(draw: Draw, where: str, B: int, T: int) -> Tensor:
    """`(B, T)`, `True` at padding; each text keeps at least two tokens, and one is full."""
    lengths = torch.randint(2, T + 1, (B,), generator=draw.generator)
    lengths[draw.integer(0, B - 1)] = T
    lengths[draw.integer(0, B - 1)] = 2
    behind = torch.arange(T) >= lengths[:, None]
    if where == "one text":
        behind[draw.integer(0, B - 1)] = True
    some = torch.rand(B, T, generator=draw.generator) < 0.4
    some[0, :2] = torch.tensor([True, False])
    some[1, -2:] = torch.tensor([False, True])
    return {
        "behind": behind,
        "one text": behind,
        "front": behind.flip(1),
        "anywhere": some,
        "none": torch.zeros(B, T, dtype=torch.bool),
        "all": torch.ones(B, T, dtype=torch.bool),
        "all but the first": torch.arange(T).expand(B, T) > 0,
    }[where]


def _loss_oracle(logits: Tensor, ids: Tensor, pad_id: int | None = None) -> Tensor:
    targets = ids[:, 1:]
    targets = targets if pad_id is None else targets.masked_fill(targets == pad_id, -100)
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets, ignore_index=-100)


def _see_others(answer: Any, case: Case, seen: Observation) -> None:
    """More calls: other last logits, other logits at padding, all logits higher, better ones."""

    def call(logits: Tensor) -> Any:
        return answer(fresh(logits), *map(fresh, list(case.inputs.values())[1:]))

    logits = case["logits"].clone()
    if "typical" in case.roles:
        logits[:, -1] += draw_like(logits[:, -1])
        seen.put("other end", call(logits))
        seen.put("all higher", call(case["logits"] + 3.0))
        better = case["logits"].clone()
        better[:, :-1].scatter_add_(-1, case["ids"][:, 1:, None], torch.full_like(better, 2.0))
        seen.put("better", call(better))
    if "padded" in case.roles:
        silent = (case["ids"][:, 1:] == case["pad_id"])[..., None]
        logits[:, :-1] += draw_like(logits[:, :-1]) * silent
        seen.put("other at padding", call(logits))


def draw_like(x: Tensor) -> Tensor:
    return Draw(5).normal(*x.shape, dtype=x.dtype)


def _as_before(name: str) -> Callable[[Case, Observation, Expected], Verdict]:
    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return near(seen.tensors["out"], seen.tensors[name])

    return holds


def _better_is_less(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.tensors["better"] < seen.tensors["out"] - 1e-4)


NEXT_TOKEN_LOSS = Exercise(
    id="next_token_loss",
    lesson=LESSON,
    call="next_token_loss(logits, ids, pad_id=None)",
    points=1.5,
    cases=_loss_cases,
    probe=FunctionProbe(gradients=("logits",), extra=_see_others),
    expect=expect_function(_loss_oracle, gradients=("logits",)),
    reference=language_model.next_token_loss,
    properties=(
        Property(
            "better",
            "It falls when the tokens that come next get likelier",
            _better_is_less,
            gate=True,
            role="typical",
        ),
        Property(
            "end",
            "The last logits, which nothing follows, have no say",
            _as_before("other end"),
            credit=True,
            role="typical",
        ),
        Property(
            "higher",
            "Adding one number to all logits changes nothing",
            _as_before("all higher"),
            credit=True,
            role="typical",
        ),
        Property(
            "padding",
            "What is foretold for padding has no say",
            _as_before("other at padding"),
            credit=True,
            role="padded",
        ),
    ),
    misconceptions=Misconceptions.of(
        NoShift,
        ShiftedBackwards,
        ShiftedTwice,
        PaddingCounted,
        MeanOverRows,
        PaddedInputsLeftOut,
        PaddingInTheDivisor,
        ZeroIsNoPadding,
        NothingToPredict,
        NothingToPredict.but(mean=_zero_of_nothing),
        ZeroAlwaysPadding,
        OnlyOnePadding,
        LossesAdded,
        LossesNotReduced,
        SignMissing,
        LogMissing,
        SoftmaxBefore,
        OverTokens,
        LogitsScrambled,
        LogitsAsTheyAre,
        InBits,
        PerplexityReturned,
        LastPredictionOnly,
        NumberReturned,
        RefusedByAnother,
        PaddedTextsRefused,
        m.ChangesItsInput.but(
            __call__=lambda self, logits, ids, pad_id=None: _filled(logits, ids, pad_id)
        ).on(NextTokenLoss, what="The result is right, but padding was written over in `ids`."),
        m.Float32Result,
        m.CutOff,
        on=NextTokenLoss,
    ),
    hints=(
        "Logits at t are about the token at t + 1. Which logits have a target, and which tokens "
        "are one? Then `F.cross_entropy` wants `(N, V)` and `(N,)`.",
        "`logits[:, :-1]` against `ids[:, 1:]`; `flatten(0, 1)` and `flatten()` bring them to `(N, V)` "
        "and `(N,)`. Keep those with `targets != pad_id`; none left: ValueError.",
    ),
    other_way="""\
# `cross_entropy` leaves out a target by itself. But the mean of nothing is NaN: refuse it first.
def next_token_loss(logits, ids, pad_id=None):
    targets = ids[:, 1:]
    if pad_id is not None:
        targets = targets.masked_fill(targets == pad_id, -100)
    if not (targets != -100).any():
        raise ValueError(f"no token to predict in ids of shape {tuple(ids.shape)}")
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets, ignore_index=-100)
""",
)


def _filled(logits: Tensor, ids: Tensor, pad_id: int | None) -> Tensor:
    loss = NextTokenLoss()(logits, ids, pad_id)
    if pad_id is not None:
        ids[ids == pad_id] = -100
    return loss


# ---------------------------------------------------------------- TinyLM


class Model(Refusing, nn.Module):
    """The right answer in steps."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        self.blocks = self.listed(
            [
                self.block(d_model, num_heads, context_length, dropout)
                for _ in range(self.layers(num_layers))
            ]
        )
        self.norm = self.last_norm(d_model)
        self.head = self.last_layer(d_model, vocab_size)

    def block(self, d_model, num_heads, context_length, dropout):
        return transformer.TransformerBlock(d_model, num_heads, context_length, self.rate(dropout))

    def rate(self, dropout):
        return dropout

    def layers(self, num_layers):
        return num_layers

    def listed(self, blocks):
        return nn.ModuleList(blocks)

    def last_norm(self, d_model):
        return transformer.LayerNorm(d_model)

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        return self.result(self.read(self.through(self.embedded(self.accepted(ids)))))

    def accepted(self, ids):
        if self.too_many(ids.shape[1], self.context_length):
            self.complain(ids.shape[1], self.context_length)
        return ids

    def embedded(self, ids):
        return self.embed(ids)

    def through(self, x):
        for block in self.blocks:
            x = self.passed(block, x)
        return x

    def passed(self, block, x):
        return block(x)

    def read(self, x):
        return self.head(self.norm(x))

    def result(self, logits):
        return logits


class NormNotUsed(Mistake):
    """The last norm is made and never called.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: Between the last block and `head`, who brings each token to one size?
    """

    def read(self, x):
        return self.head(x)


class NormNotMade(Mistake):
    """There is no last norm.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: `self.norm = transformer.LayerNorm(d_model)`, between the last block and `head`.
    """

    def last_norm(self, d_model):
        return None

    def read(self, x):
        return self.head(x)


class NormOfPyTorch(Mistake):
    """The last norm is PyTorch's own, which calls its parameters `weight` and `bias`.

    Why: Weights of a model are loaded by name.
    Mend: The course's `transformer.LayerNorm` has `scale` and `shift`.
    """

    def last_norm(self, d_model):
        return nn.LayerNorm(d_model)


class NormBeforeTheBlocks(Mistake):
    """The norm stands before the blocks, not after them.

    Why: What the blocks add is left as large as it comes, and `head` gets it so.
    Mend: Pre-LN leaves the end of the stream without a norm: that is where this one belongs.
    """

    def through(self, x):
        return super().through(self.norm(x))

    def read(self, x):
        return self.head(x)


class NormAfterEachBlock(Mistake):
    """The last norm is called after each block.

    Why: The free way from input to output is gone, and all places share one scale.
    Mend: Once, after the loop: look at the indentation.
    """

    def passed(self, block, x):
        return self.norm(block(x))

    def read(self, x):
        return self.head(x)


class HeadWithBias(Mistake):
    """`head` has a bias.

    Why: Weights of a model that has none don't say what it should be.
    Mend: `bias=False`.
    """

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size)


class HeadTied(Mistake):
    """`head` uses the weight of the token embedding.

    Why: GPT-2 does; here they are two tables, so whoever sets one would change the other.
    Mend: Leave out the line that assigns one weight to the other.
    """

    def last_layer(self, d_model, vocab_size):
        head = super().last_layer(d_model, vocab_size)
        head.weight = self.embed.token.weight
        return head


class OneBlockForAll(Mistake):
    """All layers are one and the same block: `[block] * n` repeats it.

    Why: The model learns as much as one layer can hold, however many there are.
    Mend: Make a new block for each layer: `TransformerBlock(…) for _ in range(num_layers)`.
    """

    def listed(self, blocks):
        return nn.ModuleList([blocks[0]] * len(blocks))


class FirstBlockOnly(Mistake):
    """Only one of the blocks is used.

    Why: The others never learn.
    Mend: What does the loop call, and with what?
    """

    def through(self, x):
        return self.blocks[0](x)


class EachBlockFromTheStart(Mistake):
    """Each block gets the embedding, and only the last one's result counts.

    Why: The others never learn; the model is one layer deep.
    Mend: `x = block(x)`: the next block goes on where the last one ended.
    """

    def through(self, x):
        for block in self.blocks:
            out = block(x)
        return out


class LastBlockLeftOut(Mistake):
    """The last block is never called.

    Why: It never learns, and the model is one layer less deep.
    Mend: How often does your loop run?
    """

    def through(self, x):
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class BlocksInReverse(Mistake):
    """The blocks are called from the last to the first.

    Why: Weights of a trained model belong to places.
    Mend: `for block in self.blocks` goes from the first to the last.
    """

    def through(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


class AddedAgain(Mistake):
    """What goes into a block is added to what comes out of it.

    Why: A block has its residuals inside; added again, the stream doubles with every layer.
    Mend: `x = block(x)`.
    """

    def passed(self, block, x):
        return x + block(x)


class BlocksInAPlainList(Mistake):
    """The blocks sit in a plain Python list.

    Why: PyTorch doesn't see into it: no optimizer, no `.to(device)` and no saving finds them.
    Mend: `nn.ModuleList` is a list that PyTorch sees into.
    """

    def listed(self, blocks):
        return list(blocks)


class AllInOneSequential(Mistake):
    """All parts sit in one `nn.Sequential`, where their names are numbers.

    Why: Weights are loaded by name: `embed`, `blocks`, `norm`, `head`.
    Mend: Give each part a name of its own; only the blocks are a list.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.model = nn.Sequential(self.embed, *self.blocks, self.norm, self.head)
        del self.embed, self.blocks, self.norm, self.head

    def forward(self, ids):
        return self.model(self.accepted(ids))


class EmbeddingWithoutPositions(Mistake):
    """`embed` is a table of tokens alone; there are no positions.

    Why: Attention can't tell "dog bites man" from "man bites dog".
    Mend: `transformer.TokenAndPosition` holds both tables.
    """

    def __init__(self, vocab_size, d_model, *args, **named):
        super().__init__(vocab_size, d_model, *args, **named)
        self.embed = nn.Embedding(vocab_size, d_model)


class PositionsNotAdded(Mistake):
    """Only the token table is read; positions are made and never added.

    Why: Attention can't tell "dog bites man" from "man bites dog".
    Mend: Call `self.embed(ids)`; it adds them itself.
    """

    def embedded(self, ids):
        return self.embed.token(ids)


class PositionsAddedTwice(Mistake):
    """Positions are added twice: `embed` does it already.

    Why: Where a token stands then drowns what it says.
    Mend: `self.embed(ids)` is all.
    """

    def embedded(self, ids):
        return self.embed(ids) + self.embed.position.weight[: ids.shape[1]]


class EmbeddingScaled(Mistake):
    """The embedding was multiplied by the root of the width.

    Why: The first transformer did; GPT-2 and this model don't.
    Mend: `x = self.embed(ids)`, as it comes.
    """

    def embedded(self, ids):
        return self.embed(ids) * self.embed.token.embedding_dim**0.5


class EmbeddingArgumentsSwapped(Mistake):
    """`TokenAndPosition` got its sizes in another order.

    Why: Its tables have other shapes than the model needs.
    Mend: `TokenAndPosition(vocab_size, context_length, d_model)`.
    """

    def __init__(self, vocab_size, d_model, num_heads, context_length, *args, **named):
        super().__init__(vocab_size, d_model, num_heads, context_length, *args, **named)
        self.embed = transformer.TokenAndPosition(vocab_size, d_model, context_length)


class DropoutForgotten(Mistake):
    """`dropout` never reaches the blocks.

    Why: The model trains without it, whatever the caller asked for.
    Mend: Pass it on to each `TransformerBlock`.
    """

    def rate(self, dropout):
        return 0.0


class DropoutFixedInBlocks(Mistake):
    """The blocks have a dropout of their own, whatever the caller asks for.

    Why: With `dropout=0.0` training should be as exact as evaluation.
    Mend: Pass the constructor's argument on.
    """

    def rate(self, dropout):
        return 0.1


class DropoutOutside(Mistake):
    """Something is dropped outside the blocks, too.

    Why: Each block drops its own; what `head` gives are the logits, and they are wanted whole.
    Mend: `dropout` goes to the blocks, and nowhere else.
    """

    def rate(self, dropout):
        self.p = dropout
        return dropout

    def result(self, logits):
        return F.dropout(logits, self.p, self.training)


class ArgumentsInAnotherOrder(Mistake):
    """The constructor takes its arguments in another order.

    Why: Whoever passes them by position gets another model, or none.
    Mend: Compare the order with the one that was given: …, context_length, num_layers, dropout.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, context_length, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)


class ContextLengthNotKept(Mistake):
    """The model has no `context_length`.

    Why: Whoever generates text must know how much of it the model can see.
    Mend: `self.context_length = context_length`.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.limit = self.context_length
        del self.context_length

    def accepted(self, ids):
        if ids.shape[1] > self.limit:
            self.complain(ids.shape[1], self.limit)
        return ids


class LongTextTail(Mistake):
    """Of a text that is too long the last tokens were taken, without a word.

    Why: The caller gets logits for fewer tokens than they gave.
    Mend: Refuse it: raise a ValueError with both numbers. Cropping is what `generate` does.
    """

    def accepted(self, ids):
        return ids[:, -self.context_length :]


class ProbabilitiesReturned(Mistake):
    """Probabilities are returned: there is a softmax at the end.

    Why: `cross_entropy` takes the softmax itself, and twice is nearly flat.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.softmax(logits, dim=-1)


class LogsReturned(Mistake):
    """The logs of probabilities are returned: there is a log-softmax at the end.

    Why: The loss wouldn't notice, but these are not the logits of the model that was asked for.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.log_softmax(logits, dim=-1)


class LastLogitsOnly(Mistake):
    """Only the logits of the last token are returned.

    Why: In training every position foretells its next token.
    Mend: `(B, T, V)` is asked.
    """

    def result(self, logits):
        return logits[:, -1]


class StreamReturned(Mistake):
    """What the last norm gives is returned; `head` is never called.

    Why: Numbers of width C are no scores of words.
    Mend: One layer is left: from `d_model` to `vocab_size`.
    """

    def read(self, x):
        return self.norm(x)


def _model_weights(
    draw: Draw, V: int, C: int, context: int, L: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Weights of a model by name; none of them is 0 or 1."""

    def norm(name: str) -> dict[str, Tensor]:
        scale, shift = 1 + draw.normal(C, dtype=dtype) / 3, draw.normal(C, dtype=dtype) / 3
        return {f"{name}.scale": scale, f"{name}.shift": shift}

    weights = {
        "embed.token.weight": draw.normal(V, C, dtype=dtype),
        "embed.position.weight": draw.normal(context, C, dtype=dtype) / 2,
    }
    for layer in range(L):
        block = (
            norm("norm1")
            | {f"attention.{n}": w for n, w in projections(draw, C, C, False, dtype).items()}
            | linear_weights(draw, "attention.out_proj", C, C, True, dtype)
            | norm("norm2")
            | linear_weights(draw, "feed_forward.expand", C, 4 * C, True, dtype)
            | linear_weights(draw, "feed_forward.contract", 4 * C, C, True, dtype)
        )
        weights |= {f"blocks.{layer}.{name}": w for name, w in block.items()}
    return weights | norm("norm") | linear_weights(draw, "head", C, V, False, dtype)


def _model_oracle(case: Case, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """PyTorch's own operators, one after the other."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.shift"])

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    H, L = case.options["heads"], case.options["layers"]
    x = F.embedding(ids, weights["embed.token.weight"])
    x = x + weights["embed.position.weight"][: ids.shape[1]]
    for block in (f"blocks.{layer}" for layer in range(L)):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{n}", normed).unflatten(-1, (H, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(f"{block}.attention.out_proj", context.transpose(1, 2).flatten(2))
        wide = F.gelu(
            linear(f"{block}.feed_forward.expand", norm(f"{block}.norm2", x)), approximate="tanh"
        )
        x = x + linear(f"{block}.feed_forward.contract", wide)
    return F.linear(norm("norm", x), weights["head.weight"])


def _model_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, ...] = (),
        *,
        made: str = "",
        roles: str = "",
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
        once: bool = False,
        refuses: tuple[str, ...] | None = None,
        train: bool = False,
    ) -> Case:
        """Sizes are B, T, V, H, D, context_length, L."""
        B, T, V, H, D, context, L = sizes or _seven(draw)
        ids = torch.randint(V, (B, T), generator=draw.generator)
        named: dict[str, Any] = {
            "vocab_size": V,
            "d_model": H * D,
            "num_heads": H,
            "context_length": context,
            "num_layers": L,
        }
        options: dict[str, Any] = {"args": tuple(named.values()), "kwargs": {}}
        if made == "by name":
            options = {"args": (), "kwargs": named | {"dropout": 0.0}}
        if dropout:
            options["kwargs"] = {"dropout": dropout}
        options |= {"heads": H, "layers": L, "dtype": dtype, "once": once, "train": train}
        if refuses is None:
            options["weights"] = _model_weights(draw, V, H * D, context, L, dtype)
        if "typical" in roles:
            options["others"] = [((V + 1, H * D, H, 1, 1), {"dropout": 0.9})]
        return Case(name, {"ids": ids}, refuses, options, frozenset(roles.split()))

    limit = draw.integer(14, 17)

    def too_long(name: str, T: int, train: bool = False) -> Case:
        sizes = (3, T, 11, 2, 4, limit, 5)
        return case(name, sizes, refuses=(str(T), str(limit)), train=train)

    return [
        case("three tokens, one layer, one head", (1, 3, 5, 1, 2, 3, 1), roles="small"),
        case("random tokens", roles="typical"),
        case("float64, made by name", dtype=torch.float64, made="by name"),
        case("as many tokens as fit, two layers", (3, 7, 11, 2, 4, 7, 2), roles="small device"),
        case("one token", (6, 1, 7, 3, 3, 5, 2), roles="small"),
        case("dropout", (5, 8, 13, 2, 3, 9, 2), dropout=0.4, roles="dropout small"),
        case(
            "300 texts, 50 words, four layers", (300, 3, 50, 2, 4, 7, 4), once=True, roles="small"
        ),
        too_long("one token too many", limit + 1),
        too_long("one token too many, in training", limit + 1, train=True),
        too_long("twice as many tokens as fit", 2 * limit),
    ]


def _seven(draw: Draw) -> tuple[int, ...]:
    """B, T, V, H, D, context_length and L, all different, and so are the widths H D and 4 H D."""
    while True:
        B, T, V, H, D, L = draw.sizes(6, 2, 10)
        context = T + draw.integer(1, 5)
        every = {B, T, V, H, D, L, context, H * D, 4 * H * D}
        if len(every) == 9 and T >= 4 and H * D <= 14 and L <= 3 and V >= 4:
            return B, T, V, H, D, context, L


def _see_model(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More calls: another last token, one token everywhere, draws of dropout; what it keeps."""
    ids = case["ids"]
    if "typical" in case.roles:
        V = case.options["args"][0]
        changed = ids.clone()
        changed[:, -1] = (changed[:, -1] + 1) % V
        first = ids.clone()
        first[:, 0] = (first[:, 0] + 1) % V
        model = make()
        with torch.no_grad():
            for name, other in (("changed", changed), ("first", first)):
                seen.put(name, model(other))
            seen.put("same", model(ids[:, :1].expand_as(ids)))
            seen.put("short", model(ids[:1, :2]))
        seen.traits["context_length"] = getattr(model, "context_length", None)
        others = {type(x).__name__ for x in vars(model).values() if isinstance(x, Tensor)}
        seen.traits["loose"] = sorted(others)
    if "dropout" in case.roles:
        _see_draws(make, case, seen)


def _see_draws(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    model = make(as_made=True)
    rates = [x.p for x in model.modules() if isinstance(x, nn.Dropout)]
    set_seed(1)
    one = model(fresh(case["ids"]))
    set_seed(2)
    other = model(fresh(case["ids"]))
    for block in model.blocks:
        for part in block.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    quiet = model(fresh(case["ids"]))
    still = seen.tensors["out"]
    seen.traits["rates"] = sorted({round(p, 6) for p in rates})
    seen.traits["draws"] = bool(isinstance(one, Tensor) and not near(one.cpu(), other.cpu()))
    seen.traits["only blocks"] = bool(
        isinstance(quiet, Tensor) and near(quiet.detach().cpu(), still)
    )


def _dropped(case: Case, seen: Observation, expected: Expected) -> Verdict:
    traits = seen.traits
    if not traits["draws"]:
        return "drops nothing"
    if traits["rates"] != [case.options["kwargs"]["dropout"]]:
        return f"drops with probability {', '.join(map(str, traits['rates']))}"
    return traits["only blocks"] or "drops something outside the blocks too"


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, :-1], seen.tensors["changed"][:, :-1])


def _knows_places(case: Case, seen: Observation, expected: Expected) -> Verdict:
    same = seen.tensors["same"]
    return not near(same[:, 1:], same[:, :-1])


def _any_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["short"], seen.tensors["out"][:1, :2])


def _has_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["context_length"] == case.options["args"][3])


TINY_LM = Exercise(
    id="TinyLM",
    lesson=LESSON,
    call="TinyLM(vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0)",
    points=2.0,
    kind="class",
    cases=_model_cases,
    probe=ModuleProbe(gradients=(), watch=False, extra=_see_model),
    expect=expect_module(_model_oracle, gradients=()),
    reference=language_model.TinyLM,
    properties=(
        Property(
            "listens", "A token hears the tokens before it", _listens, gate=True, role="typical"
        ),
        Property(
            "no_future",
            "A later token has no say in an earlier one",
            _no_future,
            credit=True,
            role="typical",
        ),
        Property(
            "places",
            "Where a token stands makes a difference",
            _knows_places,
            credit=True,
            role="typical",
        ),
        Property(
            "any_length",
            "Short texts come out as their longer ones begin",
            _any_length,
            credit=True,
            role="typical",
        ),
        Property(
            "context_length",
            "`context_length` says how many tokens fit",
            _has_length,
            secondary=True,
            role="typical",
        ),
        Property(
            "dropout",
            "In training the blocks drop with the probability that was asked for, and nothing else "
            "does",
            _dropped,
            secondary=True,
            role="dropout",
        ),
        *MODULE_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        NormNotUsed,
        NormNotMade,
        HeadWithBias,
        HeadTied,
        OneBlockForAll,
        BlocksInAPlainList,
        AllInOneSequential,
        PositionsNotAdded,
        EmbeddingWithoutPositions,
        DropoutForgotten,
        NormOfPyTorch,
        NormBeforeTheBlocks,
        NormAfterEachBlock,
        FirstBlockOnly,
        EachBlockFromTheStart,
        LastBlockLeftOut,
        BlocksInReverse,
        AddedAgain,
        PositionsAddedTwice,
        EmbeddingScaled,
        EmbeddingArgumentsSwapped,
        DropoutFixedInBlocks,
        DropoutOutside,
        ArgumentsInAnotherOrder,
        ContextLengthNotKept,
        m.LongTextCut,
        LongTextTail,
        m.FullLengthRefused,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        ProbabilitiesReturned,
        LogsReturned,
        LastLogitsOnly,
        StreamReturned,
        m.Float32Result,
        m.CutOff,
        on=Model,
    ),
    hints=(
        "Four parts in a row: `embed`, `blocks`, `norm`, `head`. The constructor makes them, "
        "`forward` sends `ids` through them. The blocks are a list: how does PyTorch see into one?",
        "`transformer.TokenAndPosition(vocab_size, context_length, d_model)`, "
        "`transformer.TransformerBlock(d_model, num_heads, context_length, dropout)`, "
        "`transformer.LayerNorm(d_model)` and `nn.Linear(d_model, vocab_size, bias=False)`.",
        "`nn.ModuleList(TransformerBlock(…) for _ in range(num_layers))`. In `forward`: `x = "
        "self.embed(ids)`, for each block `x = block(x)`, then `self.head(self.norm(x))`. `embed` "
        "refuses a text that is too long.",
    ),
    other_way="""\
# Blocks one after the other are an `nn.Sequential`; their names are the same as in a ModuleList.
class TinyLM(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        sizes = d_model, num_heads, context_length, dropout
        self.blocks = nn.Sequential(
            *(transformer.TransformerBlock(*sizes) for _ in range(num_layers))
        )
        self.norm = transformer.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embed(ids))))
""",
)


# ---------------------------------------------------------------- quizzes

MOVED, WIDTH, COLD = "scores stay when all move", "scores divided by", "temperature near 0"

RECALL_10 = quiz(
    "recall_10",
    lesson=LESSON,
    points=0.5,
    about="lessons 09, 07 and 03",
    entries=(
        Entry(
            MOVED,
            "rotary",
            "It turns queries and keys so that a score hangs on their distance alone.",
            "Which of the three looks at distances, and not at places?",
            ("learned", "sinusoidal", "rotary"),
        ),
        Entry(
            WIDTH,
            8,
            "√64: a dot product runs over the 64 channels of one head.",
            "How wide is one head, and which number brings the variance back to 1?",
        ),
        Entry(
            COLD,
            "one weight is 1",
            "Divided by a small number, differences grow, and the largest score takes all.",
            "What becomes of differences between scores that are divided by 0.01?",
            ("all weights are equal", "one weight is 1", "all weights are 0"),
        ),
    ),
    misconceptions=(
        slip(
            "all_positions_are_alike",
            {MOVED: "sinusoidal"},
            "You took the waves for the ones that look at distances.",
            "They are added to the tokens, and queries see place and word together.",
            "Which of the three is applied to queries and keys, inside a head?",
        ),
        slip(
            "learned_by_distance",
            {MOVED: "learned"},
            "You took the learned table for one of distances.",
            "It has a row for each place; another place is another row.",
            "Which of the three is applied to queries and keys, inside a head?",
        ),
        slip(
            "scaled_by_the_model",
            {WIDTH: 22.63},
            "You took the root of the model's width.",
            "A dot product runs over the channels of one head.",
            "How wide is one of 8 heads?",
        ),
        slip(
            "divided_by_the_width",
            {WIDTH: 64},
            "You divided by D; its root is missing.",
            "The spread of a dot product grows with √D.",
            "64 is the width of a head. What is asked?",
        ),
        slip(
            "cold_is_flat",
            {COLD: "all weights are equal"},
            "You took cold for hot.",
            "A high temperature makes scores alike; a low one drives them apart.",
            "What becomes of the differences between scores that are divided by 0.01?",
        ),
    ),
    hints=(
        "Scores are dot products of queries and keys. Which positions act there, and how many "
        "channels has one of 8 heads of a model of width 512?",
        "Rotary positions turn pairs of channels. A head is 512 / 8 wide, and scores are divided by "
        "a root. Divide the scores 1 and 2 by 0.01 and take the softmax.",
    ),
)

UNIFORM, COUNT, START, LEAK, MEMORY, COPY, NUCLEUS, SAYS = (
    "perplexity of 1/50 each",
    "predictions in 33 tokens",
    "first loss, 1,000 words",
    "fresh text, below the entropy",
    "training text, below the entropy",
    "without the shift, loss near",
    "kept by top_p 0.7",
    "weight 0.9 on the subject",
)
REASONS = ("overfitting", "a leak", "a very good model")

LANGUAGE_MODEL_REASONS = quiz(
    "language_model_reasons",
    lesson=LESSON,
    points=1.0,
    about="a small language model",
    entries=(
        Entry(
            UNIFORM,
            50.0,
            "The loss is log 50, and its exponential is 50: as unsure as between 50 words.",
            "The loss is -log(1/50). What is its exponential?",
        ),
        Entry(
            COUNT,
            32,
            "Each token but the last has a next one in the window.",
            "Which of the 33 has nothing behind it?",
        ),
        Entry(
            START,
            6.91,
            "log 1,000: before it has learned anything, all words are about equally likely.",
            "Which probability does a model give a word of 1,000 that it knows nothing about?",
        ),
        Entry(
            LEAK,
            "a leak",
            "No model can foretell chance. What does must have seen the answer.",
            "The entropy is the loss of a model that knows everything there is to know.",
            REASONS,
        ),
        Entry(
            MEMORY,
            "overfitting",
            "It has learned by heart how the draws fell in these texts; fresh ones fall otherwise.",
            "The texts have been seen many times. What can be remembered of them?",
            REASONS,
        ),
        Entry(
            COPY,
            0.0,
            "The token to be named is the one that the model sees: it copies.",
            "What does the model see where it is asked for the same token?",
        ),
        Entry(
            NUCLEUS,
            2,
            "0.5 is below 0.7, and 0.5 + 0.3 reaches it: the word that crosses stays.",
            "Add up from the likeliest. With how many words is 0.7 reached?",
        ),
        Entry(
            SAYS,
            "where it looks",
            "What a head does with it is seen by taking the head away and measuring.",
            "Would the prediction change if the head were silent? Do weights say so?",
            ("where it looks", "why the model says it", "how sure the model is"),
        ),
    ),
    misconceptions=(
        slip(
            "perplexity_is_loss",
            {UNIFORM: 3.91},
            "You gave the loss, not its exponential.",
            "The perplexity is a number of words.",
            "exp(log 50) is?",
        ),
        slip(
            "last_token_predicts_too",
            {COUNT: 33},
            "You let the last token foretell something.",
            "What follows it is not in the window.",
            "Write 4 tokens down and count the pairs of neighbours.",
        ),
        slip(
            "log_to_base_two",
            {START: 9.97},
            "You took the logarithm to the base 2.",
            "Losses here are in nats.",
            "`math.log(1000)` is?",
        ),
        slip(
            "log_to_base_ten",
            {START: 3.0},
            "You took the logarithm to the base 10.",
            "Losses here are in nats.",
            "`math.log(1000)` is?",
        ),
        slip(
            "below_the_floor",
            {LEAK: "a very good model"},
            "You believe in models that foretell chance.",
            "The entropy is what is left when everything that can be known is known.",
            "Who could be better than the grammar itself?",
        ),
        slip(
            "fresh_text_by_heart",
            {LEAK: "overfitting"},
            "You took overfitting for what lowers the loss on fresh text.",
            "What was learned by heart is of no use on text that nobody has seen.",
            "On which texts is an overfitted model good?",
        ),
        slip(
            "training_leak",
            {MEMORY: "a leak"},
            "You took a leak for the likeliest reason.",
            "A leak lowers the loss on fresh text as well; texts learned by heart do so alone.",
            "How often has the model seen these texts?",
        ),
        slip(
            "copy_at_random",
            {COPY: 6.91},
            "You took a model without the shift for one that learns nothing.",
            "It learns something: the wrong thing, and perfectly.",
            "What does the model see where it is asked for the same token?",
        ),
        slip(
            "crossing_dropped",
            {NUCLEUS: 1},
            "You dropped the word that takes the sum over top_p.",
            "0.5 alone doesn't reach 0.7.",
            "Add up from the likeliest until 0.7 is reached.",
        ),
        slip(
            "weights_are_reasons",
            {SAYS: "why the model says it"},
            "You took weights for an explanation.",
            "What is fetched may be left unused, and other heads may bring the same.",
            "How could you find out whether this head matters?",
        ),
    ),
    hints=(
        "A loss is a mean of -log(p); a perplexity is its exponential. The entropy of a text is the "
        "loss of a model that knows all there is to know.",
        "Fresh text can't be known by heart, training text can. For top_p, add up from the likeliest "
        "until the sum is reached. Of a head, the weights are one thing, what becomes of it another.",
    ),
)

EXERCISES = (
    RECALL_10,
    SLIDING_WINDOWS,
    TINY_LM,
    NEXT_TOKEN_LOSS,
    TRAINING_STEP,
    NEXT_TOKEN_PROBABILITIES,
    GENERATE,
    LANGUAGE_MODEL_REASONS,
)
