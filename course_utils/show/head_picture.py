"""Draws an attention head with its tokens, query, key, value, scores, weights and context.

A block is a tensor with one row per token and one column per channel or key. The drawing uses the
page's text colour; the part that a lesson is about has a thick border as well as a colour.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from .colours import ABOVE

CELL = 17
WORDS = ("the", "cat", "sat")
BLUE = ABOVE[5]  # a colour that contrasts with white and with black
PARTS = ("tokens", "query", "key", "value", "scores", "mask", "weights", "context")
JOINED = ("tokens", "heads", "joined", "out_proj")


@dataclass(frozen=True, repr=False)
class HeadPicture:
    """A finished drawing, which a notebook shows as a picture and a terminal as text."""

    title: str
    alt: str
    width: int
    height: int
    parts: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.title}\n{self.alt}"

    def _repr_html_(self) -> str:
        return (
            '<figure style="margin:0.5em 0;color:var(--jp-content-font-color1, inherit)">'
            f'<figcaption style="font-weight:600;margin-bottom:0.5em">{html.escape(self.title)}'
            f'</figcaption><svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-label="{html.escape(self.alt)}" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-size="13" fill="currentColor" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
            f'style="max-width:100%;height:auto">{"".join(self.parts)}</svg></figure>'
        )


def head_picture(mark: str = "", *, heads: int = 1) -> HeadPicture:
    """Draw a head, or several heads side by side with the parts that join them.

    Args:
        mark: the part to mark. In one head: "tokens", "query", "key", "value", "scores", "mask",
            "weights" or "context"; in several: "tokens", "heads", "joined" or "out_proj".
        heads: the number of heads, from 1 to 4.

    Raises:
        ValueError: the part or the number of heads is not allowed.
    """
    known = PARTS if heads == 1 else JOINED
    if not 1 <= heads <= 4:
        raise ValueError(f"heads must be from 1 to 4; got {heads}")
    if mark and mark not in known:
        raise ValueError(f"mark must be one of {', '.join(known)}; got {mark!r}")
    return _one(mark) if heads == 1 else _several(heads, mark)


def _one(mark: str) -> HeadPicture:
    x = {"tokens": 44, "query": 186, "scores": 330, "weights": 462, "context": 612}
    y = {"query": 30, "key": 124, "value": 218}
    middle = y["query"] + 47
    low = y["value"]
    rows = [_text(36, y["key"] + 13 + CELL * i, word, "end") for i, word in enumerate(WORDS)]
    parts = [
        *rows,
        *_block(x["tokens"], y["key"], 4, "tokens", "(T, C)", mark == "tokens"),
        *(
            piece
            for name in ("query", "key", "value")
            for piece in (
                _arrow(x["tokens"] + 4 * CELL + 5, y["key"] + 26, x["query"] - 6, y[name] + 26),
                *_block(x["query"], y[name], 2, name, "(T, D)", mark == name),
            )
        ),
        _arrow(x["query"] + 2 * CELL + 5, y["query"] + 26, x["scores"] - 6, middle + 20),
        _arrow(x["query"] + 2 * CELL + 5, y["key"] + 26, x["scores"] - 6, middle + 32),
        _text(x["scores"] - 72, middle - 26, "compare"),
        *_block(x["scores"], middle, 3, "scores", "(T, T)", mark == "scores"),
        _arrow(x["scores"] + 3 * CELL + 5, middle + 26, x["weights"] - 6, middle + 26),
        _text((x["scores"] + 3 * CELL + x["weights"]) / 2, middle + 16, "softmax", "middle", 11),
        *_block(
            x["weights"], middle, 3, "weights", "(T, T)", mark == "weights", True, mark == "mask"
        ),
        _arrow(x["weights"] + 3 * CELL + 5, middle + 26, x["context"] - 6, low - 40),
        _arrow(x["query"] + 2 * CELL + 5, low + 26, x["context"] - 6, low - 8),
        _text(x["context"] - 118, low + 34, "mix the values"),
        *_block(x["context"], low - 50, 2, "context", "(T, D)", mark == "context"),
    ]
    alt = (
        "Drawing. Each of three tokens gives a query, a key and a value. Each query is compared "
        "with each key: a table of scores, one row per query. The softmax makes weights of each "
        "row, with later tokens hidden. The values, mixed with the weights of a row, are that "
        "token's context."
    )
    marked = f"; {mark} is marked" if mark else ""
    title = f"One head, from tokens to context{marked}"
    return HeadPicture(title, alt, x["context"] + 70, low + 84, tuple(parts))


def _several(heads: int, mark: str) -> HeadPicture:
    step, top, boxes = 62, 26, 170
    height = max(heads * step, 3 * CELL) + top
    middle = top + (heads * step - 14 - 3 * CELL) / 2
    joined, result = 392, 620
    rows = [_text(36, middle + 13 + CELL * i, word, "end") for i, word in enumerate(WORDS)]
    parts = [*rows, *_block(44, middle, 4, "tokens", "(T, C)", mark == "tokens")]
    for head in range(heads):
        y = top + head * step
        parts += [
            _arrow(44 + 4 * CELL + 5, middle + 26, boxes - 6, y + 24),
            _rect(boxes, y, 132, 48, mark == "heads", rx=8),
            _text(boxes + 66, y + 20, f"head {head}", "middle", weight=600),
            _text(boxes + 66, y + 37, "its own q, k and v", "middle", 11),
            _arrow(boxes + 138, y + 24, joined - 6, middle + 26),
        ]
    wide = 2 * heads
    parts += _block(joined, middle, wide, "joined", "(T, H · D)", mark == "joined", every=2)
    parts += [
        _arrow(joined + wide * CELL + 5, middle + 26, result - 6, middle + 26),
        _text((joined + wide * CELL + result) / 2, middle + 14, "out_proj", "middle", 12),
        *_block(result, middle, wide, "result", "(T, H · D)", mark == "out_proj"),
    ]
    alt = (
        f"Drawing. Three tokens go into {heads} heads, each with its own queries, keys and values. "
        "What the heads give is joined along the channels, and out_proj mixes the channels."
    )
    width = result + wide * CELL + 20
    return HeadPicture(f"{heads} heads side by side", alt, width, int(height) + 6, tuple(parts))


def _block(
    x: float,
    y: float,
    columns: int,
    name: str,
    shape: str,
    marked: bool,
    causal: bool = False,
    mask: bool = False,
    every: int = 0,
) -> list[str]:
    """Draw a tensor as cells with its last row shaded; hidden cells are crossed out."""
    cells = []
    for row in range(3):
        for column in range(columns):
            hidden = causal and column > row
            left, top = x + CELL * column, y + CELL * row
            shade = 0.34 if row == 2 else 0.0
            shade += 0.2 if every and column // every % 2 else 0.0
            cells.append(
                f'<rect x="{left:.0f}" y="{top:.0f}" width="{CELL}" height="{CELL}" fill="{BLUE}" '
                f'fill-opacity="{shade:.2f}" stroke="currentColor" stroke-opacity="0.5"/>'
            )
            if hidden:
                colour, width = (BLUE, 2.4) if mask else ("currentColor", 1)
                cells.append(
                    f'<path d="M{left + 3:.0f} {top + 3:.0f}l11 11m0 -11l-11 11" '
                    f'stroke="{colour}" stroke-width="{width}"/>'
                )
    middle = x + CELL * columns / 2
    return [
        *cells,
        _rect(x, y, CELL * columns, 3 * CELL, marked),
        _text(middle, y - 7, name, "middle", weight=600),
        _text(middle, y + 3 * CELL + 15, shape, "middle", 11),
    ]


def _rect(x: float, y: float, width: float, height: float, marked: bool, rx: int = 0) -> str:
    stroke, thick = (BLUE, 3.5) if marked else ("currentColor", 1.2)
    fill = f"{BLUE}2e" if marked else "none"
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="{rx}" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="{thick}"/>'
    )


def _arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    bend = (x + to_x) / 2
    line = f"M{x:.0f} {y:.0f}C{bend:.0f} {y:.0f} {bend:.0f} {to_y:.0f} {to_x - 6:.0f} {to_y:.0f}"
    return (
        f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="1.3"/>'
        f'<path d="M{to_x:.0f} {to_y:.0f}l-7 -4v8z"/>'
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 13, weight: int = 400
) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{html.escape(text)}</text>'
    )
