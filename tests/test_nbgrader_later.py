"""The later assignments through nbgrader, right except for one misconception per lesson.

Other tests run the complete lessons, from solutions/ and from notebooks/.
"""

import shutil

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

from tools import ROOT as COURSE
from tools import SOLUTIONS
from whywrong.hosting import joined

from .nbgrader_class import Notebook
from .test_nbgrader_cycle import feedback

CATALOGUE = joined(())

pytestmark = [
    pytest.mark.full("the later lessons through nbgrader"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),  # nbgrader's own queries
]

# The misconception in each lesson, by exercise.
WRONG = {
    "2-single-head/04_single_head": ("attention_scores", "not_scaled"),
    "2-single-head/05_padding_mask": ("causal_and_padding", "padding_inverted"),
    "3-multi-head/06_heads_side_by_side": ("MultiHeadAttentionWrapper", "pad_mask_ignored"),
    "3-multi-head/07_split_heads": ("split_heads", "view_without_transpose"),
    "4-transformer/08_block": ("gelu", "exact_gelu"),
    "4-transformer/09_positions": ("TokenAndPosition", "positions_from_one"),
    "4-transformer/10_tiny_lm": ("next_token_loss", "no_shift"),
    "5-encoder-decoder/11_cross_attention": ("CrossAttention", "context_ignored"),
    "5-encoder-decoder/12_translation": ("greedy_translate", "stops_at_the_first_end"),
    "6-practice/13_performance": ("cached_attention_step", "newest_in_front"),
    "6-practice/14_pitfall_clinic": ("patient_e", "zero_fill"),
    "7-capstone/15_capstone": ("MyGPT", "scaled_by_model_width"),
    "8-beyond/16_todays_models": ("RMSNorm", "sum_for_mean"),
    "8-beyond/17_a_real_text": ("encode", "longest_token"),
}
STUDENT = "misconceptions"
BUILT_ON_DEMONSTRATIONS = ("13_performance", "15_capstone")  # answers use earlier ones
ASSIGNMENTS = dict.fromkeys(lesson.split("/")[0] for lesson in WRONG)
each_lesson = pytest.mark.parametrize("lesson", WRONG)


def wrong_source(exercise, misconception):
    """The cell of a student who has this misconception."""
    program = CATALOGUE.find(exercise).variants[misconception].program
    return f"{program.names.source}\n{program.text}"


def nbgrader_config():
    return PyFileConfigLoader("nbgrader_config.py", path=str(COURSE)).load_config()


def done(result):
    assert result["success"], result.get("error", "") + result.get("log", "")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """All later assignments in one course folder and one process, through nbgrader's API."""
    folder = tmp_path_factory.mktemp("later")
    config = nbgrader_config()
    config.CourseDirectory.root = str(folder)
    api = NbGraderAPI(config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_GRADING_SEED", "the seed of this term")
        for assignment in ASSIGNMENTS:
            shutil.copytree(SOLUTIONS / assignment, folder / "solutions" / assignment)
            done(api.generate_assignment(assignment))
            submitted = folder / "submitted" / STUDENT / assignment
            shutil.copytree(folder / "notebooks" / assignment, submitted)
        for lesson, (exercise, misconception) in WRONG.items():
            assignment, name = lesson.split("/")
            notebook = Notebook(folder / "submitted" / STUDENT / assignment / f"{name}.ipynb")
            notebook.solve(*(listed.id for listed in CATALOGUE.outline[lesson]))
            notebook.write(exercise, wrong_source(exercise, misconception))
            if name not in BUILT_ON_DEMONSTRATIONS:
                notebook.delete_demonstrations()
            notebook.save()
        for assignment in ASSIGNMENTS:
            done(api.autograde(assignment, STUDENT))
            done(api.generate_feedback(assignment, STUDENT))
    return folder


@each_lesson
def test_a_misconception_costs_its_own_exercise_and_no_other(course, lesson):
    assignment, name = lesson.split("/")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(name, assignment, STUDENT)
        given = {g.name.removeprefix("check-"): g.auto_score for g in notebook.grades}
    # The workshop's exercises are checked, but not graded.
    full = {listed.id: listed.points for listed in CATALOGUE.outline[lesson] if listed.id in given}
    wrong, _ = WRONG[lesson]
    assert given[wrong] < full[wrong]
    assert given | {wrong: full[wrong]} == full


@each_lesson
def test_the_feedback_page_names_the_misconception(course, lesson):
    exercise, misconception = WRONG[lesson]
    page = feedback(course, STUDENT, *lesson.split("/"))
    said = CATALOGUE.find(exercise).variants[misconception].what
    assert " ".join(said.replace("`", "").split()) in page
