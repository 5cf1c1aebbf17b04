"""Collects files, but no links, from the students' exchange folder, and releases feedback."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import stat
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from traitlets import Dict, Unicode

from .careful import be_careful
from .folders import below, strange_in
from .helper import helper
from .names import ALLOWED, is_a_name, submitted_at, time_of
from .readable import file_name, in_a_line
from .submissions import unreadable

SECONDS = 20.0  # processor time for reading the notebooks of one submission
SUBMITTING = timedelta(minutes=10)  # the longest time that a submission may take
# The name of a submission's folder: student, assignment, time and, mostly, some random letters.
FOLDER = re.compile(r"(.*)\+([^+]+)\+(\d{4}-[^+]*)(?:\+[^+]*)?", re.S)
EVERYBODY = "*"  # in `CollectFiles.accounts`

be_careful()


@dataclass(frozen=True)
class HandedIn:
    """A folder in which a student submitted."""

    student: str
    folder: str
    time: datetime  # in its name
    account: str  # that owns it
    changed: float  # when; its owner can't set this


class CollectFiles(ExchangeCollect):
    """Replaces nbgrader's collecting, which follows links with the instructor's rights, even to a
    solution, which takes whatever has the latest time in its name, and which stops at the first
    submission that can't be copied."""

    accounts = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help="The account that submits for a student, where it doesn't have the student's name; "
        "the account of `*` may submit for everybody.",
    ).tag(config=True)

    def init_src(self) -> None:
        super().init_src()  # its checks, and the due date
        everybody = self.coursedir.student_id == "*"
        known = _noted(self.coursedir).items()
        self.noted = {n: about for n, about in known if "from" in about or not everybody}
        self.remarks, self.again = defaultdict[str, list[str]](list), dict[str, list[str]]()
        found = [self._handed_in(name) for name in sorted(os.listdir(self.inbound_path))]
        self.accounts_of = Counter(one.account for _, one in filter(None, found))
        of = defaultdict[str, list[tuple[str, HandedIn]]](list)
        for to, one in filter(None, found):
            of[one.student].append((to, one))
        chosen = {student: self._chosen(student, theirs) for student, theirs in sorted(of.items())}
        self.chosen = {student: one for student, one in chosen.items() if one}

    def _path_to_record(self, path: str) -> dict[str, Any]:
        return {"username": "", "timestamp": datetime.min}  # `init_src` makes its own

    def _handed_in(self, name: str) -> tuple[str, HandedIn] | None:
        """The assignment and the submission that a folder holds, if its name can be read."""
        found, assignment = FOLDER.fullmatch(name), self.coursedir.assignment_id
        student, to, text = found.groups() if found else (name.partition("+")[0], "", "")
        time = time_of(text)
        if found is None and f"+{assignment}" in name:
            to = assignment
        if self.coursedir.student_id not in ("*", student):
            return None
        if is_a_name(student) and time is not None:
            with suppress(OSError):
                path = os.path.join(self.inbound_path, name)
                return to, HandedIn(student, name, time, _account(path), os.lstat(path).st_ctime)
        elif to == assignment and is_a_name(student):
            self._refuse(student, f"{in_a_line(name)} is not collected: its name has no valid time")
        elif to == assignment:
            said = f"it is not collected, because this can't be a student's name: {ALLOWED}"
            self._refuse(student, said)
        return None

    def _refuse(self, student: str, said: str) -> None:
        self.log.error("%s: %s", in_a_line(student), said)
        self.remarks[student].append(said)

    def _chosen(self, student: str, theirs: list[tuple[str, HandedIn]]) -> HandedIn | None:
        """Returns the newest submission of the account that may submit for a student."""
        found = [one for to, one in theirs if to == self.coursedir.assignment_id]
        first = min((one for _, one in theirs), key=lambda one: one.changed)
        may = self.accounts.get(student)
        may = may or (student if _is_account(student) else first.account)
        own = [one for one in found if one.account in (may, self.accounts.get(EVERYBODY))]
        allowed = own if own and self.check_owner else found
        if self.before_duedate and self.duedate:
            allowed = [one for one in allowed if one.time <= self.duedate] or allowed
        if not allowed:
            return None
        newest = max(allowed, key=lambda one: (one.time, one.folder))
        self.remarks[student] += [
            f"the account {one.account} also submitted under this name, on "
            f"{one.time:%d %B %H:%M}: that is not used"
            for one in found
            if one not in own and one.account != newest.account
        ]
        return newest

    def copy_files(self) -> None:
        assignment = self.coursedir.assignment_id
        self.log.info("%d students have submitted %s", len(self.chosen), assignment)
        for student, one in self.chosen.items():
            folder = self.coursedir.submitted_directory
            place = Path(self.coursedir.format_path(folder, student, assignment))
            about, there = self.noted.get(student, {}), place.is_dir()
            known, at = about.get("from"), submitted_at(place) if there else None
            newer = one.folder != known if known else at is None or one.time > at
            if there and not (newer and (self.update or self.before_duedate)):
                said = " (there is another one: --update)" if newer else ""
                self.log.info("%s is collected already%s", student, said)
                said_now = [*about.get("said", ()), *self.remarks[student]]
                noted = about.get("noted", [])
                again = [*dict.fromkeys(said_now)]
                self._keep(student, known or one.folder, said=again, noted=noted)
            else:
                self.log.info("Collecting %s", in_a_line(one.folder))
                self._collect(one, place)
        for student in self.remarks.keys() - self.noted.keys():
            self.noted[student] = {"said": self.remarks[student]}
        self._keep()
        for student, found in self.again.items():
            for said in found:
                self.log.error("%s should hand in again: %s", in_a_line(student), said)

    def _collect(self, one: HandedIn, place: Path) -> None:
        src, name = os.path.join(self.inbound_path, one.folder), in_a_line(one.folder)
        said, noted = self.remarks[one.student][:], list[str]()
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder) / "taken"
            try:
                if os.path.islink(src):
                    raise OSError("it is a link")
                _take(Path(src), taken, 1000 * self.coursedir.max_dir_size)
                for strange in strange_in(Path(src)):
                    self.log.warning("%s: %s", name, strange)
                found, noted = self._doubts(src, taken, one)
                said += found
                if place.exists():
                    shutil.rmtree(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                self.do_copy(str(taken), str(place))
            except (OSError, RuntimeError) as error:  # the others are still collected
                why = getattr(error, "strerror", None) or error
                said.append(f"it could not be collected ({why})")
                self.log.error("%s: %s", name, said[-1])
                self.again[one.student] = said[-1:]
        self._keep(one.student, one.folder, said=said, noted=noted)

    def _doubts(self, src: str, taken: Path, one: HandedIn) -> tuple[list[str], list[str]]:
        """What only the exchange folder shows of a submission: what a person has to decide, and
        what needs no decision."""
        counts, noted = _stamped(taken, one.time)
        lost = [f"{said} can't be read (no right to read it)" for said in _lost(Path(src), taken)]
        broken = [f"{name} can't be read: {why}" for name, why in _unreadable(taken)]
        if lost or broken:
            self.again[one.student] = lost + broken
        return [*self._of_others(src, one.student), *_back_dated(src, counts), *lost], noted

    def _keep(self, student: str = "", source: str = "", **said: list[str]) -> None:
        if student:
            self.noted[student] = {"from": source} | said
        place = _noted_in(self.coursedir)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(self.noted, indent=1))

    def _of_others(self, src: str, student: str) -> Iterator[str]:
        """Who else owns files of a submission, also if accounts have names of their own."""
        accounts, owner = self.accounts_of, _account(src)
        expected = {self.accounts.get(student, student), self.accounts.get(EVERYBODY)}
        others = {_account(path) for path, _ in below(Path(src))} - {owner}
        if owner not in expected and (
            _is_account(student) or 1 < accounts[owner] < accounts.total()
        ):
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
        file_name(path.name)
        for path, about in below(src)
        if about is not None and stat.S_ISREG(about.st_mode) and path.suffix == ".ipynb"
        if not (taken / path.relative_to(src)).exists()
    ]


def _unreadable(taken: Path) -> Iterator[tuple[str, str]]:
    """The notebooks of a submission that can't be read completely, with the reasons."""
    until = helper().spent + SECONDS
    for path in sorted(taken.glob("*.ipynb")):
        if helper().spent < until and (why := unreadable(path)):
            yield file_name(path.name), why


def _noted_in(coursedir: Any) -> Path:
    return Path(coursedir.root, ".grading", "collected", f"{coursedir.assignment_id}.json")


def _noted(coursedir: Any) -> dict[str, dict[str, Any]]:
    """What was noted when an assignment was collected: by student, the folder that was taken, and
    what was said of it."""
    with suppress(OSError, ValueError):
        found = json.loads(_noted_in(coursedir).read_text(encoding="utf-8"))
        return {name: about for name, about in found.items() if isinstance(about, dict)}
    return {}


def doubts(coursedir: Any, kind: str = "said") -> dict[str, list[str]]:
    """What a person has to decide about each submission that was collected or refused; or, as
    `noted`, what needs no decision."""
    return {name: about.get(kind, []) for name, about in _noted(coursedir).items()}


def _is_account(name: str) -> bool:
    return os.path.expanduser(f"~{name}") != f"~{name}"


def _account(path: str | Path) -> str:
    return _account_name(os.lstat(path).st_uid)


@cache
def _account_name(number: int) -> str:
    import pwd  # not on Windows, which has no exchange folder

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"account {number}"


def _stamped(taken: Path, named: datetime) -> tuple[datetime, list[str]]:
    """The time that counts, and a remark if it is not that of timestamp.txt: the time in the
    folder's name counts, and is written there, if that file has none or an earlier one."""
    claimed = submitted_at(taken)
    if claimed is not None and claimed >= named:
        return claimed, []
    what = "no valid time" if claimed is None else f"an earlier time, {claimed:%d %B %H:%M}"
    stamp = taken / "timestamp.txt"
    if stamp.is_dir():
        shutil.rmtree(stamp)
    stamp.write_text(f"{named:%Y-%m-%d %H:%M:%S.%f} UTC")
    said = f"its timestamp.txt has {what}: {named:%d %B %H:%M} counts, as its folder is named"
    return named, [said]


def _back_dated(src: str, claimed: datetime) -> Iterator[str]:
    """Whether a submission changed after its time."""
    times = [about.st_mtime for _, about in below(Path(src)) if about is not None]
    with suppress(OSError):
        folder = os.lstat(src)
        times += [folder.st_mtime, folder.st_ctime]  # a student can't set the second
        times.append(os.lstat(os.path.join(src, "timestamp.txt")).st_ctime)
    changed = datetime.fromtimestamp(max(times, default=0.0), UTC).replace(tzinfo=None)
    if changed - claimed > SUBMITTING:  # in UTC without a zone, as nbgrader's are
        yield f"its time is {claimed:%d %B %H:%M}, but it changed on {changed:%d %B %H:%M}"


class ReleaseFeedback(ExchangeReleaseFeedback):
    """Releases all other feedback if a submission has no time or secret, for example because it was
    sent by e-mail; nbgrader would stop at the first of these."""

    def copy_files(self) -> None:
        excluded = {*filter(None, self.coursedir.student_id_exclude.split(","))}
        folders = [*map(Path, sorted(glob.glob(self.src_path)))]
        if not folders:
            assignment = self.coursedir.assignment_id
            self.log.error("There is no feedback yet: nbgrader generate_feedback %s", assignment)
        for folder in folders:
            needed = ("timestamp.txt", "submission_secret.txt")
            if all((folder / name).is_file() for name in needed) or not folder.is_dir():
                continue
            student = folder.parent.name
            excluded.add(student)
            said = "%s: not released, because nbgrader submit did not hand it in; send the pages"
            self.log.warning(said, in_a_line(student))
        self.coursedir.student_id_exclude = ",".join(sorted(excluded))
        super().copy_files()
