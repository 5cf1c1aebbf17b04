"""Lesson 14: the eight programs inside small language models, and instruments to examine them.

Each model is a small version of lesson 10's model, trained on the toy English with one broken part.
This module also computes the symptoms of a program, as found or fixed. `python -m
training.small_models` has trained the models and stored them next to this file, in half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from .. import clinic
from ..attention import merge_heads, split_heads
from ..data import WordTokenizer, toy_english
from ..desk.environment import device, use_threads
from ..desk.language import filled, localised
from ..language_model import TinyLM, next_logits, training_step
from ..transformer import FeedForward, LayerNorm
from . import patients
from .measuring import seconds
from .training import seeded

LETTERS = "ABCDEFGH"
AS_FOUND: dict[str, Callable[..., Any]] = {
    letter: getattr(patients, f"patient_{letter.lower()}") for letter in LETTERS
}
FIXED: dict[str, Callable[..., Any]] = {
    letter: getattr(clinic, f"patient_{letter.lower()}") for letter in LETTERS
}
WIDTH, HEADS, UNEVEN, CONTEXT, STEPS = 32, 4, 5, 24, 900
KEPT = Path(__file__).with_name("clinic.safetensors")
words = WordTokenizer(toy_english.words)


# Models with one broken part --------------------------------------------------------------------


class ClinicModel(nn.Module):
    """A small GPT on the toy English, in which one part may be a patient's program.

    Args:
        patient: the letter of the patient; "" for a sound model.
        program: the patient's program, for example a fixed one; None for the program as found.

    Shapes: `forward(ids, pad_mask=None)` takes `(B, T)` and a bool `(B, T)`, and returns
    `(B, T, V)`.
    """

    def __init__(self, patient: str = "", program: Callable[..., Any] | None = None) -> None:
        super().__init__()
        V, C = len(toy_english.words), WIDTH
        self.patient, self.program = patient, program or AS_FOUND.get(patient, FIXED["A"])
        self.num_heads = UNEVEN if patient == "C" and program is None else HEADS
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
        rows = self.program if self.patient == "F" else FIXED["F"]
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
        if self.patient in ("C", "G"):
            mixed: Tensor = self.program(query, key, value, self.num_heads)
            return mixed
        query, key, value = (split_heads(x, HEADS) for x in (query, key, value))
        if self.patient in ("B", "E"):
            return merge_heads(self.program(query, key, value))
        attend = self.program if self.patient == "A" else FIXED["A"]
        return merge_heads(attend(query, key, value, pad_mask))

    @property
    def hides_padding(self) -> bool:
        """Whether the attention takes a padding mask; otherwise padding must be on the right."""
        return self.patient not in tuple("BCEG")


def train(
    patient: str = "", steps: int = STEPS, program: Callable[..., Any] | None = None
) -> tuple[ClinicModel, list[float]]:
    """Train a model with a patient's program, as found or as given.

    Returns:
        The model and the loss before each step.
    """
    with seeded(), use_threads(1):
        model, losses = ClinicModel(patient, program), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)
        T = CONTEXT - (patient == "F" and program is None)  # F fails on the longest texts
        step = model.program if patient == "D" else training_step
        for ids in toy_english.draw(16 * steps, T, seed=1).view(steps, 16, T):
            losses.append(step(model, ids, optimizer))
            schedule.step()
    return model.eval(), losses


BY_THEMSELVES = tuple("BCDEFG")  # A and H have bugs that don't affect training


@cache
def _kept() -> dict[str, Tensor]:
    return load_file(KEPT)


def trained(patient: str = "") -> ClinicModel:
    """The stored model trained with this patient's part; for A and H, a sound model."""
    return _with_parameters(patient if patient in BY_THEMSELVES else "", patient)


def treated(patient: str, program: Callable[..., Any]) -> ClinicModel:
    """Return the sound model with its version of this patient's program replaced by `program`."""
    return _with_parameters("", patient, program)


def _with_parameters(
    of: str, patient: str, program: Callable[..., Any] | None = None
) -> ClinicModel:
    with torch.random.fork_rng(devices=[]):
        model = ClinicModel(patient, program)
    model.load_state_dict({n: _kept()[f"{of}.{n}"].float() for n in model.state_dict()})
    return model.eval()


def losses(patient: str = "") -> dict[int, float]:
    """The training loss of a patient's model by step, averaged over ten steps."""
    means = _kept()[f"{patient if patient in BY_THEMSELVES else ''}.losses"]
    return {10 * i + 5: loss for i, loss in enumerate(means.tolist())}


FLOOR = 1.228  # nats per word: `toy_english.least_loss(24)`, which takes seconds to compute


# Four instruments -------------------------------------------------------------------------------


@torch.no_grad()
def row_sums(model: ClinicModel) -> bool:
    """Whether attention over values of 1 gives 1 in every layer."""
    ids = toy_english.draw(4, 15, seed=3)
    model(ids)
    none = torch.zeros_like(ids, dtype=torch.bool)
    sums = [model.attend(q, k, torch.ones_like(q), none) for q, k in model.looked]
    return all(torch.allclose(x, torch.ones_like(x), atol=1e-4) for x in sums)


@torch.no_grad()
def same_alone(model: ClinicModel) -> bool:
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
def past_stays(model: ClinicModel) -> bool:
    """Whether logits stay the same when only later words change."""
    ids, others = toy_english.draw(8, 15, seed=5).split(4)
    changed = torch.cat([ids[:, :10], others[:, 10:]], dim=1)
    return torch.allclose(model(ids)[:, :10], model(changed)[:, :10], atol=1e-3)


def free_text(model: ClinicModel, beginning: str, length: int) -> str:
    """A greedily generated text of this length, or its beginning and the error, if any."""
    ids = words.encode(beginning)[None]
    try:
        while ids.shape[1] < length:
            ids = torch.cat([ids, _most_likely(model, ids[:, -CONTEXT:])], dim=1)
    except IndexError:
        return f"{words.decode(ids[0])} ... IndexError"
    return words.decode(ids[0])


@torch.no_grad()
def _most_likely(model: ClinicModel, ids: Tensor, pad_mask: Tensor | None = None) -> Tensor:
    return model(ids, pad_mask)[:, -1].argmax(-1, keepdim=True)  # (B, T, V) -> (B, 1)


def is_grammatical(ids: Tensor) -> bool:
    """Whether a text is grammatical."""
    try:
        toy_english.next_word(ids[None])
    except ValueError:
        return False
    return True


def speaks(model: ClinicModel) -> bool:
    """Whether most of 12 texts that the model continues to its full context are grammatical."""
    ids = toy_english.draw(12, 6, seed=9)
    try:
        while ids.shape[1] < CONTEXT:
            ids = torch.cat([ids, _most_likely(model, ids)], dim=1)
        _most_likely(model, ids)
    except IndexError:
        return False
    return sum(map(is_grammatical, ids)) > 6


INSTRUMENTS: dict[str, Callable[[ClinicModel], bool]] = {
    "mean of ones": row_sums,
    "batch as alone": same_alone,
    "change the future": past_stays,
    "let it write": speaks,
}


def as_found() -> dict[str, ClinicModel]:
    """Return a sound model, and the models of the eight patients as found, by name."""
    return {"sound": trained(), **{letter: trained(letter) for letter in LETTERS}}


def examined(models: Mapping[str, ClinicModel]) -> dict[str, dict[str, bool]]:
    """Return whether each instrument finds a fault in each model, by model and instrument."""
    return {
        name: {test: not fine(model) for test, fine in INSTRUMENTS.items()}
        for name, model in sorted(models.items(), key=lambda named: (len(named[0]) == 1, named[0]))
    }


def show_examined(models: Mapping[str, ClinicModel]) -> None:
    """Print the table of `examined`."""
    print((" " * 8 + "".join(filled(localised(name), 20) for name in INSTRUMENTS)).rstrip())
    for name, row in examined(models).items():
        print(f"{name:8}" + "".join(f"{'x' if hit else '.':20}" for hit in row.values()).rstrip())


# Symptoms ---------------------------------------------------------------------------------------


def next_word(model: ClinicModel, text: str, beside: str = "") -> str:
    """The most likely next word of each text; in a batch, the shorter text is left-padded."""
    rows = [words.encode(t) for t in (text, beside) if t]
    longest = max(map(len, rows))
    ids = torch.stack([nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
    mask = torch.arange(longest) < torch.tensor([longest - len(row) for row in rows])[:, None]
    return words.decode(_most_likely(model, ids, mask)[0])


def in_a_batch(program: Callable[..., Any], text: str, beside: str) -> None:
    """Print patient A's next word after a text, alone and in a batch with a longer text."""
    model = treated("A", program)
    print(f"{filled(localised('alone:'), 12)}{text} {next_word(model, text)}")
    print(f"{filled(localised('in a batch:'), 12)}{text} {next_word(model, text, beside)}")


def loss_and_text(
    patient: str, beginning: str, program: Callable[..., Any] | None = None
) -> ClinicModel:
    """Print the last loss of a patient's model, as stored or newly trained, and a text it writes.

    Args:
        program: the fixed program, with which a new model is trained for 300 steps; None uses the
            stored model.

    Returns:
        The model.
    """
    if program is None:
        model, last = trained(patient), list(losses(patient).values())[-1]
    else:
        model, seen = train(patient, 300, program)
        last = fmean(seen[-10:])
    print(localised(f"loss {last:.1f}, and the floor is {FLOOR:.2f}"))
    print(free_text(model, beginning, length=20))
    return model


def drawn(*shape: int) -> Iterator[Tensor]:
    """Queries, keys and values of this shape, on `device()`; every call returns the same ones."""
    numbers = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    return iter(numbers.to(device()))


LONG = 40  # the size of the numbers in queries and keys in the float16 test


def in_half(attend: Callable[..., Tensor], width: int) -> Tensor:
    """The result of an attention in float16, for queries and keys whose numbers are about 40."""
    query, key, value = drawn(1, 1, 8, width)
    return attend(LONG * query.half(), LONG * key.half(), value.half())


def in_half_precision(attend: Callable[..., Tensor], widths: Sequence[int]) -> None:
    """Print for each width whether `in_half` gives NaN."""
    for width in widths:
        bad = bool(in_half(attend, width).isnan().any())
        print(localised(f"{width} wide:").rjust(9), "NaN" if bad else localised("fine"))


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


def channels_used(attend: Callable[..., Tensor], width: int, num_heads: int) -> str:
    """Return the numbers of the value channels that affect the result, or the error."""
    query, key, value = drawn(1, 6, width)
    value.requires_grad_()
    try:
        (gradient,) = torch.autograd.grad(attend(query, key, value, num_heads).sum(), value)
    except ValueError as error:
        return f"ValueError: {error}"
    return " ".join(str(c) for c in range(width) if gradient[..., c].any())


def output_norms(attend: Callable[..., Tensor]) -> Tensor:
    """Return the output's mean norm at each position, `(32,)`, for values of about equal norm."""
    query, key, value = drawn(64, 1, 32, 16)
    value = value + 1  # all tokens have a component in common
    return attend(query, key, value).norm(dim=-1).mean(dim=(0, 1))


def outcome(program: Callable[..., Tensor], length: int) -> str:
    """Run patient F on a text of `length` tokens with a table of 24 positions; return "fine" or
    the error."""
    ids, generator = torch.zeros(1, length, dtype=torch.int64), torch.Generator().manual_seed(0)
    token, position = torch.randn(2, 24, 4, generator=generator)
    try:
        program(ids, ids.bool(), token, position)
    except IndexError as error:
        return f"IndexError: {error}"
    return "fine"


def run_on_lengths(program: Callable[..., Tensor], lengths: Sequence[int]) -> None:
    """Print the `outcome` of patient F for texts of these lengths."""
    for length in lengths:
        print(localised(f"{length} tokens:").rjust(10), localised(outcome(program, length)))


class WithCache(nn.Module):
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
def reader() -> WithCache:
    """An untrained model with four layers of width 128; training doesn't change its speed."""
    with seeded():
        return WithCache(TinyLM(50, 128, 4, 260, 4))


def _written(program: Callable[..., Tensor], new: int) -> Tensor:
    return program(reader(), torch.zeros(1, 1, dtype=torch.int64), new)


def times(program: Callable[..., Tensor], counts: Sequence[int]) -> list[float]:
    """Return the milliseconds per word for generating texts of each length on this machine."""
    with use_threads(1):
        _written(program, 8)  # the first words take longer
        return [1000 * seconds(partial(_written, program, n), rounds=1) / n for n in counts]
