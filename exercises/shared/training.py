"""One training step, observed from outside: cases, observations, and properties of any step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whywrong import Case, Draw, Observation, Property, fresh, near, set_seed
from whywrong.probing import Expected, Trial, Verdict, evidence, untouched

STEP_TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-6}

# ---------------------------------------------------------------- the model


class Watched(nn.Module):
    """A small causal model that computes something different in evaluation mode.

    Each token gets the mean of the tokens so far, so the other logits are the same with or without
    the last token. In evaluation mode, logits are half as large, so a step taken there leads to
    different weights. `fixed` isn't trained. `calls`
    records, for each call that received a gradient, whether it was in training mode. With `most`, a
    longer text is refused, as by a model with `context_length`.
    """

    token: Tensor
    head: Tensor
    bias: Tensor
    fixed: Tensor

    def __init__(
        self, weights: Mapping[str, Tensor], dtype: torch.dtype, most: int | None = None
    ) -> None:
        super().__init__()
        self.most = most
        for name, value in weights.items():
            setattr(self, name, nn.Parameter(value.to(dtype, copy=True)))
        self.fixed.requires_grad_(False)
        self.inner = nn.Sequential(nn.Identity())  # it has its own mode
        self.calls: list[bool] = []

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        if self.most is not None and self.most < T:
            raise ValueError(f"{T} tokens came in, but context_length is {self.most}")
        met = self.token[ids].cumsum(dim=1)  # (B, T, C)
        mean = met / torch.arange(1, T + 1, device=ids.device)[:, None]
        logits = (mean + self.fixed) @ self.head + self.bias  # (B, T, C) @ (C, V) -> (B, T, V)
        in_training = self.training and self.inner.training
        out = logits if in_training else logits / 2
        if out.requires_grad:
            out.register_hook(lambda _: self.calls.append(in_training))
        return out


def _two_groups(parameters: Any) -> torch.optim.Optimizer:
    first, *others = parameters
    return torch.optim.SGD([{"params": [first]}, {"params": others, "lr": 0.2}], lr=0.5)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD with two groups": _two_groups,
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.3, momentum=0.9),
    # With the usual eps of 1e-8, the result depends on the rounding of tiny gradients.
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, eps=1e-3),
}
LEARNED = ("token", "head", "bias")
LEFT_OVER = 0.5  # each element of the gradients that exist before the first step


def _model(case: Case, dtype: torch.dtype | None = None) -> Watched:
    dtype, most = dtype or case.options["dtype"], case.options.get("most")
    model = Watched(case.options["numbers"], dtype, most)
    if case.options["left_over"]:
        for p in (model.token, model.head):
            p.grad = torch.full_like(p, LEFT_OVER)
    return model.train(case.options["training"])


def _optimizer(case: Case, model: nn.Module) -> torch.optim.Optimizer:
    return OPTIMIZERS[case.options["optimizer"]](model.parameters())


def _note_gradients(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """A list for the gradients that each step uses, one row per step."""
    used: list[Tensor] = []

    def note(*_: Any) -> None:
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        used.append(torch.cat([g.detach().flatten() for g in grads]))

    optimizer.register_step_post_hook(note)
    return used


# ---------------------------------------------------------------- cases


def step_cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        scale: float = 1.0,
        *,
        optimizer: str = "SGD",
        steps: int = 1,
        max_norm: float | None = None,
        by_name: bool = False,
        training: bool = True,
        left_over: bool = True,
        dtype: torch.dtype = torch.float32,
        roles: str = "",
        sizes: tuple[int, ...] = (),
    ) -> Case:
        B, T, C, V = sizes or draw.sizes(4, 3, 9)
        numbers = {
            "token": scale * draw.normal(V, C, dtype=torch.float64),
            "head": scale * draw.normal(C, V, dtype=torch.float64) / C**0.5,
            "bias": scale * draw.normal(V, dtype=torch.float64),
            "fixed": draw.normal(C, dtype=torch.float64) / 2,
        }
        batches = [torch.randint(V, (B, T), generator=draw.generator) for _ in range(steps)]
        inputs: dict[str, Any] = {"model": f"a small model of {V} words", "ids": batches[0]}
        inputs |= {"optimizer": optimizer}
        inputs |= {} if max_norm is None else {"max_norm": max_norm}
        options: dict[str, Any] = {"numbers": numbers, "later": batches[1:], "dtype": dtype}
        options |= {"optimizer": optimizer, "training": training, "left_over": left_over}
        options |= {"keywords": tuple(inputs)} if by_name else {}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    return [
        case("short gradients", 0.4, left_over=False, roles="typical plain"),
        case("large gradients, clipped to 1", 4.0, left_over=False, roles="long"),
        case("gradients are left over from earlier", 0.4, roles="left"),
        case("from evaluation mode", 0.7, training=False, left_over=False, roles="evaluation"),
        case("cut to 0.05", 1.0, max_norm=0.05, roles="long"),
        case("clipped to 100, called by name", 4.0, max_norm=100.0, by_name=True),
        case("four steps of AdamW", 1.0, optimizer="AdamW", steps=4, training=False),
        case("four steps with momentum", 3.0, optimizer="SGD with momentum", steps=4),
        case("float64", 2.0, optimizer="AdamW", steps=2, dtype=torch.float64),
        case("three steps, two groups", 3.0, optimizer="SGD with two groups", steps=3),
        case("two tokens", 0.5, sizes=(5, 2, 4, 7), roles="small"),
        case("one text", 3.0, sizes=(1, 6, 4, 9), roles="small"),
    ]


# ---------------------------------------------------------------- observations


def see_steps(answer: Any, case: Case) -> Observation:
    """Trains a model, one step per batch.

    Records the weights afterwards by name; `loss 1`, `loss 2`, … if numbers were returned; and as
    `traits` the type of the returned value, the mode afterwards, and whether parameters, ids and
    their flags stayed the same. To be judged: the `gradients` that the first step used, with the
    role "left" also those after a `clean start`, and whether the calls behind the gradients were
    `in training`.
    """
    observed = Observation()
    model = _model(case)
    optimizer, held = _optimizer(case, model), dict(model.named_parameters())
    used = _note_gradients(model, optimizer)
    asked = {n: p.requires_grad for n, p in held.items()}
    traits: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    for step, batch in enumerate([case["ids"], *case.options["later"]], 1):
        ids = fresh(batch)
        set_seed(step)
        returned = _step(answer, case, model, ids, optimizer)
        if step == 1:
            traits["training"] = all(part.training for part in model.modules())
        if not untouched(ids, batch):
            observed.facts["modified"] = ["ids"]
        look = Observation()
        number = look.put("out", returned)
        kind = look.facts["types"]["out"]
        recorded = isinstance(returned, Tensor) and returned.requires_grad
        traits["returned"] = f"{kind}, with its computation graph" if recorded else kind
        if kind in ("...", "NoneType"):
            kinds["returned"] = kind
        if number is not None and number.numel() == 1:
            observed.tensors[f"loss {step}"] = number.reshape(()).to(case.options["dtype"])
    traits["gradients"] = _length_left(model, case.inputs.get("max_norm", 1.0))
    after = dict(model.named_parameters())
    traits["kept"] = after.keys() == held.keys() and all(after[n] is held[n] for n in held)
    traits["asked"] = all(p.requires_grad == asked.get(n) for n, p in after.items())
    traits["fixed"] = near(after["fixed"].cpu(), case.options["numbers"]["fixed"])
    for name in LEARNED:
        observed.put(_after(name), after.get(name))
    observed.facts["types"] |= kinds
    observed.facts["traits"] = traits
    _see_to_be_judged(answer, case, observed, model, used)
    return observed


def _see_to_be_judged(
    answer: Any, case: Case, observed: Observation, model: Watched, used: list[Tensor]
) -> None:
    if model.calls:
        observed.put_judged("in training", all(model.calls))
    if used:
        observed.put_judged("gradients", used[0])
    if "left" in case.roles:
        clean = replace(case, options={**case.options, "left_over": False})
        model = _model(clean)
        optimizer = _optimizer(clean, model)
        used = _note_gradients(model, optimizer)
        set_seed(1)
        with contextlib.suppress(Exception):  # other cases begin this way, and report an error
            _step(answer, clean, model, fresh(case["ids"]), optimizer)
        if used:
            observed.put_judged("clean start", used[0])


def _length_left(model: nn.Module, max_norm: float) -> str:
    """The gradients at the end, to distinguish wrong answers; never judged."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not grads:
        return "none"
    length = torch.stack([g.norm() for g in grads]).norm()
    return "short" if length <= 1.001 * max_norm else "long"


def _after(name: str) -> str:
    return f"`{name}` after the last step"


def _step(answer: Any, case: Case, model: nn.Module, ids: Tensor, optimizer: Any) -> Any:
    given = {**case.inputs, "model": model, "ids": ids, "optimizer": optimizer}
    if "keywords" in case.options:
        return answer(**given)
    return answer(*given.values())


def expect_steps(case: Case) -> dict[str, Tensor]:
    """The weights after the same steps in float64, clipped by hand."""
    model = _model(case, torch.float64).train()
    optimizer = _optimizer(case, model)
    learned = [p for p in model.parameters() if p.requires_grad]
    for ids in (case["ids"], *case.options["later"]):
        grads = torch.autograd.grad(_loss_by_hand(model, ids), learned)
        length = torch.stack([g.norm() for g in grads]).norm()
        factor = min(1.0, float(case.inputs.get("max_norm", 1.0) / (length + 1e-6)))
        for p, g in zip(learned, grads, strict=True):
            p.grad = g * factor
        optimizer.step()
    return {_after(n): getattr(model, n).detach().to(case.options["dtype"]) for n in LEARNED}


def _loss_by_hand(model: nn.Module, ids: Tensor) -> Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def moved_weights(case: Case, tensors: Mapping[str, Tensor]) -> Tensor:
    """The change of the weights over all steps, in one row."""
    moves = [tensors[_after(n)].double() - case.options["numbers"][n] for n in ("token", "head")]
    return torch.cat([move.flatten() for move in moves])


def right_step(case: Case, observed: Observation, expected: Expected) -> bool:
    return near(moved_weights(case, observed.tensors), moved_weights(case, expected), 1e-3)


# ---------------------------------------------------------------- properties of any step


def _returns_float(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return bool(observed.traits["returned"] == "float")


def _explain_return(t: Trial) -> tuple[str, str]:
    kind = t.observed.traits["returned"]
    said = "It should return the loss as a float."
    if kind.startswith("Tensor,"):
        said += " A tensor keeps its whole computation graph in memory."
    return said, f"{evidence(t)}\nYours is: {kind}"


def _first_losses(case: Case, observed: Observation) -> tuple[Tensor, Tensor] | None:
    """The first returned loss and the right one; None if a step returned no number.

    Later losses depend on weights that another mistake may have changed.
    """
    steps = range(1, 2 + len(case.options["later"]))
    first, *later = (observed.tensors.get(f"loss {step}") for step in steps)
    if first is None or any(loss is None for loss in later):
        return None
    with torch.no_grad():
        return first, _loss_by_hand(_model(case, torch.float64).train(), case["ids"])


def right_loss(case: Case, observed: Observation, expected: Expected) -> Verdict:
    if not observed.tensors.get("judged:in training", True):
        return None  # the mode explains the different loss
    losses = _first_losses(case, observed)
    return None if losses is None else near(*losses, 2e-5)


def _explain_loss(t: Trial) -> tuple[str, str]:
    losses = _first_losses(t.case, t.observed)
    if losses is None:
        return "A loss is wrong.", evidence(t)
    numbers = f"expected {float(losses[1]):.6g}\ngot      {float(losses[0]):.6g}"
    return "It should return the loss from before the step, unchanged.", f"{evidence(t)}\n{numbers}"


def _ends_in_training(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return bool(observed.traits["training"])


def _keeps(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return bool(observed.traits["kept"] and observed.traits["asked"] and observed.traits["fixed"])


STEP_PROPERTIES = (
    Property(
        "stays",
        "The model stays in training mode",
        _ends_in_training,
        secondary=True,
        breaks="The model is not in training mode afterwards",
    ),
    Property(
        "float",
        "It returns the loss as a float",
        _returns_float,
        secondary=True,
        explain=_explain_return,
    ),
    Property(
        "loss",
        "It returns the loss from before the step",
        right_loss,
        secondary=True,
        explain=_explain_loss,
    ),
    Property(
        "keeps",
        "The parameters are the same objects, and untrained ones don't change",
        _keeps,
        secondary=True,
    ),
)
