"""Train lesson 12's translator for some seconds, and time it against `nn.Transformer` layers.

    python benchmarks/translation.py [--seconds 45 60 120] [--seeds 3] [--dropout 0.2]
        [--rounds 30] [--threads 2]

The number of steps that fit into the seconds is measured first; the learning rate then falls to 0
over them. If trained longer than in the lesson, a model without dropout may memorise that "saute"
ends a sentence, as it always does in training, and then "ne saute pas" loses its "pas". In a race,
all rivals take one step after another, so that other load on the machine affects them equally. A
ratio is the median, over the rounds, of the rival's time divided by ours in the same round; above
1, ours is faster. The translator computes attention in steps, so that it can be read; its form with
PyTorch's built-in, as one would use it, is timed too.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from attention import launches, race, ratio, with_sdpa  # benchmarks/attention.py
from torch import Tensor, nn

from course_utils.attention import count_parameters
from course_utils.data.toy_french import BOS_ID, PAD_ID, english, french, three_sets
from course_utils.experiments import translating as t
from course_utils.transformer import TokenAndPosition
from course_utils.translation import (
    Translator,
    teacher_forcing,
    train_translator,
    translation_loss,
)

OURS, SDPA, THEIRS = "Translator", "Translator with SDPA", "nn.Transformer layers"


class BuiltIn(nn.Module):
    """The same stack of PyTorch's own layers, with the same embeddings and output layer."""

    def __init__(self) -> None:
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True}
        self.embed_source = TokenAndPosition(len(english.vocabulary), t.LONGEST, t.WIDTH)
        self.embed_target = TokenAndPosition(len(french.vocabulary), t.LONGEST, t.WIDTH)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(t.WIDTH, t.HEADS, t.WIDE, **options) for _ in range(t.LAYERS)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(t.WIDTH, t.HEADS, t.WIDE, **options) for _ in range(t.LAYERS)
        )
        self.head = nn.Linear(t.WIDTH, len(french.vocabulary), bias=False)

    def forward(self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor) -> Tensor:
        context = self.embed_source(source)
        for block in self.encoder:
            context = block(context, src_key_padding_mask=source_pad_mask)
        x, T = self.embed_target(decoder_input), decoder_input.shape[1]
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        for block in self.decoder:
            x = block(
                x,
                context,
                tgt_mask=future,
                tgt_is_causal=True,
                memory_key_padding_mask=source_pad_mask,
            )
        return self.head(x)


def against_built_in(rounds: int, device: str = "cpu") -> dict[str, float]:
    batch = tuple(part.to(device) for part in t.draw_batches(t.sentences()[0], 1)[0])
    ours = t.new_model().to(device)
    rivals: dict[str, Callable[[], object]] = {
        OURS: step_of(ours, batch),
        SDPA: step_of(with_sdpa(ours), batch),
        THEIRS: step_of(BuiltIn().to(device), batch),
    }
    times = race(rivals, device, rounds)
    tokens = sum(part.numel() for part in (batch[0], batch[2]))
    print(f"Training, {count_parameters(ours):,} parameters, batches of {t.BATCH} sentences")
    for name, seconds in times.items():
        speed = tokens / statistics.median(seconds)
        print(f"  {name:24}{speed:>10,.0f} tokens/s  × {ratio(times, name, OURS):.2f}")
    if device != "cpu":
        for name, step in rivals.items():
            print(f"  {name:24}{launches(step):>10,} launches of kernels in a step")
    return {
        f"a step of lesson 12: {mine} against {THEIRS}": ratio(times, THEIRS, mine)
        for mine in (OURS, SDPA)
    }


def step_of(model: nn.Module, batch: tuple[Tensor, ...]) -> Callable[[], object]:
    model = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)  # as in training
    return partial(_step, model, optimizer, *batch)


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    source: Tensor,
    source_pad_mask: Tensor,
    targets: Tensor,
) -> float:
    model.train()
    logits = model(source, teacher_forcing(targets, BOS_ID), source_pad_mask)
    loss = translation_loss(logits, targets, PAD_ID)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def after(seconds: float, seeds: int, training: int, dropout: float) -> None:
    trained_on, sentences, combinations = three_sets(training)
    for seed in range(seeds):
        model = t.new_model(seed, dropout)
        steps = fitting(seconds, model, trained_on)
        batches = [*map(t.with_inputs, t.draw_batches(trained_on, steps, seed))]
        start = time.perf_counter()
        train_translator(model, batches, PAD_ID, t.RATE, warm_up=100)
        took = time.perf_counter() - start
        print(
            f"  {took:5.1f} s ({steps} steps), seed {seed}: "
            f"{100 * t.exact(model, sentences):.1f} % of {len(sentences)} unseen sentences, "
            f"{100 * t.exact(model, combinations):.1f} % of unseen combinations",
            flush=True,
        )


def fitting(seconds: float, model: Translator, pairs: t.Sequence[t.Pair]) -> int:
    """The number of steps that fit into this many seconds, on this machine now."""
    trial = [*map(t.with_inputs, t.draw_batches(pairs, 30))]
    start = time.perf_counter()
    train_translator(copy.deepcopy(model), trial, PAD_ID, t.RATE)
    return int(0.95 * seconds / (time.perf_counter() - start) * len(trial))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, nargs="*", default=[45, 60, 120])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--training", type=int, default=6_000)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.device}, {arguments.threads} threads")
    against_built_in(arguments.rounds, arguments.device)
    print("\nToy French, sentences translated without a mistake")
    for seconds in arguments.seconds:
        after(seconds, arguments.seeds, arguments.training, arguments.dropout)


if __name__ == "__main__":
    main()
