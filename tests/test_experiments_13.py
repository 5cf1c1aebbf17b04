"""The experiments of lesson 13 measure what the lesson states."""

import pytest
import torch

from course_utils.experiments import caching, performance
from course_utils.experiments.measuring import kept_bytes
from course_utils.language_model import generate, generate_cached

pytestmark = pytest.mark.full("the lessons' experiments")

CPU = torch.device("cpu")


class TestKernels:
    ASKED = performance.asked(CPU)

    def test_on_a_cpu_dropout_and_a_mask_of_three_dimensions_bring_math_back(self):
        ran = {name: performance.kernel_that_ran(**call) for name, call in self.ASKED.items()}
        by_hand = {name for name, kernel in ran.items() if kernel == "math"}
        assert by_hand == {"attn_mask (H, T, T)", "dropout_p=0.1"}
        assert set(ran.values()) == {"flash", "math"}

    def test_pytorch_s_reason_is_shown(self):
        said = {name: performance.why_not("flash", **call) for name, call in self.ASKED.items()}
        assert "dropout" in said["dropout_p=0.1"]
        assert said["attn_mask (H, T, T)"].endswith("2d; 4d")
        assert said["nothing else"] == ""


class TestAgainstLength:
    def test_both_ways_give_the_same(self):
        parts = performance.heads(37, CPU)
        torch.testing.assert_close(performance.naive(*parts), performance.built_in(*parts))

    def test_by_hand_memory_grows_with_the_square(self):
        def kept(name, T):
            parts = performance.heads(T, CPU)
            return kept_bytes(lambda: performance.WAYS[name](*parts))

        assert kept("naive", 512) / kept("naive", 256) == pytest.approx(4, rel=0.15)
        assert kept("SDPA", 512) / kept("SDPA", 256) == pytest.approx(2, rel=0.01)


def test_the_kinds_of_the_bill_give_the_same_numbers():
    kinds = performance.rivals(CPU)
    x = torch.randn(1, 9, performance.SIZES[2])
    for module in kinds.values():
        torch.testing.assert_close(module(x), kinds["split"](x), rtol=1e-4, atol=1e-5)


def test_measured_memory_matches_the_stored_ratios():
    kept = {name: kept_bytes(run) for name, run in performance.calls(CPU).items()}
    for name, (_, once) in performance.ONCE.items():
        assert kept[name] / kept[performance.BASE] == pytest.approx(once, abs=0.02)


@pytest.mark.parametrize(("write", "pushed"), [(generate, 55), (generate_cached, 10)])
def test_positions_are_counted(write, pushed):
    model = caching.new_model(16, CPU)
    assert caching.positions_pushed(write, model, torch.tensor([[3]]), 10) == pushed


def test_the_prompt_is_counted_too():
    model = caching.new_model(16, CPU)
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    assert caching.positions_pushed(generate_cached, model, ids, 4) == 2 * (3 + 3)
    assert caching.positions_pushed(generate, model, ids, 4) == 2 * (3 + 4 + 5 + 6)


def test_times_are_measured():
    model = caching.new_model(40, CPU)
    assert 0 < caching.token_seconds(model, 20, cached=True, rounds=1) < 1
    assert 0 < caching.token_seconds(model, 20, cached=False, rounds=1) < 1


def test_the_pictures_are_drawn():
    square = caching.square_and_strip([2, 3], "A title", "a text")
    assert square.alt == "a text" and square.width > 400
    bill = performance.draw_bill(performance.ONCE, "A title", "a text")
    assert bill.alt == "a text"
