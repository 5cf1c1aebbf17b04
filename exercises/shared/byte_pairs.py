"""Texts for byte pairs, and answers that give lists, bytes or merges instead of tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from whywrong import Case, Draw, FunctionProbe, Observation

from .pairs import as_pair, kind_of

Merges = dict[tuple[int, int], int]
IDS, MERGES = "a list of ids", "a dict of merges"


def join(ids: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Each occurrence of a pair becomes the new id, by way of a text of letters."""
    letters = "".join(map(chr, ids)).replace("".join(map(chr, pair)), chr(new))
    return [ord(letter) for letter in letters]


def learn(pieces: list[bytes], num_merges: int) -> tuple[Merges, bool]:
    """The merges, and whether each pair was more frequent than every other, however one counts."""
    words = [list(piece) for piece in pieces]
    merges: Merges = {}
    clear = True
    for new in range(256, 256 + num_merges):
        pairs = Counter(pair for word in words for pair in pairwise(word))
        if not pairs:
            break
        (best, most), *others = pairs.most_common(2)
        clear &= not others or most > others[0][1]
        merges[best] = new
        words = [join(word, best, new) for word in words]
    return merges, clear


def apply(piece: bytes, merges: Merges) -> list[int]:
    """The ids of a piece, merge after merge."""
    ids = list(piece)
    for pair, new in merges.items():
        ids = join(ids, pair, new)
    return ids


def words(draw: Draw, count: int, num_merges: int, letters: bytes = b"abcde") -> list[bytes]:
    """Random pieces, some of them several times, in which no two pairs are ever equally frequent.

    No letter comes twice in a row, so that it doesn't matter how such runs are counted.
    """
    while True:
        pieces = []
        for _ in range(count):
            word = [draw.integer(0, len(letters) - 1)]
            for _ in range(draw.integer(1, 5)):
                word.append((word[-1] + draw.integer(1, len(letters) - 1)) % len(letters))
            pieces += [bytes(letters[i] for i in word)] * draw.integer(1, 60)
        order = torch.randperm(len(pieces), generator=draw.generator).tolist()
        pieces = [pieces[i] for i in order]
        merges, clear = learn(pieces, num_merges)
        if clear and len(merges) == num_merges and max(max(pair) for pair in merges) > 255:
            return pieces


class PlainProbe(FunctionProbe):
    """As `FunctionProbe`, for an answer that returns a list of ids, bytes, merges or a float.

    Args:
        kind: what the answer returns, in words.
        as_tensor: turns a result of this kind into a tensor; None for anything else.
    """

    def __init__(self, kind: str, as_tensor: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(**options)
        self.kind, self.as_tensor = kind, as_tensor

    def __call__(self, answer: Any, case: Case) -> Observation:
        return as_pair(super().__call__(self.turned(answer), case), self.kind, "out")

    def glance(self, answer: Any, case: Case) -> Observation:
        return as_pair(super().glance(self.turned(answer), case), self.kind, "out")

    def turned(self, answer: Any) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            out = answer(*args, **named)
            found = self.as_tensor(out)
            if found is not None:
                return found
            if isinstance(out, torch.Tensor):  # not what is asked for, even with the right numbers
                return kind_of("a tensor")
            if isinstance(out, list | tuple | dict) and len(out):
                return kind_of(f"a {type(out).__name__} of {type(next(iter(out))).__name__}")
            return out

        return call


def ids_as_tensor(out: Any) -> torch.Tensor | None:
    if type(out) is list and all(type(id) is int for id in out):
        return torch.tensor(out, dtype=torch.int64)
    return None


def bytes_as_tensor(out: Any) -> torch.Tensor | None:
    if type(out) is bytes:
        return torch.tensor(list(out), dtype=torch.int64)
    return None


def merges_as_tensor(out: Any) -> torch.Tensor | None:
    """`(N, 3)`: the two ids of each pair, and the id of both together, in order."""
    if type(out) is not dict:
        return None
    rows = []
    for pair, new in out.items():
        fits = type(pair) is tuple and len(pair) == 2 and type(new) is int
        if not fits or not all(type(id) is int for id in pair):
            return None
        rows.append([*pair, new])
    return torch.tensor(rows, dtype=torch.int64).view(-1, 3)
