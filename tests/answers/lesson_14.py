"""Right and wrong answers for lesson 14."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model
from course_utils.exercises import lesson_14 as quizzes
from course_utils.experiments import patients

INF = math.inf


def future(T, device=None):
    return torch.ones(T, T, dtype=torch.bool, device=device).triu(1)


def scored(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


# ---------------------------------------------------------------- patient A


def padded_by_sdpa(query, key, value, pad_mask):
    seen = ~(future(query.shape[-2], query.device) | pad_mask[:, None, None])
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


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


def padded(columns=None, **steps):
    """`patient_a` with another line or two."""

    def answer(query, key, value, pad_mask):
        v, scores = value, scored(query, key)
        hidden = future(query.shape[-2], query.device) | (columns or right_columns)(pad_mask)
        v = steps.get("value", lambda v, m: v)(v, pad_mask)
        blind = hidden.all(-1, keepdim=True)
        fill = steps.get("fill", -INF)
        scores = scores.masked_fill(hidden, fill).masked_fill(blind, 0.0)
        weights = scores.softmax(-1)
        if steps.get("blind", True):
            weights = weights.masked_fill(blind, 0.0)
        out = weights @ v
        return steps.get("out", lambda out, m: out)(out, pad_mask)

    return answer


def right_columns(pad_mask):
    return pad_mask[:, None, None, :]


PADDED_WRONG = {
    "as found": patients.patient_a,
    "as found, nan_to_num": lambda *a: patients.patient_a(*a).nan_to_num(),
    "minus 1e9 in place of infinity": padded(fill=-1e9, blind=False),
    "zeros in place of infinity": padded(fill=0.0),
    "blind rows see everything": padded(blind=False),
    "values cleared, rows hidden": padded(
        lambda m: m[:, None, :, None], value=lambda v, m: v * ~m[:, None, :, None]
    ),
    "only the last place of each text": padded(lambda m: m[:, None, None, :].roll(1, -1)),
    "any text's padding": padded(lambda m: m.any(0)[None, None, None]),
    "padding of all texts": padded(lambda m: m.all(0)[None, None, None]),
    "a mean of the rows at padding": padded(
        out=lambda out, m: torch.where(m[:, None, :, None], out.mean(-2, keepdim=True), out)
    ),
    "detached": lambda *a: padded()(*a).detach(),
    "no mask": lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "rows cleared": padded(out=lambda out, m: out * ~m[:, None, :, None]),
    "columns inverted and rows hidden": padded(lambda m: ~m[:, None, None] | m[:, None, :, None]),
    "output rescaled": padded(
        lambda m: m[:, None, :, None], out=lambda out, m: out / (~m).float().mean()
    ),
    "padding as the future of its text": padded(lambda m: m[:, None, None].flip(-1)),
}


# ---------------------------------------------------------------- patient B


def half_by_sdpa(query, key, value):
    out = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), is_causal=True)
    return (
        out.to(query.dtype)
        if query.dtype != torch.float64
        else F.scaled_dot_product_attention(query, key, value, is_causal=True)
    )


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


def half(before=lambda x: x, after=lambda s, D: s, weigh=lambda w: w):
    def answer(query, key, value):
        T, D = query.shape[-2:]
        scores = after(before(query) @ key.mT, D)
        scores = scores.masked_fill(future(T, query.device), -INF)
        return weigh(torch.softmax(scores, -1)) @ value

    return answer


def half_only_in_half(query, key, value):
    if query.dtype == torch.float16:
        query = query / math.sqrt(query.shape[-1])
    return patients.patient_b(query, key, value)


HALF_WRONG = {
    "as found": patients.patient_b,
    "as found, nan_to_num": lambda *a: patients.patient_b(*a).nan_to_num(),
    "scaled in float16 only": half_only_in_half,
    "scaled after": half(after=lambda s, D: s / math.sqrt(D)),
    "scaled after, nan_to_num of the weights": half(
        after=lambda s, D: s / math.sqrt(D), weigh=torch.nan_to_num
    ),
    "float32 by autocast's hand, unscaled": lambda q, k, v: patients.patient_b(
        q.float(), k.float(), v.float()
    ).to(v.dtype),
    "divided by D": half(before=lambda q: q / q.shape[-1]),
    "scaled twice": half(
        before=lambda q: q / q.shape[-1] ** 0.5, after=lambda s, D: s / math.sqrt(D)
    ),
    "divided by 8": half(before=lambda q: q / 8),
    "clamped": half(after=lambda s, D: s.clamp(-30, 30)),
    "tanh cap": half(after=lambda s, D: 50 * torch.tanh(s / 50)),
    "normed scores": half(after=lambda s, D: s / s.float().std().to(s)),
    "scaled by tokens": half(before=lambda q: q / math.sqrt(q.shape[-2])),
    "scaled, no mask": lambda q, k, v: (q / math.sqrt(q.shape[-1]) @ k.mT).softmax(-1) @ v,
    "scaled, float32 comes back": lambda q, k, v: half(before=lambda q: q / q.shape[-1] ** 0.5)(
        q.float(), k.float(), v.float()
    ),
    "scaled in place": lambda q, k, v: patients.patient_b(q.div_(q.shape[-1] ** 0.5), k, v),
    "values scaled": lambda q, k, v: patients.patient_b(q, k, v / math.sqrt(v.shape[-1])),
}


# ---------------------------------------------------------------- patient E


def masked_by_sdpa(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


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


def masked(fill=None, weigh=lambda w, hidden: w, hide=None):
    def answer(query, key, value):
        hidden = future(query.shape[-2], query.device)
        scores = scored(query, key)
        if hide is not None:
            scores = hide(scores, hidden)
        elif fill is not None:
            scores = scores.masked_fill(hidden, fill)
        return weigh(scores.softmax(-1), hidden) @ value

    return answer


def cleared(weights, hidden):
    return weights.masked_fill(hidden, 0.0)


MASKED_WRONG = {
    "as found": patients.patient_e,
    "as found, other names": lambda q, k, v: (
        cleared(scored(q, k).softmax(-1), future(q.shape[-2], q.device)) @ v
    ),
    "renormalised with a floor": masked(
        weigh=lambda w, h: cleared(w, h) / cleared(w, h).sum(-1, keepdim=True).clamp(min=1e-9)
    ),
    "times T": masked(weigh=lambda w, h: cleared(w, h) * len(h)),
    "softmax again": masked(weigh=lambda w, h: cleared(w, h).softmax(-1)),
    "zeros before, zeros after": masked(fill=0.0, weigh=cleared),
    "minus 1e4": masked(fill=-1e4),
    "minus 100, then cleared": masked(fill=-100.0, weigh=cleared),
    "smallest float": masked(fill=0.0, weigh=lambda w, h: w),
    "past": masked(hide=lambda s, h: s.masked_fill(h.mT, -INF)),
    "own place too": masked(
        fill=-INF, weigh=lambda w, h: w - torch.diag_embed(w.diagonal(0, -2, -1)) / 2
    ),
    "rows normed to length 1": masked(weigh=lambda w, h: F.normalize(cleared(w, h), dim=-1)),
    "scores cut below the diagonal": masked(hide=lambda s, h: s.tril()),
    "unscaled": lambda q, k, v: masked(fill=-INF)(q * q.shape[-1] ** 0.5, k, v),
    "over queries": lambda q, k, v: (
        scored(q, k).masked_fill(future(q.shape[-2]), -INF).softmax(-2) @ v
    ),
    "means": lambda q, k, v: masked(fill=-INF)(q * 0, k, v),
    "nan_to_num": masked(fill=INF, weigh=lambda w, h: w.nan_to_num()),
}


# ---------------------------------------------------------------- patients C and G


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


def heads_written_in_place(query, key, value, num_heads):
    if query.shape[-1] % num_heads:
        raise ValueError(f"{query.shape[-1]} channels and {num_heads} heads")
    return patients.patient_c(query, key, value, num_heads)


HEADS_RIGHT = {
    "by chunk": heads_by_chunk,
    "by unflatten": heads_by_unflatten,
    "by einsum": heads_by_einsum,
    "in the batch": heads_in_the_batch,
    "in place": heads_written_in_place,
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


def refused_otherwise(error):
    def answer(query, key, value, num_heads):
        if query.shape[-1] % num_heads:
            raise error
        return heads_by_einsum(query, key, value, num_heads)

    return answer


def refuses_too_much(query, key, value, num_heads):
    C = query.shape[-1]
    if C % num_heads or C // num_heads < 2:
        raise ValueError(f"{C}, {num_heads}")
    return heads_by_einsum(query, key, value, num_heads)


def refuses_some(query, key, value, num_heads):
    C = query.shape[-1]
    if C % 2 and C % num_heads:
        raise ValueError(f"{C}, {num_heads}")
    return patients.patient_c(query, key, value, num_heads)


def refuses_more_heads_only(query, key, value, num_heads):
    C = query.shape[-1]
    if num_heads > C:
        raise ValueError(f"{C}, {num_heads}")
    return patients.patient_c(query, key, value, num_heads)


def refused_in_words(query, key, value, num_heads):
    if query.shape[-1] % num_heads:
        return "ValueError: the heads don't fit"
    return heads_by_einsum(query, key, value, num_heads)


def one_number_in_the_message(query, key, value, num_heads):
    if query.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads don't fit")
    return heads_by_einsum(query, key, value, num_heads)


def rest_copied(query, key, value, num_heads):
    """What is left over is handed through."""
    C = query.shape[-1]
    used = C // num_heads * num_heads
    if not used:
        return value
    out = heads_by_einsum(*(x[..., :used] for x in (query, key, value)), num_heads)
    return torch.cat([out, value[..., used:]], dim=-1)


UNEVEN_WRONG = {
    "as found": patients.patient_c,
    "TypeError": refused_otherwise(TypeError("10 channels, 4 heads")),
    "RuntimeError": refused_otherwise(RuntimeError("10 channels, 4 heads")),
    "refuses heads of one channel": refuses_too_much,
    "refuses odd widths only": refuses_some,
    "refuses more heads than channels only": refuses_more_heads_only,
    "says it": refused_in_words,
    "one number": one_number_in_the_message,
    "rest handed through": rest_copied,
    "None where it doesn't fit": lambda q, k, v, n: (
        None if q.shape[-1] % n else heads_by_einsum(q, k, v, n)
    ),
    "zeros where it doesn't fit": lambda q, k, v, n: (
        torch.zeros_like(q) if q.shape[-1] % n else heads_by_einsum(q, k, v, n)
    ),
    "one head where it doesn't fit": lambda q, k, v, n: heads_by_einsum(
        q, k, v, 1 if q.shape[-1] % n else n
    ),
    "rounded up": lambda q, k, v, n: torch.cat(
        [masked_by_sdpa(*part) for part in zip(*(x.chunk(n, -1) for x in (q, k, v)), strict=True)],
        -1,
    ),
    "by view": heads(lambda x, B, T, H, D: x.view(B, T, H, D).transpose(1, 2), joined, False),
    "viewed at once": heads(lambda x, B, T, H, D: x.reshape(B, H, T, D), joined),
    "refused, and unscaled": lambda q, k, v, n: heads_by_einsum(q * 2, k, v, n),
}

VIEW_WRONG = {
    "as found": patients.patient_g,
    "no refusal": heads(cut, joined, refuse=False),
    "both in one": heads(
        lambda x, B, T, H, D: x.reshape(B, H, T, D), lambda x, B, T, H, D: x.reshape(B, T, H * D)
    ),
    "merge in one": heads(cut, lambda x, B, T, H, D: x.reshape(B, T, H * D)),
    "transposed first": heads(
        lambda x, B, T, H, D: x.transpose(1, 2).reshape(B, H, D, T).transpose(2, 3).roll(1, 1),
        joined,
    ),
    "every H-th channel": heads(
        lambda x, B, T, H, D: x.reshape(B, T, D, H).permute(0, 3, 1, 2), joined
    ),
    "every H-th channel, both ways": heads(
        lambda x, B, T, H, D: x.reshape(B, T, D, H).permute(0, 3, 1, 2),
        lambda x, B, T, H, D: x.permute(0, 2, 3, 1).reshape(B, T, H * D),
    ),
    "heads reversed": heads(cut, lambda x, *sizes: joined(x.flip(1), *sizes)),
    "permuted once too often": heads(
        lambda x, B, T, H, D: x.reshape(B, T, H, D).permute(0, 2, 3, 1).reshape(B, H, T, D), joined
    ),
    "one head": lambda q, k, v, n: masked_by_sdpa(q, k, v),
    "heads across the batch": heads(
        lambda x, B, T, H, D: x.reshape(B, T, H, D).permute(2, 1, 0, 3).reshape(B, H, T, D),
        joined,
    ),
    "scaled by the whole width": lambda q, k, v, n: heads_by_einsum(q / n**0.5, k, v, n),
    "causal twice": lambda q, k, v, n: heads_by_einsum(q, k, v, n).tril(),
    "future shut by force": lambda q, k, v, n: patients.patient_g(q, k, v, n).cummax(1).values,
    "heads seen alike": heads(
        lambda x, *sizes: cut(x, *sizes)[:, :1].expand(-1, sizes[2], -1, -1), joined
    ),
    "not joined": heads(cut, lambda x, *sizes: x),
    "refused as TypeError": refused_otherwise(TypeError("5 channels, 7 heads")),
}


# ---------------------------------------------------------------- patient F


def placed_by_arange(ids, pad_mask, token, position):
    T, N = ids.shape[1], position.shape[0]
    if N < T:
        raise ValueError(f"T = {T} > N = {N}")
    first = pad_mask.sum(dim=1, keepdim=True)
    places = (torch.arange(T, device=ids.device) - first).clamp_min(0)
    return F.embedding(ids, token) + F.embedding(places, position)


def placed_text_by_text(ids, pad_mask, token, position):
    if ids.shape[1] > len(position):
        raise ValueError(f"{ids.shape[1]} {len(position)}")
    rows = []
    for text, pad in zip(ids, pad_mask, strict=True):
        front = int(pad.sum())
        stands = position[: len(text) - front]
        rows.append(token[text] + F.pad(stands, (0, 0, front, 0)))
    return torch.stack(rows)


def placed_from_the_end(ids, pad_mask, token, position):
    """Places of padding are -1: the last row, which nobody looks at."""
    if ids.shape[1] > len(position):
        raise ValueError(f"{ids.shape[1]} {len(position)}")
    return token[ids] + position[(~pad_mask).cumsum(1) - 1]


def placed_before(ids, pad_mask, token, position):
    """How many real tokens stand in front."""
    if ids.shape[1] > len(position):
        raise ValueError(f"{ids.shape[1]} {len(position)}")
    real = (~pad_mask).int()
    return token[ids] + position[real.cumsum(1) - real]


def placed(places, refuse=lambda T, N: T > N, join=lambda w, r, m: w + r):
    def answer(ids, pad_mask, token, position):
        T, N = ids.shape[1], len(position)
        if refuse(T, N):
            raise ValueError(f"{T} tokens, {N} places")
        found = places((~pad_mask).long().cumsum(1).masked_fill(pad_mask, 0), pad_mask, N)
        return join(token[ids], position[found], pad_mask)

    return answer


PLACED_WRONG = {
    "as found": patients.patient_f,
    "clamped": placed(lambda p, m, N: p.clamp(max=N - 1)),
    "modulo": placed(lambda p, m, N: p % N),
    "minus one where it overflows": placed(lambda p, m, N: p - (p == N).long()),
    "minus one for full texts": placed(lambda p, m, N: p - (p.amax(1, keepdim=True) == N).long()),
    "minus two": placed(lambda p, m, N: (p - 2).clamp(min=0)),
    "one token fewer": placed(lambda p, m, N: p.clamp(max=N - 1), lambda T, N: T >= N),
    "zeros for everyone": placed(lambda p, m, N: p * 0),
    "padding counts": placed(lambda p, m, N: torch.arange(p.shape[1]).expand_as(p)),
    "from the end": placed(lambda p, m, N: (p.amax(1, keepdim=True) - p).clamp(max=N - 1)),
    "negative": placed(lambda p, m, N: -p),
    "error caught": placed(lambda p, m, N: (p - 1).clamp(min=0), lambda T, N: False),
    "multiplied": placed(lambda p, m, N: (p - 1).clamp(min=0), join=lambda w, r, m: w * r),
    "words only": placed(lambda p, m, N: (p - 1).clamp(min=0), join=lambda w, r, m: w),
    "first text for all": placed(lambda p, m, N: (p[:1] - 1).clamp(min=0).expand_as(p)),
    "scaled": placed(lambda p, m, N: (p - 1).clamp(min=0), join=lambda w, r, m: w + r / 2),
    "refuses a full text": placed(lambda p, m, N: (p - 1).clamp(min=0), lambda T, N: T >= N),
}


# ---------------------------------------------------------------- patient D


def step(
    loss=None, clear=True, when="between", clip=nn.utils.clip_grad_norm_, mode=True, back=float
):
    """A step in its parts; `when` says when gradients are clipped."""
    loss = loss or next_token

    def answer(model, ids, optimizer, max_norm=1.0):
        if mode is not None:
            model.train(mode)
        found = loss(model, ids)
        if clear is True:
            optimizer.zero_grad()
        if when == "before":
            clip(model.parameters(), max_norm)
        found.backward()
        if when == "between":
            clip(model.parameters(), max_norm)
        optimizer.step()
        if when == "after":
            clip(model.parameters(), max_norm)
        if clear == "after":
            optimizer.zero_grad()
        return back(found)

    return answer


def next_token(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.mT, ids[:, 1:])


def same_token(model, ids):
    return F.cross_entropy(model(ids).mT, ids)


def step_by_log_softmax(model, ids, optimizer, max_norm=1.0):
    optimizer.zero_grad(set_to_none=False)
    logs = model.train()(ids).log_softmax(-1)[:, :-1]
    loss = -logs.gather(-1, ids[:, 1:, None]).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


def step_clipped_by_hand(model, ids, optimizer, max_norm=1.0):
    model.train()
    for p in model.parameters():
        p.grad = None
    loss = next_token(model, ids)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    length = torch.sqrt(sum((g**2).sum() for g in grads))
    if length > max_norm:
        for g in grads:
            g.mul_(max_norm / (length + 1e-6))
    optimizer.step()
    return loss.item()


def step_looked_at_before(model, ids, optimizer, max_norm=1.0):
    """A look in evaluation mode is recorded, and nothing is learned from it."""
    next_token(model.eval(), ids)
    return step()(model, ids, optimizer, max_norm)


def step_looked_at_afterwards(model, ids, optimizer, max_norm=1.0):
    """The loss after the step, from a recorded call in evaluation mode."""
    step()(model, ids, optimizer, max_norm)
    loss = next_token(model.eval(), ids)
    model.train()
    return loss.item()


def smooth(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], label_smoothing=0.1)


STEP_WRONG = {
    "as found": patients.patient_d,
    "as found, the loss without NaN": lambda m, i, o, n=1.0: patients.patient_d(m, i, o, n),
    "shifted only": step(clear=False, when="after"),
    "cleared only": step(same_token, when="after"),
    "clipped only": step(same_token, clear=False),
    "shifted and cleared": step(when="after"),
    "shifted and clipped": step(clear=False),
    "cleared and clipped": step(same_token),
    "cleared afterwards": step(clear="after"),
    "clipped before": step(when="before"),
    "by value": step(clip=nn.utils.clip_grad_value_),
    "shifted back": step(lambda m, i: F.cross_entropy(m(i)[:, 1:].mT, i[:, :-1])),
    "two ahead": step(
        lambda m, i: (
            F.cross_entropy(m(i)[:, :-2].mT, i[:, 2:]) if i.shape[1] > 2 else next_token(m, i)
        )
    ),
    "rolled": step(lambda m, i: F.cross_entropy(m(i).mT, i.roll(-1, 1))),
    "summed": step(lambda m, i: F.cross_entropy(m(i[:, :-1]).mT, i[:, 1:], reduction="sum")),
    "smoothed": step(smooth),
    "evaluating": step(mode=False),
    "mode as it is": step(mode=None),
    "a tensor": step(back=lambda loss: loss),
    "nothing back": step(back=lambda loss: None),
    "perplexity": step(back=lambda loss: loss.exp().item()),
    "patched with nan_to_num": step(lambda m, i: same_token(m, i).nan_to_num()),
    "of the course": language_model.training_step,
    "looked at afterwards": step_looked_at_afterwards,
}


# ---------------------------------------------------------------- patient H


def quietly(function):
    def run(model, ids, max_new_tokens):
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return function(model, ids, max_new_tokens)
        finally:
            model.train(training)

    return run


@quietly
def words_by_list(model, ids, max_new_tokens):
    text, cache, new = [ids], None, ids
    while sum(part.shape[1] for part in text) < ids.shape[1] + max_new_tokens:
        logits, cache = model(new, cache)
        new = logits[:, -1:].argmax(-1)
        text.append(new)
    return torch.cat(text, dim=1)


@quietly
def words_token_by_token(model, ids, max_new_tokens):
    """The beginning too goes in one by one."""
    cache, text = None, ids
    for t in range(ids.shape[1] + max_new_tokens - 1 if max_new_tokens else 0):
        logits, cache = model(text[:, t : t + 1], cache)
        if t >= ids.shape[1] - 1:
            text = torch.cat([text, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return text


@quietly
def words_last_pushed_too(model, ids, max_new_tokens):
    """The newest word is read at once, the last one for nothing."""
    if not max_new_tokens:
        return ids
    logits, cache = model(ids)
    for _ in range(max_new_tokens):
        new = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], dim=1)
        logits, cache = model(new, cache)
    return ids


def words_without_graph(model, ids, max_new_tokens):
    def go(new, cache, left):
        if not left:
            return []
        logits, cache = model(new, cache)
        new = logits[:, -1].argmax(-1)[:, None]
        return [new, *go(new, cache, left - 1)]

    was = model.training
    model.eval()
    with torch.inference_mode():
        text = torch.cat([ids, *go(ids, None, max_new_tokens)], dim=1)
    model.train(was)
    return text.clone()


def written(push, quiet=True, warm=False):
    """`push(ids, new, cache, round)` says what goes into the model."""

    def answer(model, ids, max_new_tokens):
        new, cache = ids, None
        for i in range(max_new_tokens):
            tokens, given = push(ids, new, cache, i)
            logits, cache = model(tokens, given)
            new = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, new], 1)
        return ids

    return quietly(answer) if quiet else answer


WORDS_WRONG = {
    "as found": patients.patient_h,
    "everything, no cache": written(lambda ids, new, cache, i: (ids, None)),
    "everything with the cache": written(lambda ids, new, cache, i: (ids, cache)),
    "newest without it": written(lambda ids, new, cache, i: (new, None)),
    "last eight": written(lambda ids, new, cache, i: (ids[:, -8:], None)),
    "anew every third word": written(
        lambda ids, new, cache, i: (ids, None) if i % 3 == 0 else (new, cache)
    ),
    "two at a time": written(lambda ids, new, cache, i: (ids[:, -2:], cache) if i else (ids, None)),
    "beginning forgotten": written(lambda ids, new, cache, i: (ids[:, -1:], cache)),
    "first cache dropped": written(lambda ids, new, cache, i: (new, None if i == 1 else cache)),
    "oldest word": written(lambda ids, new, cache, i: (ids[:, :1], cache) if i else (ids, None)),
    "noisy": written(lambda ids, new, cache, i: (new, cache), quiet=False),
    "everything twice": written(lambda ids, new, cache, i: (torch.cat([new, new], 1), cache)),
    "left in evaluation": lambda m, ids, n: words_by_list(m.eval(), ids, n),
    "only new": lambda m, ids, n: words_by_list(m, ids, n)[:, ids.shape[1] :],
    "one short": lambda m, ids, n: words_by_list(m, ids, max(n - 1, 0)),
    "first text": lambda m, ids, n: words_by_list(m, ids[:1], n).expand(len(ids), -1),
    "three words first, the slow way": lambda m, ids, n: (
        patients.patient_h(m, ids, min(n, 3)),
        words_by_list(m, ids, n),
    )[1],
}


# ---------------------------------------------------------------- quizzes

QUIZZES = [e for e in quizzes.EXERCISES if e.kind == "quiz"]


def _in_capitals(answers):
    return {k: v.upper() if isinstance(v, str) else v for k, v in answers.items()}


def _with_blanks(answers):
    return {k: f" {v} " if isinstance(v, str) else v for k, v in reversed(answers.items())}


def _wrong(exercise):
    right = exercise.reference
    first = next(iter(right))
    return {
        "a list": list(right.values()),
        "nothing known": dict.fromkeys(right, "I don't know"),
        "true": right | {first: True},
        "a number in words": right | {first: "seven"},
        "first left out": {k: v for k, v in right.items() if k != first},
    }


RIGHT = {
    "fix_padding_rows": {
        "sdpa": padded_by_sdpa,
        "text by text": padded_text_by_text,
        "by exp": padded_by_exp,
        "in steps": padded(),
    },
    "fix_missing_scale": {
        "sdpa": half_by_sdpa,
        "both sides": half_both_sides,
        "key": half_scaled_key,
        "double": half_in_double,
        "in steps": half(before=lambda q: q / math.sqrt(q.shape[-1])),
        "in float32": lambda q, k, v: half(before=lambda q: q / math.sqrt(q.shape[-1]))(
            q.float(), k.float(), v.float()
        ).to(v.dtype),
    },
    "fix_mask_after_softmax": {
        "sdpa": masked_by_sdpa,
        "row by row": masked_row_by_row,
        "added": masked_by_adding,
        "in steps": masked(fill=-INF),
        "and cleared": masked(fill=-INF, weigh=cleared),
    },
    "fix_uneven_heads": HEADS_RIGHT,
    "fix_view_without_transpose": HEADS_RIGHT | {"in steps": heads(cut, joined)},
    "fix_position_overflow": {
        "arange": placed_by_arange,
        "text by text": placed_text_by_text,
        "last row for padding": placed_from_the_end,
        "tokens in front": placed_before,
        "in steps": placed(lambda p, m, N: (p - 1).clamp(min=0)),
    },
    "fix_training_step": {
        "log softmax": step_by_log_softmax,
        "by hand": step_clipped_by_hand,
        "in steps": step(),
        "item": step(back=lambda loss: loss.item()),
        "mean of tokens": step(
            lambda m, i: F.cross_entropy(m(i)[:, :-1].flatten(0, 1), i[:, 1:].flatten())
        ),
        "looked at before": step_looked_at_before,
    },
    "fix_slow_generation": {
        "by list": words_by_list,
        "token by token": words_token_by_token,
        "last one too": words_last_pushed_too,
        "recursive": words_without_graph,
        "in steps": written(lambda ids, new, cache, i: (new, cache)),
    },
    **{
        e.id: {"in capitals": _in_capitals(e.reference), "with blanks": _with_blanks(e.reference)}
        for e in QUIZZES
    },
}
WRONG = {
    "fix_padding_rows": PADDED_WRONG,
    "fix_missing_scale": HALF_WRONG,
    "fix_mask_after_softmax": MASKED_WRONG,
    "fix_uneven_heads": UNEVEN_WRONG,
    "fix_view_without_transpose": VIEW_WRONG,
    "fix_position_overflow": PLACED_WRONG,
    "fix_training_step": STEP_WRONG,
    "fix_slow_generation": WORDS_WRONG,
    **{e.id: _wrong(e) for e in QUIZZES},
}
