"""How an answer to `Translator` is judged."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from exercises.shared.blocks import under
from exercises.shared.classes import class_case
from exercises.shared.heads import linear_weights, padding_behind
from exercises.shared.models import other_word
from exercises.shared.two_texts import (
    DECODER,
    ENCODER,
    clear_of_the_kink,
    decoder_oracle,
    depends_on,
    encoder_oracle,
    post_weights,
)
from whywrong import MODULE_PROPERTIES, Draw, ModuleProbe, Property, expect_module, near, true_of


@dataclass(frozen=True)
class Sizes:
    """B texts of S and T tokens, two vocabularies, H heads of width D, d_ff, L layers, the most
    tokens."""

    B: int
    S: int
    T: int
    read: int
    written: int
    H: int
    D: int
    wide: int
    L: int
    length: int


def sizes(draw):
    """All different, and so is C = H · D, which is at least 10."""
    while True:
        B, S, T, H, D, L = draw.sizes(6, 2, 8)
        length = max(S, T) + draw.integer(1, 4)
        read, written, wide = (draw.integer(9, 30) for _ in range(3))
        every = {B, S, T, H, D, L, length, read, written, wide, H * D}
        if len(every) == 11 and min(S, T) >= 3 and 10 <= H * D <= 18 and H <= 4 and L <= 3:
            return Sizes(B, S, T, read, written, H, D, wide, L, length)


def weights_of(draw, s, dtype):
    """By name; none of them is 0 or 1."""
    C = s.H * s.D
    weights = {}
    for side, words in {"source": s.read, "target": s.written}.items():
        weights[f"embed_{side}.token.weight"] = draw.normal(words, C, dtype=dtype)
        weights[f"embed_{side}.position.weight"] = draw.normal(s.length, C, dtype=dtype)
    for name, attentions in {"encoder": ENCODER, "decoder": DECODER}.items():
        for layer in range(s.L):
            block = post_weights(draw, attentions, C, s.wide, dtype)
            weights |= {f"{name}.{layer}.{part}": weight for part, weight in block.items()}
    return weights | linear_weights(draw, "head", C, s.written, False, dtype)


def oracle(case, weights, source, decoder_input, source_pad_mask=None):
    """PyTorch's own operators, one after the other."""

    def embedded(side, ids):
        table = under(weights, f"embed_{side}")
        tokens = F.embedding(ids, table["token.weight"])
        return tokens + table["position.weight"][: ids.shape[1]]

    context, x = embedded("source", source), embedded("target", decoder_input)
    for layer in range(case.options["layers"]):
        block = under(weights, f"encoder.{layer}")
        context = encoder_oracle(case, block, context, source_pad_mask)
    for layer in range(case.options["layers"]):
        block = under(weights, f"decoder.{layer}")
        x = decoder_oracle(case, block, x, context, None, source_pad_mask)
    return F.linear(x, weights["head.weight"])


def cases(seed):
    draw = Draw(seed)

    def case(name, s=None, **options):
        s = s or sizes(draw)
        return clear_of_the_kink(lambda: drawn(name, s, **options), oracle)

    def drawn(name, s, roles="", mask=False, dtype=torch.float32, **options):
        inputs = {
            "source": torch.randint(s.read, (s.B, s.S), generator=draw.generator),
            "decoder_input": torch.randint(s.written, (s.B, s.T), generator=draw.generator),
        }
        if mask:
            inputs["source_pad_mask"] = padding_behind(draw, s.B, s.S)
        arguments = {
            "source_vocab_size": s.read,
            "target_vocab_size": s.written,
            "d_model": s.H * s.D,
            "num_heads": s.H,
            "d_ff": s.wide,
            "num_layers": s.L,
            "context_length": s.length,
        }
        options |= {"heads": s.H, "layers": s.L, "others": {"num_layers": 1, "dropout": 0.9}}
        return class_case(name, inputs, arguments, weights_of(draw, s, dtype), roles, **options)

    one_layer = Sizes(1, 3, 4, 9, 11, 1, 6, 7, 1, 5)
    double = {"dtype": torch.float64, "by_name": True, "more": {"dropout": 0.0}}
    padded, small = {"mask": True, "once": True}, {"roles": "small", "once": True}
    as_many, dropping = Sizes(3, 5, 5, 11, 13, 2, 6, 7, 2, 5), Sizes(5, 3, 4, 9, 11, 2, 6, 7, 2, 8)
    return [
        case("short texts, one layer, one head", one_layer, roles="small"),
        case("random words", roles="typical"),
        case("float64, sources padded, made by name", roles="padded", mask=True, **double),
        case("as many tokens in both texts, padded", as_many, roles="small device", **padded),
        case("one token each", Sizes(4, 1, 1, 9, 7, 3, 4, 5, 2, 6), **small),
        case("dropout", dropping, roles="dropout small", more={"dropout": 0.4}),
    ]


def see_rates(make, case, observed):
    """The rates of dropout."""
    if "dropout" in case.roles:
        blocks = [*make().encoder, *make().decoder]
        rates = [m.p for block in blocks for m in block.modules() if isinstance(m, nn.Dropout)]
        observed.traits["rates"] = sorted({round(p, 6) for p in rates})


def other_padding(case):
    source = case["source"]
    return {"source": torch.where(case["source_pad_mask"], (source + 1) % source.max(), source)}


def alike(case):
    words = case["decoder_input"]
    return {"decoder_input": words[:, :1].expand_as(words)}


more = {
    "typical": {
        "source -1": other_word("source", -1, "embed_source.token.weight"),
        "decoder_input 0": other_word("decoder_input", 0, "embed_target.token.weight"),
        "decoder_input -1": other_word("decoder_input", -1, "embed_target.token.weight"),
        "turned": lambda case: {"source": case["source"].flip(1)},
        "alike": alike,
    },
    "padded": {"other padding": other_padding},
}
probe = ModuleProbe(gradients=(), watch=False, more=more, extra=see_rates)
expect = expect_module(oracle, gradients=())


@true_of("A later word of the target does not affect an earlier one", credit=True, role="typical")
def no_future(case, observed, expected):
    out, other = observed.tensors["out"], observed.tensors["decoder_input -1"]
    return near(out[:, :-1], other[:, :-1]) if out.shape == other.shape else None


@true_of("The order of the source's words makes a difference", credit=True, role="typical")
def source_order(case, observed, expected):
    return not near(observed.tensors["out"], observed.tensors["turned"])


@true_of("The position of a target word makes a difference", credit=True, role="typical")
def target_positions(case, observed, expected):
    alike = observed.tensors["alike"]
    return not near(alike[:, 1:], alike[:, :-1])


@true_of("The source's padding does not affect the logits", credit=True, role="padded")
def padding(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["other padding"])


@true_of("`dropout` reaches every block", secondary=True, role="dropout")
def dropout(case, observed, expected):
    rates, asked = observed.traits["rates"], case.options["kwargs"]["dropout"]
    return rates == [asked] or f"drops with probability {', '.join(map(str, rates)) or '0'}"


properties = (
    Property(
        "listens",
        "What is written depends on the source",
        depends_on("source", -1, by=-1),
        gate=True,
        role="typical",
    ),
    Property(
        "looks_back",
        "A word depends on the words written before it",
        depends_on("decoder_input", 0, by=-1),
        credit=True,
        role="typical",
    ),
    no_future,
    source_order,
    target_positions,
    padding,
    dropout,
    *MODULE_PROPERTIES,
)

# Each block's steps round a stream of size 5 or so, and the errors of all blocks add up.
tolerance = {torch.float32: 1e-4, torch.float64: 1e-6}
