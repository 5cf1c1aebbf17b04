"""How an answer to `train_translator` is judged."""

import torch
import torch.nn.functional as F
from torch import nn

from exercises.shared.loops import (
    falls,
    one_optimizer,
    one_step_each,
    rates,
    see_loop,
    warms_up,
    weights_after,
    with_many,
)
from whywrong import Case, Draw, fresh, near, true_of

tolerance = {torch.float32: 1e-3, torch.float64: 1e-6}


class Watched(nn.Module):
    """A small translator whose logits are half as large in evaluation mode.

    A word gets the mean of the decoder's inputs so far, and the mean of the source's tokens that
    aren't hidden.
    """

    def __init__(self, numbers, dtype):
        super().__init__()
        for name, value in numbers.items():
            setattr(self, name, nn.Parameter(value.to(dtype, copy=True)))

    def forward(self, source, decoder_input, source_pad_mask=None):
        seen = torch.ones_like(source, dtype=torch.bool)
        if source_pad_mask is not None:
            seen = ~source_pad_mask
        share = seen.to(self.read) / seen.sum(dim=1, keepdim=True)  # (B, S)
        context = share[:, None] @ self.read[source]  # (B, 1, S) @ (B, S, C) -> (B, 1, C)
        so_far = self.token[decoder_input].cumsum(dim=1)  # (B, T, C)
        count = torch.arange(1, decoder_input.shape[1] + 1, device=source.device)[:, None]
        logits = (so_far / count + context) @ self.head  # (B, T, C) @ (C, V) -> (B, T, V)
        return logits if self.training else logits / 2


def cases(seed):
    draw = Draw(seed)

    def case(name, n, rate, roles="", *, scale=1.0, pad_id=0, dtype=torch.float32, **options):
        B, S, T, C, V = draw.sizes(5, 3, 9)
        V = V + 3
        numbers = {
            "read": scale * draw.normal(V, C, dtype=torch.float64),
            "token": scale * draw.normal(V, C, dtype=torch.float64),
            "head": scale * draw.normal(C, V, dtype=torch.float64) / C**0.5,
        }
        uneven = options.get("uneven", False)
        words = [V if i % 2 or not uneven else 3 for i in range(n)]
        numbers["token"][1:3] *= 0.01 if uneven else 1  # batches of these have short gradients
        numbers["read"][1:3] *= 0.01 if uneven else 1
        batches = [batch(B, S, T, most, pad_id) for most in words]
        inputs = {"model": f"a small model of {V} words"}
        inputs |= {"batches": f"{n} of ({B}, {S}), ({B}, {S}), ({B}, {T}) and ({B}, {T})"}
        inputs |= {"pad_id": pad_id, "learning_rate": rate}
        options |= {"numbers": numbers, "batches": batches, "dtype": dtype}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    def batch(B, S, T, V, pad_id):
        source = torch.randint(1, V, (B, S), generator=draw.generator)
        targets = torch.randint(1, V, (B, T), generator=draw.generator)
        mask = torch.zeros(B, S, dtype=torch.bool)
        source[source == pad_id], targets[targets == pad_id] = 0, 0  # no word is padding
        mask[0, S - 1 :], targets[0, T - 1 :] = True, pad_id
        decoder_input = F.pad(targets, (1, -1), value=1)
        return source.masked_fill(mask, pad_id), mask, decoder_input, targets

    return [
        case("five batches", 5, 0.02, "typical"),
        case("eight batches, short and long gradients", 8, 0.05, scale=4.0, uneven=True),
        case("from evaluation mode", 3, 0.02, training=False),
        case("one batch, padded with 4", 1, 0.03, "small stability", pad_id=4),
        case("four batches in float64, called by name", 4, 0.01, dtype=torch.float64, by_name=True),
        with_many(case),
    ]


def model_of(case, dtype):
    model = Watched(case.options["numbers"], dtype)
    return model.train(case.options.get("training", True))


def probe(answer, case):
    """What `see_loop` sees, and how long the gradients are at the end."""
    batches = [tuple(fresh(part) for part in batch) for batch in case.options["batches"]]
    model = model_of(case, case.options["dtype"])
    observed, _ = see_loop(answer, case, model, batches, [*case.options["numbers"]])
    observed.facts["traits"]["gradients"] = length_left(model)
    return observed


def length_left(model):
    """The gradients at the end, to distinguish wrong answers; never judged."""
    grads = [p.grad.norm() for p in model.parameters() if p.grad is not None]
    if not grads:
        return "none"
    return "short" if torch.stack(grads).norm() <= 1.001 else "long"


def expect(case):
    """The same in float64, with the gradients clipped by hand."""
    model = model_of(case, torch.float64).train()
    optimizer = torch.optim.AdamW(model.parameters())
    learned, losses = list(model.parameters()), []
    for rate, batch in zip(rates(case), case.options["batches"], strict=True):
        source, mask, decoder_input, targets = batch
        logs = model(source, decoder_input, mask).log_softmax(dim=-1)
        loss = -logs.gather(-1, targets[..., None])[targets != case["pad_id"]].mean()
        grads = torch.autograd.grad(loss, learned)
        length = torch.stack([grad.norm() for grad in grads]).norm()
        for p, grad in zip(learned, grads, strict=True):
            p.grad = grad * min(1.0, 1 / float(length + 1e-6))
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.step()
        losses.append(loss.item())
    out = torch.tensor(losses, dtype=case.options["dtype"])
    return {"out": out, **weights_after(model, case, [*case.options["numbers"]])}


@true_of("The first loss is right", credit=True, role="typical")
def first_loss(case, observed, expected):
    losses = observed.tensors.get("out")
    return losses is not None and losses.ndim == 1 and near(losses[:1], expected["out"][:1], 1e-4)


signs = {"warms_up": warms_up}
properties = (one_step_each, first_loss, falls, one_optimizer)
