"""Pictures: their text alternatives reach the page, their bytes are stable, they print in grey."""

import base64
import html
import io
import math
import re
import warnings
from types import SimpleNamespace

import matplotlib
import matplotlib.style
import nbformat
import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from matplotlib import pyplot as plt
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from course_utils.attention import causal_and_padding, causal_mask, masked_softmax, padding_mask
from course_utils.experiments import caching, translating
from course_utils.show import colours, drawing, figures
from course_utils.show.drawing import SIGNED, WEIGHTS
from course_utils.show.figures import (
    Picture,
    head_grid,
    heatmap,
    loss_curve,
    mask_picture,
    points_and_lines,
    product,
    score_distributions,
)

WORDS = ["The", "cat", "sat"]
TITLE = "What to see"


def weights(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.softmax(torch.randn(shape, generator=generator), dim=-1).requires_grad_()


DRAWINGS = {
    "heatmap": lambda **kw: heatmap(weights(3, 4), TITLE, rows=WORDS, **kw),
    "large heatmap": lambda **kw: heatmap(weights(40, 30), TITLE, **kw),
    "head_grid": lambda **kw: head_grid(weights(5, 3, 4), TITLE, queries=WORDS, **kw),
    "mask_picture": lambda **kw: mask_picture(causal_mask(3), TITLE, queries=WORDS, **kw),
    "batch of masks": lambda **kw: mask_picture(
        causal_and_padding(padding_mask([1, 3], 3)), TITLE, **kw
    ),
    "score_distributions": lambda alt=f"{TITLE}.": score_distributions(
        {4: weights(50), 16: weights(70)}, TITLE, alt=alt
    ),
    "loss_curve": lambda **kw: loss_curve(
        {"training": [3.0, 2.0, 1.5], "held out": {1: 3.1, 3: 1.7}}, TITLE, floor=1.2, **kw
    ),
    "loss_curve with levels": lambda **kw: loss_curve(
        {"training": [3.0, 2.0, 1.5]}, TITLE, levels={"bigram": 1.56, "floor": 1.22}, steps=9, **kw
    ),
    "points_and_lines": lambda **kw: points_and_lines(
        torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.5]), {"A": lambda x: 2 * x}, TITLE, **kw
    ),
}


@pytest.fixture(scope="module", params=DRAWINGS.values(), ids=DRAWINGS)
def draw(request):
    return request.param


@pytest.fixture(scope="module")
def picture(draw) -> Picture:
    before = plt.get_fignums()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw()
    assert plt.get_fignums() == before
    return drawn


def pixels(picture: Picture) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture.webp)).convert("RGB"))


def notebook_with(picture: Picture) -> nbformat.NotebookNode:
    data, metadata = picture._repr_mimebundle_()
    output = new_output("execute_result", data=data, metadata=metadata, execution_count=1)
    notebook = new_notebook(cells=[new_code_cell("heatmap(w)", outputs=[output])])
    nbformat.validate(notebook)
    return notebook


def test_a_picture_is_twice_as_dense_as_it_is_wide_on_the_page(picture):
    assert Image.open(io.BytesIO(picture.webp)).size == (2 * picture.width, 2 * picture.height)
    assert picture.width <= 1300


def test_the_background_is_white_to_its_edge(picture):
    for data in (picture.webp, picture.png):
        image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        for edge in (image[0], image[-1], image[:, 0], image[:, -1]):
            assert (edge == 255).all()


def test_the_default_text_alternative_holds_the_title(picture):
    assert f"{TITLE}." in picture.alt
    assert repr(picture) == picture.alt


def test_drawing_again_gives_the_same_bytes_whatever_style_is_set(draw, picture):
    before = plt.get_fignums()
    with matplotlib.style.context("dark_background"):
        second = draw(alt="Mine.")
    assert picture.webp == second.webp
    assert picture.webp[8:16] == b"WEBPVP8L"  # only bitmaps
    assert re.search(rb"tEXt|zTXt|iTXt|tIME", picture.png) is None
    assert second.alt == "Mine."
    assert plt.get_fignums() == before


@pytest.mark.parametrize("template", ["lab", "classic", "basic"])
def test_the_text_alternative_reaches_the_exported_page(template):
    picture = heatmap(weights(3, 4), 'Is 1 < 2 & "so"', alt='Is 1 < 2 & "so"?')
    exporter = HTMLExporter(template_name=template)
    page = BeautifulSoup(exporter.from_notebook_node(notebook_with(picture))[0], "html.parser")
    (image,) = page.select("img")
    assert image["alt"] == 'Is 1 < 2 & "so"?'
    assert (image["width"], image["height"]) == (str(picture.width), str(picture.height))


def test_a_picture_has_html_png_and_text():
    picture = DRAWINGS["heatmap"]()
    data, metadata = picture._repr_mimebundle_()
    assert data["text/plain"] == picture.alt
    assert metadata["image/png"]["alt"] == picture.alt
    assert base64.b64encode(picture.webp).decode() in data["text/html"]
    small = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert small.size == (picture.width, picture.height)
    assert f'alt="{html.escape(picture.alt)}"' in data["text/html"]


def test_a_notebook_shows_each_figure_once():
    source = """
import matplotlib.pyplot as plt, torch
from course_utils.show.figures import heatmap, show
figure, axes = plt.subplots(figsize=(3, 2))
axes.plot([1, 2])
show(figure, "A rising line.")
show(heatmap(torch.eye(2), "In mid-cell", alt="An identity."))
heatmap(torch.eye(3), "At the end", alt="Another.")
"""
    notebook = new_notebook(cells=[new_code_cell(source)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert [output.data["text/plain"] for output in outputs] == [
        "A rising line.",
        "An identity.",
        "Another.",
    ]
    assert 'width="288" height="192"' in outputs[0].data["text/html"]


def test_a_figure_without_a_text_alternative_is_refused():
    with pytest.raises(ValueError, match="alt is empty"):
        Picture(Figure(), " ")


def test_a_small_heat_map_is_described_digit_by_digit():
    matrix = torch.tensor([[1.0, -math.inf], [0.25, -0.75]])
    picture = heatmap(matrix, TITLE, rows=["a", "b"])
    assert picture.alt == (
        "Heat map: What to see. 2 rows by 2 columns. row a: 1.00, hidden; row b: 0.25, −0.75."
    )


def test_a_large_heat_map_is_described_by_its_range_and_its_largest_value():
    matrix = torch.zeros(20, 10)
    matrix[4, 7], matrix[0, 0] = 0.5, -2
    description = "values from −2.00 to 0.50; the largest in row 4, column 7."
    assert description in heatmap(matrix, TITLE).alt
    hidden = torch.zeros(20, 10, dtype=torch.bool)
    hidden[4, 7] = True
    matrix[9, 3] = 0.25
    assert "the largest in row 9, column 3." in heatmap(matrix, TITLE, hidden=hidden).alt
    assert "no numbers to see" in heatmap(matrix, TITLE, hidden=~torch.zeros_like(hidden)).alt


def test_a_row_of_nan_is_drawn_and_named():
    matrix = torch.tensor([[math.nan, math.nan], [0.5, 0.5]])
    assert "row 0: NaN, NaN; row 1: 0.50, 0.50" in heatmap(matrix, TITLE).alt


def test_heads_are_described_by_what_the_last_query_attends_to():
    heads = torch.zeros(2, 3, 3)
    heads[0, :, 0] = 1
    heads[1, 2] = torch.tensor([0.1, 0.7, 0.2])
    picture = head_grid(heads, TITLE, queries=WORDS, keys=WORDS, hidden=causal_mask(3))
    assert "The last query, sat, attends most to: head 0 at The (1.00); head 1 at cat (0.70)." in (
        picture.alt
    )


def test_a_mask_is_described_by_what_each_query_attends_to():
    assert mask_picture(
        torch.tensor([[False, True], [True, True]]), TITLE, keys=["a", "b"]
    ).alt == ("Mask: What to see. query 0 attends to a; query 1 attends to nothing.")
    batch = mask_picture(torch.tensor([[[False]], [[True]]]), TITLE)
    assert "text 0, query 0 attends to 0; text 1, query 0 attends to nothing." in batch.alt
    each = mask_picture(torch.tensor([[[False]], [[False]]]), TITLE, keys=[["a"], ["b"]])
    assert "text 0, query 0 attends to a; text 1, query 0 attends to b." in each.alt


@pytest.fixture
def undrawn(monkeypatch):
    """Functions return matplotlib's figure."""
    monkeypatch.setattr(figures, "Picture", lambda figure, alt: figure)


def test_padding_is_dotted_and_each_mask_may_have_words_of_its_own(undrawn):
    hidden, padding = causal_mask(2)[None].repeat(2, 1, 1), torch.tensor([[False, True]] * 2)
    words = [["cats", "<pad>"], ["dogs", "<pad>"]]
    look = {"queries": words, "keys": words, "padding": padding}
    drawn = mask_picture(hidden | padding[:, None], TITLE, **look)
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert legend == ["seen", "future", "padding"]
    hatches = [patch.get_hatch() for patch in drawn.axes[0].patches]
    assert [hatch[0] for hatch in hatches if hatch] == ["/", ".", "."]
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in drawn.axes]
    assert labels == words


def test_a_border_parts_two_texts_in_the_masks_that_have_one(undrawn):
    drawn = mask_picture(torch.zeros(2, 3, 3) > 0, TITLE, borders=[0, 2])
    assert [len(axes.lines) for axes in drawn.axes] == [0, 2]


def test_a_long_run_is_drawn_as_a_mean_in_front_of_its_steps(undrawn):
    steps, mean = loss_curve({"loss": [4.0, 2.0, 3.0]}, TITLE, mean_of=2).axes[0].lines
    assert (list(steps.get_ydata()), list(mean.get_ydata())) == ([4, 2, 3], [3, 2.5])
    assert list(mean.get_xdata()) == [2, 3]
    (alone,) = loss_curve({"loss": [4.0, 2.0, 3.0]}, TITLE).axes[0].lines
    assert alone.get_label() == "loss"


def test_every_arrow_has_room_on_both_sides_for_its_name(undrawn):
    (axes,) = figures.arrows({"a": (3.0, 0.0), "b": (-2.0, 1.0)}, TITLE, alt="A.").axes
    assert axes.get_xlim() == pytest.approx((-2 - 2 * 0.9, 3 + 2 * 0.9))
    assert axes.get_ylim() == pytest.approx((-0.9, 1 + 0.9))


def test_hidden_cells_are_distinguishable_without_colour():
    hidden = causal_mask(3)
    grey = pixels(mask_picture(hidden, TITLE)).mean(axis=-1)
    seen = pixels(mask_picture(torch.zeros_like(hidden), TITLE)).mean(axis=-1)
    assert (grey < 150).sum() > 1.5 * (seen < 150).sum()


STRENGTHS = [k / 64 for k in range(-64, 65)]
LIGHT, DARK = colours.WHITE, colours.in_the_dark(colours.WHITE)
# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
COLOUR_BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
NOTICED = 0.02  # a just noticeable difference in OKLab
THEMES = {"light": lambda colour: colour, "dark": colours.in_the_dark}


def rgb(code: str) -> colours.RGB:
    return tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))


def oklab(colour: colours.RGB, eyes: str = "none") -> np.ndarray:
    channels = np.asarray(colour)
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    linear = np.clip(COLOUR_BLINDNESS[eyes] @ linear, 0, 1)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return axes @ np.cbrt(cones @ linear)


def apart(one: colours.RGB, other: colours.RGB, eyes: str = "none") -> float:
    return float(np.linalg.norm(oklab(one, eyes) - oklab(other, eyes)))


themes = pytest.mark.parametrize("themed", THEMES.values(), ids=THEMES)
every_eye = pytest.mark.parametrize("eyes", COLOUR_BLINDNESS)


def test_white_becomes_the_page_of_jupyterlab_s_dark_theme():
    assert [round(255 * channel) for channel in DARK] == [0x11] * 3


@themes
@pytest.mark.parametrize("sign", [1, -1])
def test_colours_darken_or_lighten_steadily_so_that_they_print_in_grey(themed, sign):
    lightness = [oklab(themed(colours.shade(sign * k / 64)))[0] for k in range(65)]
    steps = np.diff(lightness)
    assert (steps < 0).all() or (steps > 0).all()


@themes
@every_eye
@pytest.mark.parametrize("signed", [False, True])
def test_colours_a_fifth_apart_are_distinguishable(themed, eyes, signed):
    numbers = np.arange(-1 if signed else 0, 1.01, 0.2)
    shades = [themed(colours.shade(colours.strength(x, 1))) for x in numbers]
    assert min(map(apart, shades, shades[1:], [eyes] * len(shades))) > 2 * NOTICED


@themes
def test_the_strongest_colours_contrast_with_the_page(themed):
    page = themed(colours.WHITE)
    assert all(colours.contrast(themed(colours.shade(sign)), page) >= 3 for sign in (1, -1))
    assert themed(colours.shade(0)) == page


@themes
@every_eye
def test_positive_and_negative_numbers_are_distinguishable(themed, eyes):
    for k in (13, 26, 38, 51, 64):
        assert apart(themed(colours.shade(k / 64)), themed(colours.shade(-k / 64)), eyes) > NOTICED


@themes
@every_eye
def test_the_colour_of_visible_cells_is_not_a_number_s_colour(themed, eyes):
    seen = themed(rgb(colours.SEEN))
    assert min(apart(seen, themed(colours.shade(x)), eyes) for x in STRENGTHS) > NOTICED
    assert colours.contrast(seen, themed(colours.WHITE)) > 1.5


def test_digits_of_the_map_contrast_with_their_cells_in_both_themes():
    for x in STRENGTHS:
        by_day = {"text": colours.BLACK, "black": colours.BLACK, "page": colours.WHITE}
        by_night = {"text": colours.WHITE, "black": colours.BLACK, "page": colours.BLACK}
        shade, ink = colours.shade(x), colours.ink(x)
        assert colours.contrast(by_day[ink], shade) >= 4.5
        assert colours.contrast(by_night[ink], colours.in_the_dark(shade)) >= 4.5


@themes
def test_digits_of_figures_contrast_with_their_cells_or_their_outline(themed):
    from course_utils.show.drawing import _inks

    for x in STRENGTHS:
        shade = colours.shade(x)
        ink, outline = _inks((*shade, 1.0))
        ink = themed({"black": colours.BLACK, "white": colours.WHITE}[ink])
        assert colours.contrast(ink, themed(outline or shade)) >= 4.5


def test_figures_paint_numbers_as_the_map_does():
    np.testing.assert_allclose(WEIGHTS(0.25)[:3], colours.shade(0.25), atol=0.02)
    np.testing.assert_allclose(SIGNED(0.25)[:3], colours.shade(-0.5), atol=0.02)
    np.testing.assert_allclose(SIGNED(0.75)[:3], colours.shade(0.5), atol=0.02)


def test_a_dark_theme_inverts_a_picture_but_a_page_without_a_theme_does_not():
    source = DRAWINGS["heatmap"]()._repr_mimebundle_()[0]["text/html"]
    assert colours.FILTER in source
    assert "var(--jp-shadow-base-lightness, 0)" in colours.FILTER


@pytest.mark.parametrize("size", [8, 64])
def test_a_mask_is_one_hatched_sheet_and_one_image(size):
    """One shape per cell would take seconds for a large mask."""
    axes = plt.Figure().subplots()
    hidden = causal_mask(size).numpy()
    drawing.draw_cells(axes, np.zeros((size, size)), hidden, WEIGHTS, Normalize(0, 1))
    assert (len(axes.patches), len(axes.images)) == (1, 1)
    assert len(axes.collections) == (size <= 32)  # the lines between cells
    shown = axes.images[0].get_array()[..., 3] == 0
    assert (shown == hidden).all() and axes.patches[0].get_hatch()


@pytest.mark.parametrize(("size", "fit"), [(3, True), (5, True), (20, False)])
def test_heads_have_digits_where_they_fit(monkeypatch, size, fit):
    written = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.text", lambda self, x, y, text, **kw: written.append(text)
    )
    head_grid(torch.full((2, size, size), 1 / 8), TITLE)
    assert set(written) == ({"0.13"} if fit else set())


def test_a_product_frames_the_chosen_row():
    first, last = (
        pixels(product(torch.ones(3, 3), torch.ones(3, 2), TITLE, row=row, names=WORDS, alt="A."))
        for row in (0, 2)
    )
    assert (first != last).any()


def test_the_newest_token_has_one_row_of_the_square_and_of_the_strip():
    shown = pixels(caching.square_and_strip([8, 8], TITLE, "A.")) / 255
    new, old = (
        (abs(shown - matplotlib.colors.to_rgb(shade)) < 0.02).all(axis=-1).sum()
        for shade in (caching.NEW, caching.OLD)
    )
    assert old / new == pytest.approx((28 + 2 * 7) / (8 + 2 + 8), rel=0.2)


def test_a_beam_search_joins_each_text_to_the_text_that_it_continues(monkeypatch):
    steps = [[([5], -0.1, True), ([6], -2.0, False)], [([5, 7], -0.3, True)]]
    monkeypatch.setattr(translating, "beam_steps", lambda *_: steps)
    monkeypatch.setattr(translating, "searched", lambda *_: [SimpleNamespace(ids=[5, 7])])
    lines = []
    monkeypatch.setattr("matplotlib.axes.Axes.plot", lambda self, x, *_, **__: lines.append(x))
    translating.beam_tree(None, "", 2, TITLE, "A.")
    assert sorted(lines) == [[0.3, 0.7], [0.3, 0.7], [1.3, 1.7]]


def test_halves_are_rounded_as_the_map_rounds_them():
    assert "row 0: 0.13, −0.13, 0.00" in heatmap(torch.tensor([[0.125, -0.125, -0.001]]), TITLE).alt


@pytest.mark.parametrize(
    ("columns", "slanted"),
    [(["The", "chased", "sat"], False), (["a long sentence", "b", "c"], True)],
)
def test_labels_are_slanted_only_where_they_have_no_room(monkeypatch, columns, slanted):
    turned = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.tick_params",
        lambda self, *args, labelrotation=0, **kw: turned.append(labelrotation),
    )
    heatmap(weights(3, 3), TITLE, columns=columns)
    assert any(turned) == slanted


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_tensors_of_any_number_type_are_drawn(dtype):
    assert "row 1: 3.00, 4.00" in heatmap(torch.tensor([[1, 2], [3, 4]]).to(dtype), TITLE).alt


def test_curves_describe_no_measured_value():
    assert DRAWINGS["loss_curve"]().alt == (
        "Line chart: What to see. loss (nats per token) against step for training, held out, "
        "with a floor at 1.20."
    )
    assert DRAWINGS["loss_curve with levels"]().alt.endswith(
        "for training, with lines for bigram at 1.56, floor at 1.22."
    )
    assert DRAWINGS["points_and_lines"]().alt == (
        "Line chart: What to see. The points (1, 3), (2, 5.5) and a line for each of: A."
    )


def test_the_legend_of_distributions_has_the_spread_before_and_after_scaling(monkeypatch):
    monkeypatch.setattr(figures, "Picture", lambda figure, alt: figure)
    scores = {4: torch.tensor([-2.0, 2.0]), 16: torch.tensor([4.0, -4.0])}
    (legend,) = score_distributions(scores, TITLE, alt="A.").legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "D = 4: std 2.0, scaled 1.0",
        "D = 16: std 4.0, scaled 1.0",
    ]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: heatmap(torch.zeros(2, 3, 4), TITLE), r"expected shape \(T, S\), got \(2, 3, 4\)"),
        (lambda: head_grid(torch.zeros(2, 3), TITLE), r"expected shape \(H, T, S\), got \(2, 3\)"),
        (lambda: heatmap(torch.zeros(2, 3), TITLE, columns=WORDS[:2]), "2 labels.* 3 columns"),
        (lambda: heatmap(torch.zeros(2, 3), TITLE, rows=WORDS), "3 labels.* 2 rows"),
        (lambda: head_grid(weights(2, 3, 3), TITLE, names=WORDS), "3 labels.* 2 headings"),
        (lambda: heatmap(torch.zeros(2, 3), TITLE, hidden=causal_mask(4)), r"\(4, 4\).*\(2, 3\)"),
        (lambda: mask_picture(torch.zeros(2, 3), TITLE), "bool mask, got torch.float32"),
        (lambda: mask_picture(causal_mask(3)[0], TITLE), r"got \(3,\)"),
        (lambda: heatmap(torch.zeros(0, 3), TITLE), r"got \(0, 3\)"),
    ],
)
def test_wrong_input_is_refused_with_its_sizes(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_labels_are_drawn_unchanged():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = heatmap(weights(2, 2), TITLE, rows=["$x$", "a_b"], columns=["$\\frac$", "é"])
    assert "row $x$" in picture.alt


def test_all_of_a_causal_head_can_be_hidden_at_once():
    nothing = torch.ones(3, 3, dtype=torch.bool)
    assert (
        "hidden, hidden, hidden"
        in heatmap(masked_softmax(torch.zeros(3, 3), causal_mask(3)), TITLE, hidden=nothing).alt
    )


PANELS = {
    "share": {"one": [0.2, 0.9], "other": [0.3, 0.3]},
    "gradient": {"one": [0.3, 2e-6], "other": [0.3, 0.3]},
}


class TestCurvePanels:
    def test_values_over_many_powers_of_ten_get_a_logarithmic_axis(self, monkeypatch):
        monkeypatch.setattr(figures, "Picture", lambda figure, alt: figure)
        drawn = figures.curve_panels([4, 1024], PANELS, "Title", xlabel="width", alt="A.")
        assert [axes.get_yscale() for axes in drawn.axes] == ["linear", "log"]


OWNERS = {"one": {"a": 900_000, "b": 100_000}, "two": {"c": 7}}


class TestBars:
    def test_a_narrow_segment_is_labelled_after_its_bar(self, monkeypatch):
        drawn = []
        monkeypatch.setattr(figures, "Picture", lambda figure, alt: drawn.append(figure))
        figures.bars(OWNERS, "Who has it", xlabel="numbers", alt="A.")
        (axes,) = drawn[0].axes
        texts = {t.get_text(): t.get_position()[0] for t in axes.texts}
        assert texts == {"a\n900,000": 450_000, "b\n100,000": 950_000, "c 7": 10_007}


def test_the_lines_of_a_title_are_even():
    title = "Figure 9 · The trained head on 'the dogs near the cat'"
    one, other = drawing._wrapped(title, 50).split("\n")
    assert abs(len(one) - len(other)) < 10


def test_many_panels_are_no_wider_than_a_page():
    weights = torch.rand(4, 6, 6)
    maps = figures.head_grid(weights, "Four heads", queries="ABCDEF", keys="ABCDEF")
    masks = figures.mask_picture(weights[:3] > 0.5, "Three masks")
    assert max(maps.width, masks.width) <= drawing.WIDEST * drawing.CSS_PIXELS_PER_INCH


def test_curves_differ_in_their_dashes(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "Picture", lambda figure, alt: drawn.append(figure))
    x = torch.linspace(-1, 1, 5)
    figures.curves(x, {"up": x, "down": -x}, "Two ways", alt="Two lines.")
    lines = [line for line in drawn[0].axes[0].lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == ["up", "down"]
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


@pytest.mark.parametrize("T", [2, 7])
@pytest.mark.parametrize("label", ["le", "<bos>", "a longer one"])
def test_no_text_is_cut_off_at_the_edges(label, T, monkeypatch):
    drawn = []

    def draw(figure):
        drawn.append(figure)
        return real(figure)

    real = drawing._drawn
    monkeypatch.setattr(drawing, "_drawn", draw)
    names, weights = [label] * T, torch.rand(2, T, T)
    figures.heatmap(weights[0], "A title", rows=names, columns=names, ylabel="target")
    figures.head_grid(weights, "A title", queries=names, keys=names)
    figures.mask_picture(weights[0] > 0.5, "A title", queries=names, keys=names)
    for figure in drawn:
        box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
