"""Draws cells, lines and labels, and makes pictures with text alternatives for notebooks."""

import base64
import html
import io
import math
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
import torch
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import (
    Colormap,
    LinearSegmentedColormap,
    ListedColormap,
    Normalize,
)
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from PIL import Image
from torch import Tensor

from course_utils.desk.language import fonts, is_wide, localised
from course_utils.desk.rounding import fixed
from course_utils.show import colours

WEIGHTS = LinearSegmentedColormap.from_list("weights", colours.ABOVE)
SIGNED = LinearSegmentedColormap.from_list("signed", colours.BELOW[:0:-1] + colours.ABOVE)
SEEN = ListedColormap([colours.SEEN], "seen")
HATCH = "/////"
PADDING_HATCH = "..."
HATCH_COLOR = colours.HATCHING

# Lines differ in dashes and markers, and their colours also differ in lightness.
LINE_STYLES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3))]
LINE_COLORS = ["#000000", "#0072b2", "#b35900", "#009e73", "#7b3294", "#56a0d3"]
MARKERS = "osD^vP"

CSS_PIXELS_PER_INCH = 96
PIXEL_DENSITY = 2
# Rounding red, green and blue to multiples of eight is invisible and saves a third of the size.
FEWER_SHADES = [min(255, (v + 4) // 8 * 8) for v in range(256)] * 3
CELLS_DESCRIBED = 36
LARGE_CELLS = 16  # rows or columns; a larger grid gets smaller cells
DIGIT_POINTS = (6.5, 9.0)  # smaller digits are left out

# The page shrinks a wider picture, and its text with it.
WIDEST = 9.2  # inches

STYLE = {
    "figure.facecolor": "white",
    "figure.dpi": CSS_PIXELS_PER_INCH * PIXEL_DENSITY,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "lines.linewidth": 1.6,
    "hatch.color": HATCH_COLOR,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
}


class Picture:
    """A finished figure with its text alternative, sharp on high-resolution screens.

    A notebook stores a picture as HTML, the only format in which JupyterLab and nbconvert read a
    text alternative. The HTML contains a WebP image, which is a third smaller than a PNG; programs
    without HTML get a PNG of half the density. On a dark Jupyter page, white and black are swapped;
    elsewhere the background is white.

    Args:
        figure: a figure, created by pyplot or not; it is closed so that it isn't shown twice.
        alt: the text alternative for readers who don't see the picture.

    Attributes:
        webp: the image as bytes, which are the same for the same figure.
        png: the image at half the density.
        alt: the text alternative.
        width, height: the size on the page in CSS pixels.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        if not alt.strip():
            raise ValueError("alt is empty: say in a sentence what the figure shows")
        self.alt = localised(" ".join(alt.split()))
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
    """Show your own figure with its text alternative, or a `Picture` in the middle of a cell."""
    from IPython.display import display

    display(figure if isinstance(figure, Picture) else Picture(figure, alt))


# Drawing ---------------------------------------------------------------------------------------


@contextmanager
def style() -> Iterator[None]:
    """Use the course's style inside the context, whatever style the notebook has set."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def figure(width: float, height: float, title: str) -> Figure:
    size = (max(width, 3.2), height)
    width, height = (round(x * CSS_PIXELS_PER_INCH) / CSS_PIXELS_PER_INCH for x in size)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    figure = Figure(figsize=(width, height), layout=layout)
    entitle(figure, title)
    return figure


def titled(figure: Figure, title: str, alt: str) -> Picture:
    """Finish a figure that pyplot created, with its title and its layout."""
    entitle(figure, title)
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    return Picture(figure, alt)


def entitle(figure: Figure, title: str) -> None:
    """Write a title over a figure, in the reader's language."""
    title, font = _in_the_reader_s_language(title)
    look: dict[str, Any] = {"fontsize": 11, "fontweight": "bold", "fontfamily": font}
    figure.suptitle(_wrapped(title, columns=int(figure.get_figwidth() * 10)), **look)


def _in_the_reader_s_language(title: str) -> tuple[str, list[str]]:
    """Translate a title, and find its fonts; it stays English if no font has its characters."""
    own, latin = localised(title), list(matplotlib.rcParams["font.family"])
    if own == title:
        return title, latin
    known = set(font_manager.get_font_names())
    found = [name for name in fonts() if name in known]
    return (own, [*latin, *found[:1]]) if found or own.isascii() else (title, latin)


def _wrapped(text: str, columns: int) -> str:
    if not any(map(is_wide, text)):
        lines = textwrap.wrap(text, columns)
        # The lines are made equally long, so that the last one isn't a single word.
        for narrower in range(columns, max(map(len, text.split()), default=1) - 1, -1):
            even = textwrap.wrap(text, narrower)
            if len(even) > len(lines):
                break
            lines = even
        return "\n".join(lines)
    lines, width = [""], 0  # without spaces between words, a line may end anywhere
    for character in text:
        width += 1 + is_wide(character)
        if width > columns and unicodedata.category(character)[0] != "P":
            lines, width = [*lines, ""], 1 + is_wide(character)
        lines[-1] += character
    return "\n".join(lines)


def cell_inches(shape: tuple[int, ...]) -> float:
    longest = max(shape[-2:])
    return 0.5 if longest <= LARGE_CELLS else max(6.0 / longest, 0.09)


def label_inches(names: Sequence[str]) -> float:
    return 0.5 + 0.08 * max(len(name) for name in names)


def line_look(i: int) -> dict[str, Any]:
    """The style that distinguishes line number `i` of a figure."""
    return {
        "color": LINE_COLORS[i % len(LINE_COLORS)],
        "linestyle": LINE_STYLES[i % len(LINE_STYLES)],
    }


def draw_cells(
    axes: Axes, values: np.ndarray, hidden: np.ndarray, colormap: Colormap, norm: Normalize
) -> None:
    T, S = values.shape
    # Hidden cells are holes above one hatched sheet, because one hatched shape per cell would take
    # seconds for a large mask.
    sheet = Rectangle((-0.5, -0.5), S, T, facecolor="white", hatch=HATCH, linewidth=0, zorder=0)
    axes.add_patch(sheet)
    cells = colormap(norm(np.where(np.isnan(values), 0, values)))
    cells[np.isnan(values)] = 1
    cells[hidden] = (1, 1, 1, 0)
    axes.imshow(cells, aspect="equal", zorder=1)
    if max(T, S) <= 32:  # larger grids have no minor ticks, which slow down the layout
        lines = [[(s - 0.5, -0.5), (s - 0.5, T - 0.5)] for s in range(S + 1)]
        lines += [[(-0.5, t - 0.5), (S - 0.5, t - 0.5)] for t in range(T + 1)]
        grid = LineCollection(lines, colors="#bbbbbb", linewidths=0.6, zorder=1.5, in_layout=False)
        axes.add_collection(grid, autolim=False)
    axes.tick_params(length=0)


def hatch_padding(axes: Axes, hidden: np.ndarray, padding: np.ndarray) -> None:
    """Dot hidden cells `(T, S)` of padding `(S,)`; those in the future are hatched as well."""
    future = np.triu(hidden, 1)
    for cells, face in ((hidden & padding & ~future, "white"), (future & padding, "none")):
        squares = [Rectangle((s - 0.5, t - 0.5), 1, 1) for t, s in np.argwhere(cells)]
        if squares:
            paths = [
                square.get_transform().transform_path(Path.unit_rectangle()) for square in squares
            ]
            whole = Path.make_compound_path(*paths)
            look: dict[str, Any] = {"facecolor": face, "hatch": PADDING_HATCH, "linewidth": 0}
            axes.add_patch(PathPatch(whole, **look, zorder=0.5))


def label_cells(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], xlabel: str = "", ylabel: str = ""
) -> None:
    every = max(1, math.ceil(max(len(rows), len(columns)) / 16))
    axes.set_xticks(range(0, len(columns), every), columns[::every], parse_math=False)
    axes.set_yticks(range(0, len(rows), every), rows[::every], parse_math=False)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    for spine in axes.spines.values():
        spine.set_visible(False)


def fit(figure: Figure, panels: Sequence[Axes]) -> None:
    """Lay out the panels; slant the column labels if one of them is too long to be horizontal.

    Later drawing keeps this layout, because computing it takes longer than drawing.
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
    _lay_out(figure, panels)  # the axis names use the ticks of the first layout
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


def write_digits(
    panels: Sequence[Axes],
    values: np.ndarray,
    hidden: np.ndarray,
    colormap: Colormap,
    norm: Normalize,
    digits: int,
) -> None:
    """Write the numbers into the cells of laid-out panels, all in the same size, if they fit.

    Args:
        values, hidden: the numbers and the mask, each `(panels, T, S)`.
    """
    least, most = DIGIT_POINTS
    texts = {
        place: _number(float(values[place]), digits)
        for place in zip(*np.nonzero(~hidden), strict=True)
    }
    widest = max((len(text.replace(".", "")) + 0.5 for text in texts.values()), default=1)
    points = min(map(_cell_points, panels))
    size = min(most, 0.88 * points / (0.636 * widest))  # 0.636: a digit's width / height
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


def draw_scale(figure: Figure, axes: Sequence[Axes], colormap: Colormap, norm: Normalize) -> None:
    """Draw the colour bar with its numbers."""
    mappable = matplotlib.cm.ScalarMappable(norm=norm, cmap=colormap)
    bar = figure.colorbar(mappable, ax=axes, fraction=0.06, pad=0.03, aspect=18)
    bar.outline.set(linewidth=0.6, edgecolor="#bbbbbb")


def hidden_legend(
    figure: Figure, hidden: np.ndarray, visible: bool = False, padding: bool = False
) -> None:
    handles = [Patch(facecolor=colours.SEEN, edgecolor="#bbbbbb", label="seen")] if visible else []
    look: dict[str, Any] = {"facecolor": "white", "edgecolor": HATCH_COLOR}
    if hidden.any():
        handles.append(Patch(**look, hatch=HATCH, label="future" if padding else "hidden"))
    if padding:
        handles.append(Patch(**look, hatch=PADDING_HATCH, label="padding"))
    if handles:
        figure.legend(handles=handles, loc="outside lower right", fontsize=9, ncols=3)


def _inks(background: tuple[float, float, float, float]) -> tuple[str, colours.RGB | None]:
    """A digit's colour, and its outline's colour if it needs an outline on a light or dark page.

    No colour contrasts with a middle shade on both a light page and (inverted) a dark page.
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
    with style():
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())


def _encoded(image: Image.Image, **how: Any) -> bytes:
    """Encode an image without a time stamp or version, so that equal images give equal bytes."""
    file = io.BytesIO()
    image.save(file, **how)
    return file.getvalue()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _close(figure: Figure) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:  # pyplot doesn't know figures that it didn't create
        pyplot.close(figure)


# Data ------------------------------------------------------------------------------------------


def array(values: Any) -> np.ndarray:
    return torch.as_tensor(values, dtype=torch.float64).detach().cpu().numpy()


def grid(matrix: Tensor, hidden: Tensor | None, ndim: int) -> tuple[np.ndarray, np.ndarray]:
    values = array(matrix)
    if values.ndim != ndim or values.size == 0:
        wanted = "(T, S)" if ndim == 2 else "(H, T, S)"
        raise ValueError(f"expected shape {wanted}, got {tuple(values.shape)}")
    is_hidden = np.asarray(np.isneginf(values))
    if hidden is not None:
        try:
            is_hidden = is_hidden | np.broadcast_to(hidden.detach().cpu().numpy(), values.shape)
        except ValueError:
            raise ValueError(
                f"hidden is {tuple(hidden.shape)}, which doesn't broadcast to {values.shape}"
            ) from None
    return values, is_hidden


def names(names: Sequence[str] | None, count: int, what: str) -> list[str]:
    if names is None:
        return [str(i) for i in range(count)]
    if len(names) != count:
        raise ValueError(f"{len(names)} labels were given for {count} {what}")
    return [str(name) for name in names]


def paint(
    values: np.ndarray, hidden: np.ndarray, limits: tuple[float, float] | None
) -> tuple[Colormap, Normalize]:
    """The cells' colours, and the colour scale, as in `colours.strength`."""
    shown = values[~hidden & np.isfinite(values)]
    low, high = limits or ((shown.min(), shown.max()) if shown.size else (0.0, 1.0))
    if low < 0:
        largest = max(-low, high)
        return SIGNED, Normalize(-largest, largest, clip=True)
    low = low if limits else 0.0
    return WEIGHTS, Normalize(low, high if high > low else low + 1, clip=True)


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


def sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def describe_matrix(
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


def describe_heads(
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
        f"The last query, {rows[-1]}, attends most to: {'; '.join(favourites)}."
    )


def level(axes: Axes, name: str, value: float) -> None:
    """Draw a horizontal line with its name at its right end."""
    axes.axhline(value, color=HATCH_COLOR, linewidth=1.0, linestyle=(0, (1, 2)))
    axes.annotate(
        name,
        (1, value),
        (4, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=9,
    )
