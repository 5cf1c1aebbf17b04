"""Every failure a person can have gets an answer; nothing raises, hangs or prints to stderr."""

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest
import torch
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import determine_grade

import course_utils
from course_utils.checking import (
    Misconception,
    check,
    check_exercise,
    hint,
    judge,
    observe,
    pack,
    progress,
    unpack,
)
from course_utils.checking.probing import argument_mismatch, run
from course_utils.exercises import find, ids

COURSE = Path(__file__).parent.parent
NAIVE_MEAN = find("naive_mean")
WRONG = {m.id: m.answer for m in NAIVE_MEAN.misconceptions}


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    return path


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd):
    yield
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def right(x):
    return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]


class TestARightAnswer:
    def test_gets_all_points(self):
        report = check("naive_mean", right)
        assert report.passed and report.attempted
        assert (report.points, report.max_points) == (2.0, 2.0)
        assert report.misconception is None
        assert all(b.holds for b in report.behaviours)

    def test_is_told_the_same_words_whatever_the_seed(self):
        texts = {check("naive_mean", right, seed=s)._repr_html_() for s in (None, 5, "grading")}
        assert len(texts) == 1

    def test_may_be_any_callable(self):
        class Mean:
            def __call__(self, x):
                return right(x)

        assert check("naive_mean", Mean()).passed
        assert check("naive_mean", lambda *args: right(*args)).passed
        assert check("naive_mean", torch.nn.Identity()).points == 0


class TestAStub:
    def test_is_not_attempted_and_gets_nothing(self):
        def naive_mean(x):
            """The docstring of the exercise."""

        report = check("naive_mean", naive_mean)
        assert not report.attempted
        assert repr(report) == "0.0"
        assert "not attempted yet" in str(report) and "not attempted yet" in report._repr_html_()

    def test_is_told_from_a_forgotten_return(self):
        def naive_mean(x):
            out = x.cumsum(1)  # noqa: F841

        report = check("naive_mean", naive_mean)
        assert report.attempted
        assert "return" in report.message

    def test_that_raises_not_implemented_is_not_attempted(self):
        def naive_mean(x):
            raise NotImplementedError

        assert not check("naive_mean", naive_mean).attempted


class TestWhatIsHandedIn:
    def test_the_result_instead_of_the_function(self):
        report = check("naive_mean", right(torch.ones(1, 2, 3)))
        assert "Tensor" in report.message and "itself" in report.detail

    def test_something_that_cannot_be_called(self):
        for answer in (3, "naive_mean", [right], {"x": 1}):
            report = check("naive_mean", answer)
            assert report.points == 0
            assert type(answer).__name__ in report.message

    def test_another_number_of_arguments(self):
        report = check("naive_mean", lambda x, y: x)
        assert "naive_mean(x)" in report.message and "(x, y)" in report.message
        assert check("naive_mean", lambda: 1).points == 0
        assert argument_mismatch(lambda x, y=1: x, NAIVE_MEAN.cases(0)) is None

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        report = check("naive_men", right)
        assert "naive_mean" in report.message
        assert repr(report) == "0.0"
        assert "progress()" in check("zzzzzzzz", right).message

    def test_the_arguments_swapped(self):
        def naive_mean(x):
            return right(x)

        assert 'check("naive_mean", naive_mean)' in check(naive_mean, "naive_mean").message

    def test_a_quiz_that_is_no_dict(self):
        assert "dict" in check("naive_mean_shapes", (3, 2)).message

    def test_a_quiz_is_judged_entry_by_entry(self):
        answer = {"x[b, :t+1]": (3, 2), "out": (4, 8), "extra": 1}
        report = check("naive_mean_shapes", answer)
        assert [b.holds for b in report.behaviours] == [True, False, False]
        assert report.behaviours[0].text.startswith("x[b, :t+1] is (3, 2).")
        assert "(4, 8)" in report.behaviours[2].text
        assert "extra" in report.notes[0]
        assert 0 < report.points < report.max_points


class TestErrors:
    def test_an_exception_is_shown_as_the_students_own_lines(self):
        def helper(x):
            return x[99]

        def naive_mean(x):
            return helper(x)

        report = check("naive_mean", naive_mean)
        assert "IndexError" in report.message
        assert "(1, 3, 2) float32" in report.detail
        assert "in naive_mean: return helper(x)" in report.detail
        assert "in helper: return x[99]" in report.detail
        assert "course_utils" not in str(report) and "site-packages" not in str(report)

    def test_an_exception_inside_a_library_ends_at_the_students_line(self):
        def naive_mean(x):
            return torch.nn.functional.layer_norm(x, (99,))

        report = check("naive_mean", naive_mean)
        assert "functional.py" not in str(report)
        assert report.detail.splitlines()[-2].endswith("layer_norm(x, (99,))")
        assert report.detail.splitlines()[-1] == "at that moment: x: (1, 3, 2)"

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError, StopIteration])
    def test_no_exception_gets_out(self, error):
        def naive_mean(x):
            raise error("from the answer")

        report = check("naive_mean", naive_mean)
        assert error.__name__ in report.message

    def test_an_exception_that_cannot_be_printed(self):
        class Sly(Exception):
            def __str__(self):
                raise RuntimeError

        def naive_mean(x):
            raise Sly

        assert "Sly" in check("naive_mean", naive_mean).message

    def test_endless_recursion(self):
        def naive_mean(x):
            return naive_mean(x)

        report = check("naive_mean", naive_mean)
        assert "RecursionError" in report.message
        assert len(str(report).splitlines()) < 30

    def test_an_error_on_one_case_only(self):
        def naive_mean(x):
            assert x.shape[1] < 10, "too long for me"
            return right(x)

        report = check("naive_mean", naive_mean)
        assert "too long for me" in report.message and report.points == 0


class TestResults:
    @pytest.mark.parametrize(
        ("result", "said"),
        [
            (lambda x: x.tolist(), "list"),
            (lambda x: x.numpy(), "ndarray"),
            (lambda x: (right(x),), "tuple"),
            (lambda x: right(x).sum().item(), "float"),
            (lambda x: right(x).to_sparse(), "sparse"),
            (lambda x: right(x).to("meta"), "meta"),
            (lambda x: torch.zeros(1).expand(2000, 2000), "4,000,000 elements"),
            (lambda x: "the mean", "str"),
            (lambda x: right, "function"),
        ],
        ids=lambda v: v if isinstance(v, str) else "",
    )
    def test_that_are_no_tensor_are_named(self, result, said):
        report = check("naive_mean", result)
        assert report.points == 0
        assert said in str(report)

    def test_of_another_shape_show_both_shapes(self):
        report = check("naive_mean", lambda x: right(x)[:, :, None])
        assert "(1, 3, 1, 2)" in report.message and "(1, 3, 2)" in report.message

    def test_that_broadcast_to_the_right_shape_are_refused(self):
        report = check("naive_mean", lambda x: right(x).mean(1, keepdim=True))
        assert not report.passed and "shape" in report.message

    def test_of_another_dtype(self):
        report = check("naive_mean", lambda x: right(x).float())
        assert not report.passed
        assert "float32, expected float64" in report.message

    def test_of_whole_numbers_or_complex_ones(self):
        assert "int64" in check("naive_mean", lambda x: right(x).long()).message
        assert "complex" in str(check("naive_mean", lambda x: right(x) + 0j))

    def test_with_nan_or_infinity(self):
        for bad in (float("nan"), float("inf")):
            report = check(
                "naive_mean", lambda x, bad=bad: right(x).index_fill(1, x.new_zeros(1).long(), bad)
            )
            assert "NaN or infinite" in report.message
            assert report.points == 0

    def test_that_differ_name_the_first_element(self):
        def naive_mean(x):
            out = right(x)
            out[:, 2:, -1] += 0.5
            return out

        report = check("naive_mean", naive_mean)
        assert "result[0, 2, 1]" in report.detail
        assert "expected 5.33333" in report.detail and "got      5.83333" in report.detail

    def test_of_a_tensor_subclass_are_taken_as_plain(self):
        class Always(torch.Tensor):
            def __eq__(self, other):
                return True

        assert not check("naive_mean", lambda x: x.as_subclass(Always)).passed
        assert check("naive_mean", lambda x: right(x).as_subclass(Always)).passed

    def test_that_are_views_or_not_contiguous_pass(self):
        assert check("naive_mean", lambda x: right(x).mT.contiguous().mT).passed


class TestBorrowedAnswers:
    def test_the_finished_part_itself_is_told_and_earns_nothing(self):
        from course_utils import attention

        for answer in (attention.naive_mean, lambda x: attention.tril_mean(x)):
            report = check("naive_mean", answer)
            assert report.points == 0
            assert "finished part" in report.message

    def test_earlier_finished_parts_may_be_used(self):
        from course_utils import attention

        def softmax_mean(x):
            T = x.shape[1]
            return attention.masked_softmax(x.new_zeros(T, T), attention.causal_mask(T)) @ x

        assert check("softmax_mean", softmax_mean).passed


class TestObjectsMadeToDeceive:
    def test_raise_nothing(self):
        def wrapped(x):
            pass

        wrapped.__wrapped__ = wrapped

        class Meta(type):
            @property
            def __name__(cls):
                raise RuntimeError

        class Nameless(metaclass=Meta):
            def __call__(self, x):
                raise AttributeError

        class Sly(Exception, metaclass=Meta):
            pass

        def raises(x):
            raise Sly

        for answer in (wrapped, Nameless(), Nameless, raises):
            assert check("naive_mean", answer).points == 0


class TestSideEffects:
    def test_a_result_that_a_later_call_overwrites(self):
        memory = {}

        def naive_mean(x):
            if x.requires_grad:
                return right(x)
            kept = memory.setdefault((x.shape, x.dtype), torch.empty_like(x))
            return kept.copy_(right(x))

        assert "later call" in check("naive_mean", naive_mean).message

    def test_an_answer_that_remembers_where_a_tensor_lay(self):
        memory = {}

        def naive_mean(x):
            return memory.setdefault((x.data_ptr(), x.shape), right(x))

        assert not check("naive_mean", naive_mean).passed

    def test_an_input_that_asks_for_gradients_afterwards(self):
        assert not check("naive_mean", lambda x: right(x.requires_grad_())).passed

    def test_a_logger_set_up_before_stays_silent(self):
        import logging

        logger = logging.getLogger("a student's own")
        logger.addHandler(logging.StreamHandler())

        def naive_mean(x):
            logger.warning("still here")
            return right(x)

        assert check("naive_mean", naive_mean).passed
        assert logging.root.manager.disable == 0

    def test_right_values_with_the_input_changed(self):
        def naive_mean(x):
            out = right(x)
            x.zero_()
            return out

        report = check("naive_mean", naive_mean)
        assert 0 < report.points < 2
        assert "changed its input (x)" in report.message

    def test_right_values_without_a_gradient(self):
        report = check("naive_mean", lambda x: right(x.detach()))
        assert 0 < report.points < 2
        assert "no gradient reaches x" in report.message

    def test_chance(self):
        assert (
            "different results"
            in check("naive_mean", lambda x: right(x) + 1e-7 * random.random()).message
        )

    def test_dependence_on_the_global_seed(self):
        report = check("naive_mean", lambda x: right(x) + 1e-7 * torch.rand(()).to(x.dtype))
        assert "seed" in report.message and not report.passed

    def test_a_check_leaves_seeds_and_settings_as_they_were(self):
        def naive_mean(x):
            torch.manual_seed(99)
            random.seed(99)
            torch.set_default_dtype(torch.float64)
            return right(x)

        torch.manual_seed(1)
        random.seed(1)
        before = torch.get_rng_state(), random.getstate()
        check("naive_mean", naive_mean)
        assert torch.equal(before[0], torch.get_rng_state())
        assert before[1] == random.getstate()
        assert torch.get_default_dtype() == torch.float32

    def test_settings_of_the_notebook_do_not_decide(self):
        with torch.no_grad():
            assert check("naive_mean", right).passed
        torch.set_default_dtype(torch.float64)
        try:
            assert not check("naive_mean", WRONG["float32_result"]).passed
        finally:
            torch.set_default_dtype(torch.float32)

    def test_a_float32_step_is_told_and_costs_nothing(self):
        def naive_mean(x):
            return right(x.float()).to(x.dtype)

        report = check("naive_mean", naive_mean)
        assert report.passed, str(report)
        assert any("float32" in n for n in report.notes)

    def test_thousands_of_printed_lines_are_counted_not_shown(self):
        def naive_mean(x):
            for i in range(10_000):
                print("line", i)
                print("error", i, file=sys.stderr)
            return right(x)

        report = check("naive_mean", naive_mean)
        assert report.passed
        assert "lines while it was checked" in report.notes[0]
        assert len(str(report)) < 3000

    def test_warnings_are_kept_from_stderr(self):
        import warnings

        def naive_mean(x):
            warnings.warn("deprecated", stacklevel=1)
            return right(x)

        assert check("naive_mean", naive_mean).passed


class TestTime:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setenv("COURSE_CHECK_SECONDS", "0.5")

    def test_an_endless_loop_is_stopped_and_told(self):
        def naive_mean(x):
            while True:
                pass

        report = check("naive_mean", naive_mean)
        assert report.points == 0
        assert "0.5 seconds" in report.message and "loop" in report.message
        assert "in naive_mean" in report.detail
        assert not any(t.name.startswith("check") for t in threading.enumerate())

    def test_an_endless_loop_that_catches_exceptions(self):
        def naive_mean(x):
            while True:
                with contextlib.suppress(Exception):
                    time.sleep(0.001)

        assert "loop" in check("naive_mean", naive_mean).message

    def test_an_endless_loop_that_catches_everything_does_not_hang_the_notebook(self):
        stop = threading.Event()

        def naive_mean(x):
            while not stop.is_set():
                with contextlib.suppress(BaseException):
                    time.sleep(0.001)
            return x

        try:
            assert "loop" in check("naive_mean", naive_mean).message
        finally:
            stop.set()

    # The sleeper ends when it wakes up; threading takes no notice of that, pytest does.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_long_sleep(self):
        assert "seconds" in check("naive_mean", lambda x: time.sleep(20)).message

    def test_a_budget_that_is_no_number_is_the_usual_one(self, monkeypatch):
        monkeypatch.setenv("COURSE_CHECK_SECONDS", "soon")
        report = check("naive_mean", right)
        assert report.passed, str(report)


CHILD = """
import sys
from course_utils.checking import pack
from course_utils.checking.probing import run
from course_utils.exercises import find
exercise = find(sys.argv[1])
answer = exercise.reference if sys.argv[2] == "-" else next(
    m.answer for m in exercise.misconceptions if m.id == sys.argv[2])
sys.stdout.buffer.write(pack(run(exercise, answer, exercise.cases(int(sys.argv[3])))))
"""


class TestJudgingElsewhere:
    @pytest.mark.parametrize(
        ("exercise_id", "misconception"),
        [
            ("naive_mean", "-"),
            ("naive_mean", "includes_future"),
            ("naive_mean", "fixed_sizes"),
            ("tril_mean", "loops_over_time"),
            ("softmax", "overflows"),
            ("naive_mean_shapes", "-"),
        ],
    )
    def test_observations_of_a_child_process_give_the_same_report(self, exercise_id, misconception):
        exercise = find(exercise_id)
        wrong = {m.id: m.answer for m in exercise.misconceptions}
        answer = wrong.get(misconception, exercise.reference)
        command = [sys.executable, "-c", CHILD, exercise_id, misconception, "5"]
        data = subprocess.run(command, check=True, capture_output=True).stdout
        there = judge(exercise, exercise.cases(5), unpack(data))
        here = judge(exercise, exercise.cases(5), run(exercise, answer, exercise.cases(5)))
        assert there.to_dict() == here.to_dict()
        assert there.passed == (misconception == "-")

    def test_packed_observations_survive_unchanged(self):
        seen = observe(NAIVE_MEAN, right, NAIVE_MEAN.cases(0))
        for a, b in zip(seen, unpack(pack(seen)), strict=True):
            assert a.facts == b.facts and a.tensors.keys() == b.tensors.keys()
            assert all(torch.equal(a.tensors[n], b.tensors[n]) for n in a.tensors)

    @pytest.mark.parametrize("data", [b"", b"not this", os.urandom(200), b"\xff" * 9])
    def test_bytes_that_are_no_observations_are_refused(self, data):
        with pytest.raises(ValueError, match="no packed observations"):
            unpack(data)

    def test_a_report_is_plain_data(self):
        report = check("naive_mean", lambda x: x)
        assert json.loads(json.dumps(report.to_dict()))["points"] == report.points


class TestTheReport:
    def _cell(self, report):
        output = new_output(
            "execute_result",
            {"text/plain": repr(report), "text/html": report._repr_html_()},
            execution_count=1,
        )
        meta = {"nbgrader": {"grade": True, "solution": False, "points": report.max_points}}
        return new_code_cell("check(…)", outputs=[output], metadata=meta)

    @pytest.mark.parametrize(
        "answer", [right, ..., 3, lambda x: x.mean(1, keepdim=True).expand_as(x), lambda x: 1 / 0]
    )
    def test_nbgrader_reads_the_points_from_its_plain_text(self, answer):
        report = check("naive_mean", answer)
        assert determine_grade(self._cell(report)) == (report.points, 2.0)

    def test_ipython_shows_the_points_as_plain_text_and_the_card_as_html(self):
        from IPython.core.formatters import DisplayFormatter

        report = check("naive_mean", right)
        data, _ = DisplayFormatter().format(report)
        assert data["text/plain"] == "2.0"
        assert "right" in data["text/html"]

    def test_student_text_is_escaped(self):
        def naive_mean(x):
            print("<script>alert(1)</script>")
            raise ValueError("<img src=x onerror=alert(1)>")

        page = check("naive_mean", naive_mean)._repr_html_()
        assert "<script>" not in page and "<img" not in page
        assert "&lt;script&gt;" in page

    def test_every_status_has_a_sign_and_a_word(self):
        pages = [
            check("naive_mean", a)._repr_html_()
            for a in (right, ..., lambda x: right(x.detach()), lambda x: x)
        ]
        for page, sign, word in zip(
            pages,
            "✓○◐✗",
            ["right", "not attempted yet", "partly right", "not right yet"],
            strict=True,
        ):
            assert sign in page and word in page

    def test_a_misconception_speaks_its_three_sentences(self):
        m: Misconception = NAIVE_MEAN.misconceptions[0]
        report = check("naive_mean", m.answer)
        for sentence in (m.what, m.why, m.mend):
            assert sentence.replace("`", "") in str(report)
        assert 'hint("naive_mean")' in str(report)

    def test_a_misconception_with_a_second_fault_is_still_named(self):
        def naive_mean(x):
            out = x.mean(1, keepdim=True).expand_as(x).float()
            x.zero_()
            return out

        assert check("naive_mean", naive_mean).misconception == "includes_future"


NOTEBOOK = """
def masked_softmax(scores, hidden):
    {earlier}

def softmax_mean(x):
    T = x.shape[1]
    future = torch.ones(T, T).{triangle} == 1
    return masked_softmax(x.new_zeros(T, T), future) @ x
"""


class TestAnAnswerThatCallsAnEarlierOne:
    def answer(self, earlier, triangle="triu(1)"):
        space = {"torch": torch}
        exec(NOTEBOOK.format(earlier=earlier, triangle=triangle), space)
        return space

    def test_is_not_blamed_for_a_fault_of_the_earlier_one(self):
        for earlier in ("return ...", "return torch.softmax(scores, -1)", "raise OSError"):
            space = self.answer(earlier)
            before = space["masked_softmax"]
            report = check("softmax_mean", space["softmax_mean"])
            assert report.passed, str(report)
            assert "`masked_softmax`" in report.notes[-1]
            assert space["masked_softmax"] is before

    def test_is_told_its_own_fault_all_the_same(self):
        space = self.answer("return torch.softmax(scores, -1)", "triu(0)")
        assert not check("softmax_mean", space["softmax_mean"]).passed

    def test_works_where_the_earlier_one_is_missing(self):
        space = self.answer("return 1")
        del space["masked_softmax"]
        assert check("softmax_mean", space["softmax_mean"]).passed
        assert "masked_softmax" not in space

    def test_says_nothing_when_the_earlier_one_is_right(self):
        earlier = "return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)"
        assert not check("softmax_mean", self.answer(earlier)["softmax_mean"]).notes


class TestHints:
    def test_come_one_after_the_other_and_end_kindly(self):
        given = [repr(hint("tril_mean")) for _ in range(4)]
        assert [g.split(" for")[0] for g in given[:3]] == [f"Hint {i} of 3" for i in (1, 2, 3)]
        assert given[3].startswith("That was all")
        assert "<p" in hint("tril_mean", 1)._repr_html_()

    def test_for_an_unknown_exercise_name_the_nearest(self):
        assert "naive_mean" in repr(hint("naive_meen"))


class TestProgress:
    def test_lists_every_exercise_and_keeps_the_best_result(self):
        check("naive_mean", lambda x: x)
        check("naive_mean", right)
        check("naive_mean", lambda x: x)
        table = progress()
        listed = {id: points for _, rows in table.rows for id, points, _ in rows}
        assert list(listed) == ids()
        assert listed["naive_mean"] == 2.0 and listed["softmax"] is None
        assert "naive_mean" in repr(table) and "<table" in table._repr_html_()

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
            b'{"exercises": {"naive_mean": 2}}',
            b"[" * 100_000,
        ],
    )
    def test_a_damaged_file_is_set_aside_and_told(self, own_progress, content):
        own_progress.write_bytes(content)
        table = progress()
        assert "set aside" in table.notice
        aside = own_progress.with_name("progress.json.damaged-1")
        assert aside.read_bytes() == content
        check("naive_mean", right)
        assert progress().points == 2.0

    def test_a_folder_that_cannot_be_written_stops_nothing(self, monkeypatch, tmp_path):
        (tmp_path / "file").touch()
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "file" / "progress.json"))
        assert check("naive_mean", right).passed
        assert progress().points == 0

    def test_two_notebooks_at_once_lose_nothing(self, own_progress):
        code = (
            "import sys; from course_utils import check; from tests.answers import RIGHT\n"
            "for i in sys.argv[1:]: check(i, next(iter(RIGHT[i].values())))"
        )
        halves = ["naive_mean", "tril_mean"], ["softmax", "softmax_mean"]
        running = [
            subprocess.Popen([sys.executable, "-c", code, *half], cwd=COURSE) for half in halves
        ]
        assert [p.wait() for p in running] == [0, 0]
        assert progress().points == 8.0

    @pytest.mark.parametrize("switch", [("COURSE_PROGRESS", "off"), ("NBGRADER_EXECUTION", "1")])
    def test_can_be_switched_off(self, monkeypatch, own_progress, switch):
        monkeypatch.setenv(*switch)
        assert check("naive_mean", right).passed
        assert progress().points == 0
        assert not own_progress.exists()

    def test_lies_in_the_course_folder(self, monkeypatch, tmp_path):
        from course_utils.checking import progress_path

        monkeypatch.delenv("COURSE_PROGRESS")
        course = tmp_path / "course"
        (course / "notebooks" / "1-averages").mkdir(parents=True)
        (course / "nbgrader_config.py").touch()
        monkeypatch.chdir(course / "notebooks" / "1-averages")
        assert progress_path() == course / ".course_progress.json"
        monkeypatch.chdir(tmp_path)
        assert progress_path() == tmp_path / ".course_progress.json"


class TestThePackage:
    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(AttributeError, match="check, "):
            _ = course_utils.chekc

    def test_importing_it_loads_neither_torch_nor_the_catalogue(self):
        code = (
            "import sys, course_utils; print([m for m in ('torch', 'IPython') if m in sys.modules])"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert out.stdout.strip() == "[]"

    def test_a_numpy_answer_says_so(self):
        report = check("naive_mean", lambda x: numpy.cumsum(x.numpy(), 1))
        assert "ndarray" in str(report)

    def test_exercises_can_be_checked_without_being_kept(self, own_progress):
        assert check_exercise(NAIVE_MEAN, right).passed
        assert not own_progress.exists()
