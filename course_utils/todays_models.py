"""Changes in models since GPT-2: the finished parts of lesson 16, in lesson order.

Letters in shapes: `B` batch, `T` tokens, `C` model width (`d_model`), `H` heads, `G` key/value
heads, `D` head width, `V` vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import causal_mask, check_divisible, check_length, merge_heads, split_heads
from .language_model import TinyLM
from .transformer import TransformerBlock, apply_rope


class RMSNorm(nn.Module):
    """Divide each token by its root mean square, with `eps` under the root, and scale the result:
    `(…, C)` -> `(…, C)` (Zhang and Sennrich 2019). No mean is subtracted, and there is no shift."""

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


class GroupedQueryAttention(nn.Module):
    """Causal attention with rotary positions, in which H query heads share G key/value heads:
    `(B, T, C)` -> `(B, T, C)` (Ainslie et al. 2023). Query head h uses key/value head h // (H / G).

    Raises:
        ValueError: C is not divisible by H, or H by G, or T exceeds `context_length`.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, context_length: int
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
        self.context_length = context_length

    def forward(self, x: Tensor) -> Tensor:
        check_length(x.shape[1], self.context_length)
        query = apply_rope(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
        key = apply_rope(split_heads(self.key(x), self.num_kv_heads))  # (B, G, T, D)
        value = split_heads(self.value(x), self.num_kv_heads)  # (B, G, T, D)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.out_proj(merge_heads(found))  # (B, H, T, D) -> (B, T, C)


def sliding_window_mask(T: int, window: int) -> Tensor:
    """Return the `(T, T)` bool mask that shows a token itself and the `window - 1` before it.

    >>> sliding_window_mask(3, 2).int().tolist()
    [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
    """
    return causal_mask(T) | torch.ones(T, T, dtype=torch.bool).tril(-window)


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
