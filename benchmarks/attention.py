"""Time the course's attention against PyTorch's own, and style A against style B.

    python benchmarks/attention.py [--device cuda] [--rounds 9]

In each round all rivals run one after another, forward and backward together, so that whatever
else the machine does meets them alike. A ratio is the median over the rounds of the rival's time
divided by that of `MultiHeadAttention` (style B) in the same round.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.attention import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    causal_mask,
    copy_wrapper_to_split,
    merge_heads,
    split_heads,
)

OURS = "MultiHeadAttention (style B)"


class FusedAttention(MultiHeadAttention):
    """Style B with `F.scaled_dot_product_attention` for the scores, mask, softmax and sum."""

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        layers = (self.query, self.key, self.value)
        query, key, value = (split_heads(layer(x), self.num_heads) for layer in layers)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out_proj(merge_heads(context))


class TorchAttention(nn.Module):
    """`nn.MultiheadAttention` with a causal mask and the weights of style B."""

    hidden: Tensor

    def __init__(self, ours: MultiHeadAttention) -> None:
        super().__init__()
        width = ours.out_proj.in_features
        self.attention = nn.MultiheadAttention(width, ours.num_heads, batch_first=True)
        layers = (ours.query, ours.key, ours.value)
        with torch.no_grad():
            self.attention.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        self.attention.out_proj.load_state_dict(ours.out_proj.state_dict())
        self.register_buffer("hidden", causal_mask(ours.context_length))

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        hidden = self.hidden[:T, :T]
        return self.attention(x, x, x, attn_mask=hidden, need_weights=False, is_causal=True)[0]


def against_pytorch(device: str, rounds: int) -> None:
    B, T, C, H = 8, 256, 512, 8
    ours = MultiHeadAttention(C, C, context_length=T, num_heads=H)
    fused = FusedAttention(C, C, context_length=T, num_heads=H)
    fused.load_state_dict(ours.state_dict())
    rivals: dict[str, nn.Module] = {
        OURS: ours,
        "nn.MultiheadAttention": TorchAttention(ours),
        "F.scaled_dot_product_attention": fused,
    }
    x = torch.randn(B, T, C, device=device)
    for rival in rivals.values():
        rival.to(device)
        torch.testing.assert_close(rival(x), ours(x), rtol=1e-3, atol=1e-4)

    print(f"(B, T, C, H) = {(B, T, C, H)}, causal, float32")
    print(f"{'':32}{'forward':>20}{'forward + backward':>24}")
    forward = race({name: partial(rival, x) for name, rival in rivals.items()}, device, rounds)
    both = race({name: partial(step, rival, x) for name, rival in rivals.items()}, device, rounds)
    for name in rivals:
        print(f"{name:32}{cell(forward, name):>20}{cell(both, name):>24}")


def style_a_against_b(device: str, rounds: int) -> None:
    B, T, C = 8, 128, 256
    x = torch.randn(B, T, C, device=device)
    print(f"\nStyle A against style B, (B, T, C) = {(B, T, C)}, forward + backward")
    print(f"{'H':>4}{'style A ms':>14}{'style B ms':>14}{'A / B':>10}")
    for H in (1, 2, 4, 8, 16):
        wrapper = MultiHeadAttentionWrapper(C, C // H, context_length=T, num_heads=H).to(device)
        split = MultiHeadAttention(C, C, context_length=T, num_heads=H).to(device)
        copy_wrapper_to_split(wrapper, split)
        torch.testing.assert_close(wrapper(x), split(x), rtol=1e-3, atol=1e-4)
        rivals = {OURS: partial(step, split, x), "A": partial(step, wrapper, x)}
        times = race(rivals, device, rounds)
        ms = {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}
        print(f"{H:>4}{ms['A']:>14.2f}{ms[OURS]:>14.2f}{ratio(times, 'A'):>10.2f}")


def step(module: nn.Module, x: Tensor) -> None:
    """One forward and one backward pass; gradients reach the input too, as inside a model."""
    module.zero_grad()
    module(x.detach().requires_grad_()).sum().backward()


def race(
    rivals: Mapping[str, Callable[[], object]], device: str, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each rival in each round; a first round that warms up is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds + 1):
        for name, run in rivals.items():
            synchronize(device)
            start = time.perf_counter()
            run()
            synchronize(device)
            seconds[name].append(time.perf_counter() - start)
    return {name: times[1:] for name, times in seconds.items()}


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.accelerator.synchronize()


def ratio(times: dict[str, list[float]], name: str) -> float:
    rounds = zip(times[name], times[OURS], strict=True)
    return statistics.median(theirs / ours for theirs, ours in rounds)


def cell(times: dict[str, list[float]], name: str) -> str:
    return f"{1e3 * statistics.median(times[name]):.2f} ms  × {ratio(times, name):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {arguments.device}, {torch.get_num_threads()} threads")
    against_pytorch(arguments.device, arguments.rounds)
    style_a_against_b(arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
