"""Further calls of a probe, given as data."""

import torch
from torch import nn

from whywrong import Case, FunctionProbe, ModuleProbe

X = torch.tensor([[1.0, 2.0]])


def test_a_further_call_has_changed_inputs_and_its_result_is_stored_by_name():
    twice = {"x": lambda case: {"x": 2 * case["x"]}}
    probe = FunctionProbe(more={"typical": twice, "": {"as before": lambda case: {}}})
    typical = probe(lambda x, y: x + y, Case("one", {"x": X, "y": 1.0}, roles={"typical"}))
    assert typical.tensors["x"].tolist() == [[3.0, 5.0]]
    assert typical.tensors["as before"].tolist() == [[2.0, 3.0]]
    other = probe(lambda x, y: x + y, Case("another", {"x": X, "y": 1.0}))
    assert "x" not in other.tensors and "as before" in other.tensors


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.scale + self.calls


def test_further_calls_share_one_module_except_those_with_other_weights():
    def other(case):
        return {"weights": {"scale": torch.tensor([10.0])}}

    calls = {"first": lambda case: {}, "other weights": other, "second": lambda case: {}}
    case = Case("one", {"x": X}, options={"weights": {"scale": torch.tensor([3.0])}})
    seen = ModuleProbe(watch=False, more={"": calls})(Counting, case).tensors
    assert seen["first"].tolist() == [[4.0, 7.0]]
    assert seen["other weights"].tolist() == [[11.0, 21.0]]
    assert seen["second"].tolist() == [[5.0, 8.0]]
