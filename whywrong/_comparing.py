"""Meanings of "equal": bit for bit, within an exercise's tolerance, or for wrong answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from ._exercise import Case, Exercise

_shares: ContextVar[list[tuple[float, str]] | None] = ContextVar("shares", default=None)


@contextlib.contextmanager
def measured() -> Iterator[list[tuple[float, str]]]:
    """Collects from each comparison the largest error, as a share of the error that is allowed, and
    the case. The share shows how near a right answer is to being refused."""
    shares: list[tuple[float, str]] = []
    before = _shares.set(shares)
    try:
        yield shares
    finally:
        _shares.reset(before)


def within(error: Tensor, allowed: Tensor, place: str = "") -> Tensor:
    """Element by element, whether an error is one that rounding makes."""
    shares = _shares.get()
    if shares is not None and error.numel() and bool(allowed.all()):
        shares.append((float((error / allowed).max()), place))
    return error <= allowed


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit: tensors (NaN equals NaN), numbers, and lists and dicts of them."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        a, b = a.detach().cpu(), b.detach().cpu()
        if torch.equal(a, b):  # nearly always true, and a single step
            return True
        equal = (a == b) | ((a != a) & (b != b)) if a.dtype != torch.bool else a == b
        return bool(equal.all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def near(a: Tensor, b: Tensor, tolerance: float = 1e-4) -> bool:
    """For properties: the same shape, and no difference beyond rounding."""
    if a.shape != b.shape:
        return False
    a, b = a.double(), b.double()
    return bool(within((a - b).abs(), tolerance * b.abs().clamp(min=1.0)).all())


def tolerance(exercise: Exercise, case: Case, expected: Tensor) -> float:
    """Returns the exercise's tolerance, or that of a case in which right answers differ more."""
    usual = exercise.tolerance.get(expected.dtype, 0.0)
    return case.options.get("tolerance", {}).get(expected.dtype, usual)


def close(exercise: Exercise, case: Case, got: Tensor, expected: Tensor) -> Tensor:
    """Element by element, whether a result is right; the shapes must be equal."""
    if not expected.is_floating_point():
        return got == expected
    a, b = got.double(), expected.double()
    allowed = tolerance(exercise, case, expected) * b.abs().clamp(min=1.0)
    return within((a - b).abs(), allowed, case.name)


def agrees(exercise: Exercise, case: Case, got: Tensor | None, expected: Tensor) -> bool:
    return (
        got is not None
        and got.shape == expected.shape
        and bool(close(exercise, case, got, expected).all())
    )


def gradient_agrees(exercise: Exercise, case: Case, got: Tensor | None, expected: Tensor) -> bool:
    """Like `agrees`, relative to the largest number: a gradient sums the rounding errors of all.

    A missing gradient counts as zeros.
    """
    if got is None:
        return not bool(expected.any())
    if got.shape != expected.shape:
        return False
    largest = expected.abs().amax().clamp(min=1.0) if expected.numel() else torch.tensor(1.0)
    error = (got.double() - expected.double()).abs()
    allowed = tolerance(exercise, case, expected) * largest.double()
    return bool(within(error, allowed, f"{case.name}, gradient").all())


def alike(exercise: Exercise, case: Case, a: Tensor, b: Tensor) -> bool:
    """Whether two wrong results agree, also in NaN and infinity, at ten times the tolerance."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b) or not a.is_floating_point():
        return torch.equal(a, b)
    x, y = a.double(), b.double()
    slack = 10 * tolerance(exercise, case, a) * y.abs().nan_to_num(posinf=1.0).clamp(min=1.0)
    return bool(((x - y).abs() <= slack).logical_or(x == y).logical_or(x.isnan() & y.isnan()).all())
