"""The effects of an answer on its environment: time, changed settings, other devices."""

import contextlib
import os
import random
import threading
import time
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from torch import nn

from whywrong import Case, Catalogue, check_exercise
from whywrong._settings import restore_functions
from whywrong.hosting import Clock, Rules, run

from .tiny import CAUSAL_MEAN, STANDARDISED


class CausalMean(nn.Module):
    """A right answer in steps that subclasses override."""

    def __init__(self, d_in, d_out, dropout=0.0):
        super().__init__()
        self.value = nn.Linear(d_in, d_out, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.shares(self.visible(x))) @ self.value(x)

    def visible(self, x):
        return x.new_ones(x.shape[1], x.shape[1]).tril()

    def shares(self, visible):
        return visible / visible.sum(-1, keepdim=True)


@pytest.fixture(autouse=True)
def nothing_is_printed(capfd):
    yield
    assert capfd.readouterr() == ("", "")


def right(x):
    if x.shape[-1] < 2:
        raise ValueError(f"{x.shape[-1]} channel has no spread")
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt()


def check(answer, exercise=STANDARDISED, **options):
    return check_exercise(exercise, answer, **options)


def told(report):
    return {r.id: r.holds for r in report.behaviours}


def costs_a_quarter(report, property):
    """Only this is wrong."""
    broken = [r.id for r in report.behaviours if r.holds is False]
    return broken == [property] and report.points == 1.5 and not report.passed


# ---------------------------------------------------------------- time


# A stopped thread ends when it wakes up; threading ignores that, but pytest doesn't.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
class TestTime:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setenv("COURSE_CHECK_SECONDS", "0.5")

    def seconds(self, answer, exercise=STANDARDISED, catalogue=None):
        check(right, exercise)  # creates the key
        start = time.monotonic()
        report = check(answer, exercise, catalogue=catalogue)
        return report, time.monotonic() - start

    def test_an_endless_loop_is_stopped_and_reported(self):
        def standardised(x):
            while True:
                pass

        report, seconds = self.seconds(standardised)
        assert report.points == 0 and seconds < 4
        assert "0.5 seconds" in report.message and "loop" in report.message
        assert "in standardised" in report.detail
        assert not any(t.name.startswith("check") for t in threading.enumerate())

    def test_an_endless_loop_that_catches_exceptions(self):
        def standardised(x):
            while True:
                with contextlib.suppress(Exception):
                    time.sleep(0.001)

        assert "loop" in check(standardised).message

    def test_an_endless_loop_that_catches_everything_does_not_hang_the_notebook(self):
        stop = threading.Event()

        def standardised(x):
            while not stop.is_set():
                with contextlib.suppress(BaseException):
                    time.sleep(0.001)
            return x

        try:
            report, seconds = self.seconds(standardised)
            assert "loop" in report.message and seconds < 4
        finally:
            stop.set()

    def test_a_long_sleep_ends_in_time(self):
        report, seconds = self.seconds(lambda x: time.sleep(20))
        assert "seconds" in report.message and seconds < 4

    def test_a_lock_that_is_never_released_ends_in_time(self):
        lock = threading.Lock()

        def standardised(x):
            with lock, lock:
                return right(x)

        try:
            report, seconds = self.seconds(standardised)
            assert "seconds" in report.message and seconds < 4
        finally:
            lock.release()

    def test_trying_it_with_earlier_parts_uses_the_same_time_limit(self, monkeypatch):
        """The reader's own earlier part takes most of the time and fails; with the finished one
        there would be no end."""
        monkeypatch.setenv("COURSE_CHECK_SECONDS", "1")
        uses = replace(STANDARDISED, id="second", rules=Rules(uses=("standardised",)))
        space = {"time": time}
        exec(
            "def standardised(x):\n    time.sleep(0.4)\n    1 / 0\n"
            "def second(x):\n    y = standardised(x)\n    time.sleep(20)\n    return y",
            space,
        )
        report, seconds = self.seconds(space["second"], uses, Catalogue.of(STANDARDISED, uses))
        assert "ZeroDivisionError" in report.message
        assert 2.9 < seconds < 6

    def test_a_thread_that_ends_late_changes_nothing(self, monkeypatch, tmp_path):
        wake = threading.Event()

        def standardised(x):
            wake.wait(30)

        before = set(threading.enumerate())
        assert "seconds" in check(standardised).message
        (late,) = set(threading.enumerate()) - before
        monkeypatch.setenv("A_NEW_ONE", "stays")
        monkeypatch.chdir(tmp_path)
        wake.set()
        late.join(5)
        assert not late.is_alive()
        assert os.environ.get("A_NEW_ONE") == "stays"
        assert os.getcwd() == str(tmp_path)

    def test_a_module_whose_import_was_stopped_can_be_imported_later(self, monkeypatch, tmp_path):
        (tmp_path / "slow_to_load.py").write_text(
            "import time\nwhile not hasattr(time, 'loads_now'):\n    pass\nloaded = True\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

        def standardised(x):
            import slow_to_load

            return right(x) * slow_to_load.loaded

        assert "seconds" in check(standardised).message
        monkeypatch.setattr(time, "loads_now", True, raising=False)
        assert check(standardised).passed

    def test_an_invalid_time_limit_gives_the_default(self, monkeypatch):
        monkeypatch.setenv("COURSE_CHECK_SECONDS", "soon")
        assert check(right).passed


# ---------------------------------------------------------------- changed settings


def leaves(action):
    def standardised(x):
        action()
        return right(x)

    return standardised


def _replace_softmax():
    torch.softmax = lambda *args, **kwargs: None


LEFT_BEHIND = {
    "gradient mode": lambda: torch.set_grad_enabled(False),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "the random seed": lambda: torch.manual_seed(3),
    "torch.softmax": _replace_softmax,
    "environment variables": lambda: os.environ.update(LEFT_BEHIND="1"),
    "working folder": lambda: os.chdir("/"),
}


class TestWhatIsLeftBehind:
    @pytest.mark.parametrize("what", LEFT_BEHIND)
    def test_is_reported_restored_and_costs_a_quarter(self, what):
        softmax, folder = torch.softmax, os.getcwd()
        answer = leaves(LEFT_BEHIND[what])
        report = check(answer)
        assert costs_a_quarter(report, "leaves_settings"), str(report)
        assert what in report.message.replace("`", "")
        assert check(right).passed
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        assert str(torch.get_default_device()) == "cpu"
        assert torch.softmax is softmax
        assert "LEFT_BEHIND" not in os.environ and os.getcwd() == folder

    def test_inside_a_module_is_reported_too(self):
        class Leaves(CausalMean):
            def forward(self, x):
                torch.set_default_dtype(torch.float64)
                return super().forward(x)

        assert costs_a_quarter(check(Leaves, CAUSAL_MEAN), "leaves_settings")

    def test_what_the_answer_restores_or_pytorch_sets_itself_is_not_reported(self):
        def standardised(x):
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = "set by the compiler"
            with torch.no_grad():
                x.sum()
            before = torch.get_rng_state()
            torch.manual_seed(3)
            torch.set_rng_state(before)
            return right(x)

        assert check(standardised).passed

    def test_the_random_numbers_of_the_notebook_continue_unchanged(self):
        def seed(number):
            for of in (torch.manual_seed, random.seed, np.random.seed):
                of(number)

        def drawn():
            return torch.rand(1).item(), random.random(), np.random.rand()

        seed(1)
        expected = drawn()
        seed(1)
        check(leaves(lambda: seed(99)))
        assert drawn() == expected


class TestWhatTheNotebookHad:
    def test_replaced_functions_are_restored_before_the_check_and_reported(self):
        softmax = torch.softmax
        try:
            _replace_softmax()
            report = check(right)
            assert report.passed
            assert "`torch.softmax`" in report.notes[-1] and "restored" in report.notes[-1]
            assert torch.softmax is softmax
            assert not check(right).notes
        finally:
            torch.softmax = softmax

    def test_a_kernels_own_input_function_is_not_reported(self, monkeypatch):
        monkeypatch.setattr("builtins.input", lambda prompt: "a kernel's")
        assert restore_functions() == []
        assert not check(right).notes

    @pytest.mark.parametrize("device", ["meta", "cpu"])
    def test_a_default_device_has_no_effect(self, device):
        wrong = check(lambda x: x).to_dict()
        torch.set_default_device(device)
        try:
            fresh = replace(STANDARDISED)  # a separate key, created under this device
            assert check(right, fresh).passed
            assert check(lambda x: x, fresh).to_dict() == wrong
            assert str(torch.get_default_device()) == device
        finally:
            torch.set_default_device(None)

    def test_gradient_mode_and_dtype_have_no_effect(self):
        with torch.no_grad():
            assert check(right).passed
            assert not torch.is_grad_enabled()
        torch.set_default_dtype(torch.float64)
        try:
            fresh = replace(STANDARDISED)
            assert check(right, fresh).passed
            usual = torch.get_default_dtype
            assert not check(lambda x: right(x.to(usual())), fresh).passed
            assert torch.get_default_dtype() == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


# ---------------------------------------------------------------- another device


class MaskInPrivate(CausalMean):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._mask = torch.ones(20, 20).tril()

    def visible(self, x):
        return self._mask[: x.shape[1], : x.shape[1]].to(x.dtype)


class MaskInClass(CausalMean):
    MASK = torch.ones(20, 20).tril()

    def visible(self, x):
        return self.MASK[: x.shape[1], : x.shape[1]].to(x.dtype)


class MaskKept(CausalMean):
    def visible(self, x):
        if not hasattr(self, "kept"):
            self.kept = super().visible(x)
        return self.kept


class MaskOnTheSpot(CausalMean):
    def visible(self, x):
        return torch.ones(x.shape[1], x.shape[1], dtype=x.dtype).tril()


class MaskFromRange(CausalMean):
    def visible(self, x):
        t = torch.arange(x.shape[1])
        return (t[:, None] >= t).to(x.dtype)


class MaskAsBuffer(CausalMean):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("mask", torch.ones(20, 20).tril(), persistent=False)

    def visible(self, x):
        return self.mask[: x.shape[1], : x.shape[1]].to(x.dtype)


class MaskMoved(CausalMean):
    MASK = torch.ones(20, 20).tril()

    def visible(self, x):
        return self.MASK[: x.shape[1], : x.shape[1]].to(x)


class ReadsValues(CausalMean):
    def visible(self, x):
        return super().visible(x) if x.sum().item() < 1e9 else x.abs().max().item()


class TestAnotherDevice:
    @pytest.mark.parametrize(
        "answer", [MaskInPrivate, MaskInClass, MaskKept, MaskOnTheSpot, MaskFromRange]
    )
    def test_a_module_that_leaves_its_mask_behind_is_refused(self, answer):
        report = check(answer, CAUSAL_MEAN)
        assert costs_a_quarter(report, "device"), str(report)
        assert "another device" in report.message

    @pytest.mark.parametrize("answer", [MaskAsBuffer, MaskMoved, ReadsValues])
    def test_a_module_that_moves_its_mask_passes(self, answer):
        assert check(answer, CAUSAL_MEAN).passed

    @pytest.mark.parametrize(
        "made",
        [
            lambda x: torch.ones(x.shape, dtype=x.dtype),
            lambda x: torch.arange(1, x.shape[-1] + 1).to(x.dtype) * 0 + 1,
            lambda x: torch.eye(x.shape[-1], dtype=x.dtype).sum(0),
            lambda x: torch.from_numpy(torch.ones(x.shape[-1]).numpy()).to(x.dtype),
        ],
        ids=["ones", "arange", "eye", "numpy"],
    )
    def test_a_function_that_makes_a_tensor_without_a_device_is_refused(self, made):
        report = check(lambda x: right(x) * made(x))
        assert costs_a_quarter(report, "device"), str(report)

    def test_a_result_made_on_the_cpu_is_refused(self):
        report = check(lambda x: torch.stack(list(right(x))).cpu())
        assert costs_a_quarter(report, "device"), str(report)
        assert "result was on the CPU" in report.message

    @pytest.mark.parametrize(
        "answer",
        [
            lambda x: right(x) if x.max().item() < 1e9 else x,
            lambda x: right(x) * torch.ones(x.shape[-1], dtype=x.dtype, device=x.device),
            lambda x: right(x) + torch.zeros_like(x),
            lambda x: right(x) * x.new_ones(()),
            lambda x: right(x)[torch.arange(len(x))],
            lambda x: right(x) * torch.tensor(1.0),
            lambda x: torch.stack([right(row) for row in x]),
            lambda x: torch.vmap(right)(x) if len(x) > 1 else right(x),
        ],
        ids=["item", "device", "like", "new", "index", "number", "rows", "vmap"],
    )
    def test_a_function_that_stays_with_its_input_passes(self, answer):
        report = check(answer)
        assert report.passed, str(report)


# ---------------------------------------------------------------- modules


class TestModules:
    def test_whose_second_result_overwrites_the_first_are_refused(self):
        class Overwrites(CausalMean):
            def forward(self, x):
                out = super().forward(x)
                if self.training or x.requires_grad or self.value.weight.grad is not None:
                    return out
                if getattr(self, "memory", out).shape != out.shape:
                    del self.memory
                if not hasattr(self, "memory"):
                    self.memory = torch.empty_like(out)
                with torch.no_grad():
                    return self.memory.copy_(out)

        report = check(Overwrites, CAUSAL_MEAN)
        assert not report.passed
        assert told(report)["kept"] is False, str(report)

    def test_that_make_their_input_require_gradients_are_refused(self):
        class Asks(CausalMean):
            def forward(self, x):
                return super().forward(x.requires_grad_())

        report = check(Asks, CAUSAL_MEAN)
        assert costs_a_quarter(report, "unmodified") and "(x)" in report.message

    def test_that_make_a_part_when_called_pass(self):
        class Makes(CausalMean):
            def shares(self, visible):
                self.softmax = nn.Softmax(-1)
                return self.softmax(visible.log())

        assert check(Makes, CAUSAL_MEAN).passed


# ---------------------------------------------------------------- refusals, numbers, gradients


class TestWhatCountsAsRight:
    def test_a_subclass_of_value_error(self):
        class TooNarrow(ValueError):
            pass

        def standardised(x):
            if x.shape[-1] < 2:
                raise TooNarrow(f"{x.shape[-1]} is too narrow")
            return right(x)

        assert check(standardised).passed

    @pytest.mark.parametrize("error", [TypeError, RuntimeError, AssertionError])
    def test_no_other_error(self, error):
        def standardised(x):
            if x.shape[-1] < 2:
                raise error(f"{x.shape[-1]} is too narrow")
            return right(x)

        assert costs_a_quarter(check(standardised), "refuses")

    def test_no_message_without_the_number(self):
        def standardised(x):
            if x.shape[-1] < 2:
                raise ValueError("too narrow")
            return right(x)

        report = check(standardised)
        assert costs_a_quarter(report, "refuses")
        assert "refused with a ValueError; yours doesn't name 1" in str(report)
        assert "message should contain 1" in report.message

    def test_an_integer_of_numpy(self):
        import numpy

        count = replace(
            STANDARDISED,
            id="count",
            returns="int",
            cases=lambda seed: [Case("some", {"x": torch.zeros(3, 4 + seed)})],
            probe=type(STANDARDISED.probe)(),
            expect=lambda case: {"out": torch.tensor(case["x"].numel())},
            properties=(),
            misconceptions=(),
        )
        assert check(lambda x: x.numel(), count).passed
        assert check(lambda x: numpy.int64(x.numel()), count).passed
        assert not check(lambda x: float(x.numel()), count).passed
        assert not check(lambda x: numpy.array([x.numel()]), count).passed

    def test_no_gradient_where_it_is_zero(self):
        def expected(x, y):
            return x + 0 * y

        zero = replace(
            STANDARDISED,
            id="zero",
            cases=lambda seed: [
                Case("some", {"x": torch.ones(2, 3), "y": torch.ones(2, 3)}, roles={"typical"})
            ],
            probe=type(STANDARDISED.probe)(gradients=("x", "y")),
            expect=lambda case: {
                "out": case["x"] * 1,
                "grad:x": GRADIENT,
                "grad:y": torch.zeros(2, 3),
            },
            properties=(),
            misconceptions=(),
        )
        from whywrong.probing import cotangent

        GRADIENT = cotangent(torch.ones(2, 3))
        assert check(expected, zero).passed
        assert check(lambda x, y: x * 1, zero).passed
        assert not check(lambda x, y: x.detach() + 0 * y, zero).passed

    def test_an_observation_ends_with_the_case_that_ran_out_of_time(self):
        cases = STANDARDISED.cases(0)
        seen = run(STANDARDISED, lambda x: time.sleep(0.4), cases, clock=Clock(0.05, wall=0.2))
        assert [o.error["kind"] for o in seen] == ["time"]


def test_the_finished_part_is_distinguished_from_an_answer():
    def finished(x):
        return right(x)

    exercise = replace(STANDARDISED, finished=finished)
    report = check(finished, exercise)
    assert report.points == 0 and "finished part" in report.message
    calls = count()
    report = check(lambda x: (finished if next(calls) == 1 else right)(x), exercise)
    assert report.points == 0 and "finished part" in report.message
    assert check(right, exercise).passed
