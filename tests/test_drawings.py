"""The stored drawings are complete, are readable on any page, and say in words what they show."""

import re
import xml.etree.ElementTree as ET

import pytest

from course_utils.show.drawings import FOLDER, drawing

NAMES = sorted(path.stem for path in FOLDER.glob("*.svg"))
COLOURS = {"none", "currentColor"}


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_one_picture_with_a_text_alternative(name):
    shown = drawing(name, "A title <of its own>")
    page = shown._repr_mimebundle_()["text/html"]
    tree = ET.fromstring(re.search(r"<svg.*</svg>", page, re.S)[0])
    assert tree.get("role") == "img" and len(tree.get("aria-label")) > 60
    assert "A title &lt;of its own&gt;" in page
    assert not re.search(r"(?:href|src|url)\s*[=(]", page)


@pytest.mark.parametrize("name", NAMES)
def test_only_marked_and_learned_parts_have_a_colour_besides_the_text_colour(name):
    tree = ET.fromstring((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    used = {node.get(part) for node in tree.iter() for part in ("stroke", "fill")} - {None}
    assert len({colour[:7] for colour in used - COLOURS}) <= 1
    thin = [n for n in tree.iter() if n.get("stroke") not in {None, *COLOURS}]
    assert all(float(node.get("stroke-width", 0)) > 2 for node in thin)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_in_words_is_in_the_picture(name):
    tree = ET.fromstring((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
    drawn = " ".join(text for node in tree.iter() if (text := (node.text or "").strip()))
    for step in drawing(name).steps:
        label = re.split(r" \(learned\)| from |: ", step.split(" = ")[-1])[0]
        words = ["+"] if " + " in label and name != "translator" else label.split()
        assert all(word in drawn for word in words), (step, drawn)


def test_the_mask_is_on_the_scores_and_the_weights_there_are_zero():
    tree = ET.fromstring((FOLDER / "head_mask.svg").read_text(encoding="utf-8"))
    crosses = [n for n in tree.iter() if n.get("stroke-width") == "2.4"]
    softmax = next(n for n in tree.iter() if n.text == "softmax")
    assert len(crosses) == 3
    assert all(float(re.match(r"M(\d+)", n.get("d"))[1]) < float(softmax.get("x")) for n in crosses)
    zeros = [n for n in tree.iter() if n.text == "0"]
    assert len(zeros) == 3
    assert all(float(n.get("x")) > float(softmax.get("x")) for n in zeros)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no drawing 'tail'; there are head, head_mask"):
        drawing("tail")
