"""How an answer to `TinyLM` is judged."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from course_utils import language_model
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from exercises.shared.models import ROUNDING, TEXT_PROPERTIES, TEXTS, model_case, model_oracle
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, expect_module, true_of


def cases(seed):
    draw = Draw(seed)
    case = partial(model_case, draw)
    others = {"context_length": 1, "num_layers": 1, "dropout": 0.9}
    return [
        case("three tokens, one layer, one head", (1, 3, 5, 1, 9, 3, 1), roles="small"),
        case("random tokens", roles="typical", others=others),
        case("float64, made by name", dtype=torch.float64, by_name=True, more={"dropout": 0.0}),
        case("as many tokens as fit, two layers", (3, 7, 11, 2, 5, 7, 2), roles="small device"),
        case("one token", (6, 1, 7, 3, 4, 5, 2), roles="small"),
        dropping(draw),
        case("40 texts, four layers", (40, 3, 50, 2, 6, 7, 4), once=True, roles="small"),
    ]


def dropping(draw):
    case = model_case(Draw(1), "dropout", (1, 4, 9, 2, 4, 6, 2), roles="small")
    first, second = (
        [f"blocks.{i}.{part}dropout" for part in ("attention.", "", "feed_forward.")]
        for i in (0, 1)
    )
    faults = {
        "drops what the blocks read, too": {"> blocks.0": 1},
        "drops what the output layer reads, too": {"> head": 1},
        "drops in the first block alone": dict.fromkeys(second, 0),
        "drops in the last block alone": dict.fromkeys(first, 0),
        "drops nothing of the networks' output": {first[2]: 0, second[2]: 0},
    }
    return with_dropout(draw, language_model.TinyLM, case, {}, more=faults)


def see_model(make, case, observed):
    """Draws of dropout; what the model keeps."""
    if "typical" in case.roles:
        model = make()
        observed.traits["context_length"] = getattr(model, "context_length", None)
        others = {type(x).__name__ for x in vars(model).values() if isinstance(x, Tensor)}
        observed.traits["loose"] = sorted(others)
    see_dropout(make, case, observed)


probe = ModuleProbe(gradients=(), watch=False, more={"typical": TEXTS}, extra=see_model)
expect = expect_module(model_oracle, gradients=())


@true_of("`context_length` is the most tokens that fit", secondary=True, role="typical")
def context_length(case, observed, expected):
    return bool(observed.traits["context_length"] == case.options["args"][3])


properties = (
    *TEXT_PROPERTIES,
    context_length,
    replace(DROPOUT, secondary=True),
    *MODULE_PROPERTIES,
)

tolerance = ROUNDING
