"""Measure again what lessons 04, 06, 08, 09, 10, 12 and 15 say about trained models, over several
seeds.

    python -m benchmarks.claims [04 06 08 09 10 12 15] [--seeds 0 1 2 3 4 5 6 7]

Prints one line per seed: a lesson says "in all runs" only about what each of these lines shows. One
thread is used, so that the numbers are the same on every machine of a kind.
"""

import argparse
from collections.abc import Sequence

import torch
from torch import nn

from course_utils import attention, transformer
from course_utils.data import toy_english
from course_utils.data.toy_french import three_sets
from course_utils.desk.environment import use_threads
from course_utils.experiments import (
    capstone,
    depth,
    heads,
    induction,
    loss_so_far,
    modern,
    places,
    tiny_lm,
    translating,
)
from course_utils.language_model import held_out_loss, train_lm, without_head
from course_utils.translation import beam_translate
from training import saturation
from training.small_models import batches, letters, repeater, translator


def lesson_04(seed: int) -> str:
    """The loss with each divisor of the scores, without and with positions."""
    told = []
    for model, row in saturation.MODELS.items():
        losses = [saturation.loss(row, divisor, seed) for divisor in saturation.DIVISORS]
        told.append(f"{model} " + ", ".join(f"{loss:.3f}" for loss in losses))
    return "; ".join(told)


def lesson_06(seed: int) -> str:
    """The errors of one and of two heads, and how one head's weight is divided."""
    told = []
    for H, D in ((1, 4), (1, 8), (2, 2), (2, 4)):
        model = heads.train(H, D, seed)
        maps = heads.weights_by_kind(model)[0]  # (6, 6)
        following = sum(maps[kind, (kind + 1) % 6].item() for kind in range(6)) / 6
        told.append(f"{H} of width {D} {heads.error(model):.2f} (next kind {following:.2f})")
    return "; ".join(told)


class Attention(transformer.TransformerBlock):
    """A block without its network."""

    def forward(self, x: torch.Tensor, pad_mask: torch.Tensor | None = None) -> torch.Tensor:
        return x + self.attention(self.norm1(x), pad_mask)


class Network(transformer.TransformerBlock):
    """A block without its attention."""

    def forward(self, x: torch.Tensor, pad_mask: torch.Tensor | None = None) -> torch.Tensor:
        return x + self.feed_forward(self.norm2(x))


class Wide(nn.Module):
    """One block with about as many parameters as two."""

    def __init__(self, C: int, H: int, T: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = transformer.LayerNorm(C), transformer.LayerNorm(C)
        self.beside = nn.ModuleList(attention.MultiHeadAttention(C, C, T, H) for _ in range(2))
        self.feed_forward = transformer.FeedForward(C, expansion=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.beside[0](y) + self.beside[1](y)
        return x + self.feed_forward(self.norm2(x))


def residuals_alone(block: transformer.TransformerBlock, x: torch.Tensor) -> torch.Tensor:
    x = x + block.attention(x)
    return x + block.feed_forward(x)


def lesson_08(seed: int) -> str:
    """Where a second block's gain comes from, and what 24 blocks learn without norms."""
    Block = transformer.TransformerBlock
    rows = {
        "one block": [Block],
        "wide block": [Wide],
        "block + network": [Block, Network],
        "block + attention": [Block, Attention],
        "attention + block": [Attention, Block],
        "two attentions": [Attention, Attention],
        "two blocks": [Block, Block],
    }
    told = []
    for name, classes in rows.items():
        torch.manual_seed(seed)
        stack = nn.Sequential(*[make(64, 4, 32) for make in classes])
        loss, _ = loss_so_far.measured(loss_so_far.ROWS["two blocks"], stack, seed)
        told.append(f"{name} {loss:.3f}")
    for rate in (0.005, 0.0005):
        for name, wiring in (("residuals", residuals_alone), ("Pre-LN", Block.__call__)):
            loss = depth.train(wiring, depth=24, seed=seed, learning_rate=rate)
            told.append(f"24 blocks, {name}, rate {rate}: {loss:.2f}")
    return "; ".join(told)


def lesson_09(seed: int) -> str:
    """Accuracy beyond the training length, for waves and for rotary positions."""
    told = []
    for kind in ("sinusoidal", "rotary"):
        right = [1.0, *places.shares_right(places.word_before(kind, seed), 48)]  # by position
        told.append(
            f"{kind}: trained {min(right[:16]):.2f}, 16 {right[16]:.2f}, 17 {right[17]:.2f}"
        )
        for first, last in ((19, 20), (20, 39), (39, 48)):
            part = right[first:last]
            told.append(f"{first} to {last - 1} {min(part):.2f} to {max(part):.2f}")
    return "; ".join(told)


def without(model: torch.nn.Module, layer: int, *heads: int) -> float:
    """The accuracy on lesson 10's repeated texts without these heads."""
    if not heads:
        return induction.accuracy(model)
    with without_head(model, layer, heads[0]):
        return without(model, layer, *heads[1:])


def lesson_10(seed: int) -> str:
    """Steps to the unigram and to the bigram; the heads of sections 11 and 12."""
    model, levels = tiny_lm.new_model(seed=seed), toy_english.levels(T=33)
    losses = train_lm(model, batches(), learning_rate=6e-3)
    crossed = [
        next(i for i, loss in enumerate(losses) if loss < levels[n]) for n in ("unigram", "bigram")
    ]
    fresh = toy_english.draw(2000, 32, seed=2)
    above = held_out_loss(model.eval(), fresh) / toy_english.least_loss(32)
    heads = []
    for (layer, head), weight in tiny_lm.by_weight(model):
        with without_head(model, layer, head):
            heads.append(f"{layer}.{head} {weight:.2f} {tiny_lm.agreement(model):.2f}")
    two, _ = repeater(2, seed)
    weights = [round(w, 2) for w in induction.roles(two)[1, :, 2].tolist()]
    left = [round(without(two, 1, *gone), 2) for gone in ((), (0,), (1,), (0, 1))]
    return (
        f"below unigram and bigram after {crossed}; {above:.3f} of the floor; agreement "
        f"{tiny_lm.agreement(model):.2f}; head, weight, agreement without it: {', '.join(heads)}; "
        f"repeated texts: weights {weights}, right with both, without 0, 1, both {left}"
    )


def lesson_12(seed: int) -> str:
    """The searches, and what random words in the training input change."""
    _, unseen, combinations = three_sets(held_out=400)
    told = []
    for steps in (translating.STEPS, 75):
        for share in (0.0, 0.15):
            model = translator(steps, share, seed)
            right = [translating.exact(model, pairs) for pairs in (unseen, combinations)]
            after = [translating.after_a_word(model, unseen, wrong) for wrong in (False, True)]
            told.append(
                f"{steps} steps, {share:.0%} random: unseen {right[0]:.3f}, combinations "
                f"{right[1]:.3f}, after a right, a wrong word {after[0]:.2f}, {after[1]:.2f}"
            )
            if not share and steps == translating.STEPS:
                told.append(f"aligned {translating.best_aligned_head(model, unseen[:30])[2]:.2f}")
            if not share and steps == 75:
                found = translating.judged(beam_translate, model, unseen[:100], [1, 2, 4])
                told += [
                    f"width {w} {r.right:.2f}, {r.missed:.2f} missed" for w, r in found.items()
                ]
    return "; ".join(told)


def lesson_15(seed: int) -> str:
    """The held-out loss, and the job and the cost of each head."""
    tokenizer, _, unseen = modern.letters_and_windows()
    blanks = tokenizer.encode(" \n")
    model, losses = letters(seed)
    loss = held_out_loss(model, unseen)
    weights, even = capstone.job_weights(model, unseen[:64, :-1], blanks)
    told = [f"held-out loss {loss:.3f}; below the bigram from step {last_above(losses, 2.39)}"]
    for layer, head, job in capstone.standing_out(weights, even):
        costs = capstone.loss_without(model, unseen, layer, head) - loss
        told.append(
            f"{layer}.{head} {capstone.JOBS[job]} {weights[layer, head, job]:.2f}"
            f" (one before {weights[layer, head, 1]:.2f}) costs {costs:.2f}"
        )
    return "; ".join(told)


def last_above(losses: Sequence[float], level: float) -> int:
    """The first step from which all losses are below a level."""
    return max(i for i, loss in enumerate(losses) if loss >= level) + 1


LESSONS = {
    "04": lesson_04,
    "06": lesson_06,
    "08": lesson_08,
    "09": lesson_09,
    "10": lesson_10,
    "12": lesson_12,
    "15": lesson_15,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lessons", nargs="*", choices=LESSONS, default=[*LESSONS])
    parser.add_argument("--seeds", type=int, nargs="*", default=range(8))
    asked = parser.parse_args()
    with use_threads(1):
        for name in asked.lessons:
            for number in asked.seeds:
                print(f"lesson {name}, seed {number}: {LESSONS[name](number)}", flush=True)
