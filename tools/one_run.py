"""One run of the cells whose numbers differ by machine, which only the site shows and labels.

Lessons store nothing for these cells. A run of a lesson stores their outputs in `site/runs/`, by
cell id, unless outputs are already there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_output

from whywrong.hosting import localised

from . import ROOT

RUNS = ROOT / "site" / "runs"
NOTE = "From one run; the numbers of yours will differ."
SHOWN = ("image/png", "text/html", "text/plain")

Outputs = list[dict[str, Any]]


def kept(lesson: Path) -> dict[str, Outputs]:
    """What is kept of a lesson, by the cell's id."""
    path = RUNS / f"{lesson.stem}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(lesson: Path, ran: dict[str, list[NotebookNode]]) -> None:
    """Keep the outputs of cells that have none yet, and remove those of cells that are gone."""
    before, path = kept(lesson), RUNS / f"{lesson.stem}.json"
    after = {id: before.get(id) or _shown(outputs) for id, outputs in ran.items()}
    if not after:
        return path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(after, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def _shown(outputs: list[NotebookNode]) -> Outputs:
    """Return the outputs without widgets and other data that a page doesn't show."""
    for output in outputs:
        data = output.get("data", {})
        for kind in [*data]:
            if kind not in SHOWN:
                del data[kind]
    return [o for o in outputs if o.get("data") or o.output_type == "stream"]


def shown(outputs: Sequence[dict[str, Any]]) -> list[NotebookNode]:
    """Return the outputs of one run, after a line that says what they are."""
    note = f'<p class="one-run">{localised(NOTE)}</p>'
    return [new_output("display_data", {"text/html": note}), *map(from_dict, outputs)]
