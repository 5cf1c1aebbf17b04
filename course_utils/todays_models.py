"""Changes in models since GPT-2: the finished parts of lesson 16, in lesson order.

Letters in shapes: `B` batch, `T` tokens, `C` model width (`d_model`), `H` heads, `G` key/value
heads, `D` head width, `V` vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import causal_mask, check_divisible, check_length, merge_heads, split_heads
from .language_model import TinyLM, evaluating, next_token_probabilities
from .transformer import TransformerBlock, apply_rope, check_ids


class RMSNorm(nn.Module):
    """Divide each token by its root mean square, with `eps` inside the square root, and scale the
    result: `(…, C)` -> `(…, C)` (Zhang and Sennrich 2019). No mean is subtracted, and there is no
    shift."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.scale.shape, self.scale, self.eps)


class SwiGLU(nn.Module):
    """A feed-forward network without biases, in which one projection gates another: `(…, C)` ->
    `(…, C)`, with hidden width `d_ff` (Shazeer 2020)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.expand = nn.Linear(d_model, d_ff, bias=False)
        self.contract = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.silu(self.gate(x)) * self.expand(x))


class MixtureOfExperts(nn.Module):
    """A feed-forward network of several `SwiGLU`s, of which a router picks k for each token:
    `(B, T, C)` -> `(B, T, C)` (Shazeer et al. 2017; with these weights, Jiang et al. 2024).

    The outputs of the k experts with the largest router logits are added, with weights that are the
    softmax of these k logits. Each expert is called with its own tokens only.

    Args:
        d_model: width C of a token.
        d_ff: the hidden width of each expert.
        num_experts: the number of experts, E.
        k: the number of experts for each token, at most E.

    Raises:
        ValueError: k isn't between 1 and E.
    """

    def __init__(self, d_model: int, d_ff: int, num_experts: int, k: int) -> None:
        super().__init__()
        if not 1 <= k <= num_experts:
            raise ValueError(f"k must be between 1 and {num_experts}, the experts; got {k}")
        self.k = k
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(num_experts))

    def forward(self, x: Tensor) -> Tensor:
        logits, chosen = self.router(x).topk(self.k, dim=-1)  # (B, T, k) each
        weights = logits.softmax(dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            *token, place = (chosen == i).nonzero(
                as_tuple=True
            )  # N of the tokens, and of 0 … k - 1
            share = weights[*token, place].unsqueeze(-1)  # (N, 1)
            out = out.index_put(tuple(token), share * expert(x[*token]), accumulate=True)
        return out


def sliding_window_mask(T: int, window: int, device: torch.device | str | None = None) -> Tensor:
    """Return the `(T, T)` bool mask that shows a token itself and the `window - 1` before it.

    >>> sliding_window_mask(3, 2).int().tolist()
    [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    """
    older = torch.ones(T, T, dtype=torch.bool, device=device).tril(-window)
    return causal_mask(T, device) | older


class GroupedQueryAttention(nn.Module):
    """Causal attention with rotary positions, in which H query heads share G key/value heads:
    `(B, T, C)` -> `(B, T, C)` (Ainslie et al. 2023). Query head h uses key/value head h // (H / G).

    Args:
        d_model: width C of a token.
        num_heads: the number of query heads, H.
        num_kv_heads: the number of key/value heads, G.
        context_length: the maximum number of tokens, together with those in the cache.
        window: the number of tokens that a token attends to, itself included; None for all.
        base: the base of the rotary angles.

    Shapes: `forward(x, cache=None)`. A cache is a dict, empty before the first tokens; it keeps the
    keys and values of the tokens so far, `(B, G, S, D)` each, and `forward` adds those of x. With a
    window, it drops what no later token attends to.

    Raises:
        ValueError: C is not divisible by H, or H by G, or there are more tokens than fit.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        context_length: int,
        window: int | None = None,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        check_divisible(d_model, num_heads)
        if num_heads % num_kv_heads:
            raise ValueError(f"{num_heads} heads can't share {num_kv_heads} evenly")
        shared = num_kv_heads * (d_model // num_heads)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, shared, bias=False)
        self.value = nn.Linear(d_model, shared, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.context_length, self.window, self.base = context_length, window, base

    def forward(self, x: Tensor, cache: dict[str, Any] | None = None) -> Tensor:
        T, past = x.shape[1], cache.get("tokens", 0) if cache else 0
        check_length(past + T, self.context_length)
        query = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
        key = split_heads(self.key(x), self.num_kv_heads)  # (B, G, T, D)
        value = split_heads(self.value(x), self.num_kv_heads)  # (B, G, T, D)
        query, key = (apply_rope(part, self.base, offset=past) for part in (query, key))
        if cache:
            key = torch.cat([cache["key"], key], dim=2)  # (B, G, S, D)
            value = torch.cat([cache["value"], value], dim=2)
        S = key.shape[2]
        if cache is not None:
            kept = S if self.window is None else min(S, self.window - 1)
            cache |= {"key": key[:, :, S - kept :], "value": value[:, :, S - kept :]}
            cache["tokens"] = past + T
        plain = T == S and self.window is None
        visible = None if plain else ~sliding_window_mask(S, self.window or S, x.device)[-T:]
        found = F.scaled_dot_product_attention(
            query, key, value, attn_mask=visible, is_causal=plain, enable_gqa=True
        )
        return self.out_proj(merge_heads(found))  # (B, H, T, D) -> (B, T, C)


class ModernBlock(nn.Module):
    """A Pre-LN block of today's parts: `(B, T, C)` -> `(B, T, C)` (Touvron et al. 2023)."""

    def __init__(self, attention: GroupedQueryAttention, d_ff: int, eps: float = 1e-6) -> None:
        super().__init__()
        d_model = attention.query.in_features
        self.norm1, self.attention = RMSNorm(d_model, eps), attention
        self.norm2, self.feed_forward = RMSNorm(d_model, eps), SwiGLU(d_model, d_ff)

    def forward(self, x: Tensor, cache: dict[str, Any] | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), cache)
        return x + self.feed_forward(self.norm2(x))


class ModernLM(nn.Module):
    """A small Llama, which returns the logits of the next token at each token.

    Args:
        vocab_size: the vocabulary size V.
        d_model: width C of a token.
        num_heads: the number of query heads, H.
        num_kv_heads: the number of key/value heads, G.
        context_length: the maximum number of tokens, together with those in the caches.
        num_layers: the number of blocks.
        d_ff: the hidden width of the feed-forward networks.
        window: the number of tokens that a token attends to, itself included; None for all.
        base: the base of the rotary angles.
        eps: the number inside the norms' square root.

    Shapes: `forward(ids, caches=None)` takes `(B, T)` ids and returns `(B, T, V)` logits. `caches`
    is a list of one dict per block, all empty before the first tokens (`new_caches`).

    The output layer is tied to the token embedding (one shared matrix), whose initial standard
    deviation is 0.02; with 1, the first loss would be several times log V.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        context_length: int,
        num_layers: int,
        d_ff: int,
        window: int | None = None,
        base: float = 10000.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.embed = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(
            ModernBlock(
                GroupedQueryAttention(
                    d_model, num_heads, num_kv_heads, context_length, window, base
                ),
                d_ff,
                eps,
            )
            for _ in range(num_layers)
        )
        self.norm = RMSNorm(d_model, eps)

    def forward(self, ids: Tensor, caches: list[dict[str, Any]] | None = None) -> Tensor:
        check_ids(ids, self.embed.num_embeddings)
        x = self.embed(ids)  # (B, T) -> (B, T, C)
        known: Sequence[Any] = [None] * len(self.blocks) if caches is None else caches
        for block, cache in zip(self.blocks, known, strict=True):
            x = block(x, cache)  # (B, T, C) -> (B, T, C)
        return F.linear(self.norm(x), self.embed.weight)  # (B, T, C) -> (B, T, V)


def llama_of_size(config: Any) -> ModernLM:
    """Build a `ModernLM` with the sizes in a `LlamaConfig` of `transformers`, or one like it.

    Raises:
        ValueError: the config asks for something that a `ModernLM` doesn't have: scaled rotary
            angles, biases, heads whose width isn't C / H, or an activation function but SiLU.
    """
    rotary = getattr(config, "rope_parameters", None)  # its place in version 5 and later
    rotary = rotary or getattr(config, "rope_scaling", None) or {}
    width = config.hidden_size // config.num_attention_heads
    has = {"rope_type": "default", "attention_bias": False, "mlp_bias": False}
    has |= {"head_dim": width, "hidden_act": "silu"}
    asked = {name: getattr(config, name, None) for name in has}
    asked["rope_type"] = rotary.get("rope_type", rotary.get("type"))
    for name, value in asked.items():
        if value not in (None, has[name]):
            raise ValueError(
                f"a ModernLM has {name} {has[name]!r}, but the config asks for {value!r}"
            )
    return ModernLM(
        config.vocab_size,
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.max_position_embeddings,
        config.num_hidden_layers,
        config.intermediate_size,
        base=rotary.get("rope_theta", getattr(config, "rope_theta", 10000.0)),
        eps=config.rms_norm_eps,
    )


def new_caches(model: nn.Module) -> list[dict[str, Any]]:
    """Return an empty cache for each block of a model."""
    return [{} for _ in model.get_submodule("blocks").children()]


@torch.no_grad()
def sample_cached(
    model: nn.Module,
    ids: Tensor,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
    context_length: int | None = None,
) -> Tensor:
    """Sample as `language_model.sample` does, but with caches: the prompt is read at once
    (prefill), and then each new token is read alone (decode).

    When the context is full, its later half is read again. So the model sees between half its
    context and all of it, and on average a new token costs far less than the whole context.

    Args:
        model: a `ModernLM`, or a module that is called in the same way.
        ids: the prompts, `(B, T)`.
        context_length: the maximum number of tokens; None means that of the model.

    Returns:
        Ids `(B, T + max_new_tokens)`.
    """
    length: int = context_length or model.context_length  # type: ignore[assignment]
    with evaluating(model):
        first = max(0, ids.shape[1] - length)  # the position of the first cached token
        caches, known = new_caches(model), first
        for _ in range(max_new_tokens):
            if ids.shape[1] - first > length:
                first = known = ids.shape[1] - length // 2
                caches = new_caches(model)
            logits = model(ids[:, known:], caches)[:, -1]  # (B, T, V) -> (B, V)
            known = ids.shape[1]
            probabilities = next_token_probabilities(logits, temperature, top_k)
            drawn = torch.multinomial(probabilities, num_samples=1, generator=generator)
            ids = torch.cat([ids, drawn], dim=1)  # (B, T) and (B, 1) -> (B, T + 1)
    return ids


def gpt2_of_size(
    vocab_size: int, d_model: int, num_heads: int, context_length: int, num_layers: int
) -> TinyLM:
    """Build a `TinyLM` whose attention has biases for query, key and value, as in GPT-2."""
    model = TinyLM(vocab_size, d_model, num_heads, context_length, num_layers)
    for i in range(num_layers):
        model.blocks[i] = TransformerBlock(d_model, num_heads, context_length, qkv_bias=True)
    return model


PARTS = ("attention.out_proj", "feed_forward.expand", "feed_forward.contract")


def load_gpt2(model: TinyLM, state_dict: dict[str, Tensor]) -> None:
    """Copy parameters with GPT-2's names into a model, in place.

    GPT-2 stores its matrices as (in, out), used as `x @ W`, with query, key and value concatenated
    in `c_attn`; its output layer is the token embedding.
    """
    theirs = {name.removeprefix("transformer."): value for name, value in state_dict.items()}
    tables = {"embed.token": "wte", "embed.position": "wpe", "head": "wte"}
    given = {f"{mine}.weight": theirs[f"{name}.weight"] for mine, name in tables.items()}
    norms, layers = {"norm": "ln_f"}, dict[str, str]()
    for i in range(len(model.blocks)):
        norms |= {f"blocks.{i}.norm{n}": f"h.{i}.ln_{n}" for n in (1, 2)}
        names = zip(PARTS, ("attn.c_proj", "mlp.c_fc", "mlp.c_proj"), strict=True)
        layers |= {f"blocks.{i}.{mine}": f"h.{i}.{name}" for mine, name in names}
        weight, bias = (theirs[f"h.{i}.attn.c_attn.{kind}"] for kind in ("weight", "bias"))
        for n, name in enumerate(("query", "key", "value")):
            mine = f"blocks.{i}.attention.{name}"
            given[f"{mine}.weight"] = weight.chunk(3, dim=1)[n].T  # (C, 3 C) -> (C, C)
            given[f"{mine}.bias"] = bias.chunk(3)[n]
    for mine, name in layers.items():
        given[f"{mine}.weight"] = theirs[f"{name}.weight"].T  # (in, out) -> (out, in)
        given[f"{mine}.bias"] = theirs[f"{name}.bias"]
    for mine, name in norms.items():
        given[f"{mine}.scale"] = theirs[f"{name}.weight"]
        given[f"{mine}.shift"] = theirs[f"{name}.bias"]
    with torch.no_grad():  # a decorator would hide where this code comes from
        for name, parameter in model.named_parameters():
            parameter.copy_(given[name])


LLAMA = {
    "norm1.scale": "input_layernorm",
    "attention.query.weight": "self_attn.q_proj",
    "attention.key.weight": "self_attn.k_proj",
    "attention.value.weight": "self_attn.v_proj",
    "attention.out_proj.weight": "self_attn.o_proj",
    "norm2.scale": "post_attention_layernorm",
    "feed_forward.gate.weight": "mlp.gate_proj",
    "feed_forward.expand.weight": "mlp.up_proj",
    "feed_forward.contract.weight": "mlp.down_proj",
}


def halves_to_pairs(weight: Tensor, num_heads: int) -> Tensor:
    """Reorder the rows of a query or key matrix `(H D, C)` so that neighbours are rotated together.

    Meta's own code rotates channel 2i of a head together with channel 2i + 1, as `apply_rope` does.
    The library `transformers` rotates channel i together with channel i + D / 2, and its conversion
    of a model permutes the rows accordingly. This function undoes that.

    >>> halves_to_pairs(torch.arange(4.0)[:, None], num_heads=1)[:, 0].tolist()
    [0.0, 2.0, 1.0, 3.0]
    """
    halves = weight.unflatten(0, (num_heads, 2, -1))  # (H D, C) -> (H, 2, D / 2, C)
    return halves.transpose(1, 2).reshape(weight.shape)  # (H, D / 2, 2, C) -> (H D, C)


def load_llama(model: ModernLM, state_dict: dict[str, Tensor]) -> None:
    """Copy parameters with Llama's names in `transformers` into a `ModernLM`, in place.

    The output layer must be tied to the token embedding (one shared matrix), as in the small
    models of this family.

    Raises:
        ValueError: the state dict has an output layer of its own.
    """
    theirs = {name.removeprefix("model."): value for name, value in state_dict.items()}
    table = theirs["embed_tokens.weight"]
    if not torch.equal(theirs.get("lm_head.weight", table), table):
        raise ValueError("lm_head.weight differs from embed_tokens.weight: the layers aren't tied")
    given = {"embed.weight": table, "norm.scale": theirs["norm.weight"]}
    for i, block in enumerate(model.blocks):
        assert isinstance(block, ModernBlock)
        for mine, name in LLAMA.items():
            given[f"blocks.{i}.{mine}"] = theirs[f"layers.{i}.{name}.weight"]
        for part, heads in (
            ("query", block.attention.num_heads),
            ("key", block.attention.num_kv_heads),
        ):
            mine = f"blocks.{i}.attention.{part}.weight"
            given[mine] = halves_to_pairs(given[mine], heads)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(given[name])
