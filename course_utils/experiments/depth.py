"""Lesson 08: what residuals and norms do for a deep stack, with any wiring of a block's parts.

A wiring is a function of a block and its input; it decides how the block's `norm1`, `attention`,
`norm2` and `feed_forward` are connected. The lesson shows five; one of them is

    def residuals_alone(block, x):
        x = x + block.attention(x)
        return x + block.feed_forward(x)

A stack has `depth` blocks of one class, all wired in the same way, then a norm and a linear layer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..desk.environment import use_threads
from ..transformer import LayerNorm, TransformerBlock
from .training import descend, seeded

C, H = 32, 4

Wiring = Callable[[nn.Module, Tensor], Tensor]
BlockClass = Callable[[int, int, int], nn.Module]  # takes d_model, num_heads, context_length


class Stack(nn.Module):
    """Blocks, a norm and a linear layer, which turn `(B, T, C)` into `(B, T, classes)`."""

    def __init__(
        self, wiring: Wiring, block_class: BlockClass, depth: int, T: int, classes: int
    ) -> None:
        super().__init__()
        self.wiring = wiring
        self.blocks = nn.ModuleList(block_class(C, H, T) for _ in range(depth))
        self.norm = LayerNorm(C)
        self.head = nn.Linear(C, classes)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = self.wiring(block, x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def stream_size(
    wiring: Wiring, block_class: BlockClass = TransformerBlock, depth: int = 48, seed: int = 0
) -> float:
    """Return the standard deviation of the result of `depth` untrained blocks; the input's is 1."""
    B, T = 4, 8
    with torch.no_grad(), seeded(seed), use_threads(1):
        blocks = [block_class(C, H, T) for _ in range(depth)]
        x = torch.randn(B, T, C)
        for block in blocks:
            x = wiring(block, x)
        return x.std().item()


def first_gradient(
    wiring: Wiring, block_class: BlockClass = TransformerBlock, depth: int = 48, seed: int = 0
) -> float:
    """Return the norm of the gradient of all parameters of the first of `depth` untrained blocks.

    The loss is measured on one batch, with random targets out of ten classes. The stack runs in
    float64, because without norms and residuals the gradient is too small for float32.
    """
    B, T, classes = 4, 8, 10
    with seeded(seed), use_threads(1):
        stack = Stack(wiring, block_class, depth, T, classes).double()
        x = torch.randn(B, T, C, dtype=torch.float64)
        F.cross_entropy(stack(x).flatten(0, 1), torch.randint(classes, (B * T,))).backward()
        parameters = stack.blocks[0].parameters()
        return torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]).norm().item()


def train(
    wiring: Wiring,
    block_class: BlockClass = TransformerBlock,
    depth: int = 6,
    seed: int = 0,
    learning_rate: float = 0.005,
) -> float:
    """Train a stack with learned positions to name the previous token, which is one of 12 kinds.

    It is trained for 60 steps of Adam with a constant learning rate.

    Returns:
        The mean loss of the last ten steps; random guessing gives ln 12 = 2.48.
    """
    V, T, B, steps = 12, 8, 32, 60
    with seeded(seed):
        stack = Stack(wiring, block_class, depth, T, V)
        token, position = nn.Embedding(V, C), nn.Embedding(T, C)
        parts = nn.ModuleList([stack, token, position])
        optimizer = torch.optim.Adam(parts.parameters(), lr=learning_rate)

        def loss(_: int) -> Tensor:
            ids = torch.randint(V, (B, T))
            logits = stack(token(ids) + position(torch.arange(T)))
            return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())

        return sum(descend(optimizer, steps, loss)[-10:]) / 10
