"""Right and wrong answers for lesson 10."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model as finished


def windows_by_index(ids, length, stride):
    starts = torch.arange(0, len(ids) - length, stride, device=ids.device)
    places = starts[:, None] + torch.arange(length, device=ids.device)
    return ids[places], ids[places + 1]


def windows_by_unfold(ids, length, stride):
    return ids[:-1].unfold(0, length, stride), ids[1:].unfold(0, length, stride)


def windows_by_while(ids, length, stride):
    inputs, targets, start = [], [], 0
    while start + length < len(ids):
        inputs.append(ids[start : start + length])
        targets.append(ids[start + 1 : start + length + 1])
        start += stride
    return [torch.stack(inputs), torch.stack(targets)]


def _then(change):
    """The right windows, changed afterwards."""
    return lambda ids, length, stride: change(*windows_by_index(ids, length, stride))


WINDOWS_WRONG = {
    "stride and length swapped": (
        0,
        lambda ids, length, stride: windows_by_index(ids, stride, length),
    ),
    "of the course": (0, finished.sliding_windows),
}


def loss_by_gather(logits, ids, pad_id=None):
    logs = logits[:, :-1].log_softmax(-1)
    picked = logs.gather(-1, ids[:, 1:, None]).squeeze(-1)
    real = torch.ones_like(picked) if pad_id is None else (ids[:, 1:] != pad_id).to(picked.dtype)
    return -(picked * real).sum() / real.sum()


def loss_by_logsumexp(logits, ids, pad_id=None):
    targets = ids[:, 1:].reshape(-1)
    rows = logits[:, :-1].reshape(len(targets), logits.shape[-1])
    keep = torch.arange(len(targets), device=ids.device)
    if pad_id is not None:
        keep = keep[targets != pad_id]
    rows, targets = rows[keep], targets[keep]
    right = rows[torch.arange(len(rows), device=ids.device), targets]
    return (rows.logsumexp(-1) - right).mean()


def loss_by_module(logits, ids, pad_id=None):
    criterion = nn.CrossEntropyLoss(ignore_index=-1 if pad_id is None else pad_id)
    return criterion(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def loss_by_rolling(logits, ids, pad_id=None):
    """Targets rolled, and the last position left out."""
    targets = ids.roll(-1, dims=1)
    real = torch.arange(ids.shape[1], device=ids.device).expand_as(ids) < ids.shape[1] - 1
    if pad_id is not None:
        real = real & (targets != pad_id)
    return F.cross_entropy(logits[real], targets[real])


LOSS_WRONG = {
    "of the course": (0, finished.next_token_loss),
}


def probabilities_by_rank(logits, temperature=1.0, top_k=None, top_p=None):
    """Ranks instead of sorting back."""
    if temperature == 0:
        temperature, top_k, top_p = 1.0, 1, None
    logits = logits / temperature
    rank = logits.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    if top_k is not None:
        logits = logits.masked_fill(rank >= top_k, -math.inf)
    shares = logits.softmax(-1)
    if top_p is not None:
        above = (rank[..., None, :] < rank[..., :, None]).to(shares.dtype)
        before = (above @ shares[..., None])[..., 0]
        shares = shares.masked_fill(before >= top_p, 0.0)
        shares = shares / shares.sum(-1, keepdim=True)
    return shares


def probabilities_by_shift(logits, temperature=1.0, top_k=None, top_p=None):
    """The well-known way: drop by running sum, shifted one to the right; -1e9 for -inf."""
    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    logits = logits / temperature
    if top_k is not None:
        kept = torch.topk(logits, min(top_k, logits.size(-1)))
        logits = torch.full_like(logits, -1e9).scatter(-1, kept.indices, kept.values)
    if top_p is not None:
        ordered, order = torch.sort(logits, descending=True)
        drop = ordered.softmax(-1).cumsum(-1) >= top_p
        drop[..., 1:] = drop[..., :-1].clone()
        drop[..., 0] = False
        logits = logits.masked_fill(drop.scatter(-1, order, drop), -1e9)
    return torch.softmax(logits, -1)


def probabilities_by_order(logits, temperature=1.0, top_k=None, top_p=None):
    """Cuts in sorted order, then back through the inverse order."""
    if temperature == 0:
        out = torch.zeros_like(logits)
        return out.scatter_(-1, logits.argmax(-1, keepdim=True), 1)
    ordered, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
    if top_k is not None:
        ordered = ordered * (torch.arange(ordered.shape[-1], device=logits.device) < top_k)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    if top_p is not None:
        ordered = ordered * ((ordered.cumsum(-1) - ordered) < top_p)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    return ordered.gather(-1, order.argsort(-1))


def one_row_of_ones(logits, temperature=1.0, top_k=None, top_p=None):
    """At temperature 0, for logits of two dimensions only."""
    if temperature == 0:
        out = torch.zeros_like(logits)
        out[torch.arange(len(logits)), logits.argmax(-1)] = 1.0
        return out
    return probabilities_by_rank(logits, temperature, top_k, top_p)


PROBABILITIES_WRONG = {
    "rows only at temperature 0": (1.125, one_row_of_ones),
    "of the course": (0, finished.next_token_probabilities),
}


@torch.no_grad()
def generate_by_loop(model, ids, max_new_tokens):
    mode = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(ids[:, -model.context_length :])
        ids = torch.cat((ids, logits[:, -1, :].argmax(-1).unsqueeze(1)), 1)
    model.train(mode)
    return ids


def generate_in_place(model, ids, max_new_tokens):
    """Room for all first; the mode is put back whatever happens."""
    mode, T = model.training, ids.shape[1]
    text = ids.new_zeros(ids.shape[0], T + max_new_tokens)
    text[:, :T] = ids
    try:
        model.eval()
        with torch.no_grad():
            for t in range(T, T + max_new_tokens):
                seen = text[:, max(0, t - model.context_length) : t]
                text[:, t] = model(seen)[:, -1].max(-1).indices
    finally:
        if mode:
            model.train()
    return text


def generate_row_by_row(model, ids, max_new_tokens):
    mode = model.training
    model.eval()
    rows = []
    with torch.no_grad():
        for row in ids:
            for _ in range(max_new_tokens):
                best = model(row[None, -model.context_length :])[0, -1].topk(1).indices
                row = torch.cat([row, best])
            rows.append(row)
    model.train(mode)
    return torch.stack(rows)


GENERATE_WRONG = {
    "of the course": (0, finished.generate),
}


RECALL = {
    "scores stay when all move": "rotary",
    "width of a head": 256,
    "temperature near 0": "one weight is 1",
}


REASONS = {
    "perplexity of 1/50 each": 50,
    "predictions in 33 tokens": 32,
    "first loss, 1,000 words": 6.9078,
    "both losses stay at the bigram": "attention is switched off",
    "dropout, held-out loss lower": "dropout in training",
    "shifted twice, predicts": "the word after the next",
    "kept by top_p 0.7": 2,
    "weight 0.9, agreement falls by": "the weight cannot say",
}


RIGHT = {
    "sliding_windows": {
        "index": windows_by_index,
        "unfold": windows_by_unfold,
        "while": windows_by_while,
        "two in one tensor": _then(lambda a, b: torch.stack([a, b])),
    },
    "next_token_loss": {
        "gather": loss_by_gather,
        "logsumexp": loss_by_logsumexp,
        "module": loss_by_module,
        "rolled": loss_by_rolling,
    },
    "next_token_probabilities": {
        "ranks": probabilities_by_rank,
        "shifted": probabilities_by_shift,
        "sorted back": probabilities_by_order,
    },
    "generate": {
        "loop": generate_by_loop,
        "in place": generate_in_place,
        "row by row": generate_row_by_row,
    },
    "recall_10": {"capitals": RECALL | {"scores stay when all move": "Rotary"}},
    "language_model_reasons": {
        "exact": REASONS,
        "two decimals": REASONS | {"first loss, 1,000 words": 6.91},
    },
}


WRONG = {
    "sliding_windows": WINDOWS_WRONG,
    "next_token_loss": LOSS_WRONG,
    "next_token_probabilities": PROBABILITIES_WRONG,
    "generate": GENERATE_WRONG,
    "language_model_reasons": {
        "all overfitting": (0.75, REASONS | {"dropout, held-out loss lower": "overfitting"}),
    },
}
