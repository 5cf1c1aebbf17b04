"""Right and wrong answers for lesson 14: the programs that embed, train and write."""

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model
from course_utils.experiments import patients


def placed_by_arange(ids, pad_mask, token, position):
    T, N = ids.shape[1], position.shape[0]
    if N < T:
        raise ValueError(f"T = {T} > N = {N}")
    first = pad_mask.sum(dim=1, keepdim=True)
    places = (torch.arange(T, device=ids.device) - first).clamp_min(0)
    return F.embedding(ids, token) + F.embedding(places, position)


def placed_text_by_text(ids, pad_mask, token, position):
    rows = []
    for text, pad in zip(ids, pad_mask, strict=True):
        front = int(pad.sum())
        stands = position[: len(text) - front]
        rows.append(token[text] + F.pad(stands, (0, 0, front, 0)))
    return torch.stack(rows)


def placed_from_the_end(ids, pad_mask, token, position):
    """Padding is at -1: the last row, which nobody looks at."""
    return token[ids] + position[(~pad_mask).cumsum(1) - 1]


def placed_before(ids, pad_mask, token, position):
    """How many real tokens come before."""
    real = (~pad_mask).int()
    return token[ids] + position[real.cumsum(1) - real]


PLACED_RIGHT = {
    "arange": placed_by_arange,
    "text by text": placed_text_by_text,
    "last row for padding": placed_from_the_end,
    "tokens in front": placed_before,
}


PLACED_WRONG = {
    "as found": (0, patients.patient_f),
}


def next_token(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.mT, ids[:, 1:])


def step(loss=next_token, clear=True, when="between", clip=None, mode=True, back=float):
    """A step in its parts; `when` says when gradients are clipped."""
    clip = clip or nn.utils.clip_grad_norm_

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


STEP_RIGHT = {
    "log softmax": step_by_log_softmax,
    "by hand": step_clipped_by_hand,
    "all but the last": step(),
    "looked at before": step_looked_at_before,
}


STEP_WRONG = {
    "as found": (0, patients.patient_d),
    "summed": (
        0.25,
        step(lambda m, i: F.cross_entropy(m(i[:, :-1]).mT, i[:, 1:], reduction="sum")),
    ),
    "evaluating": (0.25, step(mode=False)),
    "a tensor": (0.75, step(back=lambda loss: loss)),
    "of the course": (0, language_model.training_step),
}


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


WORDS_RIGHT = {
    "by list": words_by_list,
    "token by token": words_token_by_token,
    "recursive": words_without_graph,
}


WORDS_WRONG = {
    "as found": (0, patients.patient_h),
    "last one too": (0.5625, words_last_pushed_too),
}


RIGHT = {
    "patient_f": PLACED_RIGHT,
    "patient_d": STEP_RIGHT,
    "patient_h": WORDS_RIGHT,
}


WRONG = {
    "patient_f": PLACED_WRONG,
    "patient_d": STEP_WRONG,
    "patient_h": WORDS_WRONG,
}
