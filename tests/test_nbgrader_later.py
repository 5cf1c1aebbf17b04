"""The later assignments through nbgrader: everything right, and a misconception a notebook."""

import shutil

import pytest
from nbgrader.api import Gradebook

from course_utils.exercises import by_lesson

from .test_nbgrader_cycle import Cycle, Notebook, feedback, right_answer

pytestmark = pytest.mark.timeout(900)

# A notebook's wrong answer, the misconception it is, and a phrase of what the student reads.
WRONG = {
    "2-single-head": {
        "04_single_head": (
            "attention_scores",
            "def attention_scores(query, key):\n    return query @ key.transpose(-2, -1)",
            "not_scaled",
        ),
        "05_padding_mask": (
            "causal_and_padding",
            "def causal_and_padding(pad_mask):\n"
            "    B, T = pad_mask.shape\n"
            "    return torch.ones(T, T, dtype=torch.bool).triu(1).repeat(B, 1, 1)",
            "future_only",
        ),
    },
    "3-multi-head": {
        "06_heads_side_by_side": (
            "MultiHeadAttentionWrapper",
            lambda right: right.replace("head(x, pad_mask)", "head(x)"),
            "mask_never_reaches_the_heads",
        ),
        "07_split_heads": (
            "split_heads",
            "def split_heads(x, num_heads):\n"
            "    B, T, C = x.shape\n"
            "    if C % num_heads:\n"
            '        raise ValueError(f"{C} channels, {num_heads} heads")\n'
            "    return x.view(B, num_heads, T, C // num_heads)",
            "view_without_transpose",
        ),
    },
}


def exercises_of(assignment):
    return {
        lesson.split("/")[1]: {e.id: e for e in exercises}
        for lesson, exercises in by_lesson().items()
        if lesson.startswith(assignment)
    }


@pytest.fixture(scope="module", params=WRONG)
def cycle(request, tmp_path_factory):
    cycle = Cycle(tmp_path_factory.mktemp("later"), request.param)
    cycle.nbgrader("generate_assignment", cycle.assignment)
    cycle.exchanging("release_assignment")
    course = "--course=averages-to-transformers"
    desk = cycle.home / "desk"
    desk.mkdir()
    cycle.exchanging("fetch_assignment", course, cwd=desk)
    for student in ("all-right", "misconceptions"):
        own = cycle.home / student
        own.mkdir()
        shutil.copytree(desk / cycle.assignment, own / cycle.assignment)
        for lesson, exercises in exercises_of(cycle.assignment).items():
            notebook = Notebook(own / cycle.assignment / f"{lesson}.ipynb")
            notebook.solve(*exercises)
            if student == "misconceptions":
                exercise, source, _ = WRONG[cycle.assignment][lesson]
                right = right_answer(lesson, exercise)
                notebook.write(exercise, source(right) if callable(source) else source)
            notebook.save()
        cycle.exchanging("submit", course, f"--student={student}", cwd=own)
    cycle.exchanging("collect")
    cycle.nbgrader("autograde", cycle.assignment)
    cycle.nbgrader("generate_feedback", cycle.assignment)
    return cycle


def given(cycle, student):
    with Gradebook(f"sqlite:///{cycle.course}/gradebook.db") as gradebook:
        submission = gradebook.find_submission(cycle.assignment, student)
        return {
            grade.name.removeprefix("check-"): grade.auto_score
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def full(cycle):
    lessons = exercises_of(cycle.assignment).values()
    return {id: e.points for exercises in lessons for id, e in exercises.items()}


def test_right_answers_get_every_point(cycle):
    assert given(cycle, "all-right") == full(cycle)


def test_a_misconception_costs_its_own_exercise_and_no_other(cycle):
    wrong = {exercise for exercise, _, _ in WRONG[cycle.assignment].values()}
    points, most = given(cycle, "misconceptions"), full(cycle)
    assert {id for id in most if points[id] < most[id]} == wrong


def test_the_feedback_page_names_the_misconception(cycle):
    for lesson, (exercise, _, misconception) in WRONG[cycle.assignment].items():
        named = {m.id: m for m in exercises_of(cycle.assignment)[lesson][exercise].misconceptions}
        page = feedback(cycle, "misconceptions", lesson)
        assert " ".join(named[misconception].what.replace("`", "").split()) in page
