"""Measure lesson 17's runs: `python -m tools.scale_real_text`.

Three sizes are trained with three budgets each, and the lesson's own size with the lesson's 2,200
steps, from three seeds, with the loop of lesson 10 and the batches of lesson 17. The long runs are
also measured after about one and three minutes. The steps of a budget differ between sizes so that
all take about the same time on one processor core. Compressors, n-grams and the stored model are
measured on the same held-out bytes. Each result is stored at once; another call measures only what
isn't there yet.

With `--heads`, the heads of the stored model are removed instead, one by one, on two samples of the
held-out bytes; nothing is trained or stored.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_utils.data import real_text
from course_utils.experiments import real_text as measured
from course_utils.language_model import train_lm
from course_utils.todays_models import ModernLM

UNSEEN, BEFORE, LEARNED_ON = 200_000, 4_000_000, 1_000_000  # bytes, as in the lesson
BATCH, RATE = 4, 3e-3
LARGE = measured.SIZES  # the size of the lesson's model
SIZES = {
    "small": LARGE | {"d_model": 32, "num_layers": 1, "d_ff": 86},
    "medium": LARGE | {"d_model": 64, "num_layers": 2, "d_ff": 172},
    "large": LARGE,
}
REAL_RUN, MINUTE = 2_200, 440  # steps: the lesson's, and about a minute's


def controls(training: bytes, unseen: bytes) -> dict[str, float]:
    """Return the bits per byte of everything but the runs that the reader can repeat."""
    found = measured.compressed_bits(unseen)
    after = measured.compressed_bits(unseen, before=training[-BEFORE:])
    found |= {f"{name} after reading": bits for name, bits in after.items()}
    model, merges = measured.stored_model()
    ids, lengths = real_text.encode_text(unseen, merges), measured.token_lengths(merges)
    found["stored model"] = measured.held_out_bits(model, ids, lengths)
    counted = real_text.encode_text(training, merges)
    for order in (2, 3, 4, 5):
        ngram = measured.NGram(counted, len(lengths), order)
        found[f"{order}-gram"] = ngram.bits_per_byte(ids, lengths)
    return found


def heads(unseen: bytes) -> None:
    """Print the cost of removing each head, in nats: at closing brackets, and at all others."""
    model, merges = measured.stored_model()
    ids, tokens = real_text.encode_text(unseen, merges), real_text.vocabulary(merges)
    for sample in ids[: 2 * 40 * 256].view(2, 40, 256):  # (B, T): the first is the lesson's
        scores, _ = measured.bracket_scores(model, sample, tokens)  # (L, H)
        closing, others = measured.closing_loss(model, sample, tokens)
        print(f"with all heads: {closing:.2f} and {others:.2f} nats")
        for layer, head in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
            with measured.without_head(model, layer, head):
                without, rest = measured.closing_loss(model, sample, tokens)
            said = f"{scores[layer, head]:.2f} on opening brackets"
            print(
                f"layer {layer} head {head}, {said}: {without - closing:+.2f}, {rest - others:+.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--heads", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    training, held_out = real_text.training_and_held_out(real_text.library_files())
    unseen = held_out[:UNSEEN]
    if given.heads:
        heads(unseen)
        return
    kept = json.loads(measured.RUNS.read_text()) if measured.RUNS.exists() else {"runs": []}

    def store() -> None:
        lines = ",\n".join(json.dumps(run) for run in kept["runs"])
        controls = json.dumps(kept["controls"], indent=1)
        measured.RUNS.write_text(f'{{"controls": {controls},\n"runs": [\n{lines}\n]}}\n')

    if "controls" not in kept:
        kept["controls"] = {name: round(b, 3) for name, b in controls(training, unseen).items()}
        store()
    for name, bits in sorted(kept["controls"].items(), key=lambda entry: -entry[1]):
        print(f"{bits:.2f} bits per byte: {name}")

    merges = real_text.train_bpe(real_text.pieces(training[:LEARNED_ON]), measured.VOCABULARY - 256)
    ids, unseen_ids = (real_text.encode_text(text, merges) for text in (training, unseen))
    lengths = measured.token_lengths(merges)
    windows = ids.unfold(0, LARGE["context_length"] + 1, 64)  # (W, T + 1)
    seeds = range(given.seeds)
    planned = [
        (size, steps, seed)
        for seed in seeds
        for size, all_steps in measured.BUDGETS.items()
        for steps in all_steps
    ]
    planned += [("large", REAL_RUN, seed) for seed in seeds]
    bits = partial(measured.held_out_bits, ids=unseen_ids, lengths=lengths)
    for size, steps, seed in planned:
        run = {"size": size, "steps": steps, "seed": seed}
        if not any(run.items() <= done.items() for done in kept["runs"]):
            kept["runs"].append(run | trained(windows, run, bits))
            store()


def trained(
    windows: Tensor, run: dict[str, Any], bits: Callable[[nn.Module], float]
) -> dict[str, Any]:
    """Train as in the lesson; return what was measured at the end and, in a real run, before."""
    torch.manual_seed(run["seed"])
    model = ModernLM(vocab_size=measured.VOCABULARY, **SIZES[run["size"]])
    order = torch.randint(len(windows), (run["steps"], BATCH))
    on_the_way, began = [], time.process_time()

    def look(step: int) -> None:
        nonlocal began
        used = time.process_time() - began
        on_the_way.append({"steps": step, "seconds": round(used), "bits": round(bits(model), 3)})
        print(run | on_the_way[-1], flush=True)
        began = time.process_time() - used  # the time of measuring doesn't count

    every = MINUTE if run["steps"] == REAL_RUN else run["steps"]
    batches = measured.Watched([windows[chosen] for chosen in order], every, look)
    train_lm(model, batches, RATE)
    look(run["steps"])
    parameters = sum(p.numel() for p in model.parameters())
    return {"parameters": parameters, **on_the_way.pop(), "on the way": on_the_way}


if __name__ == "__main__":
    main()
