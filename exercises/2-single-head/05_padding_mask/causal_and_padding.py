"""How an answer to `causal_and_padding` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, true_of


def cases(seed):
    draw = Draw(seed)
    B, T = draw.sizes(2, 3, 8)
    n = draw.integer(4, 6)

    def case(name, pad_mask, *roles, **options):
        return Case(name, {"pad_mask": pad_mask}, options=options, roles=set(roles))

    def holes(*shape):
        """Padding at any position: nothing here depends on a sensible pattern."""
        return torch.rand(shape, generator=draw.generator) < 0.4

    def after_the_text(count, T):
        return torch.arange(T) >= torch.tensor(draw.sizes(count, 1, T - 1))[:, None]

    return [
        case("two of three by hand", torch.arange(3) >= torch.tensor([[2], [3]])),
        case("padding after the text", after_the_text(3, T + 2)),
        case("padding before the text", after_the_text(3, T + 2).flip(1)),
        case("padding anywhere", holes(B, T + 6), "typical"),
        case("as many texts as tokens", holes(n, n), "small"),
        case("no padding", torch.zeros(B, T, dtype=torch.bool), "none"),
        case("nothing but padding", torch.ones(2, T, dtype=torch.bool)),
        case("one token", torch.tensor([[False], [True], [False]]), "small"),
        case("one text", holes(1, T + 3), "small"),
        case("not contiguous in memory", holes(T + 8, B).T),
        case("by name", holes(B, T + 9), keywords=("pad_mask",)),
        case("long texts", holes(B, 130), "stability", once=True),
    ]


def oracle(pad_mask):
    position = torch.arange(pad_mask.shape[1])
    return (position > position[:, None]).logical_or(pad_mask[:, None, :])


probe = FunctionProbe()
expect = expect_function(oracle)


@true_of("Each text has a mask of its own", gate=True, role="typical")
def follows(case, observed, expected):
    rows = observed.tensors["out"].double()
    return rows.shape == expected["out"].shape and not bool((rows == rows[:1]).all())


@true_of("Without padding, only the future is hidden", credit=True, role="none")
def future(case, observed, expected):
    return torch.equal(observed.tensors["out"].bool(), expected["out"])


@true_of("A padded key is hidden from every query", credit=True)
def columns(case, observed, expected):
    return bool(observed.tensors["out"].bool().all(dim=-2)[case["pad_mask"]].all())


@true_of("A real token sees itself", credit=True)
def own(case, observed, expected):
    diagonal = ~observed.tensors["out"].bool().diagonal(dim1=-2, dim2=-1)
    return bool(diagonal[~case["pad_mask"]].all())


properties = (follows, future, columns, own)
