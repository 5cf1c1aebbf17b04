"""Lesson 14: the eight programs inside small language models, and instruments to examine them.

Each model is a small version of lesson 10's model, trained on the toy English with one broken part.
This module also shows the programs and their symptoms.

    python -m course_utils.experiments.clinic

This command trains the models in 1.5 minutes and stores them next to this file in half precision.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .. import clinic
from ..attention import merge_heads, split_heads
from ..data import WordTokenizer, toy_english
from ..desk.environment import device, use_threads
from ..language_model import TinyLM, next_logits, training_step
from ..transformer import FeedForward, LayerNorm
from . import patients
from .measuring import seconds

LETTERS = "ABCDEFGH"
AS_FOUND: dict[str, Callable[..., Any]] = {
    letter: getattr(patients, f"patient_{letter.lower()}") for letter in LETTERS
}
FIXED: dict[str, Callable[..., Any]] = {
    "A": clinic.patient_a,
    "B": clinic.patient_b,
    "C": clinic.patient_c,
    "D": clinic.patient_d,
    "E": clinic.patient_e,
    "F": clinic.patient_f,
    "G": clinic.patient_g,
    "H": clinic.patient_h,
}
WIDTH, HEADS, UNEVEN, CONTEXT, STEPS = 32, 4, 5, 24, 900
KEPT = Path(__file__).with_name("clinic.safetensors")
words = WordTokenizer(toy_english.words)


# Each cause, with the symptom that it would produce.
CAUSES = {
    "mask after softmax": "Rows then don't sum to 1, whatever else is right.",
    "mask the wrong way round": "Tokens then see only the future, and the first sees the most.",
    "scores not scaled": "Scores then grow with the width, and one key gets all the weight.",
    "softmax over queries": "Columns then sum to 1, but rows don't.",
    "rows hidden, not columns": "Real tokens then mix padding into their results.",
    "future not hidden": "Each token then sees the one that it should predict.",
    "heads cut without a swap": "A head then holds pieces of several tokens.",
    "channels left over": "Some channels then have no effect.",
    "places from 1": "Each token is then one position too far, and the last token has no position.",
    "padding counted as places": "A text then begins at a different position in each batch.",
    "nothing kept between words": "Each new word then costs as much as all those before it.",
    "dropout never off": "The same input then gives a different result each time.",
}


# A program to read ------------------------------------------------------------------------------


class Program:
    """The source of a program, for a notebook or a terminal."""

    def __init__(self, source: str) -> None:
        self.source = source.strip()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/markdown": f"```python\n{self.source}\n```", "text/plain": self.source}

    def __repr__(self) -> str:
        return self.source


def program(letter: str) -> Program:
    """The program of one patient; the patients are called `A` to `H`."""
    return Program(inspect.getsource(AS_FOUND[letter]))


# Models with one broken part --------------------------------------------------------------------


class Ward(nn.Module):
    """A small GPT on the toy English, in which one part may be a broken program.

    Args:
        patient: the letter of the broken program; "" for a sound model.

    Shapes: `forward(ids, pad_mask=None)` takes `(B, T)` and a bool `(B, T)`, and returns
    `(B, T, V)`.
    """

    def __init__(self, patient: str = "") -> None:
        super().__init__()
        V, C = len(toy_english.words), WIDTH
        self.patient = patient
        self.token = nn.Parameter(torch.randn(V, C))
        self.position = nn.Parameter(torch.randn(CONTEXT, C))
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": LayerNorm(C),
                    "query": nn.Linear(C, C, bias=False),
                    "key": nn.Linear(C, C, bias=False),
                    "value": nn.Linear(C, C, bias=False),
                    "out_proj": nn.Linear(C, C),
                    "norm2": LayerNorm(C),
                    "feed_forward": FeedForward(C),
                }
            )
            for _ in range(2)
        )
        self.norm, self.head = LayerNorm(C), nn.Linear(C, V, bias=False)
        self.looked: list[tuple[Tensor, Tensor]] = []  # queries and keys of the last call

    def forward(self, ids: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        if pad_mask is None:
            pad_mask = torch.zeros_like(ids, dtype=torch.bool)
        rows = AS_FOUND["F"] if self.patient == "F" else FIXED["F"]
        x, self.looked = rows(ids, pad_mask, self.token, self.position), []
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleDict)
            normed = layer["norm1"](x)
            query, key = layer["query"](normed), layer["key"](normed)
            self.looked.append((query, key))
            context = self.attend(query, key, layer["value"](normed), pad_mask)
            x = x + layer["out_proj"](context)
            x = x + layer["feed_forward"](layer["norm2"](x))
        return self.head(self.norm(x))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, pad_mask: Tensor) -> Tensor:
        """Attention: `(B, T, C)` three times and a bool `(B, T)`, to `(B, T, C)`."""
        program = AS_FOUND.get(self.patient, FIXED["A"])
        if self.patient == "C":
            return program(query, key, value, UNEVEN)
        if self.patient == "G":
            return program(query, key, value, HEADS)
        query, key, value = (split_heads(x, HEADS) for x in (query, key, value))
        if self.patient in ("B", "E"):
            return merge_heads(program(query, key, value))
        attend = program if self.patient == "A" else FIXED["A"]
        return merge_heads(attend(query, key, value, pad_mask))

    @property
    def hides_padding(self) -> bool:
        """Whether the attention takes a padding mask; otherwise padding must be on the right."""
        return self.patient not in tuple("BCEG")


def train(patient: str = "", steps: int = STEPS) -> tuple[Ward, list[float]]:
    """Train a model with a broken part; return the model and the loss before each step."""
    with torch.random.fork_rng(devices=[]), use_threads(1):
        torch.manual_seed(0)
        model, losses = Ward(patient), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)
        T = CONTEXT - (patient == "F")  # patient F fails on the longest texts
        step = AS_FOUND["D"] if patient == "D" else training_step
        for ids in toy_english.draw(16 * steps, T, seed=1).view(steps, 16, T):
            losses.append(step(model, ids, optimizer))
            schedule.step()
    return model.eval(), losses


BY_THEMSELVES = tuple("BCDEFG")  # A and H have bugs that don't affect training


def keep() -> None:
    """Train all models; store their parameters, and their losses averaged over ten steps."""
    kept: dict[str, Tensor] = {}
    for patient in ("", *BY_THEMSELVES):
        model, losses = train(patient)
        kept |= {f"{patient}.{name}": w.half() for name, w in model.state_dict().items()}
        kept[f"{patient}.losses"] = torch.tensor(losses).view(-1, 10).mean(dim=1)
    save_file(kept, KEPT)


@cache
def _kept() -> dict[str, Tensor]:
    return load_file(KEPT)


@cache
def trained(patient: str = "") -> Ward:
    """The model that `keep` trained with this patient's part; for A and H, a sound model."""
    own = patient if patient in BY_THEMSELVES else ""
    with torch.random.fork_rng(devices=[]):
        model = Ward(patient)
    named = {n: _kept()[f"{own}.{n}"].float() for n in model.state_dict()}
    model.load_state_dict(named)
    return model.eval()


def losses(patient: str = "") -> dict[int, float]:
    """The training loss of a patient's model by step, averaged over ten steps."""
    means = _kept()[f"{patient if patient in BY_THEMSELVES else ''}.losses"]
    return {10 * i + 5: loss for i, loss in enumerate(means.tolist())}


FLOOR = 1.228  # nats per word: `toy_english.least_loss(24)`, which takes seconds to compute


# Four instruments -------------------------------------------------------------------------------


@torch.no_grad()
def row_sums(model: Ward) -> bool:
    """Whether attention over values of 1 gives 1 in every layer."""
    ids = toy_english.draw(4, 15, seed=3)
    model(ids)
    none = torch.zeros_like(ids, dtype=torch.bool)
    sums = [model.attend(q, k, torch.ones_like(q), none) for q, k in model.looked]
    return all(torch.allclose(x, torch.ones_like(x), atol=1e-4) for x in sums)


@torch.no_grad()
def as_alone(model: Ward) -> bool:
    """Whether a text gives the same result alone and in a padded batch."""
    long, short = toy_english.draw(2, 15, seed=4), 9
    ids = long.clone()
    mask = torch.zeros_like(ids, dtype=torch.bool)
    own = slice(-short, None) if model.hides_padding else slice(short)
    alone = model(ids[:1, own])
    mask[0] = True
    mask[0, own] = False
    ids[0] = torch.where(mask[0], 0, ids[0])
    return torch.allclose(model(ids, mask)[:1, own], alone, atol=1e-3)


@torch.no_grad()
def past_stays(model: Ward) -> bool:
    """Whether logits stay the same when only later words change."""
    ids, others = toy_english.draw(8, 15, seed=5).split(4)
    changed = torch.cat([ids[:, :10], others[:, 10:]], dim=1)
    return torch.allclose(model(ids)[:, :10], model(changed)[:, :10], atol=1e-3)


def free_text(model: Ward, beginning: str = "the dogs", length: int = CONTEXT + 1) -> str:
    """A greedily generated text, one word longer than fits, followed by the error, if any."""
    ids = words.encode(beginning)[None]
    try:
        while ids.shape[1] < length:
            ids = torch.cat([ids, _likeliest(model, ids[:, -CONTEXT:])], dim=1)
    except IndexError:
        return f"{words.decode(ids[0])} ... IndexError"
    return words.decode(ids[0])


@torch.no_grad()
def _likeliest(model: Ward, ids: Tensor, pad_mask: Tensor | None = None) -> Tensor:
    return model(ids, pad_mask)[:, -1].argmax(-1, keepdim=True)  # (B, T, V) -> (B, 1)


def says_it(ids: Tensor) -> bool:
    """Whether a text is grammatical."""
    try:
        toy_english.next_word(ids[None])
    except ValueError:
        return False
    return True


def speaks(model: Ward) -> bool:
    """Whether most of 12 texts that the model continues to its full context are grammatical."""
    ids = toy_english.draw(12, 6, seed=9)
    try:
        while ids.shape[1] < CONTEXT:
            ids = torch.cat([ids, _likeliest(model, ids)], dim=1)
        _likeliest(model, ids)
    except IndexError:
        return False
    return sum(map(says_it, ids)) > 6


INSTRUMENTS: dict[str, Callable[[Ward], bool]] = {
    "mean of ones": row_sums,
    "batch as alone": as_alone,
    "change the future": past_stays,
    "let it write": speaks,
}


def examined() -> dict[str, dict[str, bool]]:
    """Whether each instrument finds a bug in each patient; "sound" is the model without a bug."""
    patients = {"sound": trained(), **{letter: trained(letter) for letter in LETTERS}}
    return {
        name: {test: not fine(model) for test, fine in INSTRUMENTS.items()}
        for name, model in patients.items()
    }


# Symptoms ---------------------------------------------------------------------------------------


def next_word(model: Ward, text: str, beside: str = "") -> str:
    """The most likely next word of each text; in a batch, the shorter text is left-padded."""
    rows = [words.encode(t) for t in (text, beside) if t]
    longest = max(map(len, rows))
    ids = torch.stack([nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    mask = torch.arange(longest) < torch.tensor([longest - len(row) for row in rows])[:, None]
    return words.decode(_likeliest(model, ids, mask)[0])


def drawn(*shape: int) -> Iterator[Tensor]:
    """Queries, keys and values of this shape, on `device()`; every call returns the same ones."""
    numbers = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    return iter(numbers.to(device()))


LONG = 40  # the size of the numbers in queries and keys in the float16 test


def in_half(attend: Callable[..., Tensor], width: int) -> Tensor:
    """The result of an attention in float16, for queries and keys whose numbers are about 40."""
    query, key, value = drawn(1, 1, 8, width)
    return attend(LONG * query.half(), LONG * key.half(), value.half())


def train_in_half(attend: Callable[..., Tensor], cure: Callable[[Tensor], Tensor]) -> list[float]:
    """Train a layer's `value` in float16 so that the layer reproduces its input. Returns three
    losses, each after `cure`, and one parameter of the layer."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, 8, 256, generator=generator).half()
    weight, seen = torch.zeros(256, 256).half().requires_grad_(), []
    for _ in range(3):
        out = attend(LONG * x, LONG * x, x @ weight)
        loss = cure((out - x).float().square().mean())
        (gradient,) = torch.autograd.grad(loss, weight)
        weight = (weight - gradient).detach().requires_grad_()
        seen.append(loss.item())
    return [*seen, weight[0, 0].item()]


def heard_channels(attend: Callable[..., Tensor], width: int, num_heads: int) -> list[bool]:
    """Whether each channel of the values affects the result."""
    query, key, value = drawn(1, 6, width)
    value.requires_grad_()
    (gradient,) = torch.autograd.grad(attend(query, key, value, num_heads).sum(), value)
    said: list[bool] = (gradient.abs().sum(dim=(0, 1)) > 0).tolist()
    return said


def loudness(attend: Callable[..., Tensor], T: int = 32) -> Tensor:
    """The mean norm of the output at each position, `(T,)`; all inputs have equal norms."""
    query, key, value = drawn(64, 1, T, 16)
    value = value + 1  # all tokens have a component in common
    return attend(query, key, value).norm(dim=-1).mean(dim=(0, 1))


def places_of(program: Callable[..., Tensor], length: int, table: int = 24) -> str:
    """The outcome of a program for a text of `length` tokens, with a table of 24 positions."""
    ids, generator = torch.zeros(1, length, dtype=torch.int64), torch.Generator().manual_seed(0)
    token, position = torch.randn(2, table, 4, generator=generator)
    try:
        program(ids, ids.bool(), token, position)
    except IndexError as error:
        return f"IndexError: {error}"
    return "fine"


class Reader(nn.Module):
    """A `TinyLM` with the interface that patient H needs.

    Shapes: `forward(new, cache=None)` takes `(B, T)` new tokens and the cache of earlier ones, and
    returns `(B, T, V)` logits and the cache. T is 1 if there is a cache.
    """

    def __init__(self, model: TinyLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, new: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        known, caches = cache or (0, [])
        logits, caches = next_logits(self.model, new, caches)  # (B, V), for the last token
        return logits[:, None], (known + new.shape[1], caches)


@cache
def reader(context: int = 260) -> Reader:
    """An untrained model with four layers of width 128; training doesn't change its speed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Reader(TinyLM(50, 128, 4, context, 4))


def _written(program: Callable[..., Tensor], new: int) -> Tensor:
    return program(reader(), torch.zeros(1, 1, dtype=torch.int64), new)


def times(program: Callable[..., Tensor], counts: Sequence[int]) -> list[float]:
    """The time in seconds that it takes on this machine to generate texts of each length."""
    with use_threads(1):
        _written(program, 8)  # the first words take longer
        return [seconds(partial(_written, program, new), rounds=1) for new in counts]


if __name__ == "__main__":
    keep()
