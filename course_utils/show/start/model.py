"""The small language model of the start page: lesson 10's model, with stored parameters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ...language_model import TinyLM, head_scores
from .language import END, LONGEST, WORDS

WEIGHTS = Path(__file__).with_name("weights.safetensors")
WIDTH, HEADS, LAYERS, CONTEXT_LENGTH = 48, 4, 2, LONGEST
IDS = {word: id for id, word in enumerate(WORDS)}


def new() -> TinyLM:
    """The untrained model."""
    return TinyLM(len(WORDS), WIDTH, HEADS, CONTEXT_LENGTH, LAYERS)


@cache
def trained() -> TinyLM:
    """The model with the parameters trained by `python -m training.start_model`."""
    with torch.random.fork_rng(devices=[]):
        model = new()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def read(text: str) -> tuple[list[str], list[str]]:
    """The words of a text that the model reads, and the words that it doesn't know.

    The model reads a full stop and the words of one sentence, or only the last words of a long
    sentence.

    >>> read("The king sings. the DOGS near a cat")
    (['.', 'the', 'dogs', 'near', 'cat'], ['a'])
    """
    words = text.lower().replace(".", f" {END} ").split()
    sentence: list[str] = []
    for word in words:
        sentence = [] if word == END else [*sentence, word]
    known = [word for word in sentence if word in IDS]
    unknown = [word for word in words if word not in IDS]
    return [END, *known][-CONTEXT_LENGTH:], list(dict.fromkeys(unknown))


@torch.no_grad()
def next_words(words: list[str], model: nn.Module | None = None) -> dict[str, float]:
    """The probability that each word comes next, the likeliest word first."""
    logits = (model or trained())(_ids(words))[0, -1]  # (B, T, V) -> (V,)
    chances = torch.softmax(logits, dim=-1)
    order = chances.argsort(descending=True, stable=True).tolist()
    return {WORDS[id]: float(chances[id]) for id in order}


@torch.no_grad()
def scores(words: list[str]) -> Tensor:
    """The attention scores of every head for these words, ``(L, H, T, T)``."""
    return head_scores(trained(), _ids(words))[0]


def _ids(words: list[str]) -> Tensor:
    return torch.tensor([[IDS[word] for word in words]])  # (1, T)
