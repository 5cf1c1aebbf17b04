"""A small GPT with training and sampling: the finished parts of lesson 10, and lesson 13's cache.

Letters in shapes: `B` batch, `T` tokens, `C` model width (`d_model`), `H` heads, `V` vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import (
    attention_scores,
    cached_attention_step,
    causal_mask,
    masked_softmax,
    merge_heads,
    split_heads,
)
from .transformer import (
    LayerNorm,
    TokenAndPosition,
    TransformerBlock,
    apply_rope,
    can_be_read,
    check_ids,
)

# Windows, model and loss ------------------------------------------------------------------------


def sliding_windows(ids: Tensor, length: int, stride: int) -> tuple[Tensor, Tensor]:
    """Cut a text into windows; the targets of a window are the tokens one position later.

    Args:
        ids: the ids of the text, `(N,)`.
        length: the length T of a window.
        stride: the distance from the start of a window to the start of the next.

    Returns:
        Inputs and targets, each `(B, T)`, as views. An incomplete last window is left out.

    Raises:
        ValueError: the text is too short for one window and the token after it; `ids` is not 1-D;
            `length` or `stride` is less than 1.

    >>> inputs, targets = sliding_windows(torch.arange(6), length=3, stride=2)
    >>> inputs.tolist(), targets.tolist()
    ([[0, 1, 2], [2, 3, 4]], [[1, 2, 3], [3, 4, 5]])
    """
    if ids.ndim != 1:
        raise ValueError(f"ids must be one text, (N,), got {tuple(ids.shape)}")
    if length < 1 or stride < 1:
        raise ValueError(f"length and stride must be at least 1, got {length} and {stride}")
    if len(ids) < length + 1:
        raise ValueError(
            f"{len(ids)} ids are too few: a window of {length} and the token after it are "
            f"{length + 1}"
        )
    windows = ids.unfold(0, length + 1, stride)  # (N,) -> (B, T + 1)
    return windows[:, :-1], windows[:, 1:]  # (B, T) each


class TinyLM(nn.Module):
    """A small GPT-2, which gives the logits of the next word at each token.

    See Radford et al. 2019, section 2.3. GPT-2 also has biases in `query`, `key` and `value`, uses
    `embed.token` as its output layer, and starts from smaller parameters.

    Args:
        vocab_size: the vocabulary size V.
        d_model: width C of a token; a `ValueError` is raised if `num_heads` doesn't divide it.
        num_heads: the number of heads, H.
        context_length: the maximum number of tokens for `forward`; more tokens raise `ValueError`.
        num_layers: the number of blocks.
        dropout: the dropout probability in each block.

    Shapes: `forward(ids)` takes `(B, T)` int64 or int32 and returns `(B, T, V)` logits. Ids of
    another dtype or outside the vocabulary, and a batch without tokens, raise `ValueError`.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        context_length: int,
        num_layers: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.embed = TokenAndPosition(vocab_size, context_length, d_model)
        self.blocks = nn.ModuleList(
            TransformerBlock(d_model, num_heads, context_length, dropout) for _ in range(num_layers)
        )
        self.norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)  # (B, T) -> (B, T, C)
        for block in self.blocks:
            x = block(x)  # (B, T, C) -> (B, T, C)
        return self.head(self.norm(x))  # (B, T, C) -> (B, T, V)


def next_token_loss(logits: Tensor, ids: Tensor, pad_id: int | None = None) -> Tensor:
    """The mean of -log(probability of the actual next token), in nats.

    Args:
        logits: `(B, T, V)`. The logits at position t predict the token at t + 1; those at the last
            position have no target and may be missing.
        ids: the tokens `(B, T)` from which the logits were computed.
        pad_id: the id of targets that don't count; it may be outside the vocabulary.

    Returns:
        A 0-d tensor: the mean over all tokens of all rows.

    Raises:
        ValueError: there is no token to predict (T = 1, or only padding), the shapes don't match,
            or an id is outside the vocabulary. On a GPU, where reading ids would wait for all its
            work, only padding gives NaN, and such an id stops the program.
    """
    check_ids(ids if pad_id is None else ids.masked_fill(ids == pad_id, 0), logits.shape[-1])
    B, T = ids.shape
    if logits.ndim != 3 or logits.shape[:2] not in ((B, T), (B, T - 1)):
        raise ValueError(
            f"logits {tuple(logits.shape)} don't match ids {tuple(ids.shape)}: "
            f"they must be (B, T, V) = ({B}, {T}, V)"
        )
    logits = logits[:, : T - 1].flatten(0, 1)  # (B, T - 1, V) -> (N, V)
    targets = ids[:, 1:].flatten().long()  # (B, T - 1) -> (N,)
    ignored = -100 if pad_id is None else pad_id  # -100 is PyTorch's default, and never an id
    if T == 1 or (can_be_read(ids) and bool((targets == ignored).all())):
        raise ValueError(f"ids {tuple(ids.shape)} have no token to predict: T = 1 or only padding")
    return F.cross_entropy(logits, targets, ignore_index=ignored)  # (N, V) and (N,) -> ()


# Training ---------------------------------------------------------------------------------------


def training_step(
    model: nn.Module, ids: Tensor, optimizer: torch.optim.Optimizer, max_norm: float = 1.0
) -> float:
    """Take one training step on a batch; the model stays in training mode.

    Args:
        model: a module from ids `(B, T)` to logits `(B, T, V)`.
        ids: token ids `(B, T)`; the last column is only a target, not an input.
        optimizer: an optimizer for the model's parameters.
        max_norm: the norm to which all gradients together are clipped (Pascanu et al. 2013),
            so that a single odd batch can't change the parameters too much.

    Returns:
        The loss before the step.
    """
    model.train()
    loss = next_token_loss(model(ids[:, :-1]), ids)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def train_lm(model: nn.Module, batches: Sequence[Tensor], learning_rate: float) -> list[float]:
    """Take one step of AdamW on each batch, with a learning rate that falls to 0.

    See Loshchilov and Hutter 2019. At step i of n, counted from 0, the rate is `learning_rate
    * (1 - i / n)`: long steps approach a minimum, and short steps settle there.

    Args:
        model: a module from ids `(B, T)` to logits `(B, T, V)`.
        batches: n batches of ids `(B, T)`; T is at most one more than the model's context length.
        learning_rate: the rate of the first step.

    Returns:
        The loss before each step.
    """
    on_gpu = next(model.parameters()).is_cuda
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=on_gpu)
    losses = []
    for i, ids in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * (1 - i / len(batches))
        losses.append(training_step(model, ids, optimizer))
    return losses


@torch.no_grad()
def held_out_loss(model: nn.Module, ids: Tensor, batch_size: int = 256) -> float:
    """The mean of `next_token_loss` over windows, in evaluation mode.

    The exponential of this loss is the perplexity: the number of equally likely words that would
    leave the model equally unsure.

    Args:
        ids: N windows `(N, T)`; as in `training_step`, the last column is only a target.
        batch_size: the number of windows at a time.
    """
    with evaluating(model):
        losses = [
            next_token_loss(model(batch[:, :-1]), batch).item() * len(batch)
            for batch in ids.split(batch_size)
        ]
    return sum(losses) / len(ids)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Use evaluation mode inside the context, and restore the earlier mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


# Sampling ---------------------------------------------------------------------------------------


def next_token_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Turn logits into the probabilities for sampling a token.

    Args:
        logits: logits `(…, V)`.
        temperature: the divisor of the logits; at 0, the largest logit gets probability 1.
        top_k: the number of most likely tokens to keep (Fan et al. 2018), at least 1.
        top_p: the probability that the kept tokens must reach together, the most likely first
            (Holtzman et al. 2020); above 0 and at most 1.

    Returns:
        Probabilities `(…, V)`, which sum to 1.

    Raises:
        ValueError: `temperature`, `top_k` or `top_p` is outside its range.

    >>> logits = torch.tensor([0.5, 0.3, 0.2]).log()
    >>> next_token_probabilities(logits, top_p=0.6).tolist()
    [0.625, 0.375, 0.0]
    """
    if not temperature >= 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {top_p}")

    V = logits.shape[-1]
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), V).to(logits)  # (…, V) -> (…) -> (…, V)
    # Subtracting the maximum doesn't change the softmax, but avoids overflow at low temperatures.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    probabilities, order = torch.softmax(logits, dim=-1).sort(descending=True, stable=True)
    if top_k is not None:
        probabilities[..., top_k:] = 0.0
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    if top_p is not None:
        before = probabilities.cumsum(dim=-1) - probabilities  # the sum over all more likely tokens
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
        probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter(-1, order, probabilities)  # back in id order


def generate(model: TinyLM, ids: Tensor, max_new_tokens: int) -> Tensor:
    """Repeatedly append the most likely next token.

    Args:
        model: a module from ids to logits, which is called on the last `model.context_length`
            tokens.
        ids: the beginnings of the texts, `(B, T)`.
        max_new_tokens: the number of tokens to append.

    Returns:
        Ids `(B, T + max_new_tokens)`. The model's mode is restored; no gradients are recorded.
    """
    return _continue(model, ids, max_new_tokens, lambda logits: logits.argmax(-1, keepdim=True))


def sample(
    model: TinyLM,
    ids: Tensor,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Like `generate`, but sample each token by its probability (see `next_token_probabilities`).

    Args:
        generator: a random generator, which makes the samples reproducible.
    """

    def draw(logits: Tensor) -> Tensor:
        probabilities = next_token_probabilities(logits, temperature, top_k, top_p)
        return torch.multinomial(probabilities, num_samples=1, generator=generator)

    return _continue(model, ids, max_new_tokens, draw)


@torch.no_grad()
def _continue(
    model: TinyLM, ids: Tensor, max_new_tokens: int, choose: Callable[[Tensor], Tensor]
) -> Tensor:
    """Append tokens; `choose` takes the last logits, `(B, V)`, and returns ids, `(B, 1)`."""
    with evaluating(model):
        for _ in range(max_new_tokens):
            seen = ids[:, -model.context_length :]  # (B, T) -> (B, at most context_length)
            logits = model(seen)[:, -1]  # (B, T, V) -> (B, V)
            ids = torch.cat([ids, choose(logits)], dim=1)  # (B, T) and (B, 1) -> (B, T + 1)
    return ids


# Looking inside ---------------------------------------------------------------------------------


@torch.no_grad()
def head_scores(model: TinyLM, ids: Tensor) -> Tensor:
    """The attention scores of every head, before mask and softmax, in evaluation mode.

    Args:
        ids: token ids `(B, T)`.

    Returns:
        Scores `(B, L, H, T, T)`, with L blocks.
    """
    scores = []
    with evaluating(model):
        x = model.embed(ids)  # (B, T) -> (B, T, C)
        for block in model.blocks:
            assert isinstance(block, TransformerBlock)
            normed, heads = block.norm1(x), block.attention.num_heads
            query = split_heads(block.attention.query(normed), heads)  # (B, H, T, D)
            key = split_heads(block.attention.key(normed), heads)  # (B, H, T, D)
            scores.append(attention_scores(query, key))  # (B, H, T, T)
            x = block(x)
    return torch.stack(scores, dim=1)  # L of (B, H, T, T) -> (B, L, H, T, T)


def attention_weights(model: TinyLM, ids: Tensor) -> Tensor:
    """The attention weights of every head: `(B, T)` to `(B, L, H, T, T)`."""
    return masked_softmax(head_scores(model, ids), causal_mask(ids.shape[1], ids.device))


@contextmanager
def without_head(model: nn.Module, layer: int, head: int) -> Iterator[None]:
    """Ablate one head inside the context: the columns of `out_proj` that read it become zeros."""
    attention: Any = model.get_submodule(f"blocks.{layer}.attention")
    D = attention.out_proj.in_features // attention.num_heads
    columns = attention.out_proj.weight.data[:, head * D : (head + 1) * D]
    kept = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(kept)


# Lesson 13: a cache of keys and values ----------------------------------------------------------

Cache = tuple[Tensor, Tensor]  # keys and values of the tokens so far, (B, H, T, D) each


@torch.no_grad()
def generate_cached(model: TinyLM, ids: Tensor, max_new_tokens: int) -> Tensor:
    """Generate as `generate` does, but cache keys and values, so that each token is processed once.

    Beyond `model.context_length`, each step drops the oldest token, and all other tokens change
    position. The cache is then wrong, so the model processes the whole context in each step.
    """
    check_ids(ids, model.embed.token.num_embeddings)
    caches: list[Cache] = []  # one per block
    known = 0  # the number of tokens in the caches
    with evaluating(model):
        for _ in range(max_new_tokens):
            T = ids.shape[1]
            if T <= model.context_length:
                logits, caches = next_logits(model, ids[:, known:], caches)  # (B, V)
                known = T
            else:
                logits = model(ids[:, -model.context_length :])[:, -1]  # (B, T, V) -> (B, V)
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], dim=1)  # (B, T + 1)
    return ids


def next_logits(
    model: TinyLM, ids: Tensor, caches: list[Cache], rotary: bool = False
) -> tuple[Tensor, list[Cache]]:
    """Run new tokens through the model; the caches contain the keys and values of earlier tokens.

    Args:
        ids: new tokens `(B, T)`; T is 1 except on the first call, when the caches are empty.
        caches: for each block, a pair `(keys, values)` of `(B, H, S, D)`; empty at the start.
        rotary: whether queries and keys are rotated; otherwise a learned position is added.

    Returns:
        The last token's logits, `(B, V)`, and the caches extended by the new tokens.
    """
    known = caches[0][0].shape[2] if caches else 0
    x = model.embed.token(ids)  # (B, T, C)
    if not rotary:
        x = x + model.embed.position(torch.arange(known, known + x.shape[1], device=ids.device))
    grown = []
    for i, block in enumerate(model.blocks):
        assert isinstance(block, TransformerBlock)
        attention, normed = block.attention, block.norm1(x)
        layers = (attention.query, attention.key, attention.value)
        parts = [split_heads(layer(normed), attention.num_heads) for layer in layers]
        query, key, value = parts  # (B, H, T, D) each
        if rotary:
            query, key = (apply_rope(part, offset=known) for part in (query, key))
        if known == 0:
            context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            cache = (key, value)
        else:
            context, cache = cached_attention_step(query, key, value, caches[i])
        grown.append(cache)
        x = x + attention.out_proj(merge_heads(context))  # (B, T, C)
        x = x + block.feed_forward(block.norm2(x))
    return model.head(model.norm(x[:, -1])), grown  # (B, C) -> (B, V)
