"""An attention map as words and as an HTML table, without script, style sheet or kernel."""

import html
import math
from collections import Counter
from collections.abc import Sequence

from course_utils.desk.language import localised
from course_utils.desk.rounding import fixed

TABLE_SIZE = 24  # tokens per side; a longer map is cut, so that saved notebooks stay small
CELL = "padding:2px 6px;text-align:right"  # on pages that remove this style, digits run together
# From colours.ABOVE and BELOW, but see-through, because the page may be light or dark.
BLUE, ORANGE = "38,122,209", "197,103,2"


def visible(label: object) -> str:
    """A label with visible spaces and line ends: `" the\\n"` becomes `"␣the⏎"`."""
    text = str(label).replace("\n", "⏎").replace("\t", "⇥")
    stripped = text.strip(" ")
    if not stripped:
        return "␣" * len(text) or "(empty)"
    start = text.index(stripped)
    return "␣" * start + stripped + "␣" * (len(text) - start - len(stripped))


def names(labels: Sequence[str]) -> list[str]:
    """Labels in quotes; a label that occurs more than once also gets its position, from 0."""
    count = Counter(labels)
    return [
        f"“{label}” at {position}" if count[label] > 1 else f"“{label}”"
        for position, label in enumerate(labels)
    ]


def sentence(
    weights: Sequence[float], hidden: Sequence[bool], query: str, keys: Sequence[str]
) -> str:
    """A sentence about one row's attention and sum; `query` and `keys` come from `names`."""
    seen = [key for key, is_hidden in enumerate(hidden) if not is_hidden]
    total = fixed(sum(weights), 3)
    if not seen:
        return f"{query} sees no key: every weight is 0; the row sums to {total}"
    largest = max(weights)
    top = [key for key in seen if weights[key] >= largest * (1 - 1e-6)]
    share = fixed(largest, 2)
    if len(seen) == 1:
        looks = f"attends only to {keys[seen[0]]} ({share})"
    elif len(top) == len(seen):
        looks = f"attends equally to all {len(seen)} keys it sees ({share} each)"
    elif len(top) == 1:
        looks = f"attends most to {keys[top[0]]} ({share})"
    elif len(top) <= 3:
        looks = f"attends most to {' and '.join(keys[key] for key in top)} ({share} each)"
    else:
        looks = f"attends most to {keys[top[0]]} and {len(top) - 1} more ({share} each)"
    return f"{query} {looks}; the row sums to {total}"


def table(
    numbers: Sequence[Sequence[float]],
    hidden: Sequence[Sequence[bool]],
    queries: Sequence[str],
    keys: Sequence[str],
    title: str,
    row: int,
    notes: Sequence[str],
    sums: bool = True,
) -> str:
    """The map as an HTML table with digits in its cells, followed by `notes`, one paragraph each.

    With `sums`, the numbers are weights, and a last column gives the sum of each row.

    Colour only ever accompanies a digit or a word, in see-through inline styles, so that the table
    reads the same on a light page, on a dark page, and on a page that removes styles. A map of more
    than 24 tokens per side shows the 24 tokens that end with the chosen row.
    """
    first_row = max(0, row - TABLE_SIZE + 1)
    first_key = first_row if len(queries) == len(keys) else 0
    rows = range(first_row, min(first_row + TABLE_SIZE, len(queries)))
    columns = range(first_key, min(first_key + TABLE_SIZE, len(keys)))

    caption = f"{title}: one row per query, one column per key"
    seen = [abs(x) for one in numbers for x in one if math.isfinite(x)]
    largest = 1.0 if sums else max([*seen, 1e-9])
    if len(rows) < len(queries) or len(columns) < len(keys):
        caption += (
            f"; queries {rows[0]}–{rows[-1]} of {len(queries)}"
            f" and keys {columns[0]}–{columns[-1]} of {len(keys)} are shown"
        )
    parts = [
        '<div class="attention-map-static" style="overflow-x:auto">'
        '<table style="width:auto;margin-bottom:8px">'
        f'<caption style="text-align:left">{html.escape(localised(caption))}</caption>',
        f'<thead><tr><th scope="col" style="{CELL}">{localised("query")}</th>',
    ]
    parts += [f'<th scope="col" style="{CELL}">{html.escape(keys[key])}</th>' for key in columns]
    last = f'<th scope="col" style="{CELL}">{localised("sum")}</th>' if sums else ""
    parts.append(f"{last}</tr></thead><tbody>")
    for query in rows:
        parts.append(f'<tr><th scope="row" style="{CELL}">{html.escape(queries[query])}</th>')
        for key in columns:
            if hidden[query][key]:
                parts.append(f'<td style="{CELL}">{localised("hidden")}</td>')
                continue
            number = numbers[query][key]
            colour = f"{ORANGE if number < 0 else BLUE},{fixed(0.6 * abs(number) / largest, 2)}"
            parts.append(f'<td style="{CELL};background:rgba({colour})">{fixed(number, 2)}</td>')
        total = f'<td style="{CELL}">{fixed(sum(numbers[query]), 3)}</td>' if sums else ""
        parts.append(f"{total}</tr>")
    parts.append("</tbody></table>")
    parts += [f"<p>{html.escape(localised(note))}</p>" for note in notes]
    parts.append("</div>")
    return "".join(parts)
