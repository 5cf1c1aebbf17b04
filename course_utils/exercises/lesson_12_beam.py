"""Lesson 12, third part: several texts are followed at once, and the best is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import translation
from ..checking import Case, Exercise, Misconceptions, Mistake, Observation, Property
from ..checking.calling import target_device
from ..checking.exercise import Expected, Verdict
from . import lesson_10_generate as generating
from .kit.draw import Draw
from .lesson_12_greedy import (
    LEFT_ON,
    LESSON,
    OF_THE_MODEL,
    RECORDED,
    ROUNDS,
    BeginsWithEos,
    LastTokenOnlyShown,
    TranslateProbe,
    expect_translated,
)

# ---------------------------------------------------------------- a translator without training

Text = tuple[int, ...]


class Tree(nn.Module):
    """A translator that looks up what comes next, by all that it has written.

    In training mode it prefers another word, and of another source it says something else.
    """

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.bos_id, self.source = case["bos_id"], case["source"][0].tolist()
        self.next_logits: Callable[[Text], Sequence[float]] = case.options["next_logits"]
        self.dtype = case.options.get("dtype", torch.float64)
        self.bias = nn.Parameter(torch.zeros(len(self.next_logits(())), dtype=self.dtype))
        self.recorded = 0

    def forward(
        self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        logits = decoder_input.new_tensor(
            [list(self._row(row)) for row in decoder_input.tolist()], dtype=self.dtype
        )
        if any(row != self.source for row in source.tolist()):
            logits = logits.flip(-1)
        logits = logits.roll(1, -1) if self.training else logits
        logits = logits + self.bias
        self.recorded += logits.requires_grad
        return logits

    def _row(self, row: list[int]) -> Iterator[Sequence[float]]:
        begun = row[0] == self.bos_id
        for t in range(len(row)):
            logits = self.next_logits(tuple(row[1 : t + 1]))
            yield logits if begun else logits[::-1]


def _tree(case: Case) -> Tree:
    return Tree(case).to(target_device()).train(case.options["training"])


class Planted:
    """Logits from a tree that is written down: `{"": "a .6 b .4", "a": "e 1"}`, e for the end.

    What is left of 1 is shared by the words that aren't named. Behind the end all goes to one word;
    where nothing is written down, words are about equally likely, and the end isn't. Each text has
    logits with an offset of its own.
    """

    def __init__(self, branches: Mapping[str, str], V: int, ids: Mapping[str, int], bos: int):
        self.V, self.ids, self.bos = V, ids, bos
        self.known: dict[Text, Sequence[float]] = {}
        self.sides = {
            tuple(ids[w] for w in text.split()): {
                ids[word]: float(p) for word, p in zip(*[iter(said.split())] * 2, strict=True)
            }
            for text, said in branches.items()
        }

    def __call__(self, text: Text) -> Sequence[float]:
        if text not in self.known:
            self.known[text] = self._logits(text)
        return self.known[text]

    def _logits(self, text: Text) -> Sequence[float]:
        ids, V = self.ids, self.V
        ended = ids["e"] in text
        given = {ids["a"]: 0.999} if ended else self.sides.get(text, {ids["e"]: 0.001})
        left = max(1 - sum(given.values()), 1e-3) / (V - len(given))
        offset = 3.0 * math.sin(sum((i + 2) * word for i, word in enumerate(text)))
        shares = [given.get(word, left * (1 + 0.1 * word / V)) for word in range(V)]
        shares[self.bos] = 1e-9
        return [math.log(share) + offset for share in shares]

    def __repr__(self) -> str:
        return f"Planted({self.sides})"


class ByChance:
    """Logits of normal numbers, drawn for each text; `end` is eos and what it gets besides."""

    def __init__(self, V: int, seed: int, spread: float, bos: int, end: tuple[int, float]):
        self.V, self.seed, self.spread, self.bos, self.end = V, seed, spread, bos, end
        self.known: dict[Text, Sequence[float]] = {}

    def __call__(self, text: Text) -> Sequence[float]:
        if text not in self.known:
            self.known[text] = self._logits(text)
        return self.known[text]

    def _logits(self, text: Text) -> Sequence[float]:
        chance = random.Random(f"{self.seed} {text}")
        offset = chance.gauss(0, 3)
        logits = [offset + chance.gauss(0, self.spread) for _ in range(self.V)]
        logits[self.bos] -= 40
        logits[self.end[0]] += self.end[1]
        return logits

    def __repr__(self) -> str:
        return f"ByChance(seed={self.seed})"


# Each a tree and what it is there for. Widths are such that it doesn't matter whether ended texts
# leave their place in the beam to others.
GREEDY_TRAP = {
    "": "a .6 b .4",
    "a": "c .35 d .33 b .3",
    "b": "c .97",
    "a c": "e .97",
    "b c": "e .97",
    "a d": "e .97",
}
LAST_STEP_TRAP = {
    "": "a .9 b .09",
    "a": "c .52 d .46",
    "b": "c .95",
    "a c": "e .9",
    "a d": "e .8",
    "b c": "e .99",
}
LONG_FOR_THE_WORD = {  # two words that lose 0.9 nats, four that lose 1.6: 0.45 and 0.4 a word
    "": "a .45 b .46",
    "a": "e .9",
    "b": "c .77 a .2",
    "b c": "d .77 a .2",
    "b c d": "e .76 a .2",
}
SHORT_FOR_THE_WORD = {  # two words that lose 0.9 nats, four that lose 2.15: 0.45 and 0.54 a word
    "": "a .45 b .46",
    "a": "e .9",
    "b": "c .64 a .3",
    "b c": "d .64 a .3",
    "b c d": "e .63 a .3",
}
LONG_AFTER_ALL = {  # 0.9 nats in two and 1.44 in four: divided by a root, the short one is better
    "": "a .45 b .46",
    "a": "e .9",
    "b": "c .8 a .15",
    "b c": "d .8 a .15",
    "b c d": "e .805 a .15",
}
LONG_AND_ALMOST_AS_LIKELY = {  # 0.9 nats in two and 1.0 in four: the short one has the better sum
    "": "a .45 b .46",
    "a": "e .9",
    "b": "c .93 a .05",
    "b c": "d .93 a .05",
    "b c d": "e .925 a .05",
}
NEVER_ENDS = {  # full length, unfinished, and still the best
    "": "a .55 b .42",
    "a": "a .9",
    "b": "c .3 e .2",
    "b c": "e .98",
    "a a": "b .9",
    "a a b": "a .9",
}
ENDS_FOR_GREEDY = {  # the next best would be better for the word, but greedy has ended
    "": "e .5 a .45",
    "a": "b .97",
    "a b": "c .97",
    "a b c": "e .97",
}
ENDS_AT_ONCE = {"": "e .8 a .15", "a": "b .5 c .4", "a b": "c .6 d .3", "a c": "d .6 b .3"}


def _case(
    draw: Draw,
    name: str,
    branches: Mapping[str, str] | None,
    width: int,
    most: int,
    *,
    V: int = 7,
    S: int = 4,
    training: bool = True,
    roles: str = "small",
    keywords: bool = False,
    **more: Any,
) -> Case:
    order = torch.randperm(V, generator=draw.generator).tolist()
    ids = dict(zip("eabcd", order[1:], strict=False))
    bos, eos = order[0], ids["e"]
    source = torch.randint(3, 40, (1, S), generator=draw.generator)
    inputs = {"model": f"a translator into {V} words", "source": source, "bos_id": bos}
    inputs |= {"eos_id": eos, "max_length": most, "beam_width": width}
    if branches is not None:
        next_logits: Any = Planted(branches, V, ids, bos)
    else:
        next_logits = _drawn(draw, V, bos, eos, width, most, **more)
    options: dict[str, Any] = {"next_logits": next_logits, "training": training, **more}
    if keywords:
        options["keywords"] = tuple(inputs)
    return Case(f"{name} (-1: no word)", inputs, None, options, frozenset(roles.split()))


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw)
    return [
        case("the likeliest first word is a trap", GREEDY_TRAP, 2, 6, roles="small search"),
        case("greedy, in the same tree", GREEDY_TRAP, 1, 6, roles="small greedy", once=True),
        case(
            "the likeliest last word is a trap",
            LAST_STEP_TRAP,
            2,
            6,
            roles="small search",
            once=True,
        ),
        case("the longer text is the better one", LONG_FOR_THE_WORD, 2, 6, training=False),
        case("the shorter text is the better one", SHORT_FOR_THE_WORD, 2, 6, keywords=True),
        case("the best never ends", NEVER_ENDS, 2, 4),
        case("the best ends at once", ENDS_AT_ONCE, 2, 3, once=True),
        case("all texts of two words", None, 30, 2, V=5, once=True),
        case("drawn by chance", None, 3, 5, V=6, roles="typical"),
        case(
            "drawn by chance, greedy",
            None,
            1,
            6,
            V=8,
            roles="small greedy",
            training=False,
            once=True,
        ),
        case(
            "36 words of 40",
            None,
            2,
            36,
            V=40,
            spread=0.25,
            end=-30.0,
            dtype=torch.float32,
            once=True,
        ),
        case("greedy ends at once", ENDS_FOR_GREEDY, 1, 6, roles="small greedy", once=True),
        case("the longer text is clearly better", LONG_AFTER_ALL, 2, 6, once=True),
        case("the longer text is far better", LONG_AND_ALMOST_AS_LIKELY, 2, 6, once=True),
    ]


def _drawn(
    draw: Draw,
    V: int,
    bos: int,
    eos: int,
    width: int,
    most: int,
    spread: float = 1.5,
    end: float = 0.5,
    **_: Any,
) -> Any:
    """Draw until both ways of treating ended texts give the same, and no two texts are near."""
    while True:
        next_logits = ByChance(V, draw.integer(0, 2**31), spread, bos, (eos, end))
        results = [
            search(next_logits, eos, most, width, treatment)
            for treatment in ("set aside", "shrinks", "stays full", "compete")
        ]
        texts = {text for text, _ in results}
        if len(texts) == 1 and min(gap for _, gap in results) > 1e-4:
            return next_logits


def search(
    next_logits: Callable[[Text], Sequence[float]], eos: int, most: int, width: int, treatment: str
) -> tuple[Text, float]:
    """Beam search over plain numbers.

    Args:
        treatment: of texts that have ended: they are "set aside" when they are among the best
            extensions; besides, the beam "shrinks" by each; or it "stays full", with as many that
            go on as ever; or they stay and "compete" with those that go on.

    Returns:
        The best text, and the smallest difference that decided about anything.
    """
    going: list[tuple[float, Text]] = [(0.0, ())]
    done: list[tuple[float, Text]] = []
    gaps = [math.inf]
    for _ in range(most):
        longer = [] if treatment != "compete" else done
        for total, text in going:
            logits = next_logits(text)
            largest = max(logits)
            norm = largest + math.log(sum(math.exp(x - largest) for x in logits))
            longer = longer + [(total + x - norm, (*text, w)) for w, x in enumerate(logits)]
        longer.sort(reverse=True)
        room = width - len(done) if treatment == "shrinks" else width
        if treatment == "stays full":
            place = 0
            going = []
            while place < len(longer) and len(going) < width:
                if longer[place][1][-1] != eos:
                    going.append(longer[place])
                elif place < width:
                    done.append(longer[place])
                place += 1
            best = longer[:place]
            if len(done) >= width:
                break
        else:
            best = longer[:room]
            ended = [h for h in best if h[1][-1] == eos]
            done = ended if treatment == "compete" else done + ended
            going = [h for h in best if h[1][-1] != eos]
        if len(longer) > len(best) > 0:
            gaps.append(best[-1][0] - longer[len(best)][0])
        if not going:
            break
    final = sorted(((total / len(text), text) for total, text in done + going), reverse=True)
    if len(final) > 1:
        gaps.append(final[0][0] - final[1][0])
    return final[0][1], min(gaps)


def _oracle(case: Case) -> Tensor:
    text, _ = search(
        case.options["next_logits"],
        case["eos_id"],
        case["max_length"],
        case["beam_width"],
        "set aside",
    )
    return filled_up(torch.tensor([text]), case)


def filled_up(text: Any, case: Case) -> Any:
    """One text with -1 behind it, so that texts of another length can be compared, and what is
    right in them counts."""
    most = case["max_length"] + 1
    if not isinstance(text, Tensor) or text.dim() != 2 or len(text) != 1 or text.shape[1] > most:
        return text
    return torch.cat([text, text.new_full((1, most - text.shape[1]), -1)], dim=1)


# ---------------------------------------------------------------- beam_translate


class Beam:
    """The right answer in steps; a hypothesis is a pair, ids and their summed log-probability."""

    def __call__(self, model, source, bos_id, eos_id, max_length, beam_width):
        training = model.training
        self.begin(model)
        with self.recording():
            going, done = self.first(beam_width), []
            for _ in range(self.rounds(max_length)):
                longer = self.longer(model, source, self.start(source, bos_id, eos_id), going)
                best = self.best(longer, self.width(beam_width))
                done = done + [h for h in best if self.has_ended(h, eos_id)]
                going = self.going_on(longer, best, eos_id, beam_width)
                if self.stops(done, going):
                    break
        self.end(model, training)
        ids, _ = self.winner(self.finals(done, going))
        return self.answer(source, ids, bos_id, eos_id)

    def begin(self, model):
        model.eval()

    def end(self, model, training):
        model.train(training)

    def recording(self):
        return torch.no_grad()

    def first(self, beam_width):
        return [([], 0.0)]

    def rounds(self, max_length):
        return max_length

    def start(self, source, bos_id, eos_id):
        return source.new_tensor([[bos_id]])

    def longer(self, model, source, begin, going):
        written = torch.cat(
            [begin.expand(len(going), 1), source.new_tensor([ids for ids, _ in going]).long()], 1
        )
        logits = model(source.expand(len(going), -1), self.seen(written))
        shares = self.log_probabilities(self.last(logits)).tolist()
        return [
            ([*ids, word], self.summed(total, share))
            for (ids, total), row in zip(going, shares, strict=True)
            for word, share in enumerate(row)
        ]

    def going_on(self, longer, best, eos_id, beam_width):
        return [h for h in best if not self.has_ended(h, eos_id)]

    def seen(self, written):
        return written

    def last(self, logits):
        return logits[:, -1]

    def log_probabilities(self, logits):
        return logits.log_softmax(-1)

    def summed(self, total, share):
        return total + share

    def width(self, beam_width):
        return beam_width

    def best(self, longer, width):
        return sorted(longer, key=lambda h: -h[1])[:width]

    def has_ended(self, hypothesis, eos_id):
        return hypothesis[0][-1] == eos_id

    def stops(self, done, going):
        return not going

    def finals(self, done, going):
        return done + going

    def winner(self, hypotheses):
        return max(hypotheses, key=self.score)

    def score(self, hypothesis):
        ids, total = hypothesis
        return total / self.length(ids)

    def length(self, ids):
        return len(ids)

    def answer(self, source, ids, bos_id, eos_id):
        return source.new_tensor([ids])


class LastStepOnly(Mistake):
    """A text was judged by its last word alone.

    Why: A good word behind a bad beginning then wins over a good text.
    Mend: What is the probability of a whole text, by those of its words?
    """

    def summed(self, total, share):
        return share

    def score(self, hypothesis):
        return hypothesis[1]


class LastStepInTheBeam(LastStepOnly):
    """In the beam, texts were kept by their last word alone.

    Why: A good word behind a bad beginning then drives out a good text.
    Mend: What is the probability of a whole text, by those of its words?
    """

    @classmethod
    def id(cls):
        return "last_step_only"

    def score(self, hypothesis):
        return super().score(hypothesis) / len(hypothesis[0])


class AlwaysFull(Mistake):
    """The place of a text that has ended went to the next best, without an end: a beam of 1 goes on
    where greedy is done.

    Why: A beam of 1 is greedy: once its text has ended, there is nothing left to go on with.
    Mend: Of the `beam_width` best extensions some end. Only the others go on.
    """

    def going_on(self, longer, best, eos_id, beam_width):
        ordered = self.best(longer, len(longer))
        return [h for h in ordered if not self.has_ended(h, eos_id)][:beam_width]


class ProductUnderflows(Mistake):
    """Probabilities were multiplied, and after some thirty words the product is 0.

    Why: In float32 there is nothing between 0 and 1e-45, and all long texts then look alike.
    Mend: The logarithm of a product is a sum of logarithms.
    """

    def first(self, beam_width):
        return [([], 1.0)]

    def log_probabilities(self, logits):
        return torch.softmax(logits, -1)

    def summed(self, total, share):
        return torch.tensor(total, dtype=torch.float32).mul(share).item()

    def score(self, hypothesis):
        ids, total = hypothesis
        return total ** (1 / self.length(ids))


class NotNormalised(Mistake):
    """Texts of different length were compared by their sums.

    Why: Each word more makes a sum smaller, so the shortest text wins, however poor.
    Mend: Divide each sum by the number of words before you choose.
    """

    def score(self, hypothesis):
        return hypothesis[1]


class CountsBos(Mistake):
    """`bos` was counted among the words that a sum is divided by.

    Why: Nobody had to find it; counted, it makes short texts look better than they are.
    Mend: How many *new* words are there?
    """

    def length(self, ids):
        return len(ids) + 1


class DividedByTooLittle(Mistake):
    """Sums were divided by less than the number of words: by its root, say.

    Why: A sum grows with each word, so short texts then still win too often.
    Mend: What is the mean of the log-probabilities of a text's words?
    """

    def length(self, ids):
        return math.sqrt(len(ids))


def _length_by_wu(self, ids):
    return ((5 + len(ids)) / 6) ** 0.6


class EosNotCounted(Mistake):
    """`eos` was left out of the words that a sum is divided by.

    Why: Its log-probability is part of the sum, like that of any other word.
    Mend: Sum and count must be about the same words.
    """

    eos = -1

    def start(self, source, bos_id, eos_id):
        self.eos = eos_id
        return super().start(source, bos_id, eos_id)

    def length(self, ids):
        return max(len(ids) - (ids[-1] == self.eos), 1)


class EndedExtended(Mistake):
    """Texts that have ended were continued.

    Why: Behind `eos` stands whatever the model says there, and its probability counts.
    Mend: After each step, put aside the texts whose last word is `eos`.
    """

    def has_ended(self, hypothesis, eos_id):
        return False


class GreedyWhateverTheWidth(Mistake):
    """The beam is as narrow as one text: it holds one, or the same one several times.

    Why: What looks worse at first and is better in the end is then never found.
    Mend: With how many texts does the search begin, before there is any word, and where does
    `beam_width` come in?
    """

    def first(self, beam_width):
        return [([], 0.0) for _ in range(beam_width)]


class EachKeepsItsBest(Mistake):
    """Each text of the beam was continued by its own best word only.

    Why: These are `beam_width` greedy texts that never compete; the best two may have the same
    beginning.
    Mend: Put the extensions of all texts into one list, and keep the best of that.
    """

    def best(self, longer, width):
        beginnings: dict[tuple[int, ...], Any] = {}
        if len(longer[0][0]) == 1:
            return super().best(longer, width)
        for ids, total in super().best(longer, None):
            beginnings.setdefault(tuple(ids[:-1]), (ids, total))
        return list(beginnings.values())[:width]


class EndedThrownAway(Mistake):
    """Texts that had ended were forgotten; the best of those still going was returned.

    Why: A text that is complete is thrown away for one that was cut off.
    Mend: At the end, compare those you put aside with those that are left.
    """

    def finals(self, done, going):
        return going or done


class FullLengthThrownAway(Mistake):
    """Texts that reached `max_length` without an `eos` were left out at the end.

    Why: They are hypotheses too, and here one of them was the best.
    Mend: Compare those you put aside with those that are left.
    """

    def finals(self, done, going):
        return done or going


class StopsAtTheFirstEnd(Mistake):
    """The first text that ended was returned, or the shortest.

    Why: A better one came later, or was on its way.
    Mend: How long does the search go on, and by what is the returned text chosen?
    """

    def stops(self, done, going):
        return bool(done) or not going

    def finals(self, done, going):
        return done or going


class LogitsSummed(Mistake):
    """Logits were summed, not log-probabilities.

    Why: A softmax doesn't notice what is added to all logits of a row; a sum over rows does.
    Mend: Which function makes log-probabilities of logits?
    """

    def log_probabilities(self, logits):
        return logits


class ProbabilitiesSummed(Mistake):
    """Probabilities were summed, not their logarithms.

    Why: Two words of 0.5 are then worth as much as one that is sure and one that is impossible.
    Mend: What is the probability of a whole text, by those of its words?
    """

    def log_probabilities(self, logits):
        return logits.softmax(-1)


class LeastLikelyKept(Mistake):
    """The worst extensions were kept.

    Why: A log-probability is negative: -1 is better than -5.
    Mend: Which way do you sort?
    """

    def best(self, longer, width):
        return sorted(longer, key=lambda h: h[1])[:width]


class WorstReturned(Mistake):
    """Of the texts that were found, the worst was returned.

    Why: A log-probability is negative: -1 is better than -5.
    Mend: Is it `max` or `min`?
    """

    def winner(self, hypotheses):
        return min(hypotheses, key=self.score)


class KeepsBos(Mistake):
    """`bos` stands at the beginning of the result.

    Why: It was put there to begin with, and isn't a word of the translation.
    Mend: Which of the ids is not the model's?
    """

    def answer(self, source, ids, bos_id, eos_id):
        return super().answer(source, [bos_id, *ids], bos_id, eos_id)


class LosesEos(Mistake):
    """`eos` is missing at the end.

    Why: Without it nobody can tell a finished text from one that was cut off.
    Mend: `eos` belongs to the text.
    """

    def answer(self, source, ids, bos_id, eos_id):
        return super().answer(source, [i for i in ids if i != eos_id], bos_id, eos_id)


class FlatText(Mistake):
    """The result is `(L,)`.

    Why: A batch of one text is asked, `(1, L)`, as `greedy_translate` returns it.
    Mend: One more pair of square brackets, or `[None]`.
    """

    def answer(self, source, ids, bos_id, eos_id):
        return super().answer(source, ids, bos_id, eos_id)[0]


def _one_end(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """An eos is at the end or nowhere, and the text isn't cut off before its time."""
    text = [id for id in seen.tensors["out"][0].tolist() if id >= 0]
    ended = case["eos_id"] in text
    return case["eos_id"] not in text[:-1] and (ended or len(text) == case["max_length"])


def _right(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool((seen.tensors["out"] == expected["out"]).all())


def _likely(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The first word is one of the likeliest, as many as there are texts in the beam."""
    logits, first = case.options["next_logits"](()), int(seen.tensors["out"][0, 0])
    return sum(other > logits[first] for other in logits) < case["beam_width"]


BEAM_TRANSLATE = Exercise(
    id="beam_translate",
    lesson=LESSON,
    call="beam_translate(model, source, bos_id, eos_id, max_length, beam_width)",
    points=1.5,
    cases=_cases,
    probe=TranslateProbe(_tree, filled_up),
    expect=expect_translated(_oracle),
    reference=translation.beam_translate,
    same_as=(translation.beam_search,),
    properties=(
        Property("likely", "The text begins with a likely word", _likely, gate=True),
        Property(
            "one_end",
            "eos stands at the end of the text or nowhere",
            _one_end,
            credit=True,
            breaks="eos stands in mid-text, or a text without one isn't `max_length` words long",
        ),
        Property("greedy", "Width 1 is greedy", _right, credit=True, role="greedy"),
        Property(
            "search",
            "A wider beam finds what greedy misses",
            _right,
            credit=True,
            role="search",
        ),
        *OF_THE_MODEL,
    ),
    misconceptions=Misconceptions.of(
        NotNormalised,
        LastStepOnly,
        EndedThrownAway,
        EndedExtended,
        GreedyWhateverTheWidth,
        AlwaysFull,
        ProductUnderflows,
        CountsBos,
        LogitsSummed,
        StopsAtTheFirstEnd,
        generating.EvaluationLeftOn.on(Beam, **LEFT_ON),
        generating.StaysInTraining,
        generating.RecordsGradients.on(Beam, **RECORDED),
        generating.TrainingTurnedOn,
        LastStepInTheBeam,
        EosNotCounted,
        EachKeepsItsBest,
        FullLengthThrownAway,
        ProbabilitiesSummed,
        LeastLikelyKept,
        WorstReturned,
        KeepsBos,
        LosesEos,
        FlatText,
        BeginsWithEos,
        LastTokenOnlyShown,
        generating.FirstPosition.on(
            Beam,
            why="They are about the first word, which is there already.",
            mend="Which position's logits are about the word behind all that is written?",
        ),
        generating.OneRoundMore.on(Beam, **ROUNDS),
        generating.OneRoundMore.but(rounds=lambda self, max_new_tokens: max_new_tokens - 1).on(
            Beam, **ROUNDS
        ),
        DividedByTooLittle,
        DividedByTooLittle.but(length=_length_by_wu),
        on=Beam,
    ),
    hints=(
        "Keep a list of pairs: the ids so far, and their summed log-probability. It begins with "
        "one pair, `([], 0.0)`. In each step every pair becomes V longer ones; sort them all "
        "together, keep `beam_width`.",
        "Of those kept, the ones whose last id is `eos_id` go into a list `done`, the rest go on. "
        "Leave the loop when none is left. At the end look at both lists.",
        "`logits = model(source, torch.tensor([[bos_id, *ids]], device=source.device))[0, -1]` and "
        "`logits.log_softmax(dim=-1).tolist()` give what each word adds. The best is "
        "`max(done + going, key=lambda pair: pair[1] / len(pair[0]))`.",
    ),
    other_way="""\
# All texts of the beam in one batch, and their extensions in one tensor.
@torch.no_grad()
def beam_translate(model, source, bos_id, eos_id, max_length, beam_width):
    was_training = model.training
    model.eval()
    written, sums = source.new_tensor([[bos_id]]), torch.zeros(1, device=source.device)
    done = []
    for _ in range(max_length):
        logits = model(source.expand(len(written), -1), written)[:, -1]  # (K, V)
        longer = sums[:, None] + logits.log_softmax(dim=-1)  # (K, 1) + (K, V) -> (K, V)
        sums, places = longer.flatten().topk(min(beam_width, longer.numel()))
        rows, words = places // longer.shape[1], places % longer.shape[1]
        written = torch.cat([written[rows], words[:, None]], dim=1)
        ended = words == eos_id
        done += zip(sums[ended], written[ended])
        sums, written = sums[~ended], written[~ended]
        if len(written) == 0:
            break
    model.train(was_training)
    done += zip(sums, written)
    return max(done, key=lambda pair: pair[0] / (len(pair[1]) - 1))[1][None, 1:]
""",
)
