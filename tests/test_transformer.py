"""The finished parts of lessons 08 and 09 against PyTorch's operators and the course's tables."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.attention import causal_mask, count_parameters, padding_mask
from course_utils.transformer import (
    FeedForward,
    LayerNorm,
    TokenAndPosition,
    TransformerBlock,
    apply_rope,
    block_parameters,
    sinusoidal_positions,
)
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh, with_and_without_bias

# Lesson 08 -------------------------------------------------------------------------------------


def torch_norm(norm: LayerNorm) -> nn.LayerNorm:
    twin = nn.LayerNorm(norm.scale.shape[0], eps=norm.eps, dtype=norm.scale.dtype)
    with torch.no_grad():
        twin.weight.copy_(norm.scale)
        twin.bias.copy_(norm.shift)
    return twin


@both_dtypes
@pytest.mark.parametrize("eps", [1e-5, 0.3])
@pytest.mark.parametrize("shape", [(6,), (5, 6), (3, 5, 6), (2, 3, 5, 6)])
def test_layer_norm_equals_the_built_in(shape, eps, dtype):
    norm = weigh(LayerNorm(6, eps), dtype)
    twin = torch_norm(norm)
    x = numbers(*shape, dtype=dtype)
    assert norm(x).dtype == dtype
    assert_equal(norm(x), twin(x))
    assert_equal(norm.formula(x), twin(x))
    got = gradients(norm.formula(x), [x, norm.scale, norm.shift])
    for mine, theirs in zip(got, gradients(twin(x), [x, twin.weight, twin.bias]), strict=True):
        assert_equal(mine, theirs)


def test_a_token_of_equal_channels_gives_the_shift():
    norm = weigh(LayerNorm(6), torch.float64)
    x = torch.full((2, 6), 1 / 3, dtype=torch.float64, requires_grad=True)
    assert_equal(norm(x), norm.shift.expand(2, 6))
    for made in (norm(x), norm.formula(x)):
        assert gradients(made, [x])[0].isfinite().all()


@both_dtypes
@pytest.mark.parametrize("expansion", [1, 3, 4])
def test_the_feed_forward_network_is_two_linear_layers_around_gelu(expansion, dtype):
    feed_forward = weigh(FeedForward(6, expansion), dtype)
    twin = nn.Sequential(
        nn.Linear(6, expansion * 6), nn.GELU(approximate="tanh"), nn.Linear(expansion * 6, 6)
    ).to(dtype)
    twin[0].load_state_dict(feed_forward.expand.state_dict())
    twin[2].load_state_dict(feed_forward.contract.state_dict())
    x = numbers(3, 5, 6, dtype=dtype)
    assert_equal(feed_forward.formula(x), feed_forward(x))
    assert_equal(feed_forward(x), twin(x))
    got = gradients(feed_forward(x), [x, *feed_forward.parameters()])
    want = gradients(twin(x), [x, *twin.parameters()])
    for mine, theirs in zip(got, want, strict=True):
        assert_equal(mine, theirs)


def torch_block(block: TransformerBlock) -> nn.TransformerEncoderLayer:
    """PyTorch's layer with the same weights."""
    attention, feed_forward = block.attention, block.feed_forward
    wide, C = feed_forward.expand.weight.shape
    twin = nn.TransformerEncoderLayer(
        C,
        attention.num_heads,
        wide,
        dropout=0.0,
        activation=lambda x: F.gelu(x, approximate="tanh"),
        batch_first=True,
        norm_first=True,
        dtype=attention.query.weight.dtype,
    )
    layers = [attention.query, attention.key, attention.value]
    with torch.no_grad():
        twin.self_attn.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        twin.self_attn.in_proj_bias.zero_()
        if attention.query.bias is not None:
            twin.self_attn.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
    twin.self_attn.out_proj.load_state_dict(attention.out_proj.state_dict())
    twin.linear1.load_state_dict(feed_forward.expand.state_dict())
    twin.linear2.load_state_dict(feed_forward.contract.state_dict())
    twin.norm1.load_state_dict(torch_norm(block.norm1).state_dict())
    twin.norm2.load_state_dict(torch_norm(block.norm2).state_dict())
    return twin


@both_dtypes
@with_and_without_bias
@pytest.mark.parametrize("lengths", [None, [4, 7, 2]], ids=["causal", "causal-and-padding"])
def test_the_block_equals_a_torch_encoder_layer_with_the_norm_first(lengths, qkv_bias, dtype):
    C, H, T = 10, 2, 7
    block = weigh(TransformerBlock(C, H, context_length=9, qkv_bias=qkv_bias), dtype)
    twin = torch_block(block)
    pad_mask = None if lengths is None else padding_mask(lengths, T)
    x = numbers(3, T, C, dtype=dtype)

    actual = block(x, pad_mask)
    expected = twin(x, src_mask=causal_mask(T), src_key_padding_mask=pad_mask)
    assert actual.dtype == dtype
    assert_equal(actual, expected)

    layers = [block.attention.query, block.attention.key, block.attention.value]
    pairs = [
        (block.attention.out_proj.weight, twin.self_attn.out_proj.weight),
        (block.attention.out_proj.bias, twin.self_attn.out_proj.bias),
        (block.feed_forward.expand.weight, twin.linear1.weight),
        (block.feed_forward.expand.bias, twin.linear1.bias),
        (block.feed_forward.contract.weight, twin.linear2.weight),
        (block.feed_forward.contract.bias, twin.linear2.bias),
        (block.norm1.scale, twin.norm1.weight),
        (block.norm1.shift, twin.norm1.bias),
        (block.norm2.scale, twin.norm2.weight),
        (block.norm2.shift, twin.norm2.bias),
    ]
    ours, theirs = zip((x, x), *pairs, strict=True)
    got = gradients(actual, [*(layer.weight for layer in layers), *ours])
    want = gradients(expected, [twin.self_attn.in_proj_weight, *theirs])
    assert_equal(torch.cat(got[:3]), want[0])
    for mine, other in zip(got[3:], want[1:], strict=True):
        assert_equal(mine, other)
    if qkv_bias:
        got = gradients(block(x, pad_mask), [layer.bias for layer in layers])
        expected = twin(x, src_mask=causal_mask(T), src_key_padding_mask=pad_mask)
        assert_equal(torch.cat(got), gradients(expected, [twin.self_attn.in_proj_bias])[0])


def test_the_published_output_of_a_block_in_training():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        x = torch.rand(2, 4, 768)
        y = TransformerBlock(768, 12, context_length=1024, dropout=0.1)(x)
    shown = {"rtol": 0, "atol": 5e-5}
    torch.testing.assert_close(x[0, 0, :3], torch.tensor([0.2961, 0.5166, 0.2517]), **shown)
    torch.testing.assert_close(y[0, 0, :3], torch.tensor([-0.0055, 0.0972, -0.1122]), **shown)


def test_each_branch_is_dropped_once_before_it_is_added():
    C, p = 40, 0.25
    block = weigh(TransformerBlock(C, 2, context_length=50, dropout=p), torch.float64)
    x = numbers(8, 50, C, dtype=torch.float64).detach()
    streams = []
    block.norm2.register_forward_pre_hook(lambda _, given: streams.append(given[0]))
    block.train()
    block.attention.dropout.eval()  # attention weights without dropout
    y = block(x)
    attended = block.attention(block.norm1(x))
    (middle,) = streams
    thought = block.feed_forward.eval()(block.norm2(middle))
    for added, branch in ((middle - x, attended), (y - middle, thought)):
        kept = added.abs() > 1e-12
        assert_equal(added, torch.where(kept, branch / (1 - p), 0.0))
        assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.02)
    assert torch.equal(block.eval()(x), block(x))


@pytest.mark.parametrize(
    ("d_model", "num_heads", "qkv_bias"), [(768, 12, False), (10, 2, True), (7, 1, False)]
)
def test_the_formula_counts_the_parameters_of_a_block(d_model, num_heads, qkv_bias):
    with torch.device("meta"):
        block = TransformerBlock(d_model, num_heads, context_length=16, qkv_bias=qkv_bias)
    count = block_parameters(d_model, qkv_bias=qkv_bias)
    assert isinstance(count, int)
    assert count == count_parameters(block)


def test_a_block_raises_its_attention_s_errors():
    with pytest.raises(ValueError, match=r"width 10 .* num_heads = 3"):
        TransformerBlock(10, 3, context_length=4)
    block = TransformerBlock(6, 3, context_length=4)
    with pytest.raises(ValueError, match="7 tokens.*context_length is 4"):
        block(numbers(2, 7, 6))
    with pytest.raises(ValueError, match=r"\(3, 2\).*\(B, T\) = \(2, 3\)"):
        block(numbers(2, 3, 6), torch.zeros(3, 2, dtype=torch.bool))


# Lesson 09 -------------------------------------------------------------------------------------


def test_sinusoidal_positions_follow_the_formula_of_the_paper():
    table = sinusoidal_positions(7, 10)
    assert table.shape == (7, 10)
    assert table.dtype == torch.float32
    for position in range(7):
        for i in range(5):
            angle = position / 10_000 ** (2 * i / 10)
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            torch.testing.assert_close(table[position, 2 * i : 2 * i + 2], expected)


def test_far_positions_are_as_exact_as_near_ones():
    angle = 99_999 / 10_000 ** (2 / 8)
    row = sinusoidal_positions(100_000, 8)[-1]
    torch.testing.assert_close(row[2:4], torch.tensor([math.sin(angle), math.cos(angle)]))


@pytest.mark.parametrize("width", [1, 7])
def test_an_odd_width_is_named(width):
    with pytest.raises(ValueError, match=f"even, got {width}"):
        sinusoidal_positions(3, width)
    with pytest.raises(ValueError, match=f"even, got {width}"):
        apply_rope(torch.zeros(2, 3, 4, width))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.zeros(2, 5, dtype=torch.int64), "5 tokens.*context_length is 4"),
        (torch.tensor([[3, 11]]), "between 0 and 10.*got 11"),
        (torch.tensor([[3, -1], [12, 2]]), "between 0 and 10.*got -1"),
        (torch.zeros(2, 3), "int64 or int32, got torch.float32"),
        (torch.zeros(2, 3, dtype=torch.bool), "int64 or int32, got torch.bool"),
        (torch.zeros(0, 3, dtype=torch.int64), r"at least 1, got \(0, 3\)"),
        (torch.zeros(2, 0, dtype=torch.int64), r"at least 1, got \(2, 0\)"),
        (torch.zeros(3, dtype=torch.int64), r"\(B, T\).*got \(3,\)"),
    ],
)
def test_ids_without_a_row_are_named_with_the_valid_range(ids, message):
    with pytest.raises(ValueError, match=message):
        TokenAndPosition(vocab_size=11, context_length=4, d_model=6)(ids)


@both_dtypes
def test_rope_multiplies_each_pair_by_a_complex_number_of_size_one(dtype):
    x = numbers(2, 3, 7, 10, dtype=dtype)
    out = apply_rope(x, base=100.0)
    assert out.dtype == dtype

    frequencies = 100.0 ** (-torch.arange(0, 10, 2, dtype=torch.float64) / 10)
    angles = torch.outer(torch.arange(7, dtype=torch.float64), frequencies)
    turns = torch.polar(torch.ones_like(angles), angles)  # (T, D / 2)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (5, 2)))
    expected = torch.view_as_real(pairs * turns).flatten(-2).to(dtype)
    assert_equal(out, expected)
    assert_equal(gradients(out, [x])[0], gradients(expected, [x])[0])


def test_rope_continues_at_the_offset():
    x = numbers(2, 3, 7, 10).detach()
    assert torch.equal(apply_rope(x[:, :, 4:], offset=4), apply_rope(x)[:, :, 4:])


def test_rope_computes_cosines_once_for_a_length_a_width_and_a_base():
    with torch.inference_mode():
        apply_rope(torch.randn(1, 1, 8, 6), base=77.0)
    x = torch.randn(2, 3, 5, 6, requires_grad=True)  # in training, after a use in inference mode
    with torch.profiler.profile() as profile:
        apply_rope(x, base=77.0).sum().backward()
        apply_rope(x[:, :, :1], base=77.0, offset=7)
        assert "aten::cos" not in {event.key for event in profile.key_averages()}
