"""`make minutes`: computes how long each sitting of each lesson takes, and how wordy it is.

A sitting is what you read and do without a break: at most 45 minutes. In a notebook,

- `## Sitting 2 of 2 · What masks are for (about 30 minutes)` starts a sitting, and so does `##
  Workshop (about 15 minutes)`; a lesson without such a heading is one sitting;
- everything before the first such heading belongs to the first sitting.

`make notebooks` writes the minutes wherever a lesson states them: into those headings, into `(7
minutes)` after a section's heading, into the first "about 40 minutes" of a lesson with one sitting,
and into the line below an exercise's heading, `*Difficulty: ●●○ · about 10 minutes · 2 points*`.

The second table has the words of each lesson beside those of an earlier draft, which was as clear:
its text cells, the share of them in parentheses, in "What just happened" and with digits, the
explanations and replies in kept_back.toml, and the number of paragraphs over 80 words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course_utils.desk.kept_back import kept_back
from whywrong.hosting import catalogue
from whywrong_nbgrader.cells import as_found, checked_exercise
from whywrong_nbgrader.cells import without_hidden_tests as as_handed_out

from . import SOLUTIONS, START_PAGE

LONGEST = 45
WORDS_A_MINUTE = 130
SECONDS_A_LINE = 7
MINUTES_A_PREDICTION = 0.6
MINUTES_A_FIGURE = 0.7
MINUTES_A_POINT = 5

SITTING = re.compile(r"^#{1,2} (Sitting \d+ of \d+|Workshop)\b.*", re.M)
HEADING = re.compile(r"^#{1,2} .*", re.M)
SECTION = re.compile(r"^## .*", re.M)
PREDICTION = re.compile(r"\*\*(?:predict|guess)", re.I)
STATED = re.compile(r"(?<=\()(?P<about>about )?\d+ minutes?(?=\)$)", re.M)
PROMISED = re.compile(r"\babout\s+\d+\s+minutes?\b")
EXERCISE = re.compile(r"^### Exercise: `(\w+)`", re.M)
DIFFICULTY = re.compile(r"^(\*Difficulty: [●○]{3}) · .*\*$", re.M)

# Not counted as words: link targets, formulas on separate lines, markup, isolated symbols.
UNREAD = re.compile(r"(?<=\])\([^)]*\)|\$\$.*?\$\$|<[^>\n]*>", re.S)
WORD = re.compile(r"\S*\w\S*")
SOLUTION = re.compile(r"### BEGIN SOLUTION.*?### END SOLUTION", re.S)
QUIZ_ENTRY = re.compile(r"^ *[\"'].*:", re.M)
NOT_READ = ("report_environment()",)

PARENTHESES = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
RECAP = re.compile(r"^#+ What just happened\n(.*?)(?=^#|\Z)", re.M | re.S)
LONGEST_PARAGRAPH = 80
# The words of each lesson's text cells at commit 5c2a056; lesson 17 didn't exist.
EARLIER = {"00": 1067, "01": 1010, "02": 644, "03": 1019, "04": 3051, "05": 1754, "06": 1372}
EARLIER |= {"07": 2278, "08": 2247, "09": 2580, "10": 3586, "11": 2257, "12": 2228, "13": 2417}
EARLIER |= {"14": 1495, "15": 1534, "16": 1538}


@dataclass(frozen=True)
class Count:
    """The amount of work in a piece of a lesson."""

    words: float = 0
    lines: int = 0
    predictions: int = 0
    figures: int = 0
    points: float = 0.0

    def __add__(self, other: Count) -> Count:
        return Count(*map(add, astuple(self), astuple(other)))

    @property
    def minutes(self) -> int:
        """Whole minutes, at least one; half a minute is rounded up."""
        counted = (
            self.words / WORDS_A_MINUTE
            + self.lines * SECONDS_A_LINE / 60
            + self.predictions * MINUTES_A_PREDICTION
            + self.figures * MINUTES_A_FIGURE
            + self.points * MINUTES_A_POINT
        )
        return max(1, int(counted + 0.5))


def count(cells: Sequence[NotebookNode], points: Mapping[str, float]) -> Count:
    """The work in a solution's cells for a student, who doesn't see the answers."""
    return sum((_count_cell(cell, points) for cell in cells), Count())


def _count_cell(cell: NotebookNode, points: Mapping[str, float]) -> Count:
    if cell.cell_type == "markdown":
        return Count(
            words=len(_words(cell.source)),
            predictions=len(PREDICTION.findall(cell.source)),
        )
    if cell.cell_type != "code":
        return Count()
    if exercise := checked_exercise(cell):
        return Count(points=points.get(exercise, 0.0))
    source = SOLUTION.sub(_stub, as_found(as_handed_out(cell.source)))
    read = not any(piece in source for piece in NOT_READ)
    return Count(
        lines=sum(bool(line.strip()) for line in source.splitlines()) if read else 0,
        figures=sum(map(_is_figure, cell.outputs)),
    )


def _words(text: str) -> list[str]:
    return WORD.findall(UNREAD.sub(" ", text))


def _stub(solution: re.Match[str]) -> str:
    """Counts a quiz's questions; any other solution counts as one line."""
    return "\n".join(QUIZ_ENTRY.findall(solution[0])) or "..."


def _is_figure(output: NotebookNode) -> bool:
    data = output.get("data", {})
    page = data.get("text/html", "")
    return (
        "image/png" in data
        or "<svg" in page
        or data.get("text/plain", "").startswith("attention_map(")
    )


def sittings(cells: Sequence[NotebookNode]) -> list[tuple[str, list[NotebookNode]]]:
    """The name and cells of each sitting; a lesson without headings has one named ""."""
    begins = [(i, m[1]) for i, cell in _texts(cells) if (m := SITTING.search(cell.source))]
    if not begins:
        return [("", list(cells))]
    ends = [0, *(i for i, _ in begins[1:]), len(cells)]
    return [
        (name, list(cells[a:b])) for (_, name), (a, b) in zip(begins, pairwise(ends), strict=True)
    ]


def state(
    notebook: NotebookNode, points: Mapping[str, float], ungraded: Collection[str] = ()
) -> None:
    """Write the minutes and points wherever a lesson states them, in place.

    Args:
        ungraded: the exercises that take time but aren't graded.
    """
    cells = notebook.cells
    parts = sittings(cells)
    if len(parts) == 1 and cells and cells[0].cell_type == "markdown":
        promise = f"about {_number(count(cells, points).minutes, 'minute')}"
        cells[0].source = PROMISED.sub(promise, cells[0].source, count=1)
    for name, part in parts:
        for _, cell in _texts(part):
            if name and (heading := SITTING.search(cell.source)):
                said = _stated(heading[0], count(part, points).minutes)
                cell.source = cell.source.replace(heading[0], said, 1)
    for cell, line, section in _sections(cells):
        if not SITTING.match(line):
            said = _stated(line, count(section, points).minutes)
            cell.source = cell.source.replace(line, said, 1)
    for _, cell in _texts(cells):
        exercise = EXERCISE.search(cell.source)
        if exercise and exercise[1] in points:
            said = _effort(points[exercise[1]], exercise[1] not in ungraded)
            cell.source = DIFFICULTY.sub(rf"\1 · {said}*", cell.source)


def _effort(points: float, graded: bool) -> str:
    worth = _number(points, "point") if graded else "not graded"
    return f"about {_number(Count(points=points).minutes, 'minute')} · {worth}"


def _stated(heading: str, minutes: int) -> str:
    return STATED.sub(lambda m: (m["about"] or "") + _number(minutes, "minute"), heading)


def _number(count: float, of: str) -> str:
    return f"{count:g} {of}{'' if count == 1 else 's'}"


def _sections(
    cells: Sequence[NotebookNode],
) -> list[tuple[NotebookNode, str, list[NotebookNode]]]:
    """The cell and the line of each heading of the first or second level, and the cells up to the
    next one; a text cell with a heading further down is cut there."""
    pieces = [(cell, piece) for cell in cells for piece in _pieces(cell)]
    begins = [
        (i, heading[0])
        for i, (_, piece) in enumerate(pieces)
        if piece.cell_type == "markdown" and (heading := HEADING.match(piece.source))
    ]
    ends = [*(i for i, _ in begins[1:]), len(pieces)]
    return [
        (pieces[a][0], heading, [piece for _, piece in pieces[a:b]])
        for (a, heading), b in zip(begins, ends, strict=False)  # a lesson may have no heading
    ]


def _pieces(cell: NotebookNode) -> list[NotebookNode]:
    if cell.cell_type != "markdown":
        return [cell]
    cuts = sorted({0, *(heading.start() for heading in SECTION.finditer(cell.source))})
    return [new_markdown_cell(cell.source[a:b]) for a, b in pairwise([*cuts, len(cell.source)])]


def _texts(cells: Sequence[NotebookNode]) -> Iterator[tuple[int, NotebookNode]]:
    return ((i, cell) for i, cell in enumerate(cells) if cell.cell_type == "markdown")


TOTALS = re.compile(
    r"about \d+ hours(?P<between>.*?)in \d+ sittings, and are worth [\d.]+ points", re.S
)


def state_totals(page: Path, points: Mapping[str, float], ungraded: Collection[str] = ()) -> None:
    """Write into a page the total time of all lessons, and the points that are graded."""
    parts = [
        cells
        for path in SOLUTIONS.glob("*/*.ipynb")
        for _, cells in sittings(nbformat.read(path, as_version=4).cells)
    ]
    hours = sum(count(cells, points).minutes for cells in parts) / 60
    graded = sum(each for id, each in points.items() if id not in ungraded)
    worth = f"in {len(parts)} sittings, and are worth {graded:g} points"
    before = page.read_text(encoding="utf-8")
    after = TOTALS.sub(lambda m: f"about {hours:.0f} hours{m['between']}{worth}", before)
    if after != before:
        page.write_text(after, encoding="utf-8")


def table(paths: Sequence[Path], points: Mapping[str, float]) -> tuple[list[str], bool]:
    """The lines to print, and whether all sittings are short enough."""
    lines = [
        "lesson                     sitting         words  lines  predict  figures  points  min"
    ]
    well = True
    for path in paths:
        for name, cells in sittings(nbformat.read(path, as_version=4).cells):
            c = count(cells, points)
            long = c.minutes > LONGEST
            well = well and not long
            lines.append(
                f"{path.stem:26} {name:15} {c.words:5}  {c.lines:5}  {c.predictions:7}"
                f"  {c.figures:7}  {c.points:6g}  {c.minutes:3}{'  too long' if long else ''}"
            )
    return lines, well


def words(paths: Sequence[Path]) -> list[str]:
    """The lines to print about the words of lessons, with a total."""
    lines = [
        "lesson                     words  before  in ( )  recaps  digits  kept back  too long"
    ]
    total = [0] * 7
    for path in paths:
        texts = [c.source for _, c in _texts(nbformat.read(path, as_version=4).cells)]
        number, every = path.stem[:2], _words("\n\n".join(texts))
        replies = kept_back().get(number, {})
        row = [
            len(every),
            EARLIER.get(number, 0),
            sum(len(_words(found)) for text in texts for found in _parentheses(text)),
            sum(len(_words(found)) for text in texts for found in RECAP.findall(text)),
            sum(bool(re.search(r"\d", word)) for word in every),
            sum(len(_words(text)) for part in ("why", "wrong") for text in _strings(replies, part)),
            sum(len(_words(part)) > LONGEST_PARAGRAPH for text in texts for part in prose(text)),
        ]
        total = [*map(add, total, row)]
        lines.append(_wordy(path.stem, row))
    return [*lines, _wordy("together", total)]


def _wordy(name: str, row: Sequence[int]) -> str:
    count, before, *shares, kept, long = row
    parts = "".join(f"{share / max(count, 1):8.1%}" for share in shares)
    return (
        f"{name:26} {count:5,}  {f'{before:,}' if before else '-':>6}{parts}  {kept:9,}  {long:8}"
    )


def _parentheses(text: str) -> list[str]:
    return PARENTHESES.findall(re.sub(r"`[^`\n]*`|\$[^$]*\$", "x", UNREAD.sub(" ", text)))


def _strings(kept: Mapping[str, Any], part: str) -> Iterator[str]:
    for text in kept.get(part, {}).values():
        yield from [text] if isinstance(text, str) else text.values()


def prose(text: str) -> list[str]:
    """The paragraphs and bullets of a text cell, without its headings and tables."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [part for part in parts if not part.lstrip().startswith(("#", "|", "$$"))]


def main(arguments: list[str], solutions: Path = SOLUTIONS) -> int:
    """Print the minutes of every sitting, or of the lessons whose names begin this way."""
    paths = sorted(
        path
        for path in solutions.glob("*/*.ipynb")
        if path.name != START_PAGE and (not arguments or path.name.startswith(tuple(arguments)))
    )
    lines, well = table(paths, catalogue().points())
    print("\n".join([*lines, "", *words(paths)]))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
