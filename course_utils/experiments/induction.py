"""Lesson 10: repetitive texts, models with one and two layers, and their heads.

A text is a segment of distinct words in random order, repeated to the end. The length of the
segment differs from text to text, so a word can't be predicted from its position. Instead, a model
must find the previous occurrence of the current word, and predict the word after that. Olsson et
al. 2022 call a head that does this an *induction head*.

For readers whose own model and loop don't pass their checks yet, `python -m training.small_models`
has trained both models as the lesson does, and stored their parameters and losses.
"""

from __future__ import annotations

from functools import cache
from math import log
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..language_model import TinyLM, attention_weights

WORDS, LENGTH, SHORTEST, LONGEST = 40, 32, 6, 14
WIDTH, HEADS = 64, 2
STEPS, TEXTS = 500, 32
KEPT = Path(__file__).with_name("induction.safetensors")
ROLES = ("previous word", "same word before", "word after it")


def texts(B: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw random texts.

    Returns:
        Ids `(B, T)`, and the lengths `(B,)` of the texts' repeated segments.
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (B,), generator=generator)
    words = torch.rand(B, WORDS, generator=generator).argsort(dim=-1)  # each word at most once
    return words.gather(1, torch.arange(LENGTH) % lengths[:, None]), lengths


def predictable(lengths: Tensor) -> Tensor:
    """Whether each next word is predictable because the current one has occurred before:
    `(B, T - 1)`."""
    return torch.arange(LENGTH - 1) >= lengths[:, None]


@torch.no_grad()
def accuracy(model: TinyLM) -> float:
    """The accuracy of the model's most likely word where the next word is predictable."""
    ids, lengths = texts(256, seed=1_000_000)
    right = model(ids[:, :-1]).argmax(dim=-1) == ids[:, 1:]  # (B, T - 1)
    return right[predictable(lengths)].double().mean().item()


def floor() -> float:
    """Return the lowest possible mean loss of words 1 to 31 of a text.

    Three things are drawn: a text's first word, the length of its segment, and each new word of
    the segment, from the words that are left. All further words follow from these.
    """
    lengths = range(SHORTEST, LONGEST + 1)
    new_words = [sum(log(WORDS - i) for i in range(1, length)) for length in lengths]
    return (log(len(lengths)) + sum(new_words) / len(lengths)) / (LENGTH - 1)


def batches(steps: int = STEPS, seed: int = 0) -> list[Tensor]:
    """Return batches of 32 texts, `(32, 32)`, for a training loop; every text is drawn afresh."""
    return [texts(TEXTS, seed=1_000 * seed + step)[0] for step in range(1, steps + 1)]


@cache
def _kept() -> dict[str, Tensor]:
    return load_file(KEPT)


def stored(num_layers: int) -> tuple[TinyLM, list[float]]:
    """Return the stored model with one or two layers, and the losses of its training."""
    with torch.random.fork_rng(devices=[]):
        model = TinyLM(WORDS, WIDTH, HEADS, LENGTH, num_layers)
    mine = f"{num_layers}."
    parameters = {n.removeprefix(mine): w for n, w in _kept().items() if n.startswith(mine)}
    model.load_state_dict(parameters)
    return model.eval(), _kept()[f"losses of {num_layers}"].tolist()


@torch.no_grad()
def roles(model: TinyLM) -> Tensor:
    """The attention of each head to the words of each role.

    Returns: Mean weights `(L, H, 3)`, in the order of `ROLES`: on the previous word in the first
    segment; then, in repeated segments, on earlier occurrences of the same word, and on the words
    that followed these occurrences.
    """
    ids, lengths = texts(64, seed=2_000_000)
    weights = attention_weights(model, ids)  # (B, L, H, T, T)
    places = torch.arange(LENGTH)
    behind = places[:, None] - places  # (T, T): how far back a key is
    length = lengths[:, None, None]
    turns = behind % length  # (B, T, T): 0 for the same word
    first = (places > 0) & (places < lengths[:, None])  # (B, T)
    again = places >= lengths[:, None]
    looked_at = [
        (first, (behind == 1).expand_as(turns)),
        (again, (turns == 0) & (behind > 0)),
        (again, (turns == length - 1) & (behind > 0)),
    ]
    scores = []
    for rows, keys in looked_at:  # (B, T) and (B, T, T)
        share = (weights * keys[:, None, None]).sum(dim=-1)  # (B, L, H, T)
        scores.append((share * rows[:, None, None]).sum(dim=(0, 3)) / rows.sum())  # (L, H)
    return torch.stack(scores, dim=-1)
