"""Eight broken programs, mended: the finished parts of lesson 14, in the order of its patients.

`course_utils.experiments.patients` has them as they were brought in. Letters in shapes: `B` batch,
`T` tokens, `C` model width, `H` heads, `D` head width, `V` vocabulary. `True` in a mask means
hidden.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import causal_mask, check_divisible, safe_masked_softmax


def fix_padding_rows(query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor) -> Tensor:
    """Attention that hides padded columns: padding may look, and nobody looks at it.

    Args:
        query: `(B, H, T, D)` floating point.
        key: `(B, H, T, D)`.
        value: `(B, H, T, D)`.
        pad_mask: `(B, T)` bool, `True` at padding.

    Returns:
        `(B, H, T, D)`; a row that sees nothing is zeros.
    """
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, T)
    padding = pad_mask[:, None, None, :]  # (B, T) -> (B, 1, 1, T): columns
    weights = safe_masked_softmax(scores, causal_mask(T, query.device) | padding)
    return weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)


def fix_missing_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention whose scores are scaled, and before they can overflow.

    The largest number in float16 is 65,504. Where D is large, a dot product of long queries and
    keys is beyond that, and scaling it afterwards comes too late.

    Args:
        query: `(B, H, T, D)`, float16 too.
        key: `(B, H, T, D)`.
        value: `(B, H, T, D)`.

    Returns:
        `(B, H, T, D)`.
    """
    T, D = query.shape[-2:]
    query = query / math.sqrt(D)
    scores = query @ key.transpose(-2, -1)  # (B, H, T, D) @ (B, H, D, T) -> (B, H, T, T)
    scores = scores.masked_fill(causal_mask(T, query.device), -math.inf)
    return torch.softmax(scores, dim=-1) @ value  # (B, H, T, T) @ (B, H, T, D)


def fix_uneven_heads(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Causal attention head by head, for a width that the heads share evenly.

    Args:
        query: `(B, T, C)` floating point.
        key: `(B, T, C)`.
        value: `(B, T, C)`.
        num_heads: H.

    Returns:
        `(B, T, C)`.

    Raises:
        ValueError: C is not divisible by `num_heads`.
    """
    T, C = query.shape[1:]
    check_divisible(C, num_heads)
    out = []
    for q, k, v in zip(*(x.chunk(num_heads, dim=-1) for x in (query, key, value)), strict=True):
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // num_heads)  # (B, T, T)
        scores = scores.masked_fill(causal_mask(T, query.device), -math.inf)
        out.append(torch.softmax(scores, dim=-1) @ v)  # (B, T, T) @ (B, T, D) -> (B, T, D)
    return torch.cat(out, dim=-1)  # H of (B, T, D) -> (B, T, C)


def fix_training_step(
    model: nn.Module, ids: Tensor, optimizer: torch.optim.Optimizer, max_norm: float = 1.0
) -> float:
    """One step downhill: logits at t against the token at t + 1, along this batch's gradient alone,
    cut to `max_norm` before it is used.

    Args:
        model: `(B, T)` ids to `(B, T, V)` logits; it stays in training mode.
        ids: `(B, T)`.
        optimizer: of the model's parameters.
        max_norm: the most that all gradients, taken as one vector, may be long.

    Returns:
        The loss before the step.
    """
    model.train()
    logits = model(ids)[:, :-1]  # (B, T, V) -> (B, T - 1, V)
    targets = ids[:, 1:]  # (B, T - 1)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def fix_mask_after_softmax(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention whose future takes no share in the softmax.

    Args:
        query: `(B, H, T, D)` floating point.
        key: `(B, H, T, D)`.
        value: `(B, H, T, D)`.

    Returns:
        `(B, H, T, D)`.
    """
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, T)
    scores = scores.masked_fill(causal_mask(T, query.device), -math.inf)
    return torch.softmax(scores, dim=-1) @ value  # (B, H, T, T) @ (B, H, T, D)


def fix_position_overflow(ids: Tensor, pad_mask: Tensor, token: Tensor, position: Tensor) -> Tensor:
    """The row of each token and of its place; the first token behind the padding stands at 0.

    Args:
        ids: `(B, T)` integers.
        pad_mask: `(B, T)` bool, `True` at padding, which stands in front.
        token: `(V, C)`, a row for each word.
        position: `(N, C)`, a row for each place.

    Returns:
        `(B, T, C)`; what stands at padding has no meaning.

    Raises:
        ValueError: T is greater than N.
    """
    T, N = ids.shape[1], len(position)
    if T > N:
        raise ValueError(f"{T} tokens came in, but there are {N} positions")
    places = (~pad_mask).long().cumsum(dim=1) - 1  # (B, T), from 0
    places = places.clamp(min=0)  # padding in front has none of its own
    return token[ids] + position[places]  # (B, T, C)


def fix_view_without_transpose(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Causal attention, all heads at once, each with its own channels of every token.

    Args:
        query: `(B, T, C)` floating point.
        key: `(B, T, C)`.
        value: `(B, T, C)`.
        num_heads: H.

    Returns:
        `(B, T, C)`.

    Raises:
        ValueError: C is not divisible by `num_heads`.
    """
    B, T, C = query.shape
    if C % num_heads:
        raise ValueError(f"{C} channels can't be cut into {num_heads} heads")
    D = C // num_heads
    query, key, value = (
        x.reshape(B, T, num_heads, D).transpose(1, 2) for x in (query, key, value)
    )  # (B, T, C) -> (B, T, H, D) -> (B, H, T, D)
    context = fix_mask_after_softmax(query, key, value)
    return context.transpose(1, 2).reshape(B, T, C)  # (B, H, T, D) -> (B, T, H, D) -> (B, T, C)


def fix_slow_generation(model: Any, ids: Tensor, max_new_tokens: int) -> Tensor:
    """Append the likeliest word again and again; each token goes through the model once.

    Args:
        model: `model(new, cache=None)` takes new tokens, `(B, T)`, and the cache of those before
            them, and gives logits of the new ones, `(B, T, V)`, and a cache with them in it.
        ids: `(B, T)`, the beginning.
        max_new_tokens: how many.

    Returns:
        `(B, T + max_new_tokens)`. The model's mode is as before, and nothing has a gradient.
    """
    was_training = model.training
    model.eval()
    new, cache = ids, None
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits, cache = model(new, cache)
            new = logits[:, -1].argmax(dim=-1, keepdim=True)  # (B, T, V) -> (B, V) -> (B, 1)
            ids = torch.cat([ids, new], dim=1)
    model.train(was_training)
    return ids
