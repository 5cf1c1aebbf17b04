"""`python -m training.loss_so_far`: train each row of "The loss so far" five times, and store the
losses, the probabilities and what the first run's models write, in
`course_utils/experiments/loss_so_far.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_utils import attention, todays_models, transformer
from course_utils.data import toy_english
from course_utils.experiments.loss_so_far import (
    COUNTED,
    FLOOR,
    KEPT,
    ROWS,
    C,
    Part,
    Run,
    T,
    continued,
    plural_probability,
    train,
)
from course_utils.language_model import TinyLM

COMMAND = "python -m training.loss_so_far"
SEEDS = range(5)


class BlockOfToday(nn.Module):
    """Lesson 16's block, in which four query heads share two key/value heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = todays_models.RMSNorm(C)
        self.attention = todays_models.GroupedQueryAttention(C, 4, 2, T)
        self.norm2, self.network = todays_models.RMSNorm(C), todays_models.SwiGLU(C, 171)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


def finished(name: str) -> Part | None:
    """Return a new finished part for a row, or None if the row's model has no part."""

    def block() -> nn.Module:
        return transformer.TransformerBlock(C, num_heads=4, context_length=T)

    makers: dict[str, Callable[[], Part]] = {
        "the mean of the past alone": lambda: attention.tril_mean,
        "the mean of the past and the word before": lambda: attention.softmax_mean,
        "one head": lambda: attention.CausalSelfAttention(C, C, T),
        "four heads": lambda: attention.MultiHeadAttention(C, C, T, num_heads=4),
        "one block": block,
        "two blocks": lambda: nn.Sequential(block(), block()),
        "TinyLM": lambda: TinyLM(len(toy_english.words), C, 4, T, num_layers=2),
        "one block of today": BlockOfToday,
    }
    make = makers.get(name.removesuffix(" and positions"))
    return make() if make else None


def run(name: str, seed: int) -> Run:
    """Train a row's model with the finished part."""
    torch.manual_seed(seed)
    return train(name, finished(name), seed)


def floor() -> Run:
    """What no model can do better: the language's own probabilities."""

    def best(ids: Tensor) -> Tensor:
        return toy_english.next_word(ids)[:, -1]

    least = toy_english.least_loss(T + 1)  # T words are read, and T are predicted
    return Run(FLOOR, least, plural_probability(best), "", continued(best))


def store(runs: dict[str, list[Run]]) -> None:
    rows = {
        name: {
            "losses": [round(run.loss, 6) for run in ran],
            "plural": [round(run.plural, 4) for run in ran],
            "lines": list(ran[0].lines),
        }
        for name, ran in runs.items()
    }
    made = {"made by": COMMAND, "seeds": list(SEEDS), "torch": torch.__version__, "rows": rows}
    KEPT.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    runs: dict[str, list[Run]] = {name: [] for name in ROWS}
    for seed in SEEDS:
        for name in ROWS if seed == 0 else [n for n in ROWS if n not in COUNTED]:
            runs[name].append(run(name, seed))
            print(seed, runs[name][-1], flush=True)
    store(runs | {FLOOR: [floor()]})


if __name__ == "__main__":
    main()
