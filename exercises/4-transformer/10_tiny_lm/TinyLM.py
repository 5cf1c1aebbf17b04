"""How an answer to `TinyLM` is judged."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from exercises.shared.draw import Draw
from exercises.shared.models import TEXT_PROPERTIES, model_case, model_oracle, see_texts
from whywrong import ModuleProbe, expect_module, true_of
from whywrong.calling import fresh, set_seed
from whywrong.comparing import near
from whywrong.modules import MODULE_PROPERTIES


def cases(seed):
    case = partial(model_case, Draw(seed))
    return [
        case("three tokens, one layer, one head", (1, 3, 5, 1, 9, 3, 1), roles="small"),
        beside_another(case("random tokens", roles="typical")),
        case("float64, made by name", dtype=torch.float64, by_name=True, more={"dropout": 0.0}),
        case("as many tokens as fit, two layers", (3, 7, 11, 2, 5, 7, 2), roles="small device"),
        case("one token", (6, 1, 7, 3, 4, 5, 2), roles="small"),
        case("dropout", (5, 8, 13, 2, 5, 9, 2), more={"dropout": 0.4}, roles="dropout small"),
        case("40 texts, four layers", (40, 3, 50, 2, 6, 7, 4), once=True, roles="small"),
    ]


def beside_another(case):
    """A model of other sizes, which drops, is made after this one."""
    V, C, H, _, _ = case.options["args"]
    others = [((V + 1, C, H, 1, 1), {"dropout": 0.9})]
    return replace(case, options={**case.options, "others": others})


def see_model(make, case, seen):
    """More texts; draws of dropout; what the model keeps."""
    if "typical" in case.roles:
        see_texts(make, case, seen)
        model = make()
        seen.traits["context_length"] = getattr(model, "context_length", None)
        others = {type(x).__name__ for x in vars(model).values() if isinstance(x, Tensor)}
        seen.traits["loose"] = sorted(others)
    if "dropout" in case.roles:
        see_draws(make, case, seen)


def see_draws(make, case, seen):
    model = make(as_made=True)
    rates = [x.p for x in model.modules() if isinstance(x, nn.Dropout)]
    set_seed(1)
    one = model(fresh(case["ids"]))
    set_seed(2)
    other = model(fresh(case["ids"]))
    for block in model.blocks:
        for part in block.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
    quiet, again = model(fresh(case["ids"])), model(fresh(case["ids"]))
    still = model.eval()(fresh(case["ids"]))
    seen.traits["rates"] = sorted({round(p, 6) for p in rates})
    seen.traits["draws"] = isinstance(one, Tensor) and not near(one.cpu(), other.cpu())
    seen.traits["besides"] = changed_besides(quiet, again, still)


def changed_besides(quiet, again, still):
    """What else training changes once the blocks drop nothing, from two calls in training mode and
    one in evaluation mode."""
    if not all(isinstance(x, Tensor) for x in (quiet, again, still)):
        return ""
    if not near(quiet, again):
        return "drops something outside the blocks too"
    return "" if near(quiet, still) else "computes something else in training, apart from dropout"


probe = ModuleProbe(gradients=(), watch=False, extra=see_model)
expect = expect_module(model_oracle, gradients=())


@true_of("`context_length` is the most tokens that fit", secondary=True, role="typical")
def context_length(case, seen, expected):
    return bool(seen.traits["context_length"] == case.options["args"][3])


@true_of(
    "In training the blocks drop with the probability that was asked for, and nothing else does",
    secondary=True,
    role="dropout",
)
def dropout(case, seen, expected):
    traits = seen.traits
    if not traits["draws"]:
        return "drops nothing"
    if traits["rates"] != [case.options["kwargs"]["dropout"]]:
        return f"drops with probability {', '.join(map(str, traits['rates']))}"
    return traits["besides"] or True


properties = (*TEXT_PROPERTIES, context_length, dropout, *MODULE_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"ids": "B T"}
