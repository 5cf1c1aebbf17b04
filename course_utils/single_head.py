"""From averages to one head with a padding mask: the finished parts of lessons 01 to 05.

Letters in shapes: `B` batch, `T` tokens (query length), `S` source (key length), `C` model
width, `H` heads, `D` head width. A mask is boolean, and `True` means **hidden**, as in
`nn.MultiheadAttention`; in `F.scaled_dot_product_attention` it means the opposite.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

# Lesson 01: every token is the mean of the tokens so far ---------------------------------------


def naive_mean(x: Tensor) -> Tensor:
    """Replace each token by the mean of all tokens up to and including itself, with two loops.

    Args:
        x: floating-point tokens `(B, T, C)`.

    Returns:
        Means `(B, T, C)`: `out[b, t]` is the mean of `x[b, : t + 1]`.

    >>> naive_mean(torch.tensor([[[2.0, 7.0], [6.0, 4.0], [7.0, 4.0]]])).tolist()
    [[[2.0, 7.0], [4.0, 5.5], [5.0, 5.0]]]
    """
    B, T, _ = x.shape
    out = torch.zeros_like(x)  # (B, T, C)
    for b in range(B):
        for t in range(T):
            so_far = x[b, : t + 1]  # (t + 1, C)
            out[b, t] = so_far.mean(dim=0)  # (t + 1, C) -> (C,)
    return out


# Lesson 02: the same mean as one matrix product -------------------------------------------------


def causal_mean_weights(T: int) -> Tensor:
    """Return the `(T, T)` float32 matrix whose row t has 1/(t+1) in columns 0…t and 0 after them.

    >>> causal_mean_weights(2).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    weights = torch.tril(torch.ones(T, T))  # (T, T)
    return weights / weights.sum(dim=1, keepdim=True)  # (T, T) / (T, 1) -> (T, T)


def tril_mean(x: Tensor) -> Tensor:
    """Compute `naive_mean` as one matrix product: `(B, T, C)` to `(B, T, C)`."""
    T = x.shape[1]
    weights = torch.tril(x.new_ones(T, T))  # (T, T), in the dtype and on the device of x
    weights = weights / weights.sum(dim=1, keepdim=True)  # (T, T) / (T, 1) -> (T, T)
    return weights @ x  # (T, T) @ (B, T, C) -> (B, T, C)


# Lesson 03: a mean is the softmax of zeros under a mask ----------------------------------------


def softmax(scores: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into weights that are positive and sum to 1 along `dim`.

    The largest score is subtracted first, so that `exp` can't overflow; the result is the same.

    Args:
        scores: floating-point scores of any shape; an entry of `-inf` gets weight 0.
        dim: the dimension whose weights sum to 1.
    """
    exps = torch.exp(scores - scores.amax(dim=dim, keepdim=True))
    return exps / exps.sum(dim=dim, keepdim=True)


def masked_softmax(scores: Tensor, hidden: Tensor) -> Tensor:
    """Compute the softmax over the last dimension, ignoring hidden scores.

    Args:
        scores: floating-point scores `(…, T, S)`.
        hidden: a bool mask, broadcastable to the scores; `True` hides. Each row needs a visible key
            (`safe_masked_softmax` lifts this restriction).

    Returns:
        Weights `(…, T, S)`, exactly 0 where hidden.
    """
    scores = scores.masked_fill(hidden.expand_as(scores), -math.inf)  # (…, T, S)
    return torch.softmax(scores, dim=-1)


def causal_mask(T: int, device: torch.device | str | None = None) -> Tensor:
    """Return the `(T, T)` bool mask that hides the future: `True` where key > query.

    >>> causal_mask(3).int().tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    return torch.ones(T, T, dtype=torch.bool, device=device).triu(diagonal=1)


def softmax_mean(x: Tensor) -> Tensor:
    """Compute `naive_mean` from equal scores and a mask: `(B, T, C)` to `(B, T, C)`."""
    T = x.shape[1]
    scores = x.new_zeros(T, T)
    weights = masked_softmax(scores, causal_mask(T, x.device))  # (T, T)
    return weights @ x  # (T, T) @ (B, T, C) -> (B, T, C)


# Lesson 04: one head, scores from queries and keys ---------------------------------------------


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Compare each query with each key by a dot product scaled by 1/√D.

    D is the width of the two vectors in each product. Without scaling, the variance of the scores
    grows with D and the softmax saturates (Vaswani et al. 2017, section 3.2.1).

    Args:
        query: queries `(…, T, D)`.
        key: keys `(…, S, D)`.

    Returns:
        Scores `(…, T, S)`.
    """
    D = query.shape[-1]
    scores = query @ key.transpose(-2, -1)  # (…, T, D) @ (…, D, S) -> (…, T, S)
    return scores / math.sqrt(D)


class SelfAttention(nn.Module):
    """One attention head in which each token attends to all tokens: `(B, T, d_in)` to `(B, T,
    d_out)`."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_in, d_out, bias=False)
        self.key = nn.Linear(d_in, d_out, bias=False)
        self.value = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x)  # (B, T, d_in) -> (B, T, d_out)
        key = self.key(x)  # (B, T, d_in) -> (B, T, d_out)
        value = self.value(x)  # (B, T, d_in) -> (B, T, d_out)
        weights = torch.softmax(attention_scores(query, key), dim=-1)  # (B, T, T)
        return weights @ value  # (B, T, T) @ (B, T, d_out) -> (B, T, d_out)


class MatrixSelfAttention(nn.Module):
    """`SelfAttention` with plain `(d_in, d_out)` matrices, used as `x @ W`."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W_query = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
        self.W_key = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))
        self.W_value = nn.Parameter(torch.randn(d_in, d_out) / math.sqrt(d_in))

    def forward(self, x: Tensor) -> Tensor:
        query = x @ self.W_query  # (B, T, d_in) @ (d_in, d_out) -> (B, T, d_out)
        key = x @ self.W_key  # (B, T, d_in) @ (d_in, d_out) -> (B, T, d_out)
        value = x @ self.W_value  # (B, T, d_in) @ (d_in, d_out) -> (B, T, d_out)
        weights = torch.softmax(attention_scores(query, key), dim=-1)  # (B, T, T)
        return weights @ value  # (B, T, T) @ (B, T, d_out) -> (B, T, d_out)


class CausalSelfAttention(nn.Module):
    """One attention head in which each token attends to itself and to earlier tokens.

    Args:
        d_in: width of the input tokens.
        d_out: width of query, key, value and output tokens.
        context_length: the maximum number of tokens for `forward`; more tokens raise `ValueError`.
        dropout: probability with which an attention weight is set to 0 in training.
        qkv_bias: whether `query`, `key` and `value` have a bias.

    Shapes: `forward(x)` takes `(B, T, d_in)` and returns `(B, T, d_out)`.
    """

    hidden: Tensor

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hidden", causal_mask(context_length), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        check_length(T, self.context_length)
        query = self.query(x)  # (B, T, d_in) -> (B, T, d_out)
        key = self.key(x)  # (B, T, d_in) -> (B, T, d_out)
        value = self.value(x)  # (B, T, d_in) -> (B, T, d_out)

        scores = attention_scores(query, key)  # (B, T, d_out) @ (B, d_out, T) -> (B, T, T)
        weights = masked_softmax(scores, self.hidden[:T, :T])  # (B, T, T)
        weights = self.dropout(weights)
        return weights @ value  # (B, T, T) @ (B, T, d_out) -> (B, T, d_out)


def check_length(T: int, context_length: int) -> None:
    if T > context_length:
        raise ValueError(
            f"got {T} tokens, but context_length is {context_length}: "
            f"give at most {context_length} tokens"
        )


def copy_linear_to_matrix(
    linear_attention: SelfAttention, matrix_attention: MatrixSelfAttention
) -> None:
    """Copy `query`, `key`, `value` into `W_query`, `W_key`, `W_value`, in place.

    `nn.Linear` stores its weight as `(d_out, d_in)`, but the matrices are `(d_in, d_out)`, so each
    weight is transposed. Afterwards, both modules give the same output.

    Raises:
        ValueError: the sizes differ, or a linear layer has a bias, which a matrix can't represent.
    """
    copies = []
    for name in ("query", "key", "value"):
        linear = getattr(linear_attention, name)
        if linear.bias is not None:
            raise ValueError(f"{name} has a bias, which W_{name} alone cannot represent")
        copies.append((getattr(matrix_attention, f"W_{name}"), linear.weight.T, f"W_{name}"))
    copy_all(copies)


def copy_all(copies: Sequence[tuple[Tensor, Tensor, str]]) -> None:
    """Copy each source into its target if all sizes match; otherwise, copy none."""
    for target, source, name in copies:
        if target.shape != source.shape:
            raise ValueError(
                f"{name} is {tuple(target.shape)}, but the source to copy into it is "
                f"{tuple(source.shape)}"
            )
    with torch.no_grad():
        for target, source, _ in copies:
            target.copy_(source)


# Lesson 05: a batch of unequal lengths ---------------------------------------------------------


def padding_mask(lengths: Sequence[int] | Tensor, max_length: int) -> Tensor:
    """Mark the padding that follows each sequence of a batch.

    Args:
        lengths: a list or a tensor `(B,)` of integers from 0 to `max_length`.
        max_length: the padded length S.

    Returns:
        A bool mask `(B, S)`, `True` at padding, on the device of `lengths`.

    Raises:
        ValueError: a length is not an integer, is negative or exceeds `max_length`.

    >>> padding_mask([2, 3], max_length=3).int().tolist()
    [[0, 0, 1], [0, 0, 0]]
    """
    given = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    lengths = torch.as_tensor(lengths)
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have the shape (B,), got {tuple(lengths.shape)}")
    for length in given:
        if isinstance(length, bool | float) or not 0 <= length <= max_length:
            raise ValueError(f"lengths must be integers between 0 and {max_length}, got {length!r}")
    positions = torch.arange(max_length, device=lengths.device)  # (S,)
    return positions >= lengths[:, None]  # (S,) >= (B, 1) -> (B, S)


def causal_and_padding(pad_mask: Tensor) -> Tensor:
    """Hide the future and the padded columns: `(B, T)` bool to `(B, T, T)` bool.

    Rows are not hidden: a padding query is computed like any other query.
    """
    T = pad_mask.shape[1]
    return causal_mask(T, pad_mask.device) | pad_mask[:, None, :]  # (T, T) | (B, 1, T) -> (B, T, T)


def safe_masked_softmax(scores: Tensor, hidden: Tensor) -> Tensor:
    """Compute `masked_softmax`, but give a fully hidden row zeros and finite gradients.

    The softmax of a row of `-inf` is 0/0. Such rows get equal scores before the softmax, so that
    no NaN occurs, and zero weights after it.
    """
    hidden = hidden.expand_as(scores)  # (…, T, S)
    sees_nothing = hidden.all(dim=-1, keepdim=True)  # (…, T, S) -> (…, T, 1)
    instead = torch.where(sees_nothing, 0.0, -math.inf).to(scores)  # (…, T, 1)
    scores = torch.where(hidden, instead, scores)  # (…, T, S)
    return torch.softmax(scores, dim=-1).masked_fill(sees_nothing, 0.0)


class PaddedCausalSelfAttention(CausalSelfAttention):
    """A `CausalSelfAttention` for padded batches, with the same constructor.

    Shapes: `forward(x, pad_mask=None)` takes `(B, T, d_in)` and a bool `(B, T)` that is
    `True` at padding, and returns `(B, T, d_out)`. A query without a visible token gives zeros.
    """

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        T = x.shape[1]
        check_length(T, self.context_length)
        query = self.query(x)  # (B, T, d_in) -> (B, T, d_out)
        key = self.key(x)  # (B, T, d_in) -> (B, T, d_out)
        value = self.value(x)  # (B, T, d_in) -> (B, T, d_out)

        hidden = self.hidden[:T, :T]  # (T, T)
        if pad_mask is not None:
            check_pad_mask(pad_mask, x)
            hidden = hidden | pad_mask[:, None, :]  # (T, T) | (B, 1, T) -> (B, T, T)

        scores = attention_scores(query, key)  # (B, T, d_out) @ (B, d_out, T) -> (B, T, T)
        weights = safe_masked_softmax(scores, hidden)  # (B, T, T)
        weights = self.dropout(weights)
        return weights @ value  # (B, T, T) @ (B, T, d_out) -> (B, T, d_out)


def check_pad_mask(
    pad_mask: Tensor, x: Tensor, name: str = "pad_mask", letters: str = "(B, T)"
) -> None:
    if pad_mask.shape != x.shape[:2]:
        raise ValueError(
            f"{name} is {tuple(pad_mask.shape)}, but the tokens are {tuple(x.shape)}: "
            f"it must be {letters} = {tuple(x.shape[:2])}"
        )
