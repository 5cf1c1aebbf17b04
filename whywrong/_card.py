"""The report as a card: first what is wrong, then the evidence, the scored checks, and hints.

Plain HTML with inline styles, so that it looks the same in JupyterLab, on a feedback page and
without a running kernel. Colours come from JupyterLab's theme; the second value is for pages
without a theme. No information is conveyed by colour alone.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

from ._course import localised

NOT_ATTEMPTED = "Not attempted yet."
# Chinese has no spaces between words, so a star is plain only next to Latin letters and digits.
EMPHASIS = re.compile(r"(?<![A-Za-z0-9_*])\*(\w[^*\n]*\w|\w)\*(?![A-Za-z0-9_*])")
INK = "var(--jp-ui-font-color1, #1f1f1f)"
FAINT = "var(--jp-ui-font-color2, #595959)"
PAPER = "var(--jp-layout-color1, #ffffff)"
LINE = "var(--jp-border-color2, #c8c8c8)"
MONO = "var(--jp-code-font-family, ui-monospace, monospace)"
GOOD = "var(--jp-success-color1, #2e7d32)"
BAD = "var(--jp-error-color1, #c62828)"
GREY = "var(--jp-border-color1, #8a8a8a)"
# By status: the colour of the border, and the sign.
STATUS = {
    "right": (GOOD, "✓"),
    "partly right": ("var(--jp-warn-color1, #b26a00)", "◐"),
    "not right yet": (BAD, "✗"),
    "not attempted yet": (GREY, "○"),
    "previous version": (GREY, "!"),
}
CELL = f"font-family:{MONO};font-size:13px;padding:0.15em 0.6em;text-align:right;color:{INK};"
BOX = f"border:1px solid {LINE};border-radius:4px;padding:0.4em 0.8em;"
STYLES = {
    "frame": f"color:{INK};background:{PAPER};border:1px solid {LINE};border-left:6px solid EDGE;"
    "border-radius:4px;padding:0.6em 1em;margin:0.3em 0;max-width:52em;line-height:1.5;"
    "font-size:14px;text-align:left",
    "head": "display:flex;flex-wrap:wrap;gap:0 1em;justify-content:space-between",
    "sign": "color:EDGE;font-weight:700",
    "line": "margin:0.4em 0",
    "last": f"margin:0.5em 0 0;color:{FAINT}",
    "box": f"{BOX}margin:0.5em 0",
    "table": "border-collapse:separate;border-spacing:2px;font-size:13px;border:0;margin:0;"
    "background:none;width:auto",
    "scroll": "overflow-x:auto;margin:0.3em 0",
    "caption": f"text-align:left;color:{INK};caption-side:top;padding:0;font-family:{MONO}",
    "row": "background:none",
    "row head": f"text-align:left;padding:0.15em 0.8em 0.15em 0;font-weight:600;color:{INK}",
    "number": f"{CELL}border:1px solid transparent",
    "wrong number": f"{CELL}border:1px solid {BAD};font-weight:700;text-decoration:underline",
    "list": "list-style:none;padding:0;margin:0.2em 0 0",
    "ticks": f"list-style:'✓  ';color:{INK};padding:0 0 0 1.2em;margin:0.5em 0 0",
    "item": "margin:0;padding-left:1.6em;text-indent:-1.6em",
    "mark": "display:inline-block;width:1.6em;text-indent:0;color:EDGE;font-weight:700",
    "fold": "margin:0.5em 0 0",
    "summary": f"cursor:pointer;display:list-item;color:{INK}",
    "folded": "padding-left:1.2em",
    "pre": f"margin:0.3em 0;{BOX}background:none;color:{INK};font-family:{MONO};font-size:13px;"
    "line-height:1.4;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere",
    "code": f"font-family:{MONO};color:{INK};background:none;padding:0",
}


@dataclass(frozen=True)
class BehaviourResult:
    """One row of a report: a property, and whether it is true (None: could not be tried).

    `worded`: the text itself says what is wrong; else it is a property that is not true yet.
    """

    id: str
    text: str
    holds: bool | None
    credit: bool = False
    gate: bool = False
    worded: bool = False


@dataclass(frozen=True)
class Row:
    """A row of a result with a wrong number, as text: expected above got."""

    label: str
    expected: tuple[str, ...]
    got: tuple[str, ...]
    wrong: tuple[bool, ...]


def points_word(points: float) -> str:
    return f"{points:g} point" if points == 1 else f"{points:g} points"


def plain_text(text: str) -> str:
    """Returns a catalogue text in the reader's language, without backticks and stars."""
    text = EMPHASIS.sub(r"\1", localised(text))
    return text.replace("`", "")


def tag(name: str, style: str, body: str, colour: str = "", **attributes: str) -> str:
    """An element in one of the styles, with a colour for its border or sign."""
    look = STYLES[style].replace("EDGE", colour)
    more = "".join(f' {n.replace("_", "-")}="{escaped(v)}"' for n, v in attributes.items())
    return f'<{name}{more} style="{look}">{body}</{name}>'


def frame(body: str, edge: str, label: str) -> str:
    """A box with a coloured border, for cards and messages."""
    return tag("div", "frame", body, edge, role="group", aria_label=label)


def card(report: Any) -> str:
    """The whole card of a `Report`."""
    edge, sign = STATUS[report.status]
    status = f"<strong>{localised(report.status)}</strong>"
    title = f"{rich(f'`{report.exercise}`')}{localised(': ')}{status}"
    points = localised(f"{report.points:g} of {points_word(report.max_points)}")
    head = f"<span>{tag('span', 'sign', sign, edge, aria_hidden='true')} {title}</span>"
    body = [tag("div", "head", f"{head}<span>{points}</span>")]
    if report.stale:
        body.append(tag("p", "line", f"<strong>{rich(report.stale)}</strong>"))
        body.append(fold("The result of the previous version", _result(report)))
    else:
        body += [_result(report), _hints(report), _other_way(report)]
    if report.progress:
        body.append(tag("p", "last", rich(report.progress)))
    return frame("".join(body), edge, localised(f"Check of {report.exercise}"))


def _result(report: Any) -> str:
    parts = []
    if report.attempted or report.message != NOT_ATTEMPTED:
        parts = [_what_is_wrong(report), _evidence(report), *_advice(report)]
        parts += [_failing(report), _holding(report)]
    return "".join([*parts, *map(_note, report.notes)])


def _what_is_wrong(report: Any) -> str:
    """One sentence in bold: the misconception if there is one, else the message."""
    what = rich(report.advice[0][0] if report.advice else report.message)
    return tag("p", "line", what if report.passed else f"<strong>{what}</strong>")


def _advice(report: Any) -> list[str]:
    parts = []
    for number, (what, why, look) in enumerate(report.advice):
        lines = [("Why it matters:", why), ("Where to look:", look)][not why :]
        if number:
            lines.insert(0, ("And at the same time:", what))
        rows = "".join(
            f"<div><strong>{localised(name)}</strong> {rich(text)}</div>" for name, text in lines
        )
        parts.append(tag("div", "box", rows))
    return parts


# ---------------------------------------------------------------- the evidence


def _evidence(report: Any) -> str:
    """The case, and the row in which a number is wrong: expected above got."""
    detail = report.detail
    parts = []
    if report.advice and report.message:
        parts.append(tag("p", "line", rich(report.message)))
    if report.row is not None:
        detail = detail.split("First difference at")[0].rstrip()
    if detail:
        parts.append(pre(localised(detail)))
    if report.row is not None:
        parts.append(row_table(report.row))
    return "".join(parts)


def row_table(row: Row) -> str:
    """A row of numbers, expected above got; wrong ones are framed, underlined and bold."""

    def line(head: str, numbers: tuple[str, ...], mark: bool) -> str:
        cells = [tag("th", "row head", localised(head), scope="row")]
        for n, bad in zip(numbers, row.wrong, strict=True):
            if mark and bad:
                cells.append(tag("td", "wrong number", escaped(n), title=localised("wrong")))
            else:
                cells.append(tag("td", "number", escaped(n)))
        return tag("tr", "row", "".join(cells))

    lines = [
        tag("caption", "caption", rich(row.label)),
        line("expected", row.expected, False),
        line("got", row.got, True),
    ]
    return tag("div", "scroll", tag("table", "table", "".join(lines)))


# ---------------------------------------------------------------- failing and passing checks


def _failing(report: Any) -> str:
    """Properties that are not true yet, and sentences about what is wrong."""
    failing = [r for r in report.unsaid if not r.holds]
    marked = "●" in report.because
    lists = {
        "Not true yet": [r for r in failing if not r.worded],
        "Still wrong": [r for r in failing if r.worded],
    }
    return "".join(
        f"<div>{localised(f'{title}:')}{_list(rows, marked)}</div>"
        for title, rows in lists.items()
        if rows
    )


def _holding(report: Any) -> str:
    holding = [r for r in report.behaviours if r.holds]
    if not holding:
        return ""
    count = "1 check passes" if len(holding) == 1 else f"{len(holding)} checks pass"
    count = f"All {count}" if report.passed and len(holding) > 1 else count
    marked = "●" in report.because
    return fold(f"{count}. {report.because}".rstrip(". ") + "." * marked, _list(holding, marked))


def _list(rows: list[BehaviourResult], marked: bool) -> str:
    if not marked and all(row.holds for row in rows):  # the long list, in each card that is kept
        return tag("ul", "ticks", "".join(f"<li>{rich(row.text)}</li>" for row in rows))
    return tag("ul", "list", "".join(_item(row, marked and row.credit) for row in rows))


def _item(row: BehaviourResult, carries: bool) -> str:
    marks = {
        True: ("✓", "passes", GOOD),
        False: ("✗", "not yet", BAD),
        None: ("–", "not tried", INK),
    }
    mark, word, colour = marks[row.holds]
    scored = localised("scored")
    sign = f' <span role="img" title="{scored}" aria-label="{scored}">●</span>' if carries else ""
    shown = tag("span", "mark", mark, colour, role="img", aria_label=localised(word))
    return tag("li", "item", f"{shown}{rich(row.text)}{sign}")


# ---------------------------------------------------------------- notes, hints, another way


def _note(note: str) -> str:
    first, *rest = note.splitlines()
    about = tag("p", "line", f"{localised('Note:')} {rich(first)}")
    return about + (pre("\n".join(rest)) if rest else "")


def _hints(report: Any) -> str:
    """Nested hints, so that they unfold one after the other."""
    if report.passed:
        return ""
    folded = ""
    for number in range(len(report.hints), 0, -1):
        text = tag("p", "line", rich(report.hints[number - 1]))
        title = "Stuck? A hint" if number == 1 else f"Hint {number} of {len(report.hints)}"
        folded = fold(title, text + folded)
    return folded


def _other_way(report: Any) -> str:
    if not (report.passed and report.other_way):
        return ""
    return fold("Another way to write it", pre(report.other_way))


def fold(summary: str, body: str) -> str:
    """A part of the card that opens on a click, and looks like it."""
    return tag(
        "details", "fold", tag("summary", "summary", rich(summary)) + tag("div", "folded", body)
    )


# ---------------------------------------------------------------- text as HTML


def pre(text: str) -> str:
    return tag("pre", "pre", escaped(text))


def escaped(text: str) -> str:
    return html.escape(text, quote=True)


def rich(text: str) -> str:
    """Translates and escapes a text; `code` is shown as code, and *words* are emphasised."""
    parts = re.split(r"`([^`]+)`", escaped(localised(text)))
    parts[::2] = [EMPHASIS.sub(r"<em>\1</em>", p) for p in parts[::2]]
    parts[1::2] = [tag("code", "code", p) for p in parts[1::2]]
    return "".join(parts)


@dataclass(frozen=True)
class Message:
    """A few lines for the reader, as text, and as HTML in the same frame as a card."""

    title: str
    text: str

    def __repr__(self) -> str:
        return f"{localised(self.title)}\n{plain_text(self.text)}".strip()

    def _repr_html_(self) -> str:
        body = "".join(f'<p style="margin:0.3em 0">{rich(p)}</p>' for p in self.text.split("\n"))
        return frame(f"<strong>{rich(self.title)}</strong>{body}", LINE, localised(self.title))
