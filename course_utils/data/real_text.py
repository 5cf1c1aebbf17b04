"""A real text, and a tokenizer for it: the finished parts of lesson 17, in lesson order.

The text is the source of Python's own standard library, which every machine with Python has.
Letters in shapes: `B` batch, `T` tokens, `V` vocabulary.
"""

import heapq
import math
import re
import sysconfig
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

Merges = dict[tuple[int, int], int]  # the id of each merged pair, in the order learned

# The text ---------------------------------------------------------------------------------------

LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "encodings"}
LEFT_OUT |= {"site-packages", "dist-packages", "ensurepip", "__pycache__", "__phello__"}
HELD_OUT_SHARE = 20  # one file in 20 is held out
END = b"\0"  # between two files; no file contains this byte, and no piece adds others to it


def library_files() -> dict[str, bytes]:
    """Return the text of each file of the standard library, keyed and sorted by the file's path.

    Tests, tables of encodings and packages that aren't part of the library are left out.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        folders = name.parts[:-1]
        if LEFT_OUT.isdisjoint(folders) and not any(f.startswith("config-") for f in folders):
            files[name.as_posix()] = path.read_bytes().replace(b"\r\n", b"\n")
    return {name: text for name, text in files.items() if text.strip()}


def is_held_out(name: str) -> bool:
    """Return whether the file with this name is held out, which is the same on every machine."""
    return zlib.crc32(name.encode()) % HELD_OUT_SHARE == 0


def training_and_held_out(files: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Join the files of the training text, and those of the held-out text, with `END` between two
    files; no file is in both parts.

    Their order depends only on the names of the files and mixes the folders.
    """
    names = sorted(files, key=lambda name: zlib.crc32(name.encode()[::-1]))
    parts = (
        END.join(files[name] for name in names if is_held_out(name) is held)
        for held in (False, True)
    )
    return next(parts), next(parts)


# Byte pairs -------------------------------------------------------------------------------------

# As in GPT-2, except that "_" is a letter, as in Python's names, and contractions aren't cut off.
PIECE = re.compile(r"\0| ?[^\W\d]+| ?\d+| ?[^\s\w\0]+|\s+(?!\S)|\s+")


def pieces(text: bytes) -> list[bytes]:
    """Cut a text into words, numbers, punctuation and white space; a merge never crosses a cut.

    A word, a number or punctuation takes one space before it. Letters are those of any script, and
    bytes that aren't valid UTF-8 count as punctuation.

    >>> pieces(b"def f(x):\\n    return x")
    [b'def', b' f', b'(', b'x', b'):', b'\\n   ', b' return', b' x']
    """
    return list(each_piece(text))


def each_piece(text: bytes) -> Iterator[bytes]:
    """Yield the pieces of a text one by one; a list of all pieces would take 100 MB."""
    for piece in PIECE.finditer(text.decode("utf-8", errors="surrogateescape")):
        yield piece.group().encode("utf-8", errors="surrogateescape")


def train_bpe(pieces: Iterable[bytes], num_merges: int) -> Merges:
    """Learn byte-pair merges: repeatedly, the most frequent pair of neighbours becomes one token.

    See Sennrich et al. 2016. Each distinct piece is kept once with its count, and after a merge
    only the pieces that contain the pair are counted again.

    Args:
        pieces: the pieces of a text. Pairs are counted inside pieces only.
        num_merges: the number of merges to learn.

    Returns:
        The id of each merged pair, in the order learned. Ids 0 to 255 are the bytes, so the first
        merge creates the id 256. Of equally frequent pairs, the smallest is merged first. There are
        fewer than `num_merges` merges if no pairs are left.

    >>> train_bpe([b"low", b"low", b"lot"], 2)  # first l + o, then lo + w
    {(108, 111): 256, (256, 119): 257}
    """
    counts = Counter(pieces)
    words, often = [list(piece) for piece in counts], list(counts.values())
    pairs: Counter[tuple[int, int]] = Counter()
    where: defaultdict[tuple[int, int], set[int]] = defaultdict(set)  # the words with each pair
    for w, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += often[w]
            where[pair].add(w)
    heap = [(-count, pair) for pair, count in pairs.items()]  # the most frequent pair is first
    heapq.heapify(heap)
    merges: Merges = {}
    while heap and len(merges) < num_merges:
        count, best = heapq.heappop(heap)
        if -count != pairs[best]:  # the count has changed since this entry was made
            if pairs[best] > 0:
                heapq.heappush(heap, (-pairs[best], best))
            continue
        merges[best] = new = 256 + len(merges)
        changed = set()
        for w in where.pop(best):
            for pair in pairwise(words[w]):
                pairs[pair] -= often[w]
            words[w] = merged(words[w], best, new)
            for pair in pairwise(words[w]):
                pairs[pair] += often[w]
                where[pair].add(w)
                changed.add(pair)
        for pair in changed:
            heapq.heappush(heap, (-pairs[pair], pair))
    return merges


def merged(ids: list[int], pair: tuple[int, int], new: int) -> list[int]:
    """Replace each occurrence of a pair, from left to right, with a new id.

    >>> merged([1, 1, 1, 2], (1, 1), 256)
    [256, 1, 2]
    """
    out, i = list[int](), 0
    while i < len(ids):
        found = tuple(ids[i : i + 2]) == pair
        out.append(new if found else ids[i])
        i += 2 if found else 1
    return out


def encode(piece: bytes, merges: Merges) -> list[int]:
    """Turn one piece into ids: apply the merges to its bytes, in the order learned.

    >>> encode(b"lowly", {(108, 111): 256, (256, 119): 257})
    [257, 108, 121]
    """
    ids = list(piece)
    while len(ids) > 1:
        first = min(pairwise(ids), key=lambda pair: merges.get(pair, math.inf))
        if first not in merges:
            break
        ids = merged(ids, first, merges[first])
    return ids


def vocabulary(merges: Merges) -> list[bytes]:
    """Return a list with the bytes of each token, whose index is the token's id.

    >>> vocabulary({(108, 111): 256, (256, 119): 257})[256:]
    [b'lo', b'low']
    """
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def decode(ids: Iterable[int], merges: Merges) -> bytes:
    """Turn ids back into bytes.

    >>> decode([257, 108, 121], {(108, 111): 256, (256, 119): 257})
    b'lowly'
    """
    tokens = vocabulary(merges)
    return b"".join(tokens[id] for id in ids)


def encode_text(
    text: bytes,
    merges: Merges,
    encode: Callable[[bytes, Merges], list[int]] = encode,
    pieces: Callable[[bytes], Iterable[bytes]] = each_piece,
) -> Tensor:
    """Encode a whole text as `(N,)` int64 ids, with one call of `encode` per distinct piece."""
    known: dict[bytes, list[int]] = {}
    ids = array("q")  # a list of ints would take four times the memory
    for piece in pieces(text):
        if piece not in known:
            known[piece] = encode(piece, merges)
        ids.extend(known[piece])
    return torch.tensor(ids, dtype=torch.int64)


def readable(ids: Iterable[int], merges: Merges) -> str:
    """Decode ids into text; bytes that aren't valid UTF-8 become the replacement character."""
    return decode(ids, merges).decode("utf-8", errors="replace")


# The measure ------------------------------------------------------------------------------------


def bits_per_byte(logits: Tensor, targets: Tensor, lengths: Tensor) -> float:
    """Return the number of bits that a model needs for each byte of a text.

    Args:
        logits: `(B, T, V)`.
        targets: the tokens to predict, `(B, T)`.
        lengths: the number of bytes of each token, `(V,)`.

    Returns:
        The sum of -log2(probability of the target) over all targets, divided by the number of their
        bytes.
    """
    nats = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    return nats.item() / math.log(2) / int(lengths[targets].sum())
