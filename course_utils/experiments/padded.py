"""Lesson 05: a head trained on padded batches, with its padding mask and without it.

Each text is a sentence of the toy English with 3 to 12 words, padded on the left to 12. A model
turns each word into a vector of width 64, adds the head's result, and predicts the next word with
an output layer; the predictions at padding don't count. It is trained on 400 batches of 32 texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import END, toy_english
from ..desk.environment import use_threads
from .training import descend, seeded

C, LONGEST, STEPS, TEXTS, LEARNING_RATE = 64, 12, 400, 32, 6e-3
PAD = len(toy_english.words)


@dataclass(frozen=True)
class Losses:
    """The losses on 512 held-out texts, in nats per word: in a padded batch, and one by one."""

    in_a_batch: float
    alone: float

    def __str__(self) -> str:
        return f"in a batch {self.in_a_batch:.3f}, alone {self.alone:.3f}"


class Model(nn.Module):
    """A model from ids `(B, T)` to logits `(B, T, V)`, whose head gets the padding mask only if
    `masked` is true."""

    def __init__(self, head: nn.Module, masked: bool) -> None:
        super().__init__()
        self.head, self.masked = head, masked
        self.token, self.output = nn.Embedding(PAD + 1, C), nn.Linear(C, PAD)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)  # (B, T) -> (B, T, C)
        pad_mask = ids == PAD  # (B, T)
        return self.output(x + (self.head(x, pad_mask) if self.masked else self.head(x)))


def sentences(B: int, seed: int) -> list[Tensor]:
    """Return sentences of at most 12 words; the last word of each is the full stop."""
    end, drawn = toy_english.words.index(END), toy_english.draw(2 * B, 12, seed, "sentence")
    ended = [text[: int((text == end).nonzero()[0]) + 1] for text in drawn if (text == end).any()]
    return ended[:B]


def left_padded(texts: list[Tensor]) -> Tensor:
    """Return one batch, `(B, 12)`, with padding before each text."""
    return torch.stack([F.pad(text, (LONGEST - len(text), 0), value=PAD) for text in texts])


def train(make: Callable[[int, int, int], nn.Module], masked: bool, seed: int = 0) -> Losses:
    """Train a head on padded batches, and measure the loss on other texts.

    Args:
        make: a class with the constructor of lesson 05's head, such as your own.
        masked: whether the head gets the padding mask.
    """
    with seeded(seed):
        model = Model(make(C, C, LONGEST), masked)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)

    def loss(step: int) -> Tensor:
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
        ids = left_padded(sentences(TEXTS, 1_000 + step + 100_000 * seed))
        return _sum_of_losses(model, ids).div(_words([*ids]))

    descend(optimizer, STEPS, loss)
    texts = sentences(512, 9)
    with torch.no_grad(), use_threads(1):
        model.eval()
        alone = sum(_sum_of_losses(model, text[None]).item() for text in texts)
        together = _sum_of_losses(model, left_padded(texts)).item()
    return Losses(together / _words(texts), alone / _words(texts))


def _words(texts: list[Tensor]) -> int:
    """Return the number of words to predict: all but the first word of each text."""
    return sum(int((text != PAD).sum()) - 1 for text in texts)


def _sum_of_losses(model: nn.Module, ids: Tensor) -> Tensor:
    logits, targets = model(ids[:, :-1]), ids[:, 1:]  # (B, T, V) and (B, T)
    targets = targets.masked_fill(ids[:, :-1] == PAD, -100)  # nothing is predicted at padding
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
