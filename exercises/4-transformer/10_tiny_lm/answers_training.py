"""Right and wrong answers for lesson 10: the model and its training step."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model as finished
from course_utils import transformer


def loss_by_gather(logits, ids, pad_id=None):
    logs = logits[:, :-1].log_softmax(-1)
    picked = logs.gather(-1, ids[:, 1:, None]).squeeze(-1)
    real = torch.ones_like(picked) if pad_id is None else (ids[:, 1:] != pad_id).to(picked.dtype)
    return -(picked * real).sum() / real.sum()


def loss_by_module(logits, ids, pad_id=None):
    criterion = nn.CrossEntropyLoss(ignore_index=-1 if pad_id is None else pad_id)
    return criterion(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def loss_no_shift(logits, ids, pad_id=None):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


class Blocks(nn.Module):
    """A right answer, to be changed in one place."""

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
        x = self.embed.token.weight[ids] + self.embed.position.weight[None, :T]
        for block in self.blocks.children():
            x = block(x)
        return torch.einsum("btc,vc->btv", self.norm(x), self.head.weight)


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


class Aliased(Blocks):
    """The parts are in a sequence as well as under their names."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.all = nn.Sequential(self.embed, *self.blocks, self.norm, self.head)

    def forward(self, ids):
        return self.all(ids)


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


class MeanOfBlocks(Blocks):
    def forward(self, ids):
        x = self.embed(ids)
        x = torch.stack([block(x) for block in self.blocks]).mean(0)
        return self.head(self.norm(x))


class OneHead(Blocks):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers, dropout=0.0):
        super().__init__(vocab_size, d_model, 1, context_length, num_layers, dropout)


class ExtraParameter(Blocks):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, ids):
        return super().forward(ids) * self.scale


class SharedNorm(Blocks):
    """The last norm is that of the last block."""

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


class PlainListNoNorm(Blocks):
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


class AddedNoNorm(Blocks):
    """Two at once: each block is added again, and there is no last norm."""

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


MODEL_WRONG = {
    "drops the embedding": GPT2Style,
    "positions from 1": PositionsFromOne,
    "norm twice": NormTwice,
    "no attention": NoAttention,
    "Post-LN": PostNorm,
    "the embedding for a head": HeadByEmbedding,
    "mean of blocks": MeanOfBlocks,
    "one head": OneHead,
    "a parameter more": ExtraParameter,
    "last norm shared": SharedNorm,
    "biases in the blocks": BiasedBlocks,
    "plain list, no norm": PlainListNoNorm,
    "added again, no norm": AddedNoNorm,
    "of the course": finished.TinyLM,
}


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


def step_by_closure(model, ids, optimizer, max_norm=1.0):
    model.train()

    def closure():
        optimizer.zero_grad()
        loss = loss_by_module(model(ids), ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        return loss

    return optimizer.step(closure).item()


def step_in_parts(model, ids, optimizer, max_norm=1.0):
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


def step_after_a_look(model, ids, optimizer, max_norm=1.0):
    """A look in evaluation mode is recorded, and nothing is learned from it."""
    model.eval()
    loss_by_module(model(ids), ids)
    return make_step()(model, ids, optimizer, max_norm)


def clipped(model, max_norm):
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)


def make_step(
    before=lambda model: model.train(),
    loss=loss_by_module,
    clear=lambda optimizer: optimizer.zero_grad(),
    clip=clipped,
    returned=lambda loss: loss.item(),
):
    def step(model, ids, optimizer, max_norm=1.0):
        before(model)
        value = loss(model(ids), ids)
        clear(optimizer)
        value.backward()
        clip(model, max_norm)
        optimizer.step()
        return returned(value)

    return step


def _train_top_only(model):
    model.training = True


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


def step_clips_too_late(model, ids, optimizer, max_norm=1.0):
    """Two at once: no mode, clip after the step."""
    loss = loss_by_module(model(ids), ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    clipped(model, max_norm)
    return loss.item()


def step_looks_afterwards(model, ids, optimizer, max_norm=1.0):
    """The loss after the step, from a recorded call in evaluation mode."""
    make_step()(model, ids, optimizer, max_norm)
    model.eval()
    loss = loss_by_module(model(ids), ids)
    model.train()
    return loss.item()


def step_of_a_copy(model, ids, optimizer, max_norm=1.0):
    return make_step()(copy.deepcopy(model), ids, optimizer, max_norm)


STEP_WRONG = {
    "mode of the top alone": make_step(before=_train_top_only),
    "clips one by one": make_step(
        clip=lambda model, n: [nn.utils.clip_grad_norm_(p, n) for p in model.parameters()]
    ),
    "by hand, without the optimizer": step_ignores_momentum,
    "no mode, clips after the step": step_clips_too_late,
    "no shift, never cleared": make_step(loss=loss_no_shift, clear=lambda optimizer: None),
    "no clip, tensor": make_step(clip=lambda model, n: None, returned=lambda loss: loss),
    "evaluation, never cleared": make_step(
        before=lambda model: model.eval(), clear=lambda optimizer: None
    ),
    "perplexity returned": make_step(returned=lambda loss: math.exp(loss.item())),
    "loss in a list": make_step(returned=lambda loss: [loss.item()]),
    "shift made twice": make_step(
        loss=lambda logits, ids: loss_by_module(logits[:, :-1], ids[:, 1:])
    ),
    "trains a copy": step_of_a_copy,
    "does nothing": lambda model, ids, optimizer, max_norm=1.0: loss_by_module(
        model.train()(ids), ids
    ).item(),
    "looks afterwards": step_looks_afterwards,
    "of the course": finished.training_step,
}


RIGHT = {
    "TinyLM": {
        "appended": Blocks,
        "by hand": ByHand,
        "with a pad_mask": WithPadMask,
        "recursive": Recursive,
        "copied blocks": CopiedBlocks,
        "under two names": Aliased,
    },
    "training_step": {
        "of the lesson": make_step(),
        "all but the last": step_all_but_the_last,
        "autograd": step_by_autograd,
        "closure": step_by_closure,
        "text by text": step_in_parts,
        "after a look": step_after_a_look,
    },
}


WRONG = {
    "TinyLM": MODEL_WRONG,
    "training_step": STEP_WRONG,
}
