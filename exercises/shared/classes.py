"""What exercises on a class share: their cases, further calls, and that a module keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from whywrong import Case, Observation, fresh, near, set_seed, true_of
from whywrong.probing import Expected, Verdict

# ---------------------------------------------------------------- cases


def class_case(
    name: str,
    inputs: Mapping[str, Any],
    arguments: Mapping[str, Any],
    weights: dict[str, Tensor],
    roles: str = "",
    *,
    by_name: bool = False,
    more: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    **options: Any,
) -> Case:
    """A case of a class.

    Args:
        arguments: of the constructor, by position unless `by_name`; `more` are always by name.
        weights: by name, all of the module's dtype.
        others: in a typical case, how the arguments of another module differ, made in addition.
    """
    options["args"] = () if by_name else tuple(arguments.values())
    options["kwargs"] = {**(arguments if by_name else {}), **(more or {})}
    options |= {"weights": weights, "dtype": next(iter(weights.values())).dtype}
    if others and "typical" in roles:
        options["others"] = [((), {**arguments, **others})]
    return Case(name, dict(inputs), options=options, roles=set(roles.split()))


# ---------------------------------------------------------------- further calls

Change = Callable[[Case], dict[str, Any]]


def other_tokens(text: str, place: Any) -> Change:
    """The text with other tokens at a place, or where the mask of this name hides them; a norm
    doesn't undo the change."""

    def changed(case: Case) -> dict[str, Any]:
        tokens, where = case[text].clone(), case[place] if isinstance(place, str) else place
        tokens[where] = tokens[where].roll(1, -1) * 2 + 1
        return {text: tokens}

    return changed


FIRST, LAST = (slice(None), 0), (slice(None), -1)  # tokens of each text


def see_turns(make: Callable[..., Any], case: Case, observed: Observation) -> None:
    """Two modules get long and short texts, many and few, with and without their masks, in opposite
    orders; the first is in training mode, which changes nothing without dropout."""
    if not case.roles & {"typical", "padded"}:
        return
    texts = {n: v for n, v in case.inputs.items() if isinstance(v, Tensor)}
    masks = [n for n in texts if n.endswith("pad_mask")]
    turns: dict[str, dict[str, Any]] = {"long": {}}
    if masks:
        turns |= {"unmasked": dict.fromkeys(masks), "masked again": {}}
    turns["few"] = {n: v[1:] for n, v in texts.items()}
    turns["in another order"] = {n: v.flip(0) for n, v in texts.items()}
    turns["short"] = {n: v[1:, :2] for n, v in texts.items()}
    for side, names in (("first", [*turns]), ("second", [*turns][::-1])):
        set_seed(1)  # a parameter too many is the same in each
        module = make(as_made=side == "first")
        for name in names:
            text, *others = [(n, fresh(v)) for n, v in {**case.inputs, **turns[name]}.items()]
            with torch.no_grad():
                observed.put(f"{name}, {side}", module(text[1], **dict(others)))


@true_of(
    "A call does not depend on earlier calls or on the mode",
    breaks="The result should depend on the text and its mask, not on the mode or earlier calls",
)
def nothing_kept(case: Case, observed: Observation, expected: Expected) -> Verdict:
    t = observed.tensors
    if not near(t["long, first"], t["out"]):
        return "differs in training mode, even without dropout"
    firsts = [n for n in t if n.endswith(", first")]
    return all(near(t[n], t[n.replace(", first", ", second")]) for n in firsts) or (
        "remembers something"
    )


# ---------------------------------------------------------------- other first and last tokens


@true_of("A token attends to the tokens before it", gate=True, role="typical")
def listens(case: Case, observed: Observation, expected: Expected) -> Verdict:
    """With another first token, called `first`, the last one has another result."""
    return not near(observed.tensors["out"][:, -1], observed.tensors["first"][:, -1])


@true_of("A later token does not affect an earlier one", credit=True, role="typical")
def no_future(case: Case, observed: Observation, expected: Expected) -> Verdict:
    """With another last token, called `changed`, the others have the same results."""
    return near(observed.tensors["out"][:, :-1], observed.tensors["changed"][:, :-1])
