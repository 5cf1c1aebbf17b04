"""Decoders with given or random logits, and beam search over plain numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from whywrong import Draw

Text = tuple[int, ...]
Hypothesis = tuple[float, Text]  # with the summed log-probability first, for sorting
Step = tuple[list[Hypothesis], int, list[Hypothesis], list[Hypothesis]]
Treatment = Callable[[list[Hypothesis], list[Hypothesis], int, int], Step]


class NextLogits:
    """Logits for the next word after a text, always the same for the same text."""

    def __init__(self, V: int, bos: int) -> None:
        self.V, self.bos = V, bos
        self.known: dict[Text, Sequence[float]] = {}

    def __call__(self, text: Text) -> Sequence[float]:
        if text not in self.known:
            self.known[text] = self.logits(text)
        return self.known[text]

    def logits(self, text: Text) -> Sequence[float]:
        raise NotImplementedError


class Planted(NextLogits):
    """Logits from a given tree: "a .6 b .4 | a: e 1", with e for the end.

    The unnamed words share the rest of the probability. After the end, one word is nearly certain;
    after texts not in the tree, words are about equally likely, but the end is unlikely. The logits
    of each text have a different offset.
    """

    def __init__(self, tree: str, V: int, ids: Mapping[str, int], bos: int):
        super().__init__(V, bos)
        self.ids = ids
        self.after: dict[Text, dict[int, float]] = {}
        for branch in tree.split(" | "):
            text, _, words = branch.rpartition(": ")
            chances = zip(*[iter(words.split())] * 2, strict=True)
            self.after[tuple(ids[w] for w in text.split())] = {ids[w]: float(p) for w, p in chances}

    def logits(self, text: Text) -> Sequence[float]:
        ids, V = self.ids, self.V
        given = {ids["a"]: 0.999} if ids["e"] in text else self.after.get(text, {ids["e"]: 0.001})
        left = max(1 - sum(given.values()), 1e-3) / (V - len(given))
        offset = 3.0 * math.sin(sum((i + 2) * word for i, word in enumerate(text)))
        shares = [given.get(word, left * (1 + 0.1 * word / V)) for word in range(V)]
        shares[self.bos] = 1e-9
        return [math.log(share) + offset for share in shares]


class ByChance(NextLogits):
    """Normal random numbers for each text; `end` is added to the logit of eos."""

    def __init__(self, V: int, bos: int, eos: int, seed: int, spread: float, end: float) -> None:
        super().__init__(V, bos)
        self.eos, self.seed, self.spread, self.end = eos, seed, spread, end

    def logits(self, text: Text) -> Sequence[float]:
        chance = random.Random(f"{self.seed} {text}")
        offset = chance.gauss(0, 3)
        logits = [offset + chance.gauss(0, self.spread) for _ in range(self.V)]
        logits[self.bos] -= 40
        logits[self.eos] += self.end
        return logits


def clear_by_chance(
    draw: Draw, V: int, bos: int, eos: int, most: int, width: int, spread: float, end: float
) -> ByChance:
    """Draws until both treatments of ended texts give the same result and no texts are close."""
    while True:
        found = ByChance(V, bos, eos, draw.integer(0, 2**31), spread, end)
        ways = (set_aside, competes)
        results = [search(found, eos, most, width, treated) for treated in ways]
        if len({text for text, _ in results}) == 1 and min(gap for _, gap in results) > 1e-4:
            return found


# ---------------------------------------------------------------- beam search


def set_aside(longer: list[Hypothesis], done: list[Hypothesis], width: int, eos: int) -> Step:
    """Ended texts are set aside, and the beam keeps its width.

    Args:
        longer: extensions of the texts in the beam, the most likely first.
        done: texts that ended earlier.

    Returns:
        The compared texts, how many of them are kept, the continuing texts, the ended texts.
    """
    going, ended = _parted(longer[:width], eos)
    return longer, width, going, done + ended


def competes(longer: list[Hypothesis], done: list[Hypothesis], width: int, eos: int) -> Step:
    """Ended texts stay in the beam as long as they are among the best."""
    longer = sorted(longer + done, reverse=True)
    return longer, width, *_parted(longer[:width], eos)


def search(
    next_logits: NextLogits, eos: int, most: int, width: int, treated: Treatment = set_aside
) -> tuple[Text, float]:
    """The best text of a beam, and the smallest difference that decided anything.

    Args:
        treated: the treatment of ended texts.
    """
    going: list[Hypothesis] = [(0.0, ())]
    done: list[Hypothesis] = []
    gaps = [math.inf]
    for _ in range(most):
        longer = sorted((h for one in going for h in _extended(next_logits, one)), reverse=True)
        longer, kept, going, done = treated(longer, done, width, eos)
        if len(longer) > kept > 0:
            gaps.append(longer[kept - 1][0] - longer[kept][0])
        if not going:
            break
    final = sorted(((total / len(text), text) for total, text in done + going), reverse=True)
    if len(final) > 1:
        gaps.append(final[0][0] - final[1][0])
    return final[0][1], min(gaps)


def _extended(next_logits: NextLogits, hypothesis: Hypothesis) -> list[Hypothesis]:
    total, text = hypothesis
    logits = next_logits(text)
    largest = max(logits)
    norm = largest + math.log(sum(math.exp(x - largest) for x in logits))
    return [(total + x - norm, (*text, word)) for word, x in enumerate(logits)]


def _parted(best: list[Hypothesis], eos: int) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """The continuing texts and the ended ones."""
    return [h for h in best if h[1][-1] != eos], [h for h in best if h[1][-1] == eos]
