"""What a call costs here: its time, and the memory that it keeps for the way back."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor


def seconds(run: Callable[[], Tensor], rounds: int = 10) -> float:
    """The shortest of so many times of `run()` and, if it asks for gradients, its backward pass."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        out = run().sum()
        if out.requires_grad:
            out.backward()
        out.item()  # a GPU works beside the program: a number makes it wait
        times.append(time.perf_counter() - start)
    return min(times)


def kept_bytes(run: Callable[[], Tensor]) -> int:
    """The memory that `run()` keeps for its backward pass."""
    kept = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage  # held, so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(storage.nbytes() for storage in kept.values())
