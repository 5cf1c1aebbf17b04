"""An encoder–decoder that translates: the finished parts of lesson 12, in lesson order.

Letters in shapes: `B` batch, `S` source length, `T` target length, `C` model width (`d_model`), `H`
heads, `L` layers, `V` vocabulary of the target. A translator is any module that is called as
`model(source, decoder_input, source_pad_mask=None)` and returns logits `(B, T, V)`. The ids are
`(B, S)` and `(B, T)`; the mask is a bool `(B, S)`, `True` at padding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import attention_scores, padding_mask, safe_masked_softmax, split_heads
from .language_model import evaluating
from .transformer import DecoderBlock, EncoderBlock, TokenAndPosition

# The model --------------------------------------------------------------------------------------


class Translator(nn.Module):
    """The Transformer of Vaswani et al. 2017, with an encoder and a decoder.

    The paper also scales its embeddings, uses fixed positions, and shares the embeddings with the
    output layer.

    Args:
        source_vocab_size: the vocabulary size of the source language.
        target_vocab_size: the vocabulary size V of the target language.
        d_model: width C of a token; a `ValueError` is raised if `num_heads` doesn't divide it.
        num_heads: the number of heads, H.
        d_ff: width of the feed-forward networks' hidden layers.
        num_layers: the number of blocks in the encoder, and also in the decoder, L.
        context_length: the maximum number of tokens on either side; more tokens raise `ValueError`.
        dropout: the dropout probability in each block and for the embeddings (section 5.4).

    Shapes: `forward(source, decoder_input, source_pad_mask=None)` takes `(B, S)` and `(B, T)`
    int64 or int32 and a bool `(B, S)` that is `True` at padding, and returns `(B, T, V)` logits.
    """

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        context_length: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed_source = TokenAndPosition(source_vocab_size, context_length, d_model)
        self.embed_target = TokenAndPosition(target_vocab_size, context_length, d_model)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(
            EncoderBlock(d_model, num_heads, d_ff, dropout) for _ in range(num_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderBlock(d_model, num_heads, d_ff, context_length, dropout)
            for _ in range(num_layers)
        )
        self.head = nn.Linear(d_model, target_vocab_size, bias=False)

    def encode(self, source: Tensor, source_pad_mask: Tensor | None = None) -> Tensor:
        """Encode a text: `(B, S)` ids to the context, `(B, S, C)`."""
        x = self.dropout(self.embed_source(source))  # (B, S) -> (B, S, C)
        for block in self.encoder:
            x = block(x, source_pad_mask)  # (B, S, C) -> (B, S, C)
        return x

    def decode(
        self, decoder_input: Tensor, context: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        """Predict the next token at each position: `(B, T)` ids and the context to `(B, T, V)`."""
        x = self.dropout(self.embed_target(decoder_input))  # (B, T) -> (B, T, C)
        for block in self.decoder:
            x = block(x, context, context_pad_mask=source_pad_mask)  # (B, T, C) -> (B, T, C)
        return self.head(x)  # (B, T, C) -> (B, T, V)

    def forward(
        self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor | None = None
    ) -> Tensor:
        return self.decode(decoder_input, self.encode(source, source_pad_mask), source_pad_mask)


# Training ---------------------------------------------------------------------------------------


def pad(texts: Sequence[Tensor], pad_id: int) -> tuple[Tensor, Tensor]:
    """Combine texts of different lengths into one batch.

    Args:
        texts: B tensors of ids `(T,)`.
        pad_id: the id used to pad shorter texts on the right.

    Returns:
        Ids `(B, T)` and a bool mask `(B, T)` that is `True` at the padding.

    Raises:
        ValueError: there is no text, or a text is empty.

    >>> pad([torch.tensor([7, 8]), torch.tensor([9])], pad_id=0)[0].tolist()
    [[7, 8], [9, 0]]
    """
    lengths = [len(text) for text in texts]
    if not lengths or min(lengths) == 0:
        raise ValueError(f"each text must have at least one token, got lengths {lengths}")
    ids = nn.utils.rnn.pad_sequence(list(texts), batch_first=True, padding_value=pad_id)
    return ids, padding_mask(lengths, max(lengths)).to(ids.device)


def teacher_forcing(targets: Tensor, bos_id: int) -> Tensor:
    """The decoder's input in training: the right words so far, shifted by one position.

    Args:
        targets: the ids `(B, T)` of the words to predict; they are left unchanged.
        bos_id: the id of the first input, after which the first word is predicted.

    Returns:
        Ids `(B, T)`: `bos_id` first, then the targets except the last column.

    >>> teacher_forcing(torch.tensor([[5, 7, 2, 0]]), bos_id=1).tolist()
    [[1, 5, 7, 2]]
    """
    begin = targets.new_full((len(targets), 1), bos_id)  # (B, 1)
    return torch.cat([begin, targets[:, :-1]], dim=1)  # (B, 1) and (B, T - 1) -> (B, T)


def translation_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The mean of -log(probability of the right word), over the words that aren't padding.

    Args:
        logits: `(B, T, V)`; the logits at position t predict target t, because the inputs are
            already shifted.
        targets: the ids `(B, T)` of the right words.
        pad_id: the id of targets that don't count.
    """
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad_id)


def train_translator(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]],
    pad_id: int,
    learning_rate: float,
    warm_up: int = 0,
) -> list[float]:
    """Take one step of AdamW on each batch, with a learning rate that falls linearly.

    Args:
        model: a translator.
        batches: sources `(B, S)`, their masks `(B, S)`, the decoder's inputs `(B, T)`, and targets
            `(B, T)` with eos.
        pad_id: the id of targets that don't count.
        learning_rate: the maximum learning rate.
        warm_up: the number of steps in which the learning rate rises to this maximum, as in Vaswani
            et al. 2017, section 5.3.

    Returns:
        The loss before each step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
    steps = len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / max(1, warm_up), (steps - step) / max(1, steps - warm_up)),
    )
    losses = []
    model.train()
    for source, source_pad_mask, decoder_input, targets in batches:
        logits = model(source, decoder_input, source_pad_mask)
        loss = translation_loss(logits, targets, pad_id)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


# Decoding ---------------------------------------------------------------------------------------


def greedy_translate(
    model: nn.Module,
    source: Tensor,
    bos_id: int,
    eos_id: int,
    max_length: int,
    source_pad_mask: Tensor | None = None,
) -> Tensor:
    """Repeatedly append the most likely next word, until each text has ended.

    Args:
        model: a translator; its mode is restored afterwards.
        source: source ids `(B, S)`.
        bos_id: the id of the decoder's first input.
        eos_id: the id that ends a text.
        max_length: the maximum number of words in a text; below 1, a `ValueError` is raised.
        source_pad_mask: a bool mask `(B, S)`, `True` at padding.

    Returns:
        Ids `(B, L)` without bos; L is the length of the longest text including its eos, and shorter
        texts are padded with eos.
    """
    _check_at_least_one("max_length", max_length)
    written = source.new_full((len(source), 1), bos_id)  # (B, 1)
    ended = torch.zeros_like(written[:, 0], dtype=torch.bool)  # (B,)
    with evaluating(model), torch.no_grad():  # a decorator would hide the author of this code
        for _ in range(max_length):
            logits = model(source, written, source_pad_mask)[:, -1]  # (B, T, V) -> (B, V)
            word = logits.argmax(dim=-1).masked_fill(ended, eos_id)  # (B, V) -> (B,)
            written = torch.cat([written, word[:, None]], dim=1)  # (B, T) -> (B, T + 1)
            ended = ended | (word == eos_id)
            if ended.all():
                break
    return written[:, 1:]


class Hypothesis(NamedTuple):
    """A text from beam search with its summed log-probability."""

    ids: list[int]
    log_probability: float

    @property
    def score(self) -> float:
        """The mean log-probability per word, including eos, so that long texts aren't penalised."""
        return self.log_probability / len(self.ids)


def beam_search(
    model: nn.Module, source: Tensor, bos_id: int, eos_id: int, max_length: int, beam_width: int
) -> list[Hypothesis]:
    """Extend the `beam_width` most likely texts in parallel.

    Each step extends every text with every word and keeps the most likely texts. Texts that have
    ended are set aside; the others continue.

    Args:
        model: a translator; its mode is restored afterwards.
        source: the ids `(1, S)` of one text.
        bos_id: the id of the decoder's first input.
        eos_id: the id that ends a text.
        max_length: the maximum number of words in a text.
        beam_width: the number of texts to keep.

    Returns:
        All texts that have ended or are `max_length` long, with the best `score` first.

    Raises:
        ValueError: there is more than one source, or `max_length` or `beam_width` is less than 1.
    """
    _check_at_least_one("max_length", max_length)
    _check_at_least_one("beam_width", beam_width)
    if len(source) != 1:
        raise ValueError(f"beam search translates one text, (1, S), got {tuple(source.shape)}")
    done: list[Hypothesis] = []
    going_on = [Hypothesis([], 0.0)]
    with evaluating(model), torch.no_grad():
        for _ in range(max_length):
            written = source.new_tensor([[bos_id, *text.ids] for text in going_on])  # (K, T)
            logits = model(source.expand(len(written), -1), written)[:, -1]  # (K, V)
            log_probabilities = logits.double().log_softmax(dim=-1)  # (K, V)
            so_far = log_probabilities.new_tensor([text.log_probability for text in going_on])
            sums = so_far[:, None] + log_probabilities  # (K, 1) + (K, V) -> (K, V)
            V = sums.shape[1]
            best = sums.flatten().topk(min(beam_width, sums.numel()))  # (K V,) -> (beam_width,)
            extended = [
                Hypothesis([*going_on[index // V].ids, index % V], total)
                for total, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
            done += [text for text in extended if text.ids[-1] == eos_id]
            going_on = [text for text in extended if text.ids[-1] != eos_id]
            if not going_on:
                break
    return sorted(done + going_on, key=lambda text: text.score, reverse=True)


def beam_translate(
    model: nn.Module, source: Tensor, bos_id: int, eos_id: int, max_length: int, beam_width: int
) -> Tensor:
    """Return the best text of `beam_search` for the same arguments: `(1, L)` ids without bos."""
    best = beam_search(model, source, bos_id, eos_id, max_length, beam_width)[0]
    return source.new_tensor([best.ids])


def _check_at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


# Looking inside ---------------------------------------------------------------------------------


@torch.no_grad()
def alignment(
    model: Translator,
    source: Tensor,
    decoder_input: Tensor,
    source_pad_mask: Tensor | None = None,
) -> Tensor:
    """The attention of each target word to each source word, in evaluation mode.

    Args:
        model: a translator whose `decoder` is a list of `DecoderBlock`s.
        source: source ids `(B, S)`.
        decoder_input: ids `(B, T)`; row t of the weights belongs to the word predicted after id t.
        source_pad_mask: a bool mask `(B, S)`, `True` at padding.

    Returns:
        The cross-attention weights, `(B, L, H, T, S)`.
    """
    given: list[tuple[Any, ...]] = []
    crossings: list[Any] = [block.cross_attention for block in model.decoder]
    hooks = [c.register_forward_pre_hook(lambda _, args: given.append(args)) for c in crossings]
    with evaluating(model):
        model(source, decoder_input, source_pad_mask)
    for hook in hooks:
        hook.remove()
    nothing = torch.zeros_like(source, dtype=torch.bool)  # (B, S)
    hidden, weights = nothing if source_pad_mask is None else source_pad_mask, []
    for cross, (x, context, *_) in zip(crossings, given, strict=True):
        query = split_heads(cross.query(x), cross.num_heads)  # (B, H, T, D)
        key = split_heads(cross.key(context), cross.num_heads)  # (B, H, S, D)
        scores = attention_scores(query, key)  # (B, H, T, S)
        weights.append(safe_masked_softmax(scores, hidden[:, None, None, :]))
    return torch.stack(weights, dim=1)  # L of (B, H, T, S) -> (B, L, H, T, S)
