"""The experiments of lesson 10 give the results that the lesson states."""

import math

import pytest
import torch

from course_utils.data import toy_english
from course_utils.experiments import induction, tiny_lm
from course_utils.language_model import TinyLM, generate, train_lm, without_head
from training.small_models import batches, repeater, tiny

pytestmark = pytest.mark.full("the lessons' experiments")


class TestRepeatedTexts:
    def test_a_segment_of_distinct_words_is_repeated(self):
        ids, lengths = induction.texts(20, seed=3)
        assert ids.shape == (20, induction.LENGTH)
        for text, L in zip(ids.tolist(), lengths.tolist(), strict=True):
            assert len(set(text[:L])) == L
            assert all(text[t] == text[t - L] for t in range(L, len(text)))

    def test_one_block_fails_and_two_succeed(self):
        (one, losses), (two, fewer) = induction.stored(1), induction.stored(2)
        assert induction.accuracy(one) < 1 / 3 and induction.accuracy(two) > 0.99
        assert losses[-1] > 2 * induction.floor() and fewer[-1] < 1.1 * induction.floor()
        assert len(losses) == len(fewer) == induction.STEPS

    def test_the_floor_is_the_loss_of_a_model_that_knows_how_texts_are_made(self):
        ids, lengths = induction.texts(4_000, seed=1)
        possible = induction.LONGEST - induction.SHORTEST + 1
        losses = []
        for length in lengths.tolist():  # -log of the probability of each new word and of the end
            new = [torch.log(torch.tensor(induction.WORDS - i)) for i in range(1, length)]
            losses.append((sum(new) + torch.log(torch.tensor(possible))) / (ids.shape[1] - 1))
        assert torch.tensor(losses).mean().item() == pytest.approx(induction.floor(), abs=0.02)

    @pytest.mark.parametrize("seed", [0, 3])
    def test_both_heads_of_layer_1_have_the_job_but_one_is_enough(self, seed):
        model, _ = repeater(2, seed)
        previous, same, after = induction.roles(model).unbind(-1)  # (L, H) each
        assert induction.accuracy(model) > 0.99
        assert previous[0].max() > 0.8 and after[1].min() > 0.9 and same.max() < 0.15
        before = {n: p.clone() for n, p in model.named_parameters()}
        with without_head(model, 1, 0):
            either = [induction.accuracy(model)]
            with without_head(model, 1, 1):
                assert induction.accuracy(model) < 0.15
        with without_head(model, 1, 1):
            either.append(induction.accuracy(model))
        assert max(either) > 0.98 > min(either)
        assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())

    def test_training_restores_the_seed(self):
        state = torch.get_rng_state()
        model, losses = repeater(1, steps=0)
        assert torch.equal(state, torch.get_rng_state())
        assert losses == [] and induction.accuracy(model) < 0.1

    def test_the_stored_weights_are_small(self):
        assert induction.KEPT.stat().st_size < 2**20
        assert tiny_lm.STORED.stat().st_size < 2**18


def ablations(model):
    """Each head's mean weight on the subject, the largest first, and the agreement without it."""
    found = []
    for head, weight in tiny_lm.by_weight(model):
        with without_head(model, *head):
            found.append((weight, tiny_lm.agreement(model)))
    return found


class TestHeads:
    """The table of eight seeds in section 11."""

    def test_a_head_can_be_needed_whatever_its_weight(self):
        ablated = {seed: ablations(tiny(seed)) for seed in (0, 2, 4)}
        top = {seed: heads[0] for seed, heads in ablated.items()}
        assert all(weight > 0.3 for weight, _ in top.values())
        assert top[0][1] < 0.5  # needed, with the most weight
        assert top[4][1] > 0.9  # not needed, with a weight of 0.82
        unseen = [agreement for weight, agreement in ablated[2] if weight < 0.1]
        assert min(unseen) < 0.5  # needed, with no weight

    def test_the_model_is_right_before(self):
        model = tiny(1)
        assert tiny_lm.agreement(model) == 1.0
        parameters = [p.clone() for p in model.parameters()]
        ablations(model)
        assert all(map(torch.equal, parameters, model.parameters()))

    @pytest.mark.parametrize("seed", range(3))
    def test_words_are_known_after_two_steps_and_pairs_after_thirty(self, seed):
        levels = toy_english.levels(T=33)
        model = tiny_lm.new_model(seed=seed)
        losses = train_lm(model, batches(), 6e-3)
        unigram, bigram = (
            next(i for i, loss in enumerate(losses) if loss < levels[name])
            for name in ("unigram", "bigram")
        )
        assert unigram <= 3 and 20 <= bigram <= 35


class TestKept:
    def test_the_readers_own_model_comes_back(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
        mine = tiny_lm.new_model(seed=5)
        tiny_lm.keep(mine)
        again = tiny_lm.readers_model()
        assert all(map(torch.equal, mine.parameters(), again.parameters()))
        assert "the model: yours" in capsys.readouterr().out

    @pytest.mark.parametrize("content", [None, b"damaged"])
    def test_otherwise_the_stored_one_does(self, content, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
        if content:
            (tmp_path / tiny_lm.KEPT).write_bytes(content)
        assert tiny_lm.agreement(tiny_lm.readers_model()) > 0.95
        assert "the model: the stored one" in capsys.readouterr().out

    def test_nothing_is_kept_without_progress(self, monkeypatch, capsys):
        monkeypatch.setenv("COURSE_PROGRESS", "off")
        tiny_lm.keep(tiny_lm.new_model())
        assert capsys.readouterr().out == ""


class TestTinyModel:
    def test_the_bigram_by_the_grammar_has_the_grammars_bigram_loss(self):
        shares = tiny_lm.bigram()
        often = toy_english.often @ toy_english.probability  # (V,)
        loss = -(often[:, None] * torch.special.xlogy(shares, shares)).sum()
        assert loss.item() == pytest.approx(toy_english.bigram_loss(), abs=1e-9)

    def test_a_bigram_always_agrees_with_the_nearer_noun(self):
        assert tiny_lm.agreement() == 0.0

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
        pairs = torch.tensor([0, 0, 1, 1] * 25)  # one id says nothing about the next, two say all
        losses = [tiny_lm.counted_loss(pairs, pairs, 2, length) for length in (2, 3)]
        assert losses == pytest.approx([math.log(2), 0.0], abs=0.02)
