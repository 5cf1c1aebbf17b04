"""`python -m training.modern`: train the models of lesson 16's table with three seeds."""

from collections.abc import Callable
from typing import Any

from torch import nn

from course_utils.experiments.modern import LENGTH, LETTERS, trained_loss
from course_utils.language_model import TinyLM
from course_utils.todays_models import (
    GroupedQueryAttention,
    MixtureOfExperts,
    ModernLM,
    RMSNorm,
    SwiGLU,
)


def changed(
    norm: bool = False,
    gate: bool = False,
    rotary: bool = False,
    kv_heads: int | None = None,
    experts: bool = False,
) -> nn.Module:
    """Build lesson 15's GPT with some of today's parts instead of its own.

    Args:
        norm: RMSNorm instead of LayerNorm.
        gate: SwiGLU instead of the network with GELU.
        rotary: rotary positions instead of learned ones.
        kv_heads: the number of key/value heads; then `out_proj` also loses its bias, as in Llama.
        experts: four SwiGLUs of half the width instead of one, of which two work on each token.
    """
    model: Any = TinyLM(len(LETTERS), 48, 4, LENGTH, 2)
    if rotary:
        model.embed = model.embed.token
    if norm:
        model.norm = RMSNorm(48)
    for block in model.blocks:
        if norm:
            block.norm1, block.norm2 = RMSNorm(48), RMSNorm(48)
        if gate:
            block.feed_forward = MixtureOfExperts(48, 64, 4, k=2) if experts else SwiGLU(48, 128)
        if rotary:
            block.attention = GroupedQueryAttention(48, 4, kv_heads or 4, LENGTH)
        if rotary and kv_heads is None:
            block.attention.out_proj = nn.Linear(48, 48)
    return model


def tied(std: float = 48**-0.5, window: int | None = None) -> ModernLM:
    """Build the lesson's modern model, with this standard deviation in the embedding."""
    model = ModernLM(len(LETTERS), 48, 4, 2, LENGTH, 2, 128, window=window)
    nn.init.normal_(model.embed.weight, std=std)
    return model


TABLE: dict[str, Callable[[], nn.Module]] = {
    "lesson 15's parts": changed,
    "RMSNorm": lambda: changed(norm=True),
    "SwiGLU": lambda: changed(gate=True),
    "rotary": lambda: changed(rotary=True),
    "all three": lambda: changed(norm=True, gate=True, rotary=True),
    "four key/value heads": lambda: changed(True, True, True, kv_heads=4),
    "two key/value heads": lambda: changed(True, True, True, kv_heads=2),
    "one key/value head": lambda: changed(True, True, True, kv_heads=1),
    "two key/value heads, experts": lambda: changed(True, True, True, kv_heads=2, experts=True),
    "two, tied": tied,
    "two, tied, window of 2": lambda: tied(window=2),
    "two, tied, embedding of size 0.02": lambda: tied(0.02),
}

if __name__ == "__main__":
    for name, make in TABLE.items():
        count = sum(p.numel() for p in make().parameters())
        losses = [trained_loss(make, seed)[1] for seed in range(3)]
        print(f"{name:34} {count:,} {sum(losses) / 3:.3f}", *(f"{n:.3f}" for n in losses))
