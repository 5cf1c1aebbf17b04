"""Judging compares with a key and runs nothing; a whole key and a lazy key agree."""

import threading
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import torch

from whywrong import Case, Catalogue, Observation, Property, check_exercise, expect_module
from whywrong._checker import observe
from whywrong._exercise import Program
from whywrong._judging import judge, symptoms_of
from whywrong._key import begin_key, make_key
from whywrong._naming import Search, on_most_cases, search
from whywrong._quizzes import filled
from whywrong.hosting import Rules, run

from .tiny import CAUSAL_MEAN, SHAPES, STANDARDISED, TINY

SEED = 3


def broken(*args, **kwargs):
    raise AssertionError("this ran while an answer was judged")


class Broken(Program):
    """A program that can be neither run nor combined with another."""

    answer = joined = property(broken)


def without_code(exercise):
    """The exercise with everything that could run replaced by code that raises."""
    wrong = [
        replace(m, program=m.program and Broken("", m.program.names))
        for m in exercise.misconceptions
    ]
    return replace(
        exercise,
        cases=broken,
        probe=broken,
        expect=broken,
        reference=broken,
        misconceptions=tuple(wrong),
    )


@cache
def shortened(id):
    """An exercise with its first misconceptions, and their whole key."""
    whole = TINY.find(id)
    exercise = replace(whole, misconceptions=whole.misconceptions[:8])
    return exercise, make_key(exercise, SEED)


def answers(exercise):
    if exercise.kind == "quiz":
        yield from (filled(exercise, m) for m in exercise.misconceptions)
        yield from ({}, 3)
    else:
        yield from (m.answer for m in exercise.misconceptions)
        yield lambda *args: 1 / 0
    yield exercise.reference


def both(exercise, one, other):
    return exercise.misconception(one).joined(exercise.misconception(other)).answer


TWO_AT_ONCE = [
    (STANDARDISED, ("not_centred", "corrected")),
    (STANDARDISED, ("not_centred", "variance")),
    (CAUSAL_MEAN, ("sees_all", "sums")),
]


class TestJudging:
    @pytest.fixture(autouse=True)
    def no_threads(self, monkeypatch):
        self.forbid = lambda: monkeypatch.setattr(threading.Thread, "start", broken)
        self.allow = monkeypatch.undo

    def judged(self, id, answer):
        """The desk's report, and the report of a judge that can't run anything."""
        exercise, key = shortened(id)
        desk = check_exercise(exercise, answer, SEED, TINY)
        seen = observe(exercise, answer, key.cases, TINY)
        trials = key.trials(seen)
        wrong = search(exercise, key, trials, symptoms_of(exercise, trials))
        key = replace(key, wrong=wrong, whole=True)
        self.forbid()
        try:
            return desk.to_dict(), judge(without_code(exercise), key, seen).to_dict()
        finally:
            self.allow()

    @pytest.mark.parametrize("exercise", list(TINY), ids=lambda e: e.id)
    def test_runs_nothing_and_gives_the_desk_s_report(self, exercise):
        for answer in answers(exercise):
            if not callable(answer) or answer is not exercise.reference:
                desk, pure = self.judged(exercise.id, answer)
                assert pure == desk
        seen = run(exercise, exercise.reference, begin_key(exercise, SEED).cases)
        key = make_key(exercise, SEED)
        self.forbid()
        assert judge(without_code(exercise), key, seen).passed

    @pytest.mark.parametrize(("exercise", "ids"), TWO_AT_ONCE)
    def test_runs_nothing_to_name_two_mistakes_at_once(self, exercise, ids):
        desk, pure = self.judged(exercise.id, both(exercise, *ids))
        assert pure == desk
        assert pure["misconceptions"] == ids


class TestTheKey:
    def test_a_lazy_key_runs_a_misconception_only_until_it_differs(self):
        key = begin_key(STANDARDISED, SEED)
        trials = key.trials(run(STANDARDISED, lambda x: x * 3, key.cases))
        search(STANDARDISED, key, trials, symptoms_of(STANDARDISED, trials))
        ran = Counter(name for name, _, _ in key.remembered)
        assert ran.keys() == STANDARDISED.variants.keys()
        assert all(count < len(key.cases) for count in ran.values())

    def test_refuses_a_property_whose_role_no_case_has(self):
        lost = Property("lost", "Never looked at", lambda *t: True, role="nowhere", gate=True)
        exercise = replace(STANDARDISED, properties=(*STANDARDISED.properties, lost))
        for made in (begin_key, make_key):
            with pytest.raises(ValueError, match="standardised: no case has the role that lost"):
                made(exercise, 0)

    def test_of_a_quiz_is_empty(self):
        assert make_key(SHAPES, 0).wrong == {}


class TestNaming:
    @pytest.mark.parametrize(("exercise", "ids"), TWO_AT_ONCE)
    def test_says_both_of_two_mistakes(self, exercise, ids):
        report = check_exercise(exercise, both(exercise, *ids))
        assert report.misconceptions == ids
        assert report.misconception == ids[0]
        for m in map(exercise.misconception, ids):
            assert m.what in str(report)
            assert m.look in report._repr_html_()
        assert "And at the same time" in str(report)

    @pytest.mark.parametrize(("exercise", "ids"), TWO_AT_ONCE)
    def test_prefers_one_mistake_to_two(self, exercise, ids):
        for id in ids:
            report = check_exercise(exercise, exercise.misconception(id).answer)
            assert report.misconceptions == (id,)

    def test_of_a_right_or_unknown_answer_is_none(self):
        for answer in (lambda x: STANDARDISED.reference(x), lambda x: x * 3):
            report = check_exercise(STANDARDISED, answer)
            assert (report.misconception, report.misconceptions) == (None, ())

    def test_two_mistakes_are_named_if_a_part_of_the_result_is_finite(self):
        spread = "variance.sqrt()"
        program = STANDARDISED.right.edited((spread, f"({spread} - {spread}[..., :1, :])"))
        infinite = replace(STANDARDISED.misconceptions[0], id="infinite", program=program)
        exercise = replace(STANDARDISED, misconceptions=(*STANDARDISED.misconceptions, infinite))
        ids = "not_centred", "infinite"
        assert check_exercise(exercise, both(exercise, *ids)).misconceptions == ids

    def test_two_mistakes_in_one_line_are_not_tried_together(self):
        (centred, *_) = STANDARDISED.misconceptions
        program = STANDARDISED.right.edited(("x.mean(-1", "0.5 * x.mean(-1"))
        less = STANDARDISED.right.edited(("x.mean(-1", "0.25 * x.mean(-1"))
        halves = [replace(centred, id="half_centred", program=p) for p in (program, less)]
        known = (centred, *halves, STANDARDISED.misconception("corrected"))
        exercise = replace(STANDARDISED, misconceptions=known)
        tried = Search(exercise, begin_key(exercise, SEED), [], frozenset(), {}).pairs()
        assert {name for name, _ in tried} == {
            f"{id}+corrected" for id in ("not_centred", "half_centred", "half_centred 2")
        }

    def test_without_a_name_the_row_about_values_says_on_which_cases_they_are_right(self):
        def answer(x):
            return STANDARDISED.reference(x) if x.dim() < 3 else x * 3

        (row,) = [r for r in check_exercise(STANDARDISED, answer).behaviours if r.id == "values"]
        assert row.text.endswith("on every case; yours are wrong only here: random numbers")
        (row,) = [
            r for r in check_exercise(STANDARDISED, lambda x: x * 3).behaviours if r.id == "values"
        ]
        assert row.text.endswith("on every case")

    def test_nothing_is_named_where_only_pairs_ran(self):
        key = begin_key(STANDARDISED, SEED)
        trials = key.trials(run(STANDARDISED, lambda x: x * 3, key.cases))
        shown = symptoms_of(STANDARDISED, trials)
        for known in ({}, {"not_centred+corrected": {}}):
            assert on_most_cases(STANDARDISED, trials, shown, known) == []

    def test_one_that_differs_on_few_cases_is_named(self):
        def answer(x):
            other = STANDARDISED.reference if x.dtype == torch.float64 else as_it_came
            return other(x)

        as_it_came = STANDARDISED.misconception("as_it_came").answer
        several = [
            *_cases(SEED),
            *(replace(c, name=f"again {i}") for i, c in enumerate(_cases(SEED + 1)) if i == 1),
            *(replace(c, name=f"more {i}") for i, c in enumerate(_cases(SEED + 2)) if i == 1),
        ]
        exercise = replace(STANDARDISED, cases=lambda seed: several)
        assert check_exercise(exercise, answer).misconceptions == ("as_it_came",)
        assert check_exercise(STANDARDISED, answer).misconceptions == ()


class TestProperties:
    def test_a_string_says_how_one_fails(self):
        told = Property("told", "It is told", lambda *t: "is off by one")
        exercise = replace(STANDARDISED, properties=(told,))
        report = check_exercise(exercise, lambda x: STANDARDISED.reference(x))
        (row,) = [r for r in report.behaviours if r.id == "told"]
        assert (row.holds, row.text) == (False, "It is told; yours is off by one")

    def test_look_only_at_cases_of_their_role(self):
        looked = []

        def look(case, seen, expected):
            looked.append(case.name)
            return True

        role = Property("look", "It is looked at", look, role="typical")
        renamed = replace(
            STANDARDISED,
            properties=(role,),
            cases=lambda seed: [replace(c, name=f"new {i}") for i, c in enumerate(_cases(seed))],
        )
        check_exercise(renamed, lambda x: x * 3)
        assert set(looked) == {"new 1"}

    def test_a_failing_gate_leaves_no_partial_credit(self):
        gated = check_exercise(STANDARDISED, lambda x: x - x.mean(-1, keepdim=True))
        copied = check_exercise(STANDARDISED, lambda x: x)
        assert gated.points == 0.5 and copied.points == 0.0

    def test_a_case_without_observation_does_not_pass(self):
        key = make_key(STANDARDISED, SEED)
        seen = run(STANDARDISED, STANDARDISED.reference, key.cases)
        assert judge(STANDARDISED, key, seen).passed
        assert not judge(STANDARDISED, key, seen[:-1]).passed
        assert not judge(STANDARDISED, key, [Observation() for _ in seen]).passed


_cases = STANDARDISED.cases


def test_a_weight_that_has_no_effect_in_a_case_has_the_gradient_0():
    expect = expect_module(lambda case, weights, x: x * weights["scale"])
    weights = {"scale": torch.ones(3), "unused": torch.ones(3)}
    case = Case("one token", {"x": torch.ones(1, 3)}, options={"weights": weights})
    assert not expect(case)["grad:unused"].any()


def test_a_mistake_beside_an_earlier_part_that_fails_is_named():
    uses = replace(STANDARDISED, id="second", rules=Rules(uses=("standardised",)))
    space = {}
    exec(
        "def standardised(x):\n    1 / 0\ndef second(x):\n    standardised(x)\n    return x", space
    )
    report = check_exercise(uses, space["second"], 0, Catalogue.of(STANDARDISED, uses))
    assert report.misconception == "as_it_came" and "ZeroDivisionError" in report.message
