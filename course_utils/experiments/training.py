"""What the experiments share: random numbers from a seed, and a loop of training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..desk.environment import use_threads


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Seed the random numbers inside the context; the reader's own continue afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def descend(
    optimizer: torch.optim.Optimizer, steps: int, loss_of: Callable[[int], Tensor]
) -> list[float]:
    """Take training steps on one thread; return the losses `loss_of(0)`, `loss_of(1)`, …"""
    losses = []
    with use_threads(1):
        for step in range(steps):
            loss = loss_of(step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
