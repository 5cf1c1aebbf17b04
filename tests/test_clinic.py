"""Lesson 14: the original programs, as handed out and fixed; the lesson's experiments."""

import ast
import inspect
import math
from dataclasses import replace
from typing import ClassVar

import nbformat
import pytest
import torch

from course_utils.data import toy_english
from course_utils.experiments import clinic
from tools import NOTEBOOKS, SOLUTIONS
from whywrong import check_exercise
from whywrong._answers import same_code
from whywrong.hosting import Rules, joined
from whywrong_nbgrader.cells import as_found

COURSE = joined(())

LESSON = "6-practice/14_pitfall_clinic.ipynb"
LETTERS = clinic.LETTERS
FIXES = [e for e in COURSE.by_lesson[LESSON.removesuffix(".ipynb")] if e.rules.as_found]
PER_PATIENT = {e.rules.as_found.__name__[-1].upper(): e for e in FIXES}
BESIDE = "the old king that the dogs like sees the children again. the cats sleep."
each_patient = pytest.mark.parametrize("letter", LETTERS)


def defined(folder, name):
    """The definitions in the solution cell of an exercise."""
    (cell,) = [c for c in nbformat.read(folder / LESSON, 4).cells if c.id == name]
    space = {"torch": torch, "math": math, "nn": torch.nn, "F": torch.nn.functional}
    exec(cell.source, space)
    return space[name]


def pushed(program, new):
    """The number of positions that the model processes to append `new` words to one word."""
    lengths = []
    hook = clinic.reader().register_forward_hook(
        lambda _, args, __: lengths.append(args[0].numel())
    )
    program(clinic.reader(), torch.zeros(1, 1, dtype=torch.int64), new)
    hook.remove()
    return sum(lengths)


class TestAsFound:
    @each_patient
    def test_a_student_gets_the_program_that_was_shown(self, letter):
        exercise = PER_PATIENT[letter]
        given = defined(NOTEBOOKS, exercise.id)
        assert same_code(given, clinic.AS_FOUND[letter])
        assert not same_code(defined(SOLUTIONS, exercise.id), clinic.AS_FOUND[letter])
        assert inspect.signature(given) == inspect.signature(clinic.AS_FOUND[letter])

    @each_patient
    def test_left_as_it_was_found_it_is_not_attempted(self, letter):
        exercise = PER_PATIENT[letter]
        report = check_exercise(exercise, clinic.AS_FOUND[letter], 0, COURSE)
        assert (report.points, report.attempted) == (0.0, False)

    @each_patient
    def test_a_broken_program_with_renamed_variables_is_named_and_gets_nothing(self, letter):
        exercise = PER_PATIENT[letter]
        report = check_exercise(replace(exercise, rules=Rules()), clinic.AS_FOUND[letter], 0)
        assert (report.points, report.attempted, report.passed) == (0.0, True, False)
        assert report.misconceptions == (exercise.misconceptions[0].id,)

    def test_a_comment_or_a_docstring_is_no_fix_but_a_number_is(self):
        space = {}
        exec("def a(x):\n    return x + 1", space)
        exec("def b(x):\n    '''Adds.'''\n    # one\n    return x + 1", space)
        exec("def c(x):\n    return x + 2", space)
        assert same_code(space["a"], space["b"]) and not same_code(space["a"], space["c"])
        assert not same_code(space["a"], None) and not same_code(None, None)

    def test_the_broken_lines_replace_the_solution(self):
        cell = (
            "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    ### AS FOUND\n    # if x:\n"
            "    #     y = 1  # so\n\n    # # a remark\n    ### END SOLUTION\n    return y"
        )
        found = as_found(cell)
        assert found == "def f(x):\n    if x:\n        y = 1  # so\n\n    # a remark\n    return y"
        assert as_found(found) == found
        plain = "a = {\n    ### BEGIN SOLUTION\n    1: 2,\n    ### END SOLUTION\n}"
        assert as_found(plain) == plain

    def test_a_patient_s_name_gives_nothing_away(self):
        text = inspect.getsource(inspect.getmodule(clinic.AS_FOUND["A"]))
        names = [n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
        assert names == [f"patient_{letter.lower()}" for letter in LETTERS]
        for letter in LETTERS:
            assert PER_PATIENT[letter].id == f"patient_{letter.lower()}"
            assert 12 <= len(inspect.getsource(clinic.AS_FOUND[letter]).splitlines()) <= 30


class TestInstruments:
    FOUND: ClassVar = {
        "sound": "",
        "A": "batch as alone",
        "B": "",
        "C": "mean of ones",
        "D": "let it write",
        "E": "mean of ones, batch as alone, change the future",
        "F": "let it write",
        "G": "batch as alone, change the future, let it write",
        "H": "",
    }

    def test_which_instrument_finds_which_patient(self):
        found = clinic.examined(clinic.as_found())
        assert {p: ", ".join(t for t, hit in row.items() if hit) for p, row in found.items()} == (
            self.FOUND
        )

    def test_three_have_a_loss_below_the_possible_minimum(self):
        ends = {p: list(clinic.losses(p).values())[-1] for p in LETTERS}
        assert [p for p, loss in ends.items() if loss < clinic.FLOOR - 0.1] == ["D", "E", "G"]
        assert clinic.FLOOR == pytest.approx(toy_english.least_loss(24), abs=5e-4)
        assert all(abs(ends[p] - clinic.FLOOR) < 0.05 for p in "ABCFH")

    def test_none_finds_a_fault_after_the_fixes(self):
        models = {letter: clinic.treated(letter, clinic.FIXED[letter]) for letter in "ABCEFG"}
        assert not any(any(row.values()) for row in clinic.examined(models).values())

    @pytest.mark.parametrize(
        "letter", ["D", pytest.param("G", marks=pytest.mark.full("the lessons' experiments"))]
    )
    def test_trained_again_with_the_fix_it_is_above_the_floor_and_writes_well(self, letter, capsys):
        assert clinic.speaks(clinic.loss_and_text(letter, "the dogs", clinic.FIXED[letter]))
        assert 1.23 <= float(capsys.readouterr().out.split()[1].rstrip(",")) <= 1.4

    def test_training_begins_with_the_stored_losses(self):
        _, losses = clinic.train("G", steps=10)
        assert sum(losses) / 10 == pytest.approx(clinic.losses("G")[5], rel=0.15)


class TestSymptoms:
    def test_another_text_in_the_batch_changes_the_next_word(self):
        text, other = "the cat sees", BESIDE
        models = {"sleeps": clinic.trained("A"), "the": clinic.treated("A", clinic.FIXED["A"])}
        for word, model in models.items():
            assert clinic.next_word(model, text) == "the"
            assert clinic.next_word(model, text, beside=other) == word

    def test_width_makes_nan_in_half_precision(self):
        bad = [clinic.in_half(clinic.AS_FOUND["B"], w).isnan().any() for w in (32, 64, 512)]
        assert [bool(b) for b in bad] == [False, False, True]
        assert all(clinic.in_half(clinic.FIXED["B"], w).isfinite().all() for w in (32, 512, 2048))

    def test_a_loss_without_nan_still_gives_nan_weights(self):
        *losses, weight = clinic.train_in_half(clinic.AS_FOUND["B"], torch.nan_to_num)
        assert losses == [0, 0, 0] and math.isnan(weight)
        *losses, weight = clinic.train_in_half(clinic.FIXED["B"], lambda loss: loss)
        assert losses[0] > losses[1] > losses[2] and math.isfinite(weight)

    def test_two_of_ten_channels_have_no_effect_until_the_fix_refuses(self):
        assert clinic.channels_used(clinic.AS_FOUND["C"], 10, 5) == "0 1 2 3 4 5 6 7 8 9"
        assert clinic.channels_used(clinic.AS_FOUND["C"], 10, 4) == "0 1 2 3 4 5 6 7"
        assert clinic.channels_used(clinic.FIXED["C"], 10, 4).startswith("ValueError: ")

    def test_first_tokens_have_small_outputs_until_the_fix(self):
        found, fixed = (clinic.output_norms(p["E"]) for p in (clinic.AS_FOUND, clinic.FIXED))
        assert float(found[0]) < 0.1 * float(fixed[0])
        assert float(found[-1]) == pytest.approx(float(fixed[-1]), rel=1e-4)

    def test_only_the_longest_text_breaks(self):
        found = [clinic.outcome(clinic.AS_FOUND["F"], n) for n in (1, 23, 24)]
        assert found[:2] == ["fine", "fine"] and found[2].startswith("IndexError")
        assert clinic.outcome(clinic.FIXED["F"], 24) == "fine"

    def test_positions_grow_quadratically_unless_cached(self):
        assert pushed(clinic.AS_FOUND["H"], 100) == 5_050
        assert pushed(clinic.FIXED["H"], 100) == 100
        beginning = torch.zeros(1, 3, dtype=torch.int64)
        texts = [p["H"](clinic.reader(), beginning, 9) for p in (clinic.AS_FOUND, clinic.FIXED)]
        assert torch.equal(*texts)
