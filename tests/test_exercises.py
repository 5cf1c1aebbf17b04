"""The catalogue's rules: enough answers, complete sentences, one id per idea, different sizes."""

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from tools import ROOT, rules
from tools.matrix import answers, cells
from tools.sizes import NoLetters, coinciding, sizes
from whywrong import Draw, Observation, Property, check_exercise, same
from whywrong._checker import InProcess
from whywrong._judging import judge
from whywrong._quizzes import filled
from whywrong.hosting import cached_key, catalogue
from whywrong_nbgrader.verdicts import facts

COURSE = catalogue()
EXERCISES = list(COURSE)
CODE = [e for e in EXERCISES if e.kind != "quiz"]
QUIZZES = [e for e in EXERCISES if e.kind == "quiz"]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
each_with_code = pytest.mark.parametrize("exercise", CODE, ids=lambda e: e.id)
each_quiz = pytest.mark.parametrize("exercise", QUIZZES, ids=lambda e: e.id)

# ---------------------------------------------------------------- enough of everything


@each_exercise
def test_an_exercise_has_enough_of_everything(exercise):
    assert [*rules.enough(exercise, [cell.kind for cell in cells(exercise)])] == []


def test_every_answer_has_an_exercise():
    for lesson, exercises in COURSE.by_lesson.items():
        ids = {e.id for e in exercises}
        assert set(answers(lesson).RIGHT) | set(answers(lesson).WRONG) <= ids, lesson


# ---------------------------------------------------------------- sentences


@each_exercise
def test_sentences_are_whole_and_ids_are_words(exercise):
    assert [*rules.sentences(exercise)] == []


def test_one_sentence_has_one_id():
    assert [*rules.one_id(EXERCISES, EXERCISES)] == []


@each_exercise
def test_each_exercise_is_alone_in_its_place(exercise):
    assert [*rules.order(exercise)] == []


# ---------------------------------------------------------------- cases


@each_exercise
def test_another_seed_draws_other_cases_and_the_same_seed_the_same(exercise):
    once, again = exercise.cases(3), exercise.cases(3)
    assert len(once) == len(again)
    for one, other in zip(once, again, strict=True):
        equal = same([one.inputs, one.options], [other.inputs, other.options])
        assert equal or told(one) == told(other)
    if exercise in CODE:
        others = exercise.cases(4)
        told_apart = (told(a) != told(b) for a, b in zip(once, others, strict=False))
        assert len(once) != len(others) or any(told_apart)


def told(case):
    return re.sub(r" at 0x\w+", "", f"{case.inputs}{case.options}")


LARGE = 5_000  # numbers, as in a test of speed or of widths
more_seeds = pytest.mark.full("sizes that differ on 200 seeds")


@pytest.fixture
def quick_to_draw(monkeypatch):
    """Replaces large tensors by zeros: only their sizes matter, and drawing them is slow."""
    normal = Draw.normal

    def drawn(draw, *shape, dtype=torch.float32):
        large = math.prod(shape) > LARGE
        return torch.zeros(shape, dtype=dtype) if large else normal(draw, *shape, dtype=dtype)

    monkeypatch.setattr(Draw, "normal", drawn)


@each_with_code
@pytest.mark.parametrize("seeds", [3, pytest.param(200, marks=more_seeds)])
def test_cases_and_sizes_differ(exercise, seeds, quick_to_draw):
    """Whatever the seed, one case is typical, and no two sizes of a case can be confused."""
    assert [*rules.cases_differ(exercise, range(seeds))] == []


def typical(name):
    exercise = COURSE.find(name)
    (case,) = [c for c in exercise.cases(0) if "typical" in c.roles]
    return exercise, case


@pytest.mark.parametrize(
    ("name", "shapes", "said"),
    [
        ("naive_mean", {"x": (2, 2, 3)}, ["B and T are both 2"]),
        ("naive_mean", {"x": (3, 1, 2)}, ["T is 1"]),
        ("attention_scores", {"query": (2, 3, 4), "key": (2, 3, 4)}, ["S and T are both 3"]),
        ("attention_scores", {"query": (2, 3, 4), "key": (5, 6, 4)}, ["B is 2 and 5"]),
        *(
            ("masked_softmax", {"scores": (2, 3, 4), "hidden": shape}, [])
            for shape in ((3, 4), (2, 1, 4), (2, 3, 4))
        ),
        (
            *("masked_softmax", {"scores": (4, 3, 4), "hidden": (3, 4)}),
            ["0 from the right and 2 from the right are both 4"],
        ),
    ],
)
def test_sizes_that_coincide_are_seen(name, shapes, said):
    exercise, case = typical(name)
    dtypes = {"hidden": torch.bool}
    inputs = {n: torch.zeros(shape, dtype=dtypes.get(n)) for n, shape in shapes.items()}
    planted = replace(case, inputs=inputs)
    assert coinciding(exercise, planted) == said
    if name == "naive_mean":
        assert coinciding(exercise, replace(planted, roles={"small"})) == []


@pytest.mark.parametrize(
    "name", ["CausalSelfAttention", "MultiHeadAttentionWrapper", "MultiHeadAttention"]
)
def test_sizes_of_a_module_s_arguments_that_coincide_are_seen(name):
    exercise, case = typical(name)
    (T,) = sizes(exercise, case)["T"]
    args = list(case.options["args"])
    args[2] = T
    planted = replace(case, options={**case.options, "args": tuple(args)})
    assert coinciding(exercise, planted) == [f"T and context_length are both {T}"]


def test_sizes_of_heads_and_of_weights_are_known_and_an_input_without_letters_is_reported():
    found = sizes(*typical("MultiHeadAttention"))
    (width,), (D,), (H,) = (found[n] for n in ("d_out", "d_head", "num_heads"))
    assert width == D * H
    exercise, case = typical("split_heads")
    planted = replace(case, inputs={"x": torch.zeros(2, 5, 9), "num_heads": 3})
    assert "D and H are both 3" in coinciding(exercise, planted)
    assert {"d_in", "d_out", "B"} <= sizes(*typical("copy_linear_to_matrix")).keys()
    with pytest.raises(NoLetters, match="dimensions of y are missing"):
        coinciding(exercise, replace(case, inputs={"y": torch.zeros(2, 2)}))


def test_a_gate_that_looks_for_a_missing_role_is_an_error():
    gate = Property("gate", "Never opened", lambda *t: True, gate=True, role="nowhere")
    exercise = replace(COURSE.find("naive_mean"), properties=(gate,))
    with pytest.raises(ValueError, match="naive_mean: no case has the role that gate needs"):
        cached_key(exercise, 0)
    report = check_exercise(exercise, lambda x: x)
    assert "The exercise itself is faulty" in report.message and "gate" in report.message


# ---------------------------------------------------------------- what is said of a broken rule

NAIVE, SUMS = COURSE.find("naive_mean"), COURSE.find("attention_scores")


def said(what):
    """An idea with this sentence."""
    return replace(NAIVE.misconceptions[0], what=what)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rules.enough(replace(NAIVE, hints=("One.",)), []), "1 hints instead of 2 or 3"),
        (rules.enough(replace(NAIVE, misconceptions=()), []), "0 misconceptions; a function has"),
        (rules.enough(replace(NAIVE, points=0.3), []), "0.3 points; they are a multiple of 0.25"),
        (rules.enough(NAIVE, ["other right"]), "1 right answers, with the one in the text"),
        (rules.enough(NAIVE, ["first attempt"]), "1 wrong answers instead of 5"),
        (rules.sentences(replace(NAIVE, misconceptions=(said("No stop"),))), "punctuation"),
        (rules.sentences(replace(NAIVE, misconceptions=(said("small."),))), "capital letter"),
        (rules.sentences(replace(NAIVE, misconceptions=(said("Lo" * 200 + "."),))), "over 230"),
        (rules.sentences(replace(NAIVE, hints=("A `tick.",))), "odd number of backticks"),
        (
            rules.one_id([NAIVE], [NAIVE, replace(SUMS, misconceptions=(
                replace(NAIVE.misconceptions[0], id="another"),))]),
            "has two ids",
        ),
        (rules.cases_differ(replace(NAIVE, cases=lambda seed: []), [0]), "exactly one case"),
        (
            rules.cases_differ(replace(NAIVE, cases=lambda seed: NAIVE.cases(seed) * 2), [0]),
            "two cases have the same name",
        ),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named(found, expected):
    assert expected in "\n".join(found)


def test_two_exercises_in_one_place_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "EXERCISES", tmp_path)
    folder = tmp_path / NAIVE.lesson
    folder.mkdir(parents=True)
    for id, after in (("naive_mean", "first"), ("new", "first"), ("first", ""), ("last", "new")):
        head = f"points: 1\nafter: {after}" if after else "points: 1"
        (folder / f"{id}.md").write_text(f"---\n{head}\n---\n")
    (fault,) = rules.order(NAIVE)
    assert fault.startswith("new also has `after: first`; the one that comes second in the lesson")


# ---------------------------------------------------------------- stubs


def returns_nothing(*args, **kwargs):
    """A docstring."""


def returns_dots(*args, **kwargs):
    return ...


def not_implemented(*args, **kwargs):
    raise NotImplementedError


class Forward(nn.Module):
    def forward(self, *args, **kwargs):
        """A docstring."""


class Init(nn.Module):
    """A docstring."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, *args, **kwargs): ...  # your code here


class Dots(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, *args, **kwargs):
        return ...


class Unwritten(nn.Module):
    pass


class Raises(Init):
    def forward(self, *args, **kwargs):
        raise NotImplementedError


STUBS = {
    "function": [returns_nothing, returns_dots, not_implemented],
    "class": [Forward, Init, Dots, Unwritten, Raises],
}


@each_exercise
@pytest.mark.parametrize("stub", [..., None], ids=repr)
def test_an_empty_answer_gets_nothing(exercise, stub):
    report = check_exercise(exercise, stub)
    assert (report.points, report.attempted) == (0.0, False), str(report)


@pytest.mark.parametrize(
    ("exercise", "stub"),
    [(e, stub) for e in CODE for stub in STUBS[e.kind]],
    ids=lambda v: getattr(v, "id", None) or v.__name__,
)
def test_a_stub_is_not_attempted_and_gets_nothing(exercise, stub):
    report = check_exercise(exercise, stub)
    assert (report.points, report.attempted) == (0.0, False), str(report)


@each_quiz
def test_a_quiz_without_answers_is_not_attempted(exercise):
    for stub in ({}, dict.fromkeys(exercise.reference, ...), dict.fromkeys(exercise.reference)):
        report = check_exercise(exercise, stub)
        assert (report.points, report.attempted) == (0.0, False), str(report)


@each_quiz
def test_a_quiz_asks_and_explains_each_entry(exercise):
    assert [e.name for e in exercise.entries] == list(exercise.reference)
    for entry in exercise.entries:
        assert entry.ask[-1] in ".?!", entry
        assert exercise.properties or entry.why[-1] in ".?!", entry
    for m in exercise.misconceptions:
        assert m.entries and set(m.entries) < set(exercise.reference) | {"all"}, m.id
        assert filled(exercise, m) != exercise.reference


@each_with_code
def test_the_right_answer_is_right_with_what_leaves_the_sandbox(exercise):
    """A property may use no fact of another form."""
    key = cached_key(exercise, 0)
    seen = InProcess(exercise, exercise.reference, COURSE).observe(key.cases, {})
    assert judge(exercise, key, [Observation(o.tensors, facts(o.facts)) for o in seen]).passed


def test_no_module_of_the_exercises_is_imported_whole():
    """It would be sent into the sandbox by its name, which means nothing there."""
    whole = re.compile(r"^(from exercises(\.shared)? import|import exercises)", re.M)
    files = (ROOT / "exercises").rglob("*.py")
    assert [path.name for path in files if whole.search(path.read_text(encoding="utf-8"))] == []
