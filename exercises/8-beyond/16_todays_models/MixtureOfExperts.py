"""How an answer to `MixtureOfExperts` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.blocks import depends, each_apart
from exercises.shared.classes import class_case, other_tokens
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    true_of,
)

GAP = 0.03  # between the last chosen logit and the next, so that rounding changes no choice


def mixture_weights(draw, C, wide, E, dtype):
    def weight(rows, columns):
        return draw.normal(rows, columns, dtype=dtype) / columns**0.5

    weights = {"router.weight": weight(E, C)}
    for i in range(E):
        weights[f"experts.{i}.gate.weight"] = weight(wide, C)
        weights[f"experts.{i}.expand.weight"] = weight(wide, C)
        weights[f"experts.{i}.contract.weight"] = weight(C, wide)
    return weights


def clear(logits, k):
    """Whether no two of the logits from the first to the k + 1st are nearly equal."""
    ordered = logits.sort(dim=-1, descending=True).values[..., : k + 1]
    return ordered.shape[-1] < 2 or bool((ordered.diff(dim=-1) < -GAP).all())


def mixture_case(draw, name, sizes, roles="", by_name=False, dtype=torch.float32, **options):
    """`sizes`: B, T, C, d_ff, E, k."""
    B, T, C, wide, E, k = sizes
    arguments = {"d_model": C, "d_ff": wide, "num_experts": E, "k": k}
    others = {name: size + 1 for name, size in arguments.items()}
    weights = mixture_weights(draw, C, wide, E, dtype)
    while True:
        x = 2 * draw.normal(B, T, C, dtype=dtype)
        if clear(F.linear(x, weights["router.weight"]), k):
            break
    return class_case(
        name, {"x": x}, arguments, weights, roles, by_name=by_name, others=others, k=k, **options
    )


def cases(seed):
    draw = Draw(seed)
    return [
        mixture_case(draw, "random numbers", (4, 3, 7, 11, 5, 2), "typical device"),
        mixture_case(
            draw, "float64, made by name", (2, 6, 5, 9, 4, 3), dtype=torch.float64, by_name=True
        ),
        mixture_case(draw, "one expert for each token", (4, 5, 6, 8, 3, 1), "small", once=True),
        mixture_case(draw, "all experts for each token", (3, 2, 8, 5, 4, 4), "small", once=True),
        mixture_case(draw, "one token", (1, 1, 5, 7, 4, 2), "small", once=True),
    ]


def oracle(case, weights, x):
    """Each token by itself, expert after expert in the order of its logits."""
    rows = []
    for token in x.flatten(0, 1):  # (C,)
        logits = weights["router.weight"] @ token
        chosen = logits.argsort(descending=True)[: case.options["k"]].tolist()
        shares = logits[chosen].exp() / logits[chosen].exp().sum()
        outputs = []
        for i in chosen:
            gate, wide, narrow = (
                weights[f"experts.{i}.{name}.weight"] for name in ("gate", "expand", "contract")
            )
            outputs.append(narrow @ (F.silu(gate @ token) * (wide @ token)))
        rows.append(shares @ torch.stack(outputs))  # (k,) @ (k, C) -> (C,)
    return torch.stack(rows).view_as(x)


def alike(case):
    """All experts with the parameters of the first."""
    weights = case.options["weights"]
    names = (name for name in weights if name.startswith("experts."))
    return {"weights": {name: weights[f"experts.0.{name.split('.', 2)[2]}"] for name in names}}


more = {"typical": {"changed": other_tokens("x", (0, 0)), "alike": alike}}
probe = ModuleProbe(gradients=("x",), more=more)
expect = expect_module(oracle)


@true_of("If all experts are alike, the mixture is one of them", credit=True, role="typical")
def weights_sum_to_one(case, observed, expected):
    first = [
        case.options["weights"][f"experts.0.{name}.weight"].double()
        for name in ("gate", "expand", "contract")
    ]
    x = case["x"].double()
    one = F.linear(F.silu(F.linear(x, first[0])) * F.linear(x, first[1]), first[2])
    return near(observed.tensors["alike"], one)


properties = (depends, each_apart, weights_sum_to_one, *MODULE_PROPERTIES)
