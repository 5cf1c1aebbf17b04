"""Take the pictures for the READMEs, in this machine's Chromium.

    python docs/pictures/make.py [start] [lesson_map] [card]

"start" and "card" are in each language; "lesson_map" is taken in a real JupyterLab.
"""

import io
import os
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image

COURSE = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).resolve().parent
sys.path[:0] = [str(COURSE), str(COURSE / "tests" / "browser")]

from course_utils import check  # noqa: E402
from course_utils.desk.language import folders  # noqa: E402
from course_utils.show.start import write_page  # noqa: E402
from whywrong.hosting import speaking  # noqa: E402

SHARPNESS = 1.5  # pixels of a screenshot per pixel of the page


def main(wanted: list[str]) -> None:
    from pages import launch, notebooks, serve

    os.environ["COURSE_PROGRESS"] = "off"
    with launch() as browser:
        for take in (start, card):
            if not wanted or take.__name__ in wanted:
                take(browser)
        if wanted and "lesson_map" not in wanted:
            return
        with (
            tempfile.TemporaryDirectory() as home,
            serve(Path(home)) as server,
            notebooks(server, browser, "picture") as open_notebook,
        ):
            lesson_map(open_notebook([""], device_scale_factor=SHARPNESS))


STOP = """(at) => document.getAnimations().forEach((movement) => {
  movement.pause();
  movement.currentTime = at;
})"""


def start(browser) -> None:
    """An animation of the start page's box: its head is switched off and on again."""
    for language in ("", *folders()):
        page = browser.new_page(
            viewport={"width": 900, "height": 700}, device_scale_factor=SHARPNESS
        )
        with speaking(language), tempfile.TemporaryDirectory() as folder:
            page.goto(write_page(Path(folder) / "explorer.html").as_uri())
        frames = [*_moments(page)]
        page.close()
        pictures = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in frames]
        pictures[0].save(
            PICTURES / _named("start", language, "webp"),
            save_all=True,
            append_images=pictures[1:],
            duration=[milliseconds for _, milliseconds in frames],
            loop=0,
            quality=70,
            method=6,
        )


def _moments(page):
    """Pictures of the box, each with the milliseconds for which it is shown."""
    box = page.locator(".headline")
    box.wait_for()
    steps = [(80, at) for at in range(0, 1200, 150)] + [(1400, 5_000)]
    for pause in (0, 2600, 1000):
        if pause:
            box.locator(".cut").click()
            steps = [(50, at) for at in range(0, 350, 50)] + [(pause, 5_000)]
        for milliseconds, at in steps:
            page.evaluate(STOP, at)
            yield box.screenshot(), milliseconds


def lesson_map(notebook) -> None:
    """One head, with one row of it chosen."""
    notebook.page.set_viewport_size({"width": 1160, "height": 1000})
    output = notebook.run(
        "from course_utils.show.attention_map import attention_map\n"
        "from course_utils.show.start.model import read, scores\n\n"
        'words, _ = read("the small dog that the old king likes")\n'
        "attention_map(scores(words), words, causal=True, layer=1, row=8)"
    )
    shown = output.locator(".attention-map")
    shown.wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(500)
    shown.screenshot(path=PICTURES / "attention-map.png")


def masked_softmax(scores, hidden):
    weights = torch.softmax(scores, dim=-1)
    return weights.masked_fill(hidden, 0.0)


def card(browser) -> None:
    """The check of a mask that is applied too late, in each language."""
    report = check("masked_softmax", masked_softmax)
    for language in ("", *folders()):
        page = browser.new_page(
            viewport={"width": 800, "height": 900}, device_scale_factor=SHARPNESS
        )
        with speaking(language):
            page.set_content(f"<body style='font-family: sans-serif'>{report._repr_html_()}")
        page.locator("body > *").first.screenshot(path=PICTURES / _named("card", language, "png"))
        page.close()


def _named(name: str, language: str, kind: str) -> str:
    return ".".join(filter(None, (name, language, kind)))


if __name__ == "__main__":
    main(sys.argv[1:])
