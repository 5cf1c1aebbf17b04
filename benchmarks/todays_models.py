"""Time ModernLM against the Llama of `transformers`: a step of training, and tokens with a cache.

    python benchmarks/todays_models.py [--device cuda] [--rounds 30] [--compile] [--threads 2]

In each round, all rivals run one after another, so that other load on the machine affects them
equally. A ratio is the median, over the rounds, of the rival's time divided by ours in the same
round; above 1, ours is faster.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
import transformers
from attention import launches, race, ratio  # benchmarks/attention.py
from language_model import Step, step_of_ours, step_of_theirs  # benchmarks/language_model.py
from torch import Tensor

from course_utils.experiments.real_text import SIZES, VOCABULARY
from course_utils.todays_models import ModernLM, llama_of_size, load_llama, sample_cached

OURS, THEIRS, COMPILED = "ModernLM", "Llama, sdpa", "ModernLM, compiled"


def both(device: str) -> tuple[ModernLM, transformers.LlamaForCausalLM]:
    """Lesson 17's model and a Llama with the same parameters."""
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=SIZES["d_model"],
        num_attention_heads=SIZES["num_heads"],
        num_key_value_heads=SIZES["num_kv_heads"],
        max_position_embeddings=SIZES["context_length"],
        num_hidden_layers=SIZES["num_layers"],
        intermediate_size=SIZES["d_ff"],
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = transformers.LlamaForCausalLM(config)
    ours = llama_of_size(config)
    load_llama(ours, theirs.state_dict())
    ours, theirs = ours.to(device), theirs.to(device)
    ids = torch.randint(VOCABULARY, (2, 9), device=device)
    torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=1e-3, atol=1e-3)
    return ours, theirs


def training(
    rounds: int, batch: int, device: str = "cpu", compiled: bool = False
) -> dict[str, float]:
    ours, theirs = both(device)
    length = SIZES["context_length"]
    ids = torch.randint(VOCABULARY, (batch, length + 1), device=device)
    rivals: dict[str, Step] = {
        OURS: step_of_ours(ours, ids),
        THEIRS: step_of_theirs(theirs, ids),
    }
    if compiled:
        rivals[COMPILED] = step_of_ours(ours, ids, compiled=True)
    times = race(rivals, device, rounds)
    print(f"Training lesson 17's model, batches of {batch} × {length} tokens")
    for name, seconds in times.items():
        milliseconds = 1e3 * statistics.median(seconds)
        print(f"  {name:42}{milliseconds:>10.2f} ms/step  × {ratio(times, name, OURS):.2f}")
    if device != "cpu":
        for name, step in rivals.items():
            print(f"  {name:42}{launches(step):>10,} launches of kernels in a step")
    found = {f"a step of lesson 17, batch {batch}: {OURS} against {THEIRS}": (THEIRS, OURS)}
    if compiled:
        found[f"a step of lesson 17, batch {batch}: {COMPILED} against {OURS}"] = (OURS, COMPILED)
    return {name: ratio(times, *pair) for name, pair in found.items()}


def generation(rounds: int, device: str = "cpu") -> dict[str, float]:
    ours, theirs = both(device)
    new = SIZES["context_length"] - 1
    ids = torch.ones(1, 1, dtype=torch.int64, device=device)
    options = {"attention_mask": torch.ones_like(ids), "do_sample": False, "use_cache": True}
    rivals: dict[str, Callable[[], Tensor]] = {
        "sample_cached": partial(sample_cached, ours, ids, new, temperature=0),
        "Llama, cached": partial(theirs.eval().generate, ids, max_new_tokens=new, **options),
    }
    assert all(rival().shape == (1, new + 1) for rival in rivals.values())
    times = race(rivals, device, rounds)
    print(f"\nGenerating {new} tokens with lesson 17's model")
    for name, seconds in times.items():
        milliseconds = 1e3 * statistics.median(seconds) / new
        against = ratio(times, name, "sample_cached")
        print(f"  {name:42}{milliseconds:>10.2f} ms/token  × {against:.2f}")
    cached = ratio(times, "Llama, cached", "sample_cached")
    return {f"{new} tokens: sample_cached against Llama, cached": cached}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--compile", action="store_true", help="time a compiled ModernLM as well")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, ", end="")
    print(f"{given.device}, {given.threads} threads")
    for batch in (4, 32):
        training(given.rounds, batch, given.device, given.compile)
    generation(max(3, given.rounds // 3), given.device)


if __name__ == "__main__":
    main()
