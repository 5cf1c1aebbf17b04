"""How an answer to `TransformerBlock` is judged."""

import torch

from course_utils import transformer
from exercises.shared.blocks import BlockSizes, block_oracle, block_sizes, block_weights
from exercises.shared.dropout import DROPOUT, see_dropout, with_dropout
from exercises.shared.heads import blind, holes, padding_anywhere, padding_behind
from exercises.shared.many_heads import LISTENS, NO_FUTURE, NOTHING_KEPT, PADDING_SILENT
from whywrong import (
    MODULE_PROPERTIES,
    Case,
    Draw,
    ModuleProbe,
    expect_module,
    fresh,
    near,
    set_seed,
    true_of,
)
from whywrong.probing import inject

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
    named = {"d_model": s.C, "num_heads": s.H, "context_length": s.length}
    if given:
        named |= {"dropout": 0.0, "qkv_bias": bias}
    by_name = given == "by name"
    options = {
        "args": () if by_name else tuple(named.values()),
        "kwargs": named if by_name else {},
        "weights": block_weights(draw, s, bias, dtype),
        "dtype": dtype,
        "heads": s.H,
    }
    if "typical" in roles:  # others are made beside it, with a shorter context
        options["others"] = [((), named | {"context_length": 1, "dropout": 0.9})]
    return Case(name, inputs, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    full = torch.tensor([[True, False, False], [False, False, True]])
    all_fit, one = BlockSizes(2, 3, 5, 1, 3), BlockSizes(1, 1, 3, 2, 5)
    by_name = {"bias": True, "given": "by name"}
    by_position = {"bias": True, "given": "by position", "dtype": torch.float64}
    turned = block_case(draw, "not contiguous in memory", pad_mask=padding_anywhere)
    turned.inputs["x"] = turned["x"].mT.contiguous().mT
    return [
        block_case(draw, "random numbers", roles="typical"),
        block_case(
            draw,
            "padding in front, one sequence all padding",
            pad_mask=blind,
            roles="padded device",
        ),
        block_case(draw, "padding anywhere, made by name", pad_mask=padding_anywhere, **by_name),
        block_case(draw, "float64, made by position", pad_mask=padding_behind, **by_position),
        block_case(draw, "one head, as many tokens as fit", all_fit, pad_mask=full, roles="small"),
        block_case(draw, "one token", one, roles="small"),
        block_case(
            draw, "one text, padded", BlockSizes(1, 4, 3, 2, 7), pad_mask=holes, roles="small"
        ),
        block_case(draw, "a stream of big numbers", size=30.0, dtype=torch.float64),
        block_case(draw, "a stream of small numbers", size=0.01),
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
    """More calls, by name: short and long texts in turn, no mask after a mask, and what the two
    kinds of case ask for; dropout at work."""
    see_dropout(make, case, observed)
    if not case.roles & {"typical", "padded"}:
        return
    x, pad_mask = case["x"], case.inputs.get("pad_mask")
    half = (x.shape[1] + 1) // 2

    def call(module, x, mask=pad_mask):
        mask = None if mask is None else fresh(mask[-len(x) :, : x.shape[1]])
        with torch.no_grad():
            return module(x=fresh(x), pad_mask=mask)

    def made(training=False):
        set_seed(1)  # a parameter too many is the same in each
        return make(as_made=training)

    one, two = made(training=True), made()  # with a dropout of 0 either mode gives the same
    observed.put("in training", call(one, x))
    if pad_mask is None:
        changed = with_others(x, slice(half, None))
        observed.put("first", call(two, with_others(x, 0)))
        silence(silent := made())
        observed.put("silent", call(silent, x))
    else:
        changed = x.clone()
        changed[pad_mask] = others(x[pad_mask])
        observed.put("unmasked second", call(one, x, None))
        observed.put("masked third", call(one, x))
        observed.put("unmasked first", call(made(), x, None))
    observed.put("changed", call(two, changed))
    observed.put("short second", call(one, x[1:, :half]))
    observed.put("short first", call(two, x[1:, :half]))
    observed.put("long second", call(two, x))


def others(tokens):
    return tokens.roll(1, -1) * 2 + 1  # other tokens to a norm, too


def with_others(x, positions):
    changed = x.clone()
    changed[:, positions] = others(x[:, positions])
    return changed


def silence(module):
    """Both branches add nothing."""
    zeros = {}
    for layer in ("attention.out_proj", "feed_forward.contract"):
        parts = module.get_submodule(layer)
        zeros |= {f"{layer}.{n}": torch.zeros_like(p) for n, p in parts.named_parameters()}
    inject(module, zeros)


probe = ModuleProbe(gradients=("x",), extra=see_block)
expect = expect_module(block_oracle)


@true_of(
    "Where `out_proj` and `contract` are zero, x comes out unchanged", credit=True, role="typical"
)
def untouched(case, observed, expected):
    return near(observed.tensors["silent"], case["x"])


properties = (
    LISTENS,
    untouched,
    NO_FUTURE,
    PADDING_SILENT,
    NOTHING_KEPT,
    DROPOUT,
    *MODULE_PROPERTIES,
)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"x": "B T d_model", "pad_mask": "B T"}
