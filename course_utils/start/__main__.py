"""`python -m course_utils.start`: train the start page's model and write its weights.

It takes about a minute on two processors. Along the way it prints the loss on sentences that it
doesn't train on, beside the least that any model can reach.
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from .language import END, LONGEST, NOUNS, VERBS, draw
from .model import IDS, WEIGHTS, StartModel

STEPS, BATCH, RATE = 3_000, 128, 4e-3
PAD = -100  # what cross_entropy leaves out
HELD_OUT = 4_000


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


def loss(model: StartModel, ids: Tensor) -> Tensor:
    """The mean over all words of -log(probability given to the word that came)."""
    logits = model(ids[:, :-1].clamp(min=0))  # padding lies behind, where no word looks
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)


def agreement(model: StartModel, ids: Tensor) -> float:
    """How often, where a verb without an object stands, its number is the likelier one."""
    one, many = ([IDS[word] for word in VERBS[number]] for number in NOUNS)
    chances = torch.softmax(model(ids[:, :-1].clamp(min=0)), dim=-1)  # (B, T, V)
    says_many = chances[..., many].sum(-1) > chances[..., one].sum(-1)  # (B, T)
    target = ids[:, 1:]
    is_one, is_many = (torch.isin(target, torch.tensor(verbs)) for verbs in (one, many))
    right = (is_one & ~says_many) | (is_many & says_many)
    return float(right.sum() / (is_one | is_many).sum())


def train(steps: int = STEPS, seed: int = 0) -> StartModel:
    torch.manual_seed(seed)
    model, chance = StartModel(), random.Random(seed)
    held_out, least = batch(random.Random("held out"), HELD_OUT if steps == STEPS else BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in range(1, steps + 1):
        ids, _ = batch(chance, BATCH)
        optimizer.zero_grad()
        loss(model, ids).backward()
        optimizer.step()
        schedule.step()
        if step % 500 == 0 or step == steps:
            with torch.no_grad():
                now, right = float(loss(model, held_out)), agreement(model, held_out)
            print(f"step {step}: loss {now:.4f}, least {least:.4f}; verbs that agree {right:.2%}")
    return model.eval()


if __name__ == "__main__":
    save_file({name: tensor.contiguous() for name, tensor in train().state_dict().items()}, WEIGHTS)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 2**10:.0f} KiB")
