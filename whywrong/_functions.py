"""Calls an answer repeatedly, and probes functions.

The first call gives the result, later ones reveal side effects: inputs and earlier results must
stay unchanged, the same input must give the same result whatever the seed, and results must be on
the input's device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ._answers import takes_names
from ._errors import first_lines, later_calls
from ._exercise import Case
from ._observation import Observation, plain, same
from ._watching import Operators, happened_elsewhere, moved, seen_enough

Call = Callable[[list[Any]], Any]
More = Mapping[str, Mapping[str, Callable[[Case], Mapping[str, Any]]]]
FIRST, REPEATED, SPOILT = 1, 2, 3  # the seeds of the calls of one case
KEPT_NUMBERS = 2_000  # the largest direction that is cached for the next gradient of this shape


def fresh(value: Any, gradients: bool = False, dtype: torch.dtype | None = None) -> Any:
    """A copy of an input that the answer may modify; floats require gradients if asked for."""
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        if not copy.is_floating_point():
            return copy
        copy = copy.to(dtype) if dtype else copy
        return copy.requires_grad_() if gradients else copy
    if isinstance(value, dict):
        return {k: fresh(v, gradients, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fresh(v, gradients, dtype) for v in value)
    return value


def cotangent(like: Tensor) -> Tensor:
    """A fixed direction for gradients, so that both sides differentiate the same number."""
    draw = _drawn if like.numel() <= KEPT_NUMBERS else _drawn.__wrapped__
    return draw(like.shape).to(like, copy=True)


@lru_cache(maxsize=500)
def _drawn(shape: torch.Size) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(shape.numel())
    with torch.no_grad():
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")


def set_seed(seed: int) -> None:
    """Like `torch.manual_seed`, but for the CPU alone, on which answers are checked."""
    torch.default_generator.manual_seed(seed)


def untouched(now: Any, before: Any) -> bool:
    """Whether an input is unchanged, including whether it requires gradients."""
    if isinstance(now, Tensor) and isinstance(before, Tensor):
        return now.requires_grad == before.requires_grad and same(now, before)
    return same(now, before)


def see_calls(call: Call, case: Case, observed: Observation, watch: Any = None) -> bool:
    """Puts the result into `observed` as `out`, and the findings of repeated calls as facts.

    Args:
        call: calls the answer, or a module that is reused, on a list of inputs.
        watch: a context manager for the first call only.

    Returns:
        Whether there is a result worth further checks.
    """

    def inputs() -> list[Any]:
        return [fresh(v) for v in case.inputs.values()]

    def seeded(args: list[Any], seed: int) -> Any:
        set_seed(seed)
        return call(args)

    args = inputs()
    with watch or contextlib.nullcontext():
        out = seeded(args, FIRST)
    seen_enough()
    drawn = torch.get_rng_state()
    first = observed.put("out", out)
    _see_inputs_and_device(case, args, out, observed)
    if first is None:
        return False

    # The repeated call gets tensors that held other numbers in an earlier call: an answer that
    # remembers a tensor's address instead of its content is thereby revealed.
    args = inputs()
    with spoilt(args), contextlib.suppress(Exception):  # these numbers belong to no case
        seeded(args, SPOILT)
    if not same(first, plain(out)[1]):
        observed.facts["overwritten"] = True
    repeated = plain(seeded(args, REPEATED))[1]
    if torch.equal(drawn, torch.get_rng_state()):
        observed.facts.setdefault("left_behind", []).append("the random seed")
    if repeated is None or not same(first, repeated):
        again = plain(seeded(inputs(), FIRST))[1]
        with_another_seed = plain(seeded(inputs(), REPEATED))[1]
        if again is None or not same(first, again):
            observed.facts["unstable"] = "random"
        elif with_another_seed is not None and same(first, with_another_seed):
            observed.facts["unstable"] = "memory"
        else:
            observed.facts["unstable"] = "seed"
    return True


def _see_inputs_and_device(case: Case, args: list[Any], out: Any, observed: Observation) -> None:
    """Notes which inputs a call changed, and the device of its result if it is the wrong one."""
    pairs = zip(case.inputs, args, strict=True)
    changed = [name for name, arg in pairs if not untouched(arg, case[name])]
    if changed:
        observed.facts["modified"] = changed
    given = any(isinstance(v, Tensor) for v in args) or "weights" in case.options
    if given and isinstance(out, Tensor) and out.device.type != "cpu":
        observed.facts["device"] = [str(out.device), "cpu"]


@contextlib.contextmanager
def spoilt(values: Sequence[Any]) -> Iterator[None]:
    """Temporarily replaces the numbers in tensors, in the same memory."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    kept = [v.clone() for v in tensors]
    for v in tensors:
        v.copy_(_another(v))
    try:
        yield
    finally:
        with torch.no_grad():
            for v, old in zip(tensors, kept, strict=True):
                v.copy_(old)


def _another(v: Tensor) -> Tensor:
    if v.dtype == torch.bool:
        return ~v
    if not v.is_floating_point():  # so that lengths still fit and ids are still known
        return v.flip(0) if v.dim() else v
    return v.flip(0) * 0.5 + 0.25 if v.dim() else v + 1


def differentiate(out: Any) -> None:
    """Backward from a result along its `cotangent`."""
    if isinstance(out, Tensor) and out.requires_grad:
        # A sum, because `out.backward(direction)` imports sympy, which takes a second.
        (out * cotangent(out)).sum().backward()


def see_gradients(
    call: Call, case: Case, wanted: Sequence[str], observed: Observation, prefix: str = "grad:"
) -> Any:
    """Puts the gradients of the named inputs into `observed`; returns the result, if any."""
    out = None
    try:
        args = [fresh(v, n in wanted) for n, v in case.inputs.items()]
        out = call(args)
        differentiate(out)
        for name, arg in zip(case.inputs, args, strict=True):
            if name in wanted and isinstance(arg, Tensor) and arg.grad is not None:
                observed.put(f"{prefix}{name}", arg.grad)
    except Exception as error:
        observed.facts["gradient_error"] = f"{type(error).__name__}: {first_lines(error)}"
    return out


def further_calls(more: More, case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that `more` has for a case: the name of each result, and the inputs by name."""
    for role, calls in more.items():
        if not role or role in case.roles:
            for name, changed in calls.items():
                yield name, {n: fresh(v) for n, v in {**case.inputs, **changed(case)}.items()}


# ---------------------------------------------------------------- functions


class FunctionProbe:
    """Calls a function on a case and records its result, its gradients and its side effects.

    Each case gives `out`; `grad:<name>` for each floating-point input named in `gradients`; the
    facts of `see_calls` and `elsewhere`; and with `watch`, the fact `ops`. A case with the
    option `once` gives only `out`, for sizes that take long.

    Args:
        gradients: names of inputs that gradients must reach.
        watch: record which operators ran.
        more: further calls, as `{role: {name: changed}}`: in cases with that role (or in all, if it
            is empty), the result of a call with the inputs `changed(case)` is stored as `name`.
        extra: `(answer, case, observation)`, for an exercise's additional observations.
    """

    def __init__(
        self,
        gradients: Sequence[str] = (),
        watch: bool = False,
        more: More | None = None,
        extra: Callable[[Any, Case, Observation], None] | None = None,
    ) -> None:
        self.gradients = tuple(gradients)
        self.watch = watch
        self.more = more or {}
        self.extra = extra

    def __call__(self, answer: Any, case: Case) -> Observation:
        if case.options.get("once"):
            return self.glance(answer, case)
        observed = Observation()
        operators = Operators()
        call = _caller(answer, case)
        worth = see_calls(call, case, observed, operators.watch() if self.watch else None)
        if self.watch:
            observed.facts["ops"] = operators.names()
        if not worth or case.refuses is not None:
            return observed
        if self.gradients and not observed.facts.get("modified"):
            see_gradients(call, case, self.gradients, observed)
        tensors = [v for v in case.inputs.values() if isinstance(v, Tensor)]
        if tensors:
            inputs = [moved(v) for v in case.inputs.values()]
            observed.facts["elsewhere"] = happened_elsewhere(lambda: call(inputs))
        with later_calls(), torch.no_grad():
            for name, changed in further_calls(self.more, case):
                observed.put(name, call([*changed.values()]))
        if self.extra:
            with later_calls():
                self.extra(answer, case, observed)
        return observed

    def glance(self, answer: Any, case: Case) -> Observation:
        """Only the result."""
        observed = Observation()
        set_seed(1)
        observed.put("out", _caller(answer, case)([fresh(v) for v in case.inputs.values()]))
        return observed


def _caller(answer: Any, case: Case) -> Callable[[list[Any]], Any]:
    """Calls the answer on a list of inputs, with those in the option `keywords` by name."""
    names, by_name = list(case.inputs), case.options.get("keywords", ())
    by_name = by_name if takes_names(answer) else ()

    def call(args: list[Any]) -> Any:
        given = [a for n, a in zip(names, args, strict=True) if n not in by_name]
        return answer(*given, **{n: args[names.index(n)] for n in by_name})

    return call


def doubled(value: Any, gradients: bool = False) -> Any:
    """A floating-point tensor as a float64 copy; anything else unchanged."""
    if not (isinstance(value, Tensor) and value.is_floating_point()):
        return value
    return value.detach().to(torch.float64, copy=True).requires_grad_(gradients)


def expect_function(
    oracle: Callable[..., Tensor],
    gradients: Sequence[str] = (),
    dtype: torch.dtype | None = None,
) -> Callable[[Case], dict[str, Tensor]]:
    """An expectation from a float64 oracle, in `dtype` or else in the first float input's."""

    def expect(case: Case) -> dict[str, Tensor]:
        if case.refuses is not None:
            return {}
        args = {name: doubled(v, name in gradients) for name, v in case.inputs.items()}
        floats = [
            v.dtype for v in case.inputs.values() if isinstance(v, Tensor) and v.is_floating_point()
        ]
        wanted = dtype or (floats[0] if floats else None)
        with torch.enable_grad():
            out = oracle(*args.values())
        expected = {"out": out.detach().to(wanted) if wanted else out.detach()}
        given = [n for n in gradients if isinstance(case.inputs.get(n), Tensor)]
        if given and not case.options.get("once"):
            total = (out * cotangent(expected["out"]).double()).sum()
            grads = torch.autograd.grad(total, [args[n] for n in given])
            for name, grad in zip(given, grads, strict=True):
                expected[f"grad:{name}"] = grad.to(case[name].dtype)
        return expected

    return expect
