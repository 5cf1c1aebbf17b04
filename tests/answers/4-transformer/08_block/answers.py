"""Right and wrong answers for lesson 08."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import transformer as course


class Plain(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.scale * self.normed(x) + self.shift

    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / ((x**2).mean(-1, keepdim=True) + self.eps).sqrt()


class ByVarMean(Plain):
    def normed(self, x):
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps)


class ByLength(Plain):
    """A token's length is √C, all but for eps."""

    def normed(self, x):
        C = x.size(-1)
        x = x - x.sum(-1).unsqueeze(-1) / C
        return x * math.sqrt(C) / (x.norm(dim=-1, keepdim=True) ** 2 + C * self.eps).sqrt()


class TokenByToken(Plain):
    def forward(self, x):
        rows = [
            self.scale * ((row - row.mean()) / (row.var(unbiased=False) + self.eps).sqrt())
            + self.shift
            for row in x.reshape(-1, x.shape[-1])
        ]
        return torch.stack(rows).reshape(x.shape)


def gelu_by_power(x):
    inner = (2 / math.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3))
    return x * (torch.tanh(inner) + 1) / 2


def gelu_by_factor(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))


def gelu_by_sigmoid(x):
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def gelu_as_published(x):
    """The widely copied line, with a root in float32."""
    factor = torch.sqrt(torch.tensor(2.0 / torch.pi, device=x.device))
    return 0.5 * x * (1 + torch.tanh(factor * (x + 0.044715 * torch.pow(x, 3))))


class Wide(nn.Module):
    """The plain answer, in steps."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_model * expansion)
        self.contract = nn.Linear(d_model * expansion, d_model)
        self.dropout = nn.Dropout(dropout)

    def bend(self, wide):
        return gelu_by_factor(wide)

    def forward(self, x):
        return self.dropout(self.contract(self.bend(self.expand(x))))


class WithCourseGelu(Wide):
    def bend(self, wide):
        return course.gelu(wide)


class ByFunctional(Wide):
    def forward(self, x):
        wide = F.linear(x, self.expand.weight, self.expand.bias)
        narrow = F.linear(self.bend(wide), self.contract.weight, self.contract.bias)
        return F.dropout(narrow, self.dropout.p, self.training)


class InSequence(Wide):
    """The names are kept, the order is nn.Sequential's."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model, expansion, dropout)
        bend = nn.Module()
        bend.forward = gelu_by_power
        self.steps = nn.Sequential(self.expand, bend, self.contract, self.dropout)

    def forward(self, x):
        return self.steps(x)


class OwnDraw(Wide):
    """Dropout by hand, without its module."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model, expansion)
        self.p = dropout

    def forward(self, x):
        out = self.contract(self.bend(self.expand(x)))
        if not self.training or not self.p:
            return out
        return out * (torch.rand_like(out) >= self.p) / (1 - self.p)


REASONS = {
    "moves information between positions": "attention",
    "out_proj and contract are zero": "x",
    "norms on the stream, Pre-LN": 0,
    "norms on the stream, Post-LN": 24,
    "LayerNorm of (7, 7, 7)": (0, 0, 0),
    "tokens that change": 3,
}


RECALLED = {"moves no number": "both", "padding hides": "columns", "scores at T = 8": 64}


RIGHT = {
    "recall_08": {
        "in capitals": {**RECALLED, "padding hides": "Columns"},
        "with blanks": {**RECALLED, "moves no number": " both "},
    },
    "LayerNorm": {
        "plain": Plain,
        "by var_mean": ByVarMean,
        "by length": ByLength,
        "a token at a time": TokenByToken,
    },
    "gelu": {
        "by pow": gelu_by_power,
        "by factor": gelu_by_factor,
        "by sigmoid": gelu_by_sigmoid,
        "as published": gelu_as_published,
    },
    "FeedForward": {
        "plain": Wide,
        "with the course's gelu": WithCourseGelu,
        "by functional": ByFunctional,
        "in sequence": InSequence,
        "dropout by hand": OwnDraw,
    },
    "block_reasons": {
        "lists for tuples": {**REASONS, "LayerNorm of (7, 7, 7)": [0, 0, 0]},
        "in capitals": {**REASONS, "out_proj and contract are zero": "X"},
    },
}


WRONG = {
    "recall_08": {
        "all wrong": (
            0,
            {"moves no number": "neither", "padding hides": "rows", "scores at T = 8": 16},
        ),
        "T squared halved": (0.25, {**RECALLED, "scores at T = 8": 28}),
        "a word for a number": (0.25, {**RECALLED, "scores at T = 8": "T²"}),
        "other words": (0.25, {**RECALLED, "moves no number": "view and transpose"}),
        "one left out": (0.25, {**RECALLED, "padding hides": ...}),
    },
    "block_reasons": {
        "all wrong": (
            0,
            {
                "moves information between positions": "norm1",
                "out_proj and contract are zero": "zeros",
                "norms on the stream, Pre-LN": 12,
                "norms on the stream, Post-LN": 48,
                "LayerNorm of (7, 7, 7)": (7, 7, 7),
                "tokens that change": 6,
            },
        ),
        "a number for a token": (0.75, {**REASONS, "LayerNorm of (7, 7, 7)": 0}),
        "in words": (0.75, {**REASONS, "norms on the stream, Pre-LN": "none"}),
        "two wrong": (
            0.5,
            {
                **REASONS,
                "norms on the stream, Post-LN": 2,
                "tokens that change": 4,
            },
        ),
        "one left out": (0.75, {**REASONS, "tokens that change": ...}),
    },
}
