"""Draws inputs: unit-scale numbers, sizes that are all different."""

from __future__ import annotations

import torch
from torch import Tensor


class Draw:
    """Random inputs of an exercise, from one seed.

    >>> Draw(1).sizes(3, 2, 9) == Draw(1).sizes(3, 2, 9)
    True
    """

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def sizes(self, count: int, low: int, high: int) -> list[int]:
        """`count` different sizes from `low` to `high`, inclusive."""
        order = torch.randperm(high - low + 1, generator=self.generator)
        return [low + int(i) for i in order[:count]]

    def integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers, drawn in float64 so that they are the same for both dtypes."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def hidden(self, *shape: int) -> Tensor:
        """A random bool mask over the last dimension, with something visible in every row."""
        mask = torch.rand(shape, generator=self.generator) < 0.5
        seen = torch.randint(0, shape[-1], shape[:-1], generator=self.generator)
        other = (seen + 1) % shape[-1]
        mask.scatter_(-1, other.unsqueeze(-1), True)
        return mask.scatter_(-1, seen.unsqueeze(-1), False)

    def with_empty_row(self, *shape: int) -> Tensor:
        """Like `hidden`, but with one fully hidden row if there is more than one row."""
        mask = self.hidden(*shape)
        if mask.dim() > 1:
            mask.view(-1, shape[-1])[self.integer(0, mask[..., 0].numel() - 1)] = True
        return mask
