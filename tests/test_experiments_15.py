"""The experiments of lesson 15 give the results that the lesson states."""

import pytest

from course_utils import language_model
from course_utils.data import CharacterTokenizer, read_text, train_and_held_out
from course_utils.experiments import capstone, modern, tiny_lm
from training.small_models import letters

pytestmark = pytest.mark.full("the lessons' experiments")

V, T = 30, 32


@pytest.fixture(scope="module")
def texts():
    alphabet = CharacterTokenizer(modern.LETTERS)
    text = tiny_lm.without_repeats(read_text()).lower()
    text = "".join(letter for letter in text if letter in modern.LETTERS)[:200_000]
    return *train_and_held_out(alphabet.encode(text)), alphabet.encode(" \n")


def test_counting_longer_groups_of_letters_lowers_the_loss(texts):
    train_ids, held_out, _ = texts
    losses = [tiny_lm.counted_loss(train_ids, held_out, V, length) for length in (2, 3, 4)]
    assert losses == pytest.approx([2.39, 1.83, 1.46], abs=0.01)


@pytest.mark.parametrize("seed", [0, 1, 5, 7])
def test_the_model_beats_pairs_and_depends_on_one_head_that_attends_one_back(texts, seed):
    train_ids, held_out, blanks = texts
    model, losses = letters(seed)
    bigram = tiny_lm.counted_bigram_loss(train_ids, held_out, V)
    assert max(losses[200:]) < bigram < losses[10]

    unseen = held_out.unfold(0, T + 1, T + 1)
    loss = language_model.held_out_loss(model, unseen)
    assert 1.55 < loss < 1.66
    weights, even = capstone.job_weights(model, unseen[:64, :-1], blanks)
    (layer, head, job), *others = capstone.standing_out(weights, even)
    assert layer == 0 and capstone.JOBS[job] == "one before" and weights[layer, head, job] > 0.9
    assert capstone.loss_without(model, unseen, layer, head) - loss > 0.35
    for layer, head, _ in others:
        assert capstone.loss_without(model, unseen, layer, head) - loss < 0.3
