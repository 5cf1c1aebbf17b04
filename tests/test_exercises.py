"""The catalogue's promises: right answers pass, wrong ones don't, misconceptions are named."""

import pytest

from course_utils.checking import check_exercise
from course_utils.exercises import by_lesson

from .answers import RIGHT, WRONG
from .matrix import SEEDS

EXERCISES = [e for exercises in by_lesson().values() for e in exercises]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
class TestEachExercise:
    def test_has_enough_of_everything(self, exercise):
        needed = 6 if exercise.kind == "class" else 4
        assert len(exercise.misconceptions) >= needed
        assert len(RIGHT[exercise.id]) >= 2
        assert len(WRONG[exercise.id]) >= (10 if exercise.kind != "quiz" else 4)
        assert 2 <= len(exercise.hints) <= 3

    def test_has_points_that_survive_as_text(self, exercise):
        assert exercise.points > 0
        assert exercise.points * 4 == int(exercise.points * 4)

    def test_speaks_in_full_and_different_sentences(self, exercise):
        ids = [m.id for m in exercise.misconceptions]
        assert len(set(ids)) == len(ids)
        for m in exercise.misconceptions:
            for sentence in (m.what, m.why, m.mend):
                assert sentence[-1] in ".?!…`", (m.id, sentence)
                assert len(sentence) <= 230, (m.id, sentence)
        assert len({m.what for m in exercise.misconceptions}) == len(ids)

    def test_draws_sizes_that_differ_within_a_tensor(self, exercise):
        if exercise.kind != "function":
            return
        inputs = [v for s in SEEDS for c in exercise.cases(s) for v in c.inputs.values()]
        shapes = [tuple(v.shape) for v in inputs if getattr(v, "ndim", 0) > 1]
        assert not shapes or any(len(set(shape)) == len(shape) for shape in shapes)

    def test_draws_other_cases_for_another_seed_and_the_same_for_the_same(self, exercise):
        def told(seed):
            return [str(c.inputs) for c in exercise.cases(seed)]

        assert told(3) == told(3)
        if exercise.kind != "quiz":
            assert told(3) != told(4)

    def test_gives_a_stub_nothing(self, exercise):
        def returns_nothing(*args, **kwargs):
            """A docstring."""

        def returns_dots(*args, **kwargs):
            return ...

        def not_implemented(*args, **kwargs):
            raise NotImplementedError

        stubs = [..., None]
        if exercise.kind == "function":
            stubs += [returns_nothing, returns_dots, not_implemented]
        if exercise.kind == "quiz":
            stubs += [{}, dict.fromkeys(exercise.cases(0)[0].options["entries"], ...)]
        for stub in stubs:
            report = check_exercise(exercise, stub)
            assert (report.points, report.attempted) == (0.0, False), str(report)
