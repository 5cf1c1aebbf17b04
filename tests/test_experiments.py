"""The experiments that lessons run give what the lessons say of them."""

import pytest
import torch

from course_utils import attention
from course_utils.experiments import depth, lookup, nan_hunt, saturation

pytestmark = pytest.mark.full("the lessons' experiments")

ALL = ("query", "key", "value")


class TestLookup:
    def test_a_text_has_each_kind_once_and_its_payload_behind(self):
        kinds, tokens, wanted = lookup.texts(3)
        assert kinds.sort(dim=-1).values.tolist() == [list(range(6))] * 3
        assert tokens.shape == (3, 6, 8) and wanted.shape == (3, 6, 2)
        assert torch.equal(tokens[..., :6].argmax(dim=-1), kinds)

    def test_each_token_wants_the_payload_of_the_next_kind(self):
        kinds, tokens, wanted = lookup.texts(4)
        for b in range(4):
            payload = {
                int(kind): token[6:] for kind, token in zip(kinds[b], tokens[b], strict=True)
            }
            for kind, fetched in zip(kinds[b], wanted[b], strict=True):
                assert torch.equal(fetched, payload[(int(kind) + 1) % 6])

    def test_the_mean_is_off_by_five_sixths(self):
        assert lookup.error_of_the_mean() == pytest.approx(5 / 6, abs=0.02)

    @pytest.mark.parametrize("seed", range(5))
    def test_three_matrices_learn_it(self, seed):
        assert lookup.error(lookup.train(seed=seed)) < 0.01

    @pytest.mark.parametrize(
        ("share", "most", "least"), [(ALL, 0.95, 0.88), (ALL[:2], 0.82, 0.3), (ALL[1:], 0.76, 0.68)]
    )
    def test_fewer_do_not(self, share, most, least):
        """With query and key shared, one seed of five gets five of six kinds right."""
        errors = [lookup.error(lookup.train(share, seed)) for seed in range(5)]
        assert least < min(errors) <= max(errors) < most

    def test_each_kind_then_looks_at_the_next(self):
        looked_at = lookup.weights(lookup.train()).argmax(dim=-1)
        assert looked_at.tolist() == [1, 2, 3, 4, 5, 0]

    def test_training_leaves_seed_and_threads_alone(self):
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        lookup.train(steps=1)
        assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads


class TestSaturation:
    def test_without_the_scale_one_key_takes_all_and_the_gradient_goes(self):
        tops, gradients = saturation.by_width([4, 1024]).values()
        assert tops["not scaled"][1] > 0.999 and tops["divided by √D"][1] < 0.4
        first, last = gradients["not scaled"]
        assert last < 1e-5 * first
        first, last = gradients["divided by √D"]
        assert last == pytest.approx(first, rel=0.1)


def big_negative(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, -1e9), dim=-1)


def added_then_patched(scores, hidden):
    mask = torch.zeros_like(scores).masked_fill(hidden, float("-inf"))
    return torch.softmax(scores + mask, dim=-1).nan_to_num()


def filled_then_patched(scores, hidden):
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1).nan_to_num()


class TestNanHunt:
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(9))
    pad_mask = torch.tensor([[True, False, False]])

    @pytest.mark.parametrize(
        ("weigh", "found"),
        [
            (attention.masked_softmax, ["weights", "on the way back", "value.grad"]),
            (big_negative, []),
            (added_then_patched, ["on the way back", "query.grad"]),
            (filled_then_patched, ["on the way back"]),
            (attention.safe_masked_softmax, []),
        ],
    )
    def test_where_a_nan_turns_up(self, weigh, found):
        assert nan_hunt.hunt(weigh, self.x, self.pad_mask) == found

    def test_the_weights_are_those_of_that_step(self):
        weights = nan_hunt.weights(big_negative, self.x, self.pad_mask)
        assert weights.shape == (1, 3, 3)
        assert weights[0, 0].tolist() == pytest.approx([1 / 3] * 3)

    def test_anomaly_detection_is_off_afterwards(self):
        nan_hunt.hunt(filled_then_patched, self.x, self.pad_mask)
        assert not torch.is_anomaly_enabled()


class TestDepth:
    """Lesson 08: what residuals and norms do, each with its control."""

    @pytest.mark.parametrize("seed", range(3))
    def test_gradients_at_the_first_of_48_blocks(self, seed):
        first = {name: depth.gradient_norms(name, 48, seed)[0] for name in depth.WIRINGS}
        assert first["neither"] < 1e-50
        assert 1e-5 < first["norms alone"] < 0.1
        assert first["residuals alone"] > 100
        assert 0.3 < first["Pre-LN"] < 1.3 and 0.3 < first["Post-LN"] < 1.3

    @pytest.mark.parametrize("seed", range(3))
    def test_pre_norm_spreads_the_change_over_the_blocks(self, seed):
        """The last of 24 blocks gets less than alone; after a norm on the stream it gets more."""
        last = {name: depth.gradient_norms(name, 24, seed)[1] for name in depth.WIRINGS}
        assert last["Pre-LN"] < last["Post-LN"]

    @pytest.mark.parametrize("seed", range(3))
    def test_six_blocks_learn_with_residuals_and_not_without(self, seed):
        for name in depth.WIRINGS:
            loss = depth.train(name, 6, seed=seed)
            assert loss < 0.05 if name not in ("neither", "norms alone") else loss > 2.4, name

    def test_24_blocks_learn_slowly_without_norms(self):
        assert depth.train("residuals alone", 24) > 0.2 > depth.train("Pre-LN", 24)
