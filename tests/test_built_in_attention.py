"""Lesson 13: the built-ins, the kinds of attention and the cache."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from course_utils.attention import (
    attention_scores,
    cached_attention_step,
    count_parameters,
    make_mha,
    padding_mask,
    safe_masked_softmax,
    sdpa_attention,
)
from tests.kinds import copy_mha
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh, with_and_without_bias


def in_words(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return safe_masked_softmax(attention_scores(query, key), hidden) @ value


def queries_keys_values(dtype: torch.dtype, T: int = 5, S: int = 7) -> list[Tensor]:
    """`(2, 3, T, 4)` and twice `(2, 3, S, 4)`."""
    return [numbers(2, 3, n, 4, dtype=dtype, seed=seed) for seed, n in enumerate((T, S, S))]


@both_dtypes
@pytest.mark.parametrize(
    "shape",
    [(2, 3, 5, 7), (2, 1, 5, 7), (2, 1, 1, 7), (1, 3, 5, 1), (3, 1, 7), (5, 7), (5, 1), (7,), ()],
    ids=str,
)
def test_sdpa_attention_equals_the_written_out_attention_under_any_mask(shape, dtype):
    inputs = queries_keys_values(dtype)
    for share in (0.0, 0.5, 1.0):
        hidden = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < share
        before = hidden.clone()
        actual, expected = sdpa_attention(*inputs, hidden), in_words(*inputs, hidden)
        assert actual.dtype == dtype
        assert torch.equal(hidden, before)
        assert_equal(actual, expected)
        for got, want in zip(gradients(actual, inputs), gradients(expected, inputs), strict=True):
            assert_equal(got, want)
        with torch.no_grad():
            assert_equal(sdpa_attention(*inputs, hidden), expected)


def test_sdpa_attention_refuses_numeric_masks_and_masks_larger_than_the_scores():
    inputs = queries_keys_values(torch.float32)
    with pytest.raises(ValueError, match="bool, got torch.float32"):
        sdpa_attention(*inputs, torch.zeros(5, 7))
    with pytest.raises(RuntimeError):
        sdpa_attention(*inputs, torch.zeros(6, 2, 3, 5, 7, dtype=torch.bool))


KINDS = ["wrapper", "split", "sdpa", "torch"]
PADDED_BEHIND = padding_mask([4, 7, 2, 0], 7)
PADDINGS = {
    "none": None,
    "behind": PADDED_BEHIND,
    "in-front": PADDED_BEHIND.flip(1),
    "within": torch.rand(4, 7, generator=torch.Generator().manual_seed(0)) < 0.5,
}


def build(
    kind: str,
    d_in: int = 10,
    d_out: int = 10,
    num_heads: int = 2,
    context_length: int = 4,
    **settings: Any,
) -> nn.Module:
    return make_mha(
        kind, d_in=d_in, d_out=d_out, num_heads=num_heads, context_length=context_length, **settings
    )


def kinds(C: int, H: int, qkv_bias: bool, dtype: torch.dtype) -> dict[str, nn.Module]:
    """One module of each kind, all with the same weights; at most 9 tokens."""
    built = {kind: build(kind, C, C, H, 9, qkv_bias=qkv_bias) for kind in KINDS}
    weigh(built["split"], dtype)
    for attention in built.values():
        attention.to(dtype)
        copy_mha(built["split"], attention)
    return built


def gradients_by_name(attention: nn.Module, output: Tensor, x: Tensor, H: int) -> dict[str, Tensor]:
    """Gradients of x and of all parameters, the latter under the names of style B."""
    parameters = [*attention.parameters()]
    of_x, *of_parameters = gradients(output, [x, *parameters])
    C, holder = x.shape[-1], copy.deepcopy(attention)
    for parameter, gradient in zip(holder.parameters(), of_parameters, strict=True):
        parameter.data = gradient
    split = build("split", C, C, H, 9, qkv_bias=True).to(x.dtype)
    copy_mha(holder, split)
    return {"x": of_x, **split.state_dict()}


@both_dtypes
@with_and_without_bias
@pytest.mark.parametrize("pad_mask", PADDINGS.values(), ids=PADDINGS)
@pytest.mark.parametrize(("C", "H"), [(12, 3), (10, 2)])  # built-ins use other kernels for odd H
def test_all_kinds_give_the_same_numbers_and_gradients(C, H, pad_mask, qkv_bias, dtype):
    built = kinds(C, H, qkv_bias, dtype)
    x = numbers(4, 7, C, dtype=dtype)
    expected = built["split"](x, pad_mask)
    wanted = gradients_by_name(built["split"], expected, x, H)
    for attention in built.values():
        for training in (True, False):
            actual = attention.train(training)(x, pad_mask)
            assert actual.dtype == dtype
            assert_equal(actual, expected)
            with torch.no_grad():
                assert_equal(attention(x, pad_mask), expected)
        got = gradients_by_name(attention, actual, x, H)
        assert got.keys() == wanted.keys()
        for name in wanted:
            assert_equal(got[name], wanted[name])


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_has_the_parameters_of_the_curriculum(self, kind):
        assert count_parameters(build(kind, 768, 768, 12)) == 2_360_064
        with_bias = build(kind, 768, 768, 12, qkv_bias=True)
        assert count_parameters(with_bias) == 2_360_064 + 3 * 768

    def test_gives_fully_hidden_queries_the_output_bias(self, kind):
        attention = build(kind, context_length=7, qkv_bias=True)
        bias = getattr(attention, "attention", attention).out_proj.bias
        torch.nn.init.normal_(bias)
        x, pad_mask = numbers(4, 7, 10), PADDINGS["in-front"]
        for training in (True, False):
            for grad in (True, False):
                with torch.set_grad_enabled(grad):
                    out = attention.train(training)(x, pad_mask)
                assert out.isfinite().all()
                assert_equal(out[pad_mask], bias.expand(15, 10))
                if grad:
                    for gradient in gradients(out, [x, *attention.parameters()]):
                        assert gradient.isfinite().all()

    def test_drops_weights_in_training_but_not_in_evaluation(self, kind):
        attention = build(kind, dropout=1.0)
        bias = getattr(attention, "attention", attention).out_proj.bias
        torch.nn.init.normal_(bias)
        plain = build(kind)
        copy_mha(attention, plain)
        x = numbers(3, 4, 10)
        assert_equal(attention.eval()(x), plain(x))
        assert_equal(attention.train()(x), bias.expand(3, 4, 10))

    def test_keeps_the_dtype_of_autocast(self, kind):
        attention, x = build(kind), numbers(4, 4, 10)
        with torch.autocast("cpu", torch.bfloat16):
            out = attention(x, PADDED_BEHIND[:, :4])
        assert out.dtype == torch.bfloat16

    def test_says_which_arguments_it_refuses(self, kind):
        attention = build(kind)
        with pytest.raises(ValueError, match="7 tokens.*context_length is 4"):
            attention(numbers(2, 7, 10))
        with pytest.raises(ValueError, match=r"\(2, 3\).*\(B, T\) = \(2, 4\)"):
            attention(numbers(2, 4, 10), torch.zeros(2, 3, dtype=torch.bool))
        for heads in (3, 0):
            with pytest.raises(ValueError, match=f"10.*{heads}"):
                build(kind, num_heads=heads)

    def test_moves_its_mask_between_devices_but_does_not_save_it(self, kind):
        attention = build(kind)
        moved = copy.deepcopy(attention).to("meta")
        assert {t.device.type for t in [*moved.parameters(), *moved.buffers()]} == {"meta"}
        assert set(attention.state_dict()) == {name for name, _ in attention.named_parameters()}


def test_an_unknown_kind_and_a_width_the_built_in_cannot_change_are_named():
    with pytest.raises(ValueError, match="'wrapper', .*'torch', got 'flash'"):
        build("flash")
    with pytest.raises(ValueError, match="d_in is 5, but d_out is 6"):
        build("torch", d_in=5, d_out=6)


def test_several_tokens_at_once_are_refused_by_a_cache():
    query, key, value = queries_keys_values(torch.float32, 2, 2)
    with pytest.raises(ValueError, match=r"one new token.*query is \(2, 3, 2, 4\)"):
        cached_attention_step(query, key, value, None)
    with pytest.raises(ValueError, match=r"key \(2, 3, 2, 4\)"):
        cached_attention_step(query[:, :, :1], key, value, None)


def test_a_padding_mask_stays_on_the_device_of_the_lengths(monkeypatch):
    monkeypatch.setattr(Tensor, "tolist", lambda lengths: [4, 7, 2])  # "meta" stores no numbers
    assert padding_mask(torch.tensor([4, 7, 2], device="meta"), 7).device.type == "meta"
