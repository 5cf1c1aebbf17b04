"""Time the whole model in the page, by the page's own clock.

    python benchmarks/explorer.py [--rounds 30] [--site site/build/html]

"first move": from opening the file to the first bars and the sentence about them. "key": from a key
in the text to the new bars, laid out. "switch": the same for switching a head off or on. "forward":
one run of the model over 16 tokens, without drawing. "button": from opening the file on a slow
phone (1.6 Mbit/s, 150 ms for each request, a processor four times slower) until a press on the
first button changes the sentence beside it; with `--site`, also for the start page of a site.
Medians, with the smallest and the largest in brackets.
"""

import argparse
import statistics
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from pages import launch

from course_utils.show.start import write_page

WATCH = """new MutationObserver((_, watcher) => {
    if (!document.querySelector(".says")?.textContent) return;
    window.moved = performance.now();
    watcher.disconnect();
}).observe(document, { childList: true, characterData: true, subtree: true })"""
PRESS = """(() => {
    const look = () => {
        const [button, said] = [".cut", ".why"].map((name) => document.querySelector(name));
        const before = said?.textContent;
        if (button?.getBoundingClientRect().height) button.click();
        if (said?.textContent !== before) window.pressed = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})()"""
SLOW = {"latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 0.75e6 / 8}
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


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


def pressed(browser, path: Path) -> float:
    """Milliseconds until the first button of a page works on a slow phone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(path.parent)))
    server.handle_error = lambda *_: None  # a page is closed while it still loads
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport={"width": 390, "height": 700})
    page.add_init_script(PRESS)
    phone = page.context.new_cdp_session(page)
    phone.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    phone.send("Network.emulateNetworkConditions", {"offline": False, **SLOW})
    page.goto(f"http://127.0.0.1:{server.server_port}/{path.name}", wait_until="commit")
    milliseconds = page.wait_for_function("window.pressed").json_value()
    page.close()
    server.shutdown()
    return milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--site", type=Path)
    given = parser.parse_args()
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
            times.setdefault("button", []).append(pressed(browser, path))
            if given.site:
                start = given.site / "index.html"
                times.setdefault("button on the site", []).append(pressed(browser, start))
        for turn in range(given.rounds):
            text = "the dogs near the cat" + " sing" * (turn % 2)
            for name, act in ACT.items():
                times.setdefault(name, []).append(page.evaluate(act, text))
    print(f"{size:.0f} kB in one file")
    for name, spent in times.items():
        middle = statistics.median(spent)
        print(f"{name}: {middle:.1f} ms ({min(spent):.1f} to {max(spent):.1f})")


if __name__ == "__main__":
    main()
