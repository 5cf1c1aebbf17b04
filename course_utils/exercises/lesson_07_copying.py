"""Lesson 07: the weights of heads side by side, copied into one projection."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import attention
from ..checking import Case, Exercise, Misconceptions, Mistake, Observation, Property
from ..checking.comparing import near
from ..checking.copies import COPY_PROPERTIES, CopyProbe
from ..checking.exercise import Expected, Verdict
from .kit.draw import Draw
from .kit.heads import PROJECTIONS
from .kit.many_heads import Sizes, distinct_sizes, split_oracle, split_weights, wrapper_weights

LESSON = "3-multi-head/07_split_heads"


# ---------------------------------------------------------------- cases


def _make_pair(case: Case) -> tuple[nn.Module, nn.Module]:
    d_in, D, length, H = case.options["wrapper"]
    d_other, width, _, heads = case.options["split"]
    given, target = case.inputs.values()
    wrapper_bias, split_bias = "heads.0.query.bias" in given, "query.bias" in target
    return (
        attention.MultiHeadAttentionWrapper(d_in, D, length, H, 0.2, wrapper_bias),
        attention.MultiHeadAttention(d_other, width, length, heads, 0.3, split_bias),
    )


def _case(
    draw: Draw,
    name: str,
    s: Sizes,
    target: Sizes | None = None,
    biases: tuple[bool, bool] = (False, False),
    frozen: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float32,
    refuses: tuple[str, ...] | None = None,
    role: str = "",
    **more: Any,
) -> Case:
    t = target or s
    weights = {
        "wrapper": wrapper_weights(draw, s, biases[0], dtype),
        "split": split_weights(draw, t, biases[1], dtype),
    }
    options = {
        "wrapper": (s.d_in, s.D, s.length, s.H),
        "split": (t.d_in, t.width, t.length, t.H),
        "x": draw.normal(t.B, t.T, t.d_in, dtype=dtype),
        "frozen": frozen,
        "dtype": dtype,
        "heads": s.H,
        **more,
    }
    return Case(name, weights, refuses, options, roles=set(role.split()))


# What doesn't fit: the wrapper's d_in, D and H, the split's, whose biases, and numbers to be named.
# Who compares widths of heads before their number names the first of two.
NO_BIAS, BOTH, WRAPPERS = (False, False), (True, True), (True, False)
MISFITS = {
    "3 heads of 4 into 2 of 6": ((5, 4, 3), (5, 6, 2), NO_BIAS, ("3|4", "2|6")),
    "4 heads of 2 into 2 of 4, with biases": ((3, 2, 4), (3, 4, 2), BOTH, ("4", "2")),
    "3 heads of 2 into 3 of 4": ((5, 2, 3), (5, 4, 3), NO_BIAS, ("6|2", "12|4")),
    "2 heads of 6 into 3 of 4": ((5, 6, 2), (5, 4, 3), NO_BIAS, ("2|6", "3|4")),
    "3 heads of 4 into 3 of 2": ((5, 4, 3), (5, 2, 3), NO_BIAS, ("12|4", "6|2")),
    "4 channels into 5": ((4, 2, 3), (5, 2, 3), NO_BIAS, ("4", "5")),
    "5 channels into 4": ((5, 2, 3), (4, 2, 3), NO_BIAS, ("5", "4")),
    # Here `copy_` would stretch a single head or column without a word.
    "1 head of 1 into 1 of 4": ((5, 1, 1), (5, 4, 1), NO_BIAS, ("1", "4")),
    "1 channel into 4": ((1, 2, 3), (4, 2, 3), NO_BIAS, ()),
    "one head, biases in the wrapper only": ((5, 4, 1), (5, 4, 1), WRAPPERS, ()),
}


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    case = partial(_case, draw)

    def sizes(d_in: int, D: int, H: int) -> Sizes:
        return Sizes(7, 9, d_in, D, H, 11)

    a, b, c, d = (distinct_sizes(draw) for _ in range(4))
    some = ("query.weight", "value.weight", "out_proj.bias")
    both, given = (True, True), (True, False)
    return [
        case("random numbers", a, role="typical"),
        case("both with biases, float64", b, biases=both, dtype=torch.float64),
        case("biases in the split only", c, biases=(False, True)),
        case("partly frozen", d, biases=both, frozen=some),
        case("parts made in another order, and more of them", b, turned_round=True, more=True),
        case("by name", d, keywords=("wrapper", "split")),
        case("one head", sizes(5, 4, 1), role="small"),
        case("heads of width 1", sizes(5, 1, 3), role="small"),
        case("as wide inside as outside", sizes(6, 2, 3), role="small"),
        case("more heads than channels come in", sizes(2, 4, 5), biases=both),
        *(
            case(name, sizes(*wrapper), sizes(*split), biases, refuses=refuses, role="small")
            for name, (wrapper, split, biases, refuses) in MISFITS.items()
        ),
        case("biases in the wrapper only", b, biases=given, refuses=()),
    ]


def _expect(case: Case) -> dict[str, Tensor]:
    if case.refuses is not None:
        return {}
    wrapper, split = case.inputs.values()
    H = case.options["heads"]
    expected = {}
    for name, value in split.items():
        if name in wrapper:
            expected[name] = wrapper[name]
        elif f"heads.0.{name}" in wrapper:
            expected[name] = torch.cat([wrapper[f"heads.{h}.{name}"] for h in range(H)])
        else:
            expected[name] = torch.zeros_like(value)
    doubles = {name: value.double() for name, value in expected.items()}
    out = split_oracle(case, doubles, case.options["x"].double())
    return expected | {"out": out.to(case.options["dtype"])}


def _heads_copied(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The numbers of all heads are there, in whatever order."""
    return all(
        near(
            seen.tensors[f"{n}.weight"].flatten().sort().values,
            expected[f"{n}.weight"].flatten().sort().values,
        )
        for n in PROJECTIONS
    )


def _out_proj_copied(case: Case, seen: Observation, expected: Expected) -> Verdict:
    names = ("out_proj.weight", "out_proj.bias")
    return all(near(seen.tensors[n], expected[n]) for n in names)


# ---------------------------------------------------------------- a right copy in steps


class Copy:
    def __call__(self, wrapper, split):
        self.refuse(wrapper, split)
        with self.guarded():
            for name in self.names:
                target, sources = getattr(split, name), self.sources(wrapper, name)
                self.write(target, "weight", self.stacked([s.weight for s in sources]))
                if target.bias is not None:
                    self.bias(target, sources)
            self.out_proj(split.out_proj, wrapper.out_proj)
        return self.result(split)

    names = PROJECTIONS

    def refuse(self, wrapper, split):
        mine = (wrapper.heads[0].query.weight.shape[1], len(wrapper.heads))
        theirs = (split.query.weight.shape[1], split.num_heads)
        widths = (wrapper.out_proj.weight.shape[0], split.out_proj.weight.shape[0])
        if mine != theirs or widths[0] != widths[1]:
            raise ValueError(f"{mine} {widths[0]} into {theirs} {widths[1]}")
        if wrapper.heads[0].query.bias is not None and split.query.bias is None:
            raise ValueError("no bias in the split")

    def guarded(self):
        return torch.no_grad()

    def sources(self, wrapper, name):
        return [getattr(head, name) for head in wrapper.heads]

    def stacked(self, parts):
        return torch.cat(parts)

    def bias(self, target, sources):
        lacking = sources[0].bias is None
        made = torch.zeros_like(target.bias) if lacking else self.stacked([s.bias for s in sources])
        self.write(target, "bias", made)

    def out_proj(self, target, source):
        self.write(target, "weight", source.weight)
        self.write(target, "bias", source.bias)

    def write(self, layer, name, value):
        getattr(layer, name).copy_(value)

    def result(self, split):
        return None


class RowsInterleaved(Mistake):
    """The rows of the heads alternate: first row of each head, second of each, …

    Why: `split_heads` gives neighbouring rows to one head, so each would get a mixture.
    Mend: Which D rows of the big matrix make head 0?
    """

    def stacked(self, parts):
        return torch.stack(parts, 1).flatten(0, 1)


class HeadsReversed(Mistake):
    """The heads are stacked in reverse order.

    Why: `out_proj` expects head 0 in the first D channels.
    Mend: In which order does `split_heads` cut the width?
    """

    def sources(self, wrapper, name):
        return super().sources(wrapper, name)[::-1]


def _only_weights_reversed(self, parts):
    return torch.cat(parts if parts[0].dim() == 1 else parts[::-1])


class FirstHeadEverywhere(Mistake):
    """Every head of the split got the weights of the wrapper's first head.

    Why: What the other heads have learned is lost.
    Mend: Rows h · D to (h + 1) · D belong to head h.
    """

    def sources(self, wrapper, name):
        return super().sources(wrapper, name)[:1] * len(wrapper.heads)


class LastHeadEverywhere(Mistake):
    """Every head of the split got the weights of the wrapper's last head.

    Why: What the other heads have learned is lost: each round of the loop wrote over the last.
    Mend: Rows h · D to (h + 1) · D belong to head h.
    """

    def sources(self, wrapper, name):
        return super().sources(wrapper, name)[-1:] * len(wrapper.heads)


class HeadsAveraged(Mistake):
    """Every head of the split got the mean of all heads.

    Why: Averaged heads can no longer look at different things.
    Mend: The weights are put on top of each other, not added.
    """

    def stacked(self, parts):
        return torch.cat([torch.stack(parts).mean(0)] * len(parts))


class SomeHeadsLeftOut(Mistake):
    """Not all heads were copied: the first half of the wrapper's heads fills its rows, and the
    others of the split stay as they were.

    Why: The heads that were left out are still random.
    Mend: How often should your loop go round?
    """

    def write(self, layer, name, value):
        getattr(layer, name)[: len(value)].copy_(value)

    def sources(self, wrapper, name):
        found = super().sources(wrapper, name)
        return found[: max(len(found) // 2, 1)]


class ReshapedWeights(Mistake):
    """The stacked weights were forced into shape by a reshape, which scrambled them.

    Why: A reshape keeps the reading order, and the heads were the innermost dimension.
    Mend: `torch.cat` along dimension 0 needs no reshape.
    """

    def stacked(self, parts):
        return torch.stack(parts, -1).reshape(len(parts) * len(parts[0]), *parts[0].shape[1:])


class JoinedAlongTheInput(Mistake):
    """The weights were joined along dimension 1, side by side.

    Why: An `nn.Linear` keeps its weight as (out, in), and heads add to what comes out.
    Mend: Which dimension of (D, d_in) should grow to H · D?
    """

    def stacked(self, parts):
        return torch.cat(parts, dim=-1)


class StateDictLoaded(Mistake):
    """You loaded the wrapper's `state_dict` as it is, and its names are others.

    Why: It speaks of `heads.0.query.weight`; the split has one `query.weight` for all heads.
    Mend: Make the split's weight out of those of all heads, and write that into it.
    """

    def __call__(self, wrapper, split):
        split.load_state_dict(wrapper.state_dict())


class StackedWeights(Mistake):
    """`torch.stack` gave the heads a dimension of their own: (H, D, d_in).

    Why: The split's weight is one matrix (H · D, d_in).
    Mend: Which function puts matrices on top of each other without a new dimension?
    """

    def stacked(self, parts):
        return torch.stack(parts)


class QueryEverywhere(Mistake):
    """Keys and values got the weights of the queries.

    Why: A token would then look for what it is itself.
    Mend: Three names, three sources: does your loop use its variable?
    """

    def sources(self, wrapper, name):
        return super().sources(wrapper, "query")


class ProjectionForgotten(Mistake):
    """One of query, key and value was not copied.

    Why: Its random weights spoil the whole result.
    Mend: Which three layers does each head have?
    """

    names = ("query", "key")


class OutProjNotCopied(Mistake):
    """`out_proj` was not copied.

    Why: The heads agree, and their mixture does not.
    Mend: A wrapper has one more layer than its heads.
    """

    def out_proj(self, target, source):
        pass


class OutBiasNotCopied(Mistake):
    """The bias of `out_proj` was not copied.

    Why: The outputs differ by the same vector at every token.
    Mend: An `nn.Linear` has two parameters.
    """

    def out_proj(self, target, source):
        self.write(target, "weight", source.weight)


class OutProjTransposed(Mistake):
    """The weight of `out_proj` was transposed on the way.

    Why: It is square, so no error says that rows and columns are swapped.
    Mend: Both are `nn.Linear`s and keep their weights the same way.
    """

    def out_proj(self, target, source):
        self.write(target, "weight", source.weight.T)
        self.write(target, "bias", source.bias)


class ParametersShared(Mistake):
    """The split now holds the wrapper's own `Parameter` objects in `out_proj`.

    Why: Training one module would change the other, and the split's optimizer holds the old ones.
    Mend: Assigning shares; which method of a tensor copies values into it?
    """

    def out_proj(self, target, source):
        target.weight, target.bias = source.weight, source.bias


class DataShared(Mistake):
    """Something of the split lies in the wrapper's own memory: `.data` or a buffer was assigned.

    Why: What is written into one module then stands in the other as well.
    Mend: Assigning shares; which method of a tensor copies values into it?
    """

    def out_proj(self, target, source):
        target.weight.data, target.bias.data = source.weight.data, source.bias.data


class ParametersReplaced(Mistake):
    """The values are right, but they sit in new `Parameter` objects.

    Why: An optimizer that was made before would go on training the old ones.
    Mend: Write into the parameters that are there, under `torch.no_grad()`.
    """

    def write(self, layer, name, value):
        setattr(layer, name, nn.Parameter(value.clone()))


def _only_out_proj_replaced(self, target, source):
    target.weight, target.bias = nn.Parameter(source.weight.clone()), nn.Parameter(source.bias + 0)


class TensorAssigned(Mistake):
    """You assigned a plain tensor where the module keeps a `Parameter`, and PyTorch refuses.

    Why: A module trains its parameters; a plain tensor in their place would never learn.
    Mend: Write the values *into* the parameter: which method of a tensor does that?
    """

    def write(self, layer, name, value):
        setattr(layer, name, value + 0)


class NoGradMissing(Mistake):
    """PyTorch refuses to write into a parameter that asks for a gradient: `torch.no_grad()` is
    missing.

    Why: Otherwise the copying itself would be something to differentiate.
    Mend: Put the copying under `with torch.no_grad():`.
    """

    def guarded(self):
        return torch.enable_grad()


class OldBiasesKept(Mistake):
    """The split keeps its own random biases where the wrapper has none.

    Why: No bias means a bias of zero; anything else changes the output.
    Mend: What must stand in a bias that should do nothing?
    """

    def bias(self, target, sources):
        if sources[0].bias is not None:
            super().bias(target, sources)


class BiasesNotCopied(Mistake):
    """The biases of query, key and value were left as they were.

    Why: With `qkv_bias=True` each head has three of them, and they matter.
    Mend: Biases are stacked as weights are.
    """

    def bias(self, target, sources):
        pass


class BiasesZeroed(Mistake):
    """The biases of the split are zero even where the wrapper has some.

    Why: Zeros are right only if the wrapper has no biases.
    Mend: Look first whether the heads have a bias.
    """

    def bias(self, target, sources):
        target.bias.zero_()


class BiasAssumed(Mistake):
    """Your code takes it for granted that the heads have biases, and None can't be copied.

    Why: Without `qkv_bias` a head's `bias` is None.
    Mend: What should stand in the split's bias where the heads have none?
    """

    def bias(self, target, sources):
        self.write(target, "bias", self.stacked([s.bias for s in sources]))


class BiasesLost(Mistake):
    """A wrapper with biases was copied into a split without: they were dropped in silence.

    Why: The outputs differ, and nobody was told.
    Mend: Refuse with a ValueError what can't be copied.
    """

    def refuse(self, wrapper, split):
        if wrapper.heads[0].query.bias is None or split.query.bias is not None:
            super().refuse(wrapper, split)


class HeadsNotCompared(Mistake):
    """Heads of another number were copied, such as 3 of width 4 into 2 of width 6: the sizes fit,
    the heads don't.

    Why: The split cuts the same rows elsewhere, so its output is another.
    Mend: Compare the number of heads before you copy.
    """

    def refuse(self, wrapper, split):
        if len(wrapper.heads) == split.num_heads:
            super().refuse(wrapper, split)


class SizesNotCompared(Mistake):
    """Modules that don't fit are not refused with a ValueError.

    Why: `copy_` complains about shapes when half of the layers are already overwritten, or not at
        all.
    Mend: Compare heads, widths and biases first; name both numbers in the error.
    """

    def refuse(self, wrapper, split):
        pass


class ReturnsTheSplit(Mistake):
    """The copy is right, but the function returns the split; None was asked for.

    Why: What works in place returns nothing, so that nobody takes it for a new object.
    Mend: Leave out the `return`.
    """

    def result(self, split):
        return split


class Freezes(Mistake):
    """After the copy, no parameter of the split asks for a gradient.

    Why: It can no longer be trained, and no error says so.
    Mend: `torch.no_grad()` around the copying is enough.
    """

    def result(self, split):
        split.requires_grad_(False)


class Thaws(Mistake):
    """After the copy, parameters that were frozen ask for a gradient again.

    Why: Whoever froze them wants them to stay as they are.
    Mend: Leave `requires_grad` alone.
    """

    def result(self, split):
        split.requires_grad_(True)


class EvaluationModeLeftOn(Mistake):
    """Afterwards one of the two modules is in another mode than before.

    Why: In the wrong mode a module trains without dropout, or drops where it is only used, and no
        error says so.
    Mend: Copying needs neither mode.
    """

    def result(self, split):
        split.eval()


class NothingCopied(Mistake):
    """After the call the split is as it was before.

    Why: Methods such as `.clone()`, `.detach().clone()` or `torch.cat` make new tensors; what is
        written into those never reaches the module.
    Mend: Write into `split.query.weight` itself, in place.
    """

    def write(self, layer, name, value):
        pass

    def bias(self, target, sources):
        pass


class CopiedBackwards(Mistake):
    """The split was copied into the wrapper.

    Why: The source should stay as it is; here its learned weights are gone.
    Mend: `target.copy_(source)`: the one that changes stands in front.
    """

    def __call__(self, wrapper, split):
        self.refuse(wrapper, split)
        with torch.no_grad():
            for name, kind in itertools.product(PROJECTIONS, ("weight", "bias")):
                big = getattr(getattr(split, name), kind)
                if big is None:
                    continue
                for head, part in zip(wrapper.heads, big.chunk(split.num_heads), strict=True):
                    small = getattr(getattr(head, name), kind)
                    if small is not None:
                        small.copy_(part)
            wrapper.out_proj.load_state_dict(split.out_proj.state_dict())


COPY_WRAPPER_TO_SPLIT = Exercise(
    id="copy_wrapper_to_split",
    lesson=LESSON,
    call="copy_wrapper_to_split(wrapper, split)",
    points=1.0,
    cases=_cases,
    probe=CopyProbe(_make_pair),
    expect=_expect,
    reference=attention.copy_wrapper_to_split,
    properties=(
        Property(
            "heads",
            "The weights of every head have arrived",
            _heads_copied,
            gate=True,
            role="typical",
        ),
        Property("out_proj", "`out_proj` has arrived, weight and bias", _out_proj_copied, True),
        *COPY_PROPERTIES,
    ),
    misconceptions=Misconceptions.of(
        OutProjNotCopied,
        OldBiasesKept,
        BiasAssumed,
        HeadsNotCompared,
        SizesNotCompared,
        BiasesLost,
        ParametersReplaced,
        ParametersReplaced.but(write=Copy.write, out_proj=_only_out_proj_replaced),
        ParametersShared,
        DataShared,
        TensorAssigned,
        TensorAssigned.but(refuse=SizesNotCompared.refuse),
        NoGradMissing,
        NoGradMissing.but(refuse=SizesNotCompared.refuse),
        BiasesNotCopied,
        BiasesZeroed,
        OutBiasNotCopied,
        NothingCopied,
        CopiedBackwards,
        ReturnsTheSplit,
        StackedWeights,
        JoinedAlongTheInput,
        JoinedAlongTheInput.but(refuse=SizesNotCompared.refuse),
        StateDictLoaded,
        RowsInterleaved,
        HeadsReversed,
        HeadsReversed.but(sources=Copy.sources, stacked=_only_weights_reversed),
        FirstHeadEverywhere,
        LastHeadEverywhere,
        HeadsAveraged,
        ReshapedWeights,
        QueryEverywhere,
        ProjectionForgotten,
        ProjectionForgotten.but(names=("query", "value")),
        ProjectionForgotten.but(names=("key", "value")),
        SomeHeadsLeftOut,
        OutProjTransposed,
        Freezes,
        Thaws,
        EvaluationModeLeftOn,
        on=Copy,
    ),
    hints=(
        "The wrapper has H small matrices (D, d_in), the split one big (H · D, d_in). "
        "`split_heads` gives rows 0 to D − 1 to head 0, the next D to head 1, and so on.",
        "For each of query, key and value: "
        "`torch.cat([head.query.weight for head in wrapper.heads])` has the shape of "
        "`split.query.weight`. Under `torch.no_grad()`, `copy_` writes it there.",
        "Then the biases (`torch.cat` too, or `zero_()` if the heads have none), then weight and "
        "bias of `out_proj`. Before all that, compare `len(wrapper.heads)` with `split.num_heads`, "
        "and the shapes.",
    ),
)
