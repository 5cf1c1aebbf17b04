"""Attention, from averages to a cache: the finished parts of lessons 01 to 07, 11 and 13.

Letters in shapes: `B` batch, `T` tokens (query length), `S` source (key length), `C` model
width, `H` heads, `D` head width. A mask is boolean, and `True` means **hidden**, as in
`nn.MultiheadAttention`; in `F.scaled_dot_product_attention` it means the opposite.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
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
    empty = hidden.all(dim=-1, keepdim=True)  # (…, T, S) -> (…, T, 1)
    instead = scores.new_zeros(empty.shape).masked_fill_(~empty, -math.inf)
    scores = torch.where(hidden.expand_as(scores), instead, scores)  # (…, T, S)
    return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)


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


# Lesson 06: heads side by side -----------------------------------------------------------------


class MultiHeadAttentionWrapper(nn.Module):
    """Style A: H single heads read the same tokens; their outputs are concatenated and mixed.

    Args:
        d_in: width of the input tokens.
        d_head: width D of each head.
        context_length: the maximum number of tokens for `forward`.
        num_heads: the number of heads, H; the output tokens have width `d_head * num_heads`.
        dropout: probability with which an attention weight is set to 0 in training.
        qkv_bias: whether each head's `query`, `key` and `value` have a bias.

    Shapes: `forward(x, pad_mask=None)` takes `(B, T, d_in)` and a bool `(B, T)`, and returns
    `(B, T, d_head * num_heads)`.
    """

    def __init__(
        self,
        d_in: int,
        d_head: int,
        context_length: int,
        num_heads: int,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            PaddedCausalSelfAttention(d_in, d_head, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(d_head * num_heads, d_head * num_heads)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        contexts = [head(x, pad_mask) for head in self.heads]  # H of (B, T, D)
        context = torch.cat(contexts, dim=-1)  # H of (B, T, D) -> (B, T, H * D)
        return self.out_proj(context)  # (B, T, H * D) -> (B, T, H * D)


# Lesson 07: project once, then split the width into heads --------------------------------------


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Split the width into heads: `(B, T, C)` to `(B, H, T, D)` with D = C / H.

    Raises:
        ValueError: C is not divisible by `num_heads`.
    """
    B, T, C = x.shape
    check_divisible(C, num_heads)
    x = x.view(B, T, num_heads, C // num_heads)  # (B, T, C) -> (B, T, H, D)
    return x.transpose(1, 2)  # (B, T, H, D) -> (B, H, T, D)


def merge_heads(x: Tensor) -> Tensor:
    """Undo `split_heads`: `(B, H, T, D)` to `(B, T, C)` with C = H · D."""
    B, H, T, D = x.shape
    x = x.transpose(1, 2)  # (B, H, T, D) -> (B, T, H, D)
    # The transpose doesn't move numbers in memory, so view would fail; reshape copies the numbers.
    return x.reshape(B, T, H * D)  # (B, T, H, D) -> (B, T, C)


def check_divisible(width: int, num_heads: int) -> None:
    if num_heads < 1 or width % num_heads != 0:
        raise ValueError(
            f"the width {width} cannot be split into num_heads = {num_heads} equal heads"
        )


class MultiHeadAttention(nn.Module):
    """Style B: all heads are computed at once, from one projection whose width is split.

    The design follows Vaswani et al. 2017, section 3.2.2, with a causal mask and `batch_first`
    shapes.

    Args:
        d_in: width of the input tokens.
        d_out: width of the output; a `ValueError` is raised if `num_heads` doesn't divide it.
        context_length: the maximum number of tokens for `forward`; more tokens raise `ValueError`.
        num_heads: the number of heads, H; each has width D = d_out / H.
        dropout: probability with which an attention weight is set to 0 in training.
        qkv_bias: whether `query`, `key` and `value` have a bias (`out_proj` always has one).

    Shapes: `forward(x, pad_mask=None)` takes `(B, T, d_in)` and a bool `(B, T)` that is
    `True` at padding, and returns `(B, T, d_out)`.
    """

    hidden: Tensor

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        num_heads: int,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        check_divisible(d_out, num_heads)
        self.num_heads = num_heads
        self.context_length = context_length
        self.query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("hidden", causal_mask(context_length), persistent=False)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        T = x.shape[1]
        check_length(T, self.context_length)
        query = split_heads(self.query(x), self.num_heads)  # (B, T, d_in) -> (B, H, T, D)
        key = split_heads(self.key(x), self.num_heads)  # (B, T, d_in) -> (B, H, T, D)
        value = split_heads(self.value(x), self.num_heads)  # (B, T, d_in) -> (B, H, T, D)

        scores = attention_scores(query, key)  # (B, H, T, D) @ (B, H, D, T) -> (B, H, T, T)
        hidden = self.hidden[:T, :T]  # (T, T)
        if pad_mask is None:
            # Each token attends to itself, so no row is fully hidden; adding is faster than
            # filling.
            future = scores.new_zeros(T, T).masked_fill_(hidden, -math.inf)  # visible keys: 0
            weights = torch.softmax(scores + future, dim=-1)  # (B, H, T, T)
        else:
            check_pad_mask(pad_mask, x)
            hidden = hidden | pad_mask[:, None, None, :]  # (T, T) | (B, 1, 1, T) -> (B, 1, T, T)
            weights = safe_masked_softmax(scores, hidden)  # (B, H, T, T)
        weights = self.dropout(weights)
        context = weights @ value  # (B, H, T, T) @ (B, H, T, D) -> (B, H, T, D)
        return self.out_proj(merge_heads(context))  # (B, H, T, D) -> (B, T, d_out)


def copy_wrapper_to_split(wrapper: MultiHeadAttentionWrapper, split: MultiHeadAttention) -> None:
    """Copy style A's parameters into style B, in place, so that both modules give the same output.

    The heads' projections are stacked in head order, because `split_heads` splits the width in that
    order. If only the split module has biases, they become zeros.

    Raises:
        ValueError: the sizes or the numbers of heads differ, or the split module lacks a bias that
            the wrapper has.
    """
    if len(wrapper.heads) != split.num_heads:
        raise ValueError(f"the wrapper has {len(wrapper.heads)} heads, the split {split.num_heads}")
    copies = [
        (split.out_proj.weight, wrapper.out_proj.weight, "out_proj.weight"),
        (split.out_proj.bias, wrapper.out_proj.bias, "out_proj.bias"),
    ]
    for name in ("query", "key", "value"):
        target = getattr(split, name)
        sources = [getattr(head, name) for head in wrapper.heads]
        weight = torch.cat([source.weight for source in sources])  # H of (D, d_in) -> (C, d_in)
        copies.append((target.weight, weight, f"{name}.weight"))
        biases = [source.bias for source in sources if source.bias is not None]
        if target.bias is not None:
            bias = torch.cat(biases) if biases else torch.zeros_like(target.bias)  # (C,)
            copies.append((target.bias, bias, f"{name}.bias"))
        elif biases:
            raise ValueError(f"the wrapper's {name} has a bias, but the split module's has none")
    copy_all(copies)


def count_parameters(module: nn.Module) -> int:
    """Count a module's trainable parameters, each shared `Parameter` once.

    >>> count_parameters(MultiHeadAttention(768, 768, context_length=8, num_heads=12))
    2360064
    """
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


# Lesson 11: queries from one sequence, keys and values from another -----------------------------


class CrossAttention(nn.Module):
    """Let each token of one sequence attend to all tokens of another, the context.

    Vaswani et al. 2017, section 3.2.3. There is no causal mask, because the whole context is known.
    With `context=x`, the tokens attend to each other, as in an encoder.

    Args:
        d_model: width C of the tokens of both sequences; a `ValueError` is raised if `num_heads`
            doesn't divide it.
        num_heads: the number of heads, H; each has width D = d_model / H.
        dropout: probability with which an attention weight is set to 0 in training.

    Shapes: `forward(x, context, context_pad_mask=None)` takes `(B, T, C)`, `(B, S, C)` and a bool
    `(B, S)` that is `True` at padding, and returns `(B, T, C)`.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_divisible(d_model, num_heads)
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, context: Tensor, context_pad_mask: Tensor | None = None) -> Tensor:
        query = split_heads(self.query(x), self.num_heads)  # (B, T, C) -> (B, H, T, D)
        key = split_heads(self.key(context), self.num_heads)  # (B, S, C) -> (B, H, S, D)
        value = split_heads(self.value(context), self.num_heads)  # (B, S, C) -> (B, H, S, D)

        scores = attention_scores(query, key)  # (B, H, T, D) @ (B, H, D, S) -> (B, H, T, S)
        if context_pad_mask is None:
            weights = torch.softmax(scores, dim=-1)  # (B, H, T, S)
        else:
            check_pad_mask(context_pad_mask, context, "context_pad_mask", "(B, S)")
            hidden = context_pad_mask[:, None, None, :]  # (B, S) -> (B, 1, 1, S)
            weights = safe_masked_softmax(scores, hidden)  # (B, H, T, S)
        weights = self.dropout(weights)
        context = weights @ value  # (B, H, T, S) @ (B, H, S, D) -> (B, H, T, D)
        return self.out_proj(merge_heads(context))  # (B, H, T, D) -> (B, T, C)


# Lesson 13: the same attention with PyTorch's built-ins, and a cache -----------------------------


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None
) -> Tensor:
    """Compute scores, mask, softmax and weighted sum with `F.scaled_dot_product_attention`.

    In that built-in, `True` means visible; here, as everywhere in the course, `True` means hidden.
    A query whose keys are all hidden gives zeros.

    Args:
        query: floating-point queries `(B, H, T, D)`.
        key: keys `(B, H, S, D)`.
        value: values `(B, H, S, D)`.
        hidden: a bool mask, broadcastable to `(B, H, T, S)`; `True` hides. None hides nothing.

    Returns:
        Outputs `(B, H, T, D)`.

    Raises:
        ValueError: `hidden` is not bool; the built-in would add it to the scores.
    """
    if hidden is None:
        return F.scaled_dot_product_attention(query, key, value)
    if hidden.dtype != torch.bool:
        raise ValueError(f"hidden must be of dtype bool, got {hidden.dtype}")
    seen = torch.atleast_2d(~hidden)  # the built-in needs at least two dimensions, (T, S)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)


def one_product(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """Apply several linear layers to the same tokens with one matrix product.

    Args:
        x: tokens `(…, d_in)`.
        layers: layers from `d_in` to the same width, all with a bias or all without.

    Returns:
        Each layer's output, `(…, d_out)`.
    """
    weight = torch.cat([layer.weight for layer in layers])  # n of (d_out, d_in)
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return F.linear(x, weight, torch.cat(biases) if biases else None).chunk(len(layers), dim=-1)


class SDPAMultiHeadAttention(MultiHeadAttention):
    """Style B with `F.scaled_dot_product_attention`; the constructor and parameters are the same.

    If PyTorch uses a fused kernel, the `(B, H, T, T)` scores are never stored as a whole (Dao et
    al. 2022), and without a padding mask, most scores of future keys are not even computed.
    """

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        T = x.shape[1]
        check_length(T, self.context_length)
        projected = one_product(x, self.query, self.key, self.value)  # three of (B, T, d_out)
        query, key, value = (split_heads(part, self.num_heads) for part in projected)

        seen = None
        if pad_mask is not None:
            check_pad_mask(pad_mask, x)
            seen = ~(self.hidden[:T, :T] | pad_mask[:, None, None, :])  # (B, 1, T, T)
        context = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=seen,
            # The built-in always applies the dropout rate it is given, so it gets 0 in evaluation
            # mode.
            dropout_p=self.dropout.p if self.dropout.training else 0.0,
            is_causal=seen is None,
        )  # (B, H, T, D)
        return self.out_proj(merge_heads(context))  # (B, H, T, D) -> (B, T, d_out)


class TorchMultiHeadAttention(nn.Module):
    """`nn.MultiheadAttention` with our interface: batch first, causal, one tensor in and out.

    The built-in stores query, key and value in one matrix, `attention.in_proj_weight`, `(3 C, C)`.
    Its `bias=False` would also remove the bias of `out_proj`; `qkv_bias=False` keeps that bias.

    Args:
        d_in: width C of the tokens; a `ValueError` is raised if `d_out` differs from it.
        d_out: width of the output; a `ValueError` is raised if `num_heads` doesn't divide it.
        context_length: the maximum number of tokens for `forward`; more tokens raise `ValueError`.
        num_heads: the number of heads, H; each has width D = C / H.
        dropout: probability with which an attention weight is set to 0 in training.
        qkv_bias: whether queries, keys and values have a bias.

    Shapes: `forward(x, pad_mask=None)` takes `(B, T, C)` and a bool `(B, T)` that is `True` at
    padding, and returns `(B, T, C)`.
    """

    hidden: Tensor

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        num_heads: int,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        check_divisible(d_out, num_heads)
        if d_in != d_out:
            raise ValueError(
                f"nn.MultiheadAttention keeps the width: d_in is {d_in}, but d_out is {d_out}"
            )
        self.context_length = context_length
        self.attention = nn.MultiheadAttention(d_out, num_heads, dropout, batch_first=True)
        if not qkv_bias:
            self.attention.register_parameter("in_proj_bias", None)
        self.register_buffer("hidden", causal_mask(context_length), persistent=False)

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        T = x.shape[1]
        check_length(T, self.context_length)
        if pad_mask is not None:
            check_pad_mask(pad_mask, x)
        out, _ = self.attention(
            x,
            x,
            x,
            key_padding_mask=pad_mask,
            # With need_weights=True, the built-in would store the scores and give NaN in fully
            # hidden rows.
            need_weights=False,
            attn_mask=self.hidden[:T, :T],
            is_causal=True,  # only a hint that describes attn_mask, which must still be passed
        )  # (B, T, C)
        if pad_mask is not None:
            # The built-in still gives NaN in fully hidden rows when no gradients are recorded.
            empty = (~pad_mask).cumsum(dim=1) == 0  # (B, T): no real token so far
            nothing = self.attention.out_proj.bias.to(out.dtype)  # (C,)
            out = torch.where(empty[:, :, None], nothing, out)
        return out


_KINDS: dict[str, Callable[..., nn.Module]] = {
    "wrapper": lambda d_in, d_out, T, H, *rest: MultiHeadAttentionWrapper(
        d_in, d_out // H, T, H, *rest
    ),
    "split": MultiHeadAttention,
    "sdpa": SDPAMultiHeadAttention,
    "torch": TorchMultiHeadAttention,
}


def make_mha(
    kind: str,
    *,
    d_in: int,
    d_out: int,
    num_heads: int,
    context_length: int,
    dropout: float = 0.0,
    qkv_bias: bool = False,
) -> nn.Module:
    """Build causal multi-head attention in one of four ways, with the same results.

    Args:
        kind: `"wrapper"` (lesson 06), `"split"` (lesson 07), `"sdpa"` (like `"split"`, with
            `F.scaled_dot_product_attention`) or `"torch"` (`nn.MultiheadAttention`, which needs
            `d_out` equal to `d_in`).
        d_in, d_out, num_heads, context_length, dropout, qkv_bias: see `MultiHeadAttention`.

    Returns:
        A module that turns `(B, T, d_in)` and a padding mask, `(B, T)` bool or None, into
        `(B, T, d_out)`.

    Raises:
        ValueError: `kind` is not one of the allowed words, or `d_out` is not divisible by
            `num_heads`.
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, got {kind!r}")
    check_divisible(d_out, num_heads)
    return _KINDS[kind](d_in, d_out, context_length, num_heads, dropout, qkv_bias)


def cached_attention_step(
    query: Tensor, key: Tensor, value: Tensor, cache: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Let the newest token attend to itself and all earlier tokens, using a key/value cache.

    The result is the last row of causal attention over all S tokens. No mask is needed, because the
    cache contains only the past. The given cache is left unchanged.

    Args:
        query: the newest token's query, `(B, H, 1, D)`.
        key: its key, `(B, H, 1, D)`.
        value: its value, `(B, H, 1, D)`.
        cache: keys and values of the earlier tokens, each `(B, H, S - 1, D)`; None if there are no
            earlier tokens.

    Returns:
        The output, `(B, H, 1, D)`, and the cache for the next step, a pair of `(B, H, S, D)`.

    Raises:
        ValueError: the number of new tokens is not 1.
    """
    if not query.shape[-2] == key.shape[-2] == value.shape[-2] == 1:
        raise ValueError(
            f"exactly one new token is needed, (B, H, 1, D): query is {tuple(query.shape)}, "
            f"key {tuple(key.shape)}, value {tuple(value.shape)}"
        )
    if cache is not None:
        key = torch.cat([cache[0], key], dim=-2)  # (B, H, S - 1, D) and (B, H, 1, D)
        value = torch.cat([cache[1], value], dim=-2)
    return sdpa_attention(query, key, value), (key, value)  # (B, H, 1, D), (B, H, S, D) each
