"""Measures the time of a call on this machine, and the memory kept for its backward pass."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor


def seconds(run: Callable[[], Tensor], rounds: int = 10) -> float:
    """The shortest time of several runs of `run()`, with a backward pass if it needs gradients."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        out = run().sum()
        if out.requires_grad:
            out.backward()
        out.item()  # a GPU works asynchronously: reading a number waits for it
        times.append(time.perf_counter() - start)
    return min(times)


def kept_bytes(run: Callable[[], Tensor]) -> int:
    """The memory that `run()` keeps for its backward pass."""
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage  # kept alive, so that no address is reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(storage.nbytes() for storage in kept.values())
