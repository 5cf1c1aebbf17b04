"""Lesson 08: the feed-forward network, which works on each token alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import transformer
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES
from .kit.blocks import (
    Gelu,
    Network,
    network_oracle,
    network_weights,
)
from .kit.branch_dropout import BRANCH_DROPOUT, network_dropout_case, see_branch_dropout
from .kit.draw import Draw
from .kit.dropout import TRAINS
from .lesson_08_block import GELUS, LESSON
from .lesson_08_norm import each_apart

# ---------------------------------------------------------------- FeedForward


class ByFormula(transformer.FeedForward):
    """The finished part without the built-in GELU, which is not asked for here."""

    forward = transformer.FeedForward.formula


def _network_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, int, int] | None = None,
        expansion: int | None = None,
        *,
        given: str = "",
        x: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        size: float = 1.0,
        roles: str = "",
        once: bool = False,
    ) -> Case:
        """`given` says how the constructor gets its arguments, all of them."""
        if sizes is None:
            sizes = _three(draw, expansion or 4)
        B, T, C = sizes
        x = size * draw.normal(B, T, C, dtype=dtype) if x is None else x
        named: dict[str, Any] = {"d_model": C}
        if expansion is not None:
            named["expansion"] = expansion
        if given:
            named = {"d_model": C, "expansion": expansion or 4, "dropout": 0.0}
        by_name = given == "by name"
        options = {
            "args": () if by_name else tuple(named.values()),
            "kwargs": named if by_name else {},
            "weights": network_weights(draw, "", C, (expansion or 4) * C, dtype),
            "dtype": dtype,
            "once": once,
        }
        if "typical" in roles:
            options["others"] = [((C + 1, 2), {"dropout": 0.9})]
        return Case(name, {"x": x}, options=options, roles=set(roles.split()))

    B, T, C = _three(draw, 4)
    turned = draw.normal(B, C, T).mT
    equal = draw.normal(B, 1, C).expand(B, T, C).clone()
    double = torch.float64
    return [
        case("random numbers", roles="typical device"),
        case("made by name, three times as wide", expansion=3, given="by name"),
        case("made by position, float64", expansion=2, given="by position", dtype=double),
        case("no wider in the middle", (3, 5, 4), 1, roles="small"),
        case("big numbers", size=20.0, dtype=double),
        case("equal tokens", (B, T, C), x=equal),
        case("not contiguous in memory", (B, T, C), x=turned),
        case("one token, one channel", (1, 1, 1), 5, roles="small"),
        network_dropout_case(draw),
        case("1,040 tokens", (2, 1040, 5), 3, once=True),
        case("300 channels", (2, 3, 300), once=True),
    ]


def _three(draw: Draw, expansion: int) -> tuple[int, int, int]:
    """B, T and C, of which none is the expansion or the width in the middle."""
    while True:
        B, T, C = draw.sizes(3, 2, 9)
        if len({B, T, C, expansion, expansion * C}) == 5:
            return B, T, C


def _network(case: Case, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    return network_oracle(weights, x)


def _see_network(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """One token changed; all tokens twice as big, and all of zeros."""
    see_branch_dropout(make, case, seen)
    if "typical" not in case.roles:
        return
    set_seed(1)  # a parameter too many is the same as before
    module, x = make(), case["x"]
    changed = x.clone()
    changed[0, 0] = _another(x[0, 0])
    with torch.no_grad():
        for name, tokens in (("changed", changed), ("twice", 2 * x), ("nothing", 0 * x)):
            seen.put(name, module(fresh(tokens)))


def _another(token: Tensor) -> Tensor:
    return 2 * token.roll(1) + 1  # another one to a norm, too


def _hears(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """More than nothing, or than the token itself passed on."""
    changed, out = seen.tensors["changed"][0, 0], seen.tensors["out"][0, 0]
    token = case["x"][0, 0]
    return not near(changed, out) and not near(changed, out + _another(token) - token)


def _is_bent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    t = seen.tensors
    return not near(t["twice"] - t["nothing"], 2 * (t["out"] - t["nothing"]))


class ExactInside(Mistake):
    """It bends with the exact GELU, with `erf`; the form with `tanh` was asked for.

    Why: They differ by up to 0.0005: too little to see, enough to miss published numbers.
    Mend: The formula with 0.044715 is the one that GPT-2 uses. `nn.GELU()` is the other.
    """

    @classmethod
    def id(cls):
        return "exact_gelu"

    def bent(self, wide):
        return 0.5 * wide * (1 + torch.erf(wide / 2**0.5))


class ReluInside(Mistake):
    """It bends with ReLU, not with the GELU of this lesson.

    Why: Weights that were trained with the one give other numbers with the other.
    Mend: `gelu` stands between the two linear layers.
    """

    @classmethod
    def id(cls):
        return "relu"

    def bent(self, wide):
        return wide.relu()


class NoBend(Mistake):
    """Nothing bends between the two linear layers.

    Why: Two linear layers in a row are one: four times the width, for nothing.
    Mend: `gelu` stands between them.
    """

    def bent(self, wide):
        return wide


class BentAtTheEnd(Mistake):
    """`gelu` comes after the second linear layer, not between the two.

    Why: Two linear layers in a row are one, and a bend at the end lets little or nothing below 0
        through.
    Mend: Widen, bend, narrow: in this order.
    """

    def bent(self, wide):
        return wide

    def contracted(self, wide):
        return Gelu()(super().contracted(wide))


class BentTwice(Mistake):
    """It bends between the layers and once more at the end.

    Why: What is added to the stream could then never be far below 0.
    Mend: The second linear layer has the last word.
    """

    def contracted(self, wide):
        return Gelu()(super().contracted(wide))


class BentFirst(Mistake):
    """`gelu` acts on what comes in, before the first linear layer.

    Why: Two linear layers in a row are one.
    Mend: Widen, bend, narrow: in this order.
    """

    def expanded(self, x):
        return super().expanded(Gelu()(x))

    def bent(self, wide):
        return wide


class ResidualInside(Mistake):
    """The tokens that come in are added to the result.

    Why: That is the block's task. With both, they would be added twice.
    Mend: Return what the network makes, and nothing more.
    """

    def forward(self, x):
        return x + super().forward(x)


class NormInside(Mistake):
    """The tokens are normed first.

    Why: That is the block's task. With both, they would be normed twice.
    Mend: Two linear layers, `gelu` between them, dropout.
    """

    def expanded(self, x):
        return super().expanded(F.layer_norm(x, x.shape[-1:]))


class ExpansionIgnored(Mistake):
    """The middle is four times as wide, whatever `expansion` says.

    Why: 4 is usual and no law: one published course uses 3.
    Mend: The constructor's argument says how many times.
    """

    def width(self, d_model, expansion):
        return 4 * d_model


class ExpansionAsWidth(Mistake):
    """The middle is `expansion` wide; it should be that many times as wide as a token.

    Why: Four units for 768 channels: nearly everything is lost.
    Mend: Multiply by `d_model`.
    """

    def width(self, d_model, expansion):
        return expansion


class ExpansionAdded(Mistake):
    """The middle is `d_model + expansion` wide.

    Why: 772 is hardly wider than 768.
    Mend: How many *times* as wide?
    """

    def width(self, d_model, expansion):
        return d_model + expansion


class WithoutBias(Mistake):
    """One of the linear layers has no bias, or neither of them has.

    Why: A unit could then not be shifted, and the weights of GPT-2 would not fit in.
    Mend: Leave `bias` of `nn.Linear` as it is by default.
    """

    layers = ("expand", "contract")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in self.layers:
            getattr(self, name).bias = None


class ContractUnused(Mistake):
    """The result is as wide as the middle: `contract` is not called.

    Why: It can't be added to tokens of another width.
    Mend: Widen, bend, narrow. Which step is missing?
    """

    def contracted(self, wide):
        return wide


class WeightUsedUntransposed(Mistake):
    """A weight was used as `x @ weight`, and `nn.Linear` keeps it as `(d_out, d_in)`.

    Why: The shapes don't fit, or fit by chance.
    Mend: Call the layer: `self.expand(x)`.
    """

    def expanded(self, x):
        return x @ self.expand.weight + self.expand.bias


class OverTokensMixed(Mistake):
    """The tokens of a text were mixed: their mean was given to the network.

    Why: Only attention lets tokens hear each other; here even the future has a say.
    Mend: A linear layer works on the last dimension and leaves the others alone.
    """

    def expanded(self, x):
        return super().expanded(x.mean(1, keepdim=True).expand_as(x))


class DropoutNotUsed(Mistake):
    """Dropout has no effect in training.

    Why: Whoever asks for dropout=0.1 expects a tenth of what is added to be dropped.
    Mend: Send the result through `self.dropout`.
    """

    @classmethod
    def id(cls):
        return "no_dropout"

    def dropped(self, out):
        return out


class DroppedInTheMiddle(Mistake):
    """Dropout acts in the wide middle, not at the end.

    Why: Both are in use, but the numbers of this model come from dropping what is added.
    Mend: The dropout comes last, after `contract`.
    """

    def bent(self, wide):
        return self.dropout(super().bent(wide))

    def dropped(self, out):
        return out


class DroppedTwice(Mistake):
    """Dropout acts twice: in the wide middle and at the end.

    Why: Together more is dropped than was asked for.
    Mend: Once, and last.
    """

    def bent(self, wide):
        return self.dropout(super().bent(wide))


class DroppedTwiceAtTheEnd(DroppedTwice):
    """The result goes through dropout twice.

    Why: Together more is dropped than was asked for, and what is left is scaled up twice.
    Mend: One line with `self.dropout` is enough.
    """

    bent = Network.bent

    def dropped(self, out):
        return self.dropout(self.dropout(out))


class DropoutActsInEvaluation(Mistake):
    """Dropout is active in evaluation mode too: two calls give two results.

    Why: `F.dropout` doesn't know the module's mode unless it is told.
    Mend: An `nn.Dropout` made in the constructor follows `.train()` and `.eval()` by itself.
    """

    @classmethod
    def id(cls):
        return "dropout_in_evaluation"

    def dropped(self, out):
        return nn.functional.dropout(out, self.dropout.p)


class RateFixed(Mistake):
    """The probability of dropout is written into the code, whatever `dropout` says.

    Why: Whoever asks for another share gets this one all the same, and a test at this very number
        doesn't show it.
    Mend: Pass the constructor's argument on to `nn.Dropout`.
    """

    @classmethod
    def id(cls):
        return "dropout_fixed"

    def rate(self, dropout):
        return 0.1


class RateKept(Mistake):
    """`dropout` was taken for the share that is kept; `nn.Dropout` takes the share that is dropped.

    Why: With dropout=0.1 nine of ten channels would be dropped.
    Mend: Pass the constructor's argument on as it is.
    """

    @classmethod
    def id(cls):
        return "dropout_keeps_share"

    def rate(self, dropout):
        return 1 - dropout if dropout else dropout


class ResultCutOff(Mistake):
    """The values are right, but the result is cut off from its input.

    Why: No gradient can flow back over the cut, so nothing before it could ever learn.
    Mend: Keep ordinary tensor operations all the way, without `.detach()` or `torch.no_grad()`.
    """

    def bent(self, wide):
        return super().bent(wide.detach())


FEED_FORWARD = Exercise(
    id="FeedForward",
    lesson=LESSON,
    call="FeedForward(d_model, expansion=4, dropout=0.0)",
    points=1.0,
    kind="class",
    cases=_network_cases,
    probe=ModuleProbe(gradients=("x",), extra=_see_network),
    expect=expect_module(_network),
    reference=ByFormula,
    finished=transformer.FeedForward,
    properties=(
        Property(
            "hears", "A token's numbers have a say in the result", _hears, gate=True, role="typical"
        ),
        Property(
            "each_apart",
            "A token has no say in another one",
            each_apart,
            credit=True,
            role="typical",
        ),
        Property(
            "bends",
            "Twice the input is not twice the output",
            _is_bent,
            credit=True,
            role="typical",
        ),
        BRANCH_DROPOUT,
        TRAINS,
        *MODULE_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        ExactInside,
        ReluInside,
        DropoutNotUsed,
        DroppedInTheMiddle,
        NoBend,
        ExpansionIgnored,
        ResidualInside,
        BentAtTheEnd,
        BentTwice,
        BentFirst,
        NormInside,
        ExpansionAsWidth,
        ExpansionAdded,
        WithoutBias,
        WithoutBias.but(layers=("expand",)),
        WithoutBias.but(layers=("contract",)),
        ContractUnused,
        WeightUsedUntransposed,
        OverTokensMixed,
        DroppedTwice,
        DroppedTwiceAtTheEnd,
        DropoutActsInEvaluation,
        RateFixed,
        RateKept,
        ResultCutOff,
        on=Network,
    ),
    uses=("gelu",),
    hints=(
        "A class on `nn.Module`, with `__init__(self, d_model, expansion=4, dropout=0.0)` and "
        "`forward(self, x)`. The constructor begins with `super().__init__()`.",
        "`expand` is an `nn.Linear` from `d_model` to `expansion * d_model`, `contract` one back; "
        "`dropout` is an `nn.Dropout(dropout)`.",
        "`forward` is one line: widen, `gelu`, narrow, drop.",
    ),
    other_way="""\
# In one place: nn.Sequential runs its parts in order. They keep their names as attributes too.
class FeedForward(nn.Module):
    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, expansion * d_model)
        self.contract = nn.Linear(self.expand.out_features, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for step in [self.expand, gelu, self.contract, self.dropout]:
            x = step(x)
        return x
""",
    forbidden=GELUS,
    forbidden_text="GELU is yours in this lesson: use your `gelu`, or `transformer.gelu`. "
    "(PyTorch's `nn.GELU()` would be the exact form, which gives other numbers.)",
)
