"""An answer gets the same points at the desk and when a class is graded: what is observed reaches
the judge unchanged, although each fact is read as untrusted data."""

import pickle

import pytest

from tools.matrix import cells
from whywrong import _checker, check_exercise
from whywrong._checker import report_on
from whywrong._judging import compare
from whywrong._key import begin_key
from whywrong._observation import pack
from whywrong.hosting import Clock, catalogue, describe
from whywrong_nbgrader.inside.answers import Probing, observe
from whywrong_nbgrader.verdicts import observation, shown_case

COURSE = catalogue()


class AsGraded:
    """An answer whose observations are sent and read as those of a class."""

    def __init__(self, exercise, answer):
        self.exercise, self.answer = exercise, answer

    def described(self):
        return describe(self.answer)

    def observe(self, cases, parts):
        e = self.exercise
        probing = Probing(e.id, e.kind, e.probe, e.rules, COURSE.not_to_borrow(e))
        sent = [pickle.loads(shown_case(case)) for case in cases]
        seen = [
            observe(probing, self.answer, c, parts, Clock(), i == 0) for i, c in enumerate(sent)
        ]
        return [observation(pack([one])) for one in seen]


# Each of these needs a fact that hardly any other answer has.
ANSWERS = [
    ("my_run", "untrained"),
    ("my_run", "invented numbers"),
    ("my_run", "a text of other ids"),
    ("MyGPT", "blocks_in_a_plain_list"),
    ("train_lm", "other_settings"),
    ("FeedForward", "the text's right answer"),
]


@pytest.mark.parametrize("id, name", ANSWERS, ids=" ".join)
def test_it_gets_the_same_points_and_the_same_name(id, name):
    exercise = COURSE.find(id)
    (answer,) = (cell.answer for cell in cells(exercise) if cell.name == name)
    desk = check_exercise(exercise, answer, 7, COURSE, begin_key(exercise, 7))
    graded = report_on(exercise, AsGraded(exercise, answer), begin_key(exercise, 7), COURSE)
    said = (graded.points, graded.misconceptions, graded.message)
    assert said == (desk.points, desk.misconceptions, desk.message)


def points_alone(exercise, key, observations, symptoms):
    trials = key.trials(observations)
    return compare(exercise, trials, whole=len(trials) == len(key.cases))


SEEDS = range(7_000, 7_020)


@pytest.mark.full("points at the desk and when graded, on twenty seeds")
@pytest.mark.parametrize("exercise", [e for e in COURSE if e.kind != "quiz"], ids=lambda e: e.id)
def test_every_wrong_answer_gets_the_same_points(exercise, monkeypatch):
    """The answers take turns: each is tried on one seed, and each seed on a twentieth of them."""
    monkeypatch.setattr(_checker, "judge", points_alone)
    wrong = [c for c in cells(exercise) if c.wanted != "right"]
    for first, seed in enumerate(SEEDS):
        key = begin_key(exercise, seed)
        for cell in wrong[first :: len(SEEDS)]:
            desk = check_exercise(exercise, cell.answer, seed, COURSE, key)
            graded = report_on(exercise, AsGraded(exercise, cell.answer), key, COURSE)
            assert (graded.points, graded.message) == (desk.points, desk.message), str(cell)
