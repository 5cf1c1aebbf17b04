"""Lessons 06 and 07: two heads against one, a head that is needed, both styles."""

import pytest
import torch

from course_utils import attention
from course_utils.experiments import heads, lookup, loss_so_far
from course_utils.show.start.model import read

full = pytest.mark.full("the lessons' experiments")
more_seeds = [pytest.param(seed, marks=full) for seed in (1, 2)]


def test_each_target_is_the_payload_of_the_next_and_of_the_previous_kind():
    kinds, _, _ = lookup.texts(3, seed=5)
    tokens, wanted = heads.two_payloads(3, seed=5)
    for text in range(3):
        payload = {int(kind): tokens[text, t, 6:] for t, kind in enumerate(kinds[text])}
        for t, kind in enumerate(kinds[text].tolist()):
            both = torch.cat([payload[(kind + 1) % 6], payload[(kind - 1) % 6]])
            assert torch.equal(wanted[text, t], both)


@pytest.mark.parametrize("seed", [0, *more_seeds])
@pytest.mark.parametrize("width", [4, 8])
def test_one_head_keeps_a_large_error_however_wide_it_is(width, seed):
    assert 0.35 < heads.error(heads.train(1, width, seed)) < 0.55


@pytest.mark.parametrize("seed", [0, *more_seeds])
@pytest.mark.parametrize("width", [2, pytest.param(4, marks=full)])
def test_two_heads_get_both_payloads_and_share_the_work(width, seed):
    model = heads.train(2, width, seed)
    assert heads.error(model) < 0.005
    following, previous = heads.weights_by_kind(model)
    places = torch.arange(6)
    assert following[places, (places + 1) % 6].min() > 0.95
    assert previous[places, (places - 1) % 6].min() > 0.95


def test_one_head_of_width_4_has_as_many_parameters_as_two_of_width_2():
    one, two = (attention.count_parameters(heads.SideBySide(H, D)) for H, D in [(1, 4), (2, 2)])
    assert one == two


def test_without_its_subject_head_the_start_page_s_model_expects_a_singular_verb():
    words, _ = read("the dogs near the cat")
    assert heads.plural_share(words) > 0.99
    assert heads.plural_share(words, silent=0) < 0.1
    assert min(heads.plural_share(words, silent=head) for head in (1, 2, 3)) > 0.95
    assert heads.plural_share(words) > 0.99, "no head stays silent"


def test_padding_before_a_text_shows_that_the_mask_is_lost_and_padding_after_it_does_not():
    torch.manual_seed(0)
    for module, right in [
        (heads.ReviewedWrapper, False),
        (attention.MultiHeadAttentionWrapper, True),
    ]:
        assert heads.same_as_alone(module(4, 3, 8, 2)) == [True, right]


def test_a_single_view_leaks_the_future_but_a_split_does_not():
    assert heads.tokens_that_notice(lambda x: x.view(1, 2, 3, 2)) == [1, 2]
    assert heads.tokens_that_notice(lambda x: attention.split_heads(x, 2)) == [2]


@pytest.mark.parametrize("H", [1, 12])
def test_separate_heads_need_five_products_each_but_split_heads_none(H):
    side_by_side, split = (make(24, 8, H) for make in heads.STYLES.values())
    assert heads.matrix_products(side_by_side) == 5 * H + 1
    assert heads.matrix_products(split) == 6


def test_the_library_s_module_with_the_parameters_of_ours_gives_the_same():
    torch.manual_seed(1)
    split, x = attention.MultiHeadAttention(6, 6, 5, 3), torch.randn(2, 5, 6)
    out, _ = heads.library_twin(split, 3)(x, x, x, attn_mask=attention.causal_mask(5))
    torch.testing.assert_close(out, split(x))


@full
def test_with_equal_initial_parameters_both_styles_reach_the_same_loss():
    torch.manual_seed(0)
    a, b = (
        attention.MultiHeadAttentionWrapper(64, 16, 32, 4),
        attention.MultiHeadAttention(64, 64, 32, 4),
    )
    attention.copy_wrapper_to_split(a, b)
    row = loss_so_far.ROWS["four heads"]
    losses = [loss_so_far.measured(row, part, seed=0) for part in (a, b)]
    assert losses[0] == pytest.approx(losses[1], abs=5e-4)
