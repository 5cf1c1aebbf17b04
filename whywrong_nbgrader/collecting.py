"""Collects files, but no links, from the exchange folder of the students."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect

from .readable import in_a_line
from .submissions import strange_in


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
            super().do_copy(str(taken), dest, log)
