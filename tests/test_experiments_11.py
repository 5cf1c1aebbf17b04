"""The experiments of lesson 11 give the results that the lesson states."""

import pytest
import torch
from torch import nn

from course_utils import attention, transformer
from course_utils.experiments import translating
from training.small_models import train_small_translator
from training.variants import variant

pytestmark = pytest.mark.full("the lessons' experiments")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("the cat sings", "chante"),
        ("the cat does not dance", "ne"),
        ("the white cat dances", "blanc"),
        ("the dog dances", "danse"),
    ],
)
def test_the_same_prefix_continues_according_to_its_source(source, word):
    assert translating.next_words(translating.translator(), source, "le chat", 1)[word] > 0.95


def test_each_row_attends_to_the_word_translated_next():
    english, french = "the small cat finds a girl", "le petit chat trouve une fille"
    weights = translating.attends_to(translating.translator(), english, french)
    assert translating.pieces(english) == ["the", "small", "cat", "find", "-s", "a", "girl"]
    assert weights.shape == (7, 7)
    assert weights.argmax(dim=1)[:6].tolist() == [0, 1, 2, 3, 5, 6]
    assert weights[[0, 1, 2, 3, 5]].amax(dim=1).min() > 0.8 and weights[6].max() < 0.5
    assert weights[4, 5:].min() > 0.4  # the gender of "une" depends on "girl"


def test_it_translates_and_its_file_is_small():
    text = translating.translate(translating.translator(), "the small cat does not find a mouse")
    assert text == "le petit chat ne trouve pas une souris"
    assert translating.STORED.stat().st_size < 2**20


def test_it_is_built_from_the_parts_that_it_is_given():
    called = []

    def named(part):
        def forward(self, *given, **more):
            called.append(part.__name__)
            return part.forward(self, *given, **more)

        return type("Mine", (part,), {"forward": forward})

    cross = translating.translator(named(attention.CrossAttention))
    blocks = translating.translator(
        encoder=named(transformer.EncoderBlock), decoder=named(transformer.DecoderBlock)
    )
    words = [
        translating.next_words(model, "the cat sings", "le chat", 1) for model in (cross, blocks)
    ]
    assert (
        words
        == [translating.next_words(translating.translator(), "the cat sings", "le chat", 1)] * 2
    )
    assert called == ["CrossAttention"] * 4 + ["EncoderBlock"] * 2 + ["DecoderBlock"] * 2
    assert not cross.training and isinstance(cross, nn.Module)


def test_a_few_steps_lower_the_loss_and_restore_the_seed():
    state = torch.get_rng_state()
    losses = train_small_translator(
        translating.new_model(sizes=translating.SMALL), steps=6, without_source_every=0
    )
    assert torch.equal(state, torch.get_rng_state())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", translating.MEASURED)
def test_only_one_variant_does_not_depend_on_its_source(name):
    model = variant(name).eval()
    prefix = torch.tensor([[1, 3]])
    one, other = (model(torch.tensor([ids]), prefix) for ids in ([1, 7, 26], [2, 9, 27]))
    assert torch.equal(one, other) == (name == "without cross-attention")
    same = torch.equal(one, variant("as in 2017").eval()(torch.tensor([[1, 7, 26]]), prefix))
    assert same == (name == "as in 2017")
