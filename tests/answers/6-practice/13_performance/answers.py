"""Right and wrong answers for lesson 13."""

import math

import torch
import torch.nn.functional as F

from course_utils import attention as finished
from course_utils import language_model, transformer
from course_utils.attention import causal_mask

INF = float("inf")


SDPA = F.scaled_dot_product_attention


def sdpa_plain(query, key, value, hidden=None):
    seen = None if hidden is None else torch.atleast_2d(torch.logical_not(hidden))
    return SDPA(query, key, value, seen)


def sdpa_added(query, key, value, hidden=None):
    if hidden is None:
        hidden = torch.zeros(1, 1, dtype=torch.bool, device=query.device)
    zeros = query.new_zeros(hidden.shape)
    return SDPA(query, key, value, attn_mask=torch.atleast_2d(zeros.masked_fill(hidden, -INF)))


def sdpa_filled(query, key, value, hidden=None):
    """A low number instead of -inf, and zeros where that leaves nothing."""
    if hidden is None:
        return SDPA(query, key, value)
    hidden = torch.atleast_2d(hidden)
    bias = torch.zeros_like(hidden, dtype=query.dtype).masked_fill(hidden, -1e9)
    return SDPA(query, key, value, bias).masked_fill(hidden.all(-1, keepdim=True), 0.0)


def sdpa_expanded(query, key, value, hidden=None):
    B, H, T, _ = query.shape
    if hidden is not None:
        hidden = ~hidden.expand(B, H, T, key.shape[2])
    return SDPA(query, key, value, attn_mask=hidden)


def sdpa_by_head(query, key, value, hidden=None):
    B, H, T, _ = query.shape
    seen = query.new_ones(B, H, T, key.shape[2], dtype=torch.bool)
    if hidden is not None:
        seen = seen & ~hidden
    heads = [SDPA(query[:, h], key[:, h], value[:, h], seen[:, h]) for h in range(H)]
    return torch.stack(heads, dim=1)


def sdpa_scaled_before(query, key, value, hidden=None):
    query = query / query.shape[-1] ** 0.5
    mask = None if hidden is None else (hidden == 0).view((1,) * (4 - hidden.dim()) + hidden.shape)
    return SDPA(query, key, value, attn_mask=mask, scale=1.0)


SDPA_WRONG = {
    "of the course": (0, finished.sdpa_attention),
}


def step(join=None, attend=None, back=None, begin=None):
    """An answer in steps: join(kept, new), attend(query, keys, values), back(out, keys, values)."""

    def cached_attention_step(query, key, value, cache):
        if cache is None:
            keys, values = (begin or (lambda key, value: (key, value)))(key, value)
        else:
            grow = join or (lambda kept, new: torch.cat((kept, new), 2))
            keys, values = grow(cache[0], key), grow(cache[1], value)
        out = (attend or SDPA)(query, keys, values)
        return (back or (lambda out, keys, values: (out, (keys, values))))(out, keys, values)

    return cached_attention_step


def step_by_stack(query, key, value, cache):
    """The kept ones row by row."""
    kept = ([], []) if cache is None else (list(t.unbind(2)) for t in cache)
    keys, values = (
        torch.stack([*rows, new[:, :, 0]], 2) for rows, new in zip(kept, (key, value), strict=True)
    )
    weights = torch.einsum("bhtd,bhsd->bhts", query, keys).div(query.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhts,bhsd->bhtd", weights, values), (keys, values)


def step_by_empty(query, key, value, cache):
    """An empty cache instead of none."""
    empty = key[:, :, :0], value[:, :, :0]
    past_keys, past_values = empty if cache is None else cache
    keys = torch.cat([past_keys, key], dim=-2)
    values = torch.cat([past_values, value], dim=-2)
    mask = torch.ones(1, keys.shape[2], dtype=torch.bool, device=query.device)
    return SDPA(query, keys, values, attn_mask=mask), (keys, values)


def step_by_full_mask(query, key, value, cache):
    """All queries as the one, and the last row."""
    past = cache or (key[:, :, :0], value[:, :, :0])
    keys, values = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
    S = keys.shape[2]
    scores = query.expand(-1, -1, S, -1) @ keys.mT / math.sqrt(key.shape[-1])
    weights = scores.masked_fill(causal_mask(S, query.device), -INF).softmax(-1)
    return (weights @ values)[:, :, -1:], (keys, values)


def step_with_room(query, key, value, cache):
    """Into room that is made anew each time."""
    S = 0 if cache is None else cache[0].shape[2]
    grown = []
    for i, new in enumerate((key, value)):
        room = new.new_empty(*new.shape[:2], S + 1, new.shape[3])
        if S:
            room[:, :, :S] = cache[i]
        room[:, :, S:] = new
        grown.append(room)
    return SDPA(query, *grown), tuple(grown)


def step_of_a_list(query, key, value, cache):
    keys, values = [], []
    if cache is not None:
        keys, values = [cache[0]], [cache[1]]
    cache = [torch.cat([*keys, key], 2), torch.cat([*values, value], 2)]
    return [finished.sdpa_attention(query, *cache), cache]


room_left = {}


STEP_WRONG = {
    "of the course": (0, finished.cached_attention_step),
}


QUIZZES_WRONG = {
    "recall_13": {
        "nothing right": (
            0,
            {
                "winner of the beam": "the shorter",
                "temperature 0.5": "less likely",
                "running sum, twice the tokens": 4,
            },
        ),
        "numbers": (
            0,
            {
                "winner of the beam": -0.5,
                "temperature 0.5": 2,
                "running sum, twice the tokens": 2,
            },
        ),
        "a float": (
            0.25,
            {
                "winner of the beam": "the longer",
                "temperature 0.5": "likelier",
                "running sum, twice the tokens": 2.5,
            },
        ),
    },
    "attention_cost": {
        "both products in one": (
            0.25,
            {
                "Q Kᵀ": 24_000,
                "weights · V": 24_000,
                "scores": 1_500,
                "bytes of the cache": 57_600,
            },
        ),
        "half is hidden": (
            0,
            {
                "Q Kᵀ": 6_600,
                "weights · V": 6_600,
                "scores": 825,
                "bytes of the cache": 57_600,
            },
        ),
        "in text": (0.25, {"Q Kᵀ": "12000", "weights · V": 12_000, "scores": 1_500}),
    },
    "performance_reasons": {
        "bytes for MiB": (0, {"MiB of GPT-2's cache": 37_748_736}),
        "nothing seen": (0, {"keys seen": 0}),
    },
}


REASONS = {
    "scores, T doubles: times": 4,
    "cache, T doubles: times": 2,
    "MiB of GPT-2's cache": 36,
    "keys seen": 1,
    "SDPA without a mask saves": "memory",
}


def logits_of_keys_kept_plain(model, ids, caches, rotary=False):
    """Keys are kept as the layer gives them, and all of them are rotated in each call."""
    T = caches[0][0].shape[-2] if len(caches) else 0
    x, new = model.embed.token(ids), []
    x = x if rotary else x + model.embed.position(torch.tensor([[T]], device=ids.device))
    for i, block in enumerate(model.blocks):
        part, normed = block.attention, block.norm1(x)
        q, k, v = (
            finished.split_heads(layer(normed), part.num_heads)
            for layer in (part.query, part.key, part.value)
        )
        if T:
            k, v = (torch.cat(pair, 2) for pair in zip(caches[i], (k, v), strict=True))
        new.append([k, v])
        if rotary:
            q, k = transformer.apply_rope(q, offset=T), transformer.apply_rope(k)
        x = x + part.out_proj(finished.merge_heads(SDPA(q, k, v)))
        x = x + block.feed_forward(block.norm2(x))
    return [model.head(model.norm(x)).squeeze(1), tuple(new)]


def logits_by_linear_functions(model, ids, caches, rotary=False):
    """A cache of lists, and the block's lines in another order."""
    known = len(caches[0][0][0][0]) if caches else 0
    position = torch.full_like(ids, known)
    x = model.embed.token(ids) + (0 if rotary else model.embed.position(position))
    new = []
    for i, block in enumerate(model.blocks):
        part, H = block.attention, block.attention.num_heads
        heads = torch.cat([part.query.weight, part.key.weight, part.value.weight])
        q, k, v = F.linear(block.norm1(x), heads).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (q, k, v))
        if rotary:
            q, k = (transformer.apply_rope(t, offset=known) for t in (q, k))
        if known:
            k, v = torch.cat([caches[i][0], k], 2), torch.cat([caches[i][1], v], 2)
        new.append([k, v])
        out = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + part.out_proj(out.transpose(1, 2).flatten(2))
        x = block.feed_forward(block.norm2(x)) + x
    return model.head(model.norm(x[:, -1])), new


def logits_of_a_token_alone(model, ids, caches, rotary=False):
    """No dimension for the one token."""
    known = caches[0][0].shape[2] if caches else 0
    x = model.embed.token(ids[:, 0])  # (B, C)
    if not rotary:
        x = x + model.embed.position.weight[known]
    new = []
    for i, block in enumerate(model.blocks):
        part, normed = block.attention, block.norm1(x)
        layers = part.query, part.key, part.value
        q, k, v = (la(normed).view(len(x), part.num_heads, 1, -1) for la in layers)
        if rotary:
            q, k = (transformer.apply_rope(t, offset=known) for t in (q, k))
        if caches:
            k, v = torch.cat([caches[i][0], k], 2), torch.cat([caches[i][1], v], 2)
        new.append((k, v))
        out = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + part.out_proj(out.flatten(1))
        x = x + block.feed_forward(block.norm2(x))
    return model.head(model.norm(x)), new


RIGHT = {
    "next_logits": {
        "a token alone": logits_of_a_token_alone,
        "keys kept as they are": logits_of_keys_kept_plain,
        "by linear functions": logits_by_linear_functions,
    },
    "recall_13": {
        "in capitals": {
            "winner of the beam": "The longer",
            "temperature 0.5": "LIKELIER",
            "running sum, twice the tokens": 2,
        },
        "as a tensor": {
            "winner of the beam": "the longer",
            "temperature 0.5": "likelier",
            "running sum, twice the tokens": torch.tensor(2),
        },
    },
    "sdpa_attention": {
        "plain": sdpa_plain,
        "numbers added": sdpa_added,
        "a fill of -1e9": sdpa_filled,
        "expanded": sdpa_expanded,
        "head by head": sdpa_by_head,
        "scaled before": sdpa_scaled_before,
    },
    "cached_attention_step": {
        "in steps": step(),
        "by stack": step_by_stack,
        "an empty cache": step_by_empty,
        "the last row of all": step_by_full_mask,
        "room made anew": step_with_room,
        "lists": step_of_a_list,
    },
    "attention_cost": {
        "computed": {
            "Q Kᵀ": 3 * 5 * 10 * 10 * 8,
            "weights · V": 3 * 5 * 10 * 10 * 8,
            "scores": math.prod((3, 5, 10, 10)),
            "bytes of the cache": 2 * 6 * 3 * 5 * 10 * 8 * 4,
        },
        "from tensors": {
            "Q Kᵀ": torch.zeros(3, 5, 10, 10).numel() * 8,
            "weights · V": torch.tensor(12_000),
            "scores": torch.zeros(3, 5, 10, 10).numel(),
            "bytes of the cache": torch.zeros(2, 6, 3, 5, 10, 8).nbytes,
        },
    },
    "performance_reasons": {
        "computed": REASONS
        | {
            "scores, T doubles: times": 2**2,
            "SDPA without a mask saves": "Memory",
        },
    },
}


WRONG = {
    "next_logits": {
        "of the course": (0, language_model.next_logits),
    },
    "sdpa_attention": SDPA_WRONG,
    "cached_attention_step": STEP_WRONG,
    **QUIZZES_WRONG,
}
