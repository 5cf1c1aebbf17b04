"""How an answer to `bits_per_byte` is judged."""

import torch

from whywrong import Case, Draw, FunctionProbe, near, true_of

tolerance = {torch.float64: 1e-5}


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes=(), roles="", scale=2.0, longest=7, dtype=torch.float32):
        B, T, V = sizes or draw.sizes(3, 4, 11)
        logits = scale * draw.normal(B, T, V, dtype=dtype)
        targets = torch.randint(V, (B, T), generator=draw.generator)
        lengths = torch.randint(1, longest + 1, (V,), generator=draw.generator)
        inputs = {"logits": logits, "targets": targets, "lengths": lengths}
        return Case(name, inputs, roles=frozenset(roles.split()))

    def with_empty_tokens(case):
        """Such as the mark of a text's end."""
        case["lengths"][1], case["targets"][0, :2] = 0, torch.tensor([1, 0])
        return case

    by_hand = {
        "logits": torch.tensor([[[0.0, 0.0, -100.0], [0.0, 0.0, -100.0]]]),
        "targets": torch.tensor([[0, 1]]),
        "lengths": torch.tensor([1, 3, 5]),
    }
    return [
        Case("two tokens, one bit each, by hand", by_hand, roles={"small"}),
        case("random tokens", roles="typical"),
        case("another batch"),
        case("bytes only", longest=1),
        case("one token", (1, 1, 6), "small"),
        case("float64", dtype=torch.float64),
        case("large logits", roles="stability", scale=60.0),
        with_empty_tokens(case("some tokens have no bytes", (5, 4, 6))),
    ]


probe = FunctionProbe()


def expect(case):
    probability = case["logits"].double().log_softmax(-1)
    chosen = probability.gather(-1, case["targets"][..., None])
    bits = -chosen.sum() / torch.log(torch.tensor(2.0, dtype=torch.float64))
    return {"out": bits / case["lengths"][case["targets"]].sum()}


@true_of("With bytes as tokens, it is the loss in bits", credit=True)
def loss_in_bits(case, observed, expected):
    if bool((case["lengths"] != 1).any()):
        return None
    return near(observed.tensors["out"], expected["out"])


properties = (loss_in_bits,)
letters = {"lengths": "V"}
