"""Lesson 10, second part: one step of training, watched from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import language_model
from ..checking import Case, Exercise, Misconceptions, Mistake, Observation, Property
from ..checking.calling import fresh, set_seed, target_device, untouched
from ..checking.comparing import near
from ..checking.exercise import Expected, Trial, Verdict
from ..checking.properties import evidence
from .kit.draw import Draw

LESSON = "4-transformer/10_tiny_lm"


# ---------------------------------------------------------------- what is trained


class Watched(nn.Module):
    """A small causal model that behaves otherwise in evaluation mode.

    Each token hears the mean of the tokens so far, so logits are the same whether the last token
    comes along or not. In evaluation mode they are half as large: whoever trains there learns other
    weights. `idle` is a parameter that no logit hangs on, `fixed` one that isn't trained. `calls`
    holds, for each call that a gradient came back to, whether it was made in training mode.
    """

    token: Tensor
    head: Tensor
    idle: Tensor
    fixed: Tensor

    def __init__(self, weights: dict[str, Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        for name, value in weights.items():
            setattr(self, name, nn.Parameter(value.to(dtype, copy=True)))
        self.fixed.requires_grad_(False)
        self.inner = nn.Sequential(nn.Identity())  # it has a mode of its own
        self.calls: list[bool] = []

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        met = self.token[ids].cumsum(dim=1)  # (B, T, C)
        mean = met / torch.arange(1, T + 1, device=ids.device)[:, None]
        logits = (mean + self.fixed) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        in_training = self.training and self.inner.training
        out = logits if in_training else logits / 2
        if out.requires_grad:
            out.register_hook(lambda _: self.calls.append(in_training))
        return out


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.3, momentum=0.9),
    # With the usual eps of 1e-8 what rounding makes of tiny gradients decides.
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, eps=1e-3),
}
LEARNED = ("token", "head", "idle")
LEFT_OVER = 0.5  # each number of the gradients that are there before the first step


def _model(case: Case, dtype: torch.dtype | None = None) -> Watched:
    dtype = dtype or case.options["dtype"]
    model = Watched(case.options["numbers"], dtype).to(target_device())
    if case.options["left_over"]:
        for p in (model.token, model.head):
            p.grad = torch.full_like(p, LEFT_OVER)
    return model.train(case.options["training"])


def _optimizer(case: Case, model: nn.Module) -> torch.optim.Optimizer:
    return OPTIMIZERS[case.options["optimizer"]](model.parameters())


def _note_gradients(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """A list for the gradients that steps use, those of a step in one row."""
    used: list[Tensor] = []

    def note(*_: Any) -> None:
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        used.append(torch.cat([g.detach().flatten() for g in grads]))

    optimizer.register_step_post_hook(note)
    return used


# ---------------------------------------------------------------- cases


def _cases(seed: int) -> list[Case]:
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
            "idle": draw.normal(2, dtype=torch.float64),
            "fixed": draw.normal(C, dtype=torch.float64) / 2,
        }
        batches = [torch.randint(V, (B, T), generator=draw.generator) for _ in range(steps)]
        inputs: dict[str, Any] = {
            "model": f"a small model of {V} words",
            "ids": batches[0],
            "optimizer": optimizer,
        }
        if max_norm is not None:
            inputs["max_norm"] = max_norm
        options: dict[str, Any] = {
            "numbers": numbers,
            "later": batches[1:],
            "optimizer": optimizer,
            "training": training,
            "left_over": left_over,
            "dtype": dtype,
            "sizes": (V, C),
        }
        if by_name:
            options["keywords"] = tuple(inputs)
        return Case(name, inputs, None, options, frozenset(roles.split()))

    return [
        case("short gradients", 0.4, left_over=False, roles="typical plain"),
        case("long gradients, cut to 1", 4.0, left_over=False, roles="long"),
        case("gradients are left from before", 0.4, roles="left"),
        case("from evaluation mode", 0.7, training=False, left_over=False, roles="evaluation"),
        case("cut to 0.05", 1.0, max_norm=0.05, roles="long"),
        case("cut to 100, made by name", 4.0, max_norm=100.0, by_name=True),
        case("four steps of AdamW", 1.0, optimizer="AdamW", steps=4, training=False),
        case("four steps with momentum", 3.0, optimizer="SGD with momentum", steps=4),
        case("float64", 2.0, optimizer="AdamW", steps=2, dtype=torch.float64),
        case("two tokens", 0.5, sizes=(5, 2, 4, 7), roles="small"),
        case("one text", 3.0, sizes=(1, 6, 4, 9), roles="small"),
    ]


# ---------------------------------------------------------------- what is seen


def _probe(answer: Any, case: Case) -> Observation:
    """Trains a model, a step for each batch.

    Gives the weights afterwards by name, `loss 1`, `loss 2`, … where numbers came back, and as
    `traits` the kind of what was returned, the mode afterwards, and whether parameters, ids and
    what is asked of them stayed. To be judged: the `gradients` that the first step used, in the
    role "left" also those after a `clean start`, and whether the calls that were learned from were
    `in training`.
    """
    seen = Observation()
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
            seen.facts["modified"] = ["ids"]
        look = Observation()
        number = look.put("out", returned)
        kind = look.facts["types"]["out"]
        recorded = isinstance(returned, Tensor) and returned.requires_grad
        traits["returned"] = f"{kind}, with all it was made of" if recorded else kind
        if kind in ("...", "NoneType"):
            kinds["returned"] = kind
        if number is not None and number.numel() == 1:
            seen.tensors[f"loss {step}"] = number.reshape(()).to(case.options["dtype"])
    traits["gradients"] = _length_left(model, case.inputs.get("max_norm", 1.0))
    after = dict(model.named_parameters())
    traits["kept"] = after.keys() == held.keys() and all(after[n] is held[n] for n in held)
    traits["asked"] = all(p.requires_grad == asked.get(n) for n, p in after.items())
    traits["fixed"] = near(after["fixed"].cpu(), case.options["numbers"]["fixed"])
    for name in LEARNED:
        seen.put(_after(name), after.get(name))
    seen.facts["types"] |= kinds
    seen.facts["traits"] = traits
    _see_to_be_judged(answer, case, seen, model, used)
    return seen


def _see_to_be_judged(
    answer: Any, case: Case, seen: Observation, model: Watched, used: list[Tensor]
) -> None:
    if model.calls:
        seen.put_judged("in training", all(model.calls))
    if used:
        seen.put_judged("gradients", used[0])
    if "left" in case.roles:
        clean = replace(case, options={**case.options, "left_over": False})
        model = _model(clean)
        optimizer = _optimizer(clean, model)
        used = _note_gradients(model, optimizer)
        set_seed(1)
        with contextlib.suppress(Exception):  # other cases begin so, and tell of it
            _step(answer, clean, model, fresh(case["ids"]), optimizer)
        if used:
            seen.put_judged("clean start", used[0])


def _length_left(model: nn.Module, max_norm: float) -> str:
    """What gradients are there at the end: for telling wrong answers apart, never judged."""
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


def _by_hand(case: Case) -> tuple[dict[str, Tensor], Tensor]:
    """The same steps in float64, clipped by hand: the weights afterwards, and each step's loss."""
    model = _model(case, torch.float64).train()
    optimizer = _optimizer(case, model)
    learned, losses = [p for p in model.parameters() if p.requires_grad], []
    for ids in (case["ids"], *case.options["later"]):
        logits = model(ids)[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        grads = torch.autograd.grad(loss, learned, allow_unused=True)
        length = torch.stack([g.norm() for g in grads if g is not None]).norm()
        factor = min(1.0, float(case.inputs.get("max_norm", 1.0) / (length + 1e-6)))
        for p, g in zip(learned, grads, strict=True):
            p.grad = None if g is None else g * factor
        optimizer.step()
        losses.append(loss.detach())
    weights = {_after(n): getattr(model, n).detach().to(case.options["dtype"]) for n in LEARNED}
    return weights, torch.stack(losses)


def _expect(case: Case) -> dict[str, Tensor]:
    return _by_hand(case)[0]


# ---------------------------------------------------------------- properties


def _returns_float(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["returned"] == "float")


def _explain_return(t: Trial) -> tuple[str, str]:
    kind = t.seen.traits["returned"]
    said = "It should return the loss as a float."
    if kind.startswith("Tensor,"):
        said += " A tensor holds on to the whole computation that it came from."
    return said, f"{evidence(t)}\nYours is: {kind}"


def _losses(case: Case, seen: Observation) -> list[tuple[Tensor, Tensor]]:
    """Each loss that was returned beside the right one; none where a step returned no number."""
    right = _by_hand(case)[1]
    given = [seen.tensors.get(f"loss {step}") for step, _ in enumerate(right, 1)]
    known = [t for t in given if t is not None]
    return list(zip(known, right, strict=True)) if len(known) == len(right) else []


def _right_loss(case: Case, seen: Observation, expected: Expected) -> Verdict:
    if not seen.tensors.get("judged:in training", True):
        return None  # that it is another loss is told by the mode
    # Later losses come from weights that another fault may have spoilt.
    losses = _losses(case, seen)[:1]
    return all(near(mine, right, 2e-5) for mine, right in losses) if losses else None


def _explain_loss(t: Trial) -> tuple[str, str]:
    for mine, right in _losses(t.case, t.seen)[:1]:
        if not near(mine, right, 2e-5):
            numbers = f"expected {float(right):.6g}\ngot      {float(mine):.6g}"
            return (
                "It should return the loss before the step, as it is.",
                f"{evidence(t)}\n{numbers}",
            )
    return "A loss is not right.", evidence(t)


def _ends_in_training(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["training"])


def _keeps(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["kept"] and seen.traits["asked"] and seen.traits["fixed"])


def _moves(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """The step goes downhill: along the right one, at least roughly."""
    mine, right = (_moved(case, tensors) for tensors in (seen.tensors, expected))
    return bool(torch.cosine_similarity(mine, right, dim=0) > 0.3)


def _moved(case: Case, tensors: Any) -> Tensor:
    return torch.cat(
        [
            (tensors[_after(n)].double() - case.options["numbers"][n]).flatten()
            for n in ("token", "head")
        ]
    )


def _clears(case: Case, seen: Observation, expected: Expected) -> Verdict:
    mine = seen.tensors.get("judged:gradients")
    if mine is None:  # the optimizer was never asked
        return _right_step(case, seen, expected) or None
    return near(mine, seen.tensors["judged:clean start"], 1e-3) if bool(mine.any()) else None


def _clips(case: Case, seen: Observation, expected: Expected) -> Verdict:
    mine, most = seen.tensors.get("judged:gradients"), case.inputs.get("max_norm", 1.0)
    if mine is None:
        return _as_long(case, seen, expected) or None
    length = float(mine.norm()) / most
    if not length:
        return None
    if length < 0.999:  # gradients may be that short, and those of another loss
        return _as_long(case, seen, expected) if _right_loss(case, seen, expected) else None
    return length <= 1.001


def _in_training(case: Case, seen: Observation, expected: Expected) -> Verdict:
    moved = _moved(case, seen.tensors)
    if near(moved, torch.zeros_like(moved)):
        return None
    return bool(seen.tensors["judged:in training"])


def _as_long(case: Case, seen: Observation, expected: Expected) -> Verdict:
    mine, right = (_moved(case, tensors).norm() for tensors in (seen.tensors, expected))
    return near(mine, right, 1e-3)


def _right_step(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(_moved(case, seen.tensors), _moved(case, expected), 1e-3)


# ---------------------------------------------------------------- the right answer, and mistakes


class Step:
    """The right answer in steps."""

    def __call__(self, model, ids, optimizer, max_norm=1.0):
        self.begin(model)
        loss = self.loss(self.logits(model, ids), ids)
        self.learn(model, loss, optimizer, max_norm)
        self.end(model)
        return self.answer(loss)

    def begin(self, model):
        model.train()

    def end(self, model):
        pass

    def logits(self, model, ids):
        return model(ids)

    def loss(self, logits, ids):
        logits, targets = self.shifted(logits, ids)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def shifted(self, logits, ids):
        return logits[:, :-1], ids[:, 1:]

    def learn(self, model, loss, optimizer, max_norm):
        self.clear(optimizer)
        self.backward(loss)
        self.clip(model, max_norm)
        self.move(optimizer)

    def clear(self, optimizer):
        optimizer.zero_grad()

    def backward(self, loss):
        loss.backward()

    def clip(self, model, max_norm):
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)

    def move(self, optimizer):
        optimizer.step()

    def answer(self, loss):
        return loss.item()


class NeverCleared(Mistake):
    """Gradients were never cleared: `backward` adds to those that are there.

    Why: Each step goes where all batches before it pointed as well.
    Mend: `optimizer.zero_grad()` before `backward`.
    """

    def clear(self, optimizer):
        pass


class ClearedAfterBackward(Mistake):
    """There was nothing to step along: gradients were cleared behind `backward`, or never made.

    Why: The weights never change, and the loss stays where it is.
    Mend: In which order do clear, backward and step make sense? And do gradients reach the
        parameters that the optimizer holds?
    """

    def learn(self, model, loss, optimizer, max_norm):
        self.backward(loss)
        self.clear(optimizer)
        self.clip(model, max_norm)
        self.move(optimizer)


class ClearedOnlyAfterwards(Mistake):
    """Gradients were cleared after the step only, so those from before the first step count.

    Why: Whoever computed a gradient before, to look at it, spoils the first step.
    Mend: Clear just before `backward`; then it doesn't matter what was there.
    """

    def learn(self, model, loss, optimizer, max_norm):
        self.backward(loss)
        self.clip(model, max_norm)
        self.move(optimizer)
        self.clear(optimizer)


class ClippedAfterStep(Mistake):
    """Gradients were clipped after the step, when they had done their work.

    Why: The one odd batch that clipping is there for has thrown the weights off already.
    Mend: The step uses the gradients. When must they be short?
    """

    def learn(self, model, loss, optimizer, max_norm):
        self.clear(optimizer)
        self.backward(loss)
        self.move(optimizer)
        self.clip(model, max_norm)


class NeverClipped(Mistake):
    """When the step is taken, gradients are as long as they like: they were clipped before
    `backward` had made them, or not at all.

    Why: One odd batch with a long gradient can undo what a thousand others taught.
    Mend: Which line makes the gradients, which one uses them? The clipping belongs between.
    """

    def clip(self, model, max_norm):
        pass


class AlwaysClippedToOne(Mistake):
    """Gradients were cut to a length of 1, whatever `max_norm` says.

    Why: The caller has chosen another length.
    Mend: Pass `max_norm` on.
    """

    def clip(self, model, max_norm):
        super().clip(model, 1.0)


class ClippedByValue(Mistake):
    """Each number of the gradients was cut to `max_norm`, not their length.

    Why: The step then points another way, as only the largest numbers shrink.
    Mend: `clip_grad_norm_` takes all of them as one vector; `clip_grad_value_` doesn't.
    """

    def clip(self, model, max_norm):
        nn.utils.clip_grad_value_(model.parameters(), max_norm)


class ClippedOneByOne(Mistake):
    """The gradient of each parameter was cut to `max_norm` for itself.

    Why: All of them together are one vector; cut one by one, the step points another way.
    Mend: `clip_grad_norm_` takes all parameters in one call.
    """

    def clip(self, model, max_norm):
        for p in model.parameters():
            super().clip(nn.ParameterList([p]) if p.requires_grad else nn.Module(), max_norm)


class ScaledToNorm(Mistake):
    """Gradients were brought to a length of `max_norm`, short ones too.

    Why: Near the end gradients are short and steps should be; these never are.
    Mend: Cut what is longer; leave what is shorter.
    """

    def clip(self, model, max_norm):
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        length = torch.stack([g.norm() for g in grads]).norm()
        for g in grads:
            g.mul_(max_norm / (length + 1e-6))


class WeightsClipped(Mistake):
    """The weights were cut to `max_norm`, not their gradients.

    Why: The model forgets; how far a step goes was the question.
    Mend: Which tensors does `clip_grad_norm_` change?
    """

    def clip(self, model, max_norm):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(min(1.0, max_norm / (float(p.norm()) + 1e-6)))


class EvaluationMode(Mistake):
    """The model was put into evaluation mode.

    Why: Without dropout it trains on what it will never be hindered by, and overfits sooner.
    Mend: `model.train()` is for steps, `model.eval()` for looking at the result.
    """

    def begin(self, model):
        model.eval()


class ModeLeftAlone(Mistake):
    """The mode was left as it was, or set for the top of the model alone: after a look at held-out
    text it still evaluates.

    Why: From then on it would train without dropout, and nobody notices.
    Mend: Say at the top of a step which mode it needs; `train()` tells all parts, an assignment to
        `training` only one.
    """

    def begin(self, model):
        pass


class TrainsTooLate(Mistake):
    """The model was put into training mode when the step was over.

    Why: This step was made without dropout, if somebody had looked at held-out text before it.
    Mend: Say at the top of a step which mode it needs.
    """

    def begin(self, model):
        pass

    def end(self, model):
        model.train()


class EvaluationAfterwards(Mistake):
    """The step leaves the model in evaluation mode.

    Why: The contract says that it stays in training mode; the next line of a loop counts on it.
    Mend: Who evaluates switches the mode; a step doesn't.
    """

    def end(self, model):
        model.eval()


class ModePutBack(Mistake):
    """The mode from before was put back after the step.

    Why: The contract says that the model stays in training mode; the next line of a loop counts
        on it.
    Mend: It is `generate` that puts a mode back.
    """

    before = True

    def begin(self, model):
        self.before = model.training
        model.train()

    def end(self, model):
        model.train(self.before)


class NoShift(Mistake):
    """Each token was compared with itself: there is no shift.

    Why: The model sees the token that it should foretell, and learns to copy.
    Mend: Logits at t belong to the token at t + 1.
    """

    def shifted(self, logits, ids):
        return logits, ids


class ShiftedBackwards(Mistake):
    """The shift goes the wrong way: each token was compared with the one before it.

    Why: The model sees that token too, and learns to repeat what was.
    Mend: Logits at t belong to the token at t + 1: which end of each is cut off?
    """

    def shifted(self, logits, ids):
        return logits[:, 1:], ids[:, :-1]


class ShiftedTwice(Mistake):
    """The shift was made twice: the token after the next is the target.

    Why: A text is written one token after the other, and the next one is never learned.
    Mend: Does `next_token_loss` shift, or do you?
    """

    def shifted(self, logits, ids):
        return (logits[:, :-2], ids[:, 2:]) if ids.shape[1] > 2 else super().shifted(logits, ids)


class RolledTargets(Mistake):
    """The targets go round in a circle: the last token of each text should foretell its first.

    Why: `roll` brings to one end what leaves at the other. That token followed nothing.
    Mend: T tokens make T - 1 pairs: the last logits and the first token have no partner.
    """

    def shifted(self, logits, ids):
        return logits, ids.roll(-1, dims=1)


class SummedLoss(Mistake):
    """The loss is the sum over the tokens, not their mean.

    Why: A step would grow with the batch, and the learning rate would fit one size only.
    Mend: Divide by the number of targets.
    """

    def loss(self, logits, ids):
        return super().loss(logits, ids) * ids[:, 1:].numel()


class TensorReturned(Mistake):
    """The loss came back as a tensor.

    Why: It holds on to all that was computed; a list of losses then fills the memory.
    Mend: `.item()` makes a float of it.
    """

    def answer(self, loss):
        return loss


class CutTensorReturned(Mistake):
    """The loss came back as a tensor without a gradient.

    Why: A float is asked: it can be printed, added up and kept on any device.
    Mend: `.item()` makes a float of it.
    """

    def answer(self, loss):
        return loss.detach()


class NothingReturned(Mistake):
    """Nothing was returned.

    Why: Without the loss nobody sees whether the model learns.
    Mend: Return the loss as a float.
    """

    def answer(self, loss):
        return None


class NoStep(Mistake):
    """The optimizer never took a step.

    Why: Gradients alone change no weight.
    Mend: `optimizer.step()`, once the gradients are there and clipped.
    """

    def move(self, optimizer):
        pass


class TwoSteps(Mistake):
    """The optimizer took two steps along the same gradient.

    Why: The second one goes where nobody has looked.
    Mend: Look for the second `step`.
    """

    def move(self, optimizer):
        super().move(optimizer)
        super().move(optimizer)


class LossAfterStep(Mistake):
    """What is returned is the loss after the step, from a second look.

    Why: It costs a second pass, and it is the loss on a batch that the model has just learned.
    Mend: The loss that `backward` was called on is the one to return.
    """

    kept = None

    def logits(self, model, ids):
        self.kept = model, ids
        return super().logits(model, ids)

    def answer(self, loss):
        model, ids = self.kept
        return super().answer(self.loss(model(ids), ids))


TRAINING_STEP = Exercise(
    id="training_step",
    lesson=LESSON,
    call="training_step(model, ids, optimizer, max_norm=1.0)",
    points=1.5,
    cases=_cases,
    probe=_probe,
    expect=_expect,
    reference=language_model.training_step,
    uses=("next_token_loss",),
    tolerance={torch.float32: 2e-5, torch.float64: 1e-6},
    properties=(
        Property("moves", "The weights move downhill", _moves, credit=True, role="plain"),
        Property(
            "clears",
            "Gradients that are left from before have no say",
            _clears,
            credit=True,
            role="left",
        ),
        Property("clips", "Long gradients are cut to `max_norm`", _clips, credit=True, role="long"),
        Property(
            "plain",
            "Where gradients are short the step is right",
            _right_step,
            credit=True,
            role="plain",
        ),
        Property(
            "mode",
            "A model that comes in evaluation mode is trained in training mode",
            _in_training,
            credit=True,
            role="evaluation",
        ),
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
            "What it returns is the loss before the step",
            _right_loss,
            secondary=True,
            explain=_explain_loss,
        ),
        Property(
            "keeps",
            "The parameters are the same objects, and what is not trained stays",
            _keeps,
            secondary=True,
        ),
    ),
    misconceptions=Misconceptions.of(
        NeverCleared,
        NeverClipped,
        ClippedAfterStep,
        EvaluationMode,
        ModeLeftAlone,
        TrainsTooLate,
        TensorReturned,
        NoShift,
        ClearedAfterBackward,
        ClearedOnlyAfterwards,
        CutTensorReturned,
        NothingReturned,
        ShiftedBackwards,
        ShiftedTwice,
        RolledTargets,
        AlwaysClippedToOne,
        ClippedByValue,
        ClippedOneByOne,
        ScaledToNorm,
        WeightsClipped,
        EvaluationAfterwards,
        ModePutBack,
        SummedLoss,
        NoStep,
        TwoSteps,
        LossAfterStep,
        on=Step,
    ),
    hints=(
        "Seven lines: mode, forward, loss, clear, backward, clip, step. The gradients are made by "
        "one of them, used by another, and what shortens them stands between the two.",
        "`model.train()`, `loss = next_token_loss(model(ids), ids)`, `optimizer.zero_grad()`, "
        "`loss.backward()`, `nn.utils.clip_grad_norm_(model.parameters(), max_norm)`, "
        "`optimizer.step()`. What is returned is a float: `loss.item()`.",
    ),
    other_way="""\
# The model sees all tokens but the last, which is only foretold; the rest is the same.
def training_step(model, ids, optimizer, max_norm=1.0):
    model.train()
    optimizer.zero_grad()
    logits = model(ids[:, :-1])  # (B, T - 1, V)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()
""",
)
