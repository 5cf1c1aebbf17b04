"""How an answer to `sliding_windows` is judged."""

from itertools import pairwise

import torch
from torch import Tensor

from exercises.shared.pairs import as_pair, kind_of
from whywrong import Case, Draw, FunctionProbe, expect_function, true_of

PAIR = "a pair of tensors, (inputs, targets)"


def cases(seed):
    draw = Draw(seed)

    def case(name, N, length, stride, roles="", **options):
        ids = torch.randperm(10 * N + 3, generator=draw.generator)[:N]  # each once: it shows where
        inputs = {"ids": ids, "length": length, "stride": stride}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    length, stride = draw.sizes(2, 3, 8)
    more = draw.integer(1, stride - 1)
    few = {"ids": torch.tensor([4, 9, 4, 4, 9, 1, 4, 9, 4, 1]), "length": 3, "stride": 2}
    six = {"ids": torch.tensor([7, 3, 5, 2, 8, 6]), "length": 3, "stride": 2}
    by_name = ("ids", "length", "stride")
    return [
        Case("six tokens by hand", six, roles={"small"}),
        Case("tokens that come again", few, roles={"small"}),
        case("random tokens", length + 4 * stride + more, length, stride, "typical"),
        case("a window at the end of the text", length + 3 * stride + 1, length, stride, "small"),
        case("one token too few for the last", length + 3 * stride, length, stride, "small"),
        case("side by side", 26, 5, 5, "small", keywords=by_name),
        case("gaps between windows", 29, 3, 7),
        case("a stride of one", 13, 4, 1, "small"),
        case("one window and the token after it", length + 1, length, stride, "small"),
        case("windows of one token", 9, 1, 2, "small"),
    ]


class PairProbe(FunctionProbe):
    """As `FunctionProbe`, for an answer that returns two tensors of one shape: `out` holds both."""

    def __call__(self, answer, case):
        return as_pair(super().__call__(stacked(answer), case), PAIR, "out")

    def glance(self, answer, case):
        return as_pair(super().glance(stacked(answer), case), PAIR, "out")


def stacked(answer):
    def call(*args, **named):
        out = answer(*args, **named)
        if isinstance(out, Tensor) and (out.dim() == 0 or len(out) != 2):
            return kind_of("one tensor")
        if not isinstance(out, tuple | list):
            return out  # two in one, which can be taken apart as a pair can; or something else
        if len(out) != 2 or not all(isinstance(part, Tensor) for part in out):
            what = f"{type(out).__name__} of {len(out)}"
            return in_parts(what, [type(part).__name__ for part in out[:4]])
        if out[0].shape != out[1].shape:
            return in_parts("two tensors of different shapes", [tuple(part.shape) for part in out])
        return torch.stack(tuple(out))

    return call


def in_parts(said, parts):
    return kind_of(f"{said}: {', '.join(map(str, parts))}" if parts else said)


def oracle(ids, length, stride):
    rows, text, start = [], ids.tolist(), 0
    while start + length + 1 <= len(text):
        rows.append(text[start : start + length + 1])
        start += stride
    windows = torch.tensor(rows)
    return torch.stack([windows[:, :-1], windows[:, 1:]])


probe = PairProbe()
expect = expect_function(oracle)


@true_of("Each row, of inputs and of targets, is a piece of the text", gate=True, role="typical")
def pieces(case, observed, expected):
    text = case["ids"].tolist()
    found = {tuple(text[i : i + case["length"]]) for i in range(len(text))}
    return all(tuple(row) in found for row in observed.tensors["out"].flatten(0, 1).tolist())


@true_of("The inputs are the right windows", credit=True)
def inputs(case, observed, expected):
    return bool((observed.tensors["out"][0] == expected["out"][0]).all())


@true_of("Each target is the token right after its input", credit=True)
def next_one(case, observed, expected):
    following = dict(pairwise(case["ids"].tolist()))
    if len(following) < len(case["ids"]) - 1:  # a token that comes again has several followers
        return None
    inputs, targets = observed.tensors["out"].flatten(1).tolist()
    return all(following.get(a) == b for a, b in zip(inputs, targets, strict=True))


def last_is_missing(trials):
    """However the windows were counted."""
    pairs = [(t.observed.tensors["out"].flatten(2), t.expected["out"]) for t in trials]
    lost = [expected.shape[1] - out.shape[1] for out, expected in pairs]
    same = all(torch.equal(out, expected[:, : out.shape[1]]) for out, expected in pairs)
    return same and max(lost) == 1


properties = (pieces, inputs, next_one)
signs = {"last_window_forgotten": last_is_missing}

letters = {"ids": "tokens", "length": "length", "stride": "stride"}
