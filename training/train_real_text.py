"""Train lesson 17's stored model: `python -m training.train_real_text --tokens 9216000`.

It has pieces of its own (`stored_pieces`), and two line breaks between files.

The learning rate rises over the first 100 steps and then stays constant. With `--fall`, it falls to
0 over this share of the steps, at the end. So a run can be stopped and resumed at any step before
the fall, even with a different number of tokens. Losses and times go to the standard output, with
one line per 250 steps.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from course_utils.data import real_text
from course_utils.experiments.real_text import (
    SIZES,
    STORED,
    VOCABULARY,
    held_out_bits,
    stored_pieces,
    token_lengths,
)
from course_utils.language_model import training_step
from course_utils.todays_models import ModernLM

BATCH, RATE, WARM_UP = 4, 3e-3, 100
LEARNED_ON = 2_000_000  # bytes of the text from which the merges are learned


def rate(step: int, steps: int, fall: float) -> float:
    """Return the learning rate of a step; steps are counted from 0."""
    falling = (steps - step) / (fall * steps) if fall else 1.0
    return RATE * min((step + 1) / WARM_UP, 1.0, falling)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=9_216_000)
    parser.add_argument("--fall", type=float, default=0.0)
    parser.add_argument("--state", type=Path, help="a file in which the run is kept, to resume it")
    parser.add_argument("--out", type=Path, default=STORED)
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = real_text.training_and_held_out(real_text.library_files())
    training, held_out = (text.replace(real_text.END, b"\n\n") for text in parts)
    merges = real_text.train_bpe(stored_pieces(training[:LEARNED_ON]), VOCABULARY - 256)
    ids, unseen = (
        real_text.encode_text(text, merges, pieces=stored_pieces) for text in (training, held_out)
    )
    lengths, context = token_lengths(merges), SIZES["context_length"]
    print(f"{len(training):,} bytes, {len(ids):,} tokens; held out {len(held_out):,} bytes")

    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, **SIZES}
    model = ModernLM(**sizes)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    generator = torch.Generator().manual_seed(0)
    first, used = 0, 0.0
    if given.state and given.state.exists():
        kept = torch.load(given.state)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        generator.set_state(kept["generator"])
        first, used = kept["step"], kept["used"]
    steps = given.tokens // (BATCH * context)
    for step in range(first, steps):
        began = time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, given.fall)
        starts = torch.randint(len(ids) - context, (BATCH,), generator=generator)
        batch = torch.stack([ids[at : at + context + 1] for at in starts])  # (B, T + 1)
        loss = training_step(model, batch, optimizer)
        used += time.process_time() - began
        if (step + 1) % 250 == 0 or step + 1 == steps:
            bits = held_out_bits(model, unseen[: 40 * context + 1], lengths, context)
            tokens = (step + 1) * BATCH * context
            print(f"{tokens:,} tokens, {used:.0f} s, loss {loss:.3f}, {bits:.3f} bits", flush=True)
            if given.state:
                state: dict[str, Any] = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                state |= {"generator": generator.get_state(), "step": step + 1, "used": used}
                torch.save(state, given.state)

    print(f"held out: {held_out_bits(model, unseen, lengths, context):.3f} bits per byte")
    tensors = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    tensors["merges"] = torch.tensor(list(merges), dtype=torch.int16)
    save_file(tensors, given.out, {"sizes": json.dumps(sizes)})


if __name__ == "__main__":
    main()
