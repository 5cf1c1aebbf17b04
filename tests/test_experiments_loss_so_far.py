"""The loss so far: what is printed was measured in this run, beside five stored runs."""

import json
import re

import nbformat
import pytest
import torch
from torch import nn

from course_utils import attention
from course_utils.data import toy_english
from course_utils.desk.points import losses, progress_path, record_loss
from course_utils.experiments import loss_so_far
from tools import ROOT

PAIR = "the mean of the past and the word before"
LESSONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))
full = pytest.mark.full("the lessons' experiments")


@full
@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("name", loss_so_far.ROWS)
def test_a_stored_loss_is_found_again(name, seed):
    known = loss_so_far.kept()[name]["losses"]
    torch.manual_seed(seed)
    run = loss_so_far.train(name, loss_so_far.finished(name), seed)
    assert run.loss == pytest.approx(known[seed % len(known)], abs=0.01)


def test_the_stored_file_names_the_command_that_writes_it():
    content = json.loads(loss_so_far.KEPT.read_text(encoding="utf-8"))
    assert content["made by"] == loss_so_far.COMMAND in loss_so_far.__doc__
    assert content["seeds"] == list(loss_so_far.SEEDS)
    assert [*loss_so_far.ROWS, loss_so_far.FLOOR] == list(content["rows"])
    for name, row in content["rows"].items():
        exact = name in loss_so_far.COUNTED or name == loss_so_far.FLOOR
        assert len(row["losses"]) == (1 if exact else len(loss_so_far.SEEDS))
        assert len(row["lines"]) == loss_so_far.LINES


def test_the_rows_that_are_counted_and_the_floor_are_the_language_s_own():
    rows = loss_so_far.kept()
    for name, loss in [
        ("all words alike", toy_english.uniform_loss()),
        ("how often each word occurs", toy_english.unigram_loss()),
        (loss_so_far.FLOOR, toy_english.least_loss(loss_so_far.T + 1)),
    ]:
        assert rows[name]["losses"] == [pytest.approx(loss, abs=1e-4)]


@pytest.fixture
def quick(monkeypatch):
    """Training that ends after a few steps."""
    monkeypatch.setattr(loss_so_far, "STEPS", 40)


class SeesTheFuture(nn.Module):
    def forward(self, x):
        return x.roll(-1, dims=1)


def nothing(x):
    return torch.zeros_like(x)


def test_three_different_parts_in_one_row_show_three_losses_and_their_names(quick, capsys):
    for own in (SeesTheFuture, nothing):
        own.__module__ = "__main__"  # as if written in a notebook
    runs = [
        loss_so_far.train(PAIR, part) for part in (attention.softmax_mean, SeesTheFuture(), nothing)
    ]
    loss_so_far.show(*runs)
    shown = capsys.readouterr().out
    found = dict(re.findall(r"this run with (.*): (\d\.\d{3})\n", shown))
    assert list(found) == ["the finished softmax_mean", "your SeesTheFuture", "your nothing"]
    assert len(set(found.values())) == 3
    assert list(found.values()) == [f"{run.loss:.3f}" for run in runs]
    assert all(shown.count(f"… {line}\n") == 1 for run in runs for line in run.lines)


def test_your_earlier_runs_are_in_a_later_table_and_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "points.json"))
    yours = loss_so_far.Run(PAIR, 1.5678, "your softmax_mean", ("the end .", "the dog ."))
    finished = loss_so_far.Run("one head", 1.5, "the finished CausalSelfAttention", ("a", "b"))
    loss_so_far.show(yours, finished)
    assert "this run with your softmax_mean: 1.568" in capsys.readouterr().out
    assert losses() == {
        PAIR: {"your softmax_mean": {"loss": 1.5678, "lines": ["the end .", "the dog ."]}}
    }
    loss_so_far.show("one head")
    shown = capsys.readouterr().out
    assert "an earlier run with your softmax_mean: 1.568\n          … the end .\n" in shown
    assert "this run" not in shown and "CausalSelfAttention" not in shown


def test_a_damaged_file_has_no_earlier_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "points.json"))
    for text in ("", "[]", '{"exercises": {}, "losses": {"one head": 3}}', "{"):
        progress_path().write_text(text)
        assert losses() == {}
    record_loss("one head", "your Head", 1.5, ["a", "b"])
    assert losses() == {"one head": {"your Head": {"loss": 1.5, "lines": ["a", "b"]}}}


def test_the_table_ends_with_its_row_and_the_floor(capsys):
    loss_so_far.show("the word before, alone")
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines[1:-1] if not line.startswith(" " * 10)]
    assert len(rows) == 5 and "the word before, alone" in rows[-2]
    assert rows[-1].endswith(f"{toy_english.least_loss(33):.3f}")
    assert sum("…" in line for line in lines) == 10  # two lines under each row
    assert max(map(len, lines)) <= 100


def test_a_part_that_knows_only_texts_of_32_words_still_writes(quick):
    def fixed(x):
        assert x.shape[1] == loss_so_far.T
        return attention.tril_mean(x)

    run = loss_so_far.train("the mean of the past alone", fixed)
    assert [len(line.split()) for line in run.lines] == [loss_so_far.NEW_WORDS] * 2


def test_two_loops_over_one_wide_text_give_the_same_means():
    x = torch.randn(3, 5, 4)
    wide = loss_so_far.as_one_text(attention.naive_mean)
    torch.testing.assert_close(wide(x), attention.tril_mean(x))
    assert wide.__name__ == "naive_mean"


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="no row 'one hand'; the rows are 'all words alike'"):
        loss_so_far.show("one hand")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_s_table_is_of_the_stored_runs(path):
    """Cells that train keep one run's output, so their stored table could be out of date."""
    rows = loss_so_far.kept()
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "loss_so_far.train(" in cell.source:
            assert {"measured", "nbval-ignore-output"} <= set(cell.metadata["tags"])
        if cell.cell_type == "code" and "loss_so_far.show(" in cell.source:
            text = json.dumps(cell.outputs, ensure_ascii=False)
            for name, bounds in re.findall(r"\d\d      ([a-zA-Z ,]{42})([\d. to]+)\\n", text):
                known = [f"{bound(rows[name.strip()]['losses']):.3f}" for bound in (min, max)]
                assert bounds.split(" to ") == sorted(set(known))
