"""How many of PyTorch's threads compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Compute on `count` threads inside, and on as many as before after it; None leaves them alone.

    For small products, threads wait for each other longer than they compute, above all where others
    compute too. And sums that are added up in another number of parts differ in their last digits.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
