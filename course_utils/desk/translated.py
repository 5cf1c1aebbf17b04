"""The lessons in another language, made from the English ones and a folder of translations.

    python -m course_utils.desk.translated

adds each edition's missing notebooks to `translations/LANGUAGE/notebooks/` in a clone.
Existing notebooks stay unchanged, because they may contain a reader's answers.
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from .language import MARKER, folders, settings

HERE = Path(__file__).resolve().parent.parent
PLACES = HERE / "notebooks", HERE.parent / "notebooks"  # in the wheel, and in a clone
HANDED_OUT = next((place for place in PLACES if place.is_dir()), PLACES[0])
EDITION = "notebooks"
PLAY = "Click here and press"  # what the start page's model shows until it is run

HEAD = re.compile(r"^<!-- ([\w-]+) -->\n", re.M)
COMMENT = re.compile(r"<!--.*?-->\s*", re.S)
LINK = re.compile(r"(?<=\]\()([^):#\s]+)(?=[)#])")


def blocks(text: str) -> dict[str, str]:
    """Return the translations in a file by cell id, without blocks that contain only comments."""
    parts = HEAD.split(text)[1:]
    found = zip(parts[::2], parts[1::2], strict=True)
    return {id: said for id, body in found if (said := COMMENT.sub("", body).strip())}


def translated(notebook: dict[str, Any], file: Path, stale: str) -> dict[str, Any]:
    """Return a notebook with its text cells translated; code, outputs, ids and metadata stay.

    Args:
        file: the translations, which need not exist.
        stale: the line to put above a cell that stays English.
    """
    own = blocks(file.read_text(encoding="utf-8")) if file.exists() else {}
    strings = file.parent / "strings" / "page.json"
    play = json.loads(strings.read_text(encoding="utf-8")) if strings.exists() else {}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            english = "".join(cell["source"])
            text = own.get(cell["id"]) or f"{stale}\n\n{english}"
            cell = cell | {"source": text.splitlines(keepends=True)}
        elif PLAY in (shown := json.dumps(cell.get("outputs", []))) and play.get(PLAY):
            cell = cell | {"outputs": json.loads(shown.replace(PLAY, play[PLAY]))}
        cells.append(cell)
    return notebook | {"cells": cells}


def build(folder: Path, out: Path, notebooks: Path = HANDED_OUT, *, again: bool = False) -> None:
    """Write the edition in a language.

    Args:
        folder: `translations/LANGUAGE`.
        out: the folder to write to; notebooks that already exist there are kept, unless `again`.
        notebooks: the English edition.
    """
    for path in sorted(notebooks.rglob("*.ipynb")):
        name = path.relative_to(notebooks)
        target = out / name
        if ".ipynb_checkpoints" in name.parts or (target.exists() and not again):
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        made = translated(notebook, (folder / name).with_suffix(".md"), settings(folder)["stale"])
        made["metadata"] = made["metadata"] | {"course": {"language": folder.name}}
        _lead(made, path, target, notebooks)
        text = json.dumps(made, ensure_ascii=False, indent=1, sort_keys=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n", encoding="utf-8")
    (out / MARKER).write_text(f"{folder.name}\n", encoding="utf-8")


def _lead(notebook: dict[str, Any], path: Path, target: Path, notebooks: Path) -> None:
    """Make links out of the folder of notebooks lead to the same files from the new place."""

    def led(match: re.Match[str]) -> str:
        there = Path(os.path.normpath(path.parent / match[1]))
        if notebooks in there.parents:
            return match[1]
        return Path(os.path.relpath(there, target.parent)).as_posix()

    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = list(map(partial(LINK.sub, led), cell["source"]))


if __name__ == "__main__":
    for place in folders().values():
        if os.access(place, os.W_OK):
            build(place, place / EDITION)
        else:
            print(f"{place} is read-only. For lessons that can be saved: course new FOLDER")
