"""Lesson 10: a small model of the toy English, trained without the shift or on too little text, and
the attention of its heads.

The bigram model, computed from the grammar, is the best model that sees only one word.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import causal_mask, masked_softmax
from ..data import agreement_prefixes, toy_english
from ..desk.environment import use_threads
from ..language_model import TinyLM, head_scores, held_out_loss, training_step
from ..show.figures import Picture


def new_model(T: int = 32, width: int = 64, seed: int = 0) -> TinyLM:
    """A model with two layers of four heads each, for windows of T words."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TinyLM(len(toy_english.words), width, num_heads=4, context_length=T, num_layers=2)


# One text, T predictions ------------------------------------------------------------------------


def two_rows(words: Sequence[str], title: str, alt: str) -> Picture:
    """Draw a window as two rows of boxes: the inputs, and below them the next words."""
    figure, axes = plt.subplots(figsize=(1.05 * len(words), 2.3))
    seen, wanted = words[:-1], words[1:]
    for t, (word, next_word) in enumerate(zip(seen, wanted, strict=True)):
        for row, (text, face) in enumerate([(next_word, "#dddddd"), (word, "white")]):
            box = {"boxstyle": "square,pad=0.45", "facecolor": face, "edgecolor": "black"}
            axes.text(t, row, text, ha="center", va="center", bbox=box)
        arrow = {"arrowstyle": "->", "color": "black", "shrinkA": 14, "shrinkB": 14}
        axes.annotate("", (t, 0), (t, 1), arrowprops=arrow)
    axes.set(xlim=(-1.6, len(seen) - 0.4), ylim=(-0.55, 1.5), xticks=[], yticks=[])
    for row, name in enumerate(["targets", "inputs"]):
        axes.text(-0.75, row, name, ha="right", va="center")
    for t in range(len(seen)):
        axes.text(t, 1.42, f"t = {t}", ha="center", va="center", fontsize=8)
    axes.axis("off")
    figure.suptitle(title, fontsize=11, fontweight="bold")
    figure.tight_layout()
    return Picture(figure, alt)


# Without the shift ------------------------------------------------------------------------------


def train_without_shift(steps: int = 100) -> tuple[TinyLM, list[float]]:
    """Train a model to predict the current word at each position; return model and losses."""
    model, losses = new_model(width=32), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with use_threads(1):
        for ids in toy_english.draw(steps * 16, 32, seed=1).view(steps, 16, 32):
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model.eval(), losses


# Too little text --------------------------------------------------------------------------------


def overfit(
    texts: int = 24, T: int = 17, steps: int = 60, look_every: int = 4
) -> dict[str, dict[int, float]]:
    """Train on the same few texts repeatedly.

    Returns:
        The losses on these texts and on fresh ones, by step.
    """
    few, fresh = toy_english.draw(texts, T, seed=1), toy_english.draw(400, T, seed=2)
    model = new_model(T=T)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    seen: dict[str, dict[int, float]] = {"the 24 texts it is trained on": {}, "fresh texts": {}}
    with use_threads(1):
        for step in range(steps + 1):
            if step % look_every == 0:
                for name, ids in zip(seen, (few, fresh), strict=True):
                    seen[name][step] = held_out_loss(model, ids)
            training_step(model, few, optimizer)
    return seen


# Characters -------------------------------------------------------------------------------------


def without_repeats(text: str) -> str:
    """A text without repeated paragraphs, which could leak training text into the held-out text."""
    return "\n\n".join(dict.fromkeys(text.split("\n\n")))


def counted_bigram_loss(train_ids: Tensor, held_out: Tensor, V: int) -> float:
    """The held-out loss of a bigram model made from training counts, each increased by one."""
    counts = torch.ones(V, V)
    counts.index_put_((train_ids[:-1], train_ids[1:]), torch.tensor(1.0), accumulate=True)
    logs = (counts / counts.sum(dim=-1, keepdim=True)).log()
    return -logs[held_out[:-1], held_out[1:]].mean().item()


# What heads attend to ---------------------------------------------------------------------------


def bigram() -> Tensor:
    """The probability of each word after each single word, `(V, V)`."""
    g = toy_english
    pairs = torch.zeros(len(g.words), len(g.words), dtype=torch.float64)
    for state, often in enumerate(g.often):
        for word, share in enumerate(g.probability[state]):
            pairs[word] += often * share * g.probability[g.after[state, word]]
    return pairs / pairs.sum(dim=-1, keepdim=True)


@torch.no_grad()
def agreement(model: nn.Module | None = None) -> float:
    """The fraction of texts in which the verbs that agree are likelier than the others, after a
    noun with the other number; without a model, the bigram's fraction."""
    prefixes, verbs, _, nearer = agreement_prefixes()
    if model is None:
        shares = bigram()[prefixes[:, nearer]].float()  # (N, V)
    else:
        shares = torch.softmax(model(prefixes)[:, -1], dim=-1)  # (N, T, V) -> (N, V)
    right, wrong = ((shares * verbs[:, i]).sum(dim=-1) for i in (0, 1))
    return (right > wrong).double().mean().item()


@torch.no_grad()
def on_the_subject(model: TinyLM) -> Tensor:
    """The mean weight of each head on the subject, at the word before the verb, `(L, H)`."""
    prefixes, _, subject, _ = agreement_prefixes()
    return _weights(model, prefixes)[..., -1, subject].mean(dim=0)


def _weights(model: TinyLM, ids: Tensor) -> Tensor:
    return masked_softmax(head_scores(model, ids), causal_mask(ids.shape[1]))


def best_head(model: TinyLM) -> tuple[int, int]:
    """The layer and number of the head that attends most to the subject."""
    scores = on_the_subject(model)
    return divmod(int(scores.argmax()), scores.shape[1])


def ids_of(text: str) -> Tensor:
    """The ids `(1, T)` of words separated by blanks."""
    return torch.tensor([[toy_english.words.index(word) for word in text.split()]])
