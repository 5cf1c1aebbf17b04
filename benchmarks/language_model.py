"""Time TinyLM and its cache against the GPT-2 of `transformers`, and train it to the lowest loss.

    python benchmarks/language_model.py [--rounds 30] [--seeds 3] [--threads 2]

In each round, all rivals take one step after another, so that other load on the machine affects
them equally. A ratio is the median, over the rounds, of the rival's time divided by ours in the
same round; above 1, ours is faster.
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
from attention import race, ratio  # benchmarks/attention.py
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
OURS = "TinyLM"


def against_transformers(rounds: int) -> None:
    """Rivals by name. By default, GPT-2 uses an unfused GELU, and `torch.optim.AdamW` loops."""
    ours = TinyLM(V, C, H, T, LAYERS)
    ids = toy_english.draw(BATCH, T + 1, seed=0)
    rivals: dict[str, Callable[[], object]] = {OURS: step_of_ours(ours, ids)}
    for attention in ("eager", "sdpa"):
        twin = gpt2_twin(ours, attn_implementation=attention)
        rivals[f"GPT-2, {attention}, as it ships"] = step_of_gpt2(twin, ids, fused=False)
        twin = gpt2_twin(
            ours, attn_implementation=attention, activation_function="gelu_pytorch_tanh"
        )
        rivals[f"GPT-2, {attention}, our optimizer and GELU"] = step_of_gpt2(twin, ids, fused=True)

    times = race(rivals, "cpu", rounds)
    print(f"Training, {count_parameters(ours):,} parameters, batches of {BATCH} × {T} tokens")
    for name, seconds in times.items():
        speed = BATCH * T / statistics.median(seconds)
        print(f"  {name:42}{speed:>10,.0f} tokens/s  × {ratio(times, name, OURS):.2f}")


def step_of_ours(model: TinyLM, ids: Tensor) -> Callable[[], object]:
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)  # as in `train`
    return partial(training_step, model, ids, optimizer)


def step_of_gpt2(
    model: transformers.GPT2LMHeadModel, ids: Tensor, fused: bool
) -> Callable[[], object]:
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


def generation(rounds: int) -> None:
    new = 256
    model = TinyLM(V, d_model=128, num_heads=4, context_length=new + 1, num_layers=4).eval()
    twin = gpt2_twin(model)
    ids = toy_english.draw(1, 1, seed=0)
    mask = torch.ones_like(ids)
    theirs = partial(twin.generate, ids, attention_mask=mask, max_new_tokens=new, do_sample=False)
    rivals: dict[str, Callable[[], Tensor]] = {
        "generate_cached": partial(generate_cached, model, ids, new),
        "generate": partial(generate, model, ids, new),
        "GPT-2, cached": partial(theirs, use_cache=True),
    }
    expected = generate(model, ids, new)
    assert all(torch.equal(rival(), expected) for rival in rivals.values())
    times = race(rivals, "cpu", rounds)
    print(f"\nGenerating {new} tokens, width 128, 4 layers")
    for name, seconds in times.items():
        milliseconds = 1e3 * statistics.median(seconds) / new
        against = ratio(times, name, "generate_cached")
        print(f"  {name:42}{milliseconds:>10.2f} ms/token  × {against:.2f}")


def safe_path_against_fast(rounds: int) -> None:
    """Times attention with a mask without padding, which uses the slower path."""
    print("\nMultiHeadAttention, forward + backward: with a padding mask against without")
    for shape in ((32, 32, 64, 4), (16, 128, 256, 8), (8, 256, 512, 8)):
        B, tokens, width, heads = shape
        attend = MultiHeadAttention(width, width, context_length=tokens, num_heads=heads)
        x = torch.randn(B, tokens, width)
        pad_mask = torch.zeros(B, tokens, dtype=torch.bool)
        steps = {
            "without": partial(attention_step, attend, x, None),
            "with": partial(attention_step, attend, x, pad_mask),
        }
        times = race(steps, "cpu", rounds)
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
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="*", default=[300, 1_000])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, ", end="")
    print(f"{arguments.threads} threads")
    against_transformers(arguments.rounds)
    generation(max(3, arguments.rounds // 3))
    safe_path_against_fast(max(3, arguments.rounds // 3))
    to_the_floor(arguments.seeds, arguments.steps)


if __name__ == "__main__":
    main()
