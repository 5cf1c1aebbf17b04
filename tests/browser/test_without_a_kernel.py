"""The map's table and a figure on nbgrader's own pages: feedback, and the formgrader's."""

import itertools
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch
from nbconvert import HTMLExporter
from nbgrader.converters import GenerateFeedback
from nbgrader.server_extensions import formgrader
from playwright.sync_api import Browser, Page

from course_utils.show.attention_map import attention_map
from course_utils.show.figures import heatmap
from whywrong_nbgrader.preprocessors import TidyFeedback

WORDS = ["The", "cat", "sat", "on", "the", "mat"]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
FORMGRADER = Path(formgrader.__file__).parent


def graded_notebook() -> nbformat.NotebookNode:
    """A notebook that was run and submitted, without the widget's state."""
    torch.manual_seed(0)
    shown = attention_map(torch.randn(3, 6, 6), WORDS, causal=True, row=4)
    table, _ = shown._repr_mimebundle_()
    widget = {WIDGET_VIEW: table.pop(WIDGET_VIEW), "text/html": "", "text/plain": ""}
    figure, about = heatmap(torch.rand(3, 3), "A figure")._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell("attention_map(scores, words, causal=True)")
    cell.outputs = [
        nbformat.v4.new_output("display_data", table),
        nbformat.v4.new_output("display_data", widget),
        nbformat.v4.new_output("display_data", figure, metadata=about),
    ]
    return nbformat.v4.new_notebook(cells=[cell])


@cache
def feedback() -> str:
    """The page that `nbgrader generate_feedback` creates with this course's settings."""
    notebook, _ = TidyFeedback().preprocess(graded_notebook(), {})
    grades = {"notebook": "lesson", "score": 1.0, "max_score": 2.0, "late_penalty": 0.0}
    exporter = HTMLExporter(config=GenerateFeedback().config)
    return exporter.from_notebook_node(notebook, resources={"nbgrader": grades})[0]


@cache
def formgrade() -> str:
    """The formgrader's page of one submission, including its style sheets."""
    where = {"extra_template_basedirs": [str(FORMGRADER / "templates")]}
    exporter = HTMLExporter(template_name="formgrade", **where)
    grades = {"assignment": "a", "notebook": "n", "index": 0, "total": 1, "submission_id": "s"}
    names = {"next": None, "prev": None, "first_name": "A", "last_name": "B"}
    resources = {"nbgrader": grades | names, "base_url": "", "mathjax_url": ""}
    page, _ = exporter.from_notebook_node(graded_notebook(), resources=resources | grades)
    sheets = [
        FORMGRADER / "static" / "node_modules" / "bootstrap" / "dist" / "css" / "bootstrap.min.css",
        FORMGRADER / "static" / "css" / "formgrade.css",
    ]
    styles = "".join(f"<style>{sheet.read_text()}</style>" for sheet in sheets if sheet.exists())
    assert styles
    return page.replace("</head>", f"{styles}</head>")


@pytest.fixture(params=[feedback, formgrade], ids=["feedback", "formgrader"])
def page(request: pytest.FixtureRequest, chromium: Browser):
    context = chromium.new_context(
        viewport={"width": 1000, "height": 900}, java_script_enabled=False
    )
    context.route("**/*", lambda route: route.abort())
    opened = context.new_page()
    opened.set_content(request.param(), wait_until="domcontentloaded")
    yield opened
    context.close()


def test_digits_of_the_table_stand_apart(page: Page):
    row = page.locator(".attention-map-static tbody tr").nth(5)
    texts = row.locator("td").all_inner_texts()
    assert texts[-1] == "1.000" and len(texts) == 7
    places = row.locator("td").evaluate_all(
        """cells => cells.map(cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            const { left, right } = range.getBoundingClientRect();
            return [left, right];
        })"""
    )
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(places)]
    assert min(gaps) >= 10


def test_cells_of_the_table_have_the_map_s_colour(page: Page):
    cells = page.locator(".attention-map-static tbody td").filter(has_text="0.")
    assert "rgba(38, 122, 209" in cells.first.evaluate("it => getComputedStyle(it).backgroundColor")


def test_no_empty_box_follows_the_table(page: Page):
    boxes = page.locator(".output_area, .output_subarea, pre").evaluate_all(
        """nodes => nodes.filter(node => !node.innerText.trim() && !node.querySelector("img"))
            .map(node => node.getBoundingClientRect().height)"""
    )
    assert all(height < 4 for height in boxes)


def test_the_sentence_and_the_figure_are_there(page: Page):
    assert "“the” attends most to" in page.locator(".attention-map-static").inner_text()
    assert page.locator("img[alt^='Heat map: A figure']").bounding_box()["width"] > 200
