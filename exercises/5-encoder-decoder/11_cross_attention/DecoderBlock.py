"""How an answer to `DecoderBlock` is judged."""

from functools import partial

import torch

from course_utils import transformer
from exercises.shared.dropout import with_dropout
from exercises.shared.heads import blind, padding_anywhere, padding_behind
from exercises.shared.two_texts import (
    DECODER,
    POST_PROPERTIES,
    WHOLE_BLOCK,
    TwoSizes,
    decoder_oracle,
    depends_on,
    further,
    in_a_post_block,
    post_case,
    see_post_block,
)
from whywrong import Draw, ModuleProbe, Property, expect_module, near, true_of

forbidden = WHOLE_BLOCK


def cases(seed):
    draw = Draw(seed)
    case = partial(post_case, draw, DECODER)
    double, once = {"dtype": torch.float64}, {"once": True}
    both = {"pad_mask": padding_anywhere, "context_pad_mask": blind, "roles": "padded device"}
    loud = {"context_pad_mask": padding_behind, "loud": 10.0}
    same = {"pad_mask": padding_behind, "context_pad_mask": padding_anywhere, "roles": "small"}
    by_name = {"pad_mask": padding_anywhere, "given": "by name"}
    few = {"roles": "small", "once": True}
    full = {"context_pad_mask": padding_behind, "roles": "small"}
    as_many, fits = TwoSizes(3, 4, 4, 5, 2, 11, 6), TwoSizes(3, 7, 9, 5, 2, 12, 7)
    return [
        case("random numbers", roles="typical"),
        case("float64, both padded, one context all padding", **both, **double),
        case("the context padded, a loud network", **loud, **double, **once),
        case("the target padded, made by name", **by_name, **once),
        case("as many tokens in both texts", as_many, given="by position", **same, **once),
        case("as many tokens, the target padded", as_many, pad_mask=padding_behind, **few),
        case("as many tokens, the context padded", as_many, context_pad_mask=padding_behind, **few),
        dropping(draw),
        case("one token each", TwoSizes(2, 1, 1, 5, 3, 7, 4), roles="small", **once),
        case("as many tokens as fit, a longer context", fits, **full, **once),
    ]


def dropping(draw):
    """The branch of either attention may drop its weights, its result, or both."""
    case = post_case(Draw(1), DECODER, "dropout", TwoSizes(1, 4, 3, 4, 2, 12, 6))
    places = {"feed_forward.dropout": "the output of the network"}
    first, second = {"self_attention.dropout": 0}, {"cross_attention.dropout": 0}
    right = in_a_post_block({}, {"dropout": 0}, first | second, first, second)
    none = {"drops nothing of attention's branches": {"dropout": 0} | first | second}
    return with_dropout(draw, transformer.DecoderBlock, case, places, right=right, more=none)


probe = ModuleProbe(gradients=("x", "context"), more=further("x", "context"), extra=see_post_block)
expect = expect_module(decoder_oracle, gradients=("x", "context"))


@true_of("A later token of the target does not affect an earlier one", credit=True, role="typical")
def no_future(case, observed, expected):
    return near(observed.tensors["out"][:, :-1], observed.tensors["x -1"][:, :-1])


@true_of("The context's padding does not affect the result", credit=True, role="padded")
def context_padding(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["other padding in context"])


properties = (
    Property(
        "listens",
        "A token attends to the context",
        depends_on("context", -1, by=-1),
        gate=True,
        role="typical",
    ),
    Property(
        "whole_context",
        "The first token may attend to the last one of the context",
        depends_on("context", -1, by=0),
        credit=True,
        role="typical",
    ),
    Property(
        "looks_back",
        "A token attends to the tokens before it",
        depends_on("x", 0, by=-1),
        credit=True,
        role="typical",
    ),
    no_future,
    context_padding,
    *POST_PROPERTIES,
)
