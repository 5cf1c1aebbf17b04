"""How an answer to `count_parameters` is judged."""

import torch
from torch import nn

from course_utils import attention
from whywrong import Case, Draw, Observation, Property, same


class Loose(nn.Module):
    """Parameters outside its layer: a matrix, a number, a frozen vector; and a buffer."""

    def __init__(self, a, b):
        super().__init__()
        self.layer = nn.Linear(a, b)
        self.matrix = nn.Parameter(torch.zeros(b, a + 1))
        self.number = nn.Parameter(torch.tensor(1.0))
        self.fixed = nn.Parameter(torch.ones(a), requires_grad=False)
        self.register_buffer("hidden", torch.ones(a, a))


def tied(*layers):
    """The first and the last use one and the same weight."""
    layers[-1].weight = layers[0].weight
    return nn.Sequential(*layers)


def in_two_places(layer):
    return nn.Sequential(layer, nn.ReLU(), nn.ModuleDict({"again": layer}))


def of_ones(module):
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


def modules(a, b):
    """By description: a module of two sizes, its parameters counted by hand, the case's role."""
    linear, wide = a * b + b, 3 * b
    nested = nn.Sequential(nn.Linear(a, b), nn.Sequential(nn.ReLU(), nn.Linear(b, a)))
    shared = tied(nn.Linear(a, b), nn.Linear(a, b))
    equal = of_ones(nn.Sequential(nn.Linear(a, b), nn.Linear(a, b)))
    frozen = nn.Sequential(nn.Linear(b, a).requires_grad_(False), nn.Linear(a, b))
    loose, in_loose = Loose(a, b), linear + b * (a + 1) + 1
    several = nn.Sequential(
        nn.Conv1d(a, b, 3), nn.Embedding(a, b + 1), nn.LayerNorm(b), nn.GRU(a, b)
    )
    in_several = (a * 3 * b + b) + a * (b + 1) + 2 * b + 3 * b * (a + b + 2)
    words = tied(nn.Embedding(a, b), nn.LayerNorm(b), nn.Linear(b, a, bias=False))
    # No memory, and more numbers than float32 or int32 can count.
    huge, in_huge = nn.Linear(20_001 * a, 20_001 * b, False, device="meta"), 20_001**2 * a * b
    heads = attention.MultiHeadAttention(a, wide, a + b, 3)
    batch = nn.BatchNorm1d(a + b)
    return {
        "a linear layer": (nn.Linear(a, b), linear, "typical"),
        "two layers, one of them in a part": (nested, linear + b * a + a, "parts"),
        "two layers that share a weight": (shared, linear + b, "shared"),
        "one layer in two places": (in_two_places(nn.Linear(a, b)), linear, ""),
        "two layers of equal values": (equal, 2 * linear, ""),
        "a frozen layer and another": (frozen, linear, "frozen"),
        "a matrix, a number and a buffer outside a layer": (loose, in_loose, ""),
        "batch normalisation, with running statistics": (batch, 2 * (a + b), "buffers"),
        "a layer without parameters": (nn.Dropout(0.1), 0, ""),
        "convolution, embedding, norm and a recurrent layer": (several, in_several, "layers"),
        "an embedding that is also the output layer's weight, and a norm": (
            words,
            a * b + 2 * b,
            "",
        ),
        "a layer of more than two billion numbers": (huge, in_huge, ""),
        "multi-head attention": (heads, 3 * a * wide + wide * wide + wide, ""),
    }


def cases(seed):
    draw, made = Draw(seed), []
    for name, (_, _, role) in modules(1, 1).items():
        a, b = draw.sizes(2, 4, 11)
        described = {"module": f"{name}, sizes {a} and {b}"}
        options = {"kind": name, "sizes": (a, b)}
        made.append(Case(name, described, options=options, roles={role}))
    return made


def listed(case):
    return modules(*case.options["sizes"])[case.options["kind"]]


def probe(answer, case):
    """Counts twice, the second time by name, to see what the first call leaves behind."""
    observed, again, module = Observation(), Observation(), module_of(case)
    before = state(module)
    observed.put("out", answer(module))
    if not same(state(module), before):
        observed.facts["modified"] = ["module"]
    again.put("out", answer(module=module))
    if not same(again.tensors, observed.tensors):
        observed.facts["unstable"] = "random"
    return observed


def module_of(case):
    """In training mode, some of its parameters with gradients."""
    torch.manual_seed(1)
    module = listed(case)[0]
    for p in [p for p in module.parameters() if p.requires_grad][::2]:
        p.grad = torch.full_like(p, 0.5)
    return module


def state(module):
    named = [
        (n, id(p), p.requires_grad) for n, p in module.named_parameters(remove_duplicate=False)
    ]
    tensors = [t for p in module.parameters() for t in (p, p.grad)] + [*module.buffers()]
    values = [None if t is None or t.is_meta else t.detach().clone() for t in tensors]
    return [named, values, [m.training for m in module.modules()]]


def expect(case):
    return {"out": torch.tensor(listed(case)[1])}


def counted(case, observed, expected):
    return bool(observed.tensors["out"] == expected["out"])


properties = (
    Property("plain", "A linear layer is counted right", counted, gate=True, role="typical"),
    Property(
        "shared", "The count is right where two layers share a weight", counted, role="shared"
    ),
    Property("frozen", "The count is right where a layer is frozen", counted, role="frozen"),
    Property("buffers", "The count is right where there are buffers", counted, role="buffers"),
    Property(
        "parts", "The count is right where a part has parts of its own", counted, role="parts"
    ),
    Property("layers", "The count is right for every kind of layer", counted, role="layers"),
)

letters = {"sizes": "a b"}
