"""Right and wrong answers for lesson 15."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import attention, language_model, transformer

# ---------------------------------------------------------------- MyGPT


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
        T, most = ids.shape[1], self.position.num_embeddings
        if T > most:
            raise ValueError(f"{T} tokens, at most {most}")
        return self.token(ids) + self.position(torch.arange(T, device=ids.device))


class FourClasses(nn.Module):
    """The plain answer, and one to be spoilt in one place."""

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
        self.H, self.most = num_heads, context_length
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
        if T > self.most:
            raise ValueError(f"{T} > {self.most}")
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


class HeadByHead(Attention):
    """A loop over heads, each from its own rows of the weights."""

    def forward(self, x):
        T, D = x.shape[1], x.shape[-1] // self.H
        found = []
        for h in range(self.H):
            rows = slice(h * D, (h + 1) * D)
            query = x @ self.query.weight[rows].T
            key = x @ self.key.weight[rows].T
            value = x @ self.value.weight[rows].T
            scores = torch.einsum("btd,bsd->bts", query, key) / D**0.5
            exps = (scores - scores.amax(-1, keepdim=True)).exp().tril()
            found.append(exps / exps.sum(-1, keepdim=True) @ value)
        assert T <= len(self.mask)
        return self.out_proj(torch.cat(found, -1))


class KeepsItsMasks(Attention):
    """Its masks stand in the state dict."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads, length)
        del self.mask
        self.register_buffer("bias", torch.ones(length, length).tril()[None, None])

    def attend(self, query, key, value):
        T = query.shape[2]
        scores = query @ key.transpose(-1, -2) * (1.0 / math.sqrt(key.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ value


class OfPyTorchNorm(nn.LayerNorm):
    """PyTorch's norm under the course's names."""

    @property
    def scale(self):
        return self.weight

    @property
    def shift(self):
        return self.bias


class InSequence(FourClasses):
    """Blocks in a Sequential, the refusal in front, GELU written out, options with defaults."""

    def __init__(
        self, vocab_size=50, d_model=8, num_heads=2, context_length=16, num_layers=1, dropout=0.0
    ):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers)
        self.blocks = nn.Sequential(*self.blocks, nn.Dropout(dropout))
        self.context_length = context_length

    def forward(self, ids):
        if ids.size(1) > self.context_length:
            raise ValueError(f"{ids.size(1)} tokens do not fit in {self.context_length}")
        return self.head(self.norm(self.blocks(self.embed(ids))))


class Flat(nn.Module):
    """No modules inside: each name is that of a parameter, registered at its place."""

    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__()
        self.H, self.most, self.L = num_heads, context_length, num_layers
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
        if T > self.most:
            raise ValueError(f"{T}, {self.most}")

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


class Halved(InSequence):
    """Its logits drop in training."""

    def forward(self, ids):
        return F.dropout(super().forward(ids), 0.1, self.training)


def sdpa(self, query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class BuiltIn(nn.Module):
    """`nn.MultiheadAttention` under the course's names."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)
        nn.init.zeros_(self.inner.in_proj_bias)
        for i, name in enumerate(("query", "key", "value")):
            whole = type("W", (), {"weight": self.inner.in_proj_weight})
            setattr(self, name, View(whole, slice(i * width, (i + 1) * width)))

    @property
    def out_proj(self):
        return self.inner.out_proj

    def forward(self, x):
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


def finished_attention(width, heads, length):
    return attention.MultiHeadAttention(width, width, length, heads)


class OfTheLibrary(language_model.TinyLM):
    def __init__(self, vocab_size, d_model, num_heads, context_length, num_layers):
        super().__init__(vocab_size, d_model, num_heads, context_length, num_layers)


def on_logits(change):
    class Changed(FourClasses):
        def forward(self, ids):
            return change(super().forward(ids), ids)

    return Changed


def scaled_by_scores(self, query, key, value):
    """Scaled after the mask and the softmax."""
    T = query.shape[2]
    weights = (query @ key.mT).masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1)
    return weights / math.sqrt(query.shape[-1]) @ value


def not_scaled_and_next_seen(self, query, key, value):
    T = query.shape[2]
    seen = torch.ones(T, T, device=query.device).tril(1).bool()
    return (query @ key.mT).masked_fill(~seen, -math.inf).softmax(-1) @ value


def hidden_by_1e9(self, query, key, value):
    """All goes well but for the mask, which is turned."""
    T = query.shape[2]
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(self.mask[:T, :T], -1e9).softmax(-1) @ value


class ExactAndPost(Block):
    """Post-LN and the exact GELU at once."""

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        wide = F.gelu(self.feed_forward.expand(x))
        return self.norm2(x + self.feed_forward.contract(wide))


class OneNormAndNoSecondResidual(Block):
    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return self.feed_forward(self.norm1(x))


class Sinusoidal(Tables):
    """Waves in place of the learned table."""

    def forward(self, ids):
        T, C = ids.shape[1], self.token.embedding_dim
        if T > self.position.num_embeddings:
            raise ValueError(f"{T} tokens, at most {self.position.num_embeddings}")
        angles = torch.arange(T)[:, None] / 10000 ** (torch.arange(C)[None] // 2 * 2 / C)
        waves = torch.where(torch.arange(C) % 2 == 0, angles.sin(), angles.cos())
        return self.token(ids) + waves.to(self.token.weight)


class Silent(Tables):
    def forward(self, ids):
        if ids.shape[1] > self.position.num_embeddings:
            raise ValueError
        return super().forward(ids)


class TiedLater(FourClasses):
    """Reads the token table as its head."""

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed.token.weight.T


class RepeatsTheFirst(FourClasses):
    def forward(self, ids):
        x = self.embed(ids)
        for _ in self.blocks:
            x = self.blocks[0](x)
        return self.head(self.norm(x))


class NormTwice(FourClasses):
    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(self.norm(x))
        return self.head(self.norm(x))


class Cached(FourClasses):
    """What it read before is still in sight."""

    last_ids = None

    def forward(self, ids):
        before, self.last_ids = self.last_ids, ids
        if before is not None and before.shape == ids.shape:
            ids = torch.where(torch.arange(ids.shape[1], device=ids.device) == 0, before, ids)
        return super().forward(ids)


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


class SmallWeights(FourClasses):
    """As GPT-2 begins, and with a head of zeros."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        nn.init.zeros_(self.head.weight)


class NothingButZeros(FourClasses):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.zeros_(p)


MY_GPT_RIGHT = {
    "four classes": FourClasses,
    "one projection, its parts as views": with_block(attend=OneProjection),
    "stacked layers, a load_state_dict of its own": LoadsItsOwnWay,
    "a loop over heads": with_block(attend=HeadByHead),
    "masks in the state dict": with_block(attend=KeepsItsMasks),
    "PyTorch's norm under other names": type("MyGPT", (FourClasses,), {"last": OfPyTorchNorm}),
    "blocks in sequence, a dropout of 0": InSequence,
    "no modules inside": Flat,
    "parts called otherwise": type("MyGPT", (FourClasses,), {"block": CutElsewhere}),
    "a state_dict of its own": GivesNamesBack,
    "begins with a head of zeros": SmallWeights,
}

MY_GPT_WRONG = {
    "scaled_dot_product_attention": with_attend(sdpa),
    "nn.MultiheadAttention": with_block(attend=BuiltIn),
    "the finished attention": with_block(attend=staticmethod(finished_attention)),
    "the finished norm": with_block(norm=transformer.LayerNorm),
    "the finished network": with_block(think=transformer.FeedForward),
    "the finished model": OfTheLibrary,
    "drops in training": type(
        "MyGPT", (Halved,), {"__init__": lambda self, *a, **k: Halved.__init__(self, *a, **k)}
    ),
    "scaled after the softmax": with_attend(scaled_by_scores),
    "not scaled, and the next token seen": with_attend(not_scaled_and_next_seen),
    "the mask turned, with -1e9": with_attend(hidden_by_1e9),
    "Post-LN and the exact GELU": type("MyGPT", (FourClasses,), {"block": ExactAndPost}),
    "one norm, and no second residual": type(
        "MyGPT", (FourClasses,), {"block": OneNormAndNoSecondResidual}
    ),
    "waves": type("MyGPT", (FourClasses,), {"tables": Sinusoidal}),
    "refused without a word": type("MyGPT", (FourClasses,), {"tables": Silent}),
    "tied": TiedLater,
    "the first block again and again": RepeatsTheFirst,
    "the last norm before each block": NormTwice,
    "the first token of the text before": Cached,
    "loads nothing": LoadsNothing,
    "eps of 1e-6": type(
        "MyGPT",
        (FourClasses,),
        {
            "block": type("B", (Block,), {"norm": type("N", (Norm,), {"eps": 1e-6})}),
            "last": type("N", (Norm,), {"eps": 1e-6}),
        },
    ),
    "logits divided by their number": on_logits(lambda logits, ids: logits / logits.shape[-1]),
    "logits of the next token moved": on_logits(lambda logits, ids: logits.roll(1, dims=1)),
    "zeros": on_logits(lambda logits, ids: logits * 0),
    "likeliest tokens": on_logits(lambda logits, ids: logits.argmax(-1)),
    "batch last": on_logits(lambda logits, ids: logits.transpose(0, 1)),
    "a pair with the loss": on_logits(lambda logits, ids: (logits, None)),
    "without gradient": on_logits(lambda logits, ids: logits.data),
    "rounded": on_logits(lambda logits, ids: (logits * 1000).round() / 1000),
    "scales begin at 0": begun(scale=nn.init.zeros_),
    "scales begin at random": begun(scale=nn.init.normal_),
    "shifts begin at 1": begun(shift=nn.init.ones_),
    "begins with nothing but zeros": NothingButZeros,
    "the exact GELU, and no mask": type(
        "MyGPT",
        (FourClasses,),
        {
            "block": type(
                "B",
                (Block,),
                {
                    "think": type(
                        "W",
                        (Wide,),
                        {"forward": lambda self, x: self.contract(F.gelu(self.expand(x)))},
                    ),
                    "attend": type(
                        "A",
                        (Attention,),
                        {
                            "attend": lambda self, query, key, value: (
                                (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1) @ value
                            )
                        },
                    ),
                },
            )
        },
    ),
}

# ---------------------------------------------------------------- my_run

# Real runs of `language_model.train` on a CPU, seed 0, numbers as they came.
LETTERS = {
    "text": "Python's reference, small letters only",
    "vocab_size": 30,
    "d_model": 64,
    "num_heads": 4,
    "context_length": 32,
    "num_layers": 2,
    "predicted parameters": 105_600,
    "predicted first loss": math.log(30),
    "parameters": 105_600,
    "training tokens": 180_000,
    "held-out tokens": 20_000,
    "steps": 300,
    "batch size": 32,
    "window": 32,
    "tokens predicted": 300 * 32 * 32,
    "first loss": 3.6038577556610107,
    "losses": [3.604, 2.393, 2.071, 2.039, 1.865],
    "bigram loss": 2.3855233192443848,
    "held-out loss": 1.9241437986739005,
}
DOCSTRINGS = {
    "text": "docstrings of six modules",
    "vocab_size": 88,
    "d_model": 40,
    "num_heads": 5,
    "context_length": 24,
    "num_layers": 1,
    "predicted parameters": 12 * 40**2 + 2 * 88 * 40,  # the rule of thumb
    "predicted first loss": 4.5,
    "parameters": 27_680,
    "training tokens": 42_412,
    "held-out tokens": 4_712,
    "steps": 250,
    "batch size": 24,
    "window": 24,
    "tokens predicted": 144_000,
    "first loss": 4.567131996154785,
    "losses": [4.567, 2.811, 2.422, 2.336, 2.43],
    "bigram loss": 2.851557970046997,
    "held-out loss": 2.8254454135894775,
}
SOURCE = {
    "text": "the source of argparse",
    "vocab_size": 88,
    "d_model": 48,
    "num_heads": 3,
    "context_length": 40,
    "num_layers": 3,
    "predicted parameters": 90_624,  # the head was taken for tied
    "predicted first loss": 4.48,
    "parameters": 94_848,
    "training tokens": 89_695,
    "held-out tokens": 9_966,
    "steps": 250,
    "batch size": 16,
    "window": 41,
    "tokens predicted": 250 * 16 * 40,
    "first loss": 4.731672763824463,
    "losses": torch.tensor([4.732, 2.141, 1.871, 2.127, 1.929]),
    "bigram loss": torch.tensor(2.0713045597076416),
    "held-out loss": 1.8559945821762085,
}
REFERENCE = {
    "text": "Python's reference as it is",
    "vocab_size": 103,
    "d_model": 64,
    "num_heads": 4,
    "context_length": 32,
    "num_layers": 2,
    "predicted parameters": 114_944,
    "predicted first loss": 4.6,
    "parameters": 114_944,
    "training tokens": 270_000,
    "held-out tokens": 30_000,
    "steps": 200,
    "batch size": 32,
    "window": 32,
    "tokens predicted": 204_800,
    "first loss": 4.8,
    "losses": [4.8, 2.6, 2.5, 2.3, 2.1],
    "bigram loss": 2.46,
    "held-out loss": 2.26,
}
TOY_ENGLISH = {
    "text": "toy English, words",
    "vocab_size": 27,
    "d_model": 32,
    "num_heads": 2,
    "context_length": 20,
    "num_layers": 2,
    "predicted parameters": 27_648,
    "predicted first loss": 3.2958,
    "parameters": 27_648.0,
    "training tokens": 54_000,
    "held-out tokens": 6_000,
    "steps": 3e2,
    "batch size": 16,
    "window": 20,
    "tokens predicted": 96_000,
    "first loss": 3.418020725250244,
    "losses": (3.418, 1.525, 1.403, 1.321, 1.316),
    "bigram loss": 1.5694544315338135,
    "held-out loss": 1.3148037287226895,
}
ZEN = {
    "text": "the Zen of Python",
    "vocab_size": 45,
    "d_model": 16,
    "num_heads": 2,
    "context_length": 16,
    "num_layers": 1,
    "predicted parameters": 4_960,
    "predicted first loss": 3.81,
    "parameters": 4_960,
    "training tokens": 770,
    "held-out tokens": 86,
    "steps": 60,
    "batch size": 8,
    "window": 16,
    "tokens predicted": 7_680,
    "first loss": 4.007665157318115,
    "losses": [4.008, 3.472, 2.928, 2.987, 2.951],
    "bigram loss": 3.1001620292663574,
    "held-out loss": 3.0911974906921387,
}

# Losses as they come from chance: a hair above ln V, and far more noise at the end.
NOISY = LETTERS | {
    "first loss": 3.402,
    "losses": [3.402, 2.9, 2.1, 2.6, 1.6, 2.9],
    "held-out loss": 2.38,
}
OVERFITTED = LETTERS | {"losses": [3.6, 1.4, 0.5, 0.1, 0.05], "held-out loss": 2.2}
WITH_MORE = LETTERS | {"learning rate": 6e-3, "predicted first loss": 3.4, "notes": "went well"}


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in names}


MY_RUN_RIGHT = {
    "small letters": LETTERS,
    "docstrings": DOCSTRINGS,
    "source code": SOURCE,
    "the reference": REFERENCE,
    "words": TOY_ENGLISH,
    "noisy": NOISY,
    "learned by heart, and still better than a bigram": OVERFITTED,
    "more than was asked": WITH_MORE,
    "foretold 1,000,000 parameters": LETTERS | {"predicted parameters": 1_000_000},
    "foretold 30,000 parameters": LETTERS | {"predicted parameters": 30_000},
    "foretold in bits": LETTERS | {"predicted first loss": 4.91},
    "foretold a loss of 10": LETTERS | {"predicted first loss": 10},
    "the last token counted as one of the window": LETTERS
    | {"window": 33, "tokens predicted": 300 * 32 * 33},
    "the first token counted as predicted": LETTERS | {"tokens predicted": 300 * 32 * 33},
    "the last batch not full": LETTERS | {"tokens predicted": 299 * 32 * 32 + 20 * 32},
    "tokens rounded": LETTERS | {"tokens predicted": 307_000},
    "a loss before each step, and one behind the last": LETTERS
    | {
        "steps": 40,
        "tokens predicted": 40 * 32 * 32,
        "losses": [3.604, *(3.6 - 1.2 * i / 40 for i in range(39)), 2.3],
        "held-out loss": 2.3,
    },
    "held-out text easier, as printed": LETTERS
    | {"losses": [3.6, 2.5, 2.2], "held-out loss": 1.75},
    "steps of 4 tokens": LETTERS
    | {
        "batch size": 1,
        "window": 4,
        "steps": 20_000,
        "tokens predicted": 80_000,
        "losses": [3.6, 1.1, 2.9, 3.3],
        "first loss": 3.6,
        "held-out loss": 2.2,
    },
    "begins at ln V to two digits": LETTERS | {"first loss": 3.4, "losses": [3.4, 2.4, 1.9]},
    "a bigram hardly better than chance, as printed": LETTERS | {"bigram loss": 3.4},
}

MY_RUN_WRONG = {
    "a poem": ZEN,
    "no bigram": without(LETTERS, "bigram loss"),
    "no predictions": without(LETTERS, "predicted parameters", "predicted first loss"),
    "predictions still open": LETTERS | {"predicted parameters": ..., "predicted first loss": None},
    "predictions of 0": LETTERS | {"predicted parameters": 0, "predicted first loss": 0},
    "numbers as texts": LETTERS | {"first loss": "3.6", "held-out loss": "1.92"},
    "a curve of one number": LETTERS | {"losses": [3.604]},
    "a curve that is a number": LETTERS | {"losses": 3.604},
    "no text": LETTERS | {"text": ""},
    "NaN": LETTERS | {"held-out loss": math.nan},
    "infinite": LETTERS | {"bigram loss": math.inf},
    "True": LETTERS | {"held-out loss": True},
    "sizes of two runs": LETTERS | {"d_model": 48, "context_length": 48, "window": 48},
    "one layer more": LETTERS | {"num_layers": 3},
    "a vocabulary of another text": LETTERS | {"vocab_size": 103, "predicted first loss": 4.63},
    "loss in bits, parameters too few": LETTERS
    | {"first loss": 5.1, "losses": [5.1, 3.4, 3.0, 2.9, 2.7], "parameters": 100_000},
    "fewer tokens than steps, and no bigram beaten": LETTERS
    | {"tokens predicted": 20_000, "held-out loss": 2.5},
    "bigram of zero": LETTERS | {"bigram loss": 0.0},
    "as good as a bigram": LETTERS | {"held-out loss": LETTERS["bigram loss"]},
    "all losses equal": LETTERS | {"losses": [3.604] * 5},
    "a curve in percent": LETTERS | {"losses": [100, 66, 57, 56, 51]},
    "better than the best": LETTERS | {"held-out loss": 0.2, "losses": [3.6, 1.0, 0.4, 0.3, 0.2]},
    "a held-out loss of 0": LETTERS | {"held-out loss": 0.0},
    "a loss of -1": LETTERS | {"held-out loss": -1.0},
    "beyond all measure": LETTERS | {"vocab_size": 2**62, "held-out loss": 1e308},
    "batch of 0": LETTERS | {"batch size": 0, "tokens predicted": 0},
    "steps of half": LETTERS | {"steps": 300.5},
    "trained on what is held out": LETTERS | {"held-out tokens": 180_000},
    "a list of values": list(LETTERS.values()),
    "code": LETTERS | {"held-out loss": "__import__('os').getcwd()"},
    "a bigram of 3.44": LETTERS | {"bigram loss": 3.44},
    "a token more than steps, batch and window give": LETTERS | {"tokens predicted": 307_201},
    "nearly a window more in each batch": LETTERS | {"tokens predicted": 313_600},
    "half as hard on new text": LETTERS | {"losses": [3.6, 2.3, 2.02], "held-out loss": 1.1},
    "six losses of three steps": LETTERS
    | {"steps": 3, "tokens predicted": 3 * 32 * 32, "losses": [3.6, 3.3, 3.0, 2.6, 2.3, 1.9]},
    "one step": LETTERS
    | {"steps": 1, "batch size": 1, "tokens predicted": 32, "losses": [3.6, 1.9]},
    "thirty steps of one token": LETTERS
    | {"steps": 30, "batch size": 1, "window": 1, "tokens predicted": 30},
    "a last loss of 0": LETTERS | {"losses": [3.6, 2.0, 0.0]},
    "theory in place of the measurement": LETTERS | {"first loss": 3.4},
    "a negative prediction": LETTERS | {"predicted first loss": -3.4},
    "NaN in the curve": LETTERS | {"losses": [3.6, math.nan, 1.9]},
    "no window": without(LETTERS, "window"),
    "an entry's name mistyped": without(LETTERS, "held-out loss") | {"held out loss": 1.92},
}

# ---------------------------------------------------------------- my_head

BEFORE = {
    "num_layers": 2,
    "num_heads": 4,
    "layer": 0,
    "head": 3,
    "name": "the letter before",
    "score": 0.79,
    "score of even weights": 0.099,
    "predicted change": 0.4,
    "loss": 1.9241437986739005,
    "loss without it": 2.037,
    "measured change": 0.113,
    "why": "Heads 1 and 2 look one letter back as well, with 0.61 and 0.67, and go on doing so.",
}
AT_ONCE = BEFORE | {
    "head": 1,
    "score": 0.61,
    "predicted change": 0.05,
    "loss without it": 1.975,
    "measured change": 0.051,
    "why": "",
}
SAME_LETTER = {
    "num_layers": 3,
    "num_heads": 3,
    "layer": 0,
    "head": 2,
    "name": "same sign again (blanks find blanks)",
    "score": 0.42,
    "score of even weights": 0.304,
    "predicted change": 0,
    "loss": 1.856,
    "loss without it": 1.868,
    "measured change": 0.012,
    "why": "Zählt wohl die Einrückung, und die steht auch im Strom.",
}
WORTH_NOTHING = SAME_LETTER | {
    "predicted change": 0.01,
    "loss without it": 1.8561,
    "measured change": 0.0001,
    "why": "-",
}
BETTER_WITHOUT = BEFORE | {
    "predicted change": 0.02,
    "loss without it": 1.91,
    "measured change": -0.014,
    "why": "It drags attention to the wrong letter; the network had learned to live with noise.",
}
IN_CHINESE = BEFORE | {
    "name": "看前一个字母",
    "why": "其他的头也看前一个字母，所以损失只增加一点。",
}

MY_HEAD_RIGHT = {
    "the letter before": BEFORE,
    "as foretold": AT_ONCE,
    "the same letter": SAME_LETTER,
    "worth nothing, as foretold": WORTH_NOTHING,
    "better without": BETTER_WITHOUT,
    "in Chinese": IN_CHINESE,
    "rounded": BEFORE | {"loss": 1.92, "loss without it": 2.04, "measured change": 0.11},
    "why in five short words": BEFORE | {"why": "Other heads look there too."},
    "why is the stream": BEFORE | {"why": "The stream brings the same."},
    "why is another head by its number": BEFORE | {"why": "Head 2 does it too."},
    "not known, and a conjecture": BEFORE
    | {"why": "I don't know, but other heads seem to do it as well."},
    "why in German": BEFORE | {"why": "Andere Köpfe schauen auch dorthin."},
    "named for what is left": BEFORE
    | {"name": "anywhere but the first letter", "score": 0.97, "score of even weights": 0.93},
    "foretold far too much": BEFORE | {"predicted change": 100},
    "does nothing": WORTH_NOTHING | {"name": "does nothing"},
    "words, not letters": BEFORE | {"loss": 7.83, "loss without it": 8.01, "measured change": 0.18},
}

MY_HEAD_WRONG = {
    "differs, and why is open": BEFORE | {"why": ...},
    "differs, and why is blank": BEFORE | {"why": "   "},
    "differs, and why is a dash": BEFORE | {"why": "-"},
    "why says that it was wrong": BEFORE | {"why": "The prediction was wrong."},
    "why subtracts": BEFORE | {"why": "0.4 - 0.113 = 0.287, so I predicted too much change."},
    "why is I don't know": BEFORE | {"why": "I don't know why."},
    "why is one word": BEFORE | {"why": "Redundancy."},
    "why is a number": BEFORE | {"why": 0.287},
    "no prediction": without(BEFORE, "predicted change"),
    "prediction open": BEFORE | {"predicted change": ...},
    "a prediction in words": BEFORE | {"predicted change": "a little"},
    "name is a number": BEFORE | {"name": "3"},
    "name is its place": BEFORE | {"name": "Layer 0, head 3"},
    "name is empty": BEFORE | {"name": ""},
    "layer as a text": BEFORE | {"layer": "first"},
    "negative head": BEFORE | {"head": -1},
    "head 4 of 4": BEFORE | {"head": 4},
    "score above 1": BEFORE | {"score": 1.3},
    "score and even weights swapped": BEFORE | {"score": 0.099, "score of even weights": 0.79},
    "change turned": BEFORE | {"measured change": -0.113},
    "change in percent": BEFORE | {"measured change": 5.9},
    "change of another head": BEFORE | {"measured change": 0.051},
    "made up as foretold": BEFORE | {"measured change": 0.4},
    "loss below zero foretold": BEFORE | {"predicted change": -2.0},
    "losses swapped": BEFORE | {"loss": 2.037, "loss without it": 1.924},
    "no losses": BEFORE | {"loss": 0, "loss without it": 0.113},
    "percent, and counted from 1": BEFORE | {"score": 79, "head": 4},
    "NaN": BEFORE | {"score": math.nan},
    "a tuple": tuple(BEFORE.items()),
    "even weights of 0": BEFORE | {"score of even weights": 0},
    "a loss of 200": BEFORE | {"loss without it": 200, "measured change": 198.08},
    "a name for any head": BEFORE | {"name": "does something"},
    "a name for any head, in more words": BEFORE | {"name": "it attends to some things"},
    "looks away, and named for that place": BEFORE | {"score": 0.03, "score of even weights": 0.07},
    "why this happens isn't known": BEFORE | {"why": "I don't know why this happens."},
    "why is no idea": BEFORE | {"why": "I have no idea what is going on here."},
    "why is a guess far off": BEFORE | {"why": "My guess was simply far too high."},
    "why is this head": BEFORE | {"why": "Head 3 does it less."},
}

RIGHT = {"MyGPT": MY_GPT_RIGHT, "my_run": MY_RUN_RIGHT, "my_head": MY_HEAD_RIGHT}
WRONG = {"MyGPT": MY_GPT_WRONG, "my_run": MY_RUN_WRONG, "my_head": MY_HEAD_WRONG}
