"""Lessons 01 to 10 and 16: the effect of each part on one tiny language model of the toy English.

The model turns each word into a vector of width 64, passes the vectors to the part, adds the part's
result to the vectors, and predicts the next word with an output layer. The models of all rows are
trained in the same way, for 400 steps of AdamW. Each step uses 32 new texts of 32 words, and the
learning rate falls from 0.006 to 0. The loss is measured on 512 other texts. A second number is the
probability of a plural verb after ". the dogs near the cat".

`train` measures both with the given part, and `show` displays them next to those of five runs with
the finished part. These are stored in loss_so_far.json, which `python -m training.loss_so_far`
rewrites.
"""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import attention, transformer
from ..data import VERBS, VERBS_WITH_OBJECT, WordTokenizer, toy_english
from ..desk.environment import use_threads
from ..desk.language import filled, localised
from ..desk.points import INK, LINE, losses, record_loss
from ..language_model import held_out_loss, train_lm
from .training import seeded

C, T, B = 64, 32, 32
STEPS, LEARNING_RATE, HELD_OUT = 400, 6e-3, 512
BEGINNING, NEW_WORDS, LINES = ". the dogs near the cat", 12, 2
FLOOR = "the floor: no model can do better"
NO_PART = "no part in between"
KEPT = Path(__file__).with_suffix(".json")

Part = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Wiring:
    """The lesson of a row of the table, and how its part is built into the model."""

    lesson: str
    added: bool = True  # the part's result is added to the words' vectors
    positions: bool = False  # a learned vector per position is added to each word
    normed: bool = False  # the part has its own residual, and a norm follows


ROWS = {
    "all words alike": Wiring("01"),
    "how often each word occurs": Wiring("01"),
    "the mean of the past alone": Wiring("01", added=False),
    "the word before, alone": Wiring("03"),
    "the mean of the past and the word before": Wiring("03"),
    "one head": Wiring("04"),
    "four heads": Wiring("06"),
    "one block": Wiring("08", normed=True),
    "two blocks": Wiring("08", normed=True),
    "one head and positions": Wiring("09", positions=True),
    "four heads and positions": Wiring("09", positions=True),
    "one block and positions": Wiring("09", positions=True, normed=True),
    "TinyLM": Wiring("10"),
    "one block of today": Wiring("16", normed=True),
}
COUNTED = {
    "all words alike": toy_english.uniform_loss,
    "how often each word occurs": toy_english.unigram_loss,
}


@dataclass(frozen=True)
class Run:
    """One training run: its row, its loss in nats per word, the probability of a plural verb after
    `BEGINNING`, its part, what the model wrote, and the trained model."""

    row: str
    loss: float
    plural: float
    part: str
    lines: tuple[str, ...]
    model: nn.Module | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return localised(f"{self.row}, with {self.part}: {self.loss:.3f} nats per word")


class Model(nn.Module):
    """A model from ids `(B, T)` to logits `(B, T, V)`, with or without a part in between."""

    def __init__(self, row: Wiring, part: Part | None) -> None:
        super().__init__()
        V = len(toy_english.words)
        self.row, self.part = row, part
        self.token = nn.Embedding(V, C)
        self.position = nn.Embedding(T, C) if row.positions else None
        self.norm = transformer.LayerNorm(C) if row.normed else nn.Identity()
        self.output = nn.Linear(C, V)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)  # (B, T) -> (B, T, C)
        if self.position is not None:
            x = x + self.position(torch.arange(ids.shape[1]))
        if self.part is not None:
            adds = self.row.added and not self.row.normed
            x = x + self.part(x) if adds else self.part(x)
        return self.output(self.norm(x))  # (B, T, C) -> (B, T, V)


# One run ----------------------------------------------------------------------------------------


def train(name: str, part: Part | None = None, seed: int = 0) -> Run:
    """Train the model of a row with your part; `show` prints the result.

    Args:
        name: the row's name as printed by `show`.
        part: a function or an untrained module from `(B, T, C)` to the same shape, with T = 32 and
            C = 64; for "TinyLM", a whole model. The part's parameters are trained on the CPU.
        seed: the seed of the initial parameters and of the texts.

    Raises:
        ValueError: there is no such row.
    """
    row = _row(name)
    if name in COUNTED:
        counted = _counted(name)
        return Run(
            name, COUNTED[name](), plural_probability(counted), "no model", continued(counted)
        )
    loss, model = measured(row, part, seed)
    next_word = _next_word(model)
    return Run(name, loss, plural_probability(next_word), _name(part), continued(next_word), model)


@torch.no_grad()
def head_weights(run: Run, words: Sequence[str]) -> Tensor:
    """Return the attention weights of a run's only head for words of the toy English, `(T, T)`."""
    assert isinstance(run.model, Model) and isinstance(run.model.part, nn.Module)
    x = run.model.token(torch.tensor([toy_english.words.index(word) for word in words]))  # (T, C)
    head: Any = run.model.part
    scores = attention.attention_scores(head.query(x), head.key(x))  # (T, T)
    return attention.masked_softmax(scores, attention.causal_mask(len(words)))


def as_one_text(mean: Part) -> Part:
    """Speed up a mean that loops over texts and tokens: it is called with all texts as one.

    Each channel is averaged by itself, so B texts of C channels have the same means as one text
    of B · C channels: `(B, T, C)` -> `(1, T, B · C)`, and back. The loop over texts runs once.
    """

    @functools.wraps(mean)
    def part(x: Tensor) -> Tensor:
        B, T, C = x.shape
        wide = x.transpose(0, 1).reshape(1, T, B * C)
        return mean(wide).reshape(T, B, C).transpose(0, 1)

    return part


def measured(row: Wiring, part: Part | None, seed: int) -> tuple[float, nn.Module]:
    """Return the loss of a run with any wiring, even one that isn't in the table, and the model."""
    with use_threads(1), seeded(seed):
        model = part if row is ROWS["TinyLM"] else Model(row, part)
        assert isinstance(model, nn.Module)
        train_lm(model.cpu(), _batches(seed, STEPS), LEARNING_RATE)
        return held_out_loss(
            model.eval(), toy_english.draw(HELD_OUT, T + 1, seed=9), HELD_OUT
        ), model


@lru_cache(maxsize=1)
def _batches(seed: int, steps: int) -> list[Tensor]:
    """Return the texts of each step, cached for the next run with the same seed."""
    return [toy_english.draw(B, T + 1, 1_000 + step + 100_000 * seed) for step in range(steps)]


def _name(part: object) -> str:
    """Return what to call a part: "your tril_mean", "the finished tril_mean", or only its name."""
    if part is None:
        return NO_PART
    if isinstance(part, nn.Sequential) and len({type(layer) for layer in part}) == 1:
        return f"{_name(part[0])} × {len(part)}"
    owner = type(part) if isinstance(part, nn.Module) else part
    name, home = getattr(owner, "__name__", type(part).__name__), getattr(owner, "__module__", None)
    if home == "__main__":
        return f"your {name}"
    return f"the finished {name}" if str(home).startswith("course_utils.") else name


# What a model writes ----------------------------------------------------------------------------


def continued(next_word: Callable[[Tensor], Tensor]) -> tuple[str, ...]:
    """Return lines that continue `BEGINNING`, drawn with the same random numbers for each model.

    Args:
        next_word: turns ids `(B, T)` into the probability of each next word, `(B, V)`.
    """
    tokenizer = WordTokenizer(toy_english.words)
    ids = tokenizer.encode(BEGINNING).expand(LINES, -1)  # (B, T)
    generator = torch.Generator().manual_seed(0)
    for _ in range(NEW_WORDS):
        drawn = torch.multinomial(next_word(ids), 1, generator=generator)  # (B, 1)
        ids = torch.cat([ids, drawn], dim=1)
    begun = len(BEGINNING.split())
    return tuple(" ".join(toy_english.words[id] for id in line[begun:]) for line in ids.tolist())


def plural_probability(next_word: Callable[[Tensor], Tensor]) -> float:
    """Return the probability of a plural verb after `BEGINNING`."""
    ids = WordTokenizer(toy_english.words).encode(BEGINNING)[None]  # (1, T)
    plural = [word in VERBS["many"] + VERBS_WITH_OBJECT["many"] for word in toy_english.words]
    return next_word(ids)[0, torch.tensor(plural)].sum().item()


def _next_word(model: nn.Module) -> Callable[[Tensor], Tensor]:
    def probabilities(ids: Tensor) -> Tensor:
        filled = F.pad(ids, (0, T - ids.shape[1]))  # a part may accept only T words
        with torch.no_grad():
            return torch.softmax(model(filled)[:, ids.shape[1] - 1], dim=-1)  # (B, T, V) -> (B, V)

    return probabilities


def _counted(name: str) -> Callable[[Tensor], Tensor]:
    V = len(toy_english.words)
    often = toy_english.often @ toy_english.probability  # (S,) @ (S, V) -> (V,)
    shares = torch.full((V,), 1 / V) if name == "all words alike" else often
    return lambda ids: shares.expand(len(ids), -1)


# The table --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line of the table: what was measured in a run of the reader's, if there is one, and the
    ranges of the five stored runs, which are empty if the numbers are exact."""

    lesson: str
    name: str
    part: str
    measured: tuple[str, str]  # nats per word, and the probability of a plural verb
    finished: tuple[str, str]


@dataclass(frozen=True)
class Table:
    """The loss so far: a line per row, two models' texts, and the reader's older runs.

    In a notebook, it is a table, with the older runs folded; elsewhere it is a text without them.
    """

    lines: list[Line]
    texts: dict[str, Sequence[str]]
    older: list[str]

    def __repr__(self) -> str:
        heads = filled(localised("lesson"), 8) + filled(localised("what the model has"), 42)
        rows = [heads + filled(localised("nats per word"), 22) + localised("plural verb")]
        for line in self.lines:
            numbers = [
                " ".join(filter(None, [own, f"({known})" if known else ""]))
                for own, known in zip(line.measured, line.finished, strict=True)
            ]
            part = f"  {localised(line.part)}" if line.part else ""
            begin = (
                filled(line.lesson, 8) + filled(localised(line.name), 42) + filled(numbers[0], 22)
            )
            rows.append(f"{begin}{numbers[1]:20}{part}".rstrip())
        rows += [
            localised(note)
            for note in ("In parentheses: five runs with the finished part.", *NOTES)
        ]
        for name, lines in self.texts.items():
            rows += [f"{localised(name)}:", *(f"    {BEGINNING} … {line}" for line in lines)]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        heads = (
            "lesson",
            "what the model has",
            "nats per word",
            "five runs",
            "plural verb",
            "five runs",
        )
        rows = [_html_row("th", *map(localised, heads))]
        for line in self.lines:
            (loss, plural), (losses, plurals) = line.measured, line.finished
            name = f"{html.escape(localised(line.name))} {_grey(line.part)}"
            rows.append(_html_row("td", line.lesson, name, loss, losses, plural, plurals))
        notes = ("Grey: five runs with the finished part.", *NOTES)
        paragraphs = [" ".join(html.escape(localised(note)) for note in notes)]
        for name, lines in self.texts.items():
            written = (f"<br>{_grey(BEGINNING)} … {html.escape(line)}" for line in lines)
            paragraphs.append(f"<b>{html.escape(localised(name))}</b>{''.join(written)}")
        older = "<br>".join(html.escape(localised(run)) for run in self.older)
        summary = f"<summary>{localised('Your other runs')}</summary>"
        return (
            f'<div class="loss-so-far" style="color:{INK};overflow-x:auto">'
            '<table style="border-collapse:collapse;margin:0;color:inherit">'
            f"<thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>"
            f"{''.join(f'<p>{text}</p>' for text in paragraphs)}"
            f"{f'<details>{summary}<p>{older}</p></details>' if older else ''}</div>"
        )


NOTES = (
    f'Plural verb: the probability of "sleep", "see" or another plural verb after "{BEGINNING}".',
    f"Each model is trained for {STEPS} steps, at a learning rate that falls from "
    f"{LEARNING_RATE:g} to 0; its loss is that on {HELD_OUT} other texts.",
)
COLUMNS = (  # the style of each column's cells
    "text-align:left",
    "text-align:left;min-width:18em",
    *2 * ("text-align:right;font-weight:bold", "text-align:left;white-space:nowrap;opacity:0.65"),
)


def _html_row(tag: str, *cells: str) -> str:
    shared = f"padding:0.15em 0.8em 0.15em 0;border-bottom:1px solid {LINE}"
    each = (
        f'<{tag} style="{shared};{own}">{cell}</{tag}>'
        for own, cell in zip(COLUMNS, cells, strict=True)
    )
    return f"<tr>{''.join(each)}</tr>"


def _grey(text: str) -> str:
    return f'<span style="opacity:0.65">{html.escape(localised(text))}</span>' if text else ""


def show(*shown: str | Run) -> None:
    """Display the table up to the last of the given rows, with the given runs, and the floor.

    Your latest earlier run of each row is in the table too, if your progress is stored. The models
    of the last row and of the one before continue the same beginning in two lines.

    Args:
        shown: names of rows, and results of `train`.

    Raises:
        ValueError: there is no such row.
    """
    runs = [item for item in shown if isinstance(item, Run)]
    names = [item.row if isinstance(item, Run) else item for item in shown]
    last = max(list(ROWS).index(name) for name in names if _row(name))
    lines: list[Line] = []
    texts: dict[str, Sequence[str]] = {}
    older: list[str] = []
    for name in list(ROWS)[: last + 1]:
        now = [run for run in runs if run.row == name]
        past = _earlier(name, {run.part for run in now})
        inside = now or past[-1:]
        lines += _lines(name, inside)
        older += map(str, past[: len(past) - (not now)])
        texts[name] = inside[0].lines if inside else stored_runs()[name]["lines"]
    floor = _lines(FLOOR, [])
    _display(Table([*lines, *floor], dict([*texts.items()][-2:]), older))
    for run in runs:
        if run.part.startswith("your "):
            record_loss(run.row, run.part, run.loss, run.plural, run.lines)


def _display(table: Table) -> None:
    from IPython.display import display  # IPython isn't needed when a class is graded

    display(table)


def _earlier(name: str, without: set[str]) -> list[Run]:
    """Return the reader's stored runs of a row, the latest last."""
    return [
        Run(name, run["loss"], run["plural"], part, tuple(run["lines"]))
        for part, run in losses().get(name, {}).items()
        if part not in without
    ]


def _lines(name: str, runs: Sequence[Run]) -> list[Line]:
    known = stored_runs()[name]
    lesson = ROWS[name].lesson if name in ROWS else ""
    ranges = _range(known["losses"], 3), _range(known["plural"], 2)
    if name in COUNTED or name == FLOOR:
        return [Line(lesson, name, "", ranges, ("", ""))]
    if not runs:
        return [Line(lesson, name, "", ("", ""), ranges)]
    return [
        Line(
            lesson,
            name,
            run.part.replace(NO_PART, ""),
            (f"{run.loss:.3f}", f"{run.plural:.2f}"),
            ranges,
        )
        for run in runs
    ]


def _range(numbers: Iterable[float], digits: int) -> str:
    ends = [f"{bound(numbers):.{digits}f}" for bound in (min, max)]
    return "–".join(dict.fromkeys(ends))


def _row(name: str) -> Wiring:
    if name not in ROWS:
        raise ValueError(f"there is no row {name!r}; the rows are {', '.join(map(repr, ROWS))}")
    return ROWS[name]


@cache
def stored_runs() -> dict[str, dict[str, Any]]:
    """Return what loss_so_far.json stores for each row: the losses and probabilities of five runs,
    and the first run's lines."""
    rows: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))["rows"]
    return rows
