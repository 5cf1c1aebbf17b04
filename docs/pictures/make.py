"""Make the pictures of the README and of the start page.

    python docs/pictures/make.py [path] [start] [lesson_map] [card]

"path" is drawn; the others are taken in a real JupyterLab, in the Chromium of this machine. "start"
is the moving one.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

COURSE = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).resolve().parent
sys.path[:0] = [str(COURSE), str(COURSE / "tests" / "browser")]

from course_utils.diagrams import FILE, Diagram, Step, diagram  # noqa: E402

LESSONS = {
    "0 Start": {"00": "Before you start"},
    "1 Averages": {"01": "Naive mean", "02": "Tril matmul", "03": "Softmax masking"},
    "2 Single head": {"04": "Single head", "05": "Padding mask"},
    "3 Multi-head": {"06": "Heads side by side", "07": "Split heads"},
    "4 Transformer": {"08": "The block", "09": "Positions", "10": "Tiny language model"},
    "5 Encoder–decoder": {"11": "Cross-attention", "12": "Translation"},
    "6 Practice": {"13": "Performance", "14": "Pitfall clinic"},
    "7 Capstone": {"15": "The capstone"},
}
SHARPNESS = 1.5  # pixels of a screenshot per pixel of the page


def path() -> Diagram:
    """The lessons in order, an assignment a row: each is built on the one before."""
    steps: list[Step] = []
    for row, lessons in enumerate(LESSONS.values()):
        for column, (number, name) in enumerate(lessons.items()):
            before = [steps[-1].name] if steps else []
            label = f"{number}\n{name}"
            steps.append(Step(number, before, "", label, True, column, row * 1.25))
    told = [
        f"{heading}: " + ", ".join(f"{number} {name}" for number, name in lessons.items())
        for heading, lessons in LESSONS.items()
    ]
    return diagram(
        steps,
        "The path",
        frames={heading: list(lessons) for heading, lessons in LESSONS.items()},
        alt="The path, each lesson built on the one before. " + ". ".join(told) + ".",
    )


def main(wanted: list[str]) -> None:
    if not wanted or "path" in wanted:
        (PICTURES / "path.svg").write_text(path().svg(FILE) + "\n", encoding="utf-8")
    taken = [take for take in (start, lesson_map, card) if not wanted or take.__name__ in wanted]
    if not taken:
        return
    from pages import launch, notebooks, serve

    with (
        tempfile.TemporaryDirectory() as home,
        launch() as browser,
        serve(Path(home)) as server,
        notebooks(server, browser, "picture") as open_notebook,
    ):
        for take in taken:
            take(open_notebook([""], device_scale_factor=SHARPNESS))


def start(notebook) -> None:
    """The start page's model while somebody plays with it, as a moving picture."""
    notebook.page.set_viewport_size({"width": 1160, "height": 1000})
    output = notebook.run("from course_utils.start import playground\nplayground()")
    line, shown = output.locator(".next-word"), output.locator(".attention-map")
    shown.wait_for(timeout=60_000)
    frames: list[tuple[bytes, int]] = []

    def keep(milliseconds: int) -> None:
        notebook.page.wait_for_timeout(400)
        frames.append((output.locator(".jp-OutputArea-output").last.screenshot(), milliseconds))

    keep(1800)
    for row in (1, 3, 2, 5):
        shown.get_by_role("grid").locator("tbody tr").nth(row).locator("th").hover()
        keep(900)
    for step in range(3):  # scores, masked, softmax
        shown.get_by_role("radio").nth(step).check()
        keep(1000)
    for temperature in ("0.5", "2", "5", "1"):
        shown.get_by_role("slider").fill(temperature)
        keep(700)
    for text in ("the dogs", "the dogs near", "the dogs near the", "the dogs near the cat"):
        line.get_by_role("textbox").fill(text)
        keep(700)
    for pause in (1200, 1800):
        line.locator(".bars button").first.click()
        keep(pause)

    pictures = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in frames]
    high = max(picture.height for picture in pictures)
    pictures = [_on_page(picture, high) for picture in pictures]
    pictures[0].save(
        PICTURES / "start.webp",
        save_all=True,
        append_images=pictures[1:],
        duration=[milliseconds for _, milliseconds in frames],
        loop=0,
        quality=80,
        method=6,
    )


def _on_page(picture: Image.Image, high: int) -> Image.Image:
    """The picture on its own ground, as high as the highest, so that none jumps."""
    page = Image.new("RGB", (picture.width, high), picture.getpixel((1, 1)))
    page.paste(picture, (0, 0))
    return page


def lesson_map(notebook) -> None:
    """One head in the light theme, and all heads in the dark one."""
    notebook.page.set_viewport_size({"width": 1160, "height": 1000})
    output = notebook.run(
        "from course_utils.attention_map import attention_map\n"
        "from course_utils.start.model import read, scores\n\n"
        'words, _ = read("the small dog that the old king likes")\n'
        "attention_map(scores(words), words, causal=True, layer=1, row=8)"
    )
    shown = output.locator(".attention-map")
    shown.wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(500)
    shown.screenshot(path=PICTURES / "attention-map.png")
    notebook.page.set_viewport_size({"width": 780, "height": 1000})
    notebook.theme("JupyterLab Dark")
    shown.get_by_role("button", name="all heads", exact=True).click()
    notebook.page.wait_for_timeout(800)
    shown.screenshot(path=PICTURES / "all-heads-dark.png")


def card(notebook) -> None:
    """The check of a mask that comes too late."""
    notebook.page.set_viewport_size({"width": 1000, "height": 1000})
    output = notebook.run(
        "import torch\nfrom course_utils import check\n\n"
        "def masked_softmax(scores, hidden):\n"
        "    weights = torch.softmax(scores, dim=-1)\n"
        "    return weights.masked_fill(hidden, 0.0)\n\n"
        'check("masked_softmax", masked_softmax)'
    )
    shown = output.locator(".jp-OutputArea-output").first
    shown.wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(500)
    shown.screenshot(path=PICTURES / "card.png")


if __name__ == "__main__":
    main(sys.argv[1:])
