"""The parts of lesson 16 against PyTorch and `transformers`, and the lesson's table."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn

from course_utils import attention, transformer
from course_utils.experiments import loss_so_far, modern
from course_utils.language_model import TinyLM, generate_cached, next_token_loss
from course_utils.todays_models import (
    GroupedQueryAttention,
    MixtureOfExperts,
    ModernLM,
    RMSNorm,
    SwiGLU,
    gpt2_of_size,
    llama_of_size,
    load_gpt2,
    load_llama,
    new_caches,
    sample_cached,
    sliding_window_mask,
)
from training.modern import TABLE, tied
from whywrong.hosting import catalogue


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="6 heads can't share 4 evenly"):
        GroupedQueryAttention(12, 6, 4, 5)
    with pytest.raises(ValueError, match="context_length is 5"):
        GroupedQueryAttention(12, 6, 3, 5)(torch.zeros(1, 6, 12))


MODELS = [partial(TinyLM, 11, 12, 3, 9, 2), partial(ModernLM, 11, 12, 6, 3, 9, 2, 20)]


@pytest.mark.parametrize("make", MODELS)
def test_a_model_and_its_loss_compile_into_one_graph(make):
    model, ids = make(), torch.randint(11, (4, 9))

    def loss(ids):
        return next_token_loss(model(ids[:, :-1]), ids)

    whole = torch.compile(loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(ids), loss(ids))


@pytest.mark.parametrize("make", MODELS)
def test_no_step_waits_for_the_numbers_of_a_device(make):
    """On "meta", which has shapes but no numbers, reading a number raises an error."""
    model, ids = make().to("meta"), torch.zeros(4, 9, dtype=torch.int64, device="meta")
    next_token_loss(model(ids[:, :-1]), ids, pad_id=3).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    generate = generate_cached if isinstance(model, TinyLM) else sample_cached
    assert generate(model, ids[:, :2], 3).shape == (4, 5)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_mixture_calls_each_expert_with_its_own_tokens_only(k):
    torch.manual_seed(0)
    mixture, x = MixtureOfExperts(6, 10, num_experts=4, k=k), torch.randn(3, 5, 6)
    calls = [0] * 4
    for i, expert in enumerate(mixture.experts):
        expert.register_forward_hook(lambda _, given, __, i=i: calls.__setitem__(i, len(given[0])))
    out = mixture(x)
    assert sum(calls) == 15 * k
    out.sum().backward()
    assert bool(mixture.router.weight.grad.any()) is (k > 1)  # with one expert, its weight is 1
    expected = catalogue().find("MixtureOfExperts").reference(6, 10, 4, k)
    expected.load_state_dict(mixture.state_dict())
    torch.testing.assert_close(out, expected(x))


def test_a_mixture_refuses_more_experts_than_it_has():
    with pytest.raises(ValueError, match="k must be between 1 and 4, the experts; got 5"):
        MixtureOfExperts(6, 10, num_experts=4, k=5)


def test_a_window_as_long_as_the_text_is_the_causal_mask():
    assert sliding_window_mask(5, 5).equal(attention.causal_mask(5))
    assert sliding_window_mask(4, 1).equal(~torch.eye(4, dtype=torch.bool))


@pytest.mark.parametrize("load", [load_gpt2, catalogue().find("load_gpt2").reference])
def test_gpt2_gives_the_logits_of_transformers(load):
    V, C, H, context, L = 23, 12, 3, 9, 2
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=C, n_head=H, n_positions=context, n_layer=L
    )
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    for parameter in theirs.parameters():
        parameter.data = torch.randn_like(parameter) / 3
    ours = gpt2_of_size(V, C, H, context, L).eval()
    load(ours, theirs.state_dict())
    ids = torch.randint(V, (4, context))
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=0)


class Block(nn.Module):
    """The block of the lesson, with any parts."""

    def __init__(self, norm, attend, network):
        super().__init__()
        self.norm1, self.attention, self.norm2, self.network = norm(64), attend, norm(64), network

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.network(self.norm2(x))


class Windowed(GroupedQueryAttention):
    window = 32

    def forward(self, x):
        query = transformer.apply_rope(attention.split_heads(self.query(x), self.num_heads))
        key = transformer.apply_rope(attention.split_heads(self.key(x), self.num_kv_heads))
        value = attention.split_heads(self.value(x), self.num_kv_heads)
        seen = ~sliding_window_mask(x.shape[1], self.window)
        found = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
        return self.out_proj(attention.merge_heads(found))


def grouped(G, window=32):
    attend = Windowed(64, 4, G, 32)
    attend.window = window
    return Block(RMSNorm, attend, SwiGLU(64, 171))


def heads():
    return attention.MultiHeadAttention(64, 64, 32, 4)


EDITS = {
    "as in lesson 08": (
        lambda: Block(transformer.LayerNorm, heads(), transformer.FeedForward(64)),
        True, 49_792, (1.23, 1.23, 1.25),
    ),
    "RMSNorm": (
        lambda: Block(RMSNorm, heads(), transformer.FeedForward(64)),
        True, 49_664, (1.23, 1.23, 1.25),
    ),
    "SwiGLU": (lambda: Block(RMSNorm, heads(), SwiGLU(64, 171)), True, 49_408, (1.23, 1.23, 1.24)),
    "rotary, four of four": (lambda: grouped(4), False, 49_344, (1.22, 1.22, 1.22)),
    "two of four": (lambda: grouped(2), False, 45_248, (1.22, 1.22, 1.22)),
    "one of four": (lambda: grouped(1), False, 43_200, (1.22, 1.23, 1.23)),
    "a window of 8": (lambda: grouped(2, window=8), False, 45_248, (1.22, 1.22, 1.22)),
    "a window of 2": (lambda: grouped(2, window=2), False, 45_248, (1.52, 1.52, 1.52)),
}  # fmt: skip


@pytest.mark.full("the lessons' experiments")
@pytest.mark.parametrize("name", EDITS)
def test_the_table_of_edits(name):
    make, positions, count, losses = EDITS[name]
    for seed, loss in enumerate(losses):
        torch.manual_seed(seed)
        block = make()
        assert sum(p.numel() for p in block.parameters()) == count
        row = loss_so_far.Wiring("16", positions=positions, normed=True)
        assert loss_so_far.measured(row, block, seed)[0] == pytest.approx(loss, abs=0.012)


def llama_and_ours(**sizes):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=53, hidden_size=24, num_attention_heads=6, num_key_value_heads=2,
        intermediate_size=37, num_hidden_layers=3, max_position_embeddings=32,
        tie_word_embeddings=True, rms_norm_eps=1e-6, attn_implementation="eager", **sizes,
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).eval()
    for parameter in theirs.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    ours = llama_of_size(config).eval()
    load_llama(ours, theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_a_llama_with_random_parameters_gives_the_same_logits(base):
    rotary = {"rope_type": "default", "rope_theta": base}
    theirs, ours = llama_and_ours(rope_parameters=rotary)
    ids = torch.randint(53, (3, 17))
    with torch.no_grad():
        expected = theirs(ids).logits
        torch.testing.assert_close(ours(ids), expected, atol=1e-4, rtol=0)
        caches = new_caches(ours)  # a prompt at once, then one by one
        parts = [ours(part, caches) for part in ids.split([9, *[1] * 8], dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=1e-4, rtol=0)
        kept = theirs(ids[:, :9], use_cache=True)
        step = theirs(ids[:, 9:10], past_key_values=kept.past_key_values).logits
        torch.testing.assert_close(parts[1], step, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "rope_type",
        ),
        ({"attention_bias": True}, "attention_bias False, but the config asks for True"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"head_dim": 8}, "head_dim 4, but the config asks for 8"),
        ({"hidden_act": "gelu"}, "hidden_act"),
    ],
)
def test_a_config_that_a_modern_lm_cannot_honour_is_refused(asked, said):
    with pytest.raises(ValueError, match=said):
        llama_and_ours(**asked)


def test_scaled_angles_are_refused_under_their_older_name():
    config = transformers.LlamaConfig().to_dict()
    older = SimpleNamespace(
        **config | {"rope_parameters": None, "rope_scaling": {"type": "dynamic"}}
    )
    with pytest.raises(ValueError, match="rope_type 'default', but the config asks for 'dynamic'"):
        llama_of_size(older)


@pytest.mark.parametrize("window", [1, 3, 5, 40])
@pytest.mark.parametrize("sizes", [[1] * 13, [5, 1, 2, 5], [13]])
def test_with_a_window_and_a_cache_attention_agrees_with_itself(window, sizes):
    torch.manual_seed(0)
    attend = GroupedQueryAttention(12, 6, 3, context_length=16, window=window)
    x, cache = torch.randn(2, 13, 12), {}
    parts = [attend(part, cache) for part in x.split(sizes, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), attend(x), atol=1e-6, rtol=0)
    assert cache["key"].shape[2] == min(13, window - 1 if window <= 13 else 13)


def test_an_output_layer_of_its_own_is_refused():
    theirs, ours = llama_and_ours()
    state = dict(theirs.state_dict())
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(ValueError, match="aren't tied"):
        load_llama(ours, state)


def test_the_explorer_refuses_a_large_model():
    from course_utils.show.explorer import explore

    model = nn.Linear(2_000, 2_000)
    with pytest.raises(ValueError, match="4,002,000 parameters"):
        explore(model, ["a"])


def test_the_explorer_shows_a_modern_model():
    from course_utils.show.explorer import explore

    model = ModernLM(5, 8, 2, 1, 6, 1, 12, window=3)
    shown = explore(model, "abcde", "a" * 9)
    assert shown._modern == {"longest": 6, "base": 10000.0, "window": 3, "eps": 1e-6}
    best = model(torch.zeros(1, 6, dtype=torch.int64))[0, -1].argmax()
    assert repr(shown).splitlines()[1].endswith("abcde"[best])
    del model.context_length
    with pytest.raises(ValueError, match="ModernLM doesn't store context_length: pass `context_le"):
        explore(model, "abcde")
    assert explore(model, "abcde", context_length=6)._modern == shown._modern
    del model.blocks[0].feed_forward.gate
    with pytest.raises(ValueError, match="ModernLM; the model lacks blocks.0.feed_forward.gate"):
        explore(model, "abcde")


def test_a_small_gpt2_has_the_names_and_shapes_of_transformers():
    config = transformers.GPT2Config(vocab_size=50, n_embd=12, n_head=3, n_positions=16, n_layer=2)
    theirs = transformers.GPT2LMHeadModel(config).state_dict()
    ours = modern.like_gpt2(50, 12, 16, 2)
    assert {n: x.shape for n, x in theirs.items() if n != "lm_head.weight"} == {
        n: x.shape for n, x in ours.items()
    }


def test_the_lesson_s_table_has_one_change_at_a_time():
    counts = {name: sum(p.numel() for p in make().parameters()) for name, make in TABLE.items()}
    assert list(counts.values()) == [
        60_768, 60_528, 60_288, 59_232, 58_512, 58_416, 53_808, 51_504, 91_056,
        52_368, 52_368, 52_368,
    ]  # fmt: skip


def test_the_models_are_compared_on_windows_of_one_length_and_none_is_seen_twice():
    _, windows, held_out = modern.letters_and_windows()
    assert windows.shape[1] == held_out.shape[1] == modern.LENGTH + 1
    assert held_out.stride() == (modern.LENGTH + 1, 1)


@torch.no_grad()
@pytest.mark.parametrize("seed", range(10))
def test_attention_adds_vectors_five_to_eight_times_longer_than_an_embedding_of_size_0_02(seed):
    _, windows, _ = modern.letters_and_windows()
    torch.manual_seed(seed)
    model = tied(0.02)
    block, x = model.blocks[0], model.embed(windows[:50, :32])
    added = block.attention(block.norm1(x)).norm(dim=-1).mean()
    assert 5 < added / x.norm(dim=-1).mean() < 8


class FromTheText(nn.Module):
    """Attention with no attributes but those that the exercise names."""

    def __init__(self, d_model, num_heads, num_kv_heads, context_length, window=None):
        super().__init__()
        self.H, self.G, self.w, D = num_heads, num_kv_heads, window, d_model // num_heads
        self.query, self.out_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(d_model, num_kv_heads * D, bias=False) for _ in range(2))

    def forward(self, x, cache=None):
        past, T = cache["key"].shape[2] if cache else 0, x.shape[1]
        q = transformer.apply_rope(attention.split_heads(self.query(x), self.H), offset=past)
        k = transformer.apply_rope(attention.split_heads(self.key(x), self.G), offset=past)
        v = attention.split_heads(self.value(x), self.G)
        if past:
            k, v = torch.cat([cache["key"], k], dim=2), torch.cat([cache["value"], v], dim=2)
        if cache is not None:
            cache["key"], cache["value"] = k, v
        mask = sliding_window_mask(past + T, self.w or past + T, device=x.device)[past:]
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=~mask, enable_gqa=True)
        return self.out_proj(attention.merge_heads(found))


class BlockFromTheText(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, context_length, d_ff):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(d_model), RMSNorm(d_model)
        self.attention = FromTheText(d_model, num_heads, num_kv_heads, context_length)
        self.feed_forward = SwiGLU(d_model, d_ff)

    def forward(self, x, cache=None):
        x = x + self.attention(self.norm1(x), cache)
        return x + self.feed_forward(self.norm2(x))


class ModelFromTheText(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, context_length, num_layers, d_ff
    ):
        super().__init__()
        self.embed, self.norm = nn.Embedding(vocab_size, d_model), RMSNorm(d_model)
        nn.init.normal_(self.embed.weight, std=0.02)
        sizes = d_model, num_heads, num_kv_heads, context_length, d_ff
        self.blocks = nn.ModuleList(BlockFromTheText(*sizes) for _ in range(num_layers))

    def forward(self, ids, caches=None):
        x = self.embed(ids)
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None)
        return self.norm(x) @ self.embed.weight.T


def test_an_answer_from_the_text_alone_runs_through_the_later_cells(monkeypatch, capsys):
    """Nothing after the exercises needs an attribute that they don't ask for."""
    monkeypatch.setattr(modern, "trained_loss", partial(modern.trained_loss, steps=2))
    lesson = Path(__file__).parents[1] / "notebooks" / "8-beyond" / "16_todays_models.ipynb"
    cells = [c for c in nbformat.read(lesson, as_version=4).cells if c.cell_type == "code"]
    first = next(i for i, c in enumerate(cells) if c.source.startswith("predicted_gain"))
    last = next(i for i, c in enumerate(cells) if c.source.startswith("predicted_error"))
    space = {"ModernLM": ModelFromTheText, "GroupedQueryAttention": FromTheText}
    exec(cells[1].source, space)
    for cell in cells[first:last]:
        exec(cell.source, space)
    said = capsys.readouterr().out
    assert "ModernLM: yours runs here." in said and isinstance(space["model"], ModelFromTheText)
