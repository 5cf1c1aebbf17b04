"""How an answer to `TransformerBlock` is judged."""

from functools import partial

import torch

from course_utils import transformer
from exercises.shared.blocks import BlockSizes, block_oracle, block_sizes, block_weights
from exercises.shared.classes import (
    FIRST,
    LAST,
    class_case,
    listens,
    no_future,
    nothing_kept,
    other_tokens,
    see_turns,
)
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from exercises.shared.heads import blind, holes, padding_anywhere, padding_behind
from exercises.shared.many_heads import padding
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, expect_module, near, true_of

forbidden = ("_transformer_encoder_layer_fwd",)


def block_case(
    draw, name, s=None, pad_mask=None, size=1.0, dtype=torch.float32, bias=False, given="", roles=""
):
    """`given` says how the constructor gets its arguments: three by position, all five "by
    position" or all five "by name"."""
    s = s or block_sizes(draw)
    inputs = {"x": size * draw.normal(s.B, s.T, s.C, dtype=dtype)}
    if pad_mask is not None:
        inputs["pad_mask"] = pad_mask(draw, s.B, s.T) if callable(pad_mask) else pad_mask
    arguments = {"d_model": s.C, "num_heads": s.H, "context_length": s.length}
    if given:
        arguments |= {"dropout": 0.0, "qkv_bias": bias}
    return class_case(
        name,
        inputs,
        arguments,
        block_weights(draw, s, bias, dtype),
        roles,
        by_name=given == "by name",
        others={"context_length": 1, "dropout": 0.9},
        heads=s.H,
    )


def cases(seed):
    draw = Draw(seed)
    full = torch.tensor([[True, False, False], [False, False, True]])
    all_fit, one = BlockSizes(2, 3, 5, 1, 3), BlockSizes(1, 1, 3, 2, 5)
    case = partial(block_case, draw)
    by_name = {"bias": True, "given": "by name"}
    by_position = {"bias": True, "given": "by position", "dtype": torch.float64}
    in_front = {"pad_mask": blind, "roles": "padded device"}
    turned = case("not contiguous in memory", pad_mask=padding_anywhere)
    turned.inputs["x"] = turned["x"].mT.contiguous().mT
    return [
        case("random numbers", roles="typical"),
        case("padding in front, one sequence all padding", **in_front),
        case("padding anywhere, made by name", pad_mask=padding_anywhere, **by_name),
        case("float64, made by position", pad_mask=padding_behind, **by_position),
        case("one head, as many tokens as fit", all_fit, pad_mask=full, roles="small"),
        case("one token", one, roles="small"),
        case("one text, padded", BlockSizes(1, 4, 3, 2, 7), pad_mask=holes, roles="small"),
        case("a stream of big numbers", size=30.0, dtype=torch.float64),
        case("a stream of small numbers", size=0.01),
        turned,
        dropping(draw),
    ]


def dropping(draw):
    case = block_case(Draw(1), "dropout", BlockSizes(1, 4, 4, 2, 6))
    places = {
        "attention.dropout": "the attention weights",
        "dropout": "the output of attention",
        "feed_forward.dropout": "the output of the network",
    }
    return with_dropout(draw, transformer.TransformerBlock, case, places)


def see_block(make, case, observed):
    see_dropout(make, case, observed)
    see_turns(make, case, observed)


def silent(case):
    """Both branches add nothing."""
    ends = ("attention.out_proj", "feed_forward.contract")
    weights = case.options["weights"].items()
    return {"weights": {n: torch.zeros_like(w) for n, w in weights if n.startswith(ends)}}


more = {
    "typical": {
        "changed": other_tokens("x", LAST),
        "first": other_tokens("x", FIRST),
        "silent": silent,
    },
    "padded": {"changed": other_tokens("x", "pad_mask")},
}
probe = ModuleProbe(gradients=("x",), more=more, extra=see_block)
expect = expect_module(block_oracle)


@true_of(
    "Where `out_proj` and `contract` are zero, x comes out unchanged", credit=True, role="typical"
)
def untouched(case, observed, expected):
    return near(observed.tensors["silent"], case["x"])


properties = (
    listens,
    untouched,
    no_future,
    padding,
    nothing_kept,
    DROPOUT,
    *MODULE_PROPERTIES,
)
