"""Diagrams of an architecture show what the list says, in any theme and as text."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from course_utils.show.diagrams import MULTI_HEAD_ATTENTION, Step, diagram

X, HEADS, ALL_PAIRS = "(B, T, C)", "(B, H, T, D)", "(B, H, T, T)"


def multi_head_attention():
    """Lesson 07: three branches that separate and join, and a mask that enters from the side."""
    return diagram(MULTI_HEAD_ATTENTION, "Multi-head attention")


def block():
    """Lesson 08: two residual arrows around the branches."""
    return diagram(
        [
            Step("x", shape=X),
            Step("norm1", ["x"], X, learned=True),
            Step("attention", ["norm1"], X, learned=True),
            Step("h", ["x", "attention"], X, label="+"),
            Step("norm2", ["h"], X, learned=True),
            Step("feed_forward", ["norm2"], X, learned=True),
            Step("out", ["h", "feed_forward"], X, label="+"),
        ],
        "A block",
        frames={"× 12": ["norm1", "attention", "h", "norm2", "feed_forward", "out"]},
    )


def encoder_decoder():
    """Lesson 11: two columns, and one arrow from the first into the middle of the second."""
    source, target = "(B, S, C)", "(B, T, C)"
    encoder = [
        Step("source", shape=source),
        Step("e_attention", ["source"], source, label="attention", learned=True),
        Step("e1", ["source", "e_attention"], source, label="+"),
        Step("e_norm1", ["e1"], source, learned=True),
        Step("e_forward", ["e_norm1"], source, label="feed_forward", learned=True),
        Step("e2", ["e_norm1", "e_forward"], source, label="+"),
        Step("memory", ["e2"], source, label="norm2", learned=True),
    ]
    decoder = [
        Step("target", shape=target, column=1.6, row=3),
        Step("self_attention", ["target"], target, learned=True),
        Step("d1", ["target", "self_attention"], target, label="+"),
        Step("d_norm1", ["d1"], target, learned=True),
        Step("cross_attention", ["d_norm1", "memory"], target, column=1.6, learned=True),
        Step("d2", ["d_norm1", "cross_attention"], target, label="+"),
        Step("d_norm2", ["d2"], target, learned=True),
        Step("d_forward", ["d_norm2"], target, label="feed_forward", learned=True),
        Step("d3", ["d_norm2", "d_forward"], target, label="+"),
        Step("d_norm3", ["d3"], target, learned=True),
    ]
    frames = {
        "encoder": [step.name for step in encoder[1:]],
        "decoder": [step.name for step in decoder[1:]],
    }
    return diagram([*encoder, *decoder], "Encoder and decoder", frames=frames)


DIAGRAMS = [multi_head_attention(), block(), encoder_decoder()]
every = pytest.mark.parametrize("drawn", DIAGRAMS, ids=lambda drawn: drawn.title)


def parts(drawn, tag):
    root = ElementTree.fromstring(drawn.svg())
    return [part for part in root.iter() if part.tag.endswith("}" + tag)]


def boxes(drawn):
    """The boxes' edges: left, top, right, bottom; frames are the rectangles drawn before."""
    edges = []
    for part in parts(drawn, "rect"):
        x, y, width, height = (float(part.get(name)) for name in ("x", "y", "width", "height"))
        edges.append((x, y, x + width, y + height))
    return edges[len(drawn.frames) :]


def ways(drawn):
    """The corners of each arrow's line."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", part.get("d"))]
        for part in parts(drawn, "path")
        if part.get("fill") == "none"
    ]


@every
def test_every_input_has_an_arrow_and_unused_results_leave_the_diagram(drawn):
    taken = {name for step in drawn.steps for name in step.inputs}
    inputs = sum(len(step.inputs) for step in drawn.steps)
    assert len(ways(drawn)) == inputs + sum(step.name not in taken for step in drawn.steps)


@every
def test_boxes_do_not_overlap_and_no_arrow_crosses_one(drawn):
    edges = boxes(drawn)
    assert len(edges) == len(drawn.steps)
    for i, (left, top, right, bottom) in enumerate(edges):
        for other in edges[:i]:
            assert other[0] > right or other[2] < left or other[1] > bottom or other[3] < top
        for way in ways(drawn):
            for (x0, y0), (x1, y1) in pairwise(way):
                crosses_x = min(x0, x1) < right - 1 and max(x0, x1) > left + 1
                crosses_y = min(y0, y1) < bottom - 1 and max(y0, y1) > top + 1
                assert not (crosses_x and crosses_y), (way, (left, top, right, bottom))


@every
def test_every_shape_is_written_once_next_to_its_source(drawn):
    words = [part.text for part in parts(drawn, "text")]
    for shape in {step.shape for step in drawn.steps}:
        assert words.count(shape) == sum(step.shape == shape for step in drawn.steps)


@every
def test_labels_are_inside_the_picture_and_not_on_boxes(drawn):
    left, top, width, height = map(float, parts(drawn, "svg")[0].get("viewBox").split())
    for part in parts(drawn, "text"):
        x, y = float(part.get("x")), float(part.get("y"))
        reach = 6.7 * len(part.text)
        ends = {"start": (x, x + reach), "end": (x - reach, x), "middle": (x, x)}
        low, high = ends[part.get("text-anchor")]
        assert left <= low and high <= left + width and top < y < top + height
        if part.get("font-size"):  # a shape
            for edge in boxes(drawn):
                inside = low < edge[2] and high > edge[0] and y - 8 < edge[3] and y > edge[1]
                assert not inside, part.text


@every
def test_only_learned_parts_have_a_colour_besides_the_text_colour(drawn):
    """So a dark theme is followed; "learned" is a thick border too, which prints in grey."""
    learned = [step.name for step in drawn.steps if step.learned]
    thick = [part for part in parts(drawn, "rect") if part.get("stroke-width") == "2.4"]
    assert len(thick) == len(learned)
    for tag in ("path", "text", "rect", "circle"):
        for part in parts(drawn, tag):
            if part not in thick and part.get("stroke-width") != "2.4":
                assert {part.get("fill"), part.get("stroke")} <= {None, "none", "currentColor"}


@every
def test_it_is_reproducible_and_loads_nothing(drawn):
    shown = drawn._repr_mimebundle_()
    assert shown == drawn._repr_mimebundle_()
    page = shown["text/html"]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert " id=" not in page and len(page.encode()) < 20_000
    assert shown["text/plain"] == repr(drawn)


def test_as_text_it_reads_like_the_list():
    assert repr(block()).splitlines() == [
        "A block",
        "  x: (B, T, C)",
        "  norm1 (learned) from x: (B, T, C)",
        "  attention (learned) from norm1: (B, T, C)",
        "  h = x + attention: (B, T, C)",
        "  norm2 (learned) from h: (B, T, C)",
        "  feed_forward (learned) from norm2: (B, T, C)",
        "  out = h + feed_forward: (B, T, C)",
    ]
    assert "scores = Q @ Kᵀ / √D from Q and K: (B, H, T, T)" in multi_head_attention().text


def test_the_text_alternative_names_every_step_unless_one_is_given():
    (svg,) = parts(block(), "svg")
    assert svg.get("role") == "img"
    assert all(step.name in svg.get("aria-label") for step in block().steps)
    given = diagram([Step("x")], "One box", alt='Only "x".')
    assert parts(given, "svg")[0].get("aria-label") == 'Only "x".'


def test_a_residual_goes_around_on_the_outer_side():
    around = [way for way in ways(block()) if len({x for x, _ in way}) > 1]
    assert len(around) == 2
    assert all(min(x for x, _ in way) < min(edge[0] for edge in boxes(block())) for way in around)


def test_an_input_from_the_side_is_next_to_its_step():
    drawn = multi_head_attention()
    places = dict(zip([step.name for step in drawn.steps], boxes(drawn), strict=True))
    assert places["hidden"][1] == places["mask"][1]
    assert places["hidden"][2] < places["mask"][0]


@pytest.mark.parametrize(
    "steps, frames, said",
    [
        ([Step("a", ["b"])], {}, "'a' takes 'b', which is not an earlier step"),
        ([Step("a"), Step("a")], {}, "two steps are called 'a': give one of them a label"),
        ([Step("a")], {"all": ["b"]}, "the frame 'all' contains 'b', which is not a step"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_in_words(steps, frames, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        diagram(steps, "Wrong", frames=frames)
