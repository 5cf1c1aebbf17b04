"""How an answer to `TokenAndPosition` is judged."""

from dataclasses import replace

import torch
from torch import nn

from exercises.shared.classes import class_case, nothing_kept, see_turns
from exercises.shared.models import other_word
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    expect_module,
    near,
    set_seed,
    true_of,
)


def cases(seed):
    draw = Draw(seed)
    B, T, C, more = draw.sizes(4, 3, 7)
    length = T + more + 4
    by_hand = torch.tensor([[2, 0, 2]])
    short = torch.tensor([[1, 6, 0, 4]] * 2, dtype=torch.int32)
    turned = torch.randint(11, (6, 3), generator=draw.generator).T
    double = torch.float64
    return [
        case_of(draw, "three tokens by hand", (1, 3, 4, 5, 2), by_hand, roles="small"),
        case_of(draw, "random ids", (B, T, length + 6, length, C), roles="typical"),
        case_of(draw, "as many tokens as fit", (2, 6, 9, 6, 4), roles="small device"),
        case_of(draw, "fewer words than positions, by name", (3, 5, 4, 13, 7), by_name=True),
        case_of(draw, "float64", (4, 3, 12, 8, 5), dtype=double),
        case_of(draw, "one word, again and again", (2, 5, 8, 9, 4), torch.full((2, 5), 3)),
        case_of(draw, "one token", (3, 1, 7, 5, 2), roles="small"),
        case_of(draw, "one sequence", (1, 7, 10, 8, 3), roles="small"),
        case_of(draw, "as many sequences as tokens", (5, 5, 11, 9, 6), roles="small"),
        case_of(draw, "int32", (2, 4, 7, 9, 3), short),
        case_of(draw, "not contiguous", (3, 6, 11, 8, 4), turned),
    ]


def case_of(draw, name, sizes, ids=None, dtype=torch.float32, by_name=False, roles=""):
    """A case of the sizes B, T, V, the context length and C."""
    B, T, V, length, C = sizes
    if ids is None:
        ids = torch.randint(V, (B, T), generator=draw.generator)
        ids[0, 0], ids[-1, -1] = V - 1, 0
    arguments = {"vocab_size": V, "context_length": length, "d_model": C}
    weights = {
        "token.weight": draw.normal(V, C, dtype=dtype),
        "position.weight": draw.normal(length, C, dtype=dtype),
    }
    others = {"context_length": 1}
    return class_case(name, {"ids": ids}, arguments, weights, roles, by_name=by_name, others=others)


def oracle(case, weights, ids):
    """By one-hot rows instead of a lookup."""
    token, position = weights["token.weight"], weights["position.weight"]
    return nn.functional.one_hot(ids.long(), len(token)).double() @ token + position[: ids.shape[1]]


def see_tables(make, case, observed):
    """Calls by turns; the tables as they are made."""
    see_turns(make, case, observed)
    if "typical" in case.roles:
        set_seed(5)
        large = type(make())(300, 200, 8)
        spread = [t.std().item() for t in (large.token.weight, large.position.weight)]
        observed.facts["traits"]["usual"] = all(0.9 < s < 1.1 for s in spread)


more = {"typical": {"changed": other_word("ids", 0, "token.weight")}}
probe = ModuleProbe(gradients=(), more=more, extra=see_tables)
expect = expect_module(oracle, gradients=())


def one_word(case):
    return bool((case["ids"] == case["ids"][:1, :1]).all())


@true_of("Another word gives another row", gate=True, role="typical")
def words(case, observed, expected):
    return not near(observed.tensors["out"][:, 0], observed.tensors["changed"][:, 0])


@true_of("A token's row doesn't depend on the other tokens", credit=True, role="typical")
def silent(case, observed, expected):
    return near(observed.tensors["out"][:, 1:], observed.tensors["changed"][:, 1:])


@true_of("The same word at two positions differs by two rows of `position`", credit=True)
def places(case, observed, expected):
    rows = case.options["weights"]["position.weight"][: case["ids"].shape[1]]
    out = observed.tensors["out"]
    return near(out - out[:, :1], (rows - rows[:1]).expand_as(out)) if one_word(case) else None


@true_of("A text gives the same result anywhere in a batch", credit=True)
def sequences(case, observed, expected):
    out = observed.tensors["out"]
    return near(out, out[:1].expand_as(out)) if one_word(case) and len(out) > 1 else None


@true_of(
    "Both tables are initialised as `nn.Embedding` does it",
    secondary=True,
    role="typical",
    breaks="The tables are not initialised as `nn.Embedding` does it",
)
def usual(case, observed, expected):
    return bool(observed.traits["usual"])


parameters, registered = MODULE_PROPERTIES
rows = replace(
    parameters,
    text="It learns its two tables and nothing else",
    breaks="Its trainable parameters are not its two tables alone",
)
properties = (words, silent, places, sequences, nothing_kept, usual, rows, registered)
