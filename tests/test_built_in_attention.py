"""Counting and shapes; lesson 13: built-ins, kinds of attention, the cache; devices."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from course_utils.attention import (
    CausalSelfAttention,
    MatrixSelfAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    PaddedCausalSelfAttention,
    SDPAMultiHeadAttention,
    SelfAttention,
    attention_scores,
    cached_attention_step,
    causal_and_padding,
    causal_mask,
    copy_linear_to_matrix,
    copy_wrapper_to_split,
    count_parameters,
    make_mha,
    masked_softmax,
    merge_heads,
    naive_mean,
    padding_mask,
    safe_masked_softmax,
    sdpa_attention,
    softmax,
    softmax_mean,
    split_heads,
    tril_mean,
)
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh, with_and_without_bias
from tools.kinds import copy_mha


def test_both_styles_have_the_parameters_of_the_curriculum():
    wrapper = MultiHeadAttentionWrapper(768, 64, context_length=16, num_heads=12)
    split = MultiHeadAttention(768, 768, context_length=16, num_heads=12)
    formula = 3 * 768**2 + 768**2 + 768
    assert count_parameters(wrapper) == count_parameters(split) == formula == 2_360_064


def test_parameters_count_once_when_shared_and_not_at_all_when_frozen():
    shared = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    shared[1].weight = shared[0].weight
    assert count_parameters(shared) == 9 + 3 + 3
    shared[0].bias.requires_grad_(False)
    assert count_parameters(shared) == 9 + 3
    assert count_parameters(nn.BatchNorm1d(4)) == 4 + 4  # its running statistics are buffers


def test_the_head_shapes_table():
    ids = torch.tensor([[5, 1, 8, 2]])
    embedding, head = nn.Embedding(9735, 768), nn.Linear(768, 9735, bias=False)
    x = embedding(ids)
    viewed = x.view(1, 4, 8, 96)
    query = split_heads(x, 8)
    key_transposed = query.transpose(-2, -1)
    scores = attention_scores(query, query)
    context = masked_softmax(scores, causal_mask(4)) @ query
    merged = merge_heads(context)
    shapes = [x, viewed, query, key_transposed, scores, context, merged, head(merged)]
    assert [tuple(tensor.shape) for tensor in shapes] == [
        (1, 4, 768),
        (1, 4, 8, 96),
        (1, 8, 4, 96),
        (1, 8, 96, 4),
        (1, 8, 4, 4),
        (1, 8, 4, 96),
        (1, 4, 768),
        (1, 4, 9735),
    ]


# Lesson 13 -------------------------------------------------------------------------------------


# Lessons 01 and 02 -----------------------------------------------------------------------------


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


def test_sdpa_attention_hides_nothing_without_a_mask():
    inputs = queries_keys_values(torch.float64)
    assert_equal(sdpa_attention(*inputs), in_words(*inputs, torch.tensor(False)))


def test_sdpa_attention_gives_zeros_for_a_fully_hidden_query():
    hidden = torch.zeros(5, 7, dtype=torch.bool)
    hidden[2] = True
    assert (sdpa_attention(*queries_keys_values(torch.float32), hidden)[:, :, 2] == 0).all()


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
        assert copy_mha(built["split"], attention) is None
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


@pytest.mark.parametrize("kind", ["wrapper", "split", "sdpa"])
def test_ours_may_change_the_width(kind):
    attention = build(kind, d_in=5, d_out=6)
    assert attention(numbers(3, 4, 5)).shape == (3, 4, 6)


def test_an_unknown_kind_and_a_width_the_built_in_cannot_change_are_named():
    with pytest.raises(ValueError, match="'wrapper', .*'torch', got 'flash'"):
        build("flash")
    with pytest.raises(ValueError, match="d_in is 5, but d_out is 6"):
        build("torch", d_in=5, d_out=6)


@pytest.mark.parametrize("kind", ["wrapper", "split", "torch"])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"qkv_bias": False}, "query.bias, but the target has none"),
        ({"num_heads": 2}, "3 heads, the target 2"),
        ({"d_in": 18, "d_out": 18}, r"query.weight is \(6, 18\).*\(4, 12\)"),
    ],
)
def test_a_kind_that_does_not_fit_another_is_refused_and_unchanged(setting, message, kind):
    given = {"d_in": 12, "d_out": 12, "num_heads": 3, "qkv_bias": True}
    target = build(kind, **{**given, **setting})
    before = copy.deepcopy(target.state_dict())
    for other in ("wrapper", "sdpa", "torch"):
        with pytest.raises(ValueError, match=message):
            copy_mha(build(other, **given), target)
    for name, value in target.state_dict().items():
        assert torch.equal(value, before[name])


@both_dtypes
def test_step_by_step_a_cache_gives_the_rows_of_causal_attention(dtype):
    T = 6
    inputs = queries_keys_values(dtype, T, T)
    full = in_words(*inputs, causal_mask(T))
    cache, rows = None, []
    for t in range(T):
        query, key, value = (tensor[:, :, t : t + 1] for tensor in inputs)
        kept = None if cache is None else [tensor.clone() for tensor in cache]
        row, grown = cached_attention_step(query, key, value, cache)
        assert row.shape == (2, 3, 1, 4) and row.dtype == dtype
        assert torch.equal(grown[0], inputs[1][:, :, : t + 1])
        assert torch.equal(grown[1], inputs[2][:, :, : t + 1])
        if cache is not None and kept is not None:
            assert all(torch.equal(new, old) for new, old in zip(cache, kept, strict=True))
        rows.append(row)
        cache = grown
    stepped = torch.cat(rows, dim=2)
    assert_equal(stepped, full)
    for got, want in zip(gradients(stepped, inputs), gradients(full, inputs), strict=True):
        assert_equal(got, want)


def test_a_cache_can_be_continued_in_two_ways():
    query, key, value = (tensor[:, :, :1] for tensor in queries_keys_values(torch.float64))
    _, cache = cached_attention_step(query, key, value, None)
    once = cached_attention_step(query, key, value, cache)[0]
    cached_attention_step(query, 2 * key, 2 * value, cache)
    assert torch.equal(cached_attention_step(query, key, value, cache)[0], once)


def test_several_tokens_at_once_are_refused_by_a_cache():
    query, key, value = queries_keys_values(torch.float32, 2, 2)
    with pytest.raises(ValueError, match=r"one new token.*query is \(2, 3, 2, 4\)"):
        cached_attention_step(query, key, value, None)
    with pytest.raises(ValueError, match=r"key \(2, 3, 2, 4\)"):
        cached_attention_step(query[:, :, :1], key, value, None)


# Every lesson: new tensors are on the input's device -------------------------------------------


def token_functions():
    hidden = causal_mask(7, "meta")
    x, scores = torch.randn(3, 7, 6, device="meta"), torch.randn(3, 7, 7, device="meta")
    pad_mask = torch.zeros(3, 7, dtype=torch.bool, device="meta")
    yield from (mean(x) for mean in (naive_mean, tril_mean, softmax_mean))
    yield from (softmax(scores), attention_scores(x, x), causal_and_padding(pad_mask))
    yield from (masked_softmax(scores, hidden), safe_masked_softmax(scores, hidden))
    yield merge_heads(split_heads(x, 2))
    heads = split_heads(x, 2)
    yield sdpa_attention(heads, heads, heads, hidden)
    newest = heads[:, :, :1]
    output, cache = cached_attention_step(newest, newest, newest, (heads, heads))
    yield from (output, *cache)


def modules():
    x = torch.randn(3, 7, 6, device="meta")
    pad_mask = torch.zeros(3, 7, dtype=torch.bool, device="meta")
    with torch.device("meta"):
        maps = [SelfAttention(6, 8), MatrixSelfAttention(6, 8), CausalSelfAttention(6, 8, 9)]
        padded = [
            PaddedCausalSelfAttention(6, 8, 9),
            MultiHeadAttentionWrapper(6, 4, 9, num_heads=2),
            MultiHeadAttention(6, 8, 9, num_heads=2),
            SDPAMultiHeadAttention(6, 8, 9, num_heads=2),
            make_mha("torch", d_in=6, d_out=6, num_heads=2, context_length=9),
        ]
        copy_linear_to_matrix(*maps[:2])
        copy_wrapper_to_split(*padded[1:3])
    yield from (attend(x) for attend in [*maps, *padded])
    yield from (attend(x, pad_mask) for attend in padded)


@pytest.mark.parametrize("results", [token_functions, modules])
def test_everything_stays_on_the_device_of_the_input(results):
    """Every machine has the device "meta": it stores no numbers, and can't be mixed with others."""
    assert {result.device.type for result in results()} == {"meta"}


def test_a_padding_mask_stays_on_the_device_of_the_lengths(monkeypatch):
    monkeypatch.setattr(Tensor, "tolist", lambda lengths: [4, 7, 2])  # "meta" stores no numbers
    assert padding_mask(torch.tensor([4, 7, 2], device="meta"), 7).device.type == "meta"
