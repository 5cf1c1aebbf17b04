"""Time the attention map in JupyterLab's page against matplotlib under `interact`.

    python benchmarks/attention_map.py [--rounds 15]

In each round, both rivals react to one move of their temperature slider, in the same page, one
after the other; times are medians. For the map, "painting" is the page's time for one move (script,
style and layout, from the frame's first line of script; the frame itself began up to 5 ms earlier),
and "answer" is the time from the move to the finished frame, which on an idle page includes a wait
of up to 16.7 ms for the screen. For matplotlib, it is the time from the move to the new picture in
the page. Sizes are those in a saved notebook for 4 heads of 12 tokens.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "browser"))

from pages import launch, notebooks, serve

CELL = """
import matplotlib.pyplot as plt
import torch
from ipywidgets import FloatLogSlider, interact
from course_utils.show.attention_map import attention_map

scores = 2 * torch.randn({heads}, {tokens}, {tokens})
labels = [f"token{{i}}" for i in range({tokens})]
w = attention_map(scores, labels, causal=True)
display(w)

def draw(temperature):
    weights = (scores[0] / temperature).masked_fill(torch.ones({tokens}, {tokens}).triu(1) == 1,
                                                     -torch.inf).softmax(-1)
    plt.imshow(weights, cmap="Blues", vmin=0, vmax=1)
    plt.xticks(range({tokens}), labels, rotation=90)
    plt.yticks(range({tokens}), labels)
    if {tokens} <= 24:
        for i in range({tokens}):
            for j in range({tokens}):
                plt.text(j, i, f"{{weights[i, j]:.2f}}", ha="center", va="center")
    plt.show()

interact(draw, temperature=FloatLogSlider(value=1, base=10, min=-1, max=1, step=0.01));
"""

MOVE_OURS = """async value => {
    const slider = document.querySelector(".attention-map input[type=range]");
    const after = task => new Promise(done => requestAnimationFrame(() => done(task())));
    await after(() => {});
    const moved = performance.now();
    let began;
    requestAnimationFrame(() => { began = performance.now(); });
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
    const painting = await after(() => {
        slider.closest(".attention-map").getBoundingClientRect();
        return performance.now() - began;
    });
    await new Promise(done => setTimeout(done));
    return [painting, performance.now() - moved];
}"""

MOVE_THEIRS = """async key => {
    const handle = document.querySelector(".widget-interact .noUi-handle");
    const output = document.querySelector(".widget-interact .jp-OutputArea");
    const source = () => output.querySelector("img")?.src;
    const before = source();
    const moved = performance.now();
    handle.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    while ((source() ?? before) === before)
        await new Promise(done => requestAnimationFrame(done));
    await output.querySelector("img").decode();
    return performance.now() - moved;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory() as home,
        serve(Path(home)) as server,
        launch() as browser,
        notebooks(server, browser, "benchmark") as open_notebook,
    ):
        notebook = open_notebook([""])
        for tokens in (12, 64):
            outputs = notebook.run(CELL.format(heads=4, tokens=tokens))
            outputs.locator(".attention-map").wait_for()
            outputs.locator(".widget-interact img").wait_for()
            painting, answer, theirs = [], [], []
            for turn in range(rounds):
                value = 0.6 if turn % 2 else -0.4
                spent = notebook.page.evaluate(MOVE_OURS, value)
                painting.append(spent[0])
                answer.append(spent[1])
                notebook.page.wait_for_timeout(300)  # the labels' turn, and the kernel's
                key = "ArrowLeft" if turn % 2 else "ArrowRight"
                theirs.append(notebook.page.evaluate(MOVE_THEIRS, key))
                notebook.page.wait_for_timeout(100)
            ours = [statistics.median(times) for times in (painting, answer)]
            picture = statistics.median(theirs)
            print(
                f"{tokens} × {tokens}: attention_map {ours[0]:.1f} ms painting"
                f" ({min(painting):.1f} to {max(painting):.1f}), {ours[1]:.1f} ms answer;"
                f" matplotlib with interact {picture:.0f} ms, {picture / ours[1]:.0f} times as long"
            )
            if tokens == 12:
                report_sizes(notebook)


def report_sizes(notebook) -> None:
    notebook.tell("import json; from ipywidgets.embed import dependency_state")
    with_state = int(notebook.ask("len(json.dumps(dependency_state([w], drop_defaults=False)))"))
    outputs = notebook.saved().cells[0].outputs
    bare = sum(len(json.dumps(output, ensure_ascii=False).encode()) for output in outputs[:2])
    print(
        f"saved for 4 heads of 12 tokens: {bare / 1024:.1f} KiB; where the widget's state is saved"
        f" as well (off in JupyterLab unless asked for), {with_state / 1024:.1f} KiB more"
    )


if __name__ == "__main__":
    main()
