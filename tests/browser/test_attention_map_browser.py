"""The attention map as a student meets it: in JupyterLab's page and in Notebook 7's."""

import json
import re

import pytest
from maps import (
    SHADES,
    STEPS,
    assert_same_weights,
    cell,
    choose,
    one,
    picture_of,
    selected,
    sentence,
    spoken,
    weights_in_kernel,
)
from pages import knows
from playwright.sync_api import expect

from course_utils.show import colours


def test_the_widget_shows_and_the_table_before_it_does_not(notebook, full):
    static = notebook.page.locator(".attention-map-static")
    expect(static).to_have_count(1)
    expect(static).to_be_hidden()
    assert static.evaluate("it => it.style.display") == "none"  # where no style sheet can find it
    expect(full.locator("[role=grid] td")).to_have_count(36)
    assert cell(full, 0, 0).inner_text() == "1.00"
    assert cell(full, 0, 1).inner_text() == "0"


def test_hovering_shows_a_row_for_as_long_as_the_pointer_is_there(notebook, full):
    expect(sentence(full)).to_contain_text("“sat” attends")
    cell(full, 4, 1).hover()
    expect(sentence(full)).to_contain_text("“the” attends")
    expect(full.locator(".words")).to_contain_text("Subtract the largest score")
    expect(full.locator(".hovered th")).to_have_text("the")
    full.locator("output").hover()
    expect(sentence(full)).to_contain_text("“sat” attends")
    assert notebook.ask("w.row") == "2"


def test_a_clicked_row_stays_and_python_knows(notebook, full):
    cell(full, 4, 1).click()
    full.locator("output").hover()
    expect(selected(full)).to_have_text("the")
    expect(sentence(full)).to_contain_text("“the” attends")
    knows(notebook, "w.row", "4")


def test_arrow_keys_walk_over_rows_and_keys(notebook, full):
    grid = full.get_by_role("grid")
    grid.focus()
    for key, row, column in [
        ("Home", 2, 0),
        ("ArrowDown", 3, 0),
        ("ArrowDown", 4, 0),
        ("ArrowRight", 4, 1),
        ("End", 4, 5),
        ("ArrowRight", 4, 5),
        ("ArrowUp", 3, 5),
        ("ArrowLeft", 3, 4),
        ("Home", 3, 0),
    ]:
        grid.press(key)
        current = cell(full, row, column).get_attribute("id")
        expect(grid).to_have_attribute("aria-activedescendant", current)
        expect(selected(full)).to_have_text(["The", "cat", "sat", "on", "the", "mat"][row])
    knows(notebook, "w.row", "3")
    for _ in range(9):
        grid.press("ArrowUp")
    expect(selected(full)).to_have_text("The")


@pytest.mark.parametrize("power", [-1, 0.3])
def test_the_temperature_slider_is_logarithmic_and_changes_the_weights(notebook, full, power):
    slider = full.get_by_label("temperature", exact=True)
    slider.fill(str(power))
    wanted = f"{10**power:.3g}"
    expect(full.locator("output")).to_have_text(wanted)
    knows(notebook, "w.temperature", repr(float(wanted)))
    assert_same_weights(notebook, full)
    full.get_by_role("button", name="reset temperature").click()
    expect(full.locator("output")).to_have_text("1")
    expect(slider).to_have_value("0")
    knows(notebook, "w.temperature", "1.0")


def test_arrow_keys_lead_from_1_to_a_tenth_in_20_presses_and_page_down_in_5(notebook, full):
    slider = full.get_by_label("temperature", exact=True)
    for key, presses in ("ArrowLeft", 20), ("PageDown", 5):
        for _ in range(presses):
            slider.press(key)
        expect(full.locator("output")).to_have_text("0.1")
        expect(slider).to_have_attribute("aria-valuetext", "0.1")
        knows(notebook, "w.temperature", "0.1")
        assert_same_weights(notebook, full)
        full.get_by_role("button", name="reset temperature").click()
    notebook.tell("w.temperature = 0.37")  # between two positions of the slider
    expect(full.locator("output")).to_have_text("0.37")
    expect(slider).to_have_attribute("aria-valuetext", "0.37")
    full.get_by_role("button", name="reset temperature").click()


def test_pickers_choose_layer_and_head(notebook, full):
    full.get_by_role("combobox", name="layer").select_option("1")
    full.get_by_role("combobox", name="head").select_option("2")
    knows(notebook, "(w.layer, w.head)", "(1, 2)")
    assert_same_weights(notebook, full)


def test_all_heads_are_shown_small_and_choosing_one_opens_it(notebook, full):
    full.get_by_role("button", name="all heads", exact=True).click()
    expect(full.get_by_role("grid")).to_be_hidden()
    heads = full.locator(".thumbnail")
    expect(heads).to_have_count(6)
    expect(heads.nth(1)).to_contain_text("head 1")
    notebook.tell("w.head = 1")
    expect(heads.nth(1)).to_contain_text(spoken(notebook).partition(";")[0])
    expect(heads.nth(1).get_by_role("button")).to_have_attribute("aria-current", "true")
    heads.nth(5).get_by_role("button").click()
    expect(full.get_by_role("grid")).to_be_focused()
    expect(full.locator(".overview")).to_be_hidden()
    knows(notebook, "(w.layer, w.head, w.overview)", "(1, 2, False)")
    assert_same_weights(notebook, full)


def test_a_row_is_chosen_and_marked_in_all_small_maps_at_once(notebook, full):
    full.get_by_role("button", name="all heads", exact=True).click()
    minis = full.locator(".mini")
    box = minis.nth(4).bounding_box()
    minis.nth(4).click(position={"x": 20, "y": box["height"] * 4.5 / 6})
    knows(notebook, "w.row", "4")
    expect(full.locator(".thumbnail small").first).to_contain_text("“the” attends")
    for i in range(6):
        frame, whole = minis.nth(i).locator(".chosen"), minis.nth(i).bounding_box()
        middle = frame.bounding_box()["y"] + frame.bounding_box()["height"] / 2
        assert abs((middle - whole["y"]) / whole["height"] * 6 - 4.5) < 0.2
    expect(full.locator(".thumbnail").first.locator(".names span")).to_have_text(
        ["The", "cat", "sat", "on", "the", "mat"]
    )
    full.locator(".thumbnail button").first.focus()
    notebook.page.keyboard.press("ArrowDown")
    knows(notebook, "w.row", "5")
    notebook.page.keyboard.press("Escape")
    expect(full.get_by_role("grid")).to_be_focused()
    full.get_by_role("button", name="all heads", exact=True).click()
    full.get_by_role("button", name="back to one head").click()
    expect(full.get_by_role("grid")).to_be_visible()


def test_heads_have_the_names_they_were_given(notebook):
    given = "head_names=['previous', 'first', 'itself']"
    shown = one(notebook.run(f"attention_map(scores(3, 6, 6), words, {given}, overview=True)"))
    titles = ["head 0: previous", "head 1: first", "head 2: itself"]
    expect(shown.locator(".thumbnail button")).to_have_text(titles)
    expect(shown.get_by_role("combobox").locator("option")).to_have_text(
        ["0: previous", "1: first", "2: itself"]
    )


# ---- pictures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["query · key", "softmax", "weighted sum"])
def test_nothing_moves_when_a_cell_is_pointed_at(notebook, full, step):
    choose(full, step)
    full.locator("output").hover()

    def boxes():
        parts = [
            ".controls",
            ".steps",
            ".steps label",
            ".sentence",
            ".hint",
            ".map",
            "[role=grid]",
            "[role=grid] td",
            "[role=grid] th",
            ".legend",
            ".row",
            ".words",
            ".row > .scroll",
        ]
        places = [
            full.locator(part).evaluate_all(
                "nodes => nodes.map(node => JSON.stringify(node.getBoundingClientRect()))"
            )
            for part in parts
        ]
        return dict(zip(parts, places, strict=True))

    before = boxes()
    for query, key in [(0, 0), (1, 4), (4, 1), (5, 5)]:
        cell(full, query, key).hover()
        expect(full.locator(".hovered")).to_have_count(1)
        assert boxes() == before
    full.locator("[role=grid] thead th").nth(3).hover()
    expect(full.locator("th.read")).to_have_count(1)
    assert boxes() == before


@pytest.mark.parametrize("tokens", [6, 64])
def test_the_sentence_is_in_view_with_the_cell_that_is_pointed_at(notebook, tokens):
    labels = [f"a rather long label {i}" for i in range(tokens)]
    shown = one(notebook.run(f"attention_map(scores({tokens}, {tokens}), {labels})"))
    for query in (0, tokens // 2, tokens - 1):
        cell(shown, query, 2).hover()
        expect(sentence(shown)).to_contain_text(f"label {query}”")
        expect(sentence(shown)).to_be_in_viewport(ratio=1)
    expect(shown.locator(".hint").first).to_contain_text("arrow keys")


def test_a_crosshair_marks_the_row_and_the_column_of_the_cell(notebook, full):
    target = cell(full, 4, 1)
    target.hover()
    box = target.bounding_box()
    across, down = full.locator(".across").bounding_box(), full.locator(".down").bounding_box()
    assert (across["y"], across["height"]) == (box["y"], box["height"])
    assert (down["x"], down["width"]) == (box["x"], box["width"])
    full.locator("output").hover()
    expect(full.locator(".across")).to_be_hidden()


def test_a_column_shows_who_attends_to_a_key(notebook, full):
    weights = weights_in_kernel(notebook)[:, 1]
    top = ["The", "cat", "sat", "on", "the", "mat"][int(weights.argmax())]
    wanted = f"“cat” is attended to most by “{top}” ({weights.max():.2f}); "
    wanted += f"the column sums to {weights.sum():.3f}"
    heading = full.locator("[role=grid] thead th").nth(2)
    heading.hover()
    expect(sentence(full)).to_have_text(wanted)
    expect(full.locator(".words")).to_contain_text("Who attends to “cat”?")
    full.locator("output").hover()
    expect(sentence(full)).to_contain_text("“sat” attends")
    heading.click()
    full.locator("output").hover()
    expect(sentence(full)).to_have_text(wanted)
    grid = full.get_by_role("grid")
    grid.focus()
    grid.press("ArrowRight")
    expect(sentence(full)).to_contain_text("“sat” is attended to most by")
    full.get_by_label("by column").uncheck()
    expect(sentence(full)).to_contain_text("“sat” attends")


def test_the_sentence_tells_of_what_the_cells_show(notebook, full):
    raw = json.loads(notebook.ask("(query[0, 0] @ key[0, 0].T)[2].tolist()"))
    words = ["The", "cat", "sat", "on", "the", "mat"]
    best = words[raw.index(max(raw))]
    value = f"{max(raw):.3f}".replace("-", "−")
    choose(full, "scores")
    expect(sentence(full)).to_have_text(f"“sat” matches “{best}” best: score {value}")
    choose(full, "scaled")
    value = f"{max(raw) * 8**-0.5:.3f}".replace("-", "−")
    expect(sentence(full)).to_have_text(f"“sat” matches “{best}” best: scaled score {value}")
    choose(full, "masked")
    expect(sentence(full)).to_contain_text("best of the 3 keys it sees: score")


def test_the_chosen_cell_s_number_can_be_followed_through_the_steps(notebook, full):
    best = ["The", "cat", "sat"][int(weights_in_kernel(notebook)[2].argmax())]
    expect(full.locator(".pair")).to_have_text(f"“sat” → “{best}”")
    cell(full, 3, 1).hover()
    expect(full.locator(".pair")).to_have_text("“on” → “cat”")
    score = json.loads(notebook.ask("(query[0, 0, 3] @ key[0, 0, 1]).tolist()"))
    weight = weights_in_kernel(notebook)[3, 1].item()
    shown = [f"{x:.3f}".replace("-", "−") for x in (score, score * 8**-0.5, weight)]
    expect(full.locator(".steps .number")).to_have_text(
        [f"Σ {shown[0]}", shown[0], shown[1], shown[1], shown[2], f"{shown[2]} × v"]
    )


def test_the_legend_s_ticks_stand_where_the_numbers_colours_are(notebook, full):
    marks = full.locator(".body .scale span:not([hidden])")

    def ticks():
        return dict(
            marks.evaluate_all(
                "nodes => nodes.map(node => [node.textContent, parseFloat(node.style.left) / 100])"
            )
        )

    assert ticks() == pytest.approx({"0": 0, "0.25": 0.25, "0.50": 0.5, "0.75": 0.75, "1": 1})
    full.locator(".body").get_by_label("stretch colours to the largest weight").check()
    largest = f"{weights_in_kernel(notebook).max():.0f}"
    assert ticks()[largest] == 1
    choose(full, "scores")
    expect(marks.first).to_contain_text("−")  # painted with the next frame
    assert ticks()["0"] == 0.5 and len(ticks()) == 5
    assert picture_of(full)[2][0] in SHADES.values()


@pytest.mark.parametrize("step", STEPS)
def test_cells_have_the_colours_that_python_gives_their_numbers(notebook, full, step):
    choose(full, step)
    raw = {"query · key": "query[0, 0] @ key[0, 0].T", "scores": "query[0, 0] @ key[0, 0].T"}
    scaled = "(query[0, 0] @ key[0, 0].T) * 8**-0.5"
    numbers = json.loads(
        notebook.ask(
            f"({raw.get(step, scaled if step in ('scaled', 'masked') else 'w.weights')}).tolist()"
        )
    )
    hidden = json.loads(notebook.ask("(w.weights == 0).int().tolist()"))
    signed = step not in ("softmax", "weighted sum")
    masked = step not in ("query · key", "scores", "scaled")
    seen = [
        abs(x)
        for row, covered in zip(numbers, hidden, strict=True)
        for x, is_hidden in zip(row, covered, strict=True)
        if not (masked and is_hidden)
    ]
    largest = max(seen) if signed else 1
    for row, covered, dots in zip(numbers, hidden, picture_of(full), strict=True):
        for x, is_hidden, dot in zip(row, covered, dots, strict=True):
            if masked and is_hidden:
                assert dot is None
            else:
                shade = 64 * colours.strength(x, largest)
                near = [SHADES[k] for k in SHADES if abs(k - shade) <= 1]
                assert dot in near


def test_digits_are_shown_where_a_cell_is_wide_enough(notebook):
    shown = one(notebook.run("attention_map(scores(20, 20), range(20))"))
    size = notebook.page.viewport_size
    try:
        expect(cell(shown, 0, 0)).to_have_text(re.compile(r"0\.\d\d"))
        notebook.page.set_viewport_size({"width": 700, "height": 800})
        expect(cell(shown, 0, 0)).to_have_text("")
        expect(shown.locator(".dense")).to_have_count(1)
    finally:
        notebook.page.set_viewport_size(size)
    expect(cell(shown, 0, 0)).to_have_text(re.compile(r"0\.\d\d"))


def test_labels_are_cut_between_characters_as_a_reader_counts_them(notebook):
    family = "👨‍👩‍👧‍👦"
    labels = [family, "e\u0301" * 60, "antidisestablishmentarianism and more", "b"]
    shown = one(notebook.run(f"attention_map(scores(4, 4), {labels!r})"))
    heads = shown.locator("[role=grid] tbody th")
    assert heads.nth(0).inner_text() == family
    assert re.fullmatch("(e\u0301)+…", heads.nth(1).inner_text())
    assert heads.nth(2).get_attribute("title") == labels[2]
    for head in heads.all():
        assert head.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_what_may_be_cut_is_told_whole_when_it_is_pointed_at(notebook, full):
    for place in (".pair", ".sentence", ".words", ".row th >> nth=0", ".row td >> nth=0"):
        told = full.locator(place)
        told.hover()
        expect(told).to_have_attribute("title", re.compile("."))
        assert told.get_attribute("title") == told.text_content()
    label = full.locator("[role=grid] tbody th").first
    label.hover()
    assert label.get_attribute("title") == "The"
