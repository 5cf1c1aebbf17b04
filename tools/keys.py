"""Answer keys, cached between runs by the content that they depend on. The folder is the user's, so
that clones of the course share it: most of a first run's matrix is computing keys."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import cloudpickle
import platformdirs
import torch

from whywrong._key import make_key
from whywrong.hosting import AnswerKey, Exercise

from . import EXERCISES, ROOT

FOLDER = platformdirs.user_cache_path("averages-to-transformers") / "keys"
MOST = 3  # keys of one exercise, for branches and clones that differ; all of them take 150 MB
# An exercise's cases and probe use these; code that only draws or grades doesn't affect them.
SOURCES = (
    "tools/keys.py",  # how they are stored
    "whywrong/*.py",
    "exercises/shared/*",
    "course_utils/*.py",
    "course_utils/data/*.py",
    "course_utils/experiments/*.py",
)


@cache
def _common() -> str:
    paths = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file())
    return digest(
        torch.__version__.encode(), sys.version.encode(), *(path.read_bytes() for path in paths)
    )


def digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def _files(exercise: Exercise) -> Iterator[bytes]:
    for ending in (".md", ".py"):
        path = EXERCISES / exercise.lesson / f"{exercise.id}{ending}"
        yield path.read_bytes() if path.exists() else b""


_made: dict[tuple[int, int], tuple[Exercise, AnswerKey]] = {}


def cached_key(exercise: Exercise, seed: int) -> AnswerKey:
    """The whole key of an exercise and a seed: from this process, from disk, or newly computed."""
    known = _made.get((id(exercise), seed))
    if known is None:
        known = _made[id(exercise), seed] = exercise, _from_disk(exercise, seed)
    return known[1]


def _from_disk(exercise: Exercise, seed: int) -> AnswerKey:
    name = digest(_common().encode(), str(seed).encode(), *_files(exercise))
    path = FOLDER / f"{exercise.id}-{name[:32]}"
    try:
        key: AnswerKey = pickle.loads(path.read_bytes())
        os.utime(path)  # the last ones used stay
        return key
    except Exception:  # missing or truncated
        key = make_key(exercise, seed)
    with suppress(OSError):  # a folder that can't be written to only costs time
        _store(path, key)
    return key


def _store(path: Path, key: AnswerKey) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with new.open("wb") as file:
        _Pickler(file).dump(key)
    os.replace(new, path)
    of_one = path.parent.glob(f"{path.name.rpartition('-')[0]}-*")
    for old in sorted(of_one, key=lambda p: p.stat().st_mtime, reverse=True)[MOST:]:
        old.unlink(missing_ok=True)


class _Pickler(cloudpickle.Pickler):
    """Stores the numbers of tensors as bytes: what PyTorch stores takes several times as long to
    read, and reading keys takes a tenth of the matrix."""

    def reducer_override(self, obj: Any) -> Any:
        plain = (
            type(obj) is torch.Tensor and obj.layout is torch.strided and obj.device.type == "cpu"
        )
        if plain and obj.is_contiguous() and obj.numel() and not obj.requires_grad:
            row = obj.clone(memory_format=torch.contiguous_format).flatten()
            return _tensor, (bytes(row.view(torch.uint8).numpy()), obj.dtype, obj.shape)
        return super().reducer_override(obj)


def _tensor(numbers: bytes, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
    return torch.frombuffer(bytearray(numbers), dtype=dtype).reshape(shape)
