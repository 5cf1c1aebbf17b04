"""Lesson 04: a head is trained to look something up, with three projections and with fewer.

A text has six tokens, one of each kind, in random order. A token carries its kind, as a one-hot
vector of six channels, and a payload of two random numbers. Each token is to fetch the payload of
the next kind: A that of B, B that of C, …, F that of A.

Error: the mean squared difference from what should be fetched. The payloads' variance is 1, so
zeros are off by 1, and the mean of all six payloads by 5/6.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attention import SelfAttention, attention_scores
from ..threads import use_threads

KINDS = "ABCDEF"
WIDTH = 2  # of a payload, and of the head
STEPS, TEXTS, LEARNING_RATE = 800, 64, 0.02


def texts(B: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw texts and what their tokens should fetch.

    Returns:
        `kinds` `(B, T)`, numbers from 0; the tokens `(B, T, C)`, whose last two channels are the
        payload; what each should fetch, `(B, T, 2)`. T is 6 and C is 8.
    """
    return _texts(B, torch.Generator().manual_seed(seed))


def _texts(B: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    T = len(KINDS)
    kinds = torch.rand(B, T, generator=generator).argsort(dim=-1)  # each kind once
    payloads = torch.randn(B, T, WIDTH, generator=generator)
    tokens = torch.cat([F.one_hot(kinds, T).float(), payloads], dim=-1)
    place_of = kinds.argsort(dim=-1)  # (B, T): where a kind stands
    fetched_from = place_of.gather(1, (kinds + 1) % T)  # (B, T): where the next kind stands
    wanted = payloads.gather(1, fetched_from[..., None].expand(-1, -1, WIDTH))
    return kinds, tokens, wanted


def train(share: Sequence[str] = (), seed: int = 0, steps: int = STEPS) -> SelfAttention:
    """Train a head of width 2 to fetch the next kind's payload.

    Args:
        share: projections that are one and the same matrix, such as `["query", "key"]`.
        seed: of the first weights and of the texts.
        steps: of Adam, on 64 fresh texts each.
    """
    with use_threads(1):
        return _train(share, seed, steps)


def _train(share: Sequence[str], seed: int, steps: int) -> SelfAttention:
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = SelfAttention(len(KINDS) + WIDTH, WIDTH)
    for name in share[1:]:
        setattr(head, name, getattr(head, share[0]))
    optimizer = torch.optim.Adam(head.parameters(), lr=LEARNING_RATE)
    for _ in range(steps):
        _, tokens, wanted = _texts(TEXTS, generator)
        loss = F.mse_loss(head(tokens), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return head


@torch.no_grad()
def error(head: SelfAttention, seed: int = 1_000) -> float:
    """The head's error on 4,000 texts that it was not trained on."""
    _, tokens, wanted = texts(4_000, seed)
    return F.mse_loss(head(tokens), wanted).item()


def error_of_the_mean(seed: int = 1_000) -> float:
    """What a head would get that gives each token the mean of all six payloads."""
    _, tokens, wanted = texts(4_000, seed)
    mean = tokens[..., -WIDTH:].mean(dim=1, keepdim=True)  # (B, T, 2) -> (B, 1, 2)
    return F.mse_loss(mean.expand_as(wanted), wanted).item()


@torch.no_grad()
def weights(head: SelfAttention, seed: int = 0) -> Tensor:
    """The head's weights on one text, `(T, T)`, with rows and columns in the order A to F."""
    kinds, tokens, _ = texts(1, seed)
    tokens = tokens[:, kinds[0].argsort()]  # (1, T, C)
    scores = attention_scores(head.query(tokens), head.key(tokens))  # (1, T, T)
    return torch.softmax(scores, dim=-1)[0]
