"""Right and wrong answers for lesson 16."""

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import todays_models as finished
from course_utils.attention import causal_mask, merge_heads, split_heads
from course_utils.transformer import apply_rope


class NormByVectorNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.scale, self.eps, self.C = nn.Parameter(torch.ones(d_model)), eps, d_model

    def forward(self, x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / (length**2 / self.C + self.eps) ** 0.5 * self.scale


class NormByDotProduct(NormByVectorNorm):
    def forward(self, x):
        squares = torch.einsum("...c,...c->...", x, x)[..., None] / self.C
        return torch.mul(x, (squares + self.eps).rsqrt()) * self.scale


class NormOfFloat32(NormByVectorNorm):
    """As Llama's code has it: the norm in float32, whatever the input."""

    def forward(self, x):
        wide = x.float() if x.dtype != torch.float64 else x
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.scale * wide.to(x.dtype)


class GatedByFunction(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.expand = nn.Linear(d_model, d_ff, False)
        self.contract = nn.Linear(in_features=d_ff, out_features=d_model, bias=False)

    def forward(self, x):
        return F.linear(self.expand(x).mul(F.silu(self.gate(x))), self.contract.weight)


class GatedByModule(GatedByFunction):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.contract(self.expand(x) * self.act(self.gate(x)))


class GatedInBatches(GatedByFunction):
    def forward(self, x):
        B, T, C = x.shape
        return super().forward(x.view(B * T, C)).view(B, T, C)


class GroupsByExpand(nn.Module):
    """Keys and values are expanded without a copy; attention by hand; a cache of pairs."""

    def __init__(self, d_model, num_heads, num_kv_heads, context_length, window=None):
        super().__init__()
        self.H, self.G, self.D = num_heads, num_kv_heads, d_model // num_heads
        self.window = window or context_length
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, self.G * self.D, bias=False)
        self.value = nn.Linear(d_model, self.G * self.D, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def projected(self, x, cache):
        """Queries, keys and values with those of the cache, and what is hidden."""
        past = cache["pair"][0].shape[2] if cache else 0
        q, k = (
            apply_rope(split_heads(f(x), n), offset=past)
            for f, n in ((self.query, self.H), (self.key, self.G))
        )
        v = split_heads(self.value(x), self.G)
        if past:
            k, v = (torch.cat(both, 2) for both in zip(cache["pair"], (k, v), strict=True))
        if cache is not None:
            cache["pair"] = k, v
        S = past + x.shape[1]
        older = torch.ones(S, S, dtype=torch.bool, device=x.device).tril(-self.window)
        return q, k, v, (causal_mask(S, x.device) | older)[past:]

    def forward(self, x, cache=None):
        q, k, v, hidden = self.projected(x, cache)
        k, v = (
            t[:, :, None].expand(-1, -1, self.H // self.G, -1, -1).flatten(1, 2) for t in (k, v)
        )
        scores = (q @ k.mT / self.D**0.5).masked_fill(hidden, -torch.inf)
        return self.out_proj(merge_heads(scores.softmax(-1) @ v))


class GroupsByHead(GroupsByExpand):
    """One query head after the other."""

    def forward(self, x, cache=None):
        query, key, value, hidden = self.projected(x, cache)
        found = []
        for h in range(self.H):
            g = h * self.G // self.H
            out = F.scaled_dot_product_attention(
                query[:, h], key[:, g], value[:, g], attn_mask=~hidden
            )
            found.append(out)
        return self.out_proj(torch.cat(found, dim=-1))


class ModelInOneClass(nn.Module):
    """No class for a block: a list of parts for each layer."""

    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, context_length, num_layers, d_ff
    ):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        nn.init.trunc_normal_(self.embed.weight, std=0.02)
        self.norm = finished.RMSNorm(d_model)

        def parts():
            return nn.ModuleDict(
                {
                    "norm1": finished.RMSNorm(d_model),
                    "attention": finished.GroupedQueryAttention(
                        d_model, num_heads, num_kv_heads, context_length
                    ),
                    "norm2": finished.RMSNorm(d_model),
                    "feed_forward": finished.SwiGLU(d_model, d_ff),
                }
            )

        self.blocks = nn.ModuleList(parts() for _ in range(num_layers))

    def forward(self, ids, caches=None):
        x = self.embed(ids)
        for i, block in enumerate(self.blocks):
            x = x + block.attention(block.norm1(x), *(caches[i : i + 1] if caches else []))
            x = x + block.feed_forward(block.norm2(x))
        return torch.einsum("btc,vc->btv", self.norm(x), self.embed.weight)


def window_by_loop(T, window):
    hidden = torch.ones(T, T, dtype=torch.bool)
    for t in range(T):
        hidden[t, max(0, t + 1 - window) : t + 1] = False
    return hidden


def window_by_xor(T, window):
    seen = torch.ones(T, T).tril() - torch.ones(T, T).tril(-window)
    return seen == 0


def window_of_both_sides(T, window):
    return finished.sliding_window_mask(T, window) & finished.sliding_window_mask(T, window).T


def _turned(name, value):
    layer = name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
    return value.T if layer else value


def load_by_state_dict(model, state_dict):
    """A state dict under our names, and `load_state_dict`."""
    names = {"wte": "embed.token", "wpe": "embed.position", "ln_f": "norm", "lm_head": "head"}
    names |= {"ln_1": "norm1", "ln_2": "norm2", "attn.c_proj": "attention.out_proj"}
    names |= {"mlp.c_fc": "feed_forward.expand", "mlp.c_proj": "feed_forward.contract"}
    state_dict = {n.removeprefix("transformer."): value for n, value in state_dict.items()}
    ours = {"head.weight": state_dict["wte.weight"].clone()}
    for name, value in state_dict.items():
        if name.startswith("h."):
            name = "blocks." + name[2:]
        value = _turned(name, value)
        if "c_attn" in name:
            for part, piece in zip(("query", "key", "value"), value.chunk(3), strict=True):
                ours[name.replace("attn.c_attn", f"attention.{part}")] = piece
            continue
        for theirs, mine in names.items():
            if f".{theirs}." in f".{name}":
                name = f".{name}".replace(f".{theirs}.", f".{mine}.")[1:]
                break
        if "norm" in name:
            name = name.replace("weight", "scale").replace("bias", "shift")
        ours[name] = value
    model.load_state_dict(ours)


def load_by_data(model, state_dict):
    own = finished.gpt2_of_size(
        *model.embed.token.weight.shape,
        model.blocks[0].attention.num_heads,
        model.context_length,
        len(model.blocks),
    ).to(model.head.weight)
    load_by_state_dict(own, state_dict)
    for mine, theirs in zip(model.parameters(), own.parameters(), strict=True):
        mine.data.copy_(theirs.data)


NAMES = {
    "input_layernorm.weight": "norm1.scale",
    "post_attention_layernorm.weight": "norm2.scale",
    "embed_tokens": "embed",
    "layers": "blocks",
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.out_proj",
    "mlp.gate_proj": "feed_forward.gate",
    "mlp.up_proj": "feed_forward.expand",
    "mlp.down_proj": "feed_forward.contract",
}


def load_llama_by_names(model, state_dict):
    """Renamed entries and `load_state_dict`."""
    given = {}
    for name, value in state_dict.items():
        name = name.removeprefix("model.")
        for theirs, mine in NAMES.items():
            name = name.replace(theirs, mine)
        name = "norm.scale" if name == "norm.weight" else name
        if name.endswith(("query.weight", "key.weight")):
            D = len(value) // getattr(
                model.blocks[0].attention, "num_heads" if "query" in name else "num_kv_heads"
            )
            rows = torch.arange(len(value)).view(-1, 2, D // 2).mT.flatten()
            value = value[rows.to(value.device)]
        if name != "lm_head.weight":
            given[name] = value
    model.load_state_dict(given)


@torch.no_grad()
def load_llama_row_by_row(model, state_dict):
    """Each head's rows are taken in turn from its first and its second half."""
    given = {name.removeprefix("model."): value for name, value in state_dict.items()}

    def turned(name, heads):
        value = given[name]
        D = len(value) // heads
        rows = [
            h * D + i + half for h in range(heads) for i in range(D // 2) for half in (0, D // 2)
        ]
        return value[rows]

    model.embed.weight.copy_(given["embed_tokens.weight"])
    model.norm.scale.copy_(given["norm.weight"])
    for i, block in enumerate(model.blocks):
        at, own = f"layers.{i}.", block.attention
        own.query.weight.copy_(turned(f"{at}self_attn.q_proj.weight", own.num_heads))
        own.key.weight.copy_(turned(f"{at}self_attn.k_proj.weight", own.num_kv_heads))
        for theirs, mine in NAMES.items():
            if theirs.endswith(("q_proj", "k_proj", "embed_tokens", "layers")):
                continue
            mine = mine if mine.endswith("scale") else f"{mine}.weight"
            theirs = theirs if theirs.endswith("weight") else f"{theirs}.weight"
            block.get_parameter(mine).copy_(given[at + theirs])


class BlockOfBranches(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, context_length, d_ff):
        super().__init__()
        sizes = d_model, num_heads, num_kv_heads, context_length
        self.attention = finished.GroupedQueryAttention(*sizes)
        self.feed_forward = finished.SwiGLU(d_model, d_ff)
        self.norm1, self.norm2 = finished.RMSNorm(d_model), finished.RMSNorm(d_model)

    def forward(self, x, cache=None):
        for branch in (
            lambda x: self.attention(self.norm1(x), cache),
            lambda x: self.feed_forward(self.norm2(x)),
        ):
            x = branch(x) + x
        return x


class ModelOfBranches(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, context_length, num_layers, d_ff
    ):
        super().__init__()
        sizes = d_model, num_heads, num_kv_heads, context_length, d_ff
        self.embed = nn.Embedding(vocab_size, d_model)
        self.embed.weight.data.mul_(0.02)
        self.blocks = nn.ModuleList([BlockOfBranches(*sizes) for _ in range(num_layers)])
        self.norm = finished.RMSNorm(d_model)
        self.context_length = context_length

    def forward(self, ids, caches=None):
        x = F.embedding(ids, self.embed.weight)
        for i in range(len(self.blocks)):
            x = self.blocks[i](x) if caches is None else self.blocks[i](x, caches[i])
        return torch.einsum("btc,vc->btv", self.norm(x), self.embed.weight)


class MixtureByIndexAdd(nn.Module):
    """Each expert is called with its own tokens only."""

    def __init__(self, d_model, d_ff, num_experts, k):
        super().__init__()
        self.k = k
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(finished.SwiGLU(d_model, d_ff) for _ in range(num_experts))

    def forward(self, x):
        flat = x.flatten(0, 1)  # (B T, C)
        best, chosen = self.router(flat).topk(self.k, dim=-1)
        weights, out = best.softmax(dim=-1), torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(chosen == i)
            share = weights[token, place].unsqueeze(-1)
            out = out.index_add(0, token, expert(flat[token]) * share)
        return out.view_as(x)


class MixtureByScatter(nn.Module):
    """A weight for every expert, which is 0 where the expert isn't chosen."""

    def __init__(self, d_model, d_ff, num_experts, k):
        super().__init__()
        self.k = k
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList([finished.SwiGLU(d_model, d_ff) for _ in range(num_experts)])

    def forward(self, x):
        logits = self.router(x)
        best, chosen = logits.topk(self.k)
        weights = torch.zeros_like(logits).scatter(-1, chosen, best.softmax(dim=-1))  # (B, T, E)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=2)  # (B, T, E, C)
        return torch.einsum("bte,btec->btc", weights, outputs)


RIGHT = {
    "MixtureOfExperts": {"by index_add": MixtureByIndexAdd, "by scatter": MixtureByScatter},
    "RMSNorm": {
        "by vector_norm": NormByVectorNorm,
        "by a dot product": NormByDotProduct,
        "in float32": NormOfFloat32,
    },
    "SwiGLU": {"by functions": GatedByFunction, "by a module": GatedByModule},
    "GroupedQueryAttention": {"expanded": GroupsByExpand, "head by head": GroupsByHead},
    "ModernLM": {"in one class": ModelInOneClass, "of branches": ModelOfBranches},
    "load_llama": {"by names": load_llama_by_names, "row by row": load_llama_row_by_row},
    "sliding_window_mask": {"by a loop": window_by_loop, "a difference": window_by_xor},
    "load_gpt2": {"by load_state_dict": load_by_state_dict, "by .data": load_by_data},
}

WRONG = {
    "MixtureOfExperts": {"of the course": (0, finished.MixtureOfExperts)},
    "RMSNorm": {"of the course": (0, finished.RMSNorm)},
    "SwiGLU": {"of the course": (0, finished.SwiGLU), "batches only": (0.75, GatedInBatches)},
    "GroupedQueryAttention": {
        "of the course": (0, finished.GroupedQueryAttention),
    },
    "sliding_window_mask": {
        "both sides": (0, window_of_both_sides),
        "of the course": (0, finished.sliding_window_mask),
    },
    "load_gpt2": {"of the course": (0, finished.load_gpt2)},
    "ModernLM": {"of the course": (0, finished.ModernLM)},
    "load_llama": {"of the course": (0, finished.load_llama)},
}
