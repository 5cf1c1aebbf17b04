"""Lesson 05: the stages at which a NaN occurs if a row of the mask hides everything."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from ..attention import SelfAttention, attention_scores, causal_and_padding
from .training import seeded

Weigh = Callable[[Tensor, Tensor], Tensor]
STAGES = ("weights", "loss", "on the way back", "query.grad", "value.grad")


def hunt(weigh: Weigh, x: Tensor, pad_mask: Tensor) -> list[str]:
    """The stages of one small training step that contain a NaN, in the order of `STAGES`.

    The attention weights are `weigh(scores, hidden)`, with the future and the padding hidden; the
    loss is computed from the words alone.

    Args:
        x: tokens `(B, T, C)`.
        pad_mask: a bool mask `(B, T)`, `True` at padding.
    """
    head, weights, loss = _step(weigh, x, pad_mask)
    loss.backward()
    seen = {"weights": weights, "loss": loss}
    seen |= {f"{name}.grad": getattr(head, name).weight.grad for name in ("query", "value")}
    found = {name for name, tensor in seen.items() if bool(tensor.isnan().any())}
    if nan_on_the_way_back(_step(weigh, x, pad_mask)[2]):
        found.add("on the way back")
    return [stage for stage in STAGES if stage in found]


def weights(weigh: Weigh, x: Tensor, pad_mask: Tensor) -> Tensor:
    """The attention weights of this training step, `(B, T, T)`."""
    return _step(weigh, x, pad_mask)[1].detach()


def _step(weigh: Weigh, x: Tensor, pad_mask: Tensor) -> tuple[SelfAttention, Tensor, Tensor]:
    with seeded():
        head = SelfAttention(x.shape[-1], x.shape[-1])  # only its query, key and value are used
    head = head.to(x.device)
    scores = attention_scores(head.query(x), head.key(x))  # (B, T, T)
    made = weigh(scores, causal_and_padding(pad_mask))
    context = made @ head.value(x)  # (B, T, T) @ (B, T, D) -> (B, T, D)
    return head, made, context[~pad_mask].square().mean()  # words only


def nan_on_the_way_back(loss: Tensor) -> bool:
    """Return whether any operation's gradient contains a NaN, even if the NaN reaches no layer.

    PyTorch's anomaly detection checks each operation of the backward pass and stops at the first
    whose gradient contains a NaN.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            try:
                loss.backward()
            except RuntimeError as error:
                if "nan values" not in str(error):
                    raise
                return True
    return False
