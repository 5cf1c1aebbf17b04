"""Measure lesson 17's runs: `python -m training.measure_real_text`.

From each seed, a model is trained as in the lesson, for the lesson's 2,200 steps. Its bits per byte
are measured beside n-grams that are counted on exactly the tokens that the run has read, and on the
whole training text. Then its heads are removed, one by one. Compressors and the stored model are
measured on the same held-out bytes. With `--device cuda`, a batch has 32 windows, as in the lesson,
unless `--windows` says otherwise. `--bits` only trains and measures bits per byte.

With `--writing`, the stored model writes functions instead, at three temperatures.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.data import real_text
from course_utils.experiments import real_text as measured
from course_utils.language_model import train_lm, without_head
from course_utils.todays_models import ModernLM

UNSEEN, BEFORE, LEARNED_ON = 200_000, 4_000_000, 1_000_000  # bytes, as in the lesson
STEPS, RATE, STRIDE = 2_200, 3e-3, 64
LENGTH = measured.SIZES["context_length"] + 1
MINUTE = 440  # steps
SAMPLE = 40 * 256  # tokens for the heads
ORDERS = (3, 4, 5)


def controls(training: bytes, unseen: bytes) -> None:
    """Print the bits per byte of what isn't trained in the lesson."""
    found = measured.compressed_bits(unseen)
    for name, before in (("4 MB", training[-BEFORE:]), ("all", training)):
        after = measured.compressed_bits(unseen, before=before)
        found |= {f"{program} after {name}": bits for program, bits in after.items()}
    model, merges = measured.stored_model()
    ids = real_text.encode_text(unseen, merges, pieces=measured.stored_pieces)
    lengths = measured.token_lengths(merges)
    found["the stored model"] = measured.held_out_bits(model, ids, lengths)
    for name, bits in found.items():
        print(f"{bits:.3f} bits per byte: {name}", flush=True)
    heads(model, ids, real_text.vocabulary(merges))


def heads(model: ModernLM, ids: Tensor, tokens: list[bytes]) -> None:
    """Print what each head does at brackets, and what removing it costs, in nats."""
    sample = ids[:SAMPLE].view(-1, 256)  # (B, T)
    scores, even = measured.bracket_heads(model, sample, tokens)  # (L, H)
    closing, others = measured.closing_loss(model, sample, tokens)
    print(f"even attention: {even:.3f}; with all heads: {closing:.2f} and {others:.2f} nats")
    for layer, head in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        with without_head(model, layer, head):
            without, rest = measured.closing_loss(model, sample, tokens)
        said = f"{scores[layer, head]:.2f} on opening brackets"
        print(f"layer {layer} head {head}, {said}: {without - closing:+.2f}, {rest - others:+.2f}")


def writing(held_out: bytes) -> None:
    """Print the shares of functions and lines that `ast.parse` accepts, by temperature."""
    _, merges = measured.stored_model()
    print("people", measured.accepted(measured.written_by_people(held_out, 60, merges)))
    for temperature in (0.3, 0.7, 1.0):
        texts = measured.functions(measured.writer(temperature), 60)
        parts = [measured.accepted(texts[i::5])[0] for i in range(5)]
        print(temperature, measured.accepted(texts), "in five parts:", parts, flush=True)


def run(
    options: argparse.Namespace,
    seed: int,
    batch: int,
    windows: Tensor,
    ids: Tensor,
    unseen: Tensor,
    lengths: Tensor,
) -> ModernLM:
    """Train as in the lesson, and print what was measured on the way and at the end."""
    torch.manual_seed(seed)
    device, model = options.device, ModernLM(vocab_size=measured.VOCABULARY, **measured.SIZES)
    batch = batch or (32 if device == "cuda" else 4)
    order = torch.randint(len(windows), (options.steps, batch))
    began, clock = 0.0, time.monotonic if device == "cuda" else time.process_time

    def look(step: int) -> None:
        nonlocal began
        used = clock() - began
        bits = measured.held_out_bits(model, unseen.to(device), lengths.to(device))
        said = f"seed {seed}, {batch} windows, {step} steps, {used:.1f} s"
        print(f"{said}: {bits:.3f} bits per byte", flush=True)
        began = clock() - used  # the time of measuring doesn't count

    batches = measured.Watched([windows[chosen].to(device) for chosen in order], MINUTE, look)
    began = clock()
    model = model.to(device)
    trained: Any = torch.compile(model) if options.compile else model
    train_lm(trained, batches, RATE)
    look(options.steps)
    if options.bits:
        return model.cpu()
    read = torch.zeros(len(ids), dtype=torch.bool)
    for start in (STRIDE * order.flatten()).tolist():
        read[start : start + LENGTH] = True
    print(f"read {int(read.sum()):,} of {len(ids):,} tokens")
    for name, part in (("all", ids), ("read", ids[read])):
        bits = [
            measured.NGram(part, len(lengths), n).bits_per_byte(unseen, lengths) for n in ORDERS
        ]
        print(f"n-grams {ORDERS}, {name}:", *(f"{each:.3f}" for each in bits), flush=True)
    return model.cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--windows", type=int, nargs="+", default=[0], help="of a step; one run each"
    )
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--compile", action="store_true", help="train a compiled model")
    parser.add_argument("--bits", action="store_true", help="measure bits per byte alone")
    parser.add_argument("--keep", type=Path, help="a folder for the trained models")
    parser.add_argument("--writing", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    training, held_out = real_text.training_and_held_out(real_text.library_files())
    unseen = held_out[:UNSEEN]
    if options.writing:
        writing(held_out)
        return
    if not options.bits:
        controls(training, unseen)
    pieces = real_text.pieces(training[:LEARNED_ON])
    merges = real_text.train_bpe(pieces, measured.VOCABULARY - 256)
    ids, unseen_ids = (real_text.encode_text(text, merges) for text in (training, unseen))
    lengths, windows = measured.token_lengths(merges), ids.unfold(0, LENGTH, STRIDE)
    for seed, batch in product(options.seeds, options.windows):
        model = run(options, seed, batch, windows, ids, unseen_ids, lengths)
        if not options.bits:
            heads(model, unseen_ids, real_text.vocabulary(merges))
        if options.keep:
            torch.save(model.state_dict(), options.keep / f"{seed}.pt")


if __name__ == "__main__":
    main()
