"""The experiments of lesson 13 measure what the lesson states."""

import pytest
import torch

from course_utils import attention
from course_utils.experiments import caching, performance, tiny_lm
from course_utils.experiments.measuring import kept_bytes
from course_utils.language_model import generate, generate_cached, next_logits

pytestmark = pytest.mark.full("the lessons' experiments")

CPU = torch.device("cpu")


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


def prefill(model, ids):
    return next_logits(model, ids, [])


def test_only_what_is_asked_is_timed(monkeypatch):
    """With a clock that counts calls of the model and the tokens that it reads."""
    calls = []
    forward = torch.nn.Embedding.forward

    def counted(action, rounds):
        calls.clear()
        action()
        return float(sum(calls)) + len(calls) / 100  # 4 tokens in 2 calls are 4.02

    def look_up(self, ids):
        if self.num_embeddings == caching.VOCABULARY:
            calls.append(ids.numel())
        return forward(self, ids)

    monkeypatch.setattr(caching, "seconds", counted)
    monkeypatch.setattr(torch.nn.Embedding, "forward", look_up)
    reading, writing = caching.costs([4, 8], CPU, next_logits, prefill)
    assert reading["token by token"] == pytest.approx([4_040, 8_080])
    assert reading["all at once"] == pytest.approx([4_010, 8_010])
    assert writing["without a cache"] == pytest.approx([4_010, 8_010])
    assert writing["with a cache"] == pytest.approx([1_010, 1_010])


def test_logits_with_and_without_a_cache_agree_to_about_six_digits():
    model = tiny_lm.readers_model()
    ids = tiny_lm.ids_of(". the dogs near the cat")
    _, caches = prefill(model, ids[:, :-1])
    ours, _ = next_logits(model, ids[:, -1:], caches)
    torch.testing.assert_close(ours, model(ids)[:, -1], atol=2e-5, rtol=0)


def test_the_picture_is_drawn():
    square = caching.square_and_strip([2, 3], "A title", "a text")
    assert square.alt == "a text" and square.width > 400
    both = caching.prefill_and_decode(
        [2, 3], CPU, next_logits, prefill, "A title", "a text", rounds=1
    )
    assert both.alt == "a text" and both.width > 400
