"""The lessons' experiments give the results that the lessons state."""

from pathlib import Path

import nbformat
import pytest
import torch

from course_utils import attention
from course_utils.experiments import depth, lookup, loss_so_far, nan_hunt, padded, saturation
from course_utils.transformer import TransformerBlock
from training import saturation as trained

pytestmark = pytest.mark.full("the lessons' experiments")

ALL = ("query", "key", "value")


class TestLookup:
    def test_a_text_has_each_kind_once_and_then_its_payload(self):
        kinds, tokens, wanted = lookup.texts(3)
        assert kinds.sort(dim=-1).values.tolist() == [list(range(6))] * 3
        assert tokens.shape == (3, 6, 8) and wanted.shape == (3, 6, 2)
        assert torch.equal(tokens[..., :6].argmax(dim=-1), kinds)

    def test_each_target_is_the_payload_of_the_next_kind(self):
        kinds, tokens, wanted = lookup.texts(4)
        for b in range(4):
            payload = {
                int(kind): token[6:] for kind, token in zip(kinds[b], tokens[b], strict=True)
            }
            for kind, fetched in zip(kinds[b], wanted[b], strict=True):
                assert torch.equal(fetched, payload[(int(kind) + 1) % 6])

    def test_the_mean_has_an_error_of_five_sixths(self):
        assert lookup.error_of_the_mean() == pytest.approx(5 / 6, abs=0.02)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("width", [2, 4, 8])
    def test_three_matrices_learn_it_at_any_width(self, width, seed):
        assert lookup.error(lookup.train(width=width, seed=seed)) < 0.01

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize(
        ("share", "width", "least", "most"),
        [
            (ALL, 2, 0.88, 0.95),
            (ALL, 4, 0.25, 0.95),
            (ALL, 8, 0.25, 0.95),
            (ALL[:2], 2, 0.75, 0.82),
            (ALL[:2], 4, 0.75, 0.82),
            (ALL[:2], 8, 0.75, 0.82),
            (ALL[1:], 2, 0.68, 0.76),
            (ALL[1:], 4, 0.0, 0.01),
            (ALL[1:], 8, 0.0, 0.01),
        ],
    )
    def test_sharing_costs_width_or_makes_it_impossible(self, share, width, least, most, seed):
        """Key and value may share a matrix if it is wide enough for both; query and key never."""
        assert least < lookup.error(lookup.train(share, width, seed)) < most

    def test_symmetric_scores_get_at_most_five_of_six_right(self):
        """The best result with a shared matrix: at width 4 with one for all, at width 2 by luck."""
        for head in (lookup.train(ALL, 4), lookup.train(ALL[:2], 2, seed=3)):
            right = lookup.weights(head).argmax(dim=-1) == torch.tensor([1, 2, 3, 4, 5, 0])
            assert right.sum() == 5 and lookup.error(head) == pytest.approx(1 / 3, abs=0.05)

    def test_the_lesson_s_loop_equals_the_experiment_s(self):
        head = lookup.new_head()
        optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
        for step in range(3):
            _, tokens, wanted = lookup.texts(64, seed=step)
            loss = torch.nn.functional.mse_loss(head(tokens), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        same = lookup.train(steps=3)
        assert torch.allclose(head.query.weight, same.query.weight, atol=1e-6)

    def test_each_kind_then_attends_to_the_next(self):
        attended = lookup.weights(lookup.train()).argmax(dim=-1)
        assert attended.tolist() == [1, 2, 3, 4, 5, 0]

    def test_training_restores_seed_and_threads(self):
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        lookup.train(steps=1)
        assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads


class TestSaturation:
    def test_the_stored_runs_are_found_again(self):
        for model, row in trained.MODELS.items():
            kept = saturation.runs()[model]["seed 0"]
            found = [trained.loss(row, divisor, seed=0) for divisor in (1, 64)]
            assert found == pytest.approx([kept[0], kept[3]], abs=0.02)

    def test_the_root_of_the_width_is_not_the_divisor_with_the_lowest_loss(self):
        for by_divisor in saturation.runs()["loss without positions"].values():
            losses = dict(zip(saturation.DIVISORS, by_divisor, strict=True))
            assert losses[1] > losses[8] + 0.03 and losses[8] > losses[64] + 0.01
            mean = min(
                loss_so_far.stored_runs()["the mean of the past and the word before"]["losses"]
            )
            assert losses[1] > mean - 0.01
        for by_divisor in saturation.runs()["loss with positions"].values():
            losses = dict(zip(saturation.DIVISORS, by_divisor, strict=True))
            assert losses[1] > losses[8] + 0.08 and abs(losses[8] - losses[64]) < 0.02

    def test_to_a_trained_head_without_positions_both_the_are_the_same(self):
        torch.manual_seed(0)
        run = loss_so_far.train("one head", attention.CausalSelfAttention(64, 64, 32))
        weights = loss_so_far.head_weights(run, [".", "the", "dogs", "near", "the", "cat"])
        assert weights.sum(dim=-1) == pytest.approx(torch.ones(6))
        assert torch.allclose(weights[4:, 1], weights[4:, 4], atol=1e-6)


class TestPadded:
    @pytest.mark.parametrize("seed", range(5))
    def test_only_with_the_mask_a_text_alone_gets_the_loss_of_the_batch(self, seed):
        make = attention.PaddedCausalSelfAttention
        masked, not_masked = (padded.train(make, masked, seed) for masked in (True, False))
        assert masked.in_a_batch == pytest.approx(masked.alone, abs=1e-4)
        assert not_masked.alone > not_masked.in_a_batch + 0.05

    def test_the_texts_are_sentences_with_the_padding_before_them(self):
        texts = padded.sentences(32, seed=1)
        batch = padded.left_padded(texts)
        assert batch.shape == (32, 12) and min(map(len, texts)) >= 3
        assert all(
            torch.equal(row[12 - len(text) :], text) and (row[: 12 - len(text)] == padded.PAD).all()
            for row, text in zip(batch, texts, strict=True)
        )


class TestNanOnTheWayBack:
    def found(self, patched):
        scores = torch.randn(2, 3, generator=torch.Generator().manual_seed(9), requires_grad=True)
        hidden = torch.tensor([[True, True, True], [True, False, False]])
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
        loss = (
            weights.nan_to_num() if patched else attention.safe_masked_softmax(scores, hidden)
        ).sum()
        return nan_hunt.nan_on_the_way_back(loss)

    def test_a_nan_is_found_although_no_layer_gets_it(self):
        assert self.found(patched=True) and not self.found(patched=False)

    def test_anomaly_detection_is_off_afterwards(self):
        self.found(patched=True)
        assert not torch.is_anomaly_enabled()


def lesson_s_wirings():
    """The functions that lesson 08 shows."""
    path = Path(__file__).parents[1] / "solutions/4-transformer/08_block.ipynb"
    cells = [cell.source for cell in nbformat.read(path, 4).cells]
    (source,) = (text for text in cells if text.startswith("def neither(block, x)"))
    exec(source, shown := {})
    return shown["wirings"]


class TestDepth:
    """Lesson 08: what residuals and norms do, each with its control."""

    wirings = lesson_s_wirings()

    @pytest.mark.parametrize("seed", range(5))
    def test_gradients_at_the_first_of_48_blocks(self, seed):
        first = {n: depth.first_gradient(w, seed=seed) for n, w in self.wirings.items()}
        assert first["neither"] < 1e-50
        assert 1e-4 < first["norms alone"] < 0.2
        assert first["residuals alone"] > 5
        assert 0.3 < first["Pre-LN"] < 1.3 and 0.3 < first["Post-LN"] < 1.3

    @pytest.mark.parametrize("seed", range(5))
    def test_numbers_grow_with_residuals_alone(self, seed):
        size = {n: depth.stream_size(w, seed=seed) for n, w in self.wirings.items()}
        assert size["residuals alone"] > 25
        assert 2 < size["Pre-LN"] < 4 and size["Post-LN"] == pytest.approx(1, abs=0.02)
        assert max(size["neither"], size["norms alone"]) < 0.5

    @pytest.mark.parametrize("seed", range(2))
    def test_six_blocks_learn_with_residuals_and_not_without(self, seed):
        for name, wiring in self.wirings.items():
            loss = depth.train(wiring, seed=seed)
            assert loss < 0.05 if name not in ("neither", "norms alone") else loss > 2.4, name

    @pytest.mark.parametrize("seed", range(5))
    def test_24_blocks_learn_with_norms_and_not_with_residuals_alone(self, seed):
        trained = (depth.train(self.wirings[name], depth=24, seed=seed)
                   for name in ("Pre-LN", "residuals alone"))  # fmt: skip
        with_norms, without = trained
        assert with_norms < 0.1 and not without < 2.4  # NaN has learned nothing either

    def test_a_wiring_may_be_of_another_block(self):
        class Silent(TransformerBlock):
            def forward(self, x, pad_mask=None):
                return x

        assert depth.stream_size(self.wirings["Pre-LN"], Silent) == pytest.approx(1, abs=0.1)

    def test_training_restores_seed_and_threads(self):
        state, threads = torch.get_rng_state(), torch.get_num_threads()
        depth.stream_size(self.wirings["Pre-LN"], depth=1)
        depth.first_gradient(self.wirings["Pre-LN"], depth=1)
        assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads
