"""The experiment of lesson 11 gives what the lesson says of it."""

import pytest
import torch

from course_utils.experiments import sources

pytestmark = pytest.mark.full("the lessons' experiments")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("the cat sings", "chante"),
        ("the cat does not dance", "ne"),
        ("the white cat dances", "blanc"),
    ],
)
def test_one_prefix_goes_on_as_its_source_has_it(source, word):
    assert sources.likeliest(sources.next_words(source, "le chat"), 1)[word] > 0.95


def test_without_a_source_it_says_what_is_likely_in_the_language():
    said = sources.likeliest(sources.next_words(None, sources.COUNTED), 3)
    counted = sources.reader().counted
    assert set(counted) == {"chat", "garçon"}
    for word, probability in said.items():
        assert abs(probability - counted[word] / counted.total()) < 0.05


def test_each_row_looks_at_the_word_that_is_written_next():
    weights = sources.looks_at("the small cat finds a girl", "le petit chat trouve une fille")
    pieces = ["the", "small", "cat", "find", "-s", "a", "girl"]
    assert sources.pieces("the small cat finds a girl") == pieces
    assert weights.shape == (7, 7)
    assert weights.argmax(dim=1)[:6].tolist() == [0, 1, 2, 3, 5, 6]
    assert weights[[0, 1, 2, 3, 5]].amax(dim=1).min() > 0.8 and weights[6].max() < 0.5
    assert weights[4, 5:].min() > 0.4  # the gender of "une" hangs on "girl"


def test_the_counts_that_are_kept_are_of_words_it_knows():
    kept = sources.reader()
    assert set(kept.counted) < set(kept.french.vocabulary)
    assert sources.KEPT.stat().st_size < 2**20


def test_a_few_steps_lower_the_loss_and_leave_the_seed_alone():
    state = torch.get_rng_state()
    losses = sources.train(sources.new_model(), steps=6, without_source_every=0)
    assert torch.equal(state, torch.get_rng_state())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", sources.MEASURED)
def test_only_one_variant_is_deaf_to_its_source(name):
    model = sources.variant(name).eval()
    prefix = torch.tensor([[1, 3]])
    one, other = (model(torch.tensor([ids]), prefix) for ids in ([1, 7, 26], [2, 9, 27]))
    assert torch.equal(one, other) == (name == "without cross-attention")
    same = torch.equal(
        one, sources.variant("as in 2017").eval()(torch.tensor([[1, 7, 26]]), prefix)
    )
    assert same == (name == "as in 2017")
