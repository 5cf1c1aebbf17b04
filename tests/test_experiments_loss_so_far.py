"""The loss so far: what is printed was measured in this run, beside five stored runs."""

import html
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
from training import loss_so_far as stored
from whywrong.hosting import speaking

PAIR = "the mean of the past and the word before"
LESSONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))
full = pytest.mark.full("the lessons' experiments")


@full
@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("name", loss_so_far.ROWS)
def test_a_stored_loss_is_found_again(name, seed):
    known = loss_so_far.stored_runs()[name]["losses"]
    run = stored.run(name, seed)
    assert run.loss == pytest.approx(known[seed % len(known)], abs=0.01)


def test_the_stored_file_names_the_command_that_writes_it():
    content = json.loads(loss_so_far.KEPT.read_text(encoding="utf-8"))
    assert content["made by"] == stored.COMMAND in loss_so_far.__doc__
    assert content["seeds"] == list(stored.SEEDS)
    assert [*loss_so_far.ROWS, loss_so_far.FLOOR] == list(content["rows"])
    for name, row in content["rows"].items():
        exact = name in loss_so_far.COUNTED or name == loss_so_far.FLOOR
        assert len(row["losses"]) == (1 if exact else len(stored.SEEDS))
        assert len(row["plural"]) == len(row["losses"])
        assert len(row["lines"]) == loss_so_far.LINES


def test_the_rows_that_are_counted_and_the_floor_are_the_language_s_own():
    rows = loss_so_far.stored_runs()
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


@pytest.fixture
def tables(monkeypatch):
    """The tables that `show` displays."""
    shown = []
    monkeypatch.setattr(loss_so_far, "_display", shown.append)
    return shown


def test_three_different_parts_in_one_row_show_three_losses_and_their_names(quick, tables):
    for own in (SeesTheFuture, nothing):
        own.__module__ = "__main__"  # as if written in a notebook
    runs = [
        loss_so_far.train(PAIR, part) for part in (attention.softmax_mean, SeesTheFuture(), nothing)
    ]
    loss_so_far.show(*runs)
    [table] = tables
    lines = [line for line in table.lines if line.part]
    names = ["the finished softmax_mean", "your SeesTheFuture", "your nothing"]
    assert [line.part for line in lines] == names
    measured = [(f"{run.loss:.3f}", f"{run.plural:.2f}") for run in runs]
    assert [line.measured for line in lines] == measured and len(set(measured)) == 3
    assert {line.finished for line in lines} == {loss_so_far._lines(PAIR, [])[0].finished}
    assert [line.name for line in table.lines].count(PAIR) == 3
    assert list(table.texts) == ["the word before, alone", PAIR]
    assert table.texts[PAIR] == runs[0].lines
    for shown in (repr(table), table._repr_html_()):
        assert all(number in shown for two in measured for number in two)


def own_run(row, loss, part):
    return loss_so_far.Run(row, loss, 0.12, part, ("the end .", "the dog ."))


def test_your_latest_earlier_run_is_in_a_later_table_and_the_older_ones_are_folded(
    tmp_path, monkeypatch, tables
):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "points.json"))
    for loss, part in (
        (1.9, "naive"),
        (1.6, "slow_mean"),
        (1.5678, "softmax_mean"),
        (1.7, "naive"),
    ):
        loss_so_far.show(own_run(PAIR, loss, f"your {part}"))
    assert list(losses()[PAIR]) == ["your slow_mean", "your softmax_mean", "your naive"]
    assert losses()[PAIR]["your softmax_mean"] == {
        "loss": 1.5678,
        "plural": 0.12,
        "lines": ["the end .", "the dog ."],
    }
    loss_so_far.show(own_run("one head", 1.5, "the finished CausalSelfAttention"))
    table = tables[-1]
    [earlier, head] = [line for line in table.lines if line.part]
    assert (earlier.part, earlier.measured) == ("your naive", ("1.700", "0.12"))
    assert head.part == "the finished CausalSelfAttention"
    assert table.texts[PAIR] == ("the end .", "the dog .")
    assert [run.split(": ")[1][:5] for run in table.older] == ["1.600", "1.568"]
    page, folded = table._repr_html_().split("<details>")
    assert "slow_mean" in folded and "slow_mean" not in page + repr(table)
    loss_so_far.show("one head")
    assert "CausalSelfAttention" not in repr(tables[-1])


def test_a_file_of_an_earlier_version_keeps_its_points(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "points.json"))
    run = {"loss": 1.5, "lines": ["a", "b"]}
    progress_path().write_text(json.dumps({"losses": {"one head": {"your Head": run}}}))
    assert losses() == {"one head": {}}


def test_a_damaged_file_has_no_earlier_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "points.json"))
    for text in ("", "[]", '{"exercises": {}, "losses": {"one head": 3}}', "{"):
        progress_path().write_text(text)
        assert losses() == {}
    record_loss("one head", "your Head", 1.5, 0.3, ["a", "b"])
    run = {"loss": 1.5, "plural": 0.3, "lines": ["a", "b"]}
    assert losses() == {"one head": {"your Head": run}}


def test_the_table_ends_with_its_row_and_the_floor(capsys):
    loss_so_far.show("the word before, alone")
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].startswith("03      the word before, alone")
    assert lines[5].split() == [*loss_so_far.FLOOR.split(), "1.218", "1.00"]
    assert sum("…" in line for line in lines) == 4  # the texts of two models
    assert max(map(len, lines)) <= 120
    columns = [
        line.index(number)
        for line, number in zip(lines[1:6], ("3.2", "2.8", "(2.", "(1.", "1.2"), strict=True)
    ]
    assert len(set(columns)) == 1


def test_a_table_without_runs_has_only_what_is_stored_and_what_is_exact(tables):
    loss_so_far.show("one head")
    for line in tables[0].lines:
        assert any(line.measured) != any(line.finished) and not line.part


def test_the_table_is_shown_in_the_language_of_the_reader(tables):
    loss_so_far.show("one head")
    with speaking("zh"):
        page = html.unescape(re.sub(r"<[^>]*>", " ", tables[0]._repr_html_()))
        text = repr(tables[0])
    own = page.replace(loss_so_far.BEGINNING, "")
    for shown in (own, text.replace(loss_so_far.BEGINNING, "")):
        english = set(re.findall("[a-z]{2,}", shown)) - set(toy_english.words)
        assert not english, english


def test_an_early_model_expects_the_wrong_number_and_only_a_good_one_the_right_one():
    plural = {name: row["plural"] for name, row in loss_so_far.stored_runs().items()}
    assert max(max(plural[name]) for name in ("the mean of the past alone", PAIR)) < 0.2
    assert max(plural["one head"]) < 0.5 < min(plural["two blocks"])
    assert plural[loss_so_far.FLOOR] == [1.0]


def test_a_part_that_knows_only_texts_of_32_words_still_writes(quick):
    def fixed(x):
        assert x.shape[1] == loss_so_far.T
        return attention.tril_mean(x)

    run = loss_so_far.train("the mean of the past alone", fixed)
    assert [len(line.split()) for line in run.lines] == [loss_so_far.NEW_WORDS] * 2


def test_the_next_word_is_the_one_after_the_last():
    ids = torch.tensor([[3, 1, 4], [1, 5, 9]])
    copies = torch.nn.Embedding.from_pretrained(50.0 * torch.eye(10))
    assert loss_so_far._next_word(copies)(ids).argmax(dim=-1).equal(ids[:, -1])


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
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "loss_so_far.train(" in cell.source:
            assert {"measured", "nbval-ignore-output"} <= set(cell.metadata["tags"])
        if cell.cell_type == "code" and "loss_so_far.show(" in cell.source:
            pages = "".join(o.get("data", {}).get("text/html", "") for o in cell.outputs)
            for name, *ranges in stored_ranges(pages):
                assert tuple(ranges) == loss_so_far._lines(name, [])[0].finished


def stored_ranges(pages):
    """The name and the ranges of each row that was run five times, in tables as HTML."""
    for line in re.findall(r"<tr>(.*?)</tr>", pages):
        cells = [
            html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", line)
        ]
        named = [name for name in loss_so_far.ROWS if cells and cells[1].startswith(name)]
        if named and cells[3]:
            yield max(named, key=len), cells[3], cells[5]
