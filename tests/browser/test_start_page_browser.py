"""The whole model in the page: its numbers, from disk without a network, and in JupyterLab."""

import base64
import random
import re

import pytest
import torch
from pages import ACT_MS, knows
from playwright.sync_api import expect

from course_utils.desk.language import sentences_of_the_page
from course_utils.language_model import head_scores
from course_utils.show.explorer import FOLDER, explore, share
from course_utils.show.page import joined
from course_utils.show.start import write_page
from course_utils.show.start.language import LONGEST, WORDS
from course_utils.show.start.model import HEADS, WEIGHTS, trained
from course_utils.todays_models import ModernLM
from tools.translations import complete, languages
from whywrong.hosting import speaking

CELL = "from course_utils.show.start import playground\nshown = playground()\nshown"
FORMULAS = "exp", "top", "softmax", "LayerNorm", "logit", "GELU"  # the same in every language
TEXTS = """part => [...part.querySelectorAll("*")].flatMap(
    (node) => [...node.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data))"""
COMPUTE = """async ([script, weights, heads, texts, modern]) => {
  const lm = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const bytes = Uint8Array.from(atob(weights), (c) => c.charCodeAt(0));
  const model = lm.makeModel(lm.readSafetensors(new DataView(bytes.buffer)), heads, modern);
  const off = new Set(["1.head.0", "0.mlp"]);
  return texts.map((ids) => {
    const pass = lm.forward(model, ids);
    return [
      [...pass.logits],
      pass.layers.map((layer) => layer.heads.map((head) => head.scores)),
      [...lm.forward(model, ids, off).logits],
    ];
  });
}"""


@torch.no_grad()
def without(ids):
    """The logits of the model whose head 0 of layer 1 and MLP of layer 0 give nothing."""
    blocks, D = trained().blocks, trained().embed.token.weight.shape[1] // HEADS

    def cut(module, inputs):
        (context,) = inputs
        context = context.clone()
        context[..., :D] = 0.0
        return (context,)

    hooks = [
        blocks[1].attention.out_proj.register_forward_pre_hook(cut),
        blocks[0].feed_forward.register_forward_hook(lambda module, inputs, out: out * 0),
    ]
    try:
        return trained()(ids)
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
@pytest.mark.parametrize("older", [False, True], ids=["", "a browser without Float16Array"])
@pytest.mark.parametrize("some", [20, pytest.param(200, marks=pytest.mark.full("200 texts"))])
def test_the_page_computes_what_pytorch_computes(chromium, older, some):
    chance = random.Random(0)
    lengths = [1, LONGEST, *(chance.randint(1, LONGEST) for _ in range(some - 2))]
    texts = [[chance.randrange(len(WORDS)) for _ in range(T)] for T in lengths]
    page = chromium.new_page()
    if older:
        page.evaluate("delete globalThis.Float16Array")
    script = joined(FOLDER / "lm.js")
    weights = base64.b64encode(WEIGHTS.read_bytes()).decode()
    for ids, found in zip(
        texts, page.evaluate(COMPUTE, [script, weights, HEADS, texts]), strict=True
    ):
        logits, scores, cut = found
        row = torch.tensor([ids])
        T, V = len(ids), len(WORDS)
        close = {"rtol": 0, "atol": 1e-4}
        torch.testing.assert_close(torch.tensor(logits).view(1, T, V), trained()(row), **close)
        torch.testing.assert_close(torch.tensor(cut).view(1, T, V), without(row), **close)
        expected = head_scores(trained(), row)[0]  # (L, H, T, T), of which the page has a triangle
        t, s = torch.tril_indices(T, T)
        assert [[[*map(len, rows)] for rows in heads] for heads in scores] == [
            [[*range(1, T + 1)]] * HEADS
        ] * len(expected)
        given = [n for heads in scores for rows in heads for numbers in rows for n in numbers]
        torch.testing.assert_close(torch.tensor(given), expected[..., t, s].flatten(), **close)
    page.close()


@torch.no_grad()
@pytest.mark.parametrize("window", [None, 3])
def test_the_page_computes_what_a_modern_model_computes(chromium, window):
    torch.manual_seed(0)
    model = ModernLM(11, 24, 6, 2, 9, 2, 37, window=window, base=100.0)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
    shown = explore(model, "abcdefghijk", "abc")
    texts = [torch.randint(11, (T,)).tolist() for T in (1, 2, 5, 9)]
    weights = base64.b64encode(shown._weights).decode()
    page = chromium.new_page()
    given = [joined(FOLDER / "lm.js"), weights, shown._heads, texts, shown._modern]
    found = page.evaluate(COMPUTE, given)
    page.close()
    close = {"rtol": 0, "atol": 1e-4}
    for ids, (logits, _, _) in zip(texts, found, strict=True):
        torch.testing.assert_close(torch.tensor(logits).view(1, -1, 11), model(_row(ids)), **close)
    model.blocks[1].attention.out_proj.weight[:, :4] = 0  # head 0 of block 1
    model.blocks[0].feed_forward.contract.weight.zero_()
    for ids, (_, _, cut) in zip(texts, found, strict=True):
        torch.testing.assert_close(torch.tensor(cut).view(1, -1, 11), model(_row(ids)), **close)


def _row(ids):
    return torch.tensor([ids])


def test_a_modern_model_is_shared_as_one_file_and_can_be_taken_apart(chromium, tmp_path):
    torch.manual_seed(0)
    model = ModernLM(5, 16, 4, 2, 8, 2, 24)
    page = chromium.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    course = {"onward": "https://course.example/"}
    page.goto(share(model, "abcde", tmp_path / "modern.html", "abc", **course).as_uri())
    link = page.get_by_role("link", name="From Averages to Transformers")
    assert link.get_attribute("href") == course["onward"]
    lens, says = page.locator(".lens"), page.locator(".says")
    before = says.text_content()
    page.get_by_role("button", name="block 1 network").press("Enter")
    expect(lens).to_contain_text("gate (silu)")
    expect(lens).to_contain_text("Lesson 16 builds it")
    page.get_by_role("button", name="words as vectors").press("Enter")
    expect(lens).to_contain_text("rotate its queries and keys by position 2")
    page.get_by_role("button", name="positions on: switch on or off").press("Enter")
    expect(says).not_to_have_text(before)
    page.get_by_role("textbox").fill("abcdeabcde")  # longer than its context
    expect(says).to_contain_text("only the last 8")
    assert errors == []
    page.close()


both_schemes = pytest.mark.parametrize("from_disk", ["light", "dark"], indirect=True)


@pytest.fixture
def from_disk(request, chromium, tmp_path):
    context = chromium.new_context(
        color_scheme=getattr(request, "param", "light"),
        viewport={"width": 1280, "height": 800},
        offline=True,
    )
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(write_page(tmp_path / "explorer.html").as_uri())
    yield page
    assert errors == []
    context.close()


@pytest.mark.parametrize("to", [*filter(complete, languages())], ids=lambda to: to.folder.name)
def test_a_file_speaks_the_reader_s_language_and_repaints_in_it(chromium, tmp_path, to):
    with speaking(to.folder.name):
        file, own = write_page(tmp_path / "explorer.html"), sentences_of_the_page()
    known = {*WORDS, *FORMULAS, *re.findall("[A-Za-z]{2,}", " ".join(own.values()))}
    page, errors = chromium.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    line = page.get_by_role("textbox", name=own["Write, and see what comes next"])
    line.fill("the dogs near the cat")
    expected = own["After “{text}” the model expects {word} ({share}), then {second} ({other})."]
    begins = expected.partition("{word}")[0].replace("{text}", "the dogs near the cat")
    expect(page.locator(".says")).to_contain_text(begins)
    expect(page.locator(".bars")).to_contain_text("sing")  # a word of the text stays
    page.locator(".headline .cut").click()
    expect(page.locator(".headline .cut")).to_have_text(own["Switch it on again"])
    for text in ("the dogs near the cat", "the old dog"):
        line.fill(text)
        for title in page.locator(".station .title").all():
            title.press("Enter")
            page.locator(".headline .cut").press("Enter")  # a head off, or on again
            texts = page.locator(".explorer").evaluate(TEXTS)
            english = re.findall("[A-Za-z]{2,}", " ".join(texts))
            assert set(english) <= known
    assert errors == []
    page.close()


@both_schemes
def test_a_file_from_disk_shows_cause_and_effect(from_disk, violations):
    page = from_disk
    walk, story = page.locator(".walk"), page.locator(".story")
    expect(story).to_have_text("")  # nothing moves the text before somebody asks for it
    walk.press("Enter")
    walk.press("ArrowRight")
    expect(story).to_contain_text("2 of 7")
    expect(walk).to_have_text("▶ go on")
    for _ in range(6):
        walk.press("ArrowRight")
    expect(walk).to_have_text("▶ once more")
    expect(page.get_by_role("button", name="›")).to_be_disabled()
    line = page.get_by_role("textbox", name="Write, and see what comes next")
    line.fill("the dogs near the cat")
    bars, says = page.locator(".bars button"), page.locator(".says")
    expect(bars.first).to_contain_text("sing")
    head = page.get_by_role("button", name="head 0 of block 1: switch on or off")
    head.press("Enter")
    expect(bars.first).to_contain_text("runs")
    expect(says).to_contain_text("Without head 0 of block 1")
    expect(says).to_contain_text("With everything on (grey bars): “sing”")
    expect(page.locator(".bars")).to_contain_text("sleep")  # what was likely, in grey
    page.get_by_role("button", name="block 1 head 0").press("Enter")
    expect(page.locator(".lens")).to_contain_text("“cat” attends most to “dogs”")
    expect(page.locator(".lens")).to_contain_text("Switched off, it adds nothing")
    page.locator(".tokens button", has_text="near").press("Enter")
    expect(page.locator(".lens")).to_contain_text("“near” attends most")
    head.press("Enter")
    expect(bars.first).to_contain_text("sing")
    bars.first.press("Enter")
    expect(line).to_have_value("the dogs near the cat sing")
    line.fill("the zebra")
    expect(says).to_contain_text("It doesn't know “zebra”")
    page.get_by_text("How the next word is chosen").click()
    for width in 1280, 390:
        page.set_viewport_size({"width": width, "height": 800})
        assert violations(page.locator("html"), every=True) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dials_and_a_comparison_change_the_bars(from_disk):
    page = from_disk
    page.get_by_text("How the next word is chosen").click()
    bars = page.locator(".bars button")
    page.get_by_label("top-k").fill("1")
    expect(bars.first).to_contain_text("100")
    expect(bars.nth(1)).to_contain_text("run")  # what was cut, the most likely first
    expect(bars.nth(1)).to_contain_text("cut")
    page.get_by_label("top-k").fill("42")
    page.get_by_label("temperature").fill("3")
    expect(page.locator(".says")).not_to_contain_text("18 %")
    page.get_by_role("button", name="keep these bars to compare").click()
    page.get_by_role("button", name="the dog near the cats", exact=True).click()
    expect(page.locator(".says")).to_contain_text(
        "The grey bars are those of “the dogs near the cat”"
    )
    page.get_by_role("button", name="reset everything").click()
    expect(page.locator(".says")).not_to_contain_text("grey")
    page.get_by_role("button", name="add a word").click()
    expect(page.get_by_role("textbox")).not_to_have_value("the dog near the cats")


def lengths(headline):
    """Which side of the axis has all long bars, and which has all short ones, at the end of their
    movement."""
    rows = headline.locator(".pairs tbody tr").evaluate_all(
        """(rows) => rows.map((row) => [...row.querySelectorAll(".bar")].map((bar) => {
          bar.getAnimations().forEach((movement) => movement.finish());
          return bar.getBoundingClientRect().width;
        }))"""
    )
    assert len(rows) == 4
    sides = dict(zip(("left", "right"), zip(*rows, strict=True), strict=True))
    return {
        side: "long" if min(bars) > 60 else "short" if max(bars) < 20 else bars
        for side, bars in sides.items()
    }


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 720, "no-preference"), (1366, 650, "reduce"), (390, 700, "no-preference")],
)
def test_the_moment_fits_into_one_screen_and_moves_only_for_those_who_like_it(
    chromium, tmp_path, width, height, scheme
):
    moved = "0.35s" if scheme == "no-preference" else "0s"
    page = chromium.new_page(viewport={"width": width, "height": height}, reduced_motion=scheme)
    page.goto(write_page(tmp_path / "explorer.html", "https://course.example/").as_uri())
    headline = page.locator(".headline")
    for name in ("Switch this head off", "Switch it on again"):
        box = headline.bounding_box()
        assert 0 <= box["x"] and box["x"] + box["width"] <= width
        assert 0 <= box["y"] and box["y"] + box["height"] <= height
        headline.get_by_role("button", name=name).click()
    duration = "bar => getComputedStyle(bar).transitionDuration"
    assert headline.locator(".pairs .bar").first.evaluate(duration) == moved
    link = page.locator(".learned").get_by_role("link", name="lesson 01")
    assert link.get_attribute("href") == "https://course.example/"
    page.close()


@both_schemes
def test_one_press_shows_what_a_head_is_for_and_the_address_leads_back_to_it(from_disk, violations):
    page = from_disk
    headline, bars = page.locator(".headline"), page.locator(".bars button")
    assert lengths(headline) == {"left": "long", "right": "short"}
    expect(headline).to_contain_text("looks back from “cat” to “dogs”")
    assert headline.locator("path.arc").count() == 1
    headline.get_by_role("button", name="Switch this head off").click()
    expect(headline).to_contain_text("“sing” falls from 18 % to 1 %, and “sings” rises from")
    expect(headline).to_contain_text(
        "The model no longer looks back from “cat” to “dogs”, the word"
    )
    assert lengths(headline) == {"left": "short", "right": "long"}
    expect(bars.first).to_contain_text("runs")
    assert violations(page.locator(".explorer"), every=True) == []
    shown = page.locator(".says").text_content()
    page.goto(page.get_by_role("link", name="link to this").evaluate("a => a.href"))
    page.reload()
    expect(page.locator(".says")).to_have_text(shown)
    expect(headline.get_by_role("button", name="Switch it on again")).to_be_visible()


def shown_in_the_box(headline):
    """The box's texts, the lengths of its bars and its arc, before a press and after it."""
    for name in ("Switch this head off", "Switch it on again"):
        button = headline.get_by_role("button", name=name)
        headline.evaluate("() => document.getAnimations().forEach((movement) => movement.finish())")
        bars = headline.locator(".bar, .ghost").evaluate_all(
            "(bars) => bars.map((bar) => Math.round(bar.getBoundingClientRect().width))"
        )
        yield headline.inner_text(), bars, headline.locator("path").get_attribute("d")
        button.click()


def test_until_the_model_is_there_the_box_shows_what_the_model_says(chromium, tmp_path):
    file = write_page(tmp_path / "explorer.html")
    text = file.read_text(encoding="utf-8")
    early = tmp_path / "early.html"
    early.write_text(re.sub('<script type="module">.*</script>', "", text, flags=re.S), "utf-8")
    page = chromium.new_page()
    page.goto(early.as_uri())
    headline = page.locator(".headline")
    shown = [*shown_in_the_box(headline)]
    assert page.locator(".bars").count() == 0
    page.goto(file.as_uri())
    page.locator(".bars").wait_for()
    assert [*shown_in_the_box(headline)] == shown
    assert shown[0] != shown[1]
    page.close()


def test_the_model_takes_over_what_was_pressed_before_it_was_there(chromium, tmp_path):
    text = write_page(tmp_path / "explorer.html").read_text(encoding="utf-8")
    late = tmp_path / "late.html"
    late.write_text(text.replace("\nrender({", "\nawait pressed;\nrender({"), "utf-8")
    page = chromium.new_page()
    page.add_init_script("window.pressed = new Promise((done) => (window.press = done))")
    page.goto(late.as_uri())
    button = page.get_by_role("button", name="Switch this head off")
    button.press("Enter")
    before = page.locator(".headline").inner_text()
    page.evaluate("press()")
    expect(page.locator(".says")).to_contain_text("Without head 0 of block 1")
    assert page.locator(".headline").inner_text() == before
    button = page.get_by_role("button", name="Switch it on again")
    expect(button).to_be_focused()
    button.press("Enter")
    expect(page.locator(".says")).to_contain_text("After “the dogs near the cat”")
    page.close()


def test_the_bars_and_the_other_words_make_up_all_of_the_probability(from_disk):
    def shown():
        rest = from_disk.locator(".rest").text_content()
        shares = from_disk.locator(".bars button:visible .share").all_text_contents()
        numbers = [int(re.search(r"\d+(?=\s%)", text)[0]) for text in [*shares, rest]]
        return len(shares), int(re.search(r"other (\d+) words", rest)[1]), sum(numbers)

    bars, others, total = shown()
    assert (bars, bars + others) == (6, len(WORDS))
    assert abs(total - 100) <= 3  # of rounded numbers
    from_disk.get_by_role("button", name="Switch this head off").click()
    bars, others, total = shown()
    assert (bars, bars + others) == (8, len(WORDS))
    assert abs(total - 100) <= 4


def test_words_are_read_without_the_punctuation_around_them(from_disk):
    line = from_disk.get_by_role("textbox")
    line.fill("The Dogs, near the “cat”!")
    expect(from_disk.locator(".says")).to_contain_text("After “the dogs near the cat”")
    expect(from_disk.locator(".says")).not_to_contain_text("know")


def test_in_jupyterlab_it_asks_no_kernel_and_keeps_a_table(open_notebook, violations):
    notebook = open_notebook([""])
    notebook.theme("JupyterLab Light")
    output = notebook.run(CELL)
    expect(output.locator(".explorer")).to_be_visible(timeout=3 * ACT_MS)
    expect(output.locator(".next-word-static")).to_be_hidden()
    line = output.get_by_role("textbox", name="Write, and see what comes next")
    line.fill("the dogs near the cat")
    knows(notebook, "shown.text", "'the dogs near the cat'")
    cells = notebook.cells()
    for key in ("a", "b", "d", "d", "Escape"):
        line.press(key)
    output.locator(".says").click()
    notebook.page.keyboard.press("x")  # would cut the cell
    assert notebook.cells() == cells
    part = output.locator(".explorer")
    found = violations(part)
    notebook.theme("JupyterLab Dark")
    assert found + violations(part) == []
    assert (notebook.errors, notebook.outside) == ([], [])

    with notebook.page.expect_popup() as opened:
        output.locator(".learned").get_by_role("link").click()
    assert opened.value.url.endswith("/1-averages/01_naive_mean.ipynb")
    opened.value.close()

    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    line.fill("the dog near the cats")  # no kernel any more
    expect(output.locator(".bars button").first).to_contain_text("runs")
    saved = notebook.saved()
    assert "widgets" not in saved.metadata
