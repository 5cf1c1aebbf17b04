"""A class in which some students attack the grading and a few are honest.

Each attack is a function that writes one submission, for a student of the same name; its docstring
says what it tries. Nearly every attack also submits right answers to the quiz of lesson 01, because
right answers must get their points whatever else is in a submission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from . import evil_files, evil_limits, evil_verdicts  # noqa: F401  (they register their attacks)
from .evil_kit import (
    ALL,
    ATTACKS,
    FULL,
    MEAN,
    ONE,
    QUIZ_AND_MEAN,
    THREE,
    Hand,
    Place,
    put_after_imports,
)
from .nbgrader_class import right_answer

# Each commit is tested with these (tests/test_grading_runs.py).
ALWAYS = ("endless-loop", "memory-bomb", "forged-report", "network", "link-to-the-solution")


def ada(hand: Hand) -> None:
    """Everything is right."""
    for lesson in FULL:
        hand.lesson(lesson).solve()


def ben(hand: Hand) -> None:
    """Half is right; one answer is a misconception, and one is missing."""
    hand.quiz_done()
    lesson = hand.lesson(THREE)
    lesson.solve("softmax")
    lesson.write(
        "masked_softmax",
        "def masked_softmax(scores, hidden):\n"
        "    return softmax(scores, dim=-1).masked_fill(hidden, 0)",
    )


def zoe(hand: Hand) -> None:
    """Everything in one lesson is right, and too late."""
    (hand.folder / "timestamp.txt").write_text("2026-02-05 09:00:00.000000 UTC")
    hand.lesson().solve()


def zed(hand: Hand) -> None:
    """Nothing is done."""
    hand.lesson()


def kim(hand: Hand) -> None:
    """A cell of his own prints a lot before the right answer, and one draws."""
    lesson = hand.cell("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])")
    put_after_imports(lesson, "print('row ' * 500_000)")
    lesson.solve(MEAN)


def lea(hand: Hand) -> None:
    """A browser gave the notebook another name, and nothing else was submitted."""
    lesson = hand.lesson()
    lesson.solve()
    lesson.path = hand.folder / f"{ONE} (1).ipynb"


def ivy(hand: Hand) -> None:
    """Two cells of her own are left: one fails, and one waits for input."""
    lesson = hand.cell("torch.ones(2, 3) @ torch.ones(2, 3)")
    put_after_imports(lesson, "shape = input('which shape? ')")
    lesson.solve(MEAN)


def tom(hand: Hand) -> None:
    """A right answer was pasted into a text cell, as a chat shows it."""
    lesson = hand.quiz_done()
    cell = lesson.cell(MEAN)
    cell["cell_type"], cell["source"] = "markdown", f"```python\n{right_answer(ONE, MEAN)}\n```"
    for of_code in ("outputs", "execution_count"):
        del cell[of_code]


HONEST: dict[Callable[[Hand], None], float] = {
    ada: ALL,
    ben: 3.25,
    zoe: 3.0,
    zed: 0.0,
    **dict.fromkeys([kim, lea, ivy, tom], QUIZ_AND_MEAN),
}


def hand_in(
    place: Place, attacks: Iterable[str] = (), honest: Iterable[Callable[[Hand], None]] = ()
) -> None:
    """Submits for these attackers and these honest students."""
    made: list[Callable[[Hand], Any]] = [*honest, *(ATTACKS[name].make for name in attacks)]
    for make in made:
        hand = Hand(place, make.__name__.replace("_", "-"))
        make(hand)
        hand.finish()
