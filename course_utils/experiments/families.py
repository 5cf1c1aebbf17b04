"""Lesson 12: the masks of three families of transformers."""

from __future__ import annotations

import torch
from torch import Tensor

from ..attention import causal_mask


def masks(S: int, T: int) -> Tensor:
    """The mask of each family, `(3, S + T, S + T)`. An encoder hides nothing; a decoder hides the
    future. In an encoder–decoder, the first S tokens are the source; the mask hides the target from
    the source, and later target tokens from earlier ones."""
    both = causal_mask(S + T)
    both[:S, :S] = False
    return torch.stack([torch.zeros_like(both), causal_mask(S + T), both])
