"""How an answer to `patient_h` is judged."""

from dataclasses import replace

import torch

from exercises.shared.writing import (
    OF_THE_MODEL,
    Writer,
    WritingProbe,
    begins,
    expect_text,
    first_word,
    writer_numbers,
)
from whywrong import Case, Draw, Property, true_of
from whywrong.probing import evidence


class Keeper(Writer):
    """A writer that reads on from what it keeps, and counts the positions pushed through it."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.pushed = 0

    def forward(self, new, cache=None):
        known, total = (0, 0.0) if cache is None else cache
        T = new.shape[1]
        self.pushed += T
        sums = total + self.read(new, known).cumsum(dim=1)
        return self.logits(sums), (known + T, sums[:, -1:])


def cases(seed):
    draw = Draw(seed)

    def case(name, B, T, new, *roles, training=True):
        V = T + new + 9
        inputs = {
            "model": f"a model of {V} words",
            "ids": torch.randint(V, (B, T), generator=draw.generator),
            "max_new_tokens": new,
        }
        options = {"numbers": writer_numbers(draw, V, T + new + 3), "training": training}
        return Case(name, inputs, options=options, roles=set(roles))

    B, T, new = draw.sizes(3, 3, 7)
    return [
        case("a short beginning", B, T, new, "typical"),
        case("from evaluation mode", 2, 5, 4, training=False),
        case("twelve words after one", 3, 1, 12, "small"),
        case("a long beginning", 2, 17, 6),
        case("one word", 2, 6, 1, "small"),
        case("none", 3, 4, 0, "small"),
        case("one text", 1, 4, 3, "small"),
    ]


def keeper(case):
    model = Keeper(case.options["numbers"])
    return model.train(case.options["training"])


def oracle(case):
    model, ids = keeper(case).eval(), case["ids"]
    for _ in range(case["max_new_tokens"]):
        ids = torch.cat([ids, model(ids)[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


probe = WritingProbe(keeper, counts=("pushed",))
expect = expect_text(oracle)


def explain_pushed(trial):
    T, new = trial.case["ids"].shape[1], trial.case["max_new_tokens"]
    pushed = trial.observed.traits["pushed"]
    said = (
        f"For {T} tokens and {new} new ones, {pushed} positions were pushed "
        f"through the model. {T + max(new - 1, 0)} are enough."
    )
    return said, evidence(trial)


@true_of(
    "Each token is pushed through the model once",
    breaks="Tokens are pushed through the model again and again",
    explain=explain_pushed,
)
def positions(case, observed, expected):
    return observed.traits["pushed"] <= case["ids"].shape[1] + case["max_new_tokens"]


@true_of(
    "The last new token isn't pushed through the model",
    secondary=True,
    breaks="The last new token is pushed through the model, too, for nothing",
)
def last(case, observed, expected):
    if not torch.equal(observed.tensors["out"], expected["out"]) or not case["max_new_tokens"]:
        return None
    return observed.traits["pushed"] != case["ids"].shape[1] + case["max_new_tokens"]


properties = (
    positions,
    last,
    Property("begins", "The text begins with the given tokens", begins),
    Property("first_word", "The first new token is the most likely one", first_word),
    *(replace(p, credit=False) for p in OF_THE_MODEL),
)
letters = {"max_new_tokens": "new"}
