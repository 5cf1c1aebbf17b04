"""How an answer to `sliding_window_mask` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, true_of


def cases(seed):
    T, window = sorted(Draw(seed).sizes(2, 3, 9), reverse=True)
    sizes = [(6, 3), (T + 5, window), (5, 1), (4, 9), (1, 1), (7, 7), (130, 70)]
    roles = [{"typical"}, set(), {"small"}, {"wide"}, {"small"}, {"wide"}, set()]
    return [
        Case(f"T = {T}, window = {w}", {"T": T, "window": w}, roles=role)
        for (T, w), role in zip(sizes, roles, strict=True)
    ]


probe = FunctionProbe()


def expect(case):
    back = torch.arange(case["T"])[:, None] - torch.arange(case["T"])  # how far a key is back
    return {"out": (back < 0) | (back >= case["window"])}


@true_of("A token sees itself", gate=True)
def itself(case, observed, expected):
    return not bool(observed.tensors["out"].bool().diagonal().any())


@true_of("No token sees a later one", credit=True)
def future(case, observed, expected):
    later = torch.ones(case["T"], case["T"], dtype=torch.bool).triu(1)
    return bool(observed.tensors["out"].bool()[later].all())


@true_of("A token sees `window` tokens, itself included, or as many as there are", credit=True)
def wide(case, observed, expected):
    counts = (~observed.tensors["out"].bool()).sum(1)
    return bool((counts == (torch.arange(case["T"]) + 1).clamp(max=case["window"])).all())


properties = (itself, future, wide)
