"""How an answer to `greedy_translate` is judged."""

import torch
from torch import nn

from exercises.shared.writing import OF_THE_MODEL, WritingProbe, expect_text
from whywrong import Case, Draw, true_of


class Scribe(nn.Module):
    """A translator whose next word depends on each real word of the source and on its own words.

    A text ends where the first word of its source says. In training mode it prefers another word.
    """

    def __init__(self, case):
        super().__init__()
        self.bos_id, self.eos_id = case["bos_id"], case["eos_id"]
        for name, value in case.options["numbers"].items():
            setattr(self, name, nn.Parameter(value.clone()))
        self.register_buffer("lengths", case.options["lengths"].clone())
        self.inner = nn.Identity()  # it has a mode of its own
        self.recorded = 0

    def forward(self, source, decoder_input, source_pad_mask=None):
        B, T = decoder_input.shape
        if len(source) != B or (
            source_pad_mask is not None and source_pad_mask.shape != source.shape
        ):
            raise ValueError(f"{len(source)} sources in the batch, {B} rows in the decoder's input")
        read = self.reads[source] * self.position[: source.shape[1]]  # (B, S, C)
        if source_pad_mask is not None:
            read = read.masked_fill(source_pad_mask[:, :, None], 0.0)
        written = (self.writes[decoder_input] * self.position[:T]).cumsum(dim=1)  # (B, T, C)
        logits = torch.sin(5 * (written + read.sum(dim=1)[:, None])) @ self.head  # (B, T, V)
        logits = logits.roll(1, -1) if self.inner.training else logits
        self.recorded += logits.requires_grad
        steps = torch.arange(1, T + 1, device=source.device)
        ends = (self.lengths[source[:, 0]][:, None] == steps).unsqueeze(-1)  # (B, T, 1)
        words = torch.arange(logits.shape[-1], device=source.device)
        logits = torch.where((words == self.eos_id) & ends, 60.0, logits)
        return torch.where((words == self.bos_id) | ((words == self.eos_id) & ~ends), -60.0, logits)


def scribe(case):
    return Scribe(case).train(case.options["training"])


def cases(seed):
    draw = Draw(seed)
    V = draw.integer(12, 15)

    def case(name, lengths, most, **more):
        return translated(draw, name, lengths, most, **more)

    small = {"roles": {"small"}, "once": True}
    return [
        case("unequal lengths", [3, 6, 2, 5], 9, V=V, S=7, roles={"typical"}),
        case("padded sources", [4, 2, 5], 8, S=6, real=[6, 2, 4], roles={"elsewhere"}),
        case("some are cut off", [9, 3, 9, 4], 6, training=False),
        case("none has ended", [9, 8], 4, S=6, V=11, once=True),
        case("the longest ends at the last position", [2, 5, 4], 5, S=6, ids=(0, 7), **small),
        case("all end at once", [1, 1, 1], 6, **small),
        case("the first ends first", [1, 4], 7, ids=(3, 0), once=True),
        case("one text", [4], 7, S=3, training=False, **small),
        case("one word each", [5, 1, 2], 1, S=4, **small),
        case("by name", [2, 3], 6, S=4, ids=(5, 4), real=[3, 4], keywords=True, roles={"small"}),
    ]


def translated(
    draw, name, lengths, most, S=5, V=13, ids=(1, 2), real=None, keywords=False, roles=(), **options
):
    """Texts that end at these lengths; `ids` are bos and eos, `real` the lengths of the sources."""
    B, words = len(lengths), len(lengths) + 7
    source = torch.randint(B, words, (B, S), generator=draw.generator)
    source[:, 0] = torch.randperm(B, generator=draw.generator)
    of_word = torch.full((words,), 3)
    of_word[source[:, 0]] = torch.tensor(lengths)
    inputs = {"model": f"a translator into {V} words", "source": source}
    inputs |= {"bos_id": ids[0], "eos_id": ids[1], "max_length": most}
    if real is not None:
        inputs["source_pad_mask"] = torch.arange(S) >= torch.tensor(real)[:, None]
    shapes = {"reads": (words, 6), "writes": (V, 6), "position": (max(S, most + 3), 6)}
    shapes |= {"head": (6, V)}
    numbers = {n: draw.normal(*shape, dtype=torch.float64) for n, shape in shapes.items()}
    options = {"training": True} | options | {"numbers": numbers, "lengths": of_word}
    if keywords:
        options["keywords"] = tuple(inputs)
    return Case(name, inputs, options=options, roles=set(roles))


def oracle(case):
    """Text by text and word by word."""
    model, rows = scribe(case).eval(), []
    bos, eos, most = case["bos_id"], case["eos_id"], case["max_length"]
    mask = case.inputs.get("source_pad_mask")
    for b, source in enumerate(case["source"]):
        row = []
        while len(row) < most and (not row or row[-1] != eos):
            given = None if mask is None else mask[b : b + 1]
            logits = model(source[None], torch.tensor([[bos, *row]]), given)
            row.append(int(logits[0, -1].argmax()))
        rows.append(row)
    longest = max(map(len, rows))
    return torch.tensor([row + [eos] * (longest - len(row)) for row in rows])


probe = WritingProbe(scribe)
expect = expect_text(oracle)


@true_of("The first word of each text is the most likely", gate=True, role="typical")
def first_word(case, observed, expected):
    return bool((observed.tensors["out"][:, 0] == expected["out"][:, 0]).all())


@true_of("Each text is right up to its end", credit=True)
def to_the_end(case, observed, expected):
    eos, right = case["eos_id"], expected["out"]
    after = (right == eos).cumsum(dim=1) - (right == eos).int() > 0
    return bool(((observed.tensors["out"] == right) | after).all())


@true_of("After an eos comes nothing but eos", credit=True)
def stays_ended(case, observed, expected):
    ends = observed.tensors["out"] == case["eos_id"]
    return bool((ends[:, 1:] | ~ends[:, :-1]).all())


properties = (first_word, to_the_end, stays_ended, *OF_THE_MODEL)

letters = {"max_length": "L", "lengths": None, "sizes": "V"}
