"""`python -m training.small_models`: train the small models of lessons 10, 11 and 14.

Names of lessons train only these: `python -m training.small_models clinic`, for example, takes 1.5
minutes. Each model is stored next to its experiment in `course_utils/experiments/`.
"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from course_utils.data import toy_english
from course_utils.data.toy_french import PAD_ID, french, three_sets
from course_utils.desk.environment import use_threads
from course_utils.experiments import clinic, induction, modern, tiny_lm, translating
from course_utils.experiments.training import seeded
from course_utils.language_model import TinyLM, train_lm
from course_utils.translation import Translator, train_translator


def batches(steps: int = 300) -> list[Tensor]:
    """Lesson 10's batches, `(32, 33)` each; every text is drawn afresh."""
    return list(toy_english.draw(steps * 32, 33, seed=1).view(steps, 32, 33))


def tiny(seed: int = 0) -> TinyLM:
    """A model trained as in lesson 10."""
    model = tiny_lm.new_model(seed=seed)
    with use_threads(1):
        train_lm(model, batches(), learning_rate=6e-3)
    return model.eval()


def repeater(
    num_layers: int, seed: int = 0, steps: int = induction.STEPS
) -> tuple[TinyLM, list[float]]:
    """A model trained on lesson 10's repetitive texts, and its losses."""
    with use_threads(1), seeded(seed):
        sizes = induction.WORDS, induction.WIDTH, induction.HEADS, induction.LENGTH
        model = TinyLM(*sizes, num_layers)
        losses = train_lm(model, induction.batches(steps, seed), learning_rate=6e-3)
    return model.eval(), losses


def translator(steps: int, share: float = 0.0, seed: int = 0) -> Translator:
    """A model trained as in lesson 12, with this share of random words in the decoder's input."""
    drawn = translating.draw_batches(three_sets(held_out=400)[0], translating.STEPS, seed)[:steps]
    generator = torch.Generator().manual_seed(seed)
    made = []
    for source, mask, ids, targets in map(translating.with_inputs, drawn):
        wrong = torch.rand(ids.shape, generator=generator) < share
        wrong[:, 0] = False
        other = torch.randint(3, len(french.vocabulary), ids.shape, generator=generator)
        made.append((source, mask, torch.where(wrong, other, ids), targets))
    model = translating.new_model(seed)
    with use_threads(1):
        train_translator(model, made, PAD_ID, translating.RATE)
    return model.eval()


def letters(seed: int = 0) -> tuple[TinyLM, list[float]]:
    """A model trained as in lesson 15, and its losses."""
    windows = modern.letters_and_windows()[1]
    with use_threads(1), seeded(seed):
        model = TinyLM(len(modern.LETTERS), 48, 3, modern.LENGTH, 2)
        drawn = list(windows[torch.randint(len(windows), (1_000, 16))])
        losses = train_lm(model, drawn, learning_rate=0.01)
    return model.eval(), losses


class SometimesWithoutSource(nn.Module):
    """A translator whose decoder gets zeros instead of the context in some of its calls, so that it
    also learns to generate without a source."""

    def __init__(self, model: Translator, every: int) -> None:
        super().__init__()
        self.model, self.every, self.calls = model, every, 0

    def forward(self, source: Tensor, decoder_input: Tensor, source_pad_mask: Tensor) -> Tensor:
        context = self.model.encode(source, source_pad_mask)
        if self.every and self.calls % self.every == 0:
            context = 0 * context
        self.calls += 1
        return self.model.decode(decoder_input, context, source_pad_mask)


def train_small_translator(
    model: Translator, steps: int = 3_000, seed: int = 0, without_source_every: int = 4
) -> list[float]:
    """Train lesson 11's translator on the sentences of lesson 12; return the losses."""
    pairs, generator = translating.sentences()[0], torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(pairs), (steps, 64), generator=generator).tolist()
    drawn_pairs = ([pairs[i] for i in row] for row in drawn)
    all_batches = [translating.with_inputs(translating.as_batch(row)) for row in drawn_pairs]
    trained = SometimesWithoutSource(model, without_source_every)
    with use_threads(1):
        return train_translator(trained, all_batches, PAD_ID, 3e-3, warm_up=100)


def _half(model: nn.Module, before: str = "") -> dict[str, Tensor]:
    return {f"{before}{n}": w.half().contiguous() for n, w in model.state_dict().items()}


def store_tiny() -> None:
    model = tiny()
    print("agreement:", tiny_lm.agreement(model))
    save_file(_half(model), tiny_lm.STORED)


def store_induction() -> None:
    tensors: dict[str, Tensor] = {}
    for layers in (1, 2):
        model, losses = repeater(layers)
        print(layers, "layers:", round(induction.accuracy(model), 3), round(losses[-1], 3))
        tensors |= {f"{layers}.{n}": w.contiguous() for n, w in model.state_dict().items()}
        tensors[f"losses of {layers}"] = torch.tensor(losses)
    save_file(tensors, induction.KEPT)


def store_translator() -> None:
    model = translating.new_model(sizes=translating.SMALL)
    train_small_translator(model)
    save_file(_half(model), translating.STORED)
    exact = translating.exact(translating.translator(), translating.sentences()[1])
    print(f"unseen sentences exact: {exact:.3f}")


def store_clinic() -> None:
    """Losses are stored as means over ten steps."""
    tensors: dict[str, Tensor] = {}
    for patient in ("", *clinic.BY_THEMSELVES):
        model, losses = clinic.train(patient)
        tensors |= _half(model, f"{patient}.")
        tensors[f"{patient}.losses"] = torch.tensor(losses).view(-1, 10).mean(dim=1)
    save_file(tensors, clinic.KEPT)


STORE = {
    "tiny_lm": store_tiny,
    "induction": store_induction,
    "translating": store_translator,
    "clinic": store_clinic,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or STORE:
        STORE[name]()
