"""Right and wrong answers for lesson 14."""

import math

import torch
import torch.nn.functional as F

from course_utils.experiments import patients

INF = math.inf


SDPA = F.scaled_dot_product_attention


def future(T, device=None):
    return torch.ones(T, T, dtype=torch.bool, device=device).triu(1)


def scored(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def padded_by_sdpa(query, key, value, pad_mask):
    seen = ~(future(query.shape[-2], query.device) | pad_mask[:, None, None])
    return SDPA(query, key, value, attn_mask=seen)


def padded_text_by_text(query, key, value, pad_mask):
    out = []
    for q, k, v, pad in zip(query, key, value, pad_mask, strict=True):
        hidden = future(q.shape[-2], q.device) | pad
        blind = hidden.all(-1)[:, None]
        scores = scored(q, k).masked_fill(hidden, -INF)
        weights = torch.where(blind, 0.0, torch.where(blind, 0.0, scores).softmax(-1))
        out.append(weights.to(v) @ v)
    return torch.stack(out)


def padded_by_exp(query, key, value, pad_mask):
    seen = ~(future(query.shape[-2], query.device) | pad_mask[:, None, None])
    scores = scored(query, key)
    top = scores.masked_fill(~seen, -INF).amax(-1, keepdim=True)
    top = top.masked_fill(top == -INF, 0.0).detach()
    exps = torch.where(seen, (scores - top).masked_fill(~seen, 0.0).exp(), 0.0)
    sums = exps.sum(-1, keepdim=True)
    return exps / sums.masked_fill(sums == 0, 1.0) @ value


def padded(columns=lambda m: m[:, None, None, :], fill=-INF, blind=True, cleared=False):
    """`patient_a` with another line or two."""

    def answer(query, key, value, pad_mask):
        hidden = future(query.shape[-2], query.device) | columns(pad_mask)
        empty = hidden.all(-1, keepdim=True)
        scores = scored(query, key).masked_fill(hidden, fill).masked_fill(empty, 0.0)
        weights = scores.softmax(-1)
        out = (weights.masked_fill(empty, 0.0) if blind else weights) @ value
        return out * ~pad_mask[:, None, :, None] if cleared else out

    return answer


PADDED_RIGHT = {
    "sdpa": padded_by_sdpa,
    "text by text": padded_text_by_text,
    "by exp": padded_by_exp,
    "minus 1e9": padded(fill=-1e9),
}


PADDED_WRONG = {
    "as found": (0, patients.patient_a),
}


def half_by_sdpa(query, key, value):
    wide = torch.promote_types(query.dtype, torch.float32)
    return SDPA(query.to(wide), key.to(wide), value.to(wide), is_causal=True).to(query.dtype)


def half_both_sides(query, key, value):
    """The root of the root on either side."""
    T, D = query.shape[-2:]
    scores = (query / D**0.25) @ (key / D**0.25).mT
    return scores.masked_fill(future(T, query.device), -INF).softmax(-1) @ value


def half_scaled_key(query, key, value):
    key = key * key.shape[-1] ** -0.5
    scores = torch.einsum("bhtd,bhsd->bhts", query, key)
    scores = scores.masked_fill(future(query.shape[-2], query.device), -INF)
    exps = (scores - scores.amax(-1, keepdim=True)).exp()
    return exps / exps.sum(-1, keepdim=True) @ value


def half_in_double(query, key, value):
    q, k, v = (x.double() for x in (query, key, value))
    weights = scored(q, k).masked_fill(future(q.shape[-2], q.device), -INF).softmax(-1)
    return (weights @ v).to(query.dtype)


HALF_RIGHT = {
    "sdpa": half_by_sdpa,
    "both sides": half_both_sides,
    "key": half_scaled_key,
    "double": half_in_double,
}


HALF_WRONG = {
    "as found": (0, patients.patient_b),
}


def masked_by_sdpa(query, key, value):
    return SDPA(query, key, value, is_causal=True)


def masked_row_by_row(query, key, value):
    rows = []
    for t in range(query.shape[-2]):
        scores = scored(query[..., t : t + 1, :], key[..., : t + 1, :])
        rows.append(scores.softmax(-1) @ value[..., : t + 1, :])
    return torch.cat(rows, dim=-2)


def masked_by_adding(query, key, value):
    T = query.shape[-2]
    bias = torch.full((T, T), -INF, dtype=query.dtype, device=query.device).triu(1)
    return torch.softmax(scored(query, key) + bias, dim=-1) @ value


def masked(fill=None, weigh=lambda w, hidden: w):
    def answer(query, key, value):
        hidden = future(query.shape[-2], query.device)
        scores = scored(query, key)
        if fill is not None:
            scores = scores.masked_fill(hidden, fill)
        return weigh(scores.softmax(-1), hidden) @ value

    return answer


def cleared(weights, hidden):
    return weights.masked_fill(hidden, 0.0)


MASKED_RIGHT = {
    "sdpa": masked_by_sdpa,
    "row by row": masked_row_by_row,
    "added": masked_by_adding,
    "minus 1e4": masked(fill=-1e4),
    "and cleared": masked(fill=-INF, weigh=cleared),
}


MASKED_WRONG = {
    "as found": (0, patients.patient_e),
}


def heads_by_chunk(query, key, value, num_heads):
    if query.shape[-1] % num_heads != 0:
        raise ValueError(f"width {query.shape[-1]} is no multiple of {num_heads}")
    parts = zip(*(x.chunk(num_heads, -1) for x in (query, key, value)), strict=True)
    return torch.cat([masked_by_sdpa(*part) for part in parts], dim=-1)


def heads_by_unflatten(query, key, value, num_heads):
    C = query.shape[-1]
    if math.gcd(C, num_heads) != num_heads:
        raise ValueError(f"{C} and {num_heads}")
    cut = [x.unflatten(-1, (num_heads, -1)).movedim(-2, 1) for x in (query, key, value)]
    return masked_by_adding(*cut).movedim(1, -2).flatten(-2)


def heads_by_einsum(query, key, value, num_heads):
    B, T, C = query.shape
    D, rest = divmod(C, num_heads)
    if rest:
        raise ValueError(f"{rest} of {C} channels are left over by {num_heads} heads")
    q, k, v = (x.reshape(B, T, num_heads, D) for x in (query, key, value))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / D**0.5
    weights = scores.masked_fill(future(T, query.device), -INF).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v).reshape(B, T, C)


def heads_in_the_batch(query, key, value, num_heads):
    """As many texts as texts times heads."""
    B, _, C = query.shape
    if C % num_heads:
        raise ValueError(f"{C}, {num_heads}")
    cut = [
        torch.cat([x[:, :, i : i + C // num_heads] for i in range(0, C, C // num_heads)])
        for x in (query, key, value)
    ]
    return torch.cat(masked_by_sdpa(*cut).split(B), dim=-1)


HEADS_RIGHT = {
    "by chunk": heads_by_chunk,
    "by unflatten": heads_by_unflatten,
    "by einsum": heads_by_einsum,
    "in the batch": heads_in_the_batch,
}


def heads(split, merge, refuse=True):
    def answer(query, key, value, num_heads):
        B, T, C = query.shape
        if refuse and C % num_heads:
            raise ValueError(f"{C}, {num_heads}")
        sizes = B, T, num_heads, C // num_heads
        out = masked_by_sdpa(*(split(x, *sizes) for x in (query, key, value)))
        return merge(out, *sizes)

    return answer


def cut(x, B, T, H, D):
    return x.reshape(B, T, H, D).transpose(1, 2)


def joined(x, B, T, H, D):
    return x.transpose(1, 2).reshape(B, T, H * D)


UNEVEN_WRONG = {
    "as found": (0, patients.patient_c),
    "refused, and unscaled": (0, lambda q, k, v, n: heads_by_einsum(q * 2, k, v, n)),
}


VIEW_RIGHT = HEADS_RIGHT | {"no refusal": heads(cut, joined, refuse=False)}


VIEW_WRONG = {
    "as found": (0, patients.patient_g),
    "one head": (0, lambda q, k, v, n: masked_by_sdpa(q, k, v)),
    "scaled by the whole width": (0, lambda q, k, v, n: heads_by_einsum(q / n**0.5, k, v, n)),
}


QUIZZES = {
    "cause_d": {"targets": "not shifted", "clearing": "missing", "clipping": "too late"},
    "recall_14": {
        "position after 7 cached tokens": 7,
        "another source changes": "K and V",
        "LayerNorm's mean runs over": "channels",
    },
    "noticed_a_to_d": {
        "patient A": "batch as alone",
        "patient B": "float16",
        "patient C": "mean of ones",
        "patient D": "let it write",
    },
    "noticed_e_to_h": {
        "E and not G": "mean of ones",
        "both E and G": "change the future",
        "patient F": "full length",
        "patient H": "count positions",
    },
    "clinic_reasons": {
        "a text changes with its batch": "batch as alone",
        "first tokens come out small": "mean of ones",
        "a good text, and a loss below the floor": "change the future",
        "one word for ever": "let it write",
        "patients with a lower training loss": 3,
        "patients that no instrument finds": 2,
        "weights after a step on nan_to_num(loss)": "NaN",
        "positions for 50 words after 10, kept": 10 + 49,
    },
}

ALMOST = {"recall_14": 0.25, "clinic_reasons": 0.75}
ALMOST |= dict.fromkeys(["cause_d", "noticed_a_to_d", "noticed_e_to_h"], 0.25)


def with_blanks(right):
    """In capitals, with blanks, and in another order."""
    return {k: f" {v.upper()} " if isinstance(v, str) else v for k, v in reversed(right.items())}


def not_right(right, almost):
    """With the points of an answer that is right in all entries but one."""
    first = next(iter(right))
    return {
        "a list": (0, list(right.values())),
        "nothing known": (0, dict.fromkeys(right, "I don't know")),
        "a number": (almost, right | {first: 70}),
        "first left out": (almost, {k: v for k, v in right.items() if k != first}),
    }


RIGHT = {
    "patient_a": PADDED_RIGHT,
    "patient_b": HALF_RIGHT,
    "patient_e": MASKED_RIGHT,
    "patient_c": HEADS_RIGHT,
    "patient_g": VIEW_RIGHT,
    **{id: {"with blanks": with_blanks(right)} for id, right in QUIZZES.items()},
}


WRONG = {
    "patient_a": PADDED_WRONG,
    "patient_b": HALF_WRONG,
    "patient_e": MASKED_WRONG,
    "patient_c": UNEVEN_WRONG,
    "patient_g": VIEW_WRONG,
    **{id: not_right(right, ALMOST.get(id, 0)) for id, right in QUIZZES.items()},
}
