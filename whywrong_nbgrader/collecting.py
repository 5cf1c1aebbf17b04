"""What students have put into the exchange folder, taken as it is: files, and no links."""

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
    """nbgrader follows links with the instructor's rights, to a solution as to anything else; and
    one submission that can't be copied keeps it from collecting the others."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        name = in_a_line(os.path.basename(src))
        if os.path.islink(src) or self.get_size(src) > 1000 * self.coursedir.max_dir_size:
            self.log.error("%s is a link, or too large, and is not collected", name)
            return
        with tempfile.TemporaryDirectory() as folder:
            taken = Path(folder) / "taken"
            with suppress(shutil.Error):  # pipes and what may not be read: told below, or missing
                shutil.copytree(src, taken, symlinks=True)
            for said in strange_in(Path(src)):
                self.log.warning("%s: %s", name, said)
            for path in list(taken.rglob("*")):
                if path.is_symlink():
                    path.unlink()
            super().do_copy(str(taken), dest, log)
