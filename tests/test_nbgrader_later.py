"""The later assignments through nbgrader, a third of the lessons a day (tests/turns.py): everything
right but for one misconception a notebook.

Lessons as a whole run in other tests, from solutions/ and from notebooks/.
"""

import shutil

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

from course_utils.editions import COURSE, SOLUTIONS
from course_utils.exercises import COURSE as CATALOGUE

from .nbgrader_class import Notebook, right_answer
from .test_nbgrader_cycle import feedback
from .turns import whose_turn

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own queries
]

# A notebook's wrong answer and the misconception it is.
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
            "pad_mask_ignored",
        ),
    },
    "3-multi-head": {
        "06_heads_side_by_side": (
            "MultiHeadAttentionWrapper",
            lambda right: right.replace("head(x, pad_mask)", "head(x)"),
            "pad_mask_ignored",
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
    "4-transformer": {
        "08_block": (
            "gelu",
            "def gelu(x):\n    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))",
            "exact_gelu",
        ),
        "09_positions": (
            "TokenAndPosition",
            lambda right: right.replace("torch.arange(T", "torch.arange(1, T + 1"),
            "positions_from_one",
        ),
        "10_tiny_lm": (
            "next_token_loss",
            lambda right: right.replace("ids[:, 1:]", "ids[:, :-1]"),
            "no_shift",
        ),
    },
    "5-encoder-decoder": {
        "11_cross_attention": (
            "CrossAttention",
            lambda right: right.replace("self.key(context)", "self.key(x)").replace(
                "self.value(context)", "self.value(x)"
            ),
            "context_ignored",
        ),
        "12_translation": (
            "greedy_translate",
            lambda right: right.replace("ended.all()", "ended.any()"),
            "stops_at_the_first_end",
        ),
    },
    "6-practice": {
        "13_performance": (
            "cached_attention_step",
            lambda right: right.replace("[cache[0], key]", "[key, cache[0]]").replace(
                "[cache[1], value]", "[value, cache[1]]"
            ),
            "newest_in_front",
        ),
        "14_pitfall_clinic": (
            "fix_mask_after_softmax",
            lambda right: right.replace(
                "    scores = scores.masked_fill(future, -math.inf)\n", ""
            ).replace("dim=-1)\n", "dim=-1).masked_fill(future, 0.0)\n"),
            "mask_after_softmax",
        ),
    },
    "7-capstone": {
        "15_capstone": (
            "MyGPT",
            lambda right: right.replace("math.sqrt(query.shape[-1])", "math.sqrt(x.shape[-1])"),
            "scaled_by_model_width",
        ),
    },
}
STUDENT = "misconceptions"
BUILT_ON_DEMONSTRATIONS = ("13_performance", "15_capstone")  # answers use what stands before
LATER = whose_turn((assignment, lesson) for assignment in WRONG for lesson in WRONG[assignment])
each_lesson = pytest.mark.parametrize(("assignment", "lesson"), LATER)


def exercises_of(assignment, lesson):
    return {e.id: e for e in CATALOGUE.by_lesson[f"{assignment}/{lesson}"]}


def nbgrader_config():
    return PyFileConfigLoader("nbgrader_config.py", path=str(COURSE)).load_config()


def done(result):
    assert result["success"], result.get("error", "") + result.get("log", "")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """All later assignments in one course folder and one process, which nbgrader's API is for."""
    folder = tmp_path_factory.mktemp("later")
    config = nbgrader_config()
    config.CourseDirectory.root = str(folder)
    api = NbGraderAPI(config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", "the seed of this term")
        for assignment in dict(LATER):
            shutil.copytree(SOLUTIONS / assignment, folder / "solutions" / assignment)
            done(api.generate_assignment(assignment))
            submitted = folder / "submitted" / STUDENT / assignment
            shutil.copytree(folder / "notebooks" / assignment, submitted)
            for lesson, (exercise, source, _) in WRONG[assignment].items():
                if (assignment, lesson) not in LATER:
                    (submitted / f"{lesson}.ipynb").unlink()
                    continue
                notebook = Notebook(submitted / f"{lesson}.ipynb")
                notebook.solve(*exercises_of(assignment, lesson))
                right = right_answer(lesson, exercise)
                notebook.write(exercise, source(right) if callable(source) else source)
                if lesson not in BUILT_ON_DEMONSTRATIONS:
                    notebook.delete_demonstrations()
                notebook.save()
            done(api.autograde(assignment, STUDENT))
            done(api.generate_feedback(assignment, STUDENT))
    return folder


@each_lesson
def test_a_misconception_costs_its_own_exercise_and_no_other(course, assignment, lesson):
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(lesson, assignment, STUDENT)
        given = {g.name.removeprefix("check-"): g.auto_score for g in notebook.grades}
    full = {id: e.points for id, e in exercises_of(assignment, lesson).items()}
    wrong, _, _ = WRONG[assignment][lesson]
    assert given[wrong] < full[wrong]
    assert given | {wrong: full[wrong]} == full


@each_lesson
def test_the_feedback_page_names_the_misconception(course, assignment, lesson):
    exercise, _, misconception = WRONG[assignment][lesson]
    page = feedback(course, STUDENT, assignment, lesson)
    variants = exercises_of(assignment, lesson)[exercise].misconceptions
    said = [m.what.replace("`", "").split() for m in variants if m.id == misconception]
    assert any(" ".join(words) in page for words in said)
