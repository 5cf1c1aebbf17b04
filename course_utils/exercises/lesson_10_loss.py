"""Lesson 10, first part: how wrong a model is about the next token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
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
from ..checking.calling import fresh
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import mistakes as m
from .kit.draw import Draw
from .lesson_10_training import NoShift, RolledTargets, ShiftedBackwards, ShiftedTwice

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- next_token_loss


def _last_left_out(self, logits, ids):
    return logits[:, :-1], ids[:, :-1]


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


class SoftmaxOverTokens(Mistake):
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
        logits[:, -1] += _draw_like(logits[:, -1])
        seen.put("other end", call(logits))
        seen.put("all higher", call(case["logits"] + 3.0))
        better = case["logits"].clone()
        better[:, :-1].scatter_add_(-1, case["ids"][:, 1:, None], torch.full_like(better, 2.0))
        seen.put("better", call(better))
    if "padded" in case.roles:
        silent = (case["ids"][:, 1:] == case["pad_id"])[..., None]
        logits[:, :-1] += _draw_like(logits[:, :-1]) * silent
        seen.put("other at padding", call(logits))


def _draw_like(x: Tensor) -> Tensor:
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
        NoShift.but(shifted=_last_left_out),
        ShiftedBackwards,
        ShiftedTwice.on(
            NextTokenLoss,
            mend="Logits at t belong to the token at t + 1. How many are cut off at each end?",
        ),
        RolledTargets,
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
        SoftmaxOverTokens,
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
        "`logits[:, :-1]` against `ids[:, 1:]`; `flatten(0, 1)` and `flatten()` bring them to "
        "`(N, V)` and `(N,)`. Keep those with `targets != pad_id`; none left: ValueError.",
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
