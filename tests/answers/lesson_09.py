"""Right and wrong answers for lesson 09."""

import math

import torch
import torch.nn.functional as F
from torch import nn

# ---------------------------------------------------------------- sinusoidal_positions


def refuse_odd(number):
    if number % 2 == 1:
        raise ValueError(f"{number} channels can't be paired")


def by_loops(length, d_model):
    refuse_odd(d_model)
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def by_exp_and_log(length, d_model):
    """As in PyTorch's own tutorial."""
    refuse_odd(d_model)
    position = torch.arange(length).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    pe = torch.zeros(length, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def by_shifted_sine(length, d_model):
    """A cosine is a sine a quarter of a turn ahead."""
    refuse_odd(d_model)
    channels = torch.arange(d_model)
    even = channels - channels % 2
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** (even / d_model)
    return torch.sin(angles + (channels % 2) * math.pi / 2).float()


def by_where(length, d_model):
    if d_model % 2 != 0:
        raise ValueError(d_model)
    channel = torch.arange(d_model, dtype=torch.float64)
    angles = torch.outer(
        torch.arange(length, dtype=torch.float64), 10000 ** (-(channel // 2) * 2 / d_model)
    )
    return torch.where(channel % 2 == 0, angles.sin(), angles.cos()).to(torch.float32)


def by_numpy(length, d_model):
    import numpy as np

    refuse_odd(d_model)
    angles = np.arange(length)[:, None] / np.power(10000, np.arange(0, d_model, 2) / d_model)
    return torch.from_numpy(np.stack([np.sin(angles), np.cos(angles)], -1)).flatten(1).float()


def by_steps(length, d_model):
    """Each row from the one before it, by a small rotation, in float64."""
    refuse_odd(d_model)
    rates = 10000.0 ** -(torch.arange(0, d_model, 2).double() / d_model)
    step = torch.complex(rates.cos(), rates.sin())
    points, rows = torch.ones_like(step), []
    for _ in range(length):
        rows.append(torch.stack([points.imag, points.real], -1).flatten())
        points = points * step
    return torch.stack(rows).float()


def in_float32_by_power(length, d_model):
    refuse_odd(d_model)
    i = torch.arange(d_model // 2, dtype=torch.float32)
    angles = torch.arange(length).float()[:, None] * torch.pow(10000.0, -2 * i / d_model)
    return torch.cat([angles.sin()[..., None], angles.cos()[..., None]], -1).view(length, d_model)


def _wave(change=lambda table: table, first=0, **named):
    def answer(length, d_model):
        refuse_odd(d_model)
        over, doubled, base = (named.get(n) for n in ("over", "doubled", "base"))
        even = torch.arange(0, d_model, 2).double() * (doubled or 1)
        angles = torch.arange(first, first + length)[:, None] / (base or 10000.0) ** (
            even / (over(d_model) if over else d_model)
        )
        return change(torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float())

    return answer


def _halves_from_one(length, d_model):
    refuse_odd(d_model)
    angles = torch.arange(1, length + 1)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], 1)


def _halves_half_exponent(length, d_model):
    refuse_odd(d_model)
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(d_model // 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], 1)


def _written_by_rows(length, d_model):
    """Even rows and odd rows, not channels."""
    refuse_odd(d_model)
    angles = torch.arange(length)[:, None] / 10000 ** (2 * (torch.arange(d_model) // 2) / d_model)
    table = angles.clone()
    table[0::2], table[1::2] = angles[0::2].sin(), angles[1::2].cos()
    return table


def _up_to_512(length, d_model):
    return by_exp_and_log(512, d_model)[:length]


def _in_half(length, d_model):
    """Angles in half precision."""
    refuse_odd(d_model)
    rates = (10000.0 ** -(torch.arange(0, d_model, 2) / d_model)).half()
    angles = torch.arange(length).half()[:, None] * rates
    return torch.stack([angles.float().sin(), angles.float().cos()], -1).flatten(1)


def _drawn(length, d_model):
    refuse_odd(d_model)
    return nn.Embedding(length, d_model).weight.detach()


def _kept_first(length, d_model, kept=[]):  # noqa: B006
    if not kept:
        kept.append(by_loops(max(length, 40), max(d_model + d_model % 2, 40)))
    refuse_odd(d_model)
    return kept[0][:length, :d_model].clone()


def _odd_rounded_up(length, d_model):
    return by_loops(length, d_model + d_model % 2)[:, :d_model]


def _odd_length_refused(length, d_model):
    if length % 2:
        raise ValueError(f"{length} must be even, and so must {d_model}")
    return by_loops(length, d_model)


def _tan(length, d_model):
    refuse_odd(d_model)
    return by_loops(length, d_model).roll(1, dims=1)


# ---------------------------------------------------------------- TokenAndPosition


class BySlice(nn.Module):
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
        T, limit = ids.shape[-1], len(self.places)
        if T > limit:
            raise ValueError(f"at most {limit} tokens fit, and {T} came")
        places = self.places[:T].expand_as(ids)
        return self.token(ids).add(self.position(places))


class ByCumsum(BySlice):
    def forward(self, ids):
        if not ids.shape[1] <= self.position.weight.shape[0]:
            raise ValueError(f"{ids.shape[1]} > {self.position.weight.shape[0]}")
        return self.position(torch.ones_like(ids).cumsum(1) - 1) + self.token(ids)


class ByOneHot(BySlice):
    def forward(self, ids):
        T, L = ids.shape[1], self.position.num_embeddings
        if T > L:
            raise ValueError(f"{T} tokens don't fit into {L}")
        hot = F.one_hot(ids.long(), self.token.num_embeddings).to(self.token.weight.dtype)
        return hot @ self.token.weight + self.position.weight[:T]


class ByLoop(BySlice):
    def forward(self, ids):
        if ids.shape[1] > len(self.position.weight):
            raise ValueError(f"{ids.shape[1]}, {len(self.position.weight)}")
        return torch.stack(
            [
                self.token.weight[ids[:, t].long()] + self.position.weight[t]
                for t in range(ids.shape[1])
            ],
            dim=1,
        )


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
        T, L = ids.shape[1], len(self.position.weight)
        if T > L:
            raise ValueError(f"T = {T} is more than context_length = {L}")
        return F.embedding(ids, self.token.weight) + self.position.weight[None, :T]


class _Checked(BySlice):
    """A right answer with a method to spoil."""

    def forward(self, ids):
        T, limit = ids.shape[1], self.position.num_embeddings
        if T > limit:
            raise ValueError(f"{T} tokens came in, at most {limit} fit")
        return self.embedded(ids, torch.arange(T, device=ids.device))

    def embedded(self, ids, places):
        return self.token(ids) + self.position(places)


class _FromOneWrapped(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) + self.position((places + 1) % self.position.num_embeddings)


class _FromOneClamped(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, (places + 1).clamp(max=self.position.num_embeddings - 1))


class _Subtracted(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) - self.position(places)


class _ScaledBoth(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, places) * self.token.embedding_dim**0.5


class _ScaledFromOne(_Checked):
    def embedded(self, ids, places):
        places = (places + 1).clamp(max=self.position.num_embeddings - 1)
        return self.token(ids) * self.token.embedding_dim**0.5 + self.position(places)


class _TokenTableForBoth(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) + self.token(places % self.token.num_embeddings)


class _PositionAfterPadding(_Checked):
    """Word 0 is taken for padding and not counted."""

    def embedded(self, ids, places):
        places = ((ids != 0).long().cumsum(1) - 1).clamp(min=0)
        return self.token(ids) + self.position(places)


class _ZeroRowCleared(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, places).masked_fill((ids == 0)[..., None], 0.0)


class _SumOverTokens(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) + self.position(places).cumsum(0)


class _Detached(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) + self.position(places).detach()


class _MaxNorm(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.token = nn.Embedding(vocab_size, d_model, max_norm=1.0)


class _ByFrequency(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.token = nn.Embedding(vocab_size, d_model, scale_grad_by_freq=True)


class _KeepsPlaces(_Checked):
    """The positions of the first text are kept for all."""

    places = None

    def embedded(self, ids, places):
        if self.places is None:
            self.places = places
        return super().embedded(ids, self.places[: ids.shape[1]])


class _PlainAttribute(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.places = torch.arange(context_length)

    def embedded(self, ids, places):
        return self.token(ids) + self.position(self.places[: ids.shape[1]])


class _AlsoAProjection(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.projection = nn.Linear(d_model, d_model)


class _SaysNoLimit(_Checked):
    def forward(self, ids):
        if ids.shape[1] > self.position.num_embeddings:
            raise ValueError(f"{ids.shape[1]} tokens are too many")
        return super().forward(ids)


class _RefusesByNumber(_Checked):
    """All tokens of the batch together are compared with the limit."""

    def forward(self, ids):
        limit = self.position.num_embeddings
        if ids.numel() > limit:
            raise ValueError(f"{ids.shape[1]} tokens came in, at most {limit} fit")
        return super().forward(ids)


class _Waves(_Checked):
    def embedded(self, ids, places):
        return self.token(ids) + by_loops(len(places), self.token.embedding_dim + 1)[:, :-1]


class _RandomPlaces(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, places[torch.randperm(len(places))])


class _InTrainingOnly(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, places) if self.training else self.token(ids)


class _ZeroPositions(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        nn.init.zeros_(self.position.weight)


class _SetsTheSeed(_Checked):
    def __init__(self, vocab_size, context_length, d_model):
        torch.manual_seed(0)
        super().__init__(vocab_size, context_length, d_model)


class _InHalfPrecision(_Checked):
    def embedded(self, ids, places):
        return super().embedded(ids, places).half().to(self.token.weight.dtype)


class _AlsoAGain(_Checked):
    """A parameter too many, which begins at random."""

    def __init__(self, vocab_size, context_length, d_model):
        super().__init__(vocab_size, context_length, d_model)
        self.gain = nn.Parameter(torch.randn(d_model))

    def embedded(self, ids, places):
        return super().embedded(ids, places) * self.gain


class _OverwritesIds(_Checked):
    def embedded(self, ids, places):
        out = super().embedded(ids, places)
        ids.zero_()
        return out


# ---------------------------------------------------------------- apply_rope


def _angles(x, base=10000.0, first=0):
    D = x.shape[-1]
    refuse_odd(D)
    rates = base ** (-torch.arange(0, D, 2, device=x.device) / D)
    return torch.arange(first, first + x.shape[-2], device=x.device)[:, None] * rates


def by_rotate_half(x, base=10000.0):
    """As in GPT-J: x cos + (−b, a) sin, with each angle twice."""
    angles = _angles(x, base).repeat_interleave(2, dim=-1)
    turned = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


def by_matrices(x, base=10000.0):
    """A 2 × 2 matrix for each position and pair."""
    angles = _angles(x, base)
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    pairs = x.unflatten(-1, (-1, 2))
    return (matrices.to(x.dtype) @ pairs[..., None]).squeeze(-1).flatten(-2)


def into_an_empty_tensor(x, base=10000.0):
    angles = _angles(x, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    out = torch.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return out


def token_by_token(x, base=10000.0):
    T, D = x.shape[-2:]
    if D % 2:
        raise ValueError(f"{D} is odd")
    rows = []
    for t in range(T):
        pieces = []
        for i in range(D // 2):
            angle = t * base ** (-2 * i / D)
            a, b = x[:, :, t, 2 * i], x[:, :, t, 2 * i + 1]
            pieces += [
                a * math.cos(angle) - b * math.sin(angle),
                a * math.sin(angle) + b * math.cos(angle),
            ]
        rows.append(torch.stack(pieces, -1))
        if t > 50:  # the rest of a long text at once
            return into_an_empty_tensor(x, base)
    return torch.stack(rows, 2)


def through_halves(x, base=10000.0):
    """Llama's way, on channels put into another order and back."""
    angles = _angles(x, base).repeat(1, 2)
    order = torch.cat([torch.arange(0, x.shape[-1], 2), torch.arange(1, x.shape[-1], 2)])
    halves = x[..., order.to(x.device)]
    a, b = halves.chunk(2, -1)
    turned = halves * angles.cos().to(x.dtype) + torch.cat([-b, a], -1) * angles.sin().to(x.dtype)
    return turned[..., order.argsort().to(x.device)]


def _llama(x, base=10000.0):
    angles = _angles(x, base).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


def _rope(change, first=0):
    """`change(a, b, cos, sin)` gives the two new channels."""

    def answer(x, base=10000.0):
        angles = _angles(x, base, first)
        pairs = change(
            x[..., ::2], x[..., 1::2], angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        )
        return torch.stack(pairs, -1).flatten(-2)

    return answer


def _right_pair(a, b, cos, sin):
    return a * cos - b * sin, a * sin + b * cos


def _llama_from_one(x, base=10000.0):
    return _llama(F.pad(x, (0, 0, 1, 0)), base)[:, :, 1:]


def _last_channel_left(x, base=10000.0):
    even = x.shape[-1] // 2 * 2
    return torch.cat([into_an_empty_tensor(x[..., :even], base), x[..., even:]], -1)


def _half_of_the_channels(x, base=10000.0):
    refuse_odd(x.shape[-1])
    half = x.shape[-1] // 4 * 2
    return torch.cat([into_an_empty_tensor(x[..., :half], base), x[..., half:]], -1)


def _tokens_second(x, base=10000.0):
    """Reads x as (B, T, H, D)."""
    return into_an_empty_tensor(x.transpose(1, 2), base).transpose(1, 2)


def _flat(x, base=10000.0):
    """All heads as one width."""
    B, H, T, D = x.shape
    refuse_odd(D)
    wide = x.transpose(1, 2).reshape(B, 1, T, H * D)
    return into_an_empty_tensor(wide, base).reshape(B, T, H, D).transpose(1, 2)


def _viewed_flat(x, base=10000.0):
    """Heads and tokens as one long text."""
    return into_an_empty_tensor(x.flatten(1, 2)[:, None], base).reshape(x.shape)


def _twice(x, base=10000.0):
    return into_an_empty_tensor(into_an_empty_tensor(x, base), base)


def _up_to_1024(x, base=10000.0):
    return torch.cat([into_an_empty_tensor(x[..., :1024, :], base), x[..., 1024:, :]], -2)


_kept = {}


def _keeps_angles(x, base=10000.0):
    """Angles are kept by size, whatever the base is."""
    size = x.shape[-2:]
    if size not in _kept:
        _kept[size] = _angles(x, base)
    refuse_odd(size[1])
    cos, sin = (v.to(x.dtype) for v in (_kept[size].cos(), _kept[size].sin()))
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def _angles_in_the_dtype(x, base=10000.0):
    """Right in float32; for bfloat16 inputs positions beyond 256 coincide."""
    return into_an_empty_tensor(x.half().to(x.dtype), base)


def _from_one_backwards(x, base=10000.0):
    return _rope(lambda a, b, cos, sin: (a * cos + b * sin, b * cos - a * sin), first=1)(x, base)


def _half_width_from_one(x, base=10000.0):
    refuse_odd(x.shape[-1])
    D = x.shape[-1]
    rates = base ** (-torch.arange(0, D, 2) / (D // 2))
    angles = torch.arange(1, x.shape[-2] + 1)[:, None] * rates
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack(_right_pair(a, b, angles.cos(), angles.sin()), -1).flatten(-2)


def _other_default(x, base=1e3):
    return into_an_empty_tensor(x, base)


def _whole_exponents(x, base=10000.0):
    """`//` in the exponent."""
    refuse_odd(x.shape[-1])
    return into_an_empty_tensor(x, base=1.0) * 1.0


def _first_text_only(x, base=10000.0):
    return torch.cat([into_an_empty_tensor(x[:1], base), x[1:]])


def _each_head_its_rates(x, base=10000.0):
    heads = [into_an_empty_tensor(x[:, h : h + 1], base * (h + 1)) for h in range(x.shape[1])]
    return torch.cat(heads, 1)


def _without_gradient(x, base=10000.0):
    with torch.no_grad():
        return into_an_empty_tensor(x, base)


def _normed(x, base=10000.0):
    return into_an_empty_tensor(F.normalize(x, dim=-1), base)


def _rows_of_waves(x, base=10000.0):
    return x + by_loops(x.shape[-2], x.shape[-1]).to(x)


# ---------------------------------------------------------------- quizzes


def _recall(**given):
    names = {"reads": "attention reads", "mixes": "out_proj mixes", "swapped": "the results"}
    right = {"reads": "norm1(x)", "mixes": "heads", "swapped": "swap"}
    return {names[k]: v for k, v in (right | given).items()}


RIGHT_REASONS = {
    "all positions + 7": "rotary",
    "at c": "the same",
    "at b": "different",
    "rotated": "Q and K",
    "same score": 15,
    "counted from the mask": (0, 0, 1, 1, 2),
}

RIGHT = {
    "sinusoidal_positions": {
        "by loops": by_loops,
        "by exp and log": by_exp_and_log,
        "by a shifted sine": by_shifted_sine,
        "by where": by_where,
        "by numpy": by_numpy,
        "row by row": by_steps,
        "in float32 by a power": in_float32_by_power,
    },
    "TokenAndPosition": {
        "by slice": BySlice,
        "by buffer": ByBuffer,
        "by cumsum": ByCumsum,
        "by one-hot": ByOneHot,
        "by loop": ByLoop,
        "own parameters": OwnParameters,
    },
    "apply_rope": {
        "by rotating halves of pairs": by_rotate_half,
        "by matrices": by_matrices,
        "into an empty tensor": into_an_empty_tensor,
        "token by token": token_by_token,
        "through halves": through_halves,
    },
    "recall_09": {
        "other case": _recall(reads="Norm1(x)", mixes="HEADS"),
        "blanks": _recall(swapped=" swap "),
    },
    "why_positions": {
        "other case": RIGHT_REASONS | {"rotated": "q and k"},
        "in another order": dict(reversed(RIGHT_REASONS.items())),
        "a list for a tuple": RIGHT_REASONS | {"counted from the mask": [0, 0, 1, 1, 2]},
    },
}

WRONG = {
    "sinusoidal_positions": {
        "the first row everywhere": lambda length, d_model: by_where(length, d_model)[:1].repeat(
            length, 1
        ),
        "halves from one": _halves_from_one,
        "halves with half the exponent": _halves_half_exponent,
        "written by rows": _written_by_rows,
        "up to 512 positions": _up_to_512,
        "in half precision": _in_half,
        "drawn at random": _drawn,
        "the first table is kept": _kept_first,
        "odd rounded up": _odd_rounded_up,
        "odd length refused": _odd_length_refused,
        "rolled by one channel": _tan,
        "from one, half the exponent": _wave(first=1, doubled=0.5),
        "from one, base 1000": _wave(first=1, base=1000.0),
        "one too many in the exponent": _wave(over=lambda C: C - 1),
        "half width below": _wave(over=lambda C: C // 2),
        "exponents to the end, from one": _wave(first=1, over=lambda C: max(C - 2, 1)),
        "scaled by the root": _wave(lambda table: table * table.shape[1] ** 0.5),
        "normed": _wave(lambda table: F.normalize(table, dim=-1)),
        "as an integer": _wave(lambda table: table.long()),
        "in bfloat16": _wave(lambda table: table.bfloat16()),
        "signs turned": _wave(lambda table: -table),
        "channels backwards": _wave(lambda table: table.flip(1)),
        "a list": _wave(lambda table: table.tolist()),
        "a parameter": _wave(nn.Parameter),
        "a parameter from one": _wave(nn.Parameter, first=1),
        "rounded": _wave(lambda table: (table * 1e4).round() / 1e4),
        "i from one": _wave(lambda table: table[:, 2:] if table.shape[1] > 2 else table * 0 + 1),
        "zeros": _wave(torch.zeros_like),
    },
    "TokenAndPosition": {
        "from one, wrapped": _FromOneWrapped,
        "from one, clamped": _FromOneClamped,
        "subtracted": _Subtracted,
        "both scaled": _ScaledBoth,
        "scaled and from one": _ScaledFromOne,
        "token's table for both": _TokenTableForBoth,
        "word 0 is not counted": _PositionAfterPadding,
        "word 0 is cleared": _ZeroRowCleared,
        "positions add up": _SumOverTokens,
        "positions detached": _Detached,
        "max_norm": _MaxNorm,
        "gradients by frequency": _ByFrequency,
        "positions of the first text": _KeepsPlaces,
        "plain attribute": _PlainAttribute,
        "a projection besides": _AlsoAProjection,
        "says no limit": _SaysNoLimit,
        "refuses by number of ids": _RefusesByNumber,
        "waves": _Waves,
        "random places": _RandomPlaces,
        "overwrites ids": _OverwritesIds,
        "in training only": _InTrainingOnly,
        "positions begin at zero": _ZeroPositions,
        "sets the seed": _SetsTheSeed,
        "through half precision": _InHalfPrecision,
        "a gain besides": _AlsoAGain,
    },
    "apply_rope": {
        "Llama's halves, from one": _llama_from_one,
        "last channel left": _last_channel_left,
        "half of the channels": _half_of_the_channels,
        "tokens second": _tokens_second,
        "heads as one width": _flat,
        "heads as one text": _viewed_flat,
        "twice": _twice,
        "up to 1,024 tokens": _up_to_1024,
        "keeps angles by size": _keeps_angles,
        "through half precision": _angles_in_the_dtype,
        "from one, backwards": _from_one_backwards,
        "half width, from one": _half_width_from_one,
        "normed first": _normed,
        "another default": _other_default,
        "whole exponents": _whole_exponents,
        "first text only": _first_text_only,
        "each head its rates": _each_head_its_rates,
        "without gradient": _without_gradient,
        "waves added": _rows_of_waves,
        "not at all": lambda x, base=10000.0: x.clone(),
        "x itself": lambda x, base=10000.0: x,
        "cosine in both": _rope(lambda a, b, cos, sin: (a * cos - b * cos, a * cos + b * cos)),
        "a and b swapped": _rope(lambda a, b, cos, sin: (a * sin + b * cos, a * cos - b * sin)),
        "reflected": _rope(lambda a, b, cos, sin: (a * cos + b * sin, a * sin - b * cos)),
        "second channel left": _rope(lambda a, b, cos, sin: (a * cos - b * sin, b + 0 * cos)),
        "sum kept": _rope(lambda a, b, cos, sin: (a + a * cos - b * sin, b + a * sin + b * cos)),
    },
    "recall_09": {
        "all wrong": _recall(reads="x", mixes="tokens", swapped="stay"),
        "two wrong": _recall(mixes="texts", swapped="change"),
        "numbers": _recall(reads=1, mixes=2, swapped=3),
        "one left out": {"attention reads": "norm1(x)", "out_proj mixes": "heads"},
    },
    "why_positions": {
        "two wrong": RIGHT_REASONS | {"at c": "different", "rotated": "Q, K and V"},
        "a float": RIGHT_REASONS | {"same score": 15.0},
        "the distance": RIGHT_REASONS | {"same score": 5},
        "padding counted, then clamped": RIGHT_REASONS | {"counted from the mask": (0, 0, 1, 2, 2)},
        "another word": RIGHT_REASONS | {"all positions + 7": "relative"},
        "one left out": {k: v for k, v in RIGHT_REASONS.items() if k != "at b"},
    },
}
