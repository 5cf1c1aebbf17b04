"""How an answer to `padding_mask` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, true_of


def cases(seed):
    draw = Draw(seed)
    low, high, longest = sorted(draw.sizes(3, 2, 8))
    several = torch.tensor(draw.sizes(6, 1, 9))

    def case(name, lengths, max_length, *roles, **options):
        inputs = {"lengths": lengths, "max_length": max_length}
        return Case(name, inputs, options=options, roles=set(roles))

    return [
        case("two texts by hand", [2, 3], 4),
        case("a tensor of lengths", several, 11, "typical", "several"),
        case("a list of lengths", [high, low, high], longest, "several"),
        case("a full text", [longest, low], longest),
        case("a full text, as a tensor", torch.tensor([low, high]), high),
        case("a text without tokens", [low, 0], high),
        case("a text without tokens, as a tensor", torch.tensor([0, high, low]), longest),
        case("one text", [low], high, "small"),
        case("as many texts as positions", [1, 0, 3, 4], 4, "small"),
        case("all of one length, int32", torch.tensor([low] * 3).int(), longest + 1, "stability"),
        case("by name", [low, high, 1], longest + 2, keywords=("lengths", "max_length")),
        case("long texts", [longest, 128, 90 + low], 130, "stability"),
    ]


def oracle(lengths, max_length):
    counts = lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths
    rows = [[False] * n + [True] * (max_length - n) for n in counts]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(counts), max_length)


def forget_device(answer, case, observed):
    """A list has no device that the mask should be on."""
    if not isinstance(case["lengths"], torch.Tensor):
        observed.facts.pop("device", None)


probe = FunctionProbe(extra=forget_device)
expect = expect_function(oracle)


@true_of("Each text has a row of its own", gate=True, role="several")
def each_row(case, observed, expected):
    rows = observed.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


@true_of("Each row marks max_length - length positions", credit=True)
def counts(case, observed, expected):
    return bool((observed.tensors["out"].sum(1) == expected["out"].sum(1)).all())


@true_of("In each row the tokens come first", credit=True)
def tokens_first(case, observed, expected):
    return bool((observed.tensors["out"].double().diff(dim=1) >= 0).all())


properties = (each_row, counts, tokens_first)

letters = {"lengths": "B", "max_length": "S"}
