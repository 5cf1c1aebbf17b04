"""Accounts: dicts of one's own numbers, judged by the relations between them."""

import math
from dataclasses import replace

import pytest
import torch

from course_utils.desk.checks import check, hint
from course_utils.experiments import capstone
from course_utils.language_model import TinyLM, head_scores
from tools.matrix import answers
from whywrong import Entry, Misconception, account, check_exercise, relation
from whywrong.course import catalogue

COURSE = catalogue()
RUN, HEAD = COURSE.find("my_run"), COURSE.find("my_head")
CAPSTONE = answers(RUN.lesson)
LETTERS, BEFORE, AT_ONCE = CAPSTONE.LETTERS, CAPSTONE.BEFORE, CAPSTONE.AT_ONCE


def way(id, breaks, entries, what):
    return Misconception(id, what, "Why.", "Look.", entries=entries, breaks=breaks)


WALK = account(
    "walk",
    lesson="9-own/17_walk",
    points=1.0,
    about="a walk",
    entries=[
        Entry("from", "here", "", "Where it began."),
        Entry("hours", 2.0, "", "How long it took."),
        Entry("steps", 4, "", "How many steps."),
        Entry("heights", [1.0, 2.0], "", "Some heights."),
        Entry("note", "none", "", "Anything.", optional=True),
    ],
    relations=[
        relation("time", "It took time", lambda d: d["hours"] > 0 or "took none"),
        relation(
            "pace", "No more than 9,000 steps an hour", lambda d: d["steps"] < 9e3 * d["hours"]
        ),
        relation("power", "It can be worked out", lambda d: math.exp(d["hours"]) > 0),
    ],
    misconceptions=[
        way("no_time", "time", {"hours": 0}, "No time."),
        way("ran", "pace", {"steps": 20_000}, "You ran."),
        way("flew", "pace", {"steps": 10**6}, "You flew."),
    ],
    fits={"ran": lambda d: d["steps"] < 1e5},
    hints=("One.", "Two."),
    notes=lambda d: [f"{d['steps']} steps"],
)
RIGHT = {"from": "home", "hours": 2, "steps": 5_000, "heights": [3, 4.5], "note": ""}


def walk(**entries):
    return check_exercise(WALK, RIGHT | entries)


class TestAnAccount:
    def test_passes_if_everything_fits(self):
        report = walk()
        assert report.passed and report.points == 1.0
        assert report.notes == ["5000 steps"]
        assert str(report).count("[ok]") == 4

    def test_says_which_relation_is_broken_and_how(self):
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
            ("hours", "2", "hours: a number is expected"),
            ("hours", math.nan, "hours: a number is expected"),
            ("hours", True, "hours: a number is expected"),
            ("steps", 2.5, "steps: an integer is expected"),
            ("from", 3, "from: a string in quotes is expected"),
            ("from", " ", "from: still open. Where it began."),
            ("from", ..., "from: still open. Where it began."),
            ("heights", [3], "heights: a list is expected"),
            ("heights", [3, "4"], "heights: a list is expected"),
            ("heights", 3, "heights: a list is expected"),
        ],
    )
    def test_says_which_entry_has_the_wrong_type(self, name, value, said):
        report = walk(**{name: value})
        assert said in str(report) and not report.passed
        assert "1 entry is still open" in report.message

    def test_says_which_entry_is_missing(self):
        answer = {name: value for name, value in RIGHT.items() if name != "steps"}
        report = check_exercise(WALK, answer)
        assert "steps: your dict has no such entry. How many steps." in str(report)
        assert "pace" not in [b.id for b in report.behaviours], "what can't be judged isn't ticked"

    def test_says_what_is_wrong_with_a_list(self):
        said = "heights: a list is expected, of two numbers or more, none of them NaN or infinite"
        assert said in str(walk(heights=[3, math.nan]))
        assert "hours: a number is expected, one that is finite" in str(walk(hours=math.inf))

    def test_a_missing_entry_costs_as_much_as_a_broken_relation(self):
        for name in ("sizes", "held-out loss", "losses", "bigram loss"):
            answer = {n: value for n, value in LETTERS.items() if n != name}
            assert check_exercise(RUN, answer).points in (0.75, 1.0), name

    def test_says_how_points_are_given(self):
        assert "at most half of the points" in walk(hours=0).message
        assert "at most half of the points" in walk(**{"from": ""}).message
        page = check_exercise(RUN, LETTERS | {"parameters": 99})._repr_html_()
        assert "the values are right" not in page

    def test_reads_numbers_of_any_type(self):
        assert walk(steps=5e3, hours=torch.tensor(2.0), heights=torch.tensor([3.0, 4.5])).passed

    def test_a_number_too_large_breaks_the_relation(self):
        report = walk(hours=1e300)
        assert not report.passed and "power" in [b.id for b in report.behaviours if not b.holds]

    @pytest.mark.parametrize("answer", [..., None, {}, dict.fromkeys(RIGHT, ...)])
    def test_an_empty_account_is_not_attempted(self, answer):
        assert not check_exercise(WALK, answer).attempted

    def test_another_type_and_unknown_names_are_reported(self):
        assert "answered with a dict" in str(check_exercise(WALK, [1, 2]))
        assert "unknown names: mood" in str(walk(mood="good"))

    def test_runs_no_code_of_the_answer(self):
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
        assert "list(sizes.values())" in str(hint("my_run", 2))
        assert check("my_run", LETTERS).points == 2.0
        assert check("my_run", LETTERS, seed="grading").points == 2.0


class TestMyRun:
    def test_explains_a_missed_count_without_cost(self):
        report = check_exercise(RUN, LETTERS | {"predicted parameters": 105_600 - 32 * 64})
        assert report.passed
        assert "2,048 parameters too few: just the table of positions" in str(report)

    def test_remarks_on_a_prediction_equal_to_the_measurement_without_cost(self):
        same = {"predicted first loss": LETTERS["losses"][0]}
        report = check_exercise(RUN, LETTERS | same)
        assert report.passed and "to the last digit" in str(report)
        assert "to the last digit" not in str(check_exercise(RUN, LETTERS))

    @pytest.mark.parametrize(
        ("entry", "value", "said"),
        [
            ("predicted parameters", 1_000_000, "894,400 parameters too many"),
            ("predicted parameters", 30_000, "75,600 parameters too few"),
            ("predicted first loss", 4.91, "log₂ V"),
            ("predicted first loss", 1.48, "log₁₀ V"),
            ("predicted first loss", 10, "far from ln V"),
        ],
    )
    def test_says_how_far_off_a_prediction_was_without_cost(self, entry, value, said):
        report = check_exercise(RUN, LETTERS | {entry: value})
        assert report.passed and said in str(report) and "It costs nothing" in str(report)

    def test_remarks_on_theory_given_as_a_measurement_without_cost(self):
        report = check_exercise(RUN, LETTERS | {"losses": [3.4, 2.1, 1.9]})
        assert report.passed and "or the formula's?" in str(report)

    def test_the_last_training_loss_is_not_the_held_out_loss(self):
        losses = [3.6038577, 2.3933121, 1.8651234]
        same = LETTERS | {"losses": losses, "held-out loss": losses[-1]}
        assert check_exercise(RUN, same).misconceptions == ("training_loss_for_held_out",)
        rounded = LETTERS | {"losses": [3.6, 2.39, 1.87], "held-out loss": 1.87}
        assert check_exercise(RUN, rounded).passed

    def test_sizes_in_the_wrong_order_are_reported(self):
        turned = LETTERS | {"sizes": [30, 64, 2, 32, 4]}
        assert check_exercise(RUN, turned).misconceptions == ("sizes_in_another_order",)

    def test_a_single_hard_last_step_is_accepted(self):
        hard = LETTERS | {"losses": [3.6, 2.3, 1.9, 3.4], "held-out loss": 1.75}
        assert check_exercise(RUN, hard).passed
        easy = LETTERS | {"losses": [3.6, 2.3, 2.0, 1.9], "held-out loss": 1.0}
        assert check_exercise(RUN, easy).misconceptions == ("held_out_easier_than_training",)

    def test_a_right_card_shows_no_measured_number(self):
        report = check_exercise(RUN, LETTERS)
        assert not any(str(loss)[:4] in str(report) for loss in LETTERS["losses"])

    def test_the_formula_matches_the_model(self):
        d = COURSE.find("my_run").reference
        model = TinyLM(*d["sizes"])
        assert sum(p.numel() for p in model.parameters()) == d["parameters"]


class TestMyHead:
    def test_says_what_it_leaves_to_a_person(self):
        for answer in (BEFORE, AT_ONCE):
            assert "for a person to read" in str(check_exercise(HEAD, answer))

    def test_a_wrong_prediction_costs_nothing(self):
        for foretold in (-1.5, 0, 0.01, 1.2):
            answer = BEFORE | {"predicted change": foretold}
            assert check_exercise(HEAD, answer).passed, foretold

    @pytest.mark.parametrize(
        "why",
        [
            "Other heads look there too.",
            "The stream brings the same.",
            "Was the job worth less than I thought, for letters?",
            "Heads 1 and 2 do it too.",
        ],
    )
    def test_a_short_reason_is_accepted(self, why):
        assert check_exercise(HEAD, BEFORE | {"why": why}).passed

    @pytest.mark.parametrize(
        ("why", "named"), [("Other heads help.", "why_is_too_short"), ("", "why_is_missing")]
    )
    def test_says_what_a_reason_lacks(self, why, named):
        assert check_exercise(HEAD, BEFORE | {"why": why}).misconceptions == (named,)

    def test_asks_for_no_reason_if_the_changes_agree(self):
        assert check_exercise(HEAD, AT_ONCE | {"why": ""}).passed
        apart = AT_ONCE | {"why": "", "predicted change": 0.07}
        assert check_exercise(HEAD, apart).misconceptions == ("why_is_missing",)


class TestScores:
    ids, blanks = torch.tensor([[0, 1, 0, 1, 2, 0]]), torch.tensor([2])

    def test_uniform_weights_by_hand(self):
        model = TinyLM(5, 8, 2, 6, 1)
        _, even = capstone.job_scores(model, self.ids, self.blanks)
        scores = dict(zip(capstone.JOBS, even.tolist(), strict=True))
        rows = [1 / (t + 1) for t in range(1, 6)]
        assert math.isclose(scores["itself"], sum(rows) / 5, rel_tol=1e-6)
        assert math.isclose(scores["one before"], sum(rows) / 5, rel_tol=1e-6)
        assert math.isclose(scores["two before"], sum(rows[1:]) / 4, rel_tol=1e-6)
        # Three back in the word: tokens 3 (key 0) and 4, the blank, which is not part of a word.
        assert math.isclose(scores["further back in the word"], 1 / 4, rel_tol=1e-6)
        assert math.isclose(scores["the blank before the word"], 1 / 6, rel_tol=1e-6)
        # "0 1 0 1 2 0": tokens 2, 3 and 5 have an equal token before them, the last has two.
        twice = (1 / 3 + 1 / 4 + 2 / 6) / 3
        assert math.isclose(scores["the same before"], twice, rel_tol=1e-6)
        assert math.isclose(scores["after the same"], twice, rel_tol=1e-6)

    def test_each_head_is_listed_once_with_its_best_job(self):
        scores = torch.tensor([[[0.1, 0.9], [0.2, 0.1]], [[0.3, 0.5], [0.1, 0.1]]])
        even = torch.tensor([0.1, 0.4])
        found = capstone.standing_out(scores, even)
        assert found[0] == (0, 0, 1)
        assert {(layer, head) for layer, head, _ in found} == {(0, 0), (0, 1), (1, 0), (1, 1)}

    def test_of_a_model_lie_between_0_and_1(self):
        torch.manual_seed(0)
        model = TinyLM(5, 8, 2, 6, 3)
        scores, _ = capstone.job_scores(model, self.ids, self.blanks)
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

    def test_a_twin_needs_only_the_right_names(self):
        torch.manual_seed(0)
        sizes = (5, 8, 2, 6, 3)
        for name in (
            "one projection, its parts as views",
            "PyTorch's norm under other names",
            "a state_dict of its own",
            "masks in the state dict",
        ):
            model = CAPSTONE.MY_GPT_RIGHT[name](*sizes)
            twin = capstone.twin(model, *sizes)
            torch.testing.assert_close(twin(self.ids), model(self.ids), atol=1e-4, rtol=1e-4)

    def test_a_model_with_other_names_gets_a_message_without_a_traceback(self):
        model = CAPSTONE.LoadsItsOwnWay(5, 8, 2, 6, 3)
        with pytest.raises(ValueError, match="state_dict") as raised:
            capstone.twin(model, 5, 8, 2, 6, 3)
        said = str(raised.value)
        assert "embed.token.weight of shape (5, 8)" in said and "tokens" in said
        assert raised.value._render_traceback_() == said.split("\n")

    def test_weights_with_another_meaning_are_reported(self):
        class Turned(CAPSTONE.GivesNamesBack):
            def state_dict(self, *args, **kwargs):
                state = super().state_dict(*args, **kwargs)
                name = "blocks.0.attention.out_proj.weight"
                return state | {name: state[name].T.clone()}

        torch.manual_seed(0)
        with pytest.raises(ValueError, match="other logits"):
            capstone.twin(Turned(5, 8, 2, 6, 3), 5, 8, 2, 6, 3)

    def test_an_ablated_head_is_restored(self):
        torch.manual_seed(0)
        model = TinyLM(5, 8, 2, 6, 3)
        before = model(self.ids)
        capstone.loss_without(model, self.ids, 1, 1)
        assert torch.equal(model(self.ids), before)


def test_an_account_is_a_quiz_without_right_answers():
    assert RUN.kind == HEAD.kind == "quiz"
    assert replace(RUN, properties=()).entries[0].why == ""
