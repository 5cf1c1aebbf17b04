"""Lesson 10: a small model of the toy English, also trained without the shift or on few texts;
what its heads attend to, and what the model loses without each of them.

The bigram model, computed from the grammar, is the best model that sees only one word.

For lesson 13 and readers who haven't trained their own, `python -m training.small_models` has
trained the lesson's model and stored its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from ..data import agreement_prefixes, toy_english
from ..desk.environment import use_threads
from ..desk.language import localised
from ..desk.points import progress_path
from ..language_model import TinyLM, attention_weights, held_out_loss, training_step
from ..show.drawing import Picture, titled
from .training import descend, seeded

STORED = Path(__file__).with_suffix(".safetensors")
KEPT = ".course_tiny_lm.safetensors"  # the reader's model, next to their progress


def new_model(T: int = 32, width: int = 64, seed: int = 0) -> TinyLM:
    """A model with two layers of four heads each, for windows of T words."""
    with seeded(seed):
        return TinyLM(len(toy_english.words), width, num_heads=4, context_length=T, num_layers=2)


# The reader's model, kept for lesson 13 ----------------------------------------------------------


def keep(model: nn.Module) -> None:
    """If the reader's progress is stored, store their model's parameters next to it, and say so."""
    path = progress_path()
    if path is None:
        return
    save_file(
        {name: w.contiguous() for name, w in model.state_dict().items()}, path.with_name(KEPT)
    )
    print(localised(f"The parameters of your model are kept for lesson 13, in {KEPT}."))


def readers_model() -> TinyLM:
    """Return the reader's model from lesson 10, or else the stored one, and print which."""
    model, path = new_model(), progress_path()
    own = path and path.with_name(KEPT)
    try:
        if own and own.exists():
            model.load_state_dict(load_file(own))
            print(localised("the model: yours, as you trained it in lesson 10"))
            return model.eval()
        why = "lesson 10 keeps yours once your own loop has trained it"
    except Exception as error:  # a damaged file, or a model of other sizes
        why = f"yours can't be read: {type(error).__name__}"
    print(localised(f"the model: the stored one ({why})"))
    model.load_state_dict({name: w.float() for name, w in load_file(STORED).items()})
    return model.eval()


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
    return titled(figure, title, alt)


# Without the shift ------------------------------------------------------------------------------


def train_without_shift(steps: int = 100) -> tuple[TinyLM, list[float]]:
    """Train a model to predict the current word at each position; return model and losses."""
    model = new_model(width=32)
    batches = toy_english.draw(steps * 16, 32, seed=1).view(steps, 16, 32)

    def loss(step: int) -> Tensor:
        return F.cross_entropy(model(batches[step]).flatten(0, 1), batches[step].flatten())

    losses = descend(torch.optim.AdamW(model.parameters(), lr=1e-2), steps, loss)
    return model.eval(), losses


# Too little text --------------------------------------------------------------------------------


def overfit(texts: int = 24, T: int = 17, steps: int = 60) -> dict[str, dict[int, float]]:
    """Train on the same few texts repeatedly.

    Returns:
        The losses on these texts and on fresh ones, at every fourth step.
    """
    few, fresh = toy_english.draw(texts, T, seed=1), toy_english.draw(400, T, seed=2)
    model = new_model(T=T)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    seen: dict[str, dict[int, float]] = {"the 24 texts it is trained on": {}, "held-out texts": {}}
    with use_threads(1):
        for step in range(steps + 1):
            if step % 4 == 0:
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
    return counted_loss(train_ids, held_out, V, 2, more=1.0)


def counted_loss(
    train_ids: Tensor, held_out: Tensor, V: int, length: int, more: float = 0.1
) -> float:
    """Return the held-out loss of a model that counts which id follows each sequence of
    `length - 1` ids in the training text; every count is increased by `more`."""
    place = V ** torch.arange(length, device=train_ids.device).flip(0)

    def groups(ids: Tensor) -> Tensor:
        return (ids.unfold(0, length, 1) * place).sum(dim=-1)  # (N,), one number for each group

    counts = torch.bincount(groups(train_ids), minlength=V**length).view(-1, V) + more
    logs = (counts / counts.sum(dim=-1, keepdim=True)).log().flatten()
    return -logs[groups(held_out)].mean().item()


# What heads attend to ---------------------------------------------------------------------------


def bigram() -> Tensor:
    """The probability of each word after each single word, `(V, V)`."""
    pairs = toy_english.pairs()
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
    return attention_weights(model, prefixes)[..., -1, subject].mean(dim=0)


def by_weight(model: TinyLM) -> list[tuple[tuple[int, int], float]]:
    """Return each head's layer and number, and its mean weight on the subject, in falling order."""
    rows = enumerate(on_the_subject(model).tolist())
    heads = [((layer, head), share) for layer, row in rows for head, share in enumerate(row)]
    return sorted(heads, key=lambda one: -one[1])


def best_head(model: TinyLM) -> tuple[int, int]:
    """The layer and number of the head that attends most to the subject."""
    return by_weight(model)[0][0]


def ids_of(text: str) -> Tensor:
    """Return the ids `(1, T)` of words separated by spaces."""
    return torch.tensor([[toy_english.words.index(word) for word in text.split()]])
