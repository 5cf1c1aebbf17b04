"""Lesson 15: what heads of a model of one's own look at, and how much each is worth."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whywrong.modules import part

from ..attention import causal_mask, masked_softmax
from ..language_model import TinyLM, head_scores, held_out_loss
from .induction import without_head

JOBS = ("first", "itself", "the one before", "the same before", "behind the same")


def twin(model: nn.Module, *sizes: int) -> TinyLM:
    """The course's `TinyLM` of these sizes with the weights of another model, by their names: from
    its state dict, else from its attributes.

    Raises:
        ValueError: the other model lacks one of them, or has one of another shape, or gives other
            logits with them. In a notebook only the words are shown.
    """
    with torch.random.fork_rng(devices=[]):
        made = TinyLM(*sizes)
    wanted, theirs, state = made.state_dict(), {}, model.state_dict()
    for name, weight in wanted.items():
        value = state[name] if name in state else part(model, name)
        if not isinstance(value, Tensor) or value.shape != weight.shape:
            came = ", ".join([*state][:4]) or "nothing"
            shape = f" of shape {tuple(weight.shape)}"
            raise _told(
                f"The course's instruments look for {name}{shape} in your model's state_dict(), "
                f"which begins with: {came}.\nGive your class a state_dict() that returns the "
                "weights under the names printed in section 1, as your load_state_dict takes them. "
                "Then run the cells again, from the class on."
            )
        theirs[name] = value.detach()
    made.load_state_dict(theirs)
    made.to(next(iter(theirs.values())).device).eval()
    _compare(model, made)
    return made


@torch.no_grad()
def _compare(model: nn.Module, made: TinyLM) -> None:
    V, T = made.head.out_features, made.context_length
    ids = torch.arange(2 * T, device=made.head.weight.device).view(2, T) % V
    training = model.training
    mine = model.eval()(ids)
    model.train(training)
    if not torch.allclose(mine, made(ids), rtol=1e-3, atol=1e-3):
        raise _told(
            "With your weights the course's model gives other logits than yours. Does your "
            "state_dict() return each weight as the course has it, a linear one as (out, in)? And "
            "does MyGPT pass its check?"
        )


def _told(text: str) -> ValueError:
    """An error that a notebook shows by its words alone."""
    error = ValueError(text)
    error._render_traceback_ = lambda: text.split("\n")  # type: ignore[attr-defined]
    return error


def places(ids: Tensor) -> Tensor:
    """Where a head with a job would look.

    Args:
        ids: `(B, T)`.

    Returns:
        `(J, B, T, T)` bool, see `JOBS`: key 0; the token itself; the one before; earlier ones that
        are the same; and those that stand behind an earlier one that is the same.
    """
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    behind = (t[:, None] - t).expand(B, T, T)  # how far back a key is
    alike = ids[:, :, None] == ids[:, None, :]  # (B, T, T)
    follows = torch.zeros_like(alike)
    follows[:, :, 1:] = alike[:, :, :-1]
    jobs = [
        (t == 0).expand(B, T, T),
        behind == 0,
        behind == 1,
        alike & (behind > 0),
        follows & (behind >= 0),
    ]
    return torch.stack(jobs)


def job_scores(model: TinyLM, ids: Tensor) -> Tensor:
    """The mean weight that each head puts where each job asks for, `(L, H, J)`.

    Only tokens for which a job has such a place count, and the first token, which sees nothing but
    itself, never does.
    """
    weights = masked_softmax(
        head_scores(model, ids), causal_mask(ids.shape[1], ids.device)
    )  # (B, L, H, T, T)
    return _shares(weights.movedim(0, 2), ids)


def even_scores(ids: Tensor) -> Tensor:
    """The same for a head that looks at all it sees alike, `(J,)`."""
    T = ids.shape[1]
    even = torch.ones(T, T, device=ids.device).tril()
    return _shares((even / even.sum(dim=-1, keepdim=True)).expand(len(ids), T, T), ids)


def _shares(weights: Tensor, ids: Tensor) -> Tensor:
    """`(…, B, T, T)` weights to `(…, J)`."""
    scores = []
    for wanted in places(ids):  # (B, T, T)
        counts = wanted.any(dim=-1)  # (B, T)
        counts[:, 0] = False
        share = (weights * wanted).sum(dim=-1)  # (…, B, T)
        scores.append((share * counts).sum(dim=(-2, -1)) / counts.sum())
    return torch.stack(scores, dim=-1)


def loss_without(model: TinyLM, ids: Tensor, layer: int, head: int) -> float:
    """The loss on `(N, T)` ids while one head adds nothing."""
    with without_head(model, layer, head):
        return held_out_loss(model, ids)
