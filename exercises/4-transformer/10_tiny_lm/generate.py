"""How an answer to `generate` is judged."""

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
from whywrong import Case, Draw, Property


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


def oracle(case):
    """Text by text and word by word."""
    model, rows = made(case).eval(), []
    for row in case["ids"].tolist():
        for _ in range(case["max_new_tokens"]):
            visible = torch.tensor([row[max(0, len(row) - model.context_length) :]])
            row = [*row, int(model(visible)[0, -1].argmax())]
        rows.append(row)
    return torch.tensor(rows)


probe = WritingProbe(made)
expect = expect_text(oracle)
properties = (
    Property("begins", "The text begins with the given tokens", begins, gate=True),
    Property("first_word", "The first new token is the most likely one", first_word, credit=True),
    *OF_THE_MODEL,
)

letters = {"max_new_tokens": "new", "sizes": "context_length V"}
