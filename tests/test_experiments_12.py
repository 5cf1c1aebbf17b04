"""The experiments of lesson 12 give the results that the lesson states; the line translates."""

import pytest
import torch

from course_utils.data.toy_french import PAD_ID, english, french, three_sets
from course_utils.experiments import translating
from course_utils.show.translating_line import translating_line
from course_utils.translation import beam_translate, greedy_translate, train_translator
from training.small_models import translator
from whywrong.hosting import catalogue

pytestmark = pytest.mark.full("the lessons' experiments")

COURSE = catalogue()


@pytest.fixture(scope="module")
def early():
    """As the lesson's second model, with the finished parts."""
    return translator(75)


class TestSearches:
    def test_a_beam_finds_the_right_text_that_greedy_misses(self, early):
        text = translating.rescued(early, translating.sentences()[1], width=2)
        one, two = (translating.searched(early, text, w)[0] for w in (1, 2))
        assert translating.french_text(two.ids) == translating.french_of(text)
        assert translating.french_text(one.ids) != translating.french_of(text)
        assert two.score > one.score

    def test_a_wider_beam_leaves_only_the_mistakes_of_the_model(self, early):
        pairs = translating.sentences()[1][:60]
        found = translating.judged(beam_translate, early, pairs, [1, 4])
        assert all(sum(row) == pytest.approx(1) for row in found.values())
        assert 0.3 < found[1].right < found[4].right < 0.75
        assert found[1].missed > 0.1 > 0.05 > found[4].missed
        assert found[4].preferred > 0.25

    def test_the_search_is_to_blame_if_it_returns_a_text_that_the_model_likes_less(self, early):
        def worst(model, source, bos, eos, longest, width):
            return torch.tensor([[5, 5, 5, eos]])

        (row,) = translating.judged(worst, early, translating.sentences()[1][:10], [1]).values()
        assert row == (0, 1, 0)

    def test_the_tree_contains_the_final_texts_of_the_search(self, early):
        steps = translating.beam_steps(early, "the small girl eats", 2)
        assert all(sum(kept for *_, kept in step) == 2 for step in steps)
        best = translating.searched(early, "the small girl eats", 2)[0]
        ends = {tuple(ids): total for step in steps for ids, total, kept in step if kept}
        assert ends[tuple(best.ids)] == pytest.approx(best.log_probability)

    def test_log_probabilities_are_those_of_the_search(self, early):
        best = translating.searched(early, "I do not push a big boy", 2)[0]
        said = translating.french_text(best.ids)
        found = translating.log_probability(early, "I do not push a big boy", said)
        assert found == pytest.approx(best.log_probability)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_words_in_training_cure_what_follows_a_wrong_word(seed):
    unseen = three_sets(held_out=400)[1]
    plain, hardened = (translator(translating.STEPS, share, seed) for share in (0.0, 0.15))
    assert 0.4 < translating.after_a_word(plain, unseen, wrong=True) < 0.7
    assert translating.after_a_word(hardened, unseen, wrong=True) > 0.99
    for model in (plain, hardened):
        assert translating.exact(model, unseen) == 1
        assert translating.after_a_word(model, unseen, wrong=False) == 1
        assert translating.best_aligned_head(model, unseen[:30])[2] > 0.9


@pytest.mark.parametrize("seed", [0, 4])
def test_random_words_do_not_cure_a_model_that_was_trained_too_little(seed, early):
    unseen = three_sets(held_out=400)[1]
    plain = translator(75, seed=seed) if seed else early
    hardened = translator(75, 0.15, seed)
    assert translating.exact(hardened, unseen) < translating.exact(plain, unseen)
    after = [translating.after_a_word(model, unseen, wrong=True) for model in (plain, hardened)]
    assert after[0] < after[1]


def test_batches_use_each_sentence_before_repeating_any():
    pairs = three_sets(120, 10)[0]
    batches = translating.draw_batches(pairs[:64], 2, size=32)
    assert (
        len({english.decode(row[row != PAD_ID]) for source, *_ in batches for row in source}) == 64
    )


def test_encoding_the_source_once_gives_the_same_result(early):
    source, mask, _ = translating.as_batch(translating.sentences()[1][:5])
    reads_once = translating.ReadsOnce(early, source, mask)
    ours = greedy_translate(reads_once, source, 1, 2, 13)
    assert ours.equal(greedy_translate(early, source, 1, 2, 13, mask))


def test_a_readers_own_translator_is_searched_and_inspected_like_the_finished_one(early):
    """The exercise's answer has neither `encode` nor `decode`."""
    own = COURSE.find("Translator").reference(
        len(english.vocabulary), len(french.vocabulary), 64, 4, 256, 2, 14
    )
    own.load_state_dict(early.state_dict())
    pairs = translating.sentences()[1][:20]
    assert translating.exact(own, pairs) == translating.exact(early, pairs)
    ours, theirs = (translating.aligned(m, "the small girl eats") for m in (own, early))
    assert torch.equal(ours[0], theirs[0]) and ours[1:] == theirs[1:]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_small_translator_needs_no_warm_up(seed):
    training, unseen, _ = three_sets(held_out=400)
    batches = [
        *map(translating.with_inputs, translating.draw_batches(training, translating.STEPS, seed))
    ]
    model = translating.new_model(seed)
    train_translator(model, batches, PAD_ID, translating.RATE, warm_up=100)
    assert translating.exact(model, unseen) == 1  # without: see the test above


def test_words_that_mean_the_same_are_found():
    pair = next(p for p in translating.sentences()[1] if p.english == "the small girl eats")
    read = [english.vocabulary[id] for id in english.encode(pair.english)]
    written = [french.vocabulary[id] for id in french.encode(pair.french)]
    found = {(written[t], read[s]) for t, s in translating.gold(pair)}
    assert found == {("petite", "small"), ("fille", "girl"), ("mange", "eat")}


class TestLine:
    def test_it_translates_what_is_typed(self, early):
        line = translating_line(early, "the cow dances")
        assert line.translation()[0] == translating.translate(early, "the cow dances")
        line.text = "I do not sing."
        said = translating.translate(early, "I do not sing")
        assert line.translation()[1] == [*said.split(), "<eos>"]
        assert line._shown["says"] == said and "<th scope" in line._html()

    @pytest.mark.parametrize(
        ("text", "said"), [("the purple cow", "purple"), ("", "1 to 13"), ("the " * 14, "1 to 13")]
    )
    def test_unreadable_input_gets_a_message(self, early, text, said):
        line = translating_line(early, text)
        assert said in line._shown["says"] and said in repr(line) and said in line._html()
        assert line._shown["known"].startswith("It knows: the, a, I, do")

    def test_capitals_and_punctuation_are_left_out(self, early):
        line = translating_line(early, "The small, black cat sings!")
        said = translating.translate(early, "the small black cat sings")
        assert line._shown["says"] == said and line._read()[-1] == "-s"
