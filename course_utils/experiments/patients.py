# ruff: noqa: RUF059
"""Lesson 14: the eight original programs. Each has a bug but runs without an error.

`course_utils.clinic` contains the fixed versions. The lesson shows these programs unchanged for
students to fix, so its remarks on single lines must match the code.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def patient_a(query, key, value, pad_mask):
    """Attention in a padded batch: (B, H, T, D) three times, (B, T) bool -> (B, H, T, D)."""
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1)  # (B, H, T, D) @ (B, H, D, T) -> (B, H, T, T)
    scores = scores / math.sqrt(D)

    future = torch.ones(T, T, dtype=torch.bool, device=query.device).triu(diagonal=1)
    padding = pad_mask[:, None, :, None]  # True at padding
    hidden = future | padding
    scores = scores.masked_fill(hidden, -math.inf)

    blind = hidden.all(dim=-1, keepdim=True)  # rows that attend to nothing
    scores = scores.masked_fill(blind, 0.0)  # otherwise their softmax would be NaN
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(blind, 0.0)
    return weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)


def patient_b(query, key, value):
    """Causal attention, also in float16: (B, H, T, D) three times -> (B, H, T, D)."""
    T = query.shape[-2]
    scores = query @ key.transpose(-2, -1)  # (B, H, T, D) @ (B, H, D, T) -> (B, H, T, T)

    future = torch.ones(T, T, dtype=torch.bool, device=query.device)
    future = future.triu(diagonal=1)  # all cells right of the diagonal
    scores = scores.masked_fill(future, -math.inf)

    highest = scores.amax(dim=-1, keepdim=True)
    exps = torch.exp(scores - highest)  # at most 1
    sums = exps.sum(dim=-1, keepdim=True)
    weights = exps / sums  # each row sums to 1

    context = weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)
    return context


def patient_c(query, key, value, num_heads):
    """Causal attention, head by head: (B, T, C) three times -> (B, T, C)."""
    B, T, C = query.shape
    D = C // num_heads  # width of a head
    future = torch.ones(T, T, dtype=torch.bool, device=query.device).triu(diagonal=1)

    out = torch.zeros_like(query)
    for h in range(num_heads):
        own = slice(h * D, (h + 1) * D)  # the channels of this head
        scores = query[:, :, own] @ key[:, :, own].transpose(-2, -1)  # (B, T, T)
        scores = scores / math.sqrt(D)
        scores = scores.masked_fill(future, -math.inf)
        weights = torch.softmax(scores, dim=-1)
        out[:, :, own] = weights @ value[:, :, own]  # (B, T, T) @ (B, T, D)
    return out


def patient_d(model, ids, optimizer, max_norm=1.0):
    """Take one training step on ids, (B, T); return the loss before it, a float."""
    model.train()
    logits = model(ids)  # (B, T) -> (B, T, V)
    B, T, V = logits.shape

    logits = logits.reshape(B * T, V)
    targets = ids.reshape(B * T)
    loss = F.cross_entropy(logits, targets)  # the mean over all tokens

    loss.backward()
    optimizer.step()
    # one odd batch must not change the parameters too much
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item()


def patient_e(query, key, value):
    """Causal attention: (B, H, T, D) three times -> (B, H, T, D)."""
    T, D = query.shape[-2:]
    scores = query @ key.transpose(-2, -1)  # (B, H, T, D) @ (B, H, D, T) -> (B, H, T, T)
    scores = scores / math.sqrt(D)

    future = torch.ones(T, T, dtype=torch.bool, device=query.device)
    future = future.triu(diagonal=1)  # all cells right of the diagonal

    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(future, 0.0)

    context = weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)
    return context


def patient_f(ids, pad_mask, token, position):
    """A row for each token: (B, T), (B, T) bool, (V, C), (N, C) -> (B, T, C)."""
    T, N = ids.shape[1], len(position)
    if T > N:
        raise ValueError(f"{T} tokens came in, but there are {N} positions")

    # Padding is on the left. The text begins after it, so positions are counted from there.
    real = ~pad_mask
    places = real.long().cumsum(dim=1)
    places = places.masked_fill(pad_mask, 0)  # no token attends to padding: any row will do

    words = token[ids]  # (B, T, C)
    rows = position[places]  # (B, T, C)
    return words + rows


def patient_g(query, key, value, num_heads):
    """Causal attention, all heads at once: (B, T, C) three times -> (B, T, C)."""
    B, T, C = query.shape
    if C % num_heads:
        raise ValueError(f"{C} channels can't be cut into {num_heads} heads")
    D = C // num_heads

    query = query.reshape(B, num_heads, T, D)  # (B, T, C) -> (B, H, T, D)
    key = key.reshape(B, num_heads, T, D)
    value = value.reshape(B, num_heads, T, D)

    scores = query @ key.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, T)
    future = torch.ones(T, T, dtype=torch.bool, device=query.device).triu(diagonal=1)
    scores = scores.masked_fill(future, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    context = weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)
    return context.transpose(1, 2).reshape(B, T, C)  # (B, H, T, D) -> (B, T, C)


def patient_h(model, ids, max_new_tokens):
    """Append the most likely word repeatedly: (B, T) -> (B, T + max_new_tokens).

    model(new, cache=None) takes new tokens, (B, T), and the cache of earlier tokens, if any.
    It returns the new tokens' logits, (B, T, V), and the extended cache.
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits, cache = model(ids)
            newest = logits[:, -1]  # (B, T, V) -> (B, V)
            word = newest.argmax(dim=-1, keepdim=True)  # (B, 1)
            ids = torch.cat([ids, word], dim=1)
    model.train(was_training)
    return ids
