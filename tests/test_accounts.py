"""Accounts: dicts of one's own numbers, judged by the relations between them."""

import math
from dataclasses import replace

import pytest
import torch

from course_utils.desk.checks import check, hint
from course_utils.experiments import capstone
from course_utils.language_model import TinyLM, head_scores
from tools.matrix import answers
from whywrong import check_exercise
from whywrong._exercise import Entry
from whywrong._quizzes import quiz
from whywrong.hosting import Misconception, catalogue
from whywrong.probing import relation

COURSE = catalogue()
RUN, HEAD = COURSE.find("my_run"), COURSE.find("my_head")


def mine():
    """The lesson's answers; a model is trained for them on first use."""
    return answers(RUN.lesson)


def way(id, breaks, entries, what):
    return Misconception(id, what, "Why.", "Look.", entries=entries, breaks=breaks)


WALK = quiz(
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
        answer = {name: value for name, value in RIGHT.items() if name != "note"}
        assert check_exercise(WALK, answer).points == 0.5

    def test_says_how_points_are_given(self):
        assert "at most half of the points" in walk(hours=0).message
        assert "at most half of the points" in walk(**{"from": ""}).message
        page = check_exercise(RUN, mine().run(predicted_parameters=0))._repr_html_()
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
        assert check("my_run", mine().RUN).points == 1.0
        assert check("my_run", mine().RUN, seed="grading").points == 1.0


class TestMyRun:
    def test_invented_numbers_are_no_run(self):
        numbers = {"model": 60_768, "losses": [3.5, 3.0, 2.5, 2.0, 1.5], "held-out loss": 1.9}
        assert check_exercise(RUN, mine().RUN | numbers).points <= 0.25

    def test_the_model_s_numbers_are_measured(self):
        untrained = mine().run(model="untrained")
        assert check_exercise(RUN, untrained).misconceptions == ("untrained",)

        class Constant(TinyLM):
            def forward(self, ids):
                return super().forward(ids) * 0.0

        flat = Constant(*mine().RUN["sizes"])
        assert not check_exercise(RUN, mine().RUN | {"model": flat}).passed

    def test_a_model_that_raises_is_reported(self):
        class Broken(TinyLM):
            def forward(self, ids):
                raise RuntimeError("no")

        report = check_exercise(RUN, mine().RUN | {"model": Broken(*mine().RUN["sizes"])})
        assert "model: measuring it raised RuntimeError: no" in str(report)
        assert not report.passed

    def test_explains_a_missed_count_without_cost(self):
        report = check_exercise(RUN, mine().run(predicted_parameters=3_584 - 8 * 16))
        assert report.passed
        assert "128 parameters too few: just the table of positions" in str(report)

    @pytest.mark.parametrize(
        ("entry", "value", "said"),
        [
            ("predicted parameters", 1_000_000, "996,416 parameters too many"),
            ("predicted first loss", 2.58, "log₂ V"),
            ("predicted first loss", 0.78, "log₁₀ V"),
            ("predicted first loss", 10, "far from ln V"),
        ],
    )
    def test_says_how_far_off_a_prediction_was_without_cost(self, entry, value, said):
        report = check_exercise(RUN, mine().RUN | {entry: value})
        assert report.passed and said in str(report) and "It costs nothing" in str(report)

    def test_a_right_card_shows_no_measured_number(self):
        """Else the lesson's stored output would differ between machines."""
        assert not any(c.isdigit() for c in "".join(check_exercise(RUN, mine().RUN).notes))

    def test_the_formula_matches_the_model(self):
        assert sum(p.numel() for p in mine().RUN["model"].parameters()) == 3_584


class TestMyHead:
    def test_says_what_it_leaves_to_a_person(self):
        assert "for a person to read" in str(check_exercise(HEAD, mine().HEAD))

    def test_invented_numbers_are_no_head(self):
        numbers = {"run": {"model": 3}, "score": 0.6, "loss": 1.6, "measured change": 0.1}
        assert check_exercise(HEAD, mine().HEAD | numbers).points <= 0.5

    @pytest.mark.parametrize("predicted", [-0.9, 0, 0.01, 1.2])
    def test_a_wrong_prediction_costs_nothing(self, predicted):
        assert check_exercise(HEAD, mine().head(predicted_change=predicted)).passed

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
        assert check_exercise(HEAD, mine().head(why=why)).passed

    @pytest.mark.parametrize(
        ("why", "named"), [("Other heads help.", "why_is_too_short"), ("", "why_is_missing")]
    )
    def test_says_what_a_reason_lacks(self, why, named):
        assert check_exercise(HEAD, mine().head(why=why)).misconceptions == (named,)

    def test_asks_for_no_reason_if_the_changes_agree(self):
        assert check_exercise(HEAD, mine().head(predicted_change=0.075, why="")).passed


class TestScores:
    ids, blanks = torch.tensor([[0, 1, 0, 1, 2, 0]]), torch.tensor([2])

    def test_uniform_weights_by_hand(self):
        model = TinyLM(5, 8, 2, 6, 1)
        _, even = capstone.job_weights(model, self.ids, self.blanks)
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
        scores, _ = capstone.job_weights(model, self.ids, self.blanks)
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
            model = mine().MY_GPT_RIGHT[name](*sizes)
            twin = capstone.twin(model, *sizes)
            torch.testing.assert_close(twin(self.ids), model(self.ids), atol=1e-4, rtol=1e-4)

    def test_a_model_with_other_names_gets_a_message_without_a_traceback(self):
        model = mine().LoadsItsOwnWay(5, 8, 2, 6, 3)
        with pytest.raises(ValueError, match="state_dict") as raised:
            capstone.twin(model, 5, 8, 2, 6, 3)
        said = str(raised.value)
        assert "embed.token.weight of shape (5, 8)" in said and "tokens" in said
        assert raised.value._render_traceback_() == said.split("\n")

    def test_weights_with_another_meaning_are_reported(self):
        class Turned(mine().GivesNamesBack):
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
