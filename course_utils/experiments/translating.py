"""Lesson 12: a translator into the toy French: its data, its searches and their mistakes, what it
writes after a wrong word, and what its heads attend to."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from ..data.toy_french import BOS_ID, EOS_ID, PAD_ID, Pair, english, french
from ..desk.environment import use_threads
from ..desk.language import columns, localised
from ..language_model import evaluating
from ..show.drawing import Picture, titled
from ..translation import (
    Hypothesis,
    Translator,
    alignment,
    beam_search,
    translation_loss,
)
from .sources import ReadsOnce, as_batch, sentences
from .sources import exact as exact  # the lesson imports it from here
from .training import seeded

WIDTH, HEADS, LAYERS, WIDE, LONGEST = 64, 4, 2, 256, 14
BATCH, STEPS, RATE = 64, 300, 2e-3
Search = Callable[[nn.Module, Tensor, int, int, int, int], Tensor]


def new_model(seed: int = 0, dropout: float = 0.0) -> Translator:
    """The lesson's model before training."""
    with seeded(seed):
        V_source, V_target = len(english.vocabulary), len(french.vocabulary)
        return Translator(V_source, V_target, WIDTH, HEADS, WIDE, LAYERS, LONGEST, dropout)


# Batches ----------------------------------------------------------------------------------------


def loss(logits: Tensor, batch: Sequence[Tensor]) -> Tensor:
    """Return the loss of a batch whose last tensor contains the targets."""
    return translation_loss(logits, batch[-1], PAD_ID)


def draw_batches(
    pairs: Sequence[Pair], steps: int, seed: int = 0, size: int = BATCH
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Batches for `steps` steps; no sentence recurs before all others have been used."""
    chance, deck, batches = random.Random(seed), list[Pair](), []
    for _ in range(steps):
        if len(deck) < size:
            deck = chance.sample(list(pairs), len(pairs))
        batches.append(as_batch(deck[:size]))
        del deck[:size]
    return batches


# Searches ---------------------------------------------------------------------------------------


def french_of(text: str) -> str:
    """The right translation of a sentence in one of the sets."""
    return next(pair.french for pairs in sentences() for pair in pairs if pair.english == text)


def translate(model: nn.Module, text: str, beam_width: int = 1) -> str:
    """The French translation of a sentence, without eos."""
    best = searched(model, text, beam_width)[0]
    return french_text(best.ids)


def searched(model: nn.Module, text: str, beam_width: int) -> list[Hypothesis]:
    """All final texts of a beam search, the best score first."""
    source = english.encode(text)[None]
    return beam_search(model, source, BOS_ID, EOS_ID, LONGEST - 1, beam_width)


def show_search(search: Search, model: nn.Module, text: str, width: int) -> None:
    """Print what a search finds, with the sum and the mean of its log-probabilities."""
    ids = search(model, english.encode(text)[None], BOS_ID, EOS_ID, LONGEST - 1, width)[0]  # (L,)
    found = french_text(ids.tolist())
    total = log_probability(model, text, found)
    print(f"width {width}: sum {total:6.2f}  score {total / len(ids):5.2f}  {found}")


def french_text(ids: Sequence[int]) -> str:
    return french.decode(torch.tensor([id for id in ids if id != EOS_ID], dtype=torch.int64))


def log_probability(model: nn.Module, text: str, translation: str) -> float:
    """The summed log-probability of a French sentence and its eos."""
    return _log_probability(model, text, [*french.encode(translation).tolist(), EOS_ID])


@torch.no_grad()
def _log_probability(model: nn.Module, text: str, ids: Sequence[int]) -> float:
    words = torch.tensor(ids)
    given = torch.tensor([[BOS_ID, *ids[:-1]]])
    with evaluating(model):
        logs = model(english.encode(text)[None], given)[0].double().log_softmax(dim=-1)  # (T, V)
    return logs[torch.arange(len(words)), words].sum().item()


class Judged(NamedTuple):
    """The fractions of sentences that a search gets right, and wrong for each of two reasons."""

    right: float
    missed: float
    preferred: float


def judged(
    search: Search, model: nn.Module, pairs: Sequence[Pair], widths: Sequence[int]
) -> dict[int, Judged]:
    """Judge the translations that a search finds with each beam width.

    A wrong translation is `missed` if the right one has a better score, so that the search is to
    blame, and `preferred` if the model gives the wrong one the better score.
    """
    found = {}
    with use_threads(1):
        for width in widths:
            missed = preferred = 0
            for pair in pairs:
                source = english.encode(pair.english)[None]
                wanted = [*french.encode(pair.french).tolist(), EOS_ID]
                ids = search(model, source, BOS_ID, EOS_ID, LONGEST - 1, width)[0].tolist()
                if ids != wanted:
                    best, own = (
                        _log_probability(model, pair.english, text) / len(text)
                        for text in (wanted, ids)
                    )
                    missed += best > own
                    preferred += best <= own
            N = len(pairs)
            found[width] = Judged((N - missed - preferred) / N, missed / N, preferred / N)
    return found


def show_judged(results: dict[int, Judged]) -> None:
    """Print the results of `judged`, one row per width."""
    heads = "width", "right", "wrong: the search missed it", "wrong: the model prefers it"
    print(
        *(" " * (len(head) - columns(localised(head))) + localised(head) for head in heads),
        sep="  ",
    )
    for width, row in results.items():
        print(f"{width:5}  {row.right:5.2f}  {row.missed:27.2f}  {row.preferred:27.2f}")


def rescued(model: nn.Module, pairs: Sequence[Pair], width: int) -> str:
    """Return a short sentence that greedy decoding gets wrong and this beam width gets right."""
    in_order = sorted(pairs, key=lambda pair: len(pair.french))
    for pair in in_order:
        if translate(model, pair.english, width) == pair.french != translate(model, pair.english):
            return pair.english
    return in_order[0].english  # such a sentence need not exist


# The first wrong word ---------------------------------------------------------------------------


@torch.no_grad()
def after_a_word(model: Translator, pairs: Sequence[Pair], wrong: bool) -> float:
    """The accuracy of greedy decoding after the first two words are given.

    Args:
        wrong: whether the second word is replaced by a wrong one.

    Returns:
        The fraction of the later words that are right, each at its position.
    """
    chance = random.Random(0)
    words = range(EOS_ID + 1, len(french.vocabulary))
    source, source_pad_mask, targets = as_batch(pairs)
    given = targets[:, :2].clone()
    if wrong:
        for row, word in zip(given, targets[:, 1].tolist(), strict=True):
            row[1] = chance.choice([other for other in words if other != word])
    ids = torch.cat([torch.full_like(given[:, :1], BOS_ID), given], dim=1)  # (B, 3)
    with evaluating(model):
        reads_once = ReadsOnce(model, source, source_pad_mask)
        while ids.shape[1] <= targets.shape[1]:
            word = reads_once(source, ids)[:, -1:].argmax(dim=-1)  # (B, T, V) -> (B, 1)
            ids = torch.cat([ids, word], dim=1)
    rest = targets[:, 2:]
    right = ids[:, 3:] == rest
    return right[rest != PAD_ID].double().mean().item()


# Alignment --------------------------------------------------------------------------------------


def aligned(model: Translator, text: str) -> tuple[Tensor, list[str], list[str]]:
    """Cross-attention weights `(L, H, T, S)` for a sentence, its words, and the generated words."""
    source = english.encode(text)[None]
    ids = searched(model, text, beam_width=1)[0].ids
    given = torch.tensor([[BOS_ID, *ids[:-1]]])
    weights = alignment(model, source, given)[0]
    return (
        weights,
        [english.vocabulary[id] for id in source[0]],
        [french.vocabulary[i] for i in ids],
    )


def best_aligned_head(model: Translator, pairs: Sequence[Pair]) -> tuple[int, int, float]:
    """The head whose largest weight is most often on the word being translated (its layer, its
    number, and the fraction). Only nouns, adjectives and verbs count."""
    hits, count = torch.zeros(LAYERS, HEADS), 0
    for pair in pairs:
        source, mask, targets = as_batch([pair])
        given = torch.cat([torch.tensor([[BOS_ID]]), targets[:, :-1]], dim=1)
        looked = alignment(model, source, given, mask)[0].argmax(dim=-1)  # (L, H, T)
        for t, s in gold(pair):
            hits += looked[:, :, t] == s
            count += 1
    layer, head = divmod(int(hits.argmax()), HEADS)
    return layer, head, hits[layer, head].item() / count


def gold(pair: Pair) -> list[tuple[int, int]]:
    """Pairs of positions (French, English) of words that have the same meaning and occur once."""
    read = [english.vocabulary[id] for id in english.encode(pair.english)]
    written = [french.vocabulary[id] for id in french.encode(pair.french)]
    meanings = _meanings()
    found = []
    for t, word in enumerate(written):
        places = [s for s, w in enumerate(read) if word in meanings.get(w, ())]
        if len(places) == 1 and written.count(word) == 1:
            found.append((t, places[0]))
    return found


@cache
def _meanings() -> dict[str, set[str]]:
    from ..data import toy_french as t

    said = {noun: {chosen[0]} for noun, chosen in t.NOUNS.items()}
    said |= {word: set(forms.values()) for word, forms in (t.SIZES | t.COLOURS).items()}
    for verb, of_verb in (t.VERBS | t.VERBS_WITH_OBJECT).items():
        said[verb] = {of_verb}
    return said


# The beam as a tree -----------------------------------------------------------------------------


@torch.no_grad()
def beam_steps(
    model: nn.Module, text: str, beam_width: int
) -> list[list[tuple[list[int], float, bool]]]:
    """The texts of each step of a beam search, with their summed log-probabilities and whether they
    were kept: each text's three most likely extensions, and all extensions that were kept."""
    source = english.encode(text)[None]
    going, steps = [Hypothesis([], 0.0)], []
    with evaluating(model):
        for _ in range(LONGEST - 1):
            longer: list[Hypothesis] = []
            for before in going:
                given = torch.tensor([[BOS_ID, *before.ids]])
                logs = model(source, given)[0, -1].double().log_softmax(dim=-1)
                best = logs.topk(max(3, beam_width))
                longer += [
                    Hypothesis([*before.ids, word], before.log_probability + log)
                    for log, word in zip(best.values.tolist(), best.indices.tolist(), strict=True)
                ]
            longer.sort(key=lambda text: -text.log_probability)
            kept = longer[:beam_width]
            near = [h for h in longer[beam_width:] if h.log_probability > longer[0][1] - 7]
            steps.append(
                [(h.ids, h.log_probability, True) for h in kept]
                + [(h.ids, h.log_probability, False) for h in near[:3]]
            )
            going = [h for h in kept if h.ids[-1] != EOS_ID]
            if not going:
                break
    return steps


def beam_tree(model: nn.Module, text: str, beam_width: int, title: str, alt: str) -> Picture:
    """Draw the texts of a beam search: kept texts in boxes, dropped texts without a box, and the
    best text in grey."""
    steps = beam_steps(model, text, beam_width)
    best = searched(model, text, beam_width)[0].ids
    places: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, 0.0)}
    for x, step in enumerate(steps, start=1):
        ordered = sorted(step, key=lambda h: (places[tuple(h[0][:-1])][1], -h[1]))
        for y, (ids, _, _) in enumerate(ordered):
            places[tuple(ids)] = x, float(y) - (len(ordered) - 1) / 2
    tall = max(len(step) for step in steps)
    figure, axes = plt.subplots(figsize=(1.15 * (len(steps) + 1), 0.55 * tall + 0.8))
    bold = {tuple(best[:n]) for n in range(len(best) + 1)}
    root: list[tuple[list[int], float, bool]] = [([], 0.0, True)]
    for x, step in enumerate([root, *steps]):
        for ids, total, kept in sorted(step, key=lambda h: h[2]):  # boxes are drawn above lines
            here, before = places[tuple(ids)], places[tuple(ids[:-1])] if ids else None
            word = french.vocabulary[ids[-1]] if ids else "<bos>"
            if before is not None:
                style = "-" if kept else ":"
                width = 2.2 if tuple(ids) in bold else 0.9
                axes.plot(
                    [before[0] + 0.3, here[0] - 0.3],
                    [-before[1], -here[1]],
                    style,
                    color="black",
                    linewidth=width,
                )
            face = "#dddddd" if tuple(ids) in bold else "white"
            box = {"boxstyle": "round,pad=0.25", "facecolor": face, "edgecolor": "black"}
            if not kept:
                box["edgecolor"] = "white"
            number = f"{total:.1f}".replace("-", "\u2212")
            label = f"{word}\n{number}" if ids else word
            axes.text(x, -here[1], label, ha="center", va="center", bbox=box, fontsize=8)
    axes.set(xlim=(-0.5, len(steps) + 0.5), ylim=(-tall / 2 - 0.2, tall / 2 + 0.2))
    axes.axis("off")
    return titled(figure, title, alt)
