"""The finished parts of lessons 11 and 12 against PyTorch's operators and full enumeration."""

import math

import pytest
import torch
from torch import Tensor, nn

from course_utils.attention import CrossAttention
from course_utils.data import toy_french
from course_utils.data.toy_french import EOS_ID, PAD_ID, UNSEEN, draw_pairs, english, french
from course_utils.experiments import translating
from course_utils.transformer import DecoderBlock, EncoderBlock
from course_utils.translation import (
    Translator,
    alignment,
    beam_search,
    beam_translate,
    greedy_translate,
    pad,
    teacher_forcing,
    train_translator,
    translation_loss,
)
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh

B, T, S, C, H, WIDE = 3, 5, 7, 12, 4, 20


# Lesson 11 -------------------------------------------------------------------------------------


def fill_attention(twin: nn.MultiheadAttention, ours: nn.Module) -> None:
    with torch.no_grad():
        parts = [ours.query.weight, ours.key.weight, ours.value.weight]
        twin.in_proj_weight.copy_(torch.cat(parts))
        twin.out_proj.load_state_dict(ours.out_proj.state_dict())
        twin.in_proj_bias.zero_()


def behind() -> Tensor:
    return torch.arange(S) >= torch.tensor([S, 4, 1])[:, None]  # (B, S)


masks = pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])


def test_a_context_of_padding_alone_gives_the_bias_and_finite_gradients():
    attend = weigh(CrossAttention(C, H), torch.float64)
    x, context = numbers(B, T, C, dtype=torch.float64), numbers(B, S, C, dtype=torch.float64)
    out = attend(x, context, torch.ones(B, S, dtype=torch.bool))
    assert_equal(out, attend.out_proj.bias.expand(B, T, C))
    assert all(gradient.isfinite().all() for gradient in gradients(out, [x, context]))


def fill_block(twin: nn.Module, ours: EncoderBlock | DecoderBlock) -> None:
    names = ["norm1", "norm2", *(["norm3"] if isinstance(ours, DecoderBlock) else [])]
    with torch.no_grad():
        for name in names:
            theirs, mine = getattr(twin, name), getattr(ours, name)
            theirs.weight.copy_(mine.scale)
            theirs.bias.copy_(mine.shift)
        twin.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
        twin.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
    if isinstance(ours, DecoderBlock):
        fill_attention(twin.self_attn, ours.self_attention)
        fill_attention(twin.multihead_attn, ours.cross_attention)
    else:
        fill_attention(twin.self_attn, ours.attention)


@both_dtypes
@masks
def test_the_encoder_block_equals_the_built_in(padded, dtype):
    ours = weigh(EncoderBlock(C, H, WIDE), dtype)
    # In training mode with no dropout, or the built-in takes a way that has no gradients.
    twin = nn.TransformerEncoderLayer(C, H, WIDE, dropout=0.0, batch_first=True, dtype=dtype)
    fill_block(twin, ours)
    x, mask = numbers(B, S, C, dtype=dtype), behind() if padded else None
    got, expected = ours(x, mask), twin(x, src_key_padding_mask=mask)
    assert_equal(got, expected)
    assert_equal(gradients(got, [x])[0], gradients(expected, [x])[0])


@both_dtypes
@masks
def test_the_decoder_block_equals_the_built_in(padded, dtype):
    ours = weigh(DecoderBlock(C, H, WIDE, context_length=T + 4), dtype)
    twin = nn.TransformerDecoderLayer(C, H, WIDE, dropout=0.0, batch_first=True, dtype=dtype)
    fill_block(twin, ours)
    x, context = numbers(B, T, C, dtype=dtype), numbers(B, S, C, dtype=dtype, seed=2)
    pad_mask = torch.arange(T) >= torch.tensor([3, T, 1])[:, None] if padded else None
    context_pad_mask = behind() if padded else None
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    got = ours(x, context, pad_mask, context_pad_mask)
    expected = twin(
        x,
        context,
        tgt_mask=future,
        tgt_key_padding_mask=pad_mask,
        memory_key_padding_mask=context_pad_mask,
    )
    assert_equal(got, expected)
    for mine, theirs in zip(
        gradients(got, [x, context]), gradients(expected, [x, context]), strict=True
    ):
        assert_equal(mine, theirs)


# Lesson 12 -------------------------------------------------------------------------------------


class Table(nn.Module):
    """A translator whose logits depend on the source and the last words as a table says."""

    def __init__(self, V: int, seed: int) -> None:
        super().__init__()
        self.V, self.seed, self.modes = V, seed, list[bool]()

    def forward(self, source, decoder_input, source_pad_mask=None):
        self.modes.append(self.training)
        out = torch.empty(*decoder_input.shape, self.V)
        for b, row in enumerate(decoder_input.tolist()):
            for t in range(len(row)):
                key = hash((self.seed, *source[b].tolist(), *row[: t + 1]))
                generator = torch.Generator().manual_seed(key % 2**40)
                out[b, t] = 2 * torch.randn(self.V, generator=generator)
        return out


def log_probability(model: nn.Module, source: Tensor, bos: int, text: list[int]) -> float:
    logits = model(source, torch.tensor([[bos, *text[:-1]]])).double()
    return float(logits.log_softmax(-1)[0, range(len(text)), text].sum())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("width", [1, 2, 3, 5, 9])
def test_the_beam_of_any_width_equals_its_definition(width, seed):
    model, V, bos, eos, longest = Table(5, seed), 5, 0, 1, 4
    source = torch.tensor([[4, 2]])
    going_on, done = [[]], []
    for _ in range(longest):
        longer = [[*text, word] for text in going_on for word in range(V)]
        longer.sort(key=lambda text: -log_probability(model, source, bos, text))
        done += [text for text in longer[:width] if text[-1] == eos]
        going_on = [text for text in longer[:width] if text[-1] != eos]
        if not going_on:
            break
    expected = sorted(
        done + going_on, key=lambda text: -log_probability(model, source, bos, text) / len(text)
    )
    got = beam_search(model, source, bos, eos, longest, width)
    assert [text.ids for text in got] == expected
    for text in got:
        assert math.isclose(text.log_probability, log_probability(model, source, bos, text.ids))


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy(seed):
    model, source = Table(5, seed), torch.tensor([[4, 2]])
    greedy = greedy_translate(model, source, 0, 1, max_length=6)
    assert beam_translate(model, source, 0, 1, max_length=6, beam_width=1).equal(greedy)


def test_a_text_without_an_end_has_a_word_for_each_position_after_bos():
    model, eos = translating.new_model(), torch.tensor([EOS_ID])
    model.head.register_forward_hook(lambda head, x, out: out.index_fill(-1, eos, -torch.inf))
    (found,) = translating.searched(model, "the cow dances", beam_width=1)
    assert len(found.ids) == translating.LONGEST - 1


def test_greedy_stops_each_row_at_its_end():
    model = Table(4, seed=3)
    sources = torch.tensor([[2, 2], [2, 3], [3, 2], [3, 3], [0, 2]])
    alone = [greedy_translate(model, row[None], 0, 1, max_length=7)[0].tolist() for row in sources]
    longest = max(map(len, alone))
    assert len(set(map(len, alone))) > 1
    together = greedy_translate(model, sources, 0, 1, max_length=7)
    assert together.tolist() == [row + [1] * (longest - len(row)) for row in alone]


@pytest.mark.parametrize("training", [True, False])
def test_decoding_is_in_evaluation_mode_and_puts_the_mode_back(training):
    model = Table(4, seed=1).train(training)
    greedy_translate(model, torch.tensor([[2]]), 0, 1, max_length=3)
    beam_translate(model, torch.tensor([[2]]), 0, 1, max_length=3, beam_width=2)
    assert not any(model.modes) and model.training == training


def test_shorter_texts_are_padded_behind_with_the_given_id():
    ids, mask = pad([torch.tensor([4, 5]), torch.tensor([6])], pad_id=7)
    assert ids.tolist() == [[4, 5], [6, 7]]
    assert mask.tolist() == [[False, False], [False, True]]


def small_translator(dtype: torch.dtype = torch.float64) -> Translator:
    torch.manual_seed(0)
    return Translator(11, 9, 8, 2, 16, num_layers=2, context_length=6).to(dtype).eval()


def test_a_text_in_a_batch_is_translated_as_alone():
    model = small_translator()
    texts = [torch.tensor([4, 5, 6, 7]), torch.tensor([8, 9])]
    source, mask = pad(texts, pad_id=0)
    decoder_input = torch.tensor([[1, 3, 4], [1, 5, 6]])
    together = model(source, decoder_input, mask)
    for row, text in enumerate(texts):
        assert_equal(together[row], model(text[None], decoder_input[row : row + 1])[0])


def test_alignment_weighs_the_words_of_the_source():
    model = small_translator()
    source, mask = pad([torch.tensor([4, 5, 6, 7]), torch.tensor([8, 9])], pad_id=0)
    weights = alignment(model, source, torch.tensor([[1, 3, 4], [1, 5, 6]]), mask)
    assert weights.shape == (2, 2, 2, 3, 4)
    assert_equal(weights.sum(-1), torch.ones(2, 2, 2, 3, dtype=torch.float64))
    assert (weights[1, ..., 2:] == 0).all()


def test_the_loss_leaves_padding_out():
    logits = numbers(2, 3, 9, dtype=torch.float64)
    targets = torch.tensor([[4, 2, 0], [5, 6, 2]])
    log_probabilities = logits.log_softmax(-1)
    kept = [(0, 0, 4), (0, 1, 2), (1, 0, 5), (1, 1, 6), (1, 2, 2)]
    expected = -sum(log_probabilities[place] for place in kept) / len(kept)
    assert_equal(translation_loss(logits, targets, pad_id=0), expected)


def test_each_step_has_its_learning_rate_and_a_clipped_gradient():
    """Against the steps written out: the rate rises over three steps, then falls to the end."""
    model, twin = small_translator(torch.float32), small_translator(torch.float32)
    for one in (model, twin):
        one.head.load_state_dict({"weight": 4 * one.head.weight})  # some gradients are large
    generator = torch.Generator().manual_seed(3)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    texts = torch.randint(3, 9, (7, 2, 4), generator=generator)
    batches = [(text, nothing, teacher_forcing(text, 1), text) for text in texts]
    train_translator(model, batches, 0, 0.05, warm_up=3)

    optimizer = torch.optim.AdamW(twin.parameters())
    norms = []
    for text, rate in zip(texts, [1 / 3, 2 / 3, 1, 1, 3 / 4, 2 / 4, 1 / 4], strict=True):
        optimizer.param_groups[0]["lr"] = 0.05 * rate
        optimizer.zero_grad()
        logits = twin.train()(text, teacher_forcing(text, 1), nothing)
        translation_loss(logits, text, 0).backward()
        given = [p.grad for p in twin.parameters() if p.grad is not None]
        norms.append(float(torch.cat([g.flatten() for g in given]).norm()))
        for gradient in given:
            gradient *= min(1.0, 1 / norms[-1])
        optimizer.step()
    assert min(norms) < max(norms) and max(norms) > 2
    for ours, by_hand in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, by_hand, atol=1e-4, rtol=1e-3)


def test_dropout_is_on_both_embeddings_in_training_only():
    model = Translator(11, 9, 64, 2, 16, num_layers=1, context_length=6, dropout=0.5)
    entering = {}
    for name in ("encoder", "decoder"):
        block = getattr(model, name)[0]
        block.register_forward_pre_hook(
            lambda _, given, name=name: entering.update({name: given[0]})
        )
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[1, 3]])
    embedded = {"encoder": model.embed_source(source), "decoder": model.embed_target(target)}
    model(source, target)
    for name, whole in embedded.items():
        kept = entering[name] != 0
        assert 0.2 < kept.float().mean() < 0.8, name
        torch.testing.assert_close(entering[name][kept], 2 * whole[kept])
    model.eval()(source, target)
    assert all(entering[name].equal(whole) for name, whole in embedded.items())


# The toy French --------------------------------------------------------------------------------


def test_french_is_said_as_french_is():
    pairs = {pair.english: pair.french for pair in draw_pairs(40_000, seed=0)}
    assert pairs["I do not dance"] == "je ne danse pas"
    assert pairs["the small black mouse sings"] == "la petite souris noire chante"
    assert all(len(french.encode(text)) <= 11 for text in pairs.values())


def test_every_sentence_is_made_of_known_words():
    for pair in draw_pairs(500, seed=1) + draw_pairs(500, seed=2, unseen=True):
        assert english.decode(english.encode(pair.english)) == pair.english
        assert french.decode(french.encode(pair.french)) == pair.french


def test_the_three_sets_share_no_sentence_and_no_unseen_combination():
    training, sentences, combinations = toy_french.three_sets(3_000, 300)
    assert len({*training, *sentences, *combinations}) == 3_600
    seen = frozenset[tuple[str, str]]().union(*(pair.combinations for pair in training))
    assert seen.isdisjoint(UNSEEN)
    assert all(pair.combinations <= seen for pair in sentences)
    assert all(pair.combinations & UNSEEN for pair in combinations)
    # Each word of an unseen combination occurs in training, but not in that combination.
    words = {word for pair in training for word in pair.english.split()}
    assert {word for pair in combinations for word in pair.english.split()} <= words


# Bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: CrossAttention(10, 4), r"10.*4"),
        (
            lambda: CrossAttention(C, H)(
                torch.ones(B, T, C), torch.ones(B, S, C), torch.zeros(B, T, dtype=torch.bool)
            ),
            r"context_pad_mask is \(3, 5\).*\(3, 7\)",
        ),
        (lambda: english.encode("the purple cat"), "purple"),
        (lambda: pad([english.encode("")], PAD_ID), "at least one token"),
        (lambda: pad([], PAD_ID), "at least one token"),
        (lambda: small_translator()(torch.ones(1, 7).long(), torch.ones(1, 2).long()), "7.*6"),
        (lambda: small_translator()(torch.ones(1, 2), torch.ones(1, 2).long()), "float32"),
        (lambda: small_translator()(torch.full((1, 2), 11), torch.ones(1, 2).long()), "10.*11"),
        (lambda: greedy_translate(Table(3, 0), torch.ones(1, 2).long(), 0, 1, 0), "max_length.*0"),
        (lambda: beam_translate(Table(3, 0), torch.ones(1, 2).long(), 0, 1, 0, 2), "max_length.*0"),
        (lambda: beam_translate(Table(3, 0), torch.ones(1, 2).long(), 0, 1, 3, 0), "beam_width.*0"),
        (lambda: beam_translate(Table(3, 0), torch.ones(2, 2).long(), 0, 1, 3, 2), r"\(2, 2\)"),
    ],
)
def test_bad_input_is_refused_in_words(call, said):
    with pytest.raises(ValueError, match=said):
        call()
