"""Lessons 06 and 07: two heads against one, a head that is needed, both styles."""

import pytest
import torch

from course_utils import attention
from course_utils.experiments import heads, lookup, loss_so_far
from course_utils.show.start.model import read, scores

full = pytest.mark.full("the lessons' experiments")
SEEDS = range(5)


def test_each_target_is_the_payload_of_the_next_and_of_the_previous_kind():
    kinds, _, _ = lookup.texts(3, seed=5)
    tokens, wanted = heads.two_payloads(3, seed=5)
    for text in range(3):
        payload = {int(kind): tokens[text, t, 6:] for t, kind in enumerate(kinds[text])}
        for t, kind in enumerate(kinds[text].tolist()):
            both = torch.cat([payload[(kind + 1) % 6], payload[(kind - 1) % 6]])
            assert torch.equal(wanted[text, t], both)


@full  # lesson 06 compares whether one head solves it, on seed 0
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [4, 8])
def test_one_head_keeps_a_large_error_however_wide_it_is(width, seed):
    assert 0.35 < heads.error(heads.train(1, width, seed)) < 0.55


class ByKindAlone(heads.SideBySide):
    """The control: one head whose attention weights depend on the tokens' kinds alone."""

    def forward(self, x):
        (head,) = self.heads
        kinds = x.masked_fill(torch.arange(8) >= len(lookup.KINDS), 0.0)  # (B, T, 8), no payload
        scores = attention.attention_scores(head.query(kinds), head.key(kinds))
        return self.out_proj(scores.softmax(dim=-1) @ head.value(x))


class Joined(heads.SideBySide):
    """The heads' results side by side, without `out_proj`."""

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


@full
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [4, 8])
def test_weights_that_depend_on_the_kinds_alone_leave_one_payload_unknown(width, seed):
    by_kind = heads.error(heads.train(1, width, seed, ByKindAlone))
    assert by_kind == pytest.approx(0.5, abs=0.01)


@full
@pytest.mark.parametrize("seed", SEEDS)
def test_the_two_payloads_need_no_out_proj(seed):
    assert heads.error(heads.train(2, 2, seed, Joined)) < 0.005


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=full) for seed in SEEDS[1:])])
def test_two_heads_get_both_payloads_and_share_the_work(seed):
    model = heads.train(2, 2, seed)
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


def test_over_all_such_sentences_the_model_gets_undecided_or_wrong_without_its_subject_head():
    shares = {
        subject: [heads.mean_plural_share(subject, silent) for silent in [(), 0, 1]]
        for subject in ("many", "one")
    }
    assert shares["many"] == pytest.approx([1.0, 0.09, 1.0], abs=0.01)
    assert shares["one"] == pytest.approx([0.0, 0.48, 0.0], abs=0.01)


def test_two_heads_of_the_first_block_fetch_near_and_either_can_do_without_the_other():
    shares = [heads.mean_plural_share("many", silent, block=0) for silent in [0, 1, (0, 1)]]
    assert shares == pytest.approx([1.0, 1.0, 0.30], abs=0.01)
    words, _ = read("the dogs near the cat")
    weights = attention.masked_softmax(scores(words)[0], attention.causal_mask(6))
    assert weights[:2, 5, 3].min() > 0.8  # from "cat" to "near"


@full
@pytest.mark.parametrize("seed", SEEDS)
def test_in_the_language_model_four_heads_gain_much_and_out_proj_little(seed):
    class NotMixed(attention.MultiHeadAttentionWrapper):
        def forward(self, x):
            return torch.cat([head(x) for head in self.heads], dim=-1)

    def loss(row, make, *sizes):
        torch.manual_seed(seed)
        return loss_so_far.measured(loss_so_far.ROWS[row], make(64, *sizes), seed)[0]

    one = loss("one head", attention.CausalSelfAttention, 64, 32)
    mixed = loss("four heads", attention.MultiHeadAttentionWrapper, 16, 32, 4)
    not_mixed = loss("four heads", NotMixed, 16, 32, 4)
    assert mixed < not_mixed < one - 0.03 and not_mixed - mixed < 0.03


def test_padding_before_a_text_shows_that_the_mask_is_lost_and_padding_after_it_does_not():
    torch.manual_seed(0)
    for module, right in [
        (heads.ReviewedWrapper, False),
        (attention.MultiHeadAttentionWrapper, True),
    ]:
        assert heads.same_as_alone(module(4, 3, 8, 2)) == [True, right]


def test_a_single_view_leaks_the_future_but_a_split_does_not():
    assert heads.tokens_that_change(lambda x: x.view(1, 2, 3, 2)) == [1, 2]
    assert heads.tokens_that_change(lambda x: attention.split_heads(x, 2)) == [2]


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
    losses = [loss_so_far.measured(row, part, seed=0)[0] for part in (a, b)]
    assert losses[0] == pytest.approx(losses[1], abs=5e-4)
