"""How an answer to `train_lm` is judged."""

import torch

from course_utils.language_model import training_step
from exercises.shared.loops import (
    falls,
    one_optimizer,
    one_step_each,
    rates,
    see_loop,
    settings_of,
    warms_up,
    weights_after,
    with_many,
)
from exercises.shared.training import LEARNED, Watched
from whywrong import Case, Draw, fresh, near, true_of

WEIGHTS = "token", "head"
tolerance = {torch.float32: 1e-3, torch.float64: 1e-6}


def cases(seed):
    draw = Draw(seed)

    def case(name, n, rate, roles="", *, scale=1.0, dtype=torch.float32, **options):
        B, T, C, V = draw.sizes(4, 3, 9)
        numbers = {
            "token": scale * draw.normal(V, C, dtype=torch.float64),
            "head": scale * draw.normal(C, V, dtype=torch.float64) / C**0.5,
            "bias": scale * draw.normal(V, dtype=torch.float64),
            "fixed": draw.normal(C, dtype=torch.float64) / 2,
        }
        batches = [torch.randint(V, (B, T), generator=draw.generator) for _ in range(n)]
        inputs = {"model": f"a small model of {V} words"}
        inputs |= {"batches": f"{n} of shape ({B}, {T})", "learning_rate": rate}
        options |= {"numbers": numbers, "batches": batches, "dtype": dtype}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    return [
        case("five batches", 5, 0.02, "typical"),
        case("eight batches, long gradients", 8, 0.004, scale=4.0),
        case("one batch, from evaluation mode", 1, 0.03, "small stability", training=False),
        case("four batches in float64, called by name", 4, 0.01, dtype=torch.float64, by_name=True),
        with_many(case),
    ]


def model_of(case, dtype):
    most = case.options["batches"][0].shape[1] - 1  # the last id is only predicted
    model = Watched(case.options["numbers"], dtype, most)
    return model.train(case.options.get("training", True))


def probe(answer, case):
    """What `see_loop` sees, and each parameter's settings in the first optimizer."""
    batches = [fresh(ids) for ids in case.options["batches"]]
    model = model_of(case, case.options["dtype"])
    observed, optimizers = see_loop(answer, case, model, batches, WEIGHTS)
    observed.traits["settings"] = settings_of(optimizers, model, LEARNED)
    return observed


def expect(case):
    """The same in float64, with the course's own step."""
    model = model_of(case, torch.float64)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for i, ids in enumerate(case.options["batches"]):
        optimizer.param_groups[0]["lr"] = float(rates(case)[i])
        losses.append(training_step(model, ids, optimizer))
    out = torch.tensor(losses, dtype=case.options["dtype"])
    return {"out": out, **weights_after(model, case, WEIGHTS)}


@true_of("AdamW has its default settings", secondary=True, role="typical")
def settings(case, observed, expected):
    if observed.traits["optimizers"] != ["AdamW"]:
        return None
    model = model_of(case, torch.float32)
    usual = settings_of([torch.optim.AdamW(model.parameters())], model, LEARNED)
    if lost := usual.keys() - observed.traits["settings"].keys():
        return f"takes no steps for {len(lost)} of {len(usual)} parameters"
    return observed.traits["settings"] == usual


def other_settings(trials):
    """With any other number."""
    t = next(t for t in trials if "typical" in t.case.roles)
    rows = (one_step_each, falls, one_optimizer, settings)
    return [row.verdict(t) for row in rows] == [True, True, True, False]


def falls_too_slowly(trials):
    """To any other rate above the last one, for example for another number of steps."""
    t = next(t for t in trials if "typical" in t.case.roles)
    asked, mine = rates(t.case), t.observed.tensors["judged:rates"]
    first, last = float(asked[0]), float(mine[-1])
    line = torch.linspace(first, last, len(asked))
    return near(mine, line, 1e-5) and 1.001 * float(asked[-1]) < last < 0.999 * first


signs = {
    "other_settings": other_settings,
    "falls_too_slowly": falls_too_slowly,
    "warms_up": warms_up,
}
properties = (one_step_each, falls, one_optimizer, settings)
