"""Lesson 10, last part: a text goes on, word by word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import language_model
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    Mistake,
    Observation,
    Property,
)
from ..checking.calling import see_calls, set_seed, target_device
from ..checking.comparing import same
from ..checking.exercise import Expected, Verdict
from ..checking.watching import THERE, happened_elsewhere, moved
from .kit.draw import Draw
from .kit.traits import trait

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- generate


class Mixer(nn.Module):
    """A model whose next word hangs on every word that it sees and on where each stands.

    In training mode it prefers another word. Texts beyond its context length it refuses.
    """

    token: Tensor
    position: Tensor
    head: Tensor

    def __init__(self, numbers: dict[str, Tensor], context_length: int) -> None:
        super().__init__()
        self.context_length = context_length
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.recorded = 0

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} tokens came in, but context_length is {self.context_length}")
        met = self.token[ids] * self.position[:T]  # (B, T, C) * (T, C)
        logits = torch.sin(7 * met.cumsum(dim=1)) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        logits = logits.roll(1, -1) if self.training else logits
        self.recorded += logits.requires_grad
        return logits


def _mixer(case: Case) -> Mixer:
    model = Mixer(case.options["numbers"], case.options["sizes"][0]).to(target_device())
    return model.train(case.options["training"])


def _generate_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        T: int,
        new: int,
        context: int,
        *,
        B: int = 3,
        V: int = 13,
        training: bool = True,
        roles: str = "",
        by_name: bool = False,
    ) -> Case:
        numbers = {
            "token": draw.normal(V, 7, dtype=torch.float64),
            "position": draw.normal(context, 7, dtype=torch.float64),
            "head": draw.normal(7, V, dtype=torch.float64),
        }
        ids = torch.randint(V, (B, T), generator=draw.generator)
        inputs: dict[str, Any] = {"model": f"context_length {context}, {V} words", "ids": ids}
        inputs["max_new_tokens"] = new
        options: dict[str, Any] = {"numbers": numbers, "sizes": (context, V), "training": training}
        if by_name:
            options["keywords"] = tuple(inputs)
        return Case(name, inputs, None, options, frozenset(roles.split()))

    B, T, new = draw.sizes(3, 3, 6)
    return [
        case("all fits", T, new, T + new + 3, B=B, V=T + new + 5, roles="typical"),
        case("from evaluation mode", 5, 4, 11, training=False),
        case("grows beyond the context", 4, 9, 6, B=2),
        case("begins beyond the context", 9, 5, 6, B=2, training=False),
        case("fills the context to the last place", 3, 4, 6, B=2, roles="small"),
        case("one text, one word", 1, 7, 5, B=1, roles="small"),
        case("one new word", 6, 1, 8, B=2, roles="small"),
        case("none", 4, 0, 7, B=2, roles="small"),
        case("a context of one", 3, 4, 1, B=2, roles="small"),
        case("by name", 4, 6, 9, B=5, by_name=True),
        case("as many words as texts", 4, 6, 5, B=7, V=7, roles="small"),
    ]


def _generate_oracle(case: Case) -> Tensor:
    """Text by text and word by word."""
    model, rows = _mixer(case).eval(), []
    for row in case["ids"].tolist():
        for _ in range(case["max_new_tokens"]):
            seen = torch.tensor([row[max(0, len(row) - model.context_length) :]])
            row = [*row, int(model(seen)[0, -1].argmax())]
        rows.append(row)
    return torch.tensor(rows)


class GenerateProbe:
    """Lets an answer go on with the texts of a case, each time with a new model.

    Each case gives `out`, the facts of `calling.see_calls` and `elsewhere`, and as `traits` what
    became of the model: its mode, its weights, and whether calls were recorded for gradients.
    """

    def __call__(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        models: list[Mixer] = []

        def call(args: list[Any]) -> Any:
            models.append(_mixer(case))
            return _generated(answer, case, models[-1], args[1:])

        if not see_calls(call, case, seen):
            return seen
        model = models[0]
        values = {n: p.detach().cpu() for n, p in model.named_parameters()}
        seen.facts["traits"] = {
            "mode": model.training == case.options["training"],
            "quiet": not model.recorded,
            "kept": all(same(values.get(n), v) for n, v in case.options["numbers"].items())
            and all(p.requires_grad and p.grad is None for p in model.parameters()),
        }
        rest = [moved(v) for v in list(case.inputs.values())[1:]]
        seen.facts["elsewhere"] = happened_elsewhere(
            lambda: _generated(answer, case, _mixer(case).to(THERE), rest)
        )
        return seen

    def glance(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        set_seed(1)
        args = [v.clone() if isinstance(v, Tensor) else v for v in case.inputs.values()]
        seen.put("out", _generated(answer, case, _mixer(case), args[1:]))
        return seen


def _generated(answer: Callable[..., Any], case: Case, model: nn.Module, rest: list[Any]) -> Any:
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, [model, *rest], strict=True)))
    return answer(model, *rest)


def _expect_generated(case: Case) -> dict[str, Tensor]:
    with torch.no_grad():
        return {"out": _generate_oracle(case)}


def _begins(case: Case, seen: Observation, expected: Expected) -> Verdict:
    T = case["ids"].shape[1]
    return bool((seen.tensors["out"][:, :T] == case["ids"]).all())


def _first_word(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not case["max_new_tokens"]:
        return None
    T = case["ids"].shape[1]
    return bool((seen.tensors["out"][:, T] == expected["out"][:, T]).all())


class Generate:
    """The right answer in steps."""

    def __call__(self, model, ids, max_new_tokens):
        training = model.training
        self.begin(model)
        with self.recording():
            for _ in range(self.rounds(max_new_tokens)):
                ids = self.longer(model, ids)
        self.end(model, training)
        return ids

    def begin(self, model):
        model.eval()

    def end(self, model, training):
        model.train(training)

    def recording(self):
        return torch.no_grad()

    def rounds(self, max_new_tokens):
        return max_new_tokens

    def longer(self, model, ids):
        logits = model(self.seen(ids, model.context_length))
        return self.appended(ids, self.chosen(self.last(logits)))

    def seen(self, ids, context_length):
        return ids[:, -context_length:]

    def last(self, logits):
        return logits[:, -1]

    def chosen(self, logits):
        return logits.argmax(-1, keepdim=True)

    def appended(self, ids, chosen):
        return torch.cat([ids, chosen], dim=1)


class CropsToTheBeginning(Mistake):
    """Where a text is too long, the model sees its beginning, not its end.

    Why: It then says the same word for ever, since what it sees no longer changes.
    Mend: The last words matter most for the next one: which slice holds them?
    """

    def seen(self, ids, context_length):
        return ids[:, :context_length]


class NeverCrops(Mistake):
    """The model is shown more tokens than it can take.

    Why: There are only `context_length` rows of positions.
    Mend: Show it the last `model.context_length` tokens.
    """

    def seen(self, ids, context_length):
        return ids


class CropsOneTooMany(Mistake):
    """The model sees one token fewer than it could.

    Why: What it could have known from that token is lost.
    Mend: How many tokens fit? The new one is not among those it sees.
    """

    def seen(self, ids, context_length):
        return ids[:, -max(context_length - 1, 1) :]


class ForgetsTheBeginning(Mistake):
    """The text itself was cropped, not what the model sees of it: its beginning is lost.

    Why: The caller wants the whole text back, however little of it the model can see at once.
    Mend: Keep the cropped text under another name than the text.
    """

    def longer(self, model, ids):
        return super().longer(model, self.seen(ids, model.context_length))


class LastTokenOnlyShown(Mistake):
    """The model is shown the last token alone.

    Why: What stood before it is then forgotten, and the token stands at position 0 each time.
    Mend: Show it the text so far, up to `model.context_length` tokens.
    """

    def seen(self, ids, context_length):
        return ids[:, -1:]


class BeginningOnlyShown(Mistake):
    """The model always sees the beginning that came in, and none of the new tokens.

    Why: It then says the same word again and again.
    Mend: Each round must see what the round before has appended.
    """

    beginning = None

    def __call__(self, model, ids, max_new_tokens):
        self.beginning = ids.shape[1]
        return super().__call__(model, ids, max_new_tokens)

    def seen(self, ids, context_length):
        return super().seen(ids[:, : self.beginning], context_length)


class EvaluationLeftOn(Mistake):
    """The model is left in evaluation mode, whatever mode it was in.

    Why: Training would go on without dropout, and nobody notices.
    Mend: Keep `model.training` before you change it, and put it back at the end.
    """

    def end(self, model, training):
        pass


class TrainingTurnedOn(Mistake):
    """Afterwards the model is in training mode, also where it was in evaluation mode before.

    Why: Whoever has finished training would go on with dropout.
    Mend: `model.train(was_training)` puts back what was.
    """

    def end(self, model, training):
        model.train()


class StaysInTraining(Mistake):
    """The model wasn't put into evaluation mode.

    Why: Dropout makes another text each time, and a worse one.
    Mend: `model.eval()` before the loop.
    """

    def begin(self, model):
        pass


class RecordsGradients(Mistake):
    """What the model computes is recorded for gradients.

    Why: Each call keeps its whole way in memory until it is thrown away: slower, for nothing.
    Mend: `with torch.no_grad():` around the loop, or `@torch.no_grad()` above the function.
    """

    def recording(self):
        return torch.enable_grad()


class Draws(Mistake):
    """The next token is drawn by chance.

    Why: Greedy is asked: the likeliest token, the same text each time.
    Mend: `argmax` needs no chance.
    """

    def chosen(self, logits):
        return torch.multinomial(torch.softmax(logits, -1), 1)


class FirstPosition(Mistake):
    """The logits of the first position were taken.

    Why: They are about the token behind the first one, which is there already.
    Mend: Which position's logits are about the token behind the text?
    """

    def last(self, logits):
        return logits[:, 0]


class PositionBefore(Mistake):
    """The logits of the position before the last were taken.

    Why: They are about the last token of the text, which is there already.
    Mend: Logits at t are about t + 1. Which t is asked?
    """

    def last(self, logits):
        return logits[:, max(logits.shape[1] - 2, 0)]


class LeastLikely(Mistake):
    """The least likely token was appended.

    Why: Text of the worst words, each time.
    Mend: `argmax`, not `argmin`.
    """

    def chosen(self, logits):
        return logits.argmin(-1, keepdim=True)


class FirstTextsChoice(Mistake):
    """All texts of the batch get the token of the first.

    Why: Each row is a text of its own.
    Mend: `argmax(dim=-1)` chooses in each row.
    """

    def chosen(self, logits):
        return super().chosen(logits)[:1].expand(len(logits), 1)


class ChosenOverAll(Mistake):
    """`argmax` without a dimension looks at the whole batch.

    Why: The number it gives is a place in all rows together, and no id.
    Mend: Over which dimension is the largest logit asked?
    """

    def chosen(self, logits):
        return (logits.argmax() % logits.shape[-1]).expand(len(logits), 1)


class EveryPositionAppended(Mistake):
    """The choices at all positions were appended, and only the last one is new.

    Why: What the model says at an earlier position is its guess at a word that is there already.
    Mend: `logits[:, -1]` before `argmax`.
    """

    def last(self, logits):
        return logits

    def chosen(self, logits):
        return logits.argmax(-1)


class NewTokensOnly(Mistake):
    """Only the new tokens are returned.

    Why: The caller wants the beginning and what follows, as one text.
    Mend: `(B, T + max_new_tokens)` is asked.
    """

    def __call__(self, model, ids, max_new_tokens):
        return super().__call__(model, ids, max_new_tokens)[:, ids.shape[1] :]


class OneRoundMore(Mistake):
    """One token too many, or too few, was appended.

    Why: The caller knows how long the text should be.
    Mend: How often does your loop run for max_new_tokens=1?
    """

    def rounds(self, max_new_tokens):
        return max_new_tokens + 1


class UpToThatLength(Mistake):
    """`max_new_tokens` was taken for the length of the whole text.

    Why: A long beginning would get nothing.
    Mend: It counts the *new* tokens.
    """

    length = 0

    def __call__(self, model, ids, max_new_tokens):
        self.length = ids.shape[1]
        return super().__call__(model, ids, max_new_tokens)

    def rounds(self, max_new_tokens):
        return max(0, max_new_tokens - self.length)


class PutInFront(Mistake):
    """New tokens were put in front of the text.

    Why: The text then reads backwards, and the model never sees its own words last.
    Mend: Look at the order of the two in `torch.cat`.
    """

    def appended(self, ids, chosen):
        return torch.cat([chosen, ids], dim=1)


class WritesOverTheLast(Mistake):
    """The new token took the place of the last one.

    Why: The text never grows.
    Mend: `torch.cat` along the tokens makes it longer.
    """

    def appended(self, ids, chosen):
        return torch.cat([ids[:, :-1], chosen], dim=1)


class LogitsAppended(Mistake):
    """What was appended is the largest logit, not the id that has it.

    Why: A model looks ids up in a table; a logit is no place in it.
    Mend: `max` gives both; `argmax` gives the place.
    """

    def chosen(self, logits):
        return logits.amax(-1, keepdim=True).long().clamp(min=0)


GENERATE = Exercise(
    id="generate",
    lesson=LESSON,
    call="generate(model, ids, max_new_tokens)",
    points=1.0,
    cases=_generate_cases,
    probe=GenerateProbe(),
    expect=_expect_generated,
    reference=language_model.generate,
    properties=(
        Property("begins", "The text begins with the tokens that came in", _begins, gate=True),
        Property("first_word", "The first new token is the likeliest", _first_word, credit=True),
        Property(
            "mode",
            "The model is in the mode in which it came",
            trait("mode"),
            credit=True,
            secondary=True,
            breaks="The model is left in another mode than it came in",
        ),
        Property(
            "quiet",
            "Nothing is recorded for gradients",
            trait("quiet"),
            credit=True,
            secondary=True,
            breaks="The model was called where gradients are recorded",
        ),
        Property(
            "kept",
            "The model's weights are as before, and still to be trained",
            trait("kept"),
            secondary=True,
        ),
    ),
    misconceptions=Misconceptions.of(
        CropsToTheBeginning,
        NeverCrops,
        EvaluationLeftOn,
        StaysInTraining,
        RecordsGradients,
        Draws,
        LastTokenOnlyShown,
        TrainingTurnedOn,
        ForgetsTheBeginning,
        CropsOneTooMany,
        BeginningOnlyShown,
        FirstPosition,
        PositionBefore,
        LeastLikely,
        FirstTextsChoice,
        ChosenOverAll,
        EveryPositionAppended,
        NewTokensOnly,
        OneRoundMore,
        OneRoundMore.but(rounds=lambda self, max_new_tokens: max(0, max_new_tokens - 1)),
        UpToThatLength,
        PutInFront,
        WritesOverTheLast,
        LogitsAppended,
        on=Generate,
    ),
    hints=(
        "A loop of `max_new_tokens` rounds. In each: what the model may see, its logits at the "
        "last position, the likeliest id, appended. Around it: the mode, and no gradients.",
        "`seen = ids[:, -model.context_length:]`, `logits = model(seen)[:, -1]`, "
        "`logits.argmax(dim=-1, keepdim=True)` is (B, 1), and `torch.cat([ids, …], dim=1)`.",
        "`was_training = model.training`, `model.eval()`, then `with torch.no_grad():` the loop, "
        "then `model.train(was_training)`, which takes a bool.",
    ),
    other_way="""\
# Room for the whole text first, filled from left to right: nothing is copied in each round.
@torch.no_grad()
def generate(model, ids, max_new_tokens):
    was_training = model.training
    model.eval()
    B, T = ids.shape
    text = torch.cat([ids, ids.new_zeros(B, max_new_tokens)], dim=1)
    for t in range(T, T + max_new_tokens):
        seen = text[:, max(0, t - model.context_length) : t]
        text[:, t] = model(seen)[:, -1].argmax(dim=-1)
    model.train(was_training)
    return text
""",
)
