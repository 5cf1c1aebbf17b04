"""A card's other way to write an answer is right, short, and begins with a sentence."""

import ast
import math
from collections import Counter

import pytest
import torch

from course_utils import attention, language_model, todays_models, transformer
from course_utils.data import real_text
from course_utils.desk.checks import catalogue
from whywrong import check_exercise

EXERCISES = catalogue()
WITH_ANOTHER = [exercise for exercise in EXERCISES if exercise.other_way]


@pytest.mark.parametrize("exercise", WITH_ANOTHER, ids=lambda e: e.id)
def test_it_gets_full_points_unchanged(exercise):
    """It may use earlier exercises by name, like a reader."""
    lesson = {
        "torch": torch,
        "math": math,
        "Counter": Counter,
        "merged": real_text.merged,
        "todays_models": todays_models,
        "attention": attention,
        "transformer": transformer,
        "nn": torch.nn,
        "F": torch.nn.functional,
        **{
            e.id: getattr(part, e.id)
            for part in (attention, transformer, language_model)
            for e in EXERCISES
            if hasattr(part, e.id)
        },
    }
    space = {**lesson}
    exec(exercise.other_way, space)
    assert space[exercise.id] is not lesson.get(exercise.id)
    report = check_exercise(exercise, space[exercise.id])
    assert report.passed and report.points == exercise.points, str(report)


@pytest.mark.parametrize("exercise", WITH_ANOTHER, ids=lambda e: e.id)
def test_it_is_short_and_begins_with_a_sentence(exercise):
    first, *lines = exercise.other_way.splitlines()
    said = [line for line in (first, *lines) if line.startswith("# ")]
    assert first.startswith("# ") and said[-1].endswith(".")
    assert len(lines) <= 25
    assert max(map(len, [first, *lines])) <= 100
    defined = [getattr(node, "name", None) for node in ast.parse(exercise.other_way).body]
    assert exercise.id in defined
