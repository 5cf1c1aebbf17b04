"""Figures that are only looked at: heat maps, heads, masks, distributions and curves.

Each function returns a `Picture`. As the last line of a cell it is shown; anywhere else, or
for a figure you drew yourself, call `show`. Every picture has a text alternative: `alt`,
or a description made from the data. That description is what the cell gives as text, so write
your own `alt` where the numbers differ from run to run.

Colours are those of the attention map (see `colours`). A dark theme of Jupyter's turns a picture's
lightness round, so that its background is the page's own.
"""

import base64
import html
import io
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib
import matplotlib.style
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import (
    Colormap,
    LinearSegmentedColormap,
    ListedColormap,
    Normalize,
    PowerNorm,
)
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from PIL import Image
from torch import Tensor

from course_utils import colours
from course_utils.rounding import fixed

WEIGHTS = LinearSegmentedColormap.from_list("weights", colours.ABOVE)
SIGNED = LinearSegmentedColormap.from_list("signed", colours.BELOW[:0:-1] + colours.ABOVE)
SEEN = ListedColormap([colours.SEEN], "seen")
HATCH = "/////"
HATCH_COLOR = colours.HATCHING

# Lines are told apart by dashes and markers; the colours differ in lightness as well.
LINE_STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3))]
LINE_COLORS = ["#000000", "#0072b2", "#b35900", "#009e73", "#7b3294", "#56a0d3"]
MARKERS = "osD^vP"

CSS_PIXELS_PER_INCH = 96
PIXEL_DENSITY = 2
# What nobody sees costs a third of the bytes: red, green and blue to the next eight.
FEWER_SHADES = [min(255, (v + 4) // 8 * 8) for v in range(256)] * 3
CELLS_DESCRIBED = 36
LARGE_CELLS = 16  # a wider or taller grid gets smaller cells
DIGIT_POINTS = (6.5, 9.0)  # digits that would be smaller are left out

STYLE = {
    "figure.facecolor": "white",
    "figure.dpi": CSS_PIXELS_PER_INCH * PIXEL_DENSITY,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "hatch.color": HATCH_COLOR,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


class Picture:
    """A finished figure with its text alternative, sharp on dense screens.

    A notebook keeps it as HTML, because JupyterLab and nbconvert take the text alternative of an
    image only from there, as WebP, a third lighter than PNG, and as PNG, of half the density, for
    what reads no HTML. White and black change places on a dark page of Jupyter's; elsewhere the
    background is white.

    Args:
        figure: drawn with or without pyplot; it is closed, so that it isn't shown twice.
        alt: what to know from the picture without seeing it.

    Attributes:
        webp: the image as bytes, the same for the same figure.
        png: the same of half the density.
        alt: the text alternative.
        width, height: size on the page in CSS pixels.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        if not alt.strip():
            raise ValueError("alt is empty: say in a sentence what the figure shows")
        self.alt = " ".join(alt.split())
        image = _drawn(figure)
        self.width, self.height = (round(side / PIXEL_DENSITY) for side in image.size)
        self.webp = _encoded(image.point(FEWER_SHADES), format="WEBP", lossless=True, method=2)
        small = image.reduce(PIXEL_DENSITY).quantize(128, dither=Image.Dither.NONE)
        self.png = _encoded(small, format="PNG", optimize=True)
        _close(figure)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        size = {"width": self.width, "height": self.height}
        source = _base64(self.webp)
        image = (
            f'<img src="data:image/webp;base64,{source}" alt="{html.escape(self.alt)}" '
            f'width="{self.width}" height="{self.height}" '
            f'style="max-width: 100%; height: auto; background: white; filter: {colours.FILTER}">'
        )
        data = {"text/html": image, "image/png": _base64(self.png), "text/plain": self.alt}
        return data, {"image/png": {"alt": self.alt, **size}}

    def __repr__(self) -> str:
        return self.alt


def show(figure: "Figure | Picture", alt: str = "") -> None:
    """Show a figure of your own with its text alternative, or a `Picture` in mid-cell."""
    from IPython.display import display

    display(figure if isinstance(figure, Picture) else Picture(figure, alt))


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

    A matrix with numbers below zero is drawn with orange for these, white for zero and blue above
    it; any other one with blue that grows as the square root, as in the attention map.

    Args:
        matrix: `(T, S)`; `-inf` is drawn as hidden, NaN as such.
        title: what to see.
        rows, columns: T and S labels; positions by default.
        hidden: `(T, S)` bool; `True` is hatched.
        digits: after the point. Where they don't fit into the cells they are left out.
        limits: the lowest and the highest number there may be; by default 0 and the matrix's own
            largest.
        alt: the text alternative; by default the rows, or the range of a large matrix.

    Raises:
        ValueError: a shape or a number of labels doesn't fit.
    """
    values, is_hidden = _grid(matrix, hidden, ndim=2)
    row_names, column_names = (
        _names(rows, values.shape[0], "rows"),
        _names(columns, values.shape[1], "columns"),
    )
    paint = _paint(values, is_hidden, limits)
    with _style():
        cell = _cell_inches(values.shape)
        figure = _figure(
            _label_inches(row_names) + cell * values.shape[1] + 1.3,
            cell * values.shape[0] + _label_inches(column_names) + 0.7,
            title,
        )
        axes = figure.add_subplot()
        _draw_cells(axes, values, is_hidden, *paint)
        _label_cells(axes, row_names, column_names, xlabel, ylabel)
        _draw_scale(figure, [axes], *paint)
        _hidden_legend(figure, is_hidden)
        _fit(figure, [axes])
        _write_digits([axes], values[None], is_hidden[None], *paint, digits)
    described = _describe_matrix(values, is_hidden, row_names, column_names, digits)
    return Picture(figure, alt or f"Heat map: {_sentence(title)} {described}")


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
    """Draw the `(H, T, S)` weights of several heads side by side on one scale from 0 to 1.

    Args:
        weights: `(H, T, S)`.
        title: what to see.
        queries, keys: T and S labels; positions by default.
        hidden: bool, broadcastable to `(H, T, S)`; `True` is hatched.
        names: H headings; "head 0", "head 1", … by default.
        alt: the text alternative; by default where the last query looks most.
    """
    values, is_hidden = _grid(weights, hidden, ndim=3)
    H, T, S = values.shape
    row_names, column_names = _names(queries, T, "queries"), _names(keys, S, "keys")
    head_names = (
        _names(names, H, "headings") if names is not None else [f"head {h}" for h in range(H)]
    )
    paint = _paint(values, is_hidden, (0, 1))
    across = min(H, 4)
    down = math.ceil(H / across)
    with _style():
        cell = min(_cell_inches((T, S)), 2.4 / max(T, S))
        width = max(cell * S, 1.1) + 0.25
        height = max(cell * T, 1.1) + 0.35
        figure = _figure(
            _label_inches(row_names) + across * width + 1.2,
            down * height + _label_inches(column_names) + 0.7,
            title,
        )
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for h, axes in enumerate(grid.flat):
            if h >= H:
                axes.set_axis_off()
                continue
            _draw_cells(axes, values[h], is_hidden[h], *paint)
            _label_cells(axes, row_names, column_names)
            axes.set_title(head_names[h], fontsize=10)
            axes.tick_params(labelleft=h % across == 0, labelbottom=h + across >= H)
        figure.supxlabel("key", fontsize=10)
        figure.supylabel("query", fontsize=10)
        _draw_scale(figure, list(grid.flat), *paint)
        _hidden_legend(figure, is_hidden)
        panels = list(grid.flat)[:H]
        _fit(figure, panels)
        _write_digits(panels, values, is_hidden, *paint, digits=2)
    described = _describe_heads(values, is_hidden, head_names, row_names, column_names)
    return Picture(figure, alt or f"Grid of heads: {_sentence(title)} {described}")


def mask_picture(
    hidden: Tensor,
    title: str,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw one `(T, S)` mask, or a batch `(B, T, S)`: hatched is hidden.

    Args:
        hidden: bool, `True` means hidden.
        title: what to see.
        queries, keys: T and S labels; positions by default.
        names: B headings; "sequence 0", … by default.
        alt: the text alternative; by default what each row sees.
    """
    if hidden.dtype != torch.bool:
        raise ValueError(f"hidden must be a bool mask, got {hidden.dtype}")
    batch = hidden[None] if hidden.ndim == 2 else hidden
    _, is_hidden = _grid(torch.zeros(batch.shape), batch, ndim=3)
    B, T, S = is_hidden.shape
    row_names, column_names = _names(queries, T, "queries"), _names(keys, S, "keys")
    one = hidden.ndim == 2 and names is None
    headings = [""] if one else _names(names or [f"sequence {b}" for b in range(B)], B, "headings")
    with _style():
        cell = min(_cell_inches((T, S)), 3.2 / max(T, S))
        width = max(cell * S, 1.1) + 0.25
        figure = _figure(
            _label_inches(row_names) + B * width + 0.5,
            max(cell * T, 1.1) + _label_inches(column_names) + 1.1,
            title,
        )
        for b, axes in enumerate(figure.subplots(1, B, sharey=True, squeeze=False).flat):
            _draw_cells(axes, np.zeros((T, S)), is_hidden[b], SEEN, Normalize(0, 1))
            _label_cells(axes, row_names, column_names, "key", "query" if b == 0 else "")
            axes.set_title(headings[b], fontsize=10)
        _hidden_legend(figure, is_hidden, seen=True)
        _fit(figure, figure.axes)
    rows = []
    for name, mask in zip(headings, is_hidden, strict=True):
        for t in range(T) if mask.size <= CELLS_DESCRIBED else ():
            seen = ", ".join(column_names[s] for s in np.flatnonzero(~mask[t])) or "nothing"
            rows.append(f"{name + ', ' if name else ''}query {row_names[t]} sees {seen}")
    described = "; ".join(rows) or f"{is_hidden.sum()} of {is_hidden.size} cells are hidden"
    return Picture(figure, alt or f"Mask: {_sentence(title)} {described}.")


def score_distributions(
    scores: Mapping[int, Tensor],
    title: str,
    *,
    bins: int = 60,
    alt: str | None = None,
) -> Picture:
    """Draw how dot products spread, as they are and divided by √D.

    Args:
        scores: unscaled dot products of any shape by the width D of their vectors.
        title: what to see.
        bins: of each histogram.
        alt: the text alternative; by default the standard deviations.
    """
    raw = {D: _array(tensor).ravel() for D, tensor in scores.items()}
    panels = {
        "as they are: q · k": raw,
        "scaled: q · k / √D": {D: values / math.sqrt(D) for D, values in raw.items()},
    }
    described = []
    with _style():
        figure = _figure(8.0, 3.4, title)
        left, right = figure.subplots(1, 2)
        for axes, (name, groups) in zip((left, right), panels.items(), strict=True):
            limit = max(float(np.abs(values).max()) for values in groups.values())
            edges = np.linspace(-limit, limit, bins + 1)
            for i, (D, values) in enumerate(groups.items()):
                spread = f"{values.std():.1f}"
                axes.stairs(
                    np.histogram(values, edges, density=True)[0],
                    edges,
                    label=f"D = {D}, std {spread}",
                    **_line_look(i),
                )
                described.append(f"{name.split(':')[0]}, D = {D}: {spread}")
            axes.set_title(name, fontsize=10)
            axes.set_xlabel("score")
            axes.set_ylabel("density")
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=8, handlelength=2.6, loc="upper right")
    text = f"Histograms: {_sentence(title)} Standard deviations: {'; '.join(described)}."
    return Picture(figure, alt or text)


def loss_curve(
    losses: Mapping[str, Sequence[float] | Mapping[int, float]],
    title: str,
    *,
    floor: float | None = None,
    levels: Mapping[str, float] | None = None,
    steps: int | None = None,
    xlabel: str = "step",
    ylabel: str = "loss (nats per token)",
    legend: Literal["upper right", "center right"] = "upper right",
    alt: str | None = None,
) -> Picture:
    """Draw losses against the steps of training, one line a name.

    Args:
        losses: by name, one value a step from step 1 on, or a dict of value by step.
        title: what to see.
        floor: a value that no model can beat, such as the entropy of the data; a labelled line.
        levels: other values to compare with, by name; lines with their names beside them.
        steps: how far the axis goes; by default as far as the losses.
        legend: where the names of the lines stand.
        alt: the text alternative. The default leaves the values out, because they differ from
            machine to machine.
    """
    with _style():
        figure = _figure(6.4, 3.6, title)
        axes = figure.add_subplot()
        for i, (name, values) in enumerate(losses.items()):
            by_step = values if isinstance(values, Mapping) else dict(enumerate(values, start=1))
            axes.plot(
                _array(list(by_step)),
                _array(list(by_step.values())),
                label=name,
                **_line_look(i),
            )
        if floor is not None:
            axes.axhline(
                floor,
                label=f"floor {floor:.2f}",
                color=HATCH_COLOR,
                linewidth=1.6,
                linestyle=(0, (1, 2)),
            )
        for name, value in (levels or {}).items():
            axes.axhline(value, color=HATCH_COLOR, linewidth=1.0, linestyle=(0, (1, 2)))
            axes.annotate(
                f"{name} {fixed(value, 2)}",
                (1, value),
                (4, 0),
                xycoords=axes.get_yaxis_transform(),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )
        if steps is not None:
            axes.set_xlim(0, steps)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        if levels is None or len(losses) > 1:
            axes.legend(loc=legend, handlelength=3)
    described = f"{ylabel} against {xlabel} for {', '.join(losses)}"
    if floor is not None:
        described += f", with a floor at {floor:.2f}"
    if levels:
        lines = ", ".join(f"{name} at {fixed(value, 2)}" for name, value in levels.items())
        described += f", with lines for {lines}"
    return Picture(figure, alt or f"Line chart: {_sentence(title)} {described}.")


def cost_curve(
    sizes: Sequence[float],
    costs: Mapping[str, Sequence[float]],
    title: str,
    *,
    xlabel: str,
    ylabel: str,
    power: float | None = None,
    alt: str | None = None,
) -> Picture:
    """Draw measured costs against a size, both axes logarithmic, one line a name.

    Args:
        sizes: N positive sizes, such as the numbers of tokens.
        costs: N positive costs by name.
        title: what to see.
        xlabel, ylabel: with units.
        power: draw the line that grows with this power of the size, through the last point of the
            first curve: 2 for T².
        alt: the text alternative. The default leaves the values out, because measured costs differ
            from run to run.
    """
    x = _array(sizes)
    with _style():
        figure = _figure(6.4, 3.8, title)
        axes = figure.add_subplot()
        for i, (name, values) in enumerate(costs.items()):
            if len(values) != len(sizes):
                raise ValueError(
                    f"{name!r} has {len(values)} costs, but there are {len(sizes)} sizes"
                )
            marker = MARKERS[i % len(MARKERS)]
            axes.plot(x, _array(values), label=name, marker=marker, markersize=5, **_line_look(i))
        if power is not None:
            last = _array(next(iter(costs.values())))[-1]
            axes.plot(
                x,
                last * (x / x[-1]) ** power,
                color=HATCH_COLOR,
                linewidth=1,
                linestyle=(0, (1, 2)),
                label=f"grows as size to the power {power:g}",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(x, [f"{size:g}" for size in x])
        axes.minorticks_off()
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.legend(loc="upper left", handlelength=3)
    described = f"{ylabel} against {xlabel} from {x[0]:g} to {x[-1]:g} for {', '.join(costs)}"
    if power is not None:
        described += f", beside a line that grows as size to the power {power:g}"
    return Picture(figure, alt or f"Line chart: {_sentence(title)} {described}.")


def points_and_lines(
    x: Tensor,
    y: Tensor,
    lines: Mapping[str, Callable[[Tensor], Tensor]],
    title: str,
    *,
    alt: str | None = None,
) -> Picture:
    """Draw points and the lines that were fitted to them.

    Args:
        x, y: N numbers each.
        lines: by name, what gives the line's y for any x, such as a module.
        title: what to see.
        alt: the text alternative. The default leaves the lines' numbers out, because trained ones
            differ from machine to machine.
    """
    wide = torch.linspace(float(x.min()) - 0.5, float(x.max()) + 0.5, 2)
    with _style():
        figure = _figure(6.0, 3.6, title)
        axes = figure.add_subplot()
        for i, (name, line) in enumerate(lines.items()):
            axes.plot(_array(wide), _array(line(wide)), label=name, **_line_look(i))
        axes.plot(_array(x), _array(y), "D", color="black", markersize=7, label="the points")
        axes.set_xlabel("x")
        axes.set_ylabel("y")
        axes.legend(loc="upper left", handlelength=3)
    points = ", ".join(f"({a:g}, {b:g})" for a, b in zip(_array(x), _array(y), strict=True))
    described = f"the points {points} and a line for each of: {', '.join(lines)}"
    return Picture(figure, alt or f"Line chart: {_sentence(title)} {described}.")


def curve_panels(
    sizes: Sequence[float],
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    *,
    xlabel: str,
    alt: str | None = None,
) -> Picture:
    """Draw curves against a size in panels side by side, one line a name, the same in each panel.

    The sizes are on a logarithmic axis; so is what spans more than a factor of 1,000.

    Args:
        sizes: N positive sizes.
        panels: by what is measured, N numbers by name.
        title: what to see.
        alt: the text alternative; by default the first and the last number of each line.
    """
    x, described = _array(sizes), []
    with _style():
        figure = _figure(8.0, 3.3, title)
        drawn = figure.subplots(1, len(panels), squeeze=False).flat
        for axes, (what, curves) in zip(drawn, panels.items(), strict=True):
            for i, (name, values) in enumerate(curves.items()):
                y = _array(values)
                axes.plot(x, y, label=name, marker=MARKERS[i], markersize=5, **_line_look(i))
                described.append(f"{what}, {name}: from {y[0]:.2g} to {y[-1]:.2g}")
            everything = np.concatenate([_array(values) for values in curves.values()])
            axes.set_xscale("log", base=2)
            if everything.min() > 0 and everything.max() > 1000 * everything.min():
                axes.set_yscale("log")
            else:
                axes.set_ylim(0, 1.05 * everything.max())
            axes.set_xticks(x, [f"{size:g}" for size in x])
            axes.minorticks_off()
            axes.set(xlabel=xlabel, ylabel=what)
            axes.legend(loc="best", fontsize=8, handlelength=3)
    return Picture(figure, alt or f"Line charts: {_sentence(title)} {'; '.join(described)}.")


def curves(
    x: Tensor,
    values: Mapping[str, Tensor],
    title: str,
    *,
    xlabel: str = "x",
    ylabel: str = "",
    alt: str,
) -> Picture:
    """Draw curves over the same numbers, one line a name, with the axes through 0 marked.

    Args:
        x: N numbers in order.
        values: N numbers by name.
        title: what to see.
        alt: the text alternative.
    """
    with _style():
        figure = _figure(6.0, 3.4, title)
        axes = figure.add_subplot()
        axes.axhline(0, color="#bbbbbb", linewidth=0.8)
        axes.axvline(0, color="#bbbbbb", linewidth=0.8)
        for i, (name, y) in enumerate(values.items()):
            axes.plot(_array(x), _array(y), label=name, **_line_look(i))
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.legend(loc="upper left", handlelength=3)
    return Picture(figure, alt)


def bars(
    values: Mapping[str, Mapping[str, float]],
    title: str,
    *,
    xlabel: str,
    alt: str | None = None,
) -> Picture:
    """Draw a bar a name, made of pieces one behind the other, each with its name and number.

    Args:
        values: by bar, by piece, a number that is not negative. A piece too narrow for its name is
            named behind the bar.
        title: what to see.
        alt: the text alternative; by default the numbers.
    """
    longest = max(sum(pieces.values()) for pieces in values.values())
    with _style():
        figure = _figure(8.0, 0.9 + 0.7 * len(values), title)
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
    described = "; ".join(
        f"{name}: " + ", ".join(f"{piece} {value:,}" for piece, value in pieces.items())
        for name, pieces in values.items()
    )
    return Picture(figure, alt or f"Bars: {_sentence(title)} {xlabel}. {described}.")


# Drawing ---------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    """The same look whatever style the notebook has set."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def _figure(width: float, height: float, title: str) -> Figure:
    size = (max(width, 3.2), height)
    width, height = (round(x * CSS_PIXELS_PER_INCH) / CSS_PIXELS_PER_INCH for x in size)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    figure = Figure(figsize=(width, height), layout=layout)
    figure.suptitle(_wrapped(title, columns=int(width * 10)), fontsize=11, fontweight="bold")
    return figure


def _wrapped(text: str, columns: int) -> str:
    return "\n".join(textwrap.wrap(text, columns))


def _cell_inches(shape: tuple[int, ...]) -> float:
    longest = max(shape[-2:])
    return 0.5 if longest <= LARGE_CELLS else max(6.0 / longest, 0.09)


def _label_inches(names: Sequence[str]) -> float:
    return 0.5 + 0.08 * max(len(name) for name in names)


def _line_look(i: int) -> dict[str, Any]:
    """How the line number `i` of a figure is told apart from the others."""
    return {
        "linewidth": 1.6,
        "color": LINE_COLORS[i % len(LINE_COLORS)],
        "linestyle": LINE_STYLES[i % len(LINE_STYLES)],
    }


def _draw_cells(
    axes: Axes, values: np.ndarray, hidden: np.ndarray, colormap: Colormap, norm: Normalize
) -> None:
    T, S = values.shape
    # One hatched sheet below, and the cells above it with holes where they are hidden: a hatched
    # shape a cell would take seconds of a large mask.
    sheet = Rectangle((-0.5, -0.5), S, T, facecolor="white", hatch=HATCH, linewidth=0, zorder=0)
    axes.add_patch(sheet)
    cells = colormap(norm(np.where(np.isnan(values), 0, values)))
    cells[np.isnan(values)] = 1
    cells[hidden] = (1, 1, 1, 0)
    axes.imshow(cells, aspect="equal", zorder=1)
    if max(T, S) <= 32:  # no minor ticks with a grid: each of them takes part in the layout
        lines = [[(s - 0.5, -0.5), (s - 0.5, T - 0.5)] for s in range(S + 1)]
        lines += [[(-0.5, t - 0.5), (S - 0.5, t - 0.5)] for t in range(T + 1)]
        grid = LineCollection(lines, colors="#bbbbbb", linewidths=0.6, zorder=1.5, in_layout=False)
        axes.add_collection(grid, autolim=False)
    axes.tick_params(length=0)


def _label_cells(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], xlabel: str = "", ylabel: str = ""
) -> None:
    every = max(1, math.ceil(max(len(rows), len(columns)) / 16))
    axes.set_xticks(range(0, len(columns), every), columns[::every], parse_math=False)
    axes.set_yticks(range(0, len(rows), every), rows[::every], parse_math=False)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _fit(figure: Figure, panels: Sequence[Axes]) -> None:
    """Lay out, with the columns' labels of all panels slanted if one has no room to lie flat.

    Whatever comes later leaves the layout as it is: it takes longer than drawing.
    """
    _lay_out(figure, panels)
    for axes in panels:
        ticks = axes.get_xticks()
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1
        room = (_cell_points(axes) * step - 3) * figure.dpi / 72
        if any(label.get_window_extent().width > room for label in axes.get_xticklabels()):
            _slant(panels)
            _lay_out(figure, panels)
            break
    _lay_out(figure, panels)  # the names of the axes stand where the first one put the ticks
    figure.set_layout_engine("none")


def _slant(panels: Sequence[Axes]) -> None:
    for axes in panels:
        axes.tick_params(axis="x", labelrotation=60)
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")


def _lay_out(figure: Figure, panels: Sequence[Axes]) -> None:
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    for axes in panels:
        axes.apply_aspect()


def _cell_points(axes: Axes) -> float:
    left, right = axes.get_xlim()
    return axes.get_window_extent().width / (right - left) * 72 / axes.figure.dpi


def _write_digits(
    panels: Sequence[Axes],
    values: np.ndarray,
    hidden: np.ndarray,
    colormap: Colormap,
    norm: Normalize,
    digits: int,
) -> None:
    """Write the numbers into the cells of panels that are laid out, all of one size, if they fit.

    Args:
        values, hidden: `(panels, T, S)`.
    """
    least, most = DIGIT_POINTS
    texts = {
        place: _number(values[place], digits) for place in zip(*np.nonzero(~hidden), strict=True)
    }
    widest = max((len(text.replace(".", "")) + 0.5 for text in texts.values()), default=1)
    points = min(map(_cell_points, panels))
    size = min(most, 0.88 * points / (0.636 * widest))  # 0.636: a digit's width, in its height
    if size < least:
        return
    for (panel, t, s), text in texts.items():
        value = values[panel, t, s]
        ink, outline = ("black", None) if math.isnan(value) else _inks(colormap(norm(value)))
        written = panels[panel].text(
            s, t, text, ha="center", va="center", color=ink, fontsize=size, in_layout=False
        )
        if outline:
            written.set_path_effects([withStroke(linewidth=2.2, foreground=outline)])


def _draw_scale(figure: Figure, axes: Sequence[Axes], colormap: Colormap, norm: Normalize) -> None:
    """The bar of colours. Its colours are evenly spaced; its ticks stand where the numbers are."""
    mappable = matplotlib.cm.ScalarMappable(norm=norm, cmap=colormap)
    bar = figure.colorbar(mappable, ax=axes, fraction=0.06, pad=0.03, aspect=18)
    bar.outline.set(linewidth=0.6, edgecolor="#bbbbbb")
    if isinstance(norm, PowerNorm):
        bar.set_ticks(_bent_ticks(norm), minor=False)


def _bent_ticks(norm: Normalize) -> list[float]:
    """Round numbers that stand apart on a scale that isn't even, the largest first."""
    assert norm.vmin is not None and norm.vmax is not None
    size = norm.vmax - norm.vmin
    unit = 10 ** math.floor(math.log10(size))
    digits = [0, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    ticks: list[float] = []
    for tick in sorted((norm.vmin + digit * unit for digit in digits), reverse=True):
        if tick <= norm.vmax and all(abs(norm(tick) - norm(other)) > 0.12 for other in ticks):
            ticks.append(tick)
    return ticks


def _hidden_legend(figure: Figure, hidden: np.ndarray, seen: bool = False) -> None:
    handles = [Patch(facecolor=colours.SEEN, edgecolor="#bbbbbb", label="seen")] if seen else []
    if hidden.any():
        handles.append(Patch(facecolor="white", edgecolor=HATCH_COLOR, hatch=HATCH, label="hidden"))
    if handles:
        figure.legend(handles=handles, loc="outside lower right", fontsize=9, ncols=2)


def _inks(background: tuple[float, float, float, float]) -> tuple[str, colours.RGB | None]:
    """A digit's colour, and that of its outline where it needs one on a light page or a dark one.

    No colour stands out from a middle shade by day and, turned round, by night as well.
    """
    red, green, blue, _ = background
    by_day = (red, green, blue)
    by_night = colours.in_the_dark(by_day)

    def least(ink: colours.RGB) -> float:
        return min(
            colours.contrast(ink, by_day), colours.contrast(colours.in_the_dark(ink), by_night)
        )

    for name, ink in (("black", colours.BLACK), ("white", colours.WHITE)):
        if least(ink) >= 4.5:
            return name, None
    return "black", colours.shade(1 / 8 if blue >= red else -1 / 8)


def _drawn(figure: Figure) -> Image.Image:
    figure.set_dpi(CSS_PIXELS_PER_INCH * PIXEL_DENSITY)
    figure.set_facecolor("white")
    canvas = FigureCanvasAgg(figure)
    with _style():
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _encoded(image: Image.Image, **how: Any) -> bytes:
    """The same image gives the same bytes: no time, no version in them."""
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _close(figure: Figure) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:  # a figure drawn without pyplot is unknown to it
        pyplot.close(figure)


# Data ------------------------------------------------------------------------------------------


def _array(values: Any) -> np.ndarray:
    return torch.as_tensor(values, dtype=torch.float64).detach().cpu().numpy()


def _grid(matrix: Tensor, hidden: Tensor | None, ndim: int) -> tuple[np.ndarray, np.ndarray]:
    values = _array(matrix)
    if values.ndim != ndim or values.size == 0:
        wanted = "(T, S)" if ndim == 2 else "(H, T, S)"
        raise ValueError(f"a figure of {wanted} was asked for, got {tuple(values.shape)}")
    is_hidden = np.isneginf(values)
    if hidden is not None:
        try:
            is_hidden = is_hidden | np.broadcast_to(hidden.detach().cpu().numpy(), values.shape)
        except ValueError:
            raise ValueError(
                f"hidden is {tuple(hidden.shape)}, which doesn't broadcast to {values.shape}"
            ) from None
    return values, is_hidden


def _names(names: Sequence[str] | None, count: int, what: str) -> list[str]:
    if names is None:
        return [str(i) for i in range(count)]
    if len(names) != count:
        raise ValueError(f"{len(names)} labels were given for {count} {what}")
    return [str(name) for name in names]


def _paint(
    values: np.ndarray, hidden: np.ndarray, limits: tuple[float, float] | None
) -> tuple[Colormap, Normalize]:
    """Colours and what they stand for, as `colours.strength` has it."""
    shown = values[~hidden & np.isfinite(values)]
    low, high = limits or ((shown.min(), shown.max()) if shown.size else (0.0, 1.0))
    if low < 0:
        largest = max(-low, high)
        return SIGNED, Normalize(-largest, largest, clip=True)
    low = low if limits else 0.0
    return WEIGHTS, PowerNorm(0.5, low, high if high > low else low + 1, clip=True)


def _number(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else str(value).replace("-", "−").replace("inf", "∞")
    text = fixed(value, digits)
    return text.replace("-", "−") if float(text) else text.replace("-", "")


def _largest(values: np.ndarray, hidden: np.ndarray) -> tuple[int, int]:
    t, s = np.unravel_index(
        np.where(hidden | np.isnan(values), -np.inf, values).argmax(), values.shape
    )
    return int(t), int(s)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _describe_matrix(
    values: np.ndarray,
    hidden: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    digits: int,
) -> str:
    T, S = values.shape
    size = f"{T} rows by {S} columns"
    if values.size <= CELLS_DESCRIBED:
        lines = []
        for t, row in enumerate(values):
            cells = ("hidden" if hidden[t, s] else _number(v, digits) for s, v in enumerate(row))
            lines.append(f"row {rows[t]}: {', '.join(cells)}")
        return f"{size}. {'; '.join(lines)}."
    if (hidden | np.isnan(values)).all():
        return f"{size}, no numbers to see."
    shown = values[~hidden & ~np.isnan(values)]
    t, s = _largest(values, hidden)
    return (
        f"{size}, values from {_number(shown.min(), digits)} to {_number(shown.max(), digits)}; "
        f"the largest in row {rows[t]}, column {columns[s]}."
    )


def _describe_heads(
    values: np.ndarray,
    hidden: np.ndarray,
    names: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
) -> str:
    favourites = []
    for name, head, covered in zip(names, values, hidden, strict=True):
        _, key = _largest(head[-1:], covered[-1:])
        favourites.append(f"{name} at {columns[key]} ({_number(head[-1, key], 2)})")
    H, T, S = values.shape
    return (
        f"{H} heat maps of {T} queries by {S} keys. "
        f"The last query, {rows[-1]}, looks most: {'; '.join(favourites)}."
    )
