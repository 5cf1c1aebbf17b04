"""How an answer to `safe_masked_softmax` is judged."""

import contextlib

import torch
import torch.nn.functional as F

from course_utils.experiments.nan_hunt import nan_on_the_way_back
from exercises.shared.heads import BUILT_IN
from exercises.shared.masks import as_many_texts, filled_with_a_number
from whywrong import Case, Draw, FunctionProbe, expect_function, fresh, true_of
from whywrong.probing import cotangent

forbidden = BUILT_IN


def cases(seed):
    draw = Draw(seed)
    B, H, T, S = draw.sizes(4, 2, 7)

    def case(name, scores, hidden, *roles):
        scores = scores if isinstance(scores, torch.Tensor) else draw.normal(*scores)
        return Case(name, {"scores": scores, "hidden": hidden}, roles=set(roles))

    by_hand = torch.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    hides = torch.tensor([[False, False, True], [True, True, True]])
    some = draw.with_empty_row(T, S + 6)
    loud = draw.normal(T, S + 6).masked_fill(some, 100.0)
    zeros = draw.normal(T, S)
    zeros[:, draw.integer(0, S - 1)] = 0.0
    return [
        case("the second row attends to nothing", by_hand, hides),
        case("every row attends to something", (T, S), draw.hidden(T, S)),
        case("one empty row", (T, S), draw.with_empty_row(T, S), "typical"),
        case("nothing hidden", (S, T), torch.zeros(S, T) > 0, "open"),
        case("one query", (1, 1, S), draw.hidden(1, S), "small"),
        case("all hidden, by a mask of rows", (H, T), torch.ones(H, 1) > 0, "stability"),
        case("padding before the text", (2, 4, 4), padding_in_front([1, 3], 4), "small"),
        *mask_shapes(case, draw, B, H, T, S),
        case("float64", draw.normal(T, S, dtype=torch.float64), draw.with_empty_row(T, S)),
        case("not contiguous in memory", draw.normal(S, T).T, draw.with_empty_row(T, S)),
        case("visible scores of 0", zeros, draw.with_empty_row(T, S)),
        case("visible scores near -100", draw.normal(T, S + 6) - 100.0, some),
        case("visible scores near -1,000", draw.normal(T, S + 6) - 1_000.0, some),
        case("hidden scores of 100", loud, some),
        *as_many_texts(draw, draw.with_empty_row, T, S),
    ]


def padding_in_front(lengths, T):
    """The future and padding in front of texts of these lengths, `(B, T, T)`."""
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return future | (torch.arange(T) < T - torch.tensor(lengths)[:, None])[:, None, :]


def mask_shapes(case, draw, B, H, T, S):
    """The ways in which a mask can be smaller than its scores, and none."""
    shapes = {
        "a mask of columns": ((B, T, S), (B, 1, S)),
        "a mask for each text": ((B, T, S), (B, T, S)),
        "one mask for all texts": ((B, T, S), (T, S)),
        "a mask of columns, for all heads": ((B, H, T, S), (B, 1, 1, S)),
        "a mask for each text, for all heads": ((B, H, T, S), (B, 1, T, S)),
        "a mask for each head, for all texts": ((B, H, T, S), (H, T, S)),
    }
    return [
        case(name, scores, draw.with_empty_row(*mask)) for name, (scores, mask) in shapes.items()
    ]


def oracle(scores, hidden):
    """The built-in attention gives its weights when the values are the identity, and zeros for a
    row that attends to nothing."""
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype).expand(*scores.shape[:-2], -1, -1)
    visible = ~hidden.expand_as(scores)
    return F.scaled_dot_product_attention(scores, eye, eye, attn_mask=visible, scale=1.0)


def see_the_way_back(answer, case, observed):
    """Whether a NaN turns up in some gradient on the way, also in one that gets no further."""
    with contextlib.suppress(Exception):  # what is wrong with it shows elsewhere
        out = answer(*(fresh(v, n == "scores") for n, v in case.inputs.items()))
        observed.facts["traits"] = {"nan": nan_on_the_way_back((out * cotangent(out)).sum())}


probe = FunctionProbe(gradients=("scores",), watch=True, extra=see_the_way_back)
expect = expect_function(oracle, gradients=("scores",))


def empty_rows(case):
    return case["hidden"].expand_as(case["scores"]).all(-1)


@true_of("A bigger score gets a bigger weight", gate=True, role="open")
def matter(case, observed, expected):
    return bool((observed.tensors["out"].diff() * case["scores"].diff() > 0).all())


@true_of("A row that attends to nothing gets zeros", credit=True)
def empty(case, observed, expected):
    rows = empty_rows(case)
    return bool((observed.tensors["out"][rows] == 0).all()) if bool(rows.any()) else None


@true_of("Rows that attend to something give hidden keys exactly 0 and sum to 1", credit=True)
def others(case, observed, expected):
    out, rows = observed.tensors["out"], ~empty_rows(case)
    hidden = case["hidden"].expand_as(case["scores"])
    if not bool(rows.any()):
        return None
    if not bool((out[hidden & rows[..., None]] == 0).all()):
        return "give hidden keys some weight"
    if not bool(((out.double().sum(-1)[rows] - 1).abs() < 1e-4).all()):
        return "don't sum to 1"
    return True


@true_of("No gradient is NaN", breaks="A NaN comes back as the gradient of the scores")
def finite_gradient(case, observed, expected):
    return bool(observed.tensors["grad:scores"].isfinite().all())


def explain_nan(trial):
    return (
        "A NaN arises on the way, there or back. The result is right, but only luck keeps the NaN "
        "from the scores.",
        f"Case: {trial.case.name}. {trial.case.describe()}\n"
        "On the way back, an operation's gradient is NaN; `torch.autograd.detect_anomaly()` shows "
        "it.",
    )


@true_of(
    "No NaN arises on the way",
    credit=True,
    breaks="An operation on the way gives NaN, in its result or in its gradient",
    explain=explain_nan,
)
def no_nan(case, observed, expected):
    return not observed.traits["nan"] if "nan" in observed.traits else None


properties = (matter, empty, others, finite_gradient, no_nan)
signs = {"fill_not_low_enough": filled_with_a_number}
