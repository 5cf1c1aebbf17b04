"""Time the whole model in the page, by the page's own clock.

    python benchmarks/explorer.py [--rounds 30]

"first move": from opening the file to the first bars and the sentence about them. "key": from a key
in the text to the new bars, laid out. "switch": the same for switching a head off or on. "forward":
one run of the model over 16 tokens, without drawing. Medians, with the smallest and the largest in
brackets.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from pages import launch

from course_utils.show.start import write_page

WATCH = """new MutationObserver((_, watcher) => {
    if (!document.querySelector(".says")?.textContent) return;
    window.moved = performance.now();
    watcher.disconnect();
}).observe(document, { childList: true, characterData: true, subtree: true })"""
LAID_OUT = "document.querySelector('.explorer').getBoundingClientRect();"
ACT = {
    "key": """text => {
        const line = document.querySelector(".explorer input");
        line.value = text;
        const begun = performance.now();
        line.dispatchEvent(new Event("input"));"""
    + LAID_OUT
    + " return performance.now() - begun; }",
    "switch": """() => {
        const toggle = document.querySelectorAll(".explorer .switch")[1];
        const begun = performance.now();
        toggle.click();"""
    + LAID_OUT
    + " return performance.now() - begun; }",
    "forward": """() => {
        const ids = Array.from({ length: 16 }, (_, i) => (7 * i) % 42);
        const begun = performance.now();
        for (let i = 0; i < 20; i += 1) window.forward(ids);
        return (performance.now() - begun) / 20; }""",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, launch() as browser:
        path = write_page(Path(folder) / "explorer.html")
        page_text = path.read_text(encoding="utf-8")
        handle = "\nwindow.forward = ((m) => (ids) => forward(m, ids))(makeModel(readSafetensors("
        handle += "new DataView(values._weights.buffer)), values._heads));\n</script>"
        size = path.stat().st_size / 1000
        path.write_text(page_text.replace("\n</script>", handle), encoding="utf-8")
        times: dict[str, list[float]] = {"first move": []}
        for _ in range(5):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.add_init_script(WATCH)
            page.goto(path.as_uri())
            page.wait_for_function("window.moved")
            times["first move"].append(page.evaluate("window.moved"))
        for turn in range(rounds):
            text = "the dogs near the cat" + " sing" * (turn % 2)
            for name, act in ACT.items():
                times.setdefault(name, []).append(page.evaluate(act, text))
    print(f"{size:.0f} kB in one file")
    for name, spent in times.items():
        middle = statistics.median(spent)
        print(f"{name}: {middle:.1f} ms ({min(spent):.1f} to {max(spent):.1f})")


if __name__ == "__main__":
    main()
