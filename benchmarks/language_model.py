"""Time TinyLM and its cache against the GPT-2 of `transformers`, and train it to the lowest loss.

    python benchmarks/language_model.py [--device cuda] [--rounds 30] [--seeds 3] [--threads 2]

In each round, all rivals take one step after another, so that other load on the machine affects
them equally. A ratio is the median, over the rounds, of the rival's time divided by ours in the
same round; above 1, ours is faster. `TinyLM` computes attention in steps, so that it can be read;
its form with `SDPAMultiHeadAttention`, as one would use it, is timed too.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import transformers
from attention import launches, race, ratio, show_times, with_sdpa  # benchmarks/attention.py
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention, count_parameters
from course_utils.data import toy_english
from course_utils.desk.environment import use_threads
from course_utils.language_model import (
    TinyLM,
    generate,
    generate_cached,
    held_out_loss,
    train_lm,
    training_step,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for tests.gpt2
from tests.gpt2 import gpt2_twin

V, C, H, T, LAYERS, BATCH = len(toy_english.words), 64, 4, 32, 2, 32  # of lesson 10
LARGER = ((1_024, 384, 6, 256, 6, 8), (1_024, 768, 12, 256, 12, 8))
OURS, SDPA = "TinyLM", "TinyLM with SDPA"
FUSED = "GPT-2, sdpa, our optimizer and GELU"
Step = Callable[[], object]


def against_transformers(
    rounds: int, device: str = "cpu", sizes: tuple[int, ...] = (V, C, H, T, LAYERS, BATCH)
) -> dict[str, float]:
    """Rivals by name. By default, GPT-2 uses an unfused GELU, and `torch.optim.AdamW` loops."""
    vocab_size, width, heads, length, layers, batch = sizes
    ours = TinyLM(vocab_size, width, heads, length, layers).to(device)
    ids = torch.randint(vocab_size, (batch, length + 1), device=device)
    rivals: dict[str, Step] = {OURS: step_of_ours(ours, ids)}
    rivals[SDPA] = step_of_ours(with_sdpa(ours), ids)
    for attention in ("eager", "sdpa"):
        twin = gpt2_twin(ours, attn_implementation=attention).to(device)
        rivals[f"GPT-2, {attention}, as it ships"] = step_of_theirs(twin, ids, fused=False)
        twin = gpt2_twin(
            ours, attn_implementation=attention, activation_function="gelu_pytorch_tanh"
        ).to(device)
        name = f"GPT-2, {attention}, our optimizer and GELU"
        rivals[name] = step_of_theirs(twin, ids, fused=True)

    times = race(rivals, device, rounds)
    print(f"Training, {count_parameters(ours):,} parameters, batches of {batch} × {length} tokens")
    for name, seconds in times.items():
        speed = batch * length / statistics.median(seconds)
        against = f"× {ratio(times, name, OURS):.2f}  × {ratio(times, name, SDPA):.2f}"
        print(f"  {name:42}{speed:>10,.0f} tokens/s  {against}")
    if device != "cpu":
        for name, step in rivals.items():
            print(f"  {name:42}{launches(step):>10,} launches of kernels in a step")
    setting = f"a step of width {width}, {layers} blocks"
    return {
        f"{setting}: {mine} against {name}": ratio(times, name, mine)
        for name in ("GPT-2, sdpa, as it ships", FUSED)
        for mine in (OURS, SDPA)
    }


def step_of_ours(model: nn.Module, ids: Tensor, compiled: bool = False) -> Step:
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return partial(training_step, torch.compile(model) if compiled else model, ids, optimizer)


def step_of_theirs(model: transformers.PreTrainedModel, ids: Tensor, fused: bool = True) -> Step:
    """The same step with its own loss, on the same number of tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused or None)
    seen = ids[:, :-1]

    def step() -> float:
        model.train()
        loss = model(seen, labels=seen).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def generation(rounds: int, device: str = "cpu") -> dict[str, float]:
    new = 256
    model = TinyLM(V, d_model=128, num_heads=4, context_length=new + 1, num_layers=4)
    model = model.to(device).eval()
    twin = gpt2_twin(model).to(device)
    ids = toy_english.draw(1, 1, seed=0).to(device)
    mask = torch.ones_like(ids)
    theirs = partial(twin.generate, ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
    rivals: dict[str, Callable[[], Tensor]] = {
        "generate_cached": partial(generate_cached, model, ids, new),
        "generate": partial(generate, model, ids, new),
        "GPT-2, cached": partial(theirs, use_cache=True),
    }
    expected = generate(model, ids, new)
    torch.testing.assert_close(model(expected), twin(expected).logits, rtol=1e-3, atol=1e-3)
    # A GPU's rounding could choose another of two words that are almost equally likely.
    assert device != "cpu" or all(torch.equal(rival(), expected) for rival in rivals.values())
    times = race(rivals, device, rounds)
    print(f"\nGenerating {new} tokens, width 128, 4 layers")
    show_times(times, "generate_cached", "token", new)
    cached = ratio(times, "GPT-2, cached", "generate_cached")
    return {f"{new} tokens: generate_cached against GPT-2, cached": cached}


def safe_path_against_fast(rounds: int, device: str = "cpu") -> None:
    """Times attention with a mask without padding, which uses the slower path."""
    print("\nMultiHeadAttention, forward + backward: with a padding mask against without")
    for shape in ((32, 32, 64, 4), (16, 128, 256, 8), (8, 256, 512, 8)):
        B, tokens, width, heads = shape
        attend = MultiHeadAttention(width, width, context_length=tokens, num_heads=heads)
        attend, x = attend.to(device), torch.randn(B, tokens, width, device=device)
        pad_mask = torch.zeros(B, tokens, dtype=torch.bool, device=device)
        steps = {
            "without": partial(attention_step, attend, x, None),
            "with": partial(attention_step, attend, x, pad_mask),
        }
        times = race(steps, device, rounds)
        print(f"  (B, T, C, H) = {shape!s:20} × {ratio(times, 'with', 'without'):.2f}")


def attention_step(attend: MultiHeadAttention, x: Tensor, pad_mask: Tensor | None) -> None:
    attend.zero_grad()
    attend(x.detach().requires_grad_(), pad_mask).sum().backward()


def to_the_floor(seeds: int, lengths: list[int]) -> None:
    floor = toy_english.least_loss(T + 1)
    held_out = toy_english.draw(4_000, T + 1, seed=1_000_000)
    best = toy_english.next_word(held_out)[:, :-1]  # (N, T, V)
    print(
        f"\nToy English: the floor is {floor:.4f} nats, the bigram {toy_english.bigram_loss():.4f}"
    )
    for steps in lengths:
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = TinyLM(V, C, H, T, LAYERS)
            batches = toy_english.draw(steps * BATCH, T + 1, seed).view(steps, BATCH, T + 1)
            start = time.perf_counter()
            with use_threads(1):
                train_lm(model, batches, learning_rate=6e-3)
            seconds = time.perf_counter() - start
            above = 100 * excess(model, held_out, best) / floor
            loss = held_out_loss(model, held_out)
            print(
                f"  {steps:>5} steps, seed {seed}: {above:.2f} % above the floor in {seconds:.1f} s"
                f" (held-out loss {loss:.4f})"
            )


@torch.no_grad()
def excess(model: TinyLM, ids: Tensor, best: Tensor) -> float:
    """The distance of the loss from the lowest: the mean Kullback–Leibler divergence from `best`.

    On the same texts, it is far less noisy than the difference of two losses.
    """
    log_probabilities = torch.log_softmax(model.eval()(ids[:, :-1]).double(), dim=-1)
    return float((torch.special.xlogy(best, best) - best * log_probabilities).sum(-1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="*", default=[300, 1_000])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, ", end="")
    print(f"{arguments.device}, {arguments.threads} threads")
    against_transformers(arguments.rounds, arguments.device)
    for sizes in LARGER if arguments.device != "cpu" else ():
        against_transformers(arguments.rounds, arguments.device, sizes)
    generation(max(3, arguments.rounds // 3), arguments.device)
    safe_path_against_fast(max(3, arguments.rounds // 3), arguments.device)
    to_the_floor(arguments.seeds, arguments.steps)


if __name__ == "__main__":
    main()
