"""Accounts: dicts of one's own numbers, judged by what must hold between them."""

import math
from dataclasses import replace

import pytest
import torch

from course_utils.checking import account, asked, check_exercise, contradiction, relation
from course_utils.desk import catalogue, check, hint
from course_utils.experiments import capstone
from course_utils.language_model import TinyLM, head_scores

from .answers.lesson_15 import AT_ONCE, BEFORE, LETTERS

COURSE = catalogue()
RUN, HEAD = COURSE.find("my_run"), COURSE.find("my_head")

WALK = account(
    "walk",
    lesson="8-own/16_walk",
    points=1.0,
    about="a walk",
    entries=[
        asked("from", "here", "Where it began."),
        asked("hours", 2.0, "How long it took."),
        asked("steps", 4, "How many steps."),
        asked("heights", [1.0, 2.0], "Some heights."),
        asked("note", "none", "Anything.", optional=True),
    ],
    relations=[
        relation("time", "It took time", lambda d: d["hours"] > 0 or "took none"),
        relation(
            "pace", "No more than 9,000 steps an hour", lambda d: d["steps"] < 9e3 * d["hours"]
        ),
        relation("power", "It can be worked out", lambda d: math.exp(d["hours"]) > 0),
    ],
    contradictions=[
        contradiction("no_time", "time", {"hours": 0}, "No time.", "Why.", "Mend."),
        contradiction(
            "ran",
            "pace",
            {"steps": 20_000},
            "You ran.",
            "Why.",
            "Mend.",
            lambda d: d["steps"] < 1e5,
        ),
        contradiction("flew", "pace", {"steps": 10**6}, "You flew.", "Why.", "Mend."),
    ],
    hints=("One.", "Two."),
    notes=lambda d: [f"{d['steps']} steps"],
)
RIGHT = {"from": "home", "hours": 2, "steps": 5_000, "heights": [3, 4.5], "note": ""}


def walk(**entries):
    return check_exercise(WALK, RIGHT | entries)


class TestAnAccount:
    def test_passes_where_everything_holds(self):
        report = walk()
        assert report.passed and report.points == 1.0
        assert report.notes == ["5000 steps"]
        assert str(report).count("[ok]") == 4

    def test_says_what_does_not_hold_and_how(self):
        report = walk(hours=0)
        assert report.misconceptions == ("no_time", "ran") and not report.passed
        assert "It took time; yours took none" in str(report)
        assert report.points == 0.0

    def test_names_the_first_contradiction_that_fits(self):
        assert walk(steps=30_000).misconceptions == ("ran",)
        assert walk(steps=300_000).misconceptions == ("flew",)

    def test_gives_at_most_half_while_something_is_wrong(self):
        assert walk(steps=30_000).points == 0.25
        assert walk(**{"from": ""}).points == 0.5

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("hours", "2", "hours: a number is asked"),
            ("hours", math.nan, "hours: a number is asked"),
            ("hours", True, "hours: a number is asked"),
            ("steps", 2.5, "steps: an integer is asked"),
            ("from", 3, "from: a text in quotes is asked"),
            ("from", " ", "from: still open. Where it began."),
            ("from", ..., "from: still open. Where it began."),
            ("heights", [3], "heights: a list is asked"),
            ("heights", [3, "4"], "heights: a list is asked"),
            ("heights", 3, "heights: a list is asked"),
        ],
    )
    def test_says_which_entry_is_of_another_kind(self, name, value, said):
        report = walk(**{name: value})
        assert said in str(report) and not report.passed
        assert "1 entry is still open" in report.message

    def test_says_which_entry_is_missing(self):
        answer = {name: value for name, value in RIGHT.items() if name != "steps"}
        report = check_exercise(WALK, answer)
        assert "steps: there is no such entry in your dict. How many steps." in str(report)
        assert "pace" not in [b.id for b in report.behaviours], "what can't be judged isn't ticked"

    def test_reads_numbers_of_any_make(self):
        assert walk(steps=5e3, hours=torch.tensor(2.0), heights=torch.tensor([3.0, 4.5])).passed

    def test_a_number_beyond_all_measure_does_not_hold(self):
        report = walk(hours=1e300)
        assert not report.passed and "power" in [b.id for b in report.behaviours if not b.holds]

    @pytest.mark.parametrize("answer", [..., None, {}, dict.fromkeys(RIGHT, ...)])
    def test_nothing_is_not_attempted(self, answer):
        assert not check_exercise(WALK, answer).attempted

    def test_something_else_is_told(self):
        assert "answered by a dict" in str(check_exercise(WALK, [1, 2]))
        assert "not asked for: mood" in str(walk(mood="good"))

    def test_evaluates_nothing(self):
        class Trap(str):
            def strip(self):
                return self

            def __eq__(self, other):
                raise AssertionError("compared")

            __hash__ = str.__hash__

        assert not walk(hours="1/0").passed
        assert isinstance(walk(note=Trap("x")).points, float)

    def test_works_with_hints_and_progress(self, tmp_path, monkeypatch):
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
        assert "losses[0]" in str(hint("my_run", 2))
        assert check("my_run", LETTERS).points == 2.0
        assert check("my_run", LETTERS, seed="grading").points == 2.0


class TestMyRun:
    def test_tells_what_a_missed_count_is_made_of_and_takes_nothing(self):
        report = check_exercise(RUN, LETTERS | {"predicted parameters": 105_600 - 32 * 64})
        assert report.passed
        assert "2,048 parameters too few: just the table of positions" in str(report)

    def test_tells_a_prediction_that_is_the_measurement_and_takes_nothing(self):
        same = {"predicted first loss": LETTERS["first loss"]}
        report = check_exercise(RUN, LETTERS | same)
        assert report.passed and "to the last digit" in str(report)
        assert "to the last digit" not in str(check_exercise(RUN, LETTERS))

    def test_a_right_card_shows_no_measured_number(self):
        report = check_exercise(RUN, LETTERS)
        assert not any(str(LETTERS[name])[:4] in str(report) for name in ("first loss", "losses"))

    def test_the_formula_is_that_of_the_model(self):
        d = COURSE.find("my_run").reference
        names = ("vocab_size", "d_model", "num_heads", "context_length", "num_layers")
        model = TinyLM(*(d[name] for name in names))
        assert sum(p.numel() for p in model.parameters()) == d["parameters"]


class TestMyHead:
    def test_says_what_it_leaves_to_a_person(self):
        for answer in (BEFORE, AT_ONCE):
            assert "for a person to read" in str(check_exercise(HEAD, answer))

    def test_takes_nothing_for_a_prediction_that_missed(self):
        for foretold in (-1.5, 0, 0.01, 1.2):
            answer = BEFORE | {"predicted change": foretold}
            assert check_exercise(HEAD, answer).passed, foretold

    def test_asks_no_reason_where_the_changes_agree(self):
        assert check_exercise(HEAD, AT_ONCE | {"why": ""}).passed
        apart = AT_ONCE | {"why": "", "predicted change": 0.07}
        assert check_exercise(HEAD, apart).misconceptions == ("why_is_missing",)


class TestScores:
    ids = torch.tensor([[0, 1, 0, 1, 2, 0]])

    def test_of_even_weights_by_hand(self):
        first, itself, before, same, behind = capstone.even_scores(self.ids).tolist()
        rows = [1 / (t + 1) for t in range(1, 6)]
        assert math.isclose(first, sum(rows) / 5, rel_tol=1e-6)
        assert math.isclose(itself, first, rel_tol=1e-6) and math.isclose(before, first)
        # "0 1 0 1 2 0": the same stands before places 2, 3 and 5, there twice.
        assert math.isclose(same, (1 / 3 + 1 / 4 + 2 / 6) / 3, rel_tol=1e-6)
        assert math.isclose(behind, (1 / 3 + 1 / 4 + 2 / 6) / 3, rel_tol=1e-6)

    def test_of_a_model_lie_between_0_and_1(self):
        torch.manual_seed(0)
        model = TinyLM(5, 8, 2, 6, 3)
        scores = capstone.job_scores(model, self.ids)
        assert scores.shape == (3, 2, len(capstone.JOBS))
        assert bool(((scores >= 0) & (scores <= 1)).all())

    def test_a_twin_is_the_same_model_by_its_names(self):
        torch.manual_seed(0)
        model = TinyLM(5, 8, 2, 6, 3)
        twin = capstone.twin(model, 5, 8, 2, 6, 3)
        assert torch.equal(twin(self.ids), model(self.ids))
        assert torch.equal(head_scores(twin, self.ids), head_scores(model, self.ids))
        with pytest.raises(ValueError, match=r"embed\.token\.weight"):
            capstone.twin(torch.nn.Linear(2, 2), 5, 8, 2, 6, 3)

    def test_a_cut_head_comes_back(self):
        torch.manual_seed(0)
        model = TinyLM(5, 8, 2, 6, 3)
        before = model(self.ids)
        capstone.loss_without(model, self.ids, 1, 1)
        assert torch.equal(model(self.ids), before)


def test_an_account_is_a_quiz_without_right_answers():
    assert RUN.kind == HEAD.kind == "quiz"
    assert replace(RUN, properties=()).entries[0].why == ""
