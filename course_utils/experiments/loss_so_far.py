"""Lessons 01 to 10: the effect of each part on one tiny language model of the toy English.

The model turns each word into a vector of width 64, passes the vectors to the part, adds the part's
result to the vectors, and predicts the next word with an output layer. All rows are trained in the
same way: 400 steps of AdamW on 32 texts of 32 words each, with the learning rate falling from 0.006
to 0. The loss is measured on 512 other texts. A stored loss is the mean over the seeds 0, 1 and 2;
each seed's loss differs from the mean by at most 0.02.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import toy_english
from ..desk.environment import use_threads
from ..transformer import LayerNorm

C, T, B = 64, 32, 32
STEPS, LEARNING_RATE = 400, 6e-3
NEAR = 0.03  # a loss this close to the stored one counts as equal: processors round differently

Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """A row of the table, and how its part is built into the model."""

    lesson: str
    loss: float
    added: bool = True  # the part's result is added to the words' vectors
    positions: bool = False  # a learned vector per position is added to each word
    normed: bool = False  # the part has its own residual, and a norm follows


ROWS = {
    "all words alike": Row("01", 3.30),
    "how often each word occurs": Row("01", 2.82),
    "the mean of the past alone": Row("01", 2.30, added=False),
    "the word before, alone": Row("03", 1.57),
    "the mean of the past and the word before": Row("03", 1.56),
    "one head": Row("04", 1.51),
    "four heads": Row("06", 1.45),
    "one block": Row("08", 1.40, normed=True),
    "one head and positions": Row("09", 1.29, positions=True),
    "four heads and positions": Row("09", 1.25, positions=True),
    "one block and positions": Row("09", 1.23, positions=True, normed=True),
    "TinyLM": Row("10", 1.22),
    "one block of today": Row("16", 1.22, normed=True),
}


class Model(nn.Module):
    """A model from ids `(B, T)` to logits `(B, T, V)`, with or without a part in between."""

    def __init__(self, row: Row, part: Part | None) -> None:
        super().__init__()
        V = len(toy_english.words)
        self.row, self.part = row, part
        self.token = nn.Embedding(V, C)
        self.position = nn.Embedding(T, C) if row.positions else None
        self.norm = LayerNorm(C) if row.normed else nn.Identity()
        self.output = nn.Linear(C, V)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)  # (B, T) -> (B, T, C)
        if self.position is not None:
            x = x + self.position(torch.arange(ids.shape[1]))
        if self.part is not None:
            adds = self.row.added and not self.row.normed
            x = x + self.part(x) if adds else self.part(x)
        return self.output(self.norm(x))  # (B, T, C) -> (B, T, V)


def train(name: str, part: Part | None = None, seed: int = 0) -> float:
    """The loss of a row in nats per word, to two digits.

    Args:
        name: the row's name as printed by `show`.
        part: a function or an untrained module from `(B, T, C)` to the same shape, with T = 32 and
            C = 64; for "TinyLM", a whole model. The part's parameters are trained on the CPU.
        seed: the seed of the initial parameters and of the texts.

    Raises:
        ValueError: there is no such row.
    """
    row = _row(name)
    loss = measured(row, part, seed)
    return row.loss if abs(loss - row.loss) <= NEAR else round(loss, 2)


def measured(row: Row, part: Part | None, seed: int) -> float:
    """The loss of this run, unrounded."""
    if row is ROWS["all words alike"]:
        return toy_english.uniform_loss()
    if row is ROWS["how often each word occurs"]:
        return toy_english.unigram_loss()
    with use_threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = part if row is ROWS["TinyLM"] else Model(row, part)
        assert isinstance(model, nn.Module)
        optimizer = torch.optim.AdamW(model.cpu().parameters(), lr=LEARNING_RATE)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
            optimizer.zero_grad()
            _loss(model, toy_english.draw(B, T + 1, 1_000 + step + 100_000 * seed)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            return _loss(model.eval(), toy_english.draw(512, T + 1, 9)).item()


def show(name: str) -> None:
    """Print the table up to the named row, and the lowest possible loss.

    Raises:
        ValueError: there is no such row.
    """
    _row(name)
    print("lesson  what the model has                        nats per word")
    for title, row in ROWS.items():
        print(f"{row.lesson:6}  {title:42}{row.loss:.2f}")
        if title == name:
            break
    print(f"        {'the least that any model can reach':42}{toy_english.least_loss(T):.2f}")


def _row(name: str) -> Row:
    if name not in ROWS:
        raise ValueError(f"there is no row {name!r}; the rows are {', '.join(map(repr, ROWS))}")
    return ROWS[name]


def _loss(model: nn.Module, ids: Tensor) -> Tensor:
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
