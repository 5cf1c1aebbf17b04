"""How an answer to `cached_attention_step` is judged."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from exercises.shared.pairs import as_pair, kind_of
from whywrong import (
    Case,
    Draw,
    FunctionProbe,
    Observation,
    expect_function,
    fresh,
    near,
    same,
    true_of,
)
from whywrong.probing import class_name

NEW = ("query", "key", "value")
KEPT = ("kept keys", "kept values")
KEYS, VALUES = "new keys", "new values"
RESULTS = ("out", KEYS, VALUES)
CHAIN = 4  # steps from an empty cache
PAIR = "a pair, (output, (keys, values))"


# ---------------------------------------------------------------- cases and what is right


def cases(seed):
    draw = Draw(seed)
    B, H, S, D = draw.sizes(4, 3, 8)
    while S + 9 == H * D:
        B, H, S, D = draw.sizes(4, 3, 8)

    def case(name, kept, roles="", sizes=(B, H, D), dtype=torch.float32, **options):
        b, heads, d = sizes
        made = {part: draw.normal(b, heads, 1, d, dtype=dtype) for part in NEW}
        cache = (draw.normal(b, heads, kept, d, dtype=dtype) for _ in KEPT)
        made["cache"] = tuple(cache) if kept else None
        return Case(name, made, options=options, roles=frozenset(roles.split()))

    turned = case("not contiguous in memory", S)
    for name in NEW:  # as they come from `split_heads`
        turned.inputs[name] = turned[name].transpose(1, 2).contiguous().transpose(1, 2)
    turned.inputs["cache"] = tuple(t.mT.contiguous().mT for t in turned["cache"])
    double, every = torch.float64, (*NEW, "cache")
    return [
        case("some tokens kept", S, "typical"),
        case("the first token", 0, "first"),
        case("float64, by name", S + 9, dtype=double, keywords=every),
        case("three hundred tokens kept", 300, "small", sizes=(2, 1, 3), once=True),
        case("one token kept", 1, "small"),
        turned,
        case("the first token, float64, by name", 0, "first", dtype=double, keywords=every),
        case("one text, one head", 3, "small", sizes=(1, 1, 2), once=True),
        case("as many tokens as channels", D, "small", once=True),
    ]


def last_row(query, keys, values):
    scores = torch.einsum("bhtd,bhsd->bhts", query, keys) / math.sqrt(query.shape[-1])
    return torch.einsum("bhts,bhsd->bhtd", scores.softmax(-1), values)


def flat(case):
    """The case of a function of tensors alone."""
    inputs = {name: case[name] for name in NEW} | dict(zip(KEPT, case["cache"] or (), strict=False))
    options = {name: value for name, value in case.options.items() if name != "keywords"}
    return replace(case, inputs=inputs, options=options)


def with_new(key, value, *kept):
    return torch.cat([*kept[:1], key], 2), torch.cat([*kept[1:], value], 2)


output = expect_function(
    lambda query, *others: last_row(query, *with_new(*others)), gradients=(*NEW, *KEPT)
)


def expect(case):
    _, *others = flat(case).inputs.values()
    return output(flat(case)) | dict(zip((KEYS, VALUES), with_new(*others), strict=True))


# ---------------------------------------------------------------- evidence


def called(answer, case, args):
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, args, strict=True)))
    return answer(*args)


def three_parts(result):
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
    return kind_of(f"a {named(result)}: {', '.join(map(named, result[:4]))}"), None, None


def named(part):
    name = class_name(part)
    return f"{name} of {len(part)}" if isinstance(part, tuple | list) else name


STEP = FunctionProbe(gradients=(*NEW, *KEPT))


class StepProbe:
    """Observes a step as a function of the newest token and of what was kept: `out`, the new cache,
    gradients of the output. A typical case also gives the trait `goes_on`: see `goes_on_from`."""

    def __call__(self, answer, case):
        observed = of_a_step(STEP, answer, case)
        if "typical" in case.roles:
            shape = case["query"].shape
            observed.facts["traits"] = {"goes_on": goes_on_from(answer, shape)}
        return observed

    def glance(self, answer, case):
        return of_a_step(STEP.glance, answer, case)


def of_a_step(probe, answer, case):
    first, cache = Observation(), []

    def step(query, key, value, *kept):
        out, *made = three_parts(called(answer, case, [query, key, value, kept or None]))
        if not cache:
            cache.extend(made)
            for name, tensor in zip((KEYS, VALUES), made, strict=True):
                first.put(name, tensor)
        return out

    observed = probe(step, flat(case))
    observed.tensors |= first.tensors
    observed.facts["types"] |= first.facts["types"]
    if first.tensors and not same([t.detach() for t in cache], [*first.tensors.values()]):
        observed.facts["overwritten"] = True
    if modified := observed.facts.get("modified"):
        observed.facts["modified"] = ["cache" if n in KEPT else n for n in modified]
    return as_pair(observed, PAIR, *RESULTS)


def goes_on_from(answer, shape):
    """Whether steps from the first token on, each with the cache of the one before, and two ways on
    from one cache, are right; None where the first is wrong: then no cache was handed on yet."""
    B, H, _, D = shape
    generator = torch.Generator().manual_seed(B * H * D)
    q, k, v = torch.randn(3, B, H, CHAIN + 1, D, generator=generator).unbind(0)
    right = None  # so far
    try:
        cache = None
        for t in range(CHAIN):
            before, now = cache, [x[:, :, t : t + 1] for x in (q, k, v)]
            out, cache = answer(*map(fresh, now), cache)
            wanted = last_row(now[0], k[:, :, : t + 1], v[:, :, : t + 1])
            good = near(out.detach().cpu(), wanted)
            pairs = zip(cache, now[1:], strict=True)
            if t == 0 and not (good and all(near(mine.detach().cpu(), x) for mine, x in pairs)):
                return None
            right = good and right is not False
        # Another fourth token: the cache it goes on from is still that of three.
        other = [x[:, :, CHAIN:] for x in (q, k, v)]
        out, _ = answer(*map(fresh, other), before)
        keys, values = (torch.cat([x[:, :, : CHAIN - 1], x[:, :, CHAIN:]], 2) for x in (k, v))
        kept = same([x.detach().cpu() for x in cache], [k[:, :, :CHAIN], v[:, :, :CHAIN]])
        return right and kept and near(out.detach().cpu(), last_row(other[0], keys, values))
    except Exception:
        return None if right is None else False


probe = StepProbe()


# ---------------------------------------------------------------- properties


@true_of("Scores decide which tokens are mixed", credit=True, gate=True, role="typical")
def listens(case, observed, expected):
    """The output is neither the newest value nor a mean."""
    out, value = observed.tensors["out"], case["value"]
    means = [case["cache"][1].mean(2, keepdim=True), expected[VALUES].mean(2, keepdim=True)]
    return not any(near(out, other) for other in (value, *means))


@true_of("The first token gives its own value", credit=True, role="first")
def first(case, observed, expected):
    return near(observed.tensors["out"], case["value"])


@true_of("The output is the last row of causal attention over all tokens", credit=True)
def last_of_all(case, observed, expected):
    return None if "first" in case.roles else near(observed.tensors["out"], expected["out"])


@true_of("The new cache holds keys and values of all tokens, the newest last", credit=True)
def all_kept(case, observed, expected):
    return all(near(observed.tensors[n], expected[n]) for n in (KEYS, VALUES))


@true_of(
    "One step leads to the next, and one cache to two ways on",
    role="typical",
    breaks="Several steps, or two ways on from one cache, give wrong results: is a cache written "
    "into?",
)
def goes_on(case, observed, expected):
    if not all(near(observed.tensors[n], expected[n]) for n in RESULTS):
        return None
    return observed.traits.get("goes_on")


def only_the_last(trials):
    """Whether each output is that of the last n tokens, with one n for all cases."""
    longest = max(t.case["cache"][0].shape[2] for t in trials if t.case["cache"])
    return any(all(_sees(t, n) for t in trials) for n in range(1, longest + 1))


def _sees(t, n):
    cut = [t.expected[name][:, :, -n:].double() for name in (KEYS, VALUES)]
    return near(t.observed.tensors["out"].double(), last_row(t.case["query"].double(), *cut), 1e-4)


signs = {"oldest_dropped": only_the_last}
properties = (listens, first, last_of_all, all_kept, goes_on)

letters = {"query": "B H 1 D", "key": "B H 1 D", "value": "B H 1 D", "cache": "B H S D"}
