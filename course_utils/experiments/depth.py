"""Lesson 08: how much gradient the first and the last block of a deep stack get.

A stack of new blocks, as they come from the constructor, with a linear layer behind it that is to
tell ten random classes for each token. Three ways to wire a block:

- "plain": attention, then the network; nothing is added, nothing normed;
- "Post-LN": each branch is added, and the sum is normed (Vaswani et al. 2017);
- "Pre-LN": each branch reads through a norm and is added (lesson 08's block); a norm at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..transformer import LayerNorm, TransformerBlock
from . import one_thread

C, H, T, B, CLASSES = 32, 4, 8, 4, 10


def plain(block: TransformerBlock, x: Tensor) -> Tensor:
    """Each part in a row."""
    return block.feed_forward(block.attention(x))


def post_norm(block: TransformerBlock, x: Tensor) -> Tensor:
    """The norm comes after each sum."""
    x = block.norm1(x + block.attention(x))
    return block.norm2(x + block.feed_forward(x))


def pre_norm(block: TransformerBlock, x: Tensor) -> Tensor:
    """The norm is for the branch alone."""
    return block(x)


WIRINGS: dict[str, Callable[[TransformerBlock, Tensor], Tensor]] = {
    "plain": plain,
    "Post-LN": post_norm,
    "Pre-LN": pre_norm,
}


def gradient_norms(wiring: str, depth: int, seed: int = 0) -> tuple[float, float]:
    """Build a stack, run it once and back.

    In float64: the gradient of a deep plain stack is too small for float32.

    Returns:
        The length of the gradient of all parameters of the first block, and of the last.
    """
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        blocks = [TransformerBlock(C, H, context_length=T).double() for _ in range(depth)]
        end = LayerNorm(C).double() if wiring == "Pre-LN" else nn.Identity()
        head = nn.Linear(C, CLASSES).double()
        x = torch.randn(B, T, C, dtype=torch.float64)
        classes = torch.randint(CLASSES, (B * T,))
        for block in blocks:
            x = WIRINGS[wiring](block, x)
        F.cross_entropy(head(end(x)).flatten(0, 1), classes).backward()
        return _length(blocks[0]), _length(blocks[-1])


def _length(block: nn.Module) -> float:
    gradients = [p.grad.flatten() for p in block.parameters() if p.grad is not None]
    return torch.cat(gradients).norm().item()


def by_depth(depths: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """The gradient at the first block for each wiring and depth, by what is shown."""
    firsts = {name: [gradient_norms(name, depth)[0] for depth in depths] for name in WIRINGS}
    return {"gradient at the first block": firsts}
