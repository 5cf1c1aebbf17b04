"""Lesson 11: a small translator, which `python -m training.small_models` has trained and stored,
and the results of its variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..data.toy_french import BOS_ID, EOS_ID, PAD_ID, Pair, english, french, three_sets
from ..language_model import evaluating
from ..transformer import DecoderBlock, EncoderBlock
from ..translation import (
    Translator,
    alignment,
    greedy_translate,
    pad,
    teacher_forcing,
)
from .training import seeded

WIDTH, HEADS, LAYERS, WIDE, LONGEST = 32, 2, 2, 128, 14
KEPT = Path(__file__).with_name("sources.safetensors")


def new_model(seed: int = 0) -> Translator:
    with seeded(seed):
        sizes = len(english.vocabulary), len(french.vocabulary)
        return Translator(*sizes, WIDTH, HEADS, WIDE, LAYERS, LONGEST)


def translator(
    cross: Any = None,
    encoder: Callable[..., nn.Module] = EncoderBlock,
    decoder: Callable[..., nn.Module] = DecoderBlock,
) -> Translator:
    """The trained translator, in evaluation mode, built from these parts.

    Args:
        cross: a `CrossAttention` class for all blocks; None keeps the class of each block.
        encoder, decoder: an `EncoderBlock` and a `DecoderBlock` class.
    """
    model = new_model()
    with torch.random.fork_rng(devices=[]):
        model.encoder = nn.ModuleList(encoder(WIDTH, HEADS, WIDE) for _ in range(LAYERS))
        model.decoder = nn.ModuleList(decoder(WIDTH, HEADS, WIDE, LONGEST) for _ in range(LAYERS))
        for read, write in zip(model.encoder, model.decoder, strict=True) if cross else ():
            read.attention, write.cross_attention = cross(WIDTH, HEADS), cross(WIDTH, HEADS)
    # A class may store its masks in the state dict.
    model.load_state_dict({n: w.float() for n, w in load_file(KEPT).items()}, strict=False)
    return model.eval()


@cache
def sentences() -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
    """Lesson 12's sets: training sentences, unseen sentences, and unseen combinations."""
    return three_sets()


def _begun(prefix: str) -> Tensor:
    """The ids of bos and of French words, `(1, T)`."""
    return torch.cat([torch.tensor([BOS_ID]), french.encode(prefix)])[None]


@torch.no_grad()
def next_words(model: Translator, source: str, prefix: str, count: int) -> dict[str, float]:
    """Return the most likely French words after a prefix, with their rounded probabilities.

    Args:
        source: an English sentence.
        prefix: the French words so far.
    """
    context = model.encode(english.encode(source)[None])  # (B, S, C)
    best = model.decode(_begun(prefix), context)[0, -1].softmax(dim=-1).topk(count)
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


def translate(model: nn.Module, text: str) -> str:
    """The French translation of a sentence, decoded greedily."""
    ids = greedy_translate(model, english.encode(text)[None], BOS_ID, EOS_ID, LONGEST - 1)[0]
    return french.decode(ids[ids != EOS_ID])


def pieces(source: str) -> list[str]:
    """The words of an English sentence, with a verb's ending as a separate piece."""
    return [english.vocabulary[i] for i in english.encode(source).tolist()]


def attends_to(model: Translator, source: str, target: str) -> Tensor:
    """The weights of the last layer's cross-attention, averaged over its heads, `(T, S)`:
    one row per target word."""
    weights = alignment(model, english.encode(source)[None], _begun(target))  # (B, L, H, T, S)
    return weights[0, -1].mean(dim=0)  # (H, T, S) -> (T, S)


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


# Exact translations among 1,000 unseen sentences after 400 steps, for the seeds 0, 1 and 2,
# measured by `python -m training.variants`.
MEASURED = {
    "as in 2017": (1.00, 1.00, 1.00),
    "Pre-LN": (1.00, 1.00, 1.00),
    "GELU": (1.00, 1.00, 1.00),
    "without cross-attention": (0.00, 0.00, 0.00),
}
