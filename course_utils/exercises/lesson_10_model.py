"""Lesson 10, first part: a whole small language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import language_model
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES
from .kit import mistakes as m
from .kit import model_mistakes as w
from .kit.draw import Draw
from .kit.models import (
    TEXT_PROPERTIES,
    Model,
    model_case,
    model_oracle,
    see_texts,
    too_long_case,
)

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- cases


def _model_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    limit = draw.integer(14, 17)
    case, too_long = partial(model_case, draw), partial(too_long_case, draw)
    return [
        case("three tokens, one layer, one head", (1, 3, 5, 1, 9, 3, 1), roles="small"),
        _beside_another(case("random tokens", roles="typical")),
        case("float64, made by name", dtype=torch.float64, by_name=True, more={"dropout": 0.0}),
        case("as many tokens as fit, two layers", (3, 7, 11, 2, 5, 7, 2), roles="small device"),
        case("one token", (6, 1, 7, 3, 4, 5, 2), roles="small"),
        case("dropout", (5, 8, 13, 2, 5, 9, 2), more={"dropout": 0.4}, roles="dropout small"),
        case(
            "300 texts, 50 words, four layers", (300, 3, 50, 2, 6, 7, 4), once=True, roles="small"
        ),
        too_long("one token too many", limit + 1, limit),
        too_long("one token too many, in training", limit + 1, limit, train=True),
        too_long("twice as many tokens as fit", 2 * limit, limit),
    ]


def _beside_another(case: Case) -> Case:
    """A model of other sizes, which drops, is made after this one."""
    V, C, H, _, _ = case.options["args"]
    others = [((V + 1, C, H, 1, 1), {"dropout": 0.9})]
    return replace(case, options={**case.options, "others": others})


# ---------------------------------------------------------------- evidence


def _see_model(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More texts; draws of dropout; what it keeps."""
    if "typical" in case.roles:
        see_texts(make, case, seen)
        model = make()
        seen.traits["context_length"] = getattr(model, "context_length", None)
        others = {type(x).__name__ for x in vars(model).values() if isinstance(x, Tensor)}
        seen.traits["loose"] = sorted(others)
    if "dropout" in case.roles:
        _see_draws(make, case, seen)


def _see_draws(make: Callable[..., Any], case: Case, seen: Observation) -> None:
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
    seen.traits["draws"] = bool(isinstance(one, Tensor) and not near(one.cpu(), other.cpu()))
    seen.traits["besides"] = _besides(quiet, again, still)


def _besides(quiet: Any, again: Any, still: Any) -> str:
    """What else training changes once the blocks drop nothing, from two calls in training mode and
    one in evaluation mode."""
    if not all(isinstance(x, Tensor) for x in (quiet, again, still)):
        return ""
    if not near(quiet, again):
        return "drops something outside the blocks too"
    return "" if near(quiet, still) else "computes something else in training, apart from dropout"


def _dropped(case: Case, seen: Observation, expected: Expected) -> Verdict:
    traits = seen.traits
    if not traits["draws"]:
        return "drops nothing"
    if traits["rates"] != [case.options["kwargs"]["dropout"]]:
        return f"drops with probability {', '.join(map(str, traits['rates']))}"
    return traits["besides"] or True


def _has_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["context_length"] == case.options["args"][3])


TINY_LM = Exercise(
    id="TinyLM",
    lesson=LESSON,
    call="TinyLM(vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0)",
    points=2.0,
    kind="class",
    cases=_model_cases,
    probe=ModuleProbe(gradients=(), watch=False, extra=_see_model),
    expect=expect_module(model_oracle, gradients=()),
    reference=language_model.TinyLM,
    properties=(
        *TEXT_PROPERTIES,
        Property(
            "context_length",
            "`context_length` says how many tokens fit",
            _has_length,
            secondary=True,
            role="typical",
        ),
        Property(
            "dropout",
            "In training the blocks drop with the probability that was asked for, and nothing else "
            "does",
            _dropped,
            secondary=True,
            role="dropout",
        ),
        *MODULE_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        w.NormNotUsed,
        w.NormNotMade,
        w.HeadWithBias,
        w.HeadTied,
        w.OneBlockForAll,
        w.BlocksInAPlainList,
        w.AllInOneSequential,
        w.PositionsNotAdded,
        w.EmbeddingWithoutPositions,
        w.DropoutForgotten,
        w.NormOfPyTorch,
        w.NormBeforeTheBlocks,
        w.NormAfterEachBlock,
        w.FirstBlockOnly,
        w.EachBlockFromTheStart,
        w.LastBlockLeftOut,
        w.BlocksInReverse,
        w.AddedAgain,
        w.PositionsAddedTwice,
        w.EmbeddingScaled,
        w.EmbeddingArgumentsSwapped,
        w.DropoutFixedInBlocks,
        w.DropoutOutside,
        w.LengthAndLayersSwapped,
        w.ContextLengthNotKept,
        m.LongTextCut,
        w.LongTextTail,
        m.FullLengthRefused,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        w.ProbabilitiesReturned,
        w.LogsReturned,
        w.LastLogitsOnly,
        w.StreamReturned,
        m.Float32Result.on(Model, **w.FLOAT32_WORDS),
        m.CutOff,
        on=Model,
    ),
    hints=(
        "Four parts in a row: `embed`, `blocks`, `norm`, `head`. The constructor makes them, "
        "`forward` sends `ids` through them. The blocks are a list: how does PyTorch see into one?",
        "`transformer.TokenAndPosition(vocab_size, context_length, d_model)`, "
        "`transformer.TransformerBlock(d_model, num_heads, context_length, dropout)`, "
        "`transformer.LayerNorm(d_model)` and `nn.Linear(d_model, vocab_size, bias=False)`.",
        "`nn.ModuleList(TransformerBlock(…) for _ in range(num_layers))`. In `forward`: `x = "
        "self.embed(ids)`, for each block `x = block(x)`, then `self.head(self.norm(x))`. `embed` "
        "refuses a text that is too long.",
    ),
    other_way="""\
# Blocks one after the other are an `nn.Sequential`; their names are the same as in a ModuleList.
class TinyLM(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        sizes = d_model, num_heads, context_length, dropout
        self.blocks = nn.Sequential(
            *(transformer.TransformerBlock(*sizes) for _ in range(num_layers))
        )
        self.norm = transformer.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.embed(ids))))
""",
)
