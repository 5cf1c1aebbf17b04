"""Lesson 10, first part: a whole small language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import language_model, transformer
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
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.heads import linear_weights, projections
from .kit.steps import Refusing

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- TinyLM


class Model(Refusing, nn.Module):
    """The right answer in steps."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        self.blocks = self.listed(
            [
                self.block(d_model, num_heads, context_length, dropout)
                for _ in range(self.layers(num_layers))
            ]
        )
        self.norm = self.last_norm(d_model)
        self.head = self.last_layer(d_model, vocab_size)

    def block(self, d_model, num_heads, context_length, dropout):
        return transformer.TransformerBlock(d_model, num_heads, context_length, self.rate(dropout))

    def rate(self, dropout):
        return dropout

    def layers(self, num_layers):
        return num_layers

    def listed(self, blocks):
        return nn.ModuleList(blocks)

    def last_norm(self, d_model):
        return transformer.LayerNorm(d_model)

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        return self.result(self.read(self.through(self.embedded(self.accepted(ids)))))

    def accepted(self, ids):
        if self.too_many(ids.shape[1], self.context_length):
            self.complain(ids.shape[1], self.context_length)
        return ids

    def embedded(self, ids):
        return self.embed(ids)

    def through(self, x):
        for block in self.blocks:
            x = self.passed(block, x)
        return x

    def passed(self, block, x):
        return block(x)

    def read(self, x):
        return self.head(self.norm(x))

    def result(self, logits):
        return logits


class NormNotUsed(Mistake):
    """The last norm is made and never called.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: Between the last block and `head`, who brings each token to one size?
    """

    def read(self, x):
        return self.head(x)


class NormNotMade(Mistake):
    """There is no last norm.

    Why: The stream grows from block to block, and with it the logits, as deep as the model is.
    Mend: `self.norm = transformer.LayerNorm(d_model)`, between the last block and `head`.
    """

    def last_norm(self, d_model):
        return None

    def read(self, x):
        return self.head(x)


class NormOfPyTorch(Mistake):
    """The last norm is PyTorch's own, which calls its parameters `weight` and `bias`.

    Why: Weights of a model are loaded by name.
    Mend: The course's `transformer.LayerNorm` has `scale` and `shift`.
    """

    def last_norm(self, d_model):
        return nn.LayerNorm(d_model)


class NormBeforeTheBlocks(Mistake):
    """The norm stands before the blocks, not after them.

    Why: What the blocks add is left as large as it comes, and `head` gets it so.
    Mend: Pre-LN leaves the end of the stream without a norm: that is where this one belongs.
    """

    def through(self, x):
        return super().through(self.norm(x))

    def read(self, x):
        return self.head(x)


class NormAfterEachBlock(Mistake):
    """The last norm is called after each block.

    Why: The free way from input to output is gone, and all places share one scale.
    Mend: Once, after the loop: look at the indentation.
    """

    def passed(self, block, x):
        return self.norm(block(x))

    def read(self, x):
        return self.head(x)


class HeadWithBias(Mistake):
    """`head` has a bias.

    Why: Weights of a model that has none don't say what it should be.
    Mend: `bias=False`.
    """

    def last_layer(self, d_model, vocab_size):
        return nn.Linear(d_model, vocab_size)


class HeadTied(Mistake):
    """`head` uses the weight of the token embedding.

    Why: GPT-2 does; here they are two tables, so whoever sets one would change the other.
    Mend: Leave out the line that assigns one weight to the other.
    """

    def last_layer(self, d_model, vocab_size):
        head = super().last_layer(d_model, vocab_size)
        head.weight = self.embed.token.weight
        return head


class OneBlockForAll(Mistake):
    """All layers are one and the same block: `[block] * n` repeats it.

    Why: The model learns as much as one layer can hold, however many there are.
    Mend: Make a new block for each layer: `TransformerBlock(…) for _ in range(num_layers)`.
    """

    def listed(self, blocks):
        return nn.ModuleList([blocks[0]] * len(blocks))


class FirstBlockOnly(Mistake):
    """Only one of the blocks is used.

    Why: The others never learn.
    Mend: What does the loop call, and with what?
    """

    def through(self, x):
        return self.blocks[0](x)


class EachBlockFromTheStart(Mistake):
    """Each block gets the embedding, and only the last one's result counts.

    Why: The others never learn; the model is one layer deep.
    Mend: `x = block(x)`: the next block goes on where the last one ended.
    """

    def through(self, x):
        for block in self.blocks:
            out = block(x)
        return out


class LastBlockLeftOut(Mistake):
    """The last block is never called.

    Why: It never learns, and the model is one layer less deep.
    Mend: How often does your loop run?
    """

    def through(self, x):
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class BlocksInReverse(Mistake):
    """The blocks are called from the last to the first.

    Why: Weights of a trained model belong to places.
    Mend: `for block in self.blocks` goes from the first to the last.
    """

    def through(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


class AddedAgain(Mistake):
    """What goes into a block is added to what comes out of it.

    Why: A block has its residuals inside; added again, the stream doubles with every layer.
    Mend: `x = block(x)`.
    """

    def passed(self, block, x):
        return x + block(x)


class BlocksInAPlainList(Mistake):
    """The blocks sit in a plain Python list.

    Why: PyTorch doesn't see into it: no optimizer, no `.to(device)` and no saving finds them.
    Mend: `nn.ModuleList` is a list that PyTorch sees into.
    """

    def listed(self, blocks):
        return list(blocks)


class AllInOneSequential(Mistake):
    """All parts sit in one `nn.Sequential`, where their names are numbers.

    Why: Weights are loaded by name: `embed`, `blocks`, `norm`, `head`.
    Mend: Give each part a name of its own; only the blocks are a list.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.model = nn.Sequential(self.embed, *self.blocks, self.norm, self.head)
        del self.embed, self.blocks, self.norm, self.head

    def forward(self, ids):
        return self.model(self.accepted(ids))


class EmbeddingWithoutPositions(Mistake):
    """`embed` is a table of tokens alone; there are no positions.

    Why: Attention can't tell "dog bites man" from "man bites dog".
    Mend: `transformer.TokenAndPosition` holds both tables.
    """

    def __init__(self, vocab_size, d_model, *args, **named):
        super().__init__(vocab_size, d_model, *args, **named)
        self.embed = nn.Embedding(vocab_size, d_model)


class PositionsNotAdded(Mistake):
    """Only the token table is read; positions are made and never added.

    Why: Attention can't tell "dog bites man" from "man bites dog".
    Mend: Call `self.embed(ids)`; it adds them itself.
    """

    def embedded(self, ids):
        return self.embed.token(ids)


class PositionsAddedTwice(Mistake):
    """Positions are added twice: `embed` does it already.

    Why: Where a token stands then drowns what it says.
    Mend: `self.embed(ids)` is all.
    """

    def embedded(self, ids):
        return self.embed(ids) + self.embed.position.weight[: ids.shape[1]]


class EmbeddingScaled(Mistake):
    """The embedding was multiplied by the root of the width.

    Why: The first transformer did; GPT-2 and this model don't.
    Mend: `x = self.embed(ids)`, as it comes.
    """

    def embedded(self, ids):
        return self.embed(ids) * self.embed.token.embedding_dim**0.5


class EmbeddingArgumentsSwapped(Mistake):
    """`TokenAndPosition` got its sizes in another order.

    Why: Its tables have other shapes than the model needs.
    Mend: `TokenAndPosition(vocab_size, context_length, d_model)`.
    """

    def __init__(self, vocab_size, d_model, num_heads, context_length, *args, **named):
        super().__init__(vocab_size, d_model, num_heads, context_length, *args, **named)
        self.embed = transformer.TokenAndPosition(vocab_size, d_model, context_length)


class DropoutForgotten(Mistake):
    """`dropout` never reaches the blocks.

    Why: The model trains without it, whatever the caller asked for.
    Mend: Pass it on to each `TransformerBlock`.
    """

    def rate(self, dropout):
        return 0.0


class DropoutFixedInBlocks(Mistake):
    """The blocks have a dropout of their own, whatever the caller asks for.

    Why: With `dropout=0.0` training should be as exact as evaluation.
    Mend: Pass the constructor's argument on.
    """

    def rate(self, dropout):
        return 0.1


class DropoutOutside(Mistake):
    """Something is dropped outside the blocks, too.

    Why: Each block drops its own; what `head` gives are the logits, and they are wanted whole.
    Mend: `dropout` goes to the blocks, and nowhere else.
    """

    def rate(self, dropout):
        self.p = dropout
        return dropout

    def result(self, logits):
        return F.dropout(logits, self.p, self.training)


class LengthAndLayersSwapped(Mistake):
    """The constructor takes `num_layers` before `context_length`.

    Why: Whoever passes them by position gets another model, or none.
    Mend: Compare the order with the one that was given: …, context_length, num_layers, dropout.
    """

    def __init__(self, vocab_size, d_model, num_heads, num_layers, context_length, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)


class ContextLengthNotKept(Mistake):
    """The model has no `context_length`.

    Why: Whoever generates text must know how much of it the model can see.
    Mend: `self.context_length = context_length`.
    """

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.limit = self.context_length
        del self.context_length

    def accepted(self, ids):
        if ids.shape[1] > self.limit:
            self.complain(ids.shape[1], self.limit)
        return ids


class LongTextTail(Mistake):
    """Of a text that is too long the last tokens were taken, without a word.

    Why: The caller gets logits for fewer tokens than they gave.
    Mend: Refuse it: raise a ValueError with both numbers. Cropping is what `generate` does.
    """

    def accepted(self, ids):
        return ids[:, -self.context_length :]


class ProbabilitiesReturned(Mistake):
    """Probabilities are returned: there is a softmax at the end.

    Why: `cross_entropy` takes the softmax itself, and twice is nearly flat.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.softmax(logits, dim=-1)


class LogsReturned(Mistake):
    """The logs of probabilities are returned: there is a log-softmax at the end.

    Why: The loss wouldn't notice, but these are not the logits of the model that was asked for.
    Mend: Logits are asked: what `head` gives.
    """

    def result(self, logits):
        return torch.log_softmax(logits, dim=-1)


class LastLogitsOnly(Mistake):
    """Only the logits of the last token are returned.

    Why: In training every position foretells its next token.
    Mend: `(B, T, V)` is asked.
    """

    def result(self, logits):
        return logits[:, -1]


class StreamReturned(Mistake):
    """What the last norm gives is returned; `head` is never called.

    Why: Numbers of width C are no scores of words.
    Mend: One layer is left: from `d_model` to `vocab_size`.
    """

    def read(self, x):
        return self.norm(x)


def _model_weights(
    draw: Draw, V: int, C: int, context: int, L: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Weights of a model by name; none of them is 0 or 1."""

    def norm(name: str) -> dict[str, Tensor]:
        scale, shift = 1 + draw.normal(C, dtype=dtype) / 3, draw.normal(C, dtype=dtype) / 3
        return {f"{name}.scale": scale, f"{name}.shift": shift}

    weights = {
        "embed.token.weight": draw.normal(V, C, dtype=dtype),
        "embed.position.weight": draw.normal(context, C, dtype=dtype) / 2,
    }
    for layer in range(L):
        block = (
            norm("norm1")
            | {f"attention.{n}": w for n, w in projections(draw, C, C, False, dtype).items()}
            | linear_weights(draw, "attention.out_proj", C, C, True, dtype)
            | norm("norm2")
            | linear_weights(draw, "feed_forward.expand", C, 4 * C, True, dtype)
            | linear_weights(draw, "feed_forward.contract", 4 * C, C, True, dtype)
        )
        weights |= {f"blocks.{layer}.{name}": w for name, w in block.items()}
    return weights | norm("norm") | linear_weights(draw, "head", C, V, False, dtype)


def _model_oracle(case: Case, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """PyTorch's own operators, one after the other."""

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.shift"])

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    H, L = case.options["heads"], case.options["layers"]
    x = F.embedding(ids, weights["embed.token.weight"])
    x = x + weights["embed.position.weight"][: ids.shape[1]]
    for block in (f"blocks.{layer}" for layer in range(L)):
        normed = norm(f"{block}.norm1", x)
        query, key, value = (
            linear(f"{block}.attention.{n}", normed).unflatten(-1, (H, -1)).transpose(1, 2)
            for n in ("query", "key", "value")
        )
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(f"{block}.attention.out_proj", context.transpose(1, 2).flatten(2))
        wide = F.gelu(
            linear(f"{block}.feed_forward.expand", norm(f"{block}.norm2", x)), approximate="tanh"
        )
        x = x + linear(f"{block}.feed_forward.contract", wide)
    return F.linear(norm("norm", x), weights["head.weight"])


def _model_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        sizes: tuple[int, ...] = (),
        *,
        made: str = "",
        roles: str = "",
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
        once: bool = False,
        refuses: tuple[str, ...] | None = None,
        train: bool = False,
    ) -> Case:
        """Sizes are B, T, V, H, D, context_length, L."""
        B, T, V, H, D, context, L = sizes or _seven(draw)
        ids = torch.randint(V, (B, T), generator=draw.generator)
        named: dict[str, Any] = {
            "vocab_size": V,
            "d_model": H * D,
            "num_heads": H,
            "context_length": context,
            "num_layers": L,
        }
        options: dict[str, Any] = {"args": tuple(named.values()), "kwargs": {}}
        if made == "by name":
            options = {"args": (), "kwargs": named | {"dropout": 0.0}}
        if dropout:
            options["kwargs"] = {"dropout": dropout}
        options |= {"heads": H, "layers": L, "dtype": dtype, "once": once, "train": train}
        if refuses is None:
            options["weights"] = _model_weights(draw, V, H * D, context, L, dtype)
        if "typical" in roles:
            options["others"] = [((V + 1, H * D, H, 1, 1), {"dropout": 0.9})]
        return Case(name, {"ids": ids}, refuses, options, frozenset(roles.split()))

    limit = draw.integer(14, 17)

    def too_long(name: str, T: int, train: bool = False) -> Case:
        sizes = (3, T, 11, 2, 4, limit, 5)
        return case(name, sizes, refuses=(str(T), str(limit)), train=train)

    return [
        case("three tokens, one layer, one head", (1, 3, 5, 1, 9, 3, 1), roles="small"),
        case("random tokens", roles="typical"),
        case("float64, made by name", dtype=torch.float64, made="by name"),
        case("as many tokens as fit, two layers", (3, 7, 11, 2, 5, 7, 2), roles="small device"),
        case("one token", (6, 1, 7, 3, 4, 5, 2), roles="small"),
        case("dropout", (5, 8, 13, 2, 5, 9, 2), dropout=0.4, roles="dropout small"),
        case(
            "300 texts, 50 words, four layers", (300, 3, 50, 2, 6, 7, 4), once=True, roles="small"
        ),
        too_long("one token too many", limit + 1),
        too_long("one token too many, in training", limit + 1, train=True),
        too_long("twice as many tokens as fit", 2 * limit),
    ]


def _seven(draw: Draw) -> tuple[int, ...]:
    """B, T, V, H, D, context_length and L, all different, and so are the widths H D and 4 H D.

    A norm over few channels magnifies rounding where these happen to be nearly equal.
    """
    while True:
        B, T, V, H, D, L = draw.sizes(6, 2, 10)
        context = T + draw.integer(1, 5)
        every = {B, T, V, H, D, L, context, H * D, 4 * H * D}
        if len(every) == 9 and T >= 4 and 10 <= H * D <= 18 and L <= 3 and V >= 4:
            return B, T, V, H, D, context, L


def _see_model(make: Callable[..., Any], case: Case, seen: Observation) -> None:
    """More calls: another last token, one token everywhere, draws of dropout; what it keeps."""
    ids = case["ids"]
    if "typical" in case.roles:
        V = case.options["args"][0]
        changed = ids.clone()
        changed[:, -1] = (changed[:, -1] + 1) % V
        first = ids.clone()
        first[:, 0] = (first[:, 0] + 1) % V
        model = make()
        with torch.no_grad():
            seen.put("short", model(ids[:1, :2]))
            for name, other in (("changed", changed), ("first", first)):
                seen.put(name, model(other))
            seen.put("same", model(ids[:, :1].expand_as(ids)))
            seen.put("long again", model(ids))
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
    quiet = model(fresh(case["ids"]))
    still = seen.tensors["out"]
    seen.traits["rates"] = sorted({round(p, 6) for p in rates})
    seen.traits["draws"] = bool(isinstance(one, Tensor) and not near(one.cpu(), other.cpu()))
    seen.traits["only blocks"] = bool(
        isinstance(quiet, Tensor) and near(quiet.detach().cpu(), still)
    )


def _dropped(case: Case, seen: Observation, expected: Expected) -> Verdict:
    traits = seen.traits
    if not traits["draws"]:
        return "drops nothing"
    if traits["rates"] != [case.options["kwargs"]["dropout"]]:
        return f"drops with probability {', '.join(map(str, traits['rates']))}"
    return traits["only blocks"] or "drops something outside the blocks too"


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, -1], seen.tensors["first"][:, -1])


def _no_future(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, :-1], seen.tensors["changed"][:, :-1])


def _knows_places(case: Case, seen: Observation, expected: Expected) -> Verdict:
    same = seen.tensors["same"]
    return not near(same[:, 1:], same[:, :-1])


def _any_length(case: Case, seen: Observation, expected: Expected) -> Verdict:
    out = seen.tensors["out"]
    return near(seen.tensors["short"], out[:1, :2]) and near(seen.tensors["long again"], out)


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
    expect=expect_module(_model_oracle, gradients=()),
    reference=language_model.TinyLM,
    properties=(
        Property(
            "listens", "A token hears the tokens before it", _listens, gate=True, role="typical"
        ),
        Property(
            "no_future",
            "A later token has no say in an earlier one",
            _no_future,
            credit=True,
            role="typical",
        ),
        Property(
            "places",
            "Where a token stands makes a difference",
            _knows_places,
            credit=True,
            role="typical",
        ),
        Property(
            "any_length",
            "Short texts come out as their longer ones begin, whatever came before",
            _any_length,
            credit=True,
            role="typical",
        ),
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
        NormNotUsed,
        NormNotMade,
        HeadWithBias,
        HeadTied,
        OneBlockForAll,
        BlocksInAPlainList,
        AllInOneSequential,
        PositionsNotAdded,
        EmbeddingWithoutPositions,
        DropoutForgotten,
        NormOfPyTorch,
        NormBeforeTheBlocks,
        NormAfterEachBlock,
        FirstBlockOnly,
        EachBlockFromTheStart,
        LastBlockLeftOut,
        BlocksInReverse,
        AddedAgain,
        PositionsAddedTwice,
        EmbeddingScaled,
        EmbeddingArgumentsSwapped,
        DropoutFixedInBlocks,
        DropoutOutside,
        LengthAndLayersSwapped,
        ContextLengthNotKept,
        m.LongTextCut,
        LongTextTail,
        m.FullLengthRefused,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        ProbabilitiesReturned,
        LogsReturned,
        LastLogitsOnly,
        StreamReturned,
        m.Float32Result,
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
