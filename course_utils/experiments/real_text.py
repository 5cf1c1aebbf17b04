"""Lesson 17: a small modern model on the source of Python's standard library.

The stored model was trained by `python -m training.train_real_text`; docs/benchmarks.md has the
command and the curve.
"""

import ast
import bz2
import gzip
import json
import lzma
import math
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

from ..attention import attention_scores, causal_mask, split_heads
from ..data.real_text import Merges, bits_per_byte, decode, encode_text, vocabulary
from ..data.real_text import encode as finished_encode
from ..desk.environment import use_threads
from ..desk.language import localised
from ..language_model import evaluating
from ..todays_models import ModernLM, sample_cached
from ..transformer import apply_rope

STORED = Path(__file__).with_name("real_text.safetensors")

VOCABULARY = 1_024
SIZES = {
    "d_model": 128,
    "num_heads": 4,
    "num_kv_heads": 2,
    "context_length": 256,
    "num_layers": 4,
    "d_ff": 344,
}


def token_lengths(merges: Merges) -> Tensor:
    """Return the number of bytes of each token, `(V,)`."""
    return torch.tensor([len(token) for token in vocabulary(merges)])


@torch.no_grad()
def held_out_bits(model: nn.Module, ids: Tensor, lengths: Tensor, context: int = 256) -> float:
    """Return a model's bits per byte on a text, which it reads in adjacent windows.

    Args:
        ids: the ids of the text, `(N,)`. The first token of the text and an incomplete last window
            are not counted.
        lengths: the number of bytes of each token, `(V,)`.
        context: the number of tokens in a window. Tokens don't attend to earlier windows, so
            the first tokens of each window have little context.
    """
    windows = ids.unfold(0, context + 1, context)  # (W, context + 1)
    bits, count = 0.0, 0
    with evaluating(model):
        for batch in windows.split(16):
            targets = batch[:, 1:]
            size = int(lengths[targets].sum())
            bits += size * bits_per_byte(model(batch[:, :-1]), targets, lengths)
            count += size
    return bits / count


@lru_cache(maxsize=1)
def stored_model() -> tuple[ModernLM, Merges]:
    """Return the stored model in evaluation mode, and the merges of its tokenizer."""
    with safe_open(STORED, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        sizes = json.loads(file.metadata()["sizes"])
    merges = {tuple(pair): 256 + i for i, pair in enumerate(tensors.pop("merges").tolist())}
    model = ModernLM(**sizes)
    model.load_state_dict({name: value.float() for name, value in tensors.items()})
    return model.eval().requires_grad_(False), merges


# Its merges were learned from these pieces, which are simpler than those of the lesson.
STORED_PIECE = re.compile(rb" ?[A-Za-z_]+| ?[0-9]+| ?[^\sA-Za-z_0-9]+|\s+")


def stored_pieces(text: bytes) -> list[bytes]:
    """Cut a text as the stored model needs it, which keeps white space apart from words."""
    return STORED_PIECE.findall(text)


# Compressors and n-grams ------------------------------------------------------------------------


def compressed_bits(text: bytes, before: bytes = b"") -> dict[str, float]:
    """Return a text's bits per byte with three compressors, which may read another text first."""
    # As much as `xz` looks back over at most: 64 MB would take hundreds of megabytes of memory.
    window = 2 ** (len(before + text) - 1).bit_length()
    xz = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": max(window, 4096)}]
    programs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": lambda data: gzip.compress(data, 9),
        "bz2": lambda data: bz2.compress(data, 9),
        "xz": lambda data: lzma.compress(data, filters=xz),
    }
    found = {}
    for name, program in programs.items():
        alone = len(program(before)) if before else 0
        found[name] = 8 * (len(program(before + text)) - alone) / len(text)
    return found


class NGram:
    """A model that counts which tokens follow each sequence of `order - 1` tokens.

    Counts of all orders are mixed as in Witten and Bell (1991): the more different tokens have
    followed a context, the more weight the next shorter context gets.

    Args:
        ids: the training text, `(N,)`.
        vocab_size: the vocabulary size V, at most 4,096.
        order: the number of tokens in the longest pattern.
    """

    def __init__(self, ids: Tensor, vocab_size: int, order: int = 5) -> None:
        self.vocab_size, self.order = vocab_size, order
        self.tables = []
        for n in range(1, order + 1):
            patterns, counts = self._keys(ids.unfold(0, n, 1)).unique(return_counts=True)
            contexts, kinds = (patterns // vocab_size).unique_consecutive(return_counts=True)
            at = torch.repeat_interleave(torch.arange(len(kinds)), kinds)
            sums = torch.zeros(len(kinds), dtype=torch.int64).index_add(0, at, counts)
            self.tables.append((patterns, counts, contexts, kinds, sums))

    def _keys(self, rows: Tensor) -> Tensor:
        """Return one number per row of tokens, `(N, n)` -> `(N,)`; equal rows get equal numbers."""
        keys = torch.zeros(len(rows), dtype=torch.int64)
        for column in rows.T:
            keys = keys * self.vocab_size + column
        return keys

    def probability(self, rows: Tensor) -> Tensor:
        """Return the probability of each row's last token, `(N, order)` -> `(N,)`, in float64."""
        mixed = torch.full((len(rows),), 1 / self.vocab_size, dtype=torch.float64)
        for n, (patterns, counts, contexts, kinds, sums) in enumerate(self.tables, start=1):
            keys = self._keys(rows[:, -n:])
            often = _looked_up(keys, patterns, counts)
            context = keys // self.vocab_size
            kind, total = (_looked_up(context, contexts, table) for table in (kinds, sums))
            known = total > 0
            better = (often + kind * mixed) / (total + kind).clamp(min=1)
            mixed = torch.where(known, better, mixed)
        return mixed

    def bits_per_byte(self, ids: Tensor, lengths: Tensor) -> float:
        """Return the bits per byte of a text, from the first token that has a full context."""
        rows = ids.unfold(0, self.order, 1)
        bits = -self.probability(rows).log2().sum()
        return float(bits / lengths[rows[:, -1]].sum())


def _looked_up(keys: Tensor, known: Tensor, values: Tensor) -> Tensor:
    """Return the value of each key, in float64; 0 for keys not in `known`, which is sorted."""
    at = torch.searchsorted(known, keys).clamp(max=len(known) - 1)
    return torch.where(known[at] == keys, values[at], 0).double()


# What the model writes --------------------------------------------------------------------------


PROMPTS = ("def", "def get", "def _read(self", "def close(", "def parse", "def __init__(self")


def writer(temperature: float) -> Callable[[bytes, torch.Generator], bytes]:
    """Return a function by which the stored model continues a prompt with 100 tokens."""
    model, merges = stored_model()

    def write(prompt: bytes, generator: torch.Generator) -> bytes:
        ids = encode_text(prompt, merges, pieces=stored_pieces)[None]  # (1, T)
        ids = sample_cached(model, ids, 100, temperature, generator=generator)
        return decode(ids[0].tolist(), merges)

    return write


def functions(write: Callable[[bytes, torch.Generator], bytes], count: int) -> list[str]:
    """Let a model write functions: each text begins with a prompt and ends before the next line
    that isn't indented.

    Args:
        write: a function that continues a prompt.
        count: the number of functions.
    """
    generator = torch.Generator().manual_seed(0)
    found = []
    for i in range(count):
        with use_threads(1):  # for such small steps, a second one would only wait
            text = write(b"\n\n" + PROMPTS[i % len(PROMPTS)].encode(), generator)
        lines = text.decode("utf-8", errors="replace").strip("\n").split("\n")
        ends = (n for n, line in enumerate(lines) if n and line[:1] not in ("", " ", "\t"))
        found.append("\n".join(lines[: next(ends, len(lines))]).rstrip())
    return found


def written_by_people(text: bytes, count: int, merges: Merges, tokens: int = 100) -> list[str]:
    """Return functions from a text, in the form of `functions`: each is cut after as many of the
    stored model's tokens as it writes."""
    starts = [found.start() for found in re.finditer(rb"\n\ndef ", text)]
    chosen = iter(random.Random(0).sample(starts, count))

    def read(_prompt: bytes, _generator: torch.Generator) -> bytes:
        start = next(chosen)
        ids = encode_text(text[start : start + 40 * tokens], merges, pieces=stored_pieces)
        return decode(ids[: tokens + 3].tolist(), merges)  # a prompt has about three tokens

    return functions(read, count)


def is_python(text: str) -> bool:
    """Return whether `ast.parse` accepts a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes, for example
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def accepted(texts: Sequence[str]) -> tuple[float, float]:
    """Return the share of functions, and the share of their lines, that `ast.parse` accepts.

    A line is tried alone, without its indentation; a line that opens a block gets a `pass`.
    """
    lines = [line.strip() for text in texts for line in text.split("\n") if line.strip()]
    tried = [f"{line} pass" if line.endswith(":") else line for line in lines]
    return (
        sum(map(is_python, texts)) / len(texts),
        sum(map(is_python, tried)) / len(tried),
    )


def longest_copy(text: bytes, training: bytes) -> bytes:
    """Return the longest sequence of bytes in a text that also occurs in the training text."""
    best = b""
    for start in range(len(text)):
        while text[start : start + len(best) + 1] in training:
            if start + len(best) + 1 > len(text):
                return best
            best = text[start : start + len(best) + 1]
    return best


# What the model's heads do ----------------------------------------------------------------------

CLOSES = {b")": b"(", b"]": b"[", b"}": b"{"}


def bracket_pairs(ids: Sequence[int], tokens: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return pairs of positions: the token right before a distant closing bracket, and the token
    that opened the bracket."""
    stack: list[tuple[bytes, int]] = []
    pairs = []
    for at, id in enumerate(ids):
        for i in range(len(tokens[id])):
            byte = tokens[id][i : i + 1]
            if byte in b"([{":
                stack.append((byte, at))
            elif byte in CLOSES:
                if stack and stack[-1][0] == CLOSES[byte]:
                    opened = stack.pop()[1]
                    if at - opened > 2:
                        pairs.append((at - 1, opened))
                else:
                    stack.clear()
    return pairs


@torch.no_grad()
def attention_weights(model: ModernLM, ids: Tensor) -> Tensor:
    """Return the attention weights of every head, `(B, T)` -> `(B, L, H, T, T)`."""
    found = []
    with evaluating(model):
        x = model.embed(ids)
        for block in model.blocks:
            attention: Any = block.attention
            normed = block.norm1(x)  # type: ignore[operator]
            query = apply_rope(split_heads(attention.query(normed), attention.num_heads))
            key = apply_rope(split_heads(attention.key(normed), attention.num_kv_heads))
            key = key.repeat_interleave(attention.num_heads // attention.num_kv_heads, dim=1)
            hidden = causal_mask(ids.shape[1], ids.device)
            scores = attention_scores(query, key).masked_fill(hidden, -math.inf)
            found.append(scores.softmax(-1))  # (B, H, T, T)
            x = block(x)
    return torch.stack(found, dim=1)


def bracket_scores(weights: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return the mean weight that each head puts on the second token of a pair, at the first.

    Args:
        weights: the attention weights of one text, `(L, H, T, T)`.
        pairs: pairs of positions, at least one: the token that attends, and the one attended to.

    Returns:
        The means over the pairs, `(L, H)`.

    >>> weights = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])  # one layer with one head
    >>> bracket_scores(weights, [(1, 0), (1, 1)])
    tensor([[0.5000]])
    """
    queries, keys = torch.tensor(pairs, device=weights.device).T  # (N,) each
    return weights[:, :, queries, keys].mean(dim=-1)  # (L, H, N) -> (L, H)


def bracket_heads(
    model: ModernLM,
    ids: Tensor,
    tokens: Sequence[bytes],
    score: Callable[[Tensor, list[tuple[int, int]]], Tensor] = bracket_scores,
) -> tuple[Tensor, float]:
    """Measure the weight that each head puts on an opening bracket, right before it is closed.

    Args:
        ids: texts `(B, T)`.
        score: computes the scores of one text, as `bracket_scores` does.

    Returns:
        The mean weights, `(L, H)`, and the mean weight under uniform attention.
    """
    total, even = torch.zeros(()), list[float]()
    for text in ids:  # all weights at once would take hundreds of megabytes
        if pairs := bracket_pairs(text.tolist(), tokens):
            total = total + len(pairs) * score(attention_weights(model, text[None])[0], pairs)
            even += [1 / (query + 1) for query, _ in pairs]
    return total / len(even), sum(even) / len(even)


@torch.no_grad()
def closing_loss(model: ModernLM, ids: Tensor, tokens: Sequence[bytes]) -> tuple[float, float]:
    """Return the mean loss, in nats, of tokens that close a distant bracket, and of all others."""
    losses = F.cross_entropy(
        model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    ).view(len(ids), -1)
    closing = torch.zeros_like(losses, dtype=torch.bool)
    for row, text in enumerate(ids.tolist()):
        for before, _ in bracket_pairs(text, tokens):
            closing[row, before] = True
    return float(losses[closing].mean()), float(losses[~closing].mean())


def in_seconds(
    seconds: float, encode: Callable[[bytes, Merges], list[int]]
) -> Callable[[bytes, Merges], list[int]]:
    """Return an `encode` that turns into the finished one when it has used this processor time."""
    used = 0.0

    def run(piece: bytes, merges: Merges) -> list[int]:
        nonlocal used
        if used > seconds:
            return finished_encode(piece, merges)
        began = time.process_time()
        ids = encode(piece, merges)
        used += time.process_time() - began
        if used > seconds:
            print(
                localised(
                    f"encode: the finished one goes on here, after {seconds:g} seconds of yours."
                )
            )
        return ids

    return run


def twin(model: nn.Module) -> ModernLM:
    """Return the finished `ModernLM` with the parameters of a model, whose code may be another."""
    copy = ModernLM(vocab_size=VOCABULARY, **SIZES)
    kept = model.state_dict()
    copy.load_state_dict({name: kept[name] for name in copy.state_dict()})
    return copy.eval().requires_grad_(False)


class Watched(list[Tensor]):
    """Batches for a training loop, during which `look(step)` is called every `every` steps."""

    def __init__(
        self, batches: Sequence[Tensor], every: int, look: Callable[[int], object]
    ) -> None:
        super().__init__(batches)
        self.every, self.look = every, look

    def __iter__(self) -> Iterator[Tensor]:
        for step in range(len(self)):
            if step and step % self.every == 0:
                self.look(step)
            yield self[step]
