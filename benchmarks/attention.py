"""Time four kinds of the same attention, the steps of style B, and style A against style B.

    python benchmarks/attention.py [--device cuda] [--rounds 9]

In each round, all rivals run one after another, forward and backward together, so that other load
on the machine affects them equally. A ratio is the median, over the rounds, of two times of the
same round.
"""

import argparse
import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.attention import (
    CrossAttention,
    MultiHeadAttention,
    SDPAMultiHeadAttention,
    attention_scores,
    make_mha,
    masked_softmax,
    merge_heads,
    one_product,
    safe_masked_softmax,
    sdpa_attention,
    split_heads,
)

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.kinds import copy_mha


def four_kinds(device: str, rounds: int) -> dict[str, float]:
    B, T, C, H = 8, 256, 512, 8
    x = torch.randn(B, T, C, device=device)
    rivals = kinds(("wrapper", "split", "sdpa", "torch"), T, C, H, device)
    assert_equal_outputs(rivals, x)
    forward = race({kind: partial(rival, x) for kind, rival in rivals.items()}, device, rounds)
    both = race(steps(rivals, x), device, rounds)
    print(f"(B, T, C, H) = {(B, T, C, H)}, causal, float32: time, and × that of style B")
    print(f"{'':10}{'forward':>20}{'forward + backward':>24}")
    for kind in rivals:
        print(f"{kind:10}{cell(forward, kind, 'split'):>20}{cell(both, kind, 'split'):>24}")
    print("sdpa is", end=" ")
    print(f"{ratio(forward, 'torch', 'sdpa'):.2f} times as fast as torch forward,", end=" ")
    print(f"{ratio(both, 'torch', 'sdpa'):.2f} forward + backward")
    return {
        f"attention, forward + backward: {name} against nn.MultiheadAttention": ratio(
            both, "torch", kind
        )
        for kind, name in (("wrapper", "style A"), ("split", "style B"), ("sdpa", "SDPA"))
    }


class SDPACrossAttention(CrossAttention):
    """`CrossAttention` with `F.scaled_dot_product_attention`; the parameters are the same."""

    def forward(self, x: Tensor, context: Tensor, context_pad_mask: Tensor | None = None) -> Tensor:
        if x is context:
            projected = one_product(x, self.query, self.key, self.value)
        else:
            projected = (self.query(x), *one_product(context, self.key, self.value))
        query, key, value = (split_heads(part, self.num_heads) for part in projected)
        hidden = None if context_pad_mask is None else context_pad_mask[:, None, None, :]
        return self.out_proj(merge_heads(sdpa_attention(query, key, value, hidden)))


def with_sdpa(model: nn.Module) -> nn.Module:
    """A copy of a model that calls the built-in attention instead of computing it in steps."""
    forms = {MultiHeadAttention: SDPAMultiHeadAttention, CrossAttention: SDPACrossAttention}
    model = copy.deepcopy(model)
    for part in model.modules():
        part.__class__ = forms.get(type(part), type(part))
    return model


def kinds(names: Sequence[str], T: int, C: int, H: int, device: str) -> dict[str, nn.Module]:
    """One module of each kind, with the same weights."""
    built = {
        kind: make_mha(kind, d_in=C, d_out=C, num_heads=H, context_length=T).to(device)
        for kind in names
    }
    for attention in built.values():
        copy_mha(built["split"], attention)
    return built


def assert_equal_outputs(rivals: Mapping[str, nn.Module], x: Tensor) -> None:
    expected = next(iter(rivals.values()))(x)
    for rival in rivals.values():
        torch.testing.assert_close(rival(x), expected, rtol=1e-3, atol=1e-4)


# Where style B's time goes ----------------------------------------------------------------------

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Rung(MultiHeadAttention):
    """Style B with a different attention, and one or three products for query, key and value."""

    def __init__(self, T: int, C: int, H: int, attend: Attend, one_product: bool = False) -> None:
        super().__init__(C, C, context_length=T, num_heads=H)
        self.attend, self.one_product = attend, one_product

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        layers = (self.query, self.key, self.value)
        if self.one_product:
            projected = one_product(x, *layers)  # three of (B, T, C)
        else:
            projected = tuple(layer(x) for layer in layers)
        query, key, value = (split_heads(part, self.num_heads) for part in projected)
        context = self.attend(query, key, value, self.hidden[: x.shape[1], : x.shape[1]])
        return self.out_proj(merge_heads(context))


def no_mask(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return torch.softmax(attention_scores(query, key), dim=-1) @ value


def safe_fills(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    """The version that most people write first."""
    empty = hidden.all(dim=-1, keepdim=True)
    scores = attention_scores(query, key).masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), dim=-1)
    return weights.masked_fill(empty, 0.0) @ value


def safe_softmax(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return safe_masked_softmax(attention_scores(query, key), hidden) @ value


def one_fill(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return masked_softmax(attention_scores(query, key), hidden) @ value


def added_mask(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    future = query.new_zeros(hidden.shape).masked_fill(hidden, -math.inf)
    return torch.softmax(attention_scores(query, key) + future, dim=-1) @ value


def sdpa_causal(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def ladder(device: str, rounds: int) -> None:
    B, T, C, H = 8, 256, 512, 8
    first = "three masked fills, safe for rows that attend to nothing"
    rungs = {
        first: Rung(T, C, H, safe_fills),
        "safe with one fill of the scores": Rung(T, C, H, safe_softmax),
        "one masked fill": Rung(T, C, H, one_fill),
        "added mask (style B)": Rung(T, C, H, added_mask),
        "added mask, one product for q, k, v": Rung(T, C, H, added_mask, one_product=True),
        "SDPA, with a mask": Rung(T, C, H, sdpa_attention),
        "SDPA, is_causal (kind sdpa)": Rung(T, C, H, sdpa_causal),
        "SDPA, is_causal, one product": Rung(T, C, H, sdpa_causal, one_product=True),
        "for comparison: nothing hidden": Rung(T, C, H, no_mask),
    }
    x = torch.randn(B, T, C, device=device)
    for rung in rungs.values():
        rung.to(device).load_state_dict(rungs[first].state_dict())
    assert_equal_outputs({name: rung for name, rung in rungs.items() if rung.attend != no_mask}, x)
    times = race(steps(rungs, x), device, rounds)
    print("\nWhere style B's time goes, forward + backward: times as fast as with safe fills")
    for name in rungs:
        milliseconds = 1e3 * statistics.median(times[name])
        print(f"  {name:50}{milliseconds:>8.2f} ms  × {ratio(times, first, name):.2f}")


# Style A ----------------------------------------------------------------------------------------


def style_a_against_b(device: str, rounds: int) -> None:
    B, T, C = 8, 128, 256
    x = torch.randn(B, T, C, device=device)
    print(f"\nStyle A against style B, (B, T, C) = {(B, T, C)}, forward + backward")
    print(f"{'H':>4}{'style A ms':>14}{'style B ms':>14}{'A / B':>10}")
    for H in (1, 2, 4, 8, 16):
        rivals = kinds(("split", "wrapper"), T, C, H, device)
        assert_equal_outputs(rivals, x)
        times = race(steps(rivals, x), device, rounds)
        ms = {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}
        a_to_b = ratio(times, "wrapper", "split")
        print(f"{H:>4}{ms['wrapper']:>14.2f}{ms['split']:>14.2f}{a_to_b:>10.2f}")


# Racing -----------------------------------------------------------------------------------------


def steps(rivals: Mapping[str, nn.Module], x: Tensor) -> dict[str, Callable[[], object]]:
    return {name: partial(step, rival, x) for name, rival in rivals.items()}


def step(module: nn.Module, x: Tensor) -> None:
    """One forward and one backward pass; gradients reach the input too, as inside a model."""
    module.zero_grad()
    module(x.detach().requires_grad_()).sum().backward()


def race(
    rivals: Mapping[str, Callable[[], object]], device: str, rounds: int
) -> dict[str, list[float]]:
    """Seconds of each rival in each round; a warm-up round is not counted."""
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


def ratio(times: Mapping[str, list[float]], name: str, base: str) -> float:
    rounds = zip(times[name], times[base], strict=True)
    return statistics.median(one / other for one, other in rounds)


def show_times(times: Mapping[str, list[float]], base: str, unit: str, units: int = 1) -> None:
    """Prints a line per rival: the time of one of the `units` of a run, and its ratio to `base`."""
    for name, seconds in times.items():
        milliseconds = 1e3 * statistics.median(seconds) / units
        print(f"  {name:42}{milliseconds:>10.2f} ms/{unit}  × {ratio(times, name, base):.2f}")


def launches(step: Callable[[], object]) -> int:
    """The number of kernels that a step starts on a GPU."""
    step()
    with torch.profiler.profile() as profile:
        step()
    return sum(event.count for event in profile.key_averages() if "LaunchKernel" in event.key)


def cell(times: Mapping[str, list[float]], name: str, base: str) -> str:
    return f"{1e3 * statistics.median(times[name]):.2f} ms  × {ratio(times, name, base):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {arguments.device}, {torch.get_num_threads()} threads")
    four_kinds(arguments.device, arguments.rounds)
    ladder(arguments.device, arguments.rounds)
    style_a_against_b(arguments.device, arguments.rounds)


if __name__ == "__main__":
    main()
