"""Every failure gets a report; nothing raises, hangs or prints to stderr."""

import random
import sys

import pytest
import torch
from nbformat.v4 import new_code_cell, new_output
from nbgrader.utils import determine_grade

from course_utils.desk.checks import catalogue, check
from whywrong._checker import argument_mismatch
from whywrong.hosting import Misconception, describe

COURSE = catalogue()
NAIVE_MEAN = COURSE.find("naive_mean")
WRONG = {m.id: m.answer for m in reversed(NAIVE_MEAN.misconceptions)}


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

    def test_gets_the_same_words_whatever_the_seed(self):
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

    def test_is_distinguished_from_a_forgotten_return(self):
        def naive_mean(x):
            out = x.cumsum(1)  # noqa: F841

        report = check("naive_mean", naive_mean)
        assert report.attempted
        assert "return" in report.message


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
        signature = describe(lambda x, y=1: x).signature
        assert argument_mismatch(signature, NAIVE_MEAN.cases(0)) is None
        ordered, by_name = lambda ids, length, stride, /: ids, COURSE.find("sliding_windows")
        assert argument_mismatch(describe(ordered).signature, by_name.cases(0)) is None

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        report = check("naive_men", right)
        assert "naive_mean" in report.message
        assert repr(report) == "0.0"
        assert "progress()" in check("zzzzzzzz", right).message

    def test_the_arguments_swapped(self):
        def naive_mean(x):
            return right(x)

        assert 'check("naive_mean", naive_mean)' in check(naive_mean, "naive_mean").message

    def test_a_quiz_that_is_no_dict_or_a_broken_one(self):
        assert "dict" in check("naive_mean_shapes", (3, 2)).message
        broken = type("Broken", (dict,), {"items": lambda self: self["lost"]})()
        assert "lost" in check("naive_mean_shapes", broken).message

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
        assert report.detail.splitlines()[-1] == "shapes at this line: x: (1, 3, 2)"

    def test_of_many_calls_the_first_two_and_the_last_two_lines_are_shown(self):
        def naive_mean(x, left=6):
            return naive_mean(x, left - 1) if left else x[99]

        shown = check("naive_mean", naive_mean).detail.splitlines()
        at = shown.index("…")
        assert [("in naive_mean" in line) for line in shown[at - 2 : at]] == [True, True]
        assert [("in naive_mean" in line) for line in shown[at + 1 :]] == [True, True, False]
        assert shown[-1].startswith("shapes at this line")

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
            assert x.shape[1] < 5, "too long for me"
            return right(x)

        report = check("naive_mean", naive_mean)
        assert "too long for me" in report.message and report.points == 0
        assert "did not" not in report.detail

    @pytest.mark.parametrize("id", ["CausalSelfAttention", "MultiHeadAttention"])
    def test_an_error_of_a_later_call_is_not_said_to_come_from_the_first(self, id):
        class Falsy(Exception):
            def __bool__(self):
                return False

        class Keeps(COURSE.find(id).reference):
            """Keeps its first mask, whatever the length of the next text."""

            kept = None

            def forward(self, x, pad_mask=None):
                self.kept = x.shape[1] if self.kept is None else self.kept
                if x.shape[1] != self.kept:
                    raise Falsy("another length")
                return super().forward(x) if pad_mask is None else super().forward(x, pad_mask)

        report = check(id, Keeps)
        assert "another length" in report.message
        said = "A later call, with other inputs, by name or in the other mode, failed."
        assert f": this ran. {said}" in report.detail


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
    def test_that_are_not_tensors_are_named(self, result, said):
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
        assert (report.row.label, report.row.wrong[-1]) == ("result[0, 2, :]", True)

    def test_of_a_tensor_subclass_are_taken_as_plain(self):
        class Always(torch.Tensor):
            def __eq__(self, other):
                return True

        assert not check("naive_mean", lambda x: x.as_subclass(Always)).passed
        assert check("naive_mean", lambda x: right(x).as_subclass(Always)).passed

    def test_that_are_views_or_not_contiguous_pass(self):
        assert check("naive_mean", lambda x: right(x).mT.contiguous().mT).passed


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

    def test_an_input_that_requires_gradients_afterwards(self):
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

    def test_right_values_with_a_changed_input(self):
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

    def test_randomness(self):
        assert (
            "different results"
            in check("naive_mean", lambda x: right(x) + 1e-7 * random.random()).message
        )

    def test_dependence_on_the_global_seed(self):
        report = check("naive_mean", lambda x: right(x) + 1e-7 * torch.rand(()).to(x.dtype))
        assert "seed" in report.message and not report.passed

    def test_a_float32_step_costs_nothing(self):
        def softmax(scores, dim=-1):
            shifted = (scores - scores.amax(dim, keepdim=True)).float()
            return (shifted.exp() / shifted.exp().sum(dim, keepdim=True)).to(scores.dtype)

        report = check("softmax", softmax)
        assert report.passed, str(report)

    def test_thousands_of_printed_lines_are_counted_not_shown(self):
        def naive_mean(x):
            for i in range(1_000):
                print("line", i)
                print("error", i, file=sys.stderr)
            return right(x)

        report = check("naive_mean", naive_mean)
        assert report.passed
        assert "lines while it was checked" in report.notes[0]
        assert len(str(report)) < 3000

    @pytest.mark.filterwarnings("error")
    def test_warnings_are_kept_from_stderr(self):
        import warnings

        def naive_mean(x):
            warnings.warn("deprecated", stacklevel=1)
            return right(x)

        assert check("naive_mean", naive_mean).passed


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

    def test_a_misconception_shows_its_three_sentences(self):
        m: Misconception = NAIVE_MEAN.misconceptions[0]
        report = check("naive_mean", m.answer)
        for sentence in (m.what, m.why, m.look):
            assert sentence.replace("`", "") in str(report)
        assert 'hint("naive_mean")' in str(report)

    def test_a_misconception_with_a_second_fault_is_still_named(self):
        def naive_mean(x):
            out = x.mean(1, keepdim=True).expand_as(x).float()
            x.zero_()
            return out

        assert check("naive_mean", naive_mean).misconception == "no_mask"


def test_a_mistake_of_this_answer_comes_before_one_of_an_earlier_answer():
    mine = {"torch": torch, "causal_mean_weights": lambda T: torch.tril(torch.ones(T, T))}
    exec("def tril_mean(x): return causal_mean_weights(x.shape[1]).to(x.dtype) @ x", mine)
    report = check("tril_mean", mine["tril_mean"])
    assert (report.points, report.misconception) == (1.5, "stays_on_the_cpu")
    assert "`causal_mean_weights`" in report.notes[-1]
