"""Lessons 11 and 12: translators into the toy French, small and larger: their data, their searches
and mistakes, what they write after a wrong word, and what their heads attend to.

`python -m training.small_models` has trained and stored lesson 11's translator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..data.toy_french import BOS_ID, EOS_ID, PAD_ID, Pair, english, french, three_sets
from ..desk.environment import use_threads
from ..desk.language import columns, localised
from ..language_model import evaluating
from ..show.drawing import Picture, titled
from ..transformer import DecoderBlock, EncoderBlock
from ..translation import (
    Hypothesis,
    Translator,
    alignment,
    beam_search,
    greedy_translate,
    pad,
    teacher_forcing,
    translation_loss,
)
from .training import seeded

SIZES = WIDTH, HEADS, WIDE = 64, 4, 256
SMALL = 32, 2, 128  # lesson 11's sizes
LAYERS, LONGEST = 2, 14
BATCH, STEPS, RATE = 64, 300, 2e-3
STORED = Path(__file__).with_suffix(".safetensors")
Search = Callable[[nn.Module, Tensor, int, int, int, int], Tensor]


def new_model(
    seed: int = 0, dropout: float = 0.0, sizes: tuple[int, int, int] = SIZES
) -> Translator:
    """Lesson 12's model before training, or a model of other sizes."""
    with seeded(seed):
        V_source, V_target = len(english.vocabulary), len(french.vocabulary)
        return Translator(V_source, V_target, *sizes, LAYERS, LONGEST, dropout)


# Batches ----------------------------------------------------------------------------------------


@cache
def sentences() -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
    """Training sentences, unseen sentences, and unseen combinations."""
    return three_sets()


def pieces(source: str) -> list[str]:
    """The words of an English sentence, with a verb's ending as a separate piece."""
    return [english.vocabulary[i] for i in english.encode(source).tolist()]


def _begun(ids: Tensor | Sequence[int]) -> Tensor:
    """The decoder's input `(1, T + 1)` after these T words."""
    return torch.tensor([[BOS_ID, *ids]])


def as_batch(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources `(B, S)`, their padding `(B, S)`, and targets `(B, T)` that end in eos."""
    source, mask = pad([english.encode(pair.english) for pair in pairs], PAD_ID)
    end = torch.tensor([EOS_ID])
    targets, _ = pad([torch.cat([french.encode(pair.french), end]) for pair in pairs], PAD_ID)
    return source, mask, targets


def with_inputs(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the batch, with the decoder's inputs added before the targets."""
    source, mask, targets = batch
    return source, mask, teacher_forcing(targets, BOS_ID), targets


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


# Lesson 11's stored translator ------------------------------------------------------------------


def translator(
    cross: Any = None,
    encoder: Callable[..., nn.Module] = EncoderBlock,
    decoder: Callable[..., nn.Module] = DecoderBlock,
) -> Translator:
    """Lesson 11's trained translator, in evaluation mode, built from these parts.

    Args:
        cross: a `CrossAttention` class for all blocks; None keeps the class of each block.
        encoder, decoder: an `EncoderBlock` and a `DecoderBlock` class.
    """
    model = new_model(sizes=SMALL)
    with torch.random.fork_rng(devices=[]):
        model.encoder = nn.ModuleList(encoder(*SMALL) for _ in range(LAYERS))
        model.decoder = nn.ModuleList(decoder(*SMALL, LONGEST) for _ in range(LAYERS))
        for read, write in zip(model.encoder, model.decoder, strict=True) if cross else ():
            read.attention, write.cross_attention = cross(*SMALL[:2]), cross(*SMALL[:2])
    # A class may store its masks in the state dict.
    model.load_state_dict({n: w.float() for n, w in load_file(STORED).items()}, strict=False)
    return model.eval()


@torch.no_grad()
def next_words(model: Translator, source: str, prefix: str, count: int) -> dict[str, float]:
    """Return the most likely French words after a prefix, with their rounded probabilities.

    Args:
        source: an English sentence.
        prefix: the French words so far.
    """
    context = model.encode(english.encode(source)[None])  # (B, S, C)
    best = model.decode(_begun(french.encode(prefix)), context)[0, -1].softmax(dim=-1).topk(count)
    words = [french.vocabulary[i] for i in best.indices.tolist()]
    return dict(zip(words, [round(p, 2) for p in best.values.tolist()], strict=True))


@torch.no_grad()
def contexts_read() -> int:
    """The number of different contexts that the decoder blocks of the small translator read."""
    model, read = translator(), list[Tensor]()
    for block in model.decoder:
        assert isinstance(block, DecoderBlock)
        block.cross_attention.register_forward_pre_hook(lambda _, given: read.append(given[1]))
    next_words(model, "the cat sings", "le chat", count=1)
    return sum(not any(torch.equal(a, b) for b in read[:i]) for i, a in enumerate(read))


def attends_to(model: Translator, source: str, target: str) -> Tensor:
    """The weights of the last layer's cross-attention, averaged over its heads, `(T, S)`:
    one row per target word."""
    ids = _begun(french.encode(target))
    weights = alignment(model, english.encode(source)[None], ids)  # (B, L, H, T, S)
    return weights[0, -1].mean(dim=0)  # (H, T, S) -> (T, S)


# Exact translations among 1,000 unseen sentences after 400 steps, for the seeds 0, 1 and 2,
# measured by `python -m training.variants`.
MEASURED = {
    "as in 2017": (1.00, 1.00, 1.00),
    "Pre-LN": (1.00, 1.00, 1.00),
    "GELU": (1.00, 1.00, 1.00),
    "without cross-attention": (0.00, 0.00, 0.00),
}


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
    with evaluating(model):
        logits = model(english.encode(text)[None], _begun(ids[:-1]))[0]  # (T, V)
    logs = logits.double().log_softmax(dim=-1)
    return logs[torch.arange(len(ids)), torch.tensor(ids)].sum().item()


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


class ReadsOnce(nn.Module):
    """A translator that has already encoded its sources, so that each call runs only the decoder.
    If the model has no `encode` and `decode`, it encodes the sources again in each call."""

    def __init__(self, model: Translator, source: Tensor, source_pad_mask: Tensor) -> None:
        super().__init__()
        self.model, self.source_pad_mask = model, source_pad_mask
        self.context: Tensor | None = None
        if hasattr(model, "encode") and hasattr(model, "decode"):
            with torch.no_grad(), evaluating(model):
                self.context = model.encode(source, source_pad_mask)

    def forward(
        self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        if self.context is None:
            return self.model(source, decoder_input, self.source_pad_mask)
        return self.model.decode(decoder_input, self.context, self.source_pad_mask)


def exact(model: Translator, pairs: Sequence[Pair]) -> float:
    """The fraction of sentences in which greedy decoding gets every word right."""
    source, source_pad_mask, targets = as_batch(pairs)
    reads_once = ReadsOnce(model, source, source_pad_mask).train(model.training)
    text = greedy_translate(reads_once, source, BOS_ID, EOS_ID, LONGEST - 1)

    def words(row: list[int]) -> list[int] | None:
        return row[: row.index(EOS_ID)] if EOS_ID in row else None

    rows = zip(text.tolist(), targets.tolist(), strict=True)
    return sum(words(a) == words(b) for a, b in rows) / len(pairs)


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
    ids = searched(model, text, beam_width=1)[0].ids
    weights = alignment(model, english.encode(text)[None], _begun(ids[:-1]))[0]
    return weights, pieces(text), [french.vocabulary[id] for id in ids]


def best_aligned_head(model: Translator, pairs: Sequence[Pair]) -> tuple[int, int, float]:
    """The head whose largest weight is most often on the word being translated (its layer, its
    number, and the fraction). Only nouns, adjectives and verbs count."""
    hits, count = torch.zeros(LAYERS, HEADS), 0
    for pair in pairs:
        source, mask, targets = as_batch([pair])
        weights = alignment(model, source, teacher_forcing(targets, BOS_ID), mask)[0]
        looked = weights.argmax(dim=-1)  # (L, H, T, S) -> (L, H, T)
        for t, s in gold(pair):
            hits += looked[:, :, t] == s
            count += 1
    layer, head = divmod(int(hits.argmax()), HEADS)
    return layer, head, hits[layer, head].item() / count


def gold(pair: Pair) -> list[tuple[int, int]]:
    """Pairs of positions (French, English) of words that have the same meaning and occur once."""
    read = pieces(pair.english)
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
                logs = model(source, _begun(before.ids))[0, -1].double().log_softmax(dim=-1)
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
