"""Lesson 15: what the heads of the reader's own model attend to, and how much each contributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import causal_mask, masked_softmax
from ..language_model import TinyLM, attention_weights, held_out_loss, without_head

JOBS = (
    "itself",
    "one before",
    "two before",
    "further back in the word",
    "the blank before the word",
    "the same before",
    "after the same",
)


def twin(model: nn.Module, *sizes: int) -> TinyLM:
    """A `TinyLM` of these sizes with the parameters of another model, found by name in the model's
    state dict or otherwise in its attributes.

    Raises:
        ValueError: a parameter is missing or has a different shape, or the models' logits differ.
    """
    with torch.random.fork_rng(devices=[]):
        made = TinyLM(*sizes)
    wanted, theirs, state = made.state_dict(), {}, model.state_dict()
    for name, weight in wanted.items():
        value = state[name] if name in state else _attribute(model, name)
        if not isinstance(value, Tensor) or value.shape != weight.shape:
            came = ", ".join([*state][:4]) or "nothing"
            raise _told(
                f"The course's instruments look for {name} of shape {tuple(weight.shape)} in your "
                f"model's state_dict(), which begins with: {came}.\nGive your class a state_dict() "
                "with the names printed in section 1, and run the cells again, from the class on."
            )
        theirs[name] = value.detach()
    made.load_state_dict(theirs)
    made.to(next(iter(theirs.values())).device).eval()
    _compare(model, made)
    return made


def _attribute(model: Any, name: str) -> Any:
    """Return what a dotted name such as "blocks.0.norm1.scale" refers to, or None."""
    for step in name.split("."):
        if not step.isdigit():
            model = getattr(model, step, None)
        elif isinstance(model, Sequence | nn.ModuleList | nn.Sequential) and int(step) < len(model):
            model = model[int(step)]
        else:
            return None
    return model


@torch.no_grad()
def _compare(model: nn.Module, made: TinyLM) -> None:
    V, T = made.head.out_features, made.context_length
    ids = torch.arange(2 * T, device=made.head.weight.device).view(2, T) % V
    training = model.training
    mine = model.eval()(ids)
    model.train(training)
    if not torch.allclose(mine, made(ids), rtol=1e-3, atol=1e-3):
        raise _told(
            "With your parameters the course's model gives other logits than yours. Does your "
            "state_dict() return each as the course has it, a linear one as (out, in)? And does "
            "MyGPT pass its check?"
        )


def _told(text: str) -> ValueError:
    """An error that a notebook shows without a traceback."""
    error = ValueError(text)
    error._render_traceback_ = lambda: text.split("\n")  # type: ignore[attr-defined]
    return error


def places(ids: Tensor, blanks: Tensor) -> Tensor:
    """The pairs of positions that belong to each job.

    Args:
        ids: token ids `(B, T)`.
        blanks: the ids that separate words, `(N,)`.

    Returns: A bool tensor `(J, B, T, T)`, in the order of `JOBS`; "further back" starts three
        letters back.
    """
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    back = (t[:, None] - t).expand(B, T, T)  # the distance from query back to key
    blank = torch.isin(ids, blanks)  # (B, T)
    last = torch.where(blank, t, -1).cummax(dim=1).values[:, :, None]  # (B, T, 1)
    alike = ids[:, :, None] == ids[:, None, :]  # (B, T, T)
    follows = torch.zeros_like(alike)
    follows[:, :, 1:] = alike[:, :, :-1]
    jobs = [
        back == 0,
        back == 1,
        back == 2,
        (back > 2) & (t > last),
        (t == last) & (back > 0),
        alike & (back > 0),
        follows & (back >= 0),
    ]
    return torch.stack(jobs)


def job_weights(model: TinyLM, ids: Tensor, blanks: Tensor) -> tuple[Tensor, Tensor]:
    """The mean weight of each head on the positions of each job, `(L, H, J)`, and the same with
    uniform attention, `(J,)`. Only tokens with such a position count."""
    weights = attention_weights(model, ids).movedim(0, 2)  # (L, H, B, T, T)
    hidden = causal_mask(ids.shape[1], ids.device)
    even = masked_softmax(torch.zeros_like(weights[0, 0]), hidden)  # (B, T, T)
    wanted = places(ids, blanks)
    counts = wanted.any(dim=-1)  # (J, B, T)
    counts[:, :, 0] = False  # the first token attends only to itself

    def shares(maps: Tensor) -> Tensor:
        found = torch.einsum("...bts,jbts->...jbt", maps, wanted.to(maps)) * counts
        return found.sum(dim=(-2, -1)) / counts.sum(dim=(-2, -1))

    return shares(weights), shares(even)


def standing_out(weights: Tensor, even: Tensor) -> list[tuple[int, int, int]]:
    """`(layer, head, job)` for each head, with the job in which it exceeds uniform attention by the
    most. The head with the largest difference comes first."""
    above, jobs = (weights - even).max(dim=-1)  # (L, H) each
    order = above.flatten().argsort(descending=True).tolist()
    heads = [divmod(i, above.shape[1]) for i in order]
    return [(layer, head, int(jobs[layer, head])) for layer, head in heads]


def loss_without(model: TinyLM, ids: Tensor, layer: int, head: int) -> float:
    """The loss on `(N, T)` ids with one head ablated."""
    with without_head(model, layer, head):
        return held_out_loss(model, ids)
