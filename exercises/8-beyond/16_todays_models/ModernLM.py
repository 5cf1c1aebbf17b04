"""How an answer to `ModernLM` is judged."""

import contextlib
from functools import partial

import torch

from exercises.shared.classes import class_case
from exercises.shared.models import TEXT_PROPERTIES, further_texts
from exercises.shared.modern import (
    also_in_parts,
    in_parts,
    modern_oracle,
    modern_weights,
    see_in_parts,
    turned,
)
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, expect_module, near, true_of
from whywrong.probing import part


def modern_case(draw, name, sizes, roles="", dtype=torch.float32, **options):
    """`sizes`: B, T, V, H, G, D, context_length, L, d_ff."""
    B, T, V, H, G, D, context, L, d_ff = sizes
    arguments = {
        "vocab_size": V,
        "d_model": H * D,
        "num_heads": H,
        "num_kv_heads": G,
        "context_length": context,
        "num_layers": L,
        "d_ff": d_ff,
    }
    weights = modern_weights(draw, V, H * D, G * D, L, d_ff, dtype)
    ids = torch.randint(V, (B, T), generator=draw.generator)
    options |= {"names": tuple(arguments), "heads": (H, G), "layers": L}
    return class_case(name, {"ids": ids}, arguments, weights, roles, **options)


def cases(seed):
    case, double = partial(modern_case, Draw(seed)), {"dtype": torch.float64, "by_name": True}
    rounding = {"tolerance": {torch.float32: 1e-4}}  # of three blocks, one after another
    return [
        case("random tokens", (5, 7, 13, 4, 2, 6, 11, 3, 19), "typical cached", **rounding),
        case("float64, made by name", (4, 7, 13, 6, 3, 8, 10, 2, 17), "cached", **double),
        case("one block", (4, 5, 9, 2, 1, 6, 5, 1, 19), "small", once=True),
        case("one token", (2, 1, 7, 2, 2, 4, 3, 2, 10), "small", once=True),
    ]


def see_cached(make, case, observed):
    if "cached" in case.roles:
        see_in_parts(make, case["ids"], [{} for _ in range(case.options["layers"])], observed)


def see_untrained(make, case, observed):
    """What an untrained model begins with."""
    if "typical" in case.roles:
        with contextlib.suppress(Exception):
            untrained = type(make())(*case.options["args"])
            observed.put_judged("embed", part(untrained, "embed.weight").std())


more = {"typical": further_texts("embed.weight") | {"turned": turned("ids")}}
probe = ModuleProbe(gradients=(), watch=False, more=more, extra=see_untrained, results=see_cached)
expect = also_in_parts(expect_module(modern_oracle, gradients=()))


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
of_texts = (p for p in TEXT_PROPERTIES if p.id != "places")
properties = (*of_texts, order, in_parts, begins, *MODULE_PROPERTIES)
letters = {"key.weight": "shared d_model", "value.weight": "shared d_model"}
