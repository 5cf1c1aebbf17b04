"""How an answer to `patient_a` is judged."""

import torch
import torch.nn.functional as F

from exercises.shared.heads import blind, padding_anywhere, padding_in_front
from exercises.shared.many_heads import distinct_sizes
from exercises.shared.patients import PARTS, past, with_another_last_token
from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes, pad_mask, roles="", dtype=torch.float32):
        inputs = {part: draw.normal(*sizes, dtype=dtype) for part in PARTS}
        return Case(name, inputs | {"pad_mask": pad_mask}, roles=set(roles.split()))

    front, free, empty = ((s.B, s.H, s.T, s.D) for s in (distinct_sizes(draw) for _ in range(3)))
    pads = padding_in_front(draw, front[0], front[2])
    pads[:2] = torch.arange(front[2]) < draw.integer(1, front[2] - 2)
    typical = with_another_last_token(case("padding in front", front, pads, "typical"))
    squares = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    return [
        typical,
        case("padding anywhere", free, padding_anywhere(draw, free[0], free[2])),
        case("one text is all padding", empty, blind(draw, empty[0], empty[2]), "", torch.float64),
        case("no padding", free, torch.zeros(free[0], free[2], dtype=torch.bool)),
        case("as many heads as texts", (3, 3, 5, 4), padding_in_front(draw, 3, 5), "small"),
        case("as many heads as texts and tokens", (3, 3, 3, 2), squares, "small"),
        loud_padding(draw),
    ]


def loud_padding(draw):
    """Each query scores near 0 with the padding, and near -100 with real tokens."""
    inputs = {part: draw.normal(2, 5, 6, 3, dtype=torch.float64) for part in PARTS}
    pad_mask = padding_in_front(draw, 2, 6)
    far = (100 * 3**0.5) ** 0.5
    inputs["query"][..., 0], inputs["key"][..., 0] = far, -far * ~pad_mask[:, None]
    return Case("scores of real tokens near -100", inputs | {"pad_mask": pad_mask})


def oracle(query, key, value, pad_mask):
    visible = torch.ones(query.shape[-2], query.shape[-2], dtype=torch.bool).tril()
    visible = visible & ~pad_mask[:, None, None, :]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=visible)


def first_alone(case):
    """The first text without its padding."""
    first = int(case["pad_mask"][0].sum())
    text = {part: case[part][:1, :, first:] for part in PARTS}
    return text | {"pad_mask": case["pad_mask"][:1, first:]}


probe = FunctionProbe(gradients=PARTS, more={"typical": {"alone": first_alone}})
expect = expect_function(oracle, gradients=PARTS)


@true_of(
    "A text gives the same in a batch as alone",
    gate=True,
    role="typical",
    breaks="A text gives something else in a batch than alone",
)
def alone(case, observed, expected):
    by_itself = observed.tensors["alone"]
    return near(observed.tensors["out"][:1, :, -by_itself.shape[2] :], by_itself)


properties = (alone, past)
