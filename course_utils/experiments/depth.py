"""Lesson 08: the gradient in the first block of a deep stack, and the training of stacks.

A stack has untrained blocks, then a linear layer. A block can be wired in five ways:

- "neither": attention, then the feed-forward network; nothing is added or normalised;
- "norms alone": each branch normalises its input, and its output replaces the tokens;
- "residuals alone": each branch's output is added, and nothing is normalised;
- "Pre-LN": like "norms alone", but outputs are added (lesson 08's block); at the end comes a norm;
- "Post-LN": each branch's output is added, and the sum is normalised (Vaswani et al. 2017).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..desk.environment import use_threads
from ..transformer import LayerNorm, TransformerBlock

C, H = 32, 4


WIRINGS: dict[str, Callable[[TransformerBlock, Tensor], Tensor]] = {
    "neither": lambda block, x: block.feed_forward(block.attention(x)),
    "norms alone": lambda block, x: block.feed_forward(
        block.norm2(block.attention(block.norm1(x)))
    ),
    "residuals alone": lambda block, x: _added(block.feed_forward, _added(block.attention, x)),
    "Pre-LN": lambda block, x: block(x),
    "Post-LN": lambda block, x: block.norm2(
        _added(block.feed_forward, block.norm1(_added(block.attention, x)))
    ),
}


def _added(branch: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = branch(x)
    return x + found


class Stack(nn.Module):
    """A stack of blocks, wired as named, with a linear layer: `(B, T, C)` to `(B, T, classes)`."""

    def __init__(self, wiring: str, depth: int, T: int, classes: int) -> None:
        super().__init__()
        self.wire = WIRINGS[wiring]
        self.blocks = nn.ModuleList(TransformerBlock(C, H, T) for _ in range(depth))
        self.norm = LayerNorm(C) if wiring == "Pre-LN" else nn.Identity()
        self.head = nn.Linear(C, classes)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            assert isinstance(block, TransformerBlock)
            x = self.wire(block, x)
        logits: Tensor = self.head(self.norm(x))
        return logits


def gradient_norms(wiring: str, depth: int, seed: int = 0) -> tuple[float, float]:
    """Build a stack that classifies into ten random classes; run the stack forward and backward
    once.

    The stack runs in float64: without norms and residuals, the gradient is too small for float32.

    Returns:
        The gradient norms over all parameters of the first block and of the last block.
    """
    B, T, classes = 4, 8, 10
    with torch.random.fork_rng(devices=[]), use_threads(1):
        torch.manual_seed(seed)
        stack = Stack(wiring, depth, T, classes).double()
        x = torch.randn(B, T, C, dtype=torch.float64)
        F.cross_entropy(stack(x).flatten(0, 1), torch.randint(classes, (B * T,))).backward()
        return _length(stack.blocks[0]), _length(stack.blocks[-1])


def _length(block: nn.Module) -> float:
    gradients = [p.grad.flatten() for p in block.parameters() if p.grad is not None]
    return torch.cat(gradients).norm().item()


def train(
    wiring: str, depth: int = 6, rate: float = 3e-3, warm_up: int = 0, seed: int = 0
) -> float:
    """Train a stack to predict the previous one of 12 kinds of token; 6 blocks take about 4 s.

    Args:
        rate: the learning rate of Adam.
        warm_up: the number of steps, out of 150, in which the learning rate rises to `rate`.

    Returns:
        The mean loss of the last ten steps; random guessing gives ln 12 = 2.48.
    """
    V, T, B, steps = 12, 32, 32, 150
    losses = []
    with torch.random.fork_rng(devices=[]), use_threads(1):
        torch.manual_seed(seed)
        stack = Stack(wiring, depth, T, V)
        token, position = nn.Embedding(V, C), nn.Embedding(T, C)
        parts = nn.ModuleList([stack, token, position])
        optimizer = torch.optim.Adam(parts.parameters(), lr=rate)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / max(warm_up, 1))
            ids = torch.randint(V, (B, T))
            logits = stack(token(ids) + position(torch.arange(T)))
            loss = F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses[-10:]) / 10
