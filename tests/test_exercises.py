"""The catalogue's rules: enough answers, complete sentences, one id per idea, different sizes."""

import math
import re
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
from torch import nn

from tools import ROOT
from tools.matrix import answers, cells
from whywrong import Draw, Observation, Property, check_exercise, same
from whywrong._checker import InProcess
from whywrong._judging import judge
from whywrong._quizzes import filled
from whywrong.hosting import cached_key, catalogue
from whywrong_nbgrader.verdicts import facts

from .sizes import coinciding, sizes

COURSE = catalogue()
EXERCISES = list(COURSE)
CODE = [e for e in EXERCISES if e.kind != "quiz"]
QUIZZES = [e for e in EXERCISES if e.kind == "quiz"]
MISCONCEPTIONS = [(e, m) for e in EXERCISES for m in e.misconceptions]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
each_with_code = pytest.mark.parametrize("exercise", CODE, ids=lambda e: e.id)
each_quiz = pytest.mark.parametrize("exercise", QUIZZES, ids=lambda e: e.id)

# ---------------------------------------------------------------- enough of everything


@each_exercise
def test_an_exercise_has_enough_of_everything(exercise):
    few, many = {"quiz": (4, 40), "function": (5, 24), "class": (10, 32)}[exercise.kind]
    assert few <= len({m.id for m in exercise.misconceptions}) <= many
    kinds = [cell.kind for cell in cells(exercise)]
    assert kinds.count("other right") >= (2 if exercise.kind == "quiz" else 3)
    outside = kinds.count("not in catalogue") + kinds.count("first attempt")
    assert outside >= 5 or exercise.kind == "quiz"
    assert 2 <= len(exercise.hints) <= 3


@each_exercise
def test_points_survive_as_text(exercise):
    assert exercise.points > 0
    assert exercise.points * 4 == int(exercise.points * 4)


def test_every_answer_has_an_exercise():
    for lesson, exercises in COURSE.by_lesson.items():
        ids = {e.id for e in exercises}
        assert set(answers(lesson).RIGHT) | set(answers(lesson).WRONG) <= ids, lesson


# ---------------------------------------------------------------- sentences


@each_exercise
def test_sentences_are_whole(exercise):
    for m in exercise.misconceptions:
        for sentence in m.advice:
            assert sentence[-1] in ".?!…`", (m.id, sentence)
            assert sentence[0].isupper() or not sentence[0].isalpha(), (m.id, sentence)
            assert len(sentence) <= 230, (m.id, sentence)
            assert sentence.count("`") % 2 == 0, (m.id, sentence)
    for text in (*exercise.hints, *(p.text for p in exercise.properties)):
        assert text == text.strip() and text.count("`") % 2 == 0, text


def test_ids_are_words():
    wrong = [m.id for _, m in MISCONCEPTIONS if not m.id.replace("_", "").isalnum()]
    assert wrong == []
    assert [m.id for _, m in MISCONCEPTIONS if m.id != m.id.lower()] == []


def test_one_sentence_has_one_id():
    ids = defaultdict(set)
    for _, m in MISCONCEPTIONS:
        ids[m.what].add(m.id)
    assert {what: names for what, names in ids.items() if len(names) > 1} == {}


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
@pytest.mark.parametrize("seeds", [2, pytest.param(20, marks=more_seeds)])
def test_one_case_is_typical(exercise, seeds, quick_to_draw):
    for seed in range(seeds):
        typical = [c for c in exercise.cases(seed) if "typical" in c.roles]
        assert len(typical) == 1
        assert typical[0].refuses is None and "small" not in typical[0].roles


@each_with_code
def test_each_case_has_a_name_of_its_own(exercise):
    names = [c.name for c in exercise.cases(0)]
    assert len(set(names)) == len(names)


@each_with_code
@pytest.mark.parametrize("seeds", [3, pytest.param(200, marks=more_seeds)])
def test_sizes_differ(exercise, seeds, quick_to_draw):
    """Whatever the seed, no two sizes of a case can be confused."""
    wrong = {
        f"{case.name}: {said}"
        for seed in range(seeds)
        for case in exercise.cases(seed)
        for said in coinciding(exercise, case)
    }
    assert sorted(wrong) == []


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
    with pytest.raises(KeyError):
        coinciding(exercise, replace(case, inputs={"y": torch.zeros(2, 2)}))


@each_with_code
def test_no_property_looks_for_a_role_that_is_missing(exercise):
    for seed in (0, 1):
        roles = {role for c in exercise.cases(seed) for role in c.roles}
        assert {p.role for p in exercise.properties if p.role} <= roles


def test_a_gate_that_looks_for_a_missing_role_is_an_error():
    gate = Property("gate", "Never opened", lambda *t: True, gate=True, role="nowhere")
    exercise = replace(COURSE.find("naive_mean"), properties=(gate,))
    with pytest.raises(ValueError, match="naive_mean: no case has the role that gate needs"):
        cached_key(exercise, 0)
    report = check_exercise(exercise, lambda x: x)
    assert "The exercise itself is faulty" in report.message and "gate" in report.message


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
