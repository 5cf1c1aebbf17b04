"""How an answer to `teacher_forcing` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, expect_function, true_of


def cases(seed):
    draw = Draw(seed)
    B, T = draw.sizes(2, 4, 8)
    lengths = [T, *[draw.integer(2, T - 1) for _ in range(B - 1)]]
    by_name = {"options": {"keywords": ("targets", "bos_id")}}
    small = {"roles": {"small"}}
    return [
        drawn(draw, "a row and a shorter one", [4, 3], 0, 1, 2, **small),
        drawn(draw, "unequal lengths", lengths, 0, 1, 2, roles={"typical"}),
        drawn(draw, "other ids", [3, 7, 5, 2, 6], 41, 17, 5),
        drawn(draw, "no padding", [5, 5, 5], 0, 1, 2),
        drawn(draw, "by name", [6, 4, 3], 9, 33, 0, **by_name),
        drawn(draw, "one text", [6], 0, 1, 2, **small),
        drawn(draw, "as many texts as tokens", [4, 2, 3, 4], 0, 2, 1, **small),
        drawn(draw, "one token", [1, 1, 1], 0, 1, 2, **small),
    ]


def drawn(draw, name, lengths, pad_id, bos_id, eos_id, **more):
    """Texts of these lengths, each of different words and an eos."""
    words = torch.tensor([id for id in range(60) if id not in (pad_id, bos_id, eos_id)])
    rows = []
    for length in lengths:
        text = words[torch.randperm(len(words), generator=draw.generator)[: length - 1]]
        rows.append([*text.tolist(), eos_id, *[pad_id] * (max(lengths) - length)])
    return Case(name, {"targets": torch.tensor(rows), "bos_id": bos_id}, **more)


def oracle(targets, bos_id):
    return torch.tensor([[bos_id, *row[:-1]] for row in targets.tolist()])


probe = FunctionProbe()
expect = expect_function(oracle)


@true_of("No word is an input where it is the target", role="typical")
def blind(case, observed, expected):
    targets, out = case["targets"], observed.tensors["out"]
    words = targets != targets[:, -1:].amin()  # padding, where there is any, repeats
    return not bool(((out == targets) & words)[:, 1:].any())


@true_of("Each row begins with bos_id", credit=True)
def begins(case, observed, expected):
    return bool((observed.tensors["out"][:, 0] == case["bos_id"]).all())


@true_of("After it come the targets, one position later", credit=True)
def moved(case, observed, expected):
    return bool((observed.tensors["out"][:, 1:] == case["targets"][:, :-1]).all())


properties = (blind, begins, moved)
