"""How an answer to `train_bpe` is judged."""

from collections import Counter
from itertools import pairwise

from exercises.shared.byte_pairs import MERGES, PlainProbe, join, learn, merges_as_tensor, words
from whywrong import Case, Draw, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, pieces, num_merges, roles=""):
        inputs = {"pieces": pieces, "num_merges": num_merges}
        return Case(name, inputs, roles=frozenset(roles.split()))

    by_hand = [b"low", b"low", b"lot", b"low", b"slot"]
    high = bytes([226, 130, 172])  # the three bytes of the euro sign
    return [
        case("five pieces by hand", by_hand, 2, "small"),
        case("random pieces", words(draw, 9, 6), 6, "typical"),
        case("more random pieces", words(draw, 14, 9, b"abcdefg"), 9),
        case("a letter several times in a row", [b"aaaa", b"aaaa", b"ba", b"aaaa"], 2, "small"),
        case("a run and another pair", [b"aaaa", b"aaa", b"ba", b"ba", b"ba", b"ba"], 1, "small"),
        case("a pair twice in one piece", [b"abab", b"cd", b"abeab", b"cd", b"cd"], 2, "small"),
        case("bytes above 127", [high + b"5", high, b"x" + high, high[:2]], 2, "small"),
        case("the last piece decides", [b"ab", b"ab", b"cd", b"cd", b"cd"], 1, "small"),
        case("no pair is left", [b"ab", b"ab", b"c", b"ab"], 5, "small"),
        case("a pair that occurs once", [b"ab", b"ab", b"ca"], 2, "small stability"),
        case("no merge", words(draw, 5, 2), 0, "small"),
    ]


probe = PlainProbe(MERGES, merges_as_tensor)


def expect(case):
    return {"out": merges_as_tensor(learn(case["pieces"], case["num_merges"])[0])}


@true_of("The first merge is the most frequent pair of bytes", gate=True, role="typical")
def first(case, observed, expected):
    return bool((observed.tensors["out"][0, :2] == expected["out"][0, :2]).all())


@true_of("New ids count up from 256", credit=True, role="typical")
def counted(case, observed, expected):
    return bool((observed.tensors["out"][:, 2] == expected["out"][:, 2]).all())


@true_of("The second merge is the most frequent pair after the first", credit=True, role="typical")
def second(case, observed, expected):
    return bool((observed.tensors["out"][1, :2] == expected["out"][1, :2]).all())


def most_frequent(count, distinct=False):
    """Recognises merges that are the most frequent pairs by another count, whichever of several
    equally frequent ones were taken."""

    def shows(trials):
        for t in trials:
            pieces = set(t.case["pieces"]) if distinct else t.case["pieces"]
            ids = [list(piece) for piece in pieces]
            for *pair, new in t.observed.tensors["out"].tolist():
                pairs = Counter(pair for piece in ids for pair in count(pairwise(piece)))
                if pairs[tuple(pair)] != max(pairs.values()):
                    return False
                ids = [join(piece, pair, new) for piece in ids]
        return True

    return shows


properties = (first, counted, second)
signs = {
    "each_piece_once": most_frequent(list, distinct=True),
    "once_per_piece": most_frequent(set),
}
