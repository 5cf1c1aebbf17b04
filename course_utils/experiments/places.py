"""Lesson 09: models with and without positions, within and beyond their training length.

Letters in shapes have the same meaning as in `course_utils.transformer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import Normalize
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import (
    MultiHeadAttention,
    attention_scores,
    causal_mask,
    merge_heads,
    safe_masked_softmax,
    split_heads,
)
from ..desk.environment import use_threads
from ..show.drawing import MARKERS, SIGNED, Picture, line_look, titled
from ..transformer import (
    LayerNorm,
    TokenAndPosition,
    TransformerBlock,
    apply_rope,
    sinusoidal_positions,
)
from .training import descend, seeded

# A small model with one kind of positions --------------------------------------------------------

WORDS, WIDTH, HEADS = 12, 32, 2


@dataclass(frozen=True)
class Parts:
    """The functions and the class that give a model its positions: the finished ones, or yours."""

    table: Callable[[int, int, int], nn.Module] = TokenAndPosition
    waves: Callable[[int, int], Tensor] = sinusoidal_positions
    rope: Callable[[Tensor], Tensor] = apply_rope


FINISHED = Parts()


class RotaryAttention(MultiHeadAttention):
    """`MultiHeadAttention` with rotated queries and keys; values are unchanged."""

    rope: Callable[[Tensor], Tensor] = staticmethod(apply_rope)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        layers = (self.query, self.key, self.value)
        query, key, value = (split_heads(layer(x), self.num_heads) for layer in layers)
        hidden = causal_mask(x.shape[1], x.device)
        if pad_mask is not None:
            hidden = hidden | pad_mask[:, None, None, :]
        scores = attention_scores(self.rope(query), self.rope(key))  # (B, H, T, T)
        return self.out_proj(merge_heads(safe_masked_softmax(scores, hidden) @ value))


class Reader(nn.Module):
    """A model with one kind of positions: `(B, T)` ids to `(B, T, V)` logits.

    Args:
        kind: the kind of positions: "none", "learned", "sinusoidal" or "rotary".
        T: the number of tokens in training, which is the number of rows of a learned table.
        layers: the number of blocks.
        parts: the functions and the class that compute the positions.
    """

    def __init__(self, kind: str, T: int, layers: int = 1, parts: Parts = FINISHED) -> None:
        super().__init__()
        self.kind, self.waves = kind, parts.waves
        self.embed: Any = parts.table(WORDS, T, WIDTH)
        self.blocks = nn.ModuleList(TransformerBlock(WIDTH, HEADS, 8 * T) for _ in range(layers))
        if kind == "rotary":
            for block in self.blocks:
                block.attention = RotaryAttention(WIDTH, WIDTH, 8 * T, HEADS)
                block.attention.rope = parts.rope
        self.norm = LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) if self.kind == "learned" else self.embed.token(ids)  # (B, T, C)
        if self.kind == "sinusoidal":
            x = x + self.waves(ids.shape[1], WIDTH)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # (B, T, C) -> (B, T, V)


def _made(kind: str, T: int, layers: int, seed: int, parts: Parts) -> Reader:
    with seeded(seed):
        return Reader(kind, T, layers, parts)


def first_of_three(
    kind: str = "none",
    layers: int = 1,
    seed: int = 0,
    steps: int = 150,
    parts: Parts = FINISHED,
) -> float:
    """Train a model to predict, at the last of three distinct words, the first one.

    Returns:
        The accuracy on all 1,320 texts of three out of twelve words.
    """
    texts = torch.tensor(list(permutations(range(WORDS), 3)))  # (1320, 3)
    generator = torch.Generator().manual_seed(seed)
    model = _made(kind, 3, layers, seed, parts)

    def loss(_: int) -> Tensor:
        ids = texts[torch.randint(len(texts), (128,), generator=generator)]
        return F.cross_entropy(model(ids)[:, -1], ids[:, 0])

    descend(torch.optim.AdamW(model.parameters(), lr=3e-3), steps, loss)
    with torch.no_grad(), use_threads(1):
        said = model(texts)[:, -1].argmax(dim=-1)  # (1320,)
    return (said == texts[:, 0]).float().mean().item()


# The previous word, within and beyond the training length ----------------------------------------

TRAINED = 16  # the number of tokens in training


@cache
def word_before(kind: str, seed: int = 0, parts: Parts = FINISHED) -> Reader:
    """Train a model with one block to predict, at each of 16 tokens, the previous word."""
    generator = torch.Generator().manual_seed(seed)
    model = _made(kind, TRAINED, 1, seed, parts)

    def loss(_: int) -> Tensor:
        ids = torch.randint(WORDS, (64, TRAINED), generator=generator)
        return F.cross_entropy(model(ids)[:, 1:].flatten(0, 1), ids[:, :-1].flatten())

    descend(torch.optim.AdamW(model.parameters(), lr=3e-3), 200, loss)
    return model


def shares_right(model: Reader, T: int) -> list[float]:
    """Return the accuracy of predicting the previous word, at each of the tokens 1 to T - 1.

    Raises:
        Exception: a learned table has no row for a position; the error's type depends on the table.
    """
    ids = torch.randint(WORDS, (500, T), generator=torch.Generator().manual_seed(1_000))
    with torch.no_grad(), use_threads(1):
        right = model(ids)[:, 1:].argmax(dim=-1) == ids[:, :-1]  # (500, T - 1)
    return right.float().mean(dim=0).tolist()


def one_token_beyond(kind: str, parts: Parts = FINISHED) -> str:
    """The outcome with one token more than in training: "error", "drift" or "fine"."""
    model = word_before(kind, parts=parts)
    try:
        share = shares_right(model, TRAINED + 1)[-1]
    except Exception:  # a reader's own table may raise any error
        return "error"
    return "fine" if share > 0.95 else "drift"


def beyond(
    kinds: Sequence[str],
    T: int,
    title: str,
    alt: str,
    seeds: Mapping[str, int] | None = None,
    parts: Parts = FINISHED,
) -> Picture:
    """Draw the accuracy by position, up to T tokens.

    Args:
        kinds: the kinds of positions.
        T: the number of tokens.
        seeds: the number of models of each kind, by default 1. Their mean and their range are
            drawn.
        parts: the functions and the class that compute the positions.
    """
    figure, axes = plt.subplots(figsize=(6.6, 3.2))
    axes.axvspan(TRAINED - 0.5, T, color="#eeeeee", zorder=0)
    for i, kind in enumerate(kinds):
        known = TRAINED if kind == "learned" else T
        count = (seeds or {}).get(kind, 1)
        models = (word_before(kind, seed, parts=parts) for seed in range(count))
        y = torch.tensor([shares_right(model, known) for model in models])  # (seeds, T - 1)
        look = line_look(i) | {"marker": MARKERS[i], "markersize": 4, "linewidth": 1.4}
        if kind == "learned":  # wider than the other curves, which are drawn on top of it
            look |= {"markerfacecolor": "none", "markersize": 8}
        label = kind if count == 1 else f"{kind}, mean\nand range of {count}"
        axes.plot(range(1, known), y.mean(dim=0), label=label, **look)
        low, high = y.amin(dim=0).tolist(), y.amax(dim=0).tolist()
        axes.fill_between(range(1, known), low, high, color=look["color"], alpha=0.2, linewidth=0)
    axes.axhline(1 / WORDS, color="#767676", linewidth=1, linestyle=(0, (1, 2)), label="chance")
    axes.set(xlabel="position", ylabel="share right", ylim=(0, 1.1), xlim=(0, T - 0.5))
    axes.text(T - 1, 0.95, "never trained", fontsize=9, ha="right", va="center")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return titled(figure, title, alt)


def wave_lines(rows: Tensor, title: str, alt: str) -> Picture:
    """Draw a table of positions `(T, C)` as lines, in four panels of neighbouring channels."""
    (T, C), groups = rows.shape, 4
    size = C // groups
    figure, panels = plt.subplots(
        groups, 1, figsize=(6.6, 1.35 * groups + 0.6), sharex=True, layout="constrained"
    )
    for group, axes in enumerate(panels):
        for i in range(size):
            channel = group * size + i
            values = rows[:, channel].detach()
            axes.plot(range(T), values, label=f"channel {channel}", **line_look(i))
        axes.set(ylim=(-1.15, 1.15), yticks=[-1, 0, 1], ylabel="value", xlim=(0, T - 1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    panels[-1].set_xlabel("position")
    return titled(figure, title, alt)


def similarity(rows: Tensor) -> Tensor:
    """The cosine of each pair of T rows: `(T, C)` to `(T, T)`."""
    rows = F.normalize(rows.detach(), dim=-1)
    return rows @ rows.T


def learned_table(steps: int = 400) -> Tensor:
    """A table of positions, `(24, 16)`, learned on a task in which nearby tokens matter most.

    Each token carries two random numbers and should give the mean over the tokens at most four
    positions away. One head without a mask, whose scores depend on positions only, learns this
    task.

    Args:
        steps: the number of training steps; 0 gives the initial table.
    """
    T, C, generator = 24, 16, torch.Generator().manual_seed(0)
    table, query, key = (  # the table begins with a standard deviation of 0.02, as in GPT-2
        (s * torch.randn(n, C, generator=generator)).requires_grad_()
        for n, s in ((T, 0.02), (C, C**-0.5), (C, C**-0.5))
    )
    places = torch.arange(T)
    near = ((places[:, None] - places).abs() <= 4).float()
    wanted = near / near.sum(dim=-1, keepdim=True)  # (T, T)

    def loss(_: int) -> Tensor:
        payload = torch.randn(64, T, 2, generator=generator)
        weights = torch.softmax((table @ query) @ (table @ key).T / C**0.5, dim=-1)
        return F.mse_loss(weights @ payload, wanted @ payload)

    descend(torch.optim.Adam([table, query, key], lr=0.01), steps, loss)
    return table.detach()


def maps(
    named: Mapping[str, Tensor],
    title: str,
    alt: str,
    label: str = "cosine",
    xlabel: str = "position",
    ylabel: str = "position",
) -> Picture:
    """Draw maps of positions side by side on one scale, positive numbers blue, negative orange.

    Args:
        named: headings, each with a tensor that has one row per position.
        title, alt: the figure's title and its text alternative.
        label, xlabel, ylabel: the meaning of the colours, of the columns and of the rows.
    """
    largest = max(float(values.abs().max()) for values in named.values())
    norm = Normalize(-largest, largest)
    size = (2.15 * len(named) + 0.9, 2.9)
    figure, row = plt.subplots(1, len(named), figsize=size, layout="constrained", squeeze=False)
    for axes, (name, values) in zip(row[0], named.items(), strict=True):
        image = axes.imshow(values.detach().cpu(), cmap=SIGNED, norm=norm)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(xlabel)
        axes.spines[:].set_visible(False)
    row[0, 0].set_ylabel(ylabel)
    figure.colorbar(image, ax=row, fraction=0.04, pad=0.02, label=label)
    return titled(figure, title, alt)


def hands(D: int, positions: Sequence[int], title: str, alt: str) -> Picture:
    """Draw one dial per pair of D channels, with one hand per position: the rotated (1, 0)."""
    figure, row = plt.subplots(
        1, D // 2, figsize=(1.75 * D / 2 + 0.4, 3.0), layout="constrained", squeeze=False
    )
    circle = np.linspace(0, 2 * np.pi, 200)
    for i, axes in enumerate(row[0]):
        rate = 10000.0 ** (-2 * i / D)
        axes.plot(np.cos(circle), np.sin(circle), color="#bbbbbb", linewidth=1)
        for shade, t in enumerate(positions):
            x, y = np.cos(t * rate), np.sin(t * rate)
            look = line_look(shade)
            axes.plot([0, x], [0, y], linewidth=1.8, **look)
            axes.plot(x, y, MARKERS[shade], color=look["color"], label=f"position {t}")
        axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal", xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(f"channels {2 * i}, {2 * i + 1}\n{rate:g} rad a token", fontsize=9)
    handles, labels = row[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(positions), frameon=False)
    return titled(figure, title, alt)
