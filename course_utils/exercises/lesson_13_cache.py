"""Lesson 13, last part: one token more, with the keys and values of those before it kept."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import attention
from ..checking import (
    Case,
    Exercise,
    Misconceptions,
    Mistake,
    Observation,
    Property,
)
from ..checking.calling import cotangent, differentiate, fresh, see_calls, see_half, set_seed
from ..checking.comparing import near, same
from ..checking.errors import first_lines
from ..checking.exercise import Expected, Verdict
from ..checking.observation import class_name
from ..checking.watching import happened_elsewhere, moved
from .kit import mistakes as m
from .kit.draw import Draw
from .kit.pairs import as_pair, kind_of
from .kit.steps import INF, Scoring, Weighing
from .lesson_13_sdpa import LESSON

KEYS, VALUES = "new keys", "new values"
RESULTS = ("out", KEYS, VALUES)
CHAIN = 4  # steps from an empty cache
PAIR = "a pair, (output, (keys, values))"


# ---------------------------------------------------------------- cases and what is right


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    B, H, S, D = draw.sizes(4, 3, 8)
    while S + 9 == H * D:
        B, H, S, D = draw.sizes(4, 3, 8)

    def case(name: str, kept: int, roles: str = "", **options: Any) -> Case:
        dtype, factor = options.pop("dtype", torch.float32), options.pop("factor", 1.0)
        b, heads, d = options.pop("sizes", (B, H, D))

        def rows(count: int, factor: float = 1.0) -> Tensor:
            return factor * draw.normal(b, heads, count, d, dtype=dtype)

        inputs: dict[str, Any] = {
            "query": rows(1, factor),
            "key": rows(1, factor),
            "value": rows(1),
            "cache": (rows(kept, factor), rows(kept)) if kept else None,
        }
        return Case(name, inputs, None, options, roles=frozenset(roles.split()))

    turned = case("not contiguous in memory", S)
    for name in ("query", "key", "value"):  # as they come from `split_heads`
        turned.inputs[name] = turned[name].transpose(1, 2).contiguous().transpose(1, 2)  # type: ignore[index]
    turned.inputs["cache"] = tuple(t.mT.contiguous().mT for t in turned["cache"])  # type: ignore[index]
    equal = case("a key that all others equal", S)
    equal.inputs["cache"] = (equal["key"].expand(-1, -1, S, -1).clone(), equal["cache"][1])  # type: ignore[index]
    every = ("query", "key", "value", "cache")
    return [
        case("some tokens kept", S, "typical"),
        case("the first token", 0, "first"),
        case("float64, by name", S + 9, dtype=torch.float64, keywords=every),
        case("one token kept", 1, "small"),
        turned,
        equal,
        case("the first token, float64", 0, "first", dtype=torch.float64, keywords=every),
        case("one text, one head", 3, "small", sizes=(1, 1, 2), once=True),
        case("as many tokens as channels", D, "small", once=True),
        case("big numbers", S, dtype=torch.float64, factor=60.0, once=True),
        case("1,040 tokens kept", 1040, sizes=(2, 3, 5), once=True),
    ]


def _last_row(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    scores = torch.einsum("bhtd,bhsd->bhts", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("bhts,bhsd->bhtd", scores.softmax(-1), values)


def _expect(case: Case) -> dict[str, Tensor]:
    dtype, cache = case["query"].dtype, case["cache"]
    names = ["query", "key", "value"]
    given = [case[name] for name in names]
    if cache is not None:
        names += ["kept keys", "kept values"]
        given += cache
    leaves = [t.double().requires_grad_() for t in map(torch.clone, given)]
    query, key, value, *kept = leaves
    with torch.enable_grad():
        keys, values = (
            torch.cat([*past, new], 2) for past, new in ((kept[:1], key), (kept[1:], value))
        )
        out = _last_row(query, keys, values)
        expected = {"out": out.to(dtype), KEYS: keys.to(dtype), VALUES: values.to(dtype)}
        expected = {name: t.detach() for name, t in expected.items()}
        if case.options.get("once"):
            return expected
        total = (out * cotangent(expected["out"]).double()).sum()
        grads = torch.autograd.grad(total, leaves)
    return expected | {f"grad:{n}": g.to(dtype) for n, g in zip(names, grads, strict=True)}


# ---------------------------------------------------------------- evidence


def _called(answer: Any, case: Case, args: list[Any]) -> Any:
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, args, strict=True)))
    return answer(*args)


def _pair(result: Any) -> tuple[Any, Any, Any]:
    """The output, new keys and new values in what came back; if it is no such pair, what it is."""
    if isinstance(result, Tensor):
        return kind_of("one tensor"), None, None
    if not isinstance(result, tuple | list):
        return result, None, None
    if len(result) == 2:
        out, cache = result
        made = [out, *cache] if isinstance(cache, tuple | list) else [out]
        if len(made) == 3 and all(isinstance(part, Tensor) for part in made):
            return out, *cache
    return kind_of(f"a {_named(result)}: {', '.join(map(_named, result[:4]))}"), None, None


def _named(part: Any) -> str:
    name = class_name(part)
    return f"{name} of {len(part)}" if isinstance(part, tuple | list) else name


class StepProbe:
    """Takes a step on a case: `out`, the new cache, and what `calling.see_calls` shows.

    Gradients are those of the output, of what came in and of what was kept; a case of the role
    "typical" also gives `half`, and as the trait `goes_on` whether steps from the first token on,
    each with the cache of the one before, and two ways on from one cache, are right.
    """

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        return as_pair(self._see(answer, case), PAIR, *RESULTS)

    def _see(self, answer: Any, case: Case) -> Observation:
        seen, caches = Observation(), list[tuple[Any, Any]]()

        def call(args: list[Any]) -> Any:
            out, *cache = _pair(_called(answer, case, args))
            if not caches:
                for name, value in zip((KEYS, VALUES), cache, strict=True):
                    seen.put(name, value)
            caches.append((cache[0], cache[1]))
            return out

        if not see_calls(call, case, seen):
            return seen
        first = [t.detach() if isinstance(t, Tensor) else t for t in caches[0]]
        if {KEYS, VALUES} <= seen.tensors.keys() and not same(
            first, [seen.tensors[KEYS], seen.tensors[VALUES]]
        ):
            seen.facts["overwritten"] = True
        if not seen.facts.get("modified"):
            self._see_gradients(call, case, seen)
        inputs = list(map(moved, case.inputs.values()))
        seen.facts["elsewhere"] = happened_elsewhere(lambda: call(inputs))
        if "typical" in case.roles:
            see_half(call, case, seen)
            seen.facts["traits"] = {"goes_on": self._goes_on(answer, case)}
        return seen

    def glance(self, answer: Any, case: Case) -> Observation:
        seen = Observation()
        set_seed(1)
        made = _pair(_called(answer, case, list(map(fresh, case.inputs.values()))))
        for name, value in zip(RESULTS, made, strict=True):
            seen.put(name, value)
        return as_pair(seen, PAIR, *RESULTS)

    def _see_gradients(self, call: Any, case: Case, seen: Observation) -> None:
        try:
            args = [fresh(v, True) for v in case.inputs.values()]
            differentiate(call(args))
            *new, cache = args
            names = ["query", "key", "value", "kept keys", "kept values"]
            for name, arg in zip(names, [*new, *(cache or ())], strict=False):
                if arg.grad is not None:
                    seen.put(f"grad:{name}", arg.grad)
        except Exception as error:
            seen.facts["gradient_error"] = f"{type(error).__name__}: {first_lines(error)}"

    def _goes_on(self, answer: Any, case: Case) -> bool | None:
        """None where the first step is wrong: then no cache was handed on yet."""
        B, H, _, D = case["query"].shape
        generator = torch.Generator().manual_seed(B * H * D)
        q, k, v = torch.randn(3, B, H, CHAIN + 1, D, generator=generator).unbind(0)
        right: bool | None = None  # so far
        try:
            cache: Any = None
            for t in range(CHAIN):
                before, now = cache, [x[:, :, t : t + 1] for x in (q, k, v)]
                out, cache = answer(*map(fresh, now), cache)
                wanted = _last_row(now[0], k[:, :, : t + 1], v[:, :, : t + 1])
                good = near(out.detach().cpu(), wanted)
                if t == 0 and not (good and _near(cache, now[1:])):
                    return None
                right = good and right is not False
            # Another fourth token: the cache it goes on from is still that of three.
            other = [x[:, :, CHAIN:] for x in (q, k, v)]
            out, _ = answer(*map(fresh, other), before)
            keys, values = (torch.cat([x[:, :, : CHAIN - 1], x[:, :, CHAIN:]], 2) for x in (k, v))
            kept = same([x.detach().cpu() for x in cache], [k[:, :, :CHAIN], v[:, :, :CHAIN]])
            return right and kept and near(out.detach().cpu(), _last_row(other[0], keys, values))
        except Exception:
            return None if right is None else False


def _near(cache: Any, rows: list[Tensor]) -> bool:
    return all(near(mine.detach().cpu(), x) for mine, x in zip(cache, rows, strict=True))


def _listens(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The output is neither the newest value nor a mean."""
    out, value = seen.tensors["out"], case["value"]
    means = [case["cache"][1].mean(2, keepdim=True), expected[VALUES].mean(2, keepdim=True)]
    return not any(near(out, other) for other in (value, *means))


def _first(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"], case["value"])


def _last_of_all(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return None if "first" in case.roles else near(seen.tensors["out"], expected["out"])


def _all_kept(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return all(near(seen.tensors[n], expected[n]) for n in (KEYS, VALUES))


def _goes_on(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not all(near(seen.tensors[n], expected[n]) for n in ("out", KEYS, VALUES)):
        return None
    return seen.traits.get("goes_on")


# ---------------------------------------------------------------- the right answer in steps


class Step(Scoring, Weighing):
    """The right answer in steps."""

    dimension = -2

    def __call__(self, query, key, value, cache):
        keys, values = self.grown(cache, key, value)
        scores = self.shown(self.scores(query, self.heard(keys)))
        out = self.softmax(scores) @ self.heard(values)
        return self.returned(out, (keys, values), cache)

    def grown(self, cache, key, value):
        if self.nothing_kept(cache):
            return key, value
        return self.joined(cache[0], key), self.joined(cache[1], value)

    def nothing_kept(self, cache):
        return cache is None

    def joined(self, kept, new):
        return torch.cat([kept, new], dim=self.dimension)

    def heard(self, rows):
        return rows

    def shown(self, scores):
        return scores

    def returned(self, out, new, cache):
        return out, new


class NewestInFront(Mistake):
    """The newest token was put in front of the ones kept.

    Why: The output is the same, for a sum has no order. But whoever cuts the cache, or counts
        positions in it, finds the tokens in the wrong places.
    Mend: Time runs from left to right: on which side does the newest token stand?
    """

    def joined(self, kept, new):
        return super().joined(new, kept)


class JoinedAlongAnother(Mistake):
    """Keys and values were joined along another dimension than the tokens.

    Why: With one token kept the shapes may even fit, and then heads, channels or texts get mixed.
    Mend: In `(B, H, S, D)`, which of the four grows by one with each token?
    """

    dimension = 1


class CausalOnOneQuery(Mistake):
    """Only the first key is seen: a causal mask hides all the others from the one query there is.

    Why: `is_causal=True` numbers queries from 0, as keys: it takes the newest token for the first.
    Mend: All that is kept lies in the past. What is there to hide?
    """

    def shown(self, scores):
        T, S = scores.shape[-2:]
        future = torch.ones(T, S, dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, -INF)


class OldCacheReturned(Mistake):
    """The cache that came in goes out: the newest token is not in it.

    Why: The next step can't see this token, and the cache never grows.
    Mend: What does the next step have to know of this token?
    """

    def returned(self, out, new, cache):
        return out, cache


class NewestOnlyKept(Mistake):
    """The new cache holds the newest token alone.

    Why: From the next step on, all that was written before is forgotten.
    Mend: The cache holds the tokens so far *and* the newest one.
    """

    key = value = None

    def __call__(self, query, key, value, cache):
        self.key, self.value = key, value
        return super().__call__(query, key, value, cache)

    def returned(self, out, new, cache):
        return out, (self.key, self.value)


class NewestNotHeard(Mistake):
    """The newest token doesn't see itself: it looks at the kept ones alone.

    Why: In causal attention a token sees itself and what lies before it; and the first one would
        see nothing.
    Mend: First append, then attend.
    """

    def heard(self, rows):
        return rows[:, :, :-1] if rows.shape[2] > 1 else rows


class CacheNotHeard(Mistake):
    """The newest token sees itself alone; what was kept has no say.

    Why: Its weight on itself is then 1, and the output is its own value.
    Mend: Attend to what you return as the new cache.
    """

    def heard(self, rows):
        return rows[:, :, -1:]


class CacheRequired(Mistake):
    """Without a cache, at the first token, it fails: None can't be indexed.

    Why: Every text begins with nothing kept.
    Mend: Ask first whether there is a cache.
    """

    def nothing_kept(self, cache):
        return False


class CacheAskedForTruth(Mistake):
    """At the first token the cache is not empty but None, and `len` of None is an error.

    Why: Every text begins with nothing kept.
    Mend: `cache is None` asks what you want to know.
    """

    @classmethod
    def id(cls):
        return "cache_required"

    def nothing_kept(self, cache):
        return len(cache) == 0


class CacheAssignedTo(Mistake):
    """You assigned to a place of the cache, and it is a tuple.

    Why: The caller may still need the old cache, to go on from it in another way.
    Mend: Make new tensors and return them as a new pair.
    """

    def grown(self, cache, key, value):
        if cache is None:
            return key, value
        cache[0] = self.joined(cache[0], key)
        cache[1] = self.joined(cache[1], value)
        return cache


def _grown_in_place(self, cache, key, value):
    if cache is None:
        return key, value
    for kept, new in zip(cache, (key, value), strict=True):
        kept.data = torch.cat([kept.data, new.data], dim=2)
    return cache


class PairSwapped(Mistake):
    """The cache comes first and the output second, or values stand before keys in the cache.

    Why: Whoever takes the pair apart gets the one for the other, often without an error.
    Mend: Asked is `(output, (keys, values))`, in this order.
    """

    def returned(self, out, new, cache):
        return out, new[::-1]


class ThreeReturned(Mistake):
    """You return three things; a pair was asked for.

    Why: `output, cache = …` fails at the first call.
    Mend: Keys and values belong together in a tuple of their own: `return output, (keys, values)`.
    """

    def returned(self, out, new, cache):
        return out, *new


class OutputOnly(Mistake):
    """You return the output alone.

    Why: What isn't returned is lost, and the next step begins with nothing.
    Mend: `return output, (keys, values)`.
    """

    def returned(self, out, new, cache):
        return out


class QueriesKept(Mistake):
    """The query was appended to the keys, in place of the key.

    Why: Later tokens would be compared with what this one looked for, not with what it offers.
    Mend: Which two are needed of a token once its own turn is over?
    """

    def __call__(self, query, key, value, cache):
        return super().__call__(query, query, value, cache)


class OnlyKeysKept(Mistake):
    """Values stand in the cache's place of keys, or keys in that of values.

    Why: A later token finds a token by one and collects the other; neither can stand for both.
    Mend: Two lines that look alike: does each append its own?
    """

    def __call__(self, query, key, value, cache):
        return super().__call__(query, key, key, cache)


class AppendedTwice(Mistake):
    """The newest token was appended twice.

    Why: It gets twice the weight, and the cache grows by two with each step.
    Mend: Once is enough, before attending.
    """

    def joined(self, kept, new):
        return super().joined(super().joined(kept, new), new)


class OldestDropped(Mistake):
    """The oldest token was dropped when the newest came.

    Why: The cache then never grows, and the beginning of the text is forgotten.
    Mend: Nobody asked for a limit: S - 1 tokens come in, S go out.
    """

    def joined(self, kept, new):
        return super().joined(kept, new)[:, :, 1:]


class CutOff(m.CutOff):
    __doc__ = m.CutOff.__doc__

    def __call__(self, *args, **named):
        out, cache = Step.__call__(self, *args, **named)
        return out.detach(), cache


class Float32Result(m.Float32Result):
    __doc__ = m.Float32Result.__doc__

    def __call__(self, *args, **named):
        out, cache = Step.__call__(self, *args, **named)
        return out.float(), tuple(t.float() for t in cache)


CACHED_ATTENTION_STEP = Exercise(
    id="cached_attention_step",
    lesson=LESSON,
    call="cached_attention_step(query, key, value, cache)",
    points=1.5,
    cases=_cases,
    probe=StepProbe(),
    expect=_expect,
    reference=attention.cached_attention_step,
    returns=PAIR,
    properties=(
        Property(
            "listens", "Scores decide which token is heard", _listens, True, True, role="typical"
        ),
        Property("first", "The first token gives its own value", _first, True, role="first"),
        Property(
            "last_of_all",
            "The output is the last row of causal attention over all tokens",
            _last_of_all,
            True,
        ),
        Property(
            "all_kept",
            "The new cache holds keys and values of all tokens, the newest last",
            _all_kept,
            True,
        ),
        Property(
            "goes_on",
            "One step leads to the next, and one cache to two ways on",
            _goes_on,
            role="typical",
            breaks="Several steps, or two ways on from one cache, don't give what they should: is "
            "a cache written into?",
        ),
    ),
    misconceptions=Misconceptions.of(
        CausalOnOneQuery,
        NewestInFront,
        JoinedAlongAnother,
        CacheRequired,
        OldCacheReturned,
        NewestNotHeard,
        m.ChangesItsInput.but(grown=_grown_in_place, __call__=Step.__call__).on(
            Step,
            what="The cache that came in was changed.",
            why="Whoever calls may go on from it in two ways, as a beam does.",
            mend="`torch.cat` makes a new tensor: give it a name of its own.",
        ),
        CacheAssignedTo,
        CacheAskedForTruth,
        JoinedAlongAnother.but(dimension=0),
        JoinedAlongAnother.but(dimension=-1),
        NewestOnlyKept,
        CacheNotHeard,
        OutputOnly,
        ThreeReturned,
        PairSwapped,
        PairSwapped.but(returned=lambda self, out, new, cache: (new, out)),
        OnlyKeysKept,
        OnlyKeysKept.but(
            __call__=lambda self, query, key, value, cache: Step.__call__(
                self, query, value, value, cache
            )
        ),
        QueriesKept,
        AppendedTwice,
        OldestDropped,
        m.NotScaled,
        m.RootMissing,
        m.Multiplied,
        m.ScaledByTokens,
        m.OverQueries.on(
            Step,
            what="The softmax runs over the queries, and there is one: each weight is 1.",
            why="The output is then a sum of all values.",
            mend="In `(B, H, 1, S)` the keys are the last dimension.",
        ),
        m.SoftmaxTwice.on(
            Step,
            why="Weights lie between 0 and 1, so their softmax is nearly flat.",
            mend="One softmax, of the scores.",
        ),
        CutOff,
        Float32Result,
        on=Step,
    ),
    uses=("sdpa_attention",),
    hints=(
        "Append the newest key to the kept keys and the newest value to the kept values; attend "
        "with the one query; return both the output and the longer pair.",
        "`torch.cat([cache[0], key], dim=2)`: tokens are dimension 2 of `(B, H, S, D)`. If `cache` "
        "is None, keys and values are the new ones alone.",
        "`output = F.scaled_dot_product_attention(query, keys, values)`, without a mask and "
        "without `is_causal`; then `return output, (keys, values)`.",
    ),
    other_way="""\
# By hand: one row of scores, which is all that is new.
def cached_attention_step(query, key, value, cache):
    pairs = [(key, value)] if cache is None else [cache, (key, value)]
    keys, values = (torch.cat(parts, dim=2) for parts in zip(*pairs))
    scores = query @ keys.transpose(-2, -1) / query.shape[-1] ** 0.5  # (B, H, 1, S)
    return torch.softmax(scores, dim=-1) @ values, (keys, values)
""",
)
