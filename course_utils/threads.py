"""Sets the number of PyTorch's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """Use `count` threads inside the context; None changes nothing.

    For small products, threads spend more time waiting than computing, especially on a busy
    machine. Also, the last digits of a sum depend on the number of parts into which it is split.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
