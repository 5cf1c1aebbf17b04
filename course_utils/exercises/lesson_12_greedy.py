"""Lesson 12, second part: a text is translated, the likeliest word each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import translation
from ..checking import Case, Exercise, Misconceptions, Mistake, Observation, Property
from ..checking.calling import fresh, see_calls, set_seed, target_device
from ..checking.comparing import same
from ..checking.exercise import Expected, Verdict
from ..checking.watching import THERE, happened_elsewhere, moved
from . import lesson_10_generate as generating
from .kit.draw import Draw

LESSON = "5-encoder-decoder/12_translation"


# ---------------------------------------------------------------- a translator without training


class Scribe(nn.Module):
    """A translator whose next word hangs on each real word of the source and on its own words.

    A text ends where the first word of its source says. In training mode it prefers another word.
    """

    reads: Tensor
    writes: Tensor
    position: Tensor
    head: Tensor
    lengths: Tensor

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.bos_id, self.eos_id = case["bos_id"], case["eos_id"]
        for name, value in case.options["numbers"].items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.register_buffer("lengths", case.options["lengths"].clone())
        self.recorded = 0

    def forward(
        self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        B, T = decoder_input.shape
        if len(source) != B or (
            source_pad_mask is not None and source_pad_mask.shape != source.shape
        ):
            raise ValueError(f"{len(source)} sources, {B} texts")
        read = self.reads[source] * self.position[: source.shape[1]]  # (B, S, C)
        if source_pad_mask is not None:
            read = read.masked_fill(source_pad_mask[:, :, None], 0.0)
        written = (self.writes[decoder_input] * self.position[:T]).cumsum(dim=1)  # (B, T, C)
        logits = torch.sin(5 * (written + read.sum(dim=1)[:, None])) @ self.head  # (B, T, V)
        logits = logits.roll(1, -1) if self.training else logits
        self.recorded += logits.requires_grad
        steps = torch.arange(1, T + 1, device=source.device)
        ends = (self.lengths[source[:, 0]][:, None] == steps).unsqueeze(-1)  # (B, T, 1)
        words = torch.arange(logits.shape[-1], device=source.device)
        logits = torch.where((words == self.eos_id) & ends, 60.0, logits)
        return torch.where((words == self.bos_id) | ((words == self.eos_id) & ~ends), -60.0, logits)


def _scribe(case: Case) -> Scribe:
    return Scribe(case).to(target_device()).train(case.options["training"])


def _case(
    draw: Draw,
    name: str,
    lengths: list[int],
    max_length: int,
    *,
    S: int = 5,
    V: int = 13,
    ids: tuple[int, int] = (1, 2),
    real: list[int] | None = None,
    training: bool = True,
    roles: str = "",
    keywords: bool = False,
    once: bool = False,
) -> Case:
    B, words = len(lengths), len(lengths) + 7
    source = torch.randint(B, words, (B, S), generator=draw.generator)
    source[:, 0] = torch.randperm(B, generator=draw.generator)
    of_word = torch.full((words,), 3)
    of_word[source[:, 0]] = torch.tensor(lengths)
    inputs: dict[str, Any] = {
        "model": f"a translator into {V} words",
        "source": source,
        "bos_id": ids[0],
        "eos_id": ids[1],
        "max_length": max_length,
    }
    if real is not None:
        inputs["source_pad_mask"] = torch.arange(S) >= torch.tensor(real)[:, None]
    numbers = {
        "reads": draw.normal(words, 6, dtype=torch.float64),
        "writes": draw.normal(V, 6, dtype=torch.float64),
        "position": draw.normal(max(S, max_length + 3), 6, dtype=torch.float64),
        "head": draw.normal(6, V, dtype=torch.float64),
    }
    options: dict[str, Any] = {"numbers": numbers, "lengths": of_word, "training": training}
    options |= {"sizes": (V,), "once": once}
    if keywords:
        options["keywords"] = tuple(inputs)
    return Case(name, inputs, None, options, frozenset(roles.split()))


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw)
    V = draw.integer(12, 15)
    return [
        case("unequal lengths", [3, 6, 2, 5], 9, V=V, S=7, roles="typical"),
        case("padded sources", [4, 2, 5], 8, S=6, real=[6, 2, 4], roles="elsewhere"),
        case("some are cut off", [9, 3, 9, 4], 6, S=5, training=False),
        case("none has ended", [9, 8], 4, S=6, V=11, once=True),
        case(
            "the longest ends at the last place",
            [2, 5, 4],
            5,
            S=6,
            ids=(0, 7),
            roles="small",
            once=True,
        ),
        case("all end at once", [1, 1, 1], 6, S=5, roles="small", once=True),
        case("the first ends first", [1, 4], 7, S=5, ids=(3, 0), once=True),
        case("one text", [4], 7, S=3, training=False, roles="small", once=True),
        case("one word each", [5, 1, 2], 1, S=4, roles="small", once=True),
        case("by name", [2, 3], 6, S=4, ids=(5, 4), real=[3, 4], keywords=True, roles="small"),
    ]


def _oracle(case: Case) -> Tensor:
    """Text by text and word by word."""
    model, rows = _scribe(case).eval(), []
    bos, eos, most = case["bos_id"], case["eos_id"], case["max_length"]
    mask = case.inputs.get("source_pad_mask")
    for b, source in enumerate(case["source"]):
        row: list[int] = []
        while len(row) < most and (not row or row[-1] != eos):
            given = None if mask is None else mask[b : b + 1]
            logits = model(source[None], torch.tensor([[bos, *row]]), given)
            row.append(int(logits[0, -1].argmax()))
        rows.append(row)
    longest = max(map(len, rows))
    return torch.tensor([row + [eos] * (longest - len(row)) for row in rows])


class TranslateProbe:
    """Lets an answer translate the sources of a case, each time with a new model.

    Each case gives `out`, the facts of `calling.see_calls` and `elsewhere`, and as `traits` what
    became of the model: its mode, its weights, and whether calls were recorded for gradients.

    Args:
        make: the model of a case.
        shown: what is compared, from a result and its case.
    """

    def __init__(
        self, make: Callable[[Case], Any], shown: Callable[[Any, Case], Any] = lambda out, _: out
    ) -> None:
        self.make = make
        self.shown = shown

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        seen = Observation()
        models: list[Any] = []

        def call(args: list[Any]) -> Any:
            models.append(self.make(case))
            return self.shown(_translated(answer, case, models[-1], args[1:]), case)

        if not see_calls(call, case, seen):
            return seen
        model = models[0]
        new = self.make(case).state_dict()
        seen.facts["traits"] = {
            "mode": all(part.training == case.options["training"] for part in model.modules()),
            "quiet": not model.recorded,
            "kept": all(same(v.cpu(), new[n].cpu()) for n, v in model.state_dict().items())
            and all(p.requires_grad and p.grad is None for p in model.parameters()),
        }
        if not case.roles & {"typical", "elsewhere"}:
            return seen
        rest = [moved(v) for v in list(case.inputs.values())[1:]]
        seen.facts["elsewhere"] = happened_elsewhere(
            lambda: _translated(answer, case, self.make(case).to(THERE), rest)
        )
        return seen

    def glance(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        set_seed(1)
        args = [fresh(v) for v in case.inputs.values()]
        out = _translated(answer, case, self.make(case), args[1:])
        seen.put("out", self.shown(out, case))
        return seen


def _translated(answer: Callable[..., Any], case: Case, model: Any, rest: list[Any]) -> Any:
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, [model, *rest], strict=True)))
    return answer(model, *rest)


def expect_translated(oracle: Callable[[Case], Tensor]) -> Callable[[Case], dict[str, Tensor]]:
    def expect(case: Case) -> dict[str, Tensor]:
        with torch.no_grad():
            return {"out": oracle(case)}

    return expect


def trait(name: str) -> Callable[..., Verdict]:
    def holds(case: Case, seen: Observation, expected: Expected) -> Verdict:
        return seen.traits.get(name)

    return holds


OF_THE_MODEL = (
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
        breaks="The model was changed: its weights, their gradients, or whether they are trained",
    ),
)


# What lesson 10 says of the loop, said of a translation.
LEFT_ON = {
    "what": "The model is left in evaluation mode where it was training.",
    "mend": "Keep `model.training` before you change it, and put it back on every way out, also in "
    "front of an early `return`.",
}
RECORDED = {
    "mend": "`with torch.no_grad():` around all calls of the model, also one in front of the loop."
}
ROUNDS = {
    "why": "`max_length` is the most words that a text may have.",
    "mend": "How often does your loop run for max_length=1?",
}


# ---------------------------------------------------------------- greedy_translate


class Greedy:
    """The right answer in steps; some are named as in lesson 10's `generate`."""

    def __call__(self, model, source, bos_id, eos_id, max_length, source_pad_mask=None):
        training = model.training
        self.begin(model)
        with self.recording():
            written = self.start(source, bos_id, eos_id)
            ended = torch.zeros_like(written[:, :1], dtype=torch.bool)
            for _ in range(self.rounds(max_length)):
                logits = self.ask(model, source, written, source_pad_mask)
                word = self.filled(self.chosen(self.last(logits)), ended, eos_id)
                written = self.appended(written, word)
                ended = ended | (word == eos_id)
                if self.stops(ended):
                    break
        self.end(model, training)
        return self.answer(written, eos_id, max_length)

    def begin(self, model):
        model.eval()

    def end(self, model, training):
        model.train(training)

    def recording(self):
        return torch.no_grad()

    def start(self, source, bos_id, eos_id):
        return source.new_full((len(source), 1), bos_id)

    def rounds(self, max_length):
        return max_length

    def ask(self, model, source, written, source_pad_mask):
        return model(source, self.seen(written), source_pad_mask)

    def seen(self, written):
        return written

    def last(self, logits):
        return logits[:, -1]

    def chosen(self, logits):
        return logits.argmax(-1, keepdim=True)

    def filled(self, word, ended, eos_id):
        return word.masked_fill(ended, eos_id)

    def appended(self, written, word):
        return torch.cat([written, word], dim=1)

    def stops(self, ended):
        return ended.all()

    def answer(self, written, eos_id, max_length):
        return written[:, 1:]


class GoesOnBehindTheEnd(Mistake):
    """A text goes on behind its `eos`, up to `max_length` words.

    Why: What a model says after the end is nonsense: it has never learned anything about it.
    Mend: Keep a bool for each row that says whether it has ended, by `eos_id`, and look at it in
        each round.
    """

    def filled(self, word, ended, eos_id):
        return word

    def stops(self, ended):
        return False


class RunsOnUntilAllHaveEnded(Mistake):
    """Texts that have ended write on until the last of the batch has ended too.

    Why: Behind its `eos` a text of a batch holds words that it doesn't have alone.
    Mend: For rows that have ended, `eos_id` takes the place of the model's word.
    """

    def filled(self, word, ended, eos_id):
        return word


class StopsAtTheFirstEnd(Mistake):
    """All texts stop when the first of them has ended.

    Why: The others are cut off in mid-sentence, and more so the larger the batch.
    Mend: When is the whole batch done? Think of `any` and `all`.
    """

    def stops(self, ended):
        return ended.any()


class StopsWithTheFirstText(Mistake):
    """All texts stop when the one in row 0 has ended.

    Why: Each row is a text of its own, and has an end of its own.
    Mend: Which rows must have ended before the loop may stop?
    """

    def stops(self, ended):
        return ended[0].all()


class AlwaysMaxLength(Mistake):
    """The result always has `max_length` columns.

    Why: Columns that hold nothing but `eos` say nothing; each may have cost a call of the model.
    Mend: How many columns does the longest text need? Leave the loop there, and fill up no further.
    """

    def stops(self, ended):
        return False


class LosesEos(Mistake):
    """The last `eos` is missing: the longest text ends without one.

    Why: Without it nobody can tell a finished text from one that was cut off.
    Mend: First append the word, then look whether it was `eos`.
    """

    def answer(self, written, eos_id, max_length):
        text = super().answer(written, eos_id, max_length)
        return text[:, :-1] if (text == eos_id).any(dim=1).all() else text


class EosTakenOff(Mistake):
    """Each `eos` was replaced by something else.

    Why: `eos` belongs to the text: it says that the text is complete.
    Mend: It is kept, and behind it stands `eos_id` too.
    """

    def answer(self, written, eos_id, max_length):
        text = super().answer(written, eos_id, max_length)
        return text.masked_fill(text == eos_id, 0 if eos_id else -1)


class FillsWithPadding(Mistake):
    """Behind the end of a text stands 0, not `eos_id`.

    Why: This function isn't told what padding is; in another vocabulary 0 is a word.
    Mend: What is asked to fill up shorter rows?
    """

    def filled(self, word, ended, eos_id):
        return word.masked_fill(ended, 0)


class FillsWithBos(Mistake):
    """Shorter rows are filled up with `bos_id`.

    Why: `bos` says "begin"; behind the end nothing begins.
    Mend: What is asked to fill up shorter rows?
    """

    bos = 0

    def start(self, source, bos_id, eos_id):
        self.bos = bos_id
        return super().start(source, bos_id, eos_id)

    def filled(self, word, ended, eos_id):
        return word.masked_fill(ended, self.bos)


class KeepsBos(Mistake):
    """`bos` stands at the beginning of the result.

    Why: It was put there to begin with, and isn't a word of the translation.
    Mend: Which column of what you have written is not the model's?
    """

    def answer(self, written, eos_id, max_length):
        return written


class PadMaskIgnored(Mistake):
    """The padding mask never reaches the model.

    Why: It then reads padding as words, and a text is translated otherwise in a batch than alone.
    Mend: The model takes three things. Which did you give it?
    """

    def ask(self, model, source, written, source_pad_mask):
        return model(source, self.seen(written))


class PaddingInverted(Mistake):
    """The model was given the opposite mask: real words hidden, padding read.

    Why: It sees nothing of the text that it translates.
    Mend: `True` means hidden, for you and for the model.
    """

    def ask(self, model, source, written, source_pad_mask):
        mask = None if source_pad_mask is None else ~source_pad_mask
        return model(source, self.seen(written), mask)


class LastTokenOnlyShown(Mistake):
    """The decoder is shown the last word alone.

    Why: What it wrote before is then forgotten, and each word stands at position 0.
    Mend: Show it everything that has been written, from `bos` on.
    """

    def seen(self, written):
        return written[:, -1:]


class BeginsWithEos(Mistake):
    """The decoder was given `eos_id` first, not `bos_id`.

    Why: In training each text began with `bos`; this beginning the model has never met.
    Mend: With which id is the first column filled?
    """

    def start(self, source, bos_id, eos_id):
        return super().start(source, eos_id, eos_id)


class SourceAsBeginning(Mistake):
    """The decoder begins with the first word of the source, not with `bos_id`.

    Why: The same number is another word in the other language.
    Mend: With which id is the first column filled?
    """

    def start(self, source, bos_id, eos_id):
        return source[:, :1]


class ListOfTexts(Mistake):
    """A list of texts was returned.

    Why: One tensor `(B, L)` is asked, in which shorter rows are filled up with `eos_id`.
    Mend: Append a column in each round, for all rows.
    """

    def answer(self, written, eos_id, max_length):
        return list(super().answer(written, eos_id, max_length))


def _first_word(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"][:, 0] == expected["out"][:, 0]).all())


def _to_the_end(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Each text is right up to its end, whatever stands behind it."""
    eos, right = case["eos_id"], expected["out"]
    behind = (right == eos).cumsum(dim=1) - (right == eos).int() > 0
    return bool(((seen.tensors["out"] == right) | behind).all())


def _stays_ended(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Behind an eos stands nothing but eos."""
    ends = seen.tensors["out"] == case["eos_id"]
    return bool((ends[:, 1:] | ~ends[:, :-1]).all())


GREEDY_TRANSLATE = Exercise(
    id="greedy_translate",
    lesson=LESSON,
    call="greedy_translate(model, source, bos_id, eos_id, max_length, source_pad_mask=None)",
    points=1.0,
    cases=_cases,
    probe=TranslateProbe(_scribe),
    expect=expect_translated(_oracle),
    reference=translation.greedy_translate,
    properties=(
        Property(
            "first_word",
            "The first word of each text is the likeliest",
            _first_word,
            gate=True,
            role="typical",
        ),
        Property("to_the_end", "Each text is right up to its end", _to_the_end, credit=True),
        Property("stays_ended", "Behind an eos stands nothing but eos", _stays_ended, credit=True),
        *OF_THE_MODEL,
    ),
    misconceptions=Misconceptions.of(
        StopsAtTheFirstEnd,
        RunsOnUntilAllHaveEnded,
        GoesOnBehindTheEnd,
        PadMaskIgnored,
        LosesEos,
        FillsWithPadding,
        KeepsBos,
        generating.EvaluationLeftOn.on(Greedy, **LEFT_ON),
        generating.StaysInTraining,
        generating.RecordsGradients.on(Greedy, **RECORDED),
        generating.TrainingTurnedOn,
        AlwaysMaxLength,
        StopsWithTheFirstText,
        EosTakenOff,
        FillsWithBos,
        PaddingInverted,
        LastTokenOnlyShown,
        BeginsWithEos,
        SourceAsBeginning,
        generating.Draws,
        generating.FirstPosition.on(
            Greedy,
            why="They are about the first word, which is there already.",
            mend="Which position's logits are about the word behind all that is written?",
        ),
        generating.PositionBefore.on(
            Greedy,
            why="They are about the last word that was written, which is there already.",
        ),
        generating.LeastLikely,
        generating.FirstTextsChoice,
        generating.ChosenOverAll,
        generating.OneRoundMore.on(Greedy, **ROUNDS),
        generating.OneRoundMore.but(rounds=lambda self, max_new_tokens: max_new_tokens - 1).on(
            Greedy, **ROUNDS
        ),
        ListOfTexts,
        on=Greedy,
    ),
    hints=(
        "As in lesson 10's `generate`, with three things more: the decoder begins with a column of "
        "`bos_id`, each row remembers whether it has ended, and the loop may end early.",
        "`word = model(source, written, source_pad_mask)[:, -1].argmax(dim=-1)` is (B,). Where a "
        "row has ended, `torch.where(ended, eos_id, word)` puts `eos_id` there; then `ended = "
        "ended | (word == eos_id)`.",
        "Append first, then look: `if ended.all(): break`. At the end, `written[:, 1:]` leaves bos "
        "out. Around it all the mode and `torch.no_grad()`, as in `generate`.",
    ),
    other_way="""\
# Row by row, as one would do it by hand; shorter rows are filled up at the end.
@torch.no_grad()
def greedy_translate(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    was_training = model.training
    model.eval()
    texts = []
    for b in range(len(source)):
        mask = None if source_pad_mask is None else source_pad_mask[b : b + 1]
        text = source.new_full((1, 1), bos_id)
        while text.shape[1] <= max_length and (text[0, -1] != eos_id or text.shape[1] == 1):
            word = model(source[b : b + 1], text, mask)[:, -1].argmax(dim=-1)  # (1,)
            text = torch.cat([text, word[:, None]], dim=1)
        texts.append(text[0, 1:])
    model.train(was_training)
    return nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=eos_id)
""",
)
