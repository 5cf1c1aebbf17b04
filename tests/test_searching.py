"""The search for a misconception: what it doesn't run, because it can't explain the answer."""

import pytest

from whywrong._answers import has_bound, names_called
from whywrong._checker import observe
from whywrong._exercise import Program
from whywrong._judging import symptoms_of
from whywrong._naming import search
from whywrong.hosting import cached_key, catalogue

COURSE = catalogue()
ATTENTION = COURSE.find("MultiHeadAttention")


def pairs_run(answer):
    key = cached_key(ATTENTION, 0)
    trials = key.trials(observe(ATTENTION, answer, key.cases, COURSE))
    shown, symptoms = symptoms_of(ATTENTION, trials), COURSE.symptoms[ATTENTION.id]
    return [n for n in search(ATTENTION, key, trials, shown, symptoms) if "+" in n]


def with_edit(old, new):
    assert old in ATTENTION.right.source
    return Program(ATTENTION.right.source.replace(old, new), ATTENTION.right.names).answer


def test_a_misconception_that_gives_nan_in_training_explains_itself_without_pairs():
    assert pairs_run(ATTENTION.variants["over_queries"].answer) == []


@pytest.mark.parametrize("rate", ["1.2 * dropout", "0.5 * dropout"])
def test_a_few_draws_show_which_pairs_drop_otherwise(rate):
    assert pairs_run(with_edit("nn.Dropout(dropout)", f"nn.Dropout({rate})")) == []


def test_only_names_that_are_read_count_as_called():
    module = object()

    def answer(x):
        return module.softmax(x) + mean(x)  # noqa: F821

    assert names_called(answer) == {"mean"}


def test_an_answer_that_has_the_course_s_parts_is_not_run_again_with_them():
    parts = COURSE.earlier_parts(ATTENTION, {"split_heads", "merge_heads"})
    assert has_bound(ATTENTION.reference, parts)
    assert not has_bound(ATTENTION.reference, {**parts, "split_heads": print})
