"""The line of lesson 10: bars, dials and draws, and a table without a kernel."""

import pytest
import torch

from course_utils.data import toy_english
from course_utils.experiments.tiny_lm import new_model
from course_utils.sampler import SHOWN, sampler

WORDS = toy_english.words


@pytest.fixture
def line():
    return sampler(new_model(), WORDS, "the dogs near the cat")


def test_the_bars_are_the_likeliest_words_in_order(line):
    assert len(line.line._bars) == SHOWN
    shares = [share for _, share, _ in line.line._bars]
    assert shares == sorted(shares, reverse=True)
    best = line.probabilities().argmax()
    assert line.line._bars[0][0] == WORDS[best]


def test_the_dials_act(line):
    line.top_k.value = 3
    assert int((line.probabilities() > 0).sum()) == 3
    assert line.line._bars[3][2] == "0"
    assert "3 of 27" in line.line._says
    line.temperature.value = 0
    assert line.probabilities().max() == 1
    line.temperature.value, line.top_k.value, line.top_p.value = 1.0, 27, 0.05
    assert int((line.probabilities() > 0).sum()) == 1


def test_a_draw_is_written_down(line):
    word = line.draw_word()
    assert word in WORDS
    assert line.line.text.replace(".", " .").split()[-1] == word


def test_words_it_has_never_met_are_told_and_left_out(line):
    before = line.probabilities()
    line.line.text = "the dogs near the zebra cat"
    assert "zebra" in line.line._unknown
    assert torch.equal(line.probabilities(), before)


def test_an_empty_line_and_a_long_one_have_a_next_word(line):
    for text in ("", "the cat sleeps. " * 20):
        line.line.text = text
        assert line.probabilities().sum() == pytest.approx(1.0, abs=1e-5)


def test_the_models_mode_stays(line):
    assert line.language_model.training
    line.language_model.eval()
    line.line.text = "the king"
    assert not line.language_model.training


def test_without_a_kernel_it_is_a_table(line):
    page = line._html()
    assert page.count("<tr>") == SHOWN + 1 and "the dogs near the cat" in page
    line.line.text = "<b>"
    assert "<b>" not in line._html()
