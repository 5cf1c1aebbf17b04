"""How an answer to `count_parameters` is judged."""

import contextlib

import torch
from torch import nn

from course_utils import attention
from whywrong import Case, Draw, Observation, Property, same


class Tied(nn.Module):
    """Two layers that use one and the same weight."""

    def __init__(self, a, b):
        super().__init__()
        self.first = nn.Linear(a, b)
        self.second = nn.Linear(a, b)
        self.second.weight = self.first.weight


class Loose(nn.Module):
    """Parameters outside its layer: a matrix, a number, a frozen vector; and a buffer."""

    def __init__(self, a, b):
        super().__init__()
        self.layer = nn.Linear(a, b)
        self.matrix = nn.Parameter(torch.zeros(b, a + 1))
        self.number = nn.Parameter(torch.tensor(1.0))
        self.fixed = nn.Parameter(torch.ones(a), requires_grad=False)
        self.register_buffer("hidden", torch.ones(a, a))


def one_layer_twice(a, b):
    layer = nn.Linear(a, b)
    return nn.Sequential(layer, nn.ReLU(), nn.ModuleDict({"again": layer}))


def equal_values(a, b):
    """Two layers that share nothing."""
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(a, b))
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


def frozen(a, b):
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(b, a))
    module[0].requires_grad_(False)
    return module


def nested(a, b):
    return nn.Sequential(nn.Linear(a, b), nn.Sequential(nn.ReLU(), nn.Linear(b, a)))


def tied_once(a, b):
    """`Tied`, with the shared weight in the first layer alone."""
    module = Tied(a, b)
    module.second.register_parameter("weight", None)
    return module


def language_model(a, b):
    """An embedding that is the output layer's weight, and a norm."""
    module = nn.ModuleDict(
        {"token": nn.Embedding(a, b), "norm": nn.LayerNorm(b), "head": nn.Linear(b, a, bias=False)}
    )
    module["head"].weight = module["token"].weight
    return module


def layers(a, b):
    return nn.Sequential(nn.Conv1d(a, b, 3), nn.Embedding(a, b + 1), nn.LayerNorm(b), nn.GRU(a, b))


def huge(a, b):
    """A layer without memory, of more numbers than float32 or int32 can count."""
    return nn.Linear(20_001 * a, 20_001 * b, device="meta")


# By name: how the module is made from two sizes, what it counts by hand, and the case's role.
MODULES = {
    "a linear layer": (nn.Linear, lambda a, b: a * b + b, "typical"),
    "two layers, one of them in a part": (nested, lambda a, b: 2 * a * b + a + b, "parts"),
    "two layers that share a weight": (Tied, lambda a, b: a * b + 2 * b, "shared"),
    "one layer in two places": (one_layer_twice, lambda a, b: a * b + b, ""),
    "two layers of equal values": (equal_values, lambda a, b: 2 * (a * b + b), ""),
    "a frozen layer and another": (frozen, lambda a, b: a * b + a, "frozen"),
    "a matrix, a number and a buffer outside a layer": (
        Loose,
        lambda a, b: a * b + b + b * (a + 1) + 1,
        "",
    ),
    "batch normalisation, with running statistics": (
        lambda a, b: nn.BatchNorm1d(a + b),
        lambda a, b: 2 * (a + b),
        "buffers",
    ),
    "a layer without parameters": (lambda a, b: nn.Dropout(0.1), lambda a, b: 0, ""),
    "convolution, embedding, norm and a recurrent layer": (
        layers,
        lambda a, b: 3 * a * b + b + a * (b + 1) + 2 * b + 3 * b * (a + b + 2),
        "layers",
    ),
    "an embedding that is also the output layer's weight, and a norm": (
        language_model,
        lambda a, b: a * b + 2 * b,
        "",
    ),
    "a layer of more than two billion numbers": (
        huge,
        lambda a, b: 20_001**2 * a * b + 20_001 * b,
        "",
    ),
    "multi-head attention": (
        lambda a, b: attention.MultiHeadAttention(a, 3 * b, a + b, 3),
        lambda a, b: 3 * a * 3 * b + 9 * b * b + 3 * b,
        "",
    ),
}

# By role: the same module without the numbers that should not count.
WITHOUT = {
    "shared": tied_once,
    "frozen": lambda a, b: nn.Sequential(nn.Linear(b, a)),
    "buffers": lambda a, b: nn.BatchNorm1d(a + b, track_running_stats=False),
}


def cases(seed):
    draw = Draw(seed)
    made = []
    for name, (_, _, role) in MODULES.items():
        a, b = draw.sizes(2, 4, 11)
        options = {"kind": name, "sizes": (a, b), "by_name": role == "parts"}
        described = {"module": f"{name}, sizes {a} and {b}"}
        made.append(Case(name, described, options=options, roles=set(role.split())))
    return made


def probe(answer, case):
    """Counts twice, to see what the first call leaves behind, and once more without the numbers
    that should not count."""
    observed = Observation()

    def call(module):
        return answer(module=module) if case.options["by_name"] else answer(module)

    module = build(MODULES[case.options["kind"]][0], case)
    before, values = state(module), tensors(module)
    first = observed.put("out", call(module))
    if state(module) != before or not same(tensors(module), values):
        observed.facts["modified"] = ["module"]
    again = Observation().put("out", call(module))
    if first is not None and (again is None or not torch.equal(first, again)):
        observed.facts["unstable"] = "random"
    for role in case.roles & WITHOUT.keys():
        with contextlib.suppress(Exception):
            observed.put_judged("without", call(build(WITHOUT[role], case)))
    return observed


def build(make, case):
    """In training mode, some of its parameters with gradients."""
    torch.manual_seed(1)
    module = make(*case.options["sizes"]).train()
    for p in [p for p in module.parameters() if p.requires_grad][::2]:
        p.grad = torch.full_like(p, 0.5)
    return module


def state(module):
    named = module.named_parameters(remove_duplicate=False)
    parameters = [(n, id(p), p.requires_grad, p.dtype, p.grad is None) for n, p in named]
    return [*parameters, *(m.training for m in module.modules())]


def tensors(module):
    found = [t for p in module.parameters() for t in (p, p.grad) if t is not None]
    return [t.detach().clone() for t in (*found, *module.buffers()) if not t.is_meta]


def expect(case):
    return {"out": torch.tensor(MODULES[case.options["kind"]][1](*case.options["sizes"]))}


def counted(case, observed, expected):
    return bool(observed.tensors["out"] == expected["out"])


def not_counted(case, observed, expected):
    """Without the numbers that should not count, the count is the same, right or not."""
    without = observed.tensors.get("judged:without", expected["out"])
    return bool(observed.tensors["out"] in (expected["out"], without))


properties = (
    Property("plain", "A linear layer is counted right", counted, gate=True, role="typical"),
    Property(
        "shared",
        "A weight that two layers share counts once",
        not_counted,
        credit=True,
        role="shared",
    ),
    Property("frozen", "Frozen numbers don't count", not_counted, credit=True, role="frozen"),
    Property("buffers", "Buffers don't count", not_counted, credit=True, role="buffers"),
    Property(
        "parts",
        "A part of a part counts",
        counted,
        credit=True,
        role="parts",
        breaks="A part of a part is not counted right",
    ),
    Property(
        "layers",
        "Every kind of layer counts",
        counted,
        credit=True,
        role="layers",
        breaks="Not every kind of layer is counted right",
    ),
)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"module": None, "sizes": "a b"}
