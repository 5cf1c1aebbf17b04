"""`python -m training.saturation`: train lesson 04's head with other divisors than √D, without and
with positions, and store the losses in `course_utils/experiments/saturation.json`.
"""

from __future__ import annotations

import json

import torch
from torch import Tensor

from course_utils import attention
from course_utils.experiments import loss_so_far
from course_utils.experiments.saturation import DIVISORS, KEPT

from .loss_so_far import SEEDS

MODELS = {
    "loss without positions": "one head",
    "loss with positions": "one head and positions",
}


class Divided(attention.CausalSelfAttention):
    """The head of lesson 04 with its dot products divided by any number."""

    def __init__(self, divisor: float) -> None:
        super().__init__(loss_so_far.C, loss_so_far.C, loss_so_far.T)
        self.divisor = divisor

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / self.divisor  # (B, T, T)
        return attention.masked_softmax(scores, self.hidden[:T, :T]) @ self.value(x)


def loss(row: str, divisor: float, seed: int) -> float:
    """Train the tiny language model of a row with a head that divides by this number."""
    torch.manual_seed(seed)
    return loss_so_far.measured(loss_so_far.ROWS[row], Divided(divisor), seed)[0]


def main() -> None:
    losses = {
        model: {
            f"seed {seed}": [round(loss(row, divisor, seed), 4) for divisor in DIVISORS]
            for seed in SEEDS
        }
        for model, row in MODELS.items()
    }
    KEPT.write_text(json.dumps(losses, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
