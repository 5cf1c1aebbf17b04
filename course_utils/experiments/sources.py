"""Lesson 11: a small translator, and what its decoder says from one source, another, and none.

    python -m course_utils.experiments.sources

trains it and keeps its weights beside this file, in half precision. In one of four steps its
decoder gets zeros in place of what the encoder read, so that it knows what to do without a source.

    python -m course_utils.experiments.sources variants

trains translators with one part changed and prints how many unseen sentences each gets right.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..attention import CrossAttention
from ..language_model import evaluating
from ..threads import use_threads
from ..toy_french import (
    BOS,
    BOS_ID,
    EOS,
    EOS_ID,
    PAD_ID,
    Pair,
    SentenceTokenizer,
    english,
    french,
    three_sets,
)
from ..transformer import DecoderBlock, EncoderBlock, ReLUFeedForward
from ..translation import (
    Translator,
    alignment,
    greedy_translate,
    pad,
    teacher_forcing,
    translation_loss,
)

WIDTH, HEADS, LAYERS, WIDE, LONGEST = 32, 2, 2, 128, 14
BATCH, STEPS, WARM_UP, LEARNING_RATE = 64, 3_000, 100, 3e-3
KEPT = Path(__file__).with_name("sources.safetensors")
COUNTED = "le petit"


def new_model(
    seed: int = 0,
    source: SentenceTokenizer = english,
    target: SentenceTokenizer = french,
) -> Translator:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = len(source.vocabulary), len(target.vocabulary)
        return Translator(*sizes, WIDTH, HEADS, WIDE, LAYERS, LONGEST)


class Reader(NamedTuple):
    """The trained model, in evaluation mode, with what it was trained on: its words, and how often
    a word followed `COUNTED` at the beginning of a sentence."""

    model: Translator
    english: SentenceTokenizer
    french: SentenceTokenizer
    counted: Counter[str]


@cache
def reader() -> Reader:
    """What is kept; it goes on with its own words when the toy languages get others."""
    with safe_open(KEPT, framework="pt") as kept:
        told = {name: json.loads(text) for name, text in kept.metadata().items()}
    words = SentenceTokenizer(told["english"]), SentenceTokenizer(told["french"])
    model = new_model(0, *words)
    model.load_state_dict({name: weight.float() for name, weight in load_file(KEPT).items()})
    return Reader(model.eval(), *words, Counter(told["counted"]))


def keep(model: Translator) -> None:
    told = {
        "english": english.vocabulary,
        "french": french.vocabulary,
        "counted": count_words(COUNTED),
    }
    weights = {n: w.half().contiguous() for n, w in model.state_dict().items()}
    save_file(weights, KEPT, {name: json.dumps(what) for name, what in told.items()})
    reader.cache_clear()


@cache
def sentences() -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
    """Those of lesson 12: to train on, unseen ones, and unseen combinations."""
    return three_sets()


# What it says ------------------------------------------------------------------------------------


def _begun(prefix: str) -> Tensor:
    """`(1, T)`: the beginning, and French words."""
    begin = torch.tensor([reader().french.vocabulary.index(BOS)])
    return torch.cat([begin, reader().french.encode(prefix)])[None]


@torch.no_grad()
def next_words(source: str | None, prefix: str) -> Tensor:
    """Probabilities of the next French word after a prefix, `(V,)`.

    Args:
        source: an English sentence; None puts zeros where the decoder looks for it.
        prefix: French words so far.
    """
    model = reader().model
    if source is None:
        context = torch.zeros(1, 1, WIDTH)  # (1, 1, C)
    else:
        context = model.encode(reader().english.encode(source)[None])  # (1, S, C)
    return torch.softmax(model.decode(_begun(prefix), context)[0, -1], dim=-1)


def likeliest(probabilities: Tensor, count: int) -> dict[str, float]:
    """The words with the highest probabilities, rounded."""
    best = probabilities.topk(count)
    words = [reader().french.vocabulary[i] for i in best.indices.tolist()]
    return {word: round(p, 2) for word, p in zip(words, best.values.tolist(), strict=True)}


def pieces(source: str) -> list[str]:
    """The pieces of an English sentence: its words, and an ending of a verb as one of its own."""
    return [reader().english.vocabulary[i] for i in reader().english.encode(source).tolist()]


def looks_at(source: str, target: str) -> Tensor:
    """How much each word that is written looks at each that was read, `(T, S)`: the mean over the
    heads of the last layer."""
    read = reader().english.encode(source)[None]  # (1, S)
    weights = alignment(reader().model, read, _begun(target))  # (1, L, H, T, S)
    return weights[0, -1].mean(dim=0)


# Training ----------------------------------------------------------------------------------------


def count_words(prefix: str) -> Counter[str]:
    """How often each word follows these in the training text, at the beginning of a sentence."""
    wanted = prefix.split()
    found: Counter[str] = Counter()
    for pair in sentences()[0]:
        words = [*pair.french.split(), EOS]
        if words[: len(wanted)] == wanted:
            found[words[len(wanted)]] += 1
    return found


def as_batch(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources `(B, S)`, their padding `(B, S)`, and targets `(B, T)` that end in eos."""
    source, mask = pad([english.encode(pair.english) for pair in pairs], PAD_ID)
    end = torch.tensor([EOS_ID])
    targets, _ = pad([torch.cat([french.encode(pair.french), end]) for pair in pairs], PAD_ID)
    return source, mask, targets


def train(
    model: Translator, steps: int = STEPS, seed: int = 0, without_source_every: int = 4
) -> list[float]:
    """Train on the sentences of lesson 12; returns the losses.

    Args:
        without_source_every: how often the context is zeros: in one of so many steps; 0 is never.
    """
    trained_on = sentences()[0]
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP, (steps - step) / max(1, steps - WARM_UP))
    )
    losses = []
    model.train()
    with use_threads(1):
        for step in range(steps):
            drawn = torch.randint(len(trained_on), (BATCH,), generator=generator)
            source, mask, targets = as_batch([trained_on[i] for i in drawn.tolist()])
            context = model.encode(source, mask)
            if without_source_every and step % without_source_every == 0:
                context = 0 * context
            logits = model.decode(teacher_forcing(targets, BOS_ID), context, mask)
            loss = translation_loss(logits, targets, PAD_ID)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses


class ReadsOnce(nn.Module):
    """A translator that has read its sources already: only the decoder runs at each call."""

    def __init__(self, model: Translator, source: Tensor, source_pad_mask: Tensor) -> None:
        super().__init__()
        self.model, self.source_pad_mask = model, source_pad_mask
        with torch.no_grad(), evaluating(model):
            self.context = model.encode(source, source_pad_mask)

    def forward(
        self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        return self.model.decode(decoder_input, self.context, self.source_pad_mask)


def exact(model: Translator, pairs: Sequence[Pair]) -> float:
    """The share of sentences of which greedy gets every word right."""
    source, source_pad_mask, targets = as_batch(pairs)
    training = model.training
    reads_once = ReadsOnce(model, source, source_pad_mask).train(training)
    text = greedy_translate(reads_once, source, BOS_ID, EOS_ID, LONGEST - 1)
    wanted = [[*row[: row.index(EOS_ID)], EOS_ID] for row in targets.tolist()]
    said = [[*row[: row.index(EOS_ID)], EOS_ID] if EOS_ID in row else row for row in text.tolist()]
    return sum(a == b for a, b in zip(said, wanted, strict=True)) / len(pairs)


# One part changed --------------------------------------------------------------------------------


class PreEncoderBlock(EncoderBlock):
    """The same parts, wired Pre-LN."""

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        normed = self.norm1(x)
        x = x + self.dropout(self.attention(normed, normed, pad_mask))
        return x + self.feed_forward(self.norm2(x))


class PreDecoderBlock(DecoderBlock):
    def forward(
        self,
        x: Tensor,
        context: Tensor,
        pad_mask: Tensor | None = None,
        context_pad_mask: Tensor | None = None,
    ) -> Tensor:
        x = x + self.dropout(self.self_attention(self.norm1(x), pad_mask))
        asks = self.norm2(x)
        x = x + self.dropout(self.cross_attention(asks, context, context_pad_mask))
        return x + self.feed_forward(self.norm3(x))


class DeafCrossAttention(CrossAttention):
    """Hears nothing, so that its branch adds nothing."""

    def forward(self, x: Tensor, context: Tensor, context_pad_mask: Tensor | None = None) -> Tensor:
        return torch.zeros_like(x)


class GeluNetwork(ReLUFeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(nn.functional.gelu(self.expand(x)))


# Exact among 1,000 unseen sentences after 400 steps, seeds 0, 1 and 2, as `compare` prints it.
MEASURED = {
    "as in 2017": (1.00, 1.00, 1.00),
    "Pre-LN": (1.00, 1.00, 1.00),
    "GELU": (1.00, 1.00, 1.00),
    "without cross-attention": (0.00, 0.00, 0.00),
}


def variant(name: str, seed: int = 0) -> Translator:
    model = new_model(seed)
    for blocks, pre in ((model.encoder, PreEncoderBlock), (model.decoder, PreDecoderBlock)):
        for block in blocks:
            if name == "Pre-LN":
                block.__class__ = pre
            elif name == "without cross-attention" and isinstance(block, DecoderBlock):
                block.cross_attention.__class__ = DeafCrossAttention
            elif name == "GELU":
                block.feed_forward.__class__ = GeluNetwork
    return model


def compare(steps: int = 400, seeds: Sequence[int] = (0, 1, 2)) -> None:
    held_out = sentences()[1]
    for name in MEASURED:
        shares = []
        for seed in seeds:
            model = variant(name, seed)
            train(model, steps, seed, without_source_every=0)
            shares.append(exact(model, held_out))
        print(f"{name:24}", *(f"{share:.3f}" for share in shares), flush=True)


def main(arguments: list[str]) -> None:
    if arguments == ["variants"]:
        return compare()
    model = new_model()
    losses = train(model)
    keep(model)
    print(f"last losses {losses[-4]:.3f} (no source), {losses[-1]:.3f}")
    print(f"unseen sentences exact: {exact(reader().model, sentences()[1]):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
