"""Lesson 09's experiments give the results that the lesson states."""

import pytest
import torch

from course_utils.experiments import places
from course_utils.transformer import TokenAndPosition, apply_rope, sinusoidal_positions

pytestmark = pytest.mark.full("the lessons' experiments")

SEEDS = range(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_block_without_positions_is_right_in_exactly_half_of_the_texts(seed):
    assert places.first_of_three("none", seed=seed) == 0.5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "layers"), [("learned", 1), ("none", 2)])
def test_with_positions_or_a_second_block_all_are_right(kind, layers, seed):
    assert places.first_of_three(kind, layers, seed) == 1.0


@pytest.mark.parametrize(
    ("kind", "said"), [("learned", "error"), ("sinusoidal", "drift"), ("rotary", "fine")]
)
def test_one_token_beyond_training(kind, said):
    assert places.one_token_beyond(kind) == said


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_same_with_other_seeds(seed):
    drifting = places.shares_right(places.word_before("sinusoidal", seed), 20)
    assert min(drifting[:15]) > 0.98 and drifting[15] < 0.95 and drifting[-1] < 0.25


@pytest.mark.parametrize("seed", range(3))
def test_rotary_positions_fall_twice(seed):
    """Behind position 19 they are right in half of the texts or more, behind 38 in a third."""
    holding = places.shares_right(places.word_before("rotary", seed), 48)
    assert min(holding[:16]) > 0.98
    assert all(0.4 < share < 0.95 for share in holding[20:36])
    assert max(holding[39:]) < 0.45


def test_parts_of_ones_own_are_used():
    used = []

    def waves(length, width):
        used.append("waves")
        return sinusoidal_positions(length, width)

    def rope(x):
        used.append("rope")
        return apply_rope(x)

    class Table(TokenAndPosition):
        def forward(self, ids):
            used.append("table")
            return self.token(ids) + self.position.weight[: ids.shape[1]]

    parts = places.Parts(Table, waves, rope)
    for kind in ("learned", "sinusoidal", "rotary"):
        places.first_of_three(kind, steps=1, parts=parts)
    assert used == ["table"] * 2 + ["waves"] * 2 + ["rope"] * 4
    assert places.one_token_beyond("learned", parts) == "error"


def test_training_makes_neighbours_similar():
    before, after = (places.similarity(places.learned_table(steps)) for steps in (0, 400))
    assert before.diagonal(1).mean() < 0.2
    assert after.diagonal(1).mean() > 0.6 > after.diagonal(8).mean()


def test_the_similarity_of_sinusoids_depends_on_the_distance():
    alike = places.similarity(sinusoidal_positions(24, 16))
    assert torch.allclose(alike[1:, 1:], alike[:-1, :-1], atol=1e-5)


def test_rotary_attention_hides_future_and_padding():
    torch.manual_seed(1)
    attention = places.RotaryAttention(8, 8, 9, 2)
    x = torch.randn(2, 5, 8)
    other = x.clone()
    other[:, 3:] += 1.0
    assert torch.allclose(attention(x)[:, :3], attention(other)[:, :3], atol=1e-6)
    pad_mask = torch.tensor([[True, True, False, False, False]] * 2)
    alone = attention(x[:, 2:])
    assert torch.allclose(attention(x, pad_mask)[:, 2:], alone, atol=1e-5)
    assert not torch.allclose(attention(x)[:, 2:], alone, atol=1e-3)


def test_training_restores_seed_and_threads():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    places.first_of_three("learned", steps=1)
    places.learned_table(1)
    assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads
