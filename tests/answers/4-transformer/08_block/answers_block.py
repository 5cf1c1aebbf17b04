"""Right and wrong answers for lesson 08: the block and its parameters."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import transformer as course
from course_utils.attention import MultiHeadAttention


class OwnNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.scale * x / ((x**2).mean(-1, keepdim=True) + self.eps).sqrt() + self.shift


class Wired(nn.Module):
    """The plain answer, in steps."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.norm1, self.norm2 = OwnNorm(d_model), course.LayerNorm(d_model)
        self.attention = self.make_attention(d_model, num_heads, context_length, dropout, qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = course.FeedForward(d_model, 4, dropout)

    def make_attention(self, d_model, num_heads, context_length, dropout, qkv_bias):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, dropout, qkv_bias)

    def attend(self, x, pad_mask):
        return self.dropout(self.attention(self.norm1(x), pad_mask))

    def feed(self, x):
        return self.feed_forward(self.norm2(x))

    def forward(self, x, pad_mask=None):
        x = x + self.attend(x, pad_mask)
        return x + self.feed(x)


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
        self.feed_forward = course.FeedForward(d_model)

    def feed(self, x):
        return self.dropout(super().feed(x))


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


def by_layers(d_model, expansion=4, qkv_bias=False):
    def linear(a, b, bias=True):
        return a * b + b * int(bias)

    total = 3 * linear(d_model, d_model, qkv_bias) + linear(d_model, d_model)
    total += linear(d_model, expansion * d_model) + linear(expansion * d_model, d_model)
    return total + 2 * (d_model + d_model)


RIGHT = {
    "TransformerBlock": {
        "plain": Wired,
        "by shortcut": ByShortcut,
        "own attention": OwnAttention,
        "one dropout": OneDropout,
        "dropped by the block": SkipsWhatIsDropped,
    },
    "block_parameters": {
        "by hand": by_hand,
        "by shapes": by_shapes,
        "by layers": by_layers,
    },
}
