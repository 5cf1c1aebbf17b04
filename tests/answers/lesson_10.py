"""Right and wrong answers for lesson 10."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model as finished
from course_utils import transformer

# ---------------------------------------------------------------- sliding_windows


def enough(ids, length):
    if len(ids) < length + 1:
        raise ValueError(f"{len(ids)} ids for windows of {length}")


def windows_by_index(ids, length, stride):
    enough(ids, length)
    starts = torch.arange(0, len(ids) - length, stride, device=ids.device)
    places = starts[:, None] + torch.arange(length, device=ids.device)
    return ids[places], ids[places + 1]


def windows_by_unfold(ids, length, stride):
    enough(ids, length)
    return ids[:-1].unfold(0, length, stride), ids[1:].unfold(0, length, stride)


def windows_by_while(ids, length, stride):
    enough(ids, length)
    inputs, targets, start = [], [], 0
    while True:
        if start + length >= len(ids):
            break
        inputs.append(ids[start : start + length])
        targets.append(ids[start + 1 : start + length + 1])
        start += stride
    return [torch.stack(inputs), torch.stack(targets)]


def windows_filled(ids, length, stride):
    enough(ids, length)
    count = (len(ids) - length - 1) // stride + 1
    inputs, targets = ids.new_empty(count, length), ids.new_empty(count, length)
    for i in range(count):
        for j in range(length):
            inputs[i, j], targets[i, j] = ids[i * stride + j], ids[i * stride + j + 1]
    return inputs, targets


def windows_by_split(ids, length, stride):
    """All windows first, every stride-th kept."""
    enough(ids, length)
    pieces = torch.stack([ids[i : i + length + 1] for i in range(len(ids) - length)])[::stride]
    inputs, targets = pieces.split([length, 1], dim=1)[0], pieces[:, 1:]
    return inputs, targets


def windows_strided(ids, length, stride):
    enough(ids, length)
    ids = ids.contiguous()
    count = (len(ids) - length - 1) // stride + 1
    return (
        ids.as_strided((count, length), (stride, 1)),
        ids.as_strided((count, length), (stride, 1), ids.storage_offset() + 1),
    )


def _then(change):
    """The right windows, spoilt afterwards."""
    return lambda ids, length, stride: change(*windows_by_index(ids, length, stride))


def windows_silent(ids, length, stride):
    if len(ids) < length + 1:
        raise ValueError
    return windows_by_index(ids, length, stride)


def windows_empty(ids, length, stride):
    """Too short a text gives no windows."""
    if len(ids) < length + 1:
        return ids.new_empty(0, length), ids.new_empty(0, length)
    return windows_by_index(ids, length, stride)


def windows_type_error(ids, length, stride):
    if len(ids) < length + 1:
        raise IndexError(f"{len(ids)} and {length}")
    return windows_by_index(ids, length, stride)


def windows_in_place(ids, length, stride):
    inputs, targets = windows_by_index(ids, length, stride)
    ids.zero_()
    return inputs, targets


def windows_wrap(ids, length, stride):
    """The last target is the first token again, so there is one window more."""
    enough(ids, length)
    long = torch.cat([ids, ids[:1]])
    return windows_by_index(long, length, stride)


def windows_targets_masked(ids, length, stride):
    inputs, targets = windows_by_index(ids, length, stride)
    targets = targets.clone()
    targets[:, :-1] = -100
    return inputs, targets


WINDOWS_WRONG = {
    "the last target wraps round": _then(lambda a, b: (a, torch.cat([a[:, 1:], a[:, :1]], 1))),
    "text wrapped round": windows_wrap,
    "stride and length swapped": lambda ids, length, stride: windows_by_index(ids, stride, length),
    "float": _then(lambda a, b: (a.float(), b.float())),
    "small integers": _then(lambda a, b: (a.int(), b.int())),
    "shifted and shuffled": _then(lambda a, b: (a.flip(0), b.flip(0))),
    "targets shuffled": _then(lambda a, b: (a, b.flip(0))),
    "tokens backwards": _then(lambda a, b: (a.flip(1), b.flip(1))),
    "one window": _then(lambda a, b: (a[:1], b[:1])),
    "a list of pairs": _then(lambda a, b: list(zip(a, b, strict=True))),
    "a dict": _then(lambda a, b: {"inputs": a, "targets": b}),
    "one tensor": _then(lambda a, b: torch.cat([a, b])),
    "three": _then(lambda a, b: (a, b, a)),
    "all but the last target hidden": windows_targets_masked,
    "numpy": _then(lambda a, b: (a.numpy(), b.numpy())),
    "a third dimension": _then(lambda a, b: (a[..., None], b[..., None])),
    "error without numbers": windows_silent,
    "no windows": windows_empty,
    "another error": windows_type_error,
    "empties its input": windows_in_place,
    "overlap given": lambda ids, length, stride: windows_by_index(
        ids, length, max(1, length - stride)
    ),
    "at most 64": _then(lambda a, b: (a[:64], b[:64])),
    "zeros": _then(lambda a, b: (a * 0, b * 0)),
    "swapped, stride ignored": lambda ids, length, stride: windows_by_index(ids, length, 1)[::-1],
    "no shift, one window too few": _then(lambda a, b: (a[:-1], a[:-1]) if len(a) > 1 else (a, a)),
    "of the course": finished.sliding_windows,
}


# ---------------------------------------------------------------- next_token_loss


def loss_by_gather(logits, ids, pad_id=None):
    logs = logits[:, :-1].log_softmax(-1)
    picked = logs.gather(-1, ids[:, 1:, None]).squeeze(-1)
    real = torch.ones_like(picked) if pad_id is None else (ids[:, 1:] != pad_id).to(picked.dtype)
    if real.sum() == 0:
        raise ValueError("nothing to predict")
    return -(picked * real).sum() / real.sum()


def loss_by_logsumexp(logits, ids, pad_id=None):
    targets = ids[:, 1:].reshape(-1)
    rows = logits[:, :-1].reshape(len(targets), logits.shape[-1])
    keep = torch.arange(len(targets), device=ids.device)
    if pad_id is not None:
        keep = keep[targets != pad_id]
    if keep.numel() == 0:
        raise ValueError(f"{tuple(ids.shape)}")
    rows, targets = rows[keep], targets[keep]
    right = rows[torch.arange(len(rows), device=ids.device), targets]
    return (rows.logsumexp(-1) - right).mean()


def loss_by_loop(logits, ids, pad_id=None):
    total, count = 0.0, 0
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1] - 1):
            target = int(ids[b, t + 1])
            if target != pad_id:
                total = total - torch.log_softmax(logits[b, t], -1)[target]
                count += 1
    if not count:
        raise ValueError("no target")
    return total / count


def loss_by_module(logits, ids, pad_id=None):
    if ids.shape[1] < 2 or (pad_id is not None and bool((ids[:, 1:] == pad_id).all())):
        raise ValueError("no target")
    criterion = nn.CrossEntropyLoss(ignore_index=-1 if pad_id is None else pad_id)
    return criterion(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def loss_by_sum(logits, ids, pad_id=None):
    targets = ids[:, 1:].flatten()
    real = targets != (-1 if pad_id is None else pad_id)
    if not bool(real.any()):
        raise ValueError("no target")
    losses = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets, reduction="none")
    return losses[real].sum() / real.sum()


def loss_by_rolling(logits, ids, pad_id=None):
    """Targets rolled; the last place left out by a weight of 0."""
    targets = ids.roll(-1, dims=1)
    real = torch.arange(ids.shape[1], device=ids.device).expand_as(ids) < ids.shape[1] - 1
    if pad_id is not None:
        real = real & (targets != pad_id)
    if not bool(real.any()):
        raise ValueError("no target")
    return F.cross_entropy(logits[real], targets[real])


def _loss_then(change):
    return lambda logits, ids, pad_id=None: change(loss_by_gather(logits, ids, pad_id))


def loss_rolled(logits, ids, pad_id=None):
    """Rolled targets, the last of which is the first token."""
    targets = ids.roll(-1, dims=1)
    real = targets == targets if pad_id is None else targets != pad_id
    if ids.shape[1] < 2 or (pad_id is not None and bool((ids[:, 1:] == pad_id).all())):
        raise ValueError("no target")
    return F.cross_entropy(logits[real], targets[real])


def loss_ignores_inputs_and_targets(logits, ids, pad_id=None):
    real = ids[:, 1:] == ids[:, 1:]
    if pad_id is not None:
        real = (ids[:, 1:] != pad_id) & (ids[:, :-1] != pad_id)
    if not bool(real.any()):
        raise ValueError("no target")
    return F.cross_entropy(logits[:, :-1][real], ids[:, 1:][real])


def loss_pads_when_all(logits, ids, pad_id=None):
    """Padding everywhere is no error but a loss of 0."""
    if pad_id is not None and bool((ids[:, 1:] == pad_id).all()):
        return logits.sum() * 0
    return loss_by_gather(logits, ids, pad_id)


def loss_refuses_padding_rows(logits, ids, pad_id=None):
    if pad_id is not None and bool((ids == pad_id).all(1).any()):
        raise ValueError("a row of padding")
    return loss_by_gather(logits, ids, pad_id)


def loss_shift_logits_only(logits, ids, pad_id=None):
    """Shifts by dropping the first logits and keeps all but the last ids: rows and pads."""
    return loss_by_gather(logits[:, 1:], ids[:, :-1], pad_id)


def loss_clamped(logits, ids, pad_id=None):
    """Probabilities are kept above 1e-9, as some do against log(0)."""
    shares = torch.softmax(logits[:, :-1], -1)
    logs = shares.clamp(min=1e-9).log()
    picked = logs.gather(-1, ids[:, 1:, None])[..., 0]
    real = picked == picked if pad_id is None else ids[:, 1:] != pad_id
    if not bool(real.any()):
        raise ValueError("no target")
    return -picked[real].mean()


def loss_naive(logits, ids, pad_id=None):
    """exp without a shift."""
    exps = logits[:, :-1].exp()
    logs = (exps / exps.sum(-1, keepdim=True)).log()
    picked = logs.gather(-1, ids[:, 1:, None])[..., 0]
    real = picked == picked if pad_id is None else ids[:, 1:] != pad_id
    if not bool(real.any()):
        raise ValueError("no target")
    return -picked[real].mean()


def loss_smoothed(logits, ids, pad_id=None):
    real = ids[:, 1:] == ids[:, 1:] if pad_id is None else ids[:, 1:] != pad_id
    if not bool(real.any()):
        raise ValueError("no target")
    return F.cross_entropy(logits[:, :-1][real], ids[:, 1:][real], label_smoothing=0.1)


def loss_pad_is_weighted(logits, ids, pad_id=None):
    """The class weight of padding is 0, with the mean over all places."""
    targets, V = ids[:, 1:].flatten(), logits.shape[-1]
    weight = torch.ones(V, dtype=logits.dtype)
    if pad_id is not None:
        weight[pad_id] = 0.0
    if ids.shape[1] < 2 or bool((weight[targets] == 0).all()):
        raise ValueError("no target")
    flat = logits[:, :-1].flatten(0, 1)
    return F.cross_entropy(flat, targets, weight=weight, reduction="none").mean()


LOSS_WRONG = {
    "the last target is the first token": loss_rolled,
    "inputs and targets of padding left out": loss_ignores_inputs_and_targets,
    "padding alone gives 0": loss_pads_when_all,
    "refuses texts of padding": loss_refuses_padding_rows,
    "backwards by shifting before": loss_shift_logits_only,
    "clamped": loss_clamped,
    "exponentials unshifted": loss_naive,
    "smoothed": loss_smoothed,
    "padding weighted 0": loss_pad_is_weighted,
    "doubled": _loss_then(lambda loss: 2 * loss),
    "a vector of one": _loss_then(lambda loss: loss[None]),
    "negative": _loss_then(lambda loss: -loss),
    "detached": _loss_then(lambda loss: loss.detach()),
    "float": _loss_then(float),
    "rounded": _loss_then(lambda loss: (loss * 100).round() / 100),
    "float32": _loss_then(lambda loss: loss.float()),
    "constant": _loss_then(lambda loss: loss * 0 + math.log(5)),
    "zero": _loss_then(lambda loss: loss * 0),
    "absolute": _loss_then(lambda loss: loss.abs() + 1e-3),
    "two results": _loss_then(lambda loss: (loss, loss.exp())),
    "no shift, sum": lambda logits, ids, pad_id=None: F.cross_entropy(
        logits.flatten(0, 1), ids.flatten(), reduction="sum"
    ),
    "backwards, padding counted": lambda logits, ids, pad_id=None: F.cross_entropy(
        logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten()
    ),
    "mean of squares": lambda logits, ids, pad_id=None: (
        (torch.softmax(logits[:, :-1], -1) - F.one_hot(ids[:, 1:], logits.shape[-1]))
        .square()
        .mean()
    ),
    "first text only": lambda logits, ids, pad_id=None: loss_by_gather(logits[:1], ids[:1], pad_id),
    "a fixed pad of -100": lambda logits, ids, pad_id=None: loss_by_gather(logits, ids, -100),
    "of the course": finished.next_token_loss,
}


# ---------------------------------------------------------------- TinyLM


class Blocks(nn.Module):
    """A right answer, to be spoilt in one place."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(num_layers):
            self.blocks.append(
                transformer.TransformerBlock(d_model, num_heads, context_length, dropout)
            )
        self.norm = transformer.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for i in range(len(self.blocks)):
            x = self.blocks[i](x)
        x = self.norm(x)
        return self.head(x)


class InSequence(nn.Module):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__()
        self.context_length = context_length
        self.embed = transformer.TokenAndPosition(vocab_size, context_length, d_model)
        block = transformer.TransformerBlock
        self.blocks = nn.Sequential(
            *[block(d_model, num_heads, context_length, dropout) for _ in range(num_layers)]
        )
        self.norm = transformer.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        if ids.size(1) > self.context_length:
            raise ValueError(f"{ids.size(1)} > {self.context_length}")
        return self.head(self.norm(self.blocks(self.embed(ids))))


class ByHand(Blocks):
    """The head as a product, the embedding as two lookups, kept lengths as a property."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        del self.context_length

    @property
    def context_length(self):
        return self.embed.position.num_embeddings

    @context_length.setter
    def context_length(self, value):
        pass

    @context_length.deleter
    def context_length(self):
        pass

    def forward(self, ids):
        T = ids.shape[1]
        if T > self.context_length:
            raise ValueError(f"{T} tokens, {self.context_length} fit")
        x = self.embed.token.weight[ids] + self.embed.position.weight[None, :T]
        for block in self.blocks.children():
            x = block(x)
        return torch.einsum("btc,vc->btv", self.norm(x), self.head.weight)


class OfTheLibrary(finished.TinyLM):
    """Built on the finished one."""


class WithPadMask(Blocks):
    """Takes a mask too, and passes it on."""

    def forward(self, ids, pad_mask=None):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, pad_mask)
        return self.head(self.norm(x))


class Recursive(Blocks):
    def through(self, x, layer):
        return x if layer < 0 else self.blocks[layer](self.through(x, layer - 1))

    def forward(self, ids):
        return self.head(self.norm(self.through(self.embed(ids), len(self.blocks) - 1)))


class CopiedBlocks(Blocks):
    """Blocks are deep copies of the first: each has parameters of its own."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)
        self.blocks = nn.ModuleList(copy.deepcopy(self.blocks[0]) for _ in range(num_layers))


class GPT2Style(Blocks):
    """Drops the embedding too, as GPT-2 does: not what is asked here."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, ids):
        x = self.drop(self.embed(ids))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class PositionsOfTheBatch(Blocks):
    def forward(self, ids):
        x = self.embed.token(ids) + self.embed.position.weight[: ids.shape[0], None]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class PositionsFromOne(Blocks):
    def forward(self, ids):
        T = ids.shape[1]
        places = torch.arange(1, T + 1).clamp(max=self.context_length - 1)
        x = self.embed.token(ids) + self.embed.position(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NormTwice(Blocks):
    def forward(self, ids):
        x = self.norm(self.embed(ids))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NormInTrainingOnly(Blocks):
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x) if self.training else x)


class BlocksTwice(Blocks):
    def forward(self, ids):
        x = self.embed(ids)
        for _ in range(2):
            for block in self.blocks:
                x = block(x)
        return self.head(self.norm(x))


class NoAttention(Blocks):
    """Blocks by hand, their attention forgotten."""

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block.feed_forward(block.norm2(x))
        return self.head(self.norm(x))


class PostNorm(Blocks):
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block.norm1(x + block.attention(x))
            x = block.norm2(x + block.feed_forward(x))
        return self.head(self.norm(x))


class HeadByEmbedding(Blocks):
    """`head` is there, and the embedding does its work."""

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.token.weight.mT


class SkipsToTheEnd(Blocks):
    def forward(self, ids):
        start = x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x + start))


class MeanOfBlocks(Blocks):
    def forward(self, ids):
        x = self.embed(ids)
        x = torch.stack([block(x) for block in self.blocks]).mean(0)
        return self.head(self.norm(x))


class AlwaysTwoLayers(Blocks):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, 2, dropout)


class OneHead(Blocks):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, 1, context_length, num_layers, dropout)


class LengthAsWidth(Blocks):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.context_length = self.head.in_features


class RefusesSilently(Blocks):
    def forward(self, ids):
        if ids.shape[1] > self.context_length:
            raise ValueError("too long")
        return super().forward(ids)


class OneMoreFits(Blocks):
    """The table of positions is one longer than the limit."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length + 1, num_layers, dropout)
        self.context_length = context_length


class TemperatureInside(Blocks):
    def forward(self, ids):
        return super().forward(ids) / 0.9


class ExtraParameter(Blocks):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, ids):
        return super().forward(ids) * self.scale


class FrozenEmbedding(Blocks):
    def forward(self, ids):
        x = self.embed(ids).detach()
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NoGradient(Blocks):
    @torch.no_grad()
    def forward(self, ids):
        return super().forward(ids)


class DropoutOfWeightsOnly(Blocks):
    """The blocks' own dropouts are switched off; only attention drops."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        for block in self.blocks:
            block.dropout.p = block.feed_forward.dropout.p = 0.0


class Flipped(Blocks):
    def forward(self, ids):
        return super().forward(ids.flip(1)).flip(1)


class EvaluatesItself(Blocks):
    def forward(self, ids):
        self.eval()
        return super().forward(ids)


class PlainBuiltNorm(Blocks):
    """A shared norm: the last one is that of the last block."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.norm = self.blocks[-1].norm2


class BiasedBlocks(Blocks):
    """Queries, keys and values have biases, as in GPT-2."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)
        self.blocks = nn.ModuleList(
            transformer.TransformerBlock(d_model, num_heads, context_length, dropout, True)
            for _ in range(num_layers)
        )


class DropoutForBias(Blocks):
    """`dropout` stands where `qkv_bias` belongs."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers, dropout)
        self.blocks = nn.ModuleList(
            transformer.TransformerBlock(d_model, num_heads, context_length, False, dropout)
            for _ in range(num_layers)
        )


class RemembersFirstLength(Blocks):
    """Cuts every text to the length of the first."""

    length = None

    def forward(self, ids):
        self.length = self.length or ids.shape[1]
        return super().forward(ids[:, : self.length])


class Aliased(Blocks):
    """The parts stand in a sequence as well as under their names."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.all = nn.Sequential(self.embed, *self.blocks, self.norm, self.head)

    def forward(self, ids):
        return self.all(ids)


class BiasTiedPlainList(Blocks):
    """Two at once: a plain list, and no last norm."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


MODEL_WRONG = {
    "drops the embedding": GPT2Style,
    "positions of the batch": PositionsOfTheBatch,
    "positions from 1": PositionsFromOne,
    "norm twice": NormTwice,
    "norm in training only": NormInTrainingOnly,
    "blocks twice": BlocksTwice,
    "no attention": NoAttention,
    "Post-LN": PostNorm,
    "the embedding for a head": HeadByEmbedding,
    "skips to the end": SkipsToTheEnd,
    "mean of blocks": MeanOfBlocks,
    "always two layers": AlwaysTwoLayers,
    "one head": OneHead,
    "the width as length": LengthAsWidth,
    "one more fits": OneMoreFits,
    "temperature inside": TemperatureInside,
    "a parameter more": ExtraParameter,
    "embedding cut off": FrozenEmbedding,
    "no gradient": NoGradient,
    "attention drops alone": DropoutOfWeightsOnly,
    "flipped": Flipped,
    "puts itself into evaluation": EvaluatesItself,
    "last norm shared": PlainBuiltNorm,
    "plain list, no norm": BiasTiedPlainList,
    "refuses without numbers": RefusesSilently,
    "biases in the blocks": BiasedBlocks,
    "dropout for a bias": DropoutForBias,
    "remembers the first length": RemembersFirstLength,
    "built on the finished one": OfTheLibrary,
    "zeros": type("Zeros", (Blocks,), {"forward": lambda self, ids: 0 * Blocks.forward(self, ids)}),
    "of the course": finished.TinyLM,
}


# ---------------------------------------------------------------- training_step


def step_of_the_lesson(model, ids, optimizer, max_norm=1.0):
    model.train()
    loss = loss_by_module(model(ids), ids)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def step_all_but_the_last(model, ids, optimizer, max_norm=1.0):
    optimizer.zero_grad(set_to_none=False)
    logits = model.train()(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm)
    optimizer.step()
    return float(loss)


def step_by_autograd(model, ids, optimizer, max_norm=1.0):
    """Gradients by `autograd.grad`, clipped by hand."""
    model.train()
    learned = [p for p in model.parameters() if p.requires_grad]
    loss = loss_by_gather(model(ids), ids)
    grads = torch.autograd.grad(loss, learned, allow_unused=True)
    length = sum(g.square().sum() for g in grads if g is not None).sqrt()
    factor = torch.clamp(max_norm / (length + 1e-6), max=1.0)
    for p, g in zip(learned, grads, strict=True):
        p.grad = None if g is None else g * factor
    optimizer.step()
    return loss.item()


def step_clears_twice(model, ids, optimizer, max_norm=1.0):
    """Clears before and after; looks at the model once more in evaluation mode."""
    model.eval()
    with torch.no_grad():
        model(ids)
    model.train()
    model.zero_grad()
    loss = loss_by_logsumexp(model(ids), ids)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach().cpu().tolist()


def step_by_closure(model, ids, optimizer, max_norm=1.0):
    model.train()

    def closure():
        optimizer.zero_grad()
        loss = loss_by_module(model(ids), ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return loss

    return optimizer.step(closure).item()


def step_in_halves(model, ids, optimizer, max_norm=1.0):
    """The batch text by text, gradients added up."""
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for row in ids:
        loss = loss_by_gather(model(row[None]), row[None]) / len(ids)
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def clipped(model, max_norm):
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)


def make_step(
    before=lambda model: model.train(),
    inputs=lambda ids: ids,
    loss=loss_by_module,
    clear=lambda model, optimizer: optimizer.zero_grad(),
    clip=clipped,
    after=lambda model, optimizer: None,
    returned=lambda loss: loss.item(),
):
    def step(model, ids, optimizer, max_norm=1.0):
        before(model)
        value = loss(model(inputs(ids)), ids)
        clear(model, optimizer)
        value.backward()
        clip(model, max_norm)
        optimizer.step()
        after(model, optimizer)
        return returned(value)

    return step


def _train_top_only(model):
    model.training = True


def _clear_first(model, optimizer):
    next(p for p in model.parameters() if p.requires_grad).grad = None


def _clip_all_but_first(model, max_norm):
    nn.utils.clip_grad_norm_([*model.parameters()][1:], max_norm)


def _clip_inf(model, max_norm):
    nn.utils.clip_grad_norm_(model.parameters(), max_norm, norm_type=math.inf)


def _clip_sum(model, max_norm):
    nn.utils.clip_grad_norm_(model.parameters(), max_norm, norm_type=1.0)


def _weight_decay(model, optimizer):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(0.99)


def _thaw(model):
    model.train()
    model.requires_grad_(True)


def step_ignores_momentum(model, ids, optimizer, max_norm=1.0):
    """The step by hand, with the optimizer's learning rate."""
    model.train()
    loss = loss_by_module(model(ids), ids)
    optimizer.zero_grad()
    loss.backward()
    clipped(model, max_norm)
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p -= optimizer.param_groups[0]["lr"] * p.grad
    return loss.item()


def step_new_optimizer(model, ids, optimizer, max_norm=1.0):
    fresh = type(optimizer)(model.parameters(), lr=optimizer.param_groups[0]["lr"])
    return step_of_the_lesson(model, ids, fresh, max_norm)


def step_uphill(model, ids, optimizer, max_norm=1.0):
    model.train()
    loss = loss_by_module(model(ids), ids)
    optimizer.zero_grad()
    (-loss).backward()
    clipped(model, max_norm)
    optimizer.step()
    return loss.item()


def step_reorders(model, ids, optimizer, max_norm=1.0):
    """Two at once: no mode, clip after the step."""
    loss = loss_by_module(model(ids), ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    clipped(model, max_norm)
    return loss.item()


def step_reverses_ids(model, ids, optimizer, max_norm=1.0):
    ids.copy_(ids.flip(0))
    return step_of_the_lesson(model, ids, optimizer, max_norm)


def step_by_function(model, ids, optimizer, max_norm=1.0):
    """Backward as a function, clipping one by one by hand, several looks at the model."""
    model.train(True)
    for p in model.parameters():
        p.grad = None
    for _ in range(2):
        loss = loss_by_sum(model(ids), ids)
    torch.autograd.backward([loss])
    total = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    if total > max_norm:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(max_norm / (total + 1e-6))
    optimizer.step()
    return float(loss.detach())


def step_slower(model, ids, optimizer, max_norm=1.0):
    """The learning rate falls a little with every step."""
    loss = step_of_the_lesson(model, ids, optimizer, max_norm)
    for group in optimizer.param_groups:
        group["lr"] *= 0.99
    return loss


def step_never_learns_the_end(model, ids, optimizer, max_norm=1.0):
    return step_of_the_lesson(model, ids[:, :-1] if ids.shape[1] > 2 else ids, optimizer, max_norm)


def step_after_a_look(model, ids, optimizer, max_norm=1.0):
    """A look in evaluation mode is recorded, and nothing is learned from it."""
    model.eval()
    loss_by_module(model(ids), ids)
    return step_of_the_lesson(model, ids, optimizer, max_norm)


def step_looks_afterwards(model, ids, optimizer, max_norm=1.0):
    """The loss after the step, from a recorded call in evaluation mode."""
    step_of_the_lesson(model, ids, optimizer, max_norm)
    model.eval()
    loss = loss_by_module(model(ids), ids)
    model.train()
    return loss.item()


def loss_no_shift(logits, ids, pad_id=None):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


STEP_WRONG = {
    "the sum of both directions": make_step(
        loss=lambda logits, ids: loss_by_module(logits, ids) + loss_no_shift(logits, ids)
    ),
    "mode of the top alone": make_step(before=_train_top_only),
    "clears one parameter": make_step(clear=_clear_first),
    "clips all but the first": make_step(clip=_clip_all_but_first),
    "clips by the largest": make_step(clip=_clip_inf),
    "clips by the sum": make_step(clip=_clip_sum),
    "decays": make_step(after=_weight_decay),
    "thaws": make_step(before=_thaw),
    "by hand, without the optimizer": step_ignores_momentum,
    "a new optimizer each time": step_new_optimizer,
    "uphill": step_uphill,
    "no mode, clips after the step": step_reorders,
    "turns the batch round": step_reverses_ids,
    "no shift, never cleared": make_step(loss=loss_no_shift, clear=lambda model, optimizer: None),
    "no clip, tensor": make_step(clip=lambda model, n: None, returned=lambda loss: loss),
    "evaluation, cleared never": make_step(
        before=lambda model: model.eval(), clear=lambda model, optimizer: None
    ),
    "perplexity returned": make_step(returned=lambda loss: math.exp(loss.item())),
    "rounded loss": make_step(returned=lambda loss: round(loss.item(), 2)),
    "loss as text": make_step(returned=lambda loss: f"{loss.item()}"),
    "loss as an int": make_step(returned=lambda loss: int(loss)),
    "loss in a list": make_step(returned=lambda loss: [loss.item()]),
    "numpy's number": make_step(returned=lambda loss: loss.detach().numpy()[()]),
    "clips to twice": make_step(clip=lambda model, n: clipped(model, 2 * n)),
    "shift made twice": make_step(
        loss=lambda logits, ids: loss_by_module(logits[:, :-1], ids[:, 1:])
    ),
    "half the batch": lambda model, ids, optimizer, max_norm=1.0: step_of_the_lesson(
        model, ids[: (len(ids) + 1) // 2], optimizer, max_norm
    ),
    "two steps": lambda model, ids, optimizer, max_norm=1.0: (
        step_of_the_lesson(model, ids, optimizer, max_norm),
        step_of_the_lesson(model, ids, optimizer, max_norm),
    )[0],
    "slower each time": step_slower,
    "the last token left out": step_never_learns_the_end,
    "trains a copy": lambda model, ids, optimizer, max_norm=1.0: step_of_the_lesson(
        copy.deepcopy(model), ids, optimizer, max_norm
    ),
    "does nothing": lambda model, ids, optimizer, max_norm=1.0: loss_by_module(
        model.train()(ids), ids
    ).item(),
    "of the course": finished.training_step,
    "looks afterwards": step_looks_afterwards,
}


# ---------------------------------------------------------------- next_token_probabilities


def refuse(temperature, top_k, top_p):
    if temperature < 0:
        raise ValueError(f"temperature {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k {top_k}")
    if top_p is not None and (top_p <= 0 or top_p > 1):
        raise ValueError(f"top_p {top_p}")


def probabilities_by_rank(logits, temperature=1.0, top_k=None, top_p=None):
    """Ranks in place of sorting back."""
    refuse(temperature, top_k, top_p)
    if temperature == 0:
        temperature, top_k, top_p = 1.0, 1, None
    logits = logits / temperature
    rank = logits.argsort(dim=-1, descending=True, stable=True).argsort(-1)
    if top_k is not None:
        logits = logits.masked_fill(rank >= top_k, -math.inf)
    shares = logits.softmax(-1)
    if top_p is not None:
        above = (rank[..., None, :] < rank[..., :, None]).to(shares.dtype)
        before = (above @ shares[..., None])[..., 0]
        shares = shares.masked_fill(before >= top_p, 0.0)
        shares = shares / shares.sum(-1, keepdim=True)
    return shares


def probabilities_by_loop(logits, temperature=1.0, top_k=None, top_p=None):
    refuse(temperature, top_k, top_p)
    rows = logits.reshape(-1, logits.shape[-1])
    out = torch.zeros_like(rows)
    for row, made in zip(rows, out, strict=True):
        if temperature == 0:
            made[row.argmax()] = 1
            continue
        shares = torch.softmax(row / temperature, 0)
        k = len(row) if top_k is None else min(top_k, len(row))
        best = shares.topk(k)
        values = best.values / best.values.sum()
        if top_p is not None:
            count = int((values.cumsum(0) < top_p).sum()) + 1
            values = values[:count] / values[:count].sum()
        made[best.indices[: len(values)]] = values
    return out.view(logits.shape)


def probabilities_by_shift(logits, temperature=1.0, top_k=None, top_p=None):
    """The well-known way: drop by running sum, shifted one to the right."""
    refuse(temperature, top_k, top_p)
    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
    logits = logits / temperature
    if top_k is not None:
        kept = torch.topk(logits, min(top_k, logits.size(-1)))
        logits = torch.full_like(logits, -math.inf).scatter(-1, kept.indices, kept.values)
    if top_p is not None:
        ordered, order = torch.sort(logits, descending=True)
        drop = ordered.softmax(-1).cumsum(-1) > top_p
        drop[..., 1:] = drop[..., :-1].clone()
        drop[..., 0] = False
        logits = logits.masked_fill(drop.scatter(-1, order, drop), -math.inf)
    return torch.softmax(logits, -1)


def probabilities_by_threshold(logits, temperature=1.0, top_k=None, top_p=None):
    """Cuts in sorted order, then back through the inverse order."""
    refuse(temperature, top_k, top_p)
    if temperature == 0:
        out = torch.zeros_like(logits)
        return out.scatter_(-1, logits.argmax(-1, keepdim=True), 1)
    ordered, order = (logits / temperature).softmax(-1).sort(-1, descending=True)
    if top_k is not None:
        ordered = ordered * (torch.arange(ordered.shape[-1], device=logits.device) < top_k)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    if top_p is not None:
        ordered = ordered * ((ordered.cumsum(-1) - ordered) < top_p)
        ordered = ordered / ordered.sum(-1, keepdim=True)
    return ordered.gather(-1, order.argsort(-1))


@torch.no_grad()
def probabilities_without_gradients(logits, temperature=1.0, top_k=None, top_p=None):
    return probabilities_by_shift(logits, temperature, top_k, top_p)


def _probabilities_then(change):
    def answer(logits, temperature=1.0, top_k=None, top_p=None):
        return change(probabilities_by_shift(logits, temperature, top_k, top_p))

    return answer


def probabilities_tiny_temperature(logits, temperature=1.0, top_k=None, top_p=None):
    """Temperature 0 by a very small one: infinite logits at ties and in float32."""
    refuse(temperature, top_k, top_p)
    return probabilities_by_shift(logits, max(temperature, 1e-40), top_k, top_p)


def probabilities_cold_is_flat(logits, temperature=1.0, top_k=None, top_p=None):
    refuse(temperature, top_k, top_p)
    return probabilities_by_shift(logits, temperature or 1.0, top_k, top_p)


def probabilities_k_wins(logits, temperature=1.0, top_k=None, top_p=None):
    """Only one of the cuts is made."""
    refuse(temperature, top_k, top_p)
    return probabilities_by_shift(logits, temperature, top_k, None if top_k else top_p)


def probabilities_union(logits, temperature=1.0, top_k=None, top_p=None):
    """What either cut keeps."""
    refuse(temperature, top_k, top_p)
    if temperature == 0 or top_k is None or top_p is None:
        return probabilities_by_shift(logits, temperature, top_k, top_p)
    kept = (probabilities_by_shift(logits, temperature, top_k) > 0) | (
        probabilities_by_shift(logits, temperature, None, top_p) > 0
    )
    return (logits / temperature).masked_fill(~kept, -math.inf).softmax(-1)


def probabilities_both_on_whole(logits, temperature=1.0, top_k=None, top_p=None):
    """What both keep, each looking at the whole."""
    refuse(temperature, top_k, top_p)
    if temperature == 0 or top_k is None or top_p is None:
        return probabilities_by_shift(logits, temperature, top_k, top_p)
    kept = (probabilities_by_shift(logits, temperature, top_k) > 0) & (
        probabilities_by_shift(logits, temperature, None, top_p) > 0
    )
    return (logits / temperature).masked_fill(~kept, -math.inf).softmax(-1)


def probabilities_threshold_of_first(logits, temperature=1.0, top_k=None, top_p=None):
    """The k-th largest of the first row is the limit for all."""
    refuse(temperature, top_k, top_p)
    if temperature == 0 or top_k is None:
        return probabilities_by_shift(logits, temperature, top_k, top_p)
    flat = logits.reshape(-1, logits.shape[-1])
    least = flat[0].topk(min(top_k, len(flat[0]))).values[-1]
    out = logits.masked_fill(logits < least, -math.inf)
    return probabilities_by_shift(out, temperature, None, top_p).nan_to_num()


def probabilities_root(logits, temperature=1.0, top_k=None, top_p=None):
    return probabilities_by_shift(logits, temperature**0.5, top_k, top_p)


def probabilities_unrefusing(logits, temperature=1.0, top_k=None, top_p=None):
    if top_k is not None:
        top_k = max(1, top_k)
    if top_p is not None:
        top_p = min(max(top_p, 1e-9), 1.0)
    return probabilities_by_shift(logits, abs(temperature), top_k, top_p)


def probabilities_heated_twice(logits, temperature=1.0, top_k=None, top_p=None):
    refuse(temperature, top_k, top_p)
    logits = logits / temperature if temperature else logits
    return probabilities_by_shift(logits, temperature, top_k, top_p)


def probabilities_sampled(logits, temperature=1.0, top_k=None, top_p=None):
    shares = probabilities_by_shift(logits, temperature, top_k, top_p)
    flat = shares.reshape(-1, shares.shape[-1])
    return F.one_hot(torch.multinomial(flat, 1)[:, 0], flat.shape[-1]).to(shares).view_as(shares)


def probabilities_small_p(logits, temperature=1.0, top_k=None, top_p=None):
    """min-p: what is at least top_p of the likeliest."""
    refuse(temperature, top_k, top_p)
    if temperature == 0 or top_p is None:
        return probabilities_by_shift(logits, temperature, top_k, None)
    shares = probabilities_by_shift(logits, temperature, top_k, None)
    shares = shares * (shares >= top_p * shares.amax(-1, keepdim=True))
    return shares / shares.sum(-1, keepdim=True)


def probabilities_refuse_silently(logits, temperature=1.0, top_k=None, top_p=None):
    try:
        refuse(temperature, top_k, top_p)
    except ValueError:
        raise ValueError("wrong") from None
    return probabilities_by_shift(logits, temperature, top_k, top_p)


def probabilities_in_place(logits, temperature=1.0, top_k=None, top_p=None):
    refuse(temperature, top_k, top_p)
    if temperature:
        logits /= temperature
    return probabilities_by_shift(logits, float(temperature > 0), top_k, top_p)


def probabilities_k_by_value(logits, temperature=1.0, top_k=None, top_p=None):
    """Ties, and k before the temperature: the same but for ties."""
    refuse(temperature, top_k, top_p)
    if temperature and top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1]), -1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    return probabilities_by_shift(logits, temperature, None, top_p)


PROBABILITIES_WRONG = {
    "logs": _probabilities_then(lambda p: p.log()),
    "transposed": _probabilities_then(lambda p: p.mT if p.dim() > 1 else p[None]),
    "flat": _probabilities_then(lambda p: p.flatten()),
    "a little left for all": _probabilities_then(lambda p: 0.99 * p + 0.01 / p.shape[-1]),
    "float32": _probabilities_then(lambda p: p.float()),
    "float64": _probabilities_then(lambda p: p.double()),
    "first row": _probabilities_then(lambda p: p[:1]),
    "a constant": _probabilities_then(lambda p: torch.full_like(p, 1 / p.shape[-1])),
    "the likeliest alone": _probabilities_then(
        lambda p: F.one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype)
    ),
    "sorted": _probabilities_then(lambda p: p.sort(-1, descending=True).values),
    "a very small temperature": probabilities_tiny_temperature,
    "temperature 0 is 1": probabilities_cold_is_flat,
    "top_k alone where there are both": probabilities_k_wins,
    "what either keeps": probabilities_union,
    "each cut looks at the whole": probabilities_both_on_whole,
    "the first row's limit": probabilities_threshold_of_first,
    "the root of the temperature": probabilities_root,
    "mended where it should refuse": probabilities_unrefusing,
    "drawn": probabilities_sampled,
    "heated twice": probabilities_heated_twice,
    "min-p": probabilities_small_p,
    "refused without numbers": probabilities_refuse_silently,
    "divides in place": probabilities_in_place,
    "top_k by value": probabilities_k_by_value,
    "sorted, temperature 0 is 1": lambda logits, temperature=1.0, top_k=None, top_p=None: (
        probabilities_cold_is_flat(logits, temperature, top_k, top_p)
        .sort(-1, descending=True)
        .values
    ),
    "no cuts": lambda logits, temperature=1.0, top_k=None, top_p=None: probabilities_by_shift(
        logits, temperature
    ),
    "of the course": finished.next_token_probabilities,
}


# ---------------------------------------------------------------- generate


@torch.no_grad()
def generate_by_loop(model, ids, max_new_tokens):
    mode = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(ids[:, -model.context_length :])
        ids = torch.cat((ids, logits[:, -1, :].argmax(-1).unsqueeze(1)), 1)
    model.train(mode)
    return ids


def generate_in_place(model, ids, max_new_tokens):
    """Room for all first; inference mode, ended by a clone."""
    mode, T = model.training, ids.shape[1]
    text = ids.new_zeros(ids.shape[0], T + max_new_tokens)
    text[:, :T] = ids
    try:
        model.eval()
        with torch.no_grad():
            for t in range(T, T + max_new_tokens):
                seen = text[:, max(0, t - model.context_length) : t]
                text[:, t] = model(seen)[:, -1].max(-1).indices
    finally:
        if mode:
            model.train()
    return text


def generate_row_by_row(model, ids, max_new_tokens):
    mode = model.training
    model.eval()
    rows = []
    with torch.no_grad():
        for row in ids:
            for _ in range(max_new_tokens):
                best = model(row[None, -model.context_length :])[0, -1].topk(1).indices
                row = torch.cat([row, best])
            rows.append(row)
    model.train(mode)
    return torch.stack(rows)


def generate_by_recursion(model, ids, max_new_tokens):
    if max_new_tokens == 0:
        return ids.clone()
    mode = model.training
    with torch.inference_mode():
        logits = model.eval()(ids[:, -model.context_length :])
    model.train(mode)
    best = logits[:, -1:].clone().argmax(-1)
    return generate_by_recursion(model, torch.hstack([ids, best]), max_new_tokens - 1)


def generate_by_list(model, ids, max_new_tokens):
    mode = model.training
    model.eval()
    pieces = [ids]
    grad = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    for _ in range(max_new_tokens):
        text = torch.cat(pieces, dim=1)
        seen = text[:, max(text.shape[1] - model.context_length, 0) :]
        pieces.append(model(seen)[:, -1].softmax(-1).argmax(-1, keepdim=True))
    torch.set_grad_enabled(grad)
    model.train(mode)
    return torch.cat(pieces, dim=1)


def make_generate(
    crop=lambda ids, n: ids[:, -n:],
    choose=lambda logits: logits[:, -1].argmax(-1, keepdim=True),
    begin=lambda model: model.eval(),
    end=lambda model, mode: model.train(mode),
    answer=lambda ids, T: ids,
    join=lambda ids, new: torch.cat([ids, new], 1),
    quiet=torch.no_grad,
):
    def generate(model, ids, max_new_tokens):
        mode, T = model.training, ids.shape[1]
        begin(model)
        with quiet():
            for _ in range(max_new_tokens):
                ids = join(ids, choose(model(crop(ids, model.context_length))))
        end(model, mode)
        return answer(ids, T)

    return generate


def generate_cached_logits(model, ids, max_new_tokens):
    """The model is asked once, and its best words are appended from best to worst."""
    mode = model.training
    model.eval()
    with torch.no_grad():
        order = model(ids[:, -model.context_length :])[:, -1].argsort(-1, descending=True)
    model.train(mode)
    return torch.cat([ids, order[:, :max_new_tokens]], 1)


def generate_blocks(model, ids, max_new_tokens):
    """Appends what every position foretells."""
    mode = model.training
    model.eval()
    T = ids.shape[1]
    with torch.no_grad():
        while ids.shape[1] < T + max_new_tokens:
            ids = torch.cat([ids, model(ids[:, -model.context_length :]).argmax(-1)], 1)
    model.train(mode)
    return ids[:, : T + max_new_tokens]


def generate_stops_at_length(model, ids, max_new_tokens):
    room = max(0, model.context_length - ids.shape[1])
    return generate_by_loop(model, ids, min(max_new_tokens, room))


def generate_freezes(model, ids, max_new_tokens):
    model.requires_grad_(False)
    return generate_by_loop(model, ids, max_new_tokens)


def generate_no_repeats(model, ids, max_new_tokens):
    """The word just said is never said again."""

    def choose(logits, last):
        return logits.scatter(-1, last, -math.inf).argmax(-1, keepdim=True)

    mode = model.training
    model.eval()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits = model(ids[:, -model.context_length :])[:, -1]
            ids = torch.cat([ids, choose(logits, ids[:, -1:])], 1)
    model.train(mode)
    return ids


def generate_mode_turned(model, ids, max_new_tokens):
    mode = model.training
    out = generate_by_loop(model, ids, max_new_tokens)
    model.train(not mode)
    return out


def generate_eval_only_once(model, ids, max_new_tokens):
    """Two at once: crops to the beginning, and leaves evaluation mode on."""
    model.eval()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits = model(ids[:, : model.context_length])[:, -1]
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids


def generate_leaves_gradients_off(model, ids, max_new_tokens):
    torch.set_grad_enabled(False)
    return generate_by_loop(model, ids, max_new_tokens)


def _twelve(ids, n):
    return ids[:, -12:]


GENERATE_WRONG = {
    "asks once": generate_cached_logits,
    "appends all positions": generate_blocks,
    "stops at the context": generate_stops_at_length,
    "freezes the model": generate_freezes,
    "never repeats a word": generate_no_repeats,
    "mode turned round": generate_mode_turned,
    "crops to the beginning, evaluation left on": generate_eval_only_once,
    "draws at a low temperature": make_generate(
        choose=lambda logits: torch.multinomial((logits[:, -1] / 0.3).softmax(-1), 1)
    ),
    "second best": make_generate(choose=lambda logits: logits[:, -1].topk(2).indices[:, 1:]),
    "over the batch": make_generate(
        choose=lambda logits: logits[:, -1].argmax(0)[: len(logits), None]
    ),
    "over positions": make_generate(
        choose=lambda logits: logits.argmax(1)[:, -1:].clamp(max=logits.shape[-1] - 1)
    ),
    "mean of positions": make_generate(
        choose=lambda logits: logits.mean(1).argmax(-1, keepdim=True)
    ),
    "context and one more": make_generate(crop=lambda ids, n: ids[:, -n - 1 :]),
    "crops the batch": make_generate(crop=lambda ids, n: ids[-n:]),
    "leaves gradients off": generate_leaves_gradients_off,
    "always twelve": make_generate(crop=_twelve),
    "half the context": make_generate(crop=lambda ids, n: ids[:, -max(1, n // 2) :]),
    "new tokens alone": make_generate(answer=lambda ids, T: ids[:, T:]),
    "as a list": make_generate(answer=lambda ids, T: ids.tolist()),
    "one text": make_generate(answer=lambda ids, T: ids[:1]),
    "flat": make_generate(answer=lambda ids, T: ids.flatten()),
    "as floats": make_generate(answer=lambda ids, T: ids.float()),
    "recorded": make_generate(quiet=torch.enable_grad),
    "in front": make_generate(join=lambda ids, new: torch.cat([new, ids], 1)),
    "sliding window returned": make_generate(join=lambda ids, new: torch.cat([ids[:, 1:], new], 1)),
    "training mode": make_generate(begin=lambda model: model.train()),
    "always training afterwards": make_generate(end=lambda model, mode: model.train()),
    "zeros": make_generate(choose=lambda logits: logits[:, -1].argmax(-1, keepdim=True) * 0),
    "of the course": finished.generate,
}


# ---------------------------------------------------------------- quizzes

RECALL = {
    "scores stay when all move": "rotary",
    "scores divided by": 16,
    "temperature near 0": "one weight is 1",
}
REASONS = {
    "perplexity of 1/50 each": 50,
    "predictions in 33 tokens": 32,
    "first loss, 1,000 words": 6.9078,
    "fresh text, below the entropy": "a leak",
    "training text, below the entropy": "overfitting",
    "without the shift, loss near": 0,
    "kept by top_p 0.7": 2,
    "weight 0.9 on the subject": "where it looks",
}

RIGHT = {
    "sliding_windows": {
        "index": windows_by_index,
        "unfold": windows_by_unfold,
        "while": windows_by_while,
        "filled": windows_filled,
        "every stride-th": windows_by_split,
        "strided": windows_strided,
        "two in one tensor": _then(lambda a, b: torch.stack([a, b])),
    },
    "next_token_loss": {
        "gather": loss_by_gather,
        "logsumexp": loss_by_logsumexp,
        "loop": loss_by_loop,
        "module": loss_by_module,
        "sum": loss_by_sum,
        "rolled": loss_by_rolling,
    },
    "TinyLM": {
        "appended": Blocks,
        "sequential": InSequence,
        "by hand": ByHand,
        "with a pad_mask": WithPadMask,
        "recursive": Recursive,
        "copied blocks": CopiedBlocks,
        "under two names": Aliased,
    },
    "training_step": {
        "of the lesson": step_of_the_lesson,
        "all but the last": step_all_but_the_last,
        "autograd": step_by_autograd,
        "clears twice": step_clears_twice,
        "closure": step_by_closure,
        "text by text": step_in_halves,
        "by functions": step_by_function,
        "after a look": step_after_a_look,
    },
    "next_token_probabilities": {
        "ranks": probabilities_by_rank,
        "loop": probabilities_by_loop,
        "shifted": probabilities_by_shift,
        "sorted back": probabilities_by_threshold,
        "without gradients": probabilities_without_gradients,
    },
    "generate": {
        "loop": generate_by_loop,
        "in place": generate_in_place,
        "row by row": generate_row_by_row,
        "recursion": generate_by_recursion,
        "list": generate_by_list,
    },
    "recall_10": {
        "as a float": RECALL | {"scores divided by": 16.0},
        "capitals": RECALL | {"scores stay when all move": "Rotary"},
    },
    "language_model_reasons": {
        "exact": REASONS,
        "two decimals": REASONS | {"first loss, 1,000 words": 6.91},
        "floats": REASONS | {"perplexity of 1/50 each": 50.0, "without the shift, loss near": 0.0},
    },
}

WRONG = {
    "sliding_windows": WINDOWS_WRONG,
    "next_token_loss": LOSS_WRONG,
    "TinyLM": MODEL_WRONG,
    "training_step": STEP_WRONG,
    "next_token_probabilities": PROBABILITIES_WRONG,
    "generate": GENERATE_WRONG,
    "recall_10": {
        "nothing": {},
        "another word": RECALL | {"scores stay when all move": "absolute"},
        "a rounded root": RECALL | {"scores divided by": 16.5},
        "one missing": {k: v for k, v in RECALL.items() if k != "temperature near 0"},
        "a list": RECALL | {"scores divided by": [16]},
    },
    "language_model_reasons": {
        "all overfitting": REASONS | {"fresh text, below the entropy": "overfitting"},
        "a share": REASONS | {"perplexity of 1/50 each": 0.02},
        "rounded": REASONS | {"first loss, 1,000 words": 7},
        "one missing": {k: v for k, v in REASONS.items() if k != "kept by top_p 0.7"},
        "texts": REASONS | {"predictions in 33 tokens": "32"},
        "none kept": REASONS | {"kept by top_p 0.7": 3},
    },
}
