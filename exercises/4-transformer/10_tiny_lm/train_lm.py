"""How an answer to `train_lm` is judged."""

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_utils.language_model import training_step
from exercises.shared.draw import Draw
from exercises.shared.pairs import as_pair, kind_of
from exercises.shared.training import Watched
from whywrong import Case, Observation, true_of
from whywrong.calling import fresh, set_seed, target_device
from whywrong.comparing import near

LIST = "a list of floats"
tolerance = {torch.float32: 1e-3, torch.float64: 1e-6}


def cases(seed):
    draw = Draw(seed)

    def case(name, n, rate, roles="", *, scale=1.0, dtype=torch.float32, **options):
        B, T, C, V = draw.sizes(4, 3, 9)
        numbers = {
            "token": scale * draw.normal(V, C, dtype=torch.float64),
            "head": scale * draw.normal(C, V, dtype=torch.float64) / C**0.5,
            "idle": draw.normal(2, dtype=torch.float64),
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
        case("one batch", 1, 0.03, "small"),
        case("four batches in float64, called by name", 4, 0.01, dtype=torch.float64, by_name=True),
    ]


def model_of(case, dtype):
    most = case.options["batches"][0].shape[1] - 1  # the last id is only predicted
    return Watched(case.options["numbers"], dtype, most).to(target_device()).train()


def probe(answer, case):
    """The losses, the weights afterwards, and of each step the optimizer and its learning rate."""
    seen, steps = Observation(), []

    def look(optimizer, *_):
        steps.append((optimizer, optimizer.param_groups[0]["lr"]))

    model = model_of(case, case.options["dtype"])
    given = {**case.inputs, "model": model}
    given["batches"] = [fresh(ids) for ids in case.options["batches"]]
    set_seed(1)
    hook = register_optimizer_step_pre_hook(look)
    try:
        by_name = case.options.get("by_name")
        returned = answer(**given) if by_name else answer(*given.values())
    finally:
        hook.remove()
    losses = floats(returned)
    if losses is not None:
        seen.put("out", losses.to(case.options["dtype"]))
    elif type(returned) is list:
        what = f"holding {type(returned[0]).__name__}" if returned else "with nothing in it"
        seen.put("out", kind_of(f"a list {what}"))
    else:
        seen.put("out", returned)
    for name in ("token", "head"):
        seen.put(f"`{name}` after the last step", getattr(model, name))
    weights = [name for name in seen.tensors if name != "out"]
    as_pair(seen, LIST, *weights, *(["out"] if losses is not None else []))
    seen.facts["traits"] = {
        "optimizers": sorted({type(optimizer).__name__ for optimizer, _ in steps}),
        "made": len({id(optimizer) for optimizer, _ in steps}),
        "steps": len(steps),
    }
    seen.facts["settings"] = [_settings(optimizer) for optimizer, _ in steps[:1]]
    seen.put_judged("rates", torch.tensor([float(rate) for _, rate in steps]))
    return seen


def _settings(optimizer):
    """What affects its steps besides the learning rate, as text."""
    names = ("weight_decay", "betas", "eps", "amsgrad", "maximize")
    return str([optimizer.defaults.get(name) for name in names])


def floats(returned):
    """A list of floats as a tensor; None for anything else."""
    if type(returned) is list and returned and all(type(loss) is float for loss in returned):
        return torch.tensor(returned)
    return None


def expect(case):
    """The same in float64, with the course's own step."""
    model = model_of(case, torch.float64)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for i, ids in enumerate(case.options["batches"]):
        optimizer.param_groups[0]["lr"] = float(rates(case)[i])
        losses.append(training_step(model, ids.to(target_device()), optimizer))
    dtype = case.options["dtype"]
    weights = {
        f"`{name}` after the last step": getattr(model, name).detach().cpu().to(dtype)
        for name in ("token", "head")
    }
    return {"out": torch.tensor(losses, dtype=dtype), **weights}


def rates(case):
    n = len(case.options["batches"])
    return case["learning_rate"] * (1 - torch.arange(n) / n)


@true_of("Each batch gives one step and one loss", credit=True)
def one_step_each(case, seen, expected):
    n, losses = len(case.options["batches"]), seen.tensors.get("out")
    return seen.traits["steps"] == n and losses is not None and losses.shape == (n,)


@true_of("The learning rate falls to 0 in a straight line", credit=True, role="typical")
def falls(case, seen, expected):
    mine = seen.tensors["judged:rates"]
    if len(mine) == len(case.options["batches"]) and near(mine, rates(case), 1e-5):
        return True
    return f"goes {', '.join(f'{rate:.3g}' for rate in mine.tolist()[:6])}"


@true_of("One AdamW takes all steps", credit=True, role="typical")
def one_optimizer(case, seen, expected):
    return seen.traits["optimizers"] == ["AdamW"] and seen.traits["made"] == 1


@true_of("AdamW has its default settings", secondary=True, role="typical")
def settings(case, seen, expected):
    if seen.traits["optimizers"] != ["AdamW"]:
        return None
    return seen.facts["settings"] == [_settings(torch.optim.AdamW([torch.zeros(1)]))]


def other_settings(trials):
    """With any other number."""
    t = next(t for t in trials if "typical" in t.case.roles)
    rows = (one_step_each, falls, one_optimizer, settings)
    return [row.verdict(t) for row in rows] == [True, True, True, False]


signs = {"other_settings": other_settings}
properties = (one_step_each, falls, one_optimizer, settings)
letters = {"model": None, "batches": None, "learning_rate": None}
