"""How an answer to `encode` is judged."""

from itertools import pairwise

import torch

from exercises.shared.byte_pairs import IDS, PlainProbe, apply, ids_as_tensor, learn, words
from whywrong import Case, Draw, true_of


def cases(seed):
    draw = Draw(seed)
    merges, _ = learn(words(draw, 14, 8, b"abcd"), 8)
    several, _ = learn(words(draw, 12, 7, b"abc"), 7)

    def case(name, piece, merges, roles=""):
        inputs = {"piece": piece, "merges": dict(merges)}
        return Case(name, inputs, roles=frozenset(roles.split()))

    def text(count, letters):
        return bytes(letters[draw.integer(0, len(letters) - 1)] for _ in range(count))

    by_hand = {(108, 111): 256, (256, 119): 257}
    # b c comes first, although a b begins earlier and would lead to the longer token a b c.
    order = {(98, 99): 256, (97, 98): 257, (257, 99): 258}
    late = {(98, 99): 256, (97, 256): 257, (97, 98): 258, (99, 100): 259}
    return [
        case("one piece by hand", b"lowly", by_hand, "small"),
        case("random letters", text(40, b"abcd"), merges, "typical"),
        case("the earliest merge isn't the leftmost", b"abcab", order, "small"),
        case("a token that only one order makes", b"abcbcd", late, "small"),
        case("more random letters", text(29, b"abc"), several),
        case("a pair again and again", b"aaaaaaa", {(97, 97): 256, (256, 256): 257}, "small"),
        case("nothing to merge", b"xyz", merges, "small"),
        case("one byte", b"a", merges, "small"),
        case("bytes above 127", bytes([195, 188, 195, 188]), {(195, 188): 256}, "small"),
        case("no merges", text(5, b"abcd"), {}, "small"),
    ]


probe = PlainProbe(IDS, ids_as_tensor)


def expect(case):
    return {"out": torch.tensor(apply(case["piece"], case["merges"]), dtype=torch.int64)}


@true_of("The ids stand for the bytes of the piece", credit=True, gate=True, role="typical")
def same_bytes(case, observed, expected):
    tokens = {id: bytes([id]) for id in range(256)}
    for (left, right), new in case["merges"].items():
        tokens[new] = tokens[left] + tokens[right]
    return b"".join(tokens[id] for id in observed.tensors["out"].tolist()) == case["piece"]


@true_of("No two neighbours are left that could be merged", credit=True, role="typical")
def nothing_left(case, observed, expected):
    ids = observed.tensors["out"].tolist()
    return not any(pair in case["merges"] for pair in pairwise(ids))


properties = (same_bytes, nothing_left)
letters = {"merges": None}
