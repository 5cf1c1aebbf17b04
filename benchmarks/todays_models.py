"""Times ModernLM against the Llama of `transformers` for ratios.py: a step, and cached tokens.

In each round, all rivals run one after another, so that other load on the machine affects them
equally. A ratio is the median, over the rounds, of the rival's time divided by ours in the same
round; above 1, ours is faster.
"""

from collections.abc import Callable
from functools import partial

import torch
import transformers
from attention import launches, race, ratio, show_times  # benchmarks/attention.py
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
    show_times(times, OURS, "step")
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
    show_times(times, "sample_cached", "token", new)
    cached = ratio(times, "Llama, cached", "sample_cached")
    return {f"{new} tokens: sample_cached against Llama, cached": cached}
