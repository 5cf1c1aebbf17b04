"""Observes programs that continue a text word by word: the model and the text afterwards."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whywrong import Case, Draw, Observation, Property
from whywrong.probing import Expected, Verdict

from .traits import MODE_AND_QUIET, trait


def writer_numbers(draw: Draw, V: int, context_length: int) -> dict[str, Tensor]:
    """Parameters of a `Writer`, in float64 so that rounding changes no choice."""
    return {
        "token": draw.normal(V, 7, dtype=torch.float64),
        "position": draw.normal(context_length, 7, dtype=torch.float64),
        "head": draw.normal(7, V, dtype=torch.float64),
    }


class Writer(nn.Module):
    """A model whose next word depends on every word that it gets and on the words' positions.

    In training mode, it prefers a different word; it has a layer with its own mode. Texts longer
    than its context raise an error. `recorded` counts the calls recorded for gradients.
    """

    token: Tensor
    position: Tensor
    head: Tensor

    def __init__(self, numbers: dict[str, Tensor]) -> None:
        super().__init__()
        self.context_length = len(numbers["position"])
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.inner = nn.Identity()  # it has its own mode
        self.recorded = 0

    def read(self, ids: Tensor, begin: int = 0) -> Tensor:
        """The contribution of the words from position `begin` on, `(B, T, C)`."""
        end = begin + ids.shape[1]
        if end > self.context_length:
            raise ValueError(f"got {end} tokens, but context_length is {self.context_length}")
        return self.token[ids] * self.position[begin:end]  # (B, T, C) * (T, C)

    def logits(self, sums: Tensor) -> Tensor:
        logits = torch.sin(7 * sums) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        self.recorded += logits.requires_grad
        return self.inner(logits.roll(1, -1) if self.inner.training else logits)

    def forward(self, ids: Tensor) -> Tensor:
        return self.logits(self.read(ids).cumsum(dim=1))


def begins(case: Case, observed: Observation, expected: Expected) -> Verdict:
    T = case["ids"].shape[1]
    return bool((observed.tensors["out"][:, :T] == case["ids"]).all())


def first_word(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not case["max_new_tokens"]:
        return None
    T = case["ids"].shape[1]
    return bool((observed.tensors["out"][:, T] == expected["out"][:, T]).all())


# Each exercise decides which of these give credit.
WRITING_PROPERTIES = (
    Property("begins", "The text begins with the given tokens", begins),
    Property("first_word", "The first new token is the most likely one", first_word),
    *MODE_AND_QUIET,
    Property(
        "kept",
        "The model's weights are unchanged and can still be trained",
        trait("kept"),
        secondary=True,
        breaks="The model's weights were changed, or can no longer be trained",
    ),
)
