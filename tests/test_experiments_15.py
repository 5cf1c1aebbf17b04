"""The experiments of lesson 15 give the results that the lesson states, with five seeds."""

import string

import pytest
import torch

from course_utils import language_model
from course_utils.data import CharacterTokenizer, read_text, train_and_held_out
from course_utils.experiments import capstone, tiny_lm

pytestmark = pytest.mark.full("the lessons' experiments")

V, T, STEPS = 30, 32, 1_000


@pytest.fixture(scope="module")
def texts():
    alphabet = string.ascii_lowercase + " .,\n"
    text = tiny_lm.without_repeats(read_text()).lower()
    letters = CharacterTokenizer(alphabet)
    text = "".join(letter for letter in text if letter in alphabet)[:200_000]
    return *train_and_held_out(letters.encode(text)), letters.encode(" \n")


def test_counting_longer_groups_of_letters_lowers_the_loss(texts):
    train_ids, held_out, _ = texts
    losses = [tiny_lm.counted_loss(train_ids, held_out, V, length) for length in (2, 3, 4)]
    assert losses == pytest.approx([2.39, 1.83, 1.46], abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_the_model_beats_pairs_and_depends_on_one_head_that_attends_one_back(texts, seed):
    train_ids, held_out, blanks = texts
    torch.manual_seed(seed)
    model = language_model.TinyLM(V, 48, 3, T, 2)
    windows, _ = language_model.sliding_windows(train_ids, length=T + 1, stride=7)
    batches = list(windows[torch.randint(len(windows), (STEPS, 16))])
    losses = language_model.train_lm(model, batches, learning_rate=0.01)
    bigram = tiny_lm.counted_bigram_loss(train_ids, held_out, V)
    assert max(losses[200:]) < bigram < losses[10]

    unseen = held_out.unfold(0, T + 1, T + 1)
    loss = language_model.held_out_loss(model, unseen)
    assert 1.55 < loss < 1.66
    weights, even = capstone.job_weights(model, unseen[:64, :-1], blanks)
    (layer, head, job), *others = capstone.standing_out(weights, even)
    assert layer == 0 and capstone.JOBS[job] == "one before" and weights[layer, head, job] > 0.9
    assert capstone.loss_without(model, unseen, layer, head) - loss > 0.8
    for layer, head, _ in others:
        assert capstone.loss_without(model, unseen, layer, head) - loss < 0.3
