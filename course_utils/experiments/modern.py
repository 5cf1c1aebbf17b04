"""Lesson 16: models trained on the text of lesson 15, with the training steps of that lesson."""

import string
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from ..data import CharacterTokenizer, read_text, train_and_held_out
from ..desk.language import localised
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
    make: Callable[[], nn.Module], seed: int = 0, steps: int = STEPS
) -> tuple[nn.Module, float]:
    """Make a model, train it as in lesson 15, and return it with its held-out loss, in nats."""
    _, windows, unseen = letters_and_windows()
    torch.manual_seed(seed)
    model = make()
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(windows), (steps, BATCH), generator=generator)
    batches = list(windows[chosen])  # steps of (B, T + 1)
    with watch_training(model, batches):
        train_lm(model, batches, RATE)
    return model, held_out_loss(model, unseen)


def like_gpt2(V: int, C: int, context_length: int, layers: int) -> dict[str, Tensor]:
    """Return a state dict with GPT-2's names and random numbers; its matrices are (in, out)."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (V, C), "wpe.weight": (context_length, C)}
    matrices = {"attn.c_attn": (C, 3 * C), "attn.c_proj": (C, C)}
    matrices |= {"mlp.c_fc": (C, 4 * C), "mlp.c_proj": (4 * C, C)}
    for i in range(layers):
        for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
            shapes[f"h.{i}.{name}.weight"] = matrices.get(name, (C,))
            shapes[f"h.{i}.{name}.bias"] = matrices.get(name, (C,))[-1:]
    shapes |= {"ln_f.weight": (C,), "ln_f.bias": (C,)}
    generator = torch.Generator().manual_seed(0)
    return {f"transformer.{n}": torch.randn(s, generator=generator) for n, s in shapes.items()}


def random_llama() -> Any:
    """Return a small Llama of the library `transformers`, or None if that isn't installed."""
    try:
        from transformers import LlamaConfig, LlamaForCausalLM
    except ModuleNotFoundError:
        return print(localised("transformers isn't installed here."))
    config = LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()
