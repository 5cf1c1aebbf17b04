"""Judging compares with a key and runs nothing; the key made at once is the key made on demand."""

import threading
from dataclasses import replace
from functools import cache

import pytest

from course_utils.checking import (
    AnswerKey,
    Misconceptions,
    Observation,
    Property,
    begin_key,
    check_exercise,
    extend_key,
    judge,
    make_key,
    observe,
)
from course_utils.checking.comparing import same
from course_utils.checking.exercise import Mistake, mixed, sentences
from course_utils.checking.guard import run, undisturbed
from course_utils.checking.key import _pairs
from course_utils.checking.quizzes import filled
from course_utils.desk import catalogue

from .answers import RIGHT, WRONG
from .tiny import (
    CAUSAL_MEAN,
    COPY_LINEAR,
    SHAPES,
    STANDARDISED,
    TINY,
    CausalMean,
    Corrected,
    NotCentred,
    SeesAll,
    Standardised,
    Sums,
    Variance,
)

COURSE = catalogue()
SEED = 3


def broken(*args, **kwargs):
    raise AssertionError("this ran while an answer was judged")


class Broken(type):
    """A class of which no instance can be made."""

    def __call__(cls, *args, **kwargs):
        broken()


def without_code(exercise):
    """The exercise with everything in it that could be run replaced by what raises."""
    wrong = [
        m
        if exercise.kind == "quiz"
        else replace(m, answer=broken, mistake=None, right=Broken("Right", (), {}))
        for m in exercise.misconceptions
    ]
    return replace(
        exercise,
        cases=broken,
        probe=broken,
        expect=broken,
        reference=broken,
        misconceptions=Misconceptions.of(*wrong),
    )


@cache
def shortened(id):
    """An exercise with its first misconceptions, and their key made at once."""
    whole = (COURSE + TINY).find(id)
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


TWO_AT_ONCE = [
    (STANDARDISED, Standardised, (NotCentred, Corrected)),
    (STANDARDISED, Standardised, (NotCentred, Variance)),
    (CAUSAL_MEAN, CausalMean, (SeesAll, Sums)),
]


class TestJudging:
    @pytest.fixture(autouse=True)
    def no_threads(self, monkeypatch):
        self.forbid = lambda: monkeypatch.setattr(threading.Thread, "start", broken)
        self.allow = monkeypatch.undo

    def judged(self, id, answer):
        """The desk's report, and that of a judge who can't run anything."""
        exercise, key = shortened(id)
        desk = check_exercise(exercise, answer, SEED, COURSE + TINY)
        seen = observe(exercise, answer, key.cases, COURSE + TINY)
        extend_key(exercise, key, seen)
        self.forbid()
        try:
            return desk.to_dict(), judge(without_code(exercise), key, seen).to_dict()
        finally:
            self.allow()

    @pytest.mark.parametrize("exercise", list(TINY), ids=lambda e: e.id)
    def test_runs_nothing_and_says_what_the_desk_says(self, exercise):
        for answer in answers(exercise):
            if not callable(answer) or answer is not exercise.reference:
                desk, pure = self.judged(exercise.id, answer)
                assert pure == desk
        seen = run(exercise, exercise.reference, begin_key(exercise, SEED).cases)
        key = make_key(exercise, SEED)
        self.forbid()
        assert judge(without_code(exercise), key, seen).passed

    @pytest.mark.parametrize(
        "id", ["naive_mean", "softmax", "CausalSelfAttention", "copy_wrapper_to_split"]
    )
    def test_runs_nothing_for_exercises_of_the_course(self, id):
        exercise = COURSE.find(id)
        for answer in [
            *(m.answer for m in exercise.misconceptions[:2]),
            *list(WRONG[id].values())[:2],
            next(iter(RIGHT[id].values())),
        ]:
            desk, pure = self.judged(exercise.id, answer)
            assert pure == desk

    @pytest.mark.parametrize(("exercise", "right", "mistakes"), TWO_AT_ONCE)
    def test_runs_nothing_to_name_two_mistakes_at_once(self, exercise, right, mistakes):
        desk, pure = self.judged(exercise.id, mixed(right, *mistakes))
        assert pure == desk
        assert pure["misconceptions"] == tuple(m.id() for m in mistakes)


class TestTheKey:
    def test_made_at_once_and_made_on_demand_give_the_same_report(self):
        exercise = COURSE.find("naive_mean")
        whole = make_key(exercise, SEED)
        for answer in [*list(answers(exercise))[::4], *list(WRONG["naive_mean"].values())[::4]]:
            lazy = AnswerKey(whole.cases, whole.expected)
            seen = run(exercise, answer, lazy.cases, {})
            extend_key(exercise, lazy, seen)
            extend_key(exercise, whole, seen)
            assert judge(exercise, lazy, seen) == judge(exercise, whole, seen)

    @pytest.mark.parametrize(
        "exercise", [e for e in COURSE if e.kind != "quiz"], ids=lambda e: e.id
    )
    def test_on_demand_names_each_misconception_as_itself(self, exercise):
        """The matrix has a whole key; a student's desk follows the likeliest alone."""
        for name, m in list(exercise.variants.items())[::15]:
            said = check_exercise(exercise, m.answer, 20_261_121, COURSE).misconceptions
            assert said == (m.id,), name

    def test_on_demand_follows_a_misconception_only_until_it_parts(self):
        key = begin_key(STANDARDISED, SEED)
        extend_key(STANDARDISED, key, run(STANDARDISED, lambda x: x * 3, key.cases))
        assert all(len(known) < len(key.cases) for known in key.wrong.values())

    def test_refuses_a_property_whose_role_no_case_has(self):
        lost = Property("lost", "Never looked at", lambda *t: True, role="nowhere", gate=True)
        exercise = replace(STANDARDISED, properties=(*STANDARDISED.properties, lost))
        for made in (begin_key, make_key):
            with pytest.raises(ValueError, match="standardised: no case has the role that lost"):
                made(exercise, 0)

    def test_watches_the_answer_for_operators_and_not_the_course_s_own_code(self):
        exercise = COURSE.find("LayerNorm")
        key = begin_key(exercise, SEED)
        typical = [c for c in key.cases if "typical" in c.roles]
        (seen,) = run(exercise, exercise.reference, typical)
        assert "ops" in seen.facts
        with undisturbed():
            own = exercise.probe(exercise.reference, typical[0])
            (watched,) = run(exercise, exercise.reference, typical)
        assert "ops" not in own.facts
        assert watched.facts["ops"] == seen.facts["ops"]
        assert same(own.tensors, seen.tensors)

    def test_of_a_quiz_is_empty(self):
        assert make_key(SHAPES, 0).wrong == {}


class TestNaming:
    @pytest.mark.parametrize(("exercise", "right", "mistakes"), TWO_AT_ONCE)
    def test_says_both_of_two_mistakes(self, exercise, right, mistakes):
        report = check_exercise(exercise, mixed(right, *mistakes))
        assert report.misconceptions == tuple(m.id() for m in mistakes)
        assert report.misconception == mistakes[0].id()
        for m in mistakes:
            assert sentences(m.__doc__)["what"] in str(report)
            assert sentences(m.__doc__)["mend"] in report._repr_html_()
        assert "And at the same time" in str(report)

    @pytest.mark.parametrize(("exercise", "right", "mistakes"), TWO_AT_ONCE)
    def test_prefers_one_mistake_to_two(self, exercise, right, mistakes):
        for m in mistakes:
            report = check_exercise(exercise, mixed(right, m))
            assert report.misconceptions == (m.id(),)

    def test_of_a_right_answer_or_of_nothing_known_is_none(self):
        for answer in (lambda x: Standardised()(x), lambda x: x * 3):
            report = check_exercise(STANDARDISED, answer)
            assert (report.misconception, report.misconceptions) == (None, ())

    def test_two_mistakes_in_one_step_are_not_tried_together(self):
        class HalfCentred(Mistake):
            """Half. Why: Half a mean is none. Mend: Where is the other half?"""

            share = 0.5

            def centred(self, x):
                return x - x.mean(-1, keepdim=True) * self.share

        less = HalfCentred.but(share=0.25)
        both = Misconceptions.of(NotCentred, HalfCentred, less, Corrected, on=Standardised)
        tried = _pairs(replace(STANDARDISED, misconceptions=both), {}, frozenset())
        pairs = {(a, b) for (a, _), (b, _) in tried}
        assert pairs == {
            (id, "corrected") for id in ("not_centred", "half_centred", "half_centred 2")
        }


ROWS = [
    ("TokenAndPosition", "a gain besides", "nothing_kept", "A call keeps nothing of the calls"),
    ("LayerNorm", "a gain besides", "nothing_kept", "It keeps nothing of the calls before"),
    ("CausalSelfAttention", "NeverBiasedAndBroken", "runs", "It runs on every input"),
    ("CausalSelfAttention", "OtherNames", "runs", "It has the parameters that were asked for"),
    ("TransformerBlock", "mask forgotten", "nothing_kept", "; yours remembers something"),
]


@pytest.mark.parametrize(("id", "name", "row", "text"), ROWS)
def test_a_row_says_no_more_than_was_seen(id, name, row, text):
    report = check_exercise(COURSE.find(id), WRONG[id][name], catalogue=COURSE)
    (told,) = [r for r in report.behaviours if r.id == row]
    assert text in told.text


def test_what_is_no_parameter_is_not_called_one():
    cut = WRONG["cached_attention_step"]["the cache detached"]
    message = check_exercise(COURSE.find("cached_attention_step"), cut, catalogue=COURSE).message
    assert "no gradient reaches kept keys" in message
    assert "parameter" not in message


class TestProperties:
    def test_a_string_says_how_one_fails(self):
        told = Property("told", "It is told", lambda *t: "is off by one")
        exercise = replace(STANDARDISED, properties=(told,))
        report = check_exercise(exercise, lambda x: Standardised()(x))
        (row,) = [r for r in report.behaviours if r.id == "told"]
        assert (row.holds, row.text) == (False, "It is told; yours is off by one")

    def test_look_at_cases_of_their_role_alone(self):
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
        assert gated.points == 1.0 and copied.points == 0.0

    def test_an_unseen_case_is_no_pass(self):
        key = make_key(STANDARDISED, SEED)
        seen = run(STANDARDISED, Standardised(), key.cases)
        assert judge(STANDARDISED, key, seen).passed
        assert not judge(STANDARDISED, key, seen[:-1]).passed
        assert not judge(STANDARDISED, key, [Observation() for _ in seen]).passed


_cases = STANDARDISED.cases


def test_sharing_memory_is_told_though_the_values_are_right():
    (named,) = [m for m in COPY_LINEAR.misconceptions if m.id == "shares_memory"]
    assert check_exercise(COPY_LINEAR, named.answer).misconception == "shares_memory"
