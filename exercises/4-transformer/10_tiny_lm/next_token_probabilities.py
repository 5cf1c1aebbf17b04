"""How an answer to `next_token_probabilities` is judged."""

import contextlib

import torch

from whywrong import Case, Draw, FunctionProbe, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, logits, roles="", **named):
        by_name = {"keywords": tuple(n for n in named if n != "temperature")}
        by_name |= {"once": "many" in roles}
        return Case(name, {"logits": logits, **named}, None, by_name, frozenset(roles.split()))

    def sizes():
        V, B = draw.sizes(2, 6, 11)
        return B - 3 if B - 3 != V else B, V

    third, double = draw.sizes(3, 6, 9), torch.float64

    def drawn(temperature=1.0, top_k=None, top_p=None, shape=(), dtype=torch.float32):
        return clear_logits(draw, shape or sizes(), dtype, temperature, top_k, top_p)

    by_hand = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log().float()
    # The likeliest two of five reach 0.62 of the whole, and 0.62 / 0.78 of the likeliest three.
    steep = torch.tensor([[0.16, 0.08, 0.34, 0.28, 0.14]], dtype=torch.float64).log().float()
    one_sure = torch.tensor([[0.0, 9.0, 1.0, 2.0, -1.0, 0.5], [1.0, 0.0, 0.2, 0.3, 0.1, 5.0]])
    B, V = sizes()
    even = torch.zeros(B, V)  # others sum to a bit more or less than 1, depending on the machine
    return [
        case("three words by hand, top_p 0.6", by_hand, "small", top_p=0.6),
        case("logits alone", drawn()),
        case("temperature 0.7", drawn(0.7), "typical", temperature=0.7),
        case("temperature 0", drawn(), "cold", temperature=0),
        case(
            "temperature 0.0, both cuts, three dimensions",
            drawn(shape=third),
            "cold stability",
            temperature=0.0,
            top_k=3,
            top_p=0.5,
        ),
        case("logits alone, 60 words", draw.normal(2, 60)),
        case("top_k 3", drawn(), top_k=3),
        case("top_k 1", drawn(), top_k=1),
        case("top_k beyond the vocabulary", drawn(), top_k=50),
        case("top_p 0.93, three dimensions", drawn(top_p=0.93, shape=third), top_p=0.93),
        case("top_p 1", even, top_p=1.0),
        case("top_p 1, many rows", draw.normal(500, 50), "many", top_p=1.0),
        case("top_p below the likeliest", one_sure, top_p=0.5),
        case("top_k, then top_p", steep, "small", top_k=3, top_p=0.7),
        case("all three", drawn(0.8, 5, 0.75), temperature=0.8, top_k=5, top_p=0.75),
        case("temperature 2 and top_p 0.55", drawn(2.0, None, 0.55), temperature=2.0, top_p=0.55),
        case("temperature 0.03", drawn() + 3.0, "stability", temperature=0.03),
        case("float64", drawn(1.3, 4, 0.8, dtype=double), temperature=1.3, top_k=4, top_p=0.8),
        case("one row", drawn(1.0, 3, 0.8, shape=(V,)), top_k=3, top_p=0.8),
        case("not contiguous in memory", drawn(shape=(V, B)).T.contiguous().T, top_k=2),
    ]


def clear_logits(draw, shape, dtype, *options):
    """Logits for which rounding does not change which tokens are left."""
    while True:
        logits = 1.5 * draw.normal(*shape, dtype=torch.float64)
        if is_clear(logits, *options):
            return logits.to(dtype)


def is_clear(logits, temperature, top_k, top_p):
    """No two probabilities are alike, and no running sum is close to top_p."""
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


def oracle(logits, temperature=1.0, top_k=None, top_p=None):
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


TIES = {"top_k": (2, 2), "top_p": (0.5, 3), "temperature": (0, 1)}  # and how many words are left


def see_ties(answer, case, observed):
    """How many words are left of those that are equally likely, whichever they are; nothing where
    the result is no probability."""
    if "typical" not in case.roles:
        return
    tied = torch.tensor([[1.0, 1.0, 0.0, 1.0, 1.0]])
    kept = {}
    for name, (value, _) in TIES.items():
        with contextlib.suppress(Exception):  # other cases ask for these, and report an error
            out = answer(tied.clone(), **{name: value})
            if out.shape == tied.shape and bool((out >= 0).all()) and bool(out.isfinite().all()):
                kept[name] = int((out > 1e-6).sum())
    with contextlib.suppress(Exception):
        even = torch.zeros(1, 4)
        if bool((answer(even.clone()) == 0.25).all()):  # else its sums are rounded
            kept["an exact sum"] = int((answer(even.clone(), top_p=0.5) > 1e-6).sum())
    observed.facts["traits"] = {"ties": kept}


probe = FunctionProbe(extra=see_ties)


def expect(case):
    return {"out": oracle(**case.inputs).to(case["logits"].dtype)}


@true_of(
    "The likeliest word stays the likeliest, and others have their share", gate=True, role="typical"
)
def matters(case, observed, expected):
    out, logits = observed.tensors["out"], case["logits"]
    best = out.gather(-1, logits.argmax(-1, keepdim=True))
    return bool((best >= out.amax(-1, keepdim=True) - 1e-6).all()) and bool((best < 1).any())


@true_of("The probabilities of each row sum to 1", credit=True)
def sums(case, observed, expected):
    out = observed.tensors["out"].double()
    return near(out.sum(-1), torch.ones(out.shape[:-1])) and bool((out >= 0).all())


@true_of("top_k and top_p leave the right words, and no others", credit=True)
def keeps(case, observed, expected):
    if not {"top_k", "top_p"} & case.inputs.keys() or "many" in case.roles:
        return None  # in some of many rows, the sum rounds to 1 before the last word
    return bool(((observed.tensors["out"] > 0) == (expected["out"] > 0)).all())


@true_of("At temperature 0 the likeliest word has 1, and all others 0", credit=True, role="cold")
def cold(case, observed, expected):
    return near(observed.tensors["out"], expected["out"])


@true_of(
    "Among equally likely words too, as many are left as were asked for",
    secondary=True,
    role="typical",
)
def ties(case, observed, expected):
    kept = observed.traits["ties"]
    if not kept.keys() >= TIES.keys():
        return None
    if kept.get("an exact sum", 2) != 2:
        return f"keeps {kept['an exact sum']} of four for top_p=0.5, though two are enough"
    wrong = [f"keeps {kept[n]} for {n}={v}" for n, (v, right) in TIES.items() if kept[n] != right]
    return wrong[0] if wrong else True


properties = (matters, sums, keeps, cold, ties)

letters = {"logits": "…"}
