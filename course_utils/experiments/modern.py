"""Lesson 16: models trained on the text of lesson 15, with the training steps of that lesson."""

import string
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn

from ..data import CharacterTokenizer, read_text, train_and_held_out
from ..language_model import held_out_loss, sliding_windows, train_lm
from ..show.live import watch_training
from .tiny_lm import without_repeats

LETTERS = string.ascii_lowercase + " .,\n"
LENGTH, STEPS, BATCH, RATE = 32, 1_000, 16, 0.01


@lru_cache(maxsize=1)
def letters_and_windows() -> tuple[CharacterTokenizer, Tensor, Tensor]:
    """Return the tokenizer, training windows `(N, T + 1)`, and held-out windows without overlap."""
    text = without_repeats(read_text()).lower()
    text = "".join(letter for letter in text if letter in LETTERS)[:200_000]
    letters = CharacterTokenizer(LETTERS)
    training, held_out = train_and_held_out(letters.encode(text))
    windows, _ = sliding_windows(training, length=LENGTH + 1, stride=7)
    return letters, windows, held_out.unfold(0, LENGTH + 1, LENGTH + 1)


def trained_loss(
    make: Callable[[], nn.Module],
    seed: int = 0,
    loop: Callable[[nn.Module, Sequence[Tensor], float], list[float]] = train_lm,
    steps: int = STEPS,
) -> tuple[nn.Module, float]:
    """Make a model, train it as in lesson 15, and return it with its held-out loss, in nats."""
    _, windows, unseen = letters_and_windows()
    torch.manual_seed(seed)
    model = make()
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(windows), (steps, BATCH), generator=generator)
    batches = list(windows[chosen])  # steps of (B, T + 1)
    with watch_training(model, batches):
        loop(model, batches, RATE)
    return model, held_out_loss(model, unseen)
