"""How an answer to `beam_translate` is judged."""

from functools import partial

import torch
from torch import nn

from exercises.shared.beams import Planted, clear_by_chance, search
from exercises.shared.writing import OF_THE_MODEL, WritingProbe, expect_text
from whywrong import Case, Draw, Property, true_of


class Tree(nn.Module):
    """A translator that looks up what comes next, by all that it has written.

    In training mode it prefers another word, and for another source it writes something else.
    """

    def __init__(self, case):
        super().__init__()
        self.bos_id, self.source = case["bos_id"], case["source"][0].tolist()
        self.next_logits = case.options["next_logits"]
        self.bias = nn.Parameter(torch.zeros(self.next_logits.V, dtype=torch.float64))
        self.inner = nn.Identity()  # it has a mode of its own
        self.recorded = 0

    def forward(self, source, decoder_input, source_pad_mask=None):
        rows = [list(self._row(row)) for row in decoder_input.tolist()]
        logits = decoder_input.new_tensor(rows, dtype=torch.float64)
        if any(row != self.source for row in source.tolist()):
            logits = logits.flip(-1)
        logits = logits.roll(1, -1) if self.inner.training else logits
        logits = logits + self.bias
        self.recorded += logits.requires_grad
        return logits

    def _row(self, row):
        begun = row[0] == self.bos_id
        for t in range(len(row)):
            logits = self.next_logits(tuple(row[1 : t + 1]))
            yield logits if begun else logits[::-1]


def tree(case):
    return Tree(case).train(case.options["training"])


# A tree: the most likely words at its beginning, then those after each text; e is the end. In most,
# it doesn't matter whether ended texts leave their place in the beam to others.
GREEDY_TRAP = "a .6 b .4 | a: c .35 d .33 b .3 | b: c .97 | a c: e .97 | b c: e .97 | a d: e .97"
LAST_STEP_TRAP = "a .9 b .09 | a: c .52 d .46 | b: c .95 | a c: e .9 | a d: e .8 | b c: e .99"
ENDS_AT_ONCE = "e .8 a .15 | a: b .5 c .4 | a b: c .6 d .3 | a c: d .6 b .3"
# Full length, unfinished, and still the best.
NEVER_ENDS = "a .55 b .42 | a: a .9 | b: c .3 e .2 | b c: e .98 | a a: b .9 | a a b: a .9"
# The next best would be better for the word, but greedy has ended.
ENDS_FOR_GREEDY = "e .5 a .45 | a: b .97 | a b: c .97 | a b c: e .97"
# The larger sum of probabilities, 1.75 against 1.7, but the smaller product.
SURE_THEN_UNSURE = "a .5 b .45 | a: c .95 | b: c .6 d .35 | a c: e .3 d .2 | b c: e .65"


def two_or_four(each, end, other=0.2):
    """A text of two words, and one of four of which each has this probability after its first."""
    then = f"{each} a {other}"
    return f"a .45 b .46 | a: e .9 | b: c {then} | b c: d {then} | b c d: e {end} a {other}"


LONG_FOR_THE_WORD = two_or_four(0.72, 0.72)  # two lose 0.90 nats, four 1.76: 0.45 and 0.44 a word
SHORT_FOR_THE_WORD = two_or_four(0.7, 0.7)  # two lose 0.90 nats, four 1.85: 0.45 and 0.46 a word
# Four lose 1.6 nats: divided by one word more, the short one wins.
LONGER_BY_MORE = two_or_four(0.77, 0.76)
# Four lose 1.44 nats: divided by a root, the short one is better.
LONG_AFTER_ALL = two_or_four(0.8, 0.805, other=0.15)
# Four lose 1.0 nats: the short one has the better sum.
LONG_AND_ALMOST_AS_LIKELY = two_or_four(0.93, 0.925, other=0.05)

# A beam of three or more finds c d e, which a beam of two has left.
THIRD_WORD_BETTER = (
    "a .5 b .37 c .1 | a: a .6 | b: a .5 | c: d .99"
    " | a a: e .24 a .2 b .19 c .19 d .18 | b a: e .2 a .19 b .19 c .19 d .18 | c d: e .99"
)
# The best two of each text, instead of two in all, keep b c e.
THIRD_TEXT_BETTER = (
    "a .6 b .3 | a: c .45 d .42 | b: c .7"
    " | a c: e .3 a .25 b .2 d .2 | a d: e .27 a .24 b .2 c .2 | b c: e .99"
)
# And the one that goes on is better than both.
TWO_HAVE_ENDED = (
    "a .5 b .45 | a: e .45 c .4 d .1 | b: c .35 a .3 d .3"
    " | a c: d .55 e .4 | b c: a .6 d .35 | a c d: e .97"
)
# A beam that gets narrower with each end keeps only a c.
SECOND_AFTER_AN_END = "a .6 e .2 | a: c .5 d .4 | a c: e .25 a .22 b .2 d .19 | a d: e .99"
# A search that stops after two ends returns a c without its end.
TWO_END_ON_THE_WAY = "a .6 e .2 | a: c .5 e .35 | a c: e .98"
# a e ended; if b c takes its place, b c e is better than a e.
THIRD_AFTER_AN_END = (
    "a .5 b .45 | a: c .5 e .45 | b: c .4 d .2 | a c: e .25 a .22 b .2 d .19 | b c: e .99"
)
# A beam of three after the first end keeps a b, which wins.
WIDER_AFTER_AN_END = (
    "a .6 e .2 | a: c .4 d .3 b .2"
    " | a c: e .28 a .22 b .2 d .18 | a d: e .24 a .21 b .2 c .19 | a b: e .99"
)
# Of the second step's extensions, in a vocabulary of six words.
SEVENTH_IS_BEST = (
    "a .3 b .25 c .2 d .15 e .09 | a: a .31 b .27 c .22 d .1 | b: a .32 b .26 c .1"
    " | c: a .26 | d: a .3 | d a: e .99"
)
# b e has a mean of -0.55, a c d and a c a of -0.51, and then -0.78.
ENDED_AND_WORSE_FOR_NOW = (
    "a .5 b .45 | a: c .9 | b: e .74 | a c: d .48 a .46"
    " | a c d: e .2 a .2 b .2 d .2 | a c a: e .2 a .2 b .2 d .2"
)


# ---------------------------------------------------------------- cases


def cases(seed):
    case = partial(translated, Draw(seed))
    search, greedy, once = {"small", "search"}, {"small", "greedy"}, {"once": True}
    return [
        case("the most likely first word is a trap", GREEDY_TRAP, 2, 6, roles=search),
        case("greedy, in the same tree", GREEDY_TRAP, 1, 6, roles=greedy, **once),
        case("the most likely last word is a trap", LAST_STEP_TRAP, 2, 6, roles=search, **once),
        case("the longer text is the better one", LONG_FOR_THE_WORD, 2, 6, training=False),
        case("the shorter text is the better one", SHORT_FOR_THE_WORD, 2, 6, keywords=True),
        case("the best never ends", NEVER_ENDS, 2, 4),
        case("the best ends at once", ENDS_AT_ONCE, 2, 3, **once),
        case("a beam as wide as the vocabulary", None, 5, 2, V=5, **once),
        case("drawn by chance", None, 3, 5, V=6, roles={"typical"}),
        case("drawn by chance, greedy", None, 1, 6, V=8, roles=greedy, training=False, **once),
        case("greedy ends at once", ENDS_FOR_GREEDY, 1, 6, roles=greedy, **once),
        case("the longer text is clearly better", LONG_AFTER_ALL, 2, 6, **once),
        case("the longer text is far better", LONG_AND_ALMOST_AS_LIKELY, 2, 6, **once),
        case("two have ended, a third is better", TWO_HAVE_ENDED, 2, 6, **once),
        case("one has ended, and the second best wins", SECOND_AFTER_AN_END, 2, 4, **once),
        case("two end on the way", TWO_END_ON_THE_WAY, 2, 5, **once),
        case("one has ended, and the third best is left", THIRD_AFTER_AN_END, 2, 4, **once),
        case("one has ended, and two are kept", WIDER_AFTER_AN_END, 2, 3, **once),
        case("a beam wider than the vocabulary", SEVENTH_IS_BEST, 8, 3, V=6, **once),
        case("sure of one word, unsure of the next", SURE_THEN_UNSURE, 2, 6, **once),
        case("the longer text is better by more", LONGER_BY_MORE, 2, 6, **once),
        case("a wider beam finds another text", THIRD_WORD_BETTER, 2, 3, **once),
        case("the third best in all is left", THIRD_TEXT_BETTER, 2, 3, **once),
        case("the best has ended early", ENDED_AND_WORSE_FOR_NOW, 2, 4, **once),
    ]


def translated(draw, name, branches, width, most, V=7, keywords=False, roles=("small",), **options):
    """A case of planted branches; without them, of logits drawn by chance."""
    order = torch.randperm(V, generator=draw.generator).tolist()
    bos, ids = order[0], dict(zip("eabcd", order[1:], strict=False))
    source = torch.randint(3, 40, (1, 4), generator=draw.generator)
    inputs = {"model": f"a translator into {V} words", "source": source, "bos_id": bos}
    inputs |= {"eos_id": ids["e"], "max_length": most, "beam_width": width}
    if branches is not None:
        next_logits = Planted(branches, V, ids, bos)
    else:
        next_logits = clear_by_chance(draw, V, bos, ids["e"], most, width, 1.5, 0.5)
    options = {"training": True} | options | {"next_logits": next_logits}
    if keywords:
        options["keywords"] = tuple(inputs)
    return Case(f"{name} (-1: no word)", inputs, options=options, roles=set(roles))


def oracle(case):
    asked = (case[n] for n in ("eos_id", "max_length", "beam_width"))
    return filled_up(torch.tensor([search(case.options["next_logits"], *asked)[0]]), case)


def filled_up(text, case):
    """One text with -1 after it, so that texts of other lengths can be compared, and what is right
    in them counts."""
    most = case["max_length"] + 1
    if not isinstance(text, torch.Tensor) or text.dim() != 2 or len(text) != 1:
        return text
    return nn.functional.pad(text, (0, max(most - text.shape[1], 0)), value=-1)


probe = WritingProbe(tree, filled_up)
expect = expect_text(oracle)


# ---------------------------------------------------------------- what is true of the text


@true_of("The text begins with a likely word", gate=True)
def likely(case, observed, expected):
    """One of the most likely texts, as many as there are texts in the beam."""
    logits, first = case.options["next_logits"](()), int(observed.tensors["out"][0, 0])
    return sum(other > logits[first] for other in logits) < case["beam_width"]


@true_of(
    "eos is at the end of the text or nowhere",
    credit=True,
    breaks="eos is inside the text, or a text without one isn't `max_length` words long",
)
def one_end(case, observed, expected):
    text = [id for id in observed.tensors["out"][0].tolist() if id >= 0]
    ended = case["eos_id"] in text
    return case["eos_id"] not in text[:-1] and (ended or len(text) == case["max_length"])


def right(case, observed, expected):
    return bool((observed.tensors["out"] == expected["out"]).all())


properties = (
    likely,
    one_end,
    Property("greedy", "Width 1 is greedy", right, credit=True, role="greedy"),
    Property("finds", "A wider beam finds what greedy misses", right, credit=True, role="search"),
    *OF_THE_MODEL,
)

letters = {"source": None, "max_length": "L", "beam_width": "K"}
