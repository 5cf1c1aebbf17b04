"""The maps and explorers of the lessons as the site shows them, which has no kernel.

A lesson that runs leaves the states of its widgets in `site/live/`, by the cell's id.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nbformat import NotebookNode
from safetensors.torch import load, save

from course_utils.show.attention_map.widget import AttentionMap
from course_utils.show.explorer import Explorer
from whywrong_nbgrader.cells import WIDGET_VIEW

from . import ROOT

LIVE = ROOT / "site" / "live"
WIDGETS: dict[str, Any] = {"AttentionMap": AttentionMap, "Explorer": Explorer}
ALL_STATES = "application/vnd.jupyter.widget-state+json"
TABLES = ("attention-map-static", "next-word-static")
PYTHON_ONLY = "translation-static"  # around a map's table: the line that translates needs a kernel
OF_JUPYTER = (
    "_esm",
    "_css",
    "_anywidget_id",
    "_dom_classes",
    "layout",
    "tabbable",
    "tooltip",
    "_said",
)

State = dict[str, Any]


def states(notebook: NotebookNode) -> list[list[State]]:
    """For each cell of a notebook that has just run: the maps and explorers it shows."""
    known = notebook.metadata.get("widgets", {}).get(ALL_STATES, {}).get("state", {})
    found = []
    for cell in notebook.cells:
        views = [o.get("data", {}).get(WIDGET_VIEW, {}) for o in cell.get("outputs", [])]
        kept = [_state(known[v["model_id"]]) for v in views if v.get("model_id") in known]
        found.append([state for state in kept if state])
    return found


def _state(model: dict[str, Any]) -> State | None:
    name = model["state"].get("_anywidget_id", "").rpartition(".")[2]
    if name not in WIDGETS:
        return None
    given = {
        key: value
        for key, value in model["state"].items()
        if key not in OF_JUPYTER and not key.startswith(("_model_", "_view_"))
    }
    given.get("_data", {}).pop("colours", None)  # the same for all maps
    buffers = {"/".join(map(str, b["path"])): b["data"] for b in model.get("buffers", [])}
    return for_the_page(name, given, buffers)


def for_the_page(name: str, given: State, buffers: dict[str, str]) -> State:
    """A state whose numbers are as short as the page needs: parameters have two bytes each."""
    if "_weights" in buffers:
        tensors = load(base64.b64decode(buffers["_weights"]))
        packed = save({key: x.to(torch.float16) for key, x in tensors.items()})
        buffers = {"_weights": base64.b64encode(packed).decode()}
    return {"widget": name, "state": given, "buffers": buffers}


def path_of(lesson: Path) -> Path:
    return LIVE / f"{lesson.stem}.json"


def kept(lesson: Path) -> dict[str, list[State]]:
    """What is kept of a lesson, by the cell's id."""
    path = path_of(lesson)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def is_live(page: str) -> bool:
    """Whether an output is the table of a map or an explorer that runs without a kernel."""
    return PYTHON_ONLY not in page and any(mark in page for mark in TABLES)


def tables(cell: NotebookNode) -> list[str]:
    """A digest of each table in the outputs of a cell that stands for a map or an explorer."""
    pages = ["".join(o.get("data", {}).get("text/html", "")) for o in cell.get("outputs", [])]
    shown = [page for page in pages if is_live(page)]
    return [hashlib.sha1(page.encode()).hexdigest()[:8] for page in shown]


def keep(lesson: Path, cells: list[NotebookNode], found: list[list[State]]) -> None:
    """Keep these states; one whose numbers differ in their last digits alone stays as it is."""
    before, path = kept(lesson), path_of(lesson)
    after = {}
    for cell, states in zip(cells, found, strict=True):
        digests = tables(cell)
        new = [{**s, "table": digest} for s, digest in zip(states, digests, strict=True)]
        old = before.get(cell.id, [])
        if new:
            same = len(old) == len(new) and all(map(_close, old, new))
            if [(o["table"], *o["state"]) for o in old] == [(n["table"], *n["state"]) for n in new]:
                same = True  # the stored table shows the numbers that are kept
            after[cell.id] = old if same else new
    _write(path, after)


def rename(lesson: Path, ids: dict[str, str]) -> None:
    """Keep the states of cells whose ids have changed; `ids` maps old ids to new ones."""
    _write(path_of(lesson), {ids[id]: states for id, states in kept(lesson).items() if id in ids})


def _write(path: Path, states: dict[str, list[State]]) -> None:
    if not states:
        return path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{json.dumps(id)}: {json.dumps(states[id], ensure_ascii=False, sort_keys=True)}"
        for id in sorted(states)
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _close(old: State, new: State) -> bool:
    if {**old, "buffers": 0} != {**new, "buffers": 0} or old["buffers"].keys() != new[
        "buffers"
    ].keys():
        return False
    pairs = [(_numbers(old, at), _numbers(new, at)) for at in old["buffers"]]
    return all(
        a.shape == b.shape and np.allclose(a, b, rtol=0, atol=0.02 * max(1.0, np.abs(b).max()))
        for a, b in pairs
    )


def _numbers(state: State, at: str) -> np.ndarray:
    data = base64.b64decode(state["buffers"][at])
    if at == "_weights":
        return np.concatenate([x.float().numpy().ravel() for x in load(data).values()])
    packed: Any = state["state"]
    for part in at.split("/")[:-1]:
        packed = packed[int(part) if isinstance(packed, list) else part]
    numbers = np.frombuffer(data, packed["dtype"]).astype(float)
    return np.nan_to_num(numbers, neginf=-1e9)
