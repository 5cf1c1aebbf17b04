"""The small language model of the start page: lesson 10's, with weights that were kept."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..language_model import TinyLM, head_scores
from .language import END, LONGEST, WORDS

WEIGHTS = Path(__file__).with_name("weights.safetensors")
WIDTH, HEADS, LAYERS, CONTEXT_LENGTH = 48, 4, 2, LONGEST
IDS = {word: id for id, word in enumerate(WORDS)}


def new() -> TinyLM:
    """The model before it has learned anything."""
    return TinyLM(len(WORDS), WIDTH, HEADS, CONTEXT_LENGTH, LAYERS)


@cache
def trained() -> TinyLM:
    """The model with the weights that `python -m tools.start_model` has made."""
    with torch.random.fork_rng(devices=[]):
        model = new()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def read(text: str) -> tuple[list[str], list[str]]:
    """The words that the model sees of a text, and those it doesn't know.

    It sees one sentence: the full stop before it and its words, of a long one the last.

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
def next_words(words: list[str]) -> dict[str, float]:
    """Each word's probability to come next, the likeliest first."""
    logits = trained()(_ids(words))[0, -1]  # (B, T, V) -> (V,)
    chances = torch.softmax(logits, dim=-1)
    order = chances.argsort(descending=True, stable=True).tolist()
    return {WORDS[id]: float(chances[id]) for id in order}


@torch.no_grad()
def scores(words: list[str]) -> Tensor:
    """How well each word fits what each asks for, in every head: ``(L, H, T, T)``."""
    return head_scores(trained(), _ids(words))[0]


def _ids(words: list[str]) -> Tensor:
    return torch.tensor([[IDS[word] for word in words]])  # (1, T)
