"""Everything that the course shows below a cell in JupyterLab, for those who don't see the page."""

from dataclasses import replace

import pytest

from whywrong import check_exercise
from whywrong.hosting import catalogue

COURSE = catalogue()
ON_A_SCREEN = 690  # of 800 pixels, beside the bars of JupyterLab
pytestmark = pytest.mark.full("all outputs in JupyterLab")
EVERYTHING = """
import os

os.environ["COURSE_PROGRESS"] = "off"
import torch
from IPython.display import display
from course_utils import check, hint, progress
from course_utils.data.toy_french import english, french
from course_utils.desk.guesses import recall, reveal
from course_utils.show import figures
from course_utils.show.attention_map import attention_map
from course_utils.show.shapes import trace_shapes
from course_utils.show.start import playground
from course_utils.show.start.model import trained
from course_utils.show.translating_line import translating_line
from course_utils.translation import Translator

def stub(scores, dim=-1):
    raise NotImplementedError

display(check("softmax", lambda scores, dim=-1: scores.exp() / scores.exp().sum()))
display(check("softmax", lambda scores, dim=-1: scores.nothing()))
display(check("softmax", torch.softmax), check("softmax", stub), check("softmax", ...))
display(check("cause_d", {"targets": "missing"}), hint("softmax"), progress())
recall("03", [..., 1, ...])
reveal(2, 3, why="03 shares")
reveal(..., 3)
display(figures.heatmap(torch.rand(3, 3), "A figure"))
display(trace_shapes(trained(), torch.tensor([[1, 2, 3]])))
words = "the dogs near the cat".split()
query, key = torch.randn(2, 2, 3, 5, 8)
given = {"query": query, "key": key, "values": torch.randn(5, 3), "causal": True}
display(attention_map(query @ key.mT, words, **given))
display(attention_map(torch.randn(2, 3, 5, 5), words, overview=True))
vocabularies = len(english.vocabulary), len(french.vocabulary)
display(translating_line(Translator(*vocabularies, 16, 2, 32, 1, 16)))
display(playground())
"""


def test_axe_finds_nothing_wrong_with_any_output_in_either_theme(open_notebook, violations):
    notebook = open_notebook([""], viewport={"width": 1280, "height": 7000})
    found = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        outputs = notebook.run(EVERYTHING)
        outputs.locator(".explorer .bars button").first.wait_for()
        outputs.locator("details").evaluate_all("all => all.forEach(it => (it.open = true))")
        found += [f"{theme}: {line}" for line in violations(outputs, every=True)]
    assert "\n".join(found) == ""
    assert (notebook.errors, notebook.outside) == ([], [])


@pytest.mark.parametrize("exercise", [e for e in COURSE if e.kind != "quiz"], ids=lambda e: e.id)
def test_the_longest_advice_fits_on_one_screen_before_anything_is_unfolded(chromium, exercise):
    longest = max(exercise.misconceptions, key=lambda m: sum(map(len, m.advice)))
    attempted = replace(exercise, rules=replace(exercise.rules, as_found=None))
    report = check_exercise(attempted, longest.answer, catalogue=COURSE)
    shown = replace(
        report, hints=exercise.hints, progress="1 of 5 exercises of this lesson are done."
    )
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.set_content(f"<main style='width: 870px'>{shown._repr_html_()}</main>")
    height = page.locator("main").bounding_box()["height"]
    page.close()
    assert 100 < height < ON_A_SCREEN
