"""The small language model of the start page, made of what lessons 01 to 07 build.

Lesson 10 will build a whole transformer; its model and weights then take the place of these.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ..attention import MultiHeadAttention, attention_scores, split_heads
from .language import END, LONGEST, WORDS

WEIGHTS = Path(__file__).with_name("weights.safetensors")
WIDTH, HEADS, LAYERS, CONTEXT_LENGTH = 48, 4, 2, LONGEST
IDS = {word: id for id, word in enumerate(WORDS)}


class StartModel(nn.Module):
    """Guess each next word: two layers of lesson 07's attention, and a table at either end.

    Shapes: ``forward(ids)`` takes ``(B, T)`` word numbers and returns ``(B, T, V)`` logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.positions = nn.Embedding(CONTEXT_LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            MultiHeadAttention(WIDTH, WIDTH, CONTEXT_LENGTH, HEADS) for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, len(WORDS))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.streams(ids)[-1])  # (B, T, C) -> (B, T, V)

    def streams(self, ids: Tensor) -> list[Tensor]:
        """What each layer takes, and what the last gives: LAYERS + 1 of ``(B, T, C)``."""
        x = self.words(ids) + self.positions.weight[: ids.shape[1]]  # (B, T, C) + (T, C)
        streams = [x]
        for layer in self.layers:
            x = x + layer(x)  # each layer adds to what is there
            streams.append(x)
        return streams

    def scores(self, ids: Tensor) -> Tensor:
        """The attention scores before mask and softmax: ``(B, T)`` to ``(B, L, H, T, T)``."""
        each = []
        for layer, x in zip(self.layers, self.streams(ids), strict=False):
            assert isinstance(layer, MultiHeadAttention)
            query, key = (split_heads(part(x), HEADS) for part in (layer.query, layer.key))
            each.append(attention_scores(query, key))  # (B, H, T, T)
        return torch.stack(each, dim=1)  # L of (B, H, T, T) -> (B, L, H, T, T)


@cache
def trained() -> StartModel:
    """The model with the weights that `python -m course_utils.start` has made."""
    with torch.random.fork_rng(devices=[]):
        model = StartModel()
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
    return trained().scores(_ids(words))[0]


def _ids(words: list[str]) -> Tensor:
    return torch.tensor([[IDS[word] for word in words]])  # (1, T)
