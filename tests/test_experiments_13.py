"""The experiments of lesson 13 measure what the lesson states."""

import pytest
import torch

from course_utils import attention
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
        torch.testing.assert_close(performance.by_hand(*parts), performance.built_in(*parts))

    def test_by_hand_memory_grows_with_the_square(self):
        def kept(name, T):
            parts = performance.heads(T, CPU)
            return kept_bytes(lambda: performance.WAYS[name](*parts))

        assert kept("by hand", 512) / kept("by hand", 256) == pytest.approx(4, rel=0.15)
        assert kept("SDPA", 512) / kept("SDPA", 256) == pytest.approx(2, rel=0.01)


def test_autocast_keeps_less_for_backward():
    attend = attention.make_mha("sdpa", d_in=64, d_out=64, num_heads=4, context_length=128)
    x = torch.randn(2, 128, 64)
    whole = kept_bytes(lambda: attend(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert kept_bytes(lambda: attend(x)) / whole == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize(("write", "pushed"), [(generate, 55), (generate_cached, 10)])
def test_positions_are_counted(write, pushed):
    model = caching.new_model(16, CPU)
    assert caching.positions_pushed(write, model, torch.tensor([[3]]), 10) == pushed


def test_the_prompt_is_counted_too():
    model = caching.new_model(16, CPU)
    ids = torch.tensor([[3, 4, 5], [6, 7, 8]])
    assert caching.positions_pushed(generate_cached, model, ids, 4) == 2 * (3 + 3)
    assert caching.positions_pushed(generate, model, ids, 4) == 2 * (3 + 4 + 5 + 6)


@pytest.mark.parametrize("cached", [True, False])
def test_only_the_new_token_is_timed(monkeypatch, cached):
    """With a clock that counts what the model reads: one token, or all 20."""
    model, read = caching.new_model(40, CPU), []
    model.embed.token.register_forward_pre_hook(lambda _, given: read.append(given[0].numel()))

    def counted(action, rounds):
        read.clear()
        action()
        return float(sum(read))

    monkeypatch.setattr(caching, "seconds", counted)
    assert caching.token_seconds(model, 20, cached) == (1 if cached else 20)


def test_the_picture_is_drawn():
    square = caching.square_and_strip([2, 3], "A title", "a text")
    assert square.alt == "a text" and square.width > 400
