"""Right and wrong answers for lesson 08: the block and its parameters."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention as finished
from course_utils import transformer as course
from course_utils.attention import MultiHeadAttention


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


def gelu_by_factor(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))


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


class Wired(nn.Module):
    """The plain answer, in steps."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.norm1, self.norm2 = Plain(d_model), ByVarMean(d_model)
        self.attention = self.make_attention(d_model, num_heads, context_length, dropout, qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = Wide(d_model, 4, dropout)

    def make_attention(self, d_model, num_heads, context_length, dropout, qkv_bias):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, dropout, qkv_bias)

    def listen(self, x, pad_mask):
        return self.dropout(self.attention(self.norm1(x), pad_mask))

    def think(self, x):
        return self.feed_forward(self.norm2(x))

    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        return x + self.think(x)


class ByShortcut(Wired):
    """As a book has it, with the shortcut kept under a name."""

    def forward(self, x, pad_mask=None):
        shortcut = x
        x = self.norm1(x)
        x = self.attention(x, pad_mask)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.norm2(x)
        x = self.feed_forward(x)
        return shortcut.add(x)


class FromCourse(Wired):
    """From the finished parts."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.norm1, self.norm2 = course.LayerNorm(d_model), course.LayerNorm(d_model)
        self.feed_forward = course.FeedForward(d_model, dropout=dropout)


class OwnAttention(Wired):
    """Attention by PyTorch's operator, where that is welcome."""

    class Attention(nn.Module):
        def __init__(self, C, H, length, dropout, qkv_bias):
            super().__init__()
            if C % H:
                raise ValueError(f"{C} channels, {H} heads")
            self.H, self.length = H, length
            self.query = nn.Linear(C, C, bias=qkv_bias)
            self.key = nn.Linear(C, C, bias=qkv_bias)
            self.value = nn.Linear(C, C, bias=qkv_bias)
            self.out_proj = nn.Linear(C, C)
            self.p = dropout

        def forward(self, x, pad_mask=None):
            B, T, C = x.shape
            if T > self.length:
                raise ValueError(f"{T} tokens, {self.length} fit")
            q, k, v = (
                p(x).view(B, T, self.H, -1).transpose(1, 2)
                for p in (self.query, self.key, self.value)
            )
            seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            if pad_mask is not None:
                seen = seen & ~pad_mask[:, None, None, :]
            scores = q @ k.mT / math.sqrt(C // self.H)
            scores = scores.masked_fill(~seen, torch.finfo(x.dtype).min)
            weights = scores.softmax(-1) * seen
            weights = F.dropout(weights, self.p, self.training)
            return self.out_proj((weights @ v).transpose(1, 2).reshape(B, T, C))

    def make_attention(self, *args):
        return self.Attention(*args)


class OneDropout(Wired):
    """One dropout module serves both branches."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.feed_forward.dropout = self.dropout


class SkipsWhatIsDropped(Wired):
    """The second branch's dropout is the block's, the network's own is made without."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.feed_forward = Wide(d_model)

    def think(self, x):
        return self.dropout(super().think(x))


class PostNormWithoutMask(Wired):
    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.feed_forward(x))


class NormAfterAndBefore(Wired):
    """Norms on both sides of a branch."""

    def listen(self, x, pad_mask):
        return self.norm1(super().listen(x, pad_mask))

    def think(self, x):
        return self.norm2(super().think(x))


class FinalNorm(Wired):
    def forward(self, x, pad_mask=None):
        return self.norm2(super().forward(x, pad_mask))


class NormedStreamSecondOnly(Wired):
    """The second residual begins at x normed by the first norm."""

    def forward(self, x, pad_mask=None):
        normed = self.norm1(x)
        middle = x + self.dropout(self.attention(normed, pad_mask))
        return normed + self.think(middle)


class BranchesSwapped(Wired):
    """The network first, and norms swapped with it: only names show it."""

    def forward(self, x, pad_mask=None):
        x = x + self.feed_forward(self.norm1(x))
        return x + self.dropout(self.attention(self.norm2(x), pad_mask))


class PaddingInverted(Wired):
    """And the first norm forgotten."""

    def listen(self, x, pad_mask):
        mask = None if pad_mask is None else ~pad_mask
        return self.dropout(self.attention(x, mask))


def by_hand(d_model, expansion=4, qkv_bias=False):
    C = d_model
    attention = 4 * C**2 + C + (3 * C if qkv_bias else 0)
    network = 2 * expansion * C**2 + expansion * C + C
    return attention + network + 4 * C


def by_shapes(d_model, expansion=4, qkv_bias=False):
    C, W = d_model, d_model * expansion
    shapes = [(C, C)] * 4 + [(C,)] + [(W, C), (W,), (C, W), (C,)] + 4 * [(C,)]
    if qkv_bias:
        shapes += 3 * [(C,)]
    return sum(math.prod(shape) for shape in shapes)


def by_counting(d_model, expansion=4, qkv_bias=False):
    with torch.device("meta"):
        parts = nn.ModuleList(
            [
                MultiHeadAttention(d_model, d_model, 1, 1, qkv_bias=qkv_bias),
                course.FeedForward(d_model, expansion),
                course.LayerNorm(d_model),
                course.LayerNorm(d_model),
            ]
        )
    return finished.count_parameters(parts)


def by_layers(d_model, expansion=4, qkv_bias=False):
    def linear(a, b, bias=True):
        return a * b + b * int(bias)

    total = 3 * linear(d_model, d_model, qkv_bias) + linear(d_model, d_model)
    total += linear(d_model, expansion * d_model) + linear(expansion * d_model, d_model)
    return total + 2 * (d_model + d_model)


def four_biases(d_model, expansion=4, qkv_bias=False):
    """`qkv_bias` for out_proj as well."""
    return by_hand(d_model, expansion) + (3 * d_model if qkv_bias else -d_model)


def one_bias_too_many(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + d_model


def three_norms(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + 2 * d_model


def five_projections(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + d_model**2


def no_norms_no_biases(d_model, expansion=4, qkv_bias=False):
    return 12 * d_model**2


def network_only(d_model, expansion=4, qkv_bias=False):
    return 2 * expansion * d_model**2 + (expansion + 1) * d_model


RIGHT = {
    "TransformerBlock": {
        "plain": Wired,
        "by shortcut": ByShortcut,
        "from finished parts": FromCourse,
        "own attention": OwnAttention,
        "one dropout": OneDropout,
        "dropped by the block": SkipsWhatIsDropped,
    },
    "block_parameters": {
        "by hand": by_hand,
        "by shapes": by_shapes,
        "by counting": by_counting,
        "by layers": by_layers,
    },
}


WRONG = {
    "TransformerBlock": {
        "post norm, no mask": PostNormWithoutMask,
        "norms on both sides": NormAfterAndBefore,
        "final norm": FinalNorm,
        "second sum around normed x": NormedStreamSecondOnly,
        "branches and norms swapped": BranchesSwapped,
        "padding inverted, first norm unused": PaddingInverted,
    },
    "block_parameters": {
        "bias for all four": four_biases,
        "one bias too many": one_bias_too_many,
        "three norms": three_norms,
        "five projections": five_projections,
        "twelve squares": no_norms_no_biases,
        "network only": network_only,
    },
}
