"""How an answer to `ModernLM` is judged."""

import contextlib

import torch
import torch.nn.functional as F

from course_utils.transformer import apply_rope
from exercises.shared.models import TEXT_PROPERTIES
from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    ModuleProbe,
    expect_module,
    fresh,
    near,
    set_seed,
    true_of,
)
from whywrong.probing import part

NAMES = ("vocab_size", "d_model", "num_heads", "num_kv_heads", "context_length", "num_layers")
NAMES += ("d_ff",)
IN_PARTS = "the same in parts, with caches"
CHUNKS = (2, 1)  # a prompt at once, one token; then the others one by one


def model_weights(draw, V, C, G, D, L, d_ff, dtype):
    def layer(rows, columns):
        return draw.normal(rows, columns, dtype=dtype) / columns**0.5

    def scale():
        return 1 + draw.normal(C, dtype=dtype) / 3

    weights = {"embed.weight": draw.normal(V, C, dtype=dtype)}
    for i in range(L):
        block = {
            "norm1.scale": scale(),
            "attention.query.weight": layer(C, C),
            "attention.key.weight": layer(G * D, C),
            "attention.value.weight": layer(G * D, C),
            "attention.out_proj.weight": layer(C, C),
            "norm2.scale": scale(),
            "feed_forward.gate.weight": layer(d_ff, C),
            "feed_forward.expand.weight": layer(d_ff, C),
            "feed_forward.contract.weight": layer(C, d_ff),
        }
        weights |= {f"blocks.{i}.{name}": value for name, value in block.items()}
    return weights | {"norm.scale": scale()}


def model_case(draw, name, sizes, roles="", by_name=False, dtype=torch.float32, **options):
    """`sizes`: B, T, V, H, G, D, context_length, L, d_ff."""
    B, T, V, H, G, D, context, L, d_ff = sizes
    named = dict(zip(NAMES, (V, H * D, H, G, context, L, d_ff), strict=True))
    options |= {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "names": NAMES,
        "heads": (H, G),
        "layers": L,
        "dtype": dtype,
        "weights": model_weights(draw, V, H * D, G, D, L, d_ff, dtype),
    }
    ids = torch.randint(V, (B, T), generator=draw.generator)
    return Case(name, {"ids": ids}, options=options, roles=frozenset(roles.split()))


def cases(seed):
    draw = Draw(seed)
    return [
        model_case(
            draw,
            "random tokens",
            (5, 7, 13, 4, 2, 6, 11, 3, 19),
            roles="typical cached",
            tolerance={torch.float32: 1e-4},  # three blocks, one after another, add up rounding
        ),
        model_case(
            draw,
            "float64, made by name",
            (4, 7, 13, 6, 3, 8, 10, 2, 17),
            roles="cached",
            by_name=True,
            dtype=torch.float64,
        ),
        model_case(draw, "one block", (4, 5, 9, 2, 1, 6, 5, 1, 19), roles="small", once=True),
        model_case(draw, "one token", (2, 1, 7, 2, 2, 4, 3, 2, 10), roles="small", once=True),
    ]


def oracle(case, weights, ids):
    """PyTorch's own operators in sequence."""

    def norm(name, x):
        return F.rms_norm(x, x.shape[-1:], weights[f"{name}.scale"], 1e-6)

    def linear(name, x):
        return F.linear(x, weights[f"{name}.weight"])

    H, G = case.options["heads"]
    x = F.embedding(ids, weights["embed.weight"])
    for block in (f"blocks.{i}" for i in range(case.options["layers"])):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{name}", normed).unflatten(-1, (n, -1)).transpose(1, 2)
            for name, n in (("query", H), ("key", G), ("value", G))
        )
        found = F.scaled_dot_product_attention(
            apply_rope(query), apply_rope(key), value, is_causal=True, enable_gqa=True
        )
        x = x + linear(f"{block}.attention.out_proj", found.transpose(1, 2).flatten(2))
        normed = norm(f"{block}.norm2", x)
        gate = F.silu(linear(f"{block}.feed_forward.gate", normed))
        wide = gate * linear(f"{block}.feed_forward.expand", normed)
        x = x + linear(f"{block}.feed_forward.contract", wide)
    return F.linear(norm("norm", x), weights["embed.weight"])


def see_cached(make, case, observed):
    """The same text in parts, with caches."""
    if "cached" not in case.roles:
        return
    set_seed(1)
    model, ids = make(), fresh(case["ids"])
    sizes = [*CHUNKS, *[1] * (ids.shape[1] - sum(CHUNKS))]
    caches = [{} for _ in range(case.options["layers"])]
    with torch.no_grad():
        found = [model(chunk.clone(), caches) for chunk in ids.split(sizes, dim=1)]
    tensors = all(torch.is_tensor(out) for out in found)
    observed.put(IN_PARTS, torch.cat(found, dim=1) if tensors else found[0])


def see(make, case, observed):
    """Other texts; what an untrained model begins with."""
    set_seed(1)
    model, ids = make(), fresh(case["ids"])
    with torch.no_grad():
        if "typical" in case.roles:
            V = len(case.options["weights"]["embed.weight"])
            last, first = ids.clone(), ids.clone()
            last[:, -1] = (last[:, -1] + 1) % V
            first[:, 0] = (first[:, 0] + 1) % V
            observed.put("short", model(ids[:1, :2]))
            observed.put("changed", model(last))
            observed.put("first", model(first))
            observed.put("turned", model(torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)))
            observed.put("long again", model(ids))
    if "typical" in case.roles:
        with contextlib.suppress(Exception):
            untrained = type(model)(*case.options["args"])
            observed.put_judged("embed", part(untrained, "embed.weight").std())
            observed.put_judged("scale", part(untrained, "norm.scale"))


probe = ModuleProbe(gradients=(), watch=False, extra=see, results=see_cached)
at_once = expect_module(oracle, gradients=())


def expect(case):
    expected = at_once(case)
    return expected | ({IN_PARTS: expected["out"]} if "cached" in case.roles else {})


@true_of(
    "A text in parts, with caches, gives the same as the text at once", credit=True, role="cached"
)
def in_parts(case, observed, expected):
    return near(observed.tensors[IN_PARTS], observed.tensors["out"])


@true_of("The order of the earlier tokens makes a difference", credit=True, role="typical")
def order(case, observed, expected):
    return not near(observed.tensors["turned"][:, -1], observed.tensors["out"][:, -1])


@true_of(
    "An untrained model has small embeddings, with a standard deviation of 0.02",
    secondary=True,
    role="typical",
)
def begins(case, observed, expected):
    if "judged:embed" not in observed.tensors:
        return None
    spread = float(observed.tensors["judged:embed"])
    return 0.01 < spread < 0.04 or f"have one of {spread:.2g}"


def output_layer(trials):
    """Whatever its name and its initial numbers."""
    counted = [t for t in trials if "besides" in t.observed.facts]
    sizes = [[size for _, size in t.observed.facts["besides"]] for t in counted]
    tied = [[t.case.options["weights"]["embed.weight"].numel()] for t in counted]
    return bool(counted) and sizes == tied


signs = {"output_layer_of_its_own": output_layer}

# With rotary positions alone, a text of one repeated token has the same logits everywhere.
TEXTS = tuple(p for p in TEXT_PROPERTIES if p.id != "places")
properties = (*TEXTS, order, in_parts, begins, *MODULE_PROPERTIES)
_OF_A_BLOCK = {
    "attention.key": "shared d_model",
    "attention.value": "shared d_model",
    "feed_forward.gate": "d_ff d_model",
    "feed_forward.expand": "d_ff d_model",
    "feed_forward.contract": "d_model d_ff",
}
letters = {"ids": "B T", "embed.weight": "vocab_size d_model"} | {
    f"blocks.{i}.{name}.weight": sizes for i in range(3) for name, sizes in _OF_A_BLOCK.items()
}
