"""The experiments of lesson 10 give the results that the lesson states."""

import pytest
import torch

from course_utils.data import agreement_prefixes, toy_english
from course_utils.experiments import induction, tiny_lm
from course_utils.language_model import TinyLM, generate

pytestmark = pytest.mark.full("the lessons' experiments")


class TestRepeatedTexts:
    def test_a_segment_of_distinct_words_is_repeated(self):
        ids, lengths = induction.texts(20, seed=3)
        assert ids.shape == (20, induction.LENGTH)
        for text, L in zip(ids.tolist(), lengths.tolist(), strict=True):
            assert len(set(text[:L])) == L
            assert all(text[t] == text[t - L] for t in range(L, len(text)))

    def test_one_layer_fails_and_two_succeed(self):
        assert induction.accuracy(induction.trained(1)) < 1 / 3
        assert induction.accuracy(induction.trained(2)) > 0.99
        one, two = (list(curve.values()) for curve in induction.accuracies().values())
        assert max(one) < 1 / 3 and two[-1] > 0.99 and two[2] < 0.5 < two[4]

    def test_three_heads_have_a_job_and_none_attends_to_the_same_word(self):
        scores = induction.roles(induction.trained(2))  # (L, H, 3)
        previous, same, behind = scores.unbind(-1)
        assert divmod(int(previous.argmax()), 2) == (0, 1) and previous.max() > 0.95
        assert behind[1].min() > 0.9
        assert same.max() < 0.1

    @pytest.mark.parametrize(
        ("layer", "head", "left"), [(1, 0, 1.0), (1, 1, 0.3), (0, 1, 0.2), (0, 0, 1.0)]
    )
    def test_one_of_two_equal_heads_can_be_ablated(self, layer, head, left):
        model = induction.trained(2)
        before = {n: p.clone() for n, p in model.named_parameters()}
        with induction.without_head(model, layer, head):
            assert induction.accuracy(model) == pytest.approx(left, abs=0.03)
        assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())

    def test_training_restores_the_seed_and_begins_at_chance(self):
        state = torch.get_rng_state()
        _, seen = induction.train(1, steps=0)
        assert torch.equal(state, torch.get_rng_state()) and seen[0] < 0.1

    def test_the_stored_weights_are_small(self):
        assert induction.KEPT.stat().st_size < 2**20


class TestTinyModel:
    def test_the_bigram_by_the_grammar_has_the_grammars_bigram_loss(self):
        shares = tiny_lm.bigram()
        often = toy_english.often @ toy_english.probability  # (V,)
        loss = -(often[:, None] * torch.special.xlogy(shares, shares)).sum()
        assert loss.item() == pytest.approx(toy_english.bigram_loss(), abs=1e-9)

    def test_a_bigram_always_agrees_with_the_nearer_noun(self):
        assert tiny_lm.agreement() == 0.0

    def test_the_grammar_itself_would_agree_with_the_subject(self):
        prefixes, verbs, _, _ = agreement_prefixes()
        shares = toy_english.next_word(prefixes)[:, -1]
        assert (shares * verbs[:, 0]).sum(-1).allclose(torch.ones(len(prefixes)).double())

    def test_without_the_shift_a_model_copies(self):
        model, losses = tiny_lm.train_without_shift()
        assert losses[0] > 3 and losses[-1] < 0.05
        text = generate(model, tiny_lm.ids_of(". the dogs near the"), 5)
        assert [toy_english.words[id] for id in text[0, 5:]] == ["the"] * 5

    def test_too_few_texts_are_memorised(self):
        own, fresh = (list(losses.values()) for losses in tiny_lm.overfit().values())
        floor = toy_english.least_loss(17)
        assert own[-1] < floor / 3
        assert min(fresh) > floor and fresh[-1] > min(fresh) + 0.5

    def test_an_untrained_model_attends_to_everything(self):
        model = tiny_lm.new_model()
        assert isinstance(model, TinyLM)
        assert tiny_lm.on_the_subject(model).shape == (2, 4)
        assert tiny_lm.on_the_subject(model).max() < 0.5

    def test_paragraphs_that_come_twice_are_kept_once(self):
        assert tiny_lm.without_repeats("a\n\nb\n\na\n\nc") == "a\n\nb\n\nc"

    def test_pairs_are_counted_in_one_text_and_tested_on_another(self):
        ids = torch.tensor([0, 1] * 50)
        assert tiny_lm.counted_bigram_loss(ids, ids, 2) == pytest.approx(0.02, abs=0.01)
