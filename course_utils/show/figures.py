"""Static figures: heat maps, heads, masks, distributions and curves.

Each function returns a `Picture`. A notebook shows a picture if the last line of a cell evaluates
to it; anywhere else, or for a figure you drew yourself, call `show`. Every picture has a text
alternative, `alt`; where `alt` may be left out, it is computed from the data. The alternative is
also the cell's text output, so write your own `alt` if the numbers differ from run to run.

The colours are the same as in the attention map (see `colours`). A dark Jupyter theme inverts a
picture's lightness, so that the picture's background matches the page's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.colors import Normalize
from matplotlib.mlab import GaussianKDE
from matplotlib.patches import Rectangle
from torch import Tensor

from course_utils.desk.rounding import fixed
from course_utils.show import colours

from . import drawing
from .drawing import CELLS_DESCRIBED, HATCH_COLOR, MARKERS, SEEN, Picture, array, line_look
from .drawing import show as show


def heatmap(
    matrix: Tensor,
    title: str,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    xlabel: str = "key",
    ylabel: str = "query",
    hidden: Tensor | None = None,
    digits: int = 2,
    limits: tuple[float, float] | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw one `(T, S)` matrix with its numbers in the cells.

    A matrix with negative numbers is orange below zero, white at zero and blue above; any other
    matrix is blue in proportion to the number, as in the attention map.

    Args:
        matrix: the numbers `(T, S)`; `-inf` is drawn as hidden, and NaN as "NaN".
        title: what the figure shows.
        rows, columns: T and S labels; by default positions.
        hidden: a bool mask `(T, S)`; hidden cells are hatched.
        digits: the number of decimal places. Numbers that don't fit into the cells are left out.
        limits: the lowest and the highest possible number; by default 0 and the matrix's maximum.
        alt: the text alternative; by default the rows, or the range if the matrix is large.

    Raises:
        ValueError: a shape or a number of labels doesn't fit.
    """
    values, is_hidden = drawing.grid(matrix, hidden, ndim=2)
    row_names, column_names = (
        drawing.names(rows, values.shape[0], "rows"),
        drawing.names(columns, values.shape[1], "columns"),
    )
    paint = drawing.paint(values, is_hidden, limits)
    with drawing.style():
        cell = drawing.cell_inches(values.shape)
        figure = drawing.figure(
            drawing.label_inches(row_names) + cell * values.shape[1] + 1.3,
            cell * values.shape[0] + drawing.label_inches(column_names) + 0.7,
            title,
        )
        axes = figure.add_subplot()
        drawing.draw_cells(axes, values, is_hidden, *paint)
        drawing.label_cells(axes, row_names, column_names, xlabel, ylabel)
        drawing.draw_scale(figure, [axes], *paint)
        drawing.hidden_legend(figure, is_hidden)
        drawing.fit(figure, [axes])
        drawing.write_digits([axes], values[None], is_hidden[None], *paint, digits)
    described = drawing.describe_matrix(values, is_hidden, row_names, column_names, digits)
    return Picture(figure, alt or f"Heat map: {drawing.sentence(title)} {described}")


def head_grid(
    weights: Tensor,
    title: str,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    hidden: Tensor | None = None,
    names: Sequence[str] | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw the attention weights of several heads side by side, on one scale from 0 to 1.

    Args:
        weights: attention weights `(H, T, S)`.
        title: what the figure shows.
        queries, keys: T and S labels; by default positions.
        hidden: a bool mask, broadcastable to `(H, T, S)`; hidden cells are hatched.
        names: H headings; by default "head 0", "head 1", ….
        alt: the text alternative; by default, the token to which the last query attends most.
    """
    values, is_hidden = drawing.grid(weights, hidden, ndim=3)
    H, T, S = values.shape
    row_names = drawing.names(queries, T, "queries")
    column_names = drawing.names(keys, S, "keys")
    head_names = (
        drawing.names(names, H, "headings")
        if names is not None
        else [f"head {h}" for h in range(H)]
    )
    paint = drawing.paint(values, is_hidden, (0, 1))
    with drawing.style():
        cell = min(drawing.cell_inches((T, S)), 2.4 / max(T, S))
        width = max(cell * S, 1.1) + 0.25
        room = drawing.WIDEST - drawing.label_inches(row_names) - 1.2
        down = math.ceil(H / max(1, min(H, 4, int(room / width))))
        across = math.ceil(H / down)
        height = max(cell * T, 1.1) + 0.35
        figure = drawing.figure(
            drawing.label_inches(row_names) + across * width + 1.2,
            down * height + drawing.label_inches(column_names) + 0.7,
            title,
        )
        grid: Any = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for h, axes in enumerate(grid.flat):
            if h >= H:
                axes.set_axis_off()
                continue
            drawing.draw_cells(axes, values[h], is_hidden[h], *paint)
            left, bottom = h % across == 0, h + across >= H
            labels = "key" if bottom else "", "query" if left else ""
            drawing.label_cells(axes, row_names, column_names, *labels)
            axes.set_title(head_names[h], fontsize=10)
            axes.tick_params(labelleft=left, labelbottom=bottom)
        drawing.draw_scale(figure, list(grid.flat), *paint)
        drawing.hidden_legend(figure, is_hidden)
        panels = list(grid.flat)[:H]
        drawing.fit(figure, panels)
        drawing.write_digits(panels, values, is_hidden, *paint, digits=2)
    described = drawing.describe_heads(values, is_hidden, head_names, row_names, column_names)
    return Picture(figure, alt or f"Grid of heads: {drawing.sentence(title)} {described}")


def mask_picture(
    hidden: Tensor,
    title: str,
    *,
    queries: Sequence[str] | Sequence[Sequence[str]] | None = None,
    keys: Sequence[str] | Sequence[Sequence[str]] | None = None,
    names: Sequence[str] | None = None,
    padding: Tensor | None = None,
    borders: Sequence[int] = (),
    alt: str | None = None,
) -> Picture:
    """Draw one `(T, S)` mask, or a batch `(B, T, S)`, with hidden cells hatched.

    Args:
        hidden: a bool mask; `True` means hidden.
        title: what the figure shows.
        queries, keys: T and S labels, or as many for each of B masks; by default, the positions.
        names: B headings; by default, "text 0", ….
        padding: a bool mask `(B, S)` of the keys that are padding: they are dotted, and the rest is
            called the future.
        borders: for each of B masks, the position before which lines part two texts; 0 for none.
        alt: the text alternative; by default, the keys that are visible to each row.
    """
    if hidden.dtype != torch.bool:
        raise ValueError(f"hidden must be a bool mask, got {hidden.dtype}")
    batch = hidden[None] if hidden.ndim == 2 else hidden
    _, is_hidden = drawing.grid(torch.zeros(batch.shape), batch, ndim=3)
    B, T, S = is_hidden.shape
    rows, columns = _for_each(queries, B, T, "queries"), _for_each(keys, B, S, "keys")
    alike = all(names == rows[0] for names in rows)  # then the first mask shows them for all
    beside = [0 if b and alike else drawing.label_inches(names) for b, names in enumerate(rows)]
    numbered = [""] if hidden.ndim == 2 else [f"text {b}" for b in range(B)]
    headings = drawing.names(names or numbered, B, "headings")
    with drawing.style():
        room = (drawing.WIDEST - sum(beside) - 0.5) / B - 0.25
        cell = min(drawing.cell_inches((T, S)), 3.2 / max(T, S), room / S)
        width = max(cell * S, 1.1) + 0.25
        figure = drawing.figure(
            sum(beside) + B * width + 0.5,
            max(cell * T, 1.1) + max(map(drawing.label_inches, columns)) + 1.1,
            title,
        )
        for b, axes in enumerate(figure.subplots(1, B, sharey=alike, squeeze=False).flat):
            drawing.draw_cells(axes, np.zeros((T, S)), is_hidden[b], SEEN, Normalize(0, 1))
            drawing.label_cells(axes, rows[b], columns[b], "key", "query" if b == 0 else "")
            axes.set_title(headings[b], fontsize=10)
            if padding is not None:
                drawing.hatch_padding(axes, is_hidden[b], array(padding[b]) > 0)
            for part in (axes.axhline, axes.axvline) if borders and borders[b] else ():
                part(borders[b] - 0.5, color="black", linewidth=1.6)
        drawing.hidden_legend(figure, is_hidden, visible=True, padding=padding is not None)
        drawing.fit(figure, figure.axes)
    described = "; ".join(
        f"{name + ', ' if name else ''}query {rows[b][t]} attends to "
        + (", ".join(columns[b][s] for s in np.flatnonzero(~is_hidden[b, t])) or "nothing")
        for b, name in enumerate(headings)
        for t in (range(T) if T * S <= CELLS_DESCRIBED else ())
    )
    described = described or f"{is_hidden.sum()} of {is_hidden.size} cells are hidden"
    return Picture(figure, alt or f"Mask: {drawing.sentence(title)} {described}.")


def _for_each(labels: Any, masks: int, count: int, what: str) -> list[list[str]]:
    """The labels of each mask: the same ones, unless each has its own."""
    each = labels if labels and not isinstance(labels[0], str) else [labels] * masks
    return [drawing.names(own, count, what) for own in each]


def score_distributions(
    scores: Mapping[int, Tensor],
    title: str,
    *,
    alt: str,
) -> Picture:
    """Draw the distribution of dot products, unscaled and divided by √D, as smooth curves.

    Args:
        scores: for each width D of the vectors, their unscaled dot products in any shape.
        title: what the figure shows.
        alt: the text alternative.
    """
    raw = {D: array(tensor).ravel() for D, tensor in scores.items()}
    panels = {
        "unscaled: q · k": raw,
        "scaled: q · k / √D": {D: values / math.sqrt(D) for D, values in raw.items()},
    }
    named = {D: f"D = {D}: std" for D in raw}
    with drawing.style():
        figure = drawing.figure(drawing.WIDEST, 3.4, title)
        left, right = figure.subplots(1, 2)
        for axes, (name, groups) in zip((left, right), panels.items(), strict=True):
            limit = max(float(np.abs(values).max()) for values in groups.values())
            shown = np.linspace(-limit, limit, 801)
            lines = []
            for i, (D, values) in enumerate(groups.items()):
                spread = f"{values.std():.1f}"
                density = GaussianKDE(values)(shown)
                lines += axes.plot(shown, density / density.max(), **line_look(i))
                named[D] += f" {spread}," if axes is left else f" scaled {spread}"
            axes.set_title(name, fontsize=10)
            axes.set_xlabel("score")
            axes.set_ylabel("density, highest = 1")
            axes.set_ylim(bottom=0)
        figure.legend(lines, named.values(), loc="outside right center", handlelength=2.6)
    return Picture(figure, alt)


def loss_curve(
    losses: Mapping[str, Sequence[float] | Mapping[int, float]],
    title: str,
    *,
    floor: float | None = None,
    levels: Mapping[str, float] | None = None,
    steps: int | None = None,
    mean_of: int = 1,
    xlabel: str = "step",
    ylabel: str = "loss (nats per token)",
    alt: str | None = None,
) -> Picture:
    """Draw losses against the steps of training, one line per name.

    Args:
        losses: for each name, one value per step from step 1 on, or a dict of values by step.
        title: what the figure shows.
        floor: a value that no model can beat, such as the entropy of the data, drawn as a line.
        levels: other values to compare with, by name, drawn as labelled lines.
        steps: the last step on the axis; by default the last one with a loss.
        mean_of: the number of steps whose mean is drawn, in front of the losses of single steps.
        alt: the text alternative. The default leaves the values out, because they differ from
            machine to machine.
    """
    with drawing.style():
        figure = drawing.figure(7.6, 3.6, title)
        axes = figure.add_subplot()
        for i, (name, values) in enumerate(losses.items()):
            by_step = values if isinstance(values, Mapping) else dict(enumerate(values, start=1))
            x, y = array(list(by_step)), array(list(by_step.values()))
            if mean_of > 1:
                axes.plot(x, y, color="#b0b0b0", linewidth=0.7, label=f"{name} of each step")
                y = np.convolve(y, np.full(mean_of, 1 / mean_of), "valid")
                x, name = x[mean_of - 1 :], f"mean of {mean_of} steps"
            axes.plot(x, y, label=name, **line_look(i))
        if floor is not None:
            axes.axhline(
                floor,
                label=f"floor {floor:.2f}",
                color=HATCH_COLOR,
                linestyle=(0, (1, 2)),
            )
        for name, value in (levels or {}).items():
            drawing.level(axes, f"{name} {fixed(value, 2)}", value)
        if steps is not None:
            axes.set_xlim(0, steps)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if mean_of > 1:
            axes.legend(loc="upper right", bbox_to_anchor=(1, 0.93))
        elif len(losses) > 1 or floor is not None:  # the title says what a single line is
            figure.legend(loc="outside right center", handlelength=3)
    described = f"{ylabel} against {xlabel} for {', '.join(losses)}"
    if floor is not None:
        described += f", with a floor at {floor:.2f}"
    if levels:
        lines = ", ".join(f"{name} at {fixed(value, 2)}" for name, value in levels.items())
        described += f", with lines for {lines}"
    return Picture(figure, alt or f"Line chart: {drawing.sentence(title)} {described}.")


def points_and_lines(
    x: Tensor,
    y: Tensor,
    lines: Mapping[str, Callable[[Tensor], Tensor]],
    title: str,
    *,
    alt: str | None = None,
) -> Picture:
    """Draw points and fitted lines.

    Args:
        x, y: N numbers each.
        lines: functions by name, such as modules, from x to the line's y.
        title: what the figure shows.
        alt: the text alternative. The default leaves the lines' numbers out, because trained lines
            differ from machine to machine.
    """
    wide = torch.linspace(float(x.min()) - 0.5, float(x.max()) + 0.5, 2)
    with drawing.style():
        figure = drawing.figure(7.4, 3.6, title)
        axes = figure.add_subplot()
        for i, (name, line) in enumerate(lines.items()):
            axes.plot(array(wide), array(line(wide)), label=name, **line_look(i))
        axes.plot(array(x), array(y), "D", color="black", markersize=7, label="the points")
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        figure.legend(loc="outside right center", handlelength=3)
    points = ", ".join(f"({a:g}, {b:g})" for a, b in zip(array(x), array(y), strict=True))
    described = f"The points {points} and a line for each of: {', '.join(lines)}"
    return Picture(figure, alt or f"Line chart: {drawing.sentence(title)} {described}.")


def curve_panels(
    sizes: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    *,
    xlabel: str,
    from_zero: bool = True,
    alt: str,
) -> Picture:
    """Draw curves against a size in panels side by side, with the same lines in each panel.

    The sizes have a logarithmic axis, and so do values that span more than a factor of 1,000.

    Args:
        sizes: N positive sizes.
        panels: for each measured quantity, N numbers by name.
        title: what the figure shows.
        from_zero: whether the axis of the values begins at 0.
        alt: the text alternative.
    """
    x = array(sizes)
    with drawing.style():
        figure = drawing.figure(drawing.WIDEST, 3.3, title)
        drawn = figure.subplots(1, len(panels), squeeze=False).flat
        for axes, (what, curves) in zip(drawn, panels.items(), strict=True):
            for i, (name, values) in enumerate(curves.items()):
                look = line_look(i) | {"marker": MARKERS[i], "markersize": 5}
                axes.plot(x, array(values), label=name, **look)
            everything = np.concatenate([array(values) for values in curves.values()])
            axes.set_xscale("log", base=2)
            if everything.min() > 0 and everything.max() > 1000 * everything.min():
                axes.set_yscale("log")
                what += ", logarithmic"
            elif from_zero:
                axes.set_ylim(0, 1.05 * everything.max())
            axes.set_xticks(x, [f"{size:g}" for size in x])
            axes.minorticks_off()
            axes.set(xlabel=f"{xlabel}, logarithmic", ylabel=what)
        handles = axes.get_legend_handles_labels()
        figure.legend(*handles, loc="outside right center", handlelength=3)
    return Picture(figure, alt)


def curves(
    x: Tensor,
    values: Mapping[str, Tensor],
    title: str,
    *,
    points: Mapping[float, float] | None = None,
    xlabel: str = "x",
    ylabel: str = "",
    alt: str,
) -> Picture:
    """Draw one line per name over the same x values, and mark the axes through 0.

    Args:
        x: N numbers in order.
        values: for each name, N numbers.
        title: what the figure shows.
        points: pairs of x and y to mark.
        alt: the text alternative.
    """
    with drawing.style():
        figure = drawing.figure(7.4, 3.4, title)
        axes = figure.add_subplot()
        axes.axhline(0, color="#bbbbbb", linewidth=0.8)
        axes.axvline(0, color="#bbbbbb", linewidth=0.8)
        for i, (name, y) in enumerate(values.items()):
            axes.plot(array(x), array(y), label=name, **line_look(i))
        if points:
            axes.plot(list(points), list(points.values()), "D", color="black", markersize=7)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if len(values) > 1:  # the title says what a single line is
            figure.legend(loc="outside right center", handlelength=3)
    return Picture(figure, alt)


def arrows(
    vectors: Mapping[str, tuple[float, float]],
    title: str,
    *,
    chain: Sequence[str] = (),
    alt: str,
) -> Picture:
    """Draw vectors of width 2 as arrows from the origin.

    Args:
        vectors: the two numbers of each vector, by name.
        title: what the figure shows.
        chain: names of arrows to draw tip to tail; their sum is drawn from the origin.
        alt: the text alternative.
    """
    start = np.zeros(2)
    drawn: list[tuple[str, np.ndarray, np.ndarray]] = []
    for name, pair in vectors.items():
        drawn.append((name, start if name in chain else np.zeros(2), np.array(pair)))
        start = start + np.array(pair) if name in chain else start
    if chain:
        drawn.append(("their sum", np.zeros(2), start))
    with drawing.style():
        figure = drawing.figure(5.6, 4.0, title)
        axes = figure.add_subplot()
        for i, (name, tail, vector) in enumerate(drawn):
            look: dict[str, Any] = {"color": line_look(i)["color"], "width": 0.012}
            axes.quiver(*tail, *vector, angles="xy", scale_units="xy", scale=1, **look)
            sideways = np.array([-vector[1], vector[0]]) / max(float(np.hypot(*vector)), 1e-6)
            middle, away = tuple(tail + 0.55 * vector), tuple(11 * sideways)
            side = "right" if sideways[0] < -0.3 else "left" if sideways[0] > 0.3 else "center"
            axes.annotate(name, middle, away, textcoords="offset points", ha=side, va="center")
        points = np.array([point for _, tail, vector in drawn for point in (tail, tail + vector)])
        room = 0.18 * (np.ptp(points, axis=0).max() or 1.0)
        # The margins at the sides are twice as wide, because names are written there.
        axes.set_xlim(points[:, 0].min() - 2 * room, points[:, 0].max() + 2 * room)
        axes.set_ylim(points[:, 1].min() - room, points[:, 1].max() + room)
        axes.axhline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.axvline(0, color="#bbbbbb", linewidth=0.8, zorder=0)
        axes.set(xlabel="channel 0", ylabel="channel 1", aspect="equal")
    return Picture(figure, alt)


def bars(
    values: Mapping[str, Mapping[str, float]],
    title: str,
    *,
    xlabel: str,
    alt: str,
) -> Picture:
    """Draw one stacked bar per name; label each segment with its own name and number.

    Args:
        values: a non-negative number for each bar and segment. A segment that is too narrow for its
            label is labelled at the end of the bar.
        title: what the figure shows.
        alt: the text alternative.
    """
    longest = max(sum(pieces.values()) for pieces in values.values())
    with drawing.style():
        figure = drawing.figure(8.0, 0.9 + 0.7 * len(values), title)
        axes = figure.add_subplot()
        for row, pieces in enumerate(values.values()):
            start, behind = 0.0, []
            for i, (piece, value) in enumerate(pieces.items()):
                shade = colours.shade(0.15 + 0.2 * (i % 2))
                axes.barh(row, value, left=start, color=shade, edgecolor="black", height=0.55)
                text = f"{piece}\n{value:,}"
                if value > 0.013 * longest * max(map(len, text.split("\n"))):
                    axes.text(start + value / 2, row, text, ha="center", va="center", fontsize=8)
                elif value:
                    behind.append(f"{piece} {value:,}")
                start += value
            if behind:
                said = ", ".join(behind)
                axes.text(start + 0.01 * longest, row, said, va="center", fontsize=8)
        axes.set_yticks(range(len(values)), list(values))
        axes.invert_yaxis()
        axes.set_xlim(0, 1.02 * longest)
        axes.set_ylim(len(values) - 0.5, -0.5)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.set_xlabel(xlabel)
    return Picture(figure, alt)


def product(
    weights: Tensor,
    x: Tensor,
    title: str,
    *,
    row: int,
    names: Sequence[str],
    alt: str,
) -> Picture:
    """Draw `weights @ x` as three tables; frames mark a row of the result and the numbers it uses.

    Args:
        weights, x: matrices `(T, T)` and `(T, C)`.
        title: what the figure shows.
        row: the framed row of the weights and of the result.
        names: T labels, one per token.
        alt: the text alternative.
    """
    tables = [array(part) for part in (weights, x, weights @ x)]
    tokens, channels = list(names), [str(c) for c in range(x.shape[1])]
    with drawing.style():
        widths = [table.shape[1] for table in tables]
        figure = drawing.figure(0.5 * sum(widths) + 3.4, 0.5 * len(tokens) + 1.5, title)
        panels = list(figure.subplots(1, 3, width_ratios=widths))
        for panel, (axes, table) in enumerate(zip(panels, tables, strict=True)):
            hidden = np.zeros(table.shape, dtype=bool)
            colormap, norm = drawing.paint(table, hidden, None)
            drawing.draw_cells(axes, table, hidden, colormap, norm)
            xlabel = "token" if panel == 0 else "channel"
            drawing.label_cells(axes, tokens, channels if panel else tokens, xlabel)
            axes.set_title(["weights", "@  x", "=  result"][panel], fontsize=10)
            for (t, s), value in np.ndenumerate(table):
                dark = np.dot(colormap(norm(value))[:3], (0.3, 0.6, 0.1)) < 0.55
                text = fixed(value, 2).rstrip("0").rstrip(".")
                axes.text(s, t, text, ha="center", va="center", color="w" if dark else "k", size=9)
            top, height = (-0.5, len(tokens)) if panel == 1 else (row - 0.5, 1)
            box = Rectangle((-0.5, top), widths[panel], height, fill=False, linewidth=2.5, zorder=3)
            box.set_clip_on(False)
            axes.add_patch(box)
        drawing.fit(figure, panels)
    return Picture(figure, alt)
