"""How an answer to `next_token_loss` is judged."""

import torch
import torch.nn.functional as F

from whywrong import Case, Draw, FunctionProbe, expect_function, near, true_of


def cases(seed):
    draw = Draw(seed)

    def case(name, sizes=(), pad_id=None, padded="", roles="", dtype=torch.float32, **options):
        B, T, V = sizes or draw.sizes(3, 3, 9)
        logits = 2.0 * draw.normal(B, T, V, dtype=dtype)
        steps = torch.randint(1, V, (B, T), generator=draw.generator)
        ids = steps.cumsum(1) % V  # no token comes twice in a row: a copy is never right by chance
        inputs = {"logits": logits, "ids": ids}
        if pad_id is not None:
            ids[ids == pad_id] = (pad_id + 1) % V
            ids = ids.masked_fill(padding(draw, padded, B, T), pad_id)
            inputs |= {"ids": ids, "pad_id": pad_id}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    two = torch.tensor([[[0.0, 0.0], [0.0, 1.0], [5.0, 0.0]]])
    by_hand = {"logits": two, "ids": torch.tensor([[0, 1, 1]])}
    large = case("large logits", roles="stability")
    large.inputs["logits"] = 25.0 * large["logits"]
    double, names = torch.float64, ("logits", "ids", "pad_id")
    return [
        Case("three tokens by hand", by_hand, roles={"small"}),
        case("no padding", roles="typical"),
        case("padding after the text", (5, 7, 6), 3, "after", "padded"),
        case("padding in front", (4, 6, 5), 2, "front", "padded"),
        case("padding anywhere, named 0", (6, 8, 7), 0, "anywhere", "padded"),
        case("a text of nothing but padding", (4, 7, 5), 4, "one text", "padded"),
        case("a pad_id that doesn't occur", (3, 5, 8), 6),
        case("tokens of id 0, no pad_id", (6, 5, 2), roles="small"),
        case("two tokens", (5, 2, 7), roles="small"),
        case("float64, by name", (3, 6, 4), 1, "after", "padded", double, keywords=names),
        large,
        case("as many tokens as words", (6, 6, 6), 2, "after", "small padded"),
    ]


def padding(draw, where, B, T):
    """`(B, T)`, `True` at padding; each text keeps at least two tokens, and one is full."""
    if not where:
        return torch.zeros(B, T, dtype=torch.bool)
    if where == "anywhere":
        some = torch.rand(B, T, generator=draw.generator) < 0.4
        some[0, :2] = torch.tensor([True, False])
        some[1, -2:] = torch.tensor([False, True])
        return some
    lengths = torch.randint(2, T + 1, (B,), generator=draw.generator)
    lengths[draw.integer(0, B - 1)] = T
    lengths[draw.integer(0, B - 1)] = 2
    after = torch.arange(T) >= lengths[:, None]
    if where == "one text":
        after[draw.integer(0, B - 1)] = True
    return after.flip(1) if where == "front" else after


def oracle(logits, ids, pad_id=None):
    targets = ids[:, 1:]
    targets = targets if pad_id is None else targets.masked_fill(targets == pad_id, -100)
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets, ignore_index=-100)


def other_end(case):
    logits = case["logits"].clone()
    logits[:, -1] += logits[:, 0].flip(-1)
    return {"logits": logits}


def likelier(case):
    """The tokens that come next have larger logits."""
    logits = case["logits"].clone()
    logits[:, :-1].scatter_add_(-1, case["ids"][:, 1:, None], torch.full_like(logits, 2.0))
    return {"logits": logits}


def other_at_padding(case):
    logits, silent = case["logits"].clone(), case["ids"][:, 1:] == case["pad_id"]
    logits[:, :-1] += logits[:, :-1].flip(-1) * silent[..., None]
    return {"logits": logits}


more = {
    "typical": {
        "other end": other_end,
        "all higher": lambda case: {"logits": case["logits"] + 3.0},
        "better": likelier,
    },
    "padded": {"other at padding": other_at_padding},
}
probe = FunctionProbe(gradients=("logits",), more=more)
expect = expect_function(oracle, gradients=("logits",))


@true_of("The loss falls when the tokens that come next get likelier", gate=True, role="typical")
def better(case, observed, expected):
    return bool(observed.tensors["better"] < observed.tensors["out"] - 1e-4)


@true_of("The last logits, which predict nothing, have no effect", credit=True, role="typical")
def end(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["other end"])


@true_of("Adding one number to all logits changes nothing", credit=True, role="typical")
def higher(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["all higher"])


@true_of("Logits whose target is padding have no effect", credit=True, role="padded")
def padded(case, observed, expected):
    return near(observed.tensors["out"], observed.tensors["other at padding"])


properties = (better, end, higher, padded)
