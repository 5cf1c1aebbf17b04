"""The fixed versions of lesson 14's eight programs, in the order of the patients.

`course_utils.experiments.patients` contains the original, broken programs. Letters in shapes: `B`
batch, `T` tokens, `C` model width, `H` heads, `D` head width, `V` vocabulary, `N` positions.
Queries, keys and values are floating point; `True` in a mask means hidden.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import causal_mask, merge_heads, safe_masked_softmax, split_heads


def patient_a(query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor) -> Tensor:
    """Attention that hides the columns of padding: `(B, H, T, D)` three times, bool `(B, T)` ->
    `(B, H, T, D)`. A fully hidden row gives zeros."""
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, T)
    padding = pad_mask[:, None, None, :]  # (B, T) -> (B, 1, 1, T): columns
    weights = safe_masked_softmax(scores, causal_mask(T, query.device) | padding)
    return weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)


def patient_b(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention with scaled scores, in float16 too: `(B, H, T, D)` three times -> the same.

    The largest float16 is 65,504. A dot product of wide vectors can be larger, so the queries are
    scaled first.
    """
    T, D = query.shape[-2:]
    scores = query / math.sqrt(D) @ key.transpose(-2, -1)  # (B, H, T, T)
    scores = scores.masked_fill(causal_mask(T, query.device), -math.inf)
    return torch.softmax(scores, dim=-1) @ value  # (B, H, T, T) @ (B, H, T, D)


def patient_c(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Causal attention of heads that share the width evenly: `(B, T, C)` three times -> the same.

    Raises:
        ValueError: C is not divisible by `num_heads`.
    """
    query, key, value = (split_heads(x, num_heads) for x in (query, key, value))  # (B, H, T, D)
    return merge_heads(patient_e(query, key, value))


def patient_d(
    model: nn.Module, ids: Tensor, optimizer: torch.optim.Optimizer, max_norm: float = 1.0
) -> float:
    """Take one training step with only this batch's gradient, clipped before use; return the loss.

    The logits at t are compared with the token at t + 1. `model` takes ids `(B, T)`, returns `(B,
    T, V)` and stays in training mode.
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


def patient_e(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention, masked before the softmax: `(B, H, T, D)` three times -> the same."""
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, T)
    scores = scores.masked_fill(causal_mask(T, query.device), -math.inf)
    return torch.softmax(scores, dim=-1) @ value  # (B, H, T, T) @ (B, H, T, D)


def patient_f(ids: Tensor, pad_mask: Tensor, token: Tensor, position: Tensor) -> Tensor:
    """Add a token's row and its position's row: ids `(B, T)`, bool `(B, T)`, `(V, C)`, `(N, C)` ->
    `(B, T, C)`. The first token after the padding is at position 0.

    Raises:
        ValueError: T is greater than N.
    """
    T, N = ids.shape[1], len(position)
    if T > N:
        raise ValueError(f"got {T} tokens, but there are {N} positions")
    places = (~pad_mask).long().cumsum(dim=1) - 1  # (B, T), from 0
    return token[ids] + position[places.clamp(min=0)]  # (B, T, C)


def patient_g(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Causal attention, all heads at once: `(B, T, C)` three times -> the same.

    Raises:
        ValueError: C is not divisible by `num_heads`.
    """
    return patient_c(query, key, value, num_heads)


def patient_h(model: Any, ids: Tensor, max_new_tokens: int) -> Tensor:
    """Append the most likely word repeatedly, `(B, T)` -> `(B, T + max_new_tokens)`; each token
    is processed by the model only once.

    `model(new, cache=None)` takes new ids `(B, T)` and the cache of earlier ids, and returns
    logits `(B, T, V)` and the extended cache. The mode is restored; no gradients are recorded.
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
