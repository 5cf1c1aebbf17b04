"""How an answer to `GroupedQueryAttention` is judged."""

import torch
import torch.nn.functional as F

from course_utils.transformer import apply_rope
from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    set_seed,
    true_of,
)

LAYERS = ("query", "key", "value", "out_proj")


def attention_case(
    draw, name, sizes, roles="", by_name=False, dtype=torch.float32, window=None, **options
):
    """`sizes`: B, T, H, G, D and context_length."""
    B, T, H, G, D, length = sizes
    C = H * D
    rows = dict(zip(LAYERS, (C, G * D, G * D, C), strict=True))
    named = {"d_model": C, "num_heads": H, "num_kv_heads": G, "context_length": length}
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": (named if by_name else {}) | ({"window": window} if window else {}),
        "weights": {
            f"{layer}.weight": draw.normal(n, C, dtype=dtype) / C**0.5 for layer, n in rows.items()
        },
        "dtype": dtype,
        "heads": (H, G),
        "window": window or T,
    }
    if "typical" in roles:
        options["others"] = [((4, 2, 1, 3), {})]
    x = 2 * draw.normal(B, T, C, dtype=dtype)
    return Case(name, {"x": x}, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    double = torch.float64
    return [
        attention_case(draw, "six heads share two", (3, 7, 6, 2, 4, 11), "typical device cached"),
        attention_case(
            draw, "float64, made by name", (2, 5, 6, 3, 4, 8), dtype=double, by_name=True
        ),
        attention_case(
            draw, "a window of three tokens", (5, 8, 4, 2, 6, 11), "cached windowed", window=3
        ),
        attention_case(draw, "as many as there are heads", (2, 5, 3, 3, 4, 9), "small", once=True),
        attention_case(draw, "one for all heads", (2, 5, 4, 1, 6, 9), "small", once=True),
        attention_case(draw, "as many tokens as fit", (2, 7, 4, 2, 6, 7), "small", once=True),
        attention_case(draw, "one token", (3, 1, 4, 2, 6, 5), "small", once=True),
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
    seen = (back >= 0) & (back < case.options["window"])
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), weights["out_proj.weight"])


CHUNKS = (3, 1, 2)  # a prompt at once, one token, two tokens; then the others one by one


def see_attention(make, case, observed):
    """Another first and another last token; the tokens in a different order."""
    set_seed(1)  # a parameter that nobody asked for has the same numbers again
    module, x = make(), case["x"]
    with torch.no_grad():
        if "windowed" in case.roles:
            observed.put("far", module(torch.cat([2 * x[:, :1].roll(1, -1) + 1, x[:, 1:]], dim=1)))
        if "typical" not in case.roles:
            return
        for name, place in (("first", 0), ("last", -1)):
            other = x.clone()
            other[:, place] = 2 * other[:, place].roll(1, -1) + 1
            observed.put(name, module(other))
        turned = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
        observed.put("turned", module(turned))


def see_cached(make, case, observed):
    """The same text in parts, with a cache."""
    if "cached" not in case.roles:
        return
    set_seed(1)
    module, x = make(), case["x"]
    sizes = [*CHUNKS, *[1] * (x.shape[1] - sum(CHUNKS))]
    cache, found = {}, []
    with torch.no_grad():
        for chunk in x.split(sizes, dim=1):
            found.append(module(chunk.clone(), cache))
    if all(torch.is_tensor(part) for part in found):
        observed.put(IN_PARTS, torch.cat(found, dim=1))
    else:
        observed.put(IN_PARTS, found[0])
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


IN_PARTS, KEPT = "the same in parts, with a cache", "numbers in the cache"
probe = ModuleProbe(gradients=("x",), watch=False, extra=see_attention, results=see_cached)
at_once = expect_module(oracle)


def expect(case):
    expected = at_once(case)
    return expected | ({IN_PARTS: expected["out"]} if "cached" in case.roles else {})


@true_of("A token attends to the tokens before it", credit=True, gate=True, role="typical")
def listens(case, observed, expected):
    return not near(observed.tensors["out"][:, -1], observed.tensors["first"][:, -1])


@true_of("A later token does not affect an earlier one", credit=True, role="typical")
def no_future(case, observed, expected):
    return near(observed.tensors["out"][:, :-1], observed.tensors["last"][:, :-1])


@true_of("The order of the tokens before it makes a difference", credit=True, role="typical")
def positions(case, observed, expected):
    return not near(observed.tensors["out"][:, -1], observed.tensors["turned"][:, -1])


@true_of(
    "A text in parts, with a cache, gives the same as the text at once", credit=True, role="cached"
)
def in_parts(case, observed, expected):
    return near(observed.tensors[IN_PARTS], observed.tensors["out"])


@true_of("A token attends to `window` tokens, itself included", credit=True, role="windowed")
def windowed(case, observed, expected):
    window, (out, far) = case.options["window"], (observed.tensors[n] for n in ("out", "far"))
    ends = near(out[:, window:], far[:, window:])  # another first token changes nothing there
    return ends and not near(out[:, window - 1], far[:, window - 1])


@true_of("The cache keeps `num_kv_heads` heads of keys and values", secondary=True, role="cached")
def small_cache(case, observed, expected):
    B, T, C = case["x"].shape
    H, G = case.options["heads"]
    return float(observed.tensors[KEPT]) <= 2 * B * T * C * G // H


properties = (listens, no_future, positions, in_parts, windowed, small_cache, *MODULE_PROPERTIES)

# Inputs of size 2, two rotations and four products: a few times the rounding of one.
tolerance = {torch.float32: 5e-5, torch.float64: 1e-6}

# The sizes that have to differ, by the letters of each input's dimensions, and of the weights.
letters = {
    "x": "B T d_model",
    "query.weight": "d_model d_model",
    "key.weight": "shared d_model",
    "value.weight": "shared d_model",
    "out_proj.weight": "d_model d_model",
}
