"""Time all models of the course against others' and print the ratios as one table.

    python benchmarks/ratios.py [--device cuda] [--rounds 30] [--compile] [--threads 2]

Above 1, ours is faster.
"""

import argparse

import attention
import language_model
import todays_models
import torch
import transformers
import translation


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
    name = torch.cuda.get_device_name() if given.device != "cpu" else f"{given.threads} threads"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(f"{versions}, {given.device}: {name}", flush=True)
    rounds, device, fewer = given.rounds, given.device, max(3, given.rounds // 3)
    found = language_model.against_transformers(rounds, device)
    for sizes in language_model.LARGER if device != "cpu" else ():
        found |= language_model.against_transformers(fewer, device, sizes)
    found |= language_model.generation(fewer, device)
    for batch in (4, 32):
        found |= todays_models.training(fewer, batch, device, given.compile)
    found |= todays_models.generation(fewer, device)
    found |= translation.against_built_in(rounds, device)
    found |= attention.four_kinds(device, fewer)
    print(f"\n| {versions}, {name} | times as fast |\n|---|---|")
    for what, times in found.items():
        print(f"| {what} | {times:.2f} |")


if __name__ == "__main__":
    main()
