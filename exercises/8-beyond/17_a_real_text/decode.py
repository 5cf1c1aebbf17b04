"""How an answer to `decode` is judged."""

import torch

from exercises.shared.byte_pairs import PlainProbe, bytes_as_tensor, learn, words
from whywrong import Case, Draw, true_of


def cases(seed):
    draw = Draw(seed)
    merges, _ = learn(words(draw, 14, 8, b"abcd"), 8)

    def case(name, ids, merges, roles=""):
        return Case(name, {"ids": ids, "merges": dict(merges)}, roles=frozenset(roles.split()))

    some = [draw.integer(97, 100) for _ in range(4)]
    every = [*some, *merges.values(), *some]
    order = torch.randperm(len(every), generator=draw.generator).tolist()
    euro = {(226, 130): 256, (256, 172): 257}
    return [
        case("three ids by hand", [257, 108, 121], {(108, 111): 256, (256, 119): 257}, "small"),
        case("every merge", [every[i] for i in order], merges, "typical"),
        case("single bytes", some, merges, "small"),
        case("bytes above 127", [120, 257, 200, 256], euro, "small"),
        case("white space", [32, 10, 256, 256, 9], {(10, 32): 256}, "small"),
        case("no ids", [], merges, "small"),
    ]


probe = PlainProbe("bytes", bytes_as_tensor)


def expect(case):
    """Each merged id is replaced by its pair until only bytes are left."""
    pairs = {new: pair for pair, new in case["merges"].items()}
    ids = list(case["ids"])
    while any(id > 255 for id in ids):
        ids = [part for id in ids for part in pairs.get(id, (id,))]
    return {"out": torch.tensor(ids, dtype=torch.int64)}


@true_of("There are as many bytes as the tokens have", credit=True, gate=True, role="typical")
def as_long(case, observed, expected):
    return observed.tensors["out"].shape == expected["out"].shape


properties = (as_long,)
letters = {"merges": None}
