"""The drawing of a head marks the part that a lesson is about, and says it in words."""

import re
import xml.etree.ElementTree as ET

import pytest

from course_utils.show.head_picture import BLUE, JOINED, PARTS, head_picture


def svg(picture) -> ET.Element:
    return ET.fromstring(re.search(r"<svg.*</svg>", picture._repr_html_(), re.S)[0])


@pytest.mark.parametrize("mark", [*PARTS, ""])
def test_one_head_has_a_marked_part_or_none(mark):
    thick = [n for n in svg(head_picture(mark)).iter() if n.get("stroke-width") in ("3.5", "2.4")]
    assert len(thick) == {"mask": 3, "": 0}.get(mark, 1)
    assert all(node.get("stroke") == BLUE for node in thick)


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("mark", [*JOINED, ""])
def test_several_heads_are_joined_and_mixed(heads, mark):
    texts = [node.text for node in svg(head_picture(mark, heads=heads)).iter() if node.text]
    assert [text for text in texts if text.startswith("head ")] == [
        f"head {i}" for i in range(heads)
    ]
    assert {"joined", "out_proj", "result"} <= set(texts)


def test_words_say_what_is_drawn():
    assert "Each query is compared with each key" in repr(head_picture())
    assert "3 heads" in repr(head_picture(heads=3))


def test_what_can_t_be_drawn_is_refused():
    with pytest.raises(ValueError, match="mark must be one of tokens, .*; got 'tail'"):
        head_picture("tail")
    with pytest.raises(ValueError, match="from 1 to 4; got 7"):
        head_picture(heads=7)
