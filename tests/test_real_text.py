"""Lesson 17: the tokenizer against the library `tokenizers`, the measures, and the stored model."""

import math
import random
from collections import Counter
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from course_utils.data import real_text
from course_utils.desk.checks import check
from course_utils.experiments import real_text as measured
from course_utils.language_model import without_head
from course_utils.todays_models import ModernLM, sample_cached
from whywrong.hosting import catalogue

SIGNS = [chr(0x4E00 + byte) for byte in range(256)]  # a sign for each byte, in the bytes' order


def signs(data: bytes) -> str:
    return "".join(SIGNS[byte] for byte in data)


@pytest.fixture(scope="module")
def library():
    return real_text.library_files()


@pytest.fixture(scope="module")
def merges(library):
    training, _ = real_text.training_and_held_out(library)
    return real_text.train_bpe(real_text.pieces(training[:300_000]), 400)


@pytest.fixture(scope="module")
def theirs(merges):
    """The same merges in the library `tokenizers`, on one sign per byte."""
    tokens = [signs(token) for token in real_text.vocabulary(merges)]
    pairs = [(tokens[left], tokens[right]) for left, right in merges]
    return Tokenizer(BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=pairs))


def test_merges_are_those_of_the_library_tokenizers(library, merges):
    training, _ = real_text.training_and_held_out(library)
    pieces = real_text.pieces(training[:300_000])
    tokenizer = Tokenizer(BPE())
    trainer = BpeTrainer(vocab_size=256 + 400, initial_alphabet=SIGNS, show_progress=False)
    tokenizer.pre_tokenizer = None
    from tokenizers.pre_tokenizers import Split

    tokenizer.pre_tokenizer = Split(" ", "removed")
    tokenizer.train_from_iterator([" ".join(map(signs, pieces))], trainer)
    expected = [signs(token) for token in real_text.vocabulary(merges)]
    found = tokenizer.get_vocab()
    assert sorted(found, key=found.__getitem__) == expected


def test_pieces_are_gpt2_s_but_for_underscores_and_contractions(library):
    text = (
        library["textwrap.py"] + "\n\tZwölf Ελληνικά 東京 ½ → 12,5 €  \n\n\n   x".encode()
    ).decode()
    text = text.replace("_", "").replace("'", "")
    theirs = ByteLevel(add_prefix_space=False, use_regex=True).pre_tokenize_str(text)
    expected = [text[begin:end].encode() for _, (begin, end) in theirs]
    assert real_text.pieces(text.encode()) == expected


def test_the_byte_between_files_is_in_no_file_and_always_a_piece_of_its_own(library):
    assert not any(real_text.END in text for text in library.values())
    training, _ = real_text.training_and_held_out(library)
    around = b'x"""' + real_text.END + b'"""y\n' + real_text.END + b"\n"
    for text in (around, training[:200_000]):
        pieces = real_text.pieces(text)
        assert pieces.count(real_text.END) == text.count(real_text.END) > 0


def test_encode_is_the_library_tokenizers_on_a_megabyte(library, merges, theirs):
    training, _ = real_text.training_and_held_out(library)
    for piece in set(real_text.pieces(training[-1_000_000:])):
        assert real_text.encode(piece, merges) == theirs.encode(signs(piece)).ids


def test_a_thousand_random_byte_strings_come_back(merges, theirs):
    chance = random.Random(0)
    for _ in range(1_000):
        data = chance.randbytes(chance.randint(0, 40))
        ids = real_text.encode(data, merges)
        assert real_text.decode(ids, merges) == data
        assert ids == theirs.encode(signs(data)).ids
        text = real_text.encode_text(data, merges).tolist()
        assert real_text.decode(text, merges) == data


def test_no_file_is_in_both_parts_and_the_same_files_are_held_out_everywhere(library):
    training, held_out = real_text.training_and_held_out(library)
    assert 0.02 < len(held_out) / len(training) < 0.12
    assert real_text.is_held_out("copy.py") and not real_text.is_held_out("heapq.py")
    assert library["copy.py"] in held_out and library["copy.py"] not in training


def test_bits_per_byte_of_bytes_is_the_loss_in_bits():
    logits, targets = torch.randn(2, 5, 7), torch.randint(7, (2, 5))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    ones = torch.ones(7, dtype=torch.int64)
    assert real_text.bits_per_byte(logits, targets, ones) == pytest.approx(loss / math.log(2))
    assert real_text.bits_per_byte(logits, targets, 2 * ones) == pytest.approx(
        loss / math.log(2) / 2
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_an_n_gram_model_gives_probabilities_that_sum_to_1(order):
    ids = torch.randint(5, (300,), generator=torch.Generator().manual_seed(order))
    model = measured.NGram(ids, 5, order)
    every = torch.arange(5)[:, None]
    for context in torch.cartesian_prod(*[torch.arange(5)] * 2)[:, : order - 1]:
        rows = torch.cat([context.expand(5, -1), every], dim=1)
        assert model.probability(rows).sum().item() == pytest.approx(1)


def test_the_stored_model_is_small_and_better_than_counting_and_xz(library):
    assert measured.STORED.stat().st_size < 3_000_000
    model, merges = measured.stored_model()
    training, held_out = real_text.training_and_held_out(library)
    text = held_out[:60_000]
    lengths = measured.token_lengths(merges)
    ids, read = (
        real_text.encode_text(part, merges, pieces=measured.stored_pieces)
        for part in (text, training[:2_000_000])
    )
    bits = measured.held_out_bits(model, ids, lengths)
    assert bits < 1.75
    assert bits < measured.NGram(read, 1_024).bits_per_byte(ids, lengths)
    assert bits < measured.compressed_bits(text)["xz"]


def test_a_head_is_removed_and_comes_back():
    torch.manual_seed(0)
    model = ModernLM(260, 16, 4, 2, 32, 2, 24)
    ids = torch.randint(260, (2, 20))
    before = model(ids)
    with without_head(model, 1, 3):
        assert not torch.allclose(model(ids), before)
    assert torch.equal(model(ids), before)


def test_brackets_are_paired_with_the_token_that_opened_them():
    tokens = [b"f", b"(", b"x", b",", b")", b"[1]", b")("]
    assert measured.bracket_pairs([0, 1, 2, 3, 2, 4], tokens) == [(4, 1)]
    assert measured.bracket_pairs([1, 2, 2, 2, 6, 2, 2, 2, 4], tokens) == [(3, 0), (7, 4)]


def test_the_longest_copy_is_found():
    assert measured.longest_copy(b"the cat sat", b"a cat saw") == b" cat sa"


def test_functions_end_before_the_next_line_that_is_not_indented():
    text = b"\n\ndef f(x):\n    return x\n\ny = 1\n"
    assert measured.functions(lambda prompt, generator: text, 1) == ["def f(x):\n    return x"]
    assert measured.accepted(["def f(x):\n    return x", "def f(x:"]) == (0.5, 2 / 3)


def test_sampling_with_caches_goes_on_beyond_the_context():
    torch.manual_seed(0)
    model = ModernLM(50, 16, 4, 2, 12, 2, 24)
    ids = torch.randint(50, (2, 5))
    longer = sample_cached(model, ids, 30, generator=torch.Generator().manual_seed(0))
    assert longer.shape == (2, 35) and torch.equal(longer[:, :5], ids)


def test_functions_of_people_are_cut_where_a_model_s_end(merges):
    function = "\n\ndef f(x):\n" + "    return x + 1\n" * 30
    text = (function * 3).encode()
    (long,) = measured.written_by_people(text, 1, merges, tokens=1_000)
    assert long == function.strip("\n") and measured.is_python(long)
    (cut,) = measured.written_by_people(text, 1, merges, tokens=20)
    assert long.startswith(cut) and 5 < len(cut) < 200


def test_a_reader_s_model_is_measured_in_the_finished_class():
    torch.manual_seed(0)
    own = catalogue().find("ModernLM").reference(vocab_size=1_024, **measured.SIZES)
    ids = torch.randint(1_024, (2, 30))
    torch.testing.assert_close(measured.twin(own)(ids), own(ids), atol=1e-4, rtol=0)


def test_a_slow_encode_is_replaced_by_the_finished_one_with_the_same_ids(merges, capsys):
    calls = []

    def encode(piece, merges):
        calls.append(piece)
        return real_text.encode(piece, merges)

    text = b"def area(r):\n    return 3.14 * r ** 2"
    expected = real_text.encode_text(text, merges)
    assert real_text.encode_text(text, merges, measured.in_seconds(60, encode)).equal(expected)
    assert len(calls) == len(set(real_text.pieces(text))) and not capsys.readouterr().out
    assert real_text.encode_text(text, merges, measured.in_seconds(0, encode)).equal(expected)
    assert len(calls) == len(set(real_text.pieces(text))) + 1
    assert "the finished one goes on here, after 0 seconds of yours" in capsys.readouterr().out


def test_bracket_scores_of_many_texts_count_each_pair_once():
    torch.manual_seed(0)
    tokens = [b"x", b"(", b")", b"y"]
    model = ModernLM(4, 16, 4, 2, 12, 2, 24)
    ids = torch.tensor([[1, 0, 0, 3, 2, 1, 3, 0, 2], [1, 0, 3, 0, 2, 0, 0, 0, 0], [0] * 9])
    weights = measured.attention_weights(model, ids)  # (B, L, H, T, T)
    pairs = [(0, 3, 0), (0, 7, 5), (1, 3, 0)]
    expected = sum(weights[b, :, :, query, key] for b, query, key in pairs) / 3
    scores, even = measured.bracket_heads(model, ids, tokens)
    torch.testing.assert_close(scores, expected)
    assert even == pytest.approx((1 / 4 + 1 / 8 + 1 / 4) / 3)


def test_a_card_gives_the_length_of_a_list_and_not_all_of_a_long_one():
    said = str(check("encode", lambda piece, merges: [*real_text.encode(piece, merges), 0]))
    assert "The result has length 4, expected 3." in said and "shape (" not in said
    said = str(check("train_bpe", lambda pieces, num_merges: real_text.train_bpe(pieces[:4], 1)))
    assert "The result has length 1, expected 2." in said
    short = str(check("train_bpe", lambda pieces, num_merges: {(len(pieces), 1): 256}))
    assert all(len(line) < 250 for line in (said + short).splitlines())


def test_a_set_of_pieces_is_named_whichever_of_equal_pairs_it_takes():
    for seed in range(3):

        def train_bpe(pieces, num_merges, seed=seed):
            distinct = sorted(set(pieces))
            random.Random(seed).shuffle(distinct)
            return learned_slowly(distinct, num_merges)

        assert "counted only once" in str(check("train_bpe", train_bpe))


def learned_slowly(pieces, num_merges):
    """The merges, where the pair that comes first in the pieces wins among equal ones."""
    words, merges = [list(piece) for piece in pieces], {}
    while len(merges) < num_merges:
        counts = Counter(pair for ids in words for pair in pairwise(ids))
        if not counts:
            break
        best = max(counts, key=counts.__getitem__)
        merges[best] = 256 + len(merges)
        words = [real_text.merged(ids, best, merges[best]) for ids in words]
    return merges
