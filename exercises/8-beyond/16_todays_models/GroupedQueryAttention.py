"""How an answer to `GroupedQueryAttention` is judged."""

import torch
import torch.nn.functional as F

from course_utils.transformer import apply_rope
from exercises.shared.draw import Draw
from whywrong import Case, ModuleProbe, expect_module, true_of
from whywrong.calling import set_seed, target_device
from whywrong.comparing import near
from whywrong.modules import MODULE_PROPERTIES

LAYERS = ("query", "key", "value", "out_proj")


def attention_case(draw, name, sizes, roles="", by_name=False, dtype=torch.float32, **options):
    """`sizes`: B, T, H, G, D and context_length."""
    B, T, H, G, D, length = sizes
    C = H * D
    rows = dict(zip(LAYERS, (C, G * D, G * D, C), strict=True))
    named = {"d_model": C, "num_heads": H, "num_kv_heads": G, "context_length": length}
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": {
            f"{layer}.weight": draw.normal(n, C, dtype=dtype) / C**0.5 for layer, n in rows.items()
        },
        "dtype": dtype,
        "heads": (H, G),
    }
    if "typical" in roles:
        options["others"] = [((4, 2, 1, 3), {})]
    x = 2 * draw.normal(B, T, C, dtype=dtype)
    return Case(name, {"x": x}, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    double = torch.float64
    return [
        attention_case(draw, "six heads share two", (3, 5, 6, 2, 4, 9), "typical device"),
        attention_case(
            draw, "float64, made by name", (2, 5, 6, 3, 4, 8), dtype=double, by_name=True
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
    seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), weights["out_proj.weight"])


def see_attention(make, case, seen):
    """Another first and another last token; the tokens in another order."""
    if "typical" not in case.roles:
        return
    set_seed(1)  # a parameter that nobody asked for has the same numbers again
    module, x = make(), case["x"]
    device = target_device()
    with torch.no_grad():
        for name, place in (("first", 0), ("last", -1)):
            other = x.clone()
            other[:, place] = 2 * other[:, place].roll(1, -1) + 1
            seen.put(name, module(other.to(device)))
        turned = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
        seen.put("turned", module(turned.to(device)))


probe = ModuleProbe(gradients=("x",), watch=False, extra=see_attention)
expect = expect_module(oracle)


@true_of("A token attends to the tokens before it", credit=True, gate=True, role="typical")
def listens(case, seen, expected):
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


@true_of("A later token does not affect an earlier one", credit=True, role="typical")
def no_future(case, seen, expected):
    return near(seen.tensors["out"][:, :-1], seen.tensors["last"][:, :-1])


@true_of("The order of the tokens before it makes a difference", credit=True, role="typical")
def positions(case, seen, expected):
    return not near(seen.tensors["out"][:, -1], seen.tensors["turned"][:, -1])


properties = (listens, no_future, positions, *MODULE_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions, and of the weights.
letters = {
    "x": "B T d_model",
    "query.weight": "d_model d_model",
    "key.weight": "shared d_model",
    "value.weight": "shared d_model",
    "out_proj.weight": "d_model d_model",
}
