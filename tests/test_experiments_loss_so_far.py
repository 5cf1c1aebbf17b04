"""The loss so far: each row of the table matches a run, whatever the seed."""

import pytest
import torch

from course_utils import attention, language_model, transformer
from course_utils.data import toy_english
from course_utils.experiments import loss_so_far

from .test_todays_models import grouped

PARTS = {
    "the mean of the past alone": lambda: attention.tril_mean,
    "the mean of the past and the word before": lambda: attention.softmax_mean,
    "one head": lambda: attention.CausalSelfAttention(64, 64, 32),
    "four heads": lambda: attention.MultiHeadAttention(64, 64, 32, 4),
    "one block": lambda: transformer.TransformerBlock(64, 4, 32),
    "one head and positions": lambda: attention.CausalSelfAttention(64, 64, 32),
    "four heads and positions": lambda: attention.MultiHeadAttention(64, 64, 32, 4),
    "one block and positions": lambda: transformer.TransformerBlock(64, 4, 32),
    "one block of today": lambda: grouped(2),
    "TinyLM": lambda: language_model.TinyLM(len(toy_english.words), 64, 4, 32, 2),
}
full = pytest.mark.full("the lessons' experiments")


@full
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", loss_so_far.ROWS)
def test_a_stored_loss_matches_a_run(name, seed):
    torch.manual_seed(seed)
    part = PARTS.get(name, lambda: None)()
    row = loss_so_far.ROWS[name]
    assert loss_so_far.measured(row, part, seed) == pytest.approx(row.loss, abs=0.02)


@full
def test_two_heads_side_by_side_are_the_row_of_split_heads_too():
    torch.manual_seed(0)
    wrapper = attention.MultiHeadAttentionWrapper(64, 16, 32, 4)
    assert loss_so_far.train("four heads", wrapper) == loss_so_far.ROWS["four heads"].loss


def test_a_different_part_gets_the_loss_of_its_own_run():
    lost = loss_so_far.train("one head", torch.zeros_like)
    assert lost == pytest.approx(loss_so_far.ROWS["the word before, alone"].loss, abs=0.02)


def test_the_table_ends_with_its_row_and_the_floor(capsys):
    loss_so_far.show("the word before, alone")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and lines[-2].endswith("the word before, alone".ljust(42) + "1.57")
    assert lines[-1].endswith(f"{toy_english.least_loss(32):.2f}")


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="no row 'one hand'; the rows are 'all words alike'"):
        loss_so_far.show("one hand")
