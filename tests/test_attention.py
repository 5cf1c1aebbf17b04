"""The finished parts of attention against PyTorch's operators and the course's tables."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils.attention import (
    CausalSelfAttention,
    MatrixSelfAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    PaddedCausalSelfAttention,
    SDPAMultiHeadAttention,
    SelfAttention,
    attention_scores,
    causal_and_padding,
    causal_mask,
    causal_mean_weights,
    copy_linear_to_matrix,
    copy_wrapper_to_split,
    masked_softmax,
    merge_heads,
    naive_mean,
    padding_mask,
    safe_masked_softmax,
    softmax,
    softmax_mean,
    split_heads,
    tril_mean,
)
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh, with_and_without_bias

MEANS = [naive_mean, tril_mean, softmax_mean]


# Lessons 01 and 02 -----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(B=st.integers(0, 4), T=st.integers(1, 9), C=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_the_three_means_agree_on_any_shape(B, T, C, seed):
    x = numbers(B, T, C, dtype=torch.float64, seed=seed).detach()
    for mean in MEANS:
        assert_equal(mean(x), naive_mean(x))


def test_the_three_by_three_toy_of_lesson_02():
    torch.manual_seed(42)
    x = torch.randint(0, 10, (3, 2)).float()
    assert x.tolist() == [[2, 7], [6, 4], [6, 5]]
    means = causal_mean_weights(3) @ x
    torch.testing.assert_close(
        means, torch.tensor([[2, 7], [4, 5.5], [4.6667, 5.3333]]), rtol=0, atol=5e-5
    )


def test_causal_mean_weights_are_float32_and_hold_one_over_t_plus_one():
    weights = causal_mean_weights(5)
    assert weights.dtype == torch.float32
    for t, row in enumerate(weights):
        torch.testing.assert_close(row[: t + 1], torch.full((t + 1,), 1 / (t + 1)))
        assert (row[t + 1 :] == 0).all()


# Lesson 03 -------------------------------------------------------------------------------------


@both_dtypes
@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_softmax_equals_the_built_in_along_any_dimension(dim, dtype):
    scores = numbers(3, 4, 5, dtype=dtype)
    expected = torch.softmax(scores, dim)
    assert_equal(softmax(scores, dim), expected)
    assert_equal(gradients(softmax(scores, dim), [scores])[0], gradients(expected, [scores])[0])


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.floats(-10_000, 10_000, width=32), min_size=3, max_size=3), min_size=1
    )
)
def test_softmax_is_exact_for_scores_of_any_size(rows):
    scores = torch.tensor(rows)
    expected = torch.softmax(scores.double(), dim=-1)
    torch.testing.assert_close(softmax(scores).double(), expected, rtol=0, atol=1e-6)


def test_softmax_gives_minus_infinity_the_weight_0():
    scores = torch.tensor([[1.0, -math.inf, 2.0]])
    assert softmax(scores)[0, 1] == 0
    assert_equal(softmax(scores), torch.softmax(scores, -1))


@pytest.mark.parametrize("masked", [masked_softmax, safe_masked_softmax])
def test_hidden_scores_have_no_weight_and_no_influence(masked):
    hidden = causal_mask(4)
    scores = numbers(2, 3, 4, 4).detach()
    weights = masked(scores, hidden)
    assert (weights[..., hidden] == 0).all()
    assert_equal(weights.sum(-1), torch.ones(2, 3, 4))
    for value in (-1e30, 0.0, 1e30):
        assert torch.equal(masked(scores.masked_fill(hidden, value), hidden), weights)


@pytest.mark.parametrize("masked", [masked_softmax, safe_masked_softmax])
def test_a_mask_broadcasts_to_the_scores_but_not_vice_versa(masked):
    scores = numbers(2, 3, 4, 5).detach()
    hidden = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    hidden[0, :, :, 3:] = True
    assert torch.equal(masked(scores, hidden), masked(scores, hidden.expand(2, 3, 4, 5)))
    with pytest.raises(RuntimeError):
        masked(scores[0], hidden)


# Lesson 04 -------------------------------------------------------------------------------------


def test_the_example_without_parameters_of_lesson_04():
    x = torch.tensor([[[0.4, 0.2, 0.9], [0.6, 0.8, 0.7], [0.2, 0.5, 0.3]]])
    weights = torch.softmax(attention_scores(x, x), dim=-1)
    context = weights @ x
    torch.testing.assert_close(
        weights[0, 0], torch.tensor([0.3656, 0.3698, 0.2646]), rtol=0, atol=5e-5
    )
    torch.testing.assert_close(
        context[0, 0], torch.tensor([0.4210, 0.5013, 0.6673]), rtol=0, atol=5e-5
    )


@both_dtypes
def test_attention_scores_give_the_weights_of_scaled_dot_product_attention(dtype):
    query, key = numbers(2, 3, 5, dtype=dtype), numbers(2, 4, 5, dtype=dtype, seed=1)
    value = numbers(2, 4, 6, dtype=dtype, seed=2)
    actual = torch.softmax(attention_scores(query, key), dim=-1) @ value
    expected = F.scaled_dot_product_attention(query, key, value)
    assert_equal(actual, expected)
    inputs = [query, key, value]
    for got, want in zip(gradients(actual, inputs), gradients(expected, inputs), strict=True):
        assert_equal(got, want)


def test_attention_without_positions_is_permutation_equivariant():
    attention = weigh(SelfAttention(5, 6), torch.float64)
    x = numbers(2, 4, 5, dtype=torch.float64)
    order = torch.tensor([2, 0, 3, 1])
    assert_equal(attention(x[:, order]), attention(x)[:, order])


def test_equal_scores_give_the_uniform_mean():
    attention = CausalSelfAttention(5, 5, context_length=8).double()
    with torch.no_grad():
        attention.query.weight.zero_()
        attention.value.weight.copy_(torch.eye(5))
    x = numbers(2, 7, 5, dtype=torch.float64)
    assert_equal(attention(x), naive_mean(x))


@both_dtypes
def test_copied_matrices_give_the_linear_layers_output(dtype):
    linear = weigh(SelfAttention(5, 4), dtype)
    matrix = weigh(MatrixSelfAttention(5, 4), dtype, seed=2)
    before = copy.deepcopy(linear.state_dict())
    parameters = list(matrix.parameters())
    assert copy_linear_to_matrix(linear, matrix) is None
    x = numbers(2, 3, 5, dtype=dtype)
    assert_equal(matrix(x), linear(x))
    assert all(old is new for old, new in zip(parameters, matrix.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in matrix.parameters())
    assert matrix.W_query.untyped_storage().data_ptr() != (
        linear.query.weight.untyped_storage().data_ptr()
    )
    for name, value in linear.state_dict().items():
        assert torch.equal(value, before[name])


def test_matrices_begin_with_a_scale_that_falls_with_the_width():
    wide = MatrixSelfAttention(400, 300)
    for matrix in (wide.W_query, wide.W_key, wide.W_value):
        assert float(matrix.detach().std()) == pytest.approx(1 / 20, rel=0.02)


def test_copying_matrices_of_different_sizes_is_refused_and_copies_nothing():
    matrix = MatrixSelfAttention(1, 4)
    with torch.no_grad():
        matrix.W_value = nn.Parameter(torch.zeros(3, 4))
    before = copy.deepcopy(matrix.state_dict())
    with pytest.raises(ValueError, match=r"W_value is \(3, 4\).*\(1, 4\)"):
        copy_linear_to_matrix(SelfAttention(1, 4), matrix)
    with pytest.raises(ValueError, match="query has a bias"):
        copy_linear_to_matrix(CausalSelfAttention(1, 4, 6, qkv_bias=True), matrix)
    for name, value in matrix.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    "attention",
    [
        CausalSelfAttention(5, 6, context_length=4),
        PaddedCausalSelfAttention(5, 6, context_length=4),
        MultiHeadAttentionWrapper(5, 3, context_length=4, num_heads=2),
        MultiHeadAttention(5, 6, context_length=4, num_heads=2),
        SDPAMultiHeadAttention(5, 6, context_length=4, num_heads=2),
    ],
    ids=lambda attention: type(attention).__name__,
)
class TestEveryCausalModule:
    def test_names_the_limit_if_there_are_too_many_tokens(self, attention):
        assert attention(numbers(2, 4, 5)).shape == (2, 4, 6)
        with pytest.raises(ValueError, match="7 tokens.*context_length is 4"):
            attention(numbers(2, 7, 5))


# Lesson 05 -------------------------------------------------------------------------------------


def test_padding_mask_marks_the_positions_after_each_sequence():
    expected = torch.tensor([[False, True, True], [False, False, False], [True, True, True]])
    assert torch.equal(padding_mask([1, 3, 0], 3), expected)
    assert torch.equal(padding_mask(torch.tensor([1, 3, 0], dtype=torch.uint8), 3), expected)
    assert padding_mask([], 3).shape == (0, 3)
    assert padding_mask(torch.tensor([2, 1]), 2).dtype == torch.bool


@pytest.mark.parametrize(
    ("lengths", "offending"),
    [
        ([2, 6], "6"),
        ([3, -1], "-1"),
        ([2.5], "2.5"),
        (torch.tensor([2.0]), "2.0"),
        ([True], "True"),
    ],
)
def test_an_impossible_length_is_named_with_the_limit(lengths, offending):
    with pytest.raises(ValueError, match=f"between 0 and 5, got {offending}"):
        padding_mask(lengths, 5)


def test_causal_and_padding_hides_the_future_and_padded_columns_only():
    pad_mask = padding_mask([3, 1], 3)
    hidden = causal_and_padding(pad_mask)
    assert hidden.int().tolist() == [
        [[0, 1, 1], [0, 0, 1], [0, 0, 0]],
        [[0, 1, 1], [0, 1, 1], [0, 1, 1]],
    ]


@both_dtypes
def test_a_fully_hidden_row_gets_zeros_and_finite_gradients(dtype):
    hidden = torch.tensor([[True, True, True, True], [True, False, False, True]])
    scores = numbers(3, 2, 4, dtype=dtype)
    weights = safe_masked_softmax(scores, hidden)
    assert (weights[:, 0] == 0).all()
    assert_equal(weights[:, 1], masked_softmax(scores[:, 1], hidden[1]))
    with torch.autograd.set_detect_anomaly(True):  # raises on a NaN anywhere on the way back
        (gradient,) = gradients(safe_masked_softmax(scores, hidden), [scores])
    assert gradient.isfinite().all()
    assert (gradient[:, hidden] == 0).all()


@settings(max_examples=50, deadline=None)
@given(
    B=st.integers(1, 3),
    T=st.integers(1, 6),
    S=st.integers(1, 6),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_rows_sum_to_one_or_are_fully_hidden_under_any_mask(B, T, S, share, seed):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(B, T, S, generator=generator) < share
    scores = (100 * numbers(B, T, S, dtype=torch.float64, seed=seed)).detach().requires_grad_()
    weights = safe_masked_softmax(scores, hidden)
    assert_equal(weights.sum(-1), (~hidden.all(-1)).double())
    assert (weights[hidden] == 0).all()
    assert gradients(weights, [scores])[0].isfinite().all()


MASKED_MODULES = {
    "head": lambda: PaddedCausalSelfAttention(5, 6, context_length=9),
    "wrapper": lambda: MultiHeadAttentionWrapper(5, 3, context_length=9, num_heads=2),
    "split": lambda: MultiHeadAttention(5, 6, context_length=9, num_heads=2),
    "sdpa": lambda: SDPAMultiHeadAttention(5, 6, context_length=9, num_heads=2),
}


@both_dtypes
@pytest.mark.parametrize("build", MASKED_MODULES.values(), ids=MASKED_MODULES)
class TestEveryModuleWithAPaddingMask:
    def test_refuses_a_mask_of_another_shape(self, build, dtype):
        attention = weigh(build(), dtype)
        with pytest.raises(ValueError, match=r"\(3, 6\).*\(B, T\) = \(3, 7\)"):
            attention(numbers(3, 7, 5, dtype=dtype), torch.zeros(3, 6, dtype=torch.bool))


# Lessons 06 and 07 -----------------------------------------------------------------------------


@pytest.mark.parametrize(("d_head", "num_heads"), [(1, 2), (2, 1)])
def test_width_two_comes_from_two_heads_of_one_or_one_head_of_two(d_head, num_heads):
    wrapper = MultiHeadAttentionWrapper(3, d_head, context_length=6, num_heads=num_heads)
    assert wrapper(numbers(4, 5, 3)).shape == (4, 5, 2)


def test_each_head_holds_neighbouring_channels():
    x = torch.arange(2 * 3 * 8).view(2, 3, 8)
    heads = split_heads(x, 4)
    for h in range(4):
        assert torch.equal(heads[:, h], x[:, :, 2 * h : 2 * h + 2])


@settings(max_examples=30, deadline=None)
@given(B=st.integers(0, 3), T=st.integers(0, 4), H=st.integers(1, 4), D=st.integers(1, 3))
def test_merging_undoes_splitting(B, T, H, D):
    x = torch.arange(B * T * H * D).view(B, T, H * D)
    assert torch.equal(merge_heads(split_heads(x, H)), x)
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(merge_heads(split_heads(strided, H)), x)


@pytest.mark.parametrize(("width", "num_heads"), [(7, 2), (6, 4), (6, 0)])
def test_an_indivisible_width_is_named_with_the_number_of_heads(width, num_heads):
    with pytest.raises(ValueError, match=f"{width}.*{num_heads}"):
        split_heads(torch.zeros(2, 3, width), num_heads)
    with pytest.raises(ValueError, match=f"{width}.*{num_heads}"):
        MultiHeadAttention(5, width, context_length=4, num_heads=num_heads)


def torch_twin(split: MultiHeadAttention, dropout: float = 0.0) -> nn.MultiheadAttention:
    """An `nn.MultiheadAttention` with the same weights."""
    d_out = split.out_proj.in_features
    weight = split.query.weight
    twin = nn.MultiheadAttention(d_out, split.num_heads, dropout, batch_first=True)
    twin.to(weight.dtype)
    layers = [split.query, split.key, split.value]
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        if split.query.bias is not None:
            twin.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
        twin.out_proj.weight.copy_(split.out_proj.weight)
        twin.out_proj.bias.copy_(split.out_proj.bias)
    return twin


@both_dtypes
@with_and_without_bias
@pytest.mark.parametrize("lengths", [None, [4, 7, 2]], ids=["causal", "causal-and-padding"])
def test_split_heads_equal_torch_multihead_attention(lengths, qkv_bias, dtype):
    C, H, T = 10, 2, 7
    split = weigh(MultiHeadAttention(C, C, context_length=9, num_heads=H, qkv_bias=qkv_bias), dtype)
    twin = torch_twin(split)
    pad_mask = None if lengths is None else padding_mask(lengths, T)
    x = numbers(3, T, C, dtype=dtype)
    actual = split(x, pad_mask)
    expected, _ = twin(x, x, x, key_padding_mask=pad_mask, attn_mask=causal_mask(T))
    assert_equal(actual, expected)

    layers = [split.query, split.key, split.value]
    got = gradients(actual, [x, *(layer.weight for layer in layers), split.out_proj.weight])
    want = gradients(expected, [x, twin.in_proj_weight, twin.out_proj.weight])
    assert_equal(got[0], want[0])
    assert_equal(torch.cat(got[1:4]), want[1])
    assert_equal(got[4], want[2])
    if qkv_bias:
        got = gradients(split(x, pad_mask), [layer.bias for layer in layers])
        expected, _ = twin(x, x, x, key_padding_mask=pad_mask, attn_mask=causal_mask(T))
        assert_equal(torch.cat(got), gradients(expected, [twin.in_proj_bias])[0])


@both_dtypes
@with_and_without_bias
@pytest.mark.parametrize("lengths", [None, [4, 7, 2]], ids=["causal", "causal-and-padding"])
def test_heads_side_by_side_equal_split_heads_after_copying(lengths, qkv_bias, dtype):
    wrapper = weigh(MultiHeadAttentionWrapper(5, 4, 9, num_heads=3, qkv_bias=qkv_bias), dtype)
    split = weigh(MultiHeadAttention(5, 12, 9, num_heads=3, qkv_bias=qkv_bias), dtype, seed=2)
    before = copy.deepcopy(wrapper.state_dict())
    parameters = list(split.parameters())
    assert copy_wrapper_to_split(wrapper, split) is None
    x = numbers(3, 7, 5, dtype=dtype)
    pad_mask = None if lengths is None else padding_mask(lengths, 7)
    assert_equal(split(x, pad_mask), wrapper(x, pad_mask))
    assert_equal(gradients(split(x, pad_mask), [x])[0], gradients(wrapper(x, pad_mask), [x])[0])
    assert all(old is new for old, new in zip(parameters, split.parameters(), strict=True))
    with torch.no_grad():
        for parameter in split.parameters():
            parameter.zero_()
    for name, value in wrapper.state_dict().items():
        assert torch.equal(value, before[name])


def test_biases_that_only_the_split_module_has_become_zeros():
    wrapper = weigh(MultiHeadAttentionWrapper(5, 4, 9, num_heads=3), torch.float64)
    split = weigh(MultiHeadAttention(5, 12, 9, num_heads=3, qkv_bias=True), torch.float64)
    copy_wrapper_to_split(wrapper, split)
    assert (split.query.bias == 0).all()
    x = numbers(3, 7, 5, dtype=torch.float64)
    assert_equal(split(x), wrapper(x))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (MultiHeadAttention(5, 12, 9, num_heads=3), "has a bias"),
        (MultiHeadAttention(5, 12, 9, num_heads=4, qkv_bias=True), "3 heads, the split 4"),
        (MultiHeadAttention(5, 15, 9, num_heads=3, qkv_bias=True), r"\(15, 15\).*\(12, 12\)"),
        (MultiHeadAttention(6, 12, 9, num_heads=3, qkv_bias=True), r"\(12, 6\).*\(12, 5\)"),
    ],
)
def test_a_split_module_that_does_not_fit_is_refused_and_unchanged(split, message):
    before = copy.deepcopy(split.state_dict())
    wrapper = MultiHeadAttentionWrapper(5, 4, 9, num_heads=3, qkv_bias=True)
    with pytest.raises(ValueError, match=message):
        copy_wrapper_to_split(wrapper, split)
    for name, value in split.state_dict().items():
        assert torch.equal(value, before[name])
