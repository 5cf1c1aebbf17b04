"""Collects files, but no links, from the students' exchange folder, and releases feedback."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.utils import parse_utc

from .readable import in_a_line
from .submissions import TIME, be_careful, below, is_a_name, strange_in, submitted_at, unreadable

SUBMITTING = timedelta(minutes=10)  # the longest time that a submission may take

be_careful()


class CollectFiles(ExchangeCollect):
    """Replaces nbgrader's collecting, which follows links with the instructor's rights, even to a
    solution, and which stops at the first submission that can't be copied."""

    def init_src(self) -> None:
        self.again: dict[str, list[str]] = {}
        self.src_records: list[dict[str, Any]] = []
        super().init_src()

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Does what nbgrader's method does, but doesn't stop at an invalid name or time."""
        name = os.path.basename(path)
        parts = name.rsplit("+", 3)  # name, assignment, time and, mostly, some random letters
        valid = len(parts) >= 3 and is_a_name(parts[0]) and TIME.fullmatch(parts[2])
        try:
            named = parse_utc(parts[2]) if valid else None
        except (ValueError, OverflowError):
            named = None
        if named is None:
            self.log.error("%s is not collected: its name has no valid time", in_a_line(name))
            return {"username": "", "filename": name, "timestamp": datetime.min}
        return {"username": parts[0], "filename": name, "timestamp": named}

    def copy_files(self) -> None:
        self.src_records = [record for record in self.src_records if record["username"]]
        super().copy_files()
        for student, found in self.again.items():
            for said in found:
                self.log.error("%s must hand in again: %s", in_a_line(student), said)

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        name = in_a_line(os.path.basename(src))
        (record,) = (r for r in self.src_records if r["filename"] == os.path.basename(src))
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder) / "taken"
            try:
                if os.path.islink(src):
                    raise OSError("it is a link")
                _take(Path(src), taken, 1000 * self.coursedir.max_dir_size)
                for said in strange_in(Path(src)):
                    self.log.warning("%s: %s", name, said)
                self._store_doubts(src, taken, record)
                super().do_copy(str(taken), dest, log)
            except (OSError, RuntimeError) as error:  # the others are still collected
                said = f"it could not be collected ({getattr(error, 'strerror', None) or error})"
                self.log.error("%s: %s", name, said)
                self.again[record["username"]] = [said]
                self._keep(record["username"], [said])

    def _store_doubts(self, src: str, taken: Path, record: dict[str, Any]) -> None:
        """Keeps for `course grade` what only the exchange folder shows."""
        student = record["username"]
        found = [*self._of_others(src, student), *_back_dated(src, taken, record["timestamp"])]
        lost = [
            f"{in_a_line(path.name)} can't be read: {why}"
            for path in sorted(taken.glob("*.ipynb"))
            if (why := unreadable(path))
        ]
        lost += [f"{said} (no right to read it)" for said in _lost(Path(src), taken)]
        if lost:
            self.again[student] = lost
        self._keep(student, found + [f"must hand in again: {said}" for said in lost])

    def _keep(self, student: str, found: list[str]) -> None:
        place = doubts_file(self.coursedir)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(doubts(self.coursedir) | {student: found}, indent=1))

    def _of_others(self, src: str, student: str) -> Iterator[str]:
        """Who else owns files of a submission, also if accounts have names of their own."""
        inbound = (os.path.join(self.inbound_path, r["filename"]) for r in self.src_records)
        accounts, owner = Counter(map(_account, inbound)), _account(src)
        others = {_account(path) for path, _ in below(Path(src))} - {owner}
        has_account = os.path.expanduser(f"~{student}") != f"~{student}"
        if owner != student and (has_account or 1 < accounts[owner] < accounts.total()):
            others.add(owner)
        if self.check_owner and others:
            yield in_a_line(f"its files belong to {', '.join(sorted(others))}, not to {student}")


def _take(src: Path, taken: Path, most: int) -> None:
    """Copies a submission without following a link, even one that was a file a moment ago."""
    taken.mkdir()
    size, home = 0, os.path.join(os.path.realpath(src.parent), src.name, "")
    os.scandir(src).close()  # raises an error if the folder can't be read
    for path, about in below(src):
        if about is None:
            continue
        place = taken / path.relative_to(src)
        if stat.S_ISDIR(about.st_mode):
            place.mkdir(parents=True, exist_ok=True)
        elif stat.S_ISREG(about.st_mode):
            with suppress(OSError):  # unreadable files: reported as missing
                place.parent.mkdir(parents=True, exist_ok=True)
                size += _copy(path, place, home, most - size)


def _copy(path: Path, place: Path, home: str, most: int) -> int:
    """Copies a file that is really in a student's folder; returns its size."""
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(source, "rb") as file:
        about = os.fstat(source)
        # A folder in the path may have become a link, but Linux knows where the opened file is.
        where = f"/proc/self/fd/{source}"
        outside = os.path.islink(where) and not os.readlink(where).startswith(home)
        if outside or not stat.S_ISREG(about.st_mode):
            raise OSError("it is not a file of this folder")
        if about.st_size > most:
            raise RuntimeError("it is too large")
        with place.open("wb") as copied:
            shutil.copyfileobj(file, copied)
        os.utime(place, (about.st_atime, about.st_mtime))
    return about.st_size


def _lost(src: Path, taken: Path) -> list[str]:
    return [
        in_a_line(path.name)
        for path, about in below(src)
        if about is not None and stat.S_ISREG(about.st_mode) and path.suffix == ".ipynb"
        if not (taken / path.relative_to(src)).exists()
    ]


def doubts_file(coursedir: Any) -> Path:
    return Path(coursedir.root, ".grading", "collected", f"{coursedir.assignment_id}.json")


def doubts(coursedir: Any) -> dict[str, list[str]]:
    """What was doubtful about each student's submission when it was collected."""
    with suppress(OSError, ValueError):
        return dict(json.loads(doubts_file(coursedir).read_text(encoding="utf-8")))
    return {}


def _account(path: str | Path) -> str:
    return _account_name(os.lstat(path).st_uid)


@cache
def _account_name(number: int) -> str:
    import pwd  # not on Windows, which has no exchange folder

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"account {number}"


def _back_dated(src: str, taken: Path, named: datetime) -> Iterator[str]:
    """Whether a submission changed after the times in its name and in its timestamp.txt."""
    claimed = submitted_at(taken)
    try:
        folder, file = os.lstat(src), os.lstat(os.path.join(src, "timestamp.txt"))
    except OSError:
        claimed = None
    if claimed is None:
        yield "it has no valid time of submission"
        return
    claimed = min(named, claimed)
    times = [folder.st_mtime, folder.st_ctime, file.st_ctime]  # a student can't set the last two
    times += [about.st_mtime for _, about in below(Path(src)) if about is not None]
    changed = datetime.fromtimestamp(max(times), UTC).replace(tzinfo=None)  # as nbgrader's are
    if changed - claimed > SUBMITTING:
        yield f"its time is {claimed:%d %B %H:%M}, but it changed on {changed:%d %B %H:%M}"


class ReleaseFeedback(ExchangeReleaseFeedback):
    """Releases all other feedback if a submission has no time or secret, for example because it was
    sent by e-mail; nbgrader would stop at the first of these."""

    def copy_files(self) -> None:
        excluded = {*filter(None, self.coursedir.student_id_exclude.split(","))}
        for folder in map(Path, sorted(glob.glob(self.src_path))):
            needed = ("timestamp.txt", "submission_secret.txt")
            if all((folder / name).is_file() for name in needed) or not folder.is_dir():
                continue
            student = folder.parent.name
            excluded.add(student)
            said = "%s: not released, because nbgrader submit did not hand it in; send the pages"
            self.log.warning(said, in_a_line(student))
        self.coursedir.student_id_exclude = ",".join(sorted(excluded))
        super().copy_files()
