"""`python -m training.start_model`: train the start page's model and write its weights.

It takes about two minutes, with lesson 10's own steps. At the end, it prints the loss on sentences
outside the training data, next to the lowest possible loss.
"""

from __future__ import annotations

import math
import random

import torch
from safetensors.torch import save_file
from torch import Tensor

from course_utils import language_model
from course_utils.desk.environment import use_threads
from course_utils.language_model import TinyLM, next_token_loss
from course_utils.show.start.language import (
    ADJECTIVES,
    ADVERBS,
    END,
    LONGEST,
    NOUNS,
    PLACES,
    VERBS,
    VERBS_WITH_OBJECT,
)
from course_utils.show.start.model import IDS, WEIGHTS, new

STEPS, BATCH, RATE = 2_000, 96, 6e-3
PAD = -100  # after a sentence, where nothing counts
HELD_OUT = 4_000


class Sentence:
    """A growing sentence: its words, and the probability of each given those before."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.words: list[str] = []
        self.log_probability = 0.0  # the natural logarithm, summed over all choices so far

    def choose(self, *options: tuple[str, float]) -> str:
        """One of the options, each with its probability."""
        names, weights = zip(*options, strict=True)
        (name,) = self.chance.choices(names, weights)
        self.log_probability += math.log(dict(options)[name])
        return name

    def say(self, words: list[str]) -> None:
        self.words.append(self.choose(*((word, 1 / len(words)) for word in words)))


def _noun_phrase(sentence: Sentence, depth: int) -> str:
    """Add "the old dogs near the cat" or "the dogs that the cat sees"; returns its number."""
    sentence.say(["the"])
    if sentence.choose(("plain", 0.75), ("adjective", 0.25)) == "adjective":
        sentence.say(ADJECTIVES)
    number = sentence.choose(("one", 0.5), ("many", 0.5))
    sentence.say(NOUNS[number])
    if depth == 0:
        return number
    more = sentence.choose(("nothing", 0.3), ("place", 0.4), ("that", 0.3))
    if more == "place":
        sentence.say(PLACES)
        _noun_phrase(sentence, depth - 1)
    elif more == "that":
        sentence.say(["that"])
        who = _noun_phrase(sentence, 0)
        sentence.say(VERBS_WITH_OBJECT[who])
    return number


def draw(chance: random.Random) -> Sentence:
    """One sentence, ending in "."."""
    sentence = Sentence(chance)
    number = _noun_phrase(sentence, depth=1)
    if sentence.choose(("alone", 0.7), ("object", 0.3)) == "object":
        sentence.say(VERBS_WITH_OBJECT[number])
        _noun_phrase(sentence, 0)
    else:
        sentence.say(VERBS[number])
        if sentence.choose(("end", 0.7), ("adverb", 0.3)) == "adverb":
            sentence.say(ADVERBS)
    sentence.words.append(END)
    return sentence


def windows(chance: random.Random, size: int) -> Tensor:
    """``(B, LONGEST + 1)`` ids: a full stop followed by sentences, cut at the maximum length."""
    rows = []
    for _ in range(size):
        ids = [IDS[END]]
        while len(ids) <= LONGEST:
            ids += [IDS[word] for word in draw(chance).words]
        rows.append(ids[: LONGEST + 1])
    return torch.tensor(rows)


def batch(chance: random.Random, size: int) -> tuple[Tensor, float]:
    """``(B, LONGEST + 1)`` ids that begin with the last full stop, and the lowest loss per word."""
    rows, nats, words = [], 0.0, 0
    for _ in range(size):
        sentence = draw(chance)
        ids = [IDS[word] for word in [END, *sentence.words]]
        rows.append(ids + [PAD] * (LONGEST + 1 - len(ids)))
        nats -= sentence.log_probability
        words += len(sentence.words)
    return torch.tensor(rows), nats / words


def loss(model: TinyLM, ids: Tensor) -> Tensor:
    """The mean of -log(probability of the actual word), over all words."""
    logits = model(ids[:, :-1].clamp(min=0))  # padding comes after, where no word attends
    return next_token_loss(logits, ids, pad_id=PAD)


def agreement(model: TinyLM, ids: Tensor) -> float:
    """How often a verb without an object has the more likely number."""
    one, many = ([IDS[word] for word in VERBS[number]] for number in NOUNS)
    chances = torch.softmax(model(ids[:, :-1].clamp(min=0)), dim=-1)  # (B, T, V)
    says_many = chances[..., many].sum(-1) > chances[..., one].sum(-1)  # (B, T)
    target = ids[:, 1:]
    is_one, is_many = (torch.isin(target, torch.tensor(verbs)) for verbs in (one, many))
    right = (is_one & ~says_many) | (is_many & says_many)
    return float(right.sum() / (is_one | is_many).sum())


def train(steps: int = STEPS, seed: int = 0) -> TinyLM:
    torch.manual_seed(seed)
    model, chance = new(), random.Random(seed)
    batches = [windows(chance, BATCH) for _ in range(steps)]
    with use_threads(1):
        language_model.train_lm(model, batches, learning_rate=RATE)
    return model.eval()


if __name__ == "__main__":
    model = train()
    held_out, least = batch(random.Random("held out"), HELD_OUT)
    with torch.no_grad():
        now, right = float(loss(model, held_out)), agreement(model, held_out)
    print(f"loss {now:.4f}, least {least:.4f}; verbs that agree {right:.2%}")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, WEIGHTS)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 2**10:.0f} KiB")
