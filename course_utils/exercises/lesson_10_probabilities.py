"""Lesson 10, last part: from logits to the probabilities that a token is drawn with."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from .. import language_model
from ..checking import (
    Case,
    Exercise,
    FunctionProbe,
    Misconceptions,
    Mistake,
    Observation,
    Property,
)
from ..checking.calling import target_device
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from .kit import mistakes as m
from .kit.draw import Draw

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- next_token_probabilities


class Probabilities:
    """The right answer in steps."""

    def __call__(self, logits, temperature=1.0, top_k=None, top_p=None):
        self.refuse_temperature(temperature)
        self.refuse_top_k(top_k)
        self.refuse_top_p(top_p)
        if temperature == 0:
            return self.coldest(logits)
        return self.shared_out(logits, temperature, top_k, top_p)

    def refuse_temperature(self, temperature):
        if temperature < 0:
            self.complain(temperature)

    def refuse_top_k(self, top_k):
        if self.given(top_k) and top_k < 1:
            self.complain(top_k)

    def refuse_top_p(self, top_p):
        if self.given(top_p) and not 0 < top_p <= 1:
            self.complain(top_p)

    def given(self, option):
        return option is not None

    def complain(self, *numbers):
        raise ValueError(f"got {numbers[0]}")

    def coldest(self, logits):
        best = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)

    def shared_out(self, logits, temperature, top_k, top_p):
        return self.cut(self.softmax(self.heated(logits, temperature)), top_k, top_p)

    def heated(self, logits, temperature):
        return logits / temperature

    def softmax(self, logits):
        return torch.softmax(logits, dim=-1)

    def cut(self, shares, top_k, top_p):
        return self.cut_to_p(self.cut_to_k(shares, top_k), top_p)

    def cut_to_k(self, shares, top_k):
        return shares if not self.given(top_k) else self.renormalised(self.best(shares, top_k))

    def best(self, shares, top_k):
        kept = self.likeliest(shares, min(top_k, shares.shape[-1]))
        return torch.zeros_like(shares).scatter(-1, kept, shares.gather(-1, kept))

    def likeliest(self, shares, top_k):
        return shares.topk(top_k, dim=-1).indices

    def cut_to_p(self, shares, top_p):
        return shares if not self.given(top_p) else self.whole(self.nucleus(shares, top_p))

    def nucleus(self, shares, top_p):
        shares, order = shares.sort(dim=-1, descending=True)
        kept = shares.masked_fill(self.beyond(shares, top_p), 0.0)
        return self.put_back(kept, order)

    def beyond(self, shares, top_p):
        return shares.cumsum(-1) - shares >= top_p

    def put_back(self, kept, order):
        return torch.zeros_like(kept).scatter(-1, order, kept)

    def renormalised(self, shares):
        return shares / shares.sum(-1, keepdim=True)

    def whole(self, shares):
        return self.renormalised(shares)


class CrossingTokenDropped(Mistake):
    """The token that takes the sum over top_p was dropped.

    Why: What is left then sums to less than top_p; where one token has more than top_p on its own,
        nothing is left at all.
    Mend: Drop a token when those *before* it already reach top_p.
    """

    def beyond(self, shares, top_p):
        return shares.cumsum(-1) > top_p


def _first_kept(self, shares, top_p):
    beyond = shares.cumsum(-1) > top_p
    return torch.cat([torch.zeros_like(beyond[..., :1]), beyond[..., 1:]], dim=-1)


class OneTokenMore(Mistake):
    """One token more than needed was kept: the sum had reached top_p before it.

    Why: The smallest set is asked; with a top_p that one token reaches, text should be certain.
    Mend: For [0.5, 0.3, 0.2] and top_p 0.6, say which tokens are needed, and which yours keeps.
    """

    def beyond(self, shares, top_p):
        before = shares.cumsum(-1) - shares
        later = super().beyond(shares, top_p)
        return later & (before - shares.roll(1, -1) >= top_p)


class ThresholdNotSum(Mistake):
    """Tokens were kept by their own probability, not by the sum of the likeliest.

    Why: Where many words are equally good, each has little, and none would be kept.
    Mend: `top_p` is compared with a running sum, from the likeliest token down.
    """

    def beyond(self, shares, top_p):
        return shares < top_p


class LeastLikelyFirst(Mistake):
    """The running sum begins at the least likely token.

    Why: What is kept is then the tail, which top_p is there to cut off.
    Mend: Which way does `sort` sort, unless it is told otherwise?
    """

    def nucleus(self, shares, top_p):
        shares, order = shares.sort(dim=-1)
        kept = shares.masked_fill(self.beyond(shares, top_p), 0.0)
        return self.put_back(kept, order)


class LeftInOrder(Mistake):
    """The probabilities stand in order of size, no longer in order of ids.

    Why: The draw would be of a rank, and the word of that id has nothing to do with it.
    Mend: `sort` also says where each number came from: `scatter` puts it back there.
    """

    def put_back(self, kept, order):
        return kept


class OrderTakenTwice(Mistake):
    """On the way back from the order by size, `gather` took what `scatter` should put back.

    Why: Both run without an error; only one undoes a sort.
    Mend: `kept[i]` belongs at place `order[i]`.
    """

    def put_back(self, kept, order):
        return kept.gather(-1, order)


class SumsOverRows(Mistake):
    """The running sum goes on from row to row of the batch.

    Why: A text then gets words, or none, because of the texts that happen to stand before it.
    Mend: `cumsum(dim=-1)` begins anew in each row.
    """

    def beyond(self, shares, top_p):
        flat = shares.flatten()
        return (flat.cumsum(0) - flat >= top_p).view_as(shares)


class KeptByValue(Mistake):
    """Every token that equals the k-th largest was kept, so ties keep more than k.

    Why: A model that has learned nothing would keep the whole vocabulary.
    Mend: `topk` also gives the places of the k largest; keep those places.
    """

    def best(self, shares, top_k):
        least = shares.topk(min(top_k, shares.shape[-1]), dim=-1).values[..., -1:]
        return shares.masked_fill(shares < least, 0.0)


class MoreThanThereAre(Mistake):
    """A `top_k` beyond the vocabulary is an error.

    Why: 50 is a usual setting, and characters are often fewer.
    Mend: `topk` can't take more than there are. How many are there?
    """

    def best(self, shares, top_k):
        kept = self.likeliest(shares, top_k)
        return torch.zeros_like(shares).scatter(-1, kept, shares.gather(-1, kept))


class SmallestKept(Mistake):
    """The k least likely tokens were kept.

    Why: What comes out is the worst the model can think of.
    Mend: Look at the argument `largest` of `topk`, or at the way you sort.
    """

    def likeliest(self, shares, top_k):
        return shares.topk(top_k, dim=-1, largest=False).indices


class KthDropped(Mistake):
    """One token fewer than top_k was kept.

    Why: With top_k=1 nothing would be left.
    Mend: How many tokens does your comparison keep for top_k=2? Count them.
    """

    def best(self, shares, top_k):
        if top_k >= shares.shape[-1]:
            return shares
        least = shares.topk(top_k, dim=-1).values[..., -1:]
        return shares.masked_fill(shares <= least, 0.0)


class RestNotCleared(Mistake):
    """What top_k cuts off got a logit of 0, and e⁰ is a share like any other.

    Why: Words that should be out of reach are drawn all the same.
    Mend: Which logit has an exponential of 0?
    """

    def cut_to_k(self, shares, top_k):
        if not self.given(top_k):
            return shares
        return torch.softmax(self.best(shares.log(), top_k), dim=-1)


class SumOfTheWhole(Mistake):
    """`top_p` summed shares of the whole vocabulary: it came before top_k, or nothing was
    renormalised between the two.

    Why: What top_k leaves sums to less than 1, so top_p keeps more than its share of it.
    Mend: First top_k, then divide by the sum, then top_p.
    """

    def cut_to_k(self, shares, top_k):
        return shares if not self.given(top_k) else self.best(shares, top_k)

    def cut(self, shares, top_k, top_p):
        return self.renormalised(super().cut(shares, top_k, top_p))


class NotRenormalised(Mistake):
    """What is left after a cut doesn't sum to 1.

    Why: These are no probabilities: what the others had belongs to those that are left.
    Mend: After each cut, divide by the sum over the last dimension.
    """

    def renormalised(self, shares):
        return shares


class NucleusNotRenormalised(Mistake):
    """After top_p the probabilities don't sum to 1.

    Why: These are no probabilities: what the others had belongs to those that are left.
    Mend: Divide by the sum after the second cut too.
    """

    def whole(self, shares):
        return shares


class RenormalisedOverAll(Mistake):
    """All rows were divided by one sum.

    Why: Each row is a text of its own, and must sum to 1 by itself.
    Mend: `sum(dim=-1, keepdim=True)` keeps the rows apart.
    """

    def renormalised(self, shares):
        return shares / shares.sum()


class HeatedAfterwards(Mistake):
    """The temperature was applied to the probabilities, after the softmax.

    Why: A sum of 1 divided by the temperature is no longer 1, and no odds have changed.
    Mend: Divide the *logits*.
    """

    def shared_out(self, logits, temperature, top_k, top_p):
        return self.cut(self.softmax(logits), top_k, top_p) / temperature


class HeatedAndNormalised(Mistake):
    """The temperature has no effect: it was never applied, or after the softmax, where dividing by
    the sum takes it out again.

    Why: At every temperature above 0 the same words are as likely as before.
    Mend: Divide the *logits*.
    """

    def heated(self, logits, temperature):
        return logits


class HeatedLast(Mistake):
    """The cuts to top_k and top_p were made first, and the temperature came after them.

    Why: How many tokens top_p keeps hangs on how flat the probabilities are, so the order counts.
    Mend: Temperature first; the cuts look at what it gives.
    """

    def shared_out(self, logits, temperature, top_k, top_p):
        shares = self.cut(self.softmax(logits), top_k, top_p)
        return self.softmax(self.heated(shares.log(), temperature))


class Cooled(Mistake):
    """The logits were multiplied by the temperature.

    Why: High temperatures should make a text wilder; here they make it more certain.
    Mend: Which way must the temperature go, so that 0.1 makes differences larger?
    """

    def heated(self, logits, temperature):
        return logits * temperature


class ZeroDivides(Mistake):
    """At temperature 0 something was divided by 0, or by next to nothing.

    Why: Infinities and NaN come out, where the likeliest token should be certain.
    Mend: Treat 0 before you divide: a 1 at the `argmax`, and zeros.
    """

    def coldest(self, logits):
        return self.softmax(logits / 0.0)


class OneForEachTie(Mistake):
    """At temperature 0 every token that equals the largest logit got a share.

    Why: One-hot is asked, also where two are equally likely: greedy text is always the same.
    Mend: `argmax` names one place.
    """

    def coldest(self, logits):
        top = (logits == logits.amax(-1, keepdim=True)).to(logits.dtype)
        return top / top.sum(-1, keepdim=True)


class WholeNumbers(Mistake):
    """At temperature 0 the result is of whole numbers.

    Why: `F.one_hot` gives int64, and whoever draws from it needs floating point.
    Mend: Give the result the dtype of the logits.
    """

    def coldest(self, logits):
        return super().coldest(logits).long()


class PlaceReturned(Mistake):
    """At temperature 0 the place of the largest logit is returned.

    Why: The caller expects probabilities, of the same shape at every temperature.
    Mend: A 1 at that place, and zeros elsewhere.
    """

    def coldest(self, logits):
        return logits.argmax(-1)


class LogitsReturned(Mistake):
    """Logits are returned; a softmax is missing.

    Why: They may be negative and sum to anything.
    Mend: Which function makes probabilities of them?
    """

    def softmax(self, logits):
        return logits


class OverTexts(Mistake):
    """The softmax runs over the texts of the batch.

    Why: Texts that happen to lie in one batch then share their probabilities.
    Mend: In `(…, V)` the vocabulary is the last dimension.
    """

    def softmax(self, logits):
        return torch.softmax(logits, dim=0)


class NegativeTemperature(Mistake):
    """A temperature below 0 was accepted.

    Why: It turns the order round: the worst token becomes the likeliest.
    Mend: Raise a ValueError that holds the number.
    """

    def refuse_temperature(self, temperature):
        pass


class NothingKept(Mistake):
    """A `top_k` below 1 was accepted.

    Why: No token is left, or all are, and the caller isn't told.
    Mend: Raise a ValueError that holds the number.
    """

    def refuse_top_k(self, top_k):
        pass


class ZeroTakenForNone(Mistake):
    """A `top_k` or `top_p` of 0 was taken for none at all: `if top_k:` is false for 0, too.

    Why: 0 makes no sense here, and the caller isn't told.
    Mend: Ask `is not None`.
    """

    def given(self, option):
        return bool(option)


class AnySumAccepted(Mistake):
    """A `top_p` of 0 or below, or above 1, was accepted.

    Why: 90 in place of 0.9 would keep everything, without a word.
    Mend: Raise a ValueError that holds the number.
    """

    def refuse_top_p(self, top_p):
        pass


class OneRefused(Mistake):
    """A `top_p` of exactly 1 was refused.

    Why: It is a usual way to say "keep all".
    Mend: Which of `<` and `<=` belongs on either side?
    """

    def refuse_top_p(self, top_p):
        if self.given(top_p) and not 0 < top_p < 1:
            self.complain(top_p)


TRIED = ((0.7, None, None), (1.0, 3, None), (1.3, None, 0.6), (0.8, 4, 0.7))


def _logits(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32, apart: Any = TRIED):
    """Logits whose running sums stay away from every top_p that is tried on them."""
    while True:
        logits = 1.5 * draw.normal(*shape, dtype=torch.float64)
        if all(_clear(logits, *options) for options in apart):
            return logits.to(dtype)


def _clear(logits: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> bool:
    """No two shares that are alike, and no sum that rounding could take over top_p."""
    shares = torch.softmax(logits / temperature, -1).sort(-1, descending=True).values
    if not bool((shares.diff(dim=-1).abs() > 1e-4).all()):
        return False
    if top_p is None:
        return True
    sums = [shares.cumsum(-1)]
    if top_k is not None:
        cut = shares[..., :top_k]
        sums.append((cut / cut.sum(-1, keepdim=True)).cumsum(-1))
    return all(bool(((s - top_p).abs() > 1e-3).all()) for s in sums)


def _probability_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(name: str, logits: Tensor, roles: str = "", refuses: Any = None, **options) -> Case:
        by_name = {"keywords": tuple(n for n in options if n != "temperature")}
        inputs = {"logits": logits, **options}
        return Case(name, inputs, refuses, by_name, frozenset(roles.split()))

    def sizes() -> tuple[int, int]:
        V, B = draw.sizes(2, 6, 11)
        return B - 3 if B - 3 != V else B, V

    def drawn(temperature=1.0, top_k=None, top_p=None, shape=(), dtype=torch.float32) -> Tensor:
        return _logits(draw, *(shape or sizes()), dtype=dtype, apart=((temperature, top_k, top_p),))

    by_hand = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log().float()
    # The likeliest two of five reach 0.62 of the whole, and 0.62 / 0.78 of the likeliest three.
    steep = torch.tensor([[0.16, 0.08, 0.34, 0.28, 0.14]], dtype=torch.float64).log().float()
    one_sure = torch.tensor([[0.0, 9.0, 1.0, 2.0, -1.0, 0.5], [1.0, 0.0, 0.2, 0.3, 0.1, 5.0]])
    third, double = draw.sizes(3, 6, 9), torch.float64
    B, V = sizes()
    even = torch.zeros(B, V)  # others sum to a bit more or less than 1, as the machine has it
    return [
        case("three words by hand, top_p 0.6", by_hand, "small", top_p=0.6),
        case("logits alone", drawn()),
        case("temperature 0.7", drawn(0.7), "typical", temperature=0.7),
        case("temperature 2.5", drawn(2.5), temperature=2.5),
        case("temperature 0", drawn(), "cold", temperature=0),
        case(
            "temperature 0.0, with both cuts", drawn(), "cold", temperature=0.0, top_k=3, top_p=0.5
        ),
        case("top_k 3", drawn(), top_k=3),
        case("top_k 1", drawn(), top_k=1),
        case("top_k beyond the vocabulary", drawn(), top_k=50),
        case("top_k of the whole vocabulary", _logits(draw, B, V), top_k=V),
        case("top_p 0.6", drawn(top_p=0.6), top_p=0.6),
        case("top_p 0.93, three dimensions", drawn(top_p=0.93, shape=third), top_p=0.93),
        case("top_p 1", even, top_p=1.0),
        case("top_p below the likeliest", one_sure, top_p=0.5),
        case("top_k, then top_p", steep, "small", top_k=3, top_p=0.7),
        case("top_k 4 and top_p 0.7", drawn(1.0, 4, 0.7), top_k=4, top_p=0.7),
        case("all three", drawn(0.8, 5, 0.75), temperature=0.8, top_k=5, top_p=0.75),
        case("temperature 2 and top_p 0.55", drawn(2.0, None, 0.55), temperature=2.0, top_p=0.55),
        case("float64", drawn(1.3, 4, 0.8, dtype=double), temperature=1.3, top_k=4, top_p=0.8),
        case("one row", drawn(1.0, 3, 0.8, shape=(V,)), top_k=3, top_p=0.8),
        case("big logits", 40 * drawn(40.0, None, 0.6), temperature=40.0, top_p=0.6),
        case("not contiguous in memory", drawn(shape=(V, B)).T.contiguous().T.T, top_k=2),
        case("temperature -0.5", drawn(), refuses=("-0.5",), temperature=-0.5),
        case("top_k 0", drawn(), refuses=("0",), top_k=0),
        case("top_k -3", drawn(), refuses=("-3",), top_k=-3),
        case("top_p 0", drawn(), refuses=("0",), top_p=0.0),
        case("top_p -0.25", drawn(), refuses=("-0.25",), top_p=-0.25),
        case("top_p 1.25", drawn(), refuses=("1.25",), top_p=1.25),
    ]


def _probability_oracle(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Row by row and word by word."""
    rows = []
    for row in logits.reshape(-1, logits.shape[-1]).tolist():
        best = sorted(range(len(row)), key=lambda i: -row[i])
        if temperature == 0:
            rows.append([float(i == best[0]) for i in range(len(row))])
            continue
        shares = torch.softmax(torch.tensor(row, dtype=torch.float64) / temperature, -1).tolist()
        best = best[:top_k]
        if top_p is not None:
            left, total, kept = sum(shares[i] for i in best), 0.0, []
            for i in best:
                if total < top_p:
                    kept.append(i)
                total += shares[i] / left
            best = kept
        left = sum(shares[i] for i in best)
        rows.append([shares[i] / left if i in best else 0.0 for i in range(len(row))])
    return torch.tensor(rows, dtype=torch.float64).view(logits.shape)


def _expect_probabilities(case: Case) -> dict[str, Tensor]:
    if case.refuses is not None:
        return {}
    return {"out": _probability_oracle(**case.inputs).to(case["logits"].dtype)}


def _see_ties(answer: Any, case: Case, seen: Observation) -> None:
    """Words that are equally likely: how many are kept, whichever they are. Where no shares came
    out there is nothing to count."""
    if "typical" not in case.roles:
        return
    tied = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]], device=target_device())
    kept = {}
    for name, options in (("top_k", {"top_k": 2}), ("cold", {"temperature": 0.0})):
        with contextlib.suppress(Exception):  # other cases ask for these, and tell of them
            out = answer(tied.clone(), **options)
            if out.shape == tied.shape and bool((out >= 0).all()) and bool(out.isfinite().all()):
                kept[name] = int((out > 1e-6).sum())
    seen.facts["traits"] = {"ties": kept}


def _ties(case: Case, seen: Observation, expected: Expected) -> Verdict:
    kept = seen.traits["ties"]
    if len(kept) < 2:
        return None
    if kept["top_k"] != 2:
        return f"keeps {kept['top_k']} for top_k=2"
    return kept["cold"] == 1 or f"shares out between {kept['cold']} at temperature 0"


def _matters(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The likeliest word stays the likeliest, and is not all there is."""
    out, logits = seen.tensors["out"], case["logits"]
    best = out.gather(-1, logits.argmax(-1, keepdim=True))
    return bool((best >= out.amax(-1, keepdim=True) - 1e-6).all()) and bool((best < 1).any())


def _sums_to_one(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if case.refuses is not None:
        return None
    out = seen.tensors["out"].double()
    return near(out.sum(-1), torch.ones(out.shape[:-1])) and bool((out >= 0).all())


def _keeps(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The right words have a share, whatever share."""
    if case.refuses is not None or not {"top_k", "top_p"} & case.inputs.keys():
        return None
    return bool(((seen.tensors["out"] > 0) == (expected["out"] > 0)).all())


NEXT_TOKEN_PROBABILITIES = Exercise(
    id="next_token_probabilities",
    lesson=LESSON,
    call="next_token_probabilities(logits, temperature=1.0, top_k=None, top_p=None)",
    points=1.5,
    cases=_probability_cases,
    probe=FunctionProbe(extra=_see_ties),
    expect=_expect_probabilities,
    reference=language_model.next_token_probabilities,
    uses=("softmax",),
    properties=(
        Property(
            "matters",
            "The likeliest word stays the likeliest, and others have their share",
            _matters,
            gate=True,
            role="typical",
        ),
        Property("sums", "The probabilities of each row sum to 1", _sums_to_one, credit=True),
        Property(
            "keeps", "top_k and top_p leave the right words, and no others", _keeps, credit=True
        ),
        Property(
            "cold",
            "At temperature 0 the likeliest word has 1, and all others 0",
            lambda case, seen, expected: near(seen.tensors["out"], expected["out"]),
            credit=True,
            role="cold",
        ),
        Property(
            "ties",
            "Among equally likely words too, as many are left as were asked for",
            _ties,
            secondary=True,
            role="typical",
        ),
    ),
    misconceptions=Misconceptions.of(
        CrossingTokenDropped,
        CrossingTokenDropped.but(beyond=_first_kept).on(
            Probabilities,
            why="The fewest that reach top_p were asked for; what is left mostly sums to less.",
        ),
        KeptByValue,
        HeatedAfterwards,
        HeatedAndNormalised,
        HeatedLast,
        Cooled,
        NotRenormalised,
        SumOfTheWhole,
        NucleusNotRenormalised,
        LeftInOrder,
        OrderTakenTwice,
        ZeroDivides,
        MoreThanThereAre,
        OneTokenMore,
        ThresholdNotSum,
        LeastLikelyFirst,
        SumsOverRows,
        SmallestKept,
        KthDropped,
        RestNotCleared,
        RenormalisedOverAll,
        OneForEachTie,
        WholeNumbers,
        PlaceReturned,
        LogitsReturned,
        OverTexts,
        NegativeTemperature,
        NothingKept,
        ZeroTakenForNone,
        AnySumAccepted,
        OneRefused,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        m.ChangesItsInput,
        m.Float32Result,
        on=Probabilities,
    ),
    hints=(
        "One step after the other: refuse what makes no sense, treat temperature 0, divide the "
        "logits by the temperature, softmax, top_k, top_p. After each of the two cuts, divide by "
        "the sum.",
        "`probabilities.sort(dim=-1, descending=True)` gives the sorted numbers and where they "
        "came from. top_k sets the sorted numbers from place k on to 0. "
        "`torch.zeros_like(s).scatter(-1, order, s)` puts sorted numbers `s` back.",
        "For top_p: `before = s.cumsum(-1) - s` is the sum of all that are likelier. A token goes "
        "if `before >= top_p`, so the one that crosses stays.",
    ),
    other_way="""\
# Cut logits, not probabilities: -inf is 0 after the next softmax, which renormalises by itself.
def next_token_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    if temperature < 0:
        raise ValueError(f"a temperature of {temperature} is below 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {top_p}")
    if temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)
    logits, order = (logits / temperature).sort(dim=-1, descending=True)
    ranks = torch.arange(logits.shape[-1], device=logits.device)
    if top_k is not None:
        logits = logits.masked_fill(ranks >= top_k, float("-inf"))
    if top_p is not None:
        shares = torch.softmax(logits, dim=-1)
        logits = logits.masked_fill(shares.cumsum(-1) - shares >= top_p, float("-inf"))
    shares = torch.softmax(logits, dim=-1)
    return torch.zeros_like(shares).scatter(-1, order, shares)
""",
)
