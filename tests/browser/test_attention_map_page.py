"""The attention map in its page: themes, other maps, keys, windows, what a screen reader finds."""

import io
import json
import math
import re

import pytest
import torch
from maps import (
    FULL,
    SETUP,
    SHADES,
    STEPS,
    assert_same_weights,
    becomes,
    cell,
    choose,
    one,
    picture_of,
    selected,
    sentence,
    spoken,
    weights_in_kernel,
    weights_in_page,
)
from pages import knows
from PIL import Image
from playwright.sync_api import expect

from conftest import APPS
from course_utils.show import colours
from course_utils.show.page import FOLDER, joined

pytestmark = pytest.mark.full("the map's page in detail")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_picture_on_the_screen_has_the_colours_of_the_theme(notebook, full, theme):
    notebook.theme(f"JupyterLab {theme}")
    try:
        themed = colours.in_the_dark if theme == "Dark" else lambda colour: colour
        weights = weights_in_kernel(notebook)
        full.locator("output").hover()
        for query, key in [(0, 0), (1, 0), (5, 1)]:
            box = cell(full, query, key).bounding_box()
            corner = {"x": box["x"] + 3, "y": box["y"] + 3, "width": 2, "height": 2}
            image = Image.open(io.BytesIO(notebook.page.screenshot(clip=corner))).convert("RGB")
            wanted = themed(colours.shade(weights[query, key].item()))
            got = image.getpixel((0, 0))
            assert max(abs(a - 255 * b) for a, b in zip(got, wanted, strict=True)) < 12
    finally:
        notebook.theme("JupyterLab Light")


def test_the_chosen_row_has_its_frame_on_all_four_sides(notebook):
    """The first row touches the headings, which stay in view while the grid scrolls under them."""
    shown = one(notebook.run("attention_map(scores(4, 4), list('abcd'), row=0)"))
    box = shown.locator(".frame.chosen").bounding_box()
    left, top = box["x"], box["y"]
    right, bottom = left + box["width"], top + box["height"]
    middle, half = (left + right) / 2, (top + bottom) / 2
    for x, y in [(middle, top - 2), (middle, bottom + 1), (left - 2, half), (right + 1, half)]:
        clip = {"x": x, "y": y, "width": 1, "height": 1}
        seen = Image.open(io.BytesIO(notebook.page.screenshot(clip=clip))).convert("RGB")
        red, _, blue = seen.getpixel((0, 0))
        assert blue > red + 60, (x - left, y - top)


def test_masks_can_be_switched_off_one_by_one(notebook, full):
    full.get_by_label("causal mask").uncheck()
    knows(notebook, "w.active_masks", "['padding']")
    expect(full.locator("[role=grid] td.masked")).to_have_count(6)
    assert_same_weights(notebook, full)
    full.get_by_label("padding mask").uncheck()
    expect(full.locator("[role=grid] td.masked")).to_have_count(0)
    full.get_by_label("causal mask").check()
    expect(full.locator("[role=grid] td.masked")).to_have_count(15)
    assert_same_weights(notebook, full)


def test_the_steps_lead_from_scores_to_the_weighted_sum_with_the_rows_numbers(notebook, full):
    numbers = full.locator(".row tbody tr")
    words = full.locator(".words")

    def results():
        return full.locator(".row tbody tr:not([hidden]) td:nth-child(3)").all_inner_texts()

    def kernel(expression):
        return json.loads(notebook.ask(f"({expression}).tolist()"))

    def minus(numbers):
        return [f"{number:.3f}".replace("-", "−") for number in numbers]

    raw = kernel("(query[0, 0] @ key[0, 0].T)[2]")
    scaled = [score * 8**-0.5 for score in raw]
    choose(full, "query · key")
    cell(full, 2, 0).click()
    products = kernel("query[0, 0, 2] * key[0, 0, 0]")
    expect(words).to_contain_text("The query of “sat” times the key of “The”, channel by channel")
    assert results() == minus(products)
    expect(full.locator("tfoot")).to_contain_text(minus([sum(products)])[0])

    choose(full, "scores")
    expect(words).to_have_text("How well “sat” matches each key: one score for each key.")
    assert results() == minus(raw)
    assert full.locator("[role=grid] td.masked").count() == 0

    choose(full, "scaled")
    expect(words).to_have_text("Each score times the scale 0.354 = 1 ÷ √8.")
    assert results() == minus(scaled)
    expect(numbers.first).to_contain_text(" × 0.354")

    choose(full, "masked")
    expect(words).to_contain_text("the scores of 3 keys become −∞")
    assert results() == [*minus(scaled[:3]), "−∞", "−∞", "−∞"]
    assert cell(full, 0, 1).inner_text() == "−∞"

    choose(full, "softmax")
    total = sum(math.exp(score - max(scaled[:3])) for score in scaled[:3])
    expect(words).to_contain_text(f"divide by the total of these powers, {total:.3f}.")
    assert results() == [*minus(kernel("w.weights[2]")[:3]), "0", "0", "0"]

    choose(full, "weighted sum")
    output = kernel("w.weights[2] @ scores(6, 5, seed=1)")
    shown = ", ".join(f"{number:.2f}" for number in output[:4]).replace("-", "−")
    expect(full.locator("tfoot")).to_contain_text(f"[{shown}, …]")
    knows(notebook, "w.step", "'weighted sum'")


@pytest.mark.parametrize("seed", range(3))
def test_weights_and_sentences_of_random_maps_are_python_s(notebook, seed):
    shown = one(
        notebook.run(
            f"""
hidden = scores(7, 9, seed={seed + 10}) > 0.5
hidden[3] = True
w = attention_map(10 * scores(2, 7, 9, seed={seed}), "abcdefg", "tuvwxtyzt", hidden, head=1)
w
"""
        )
    )
    assert_same_weights(notebook, shown)
    for row in range(7):
        notebook.tell(f"w.row = {row}")
        expect(sentence(shown)).to_have_text(spoken(notebook))


def test_ties_and_repeated_tokens_are_told_as_python_tells_them(notebook):
    shown = one(
        notebook.run(
            """
tied = torch.zeros(9, 9)
tied[1, :4] = tied[2, :2] = tied[3, 3] = 2
tied[4, 1:] = -torch.inf
w = attention_map(tied, "a b c a e f g h i".split())
w
"""
        )
    )
    for row in range(9):
        notebook.tell(f"w.row = {row}")
        expect(sentence(shown)).to_have_text(spoken(notebook))


def test_a_row_that_sees_nothing_says_so_and_has_only_zeros(notebook):
    shown = one(
        notebook.run("w = attention_map(scores(3, 3), 'abc', hidden=torch.ones(3, 3) == 1)\nw")
    )
    expect(sentence(shown)).to_have_text(
        "“c” sees no key: every weight is 0; the row sums to 0.000"
    )
    assert weights_in_page(shown).sum() == 0
    expect(shown.locator(".words")).to_contain_text("there is nothing to share out")


def test_hidden_cells_are_hatched_and_said_to_be_hidden(full):
    hidden = cell(full, 0, 3)
    assert hidden.get_attribute("aria-label") == "“The” to “on”: 0, hidden"
    picture = full.locator(".plate canvas")
    assert "repeating-linear-gradient" in picture.evaluate("it => getComputedStyle(it).background")
    assert picture_of(full)[0][3] is None
    assert picture_of(full)[3][0] is not None
    expect(full.locator(".legend").first).to_contain_text("hidden")


def test_labels_of_any_script_are_shown_and_never_taken_as_html(notebook):
    labels = ["我", "喜欢", "🐱", "<img src=x onerror=alert(1)>", " the", "שלום"]
    shown = one(notebook.run(f"attention_map(scores(6, 6), {labels!r}, row=2)"))
    heads = shown.locator("[role=grid] tbody th").all_inner_texts()
    assert heads == [*labels[:3], "<img src=x on…", "␣the", "שלום"]
    expect(sentence(shown)).to_contain_text("“🐱”")
    expect(shown.locator("img")).to_have_count(0)


# ---- page and Python ---------------------------------------------------------------------------


def test_what_python_sets_the_page_shows(notebook, full):
    notebook.tell("w.layer, w.head, w.row, w.temperature = 1, 2, 4, 0.25")
    expect(full.get_by_role("combobox", name="layer")).to_have_value("1")
    expect(full.get_by_role("combobox", name="head")).to_have_value("2")
    expect(full.locator("output")).to_have_text("0.25")
    expect(selected(full)).to_have_text("the")
    expect(sentence(full)).to_have_text(spoken(notebook))
    assert_same_weights(notebook, full)
    notebook.tell("w.active_masks, w.step = ['causal'], 'masked'")
    expect(full.get_by_label("padding mask")).not_to_be_checked()
    expect(full.get_by_role("radio", name="masked")).to_be_checked()
    notebook.tell("w.overview = True")
    expect(full.locator(".overview")).to_be_visible()


def test_two_maps_on_a_page_are_independent(notebook):
    outputs = notebook.run(
        f"{FULL}\nfrom IPython.display import display\n"
        "display(w)\nv = attention_map(scores(6, 6), words)\ndisplay(v)"
    )
    first, second = (outputs.locator(".attention-map").nth(i) for i in range(2))
    before = second.inner_text()
    first.get_by_label("temperature", exact=True).fill("0.5")
    choose(first, "masked")
    cell(first, 4, 0).click()
    knows(notebook, "w.row", "4")
    expect(second.get_by_role("radio", name="softmax")).to_be_checked()
    assert second.inner_text() == before
    assert notebook.ask("(v.row, v.temperature, v.step)") == "(5, 1.0, 'softmax')"


def test_two_views_of_one_map_stay_in_step(notebook):
    outputs = notebook.run("w = attention_map(scores(6, 6), words)\ndisplay(w)\ndisplay(w)")
    first, second = (outputs.locator(".attention-map").nth(i) for i in range(2))
    cell(first, 3, 0).click()
    expect(selected(second)).to_have_text("on")
    choose(second, "scores")
    expect(first.get_by_role("radio", name="scores")).to_be_checked()


def test_focus_is_kept_while_the_map_is_painted(notebook, full):
    for name in ("grid", "slider"):
        target = full.get_by_role(name)
        target.focus()
        notebook.tell("w.temperature = 0.5; w.row = 5; w.head = 1; w.step = 'masked'")
        expect(selected(full)).to_have_text("mat")
        expect(target).to_be_focused()
        target.press("ArrowUp")
        expect(target).to_be_focused()
        notebook.tell("w.temperature = 1; w.row = 0; w.head = 0; w.step = 'softmax'")
        expect(selected(full)).to_have_text("The")


def test_keys_pressed_in_the_map_do_nothing_to_the_notebook(notebook, full):
    before = notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.model.sharedModel.toJSON().cells.map(c => c.source)"
    )
    for target in [
        full.get_by_role("grid"),
        full.get_by_role("slider"),
        full.get_by_label("causal mask"),
        full.get_by_role("combobox", name="head"),
        full.get_by_role("radio", name="softmax"),
    ]:
        target.focus()
        for key in ["a", "b", "m", "x", "d", "d", "Shift+L", "Shift+M", "ArrowDown", "Enter"]:
            notebook.page.keyboard.press(key)
        notebook.page.keyboard.press("Escape")
    full.get_by_role("grid").focus()
    notebook.page.keyboard.press("Control")
    notebook.page.keyboard.press("b")
    after = notebook.page.evaluate(
        "window.jupyterapp.shell.currentWidget.model.sharedModel.toJSON().cells.map(c => c.source)"
    )
    assert after == before
    expect(full).to_be_visible()


def test_control_s_still_saves_the_notebook(notebook, full):
    model = "window.jupyterapp.shell.currentWidget.model"
    notebook.page.wait_for_function(f"{model}.dirty")
    full.get_by_role("grid").focus()
    notebook.page.keyboard.press("Control+s")
    notebook.page.wait_for_function(f"!{model}.dirty")


# ---- sizes, screens and themes -----------------------------------------------------------------


def test_a_narrow_window_scrolls_the_grid_and_not_the_page(notebook):
    shown = one(notebook.run("attention_map(scores(60, 60), [f'tok{i}' for i in range(60)])"))
    size = notebook.page.viewport_size
    notebook.page.set_viewport_size({"width": 480, "height": 800})
    try:
        scroll = shown.locator(".map .scroll")
        becomes(scroll, "node => node.scrollWidth > node.clientWidth + 100")
        for node in (shown, notebook.page.locator("body")):
            becomes(node, "node => node.scrollWidth <= node.clientWidth")
        shown.get_by_role("grid").focus()
        shown.get_by_role("grid").press("End")
        expect(cell(shown, 0, 59)).to_be_in_viewport(ratio=0.9)
        becomes(scroll, "node => node.scrollLeft > 100")
        becomes(shown, "node => node.getBoundingClientRect().right <= innerWidth")
    finally:
        notebook.page.set_viewport_size(size)


@pytest.mark.parametrize("width", [420, 800, 1280])
def test_arithmetic_is_never_cut_and_small_maps_use_the_width(notebook, full, width):
    size = notebook.page.viewport_size
    notebook.page.set_viewport_size({"width": width, "height": 800})
    try:
        for step in STEPS:
            choose(full, step)
            cut = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.title)"
            assert full.locator(".row td:not(.strip):visible").evaluate_all(cut) == []
        full.get_by_role("button", name="all heads", exact=True).click()
        line, last = full.locator(".heads-of-layer").first, full.locator(".thumbnail")
        room, row = line.bounding_box(), [it.bounding_box() for it in last.all()[:3]]
        row = [box for box in row if box["y"] == row[0]["y"]]
        used = row[-1]["x"] + row[-1]["width"] - room["x"]
        assert min(0.8 * room["width"], 3 * 250) < used <= room["width"] + 1
    finally:
        notebook.page.set_viewport_size(size)


def test_the_picture_under_64_tokens_has_the_weights_and_lies_under_the_cells(notebook):
    shown = one(notebook.run("w = attention_map(scores(64, 64), range(64), causal=True)\nw"))
    assert_same_weights(notebook, shown)
    picture = shown.locator(".plate canvas")
    weights = weights_in_kernel(notebook)
    for query, key in [(0, 0), (1, 0), (40, 3), (63, 63)]:
        shade = round(64 * weights[query, key].item())
        assert picture_of(shown)[query][key] == SHADES[shade]
    corners = [picture.bounding_box(), cell(shown, 0, 0).bounding_box()]
    ends = [picture.bounding_box(), cell(shown, 63, 63).bounding_box()]
    assert len({(box["x"], box["y"]) for box in corners}) == 1
    assert len({(box["x"] + box["width"], box["y"] + box["height"]) for box in ends}) == 1


def test_over_128_tokens_a_message_and_a_part_that_follows_the_row(notebook):
    shown = one(notebook.run("w = attention_map(scores(150, 140), range(150), range(140))\nw"))
    expect(shown.locator(".part")).to_contain_text(
        "150 queries × 140 keys are too many to show at once (up to 128 are). Here are 64 × 64"
    )
    expect(shown.locator("[role=grid] td")).to_have_count(64 * 64)
    notebook.tell("w.row = 149")
    expect(selected(shown)).to_have_text("149")
    expect(sentence(shown)).to_have_text(spoken(notebook))
    grid = shown.get_by_role("grid")
    grid.press("End")
    expect(shown.get_by_label("from key")).to_have_value("76")
    expect(cell(shown, 63, 63)).to_have_attribute("aria-label", re.compile("“149” to “139”: 0"))
    shown.get_by_label("from query").fill("8")
    shown.get_by_label("from query").press("Tab")
    knows(notebook, "w.row", "8")
    wanted = weights_in_kernel(notebook)[8:72, 76:140]
    expect(cell(shown, 0, 0)).to_have_attribute("aria-label", re.compile("“8” to “76”: 0"))
    torch.testing.assert_close(weights_in_page(shown), wanted, atol=0.00501, rtol=0)


def test_a_map_of_128_tokens_is_shown_whole(notebook):
    shown = one(notebook.run("attention_map(scores(128, 2), range(128), 'ab')"))
    expect(shown.locator("[role=grid] td")).to_have_count(256)
    expect(shown.locator(".part")).to_have_count(0)


def test_the_map_follows_a_dark_theme(notebook, full):
    def lightness(what, name):
        color = what.evaluate(f"node => getComputedStyle(node).{name}")
        brightest = 1 if "srgb" in color else 255
        return sum(float(part) * 255 / brightest for part in re.findall(r"[\d.]+", color)[:3])

    assert lightness(full, "backgroundColor") > 700 > 100 > lightness(cell(full, 3, 0), "color")
    notebook.theme("JupyterLab Dark")
    try:
        notebook.page.wait_for_function(
            "getComputedStyle(document.querySelector('.attention-map')).color.includes('255')"
        )
        assert lightness(full, "backgroundColor") < 100 < 700 < lightness(cell(full, 3, 0), "color")
    finally:
        notebook.theme("JupyterLab Light")


# ---- without a kernel --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=APPS)
def spoilt(request, open_notebook):
    """A notebook for tests after which its page may complain: later, and of what is gone."""
    notebook = open_notebook([""], app=request.param)
    notebook.theme("JupyterLab Light")
    return notebook


def test_requests_to_other_hosts_are_noted_and_refused(spoilt):
    """The test fixture `notebook` is only as good as this."""
    for url in ("http://example.org/", "http://192.0.2.1/"):
        failed = "url => fetch(url, { mode: 'no-cors' }).then(() => 'came', error => error.name)"
        assert spoilt.page.evaluate(failed, url) == "TypeError"
        assert spoilt.outside.pop() == url


def test_a_restart_leaves_the_map_and_a_reload_then_leaves_the_table(spoilt):
    notebook = spoilt
    shown = one(notebook.run(SETUP + FULL))
    saved = notebook.saved()
    text = spoken(notebook)

    notebook.reload()
    expect(shown).to_be_visible()
    expect(sentence(shown)).to_have_text(text)

    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    cell(shown, 4, 0).click()
    expect(sentence(shown)).to_contain_text("“the” attends")

    notebook.reload()
    static = notebook.page.locator(".attention-map-static")
    expect(static).to_be_visible()
    expect(static).to_contain_text(text)
    expect(static.locator("td").first).to_have_text("1.00")
    assert "widgets" not in saved.metadata
    assert notebook.outside == []


# ---- accessibility -----------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing_wrong_with_any_step_of_the_map(notebook, full, violations, theme):
    notebook.theme(theme)
    try:
        found = violations(full)
        for step in STEPS:
            choose(full, step)
            found += violations(full)
        full.get_by_role("button", name="all heads", exact=True).click()
        found += violations(full)
        found += violations(
            one(notebook.run("attention_map(scores(130, 40), range(130), range(40))"))
        )
        assert found == []
    finally:
        notebook.theme("JupyterLab Light")


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing_wrong_with_the_table(notebook, violations, theme):
    notebook.theme(theme)
    try:
        outputs = notebook.run(
            "from IPython.display import HTML\n"
            "HTML(attention_map(3 * scores(3, 6, 6), words, causal=True)._html())"
        )
        static = outputs.locator(".attention-map-static")
        expect(static).to_be_visible()
        assert violations(static) == []
    finally:
        notebook.theme("JupyterLab Light")


def test_axe_would_find_a_fault(full, violations):
    full.evaluate("node => node.append(document.createElement('button'))")  # without a name
    found = violations(full)
    full.evaluate("node => node.lastChild.remove()")
    assert [line.partition(":")[0] for line in found] == ["button-name"]


# ---- arithmetic --------------------------------------------------------------------------------


def test_softmax_in_the_page_is_pytorch_s_to_a_millionth(notebook):
    generator = torch.Generator().manual_seed(0)
    rows = [
        torch.randn(n, generator=generator, dtype=torch.float64) * 10**e
        for n in (1, 2, 7, 64, 128)
        for e in (-3, 0, 1, 3, 5)
    ]
    masked = [
        row.masked_fill(torch.rand(len(row), generator=generator) < 0.4, -math.inf) for row in rows
    ]
    extreme = [
        [1e308, -1e308],
        [0.0] * 9,
        [-1e5] * 3,
        [700.0, 710.0],
        [-math.inf] * 4,
        [-math.inf, 3.0],
        [float(torch.finfo(torch.float32).min)] * 3,
    ]
    rows += masked + [torch.tensor(row, dtype=torch.float64) for row in extreme]
    cases = [(row, temperature) for row in rows for temperature in (0.1, 1.0, 10.0)]
    source = joined(FOLDER / "arithmetic.js")
    results = notebook.page.evaluate(
        """async ([source, cases]) => {
            const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
            const { softmax } = await import(url);
            return cases.map(([row, t]) =>
                [...softmax(Float64Array.from(row, x => x ?? -Infinity), t).weights]);
        }""",
        [source, [([None if x == -math.inf else x for x in row.tolist()], t) for row, t in cases]],
    )
    for (row, temperature), result in zip(cases, results, strict=True):
        tempered = (row - row.max().nan_to_num(neginf=0.0)) / temperature
        wanted = tempered.softmax(-1).nan_to_num(0.0)
        torch.testing.assert_close(
            torch.tensor(result, dtype=torch.float64), wanted, atol=1e-6, rtol=0
        )
