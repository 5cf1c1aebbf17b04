"""Take the pictures for the README and the start page.

    python docs/pictures/make.py [start] [still] [lesson_map] [card]

They are taken in a real JupyterLab, in this machine's Chromium. "start" is the animation, "still"
the picture that the start page shows before a cell is run.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter, ImageFont

COURSE = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).resolve().parent
sys.path[:0] = [str(COURSE), str(COURSE / "tests" / "browser")]

SHARPNESS = 1.5  # pixels of a screenshot per pixel of the page


def main(wanted: list[str]) -> None:
    taken = [
        take for take in (start, still, lesson_map, card) if not wanted or take.__name__ in wanted
    ]
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
    """An animation of the start page's model in use."""
    notebook.page.set_viewport_size({"width": 1240, "height": 1250})
    notebook.page.emulate_media(reduced_motion="reduce")
    output = notebook.run("from course_utils.show.start import playground\nplayground()")
    shown = output.locator(".explorer")
    shown.wait_for(timeout=60_000)
    frames: list[tuple[bytes, int]] = []

    def keep(milliseconds: int) -> None:
        notebook.page.wait_for_timeout(400)
        frames.append((output.locator(".jp-OutputArea-output").last.screenshot(), milliseconds))

    keep(1800)
    for text in ("the dogs", "the dogs near", "the dogs near the", "the dogs near the cat"):
        shown.get_by_role("textbox").fill(text)
        keep(700)
    for press, pause in (("Switch this head off", 3200), ("Switch it on again", 1600)):
        shown.get_by_role("button", name=press).click()
        keep(pause)
    for part in ("block 0 head 0", "block 0 network", "block 1 head 0"):
        shown.get_by_role("button", name=part).click()
        keep(1400)
    for pause in (1200, 1800):
        shown.locator(".bars button").first.click()
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
        quality=70,
        method=6,
    )


def _on_page(picture: Image.Image, high: int) -> Image.Image:
    """The picture on its own background, as high as the highest, so that frames don't jump."""
    page = Image.new("RGB", (picture.width, high or picture.height), picture.getpixel((1, 1)))
    if high:
        page.paste(picture, (0, 0))
    return page


def still(notebook) -> None:
    """The start page's model before anybody has touched it."""
    notebook.page.set_viewport_size({"width": 1240, "height": 1250})
    notebook.page.emulate_media(reduced_motion="reduce")
    output = notebook.run("from course_utils.show.start import playground\nplayground()")
    shown = output.locator(".explorer")
    shown.wait_for(timeout=60_000)
    notebook.page.wait_for_timeout(400)
    picture = _as_poster(Image.open(io.BytesIO(shown.screenshot())).convert("RGB"))
    picture.quantize(64, dither=Image.Dither.NONE).save(PICTURES / "start.png", optimize=True)


def _as_poster(picture: Image.Image) -> Image.Image:
    """The picture dimmed and under a play sign, so that nobody types into a picture of a line."""
    picture = Image.blend(picture.filter(ImageFilter.GaussianBlur(2)), _on_page(picture, 0), 0.45)
    middle, high, size = picture.width // 2, picture.height // 3, picture.width // 18
    brush = ImageDraw.Draw(picture)
    box = (middle - 6 * size, high - 2 * size, middle + 6 * size, high + 2.6 * size)
    brush.rounded_rectangle(box, size // 3, fill="white", outline="#1f6bb8", width=4)
    sign = [(middle - size // 2, high - 1.5 * size), (middle - size // 2, high + 0.3 * size)]
    brush.polygon([*sign, (middle + size, high - 0.6 * size)], fill="#1f6bb8")
    words = "Select this cell and press Shift + Enter to play"
    font = ImageFont.load_default(size=size * 0.42)
    brush.text((middle, high + 1.4 * size), words, "#111111", font, anchor="mm")
    return picture


def lesson_map(notebook) -> None:
    """One head in the light theme, and all heads in the dark theme."""
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
    notebook.page.set_viewport_size({"width": 780, "height": 1000})
    notebook.theme("JupyterLab Dark")
    shown.get_by_role("button", name="all heads", exact=True).click()
    notebook.page.wait_for_timeout(800)
    shown.screenshot(path=PICTURES / "all-heads-dark.png")


def card(notebook) -> None:
    """The check of a mask that is applied too late."""
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
