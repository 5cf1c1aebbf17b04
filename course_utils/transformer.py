"""Transformer blocks and positions: the finished parts of lessons 08, 09 and 11, in order.

Letters in shapes: `B` batch, `T` tokens, `S` source length, `C` model width (`d_model`), `H` heads,
`D` head width.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import CrossAttention, MultiHeadAttention, check_length

# Lesson 08: a block, with attention and a network per token on one residual stream ---------------


class LayerNorm(nn.Module):
    """Give each token's channels mean 0 and variance 1, then apply a learned scale and shift.

    See Ba et al. 2016. The variance is biased (divided by C, not C - 1), and `eps` is inside
    the square root, so that a token of equal channels gives `shift` without a division by zero.

    Args:
        d_model: width C of a token.
        eps: the number added to the variance.

    Shapes: `forward(x)` takes `(…, C)` and returns `(…, C)`.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def formula(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=-1, keepdim=True)  # (…, C) -> (…, 1)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)  # (…, C) -> (…, 1)
        normed = (x - mean) / torch.sqrt(variance + self.eps)  # (…, C)
        return self.scale * normed + self.shift  # (C,) * (…, C) + (C,) -> (…, C)

    def forward(self, x: Tensor) -> Tensor:
        # This call computes the formula in one pass over the numbers.
        return F.layer_norm(x, self.scale.shape, self.scale, self.shift, self.eps)


def gelu(x: Tensor) -> Tensor:
    """Multiply x by approximately the probability that a standard normal variable is less than x.

    This is the approximation with tanh that GPT-2 uses (Hendrycks and Gimpel 2016, section 2).

    Args:
        x: a floating-point tensor of any shape; the result has the same shape.

    >>> [round(number, 3) for number in gelu(torch.tensor([-3.0, 0.0, 3.0])).tolist()]
    [-0.004, 0.0, 2.996]
    """
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


class FeedForward(nn.Module):
    """Widen each token, apply GELU, and narrow the result; no token affects another.

    The design follows Vaswani et al. 2017, section 3.3, with GELU instead of ReLU.

    Args:
        d_model: width C of a token.
        expansion: the ratio of the hidden width to C; 4 in GPT-2.
        dropout: probability with which a channel of the result is set to 0 in training.

    Shapes: `forward(x)` takes `(B, T, C)` and returns `(B, T, C)`.
    """

    def __init__(self, d_model: int, expansion: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, expansion * d_model)
        self.contract = nn.Linear(expansion * d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def formula(self, x: Tensor) -> Tensor:
        x = gelu(self.expand(x))  # (B, T, C) -> (B, T, expansion * C)
        return self.dropout(self.contract(x))  # (B, T, expansion * C) -> (B, T, C)

    def forward(self, x: Tensor) -> Tensor:
        # This code computes the formula, with the GELU in one pass over the numbers.
        x = F.gelu(self.expand(x), approximate="tanh")
        return self.dropout(self.contract(x))


class TransformerBlock(nn.Module):
    """Add the output of attention to each token, then the output of the feed-forward network.

    The block is Pre-LN, as in GPT-2 (Radford et al. 2019, section 2.3): each branch reads the
    stream through its own norm and adds its result to the stream, so no norm is on the path from
    input to output.

    Args:
        d_model: width C of a token; a `ValueError` is raised if `num_heads` doesn't divide it.
        num_heads: the number of heads, H.
        context_length: the maximum number of tokens for `forward`; more tokens raise `ValueError`.
        dropout: dropout probability in training, for the attention weights and once at the end of
            each branch.
        qkv_bias: whether `query`, `key` and `value` have a bias.

    Shapes: `forward(x, pad_mask=None)` takes `(B, T, C)` and a bool `(B, T)` that is `True` at
    padding, and returns `(B, T, C)`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        context_length: int,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.norm1 = LayerNorm(d_model)
        self.attention = MultiHeadAttention(
            d_model, d_model, context_length, num_heads, dropout, qkv_bias
        )
        self.dropout = nn.Dropout(dropout)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, dropout=dropout)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), pad_mask))  # (B, T, C)
        return x + self.feed_forward(self.norm2(x))  # its last layer applies dropout


def block_parameters(d_model: int, expansion: int = 4, qkv_bias: bool = False) -> int:
    """Count a block's trainable parameters by formula, without building it.

    >>> block_parameters(768)
    7085568
    """
    C, wide = d_model, expansion * d_model
    projections = 3 * (C * C + C * qkv_bias)  # query, key and value
    out_proj = C * C + C
    feed_forward = (C * wide + wide) + (wide * C + C)
    norms = 2 * (C + C)
    return projections + out_proj + feed_forward + norms


# Lesson 09: the position of a token -------------------------------------------------------------


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Return a fixed row for each position, made of pairs: the sine and cosine of an angle.

    As in Vaswani et al. 2017, section 3.5, channels 2i and 2i + 1 are the sine and the cosine of
    `position / 10000^(2i / d_model)`.

    Returns:
        The rows `(length, d_model)`, float32.

    Raises:
        ValueError: `d_model` is odd.

    >>> sinusoidal_positions(2, 4)[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    angles = _angles(length, d_model, base=10000.0)  # (length, d_model / 2)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (length, d_model / 2, 2)
    return pairs.flatten(start_dim=1).float()  # (length, d_model / 2, 2) -> (length, d_model)


def _angles(length: int, width: int, base: float, device: torch.device | None = None) -> Tensor:
    """The products of positions from 0 on and base^(-2i / width): `(length, width / 2)`.

    The products are computed in float64, because at position 1,024 a float32 angle has an error of
    5e-5.
    """
    if width % 2:
        raise ValueError(f"channels are used in pairs, so their number must be even, got {width}")
    even = torch.arange(0, width, 2, dtype=torch.float64, device=device)  # 2i
    positions = torch.arange(length, dtype=torch.float64, device=device)
    return positions[:, None] * base ** (-even / width)  # (length, 1) * (width / 2,)


class TokenAndPosition(nn.Module):
    """Look up a row for each token and a row for its position, and add them.

    Args:
        vocab_size: the vocabulary size V; ids are integers from 0 to V - 1.
        context_length: the number of positions with a row; more tokens raise `ValueError`.
        d_model: width C of a row.

    Shapes: `forward(ids)` takes `(B, T)` int64 or int32 and returns `(B, T, C)`. Ids of another
    dtype or outside the vocabulary, and a batch without tokens, raise `ValueError`; ids outside the
    vocabulary do so only on the CPU, since on a GPU the lookup itself stops the program.
    """

    def __init__(self, vocab_size: int, context_length: int, d_model: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context_length, d_model)

    def forward(self, ids: Tensor) -> Tensor:
        check_ids(ids, self.token.num_embeddings)
        T = ids.shape[1]
        check_length(T, self.position.num_embeddings)
        positions = torch.arange(T, device=ids.device)  # (T,)
        return self.token(ids) + self.position(positions)  # (B, T, C) + (T, C) -> (B, T, C)


def check_ids(ids: Tensor, vocab_size: int) -> None:
    if ids.ndim != 2 or ids.numel() == 0:
        raise ValueError(f"ids must be (B, T) with B and T at least 1, got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"ids must be of dtype int64 or int32, got {ids.dtype}")
    if can_be_read(ids):
        for id in map(int, ids.aminmax()):
            if not 0 <= id < vocab_size:
                raise ValueError(
                    f"ids must be between 0 and {vocab_size - 1}, for a vocabulary of "
                    f"{vocab_size}: got {id}"
                )


def can_be_read(x: Tensor) -> bool:
    """Whether the numbers of x can be read at once: those on a GPU only when it has finished all
    its work, and those in a graph that is being compiled not at all."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def apply_rope(x: Tensor, base: float = 10000.0, offset: int = 0) -> Tensor:
    """Rotate each pair of neighbouring channels by an angle that grows with the position.

    See Su et al. 2021, section 3.2.2. Channels 2i and 2i + 1 of the token at position t, (a, b),
    become (a cos θ − b sin θ, a sin θ + b cos θ) with θ = t · base^(−2i / D). The dot product of a
    rotated query at m and a rotated key at n then depends only on m − n.

    Args:
        x: floating-point queries or keys `(B, H, T, D)`, never values.
        base: the base of the angles; the larger the base, the more slowly the last pairs turn.
        offset: the position of the first token of x, if it follows cached tokens.

    Returns:
        The rotated vectors `(B, H, T, D)`, in the dtype and on the device of x.

    Raises:
        ValueError: D is odd.
    """
    T, D = x.shape[-2:]
    cos, sin = _cos_and_sin(offset + T, D, base, x)  # (offset + T, D / 2) each
    cos, sin = cos[offset:], sin[offset:]  # (T, D / 2) each
    a, b = x[..., 0::2], x[..., 1::2]  # (B, H, T, D / 2) each
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)  # (B, H, T, D / 2, 2)
    return pairs.flatten(start_dim=-2)  # (B, H, T, D / 2, 2) -> (B, H, T, D)


def _cos_and_sin(length: int, width: int, base: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """The cosines and sines of `_angles`, in the dtype and on the device of `like`.

    They are taken from a table that is computed once. It has as many rows as the next power of two,
    so that it is not computed again for each token of a text.
    """
    if torch.compiler.is_compiling():  # a graph computes them once for all its layers
        angles = _angles(length, width, base, like.device)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
    rows = 1 << int(length).bit_length()
    cos, sin = _table(rows, width, base, like.dtype, like.device)
    return cos[:length], sin[:length]


@lru_cache(maxsize=16)
def _table(
    rows: int, width: int, base: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False):  # so that the tensors can be used in training later
        angles = _angles(rows, width, base, device)
        return angles.cos().to(dtype), angles.sin().to(dtype)


# Lesson 11: the blocks of an encoder and a decoder ----------------------------------------------


class ReLUFeedForward(nn.Module):
    """The original feed-forward network, with ReLU (Vaswani et al. 2017, section 3.3).

    Args:
        d_model: width C of a token.
        d_ff: width of the hidden layer.
        dropout: probability with which a channel of the result is set to 0 in training.

    Shapes: `forward(x)` takes `(B, T, C)` and returns `(B, T, C)`.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.expand(x))  # (B, T, C) -> (B, T, d_ff)
        return self.dropout(self.contract(x))  # (B, T, d_ff) -> (B, T, C)


class EncoderBlock(nn.Module):
    """Let all tokens attend to all tokens, then process each token separately with a network.

    The block is Post-LN, as in Vaswani et al. 2017, section 3.1: the sum of stream and branch is
    normalised, so that each block returns normalised tokens.

    Args:
        d_model: width C of a token; a `ValueError` is raised if `num_heads` doesn't divide it.
        num_heads: the number of heads, H.
        d_ff: width of the feed-forward network's hidden layer.
        dropout: dropout probability in training, for the attention weights and once at the end of
            each branch.

    Shapes: `forward(x, pad_mask=None)` takes `(B, S, C)` and a bool `(B, S)` that is `True` at
    padding, and returns `(B, S, C)`.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = CrossAttention(d_model, num_heads, dropout)
        self.norm1 = LayerNorm(d_model)
        self.feed_forward = ReLUFeedForward(d_model, d_ff, dropout)
        self.norm2 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, x, pad_mask)))  # (B, S, C)
        return self.norm2(x + self.feed_forward(x))  # its last layer applies dropout


class DecoderBlock(nn.Module):
    """Let each token attend to itself and earlier tokens, then to the context; apply a network.

    The block is Post-LN, as in Vaswani et al. 2017, section 3.1.

    Args:
        d_model: width C of a token; a `ValueError` is raised if `num_heads` doesn't divide it.
        num_heads: the number of heads in each attention, H.
        d_ff: width of the feed-forward network's hidden layer.
        context_length: the maximum number of tokens of `x`; more tokens raise `ValueError`.
        dropout: dropout probability in training, for the attention weights and once at the end of
            each branch.

    Shapes: `forward(x, context, pad_mask=None, context_pad_mask=None)` takes `(B, T, C)`,
    `(B, S, C)`, a bool `(B, T)` and a bool `(B, S)`, and returns `(B, T, C)`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        context_length: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(
            d_model, d_model, context_length, num_heads, dropout
        )
        self.norm1 = LayerNorm(d_model)
        self.cross_attention = CrossAttention(d_model, num_heads, dropout)
        self.norm2 = LayerNorm(d_model)
        self.feed_forward = ReLUFeedForward(d_model, d_ff, dropout)
        self.norm3 = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        pad_mask: Tensor | None = None,
        context_pad_mask: Tensor | None = None,
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.self_attention(x, pad_mask)))  # (B, T, C)
        x = self.norm2(x + self.dropout(self.cross_attention(x, context, context_pad_mask)))
        return self.norm3(x + self.feed_forward(x))  # its last layer applies dropout
