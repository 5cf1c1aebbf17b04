"""Drawings of heads, blocks and models, stored as SVG, each with a description in words.

They use the page's text colour, so they are readable on light and dark pages and in print; learned
or marked parts have a thick border as well as a colour.
"""

from __future__ import annotations

import html
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_utils.desk.language import localised

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Drawing:
    """A drawing, which is shown as a picture in a notebook and as text in a terminal."""

    svg: str
    title: str
    alt: str
    steps: tuple[str, ...]

    def __repr__(self) -> str:
        steps = (f"  {localised(step)}" for step in self.steps or [self.alt])
        return "\n".join([localised(self.title), *steps])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        first, *others = self.steps or [""]
        steps = [f"Diagram: {self.title}. From top to bottom: {first}", *others]
        spoken = localised(self.alt) or f"{'; '.join(map(localised, steps))}."
        picture = self.svg.replace("<svg ", f'<svg aria-label="{html.escape(spoken)}" ', 1)
        note = lines = ""
        if any("(learned)" in step for step in self.steps):
            learns = localised("A thick blue border: it learns.")
            note = f'<div style="font-weight:400">{learns}</div>'
        if self.steps:
            items = (html.escape(localised(step)) for step in self.steps)
            listed = "".join(f"<li><code>{item}</code></li>" for item in items)
            lines = (
                '<details style="margin-top:0.5em"><summary style="cursor:pointer">'
                f"{localised('the same as text')}</summary><ol>{listed}</ol></details>"
            )
        page = (
            '<figure style="margin:0.5em 0;color:var(--jp-content-font-color1, inherit)">'
            '<figcaption style="font-weight:600;margin-bottom:0.5em">'
            f"{html.escape(localised(self.title))}{note}</figcaption>{picture}{lines}</figure>"
        )
        return {"text/html": page, "text/plain": repr(self)}


def drawing(name: str, title: str = "") -> Drawing:
    """Show one of the stored drawings.

    Args:
        name: one of the names in texts.toml.
        title: what the reader should see in it, if it differs from the stored title.

    Raises:
        ValueError: there is no drawing with that name.
    """
    if name not in _texts():
        raise ValueError(f"there is no drawing {name!r}; there are {', '.join(_texts())}")
    text = _texts()[name]
    svg = (FOLDER / f"{name}.svg").read_text(encoding="utf-8").strip()
    alt = " ".join(text.get("alt", "").split())
    return Drawing(svg, title or text["title"], alt, tuple(text.get("steps", ())))


@cache
def _texts() -> dict[str, dict[str, Any]]:
    return tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))
