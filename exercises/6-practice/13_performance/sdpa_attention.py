"""How an answer to `sdpa_attention` is judged."""

import contextlib
import math

import torch

from course_utils.attention import attention_scores, safe_masked_softmax
from exercises.shared.heads import BUILT_IN
from whywrong import Case, Draw, FunctionProbe, expect_function, fresh, near, true_of

PARTS = ("query", "key", "value")


def cases(seed):
    draw = Draw(seed)
    B, H, T, S, D = draw.sizes(5, 2, 7)
    while H * D in (B, T, S):
        B, H, T, S, D = draw.sizes(5, 2, 7)
    sizes, square, equal = (B, H, T, S, D), (2, 3, 5, 5, 4), (3, 3, 3, 5, 4)

    def case(name, hidden=None, roles="", sizes=sizes, **options):
        return Case(name, inputs(draw, sizes, hidden), options=options, roles=set(roles.split()))

    padding = draw.hidden(1, S)
    loud = inputs(draw, sizes, padding, torch.float64)
    far = (100 * D**0.5) ** 0.5
    loud["query"][..., 0], loud["key"][..., 0] = far, far * padding  # hidden scores near 100
    turned = case("not contiguous in memory", draw.with_empty_row(T, S))
    for name in PARTS:  # as they come from `split_heads`
        turned.inputs[name] = turned[name].transpose(1, 2).contiguous().transpose(1, 2)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    small, once = {"roles": "small", "sizes": square}, {"once": True}
    coinciding = {"roles": "small", "sizes": equal, **once}
    return [
        case("nothing hidden", roles="plain"),
        case("a mask for each text", draw.hidden(B, 1, T, S), "typical"),
        case("rows that attend to nothing", draw.with_empty_row(B, 1, T, S), "empty"),
        Case("float64, hidden scores near 100", loud),
        case("a mask for each head", draw.with_empty_row(H, T, S)),
        case("padding, by name", draw.hidden(B, 1, 1, S), keywords=(*PARTS, "hidden")),
        case("a mask for each head of each text", draw.with_empty_row(B, H, T, S), **once),
        turned,
        case("the future", future, **small, **once),
        case("as many queries as keys", **small, **once),
        case("a square mask, not the future", draw.hidden(5, 5), **small),
        case("one text, one head", roles="small", sizes=(1, 1, T, S, D), **once),
        case("as many texts and heads as queries", draw.hidden(3, 5), **coinciding),
        case("a mask for each head, as many texts as heads", draw.hidden(3, 3, 5), **coinciding),
    ]


def inputs(draw, sizes, hidden=None, dtype=torch.float32):
    B, H, T, S, D = sizes
    made = {
        "query": draw.normal(B, H, T, D, dtype=dtype),
        "key": draw.normal(B, H, S, D, dtype=dtype),
        "value": draw.normal(B, H, S, D, dtype=dtype),
    }
    return made if hidden is None else made | {"hidden": hidden}


def oracle(query, key, value, hidden=None):
    """By the parts of lessons 04 and 05."""
    scores = attention_scores(query, key)
    if hidden is None:
        return torch.softmax(scores, dim=-1) @ value
    return safe_masked_softmax(scores, hidden) @ value


def see_row(answer, case, observed):
    """Whether a built-in ran; and one more call with a mask of a single row, `(S,)`."""
    observed.facts["traits"] = {"built_in": bool({*observed.facts["ops"]} & {*BUILT_IN})}
    if "typical" not in case.roles:
        return
    with contextlib.suppress(Exception):
        observed.put_judged("row", answer(*map(fresh, with_a_row(case))))


def with_a_row(case):
    return *(case[n] for n in PARTS), case["hidden"][0, 0, 0]  # the last one is (S,)


probe = FunctionProbe(gradients=PARTS, watch=True, extra=see_row)
expect = expect_function(oracle, gradients=PARTS)


@true_of(
    "A mask has an effect",
    role="typical",
    breaks="A mask has no effect, or the same one on every key",
)
def hides(case, observed, expected):
    """The result is neither what no mask gives, nor a mean."""
    query, key, value = (case[n].double() for n in PARTS)
    blank = oracle(query, key, value)
    mean = value.mean(2, keepdim=True).expand_as(blank)
    out = observed.tensors["out"]
    return not near(out, blank) and not near(out, mean)


@true_of("Without a mask the result is right", credit=True, role="plain")
def plain(case, observed, expected):
    return near(observed.tensors["out"], expected["out"])


@true_of("With a mask the result is right", credit=True, role="typical")
def masked(case, observed, expected):
    return near(observed.tensors["out"], expected["out"])


@true_of("A query that attends to nothing gives zeros", credit=True, role="empty")
def empty(case, observed, expected):
    out = observed.tensors["out"]  # (B, H, T, D)
    nothing = case["hidden"].all(dim=-1).expand(out.shape[:-1])
    return near(out[nothing], torch.zeros_like(out[nothing]))


@true_of(
    "A mask of one row, `(S,)`, is accepted too",
    secondary=True,
    role="typical",
    breaks="A mask of one row, `(S,)`, is not accepted, or gives something else",
)
def row(case, observed, expected):
    if "built_in" not in observed.traits:
        return None
    mine = observed.tensors.get("judged:row")
    if mine is None:
        return False
    if not near(observed.tensors["out"], expected["out"]):
        return None  # told elsewhere
    return near(mine, oracle(*with_a_row(case)))


@true_of(
    "PyTorch's own function does the work",
    secondary=True,
    breaks="The work is done by hand: `F.scaled_dot_product_attention` was asked for",
)
def built_in(case, observed, expected):
    return observed.traits.get("built_in")


def leaks_where_all_is_hidden(trials):
    """Whether only queries that attend to nothing are wrong, and get a mean of the values."""
    shown = False
    for t in trials:
        out, wanted = t.observed.tensors["out"], t.expected["out"]
        if "hidden" not in t.case.inputs:
            nothing = torch.zeros(out.shape[:-1], dtype=torch.bool)
        else:
            nothing = t.case["hidden"].all(dim=-1).expand(out.shape[:-1])
        if not near(out[~nothing], wanted[~nothing]) or not bool(out.isfinite().all()):
            return False
        shown = shown or bool(out[nothing].abs().sum() > 0)
    return shown


def lowered_by_a_number(trials):
    """Whether all wrong results are those of hidden scores lowered by one number, any number."""
    wrong = [t for t in trials if not near(t.observed.tensors["out"], t.expected["out"])]
    shown = [left for t in wrong if 0 < (left := left_of_hidden(t)) < 1]
    return any(
        all(near(t.observed.tensors["out"], lowered(t.case, left)) for t in wrong)
        for left in (*shown, math.exp(-50))  # no result shows which number near 50 it is
    )


def lowered(case, left):
    """The result if the exponential of each hidden score is multiplied by `left`."""
    exps, hidden = in_parts(case)
    weights = torch.where(hidden, left * exps, exps)
    return weights / weights.sum(dim=-1, keepdim=True) @ case["value"].double()


def left_of_hidden(t):
    """The factor that brings `lowered` nearest to the result."""
    exps, hidden = in_parts(t.case)
    out, value = t.observed.tensors["out"].double(), t.case["value"].double()
    seen, unseen = exps.masked_fill(hidden, 0.0), exps.masked_fill(~hidden, 0.0)
    a = out * unseen.sum(dim=-1, keepdim=True) - unseen @ value
    b = seen @ value - out * seen.sum(dim=-1, keepdim=True)
    return float((a * b).sum() / (a * a).sum())


def in_parts(case):
    """The exponentials of the scores, the largest of each row being 1, and the whole mask."""
    scores = attention_scores(case["query"].double(), case["key"].double())
    exps = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exps, case["hidden"].expand_as(scores)


signs = {
    "uniform_on_hidden": leaks_where_all_is_hidden,  # each number rounds otherwise
    "fill_not_low_enough": lowered_by_a_number,
}
properties = (hides, plain, masked, empty, row, built_in)

letters = {"key": "B H S D", "value": "B H S D", "hidden": "… B H T S"}
