"""Collects files, but no links, from the exchange folder of the students."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc

from .readable import in_a_line
from .submissions import strange_in

SUBMITTING = timedelta(minutes=10)  # the longest time that a submission may take


class CollectFiles(ExchangeCollect):
    """Replaces nbgrader's collecting, which follows links with the instructor's rights, even to a
    solution, and which stops at the first submission that can't be copied."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        name = in_a_line(os.path.basename(src))
        if os.path.islink(src) or self.get_size(src) > 1000 * self.coursedir.max_dir_size:
            self.log.error("%s is a link, or too large, and is not collected", name)
            return
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder) / "taken"
            with suppress(shutil.Error):  # pipes and unreadable files: reported below, or missing
                shutil.copytree(src, taken, symlinks=True)
            for said in strange_in(Path(src)):
                self.log.warning("%s: %s", name, said)
            for path in list(taken.rglob("*")):
                if path.is_symlink():
                    path.unlink()
            self._store_doubts(src, taken)
            super().do_copy(str(taken), dest, log)

    def _store_doubts(self, src: str, taken: Path) -> None:
        """Keeps for `course grade` what only the exchange folder shows."""
        (record,) = (r for r in self.src_records if r["filename"] == os.path.basename(src))
        student, place = record["username"], doubts_file(self.coursedir)
        found = [*self._of_others(src, student), *_back_dated(src, taken, record["timestamp"])]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(doubts(self.coursedir) | {student: found}, indent=1))

    def _of_others(self, src: str, student: str) -> Iterator[str]:
        """Who else owns files of a submission, also if accounts have names of their own."""
        inbound = (os.path.join(self.inbound_path, r["filename"]) for r in self.src_records)
        accounts, owner = Counter(map(_account, inbound)), _account(src)
        others = {_account(path) for path in Path(src).rglob("*")} - {owner}
        has_account = os.path.expanduser(f"~{student}") != f"~{student}"
        if owner != student and (has_account or 1 < accounts[owner] < accounts.total()):
            others.add(owner)
        if self.check_owner and others:
            yield in_a_line(f"its files belong to {', '.join(sorted(others))}, not to {student}")


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
    stamp = "timestamp.txt"
    try:
        claimed = min(named, parse_utc((taken / stamp).read_text()[:100].strip()))
        folder, file = os.lstat(src), os.lstat(os.path.join(src, stamp))
    except (OSError, ValueError, OverflowError):
        yield "it has no valid time of submission"
        return
    times = [folder.st_mtime, folder.st_ctime, file.st_ctime]  # a student can't set the last two
    times += [os.lstat(path).st_mtime for path in Path(src).rglob("*")]
    changed = datetime.fromtimestamp(max(times), UTC).replace(tzinfo=None)  # as nbgrader's are
    if changed - claimed > SUBMITTING:
        yield f"its time is {claimed:%d %B %H:%M}, but it changed on {changed:%d %B %H:%M}"
