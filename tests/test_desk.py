"""The student's desk: whose work counts, hints, progress, and the cost of importing it."""

import json
import re
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import nbformat
import pytest
import torch

import course_utils
from course_utils import attention
from course_utils.desk.checks import catalogue, check, hint, progress, yours
from course_utils.desk.points import progress_path
from whywrong import check_exercise

HERE = Path(__file__).parent.parent
COURSE = catalogue()
NAIVE_MEAN = COURSE.find("naive_mean")


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    return path


@pytest.fixture(autouse=True)
def no_hints_shown(monkeypatch):
    monkeypatch.setattr("course_utils.desk.checks._hints_shown", {})


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd):
    yield
    assert capfd.readouterr() == ("", "")


def right(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


class TestBorrowedAnswers:
    def test_the_finished_part_itself_is_recognised_and_earns_nothing(self):
        for answer in (attention.naive_mean, lambda x: attention.tril_mean(x)):
            report = check("naive_mean", answer)
            assert report.points == 0
            assert "finished part" in report.message

    def test_earlier_finished_parts_may_be_used(self):
        def softmax_mean(x):
            T = x.shape[1]
            return (
                attention.masked_softmax(x.new_zeros(T, T), attention.causal_mask(T, x.device)) @ x
            )

        assert check("softmax_mean", softmax_mean).passed


NOTEBOOK = """
def masked_softmax(scores, hidden):
    {earlier}

def softmax_mean(x):
    T = x.shape[1]
    future = x.new_ones(T, T).{triangle} == 1
    return masked_softmax(x.new_zeros(T, T), future) @ x
"""

HELPED = """
class Future:
    def __init__(self, x):
        T = x.shape[1]
        self.hidden = x.new_ones(T, T).triu(1) == 1

    def weights(self, x):
        return masked_softmax(x.new_zeros(self.hidden.shape), self.hidden)

def mixed(x):
    return Future(x).weights(x) @ x

def softmax_mean(x):
    return mixed(x)
"""


def published(exercise_id):
    """The cell of a solved lesson that contains the answer to an exercise."""
    for path in (HERE / "solutions").glob("*/*.ipynb"):
        for cell in nbformat.read(path, 4).cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise_id:
                return cell.source
    raise LookupError(exercise_id)


class TestAnAnswerThatCallsAnEarlierOne:
    def answer(self, earlier, triangle="triu(1)"):
        space = {"torch": torch}
        exec(NOTEBOOK.format(earlier=earlier, triangle=triangle), space)
        return space

    def test_is_not_blamed_for_a_mistake_in_the_earlier_one(self):
        for earlier in ("return ...", "return torch.softmax(scores, -1)", "raise OSError"):
            space = self.answer(earlier)
            before = space["masked_softmax"]
            report = check("softmax_mean", space["softmax_mean"])
            assert report.passed, str(report)
            assert "`masked_softmax`" in report.notes[-1]
            assert space["masked_softmax"] is before

    def test_still_gets_its_own_mistake_reported(self):
        space = self.answer("return torch.softmax(scores, -1)", "triu(0)")
        assert not check("softmax_mean", space["softmax_mean"]).passed
        space = self.answer("raise OSError", "triu(0)")
        assert check("softmax_mean", space["softmax_mean"]).misconception == "blind_to_itself"

    def test_works_where_the_earlier_one_is_missing(self):
        space = self.answer("return 1")
        del space["masked_softmax"]
        assert check("softmax_mean", space["softmax_mean"]).passed
        assert "masked_softmax" not in space

    def test_may_call_it_through_helpers(self, capfd):
        space = {"torch": torch}
        exec(HELPED, space)
        assert check("softmax_mean", space["softmax_mean"]).passed
        space["masked_softmax"] = lambda scores, hidden: scores
        report = check("softmax_mean", space["softmax_mean"])
        assert report.passed and "uses `masked_softmax`" in report.notes[-1]
        assert yours("softmax_mean", space["softmax_mean"], 3) == 3
        assert "uses masked_softmax, not right yet" in capfd.readouterr().out

    def test_is_run_by_a_demonstration_only_if_it_works_there(self, capfd):
        right = "return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)"
        finished = "softmax_mean: the finished one runs here, because yours "
        for earlier, future, said in (
            (right, "triu(1)", "softmax_mean: yours runs here."),
            (right, "triu(0)", f"{finished}isn't right yet."),
            ("return ...", "triu(1)", f"{finished}uses masked_softmax, not right yet."),
        ):
            mine = self.answer(earlier, future)["softmax_mean"]
            found = yours("softmax_mean", mine, attention.softmax_mean)
            assert found is (attention.softmax_mean if "finished" in said else mine)
            assert capfd.readouterr().out == f"{said}\n"
        assert yours("softmax_mean", lambda x: ..., 3) == 3
        assert capfd.readouterr().out == f"{finished}isn't written yet.\n"
        with pytest.raises(ValueError, match="no exercise with this name"):
            yours("softmax_men", mine, attention.softmax_mean)

    @pytest.mark.parametrize(
        ("lesson", "pasted", "lacking"),
        [
            ("15_capstone", ["train_lm"], "training_step"),
            ("15_capstone", ["training_step", "train_lm"], "next_token_loss"),
            ("15_capstone", ["next_token_loss", "training_step", "train_lm"], ""),
            ("16_todays_models", ["MyGPT"], ""),
            ("17_a_real_text", ["train_lm"], "training_step"),
            ("17_a_real_text", ["training_step", "train_lm"], "next_token_loss"),
            ("17_a_real_text", ["next_token_loss", "training_step", "train_lm"], ""),
            ("17_a_real_text", ["ModernLM"], ""),
            ("17_a_real_text", ["RMSNorm", "SwiGLU", "GroupedQueryAttention", "ModernLM"], ""),
            ("17_a_real_text", ["next_token_probabilities"], ""),
        ],
    )
    def test_runs_where_a_lesson_asks_for_it(self, lesson, pasted, lacking, capfd):
        """The published solution is pasted, with or without the answers that it calls; it calls
        those that are pasted instead of the finished parts."""
        (path,) = (HERE / "solutions").glob(f"*/{lesson}.ipynb")
        cells = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == "code"]
        name = pasted[-1]
        assert any(re.search(rf"^{name} = \.\.\.  # paste ", cell, re.M) for cell in cells)
        space = {}
        exec(cells[1], space)  # the lesson's imports
        finished = re.compile(rf"todays_models\.({'|'.join(pasted)})\b")
        for earlier in pasted:
            exec(finished.sub(r"\1", published(earlier)), space)
        report = check(name, space[name])
        assert report.passed and (
            not lacking or f"`{lacking}`, not defined here" in report.notes[0]
        )
        assert yours(name, space[name], None) is space[name]
        more = f", with the course's {lacking}, not defined here" if lacking else ""
        assert capfd.readouterr().out == f"{name}: yours runs here{more}.\n"
        assert not lacking or lacking in space

    def test_says_nothing_when_the_earlier_one_is_right(self):
        earlier = "return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)"
        assert not check("softmax_mean", self.answer(earlier)["softmax_mean"]).notes


class TestHints:
    def test_come_one_after_the_other_and_then_repeat(self):
        given = [repr(hint("tril_mean")) for _ in range(4)]
        assert [g.split(" for")[0] for g in given[:3]] == [f"Hint {i} of 3" for i in (1, 2, 3)]
        assert given[3].startswith("No further hints")
        assert "<p" in hint("tril_mean", 1)._repr_html_()

    def test_continue_after_the_requested_one(self):
        assert repr(hint("tril_mean", 1)).startswith("Hint 1 of 3")
        assert repr(hint("tril_mean", 1)).startswith("Hint 1 of 3")
        assert repr(hint("tril_mean")).startswith("Hint 2 of 3")

    def test_for_an_unknown_exercise_name_the_nearest(self):
        assert "naive_mean" in repr(hint("naive_meen"))

    @pytest.mark.parametrize("number", ["a", 1.5, True, (1,), 0, -1, 99])
    @pytest.mark.parametrize("name", ["tril_mean", "naive_mean_shapes", "x", 3])
    def test_never_raise_an_error(self, name, number):
        assert "hint" in repr(hint(name, number)).lower()

    def test_are_counted_down_on_the_card(self):
        def told():
            report = check("tril_mean", lambda x: x)
            return report.hints_left, report._repr_html_(), str(report)

        for left in (3, 2, 1):
            count, page, text = told()
            assert count == left and "Stuck? A hint" in page and 'hint("tril_mean")' in text
            hint("tril_mean")
        count, page, text = told()
        assert count == 0 and "Stuck?" not in text

    def test_of_other_exercises_are_unaffected(self):
        hint("tril_mean")
        assert check("naive_mean", lambda x: x).hints_left == len(NAIVE_MEAN.hints)

    def test_of_a_right_answer_are_not_offered(self):
        assert check("naive_mean", right).hints_left == 0


class TestProgress:
    def test_lists_every_exercise_and_keeps_the_best_result(self, monkeypatch):
        check("naive_mean", lambda x: x)
        check("naive_mean", right)
        check("naive_mean", lambda x: x)
        table = progress()
        listed = {id: points for _, rows in table.rows for id, points, _ in rows}
        assert list(listed) == COURSE.ids()
        assert listed["naive_mean"] == 2.0 and listed["softmax"] is None
        first, second, *_ = repr(table).splitlines()
        assert (
            first.startswith("01 naive mean ") and " 2 of " in first and "✓\xa0naive_mean" in second
        )
        assert repr(table).endswith("Next: naive_mean_shapes in 01 naive mean")
        monkeypatch.chdir(HERE / "notebooks" / "8-beyond")
        page = table._repr_html_()
        assert '<a href="../1-averages/03_softmax_masking.ipynb">03 softmax masking</a>' in page

    def test_an_optional_exercise_is_listed_and_in_no_total(self):
        total = progress().max_points
        assert total == sum(p for id, p in COURSE.points().items() if id not in COURSE.ungraded())
        card = check("copy_linear_to_matrix", COURSE.find("copy_linear_to_matrix").reference)
        assert (
            card.passed
            and card.progress == "This exercise is optional: no total contains its points."
        )
        table = progress()
        assert (table.points, table.max_points) == (0.0, total)
        for shown in (repr(table), re.sub("<.*?>", "", table._repr_html_())):
            assert "✓\xa0copy_linear_to_matrix\xa0(optional)" in shown.replace("&nbsp;", "\xa0")

    def test_is_not_kept_for_other_seeds_or_stubs(self, own_progress):
        check("naive_mean", right, seed="grading")
        check("naive_mean", ...)
        assert not own_progress.exists()

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"\xff\xfe",
            b'{"exercises": {"naive_mean": {"points": "NaN", "max_points": 2}}}',
            b'{"exercises": {"naive_mean": {"points": 3, "max_points": 2}}}',
            b'{"exercises": {"naive_mean": 2}}',
            b"[" * 100_000,
        ],
    )
    def test_a_damaged_file_is_renamed_and_reported(self, own_progress, content):
        own_progress.write_bytes(content)
        table = progress()
        assert "was renamed to" in table.notice
        aside = own_progress.with_name("progress.json.damaged-1")
        assert aside.read_bytes() == content
        check("naive_mean", right)
        assert progress().points == 2.0

    def test_an_unwritable_folder_does_no_harm(self, monkeypatch, tmp_path):
        (tmp_path / "file").touch()
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "progress.json"))
        assert check("naive_mean", right).passed
        assert progress().points == 0

    def test_two_notebooks_at_once_lose_nothing(self, own_progress):
        def notebook(ids):
            for id in ids:
                check(id, catalogue().find(id).reference)

        halves = ["naive_mean", "tril_mean"], ["softmax", "softmax_mean"]
        running = [get_context("fork").Process(target=notebook, args=[half]) for half in halves]
        for one in running:
            one.start()
        for one in running:
            one.join()
        assert [one.exitcode for one in running] == [0, 0]
        assert progress().points == 8.0

    @pytest.mark.parametrize("switch", [("COURSE_PROGRESS", "off"), ("NBGRADER_EXECUTION", "1")])
    def test_can_be_switched_off(self, monkeypatch, own_progress, switch):
        monkeypatch.setenv(*switch)
        assert check("naive_mean", right).passed
        assert progress().points == 0
        assert not own_progress.exists()

    def test_is_in_the_course_folder(self, monkeypatch, tmp_path):
        monkeypatch.delenv("COURSE_PROGRESS")
        course = tmp_path / "course"
        (course / "notebooks" / "1-averages").mkdir(parents=True)
        (course / "nbgrader_config.py").touch()
        monkeypatch.chdir(course / "notebooks" / "1-averages")
        assert progress_path() == course / ".course_progress.json"
        (course / "solutions" / "1-averages").mkdir(parents=True)
        for elsewhere in (tmp_path, course / "solutions", course / "solutions" / "1-averages"):
            monkeypatch.chdir(elsewhere)
            assert progress_path() is None

    def test_is_readable_json(self, own_progress):
        check("naive_mean", right)
        kept = json.loads(own_progress.read_text())["exercises"]
        assert kept == {"naive_mean": {"points": 2.0, "max_points": 2.0}}


class TestThePackage:
    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(AttributeError, match="check, "):
            _ = course_utils.chekc

    def modules_after(self, code):
        code += "\nimport sys; print(*sys.modules)"
        return subprocess.check_output([sys.executable, "-c", code], text=True, cwd=HERE).split()

    def test_importing_it_loads_neither_torch_nor_the_catalogue(self):
        loaded = self.modules_after("import course_utils; course_utils.__all__")
        assert "course_utils" in loaded
        heavy = ("torch", "IPython", "numpy", "whywrong", "exercises")
        assert [m for m in loaded if m.startswith(heavy)] == []

    def test_importing_check_loads_no_lesson(self):
        lessons = ("exercises.1-", "exercises.2-", "exercises.3-")
        code = (
            "import sys; from course_utils import check, hint, progress; print(*sys.modules, '|')"
        )
        found = self.modules_after(code + '; hint("naive_mean")')
        loaded, used = found[: found.index("|")], found[found.index("|") :]
        assert "torch" in loaded
        assert [m for m in loaded if m.startswith(lessons)] == []
        assert [m for m in used if m.startswith(lessons)]

    def test_exercises_can_be_checked_without_storing_points(self, own_progress):
        assert check_exercise(NAIVE_MEAN, right).passed
        assert not own_progress.exists()
