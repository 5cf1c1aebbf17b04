"""Lesson 14: three broken programs around a model: positions, a training step, generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import clinic
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
from ..checking.calling import see_calls, target_device
from ..checking.comparing import near, same
from ..checking.exercise import Expected, Trial, Verdict
from ..checking.properties import evidence
from ..experiments import patients
from . import lesson_10_generate as g
from . import lesson_10_training as t
from .kit import mistakes as m
from .kit import positions as p
from .kit.draw import Draw
from .kit.heads import padding_in_front
from .kit.steps import Refusing
from .lesson_10_training import _probe as see_step

LESSON = "6-practice/14_pitfall_clinic"


# ---------------------------------------------------------------- patient F: places


def _place_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, pad_mask: Tensor, N: int, roles: str = "", dtype=torch.float32, **refused):
        B, T = pad_mask.shape
        V, C = T + N + 7, T + N + 4
        inputs = {
            "ids": torch.randint(V, (B, T), generator=draw.generator),
            "pad_mask": pad_mask,
            "token": draw.normal(V, C, dtype=dtype),
            "position": draw.normal(N, C, dtype=dtype),
        }
        return Case(name, inputs, roles=frozenset(roles.split()), **refused)

    def front(B: int, T: int) -> Tensor:
        mask = padding_in_front(draw, B, T)
        mask[0, 0], mask[0, -1] = True, False
        return mask

    B, T = 3, draw.integer(5, 8)
    N = T + draw.integer(2, 5)
    none = torch.zeros(2, T, dtype=torch.bool)
    long = draw.integer(12, 17)
    return [
        case("padding in front", front(B, T), N, "typical padded"),
        case("no padding", none, N),
        case("as many tokens as positions", none, T, "small full"),
        case("one of them is as long as the table", front(B, T), T, "small full", torch.float64),
        case("a text that is all padding", front(B, T) | (torch.arange(B) == 1)[:, None], N),
        case("one token, one position", torch.zeros(2, 1, dtype=torch.bool), 1, "small full"),
        case(
            "one token too many",
            torch.zeros(2, long + 1, dtype=torch.bool),
            long,
            refuses=(str(long + 1), str(long)),
        ),
        case(
            "too long, and half of it is padding",
            torch.arange(2 * long).expand(2, -1) < long,
            long,
            refuses=(str(2 * long), str(long)),
        ),
    ]


def _place_oracle(ids: Tensor, pad_mask: Tensor, token: Tensor, position: Tensor) -> Tensor:
    rows = []
    for text, padded in zip(ids.tolist(), pad_mask.tolist(), strict=True):
        place, row = 0, []
        for id, hidden in zip(text, padded, strict=True):
            row.append(torch.zeros_like(token[0]) if hidden else token[id] + position[place])
            place += not hidden
        rows.append(torch.stack(row))
    return torch.stack(rows)


class _RealTokens:
    """Looks at what stands at real tokens; what stands at padding has no meaning."""

    inner = FunctionProbe(gradients=("token", "position"))

    def __call__(self, answer: Any, case: Case) -> Observation:
        return self.inner(_cleared(answer), case)

    def glance(self, answer: Any, case: Case) -> Observation:
        return self.inner.glance(_cleared(answer), case)


def _cleared(answer: Any) -> Any:
    def call(ids: Tensor, pad_mask: Tensor, token: Tensor, position: Tensor) -> Any:
        out = answer(ids, pad_mask, token, position)
        if isinstance(out, Tensor) and out.shape[:-1] == pad_mask.shape:
            return out.masked_fill(pad_mask[..., None], 0.0)
        return out

    return call


class Placed(Refusing):
    """The right rows in steps."""

    first_place = 0

    def __call__(self, ids, pad_mask, token, position):
        self.context_length = len(position)
        ids = self.accepted(ids)
        places = self.kept(self.places(pad_mask))
        return self.joined(token[ids], self.rows(position, places))

    def accepted(self, ids):
        if self.too_many(ids.shape[1], self.context_length):
            self.complain(ids.shape[1], self.context_length)
        return ids

    def kept(self, places):
        return places.clamp(min=0)

    def places(self, pad_mask):
        counted = (~pad_mask).long().cumsum(dim=1) - 1 + self.first_place
        return counted.masked_fill(pad_mask, 0)

    def rows(self, position, places):
        return position[places]

    def joined(self, words, rows):
        return words + rows


class LastRowTwice(Mistake):
    """Places beyond the table were cut to its last row, and all others are still one too high.

    Why: No error is left. The last two tokens of a long text share a place, and row 0 is unused.
    Mend: Why is the highest place beyond the table, when T tokens fit? Which place has the first?
    """

    first_place = 1

    @classmethod
    def id(cls) -> str:
        return "last_row_again"

    def rows(self, position, places):
        return position[places.clamp(max=len(position) - 1)]


class BeginsAgainAtZero(Mistake):
    """Places beyond the table begin again at 0, and all others are still one too high.

    Why: No error is left, and the last token of a long text says that it is the first.
    Mend: Why is the highest place beyond the table, when T tokens fit? Which place has the first?
    """

    first_place = 1

    @classmethod
    def id(cls) -> str:
        return "begins_again"

    def rows(self, position, places):
        return position[places % len(position)]


class TableMadeLonger(Mistake):
    """A row was added to the table, and every place is still one too high.

    Why: No error is left. Row 0 is never used, and the new row was never learned.
    Mend: T places need T rows: which place has the first token?
    """

    first_place = 1

    def rows(self, position, places):
        return F.pad(position, (0, 0, 0, 1))[places]


class FullTextRefused(Mistake):
    """A text that fills the table was refused, and every place is still one too high.

    Why: There are as many places as rows, so such a text fits.
    Mend: Why is the highest place beyond the table? Which place has the first token?
    """

    first_place = 1

    def too_many(self, number, limit):
        return number >= limit


class PaddingHasPlaces(Mistake):
    """Padding in front is counted, so a text begins at another place in each batch.

    Why: A text gives something else in a batch than alone.
    Mend: Only real tokens count: which sum runs over those so far?
    """

    def places(self, pad_mask):
        return torch.arange(pad_mask.shape[1], device=pad_mask.device).expand(pad_mask.shape)


class RealTokensCompared(Mistake):
    """Only the real tokens were compared with the length of the table.

    Why: The contract speaks of T, the width of the batch, and the next layers have masks of that
        size.
    Mend: The check at the top was right.
    """

    real = 0

    def __call__(self, ids, pad_mask, token, position):
        self.real = int((~pad_mask).sum(dim=1).max())
        return super().__call__(ids, pad_mask, token, position)

    def too_many(self, number, limit):
        return self.real > limit


class OneLessForAll(Mistake):
    """Each place is one too low: the first real token stands at -1, the last row of the table.

    Why: In Python -1 is the last row of a table, and no error.
    Mend: Where is the first *real* token, and which place has it?
    """

    first_place = -1

    def kept(self, places):
        return places


FIX_POSITION_OVERFLOW = Exercise(
    id="fix_position_overflow",
    lesson=LESSON,
    call="fix_position_overflow(ids, pad_mask, token, position)",
    points=0.5,
    cases=_place_cases,
    probe=_RealTokens(),
    expect=expect_function(_place_oracle, gradients=("token", "position")),
    reference=clinic.fix_position_overflow,
    as_found=patients.patient_f,
    misconceptions=Misconceptions.of(
        p.PositionsFromOne.on(
            Placed,
            what="Positions are counted from 1, at least in texts that don't fill the table.",
        ),
        LastRowTwice,
        BeginsAgainAtZero,
        TableMadeLonger,
        FullTextRefused,
        m.FullLengthRefused,
        PaddingHasPlaces,
        m.LongTextAccepted.on(
            Placed,
            what="The check at the top is gone: a text longer than the table isn't refused.",
            why="It falls off the end of the table, and an IndexError that names a row doesn't "
            "tell anyone that the text is too long.",
            mend="Compare T with N at the top, as the patient did, and raise a ValueError with "
            "both numbers.",
        ),
        RealTokensCompared,
        OneLessForAll,
        m.RefusedOtherwise,
        m.RefusedWithoutNumbers.on(
            Placed, mend="Put both numbers into the message, with an f-string."
        ),
        on=Placed,
    ),
    hints=(
        "A text of N tokens fits into a table of N rows, 0 to N - 1. Count by hand: which place "
        "does the first real token get here, and which the last?",
        "`cumsum` of 1, 1, 1 is 1, 2, 3. Cutting off at the end of the table, or beginning again, "
        "takes the error away and leaves every token one place too far.",
        "`places = real.long().cumsum(dim=1) - 1`. Padding in front is then at -1; the line that "
        "fills it with 0 may stay.",
    ),
)


# ---------------------------------------------------------------- patient D: one step


def _step_probe(answer: Any, case: Case) -> Observation:
    """What lesson 10 sees of a step, and whether gradients from before have a say."""
    seen = see_step(answer, case)
    if "left" in case.roles:
        without = replace(case, options={**case.options, "left_over": False})
        again = see_step(answer, without)
        names = [n for n in seen.tensors if n.startswith("`")]
        seen.traits["cleared"] = all(
            n in again.tensors and near(seen.tensors[n], again.tensors[n]) for n in names
        )
    return seen


def _cleared_before(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return seen.traits.get("cleared")


def _along(case: Case, seen: Observation, expected: Expected) -> Verdict:
    mine, right = (t._moved(case, tensors) for tensors in (seen.tensors, expected))
    return bool(torch.cosine_similarity(mine, right, dim=0) > 0.97)


def _short_enough(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """With SGD a step is at most the learning rate times `max_norm` long, whatever it follows."""
    mine, right = (t._moved(case, tensors).norm() for tensors in (seen.tensors, expected))
    return bool(mine <= right * 1.01)


class ThreeFaults(t.NoShift):
    """All three faults are there: tokens are compared with themselves, gradients are never cleared,
    and clipped when the step is done.

    Why: The loss falls to 0 and the model has learned to copy; old batches push each step.
    Mend: Begin with the loss: which token do the logits at t foretell? Then read the last lines
        in their order.
    """

    def learn(self, model, loss, optimizer, max_norm):
        self.backward(loss)
        self.move(optimizer)
        self.clip(model, max_norm)


class LossCut(Mistake):
    """The loss was made smaller in place of the gradients: it was cut off at `max_norm`.

    Why: Where it is cut off, nothing is learned, and a small loss can have long gradients.
    Mend: `clip_grad_norm_` between `backward` and the step.
    """

    def clip(self, model, max_norm):
        pass

    def loss(self, logits, ids):
        return super().loss(logits, ids).clamp(max=1.0)


FIX_TRAINING_STEP = Exercise(
    id="fix_training_step",
    lesson=LESSON,
    call="fix_training_step(model, ids, optimizer, max_norm=1.0)",
    points=1.0,
    cases=t._cases,
    probe=_step_probe,
    expect=t._expect,
    reference=clinic.fix_training_step,
    as_found=patients.patient_d,
    same_as=("training_step",),
    uses=("next_token_loss",),
    tolerance=t.TRAINING_STEP.tolerance,
    properties=(
        Property(
            "along",
            "The step follows the loss of the token that comes next",
            _along,
            credit=True,
            role="plain",
            breaks="The step doesn't follow the loss of the token that comes next",
        ),
        Property(
            "clears",
            "Gradients that are left from before have no say",
            _cleared_before,
            credit=True,
            role="left",
            breaks="Gradients that are left from before have a say in the step",
        ),
        Property(
            "clips",
            "With long gradients the step is no longer than `max_norm` allows",
            _short_enough,
            credit=True,
            role="long",
            breaks="With long gradients the step is longer than `max_norm` allows",
        ),
        *(x for x in t.TRAINING_STEP.properties if x.id in ("stays", "float", "loss", "keeps")),
    ),
    misconceptions=Misconceptions.of(
        ThreeFaults,
        t.NoShift,
        t.NeverCleared,
        t.ClippedAfterStep,
        t.NeverClipped,
        t.ClearedAfterBackward,
        t.ClearedOnlyAfterwards,
        t.ShiftedBackwards,
        t.ShiftedTwice.on(t.Step, mend="Is the shift made in two places?"),
        t.RolledTargets,
        t.ClippedByValue,
        t.WeightsClipped,
        LossCut,
        t.EvaluationMode,
        t.ModeLeftAlone,
        t.TensorReturned,
        t.NoStep,
        on=t.Step,
    ),
    hints=(
        "There are three faults: one in what is compared, one in a line that is missing, one in "
        "the order of two lines.",
        "Logits at t foretell the token at t + 1: the last logits and the first token have no "
        "partner. `backward` adds to gradients that are there. A step uses gradients as they are.",
        "`logits = model(ids)[:, :-1]`, with T - 1 in place of T, and `targets = ids[:, 1:]`; "
        "then clear (`optimizer.zero_grad()`), backward, clip, step.",
    ),
)


# ---------------------------------------------------------------- patient H: word by word


class Keeper(nn.Module):
    """A model that reads on from what it keeps: its next word hangs on every word so far and on
    where each stands. It counts the positions that are pushed through it.

    In training mode it prefers another word. Beyond its context length it refuses to go.
    """

    token: Tensor
    position: Tensor
    head: Tensor

    def __init__(self, numbers: dict[str, Tensor]) -> None:
        super().__init__()
        self.context_length = len(numbers["position"])
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.pushed = self.recorded = 0

    def forward(self, new: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        known, total = (0, 0.0) if cache is None else cache
        T = new.shape[1]
        if known + T > self.context_length:
            raise ValueError(f"{known + T} tokens came in, but there are {self.context_length}")
        self.pushed += T
        met = self.token[new] * self.position[known : known + T]  # (B, T, C) * (T, C)
        sums = total + met.cumsum(dim=1)
        logits = torch.sin(7 * sums) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        logits = logits.roll(1, -1) if self.training else logits
        self.recorded += logits.requires_grad
        return logits, (known + T, sums[:, -1:])


def _keeper(case: Case) -> Keeper:
    model = Keeper(case.options["numbers"]).to(target_device())
    return model.train(case.options["training"])


def _word_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, B: int, T: int, new: int, training: bool = True, roles: str = ""):
        context, V = T + new + 3, T + new + 9
        numbers = {
            "token": draw.normal(V, 7, dtype=torch.float64),
            "position": draw.normal(context, 7, dtype=torch.float64),
            "head": draw.normal(7, V, dtype=torch.float64),
        }
        ids = torch.randint(V, (B, T), generator=draw.generator)
        inputs = {"model": f"a model of {V} words", "ids": ids, "max_new_tokens": new}
        options = {"numbers": numbers, "sizes": (context, V), "training": training}
        return Case(name, inputs, None, options, frozenset(roles.split()))

    B, T, new = draw.sizes(3, 3, 7)
    return [
        case("a short beginning", B, T, new, roles="typical"),
        case("from evaluation mode", 2, 5, 4, training=False),
        case("twelve words behind one", 3, 1, 12, roles="small"),
        case("a long beginning", 2, 17, 6),
        case("one word", 2, 6, 1, roles="small"),
        case("none", 3, 4, 0, roles="small"),
    ]


def _word_oracle(case: Case) -> dict[str, Tensor]:
    model, ids = _keeper(case).eval(), case["ids"]
    with torch.no_grad():
        for _ in range(case["max_new_tokens"]):
            ids = torch.cat([ids, model(ids)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    return {"out": ids}


def _word_probe(answer: Any, case: Case) -> Observation:
    """`out`, the facts of `see_calls`, and as `traits` what became of the model, and how many
    positions were pushed through it in one call."""
    seen = Observation()
    models: list[Keeper] = []

    def call(args: list[Any]) -> Any:
        models.append(_keeper(case))
        return answer(models[-1], *args[1:])

    if not see_calls(call, case, seen):
        return seen
    model = models[0]
    values = {n: x.detach().cpu() for n, x in model.named_parameters()}
    seen.facts["traits"] = {
        "pushed": model.pushed,
        "mode": model.training == case.options["training"],
        "quiet": not model.recorded,
        "kept": all(same(values.get(n), v) for n, v in case.options["numbers"].items()),
    }
    return seen


def _enough(case: Case) -> int:
    """Each token once; the newest may be pushed too, for nothing."""
    return case["ids"].shape[1] + case["max_new_tokens"]


def _few(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["pushed"] <= _enough(case)) if "pushed" in seen.traits else None


def _explain_pushed(trial: Trial) -> tuple[str, str]:
    T, new = trial.case["ids"].shape[1], trial.case["max_new_tokens"]
    said = (
        f"For {T} tokens and {new} new ones, {trial.seen.traits['pushed']} positions were pushed "
        f"through the model. {T + max(new - 1, 0)} are enough."
    )
    return said, evidence(trial)


class WordByWord(g.Generate):
    """The right answer in steps; those around the loop are lesson 10's."""

    def __call__(self, model, ids, max_new_tokens):
        training = model.training
        self.begin(model)
        with self.recording():
            new, cache = ids, None
            for _ in range(self.rounds(max_new_tokens)):
                logits, grown = model(self.pushed(ids, new), self.given(cache))
                cache = self.remembered(cache, grown)
                new = self.chosen(self.last(logits))
                ids = self.appended(ids, new)
        self.end(model, training)
        return ids

    def pushed(self, ids, new):
        return new

    def given(self, cache):
        return cache

    def remembered(self, cache, grown):
        return grown


class EverythingAgain(Mistake):
    """Every word so far goes through the model again for each new one.

    Why: 100 new words push 5,050 positions, and 1,000 push half a million.
    Mend: The model gives something beside its logits. What is it for?
    """

    def pushed(self, ids, new):
        return ids

    def given(self, cache):
        return None


class NewestAlone(Mistake):
    """Only the newest word goes through the model, and nothing is kept of those before it.

    Why: It is fast, and the model has forgotten its text: each word stands at position 0.
    Mend: What the model gave beside its logits belongs into the next call.
    """

    @classmethod
    def id(cls) -> str:
        return "last_token_only_shown"

    def given(self, cache):
        return None


class EverythingOnTop(Mistake):
    """The cache is handed on, and every word so far goes through the model as well.

    Why: The model then reads the text again behind itself, and more of it each time.
    Mend: What is in the cache need not be pushed. Which words aren't in it?
    """

    def pushed(self, ids, new):
        return ids


class FirstCacheForEver(Mistake):
    """The cache of the beginning is handed on each time; what came after it is forgotten.

    Why: Each new word takes the place of the one before it.
    Mend: Each call gives a longer cache: which one belongs into the next call?
    """

    def remembered(self, cache, grown):
        return grown if cache is None else cache


class LastFewWords(Mistake):
    """Only the last four words go through the model each time.

    Why: Fewer positions, another text: what stood further back is forgotten.
    Mend: The text must stay the same word for word. What has been computed for the older words?
    """

    def pushed(self, ids, new):
        return ids[:, -4:]

    def given(self, cache):
        return None


class TwoAtATime(Mistake):
    """The newest two words go through the model, and one of them is in the cache already.

    Why: The model reads it twice, and all that follow stand one place further back.
    Mend: Which words aren't in the cache?
    """

    def pushed(self, ids, new):
        return ids if new.shape == ids.shape else ids[:, -2:]


class BeginningTwice(Mistake):
    """The beginning goes through the model twice, once for nothing.

    Why: With a long beginning that is the dearest step of all.
    Mend: The call that fills the cache gives the first new word too.
    """

    def __call__(self, model, ids, max_new_tokens):
        if max_new_tokens:
            training = model.training
            model.eval()
            with torch.no_grad():
                model(ids)
            model.train(training)
        return super().__call__(model, ids, max_new_tokens)


BROKEN = {"kept": "The model's weights were changed"}

FIX_SLOW_GENERATION = Exercise(
    id="fix_slow_generation",
    lesson=LESSON,
    call="fix_slow_generation(model, ids, max_new_tokens)",
    points=0.75,
    cases=_word_cases,
    probe=_word_probe,
    expect=_word_oracle,
    reference=clinic.fix_slow_generation,
    as_found=patients.patient_h,
    properties=(
        Property(
            "positions",
            "Each token is pushed through the model once",
            _few,
            breaks="Tokens are pushed through the model again and again",
            explain=_explain_pushed,
        ),
        Property("begins", "The text begins with the tokens that came in", g._begins),
        *(
            replace(x, credit=False, breaks=BROKEN.get(x.id, x.breaks))
            for x in g.GENERATE.properties
            if x.id in ("first_word", "mode", "quiet", "kept")
        ),
    ),
    misconceptions=Misconceptions.of(
        EverythingAgain,
        NewestAlone,
        EverythingOnTop,
        FirstCacheForEver,
        LastFewWords,
        TwoAtATime,
        BeginningTwice,
        g.EvaluationLeftOn,
        g.StaysInTraining,
        g.RecordsGradients,
        g.Draws,
        g.FirstTextsChoice,
        g.NewTokensOnly,
        g.OneRoundMore,
        on=WordByWord,
    ),
    hints=(
        "`model` gives two things, and the program throws one away in each round. With it, the "
        "words that were read need not be read again.",
        "Two names before the loop: what goes in next (at first `ids`) and the cache (at first "
        "None). In each round both become what that round has made.",
        "`new, cache = ids, None`; then, in the loop, `logits, cache = model(new, cache)`, `new = "
        "logits[:, -1].argmax(dim=-1, keepdim=True)` and `ids = torch.cat([ids, new], dim=1)`.",
    ),
)
