"""Right and wrong answers for lesson 10: the model and its training step."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import language_model as finished
from course_utils import transformer
from course_utils.language_model import next_token_loss


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
    """The head as a product, the embedding as two lookups."""

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


MODEL_WRONG = {
    "of the course": (0, finished.TinyLM),
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
    loss = next_token_loss(model(ids[:, :-1]), ids)
    grads = torch.autograd.grad(loss, learned)
    length = sum(g.square().sum() for g in grads).sqrt()
    factor = torch.clamp(max_norm / (length + 1e-6), max=1.0)
    for p, g in zip(learned, grads, strict=True):
        p.grad = g * factor
    optimizer.step()
    return loss.item()


def step_by_func_grad(model, ids, optimizer, max_norm=1.0):
    def loss_of(weights):
        logits = torch.func.functional_call(model, weights, (ids[:, :-1],))
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    model.train()
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    given = {name: p.detach() for name, p in weights.items()}
    grads, loss = torch.func.grad_and_value(loss_of)(given)
    for name, p in weights.items():
        p.grad = grads[name]
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()


def step_by_closure(model, ids, optimizer, max_norm=1.0):
    model.train()

    def closure():
        optimizer.zero_grad()
        loss = next_token_loss(model(ids[:, :-1]), ids)
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
        loss = next_token_loss(model(row[None, :-1]), row[None]) / len(ids)
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def step_after_a_look(model, ids, optimizer, max_norm=1.0):
    """A look in evaluation mode is recorded, and nothing is learned from it."""
    model.eval()
    next_token_loss(model(ids[:, :-1]), ids)
    return make_step()(model, ids, optimizer, max_norm)


def make_step(returned=lambda loss: loss.item()):
    def step(model, ids, optimizer, max_norm=1.0):
        model.train()
        loss = next_token_loss(model(ids[:, :-1]), ids)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        return returned(loss)

    return step


STEP_WRONG = {
    "perplexity returned": (1.125, make_step(returned=lambda loss: math.exp(loss.item()))),
    "loss in a list": (1.125, make_step(returned=lambda loss: [loss.item()])),
    "of the course": (0, finished.training_step),
}


def trains_with(schedule):
    """A right `train_lm` with one of PyTorch's schedules."""

    def train_lm(model, batches, learning_rate):
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
        falling = schedule(optimizer, len(batches))
        losses = []
        for ids in batches:
            losses += [make_step()(model, ids, optimizer)]
            falling.step()
        return losses

    return train_lm


def trains_by_while(model, batches, learning_rate):
    losses, n = [], len(batches)
    optimizer = torch.optim.AdamW(list(model.parameters()), lr=1.0, fused=True)
    while len(losses) < n:
        optimizer.param_groups[0]["lr"] = learning_rate * (n - len(losses)) / n
        losses.append(make_step()(model, batches[len(losses)], optimizer))
    return losses


def trains_in_any_mode(model, batches, learning_rate):
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    for i, ids in enumerate(batches):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - i / len(batches))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


RIGHT = {
    "train_lm": {
        "LinearLR": trains_with(lambda o, n: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.0, n)),
        "LambdaLR": trains_with(
            lambda o, n: torch.optim.lr_scheduler.LambdaLR(o, lambda i: 1 - i / n)
        ),
        "PolynomialLR": trains_with(lambda o, n: torch.optim.lr_scheduler.PolynomialLR(o, n)),
        "while": trains_by_while,
    },
    "TinyLM": {
        "appended": Blocks,
        "by hand": ByHand,
        "with a pad_mask": WithPadMask,
        "copied blocks": CopiedBlocks,
        "under two names": Aliased,
    },
    "training_step": {
        "of the lesson": make_step(),
        "all but the last": step_all_but_the_last,
        "autograd": step_by_autograd,
        "closure": step_by_closure,
        "torch.func.grad": step_by_func_grad,
        "text by text": step_in_parts,
        "after a look": step_after_a_look,
    },
}


WRONG = {
    "TinyLM": MODEL_WRONG,
    "training_step": STEP_WRONG,
    "train_lm": {"steps of its own, in the model's mode": (0.75, trains_in_any_mode)},
}
