"""Lesson 08: how much gradient the first block of a deep stack gets, and which stacks learn.

A stack of new blocks, as they come from the constructor, with a linear layer behind it. Three ways
to wire a block:

- "plain": attention, then the network; nothing is added, nothing normed;
- "Post-LN": each branch is added, and the sum is normed (Vaswani et al. 2017);
- "Pre-LN": each branch reads through a norm and is added (lesson 08's block); a norm at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..threads import use_threads
from ..transformer import LayerNorm, TransformerBlock

C, H = 32, 4


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


class Stack(nn.Module):
    """Blocks in a row, wired as said, and a linear layer: `(B, T, C)` to `(B, T, classes)`."""

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
    """Build a stack that is to tell ten random classes; run it once and back.

    In float64: the gradient of a deep plain stack is too small for float32.

    Returns:
        The length of the gradient of all parameters of the first block, and of the last.
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


def by_depth(depths: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """The gradient at the first block for each wiring and depth, by what is shown."""
    firsts = {name: [gradient_norms(name, depth)[0] for depth in depths] for name in WIRINGS}
    return {"gradient at the first block": firsts}


def train(
    wiring: str, depth: int = 24, rate: float = 3e-3, warm_up: int = 0, seed: int = 0
) -> float:
    """Train a stack to name the token before, of 12 kinds: about 15 s for 24 blocks.

    Args:
        rate: the learning rate of Adam.
        warm_up: steps in which the rate rises to it, of 150.

    Returns:
        The mean loss of the last ten steps; ln 12 = 2.48 is guessing.
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
