"""How an answer to `patient_f` is judged."""

import torch
from torch import Tensor

from exercises.shared.heads import padding_in_front
from whywrong import Case, Draw, FunctionProbe, expect_function


def cases(seed):
    draw = Draw(seed)

    def case(name, pad_mask, N, *roles, dtype=torch.float32):
        B, T = pad_mask.shape
        V, C = T + N + 7, T + N + 4
        inputs = {
            "ids": torch.randint(V, (B, T), generator=draw.generator),
            "pad_mask": pad_mask,
            "token": draw.normal(V, C, dtype=dtype),
            "position": draw.normal(N, C, dtype=dtype),
        }
        return Case(name, inputs, roles=set(roles))

    def front():
        mask = padding_in_front(draw, B, T)
        mask[0, 0], mask[0, -1] = True, False
        return mask

    B, T = 3, draw.integer(5, 8)
    N = T + draw.integer(2, 5)
    none = torch.zeros(2, T, dtype=torch.bool)
    one_empty = front()
    one_empty[1] = True
    return [
        case("padding in front", front(), N, "typical"),
        case("no padding", none, N),
        case("as many tokens as positions", none, T, "small"),
        case("one of the texts fills the table", front(), T, "small", dtype=torch.float64),
        case("one text is all padding", one_empty, N),
        case("one token, one position", torch.zeros(2, 1, dtype=torch.bool), 1, "small"),
    ]


def oracle(ids, pad_mask, token, position):
    """Token by token, with zeros at padding."""
    rows = []
    for text, padded in zip(ids.tolist(), pad_mask.tolist(), strict=True):
        place, row = 0, []
        for id, hidden in zip(text, padded, strict=True):
            row.append(torch.zeros_like(token[0]) if hidden else token[id] + position[place])
            place += not hidden
        rows.append(torch.stack(row))
    return torch.stack(rows)


class RealTokens(FunctionProbe):
    """Looks at the rows of real tokens; the rows of padding have no meaning."""

    def __call__(self, answer, case):
        return super().__call__(cleared(answer), case)

    def glance(self, answer, case):
        return super().glance(cleared(answer), case)


def cleared(answer):
    def call(ids, pad_mask, token, position):
        out = answer(ids, pad_mask, token, position)
        if isinstance(out, Tensor) and out.shape[:-1] == pad_mask.shape:
            return out.masked_fill(pad_mask[..., None], 0.0)
        return out

    return call


probe = RealTokens(gradients=("token", "position"))
expect = expect_function(oracle, gradients=("token", "position"))
letters = {"token": "V C", "position": "N C"}
