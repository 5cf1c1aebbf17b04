"""Diagrams of the data flow in an architecture: boxes, arrows, and shapes on the arrows.

`diagram` takes a list that reads like code: each step has its inputs and its output shape.
Diagrams use the page's text colour, so they are readable on light and dark pages and in print.
Learned steps have a thick border as well as a colour. As text, a diagram is the list of steps.
"""

from __future__ import annotations

import html
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .colours import ABOVE

CHARACTER = 7.4  # approximate width of a character in a box, in CSS pixels
SHAPE_CHARACTER = 6.7
LINE = 17
BOX_PADDING = 11
ROW_GAP = COLUMN_GAP = 40
LANE = 16  # space between a box and an arrow around it
BEND = HEAD = 7  # sizes of a line's corner and of an arrow head

BLUE = ABOVE[5]  # a colour that contrasts with white and with black


@dataclass(frozen=True)
class Step:
    """One box of a diagram.

    Args:
        name: the step's name in other steps' inputs, and the text in its box.
        inputs: names of the earlier steps whose results the step takes.
        shape: the output's shape, which is written on the arrows.
        label: the text, if it differs from the name. A sign such as "+" is drawn as a circle.
        learned: whether the step has parameters.
        column: the horizontal position, from 0. By default, it is below the middle of the step's
            inputs, but an input that only one step needs and that is not its first input is to the
            left of that step.
        row: the vertical position; by default below all inputs.
    """

    name: str
    inputs: Sequence[str] = ()
    shape: str = ""
    label: str = ""
    learned: bool = False
    column: float | None = None
    row: float | None = None

    @property
    def lines(self) -> list[str]:
        return (self.label or self.name).split("\n")

    @property
    def drawn_round(self) -> bool:
        return len(self.label) == 1 and len(self.inputs) > 1


def diagram(
    steps: Sequence[Step],
    title: str,
    *,
    frames: Mapping[str, Sequence[str]] | None = None,
    alt: str = "",
) -> Diagram:
    """Draw steps from top to bottom, with an arrow from each input.

    Args:
        steps: the steps, in the order of computation.
        title: what the diagram shows.
        frames: for each heading, the names of the steps in its dashed frame.
        alt: a text alternative of one sentence; the list of steps is added automatically.

    Raises:
        ValueError: two steps have the same name, or an input is not an earlier step.

    >>> diagram([Step("x", shape="(B, T, C)"), Step("norm", ["x"], "(B, T, C)")], "A start")
    A start
      x: (B, T, C)
      norm from x: (B, T, C)
    """
    known: set[str] = set()
    for step in steps:
        unknown = [name for name in step.inputs if name not in known]
        if unknown:
            raise ValueError(f"{step.name!r} takes {unknown[0]!r}, which is not an earlier step")
        if step.name in known:
            raise ValueError(f"two steps are called {step.name!r}: give one of them a label")
        known.add(step.name)
    for heading, names in (frames or {}).items():
        if missing := [name for name in names if name not in known]:
            raise ValueError(f"the frame {heading!r} contains {missing[0]!r}, which is not a step")
    return Diagram(tuple(steps), title, dict(frames or {}), alt)


@dataclass(frozen=True, repr=False)
class Diagram:
    """A finished diagram, which a notebook shows as a picture and a terminal as text."""

    steps: tuple[Step, ...]
    title: str
    frames: dict[str, Sequence[str]]
    alt: str

    @property
    def text(self) -> list[str]:
        """The diagram as text, one line per step."""
        return [_as_text(step) for step in self.steps]

    def __repr__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.text)])

    def svg(self) -> str:
        """The drawing alone, as SVG."""
        return _Drawing(self.steps, self.frames).svg(self._alternative())

    def _alternative(self) -> str:
        steps = "; ".join(self.text)
        return self.alt or f"Diagram: {self.title}. The steps from top to bottom: {steps}."

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        lines = "".join(f"<li><code>{html.escape(line)}</code></li>" for line in self.text)
        note = ""
        if any(step.learned for step in self.steps):
            note = '<div style="font-weight:400">A thick blue border: it learns.</div>'
        page = (
            '<figure style="margin:0.5em 0;color:var(--jp-content-font-color1, inherit)">'
            f'<figcaption style="font-weight:600;margin-bottom:0.5em">{html.escape(self.title)}'
            f"{note}</figcaption>{self.svg()}"
            '<details style="margin-top:0.5em"><summary style="cursor:pointer">the same as text'
            f"</summary><ol>{lines}</ol></details></figure>"
        )
        return {"text/html": page, "text/plain": repr(self)}


def _as_text(step: Step) -> str:
    label = " ".join(step.lines)
    named = step.name if label == step.name else f"{step.name} = {label}"
    if step.drawn_round:
        named = f"{step.name} = {f' {label} '.join(step.inputs)}"
    named += " (learned)" * step.learned
    if step.inputs and not step.drawn_round:
        named += f" from {' and '.join(step.inputs)}"
    return f"{named}: {step.shape}" if step.shape else named


@dataclass(frozen=True)
class _Box:
    """A step with its position, in CSS pixels."""

    step: Step
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height / 2


class _Drawing:
    """A drawing: the positions of its boxes and lines, and the SVG."""

    def __init__(self, steps: Sequence[Step], frames: Mapping[str, Sequence[str]]) -> None:
        self.frames = frames
        self.users: dict[str, list[Step]] = {
            step.name: [user for user in steps if step.name in user.inputs] for step in steps
        }
        self.boxes = _placed(steps, self.users)
        self.middle = sum(box.x for box in self.boxes.values()) / len(self.boxes)
        self.lanes: list[tuple[float, float, float]] = []  # x, from y, to y
        self.lane_sides: dict[str, set[int]] = {}
        self.parts: list[str] = []
        self.labelled: set[str] = set()
        self.shape_ends: dict[str, tuple[float, float]] = {}
        self.low = [box.left for box in self.boxes.values()]
        self.high = [box.right for box in self.boxes.values()]
        self.bottom = max(box.bottom for box in self.boxes.values())
        self.top = min(box.top for box in self.boxes.values())

    def svg(self, alt: str) -> str:
        for box in self.boxes.values():
            for name in box.step.inputs:
                self._arrow(self.boxes[name], box)
        for box in self.boxes.values():
            if not self.users[box.step.name] and box.step.shape and box.step.inputs:
                end = (box.x, box.bottom + ROW_GAP)
                self._path([(box.x, box.bottom), end])
                self.bottom = max(self.bottom, end[1])
            self._shape(box)
        arrows = self.parts
        self.parts = []
        for heading, names in self.frames.items():
            self._frame(heading, [self.boxes[name] for name in names])
        self.parts += arrows
        for box in self.boxes.values():
            self._box(box)
        margin = 3
        left, top = min(self.low) - margin, self.top - margin
        width, height = max(self.high) + margin - left, self.bottom + margin - top
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{html.escape(alt)}" '
            f'viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" font-size="13" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" '
            f'style="max-width:100%;height:auto">{"".join(self.parts)}</svg>'
        )

    # -------------------------------------------------------------- arrows

    def _arrow(self, source: _Box, target: _Box) -> None:
        if source.y == target.y:
            return self._across(source, target)
        if source.x == target.x:
            if self._free_down(source, target):
                return self._path([(source.x, source.bottom), (target.x, target.top)])
            return self._around(source, target)
        if not self._free_down(source, target):
            return self._around(source, target)
        side = -1 if source.x < target.x else 1
        edge = target.x + side * target.width / 2
        if (source.x - edge) * side > 26 and self._free_across(source, target):
            return self._path([(source.x, source.bottom), (source.x, target.y), (edge, target.y)])
        bar = target.top - BEND - 11
        port = self._port(source, target)
        self._path([(source.x, source.bottom), (source.x, bar), (port, bar), (port, target.top)])

    def _across(self, source: _Box, target: _Box) -> None:
        side = 1 if source.x < target.x else -1
        start, end = source.x + side * source.width / 2, target.x - side * target.width / 2
        self._path([(start, source.y), (end, target.y)])
        text = source.step.shape
        if text and source.step.name not in self.labelled:
            self.labelled.add(source.step.name)
            if abs(end - start) > len(text) * SHAPE_CHARACTER + HEAD + 6:
                self._text((start + end - side * HEAD) / 2, source.y - 6, text, "middle", code=True)
            else:
                self._text(source.x, source.bottom + 15, text, "middle", code=True)

    def _around(self, source: _Box, target: _Box) -> None:
        """Draw an arrow that starts below the source, goes around the boxes, and ends at a side."""
        if source.x != target.x:
            side = 1 if target.x > source.x else -1
        else:
            side = 1 if source.x > self.middle + 1 else -1
        start = source.bottom + 11
        between = [
            box
            for box in self.boxes.values()
            if source.y <= box.y <= target.y and abs(box.x - source.x) < box.width
        ]
        lane = max((box.x - source.x) * side + box.width / 2 for box in between) + LANE
        while any(
            abs(x - source.x - side * lane) < LANE - 4 and start < to and target.y > since
            for x, since, to in self.lanes
        ):
            lane += LANE - 4
        x = source.x + side * lane
        self.lanes.append((x, start, target.y))
        self.lane_sides.setdefault(source.step.name, set()).add(side)
        self.low.append(x - 2)
        self.high.append(x + 2)
        edge = side if source.x == target.x else -side
        end = (target.x + edge * target.width / 2, target.y)
        self._path([(source.x, start), (x, start), (x, target.y), end])
        self.parts.append(
            f'<circle cx="{source.x:.1f}" cy="{start:.1f}" r="2.5" fill="currentColor"/>'
        )

    def _port(self, source: _Box, target: _Box) -> float:
        """The point where an arrow meets its target's top, at a distance from other arrows."""
        above = [self.boxes[name] for name in target.step.inputs]
        above = [box for box in above if box.y < target.y]
        if len(above) == 1:
            return target.x
        return target.x + (-1 if source.x < target.x else 1) * target.width / 4

    def _free_down(self, source: _Box, target: _Box) -> bool:
        return not any(
            abs(box.x - source.x) < box.width / 2 and source.y < box.y < target.y
            for box in self.boxes.values()
        )

    def _free_across(self, source: _Box, target: _Box) -> bool:
        """Whether the target's row is empty between the target and the source's column."""
        low, high = sorted((source.x, target.x))
        return not any(
            box.y == target.y and low < box.right and box.left < high
            for box in self.boxes.values()
            if box is not target
        )

    def _path(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw a line with rounded corners and an arrow head at its end."""
        (x, y), (before_x, before_y) = points[-1], points[-2]
        dx, dy = _sign(x - before_x), _sign(y - before_y)
        tip = (x - dx * 1.5, y - dy * 1.5)
        stop = (tip[0] - dx * (HEAD - 1), tip[1] - dy * (HEAD - 1))
        line = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        corners = [*points[:-1], stop]
        for here, corner, there in zip(corners, corners[1:], corners[2:], strict=False):
            into, out = _towards(corner, here), _towards(corner, there)
            line.append(f"L{into[0]:.1f} {into[1]:.1f}")
            line.append(f"Q{corner[0]:.1f} {corner[1]:.1f} {out[0]:.1f} {out[1]:.1f}")
        line.append(f"L{stop[0]:.1f} {stop[1]:.1f}")
        self.parts.append(
            f'<path d="{"".join(line)}" fill="none" stroke="currentColor" stroke-width="1.3"/>'
        )
        wing = HEAD * 0.55
        one = (tip[0] - dx * HEAD - dy * wing, tip[1] - dy * HEAD + dx * wing)
        other = (tip[0] - dx * HEAD + dy * wing, tip[1] - dy * HEAD - dx * wing)
        corners = [tip, one, other]
        self.parts.append(
            '<path d="M'
            + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
            + 'Z" fill="currentColor"/>'
        )

    def _shape(self, box: _Box) -> None:
        """Write the shape next to the downward arrow, on the side without branches."""
        if not box.step.shape or box.step.name in self.labelled:
            return
        sides = self.lane_sides.get(box.step.name, set())
        side = -1 if 1 in sides and -1 not in sides else 1
        width = len(box.step.shape) * SHAPE_CHARACTER
        x = box.x + side * 8
        (self.high if side > 0 else self.low).append(x + side * width)
        self.shape_ends[box.step.name] = (x, x + side * width)
        anchor = "start" if side > 0 else "end"
        self._text(x, box.bottom + 16, box.step.shape, anchor, code=True)

    # -------------------------------------------------------------- boxes

    def _box(self, box: _Box) -> None:
        step = box.step
        fill, border = (f"{BLUE}2e", BLUE) if step.learned else ("none", "currentColor")
        data = not step.inputs and len(step.lines) == 1
        radius = box.height / 2 if data or step.drawn_round else 6
        self.parts.append(
            f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
            f'height="{box.height:.1f}" rx="{radius:.1f}" fill="{fill}" '
            f'stroke="{border}" stroke-width="{2.4 if step.learned else 1.2}"/>'
        )
        first = box.y - (len(step.lines) - 1) * LINE / 2 + 4.5
        for number, line in enumerate(step.lines):
            bold = len(step.lines) > 1 and number == 0
            self._text(box.x, first + number * LINE, line, "middle", bold=bold)

    def _frame(self, heading: str, boxes: Sequence[_Box]) -> None:
        inside_lanes = [lane for lane in self.lanes if self._lane_inside(boxes, *lane)]
        inside = [x for x, _, _ in inside_lanes]
        shapes = [end for box in boxes for end in self.shape_ends.get(box.step.name, ())]
        left = min([box.left for box in boxes] + inside + shapes) - 13
        right = max([box.right for box in boxes] + inside + shapes) + 13
        first, last = min(boxes, key=lambda box: box.top), max(boxes, key=lambda box: box.bottom)
        from_above = any(since < first.top for _, since, _ in inside_lanes)
        top = first.top - (ROW_GAP - 5 if from_above else 14)
        bottom = last.bottom + (25 if last.step.shape else 14)
        self.low.append(left)
        self.high.append(right)
        self.top, self.bottom = min(self.top, top), max(self.bottom, bottom)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - top:.1f}" rx="10" fill="none" stroke="currentColor" '
            'stroke-width="1" stroke-dasharray="2 4"/>'
        )
        width = len(heading) * CHARACTER * 1.1
        self._text(right + 8 + width / 2, top + 15, heading, "middle", bold=True)
        self.high.append(right + 8 + width)

    def _lane_inside(self, boxes: Sequence[_Box], x: float, since: float, to: float) -> bool:
        top, bottom = min(box.top for box in boxes), max(box.bottom for box in boxes)
        near = min(abs(box.x - x) - box.width / 2 for box in boxes) < 4 * LANE
        return near and top - ROW_GAP <= since and to <= bottom

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str,
        *,
        code: bool = False,
        bold: bool = False,
    ) -> None:
        style = ' font-size="11" font-family="ui-monospace, Menlo, Consolas, monospace"' * code
        style += ' font-weight="600"' * bold
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="currentColor"{style}>{html.escape(text)}</text>'
        )


def _placed(steps: Sequence[Step], users: Mapping[str, Sequence[Step]]) -> dict[str, _Box]:
    """A box for each step in its row and column, all of equal width."""
    beside = {
        step.name: users[step.name][0]
        for step in steps
        if not step.inputs and users[step.name] and users[step.name][0].inputs[0] != step.name
    }
    rows: dict[str, float] = {}
    columns: dict[str, float] = {}
    for step in steps:
        came = [name for name in step.inputs if name not in beside]
        below = max((rows[name] for name in came), default=-1.0) + 1
        rows[step.name] = below if step.row is None else step.row
        middle = sum(columns[name] for name in came) / len(came) if came else 0.0
        columns[step.name] = middle if step.column is None else step.column
    for step in steps:
        if step.name in beside:
            user = beside[step.name].name
            rows[step.name] = rows[user] if step.row is None else step.row
            columns[step.name] = columns[user] - 1.1 if step.column is None else step.column
        elif not step.inputs and users[step.name] and step.row is None:
            rows[step.name] = min(rows[user.name] for user in users[step.name]) - 1

    width = max(
        [max(len(line) for line in step.lines) * CHARACTER for step in steps if step.lines] + [56]
    ) + 2 * (BOX_PADDING - 1)
    most_lines = max(len(step.lines) for step in steps)
    height = most_lines * LINE + 2 * BOX_PADDING - 4
    boxes = {}
    for step in steps:
        circle = step.drawn_round
        boxes[step.name] = _Box(
            step,
            x=columns[step.name] * (width + COLUMN_GAP),
            y=rows[step.name] * (height + ROW_GAP),
            width=26 if circle else width,
            height=26 if circle else height,
        )
    return boxes


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _towards(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The point on the line to `other` at which a rounded corner begins."""
    length = abs(other[0] - corner[0]) + abs(other[1] - corner[1])
    bend = min(BEND, length / 2)
    return (
        corner[0] + _sign(other[0] - corner[0]) * bend,
        corner[1] + _sign(other[1] - corner[1]) * bend,
    )


# ---------------------------------------------------------------- diagrams of the lessons


def _of_the_lessons() -> dict[str, list[Step]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: [Step(**step) for step in steps] for name, steps in tomllib.loads(text).items()}


_DIAGRAMS = _of_the_lessons()
MULTI_HEAD_ATTENTION = _DIAGRAMS["MULTI_HEAD_ATTENTION"]
TRANSFORMER_BLOCK = _DIAGRAMS["TRANSFORMER_BLOCK"]
RESIDUAL_STREAM = _DIAGRAMS["RESIDUAL_STREAM"]
ENCODER_DECODER = _DIAGRAMS["ENCODER_DECODER"]
TRANSLATOR = _DIAGRAMS["TRANSLATOR"]
