"""Right and wrong answers for lesson 15."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention


class Norm(nn.Module):
    eps = 1e-5

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / (variance + self.eps).sqrt() * self.scale + self.shift


class Attention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.H = heads
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(length, length).tril().bool(), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        query, key, value = (
            layer(x).view(B, T, self.H, C // self.H).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        return self.out_proj(self.attend(query, key, value).transpose(1, 2).reshape(B, T, C))

    def attend(self, query, key, value):
        T = query.shape[2]
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        return scores.masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1) @ value


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.contract(F.gelu(self.expand(x), approximate="tanh"))


class Block(nn.Module):
    attend, norm, think = Attention, Norm, Wide

    def __init__(self, width, heads, length):
        super().__init__()
        self.norm1, self.norm2 = self.norm(width), self.norm(width)
        self.attention = self.attend(width, heads, length)
        self.feed_forward = self.think(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Tables(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.token, self.position = nn.Embedding(words, width), nn.Embedding(length, width)

    def forward(self, ids):
        return self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))


class FourClasses(nn.Module):
    """The plain answer, to be changed in one place."""

    block, tables, last = Block, Tables, Norm

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__()
        self.sizes = vocab_size, d_model, num_heads, context_length, num_layers
        self.embed = self.tables(vocab_size, context_length, d_model)
        self.blocks = nn.ModuleList(
            [self.block(d_model, num_heads, context_length) for _ in range(num_layers)]
        )
        self.norm = self.last(d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def with_block(**parts):
    """The plain answer with other parts in its blocks."""
    return type("MyGPT", (FourClasses,), {"block": type("Block", (Block,), parts)})


def with_attend(attend, base=Attention):
    return with_block(attend=type("Attention", (base,), {"attend": attend}))


class View(nn.Module):
    """Rows of a larger weight under a name of their own."""

    def __init__(self, whole, rows):
        super().__init__()
        self.__dict__["whole"], self.rows = whole, rows

    @property
    def weight(self):
        return self.whole.weight[self.rows]


class OneProjection(Attention):
    """One matrix for all three, whose parts are views."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads, length)
        del self.query, self.key, self.value
        self.all_three = nn.Linear(width, 3 * width, bias=False)
        for i, name in enumerate(("query", "key", "value")):
            setattr(self, name, View(self.all_three, slice(i * width, (i + 1) * width)))

    def forward(self, x):
        B, T, C = x.shape
        three = self.all_three(x).view(B, T, 3, self.H, C // self.H)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        return self.out_proj(self.attend(query, key, value).transpose(1, 2).reshape(B, T, C))


class LoadsItsOwnWay(nn.Module):
    """A tensor for each role, all layers stacked; `load_state_dict` knows the names."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__()
        self.H = num_heads
        V, C, L = vocab_size, d_model, num_layers
        shapes = {
            "tokens": (V, C), "places": (context_length, C), "out": (V, C), "last": (2, C),
            "norms": (L, 4, C), "qkv": (L, 3, C, C), "mix": (L, C, C), "mix_bias": (L, C),
            "up": (L, C, 4 * C), "up_bias": (L, 4 * C), "down": (L, 4 * C, C), "down_bias": (L, C),
        }  # fmt: skip
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape) * 0.02))

    def load_state_dict(self, state, *args, **kwargs):
        with torch.no_grad():
            self.tokens.copy_(state["embed.token.weight"])
            self.places.copy_(state["embed.position.weight"])
            self.out.copy_(state["head.weight"])
            self.last.copy_(torch.stack([state["norm.scale"], state["norm.shift"]]))
            for i in range(len(self.qkv)):
                here = {k.split(".", 2)[2]: w for k, w in state.items() if f"blocks.{i}." in k}
                pick = [f"norm{n}.{part}" for n in (1, 2) for part in ("scale", "shift")]
                self.norms[i].copy_(torch.stack([here[name] for name in pick]))
                roles = [f"attention.{role}.weight" for role in ("query", "key", "value")]
                self.qkv[i].copy_(torch.stack([here[name].T for name in roles]))
                self.mix[i].copy_(here["attention.out_proj.weight"].T)
                self.mix_bias[i].copy_(here["attention.out_proj.bias"])
                self.up[i].copy_(here["feed_forward.expand.weight"].T)
                self.up_bias[i].copy_(here["feed_forward.expand.bias"])
                self.down[i].copy_(here["feed_forward.contract.weight"].T)
                self.down_bias[i].copy_(here["feed_forward.contract.bias"])

    def forward(self, ids):
        B, T = ids.shape
        x = self.tokens[ids] + self.places[:T]
        C = x.shape[-1]
        for i in range(len(self.qkv)):
            normed = F.layer_norm(x, (C,), self.norms[i, 0], self.norms[i, 1])
            three = normed.unsqueeze(1) @ self.qkv[i]  # (B, 3, T, C)
            query, key, value = three.view(B, 3, T, self.H, -1).transpose(2, 3).unbind(1)
            scores = query @ key.mT * (C // self.H) ** -0.5
            future = torch.full((T, T), -math.inf, device=x.device, dtype=x.dtype).triu(1)
            heard = ((scores + future).softmax(-1) @ value).transpose(1, 2).flatten(2)
            x = x + heard @ self.mix[i] + self.mix_bias[i]
            wide = F.layer_norm(x, (C,), self.norms[i, 2], self.norms[i, 3]) @ self.up[i]
            x = x + F.gelu(wide + self.up_bias[i], approximate="tanh") @ self.down[i]
            x = x + self.down_bias[i]
        return F.layer_norm(x, (C,), *self.last) @ self.out.T


class KeepsItsMasks(Attention):
    """Its masks are in the state dict; what they hide gets -1e9."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads, length)
        del self.mask
        self.register_buffer("bias", torch.ones(length, length).tril()[None, None])

    def attend(self, query, key, value):
        T = query.shape[2]
        scores = query @ key.transpose(-1, -2) * (1.0 / math.sqrt(key.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, -1e9)
        return F.softmax(scores, dim=-1) @ value


class OfPyTorchNorm(nn.LayerNorm):
    """PyTorch's norm under the course's names."""

    @property
    def scale(self):
        return self.weight

    @property
    def shift(self):
        return self.bias


class Flat(nn.Module):
    """No modules inside: each name is that of a parameter, registered at its place."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__()
        self.H, self.L = num_heads, num_layers
        for name, value in FourClasses(
            vocab_size, d_model, num_heads, context_length, num_layers
        ).state_dict().items():  # fmt: skip
            *path, last = name.split(".")
            home = self
            for step in path:
                if step not in dict(home.named_children()):
                    home.add_module(step, nn.Module())
                home = home.get_submodule(step)
            home.register_parameter(last, nn.Parameter(value))

    def forward(self, ids):
        w, T = dict(self.named_parameters()), ids.shape[1]

        def norm(name, x):
            return F.layer_norm(x, x.shape[-1:], w[f"{name}.scale"], w[f"{name}.shift"])

        def linear(name, x):
            return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

        x = w["embed.token.weight"][ids] + w["embed.position.weight"][:T]
        for b in (f"blocks.{i}" for i in range(self.L)):
            y = norm(f"{b}.norm1", x)
            q, k, v = (
                linear(f"{b}.attention.{n}", y).unflatten(-1, (self.H, -1)).transpose(1, 2)
                for n in ("query", "key", "value")
            )
            hidden = torch.arange(T, device=x.device)[:, None] < torch.arange(T, device=x.device)
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -math.inf)
            x = x + linear(f"{b}.attention.out_proj", (scores.softmax(-1) @ v).mT.mT.transpose(
                1, 2).flatten(2))  # fmt: skip
            wide = linear(f"{b}.feed_forward.expand", norm(f"{b}.norm2", x))
            x = x + linear(f"{b}.feed_forward.contract", F.gelu(wide, approximate="tanh"))
        return linear("head", norm("norm", x))


def finished_attention(width, heads, length):
    return attention.MultiHeadAttention(width, width, length, heads)


def scaled_by_scores(self, query, key, value):
    """Scaled after the mask and the softmax."""
    T = query.shape[2]
    weights = (query @ key.mT).masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1)
    return weights / math.sqrt(query.shape[-1]) @ value


def unmasked(self, query, key, value):
    return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1) @ value


class TiedLater(FourClasses):
    """Reads the token table as its head."""

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.token.weight.T


class LoadsNothing(FourClasses):
    def load_state_dict(self, state, *args, **kwargs):
        return None


class ReadsThrough(Attention):
    """Gets the stream and the norm to read it through."""

    def forward(self, x, norm):
        return super().forward(norm(x))


class ThinksThrough(Wide):
    def forward(self, x, norm):
        return super().forward(norm(x)), x


class CutElsewhere(Block):
    """The parts have the course's names, and are called otherwise."""

    attend, think = ReadsThrough, ThinksThrough

    def forward(self, x):
        x = x + self.attention(x, self.norm1)
        return sum(self.feed_forward(x, self.norm2))


class GivesNamesBack(LoadsItsOwnWay):
    """What it takes by the course's names it gives back by them."""

    def state_dict(self, *args, **kwargs):
        C, state = self.tokens.shape[1], {}
        state |= {"embed.token.weight": self.tokens, "embed.position.weight": self.places}
        for i in range(len(self.qkv)):
            parts = ("norm1.scale", "norm1.shift", "norm2.scale", "norm2.shift")
            here = dict(zip(parts, self.norms[i], strict=True))
            for role, weight in zip(("query", "key", "value"), self.qkv[i], strict=True):
                here[f"attention.{role}.weight"] = weight.T
            here["attention.out_proj.weight"] = self.mix[i].T
            here["attention.out_proj.bias"] = self.mix_bias[i]
            here["feed_forward.expand.weight"] = self.up[i].T
            here["feed_forward.expand.bias"] = self.up_bias[i]
            here["feed_forward.contract.weight"] = self.down[i].T
            here["feed_forward.contract.bias"] = self.down_bias[i]
            state |= {f"blocks.{i}.{name}": weight for name, weight in here.items()}
        assert self.last.shape == (2, C)
        state |= {"norm.scale": self.last[0], "norm.shift": self.last[1], "head.weight": self.out}
        return {name: weight.detach().clone() for name, weight in state.items()}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        with torch.no_grad():
            for norms in (self.norms.view(-1, self.last.shape[1]), self.last):
                norms[0::2], norms[1::2] = 1.0, 0.0


def begun(**rules):
    """The plain answer, whose norms begin otherwise."""

    class Begun(Norm):
        def __init__(self, width):
            super().__init__(width)
            with torch.no_grad():
                for name, rule in rules.items():
                    rule(getattr(self, name))

    return type(
        "MyGPT", (FourClasses,), {"block": type("B", (Block,), {"norm": Begun}), "last": Begun}
    )


MY_GPT_RIGHT = {
    "four classes": FourClasses,
    "one projection, its parts as views": with_block(attend=OneProjection),
    "masks in the state dict": with_block(attend=KeepsItsMasks),
    "PyTorch's norm under other names": type("MyGPT", (FourClasses,), {"last": OfPyTorchNorm}),
    "no modules inside": Flat,
    "parts called otherwise": type("MyGPT", (FourClasses,), {"block": CutElsewhere}),
    "a state_dict of its own": GivesNamesBack,
}


class ExactNetwork(Wide):
    def forward(self, x):
        return self.contract(F.gelu(self.expand(x)))


MY_GPT_WRONG = {
    "the finished attention": (0, with_block(attend=staticmethod(finished_attention))),
    "scaled after the softmax": (1.75, with_attend(scaled_by_scores)),
    "loads nothing": (1.75, LoadsNothing),
    "scales begin at 0": (5.25, begun(scale=nn.init.zeros_)),
    "scales begin at random": (5.25, begun(scale=nn.init.normal_)),
    "shifts begin at 1": (5.25, begun(shift=nn.init.ones_)),
    "the exact GELU, and no mask": (
        0,
        with_block(think=ExactNetwork, attend=type("A", (Attention,), {"attend": unmasked})),
    ),
}


RIGHT = {"MyGPT": MY_GPT_RIGHT}


WRONG = {"MyGPT": MY_GPT_WRONG}
