"""Lesson 07, last part: counting what a module can learn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import attention
from ..checking import Case, Exercise, Misconceptions, Observation, Property
from ..checking.calling import target_device
from ..checking.comparing import same
from ..checking.exercise import Expected, Verdict
from .kit.draw import Draw

LESSON = "3-multi-head/07_split_heads"


# ---------------------------------------------------------------- modules to count


class _Tied(nn.Module):
    """Two layers that use one and the same weight."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.first = nn.Linear(a, b)
        self.second = nn.Linear(a, b)
        self.second.weight = self.first.weight


class _Loose(nn.Module):
    """Parameters of its own beside a layer: a matrix, a number, a frozen vector, and a buffer."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.layer = nn.Linear(a, b)
        self.matrix = nn.Parameter(torch.zeros(b, a + 1))
        self.number = nn.Parameter(torch.tensor(1.0))
        self.fixed = nn.Parameter(torch.ones(a), requires_grad=False)
        self.register_buffer("hidden", torch.ones(a, a))


class _Collected(nn.Module):
    """Parameters in a list and in a dict, parts in parts."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.listed = nn.ParameterList(nn.Parameter(torch.ones(n, 2)) for n in (a, b))
        self.named = nn.ParameterDict({"cube": nn.Parameter(torch.ones(a, b, 3))})
        self.parts = nn.ModuleList([nn.ModuleDict({"inner": _Loose(a, b)})])


def _twice(a: int, b: int) -> nn.Module:
    layer = nn.Linear(a, b)
    return nn.Sequential(layer, nn.ReLU(), nn.ModuleDict({"again": layer}))


def _frozen(a: int, b: int) -> nn.Module:
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(b, a))
    module[0].requires_grad_(False)
    return module


def _half_frozen(a: int, b: int) -> nn.Module:
    module = _Tied(a, b)
    module.first.bias.requires_grad_(False)
    return module


def _equal(a: int, b: int) -> nn.Module:
    """Two layers with equal values that share nothing."""
    module = nn.Sequential(nn.Linear(a, b), nn.Linear(a, b))
    for parameter in module.parameters():
        nn.init.ones_(parameter)
    return module


def _nested(a: int, b: int) -> nn.Module:
    return nn.Sequential(nn.Linear(a, b), nn.Sequential(nn.ReLU(), nn.Linear(b, a)))


def _tied_once(a: int, b: int) -> nn.Module:
    """`_Tied`, with the shared weight in the first layer alone."""
    module = _Tied(a, b)
    module.second.register_parameter("weight", None)
    return module


# By role: what leaves out just that which shouldn't count, and nothing else.
WITHOUT: dict[str, Callable[[int, int], nn.Module]] = {
    "shared": _tied_once,
    "frozen": lambda a, b: nn.Sequential(nn.Linear(b, a)),
    "buffers": lambda a, b: nn.BatchNorm1d(a + b, track_running_stats=False),
}


def _language_model(a: int, b: int) -> nn.Module:
    """An embedding that is the head's weight, a norm, a head."""
    module = nn.ModuleDict(
        {"token": nn.Embedding(a, b), "norm": nn.LayerNorm(b), "head": nn.Linear(b, a, bias=False)}
    )
    module["head"].weight = module["token"].weight
    return module


def _layers(a: int, b: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(a, b, 3), nn.Embedding(a, b + 1), nn.LayerNorm(b), nn.GRU(a, b))


class _NoAddress(nn.Parameter):
    """As parameters on the meta device are, where all addresses are 0. Not on that device itself:
    there some operators import PyTorch's compiler, seconds in the middle of a check."""

    def data_ptr(self) -> int:
        return 0


def _in_one_storage(a: int, b: int) -> nn.Module:
    """Parameters without addresses, all pieces of one long vector; two layers share a weight."""
    pieces = torch.zeros(a * b + 2 * b + b * a + a).split([a * b, b, b, b * a, a])
    tied, last = _Tied(a, b), nn.Linear(b, a)
    tied.first.weight = tied.second.weight = _NoAddress(pieces[0].view(b, a))
    tied.first.bias, tied.second.bias = _NoAddress(pieces[1]), _NoAddress(pieces[2])
    last.weight, last.bias = _NoAddress(pieces[3].view(a, b)), _NoAddress(pieces[4])
    return nn.Sequential(tied, last)


def _many_millions(a: int, b: int) -> nn.Module:
    """More than float32 can count one by one, and an odd number; in memory it is one number."""
    module = nn.Module()
    module.wide = nn.Parameter(torch.zeros(1).expand(4097 + 2 * a, 4097 + 2 * b))
    return module


# By name: how the module is made from two sizes, what it counts by hand, and the case's role.
MODULES: dict[str, tuple[Callable[[int, int], nn.Module], Callable[[int, int], int], str]] = {
    "a linear layer": (nn.Linear, lambda a, b: a * b + b, "typical"),
    "a linear layer without bias": (
        lambda a, b: nn.Linear(a, b, bias=False),
        lambda a, b: a * b,
        "",
    ),
    "two layers, one of them in a part": (_nested, lambda a, b: 2 * a * b + a + b, "parts"),
    "two layers that share a weight": (_Tied, lambda a, b: a * b + 2 * b, "shared"),
    "one layer in two places": (_twice, lambda a, b: a * b + b, ""),
    "two layers of equal values": (_equal, lambda a, b: 2 * (a * b + b), ""),
    "a frozen layer and another": (_frozen, lambda a, b: a * b + a, "frozen"),
    "a shared weight and a frozen bias": (_half_frozen, lambda a, b: a * b + b, ""),
    "a matrix, a number and a buffer beside a layer": (
        _Loose,
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
        _layers,
        lambda a, b: 3 * a * b + b + a * (b + 1) + 2 * b + 3 * b * (a + b + 2),
        "layers",
    ),
    "an embedding that is also the head's weight, and a norm": (
        _language_model,
        lambda a, b: a * b + 2 * b,
        "",
    ),
    "parameters in a list and in a dict": (
        _Collected,
        lambda a, b: 2 * (a + b) + 3 * a * b + a * b + b + b * (a + 1) + 1,
        "",
    ),
    "layers in one storage, two of which share a weight": (
        _in_one_storage,
        lambda a, b: 2 * a * b + 2 * b + a,
        "",
    ),
    "more than 16 million numbers": (
        _many_millions,
        lambda a, b: (4097 + 2 * a) * (4097 + 2 * b),
        "",
    ),
    "multi-head attention": (
        lambda a, b: attention.MultiHeadAttention(a, 3 * b, a + b, 3),
        lambda a, b: 3 * a * 3 * b + 9 * b * b + 3 * b,
        "",
    ),
    "PyTorch's own multi-head attention": (
        lambda a, b: nn.MultiheadAttention(2 * b, 2, kdim=a),
        lambda a, b: 4 * b * b + 2 * b * a + 4 * b * b + 6 * b + 4 * b * b + 2 * b,
        "",
    ),
}


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    cases = []
    for name, (_, _, role) in MODULES.items():
        a, b = draw.sizes(2, 4, 11)
        options = {"kind": name, "sizes": (a, b)}
        if role == "parts":
            options["keywords"] = ("module",)
        described = {"module": f"{name}, sizes {a} and {b}"}
        cases.append(Case(name, described, options=options, roles=set(role.split())))
    return cases


def _probe(answer: Any, case: Case) -> Observation:
    """Counts twice, for what the first call leaves behind; and once more, to be judged, without
    what shouldn't count."""
    seen = Observation()

    def call(module: nn.Module) -> Any:
        return answer(module=module) if case.options.get("keywords") else answer(module)

    module = _made(MODULES[case.options["kind"]][0], case)
    before, values = _state(module), _values(module)
    first = seen.put("out", call(module))
    if _state(module) != before or not same(_values(module), values):
        seen.facts["modified"] = ["module"]
    again = Observation().put("out", call(module))
    if first is not None and (again is None or not torch.equal(first, again)):
        seen.facts["unstable"] = "random"
    for role in case.roles & WITHOUT.keys():
        with contextlib.suppress(Exception):
            seen.put_judged("without", call(_made(WITHOUT[role], case)))
    return seen


def _made(make: Callable[[int, int], nn.Module], case: Case) -> nn.Module:
    """In training mode, some of its parameters with gradients."""
    torch.manual_seed(1)
    module = make(*case.options["sizes"]).train()
    if not hasattr(module, "wide"):
        module.to(target_device())
        for p in _trained(module.parameters())[::2]:
            p.grad = torch.full_like(p, 0.5)
    return module


def _state(module: nn.Module) -> list[Any]:
    named = module.named_parameters(remove_duplicate=False)
    parameters = [(n, id(p), p.requires_grad, p.dtype, p.grad is None) for n, p in named]
    return [*parameters, *(m.training for m in module.modules())]


def _values(module: nn.Module) -> list[Tensor]:
    """What stands in parameters, their gradients and buffers, where that is not too much."""
    found = [t for p in module.parameters() for t in (p, p.grad) if t is not None]
    return [t.detach().clone() for t in (*found, *module.buffers()) if t.numel() < 1_000_000]


def _expect(case: Case) -> dict[str, Tensor]:
    return {"out": torch.tensor(MODULES[case.options["kind"]][1](*case.options["sizes"]))}


def _counted(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.tensors["out"] == expected["out"])


def _not_counted(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """Without what shouldn't count, the count is the same, right or not."""
    without = seen.tensors.get("judged:without", expected["out"])
    return bool(seen.tensors["out"] in (expected["out"], without))


# ---------------------------------------------------------------- what goes wrong


def _sum(parameters: Any) -> int:
    return sum(p.numel() for p in parameters)


def _trained(parameters: Any) -> list[nn.Parameter]:
    return [p for p in parameters if p.requires_grad]


def frozen_counted(module):
    """Frozen parameters are counted too.

    Why: The count should say how many numbers training can change.
    Mend: Each parameter knows whether it asks for a gradient.
    """
    return _sum(module.parameters())


def frozen_counted_alone(module):
    """You counted the frozen parameters, and left out those that are trained.

    Why: The count should say how many numbers training can change.
    Mend: What does `p.requires_grad` say of a parameter that is trained?
    """
    return _sum(p for p in module.parameters() if not p.requires_grad)


def shared_counted_twice(module):
    """A parameter that stands in two places is counted twice.

    Why: Many models share the embedding with the head: 38.6 million numbers in GPT-2.
    Mend: `module.parameters()` gives each `Parameter` once. Which way of yours gives it twice?
    """
    named = module.named_parameters(remove_duplicate=False)
    return _sum(_trained(p for _, p in named))


def layer_by_layer(module):
    """You added up layer by layer, so a weight that two layers share is counted twice.

    Why: Many models share the embedding with the head: 38.6 million numbers in GPT-2.
    Mend: Ask the whole module at once for its parameters.
    """
    return _sum(_trained(p for m in module.modules() for p in m.parameters(recurse=False)))


def whole_subtrees_counted(module):
    """You added up the parameters of all modules within modules, each with all that is in it.

    Why: What stands in a part of a part is counted once for each module around it.
    Mend: `module.parameters()` goes into the parts already: no loop over modules is needed.
    """
    return _sum(_trained(p for m in module.modules() for p in m.parameters()))


def state_dict_counted(module):
    """The `state_dict` also holds buffers and frozen parameters, and shared ones twice.

    Why: It lists what is saved, not what is trained.
    Mend: Which method gives parameters only?
    """
    return _sum(module.state_dict().values())


def buffers_counted(module):
    """Buffers are counted too.

    Why: A mask or a running mean is carried along and never trained.
    Mend: `parameters()` leaves them out.
    """
    return _sum((*_trained(module.parameters()), *module.buffers()))


def tensors_counted(module):
    """You counted tensors, not the numbers in them.

    Why: A weight of (768, 768) is one tensor and 589,824 numbers.
    Mend: How does a tensor tell its number of elements?
    """
    return len(_trained(module.parameters()))


def rows_counted(module):
    """You counted rows: `len` of a tensor is its first size.

    Why: A weight of (768, 768) has 768 rows and 589,824 numbers.
    Mend: How does a tensor tell its number of elements?
    """
    return sum(len(p) for p in _trained(module.parameters()) if p.dim())


def bytes_counted(module):
    """You counted bytes: a float32 number takes four.

    Why: How much memory a model takes hangs on its dtype; how many numbers it learns doesn't.
    Mend: How does a tensor tell its number of elements?
    """
    return sum(p.nbytes for p in _trained(module.parameters()))


def zeros_left_out(module):
    """Numbers that are 0 are not counted.

    Why: A bias often starts at 0 and is trained like any other.
    Mend: It is the size of a tensor that counts, not what stands in it.
    """
    return sum(int(p.count_nonzero()) for p in _trained(module.parameters()))


def biases_left_out(module):
    """Only parameters named `weight` are counted.

    Why: Biases and single parameters are trained as well.
    Mend: Count all that `parameters()` gives.
    """
    return _sum(_trained(p for n, p in module.named_parameters() if n.endswith("weight")))


def only_matrices(module):
    """Only matrices are counted.

    Why: Biases are vectors, and a scale may be a single number; all are trained.
    Mend: Count whatever the shape.
    """
    return _sum(p for p in _trained(module.parameters()) if p.dim() == 2)


def same_names_counted_once(module):
    """Parameters of the same last name are counted once: a dict keeps one value a key.

    Why: Nearly every layer has a `weight`.
    Mend: Add up as you go, without a dict.
    """
    named = module.named_parameters()
    return _sum({n.rpartition(".")[2]: p for n, p in named if p.requires_grad}.values())


def only_its_own(module):
    """Only parameters that the module holds itself are counted, not those of its parts.

    Why: Nearly every model is made of parts.
    Mend: `parameters()` goes into the parts by default.
    """
    return _sum(_trained(module.parameters(recurse=False)))


def only_direct_layers(module):
    """Only layers one step inside the module are counted.

    Why: A single layer has no parts, and parameters may stand outside any layer.
    Mend: `module.parameters()` finds them all.
    """
    return _sum(_trained(p for m in module.children() for p in m.parameters()))


def only_linear_layers(module):
    """Only `nn.Linear` layers are counted.

    Why: Embeddings, norms and parameters that stand alone are trained as well.
    Mend: `module.parameters()` finds them all, whatever layer they are in.
    """
    layers = [m for m in module.modules() if isinstance(m, nn.Linear)]
    return _sum(_trained(p for m in layers for p in m.parameters()))


def a_tensor(module):
    """The count is a tensor; an `int` was asked for.

    Why: A tensor prints and compares differently, and may sit on another device.
    Mend: Python's own `sum` over `p.numel()` gives an int.
    """
    return torch.tensor(_sum(_trained(module.parameters())))


def a_float(module):
    """The count is a float; an `int` was asked for.

    Why: Above 2⁵³ a float can't tell neighbouring whole numbers apart.
    Mend: `numel()` is an int, and sums of ints are ints.
    """
    return float(_sum(_trained(module.parameters())))


def a_list(module):
    """You return a list, one number a parameter; their sum was asked for.

    Why: One number is what models are compared by.
    Mend: Python has a function that adds up a list.
    """
    return [p.numel() for p in _trained(module.parameters())]


def evaluation_mode_left_on(module):
    """The count is right, but afterwards the module is in evaluation mode.

    Why: In the wrong mode a module trains without dropout, or drops where it is only used, and no
        error says so.
    Mend: Counting needs neither mode: leave out `.eval()`.
    """
    return _sum(_trained(module.eval().parameters()))


def thaws(module):
    """Parameters were made trainable before they were counted.

    Why: Whoever froze them wants them to stay as they are, and not counted.
    Mend: Ask for `requires_grad`, don't set it.
    """
    return _sum(p.requires_grad_(True) for p in module.parameters())


COUNT_PARAMETERS = Exercise(
    id="count_parameters",
    lesson=LESSON,
    call="count_parameters(module)",
    points=0.5,
    cases=_cases,
    probe=_probe,
    expect=_expect,
    reference=attention.count_parameters,
    returns="int",
    properties=(
        Property("plain", "A linear layer is counted right", _counted, gate=True, role="typical"),
        Property(
            "shared",
            "A weight that two layers share counts once",
            _not_counted,
            credit=True,
            role="shared",
        ),
        Property("frozen", "Frozen numbers don't count", _not_counted, credit=True, role="frozen"),
        Property("buffers", "Buffers don't count", _not_counted, credit=True, role="buffers"),
        Property(
            "parts",
            "What stands in a part of a part counts",
            _counted,
            credit=True,
            role="parts",
            breaks="What stands in a part of a part is not counted right",
        ),
        Property(
            "layers",
            "Every kind of layer counts",
            _counted,
            credit=True,
            role="layers",
            breaks="Not every kind of layer is counted right",
        ),
    ),
    misconceptions=Misconceptions.of(
        frozen_counted,
        tensors_counted,
        shared_counted_twice,
        layer_by_layer,
        state_dict_counted,
        buffers_counted,
        rows_counted,
        biases_left_out,
        only_matrices,
        only_linear_layers,
        only_direct_layers,
        only_its_own,
        whole_subtrees_counted,
        a_tensor,
        a_float,
        a_list,
        same_names_counted_once,
        frozen_counted_alone,
        bytes_counted,
        zeros_left_out,
        evaluation_mode_left_on,
        thaws,
    ),
    hints=(
        "`module.parameters()` goes through all parameters, each once; `p.numel()` is how many "
        "numbers one holds.",
        "`p.requires_grad` says whether it is trained: `sum(… for p in module.parameters() if …)`.",
    ),
)
