"""The files of a submission, which may be anything, in any number and depth."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from .readable import file_name
from .reading import WRITTEN

MOST_BESIDE = 100 * 2**20  # bytes of a file that is not a notebook
MOST_READ = 30  # files of a submission that are read because they may be notebooks
MOST_FILES, DEEPEST = 5000, 30  # files and folders of a submission, and how deep they are nested
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
# What people hand in instead of a notebook.
DOCUMENTS = (".pdf", ".doc", ".docx", ".odt", ".rtf", ".eml", ".msg", ".webarchive", ".html")
CHECKPOINTS = ".ipynb_checkpoints"
NOT_THEIRS = ("feedback", "__pycache__", "__MACOSX")


def below(folder: Path) -> Iterator[tuple[Path, os.stat_result | None]]:
    """Yields a submission's files and folders up to a limit; None says that more were left out."""
    left, count = [(folder, 0)], 0
    while left:
        at, depth = left.pop()
        try:
            entries = sorted(os.scandir(at), key=lambda entry: entry.name)
        except OSError:
            yield at, None
            continue
        for entry in entries:
            count += 1
            if count > MOST_FILES or depth >= DEEPEST:
                yield at, None
                break
            with suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                yield Path(entry.path), about
                if stat.S_ISDIR(about.st_mode):
                    left.append((Path(entry.path), depth + 1))
        if count > MOST_FILES:
            return


def strange_in(folder: Path) -> list[str]:
    """Everything in a submission that is not a file or folder of normal size, in words."""
    found = []
    for path, about in below(folder):
        if about is None:
            known = "the folder" if path == folder else file_name(path.relative_to(folder))
            found.append(f"{known} can't be read, or has too much in it, and the rest is ignored")
        elif said := strange(about):
            found.append(f"{file_name(path.relative_to(folder))} {said}")
    return found[:20]


def strange(about: os.stat_result) -> str:
    if stat.S_ISDIR(about.st_mode):
        return ""
    if not stat.S_ISREG(about.st_mode):
        return "is a link or not a file, and is ignored"
    large = about.st_size > MOST_BESIDE
    return f"has {about.st_size / 2**20:,.0f} MiB, and is ignored" if large else ""


def not_read_in(folder: Path, used: Sequence[str]) -> list[str]:
    """Lists what looks like a student's work in a submission, but isn't where it is graded."""
    found = []
    for path, _ in _theirs(folder):
        inside = path.relative_to(folder)
        if str(inside) in used or is_a_checkpoint(str(inside)):
            continue
        name = path.name.lower()
        if name.endswith(ARCHIVES):
            found.append(f"{file_name(inside)} is an archive, in which nothing is graded")
        elif ".ipynb" in name or _is_notebook(path):
            found.append(f"{file_name(inside)} is another notebook, which is not graded")
    return found[:20]


def perhaps_notebooks(folder: Path) -> list[Path]:
    """The files of a submission that may hold a notebook, whatever they are called."""
    found = []
    for path, about in _theirs(folder):
        named = may_be_a_notebook(path.name) or path.suffix.lower() in (*WRITTEN, *DOCUMENTS)
        if about.st_size <= MOST_BESIDE and (named or _is_notebook(path)):
            found.append(path)
    return sorted(found[:MOST_READ], key=lambda path: is_a_checkpoint(str(path)))


def _theirs(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields a student's own files, without those that systems put beside them."""
    for path, about in below(folder):
        parts = {*path.relative_to(folder).parts}
        own = about is not None and not parts & {*NOT_THEIRS} and not path.name.startswith("._")
        if own and about is not None and stat.S_ISREG(about.st_mode):
            yield path, about


def is_a_checkpoint(path: str) -> bool:
    """Returns whether Jupyter made a file of its own accord, when a notebook was saved."""
    return CHECKPOINTS in path


def may_be_a_notebook(name: str) -> bool:
    return ".ipynb" in name.lower() or name.lower().endswith(ARCHIVES)


def _is_notebook(path: Path) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        begin = file.read(4000)
        return begin.lstrip(b"\xef\xbb\xbf \n")[:1] == b"{" and bool(
            re.search(rb'"(cells|nbformat|worksheets)"', begin)
        )
    return False
