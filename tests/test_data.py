"""The toy English, whose entropy is exact, and texts as ids."""

import itertools
import math
import pydoc

import pytest
import torch
from torch import Tensor

from course_utils.data import (
    END,
    NOUNS,
    VERBS,
    VERBS_WITH_OBJECT,
    CharacterTokenizer,
    Grammar,
    WordTokenizer,
    agreement_prefixes,
    read_text,
    toy_english,
    train_and_held_out,
)

COIN = Grammar({"only": [(0.5, ["heads"], "only"), (0.5, ["tails"], "only")]})
# Blocks of ones have even length; from within a block, the number so far is never known for sure.
EVEN = Grammar(
    {
        "outside": [(0.5, ["0"], "outside"), (0.5, ["1"], "inside")],
        "inside": [(1, ["1"], "outside")],
    }
)
# Two words reveal nothing about the state, unlike the third; choices are not equally likely.
UNEVEN = Grammar(
    {
        "one": [(0.2, ["a"], "two"), (0.8, ["b", "c"], "one")],
        "two": [(0.9, ["a"], "one"), (0.1, ["c"], "two")],
    }
)


# A language with few states --------------------------------------------------------------------


def probability_of(grammar: Grammar, text: tuple[int, ...]) -> float:
    """Summed over all paths through the states, one by one."""
    total = 0.0
    for state, often in enumerate(grammar.often.tolist()):
        for word in text:
            often *= grammar.probability[state, word].item()
            state = int(grammar.after[state, word])
        total += often
    return total


@pytest.mark.parametrize("grammar", [COIN, EVEN, UNEVEN], ids=["coin", "even", "uneven"])
class TestExactNumbers:
    def entropy(self, grammar: Grammar, T: int) -> float:
        """Over all texts of T words, by enumeration."""
        texts = itertools.product(range(len(grammar.words)), repeat=T)
        chances = [probability_of(grammar, text) for text in texts]
        assert sum(chances) == pytest.approx(1)
        return -sum(p * math.log(p) for p in chances if p > 0)

    def test_the_lowest_loss_is_that_of_all_enumerated_texts(self, grammar):
        for T in (2, 3, 6):
            expected = (self.entropy(grammar, T) - self.entropy(grammar, 1)) / (T - 1)
            assert grammar.least_loss(T) == pytest.approx(expected, abs=1e-10)

    def test_one_word_and_two_words_give_unigram_and_bigram(self, grammar):
        assert grammar.unigram_loss() == pytest.approx(self.entropy(grammar, 1))
        expected = self.entropy(grammar, 2) - self.entropy(grammar, 1)
        assert grammar.bigram_loss() == pytest.approx(expected)

    def test_next_word_probabilities_match_enumerated_texts(self, grammar):
        texts = itertools.product(range(len(grammar.words)), repeat=4)
        ids = torch.tensor([text for text in texts if probability_of(grammar, text) > 0])
        said = grammar.next_word(ids)
        for row, text in zip(said, ids.tolist(), strict=True):
            for t in range(4):
                before = tuple(text[: t + 1])
                for word in range(len(grammar.words)):
                    joint = probability_of(grammar, (*before, word))
                    expected = joint / probability_of(grammar, before)
                    assert row[t, word].item() == pytest.approx(expected, abs=1e-12)


def entropy_rate(grammar: Grammar) -> float:
    """The loss of the best possible model late in a text, where it knows the state."""
    return float(grammar.often @ torch.special.entr(grammar.probability).sum(dim=-1))


@pytest.mark.parametrize("grammar", [COIN, EVEN, toy_english], ids=["coin", "even", "english"])
def test_far_into_a_text_the_lowest_loss_is_the_entropy_rate(grammar):
    last_word = grammar.least_loss(61) * 60 - grammar.least_loss(60) * 59
    assert last_word == pytest.approx(entropy_rate(grammar), abs=1e-6)


def test_a_lowest_loss_that_takes_too_long_to_compute_is_refused():
    with pytest.raises(ValueError, match="more than 5000 different beliefs .* windows of 33"):
        UNEVEN.least_loss(33)


def test_known_entropies():
    assert COIN.least_loss(9) == pytest.approx(math.log(2))
    assert entropy_rate(COIN) == pytest.approx(math.log(2))
    assert EVEN.often.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert entropy_rate(EVEN) == pytest.approx(2 / 3 * math.log(2))
    assert EVEN.least_loss(9) > entropy_rate(EVEN)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"s": [(0.5, ["a"], "s"), (0.4, ["b"], "s")]}, "'s' sum to 0.9"),
        ({"s": [(0.5, ["a"], "s"), (0.5, ["b", "a"], "s")]}, "'s' has 'a' in two of its choices"),
        ({"s": [(1.0, ["a"], "t")]}, "'t', the next state after 's', has no rules"),
    ],
)
def test_invalid_rules_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        Grammar(rules)


# The toy English -------------------------------------------------------------------------------


def test_the_toy_english_is_small_and_its_levels_are_in_order():
    assert len(toy_english.words) == len(set(toy_english.words)) == 27
    assert len(toy_english.states) == 23
    uniform, unigram, bigram, floor = toy_english.levels(33).values()
    assert uniform == math.log(27)
    assert uniform > unigram + 0.3 > bigram + 0.3 > floor + 0.6
    assert floor > entropy_rate(toy_english)


def test_the_best_model_reaches_the_floor_on_drawn_windows_and_frequencies_are_as_said():
    ids = toy_english.draw(3_000, 33, seed=5)
    said = toy_english.next_word(ids)
    losses = -said[:, :-1].gather(2, ids[:, 1:, None]).log()
    assert losses.mean().item() == pytest.approx(toy_english.least_loss(33), rel=0.005)
    counted = torch.bincount(ids.flatten(), minlength=27) / ids.numel()
    expected = (toy_english.often @ toy_english.probability).float()
    torch.testing.assert_close(counted, expected, rtol=0, atol=0.005)


def test_a_text_repeats_with_its_seed_and_may_begin_with_a_sentence():
    assert torch.equal(toy_english.draw(3, 9, seed=1), toy_english.draw(3, 9, seed=1))
    assert not torch.equal(toy_english.draw(3, 9, seed=1), toy_english.draw(3, 9, seed=2))
    begins = toy_english.draw(50, 2, seed=0, start="sentence")
    assert {toy_english.words[id] for id in begins[:, 0]} == {"the"}


def subject_and_verb(words: list[str]) -> tuple[str, str]:
    """For one sentence, by its first noun and the verb that belongs to it."""
    nouns = {noun for of_number in NOUNS.values() for noun in of_number}
    verbs = [
        word for of in (VERBS, VERBS_WITH_OBJECT) for of_number in of.values() for word in of_number
    ]
    said = [word for word in words if word in verbs]
    return next(word for word in words if word in nouns), said["that" in words]


def test_verbs_agree_with_their_subject_whatever_comes_between():
    texts = WordTokenizer(toy_english.words)
    drawn = [texts.decode(row) for row in toy_english.draw(50, 60, 0, start="sentence")]
    sentences = [sentence for text in drawn for sentence in text.split(END)[:-1]]
    far = 0
    for sentence in sentences:
        words = sentence.split()
        noun, verb = subject_and_verb(words)
        number = "one" if noun in NOUNS["one"] else "many"
        assert verb in VERBS[number] + VERBS_WITH_OBJECT[number], sentence
        far += words.index(verb) - words.index(noun) > 1
    assert far > 100


def test_a_text_outside_the_toy_english_is_named():
    ids = torch.tensor([[toy_english.words.index(word) for word in ["the", "sleeps"]]])
    with pytest.raises(ValueError, match="doesn't generate 'the sleeps'"):
        toy_english.next_word(ids)
    with pytest.raises(ValueError, match="windows of 1"):
        toy_english.least_loss(1)


def test_prefixes_with_a_misleading_noun_have_one_right_number():
    ids, verbs, subject, nearer = agreement_prefixes()
    assert ids.shape == (64, 6) and verbs.shape == (64, 2, 27)
    assert len(ids.unique(dim=0)) == 64
    said = toy_english.next_word(ids)[:, -1]
    of_number, of_other = (said[:, None] * verbs).sum(-1).unbind(-1)
    torch.testing.assert_close(of_number, torch.ones(64, dtype=torch.float64))
    assert (of_other == 0).all()
    for row in ids:
        one, other = (toy_english.words[row[place]] for place in (subject, nearer))
        assert (one in NOUNS["one"]) != (other in NOUNS["one"])


# From text to ids and back ---------------------------------------------------------------------


def test_characters_are_decoded_unchanged():
    text = "Ein Bär, «naïve»\n\tzwei  Bären 🐻"
    characters = CharacterTokenizer(text)
    ids = characters.encode(text)
    assert ids.dtype == torch.int64 and len(ids) == len(text)
    assert characters.decode(ids) == text
    assert characters.vocabulary == sorted(set(text))
    assert characters.encode("").shape == (0,)


def test_words_may_begin_with_capitals_and_touch_the_full_stop():
    words = WordTokenizer(toy_english.words)
    ids = words.encode("The dogs sleep. The cat\nruns .")
    assert words.decode(ids) == "the dogs sleep. the cat runs."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CharacterTokenizer(""), "the text is empty"),
        (lambda: CharacterTokenizer("abc").encode("axay"), "never seen: 'x' 'y';.*3 pieces"),
        (lambda: WordTokenizer(["the", "cat"]).encode("the dog"), "never seen: 'dog'"),
        (lambda: CharacterTokenizer("abc").decode(torch.tensor([1, 3])), "0 and 2, got 3"),
        (lambda: CharacterTokenizer("abc").decode(torch.tensor([-1])), "0 and 2, got -1"),
    ],
)
def test_what_is_not_in_the_vocabulary_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_text_comes_with_python():
    text = read_text()
    assert len(text) > 300_000
    assert len(set(text)) < 150
    assert pydoc.Helper.topics["ASSERTION"] == "assert", "where this Python keeps its topics"
    assert "assert_stmt" in text


def test_your_own_file_is_read_unchanged(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Äpfel\nund Birnen\n", encoding="utf-8")
    assert read_text(file) == read_text(str(file)) == "Äpfel\nund Birnen\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b" \n", "is empty"), ("Bär".encode("latin-1"), "UTF-8: byte 1 is 0xe4")],
)
def test_a_file_without_text_is_refused(tmp_path, content, message):
    file = tmp_path / "mine.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"mine.txt .*{message}"):
        read_text(file)
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "other.txt")


def test_the_end_of_a_text_is_held_out():
    seen, held_out = train_and_held_out(torch.arange(50), share=0.2)
    assert torch.equal(torch.cat([seen, held_out]), torch.arange(50))
    assert len(held_out) == 10


@pytest.mark.parametrize(
    ("ids", "share", "message"),
    [
        (torch.arange(9), 0.0, "between 0 and 1, got 0.0"),
        (torch.arange(9), 1.0, "between 0 and 1, got 1.0"),
        (torch.arange(2), 0.1, "2 ids can't be cut"),
        (torch.arange(0), 0.5, "0 ids can't be cut"),
    ],
)
def test_a_text_that_is_too_short_to_split_is_refused(ids: Tensor, share: float, message: str):
    with pytest.raises(ValueError, match=message):
        train_and_held_out(ids, share)
