"""How an answer to `GroupedQueryAttention` is judged."""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from course_utils.transformer import apply_rope
from exercises.shared.classes import FIRST, LAST, class_case, listens, no_future, other_tokens
from exercises.shared.modern import also_in_parts, in_parts, see_in_parts, turned
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, expect_module, near, true_of


def attention_case(draw, name, sizes, roles="", dtype=torch.float32, window=None, **options):
    """`sizes`: B, T, H, G, D and context_length."""
    B, T, H, G, D, length = sizes
    C = H * D
    arguments = {"d_model": C, "num_heads": H, "num_kv_heads": G, "context_length": length}
    rows = {"query": C, "key": G * D, "value": G * D, "out_proj": C}
    weights = {f"{n}.weight": draw.normal(r, C, dtype=dtype) / C**0.5 for n, r in rows.items()}
    x = 2 * draw.normal(B, T, C, dtype=dtype)
    options |= {"more": {"window": window} if window else {}, "others": {"context_length": 3}}
    options |= {"heads": (H, G), "window": window or T}
    return class_case(name, {"x": x}, arguments, weights, roles, **options)


def cases(seed):
    case, once = partial(attention_case, Draw(seed)), {"roles": "small", "once": True}
    double = {"dtype": torch.float64, "by_name": True}
    return [
        case("six heads share two", (3, 7, 6, 2, 4, 11), "typical device cached"),
        case("float64, made by name", (2, 5, 6, 3, 4, 8), **double),
        case("a window of three tokens", (5, 8, 4, 2, 6, 11), "cached windowed", window=3),
        case("as many as there are heads", (2, 5, 3, 3, 4, 9), **once),
        case("one for all heads", (2, 5, 4, 1, 6, 9), **once),
        case("as many tokens as fit", (2, 7, 4, 2, 6, 7), **once),
        case("one token", (3, 1, 4, 2, 6, 5), **once),
    ]


def oracle(case, weights, x):
    (H, G), T = case.options["heads"], x.shape[1]
    parts = {"query": H, "key": G, "value": G}
    query, key, value = (
        F.linear(x, weights[f"{name}.weight"]).unflatten(-1, (n, -1)).transpose(1, 2)
        for name, n in parts.items()
    )
    query, key = apply_rope(query), apply_rope(key)
    back = torch.arange(T, device=x.device)[:, None] - torch.arange(T, device=x.device)
    visible = (back >= 0) & (back < case.options["window"])
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=visible, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), weights["out_proj.weight"])


def see_cached(make, case, observed):
    if "cached" in case.roles:
        see_in_parts(make, case["x"], cache := {}, observed)
        kept = sum(value.numel() for value in flat(cache) if torch.is_tensor(value))
        observed.put(KEPT, torch.tensor(float(kept)))


def flat(kept):
    """What a cache contains, also in tuples and lists."""
    values = kept.values() if isinstance(kept, dict) else kept
    for value in values:
        if isinstance(value, (dict, list, tuple)):
            yield from flat(value)
        else:
            yield value


KEPT = "numbers in the cache"
other_first = other_tokens("x", FIRST)
more = {
    "typical": {
        "first": other_first,
        "changed": other_tokens("x", LAST),
        "turned": turned("x"),
    },
    "windowed": {"first": other_first},
}
probe = ModuleProbe(gradients=("x",), watch=False, more=more, results=see_cached)
expect = also_in_parts(expect_module(oracle))


@true_of("The order of the tokens before it makes a difference", credit=True, role="typical")
def positions(case, observed, expected):
    return not near(observed.tensors["out"][:, -1], observed.tensors["turned"][:, -1])


@true_of("A token attends to `window` tokens, itself included", credit=True, role="windowed")
def windowed(case, observed, expected):
    window, (out, far) = case.options["window"], (observed.tensors[n] for n in ("out", "first"))
    ends = near(out[:, window:], far[:, window:])  # another first token changes nothing there
    return ends and not near(out[:, window - 1], far[:, window - 1])


@true_of("The cache keeps `num_kv_heads` heads of keys and values", secondary=True, role="cached")
def small_cache(case, observed, expected):
    B, T, C = case["x"].shape
    H, G = case.options["heads"]
    return float(observed.tensors[KEPT]) <= 2 * B * T * C * G // H


properties = (
    replace(listens, credit=True),
    no_future,
    positions,
    in_parts,
    windowed,
    small_cache,
    *MODULE_PROPERTIES,
)

# Inputs of size 2, two rotations and four products: a few times the rounding of one.
tolerance = {torch.float32: 5e-5, torch.float64: 1e-6}

letters = {"key.weight": "shared d_model", "value.weight": "shared d_model"}
