"""Lesson 04: a head trained for a lookup, with three projections or fewer.

A text has six tokens, one of each kind, in random order. A token carries its kind, as a one-hot
vector of six channels, and a payload of two random numbers. Each token should get the payload of
the next kind: A gets B's, B gets C's, …, and F gets A's.

The first two channels of a head's result are the answer; a wider head may use the other channels
freely. The error is the mean squared difference between the answer and the right payload. The
payloads' variance is 1, so an answer of zeros has error 1, and the mean of all six payloads has
error 5/6.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attention import SelfAttention, attention_scores
from .training import descend, seeded

KINDS = "ABCDEF"
PAYLOAD = 2  # the payload's width
STEPS, TEXTS, LEARNING_RATE = 800, 64, 0.02


def texts(B: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw texts, and the payload that each token should get.

    Returns:
        The kinds `(B, T)`, numbers from 0; the tokens `(B, T, C)`, whose last two channels are the
        payload; and the payload that each token should get, `(B, T, 2)`. T is 6 and C is 8.
    """
    generator, T = torch.Generator().manual_seed(seed), len(KINDS)
    kinds = torch.rand(B, T, generator=generator).argsort(dim=-1)  # each kind once
    payloads = torch.randn(B, T, PAYLOAD, generator=generator)
    tokens = torch.cat([F.one_hot(kinds, T).float(), payloads], dim=-1)
    position_of = kinds.argsort(dim=-1)  # (B, T), by kind
    source = position_of.gather(1, (kinds + 1) % T)  # (B, T): the position of the next kind
    wanted = payloads.gather(1, source[..., None].expand(-1, -1, PAYLOAD))
    return kinds, tokens, wanted


def new_head(width: int = PAYLOAD, share: Sequence[str] = (), seed: int = 0) -> SelfAttention:
    """An untrained head.

    Args:
        width: the width of queries, keys and values.
        share: names of projections that share one matrix, such as `["query", "key"]`.
        seed: the seed of the parameters.
    """
    with seeded(seed):
        head = SelfAttention(len(KINDS) + PAYLOAD, width)
    for name in share[1:]:
        setattr(head, name, getattr(head, share[0]))
    return head


def train(
    share: Sequence[str] = (), width: int = PAYLOAD, seed: int = 0, steps: int = STEPS
) -> SelfAttention:
    """Train a freshly initialised head as in the lesson: steps of Adam on 64 fresh texts each."""
    head = new_head(width, share, seed)

    def loss(step: int) -> Tensor:
        _, tokens, wanted = texts(TEXTS, seed=10_000 * seed + step)
        return F.mse_loss(head(tokens)[..., :PAYLOAD], wanted)

    descend(torch.optim.Adam(head.parameters(), lr=LEARNING_RATE), steps, loss)
    return head


@torch.no_grad()
def error(head: SelfAttention) -> float:
    """The head's error on 4,000 texts from outside the training data."""
    _, tokens, wanted = texts(4_000, seed=1_000)
    return F.mse_loss(head(tokens)[..., :PAYLOAD], wanted).item()


def error_of_the_mean() -> float:
    """The error on the same texts if each token gets the mean of all six payloads."""
    _, tokens, wanted = texts(4_000, seed=1_000)
    mean = tokens[..., -PAYLOAD:].mean(dim=1, keepdim=True)  # (B, T, 2) -> (B, 1, 2)
    return F.mse_loss(mean.expand_as(wanted), wanted).item()


@torch.no_grad()
def weights(head: SelfAttention) -> Tensor:
    """The head's weights on one text, `(T, T)`, with rows and columns in the order A to F."""
    kinds, tokens, _ = texts(1)
    tokens = tokens[:, kinds[0].argsort()]  # (1, T, C)
    scores = attention_scores(head.query(tokens), head.key(tokens))  # (1, T, T)
    return torch.softmax(scores, dim=-1)[0]
