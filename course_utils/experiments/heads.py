"""What lessons 06 and 07 try on heads, measure of them and draw: code to call, not to read there.

Letters in shapes are those of `course_utils.attention`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from course_utils import attention
from course_utils.experiments.measuring import kept_bytes, seconds
from course_utils.figures import Picture
from course_utils.shapes import trace_shapes

# Lesson 06: does the padding mask arrive? -------------------------------------------------------


class PublishedWrapper(attention.MultiHeadAttentionWrapper):
    """`MultiHeadAttentionWrapper` with a fault that was once published: find it by trying."""

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        contexts = [head(x) for head in self.heads]  # H of (B, T, D), and no mask
        return self.out_proj(torch.cat(contexts, dim=-1))  # (B, T, H * D)


def padded_both_ways() -> dict[str, tuple[Tensor, Tensor]]:
    """A text of 3 tokens alone, with two places of padding behind it, and with two in front.

    Returns:
        `x`, `(1, T, 4)`, and `pad_mask`, `(1, T)`, under "alone", "behind" and "front".
    """
    generator = torch.Generator().manual_seed(123)
    text = torch.randn(1, 3, 4, generator=generator)
    padding = torch.randn(1, 2, 4, generator=generator)  # what stands in the padded places
    behind = torch.tensor([[False, False, False, True, True]])
    return {
        "alone": (text, torch.zeros(1, 3, dtype=torch.bool)),
        "behind": (torch.cat([text, padding], dim=1), behind),
        "front": (torch.cat([padding, text], dim=1), behind.flip(1)),
    }


def same_as_alone(module: nn.Module) -> list[bool]:
    """Whether a padded text gives what it gives alone: with padding behind it, and in front.

    Args:
        module: takes `(B, T, 4)` and a `pad_mask`.
    """
    device = next(module.parameters()).device
    ways = {k: (x.to(device), mask.to(device)) for k, (x, mask) in padded_both_ways().items()}
    with torch.no_grad():
        alone, behind, front = (module(x, mask) for x, mask in ways.values())
    return [torch.allclose(out, alone, atol=1e-6) for out in (behind[:, :3], front[:, 2:])]


def weights_in_front(wrapper: attention.MultiHeadAttentionWrapper) -> tuple[Tensor, Tensor]:
    """The weights of each head for the text with padding in front: unmasked, then masked.

    Returns:
        Weights and what is hidden, each `(2 H, T, T)`.
    """
    x, pad_mask = padded_both_ways()["front"]
    x = x.to(next(wrapper.parameters()).device)
    rows, masks = [], []
    for mask in (torch.zeros_like(pad_mask), pad_mask):
        hidden = attention.causal_and_padding(mask.to(x.device))  # (1, T, T)
        for head in wrapper.heads:
            assert isinstance(head, attention.PaddedCausalSelfAttention)
            with torch.no_grad():
                scores = attention.attention_scores(head.query(x), head.key(x))  # (1, T, T)
            rows.append(attention.safe_masked_softmax(scores, hidden)[0])
            masks.append(hidden[0])
    return torch.stack(rows).cpu(), torch.stack(masks).cpu()


# Lesson 07: whose numbers does a head hold? -----------------------------------------------------


def token_tables(pieces: Mapping[str, Tensor], width: int, title: str, alt: str) -> Picture:
    """Draw tables of numbered channels; the shade says which token a number came from.

    Args:
        pieces: by heading, a table `(T, D)` of the numbers 1, 2, … as they stand in the tokens.
        width: channels of a token: the numbers 1 to `width` are those of token 0.
        title, alt: what to see, and the same without seeing it.
    """
    figure, row = plt.subplots(1, len(pieces), figsize=(6.6, 2.3))
    for axes, (name, numbers) in zip(row, pieces.items(), strict=True):
        axes.imshow((numbers - 1) // width, cmap="Greys", vmin=0, vmax=5)
        for t, channels in enumerate(numbers.tolist()):
            for d, number in enumerate(channels):
                axes.text(d, t, number, ha="center", va="center")
        axes.set(title=name, xlabel="channel")
        axes.set(xticks=range(numbers.shape[1]), yticks=range(numbers.shape[0]))
    row[0].set_ylabel("row")
    figure.suptitle(title, fontweight="bold")
    figure.tight_layout()
    return Picture(figure, alt)


def tokens_that_notice(split: Callable[[Tensor], Tensor], changed: int = 2) -> list[int]:
    """Which of three tokens notice that one of them is another, under a causal mask.

    Args:
        split: `(1, 3, 4)` to heads `(1, 2, 3, 2)`; each head is its own query, key and value.
        changed: the token that is another.
    """
    x = torch.arange(1.0, 13.0).view(1, 3, 4) / 10
    other = x.clone()
    other[:, changed] += 1.0
    before, after = (_attend(split(tokens)) for tokens in (x, other))
    notices = (before - after)[0].abs().amax(dim=-1) > 1e-6  # (T,)
    return [int(t) for t in notices.nonzero()[:, 0]]


def _attend(heads: Tensor) -> Tensor:
    scores = attention.attention_scores(heads, heads)  # (B, H, T, T)
    weights = attention.masked_softmax(scores, attention.causal_mask(heads.shape[2]))
    return attention.merge_heads(weights @ heads)  # (B, T, C)


# Lesson 07: both styles and PyTorch's own -------------------------------------------------------


def with_weights_of(source: nn.Module, target: nn.Module) -> nn.Module:
    """`target` with the values of `source`'s parameters, by name."""
    values = dict(source.named_parameters())
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            parameter.copy_(values[name])
    return target


def library_twin(split: attention.MultiHeadAttention) -> nn.MultiheadAttention:
    """PyTorch's own module with the weights of ours, for `d_in` equal to `d_out` and no biases."""
    width = split.query.out_features
    twin = nn.MultiheadAttention(width, split.num_heads, batch_first=True)
    weights = [split.query.weight, split.key.weight, split.value.weight]
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat(weights))  # 3 of (C, C) -> (3 C, C)
        twin.in_proj_bias.zero_()
    with_weights_of(split.out_proj, twin.out_proj)
    return twin.to(weights[0].device)


# Lesson 07: what both styles cost ---------------------------------------------------------------

STYLES: dict[str, Callable[[int, int, int], nn.Module]] = {
    "A, side by side": lambda C, T, H: attention.MultiHeadAttentionWrapper(C, C // H, T, H),
    "B, split": lambda C, T, H: attention.MultiHeadAttention(C, C, T, H),
}


def _nothing_padded(x: Tensor) -> Tensor:
    """A padding mask `(B, T)` for `x`: with one, both styles weigh the scores in the same way."""
    return torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)


def operations(module: nn.Module, x: Tensor) -> int:
    """How many operations PyTorch is asked for in one call."""
    pad_mask = _nothing_padded(x)
    return len(trace_shapes(lambda x: module(x, pad_mask), x, limit=1).steps)


def cost_of_styles(x: Tensor, numbers_of_heads: Sequence[int], title: str, alt: str) -> Picture:
    """Measure both styles on `x`, `(B, T, C)`, and draw time and memory against the heads."""
    _, T, C = x.shape
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.0))
    for (name, make), line in zip(STYLES.items(), ["ko-", "bs--"], strict=True):
        modules = [make(C, T, H).to(x.device) for H in numbers_of_heads]
        calls = [partial(m, x, _nothing_padded(x)) for m in modules]
        left.plot(numbers_of_heads, [1000 * seconds(c) for c in calls], line, label=name)
        kept = [kept_bytes(c) / 2**10 for c in calls]
        right.plot(numbers_of_heads, kept, line, label=name)
    left.set(title="time, forward and backward", ylabel="milliseconds")
    right.set(title="memory kept for backward", ylabel="KiB")
    for axes in (left, right):
        axes.set(xlabel="heads H", xticks=numbers_of_heads)
        axes.set_ylim(bottom=0)
        axes.legend()
    figure.suptitle(title, fontweight="bold")
    figure.tight_layout()
    return Picture(figure, alt)
