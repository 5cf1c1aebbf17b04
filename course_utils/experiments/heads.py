"""Experiments on heads for lessons 06 and 07: code that the lessons call but don't show.

Letters in shapes have the same meaning as in `course_utils.attention`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.patches import Patch
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils import attention
from course_utils.desk.environment import use_threads
from course_utils.experiments import lookup
from course_utils.experiments.measuring import kept_bytes, seconds
from course_utils.experiments.training import descend, seeded
from course_utils.language_model import TinyLM, without_head
from course_utils.show import drawing
from course_utils.show.figures import Picture
from course_utils.show.shapes import trace_shapes
from course_utils.show.start import model as start_page
from course_utils.show.start.language import END, NOUNS, PLACES, VERBS, VERBS_WITH_OBJECT
from course_utils.transformer import TransformerBlock


def two_payloads(B: int, seed: int) -> tuple[Tensor, Tensor]:
    """Texts of lesson 04's lookup, `(B, T, 8)`, and each token's targets, `(B, T, 4)`: the payloads
    of the next kind and of the previous kind."""
    kinds, tokens, following = lookup.texts(B, seed)
    source = kinds.argsort(dim=-1).gather(1, (kinds - 1) % len(lookup.KINDS))  # (B, T)
    payloads = tokens[..., len(lookup.KINDS) :]  # (B, T, 2)
    previous = payloads.gather(1, source[..., None].expand_as(payloads))
    return tokens, torch.cat([following, previous], dim=-1)


class SideBySide(nn.Module):
    """Unmasked heads, concatenated and mixed by `out_proj`: `(B, T, 8)` to `(B, T, 4)`."""

    def __init__(self, num_heads: int, width: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(attention.SelfAttention(8, width) for _ in range(num_heads))
        self.out_proj = nn.Linear(num_heads * width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1))


def train(
    num_heads: int, width: int, seed: int = 0, make: type[SideBySide] = SideBySide
) -> SideBySide:
    """Train heads to get both payloads, in 1,000 steps of Adam on 64 texts each."""
    with seeded(seed):
        model = make(num_heads, width)

    def loss(step: int) -> Tensor:
        tokens, wanted = two_payloads(64, 10_000 * seed + step)
        return F.mse_loss(model(tokens), wanted)

    descend(torch.optim.Adam(model.parameters(), lr=0.02), 1_000, loss)
    return model


@torch.no_grad()
def error(model: SideBySide) -> float:
    """The mean squared error on 4,000 other texts; the payloads' variance is 1."""
    tokens, wanted = two_payloads(4_000, 1_000_000)
    return F.mse_loss(model(tokens), wanted).item()


@torch.no_grad()
def weights_by_kind(model: SideBySide) -> Tensor:
    """Each head's attention weights by kind, averaged over 1,000 texts, `(H, 6, 6)`. The
    head that attends most to the next kind comes first."""
    kinds, tokens, _ = lookup.texts(1_000, 1_000_000)
    tokens = tokens.gather(1, kinds.argsort(dim=-1)[..., None].expand_as(tokens))
    maps = torch.stack([_weights(head, tokens).mean(dim=0) for head in model.heads])
    return maps[maps.diagonal(1, 1, 2).sum(dim=-1).argsort(descending=True)]


def _weights(head: nn.Module, x: Tensor, hidden: Tensor | None = None) -> Tensor:
    """A head's attention weights, `(B, T, T)`."""
    assert isinstance(head, attention.SelfAttention | attention.PaddedCausalSelfAttention)
    scores = attention.attention_scores(head.query(x), head.key(x))
    hidden = torch.zeros(1, dtype=torch.bool) if hidden is None else hidden
    return attention.safe_masked_softmax(scores, hidden)


def plural_share(words: list[str], silent: int | Sequence[int] = ()) -> float:
    """Return the probability that the start page's model gives to a plural verb after these words.

    Args:
        silent: one or several heads of block 1 to ablate.
    """
    return _plural_shares([words], silent, block=1).item()


def mean_plural_share(subject: str, silent: int | Sequence[int] = (), block: int = 1) -> float:
    """Average `plural_share` over the 192 sentences like "the dogs near the cat", in which the
    subject has this number, "many" or "one", and the nearer noun has the other number.

    Args:
        silent: one or several heads to ablate.
        block: the block of these heads, 0 or 1.
    """
    other = {"many": "one", "one": "many"}[subject]
    sentences = [
        [END, "the", noun, place, "the", nearer]
        for noun in NOUNS[subject]
        for place in PLACES
        for nearer in NOUNS[other]
    ]
    return _plural_shares(sentences, silent, block).mean().item()


@torch.no_grad()
def _plural_shares(sentences: list[list[str]], silent: int | Sequence[int], block: int) -> Tensor:
    model = start_page.trained()
    ids = torch.tensor([[start_page.IDS[word] for word in words] for words in sentences])  # (B, T)
    with ExitStack() as removed:
        for head in [silent] if isinstance(silent, int) else silent:
            removed.enter_context(without_head(model, block, head))
        chances = torch.softmax(model(ids)[:, -1], dim=-1)  # (B, V)
    plural = [start_page.IDS[verb] for verb in VERBS["many"] + VERBS_WITH_OBJECT["many"]]
    return chances[:, plural].sum(dim=-1)  # (B,)


class ReviewedWrapper(attention.MultiHeadAttentionWrapper):
    """Somebody else's `MultiHeadAttentionWrapper`, to review."""

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        contexts = [head(x) for head in self.heads]  # H of (B, T, D), and no mask
        return self.out_proj(torch.cat(contexts, dim=-1))  # (B, T, H * D)


def padded_both_ways() -> dict[str, tuple[Tensor, Tensor]]:
    """A text of 3 tokens "alone", with two padding tokens "after" it, and with two "before" it;
    each is a pair of `x`, of shape `(1, T, 4)`, and `pad_mask`, of shape `(1, T)`."""
    generator = torch.Generator().manual_seed(123)
    text = torch.randn(1, 3, 4, generator=generator)
    padding = torch.randn(1, 2, 4, generator=generator)
    after = torch.tensor([[False, False, False, True, True]])
    return {
        "alone": (text, torch.zeros(1, 3, dtype=torch.bool)),
        "after": (torch.cat([text, padding], dim=1), after),
        "before": (torch.cat([padding, text], dim=1), after.flip(1)),
    }


@torch.no_grad()
def same_as_alone(module: nn.Module) -> list[bool]:
    """Whether a text gives the same result with padding after it, and before it, as without."""
    device = next(module.parameters()).device
    ways = padded_both_ways().values()
    alone, after, before = (module(x.to(device), mask.to(device)) for x, mask in ways)
    return [torch.allclose(out, alone, atol=1e-6) for out in (after[:, :3], before[:, 2:])]


@torch.no_grad()
def weights_with_padding_before(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Two heads' weights for the text after two padding tokens, as `ReviewedWrapper` computes them
    and then with the padding hidden; and the masks. Both tensors are `(2 H, T, T)`."""
    assert isinstance(module, attention.MultiHeadAttentionWrapper)
    x, pad_mask = (
        tensor.to(module.out_proj.weight.device) for tensor in padded_both_ways()["before"]
    )
    masks = [attention.causal_and_padding(mask) for mask in (torch.zeros_like(pad_mask), pad_mask)]
    hidden = torch.cat([mask for mask in masks for _ in module.heads])  # (2 H, T, T)
    rows = [_weights(head, x, mask) for mask in masks for head in module.heads]
    return torch.cat(rows).cpu(), hidden.cpu()


def token_tables(
    pieces: Mapping[str, Tensor], words: Sequence[str], title: str, alt: str
) -> Picture:
    """Draw tables of numbered channels; the shade shows the token that a channel belongs to.

    Args:
        pieces: for each heading, a table `(T, D)` of the numbers 1, 2, …. The first table is that
            of the tokens, so its width shows which numbers belong to token 0.
        words: the tokens, for the legend.
    """
    width = next(iter(pieces.values())).shape[1]
    shade = Normalize(0, len(words) + 2)
    with drawing.style():
        figure = drawing.figure(6.6, 2.7, title)
        row = figure.subplots(1, len(pieces))
        for axes, (name, numbers) in zip(row, pieces.items(), strict=True):
            axes.imshow((numbers - 1) // width, cmap="Greys", norm=shade)
            for (t, d), number in np.ndenumerate(numbers.numpy()):
                axes.text(d, t, number, ha="center", va="center")
            axes.spines[:].set_visible(True)
            axes.set(title=name, xlabel="channel")
            axes.set(xticks=range(numbers.shape[1]), yticks=range(numbers.shape[0]))
        row[0].set_ylabel("row")
        shades = [
            Patch(facecolor=colormaps["Greys"](shade(t)), edgecolor="black", label=word)
            for t, word in enumerate(words)
        ]
        figure.legend(handles=shades, loc="outside lower center", ncols=len(words))
    return Picture(figure, alt)


def tokens_that_change(split: Callable[[Tensor], Tensor]) -> list[int]:
    """Which of three tokens get a different result, under a causal mask, when the last is changed.
    `split` turns tokens into heads, `(1, 3, 4)` to `(1, 2, 3, 2)`, which serve as query, key and
    value."""
    x = torch.arange(1.0, 13.0).view(1, 3, 4) / 10
    other = x.clone()
    other[:, 2] += 1.0
    before, after = (_attend(split(tokens)) for tokens in (x, other))
    notices = (before - after)[0].abs().amax(dim=-1) > 1e-6  # (T,)
    return [int(t) for t in notices.nonzero()[:, 0]]


def _attend(heads: Tensor) -> Tensor:
    scores = attention.attention_scores(heads, heads)  # (B, H, T, T)
    weights = attention.masked_softmax(scores, attention.causal_mask(heads.shape[2]))
    return attention.merge_heads(weights @ heads)  # (B, T, C)


def library_twin(split: attention.MultiHeadAttention, num_heads: int) -> nn.MultiheadAttention:
    """Return PyTorch's module with the parameters of `split`.

    `split` must have `d_in` = `d_out`, and no biases for query, key and value.
    """
    twin = nn.MultiheadAttention(split.query.out_features, num_heads, batch_first=True)
    weights = [split.query.weight, split.key.weight, split.value.weight]
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat(weights))  # 3 of (C, C) -> (3 C, C)
        twin.in_proj_bias.zero_()
    twin.out_proj.load_state_dict(split.out_proj.state_dict())
    return twin.to(weights[0].device)


def start_page_with(module: Callable[..., nn.Module]) -> TinyLM:
    """Build the start page's model, with its trained parameters in attention modules of this class.

    Args:
        module: a class with the same arguments and parameter names as `MultiHeadAttention`.
    """
    with torch.random.fork_rng(devices=[]):
        model = start_page.new()
        model.load_state_dict(start_page.trained().state_dict())
        for block in model.blocks:
            assert isinstance(block, TransformerBlock)
            C, T = start_page.WIDTH, start_page.CONTEXT_LENGTH
            given = module(C, C, T, start_page.HEADS)
            given.load_state_dict(block.attention.state_dict(), strict=False)
            block.add_module("attention", given)
    return model.eval()


def print_next_words(model: nn.Module, text: str) -> None:
    """Print the three most likely next words after a text of the start page's language."""
    words, _ = start_page.read(text)
    for word, chance in islice(start_page.next_words(words, model).items(), 3):
        print(f"{word:8}{chance:.0%}")


STYLES: dict[str, Callable[[int, int, int], nn.Module]] = {
    "A, side by side": lambda C, T, H: attention.MultiHeadAttentionWrapper(C, C // H, T, H),
    "B, split": lambda C, T, H: attention.MultiHeadAttention(C, C, T, H),
}


def matrix_products(module: nn.Module) -> int:
    """The number of matrix products in one call of a module; each linear layer counts as one."""
    x = torch.zeros(1, 5, next(module.parameters()).shape[-1])
    steps = trace_shapes(module, x, limit=1).steps
    return sum(step.operation in ("linear", "@") for step in steps)


def cost_of_styles(numbers_of_heads: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """For each style, the milliseconds of forward and backward, and the KiB kept for backward."""
    B, T, C = 4, 16, 64
    x = torch.randn(B, T, C)
    pad_mask = torch.zeros(B, T, dtype=torch.bool)  # so that both styles use the same softmax
    panels: dict[str, dict[str, list[float]]] = {"milliseconds": {}, "KiB kept for backward": {}}
    with use_threads(1):
        for name, make in STYLES.items():
            calls = [partial(make(C, T, H), x, pad_mask) for H in numbers_of_heads]
            panels["milliseconds"][name] = [1000 * seconds(call) for call in calls]
            panels["KiB kept for backward"][name] = [kept_bytes(call) / 2**10 for call in calls]
    return panels
