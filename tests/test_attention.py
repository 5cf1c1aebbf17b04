"""The finished parts of attention against PyTorch's operators and the course's tables."""

import copy

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
    SelfAttention,
    attention_scores,
    cached_attention_step,
    causal_mask,
    copy_linear_to_matrix,
    copy_wrapper_to_split,
    masked_softmax,
    naive_mean,
    padding_mask,
    safe_masked_softmax,
    softmax,
    softmax_mean,
    tril_mean,
)
from tests.parity import assert_equal, both_dtypes, gradients, numbers

MEANS = [naive_mean, tril_mean, softmax_mean]


# Lessons 01 and 02 -----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(B=st.integers(0, 4), T=st.integers(1, 9), C=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_the_three_means_agree_on_any_shape(B, T, C, seed):
    x = numbers(B, T, C, dtype=torch.float64, seed=seed).detach()
    for mean in MEANS:
        assert_equal(mean(x), naive_mean(x))


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


@pytest.mark.parametrize("head", [CausalSelfAttention, PaddedCausalSelfAttention])
def test_a_head_names_the_limit_if_there_are_too_many_tokens(head):
    with pytest.raises(ValueError, match="7 tokens.*context_length is 4"):
        head(5, 6, context_length=4)(numbers(2, 7, 5))
    assert head(5, 6, context_length=4)(numbers(2, 4, 5)).shape == (2, 4, 6)


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


# Lessons 06 and 07 -----------------------------------------------------------------------------


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


# Lesson 11 -------------------------------------------------------------------------------------


@both_dtypes
def test_steps_with_a_cache_give_the_rows_of_causal_attention_and_keep_what_they_were_given(dtype):
    query, key, value = (numbers(2, 3, 5, 4, dtype=dtype, seed=n).detach() for n in range(3))
    cache, rows = None, []
    for t in range(5):
        newest = (x[:, :, t : t + 1] for x in (query, key, value))
        row, cache = cached_attention_step(*newest, cache)
        rows.append(row)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert_equal(torch.cat(rows, dim=-2), expected)
    assert torch.equal(cache[0], key) and torch.equal(cache[1], value)
