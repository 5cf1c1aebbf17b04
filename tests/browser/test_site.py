"""The site from a clone: built again after a change, whole, and alive in a browser offline."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from bs4 import BeautifulSoup
from pages import ROOT, WAIT_MS
from playwright.sync_api import expect

from tools.translations import languages

pytestmark = [pytest.mark.full("the site"), pytest.mark.timeout(1800)]
PAGES = [
    "index",
    "2-single-head/04_single_head",
    "4-transformer/10_tiny_lm",
    "5-encoder-decoder/11_cross_attention",
    "glossary",
    "exercises/index",
    "exercises/masked_softmax",
    *(f"{to.folder.name}/1-averages/03_softmax_masking" for to in languages()),
    *(f"{to.folder.name}/exercises/patient_a" for to in languages()),
]


SHIFT = """() => new Promise(done => {
  let sum = 0;
  const add = list => { for (const one of list.getEntries()) sum += one.value; };
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 100);
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built in a clone, where only what git knows is there."""
    clone = tmp_path_factory.mktemp("site") / "course"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    built = []
    for change in (None, "changed", "from nothing"):
        if change == "changed":
            lesson = clone / "solutions" / "1-averages" / "02_tril_matmul.ipynb"
            text = lesson.read_text(encoding="utf-8")
            lesson.write_text(text.replace("lesson 01", "the first lesson"), encoding="utf-8")
        elif change == "from nothing":
            shutil.rmtree(clone / "site" / "build")
        here = {"cwd": clone, "env": {**os.environ, "PYTHONPATH": str(clone)}}
        command = [sys.executable, "-m", "tools.site"]
        done = subprocess.run(command, capture_output=True, text=True, **here)
        assert (done.returncode, done.stderr) == (0, "")
        html = clone / "site" / "build" / "html"
        built.append({p.relative_to(html): p.read_bytes() for p in html.rglob("*") if p.is_file()})
    assert built[0] != built[1]
    assert built[1] == built[2]
    return html


def test_every_link_leads_somewhere_and_no_page_asks_another_host(site):
    soups = {p: BeautifulSoup(p.read_bytes(), "html.parser") for p in site.rglob("*.html")}
    anchors = {p: {n.get("id") for n in soup.find_all(id=True)} for p, soup in soups.items()}
    broken = []
    for page, soup in soups.items():
        for node in soup.find_all(["a", "img", "link", "script"]):
            link = node.get("src") or node.get("href") or "#"
            if link.startswith("data:") or (node.name == "a" and link.startswith("http")):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor})):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []
    text = "".join(soup.get_text() for soup in soups.values())
    assert not any(soup.select('[class*="-Color"]') for soup in soups.values())  # no sheet has it
    assert "yours runs here" not in text
    assert "No prediction yet" not in text  # readers of the site can type nothing
    assert not re.search(r'HIDDEN TESTS|seed="grading"|BEGIN SOLUTION|AS FOUND', text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_from_disk_are_alive_and_accessible(site, chromium, violations, scheme, width):
    size = {"width": width, "height": 800}
    context = chromium.new_context(color_scheme=scheme, viewport=size, offline=True)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        for place in page.locator(".course-live").all():
            place.locator(".explorer, .attention-map").wait_for(timeout=WAIT_MS)
            expect(place.locator(".course-table")).to_be_hidden()
        assert page.evaluate(SHIFT) <= 0.05, (name, width)
        found = violations(page.locator("html"), every=True)
        found = [v for v in found if 'td id="attention-map' not in v]
        assert found == [], (name, scheme, width)  # the map's cells have tests of their own
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.goto((site / "1-averages" / "03_softmax_masking.html").as_uri())
    grid = page.locator(".attention-map [role=grid]")
    grid.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".attention-map")).to_contain_text("“the” at 3 attends most to “cat”")
    grid.locator("tbody tr").first.locator("td").nth(1).click()
    expect(page.locator(".attention-map")).to_contain_text("“the” at 0 attends most to “dogs”")
    assert errors == []
    context.close()


def test_search_from_disk_leads_to_the_words_and_to_lessons_first(site, chromium):
    page, errors = chromium.new_page(), []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(f"{(site / 'search.html').as_uri()}?q=perplexity")
    results = page.locator("#search-results li a")
    expect(results.first).to_contain_text("A tiny language model")
    results.first.click()
    page.wait_for_function("scrollY > 1000")
    for slip in ("perplexty", "perplexiyt", "Perplexitty"):
        page.goto(f"{(site / 'search.html').as_uri()}?q={slip}")
        expect(results.first).to_contain_text("A tiny language model")
    page.goto(f"{(site / 'zh' / 'search.html').as_uri()}?q=满纸胡话")  # words without blanks
    expect(results.filter(has_text="patient_a")).to_contain_text("病人 A")
    assert errors == []
    page.close()


def test_the_start_page_has_no_cell_to_select_and_its_model_has_a_link(site, chromium):
    page = chromium.new_page()
    page.goto(f"{(site / 'index.html').as_uri()}#the-path")
    expect(page.locator("article")).not_to_contain_text("Shift")
    assert page.url.endswith("#the-path")
    page.get_by_role("button", name="Switch this head off").click()
    page.goto(page.get_by_role("link", name="link to this").evaluate("a => a.href"))
    page.reload()
    expect(page.get_by_role("button", name="Switch it on again")).to_be_visible()
    page.close()


def test_without_scripts_the_tables_are_there(site, chromium):
    page = chromium.new_page(java_script_enabled=False)
    page.goto((site / "4-transformer" / "10_tiny_lm.html").as_uri())
    expect(page.locator(".course-table").last).to_contain_text("attends most to")
    page.close()


@pytest.mark.parametrize("folder", ["", *(f"{to.folder.name}/" for to in languages())])
def test_the_button_works_before_the_model_is_there(site, chromium, folder):
    """And shows what the model shows, after a part of the page that a slow phone loads at once."""
    start = site / f"{folder}index.html"
    page, shown = chromium.new_page(), []
    page.route("**/live.js*", lambda route: route.continue_() if shown else route.abort())
    for model in (False, True):
        page.goto(start.as_uri())
        headline = page.locator(".headline")
        if model:
            page.locator(".explorer .bars").wait_for(timeout=WAIT_MS)
        else:
            expect(page.locator(".course-table")).to_be_hidden()
        before = headline.inner_text()
        for width, height in ((1280, 720), (1366, 650), (390, 700)):
            page.set_viewport_size({"width": width, "height": height})
            box = headline.bounding_box()
            assert 0 <= box["y"] and box["y"] + box["height"] <= height, (width, box)
        headline.locator(".cut").click()
        shown.append((before, headline.inner_text()))
        assert page.locator(".bars").count() == model
    assert shown[0] == shown[1]
    assert before != headline.inner_text()
    page.close()
    text = start.read_text(encoding="utf-8")
    sheets = re.findall(r'<link rel="stylesheet"[^>]* href="([^"?]+)', text)
    needed = text[: text.index('<div class="course-table"')].encode()
    assert len(needed) + sum((start.parent / sheet).stat().st_size for sheet in sheets) < 200_000
