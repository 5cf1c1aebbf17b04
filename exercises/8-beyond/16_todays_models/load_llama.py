"""How an answer to `load_llama` is judged."""

from functools import partial

import torch

from course_utils.todays_models import ModernLM
from exercises.shared.loading import (
    LOADED,
    entries,
    expect_loaded,
    holds,
    loading_case,
    loading_probe,
    right_logits,
)
from exercises.shared.modern import modern_oracle, modern_weights
from whywrong import Draw, Property

# Llama's names, by the names of our blocks.
NAMES = {
    "attention.query.weight": "self_attn.q_proj.weight",
    "attention.key.weight": "self_attn.k_proj.weight",
    "attention.value.weight": "self_attn.v_proj.weight",
    "attention.out_proj.weight": "self_attn.o_proj.weight",
    "feed_forward.gate.weight": "mlp.gate_proj.weight",
    "feed_forward.expand.weight": "mlp.up_proj.weight",
    "feed_forward.contract.weight": "mlp.down_proj.weight",
    "norm1.scale": "input_layernorm.weight",
    "norm2.scale": "post_attention_layernorm.weight",
}


def case_of(draw, name, sizes, roles="", dtype=torch.float32):
    """`sizes`: V, H, G, D, context_length, L, d_ff."""
    V, H, G, D, context, L, d_ff = sizes
    arguments = {"vocab_size": V, "d_model": H * D, "num_heads": H, "num_kv_heads": G}
    arguments |= {"context_length": context, "num_layers": L, "d_ff": d_ff}
    # In Llama's order of rows.
    theirs = modern_weights(draw, V, H * D, G * D, L, d_ff, dtype, size=1.5)
    heads, wanted = {"query.weight": H, "key.weight": G}, dict(theirs)
    state = {"embed_tokens.weight": theirs["embed.weight"], "norm.weight": theirs["norm.scale"]}
    for i in range(L):
        for mine, name_there in NAMES.items():
            weight = theirs[f"blocks.{i}.{mine}"]
            state[f"layers.{i}.{name_there}"] = weight
            number = heads.get(mine.removeprefix("attention."))
            if number:
                wanted[f"blocks.{i}.{mine}"] = in_pairs(weight, number)
    model = f"a ModernLM of {L} block{'s' * (L > 1)}"
    options = {"heads": (H, G), "layers": L, "theirs": theirs}
    return loading_case(draw, name, model, arguments, wanted, state, "model", roles, **options)


def in_pairs(weight, heads):
    """Row 2i of a head is the old row i, and row 2i + 1 the old row i + D / 2."""
    D = len(weight) // heads
    order = [
        h * D + i + part * (D // 2) for h in range(heads) for i in range(D // 2) for part in (0, 1)
    ]
    return weight[order]


def cases(seed):
    case = partial(case_of, Draw(seed))
    return [
        case("two blocks", (11, 4, 2, 6, 9, 2, 29), "typical"),
        case("one block, one head", (9, 1, 1, 10, 7, 1, 23), "small"),
        case("float64, three blocks", (13, 6, 3, 8, 5, 3, 17), dtype=torch.float64),
        case("no prefix, no lm_head", (7, 2, 1, 8, 6, 1, 19), "stability"),
    ]


def rotate(x):
    """Rotary positions as Llama's code has them: channel i turns together with i + D / 2."""
    T, D = x.shape[-2:]
    frequency = 10000.0 ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    angles = torch.arange(T, dtype=x.dtype)[:, None] * frequency  # (T, D / 2)
    angles = torch.cat([angles, angles], dim=-1)  # (T, D)
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()


def logits(case, ids):
    """In Llama's layout."""
    theirs = {name: value.double() for name, value in case.options["theirs"].items()}
    return modern_oracle(case, theirs, ids, rotate)


probe = loading_probe(ModernLM)
expect = expect_loaded(logits)

properties = (
    Property("embedding", "The embedding is right", holds("embed.weight"), gate=True),
    Property(
        "rotated",
        "The rows of queries and keys are in the order that `apply_rope` expects",
        holds("query.weight", "key.weight"),
        credit=True,
    ),
    Property(
        "networks",
        "The feed-forward networks are right",
        holds("gate.weight", "expand.weight", "contract.weight"),
        credit=True,
    ),
    Property("norms", "The norms are right", holds(".scale"), credit=True),
    entries,
    Property("logits", "The logits are those of Llama", right_logits, credit=True),
    *LOADED,
)
letters = {"state_dict": None}
