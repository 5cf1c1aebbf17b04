"""The start page's model in a real JupyterLab: typed into, pressed, and without a kernel."""

import pytest
from pages import ACT_MS, knows
from playwright.sync_api import expect

CELL = "from course_utils.start import playground\nshown = playground()\nshown"


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook([""])
    notebook.theme("JupyterLab Light")
    return notebook


@pytest.fixture
def shown(notebook):
    output = notebook.run(CELL)
    expect(output.locator(".attention-map")).to_be_visible(timeout=3 * ACT_MS)
    return notebook, output


def test_typing_and_pressing_a_bar_write_on(shown, violations):
    notebook, output = shown
    line = output.get_by_role("textbox", name="Write, and see what comes next")
    bars = output.locator(".bars button")
    expect(bars).to_have_count(7)
    expect(bars.first).to_contain_text("runs")
    expect(output.locator(".next-word-static")).to_be_hidden()

    line.fill("the dogs near the cat")
    expect(bars.first).to_contain_text("sing")
    expect(output.locator(".attention-map")).to_have_count(1)
    expect(output.locator(".attention-map")).to_contain_text("dogs")
    before = bars.first.bounding_box()
    bars.first.press("Enter")
    expect(line).to_have_value("the dogs near the cat sing")
    expect(bars.first).to_be_focused()
    assert bars.first.bounding_box() == before
    expect(bars.first.locator(".word")).to_have_text(".")
    bars.first.press("Enter")
    expect(line).to_have_value("the dogs near the cat sing.")
    knows(notebook, "shown.line.text", "'the dogs near the cat sing.'")

    line.fill("the zebra")
    expect(output.locator(".says")).to_contain_text("It has never met “zebra”")
    output.get_by_role("button", name="the dogs near the cat", exact=True).click()
    expect(line).to_have_value("the dogs near the cat")
    expect(output.locator(".says")).not_to_contain_text("never met")

    cells = notebook.cells()
    for key in ("a", "b", "d", "d", "Escape"):
        line.press(key)
    assert notebook.cells() == cells
    assert (notebook.errors, notebook.outside) == ([], [])

    part = output.locator(".next-word")
    found = violations(part)
    notebook.theme("JupyterLab Dark")
    assert found + violations(part) == []


def test_without_a_kernel_the_table_is_there(shown):
    notebook, _ = shown
    saved = notebook.saved()
    assert "widgets" not in saved.metadata
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    notebook.reload()
    static = notebook.page.locator(".next-word-static")
    expect(static).to_be_visible()
    expect(static).to_contain_text("the model expects “runs”")
