"""Judges answers that copy a published state dict into a model."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from whywrong import Case, Draw, Observation, Property, fresh, near, same, set_seed, true_of
from whywrong.probing import Expected, Verdict

from .traits import trait


def loading_case(
    draw: Draw,
    name: str,
    model: str,
    arguments: dict[str, int],
    wanted: dict[str, Tensor],
    state: dict[str, Tensor],
    prefix: str,
    roles: str,
    **options: Any,
) -> Case:
    """A case of a state dict with a prefix and an output layer, or without if it is of "stability",
    as a model without an output layer saves it.

    Args:
        model: in words.
        arguments: of the model, by name.
        wanted: the model's parameters afterwards, by name.
        state: the same numbers under published names, the embedding first.
        options: what the logits depend on.
    """
    if "stability" not in roles:
        tied = {"lm_head.weight": next(iter(state.values()))}
        state = {f"{prefix}.{name}": value for name, value in state.items()} | tied
    shape = (3, arguments["context_length"] - 1)
    options["ids"] = torch.randint(arguments["vocab_size"], shape, generator=draw.generator)
    options |= {"made_of": arguments, "wanted": wanted}
    inputs = {"model": model, "state_dict": state}
    return Case(name, inputs, options=options, roles=set(roles.split()))


def loading_probe(make: Callable[..., nn.Module]) -> Callable[[Any, Case], Observation]:
    """Observes the logits and the parameters of such a model afterwards, and as traits what became
    of it and of the state dict: see `LOADED`."""

    def probe(answer: Any, case: Case) -> Observation:
        observed = Observation()
        set_seed(1)
        dtype = next(iter(case.options["wanted"].values())).dtype
        model = make(**case.options["made_of"]).to(dtype)
        before = dict(model.named_parameters())
        state = {name: fresh(value) for name, value in case["state_dict"].items()}
        if "lm_head.weight" in state:
            state["lm_head.weight"] = next(iter(state.values()))  # one tensor
        given = {name: value.clone() for name, value in state.items()}
        returned = answer(model, state)
        after = dict(model.named_parameters(remove_duplicate=False))  # an answer may tie two
        memory = {t.untyped_storage().data_ptr() for t in state.values()}
        observed.facts["traits"] = {
            "independent": all(
                p.untyped_storage().data_ptr() not in memory for p in after.values()
            ),
            "same_objects": after.keys() == before.keys()
            and all(after[n] is before[n] for n in before),
            "asks": all(p.requires_grad and p.is_leaf for p in after.values()),
            "state": same(given, state),
            "returns_none": returned is None,
        }
        observed.put("returned", returned)
        with torch.no_grad():
            for name, value in after.items():
                observed.put(name, value)
            # In float64: in float32, logits of a right answer can differ by more than is allowed.
            wide = deepcopy(model.eval()).double()
            observed.put("out", wide(fresh(case.options["ids"])).to(dtype))
        return observed

    return probe


def expect_loaded(logits: Callable[..., Tensor]) -> Callable[[Case], dict[str, Tensor]]:
    """The parameters that a case wants, and the `logits` in float64: see `logits(case, ids)`."""

    def expect(case: Case) -> dict[str, Tensor]:
        wanted = case.options["wanted"]
        with torch.no_grad():
            out = logits(case, case.options["ids"])
        return {**wanted, "out": out.to(next(iter(wanted.values())).dtype)}

    return expect


def holds(*endings: str) -> Callable[[Case, Observation, Expected], Verdict]:
    """Whether all parameters with these names are right."""

    def right(case: Case, observed: Observation, expected: Expected) -> Verdict:
        names = [n for n in expected if n.endswith(endings)]
        return all(n in observed.tensors and near(observed.tensors[n], expected[n]) for n in names)

    return right


def right_logits(case: Case, observed: Observation, expected: Expected) -> Verdict:
    return near(observed.tensors["out"], expected["out"], 1e-4)


@true_of(
    "Each parameter has the numbers of its entry",
    breaks="Not every parameter has the numbers of its entry",
)
def entries(case: Case, observed: Observation, expected: Expected) -> Verdict:
    wrong = [n for n in expected if n != "out" and not holds(n)(case, observed, expected)]
    return not wrong or f"has others in {', '.join(wrong[:3])}{' …' if wrong[3:] else ''}"


LOADED = tuple(
    Property(id, text, trait(id), secondary=True, breaks=breaks)
    for id, text, breaks in (
        (
            "independent",
            "The model and the state dict share no memory",
            "The model and the state dict share memory: training would change both",
        ),
        (
            "same_objects",
            "The `Parameter` objects are the ones that were there",
            "The `Parameter` objects are no longer those that were there",
        ),
        (
            "asks",
            "Each parameter asks for a gradient as before",
            "Some parameter no longer asks for a gradient",
        ),
        ("state", "The state dict stays as it was", ""),
        (
            "returns_none",
            "It works in place and returns None",
            "It returns something, where it should work in place and return None",
        ),
    )
)
