"""Names for the course's misconceptions: found on demand, and as by the matrix."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from course_utils import attention
from whywrong import check_exercise, same
from whywrong._guard import undisturbed
from whywrong._key import begin_key
from whywrong.hosting import catalogue, run

COURSE = catalogue()
SEED = 3
ALWAYS = ("masked_softmax", "CausalSelfAttention", "split_heads", "generate", "patient_b")
NAMED = [
    pytest.param(e, marks=[] if e.id in ALWAYS else pytest.mark.full("names found on demand"))
    for e in COURSE
    if e.kind != "quiz"
]


class TestTheKey:
    @pytest.mark.parametrize("exercise", NAMED, ids=lambda e: e.id)
    def test_a_lazy_key_names_each_misconception_as_itself(self, exercise):
        """The matrix has a whole key; a student's desk runs only the most likely misconceptions."""
        exercise = replace(
            exercise, rules=replace(exercise.rules, as_found=None)
        )  # otherwise submitting it is not an attempt
        for name, m in list(exercise.variants.items())[::8]:
            said = check_exercise(exercise, m.answer, 20_261_121, COURSE).misconceptions
            assert said == (m.id,), name

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


class TestNaming:
    @pytest.mark.parametrize("fill", [-3.0, -20.0, -90.0, -110.0, -1_000.0])
    def test_a_fill_of_any_number_is_one_idea(self, fill):
        def filled(scores, hidden):
            return torch.softmax(scores.masked_fill(hidden, fill), dim=-1)

        def cleared(scores, hidden):
            return filled(scores, hidden).masked_fill(hidden, 0.0)

        for id in ("masked_softmax", "safe_masked_softmax"):
            for answer in (filled, cleared):
                report = check_exercise(COURSE.find(id), answer, SEED, COURSE)
                assert report.misconceptions == ("fill_not_low_enough",), (id, answer.__name__)

    @pytest.mark.parametrize("number", [3.0, 20.0, 50.0, 90.0])
    def test_scores_lowered_by_any_number_are_the_same_idea(self, number):
        def lowered(scores, hidden):
            return torch.softmax(scores - number * hidden, dim=-1)

        def with_zeros(scores, hidden):
            return lowered(scores, hidden).masked_fill(hidden.all(dim=-1, keepdim=True), 0.0)

        def built_in(query, key, value, hidden=None):
            bias = None if hidden is None else torch.atleast_2d(-number * hidden).to(query)
            return scaled_dot_product_attention(query, key, value, attn_mask=bias)

        answers = [("masked_softmax", lowered), ("safe_masked_softmax", lowered)]
        answers += [("safe_masked_softmax", with_zeros), ("sdpa_attention", built_in)]
        for id, answer in answers:
            report = check_exercise(COURSE.find(id), answer, SEED, COURSE)
            assert report.misconceptions == ("fill_not_low_enough",), (id, answer.__name__)

    @pytest.mark.parametrize("number", [-10.0, 1e4])
    def test_scores_that_are_raised_or_low_enough_are_another_idea(self, number):
        def lowered(scores, hidden):
            return torch.softmax(scores - number * hidden, dim=-1)

        report = check_exercise(COURSE.find("safe_masked_softmax"), lowered, SEED, COURSE)
        assert not report.passed
        assert "fill_not_low_enough" not in report.misconceptions


class OtherNames(nn.Module):
    """A head whose layers have different names."""

    def __init__(self, d_in, d_out, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.inner = attention.CausalSelfAttention(d_in, d_out, context_length, dropout, qkv_bias)

    def forward(self, x):
        return self.inner(x)


def test_a_row_claims_no_more_than_was_observed():
    report = check_exercise(COURSE.find("CausalSelfAttention"), OtherNames, catalogue=COURSE)
    told = next(row for row in report.behaviours if row.id == "runs")
    assert "It has the parameters that it should" in told.text


def test_only_parameters_are_called_parameters():
    def cut(query, key, value, cache):
        kept = cache and tuple(part.detach() for part in cache)
        return attention.cached_attention_step(query, key, value, kept)

    message = check_exercise(COURSE.find("cached_attention_step"), cut, catalogue=COURSE).message
    assert "no gradient reaches kept keys" in message
    assert "parameter" not in message
