"""Make the pictures of the README and of the start page.

    python docs/pictures/make.py [path] [card] [map] [dark] [moving]

"path" is drawn; the others are taken in a real JupyterLab, in the Chromium of this machine.
"""

import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
PICTURES = Path(__file__).resolve().parent
sys.path[:0] = [str(COURSE), str(COURSE / "tests" / "browser")]

from course_utils.diagrams import FILE, Diagram, Step, diagram  # noqa: E402

LESSONS = {
    "1 Averages": {"01": "Naive mean", "02": "Tril matmul", "03": "Softmax masking"},
    "2 Single head": {"04": "Single head", "05": "Padding mask"},
    "3 Multi-head": {"06": "Heads side by side", "07": "Split heads"},
}
TO_COME = {
    "08–10": "Transformer",
    "11–12": "Encoder–decoder",
    "13–14": "Practice",
    "15": "Capstone",
}


def path() -> Diagram:
    """The lessons in order, an assignment a row: each is built on the one before."""
    steps: list[Step] = []
    for row, lessons in enumerate([*LESSONS.values(), TO_COME]):
        for column, (number, name) in enumerate(lessons.items()):
            before = [steps[-1].name] if steps else []
            later = lessons is TO_COME
            label = f"{number}\n{name}"
            steps.append(
                Step(number, before, "", label, not later, column, row * 1.25, later=later)
            )
    frames = {heading: list(lessons) for heading, lessons in LESSONS.items()}
    return diagram(
        steps,
        "The path",
        frames={**frames, "To come": list(TO_COME)},
        alt="The path, each lesson built on the one before. "
        + ". ".join(
            f"{heading}: " + ", ".join(f"{number} {name}" for number, name in lessons.items())
            for heading, lessons in {**LESSONS, "To come": TO_COME}.items()
        )
        + ".",
    )


def main(wanted: list[str]) -> None:
    if not wanted or "path" in wanted:
        (PICTURES / "path.svg").write_text(path().svg(FILE) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
