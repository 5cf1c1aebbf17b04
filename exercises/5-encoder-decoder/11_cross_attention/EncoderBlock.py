"""How an answer to `EncoderBlock` is judged."""

from functools import partial

import torch

from course_utils import transformer
from exercises.shared.dropout import with_dropout
from exercises.shared.heads import blind, holes, padding_anywhere, padding_behind
from exercises.shared.two_texts import (
    ENCODER,
    POST_PROPERTIES,
    WHOLE_BLOCK,
    TwoSizes,
    depends_on,
    encoder_oracle,
    further,
    in_a_post_block,
    post_case,
    see_post_block,
)
from whywrong import Draw, ModuleProbe, Property, expect_module

forbidden = WHOLE_BLOCK


def cases(seed):
    draw = Draw(seed)
    case = partial(post_case, draw, ENCODER)
    double, once = {"dtype": torch.float64}, {"once": True}
    quiet = {"size": 0.05, "loud": 10.0, "given": "by position", **double, **once}
    in_front = {"pad_mask": blind, "roles": "padded device", **double}
    strided = case("not contiguous in memory", pad_mask=padding_behind, **once)
    strided.inputs["x"] = strided["x"].mT.contiguous().mT
    return [
        case("random numbers", roles="typical"),
        case("float64, padding in front, one text all padding", **in_front),
        case("padding anywhere, made by name", pad_mask=padding_anywhere, given="by name", **once),
        case("small tokens, a loud network, made by position", **quiet),
        dropping(draw),
        case("one text, padded", TwoSizes(1, 4, 0, 3, 2, 7), pad_mask=holes, roles="small", **once),
        case("one token", TwoSizes(2, 1, 0, 5, 3, 7), roles="small", **once),
        strided,
    ]


def dropping(draw):
    """Attention's branch may drop its weights, its result, or both."""
    case = post_case(Draw(1), ENCODER, "dropout", TwoSizes(1, 4, 0, 4, 2, 12))
    places = {"feed_forward.dropout": "the output of the network"}
    right = in_a_post_block({}, {"dropout": 0}, {"attention.dropout": 0})
    none = {"drops nothing of attention's branch": {"dropout": 0, "attention.dropout": 0}}
    return with_dropout(draw, transformer.EncoderBlock, case, places, right=right, more=none)


probe = ModuleProbe(gradients=("x",), more=further("x"), extra=see_post_block)
expect = expect_module(encoder_oracle)
properties = (
    Property(
        "listens",
        "A token attends to the tokens before it",
        depends_on("x", 0, by=-1),
        gate=True,
        role="typical",
    ),
    Property(
        "looks_ahead",
        "A token attends to the tokens after it: a text that is read is complete",
        depends_on("x", -1, by=0),
        credit=True,
        role="typical",
    ),
    *POST_PROPERTIES,
)
