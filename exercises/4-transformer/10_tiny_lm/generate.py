"""How an answer to `generate` is judged."""

from dataclasses import replace

import torch
from torch import Tensor

from exercises.shared.traits import fate_of, see_without_gradients
from exercises.shared.writing import WRITING_PROPERTIES, Writer, writer_numbers
from whywrong import Case, Draw, Observation, fresh, set_seed
from whywrong.probing import THERE, happened_elsewhere, moved, see_calls


def cases(seed):
    draw = Draw(seed)

    def case(name, T, new, context, B=3, V=13, training=True, roles="", by_name=False):
        numbers = writer_numbers(draw, V, context)
        ids = torch.randint(V, (B, T), generator=draw.generator)
        inputs = {"model": f"context_length {context}, {V} words", "ids": ids}
        inputs["max_new_tokens"] = new
        options = {"numbers": numbers, "training": training}
        options |= {"keywords": tuple(inputs)} if by_name else {}
        return Case(name, inputs, options=options, roles=frozenset(roles.split()))

    def with_word_0(case):
        """The case with its words renumbered, so that the third new one is 0: the text goes on."""
        numbers, ids = case.options["numbers"], case["ids"]
        last = int(expect(case)["out"][0, ids.shape[1] + 2])
        order = torch.arange(len(numbers["token"]))
        order[0], order[last] = last, 0
        renumbered = {"token": numbers["token"][order], "head": numbers["head"][:, order]}
        case.options["numbers"] = numbers | renumbered
        case.inputs["ids"] = order[ids]
        return case

    B, T, new = draw.sizes(3, 3, 6)
    return [
        case("all fits", T, new, T + new + 3, B=B, V=T + new + 5, roles="typical"),
        case("from evaluation mode", 5, 4, 11, training=False),
        case("grows beyond the context", 4, 9, 6, B=2),
        case("begins beyond the context", 9, 5, 6, B=2, training=False),
        case("fills the context to the last position", 3, 4, 6, B=2, roles="small"),
        with_word_0(case("one text, one word", 1, 7, 5, B=1, roles="small")),
        case("one new word", 6, 1, 8, B=2, roles="small"),
        case("none", 4, 0, 7, B=2, roles="small"),
        case("by name", 4, 6, 9, B=5, by_name=True),
        case("as many words as texts", 4, 6, 5, B=7, V=7, roles="small"),
    ]


def made(case):
    writer = Writer(case.options["numbers"])
    return writer.train(case.options["training"])


class GenerateProbe:
    """Lets an answer go on with the texts of a case, each time with a new model.

    Each case gives `out`, the facts of `calling.see_calls` and `elsewhere`, and as `traits` what
    became of the model: its mode, its weights, and whether calls were recorded for gradients.
    """

    def __call__(self, answer, case):
        observed, models = Observation(), []

        def call(args):
            models.append(made(case))
            return generated(answer, case, models[-1], args[1:])

        if not see_calls(call, case, observed):
            return observed
        see_without_gradients(lambda: call([*map(fresh, case.inputs.values())]), case, observed)
        training, numbers = case.options["training"], case.options["numbers"]
        observed.facts["traits"] = fate_of(models[0], training, numbers)
        rest = [moved(v) for v in list(case.inputs.values())[1:]]
        observed.facts["elsewhere"] = happened_elsewhere(
            lambda: generated(answer, case, made(case).to(THERE), rest)
        )
        return observed

    def glance(self, answer, case):
        observed = Observation()
        set_seed(1)
        rest = [v.clone() if isinstance(v, Tensor) else v for v in list(case.inputs.values())[1:]]
        observed.put("out", generated(answer, case, made(case), rest))
        return observed


def generated(answer, case, model, rest):
    if "keywords" in case.options:
        return answer(**dict(zip(case.inputs, [model, *rest], strict=True)))
    return answer(model, *rest)


def expect(case):
    """Text by text and word by word."""
    model, rows = made(case).eval(), []
    with torch.no_grad():
        for row in case["ids"].tolist():
            for _ in range(case["max_new_tokens"]):
                seen = torch.tensor([row[max(0, len(row) - model.context_length) :]])
                row = [*row, int(model(seen)[0, -1].argmax())]
            rows.append(row)
    return {"out": torch.tensor(rows)}


probe = GenerateProbe()
GRADED = {
    "begins": {"gate": True},
    "first_word": {"credit": True},
    "mode": {"credit": True},
    "quiet": {"credit": True},
}
properties = tuple(replace(p, **GRADED.get(p.id, {})) for p in WRITING_PROPERTIES)

# The sizes that have to differ, by the letters of each input's dimensions.
letters = {"model": None, "ids": "B T", "max_new_tokens": "new", "sizes": "context_length V"}
