"""The experiments of lesson 12 give the results that the lesson states; the line translates."""

import pytest
import torch

from course_utils.data.toy_french import BOS_ID, PAD_ID, english, french, three_sets
from course_utils.experiments import families, translating
from course_utils.show.translating_line import translating_line
from course_utils.translation import greedy_translate, train_translator
from whywrong.course import catalogue

pytestmark = pytest.mark.full("the lessons' experiments")

COURSE = catalogue()
EARLY = translating.stopped_early()


class TestStoppedEarly:
    def test_it_gets_about_half_of_the_sentences_right(self):
        assert 0.42 < translating.exact(EARLY, translating.unseen_pairs()[:200]) < 0.6

    def test_a_beam_finds_the_verb_that_greedy_misses(self):
        one, two = (translating.searched(EARLY, "the small girl eats", w)[0] for w in (1, 2))
        assert translating.said(one.ids) == "la petite fille noire"
        assert translating.said(two.ids) == translating.french_of("the small girl eats")
        assert two.score > one.score + 0.1

    def test_a_more_likely_text_can_be_worse(self):
        text = "the grey cat washes the cat"
        one, four = (translating.searched(EARLY, text, w)[0] for w in (1, 4))
        assert translating.said(one.ids) == translating.french_of(text)
        assert translating.said(four.ids) != translating.french_of(text)
        assert four.score > one.score + 0.01

    def test_a_wrong_article_is_followed_by_another_noun(self):
        assert translating.go_on(EARLY, "the cow dances", "") == "la vache danse"
        assert translating.go_on(EARLY, "the cow dances", "le") == "le chien mange"

    def test_a_wrong_word_halves_the_accuracy_of_the_rest(self):
        pairs = three_sets(held_out=400)[1]
        assert translating.after_a_word(EARLY, pairs, wrong=False) == pytest.approx(0.8, abs=0.03)
        assert translating.after_a_word(EARLY, pairs, wrong=True) == pytest.approx(0.4, abs=0.03)

    def test_the_tree_contains_the_final_texts_of_the_search(self):
        steps = translating.beam_steps(EARLY, "the small girl eats", 2)
        assert all(sum(kept for *_, kept in step) == 2 for step in steps)
        best = translating.searched(EARLY, "the small girl eats", 2)[0]
        ends = {tuple(ids): total for ids, total, kept in steps[-1] if kept}
        assert ends[tuple(best.ids)] == pytest.approx(best.log_probability)

    def test_log_probabilities_are_those_of_the_search(self):
        best = translating.searched(EARLY, "I do not push a big boy", 2)[0]
        said = translating.said(best.ids)
        found = translating.log_probability(EARLY, "I do not push a big boy", said)
        assert found == pytest.approx(best.log_probability)


def test_batches_use_each_sentence_before_repeating_any():
    pairs = three_sets(120, 10)[0]
    batches = translating.draw_batches(pairs[:64], 2, size=32)
    assert (
        len({english.decode(row[row != PAD_ID]) for source, *_ in batches for row in source}) == 64
    )


def test_encoding_the_source_once_gives_the_same_result():
    source, mask, _ = translating.as_batch(translating.unseen_pairs()[:5])
    reads_once = translating.ReadsOnce(EARLY, source, mask)
    ours = greedy_translate(reads_once, source, 1, 2, 13)
    assert ours.equal(greedy_translate(EARLY, source, 1, 2, 13, mask))


def test_a_readers_own_translator_is_searched_and_inspected_like_the_finished_one():
    """The exercise's answer has neither `encode` nor `decode`."""
    own = COURSE.find("Translator").reference(
        len(english.vocabulary), len(french.vocabulary), 64, 4, 256, 2, 14
    )
    own.load_state_dict(EARLY.state_dict())
    pairs = translating.unseen_pairs()[:20]
    assert translating.exact(own, pairs) == translating.exact(EARLY, pairs)
    ours, theirs = (translating.aligned(m, "the small girl eats") for m in (own, EARLY))
    assert torch.equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_small_translator_needs_no_warm_up(seed):
    training, unseen, _ = three_sets(held_out=400)
    at_step_100 = []
    for warm_up in (100, 1):
        model = translating.new_model(seed)
        batches = translating.draw_batches(training, translating.STEPS, seed)
        losses = train_translator(model, batches, BOS_ID, PAD_ID, warm_up=warm_up)
        at_step_100.append(losses[100])
        assert translating.exact(model, unseen) == 1
    assert at_step_100 == pytest.approx([0.16, 0.03], abs=0.015)


def test_words_that_mean_the_same_are_found():
    pair = next(p for p in translating.unseen_pairs() if p.english == "the small girl eats")
    read = [english.vocabulary[id] for id in english.encode(pair.english)]
    written = [french.vocabulary[id] for id in french.encode(pair.french)]
    found = {(written[t], read[s]) for t, s in translating.gold(pair)}
    assert found == {("petite", "small"), ("fille", "girl"), ("mange", "eat")}


def test_the_masks_of_the_families():
    encoder, decoder, both = families.masks(3, 4)
    assert not encoder.any()
    assert decoder.equal(torch.ones(7, 7).triu(1).bool())
    assert both[:3, 3:].all() and not both[:, :3].any()
    assert both[3:, 3:].equal(torch.ones(4, 4).triu(1).bool())


class TestLine:
    def test_it_translates_what_is_typed(self):
        line = translating_line(EARLY, "the cow dances")
        assert line.translation()[0] == "la vache danse"
        line.text = "I do not sing."
        assert line.translation()[1] == ["je", "ne", "chante", "pas", "<eos>"]
        assert line._shown["says"] == "je ne chante pas" and "<th scope" in line._html()

    @pytest.mark.parametrize(
        ("text", "said"), [("the purple cow", "purple"), ("", "1 to 13"), ("the " * 14, "1 to 13")]
    )
    def test_unreadable_input_gets_a_message(self, text, said):
        line = translating_line(EARLY, text)
        assert said in line._shown["says"] and said in repr(line) and said in line._html()
