"""`python -m tools.start_model`: train the start page's model and write its weights.

It takes about two minutes, by lesson 10's own steps. In the end it prints the loss on sentences
that it didn't train on, beside the least that any model can reach.
"""

from __future__ import annotations

import random

import torch
from safetensors.torch import save_file
from torch import Tensor

from course_utils import language_model
from course_utils.language_model import TinyLM, next_token_loss
from course_utils.start.language import END, LONGEST, NOUNS, VERBS, draw
from course_utils.start.model import IDS, WEIGHTS, new

STEPS, BATCH, RATE = 2_000, 96, 6e-3
PAD = -100  # behind a sentence, where nothing counts
HELD_OUT = 4_000


def windows(chance: random.Random, size: int) -> Tensor:
    """``(B, LONGEST + 1)`` ids: a full stop and sentences behind it, cut where the room ends."""
    rows = []
    for _ in range(size):
        ids = [IDS[END]]
        while len(ids) <= LONGEST:
            ids += [IDS[word] for word in draw(chance).words]
        rows.append(ids[: LONGEST + 1])
    return torch.tensor(rows)


def batch(chance: random.Random, size: int) -> tuple[Tensor, float]:
    """``(B, LONGEST + 1)`` ids that begin with the last full stop, and the least loss per word."""
    rows, nats, words = [], 0.0, 0
    for _ in range(size):
        sentence = draw(chance)
        ids = [IDS[word] for word in [END, *sentence.words]]
        rows.append(ids + [PAD] * (LONGEST + 1 - len(ids)))
        nats -= sentence.log_probability
        words += len(sentence.words)
    return torch.tensor(rows), nats / words


def loss(model: TinyLM, ids: Tensor) -> Tensor:
    """The mean over all words of -log(probability given to the word that came)."""
    logits = model(ids[:, :-1].clamp(min=0))  # padding lies behind, where no word looks
    return next_token_loss(logits, ids, pad_id=PAD)


def agreement(model: TinyLM, ids: Tensor) -> float:
    """How often, where a verb without an object stands, its number is the likelier one."""
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
    language_model.train(model, batches, learning_rate=RATE)
    return model.eval()


if __name__ == "__main__":
    model = train()
    held_out, least = batch(random.Random("held out"), HELD_OUT)
    with torch.no_grad():
        now, right = float(loss(model, held_out)), agreement(model, held_out)
    print(f"loss {now:.4f}, least {least:.4f}; verbs that agree {right:.2%}")
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, WEIGHTS)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 2**10:.0f} KiB")
