"""Shared by lesson 14's programs with attention: inputs, an oracle, a property."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from whywrong import Case, Observation, near, true_of
from whywrong.probing import Expected

PARTS = ("query", "key", "value")


def with_another_last_token(case: Case) -> Case:
    """`case`, with text 1 equal to text 0 except for its last token."""
    for part in PARTS:
        x = case[part]
        x[1, ..., :-1, :] = x[0, ..., :-1, :]
    return case


def oracle_by_heads(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    heads = zip(*(x.chunk(num_heads, dim=-1) for x in (query, key, value)), strict=True)
    return torch.cat([F.scaled_dot_product_attention(*h, is_causal=True) for h in heads], dim=-1)


@true_of(
    "With a different last token, the rows before it stay unchanged",
    credit=True,
    role="typical",
    breaks="With a different last token, rows before it change: the future leaks into them",
)
def past(case: Case, observed: Observation, expected: Expected) -> bool:
    out = observed.tensors["out"][..., :-1, :]
    return near(out[1], out[0])


past_without_credit = replace(past, credit=False)
