"""Lesson 09: where a token stands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..checking import (
    Case,
    Entry,
    Exercise,
    Misconceptions,
    Mistake,
    ModuleProbe,
    Observation,
    Property,
    expect_module,
    quiz,
    slip,
)
from ..checking.calling import fresh, set_seed
from ..checking.comparing import near
from ..checking.exercise import Expected, Verdict
from ..checking.modules import MODULE_PROPERTIES
from ..transformer import TokenAndPosition
from .kit import mistakes as m
from .kit import positions as p
from .kit.draw import Draw
from .kit.models import Embedded
from .lesson_09_angles import APPLY_ROPE, SINUSOIDAL_POSITIONS

LESSON = "4-transformer/09_positions"


# ---------------------------------------------------------------- TokenAndPosition


def _cases(seed: int) -> list[Case]:
    draw = Draw(seed)

    def case(
        name: str,
        ids: Tensor | None = None,
        *,
        sizes: tuple[int, ...] = (),
        dtype: torch.dtype = torch.float32,
        by_name: bool = False,
        roles: tuple[str, ...] = (),
        **options: Any,
    ) -> Case:
        """`sizes` are B, T, V, the context length and C."""
        B, T, V, length, C = sizes
        if ids is None:
            ids = torch.randint(V, (B, T), generator=draw.generator)
            ids[0, 0], ids[-1, -1] = V - 1, 0
        named = {"vocab_size": V, "context_length": length, "d_model": C}
        options["weights"] = {
            "token.weight": draw.normal(V, C, dtype=dtype),
            "position.weight": draw.normal(length, C, dtype=dtype),
        }
        options |= {
            "args": () if by_name else tuple(named.values()),
            "kwargs": named if by_name else {},
            "dtype": dtype,
        }
        if "typical" in roles:  # another is made beside it
            options["others"] = [((), named | {"context_length": 1})]
        return Case(name, {"ids": ids}, options=options, roles=set(roles))

    def refused(name: str, T: int, limit: int, train: bool = False) -> Case:
        ids = torch.randint(5, (2, T), generator=draw.generator)
        made = {"args": (21, limit, 3), "kwargs": {}, "train": train}
        return Case(name, {"ids": ids}, (str(T), str(limit)), made)

    B, T, C, more = draw.sizes(4, 3, 7)
    length = T + more + 4
    by_hand = torch.tensor([[2, 0, 2]])
    turned = torch.randint(11, (6, 3), generator=draw.generator).T
    return [
        case("three tokens by hand", by_hand, sizes=(1, 3, 4, 5, 2), roles=("small",)),
        case("random ids", sizes=(B, T, length + 6, length, C), roles=("typical",)),
        case("as many tokens as fit", sizes=(2, 6, 9, 6, 4), roles=("small", "device")),
        case("fewer words than positions", sizes=(3, 5, 4, 13, 7), by_name=True),
        case("float64", sizes=(4, 3, 12, 8, 5), dtype=torch.float64),
        case("one word, again and again", torch.full((2, 5), 3), sizes=(2, 5, 8, 9, 4)),
        case("one token", sizes=(3, 1, 7, 5, 2), roles=("small",)),
        case("one sequence", sizes=(1, 7, 10, 8, 3), roles=("small",)),
        case("as many sequences as tokens", sizes=(5, 5, 11, 9, 6), roles=("small",)),
        case("int32", torch.tensor([[1, 6, 0, 4]] * 2, dtype=torch.int32), sizes=(2, 4, 7, 9, 3)),
        case("not contiguous", turned, sizes=(3, 6, 11, 8, 4)),
        case("1,040 tokens", sizes=(2, 1040, 30, 1050, 4), once=True),
        case("300 sequences", sizes=(300, 3, 9, 5, 4), once=True),
        refused("one token too many", 9, 8),
        refused("one token too many, in training", 12, 11, train=True),
        refused("twice as many tokens as fit", 14, 7),
    ]


def _oracle(case: Case, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """By one-hot rows, and not by a lookup."""
    token, position = weights["token.weight"], weights["position.weight"]
    words = nn.functional.one_hot(ids.long(), len(token)).double() @ token
    return words + position[: ids.shape[1]]


def _see_tables(build: Callable[..., Any], case: Case, seen: Observation) -> None:
    """The tables as they are made; a short text after a long one and by itself; other words before
    a word."""
    if "typical" not in case.roles:
        return

    def made() -> Any:
        set_seed(1)  # a parameter too many is the same in each
        return build()

    ids, module = case["ids"], made()
    module(fresh(ids))
    seen.put("short second", module(fresh(ids[1:, :2])))
    seen.put("short first", made()(fresh(ids[1:, :2])))
    changed = ids.clone()
    changed[:, 0] = (changed[:, 0] + 1) % 5
    seen.put("changed", module(fresh(changed)))
    set_seed(5)
    large = type(module)(300, 200, 8)
    spread = [t.std().item() for t in (large.token.weight, large.position.weight)]
    seen.facts["traits"]["usual"] = all(0.9 < s < 1.1 for s in spread)


def _differs_by_word(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return not near(seen.tensors["out"][:, 0], seen.tensors["changed"][:, 0])


def _others_silent(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["out"][:, 1:], seen.tensors["changed"][:, 1:])


def _place_alone(case: Case, seen: Observation, expected: Expected) -> Verdict:
    """What two tokens of one word differ by is the difference of two rows of the table."""
    rows = case.options["weights"]["position.weight"][: case["ids"].shape[1]]
    out = seen.tensors["out"]
    same_word = bool((case["ids"] == case["ids"][:1, :1]).all())
    return near(out - out[:, :1], (rows - rows[:1]).expand_as(out)) if same_word else None


def _sequences_alike(case: Case, seen: Observation, expected: Expected) -> Verdict:
    same_word = bool((case["ids"] == case["ids"][:1, :1]).all())
    out = seen.tensors["out"]
    return near(out, out[:1].expand_as(out)) if same_word and len(out) > 1 else None


def _nothing_kept(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return near(seen.tensors["short second"], seen.tensors["short first"])


def _usual_tables(case: Case, seen: Observation, expected: Expected) -> Verdict:
    return bool(seen.traits["usual"])


class PlacesOfTheBatch(Mistake):
    """The rows of `position` were handed out to the sequences; each token should have its own.

    Why: All tokens of a text get the same row, so their order is lost again, and a text depends
        on its place in the batch.
    Mend: In `(B, T)`, which of the two sizes counts the tokens?
    """

    def rows(self, ids):
        return self.position(torch.arange(ids.shape[0], device=ids.device))[:, None]


def _rows_of_the_batch(self, ids):
    return self.position(torch.arange(ids.shape[0], device=ids.device))


class PlacesCountOn(Mistake):
    """The positions count on through the batch: the second text doesn't begin with 0.

    Why: A text would depend on those before it in the batch, and the table is soon at its end.
    Mend: The row of a token is that of its place in its own text: `T` positions, for all texts
        alike.
    """

    def places(self, ids):
        return torch.arange(ids.numel(), device=ids.device).view(ids.shape)


class IdsTakenForPlaces(Mistake):
    """The row of `position` was looked up by the token's id, not by its place.

    Why: A word then has the same row wherever it stands, so nothing tells where that is.
    Mend: Look it up by 0, 1, …, T - 1, whatever the ids are.
    """

    def places(self, ids):
        return ids


class NoPositions(Mistake):
    """The positions have no effect: a token gives the same wherever it stands.

    Why: Attention would see a set of words, not a sentence.
    Mend: Two rows are added: one for what a token is, one for where it stands.
    """

    def joined(self, words, rows):
        return words


class NoTokens(Mistake):
    """The tokens have no effect: any text of T tokens gives the same.

    Why: The model would know how many words there are, and none of them.
    Mend: Two rows are added: one for what a token is, one for where it stands.
    """

    def joined(self, words, rows):
        return rows.expand_as(words)


class MultipliedTables(Mistake):
    """The two rows were multiplied, and they are to be added.

    Why: Wherever one has a number near 0, the other is wiped out.
    Mend: Which operator stands between the two rows in the text above?
    """

    def joined(self, words, rows):
        return words * rows


class MeanOfTables(Mistake):
    """The two rows were averaged: their sum was halved.

    Why: A model whose weights come from elsewhere then gets half of what it expects.
    Mend: Add the two rows, and do no more.
    """

    def joined(self, words, rows):
        return (words + rows) / 2


class ScaledByRoot(Mistake):
    """The token's row was multiplied by the root of d_model.

    Why: The paper of 2017 does so with its waves; here both rows are learned, and nothing is
        scaled.
    Mend: Add the two rows as they come out of their tables.
    """

    def words(self, ids):
        return super().words(ids) * math.sqrt(self.d_model)


class SideBySide(Mistake):
    """The two rows were put side by side, so a token is twice as wide.

    Why: The next layer takes `d_model` channels.
    Mend: Both rows are `d_model` wide already, and so is their sum.
    """

    def joined(self, words, rows):
        return torch.cat([words, rows.expand_as(words)], dim=-1)


class LastRowForAll(Mistake):
    """Every token got the row of the last position.

    Why: The text's length is then known, and its order isn't.
    Mend: T positions, not one: `torch.arange` makes them.
    """

    def places(self, ids):
        return super().places(ids)[-1:]


class FirstRowForAll(Mistake):
    """Every token got row 0 of `position`.

    Why: Adding the same to all tokens tells none of them where it stands.
    Mend: T positions, not one: `torch.arange` makes them.
    """

    def places(self, ids):
        return super().places(ids) * 0


class PlacesFromTheEnd(Mistake):
    """The rows are those from the end of the table, or counted from the last token.

    Why: A token would get another row whenever a word is added behind it.
    Mend: The first token gets row 0, however long the text is.
    """

    def places(self, ids):
        return super().places(ids).flip(0)


class WholeTable(Mistake):
    """All context_length rows were added, however short the text is.

    Why: Most texts are shorter than the limit, and then the two don't fit.
    Mend: How many rows of the table belong to T tokens?
    """

    def places(self, ids):
        return torch.arange(self.context_length, device=ids.device)


class LeftToTheTable(Mistake):
    """A text that is too long is stopped by the table, with an IndexError, or on a GPU not at all.

    Why: "index out of range" doesn't say what was too long, nor how long it may be.
    Mend: Compare T with the length of the table before you look anything up, and raise a ValueError
        with both numbers.
    """

    def accepted(self, ids):
        return ids


class LastRowAgain(Mistake):
    """Tokens beyond the table all got its last row.

    Why: The model has never seen two tokens in one place, and nobody hears that the text was too
        long.
    Mend: Raise a ValueError with both numbers instead.
    """

    def accepted(self, ids):
        return ids

    def places(self, ids):
        return super().places(ids).clamp(max=self.context_length - 1)


class BeginsAgain(Mistake):
    """Beyond its end, the table begins again with row 0.

    Why: Two tokens of one text then have one position, and nobody hears that the text was too long.
    Mend: Raise a ValueError with both numbers instead.
    """

    def accepted(self, ids):
        return ids

    def places(self, ids):
        return super().places(ids) % self.context_length


class ArgumentsSwapped(Mistake):
    """The constructor takes its arguments in another order.

    Why: They are all integers, so a table of the wrong size is all that tells.
    Mend: Compare with the order that was given: vocab_size, context_length, d_model.
    """

    def __init__(self, vocab_size, d_model, context_length):
        super().__init__(vocab_size, context_length, d_model)


class TableTooLong(Mistake):
    """The table of positions has a row more than context_length.

    Why: Its last row is never used and never learned, and weights of that length no longer fit.
    Mend: Counted from 0, context_length positions end at context_length - 1.
    """

    def make_tables(self, vocab_size, context_length, d_model):
        super().make_tables(vocab_size, context_length + 1, d_model)


class TablesSwapped(Mistake):
    """`position` has a row for each word and `token` one for each position.

    Why: It works for small ids, and stops at the first word beyond context_length.
    Mend: Which of the two is looked up by ids?
    """

    def make_tables(self, vocab_size, context_length, d_model):
        super().make_tables(context_length, vocab_size, d_model)


class PositionsFrozen(Mistake):
    """The table of positions is not learned.

    Why: It then stays what chance made of it.
    Mend: An `nn.Embedding` is learned as it comes: leave `requires_grad` alone.
    """

    def make_tables(self, vocab_size, context_length, d_model):
        super().make_tables(vocab_size, context_length, d_model)
        self.position.weight.requires_grad_(False)


class WordZeroForPadding(Mistake):
    """`padding_idx=0` keeps the row of word 0 from being learned.

    Why: Here 0 is a word like any other; what is padding is said by a mask.
    Mend: `nn.Embedding` takes two sizes, and no more is needed.
    """

    def make_tables(self, vocab_size, context_length, d_model):
        super().make_tables(vocab_size, context_length, d_model)
        self.token = nn.Embedding(vocab_size, d_model, padding_idx=0)


class StartsSmall(Mistake):
    """The tables begin with other numbers than those of `nn.Embedding`.

    Why: GPT-2 begins with a spread of 0.02, and that is a fine choice; here the defaults were
        asked for.
    Mend: Leave the weights as `nn.Embedding` makes them.
    """

    def make_tables(self, vocab_size, context_length, d_model):
        super().make_tables(vocab_size, context_length, d_model)
        for table in (self.token, self.position):
            nn.init.normal_(table.weight, std=0.02)


class NormedOrDropped(Mistake):
    """More is done than to add: the sum is normed.

    Why: BERT does so; here each block norms what it reads.
    Mend: Return the sum as it is.
    """

    def joined(self, words, rows):
        return nn.functional.layer_norm(super().joined(words, rows), [self.d_model])


class DroppedOut(Mistake):
    """More is done than to add: some numbers are set to 0 in training.

    Why: GPT-2 does so; here no dropout was asked for, and in training nobody can turn it off.
    Mend: Return the sum as it is.
    """

    def joined(self, words, rows):
        return nn.functional.dropout(super().joined(words, rows), 0.1, self.training)


class PlacesStayBehind(Mistake):
    """The positions are on the CPU, wherever the ids are: made there, or kept from an earlier call.

    Why: On a GPU the table would be asked for rows by numbers from another device: an error.
    Mend: `device=ids.device` where `forward` makes them; `register_buffer` for what the constructor
        makes.
    """

    def places(self, ids):
        return torch.arange(ids.shape[1])


ROWS_OF_TEXTS = "As many rows of `position` were taken as there are texts, not tokens."
BY_CHANCE = (
    "There is no error where there are as many texts as tokens, one text or one token; any other "
    "number stops with an error of PyTorch's own."
)

_PARAMETERS, _OWN_STATE = MODULE_PROPERTIES
ROWS = replace(
    _PARAMETERS,
    text="It learns its two tables and nothing else",
    breaks="Its trainable parameters are not its two tables alone",
)

TOKEN_AND_POSITION = Exercise(
    id="TokenAndPosition",
    lesson=LESSON,
    call="TokenAndPosition(vocab_size, context_length, d_model)",
    points=1.5,
    kind="class",
    cases=_cases,
    probe=ModuleProbe(gradients=(), extra=_see_tables),
    expect=expect_module(_oracle, gradients=()),
    reference=TokenAndPosition,
    properties=(
        Property(
            "words", "Another word gives another row", _differs_by_word, gate=True, role="typical"
        ),
        Property(
            "silent",
            "A token's row doesn't hang on the other tokens",
            _others_silent,
            credit=True,
            role="typical",
        ),
        Property(
            "places",
            "The same word in two places differs by the two rows of `position`",
            _place_alone,
            credit=True,
        ),
        Property(
            "sequences",
            "A text gives the same in any place of a batch",
            _sequences_alike,
            credit=True,
        ),
        Property(
            "nothing_kept",
            "A call keeps nothing of the calls before it",
            _nothing_kept,
            role="typical",
            breaks="The result depends on the calls before: another length is remembered",
        ),
        Property(
            "usual",
            "Both tables begin as `nn.Embedding` makes them",
            _usual_tables,
            secondary=True,
            role="typical",
            breaks="The tables don't begin as `nn.Embedding` makes them",
        ),
        ROWS,
        _OWN_STATE,
    ),
    misconceptions=Misconceptions.of(
        LeftToTheTable,
        LeftToTheTable.but(rows=lambda self, ids: self.position.weight[: ids.shape[1]]).on(
            Embedded,
            what="A text that is too long is stopped by the addition, with a RuntimeError.",
            why="Two sizes that don't match don't say that the text is too long, nor how long it "
            "may be.",
        ),
        p.PositionsFromOne,
        PlacesOfTheBatch,
        PlacesOfTheBatch.but(rows=_rows_of_the_batch).on(
            Embedded, what=ROWS_OF_TEXTS, why=BY_CHANCE
        ),
        PlacesOfTheBatch.but(rows=_rows_of_the_batch, accepted=m.ChecksTheBatch.accepted).on(
            Embedded, what=ROWS_OF_TEXTS, why=BY_CHANCE
        ),
        PlacesStayBehind,
        NoPositions,
        ScaledByRoot,
        MultipliedTables,
        SideBySide,
        IdsTakenForPlaces,
        PlacesCountOn,
        WholeTable,
        m.FullLengthRefused,
        m.ChecksTheBatch.on(
            Embedded, mend="`ids.shape` is `(B, T)`. Which of the two is the length?"
        ),
        m.LongTextCut,
        m.RefusedWithoutNumbers,
        m.RefusedOtherwise,
        LastRowAgain,
        BeginsAgain,
        ArgumentsSwapped,
        TableTooLong,
        TablesSwapped,
        NoTokens,
        MeanOfTables,
        LastRowForAll,
        FirstRowForAll,
        PlacesFromTheEnd,
        PlacesFromTheEnd.but(
            places=lambda self, ids: (
                self.context_length - ids.shape[1] + torch.arange(ids.shape[1], device=ids.device)
            )
        ),
        PositionsFrozen,
        WordZeroForPadding,
        StartsSmall,
        NormedOrDropped,
        DroppedOut,
        on=Embedded,
    ),
    hints=(
        "Two tables: `nn.Embedding(how_many_rows, d_model)`. Called with a tensor of integers, a "
        "table gives a row for each of them.",
        "The positions of T tokens are `torch.arange(T, device=ids.device)`. Their rows are "
        "`(T, C)`; next to `(B, T, C)` they are repeated for each text by themselves.",
        "In `forward`: `T = ids.shape[1]`; if T is more than context_length, raise a ValueError "
        "with both numbers; then `self.token(ids) + self.position(torch.arange(T, "
        "device=ids.device))`.",
    ),
    other_way="""\
# The positions of T tokens are the first T rows: no lookup is needed, only a slice.
class TokenAndPosition(nn.Module):
    def __init__(self, vocab_size, context_length, d_model):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(context_length, d_model)

    def forward(self, ids):
        T, limit = ids.shape[1], len(self.position.weight)
        if T > limit:
            raise ValueError(f"{T} tokens came in, at most {limit} fit")
        return self.token(ids) + self.position.weight[:T]""",
)


# ---------------------------------------------------------------- the quizzes

READS, MIXES, SWAPPED = "attention reads", "out_proj mixes", "the results"

RECALL_09 = quiz(
    "recall_09",
    lesson=LESSON,
    points=0.5,
    about="lessons 08, 06 and 04, without looking back",
    entries=(
        Entry(
            READS,
            "norm1(x)",
            "A branch reads the stream through its own norm and adds to the stream itself.",
            "Which norm stands in front of attention in a Pre-LN block?",
            ("x", "norm1(x)", "norm2(x)"),
        ),
        Entry(
            MIXES,
            "heads",
            "It works on the channels of one token, and these are the heads side by side.",
            "`out_proj` is a linear layer on the last dimension. What stands side by side there?",
            ("tokens", "heads", "texts"),
        ),
        Entry(
            SWAPPED,
            "swap",
            "Attention without a mask and without positions is permutation-equivariant.",
            "Remember 'dog bites man' in lesson 04: what became of 'dog' when it stood behind?",
            ("stay", "swap", "change"),
        ),
    ),
    misconceptions=(
        slip(
            "attention_reads_the_stream",
            {READS: "x"},
            "You let attention read the stream as it is.",
            "The stream grows from block to block, and scores made of it would saturate "
            "the softmax.",
            "What stands in the brackets of `x = x + attention(…)`?",
        ),
        slip(
            "norms_swapped",
            {READS: "norm2(x)"},
            "You gave attention the norm of the feed-forward network.",
            "Each branch has its own, in the order in which they come.",
            "Which of the two branches comes first?",
        ),
        slip(
            "out_proj_mixes_tokens",
            {MIXES: "tokens"},
            "You let `out_proj` mix tokens.",
            "A linear layer works on each token alone; only attention moves something "
            "between tokens.",
            "What has a token's row of channels been put together from?",
        ),
        slip(
            "out_proj_mixes_texts",
            {MIXES: "texts"},
            "You let `out_proj` mix the texts of a batch.",
            "Texts of a batch never meet: each gives what it gives alone.",
            "What has a token's row of channels been put together from?",
        ),
        slip(
            "results_stay",
            {SWAPPED: "stay"},
            "You let the results stay where they are.",
            "A token takes its result along: that is equivariance, and staying would be "
            "invariance.",
            "'dog' and 'man' swap places. Where does the context of 'dog' stand then?",
        ),
        slip(
            "results_change",
            {SWAPPED: "change"},
            "You let the results become others.",
            "Each query still meets the same keys and collects the same values, in another order.",
            "A weighted sum: does it hang on the order in which it is added up?",
        ),
    ),
    hints=(
        "Pre-LN: `x = x + attention(…)`, then `x = x + feed_forward(…)`. What stands for the dots?",
        "Heads are put side by side along the channels, then `out_proj` works on the channels. And "
        "a set has no order.",
    ),
)


SHIFT, AT_C, AT_B = "all positions + 7", "at c", "at b"
TURNED, SAME_SCORE, COUNTED = "rotated", "same score", "counted from the mask"
KINDS = ("learned", "sinusoidal", "rotary", "none")

WHY_POSITIONS = quiz(
    "why_positions",
    lesson=LESSON,
    points=1.0,
    about="what positions tell, and what each kind of them does",
    entries=(
        Entry(
            SHIFT,
            "rotary",
            "Both vectors of a score turn by 7 steps more, and the angle between them stays.",
            "In which of the three does a score hang on m - n alone?",
            KINDS,
        ),
        Entry(
            AT_C,
            "the same",
            "c collects from the set {a, b, c}, and each of them has the same key and value in "
            "either order.",
            "What does c see in either text, and does a sum hang on its order?",
            ("the same", "different"),
        ),
        Entry(
            AT_B,
            "different",
            "In the first text b sees a and itself, in the second only itself: the mask lets in a "
            "little order.",
            "Write down what b sees in each of the two texts.",
            ("the same", "different"),
        ),
        Entry(
            TURNED,
            "Q and K",
            "Positions shall change who listens to whom; what is handed over stays as it is.",
            "Which two meet in a score?",
            ("Q and K", "K and V", "Q, K and V", "x"),
        ),
        Entry(
            SAME_SCORE,
            15,
            "9 - 4 = 20 - 15: rotary scores hang on the distance, with its sign.",
            "How far before the query does the key stand in the first pair?",
        ),
        Entry(
            COUNTED,
            (0, 0, 1, 1, 2),
            "How many real tokens so far, less one: -1, 0, 1, 1, 2, and the -1 becomes 0. The "
            "real ones, at places 1, 2 and 4, get 0, 1 and 2, as alone.",
            "Which positions do the three real tokens have when they stand alone?",
        ),
    ),
    misconceptions=(
        slip(
            "waves_taken_for_relative",
            {SHIFT: "sinusoidal"},
            "You took sums of waves for relative positions.",
            "Two waves alone have a product that hangs on m - n. But in a score words and "
            "waves are "
            "added, and their mixed products change with the place.",
            "Multiply out (x + p) · (y + q): four products. Which hang on the place?",
        ),
        slip(
            "table_taken_for_relative",
            {SHIFT: "learned"},
            "You let the scores of a learned table stay.",
            "Rows 7 further on are other rows, learned by themselves.",
            "What has row 3 of the table to do with row 10?",
        ),
        slip(
            "no_score_stays",
            {SHIFT: "none"},
            "You let all scores change.",
            "When both vectors of a product turn by the same angle, the product stays.",
            "What happens to the angle between two hands of a clock that both move on by "
            "7 minutes?",
        ),
        slip(
            "mask_taken_for_positions",
            {AT_C: "different"},
            "You let one causal layer tell the two orders apart at c.",
            "The mask says who comes before c, and that is the same set in both texts.",
            "Which keys does c see in 'a b c', and which in 'b a c'?",
        ),
        slip(
            "mask_tells_nothing",
            {AT_B: "the same"},
            "You let b be the same in both texts.",
            "A causal mask hides what comes later, and here that differs.",
            "What stands before b in each of the two?",
        ),
        slip(
            "values_rotated",
            {TURNED: "Q, K and V"},
            "You rotated the values as well.",
            "What is collected would then be turned by the place it comes from, and the "
            "sum is a muddle.",
            "Rotary positions are made for the scores. Which two make a score?",
        ),
        slip(
            "query_left_out",
            {TURNED: "K and V"},
            "You left the queries as they are.",
            "Then a score hangs on the key's place alone, not on the distance.",
            "The angle between two hands: how many of them must move?",
        ),
        slip(
            "tokens_rotated",
            {TURNED: "x"},
            "You rotated the tokens, before their projections.",
            "After a projection nothing is left of the neighbouring pairs, and the values "
            "turn too.",
            "Rotary positions come after the split into heads. What has been split?",
        ),
        slip(
            "distance_turned_round",
            {SAME_SCORE: 25},
            "You put the key 5 places after the query.",
            "The distance has a sign: before and after are told apart.",
            "In the first pair the key stands before the query. And in yours?",
        ),
        slip(
            "same_place",
            {SAME_SCORE: 4},
            "You left the key where it was.",
            "Then it is 16 places away, not 5.",
            "The query moved on by 11. Where must the key go to stay as far before it?",
        ),
        slip(
            "places_of_the_row",
            {COUNTED: (0, 1, 2, 3, 4)},
            "You counted all places of the row.",
            "A text would move with the padding around it, and no longer give what it gives alone.",
            "Count real tokens only: how many are there up to each place, less one?",
        ),
        slip(
            "one_not_taken_away",
            {COUNTED: (0, 1, 2, 2, 3)},
            "You counted the real tokens up to each place, and did not take one away.",
            "The first real token would have position 1, and alone it has 0.",
            "Where does the first real token stand when it is alone?",
        ),
        slip(
            "minus_one_left",
            {COUNTED: (-1, 0, 1, 1, 2)},
            "You left the -1 of the padding in front.",
            "A table has no row -1: `nn.Embedding` stops with an error.",
            "What did `clamp(min=0)` do?",
        ),
        slip(
            "padding_left_out",
            {COUNTED: (0, 1, 2)},
            "You gave positions to the real tokens alone.",
            "They are right. But a row of a batch has a position for each place, padding too.",
            "How many places has the row?",
        ),
    ),
    hints=(
        "For `at c` and `at b`, write down which keys the token sees in each text. A weighted sum "
        "doesn't hang on the order in which it is added up.",
        "Think of two hands of a clock: the product of two vectors hangs on the angle "
        "between them. "
        "And of a table: it has a last row.",
    ),
)

EXERCISES = (
    RECALL_09,
    TOKEN_AND_POSITION,
    SINUSOIDAL_POSITIONS,
    APPLY_ROPE,
    WHY_POSITIONS,
)
