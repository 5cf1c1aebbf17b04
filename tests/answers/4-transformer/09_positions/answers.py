"""Right and wrong answers for lesson 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn

# ---------------------------------------------------------------- TokenAndPosition


class BySlice(nn.Module):
    """Its tables are all there are; a text that is too long is refused."""

    def __init__(self, vocab_size, context_length, d_model):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context_length, d_model)

    def forward(self, ids):
        B, T = ids.size()
        if T > self.position.num_embeddings:
            raise ValueError(f"{T} tokens, but {self.position.num_embeddings} positions")
        return self.token(ids) + self.position.weight[:T].unsqueeze(0).expand(B, -1, -1)


class ByBuffer(BySlice):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.register_buffer("places", torch.arange(context_length), persistent=False)

    def forward(self, ids):
        places = self.places[: ids.shape[-1]].expand_as(ids)
        return self.token(ids).add(self.position(places))


class ByCumsum(BySlice):
    def forward(self, ids):
        return self.position(torch.ones_like(ids).cumsum(1) - 1) + self.token(ids)


class ByOneHot(BySlice):
    def forward(self, ids):
        hot = F.one_hot(ids.long(), self.token.num_embeddings).to(self.token.weight.dtype)
        return hot @ self.token.weight + self.position.weight[: ids.shape[1]]


class OwnParameters(nn.Module):
    """Tables that are no nn.Embedding, of the same spread."""

    class Table(nn.Module):
        def __init__(self, rows, width):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(rows, width))

    def __init__(self, vocab_size, context_length, d_model):
        super().__init__()
        self.token = self.Table(vocab_size, d_model)
        self.position = self.Table(context_length, d_model)

    def forward(self, ids):
        return F.embedding(ids, self.token.weight) + self.position.weight[None, : ids.shape[1]]


# ---------------------------------------------------------------- sinusoidal_positions


def by_loops(length, d_model):
    if d_model % 2 == 1:
        raise ValueError(f"{d_model} channels can't be paired")
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def by_exp_and_log(length, d_model):
    """As in PyTorch's own tutorial."""
    position = torch.arange(length).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    pe = torch.zeros(length, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def by_shifted_sine(length, d_model):
    """A cosine is a sine a quarter of a turn ahead."""
    channels = torch.arange(d_model)
    even = channels - channels % 2
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** (even / d_model)
    return torch.sin(angles + (channels % 2) * math.pi / 2).float()


def by_numpy(length, d_model):
    import numpy as np

    angles = np.arange(length)[:, None] / np.power(10000, np.arange(0, d_model, 2) / d_model)
    return torch.from_numpy(np.stack([np.sin(angles), np.cos(angles)], -1)).flatten(1).float()


def in_float32_by_power(length, d_model):
    i = torch.arange(d_model // 2, dtype=torch.float32)
    angles = torch.arange(length).float()[:, None] * torch.pow(10000.0, -2 * i / d_model)
    return torch.cat([angles.sin()[..., None], angles.cos()[..., None]], -1).view(length, d_model)


# ---------------------------------------------------------------- apply_rope


def rope_angles(x, base, first):
    D = x.shape[-1]
    rates = base ** (-torch.arange(0, D, 2, device=x.device) / D)
    return torch.arange(first, first + x.shape[-2], device=x.device)[:, None] * rates


def by_rotate_half(x, base=10000.0, offset=0):
    """As in GPT-J: x cos + (−b, a) sin, with each angle twice."""
    angles = rope_angles(x, base, offset).repeat_interleave(2, dim=-1)
    turned = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


def by_matrices(x, base=10000.0, offset=0):
    """A 2 × 2 matrix for each position and pair."""
    angles = rope_angles(x, base, offset)
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    pairs = x.unflatten(-1, (-1, 2))
    return (matrices.to(x.dtype) @ pairs[..., None]).squeeze(-1).flatten(-2)


def into_an_empty_tensor(x, base=10000.0, offset=0):
    if x.shape[-1] % 2:
        raise ValueError(f"{x.shape[-1]} channels can't be paired")
    angles = rope_angles(x, base, offset)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    out = torch.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return out


def token_by_token(x, base=10000.0, offset=0):
    T, D = x.shape[-2:]
    rows = []
    for t in range(T):
        pieces = []
        for i in range(D // 2):
            angle = (offset + t) * base ** (-2 * i / D)
            a, b = x[:, :, t, 2 * i], x[:, :, t, 2 * i + 1]
            pieces += [
                a * math.cos(angle) - b * math.sin(angle),
                a * math.sin(angle) + b * math.cos(angle),
            ]
        rows.append(torch.stack(pieces, -1))
    return torch.stack(rows, 2)


def twice(x, base=10000.0, offset=0):
    return into_an_empty_tensor(into_an_empty_tensor(x, base, offset), base, offset)


# ---------------------------------------------------------------- quizzes


def recall(**given):
    names = {"reads": "attention reads", "mixes": "out_proj mixes", "swapped": "the results"}
    right = {"reads": "norm1(x)", "mixes": "heads", "swapped": "swap"}
    return {names[k]: v for k, v in (right | given).items()}


RIGHT_REASONS = {
    "left padding, rotary": "the same",
    "a a b c, a b b c": "different",
    "at b": "different",
    "only keys rotated": "n",
    "same score": 15,
    "counted from the mask": (0, 0, 1, 1, 2),
}

RIGHT = {
    "TokenAndPosition": {
        "by slice": BySlice,
        "by buffer": ByBuffer,
        "by cumsum": ByCumsum,
        "by one-hot": ByOneHot,
        "own parameters": OwnParameters,
    },
    "sinusoidal_positions": {
        "by loops": by_loops,
        "by exp and log": by_exp_and_log,
        "by a shifted sine": by_shifted_sine,
        "by numpy": by_numpy,
        "in float32 by a power": in_float32_by_power,
    },
    "apply_rope": {
        "by rotating halves of pairs": by_rotate_half,
        "by matrices": by_matrices,
        "into an empty tensor": into_an_empty_tensor,
        "token by token": token_by_token,
    },
    "recall_09": {
        "other case": recall(reads="Norm1(x)", mixes="HEADS"),
        "blanks": recall(swapped=" swap "),
    },
    "why_positions": {
        "other case": RIGHT_REASONS | {"only keys rotated": "N"},
        "in another order": dict(reversed(RIGHT_REASONS.items())),
        "a whole number from a division": RIGHT_REASONS | {"same score": 15.0},
        "a list for a tuple": RIGHT_REASONS | {"counted from the mask": [0, 0, 1, 1, 2]},
    },
}

WRONG = {
    "sinusoidal_positions": {
        "drawn at random": (
            0,
            lambda length, d_model: nn.Embedding(length, d_model).weight.detach(),
        ),
    },
    "recall_09": {
        "all wrong": (0, recall(reads="x", mixes="tokens", swapped="stay")),
        "two wrong": (0, recall(mixes="texts", swapped="change")),
        "one left out": (0.25, {"attention reads": "norm1(x)", "out_proj mixes": "heads"}),
    },
    "why_positions": {
        "two wrong": (0.5, RIGHT_REASONS | {"at b": "the same", "only keys rotated": "m - n"}),
    },
}
