"""How an answer to `CrossAttention` is judged."""

from dataclasses import replace
from functools import partial

import torch

from course_utils import attention
from exercises.shared.classes import LAST, class_case, nothing_kept, other_tokens, see_turns
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from exercises.shared.heads import blind, holes, padding_anywhere, padding_behind
from exercises.shared.two_texts import (
    WHOLE_ATTENTION,
    TwoSizes,
    cross_oracle,
    cross_weights,
    two_sizes,
)
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    fresh,
    near,
    true_of,
)

forbidden = WHOLE_ATTENTION


# ---------------------------------------------------------------- cases


def cross_case(
    draw, name, s=None, pad_mask=None, dtype=torch.float32, given="", roles="", **options
):
    """`given` says how the constructor gets its arguments: two by position, or all three "by
    position" or "by name"."""
    s = s or two_sizes(draw)
    inputs = {"x": draw.normal(s.B, s.T, s.C, dtype=dtype)}
    inputs["context"] = draw.normal(s.B, s.S, s.C, dtype=dtype)
    if pad_mask is not None:
        inputs["context_pad_mask"] = pad_mask(draw, s.B, s.S)
    arguments = {"d_model": s.C, "num_heads": s.H} | ({"dropout": 0.0} if given else {})
    return class_case(
        name,
        inputs,
        arguments,
        cross_weights(draw, s.C, dtype),
        roles,
        by_name=given == "by name",
        others={"dropout": 0.9},
        heads=s.H,
        **options,
    )


def scores_of_100(draw):
    """Visible scores near -100 and hidden ones near 100.

    All numbers have few binary digits, so that float32 gives exact scores in every order.
    """
    s = TwoSizes(2, 3, 5, 4, 2)
    case = cross_case(draw, "scores from -100 to 100", s, padding_behind, roles="small", once=True)
    x, context, weights = case["x"], case["context"], case.options["weights"]
    for tokens in (x, context):
        tokens.copy_((4 * tokens).round() / 4)
    x[..., 0] = 1.0
    context[..., 0] = torch.where(case["context_pad_mask"], 1.0, -1.0)
    for name, large in (("query", 12.0), ("key", 16.0)):  # 12 · 16 / √4 = 96
        weight = weights[f"{name}.weight"]
        weight.copy_((4 * weight).round() / 8)  # adds little to the scores
        weight[:: s.D] = 0.0
        weight[:: s.D, 0] = large
    return case


def dropping(draw, name, pad_mask=None):
    """Dropout may act on the weights, the values or the result."""
    case = cross_case(Draw(1), name, TwoSizes(1, 3, 4, 3, 2), pad_mask)
    places = {"dropout": "the weights"}
    others = ("value >", "> out_proj", "out_proj >")
    right = {}, *({"dropout": 0, place: 1} for place in others)
    twice = {"drops twice": {"> out_proj": 1}}
    return with_dropout(draw, attention.CrossAttention, case, places, right=right, more=twice)


def cases(seed):
    draw = Draw(seed)
    case, double, once = partial(cross_case, draw), {"dtype": torch.float64}, {"once": True}
    equal = case("equal scores, some tokens of zeros", **once)
    equal.options["weights"]["query.weight"].zero_()
    equal["context"][0, ::2] = 0.0
    strided = case("not contiguous in memory", pad_mask=padding_behind, **once)
    for name in ("x", "context"):
        strided.inputs[name] = strided[name].mT.contiguous().mT
    in_front = {"pad_mask": blind, "roles": "padded device", **double}
    as_many, small = TwoSizes(3, 4, 4, 5, 2), {"roles": "small", **once}
    copied = case("a text and its copy", as_many, **small)
    copied.inputs["context"] = copied["x"].clone()
    return [
        case("random numbers", roles="typical"),
        case("float64, padding in front, one context all padding", **in_front),
        case("padding anywhere, made by name", pad_mask=padding_anywhere, given="by name", **once),
        case("float64, made by position", given="by position", **double, **once),
        case("as many queries as keys", as_many, padding_behind, **small),
        case("as many queries as keys, no mask", as_many, **small),
        copied,
        case("one text, padded", TwoSizes(1, 3, 5, 4, 2), holes, **small),
        case("one query, one head", TwoSizes(2, 1, 3, 5, 1), **small),
        scores_of_100(draw),
        equal,
        strided,
        dropping(draw, "dropout"),
        dropping(draw, "dropout, padded", lambda *_: torch.tensor([[False, True, False, False]])),
    ]


# ---------------------------------------------------------------- evidence


def see_cross(make, case, observed):
    """Calls by turns; one text that attends to itself, as one object or as two; dropout."""
    see_dropout(make, case, observed)
    see_turns(make, case, observed)
    if "typical" in case.roles:
        module, tokens = make(), fresh(case["context"])
        with torch.no_grad():
            observed.put("one object", module(tokens, tokens))
            observed.put("two objects", module(fresh(tokens), fresh(tokens)))


more = {
    "typical": {
        "last key": other_tokens("context", LAST),
        "last query": other_tokens("x", LAST),
    },
    "padded": {"other padding": other_tokens("context", "context_pad_mask")},
}
probe = ModuleProbe(gradients=("x", "context"), more=more, extra=see_cross)
expect = expect_module(cross_oracle, gradients=("x", "context"))


# ---------------------------------------------------------------- what is true of the result


@true_of("A query attends to the context", gate=True, role="typical")
def reads_context(case, observed, expected):
    return not near(observed.tensors["out"][:, -1], observed.tensors["last key"][:, -1])


@true_of(
    "Every query may attend to the last key: nothing is causal here", credit=True, role="typical"
)
def whole_context(case, observed, expected):
    change = observed.tensors["out"] - observed.tensors["last key"]
    return bool((change.abs().amax(-1) > 1e-4).all())


@true_of("A query changes its own row, and no other", credit=True, role="typical")
def own_row(case, observed, expected):
    out, other = observed.tensors["out"], observed.tensors["last query"]
    return near(out[:, :-1], other[:, :-1]) and not near(out[:, -1], other[:, -1])


@true_of("The context's padding does not affect the result", credit=True, role="padded")
def padding(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["other padding"])


@true_of(
    "Where all of the context is padding, the result is the bias of `out_proj`",
    credit=True,
    role="padded",
)
def nothing_seen(case, observed, expected):
    rows = observed.tensors["out"][case["context_pad_mask"].all(1)]
    return near(rows, case.options["weights"]["out_proj.bias"].expand_as(rows))


@true_of("A text that attends to itself is a context like any other", role="typical")
def to_itself(case, observed, expected):
    return near(observed.tensors["one object"], observed.tensors["two objects"])


properties = (
    reads_context,
    whole_context,
    own_row,
    padding,
    nothing_seen,
    to_itself,
    nothing_kept,
    replace(DROPOUT, secondary=True),
    *MODULE_PROPERTIES,
)
