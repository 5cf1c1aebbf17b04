"""The report as a card: what is wrong first, then the evidence, what carries points, and hints.

Plain HTML with inline styles, so that it looks the same in JupyterLab, on a feedback page and where
no program runs. Colours come from JupyterLab's theme; the second value serves pages without one.
Nothing is told by colour alone.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from .rows import BehaviourResult, Row, plain_text

INK = "var(--jp-ui-font-color1, #1f1f1f)"
FAINT = "var(--jp-ui-font-color2, #595959)"
PAPER = "var(--jp-layout-color1, #ffffff)"
TINT = "var(--jp-layout-color2, #f3f3f3)"
LINE = "var(--jp-border-color2, #c8c8c8)"
MONO = "var(--jp-code-font-family, ui-monospace, monospace)"
GOOD = "var(--jp-success-color1, #2e7d32)"
BAD = "var(--jp-error-color1, #c62828)"
# By status: the colour of the edge, and the sign.
STATUS = {
    "right": (GOOD, "✓"),
    "partly right": ("var(--jp-warn-color1, #b26a00)", "◐"),
    "not right yet": (BAD, "✗"),
    "not attempted yet": ("var(--jp-border-color1, #8a8a8a)", "○"),
}


def frame(body: str, edge: str, label: str) -> str:
    """A box with a coloured edge, for cards and messages."""
    return (
        f'<div role="group" aria-label="{escaped(label)}" style="color:{INK};background:{PAPER};'
        f"border:1px solid {LINE};border-left:6px solid {edge};border-radius:4px;"
        "padding:0.6em 1em;margin:0.3em 0;max-width:52em;line-height:1.5;font-size:14px;"
        f'text-align:left">{body}</div>'
    )


def card(report: Any) -> str:
    """The whole card of a `Report`."""
    edge, sign = STATUS[report.status]
    body = [
        '<div style="display:flex;flex-wrap:wrap;gap:0 1em;justify-content:space-between">'
        f'<span><span aria-hidden="true" style="color:{edge};font-weight:700">{sign}</span> '
        f"{rich(f'`{report.exercise}`')}: <strong>{report.status}</strong></span>"
        f"<span>{_points(report)}</span></div>"
    ]
    if report.attempted:
        body += [_what_is_wrong(report), _evidence(report), *_advice(report)]
        body += [_failing(report), _holding(report)]
    body += [*map(_note, report.notes), _hints(report), _other_way(report)]
    if report.place:
        body.append(f'<p style="margin:0.5em 0 0;color:{FAINT}">{rich(report.place)}</p>')
    return frame("".join(body), edge, f"Check of {report.exercise}")


def _points(report: Any) -> str:
    unit = "point" if report.max_points == 1 else "points"
    return f"{report.points:g} of {report.max_points:g} {unit}"


def _what_is_wrong(report: Any) -> str:
    """One sentence in bold: the misconception where there is one, else the message."""
    if report.advice:
        lead = report.advice[0][0]
        return f'<p style="margin:0.4em 0"><strong>{rich(lead)}</strong></p>'
    weight = "normal" if report.passed else "600"
    return f'<p style="margin:0.4em 0;font-weight:{weight}">{rich(report.message)}</p>'


def _advice(report: Any) -> list[str]:
    parts = []
    for number, (what, why, look) in enumerate(report.advice):
        lines = [("Why it matters:", why), ("Where to look:", look)][not why :]
        if number:
            lines.insert(0, ("And at the same time:", what))
        rows = "".join(f"<div><strong>{name}</strong> {rich(text)}</div>" for name, text in lines)
        parts.append(
            f'<div style="border:1px solid {LINE};border-radius:4px;padding:0.4em 0.8em;'
            f'margin:0.5em 0">{rows}</div>'
        )
    return parts


# ---------------------------------------------------------------- the evidence


def _evidence(report: Any) -> str:
    """The case, and the row in which a number is wrong: expected above got."""
    detail = report.detail
    parts = []
    if report.advice and report.message:
        parts.append(f'<p style="margin:0.4em 0">{rich(report.message)}</p>')
    if report.row is not None:
        detail = detail.split("First difference at")[0].rstrip()
    if detail:
        parts.append(pre(detail))
    if report.row is not None:
        parts.append(row_table(report.row))
    return "".join(parts)


def row_table(row: Row) -> str:
    """A row of numbers, expected above got; wrong ones are framed, underlined and bold."""
    cell = f"font-family:{MONO};font-size:13px;padding:0.15em 0.6em;text-align:right;color:{INK};"
    plain = f"{cell}border:1px solid transparent"
    wrong = f"{cell}border:1px solid {BAD};font-weight:700;text-decoration:underline"
    head = f"text-align:left;padding:0.15em 0.8em 0.15em 0;font-weight:600;color:{INK}"

    def cells(numbers: tuple[str, ...], mark: bool) -> str:
        return "".join(
            f'<td style="{wrong if mark and bad else plain}"'
            + (' title="wrong"' if mark and bad else "")
            + f">{escaped(n)}</td>"
            for n, bad in zip(numbers, row.wrong, strict=True)
        )

    return (
        '<div style="overflow-x:auto;margin:0.3em 0"><table style="border-collapse:separate;'
        'border-spacing:2px;font-size:13px;border:0;margin:0;background:none;width:auto">'
        f'<caption style="text-align:left;color:{INK};caption-side:top;padding:0;'
        f'font-family:{MONO}">'
        f"{rich(row.label)}</caption>"
        f'<tr style="background:none"><th scope="row" style="{head}">expected</th>'
        f"{cells(row.expected, False)}</tr>"
        f'<tr style="background:none"><th scope="row" style="{head}">got</th>'
        f"{cells(row.got, True)}</tr></table></div>"
    )


# ---------------------------------------------------------------- what fails, what holds


def _failing(report: Any) -> str:
    return _list([r for r in report.behaviours if not r.holds], marked=True)


def _holding(report: Any) -> str:
    holding = [r for r in report.behaviours if r.holds]
    if not holding:
        return ""
    count = "1 thing holds" if len(holding) == 1 else f"{len(holding)} things hold"
    return fold(f"{count}{_carried(report)}", _list(holding, marked=bool(_carried(report))))


def _carried(report: Any) -> str:
    """Where partial points come from."""
    if report.passed or not report.points:
        return ""
    carrying = [r for r in report.behaviours if r.credit]
    values = [r.holds for r in report.behaviours if r.id == "values"]
    if values and all(values):
        return f": the values are right, hence {report.points:g} of {report.max_points:g}"
    held = sum(bool(r.holds) for r in carrying)
    if not carrying:
        return ""
    return f"; {held} of the {len(carrying)} that carry points (●), hence {report.points:g}"


def _list(rows: list[BehaviourResult], marked: bool) -> str:
    if not rows:
        return ""
    if not marked and all(row.holds for row in rows):  # the long list, in each card that is kept
        items = "".join(f"<li>{rich(row.text)}</li>" for row in rows)
        style = f"list-style:'✓  ';color:{INK};padding:0 0 0 1.2em;margin:0.5em 0 0"
        return f'<ul style="{style}">{items}</ul>'
    items = "".join(_item(row, marked and row.credit) for row in rows)
    return f'<ul style="list-style:none;padding:0;margin:0.5em 0 0">{items}</ul>'


def _item(row: BehaviourResult, carries: bool) -> str:
    marks = {True: ("✓", "holds", GOOD), False: ("✗", "fails", BAD), None: ("–", "not tried", INK)}
    mark, said, colour = marks[row.holds]
    said_first = row.holds is False and not row.worded
    word = f'<strong style="color:{BAD}">fails:</strong> ' if said_first else ""
    sign = ' <span role="img" title="carries points" aria-label="carries points">●</span>'
    return (
        '<li style="margin:0;padding-left:1.6em;text-indent:-1.6em">'
        f'<span role="img" aria-label="{said}" style="display:inline-block;width:1.6em;'
        f'text-indent:0;color:{colour};font-weight:700">{mark}</span>{word}{rich(row.text)}'
        f"{sign if carries else ''}</li>"
    )


# ---------------------------------------------------------------- notes, hints, another way


def _note(note: str) -> str:
    first, *rest = note.splitlines()
    more = pre("\n".join(rest)) if rest else ""
    return f'<p style="margin:0.4em 0 0">Note: {rich(first)}</p>{more}'


def _hints(report: Any) -> str:
    """One hint inside the other, so that they fold out one after the other."""
    if report.passed:
        return ""
    folded = ""
    for number in range(len(report.hints), 0, -1):
        text = f'<p style="margin:0.3em 0">{rich(report.hints[number - 1])}</p>'
        title = "Stuck? A hint" if number == 1 else f"Hint {number} of {len(report.hints)}"
        folded = fold(title, text + folded)
    return folded


def _other_way(report: Any) -> str:
    if not (report.passed and report.other_way):
        return ""
    return fold("Another way to write it", pre(report.other_way))


def fold(summary: str, body: str) -> str:
    """Something that opens on a click, and looks like it."""
    return (
        f'<details style="margin:0.5em 0 0"><summary style="cursor:pointer;display:list-item;'
        f'color:{INK}">{rich(summary)}</summary>'
        f'<div style="padding-left:1.2em">{body}</div></details>'
    )


# ---------------------------------------------------------------- text as HTML


def pre(text: str) -> str:
    return (
        f'<pre style="margin:0.3em 0;padding:0.4em 0.8em;border:1px solid {LINE};border-radius:4px;'
        f"background:none;color:{INK};font-family:{MONO};font-size:13px;line-height:1.4;"
        f'white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">{escaped(text)}</pre>'
    )


def escaped(text: str) -> str:
    return html.escape(text, quote=True)


def rich(text: str) -> str:
    """Escaped text in which `code` is set as code, and *words* are stressed."""
    code = f'<code style="font-family:{MONO};color:{INK};background:none">\\1</code>'
    parts = re.split(r"(`[^`]+`)", escaped(text))
    stressed = [
        re.sub(r"(?<![\w*])\*(\w[^*]*\w|\w)\*(?![\w*])", r"<em>\1</em>", p) for p in parts[::2]
    ]
    parts[::2] = stressed
    return "".join(re.sub(r"^`([^`]+)`$", code, part) for part in parts)


@dataclass(frozen=True)
class Message:
    """A few lines for the reader, as text and as HTML in the same frame as a card."""

    title: str
    text: str

    def __repr__(self) -> str:
        return f"{self.title}\n{plain_text(self.text)}".strip()

    def _repr_html_(self) -> str:
        body = "".join(f'<p style="margin:0.3em 0">{rich(p)}</p>' for p in self.text.split("\n"))
        return frame(f"<strong>{rich(self.title)}</strong>{body}", LINE, self.title)
