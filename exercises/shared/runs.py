"""Lesson 15's runs: what a check measures with a reader's model, and an example for the tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.experiments.tiny_lm import counted_bigram_loss
from course_utils.language_model import TinyLM, held_out_loss, next_token_loss
from whywrong import set_seed

MODEL, SIZES, TRAINING, HELD_OUT = "model", "sizes", "training text", "held-out text"
COUNT, FIRST, TRAINED, LOSS, BIGRAM, OVERLAP = (
    "parameters",
    "first loss",
    "training loss",
    "held-out loss",
    "bigram loss",
    "overlap",
)
LEAST = 200  # tokens of either text
MOST = 40_000  # tokens of either text that a check reads
PIECE = 60  # tokens: no text repeats so many by chance
# In a language without blanks one character counts as a word.
WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W\d_]{2,}")
REASON = 4  # words; whether they are a reason is for a person to judge


def told_in_words(text: str) -> bool:
    return len(WORD.findall(text)) >= REASON


def sizes_fit(sizes: Any) -> bool | str:
    """Whether there is a model of these five sizes, or why not."""
    if len(sizes) != 5:
        return f"are {len(sizes)} numbers"
    V, C, H, *_ = sizes
    if min(sizes) < 1 or V < 2:
        return f"have {min(sizes):g}"
    return C % H == 0 or f"have {C:g} channels for {H:g} heads"


def can_be_made(sizes: Any) -> bool:
    whole = isinstance(sizes, list | tuple) and all(isinstance(s, int) for s in sizes)
    return whole and sizes_fit(sizes) is True


def fit(run: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the objects of a run, by entry."""
    wrong, model, sizes = {}, run.get(MODEL), run.get(SIZES)
    if isinstance(model, type):
        wrong[MODEL] = "this is the class; hand in the model that you trained"
    elif not isinstance(model, nn.Module):
        wrong[MODEL] = "a model is expected, the one that you trained"
    for name in (TRAINING, HELD_OUT):
        ids = run.get(name)
        if not isinstance(ids, Tensor) or ids.dim() != 1 or ids.is_floating_point():
            wrong[name] = "a text is expected, as a tensor of ids of shape (N,)"
        elif len(ids) < LEAST:
            wrong[name] = f"a text of {LEAST} tokens or more is expected"
    if wrong:
        return wrong
    if not can_be_made(sizes):
        return {}
    most = max(int(run[name].max()) for name in (TRAINING, HELD_OUT))
    if most >= sizes[0]:
        return {HELD_OUT: f"the texts contain the id {most}, but vocab_size is {sizes[0]}"}
    return {}


def windows(run: Mapping[str, Any], name: str) -> Tensor:
    """The beginning of a text side by side, `(N, context_length + 1)`, on the model's device."""
    length = run[SIZES][3] + 1
    device = next(run[MODEL].parameters()).device
    return run[name][:MOST].unfold(0, length, length).to(device)


def measured(run: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a run whose objects are fit."""
    model, sizes = run[MODEL], run[SIZES]
    training, held_out = run[TRAINING].cpu(), run[HELD_OUT].cpu()
    rows = windows(run, TRAINING)
    set_seed(1)
    untrained = type(model)(*sizes).to(rows.device)
    return {
        COUNT: sum(p.numel() for p in model.parameters()),
        FIRST: held_out_loss(untrained, rows[:32]),
        TRAINED: held_out_loss(model, rows),
        LOSS: held_out_loss(model, windows(run, HELD_OUT)),
        BIGRAM: counted_bigram_loss(training, held_out, sizes[0]),
        OVERLAP: overlap(training, held_out),
    }


def overlap(training: Tensor, held_out: Tensor) -> float:
    """The share of 20 pieces of the held-out text that also occur in the training text."""
    words = f",{','.join(map(str, training.tolist()))},"
    starts = torch.linspace(0, len(held_out) - PIECE, 20).long().tolist()
    pieces = [f",{','.join(map(str, held_out[s : s + PIECE].tolist()))}," for s in starts]
    return sum(piece in words for piece in pieces) / len(pieces)


# ---------------------------------------------------------------- an example, for the tests

EXAMPLE = (6, 16, 2, 8, 1)  # the sizes


@cache
def example_texts() -> tuple[Tensor, Tensor]:
    """Two texts in which most letters equal the one two places back, as no bigram can see."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(6, (6_000,), generator=generator)
    repeats = torch.rand(6_000, generator=generator) < 0.7
    for i in range(2, len(ids)):
        if repeats[i]:
            ids[i] = ids[i - 2]
    return ids[:5_000], ids[5_000:]


@cache
def example_model(kind: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "with three parameters more":
            more = deepcopy(example_model("trained"))
            more.temperature = nn.Parameter(torch.ones(3))
            return more
        model = TinyLM(*EXAMPLE)
        if kind == "untrained":
            return model
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        windows = example_texts()[0].unfold(0, 9, 3)
        for _ in range(120):
            batch = windows[torch.randint(len(windows), (32,))]
            loss = next_token_loss(model(batch[:, :-1]), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def made(entries: Mapping[str, Any]) -> dict[str, Any]:
    """An account of the catalogue, with a model and texts for the words that stand for them."""
    train, held_out = example_texts()
    texts = {"a text": train, "another text": held_out, "part of it": train[:900]}
    answer = {k: texts.get(v, v) if isinstance(v, str) else v for k, v in entries.items()}
    if isinstance(answer.get(MODEL), str):
        answer[MODEL] = example_model(answer[MODEL])
    return answer
