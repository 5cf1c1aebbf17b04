"""Right and wrong answers for lesson 08."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention as finished
from course_utils import transformer as course
from course_utils.attention import MultiHeadAttention

# ---------------------------------------------------------------- LayerNorm


class Plain(nn.Module):
    """The plain answer, in steps that the others replace."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.scale * self.normed(x) + self.shift

    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / ((x**2).mean(-1, keepdim=True) + self.eps).sqrt()


class ByVarMean(Plain):
    def normed(self, x):
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.eps)


class ByStd(Plain):
    def normed(self, x):
        std = x.std(-1, keepdim=True, correction=0)
        return (x - x.mean(-1, keepdim=True)) / torch.hypot(
            std, torch.tensor(self.eps, dtype=x.dtype, device=x.device).sqrt()
        )


class ByProduct(Plain):
    """The mean is subtracted by one matrix product."""

    def normed(self, x):
        C = x.shape[-1]
        centring = torch.eye(C, dtype=x.dtype, device=x.device) - 1 / C
        x = x @ centring
        return x / (x.square().sum(-1, keepdim=True) / C + self.eps) ** 0.5


class ByLength(Plain):
    """A token's length is √C, all but for eps."""

    def normed(self, x):
        C = x.size(-1)
        x = x - x.sum(-1).unsqueeze(-1) / C
        return x * math.sqrt(C) / (x.norm(dim=-1, keepdim=True) ** 2 + C * self.eps).sqrt()


class WithMath(Plain):
    """Kept under other names too, by `torch.addcmul`."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.d_model = d_model
        self.weight, self.bias = self.scale, self.shift

    def forward(self, x):
        return torch.addcmul(self.bias, self.weight, self.normed(x))


class TokenByToken(Plain):
    def forward(self, x):
        rows = [
            self.scale * ((row - row.mean()) / (row.var(unbiased=False) + self.eps).sqrt())
            + self.shift
            for row in x.reshape(-1, x.shape[-1])
        ]
        return torch.stack(rows).reshape(x.shape)


class Bessel(Plain):
    """The unbiased variance, brought back; one channel has none."""

    def normed(self, x):
        C = x.shape[-1]
        variance = x.var(-1, keepdim=True) * (C - 1) / C if C > 1 else torch.zeros_like(x)
        return (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt()


class EpsAsBuffer(Plain):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.register_buffer("small", torch.tensor(eps), persistent=False)

    def normed(self, x):
        mean = torch.mean(x, dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
        return torch.div(x - mean, torch.sqrt(variance + self.small.to(x.dtype)))


class MeanOfSquares(Plain):
    """The mean of the squares less the square of the mean."""

    def normed(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x**2).mean(-1, keepdim=True) - mean**2
        return (x - mean) / torch.sqrt(variance + self.eps)


class EpsSquared(Plain):
    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / ((x**2).mean(-1, keepdim=True) + self.eps**2).sqrt()


class EpsTwice(Plain):
    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (((x**2).mean(-1, keepdim=True) + self.eps).sqrt() + self.eps)


class EpsAbove(Plain):
    """In the numerator as well."""

    def normed(self, x):
        return super().normed(x) + self.eps


class EpsClamped(Plain):
    """The variance is clamped from below instead."""

    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (x**2).mean(-1, keepdim=True).clamp(min=self.eps).sqrt()


class NanToZero(Plain):
    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return (x / (x**2).mean(-1, keepdim=True).sqrt()).nan_to_num()


class EpsDefault6(Plain):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)


class MinMax(Plain):
    def normed(self, x):
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        return (x - low) / (high - low + self.eps)


class MedianCentred(Plain):
    def normed(self, x):
        x = x - x.median(-1, keepdim=True).values
        return x / (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt()


class LengthOne(Plain):
    def normed(self, x):
        x = x - x.mean(-1, keepdim=True)
        return F.normalize(x, dim=-1)


class UnbiasedOverTokens(Plain):
    def normed(self, x):
        return (x - x.mean(-2, keepdim=True)) / (x.var(-2, keepdim=True) + self.eps).sqrt()


class UnbiasedWithoutEps(Plain):
    def normed(self, x):
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


class UnbiasedAndShiftForgotten(Plain):
    def forward(self, x):
        return self.scale * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + self.eps)


class MeanOverTokensOnly(Plain):
    """Mixed dimensions: the mean over tokens, the variance over channels."""

    def normed(self, x):
        variance = x.var(-1, keepdim=True, correction=0)
        dim = -2 if x.dim() > 1 else -1
        return (x - x.mean(dim, keepdim=True)) / (variance + self.eps).sqrt()


class CausalMean(Plain):
    """Over the tokens so far."""

    def normed(self, x):
        if x.dim() < 2:
            return super().normed(x)
        count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype, device=x.device)[:, None]
        mean = x.mean(-1, keepdim=True).cumsum(-2) / count
        return (x - mean) / (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt()


class OnePlusScale(Plain):
    """As some models have it: scale begins at 0 and 1 is added."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.scale = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return (1 + self.scale) * self.normed(x) + self.shift


class Tanh(Plain):
    def normed(self, x):
        return torch.tanh(super().normed(x))


class Running(Plain):
    """In evaluation with statistics of an earlier call."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.register_buffer("mean", torch.zeros(()))

    def normed(self, x):
        if self.training:
            self.mean = x.detach().mean()
            return super().normed(x)
        return super().normed(x) + 0.01 * self.mean.to(x.dtype)


class BuiltIn(Plain):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.scale, self.shift, self.eps)


class ByGroupNorm(Plain):
    def forward(self, x):
        C = x.shape[-1]
        rows = F.group_norm(x.reshape(-1, C, 1), 1, self.scale, self.shift, self.eps)
        return rows.reshape(x.shape)


class FloatCast(Plain):
    def forward(self, x):
        return super().forward(x.float())


class ThreeDOnly(Plain):
    def forward(self, x):
        B, T, C = x.shape
        return super().forward(x).view(B, T, C)


class FixedWidth(Plain):
    def normed(self, x):
        x = x - x.sum(-1, keepdim=True) / 768
        return x / ((x**2).sum(-1, keepdim=True) / 768 + self.eps).sqrt()


class RoundedMean(Plain):
    def normed(self, x):
        x = x - x.mean(-1, keepdim=True).round(decimals=2)
        return x / ((x**2).mean(-1, keepdim=True) + self.eps).sqrt()


class MeanSquareOfX(Plain):
    """The mean is subtracted, the spread is that of x as it was."""

    def normed(self, x):
        spread = ((x**2).mean(-1, keepdim=True) + self.eps).sqrt()
        return (x - x.mean(-1, keepdim=True)) / spread


class PositiveScale(Plain):
    def forward(self, x):
        return self.scale.abs() * self.normed(x) + self.shift


class LearnedEps(Plain):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.eps = nn.Parameter(torch.tensor(eps))


class AlsoAGain(Plain):
    """A parameter too many, which begins at random."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gain = nn.Parameter(torch.randn(d_model))

    def forward(self, x):
        return super().forward(x) * self.gain


# ---------------------------------------------------------------- gelu


def gelu_by_power(x):
    inner = (2 / math.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3))
    return x * (torch.tanh(inner) + 1) / 2


def gelu_by_factor(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))


def gelu_by_sigmoid(x):
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def gelu_as_published(x):
    """The widely copied line, with a root in float32."""
    factor = torch.sqrt(torch.tensor(2.0 / torch.pi, device=x.device))
    return 0.5 * x * (1 + torch.tanh(factor * (x + 0.044715 * torch.pow(x, 3))))


def gelu_by_exp(x):
    inner = math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + torch.exp(-inner.clamp(-80, 80)))


def gelu_by_sinh(x):
    """Both halves of a sum."""
    share = torch.tanh(math.sqrt(2 / math.pi) * torch.addcmul(x, x * x, x, value=0.044715))
    return torch.lerp(torch.zeros_like(x), x, (share + 1) / 2)


class Curve:
    """An object that is called."""

    def __call__(self, x):
        return gelu_by_factor(x)


def gelu_quick(x):
    return x * torch.sigmoid(1.7 * x)


def gelu_cut(x):
    return torch.where(x.abs() > 3, x.relu(), gelu_by_factor(x))


def gelu_rough(x):
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.0447 * x**3)))


def gelu_cubed_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * x) ** 3)


def gelu_divided(x):
    return 0.5 * x * (1 + torch.tanh((x + 0.044715 * x**3) / math.sqrt(2 / math.pi)))


def gelu_pi_over(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2) / math.pi * (x + 0.044715 * x**3)))


def gelu_square_and_no_half(x):
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**2)))


def gelu_cubed_and_no_root(x):
    return 0.5 * x * (1 + torch.tanh(2 / math.pi * (x + 0.044715 * x) ** 3))


def gelu_exact_without_root(x):
    return 0.5 * x * (1 + torch.erf(x))


def gelu_minus(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x - 0.044715 * x**3)))


def gelu_abs(x):
    return gelu_by_factor(x).abs()


def gelu_of_abs(x):
    return gelu_by_factor(x.abs())


def gelu_precedence(x):
    return 0.5 * x * 1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def gelu_leaky(x):
    return F.leaky_relu(x, 0.01)


def gelu_built_in(x):
    return F.gelu(x, approximate="tanh")


def gelu_module(x):
    return nn.GELU("tanh")(x)


def gelu_elu(x):
    return F.elu(x)


def gelu_softplus(x):
    return F.softplus(x)


def gelu_rounded(x):
    return gelu_by_factor(x).round(decimals=4)


# ---------------------------------------------------------------- FeedForward


class Wide(nn.Module):
    """The plain answer, in steps."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_model * expansion)
        self.contract = nn.Linear(d_model * expansion, d_model)
        self.dropout = nn.Dropout(dropout)

    def bend(self, wide):
        return gelu_by_factor(wide)

    def forward(self, x):
        return self.dropout(self.contract(self.bend(self.expand(x))))


class WithCourseGelu(Wide):
    def bend(self, wide):
        return course.gelu(wide)


class HearsNothing(Wide):
    def forward(self, x):
        return super().forward(torch.zeros_like(x))


class ByFunctional(Wide):
    def forward(self, x):
        wide = F.linear(x, self.expand.weight, self.expand.bias)
        narrow = F.linear(self.bend(wide), self.contract.weight, self.contract.bias)
        return F.dropout(narrow, self.dropout.p, self.training)


class InSequence(Wide):
    """The names are kept, the order is nn.Sequential's."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model, expansion, dropout)
        bend = nn.Module()
        bend.forward = gelu_by_power
        self.steps = nn.Sequential(self.expand, bend, self.contract, self.dropout)

    def forward(self, x):
        return self.steps(x)


class ByEinsum(Wide):
    def forward(self, x):
        wide = torch.einsum("btc,wc->btw", x, self.expand.weight) + self.expand.bias
        out = torch.einsum("btw,cw->btc", self.bend(wide), self.contract.weight)
        return self.dropout(out + self.contract.bias)


class Unrolled(Wide):
    """A token at a time."""

    def forward(self, x):
        tokens = [self.contract(self.bend(self.expand(token))) for token in x.unbind(1)]
        return self.dropout(torch.stack(tokens, dim=1))


class OwnDraw(Wide):
    """Dropout by hand, without its module."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model, expansion)
        self.p = dropout

    def forward(self, x):
        out = self.contract(self.bend(self.expand(x)))
        if not self.training or not self.p:
            return out
        return out * (torch.rand_like(out) >= self.p) / (1 - self.p)


class SiluInside(Wide):
    def bend(self, wide):
        return F.silu(wide)


class TanhInside(Wide):
    def bend(self, wide):
        return torch.tanh(wide)


class LeakyInside(Wide):
    def bend(self, wide):
        return F.leaky_relu(wide, 0.1)


class ReluAndDroppedInside(Wide):
    def forward(self, x):
        return self.contract(self.dropout(self.expand(x).relu()))


class ExactAndResidual(Wide):
    def forward(self, x):
        wide = self.expand(x)
        return x + self.dropout(self.contract(0.5 * wide * (1 + torch.erf(wide / 2**0.5))))


class FourAlways(Wide):
    """And no dropout."""

    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model)


class DropsInput(Wide):
    def forward(self, x):
        return self.contract(self.bend(self.expand(self.dropout(x))))


class DropsTokens(Wide):
    """Whole tokens are dropped together."""

    def forward(self, x):
        out = self.contract(self.bend(self.expand(x)))
        return out * self.dropout(torch.ones_like(out[..., :1]))


class DropsTexts(Wide):
    def forward(self, x):
        out = self.contract(self.bend(self.expand(x)))
        return out * self.dropout(torch.ones_like(out[:1]))


class DropsWithoutScale(Wide):
    def forward(self, x):
        out = self.contract(self.bend(self.expand(x)))
        return out * (torch.rand_like(out) >= self.dropout.p) if self.training else out


class DropsBeforeBias(Wide):
    def forward(self, x):
        out = self.bend(self.expand(x)) @ self.contract.weight.mT
        return self.dropout(out) + self.contract.bias


class ThreeLayers(Wide):
    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__(d_model, expansion, dropout)
        wide = d_model * expansion
        self.middle = nn.Linear(wide, wide)

    def forward(self, x):
        return self.dropout(self.contract(self.bend(self.middle(self.bend(self.expand(x))))))


class Gated(Wide):
    def forward(self, x):
        wide = self.expand(x)
        return self.dropout(self.contract(self.bend(wide) * wide))


class SoftmaxInside(Wide):
    def bend(self, wide):
        return super().bend(wide).softmax(-1)


class PairOut(Wide):
    def forward(self, x):
        return super().forward(x), None


class BuiltInGelu(Wide):
    def bend(self, wide):
        return F.gelu(wide, approximate="tanh")


class OtherNames(nn.Module):
    def __init__(self, d_model, expansion=4, dropout=0.0):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_model * expansion)
        self.fc2 = nn.Linear(d_model * expansion, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.fc2(gelu_by_factor(self.fc1(x))))


class NoDropoutAndBentTwice(Wide):
    def forward(self, x):
        return self.bend(self.contract(self.bend(self.expand(x))))


# ---------------------------------------------------------------- TransformerBlock


class Wired(nn.Module):
    """The plain answer, in steps."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        self.norm1, self.norm2 = Plain(d_model), ByVarMean(d_model)
        self.attention = self.make_attention(d_model, num_heads, context_length, dropout, qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = Wide(d_model, 4, dropout)

    def make_attention(self, d_model, num_heads, context_length, dropout, qkv_bias):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, dropout, qkv_bias)

    def listen(self, x, pad_mask):
        return self.dropout(self.attention(self.norm1(x), pad_mask))

    def think(self, x):
        return self.feed_forward(self.norm2(x))

    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        return x + self.think(x)


class ByShortcut(Wired):
    """As a book has it, with the shortcut kept under a name."""

    def forward(self, x, pad_mask=None):
        shortcut = x
        x = self.norm1(x)
        x = self.attention(x, pad_mask)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.norm2(x)
        x = self.feed_forward(x)
        return shortcut.add(x)


class FromCourse(Wired):
    """From the finished parts."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.norm1, self.norm2 = course.LayerNorm(d_model), course.LayerNorm(d_model)
        self.feed_forward = course.FeedForward(d_model, dropout=dropout)


class Summed(Wired):
    """The stream as a list of what was written into it."""

    def forward(self, x, pad_mask=None):
        written = [x]
        written.append(self.listen(sum(written), pad_mask))
        written.append(self.think(torch.stack(written).sum(0)))
        return torch.stack(written).sum(0)


class OwnAttention(Wired):
    """Attention by PyTorch's operator, where that is welcome."""

    class Attention(nn.Module):
        def __init__(self, C, H, length, dropout, qkv_bias):
            super().__init__()
            if C % H:
                raise ValueError(f"{C} channels, {H} heads")
            self.H, self.length = H, length
            self.query = nn.Linear(C, C, bias=qkv_bias)
            self.key = nn.Linear(C, C, bias=qkv_bias)
            self.value = nn.Linear(C, C, bias=qkv_bias)
            self.out_proj = nn.Linear(C, C)
            self.p = dropout

        def forward(self, x, pad_mask=None):
            B, T, C = x.shape
            if T > self.length:
                raise ValueError(f"{T} tokens, {self.length} fit")
            q, k, v = (
                p(x).view(B, T, self.H, -1).transpose(1, 2)
                for p in (self.query, self.key, self.value)
            )
            seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            if pad_mask is not None:
                seen = seen & ~pad_mask[:, None, None, :]
            scores = q @ k.mT / math.sqrt(C // self.H)
            scores = scores.masked_fill(~seen, torch.finfo(x.dtype).min)
            weights = scores.softmax(-1) * seen
            weights = F.dropout(weights, self.p, self.training)
            return self.out_proj((weights @ v).transpose(1, 2).reshape(B, T, C))

    def make_attention(self, *args):
        return self.Attention(*args)


class OneDropout(Wired):
    """One dropout module serves both branches."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.feed_forward.dropout = self.dropout


class ByLambda(Wired):
    def forward(self, x, pad_mask=None):
        for branch in (lambda t: self.listen(t, pad_mask), self.think):
            x = torch.add(x, branch(x))
        return x


class SkipsWhatIsDropped(Wired):
    """The second branch's dropout is the block's, the network's own is made without."""

    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.feed_forward = Wide(d_model)

    def think(self, x):
        return self.dropout(super().think(x))


class PostNormWithoutMask(Wired):
    def forward(self, x, pad_mask=None):
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.feed_forward(x))


class ParallelDroppedTwice(Wired):
    def forward(self, x, pad_mask=None):
        return x + self.listen(x, pad_mask) + self.dropout(self.think(x))


class NormAfterAndBefore(Wired):
    """Norms on both sides of a branch."""

    def listen(self, x, pad_mask):
        return self.norm1(super().listen(x, pad_mask))

    def think(self, x):
        return self.norm2(super().think(x))


class FinalNorm(Wired):
    def forward(self, x, pad_mask=None):
        return self.norm2(super().forward(x, pad_mask))


class NormedStreamSecondOnly(Wired):
    """The second residual begins at x normed by the first norm."""

    def forward(self, x, pad_mask=None):
        normed = self.norm1(x)
        middle = x + self.dropout(self.attention(normed, pad_mask))
        return normed + self.think(middle)


class BranchesSwapped(Wired):
    """The network first, and norms swapped with it: only names show it."""

    def forward(self, x, pad_mask=None):
        x = x + self.feed_forward(self.norm1(x))
        return x + self.dropout(self.attention(self.norm2(x), pad_mask))


class Gates(Wired):
    """Learned gates on the branches."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gate = nn.Parameter(torch.ones(2))

    def forward(self, x, pad_mask=None):
        x = x + self.gate[0] * self.listen(x, pad_mask)
        return x + self.gate[1] * self.think(x)


class ScaledDown(Wired):
    def forward(self, x, pad_mask=None):
        x = (x + self.listen(x, pad_mask)) / math.sqrt(2)
        return (x + self.think(x)) / math.sqrt(2)


class PaddingInverted(Wired):
    """And the first norm forgotten."""

    def listen(self, x, pad_mask):
        mask = None if pad_mask is None else ~pad_mask
        return self.dropout(self.attention(x, mask))


class PaddingToNetwork(Wired):
    """What the network adds to padded tokens is cleared."""

    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        added = self.think(x)
        return x + (added if pad_mask is None else added.masked_fill(pad_mask[..., None], 0.0))


class OneNormAndNoSecondSum(Wired):
    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        return self.feed_forward(self.norm1(x))


class DropsEverything(Wired):
    """The tokens that come in are dropped as well."""

    def forward(self, x, pad_mask=None):
        return super().forward(self.dropout(x), pad_mask)


class DropsTheEnd(Wired):
    """One dropout at the end, for both branches and the stream; none before."""

    def listen(self, x, pad_mask):
        return self.attention(self.norm1(x), pad_mask)

    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        return self.dropout(x + self.think(x))


class WeightsAndBranchSwapped(Wired):
    """No dropout on the weights, and what attention adds dropped twice."""

    def make_attention(self, d_model, num_heads, context_length, dropout, qkv_bias):
        return MultiHeadAttention(d_model, d_model, context_length, num_heads, 0.0, qkv_bias)

    def listen(self, x, pad_mask):
        return self.dropout(super().listen(x, pad_mask))


class DropsTokensOfBranch(Wired):
    """All channels of a token share one draw."""

    def listen(self, x, pad_mask):
        found = self.attention(self.norm1(x), pad_mask)
        return found * self.dropout(torch.ones_like(found[..., :1]))


class PaddedWithoutDropout(Wired):
    """With a mask, the branch isn't dropped."""

    def listen(self, x, pad_mask):
        if pad_mask is None:
            return super().listen(x, pad_mask)
        return self.attention(self.norm1(x), pad_mask)


class FiveTimes(Wired):
    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.feed_forward = Wide(d_model, 3, dropout)


class TorchNorm(Wired):
    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)


class TorchNormInside(Wired):
    def __init__(self, d_model, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__(d_model, num_heads, context_length, dropout, qkv_bias)
        self.norm1, self.norm2 = BuiltIn(d_model), BuiltIn(d_model)


class SubclassOfCourse(course.TransformerBlock):
    """The finished block under another name."""

    def forward(self, x, pad_mask=None):
        return super().forward(x, pad_mask)


class NotCausal(Wired):
    """Attention without its mask, and eps another."""

    def make_attention(self, *args):
        made = super().make_attention(*args)
        made.hidden.zero_()
        return made


class Eps6(Wired):
    def __init__(self, d_model, *args, **kwargs):
        super().__init__(d_model, *args, **kwargs)
        self.norm1, self.norm2 = Plain(d_model, 1e-3), Plain(d_model, 1e-3)


class StreamHalf(Wired):
    """The stream in bfloat16 between the branches."""

    def forward(self, x, pad_mask=None):
        x = (x + self.listen(x, pad_mask)).bfloat16().to(x.dtype)
        return x + self.think(x)


class MiddleDetached(Wired):
    """The network reads a stream that is cut off."""

    def forward(self, x, pad_mask=None):
        x = x + self.listen(x, pad_mask)
        return x + self.think(x.detach())


class LastBranchRemembered(Wired):
    """What attention found in the call before is added, where shapes fit."""

    kept = None

    def listen(self, x, pad_mask):
        found = super().listen(x, pad_mask)
        before, self.kept = self.kept, found.detach()
        return found + before if before is not None and before.shape == found.shape else found


class MaskForgotten(Wired):
    """Once a text came without a mask, one of its length is never masked again."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.unmasked = set()

    def listen(self, x, pad_mask):
        if pad_mask is None:
            self.unmasked.add(x.shape)
        return super().listen(x, None if x.shape in self.unmasked else pad_mask)


class OneDrawForBoth(Wired):
    """One draw serves both branches."""

    def forward(self, x, pad_mask=None):
        draw, network = self.dropout(torch.ones_like(x)), self.feed_forward
        x = x + draw * self.attention(self.norm1(x), pad_mask)
        return x + draw * network.contract(network.bend(network.expand(self.norm2(x))))


class PaddingInTraining(Wired):
    def listen(self, x, pad_mask):
        return super().listen(x, pad_mask if self.training else None)


# ---------------------------------------------------------------- block_parameters


def by_hand(d_model, expansion=4, qkv_bias=False):
    C = d_model
    attention = 4 * C**2 + C + (3 * C if qkv_bias else 0)
    network = 2 * expansion * C**2 + expansion * C + C
    return attention + network + 4 * C


def by_polynomial(d_model, expansion=4, qkv_bias=False):
    C = d_model
    return (4 + 2 * expansion) * C * C + (6 + expansion + 3 * bool(qkv_bias)) * C


def by_shapes(d_model, expansion=4, qkv_bias=False):
    C, W = d_model, d_model * expansion
    shapes = [(C, C)] * 4 + [(C,)] + [(W, C), (W,), (C, W), (C,)] + 4 * [(C,)]
    if qkv_bias:
        shapes += 3 * [(C,)]
    return sum(math.prod(shape) for shape in shapes)


def by_counting(d_model, expansion=4, qkv_bias=False):
    with torch.device("meta"):
        parts = nn.ModuleList(
            [
                MultiHeadAttention(d_model, d_model, 1, 1, qkv_bias=qkv_bias),
                course.FeedForward(d_model, expansion),
                course.LayerNorm(d_model),
                course.LayerNorm(d_model),
            ]
        )
    return finished.count_parameters(parts)


def by_layers(d_model, expansion=4, qkv_bias=False):
    def linear(a, b, bias=True):
        return a * b + b * int(bias)

    total = 3 * linear(d_model, d_model, qkv_bias) + linear(d_model, d_model)
    total += linear(d_model, expansion * d_model) + linear(expansion * d_model, d_model)
    return total + 2 * (d_model + d_model)


def four_biases(d_model, expansion=4, qkv_bias=False):
    """`qkv_bias` for out_proj as well."""
    return by_hand(d_model, expansion) + (3 * d_model if qkv_bias else -d_model)


def one_bias_too_many(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + d_model


def three_norms(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + 2 * d_model


def wide_norms(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + 2 * (expansion - 1) * d_model


def swapped_biases(d_model, expansion=4, qkv_bias=False):
    """Right for an expansion of 4 only."""
    return by_hand(d_model, 4, qkv_bias) + (expansion - 4) * 2 * d_model**2


def five_projections(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion, qkv_bias) + d_model**2


def always_768(d_model, expansion=4, qkv_bias=False):
    return 7085568


def no_norms_no_biases(d_model, expansion=4, qkv_bias=False):
    return 12 * d_model**2


def network_only(d_model, expansion=4, qkv_bias=False):
    return 2 * expansion * d_model**2 + (expansion + 1) * d_model


def as_float(d_model, expansion=4, qkv_bias=False):
    return float(by_hand(d_model, expansion, qkv_bias)) / 1


def bias_squared(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion) + (3 * d_model**2 if qkv_bias else 0)


def bias_and_norms(d_model, expansion=4, qkv_bias=False):
    """One norm, and the bias of query alone."""
    return by_hand(d_model, expansion) - 2 * d_model + (d_model if qkv_bias else 0)


def borrowed(d_model, expansion=4, qkv_bias=False):
    return course.block_parameters(d_model, expansion, qkv_bias)


def with_mask(d_model, expansion=4, qkv_bias=False):
    """A causal mask of 1,024 tokens counted along."""
    return by_hand(d_model, expansion, qkv_bias) + 1024**2


def bias_of_an_even_width(d_model, expansion=4, qkv_bias=False):
    return by_hand(d_model, expansion) + 3 * qkv_bias * d_model // 2 * 2


def as_text(d_model, expansion=4, qkv_bias=False):
    return f"{by_hand(d_model, expansion, qkv_bias):,}"


REASONS = {
    "moves information between positions": "attention",
    "out_proj and contract are zero": "x",
    "norms on the stream, Pre-LN": 0,
    "norms on the stream, Post-LN": 24,
    "LayerNorm of (7, 7, 7)": (0, 0, 0),
    "tokens that notice": 3,
}
RECALLED = {"moves no number": "both", "padding hides": "columns", "scores at T = 8": 64}

RIGHT = {
    "recall_08": {
        "in capitals": {**RECALLED, "padding hides": "Columns"},
        "with blanks": {**RECALLED, "moves no number": " both "},
    },
    "LayerNorm": {
        "plain": Plain,
        "by var_mean": ByVarMean,
        "by std and hypot": ByStd,
        "by a product": ByProduct,
        "by length": ByLength,
        "by addcmul": WithMath,
        "a token at a time": TokenByToken,
        "bessel undone": Bessel,
        "eps as a buffer": EpsAsBuffer,
        "mean of squares": MeanOfSquares,
    },
    "gelu": {
        "by pow": gelu_by_power,
        "by factor": gelu_by_factor,
        "by sigmoid": gelu_by_sigmoid,
        "as published": gelu_as_published,
        "by exp": gelu_by_exp,
        "by lerp": gelu_by_sinh,
        "an object": Curve(),
    },
    "FeedForward": {
        "plain": Wide,
        "with the course's gelu": WithCourseGelu,
        "by functional": ByFunctional,
        "in sequence": InSequence,
        "by einsum": ByEinsum,
        "a token at a time": Unrolled,
        "dropout by hand": OwnDraw,
    },
    "TransformerBlock": {
        "plain": Wired,
        "by shortcut": ByShortcut,
        "from finished parts": FromCourse,
        "summed": Summed,
        "own attention": OwnAttention,
        "one dropout": OneDropout,
        "torch norm inside": TorchNormInside,
        "in a loop": ByLambda,
        "dropped by the block": SkipsWhatIsDropped,
    },
    "block_reasons": {
        "lists for tuples": {**REASONS, "LayerNorm of (7, 7, 7)": [0, 0, 0]},
        "in capitals": {**REASONS, "out_proj and contract are zero": "X"},
    },
    "block_parameters": {
        "by hand": by_hand,
        "by polynomial": by_polynomial,
        "by shapes": by_shapes,
        "by counting": by_counting,
        "by layers": by_layers,
    },
}


class ShiftAlone(nn.Module):
    """Every token gets the same: what came in has no say."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(d_model))
        self.shift = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return 0 * x * self.scale + self.shift


WRONG = {
    "recall_08": {
        "all wrong": {"moves no number": "neither", "padding hides": "rows", "scores at T = 8": 16},
        "T squared halved": {**RECALLED, "scores at T = 8": 28},
        "a word for a number": {**RECALLED, "scores at T = 8": "T²"},
        "other words": {**RECALLED, "moves no number": "view and transpose"},
        "one left out": {**RECALLED, "padding hides": ...},
    },
    "LayerNorm": {
        "the shift alone": ShiftAlone,
        "eps squared": EpsSquared,
        "eps twice": EpsTwice,
        "eps added to the result": EpsAbove,
        "variance clamped": EpsClamped,
        "nan to zero": NanToZero,
        "another default": EpsDefault6,
        "between 0 and 1": MinMax,
        "median": MedianCentred,
        "length one": LengthOne,
        "unbiased, over tokens": UnbiasedOverTokens,
        "unbiased, no eps": UnbiasedWithoutEps,
        "unbiased, no root, no shift": UnbiasedAndShiftForgotten,
        "mean over tokens": MeanOverTokensOnly,
        "tokens so far": CausalMean,
        "one plus scale": OnePlusScale,
        "tanh": Tanh,
        "running": Running,
        "built in": BuiltIn,
        "by group norm": ByGroupNorm,
        "float32": FloatCast,
        "three dimensions only": ThreeDOnly,
        "fixed width": FixedWidth,
        "rounded mean": RoundedMean,
        "spread of x": MeanSquareOfX,
        "scale without sign": PositiveScale,
        "eps is learned": LearnedEps,
        "a gain besides": AlsoAGain,
    },
    "gelu": {
        "quick": gelu_quick,
        "cut": gelu_cut,
        "rough": gelu_rough,
        "tanh cubed": gelu_cubed_tanh,
        "divided": gelu_divided,
        "root of 2 alone": gelu_pi_over,
        "square, no half": gelu_square_and_no_half,
        "bracket cubed, no root": gelu_cubed_and_no_root,
        "erf without root": gelu_exact_without_root,
        "minus": gelu_minus,
        "absolute": gelu_abs,
        "of absolute": gelu_of_abs,
        "precedence": gelu_precedence,
        "leaky": gelu_leaky,
        "built in": gelu_built_in,
        "module": gelu_module,
        "elu": gelu_elu,
        "softplus": gelu_softplus,
        "rounded": gelu_rounded,
    },
    "FeedForward": {
        "silu": SiluInside,
        "tanh": TanhInside,
        "leaky": LeakyInside,
        "relu, dropped inside": ReluAndDroppedInside,
        "exact, residual": ExactAndResidual,
        "four always, no dropout": FourAlways,
        "drops input": DropsInput,
        "drops tokens": DropsTokens,
        "drops texts": DropsTexts,
        "drops without scale": DropsWithoutScale,
        "drops before the bias": DropsBeforeBias,
        "three layers": ThreeLayers,
        "hears nothing": HearsNothing,
        "gated": Gated,
        "softmax": SoftmaxInside,
        "pair": PairOut,
        "built in": BuiltInGelu,
        "other names": OtherNames,
        "no dropout, bent twice": NoDropoutAndBentTwice,
    },
    "TransformerBlock": {
        "post norm, no mask": PostNormWithoutMask,
        "parallel, dropped twice": ParallelDroppedTwice,
        "norms on both sides": NormAfterAndBefore,
        "final norm": FinalNorm,
        "second sum around normed x": NormedStreamSecondOnly,
        "branches and norms swapped": BranchesSwapped,
        "gates": Gates,
        "scaled down": ScaledDown,
        "padding inverted, first norm unused": PaddingInverted,
        "padding cleared in the network": PaddingToNetwork,
        "one norm, no second sum": OneNormAndNoSecondSum,
        "drops what comes in": DropsEverything,
        "drops the end": DropsTheEnd,
        "weights not, branch twice": WeightsAndBranchSwapped,
        "drops tokens of a branch": DropsTokensOfBranch,
        "padded without dropout": PaddedWithoutDropout,
        "three times as wide": FiveTimes,
        "torch norm": TorchNorm,
        "finished block": SubclassOfCourse,
        "not causal": NotCausal,
        "another eps": Eps6,
        "stream in bfloat16": StreamHalf,
        "network reads what is cut off": MiddleDetached,
        "remembers": LastBranchRemembered,
        "one draw for both": OneDrawForBoth,
        "padding in training only": PaddingInTraining,
        "mask forgotten": MaskForgotten,
    },
    "block_reasons": {
        "all wrong": {
            "moves information between positions": "norm1",
            "out_proj and contract are zero": "zeros",
            "norms on the stream, Pre-LN": 12,
            "norms on the stream, Post-LN": 48,
            "LayerNorm of (7, 7, 7)": (7, 7, 7),
            "tokens that notice": 6,
        },
        "a number for a token": {**REASONS, "LayerNorm of (7, 7, 7)": 0},
        "in words": {**REASONS, "norms on the stream, Pre-LN": "none"},
        "two wrong": {
            **REASONS,
            "norms on the stream, Post-LN": 2,
            "tokens that notice": 4,
        },
        "one left out": {**REASONS, "tokens that notice": ...},
    },
    "block_parameters": {
        "bias for all four": four_biases,
        "one bias too many": one_bias_too_many,
        "three norms": three_norms,
        "wide norms": wide_norms,
        "biases of four": swapped_biases,
        "five projections": five_projections,
        "always the same": always_768,
        "twelve squares": no_norms_no_biases,
        "network only": network_only,
        "as float": as_float,
        "bias squared": bias_squared,
        "one norm, one bias": bias_and_norms,
        "borrowed": borrowed,
        "with the mask": with_mask,
        "as text": as_text,
        "bias of an even width": bias_of_an_even_width,
    },
}
