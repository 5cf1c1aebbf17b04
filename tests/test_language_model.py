"""The small GPT and its cache against a GPT-2 of `transformers`, PyTorch and plain loops."""

import copy
import math

import nbformat
import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient
from torch import Tensor, nn

from course_utils.attention import causal_mask
from course_utils.data import toy_english
from course_utils.language_model import (
    TinyLM,
    generate,
    generate_cached,
    head_scores,
    held_out_loss,
    next_token_loss,
    next_token_probabilities,
    sample,
    sliding_windows,
    train_lm,
    training_step,
)
from course_utils.show import live
from tests.gpt2 import gpt2_twin, in_our_names
from tests.parity import assert_equal, both_dtypes, gradients, numbers, weigh

V, C, H, LENGTH, LAYERS = 11, 12, 3, 8, 2


def tiny(dtype: torch.dtype = torch.float32, dropout: float = 0.0) -> TinyLM:
    model = TinyLM(V, C, H, LENGTH, LAYERS, dropout)
    weigh(model, dtype)
    with torch.no_grad():
        for table in (model.embed.token, model.embed.position):
            table.weight *= 5  # otherwise one token would always be the most likely
    return model


def some_ids(B: int, T: int, seed: int = 0) -> Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(seed))


# Windows, model and loss -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "length", "stride", "message"),
    [
        (torch.zeros(2, 9), 3, 1, r"\(N,\), got \(2, 9\)"),
        (torch.zeros(9), 0, 1, "at least 1, got 0 and 1"),
        (torch.zeros(9), 3, -2, "at least 1, got 3 and -2"),
        (torch.zeros(3), 3, 1, "3 ids are too few.* are 4"),
    ],
)
def test_impossible_windows_are_refused(ids, length, stride, message):
    with pytest.raises(ValueError, match=message):
        sliding_windows(ids, length, stride)


@both_dtypes
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_tiny_lm_equals_gpt2_with_the_same_weights(attention, dtype):
    model = tiny(dtype)
    twin = gpt2_twin(model, attn_implementation=attention)
    ids = some_ids(5, 7)
    actual, expected = model(ids), twin(ids).logits
    assert actual.dtype == dtype
    assert_equal(actual, expected)

    ours = dict(model.named_parameters())
    got = gradients(actual, [*ours.values()])
    (expected * numbers(*expected.shape, dtype=dtype, seed=99).detach()).sum().backward()
    want = in_our_names(twin, of=lambda parameter: parameter.grad)
    assert want.keys() == ours.keys()
    for name, gradient in zip(ours, got, strict=True):
        assert_equal(gradient, want[name])


def test_the_loss_equals_that_of_gpt2():
    model = tiny()  # GPT-2 computes its loss in float32, whatever the dtype of its weights
    ids = some_ids(5, 7)
    assert_equal(next_token_loss(model(ids), ids), gpt2_twin(model)(ids, labels=ids).loss)


@both_dtypes
@pytest.mark.parametrize("pad_id", [None, 3, -1, -100, V])
def test_the_loss_is_the_mean_over_all_next_tokens_but_padding(pad_id, dtype):
    logits, ids = numbers(4, 6, V, dtype=dtype), some_ids(4, 6)
    if pad_id is not None:
        ids[0, 1:] = pad_id
        ids[2, 4:] = pad_id
    expected = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=-7 if pad_id is None else pad_id
    )
    loss = next_token_loss(logits, ids, pad_id)
    assert loss.shape == () and loss.dtype == dtype
    assert_equal(loss, expected)
    assert_equal(gradients(loss, [logits])[0], gradients(expected, [logits])[0])
    assert_equal(next_token_loss(logits[:, :-1], ids, pad_id), expected)
    assert_equal(next_token_loss(logits, ids.int(), pad_id), expected)


@pytest.mark.parametrize(
    ("logits", "ids", "pad_id", "message"),
    [
        (torch.zeros(2, 1, V), some_ids(2, 1), None, r"\(2, 1\) have no token to predict"),
        (torch.zeros(2, 3, V), torch.tensor([[5, 0, 0], [2, 0, 0]]), 0, "only padding"),
        (torch.zeros(2, 4, V), some_ids(2, 3), None, r"\(2, 4, 11\).*\(2, 3\).*= \(2, 3, V\)"),
        (torch.zeros(6, V), some_ids(2, 3), None, r"\(6, 11\) don't match ids \(2, 3\)"),
        (torch.zeros(2, 3, V), torch.full((2, 3), V), None, f"between 0 and {V - 1}"),
        (torch.zeros(2, 3, V), torch.full((2, 3), -100), None, "got -100"),
        (torch.zeros(2, 3, V), torch.zeros(2, 3), None, "int64 or int32, got torch.float32"),
        (torch.zeros(0, 3, V), some_ids(0, 3), None, r"at least 1, got \(0, 3\)"),
    ],
)
def test_a_meaningless_loss_is_refused(logits, ids, pad_id, message):
    with pytest.raises(ValueError, match=message):
        next_token_loss(logits, ids, pad_id)


# Training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_norm", [0.01, 1.0, 1e6])
def test_a_training_step_is_one_step_on_clipped_gradients(max_norm):
    model, ids = tiny(torch.float64), some_ids(5, 7)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        before = next_token_loss(model(ids), ids).item()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)  # from an earlier step

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = training_step(model, ids, optimizer, max_norm)
    assert type(loss) is float
    assert loss == pytest.approx(before)
    assert model.training

    wanted = torch.autograd.grad(next_token_loss(twin(ids), ids), [*twin.parameters()])
    norm = torch.stack([gradient.norm() for gradient in wanted]).norm()
    cut = min(1.0, max_norm / norm.item())
    for new, old, gradient in zip(model.parameters(), twin.parameters(), wanted, strict=True):
        torch.testing.assert_close(new, old - 0.1 * cut * gradient, rtol=0, atol=1e-6)


def test_a_step_trains_every_position_of_the_context():
    model = tiny()
    training_step(model, some_ids(5, LENGTH + 1), torch.optim.SGD(model.parameters(), lr=0.1))
    assert model.embed.position.weight.grad.abs().amax(dim=1).min() > 0


def test_a_short_training_beats_the_bigram():
    torch.manual_seed(0)
    model = TinyLM(len(toy_english.words), 32, 2, 16, num_layers=2)
    batches = toy_english.draw(100 * 32, 17, seed=0).view(100, 32, 17)
    losses = train_lm(model, batches, learning_rate=1e-2)
    assert len(losses) == 100
    assert abs(losses[0] - toy_english.uniform_loss()) < 0.5
    held_out = held_out_loss(model, toy_english.draw(500, 17, seed=1))
    assert toy_english.least_loss(17) < held_out < 0.95 * toy_english.bigram_loss()


def test_the_held_out_loss_does_not_depend_on_the_batches_or_change_the_mode():
    model, ids = tiny(torch.float64, dropout=0.5).train(), some_ids(7, 6)
    losses = [held_out_loss(model, ids, batch_size) for batch_size in (2, 3, 7, 100)]
    expected = next_token_loss(model.eval()(ids), ids).item()
    assert losses == pytest.approx([expected] * 4, rel=1e-12)
    held_out_loss(model, ids)
    assert not model.training
    held_out_loss(model.train(), ids)
    assert model.training


# Sampling --------------------------------------------------------------------------------------


@both_dtypes
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 4, 50])
@pytest.mark.parametrize("top_p", [None, 0.1, 0.7, 1.0])
def test_probabilities_equal_those_of_transformers(temperature, top_k, top_p, dtype):
    logits = 2 * numbers(3, 5, V, dtype=dtype).detach()
    steps = transformers.LogitsProcessorList([transformers.TemperatureLogitsWarper(temperature)])
    if top_k is not None:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p is not None:
        steps.append(transformers.TopPLogitsWarper(top_p))
    warped = steps(None, logits.flatten(0, 1))
    actual = next_token_probabilities(logits, temperature, top_k, top_p)
    assert actual.dtype == dtype
    assert_equal(actual, torch.softmax(warped, dim=-1).view_as(logits))


@settings(max_examples=50, deadline=None)
@given(
    temperature=st.floats(1e-30, 1e30),
    top_k=st.integers(1, 12),
    top_p=st.floats(0.01, 1),
    seed=st.integers(0, 2**32),
)
def test_probabilities_sum_to_one_and_few_enough_remain(temperature, top_k, top_p, seed):
    logits = (10 * numbers(4, V, dtype=torch.float64, seed=seed)).detach()
    probabilities = next_token_probabilities(logits, temperature, top_k, top_p)
    assert_equal(probabilities.sum(-1), torch.ones(4, dtype=torch.float64))
    assert ((probabilities > 0).sum(-1) <= top_k).all()
    assert torch.equal(probabilities.argmax(-1), logits.argmax(-1)) or temperature > 1e10


def test_exactly_k_of_equal_logits_remain():
    probabilities = next_token_probabilities(torch.zeros(2, 6), top_k=3)
    assert (probabilities > 0).sum(-1).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"temperature": -0.5}, "at least 0, got -0.5"),
        ({"temperature": math.nan}, "at least 0, got nan"),
        ({"top_k": 0}, "at least 1, got 0"),
        ({"top_p": 0.0}, "at most 1, got 0.0"),
        ({"top_p": 1.5}, "at most 1, got 1.5"),
        ({"temperature": 0, "top_k": -1}, "at least 1, got -1"),
    ],
)
def test_settings_outside_their_range_are_named(setting, message):
    with pytest.raises(ValueError, match=message):
        next_token_probabilities(torch.zeros(V), **setting)


def test_generating_equals_the_greedy_search_of_gpt2():
    model, ids = tiny(), some_ids(3, 2)
    mask = torch.ones_like(ids)
    expected = gpt2_twin(model).generate(ids, attention_mask=mask, max_length=LENGTH)
    assert torch.equal(generate(model, ids, LENGTH - 2), expected)


def test_beyond_the_context_the_model_sees_the_last_tokens():
    model, ids = tiny(), some_ids(50, 5)  # some texts repeat themselves, but not all
    out = generate(model, ids, 9)
    assert out.shape == (50, 14)
    assert torch.equal(out[:, :5], ids)
    for t in range(5, 14):
        logits = model(out[:, max(0, t - LENGTH) : t])[:, -1]
        assert torch.equal(out[:, t], logits.argmax(-1))


@pytest.mark.parametrize("continue_text", [generate, sample, generate_cached])
def test_continuing_a_text_changes_no_mode_and_keeps_no_graph(continue_text):
    model, ids = tiny(dropout=0.5), some_ids(3, 4)
    before = ids.clone()
    for training in (True, False):
        model.train(training)
        out = continue_text(model, ids, 3)
        assert model.training is training
        assert not out.requires_grad
    assert torch.equal(ids, before)
    with pytest.raises(ValueError, match="got 11"):
        continue_text(model.train(), torch.full((1, 2), V), 3)
    assert model.training, "also after an error"


def test_samples_are_drawn_by_their_probability():
    model = tiny()
    ids = some_ids(1, 4)
    expected = next_token_probabilities(model(ids)[0, -1], temperature=0.8, top_k=5, top_p=0.9)
    drawn = sample(
        *(model, ids.expand(8_000, 4), 1, 0.8, 5, 0.9), generator=torch.Generator().manual_seed(0)
    )
    shares = torch.bincount(drawn[:, -1], minlength=V) / 8_000
    torch.testing.assert_close(shares, expected, rtol=0, atol=0.02)
    assert (shares[expected == 0] == 0).all()


def test_samples_repeat_with_their_generator_and_are_greedy_at_temperature_zero():
    model, ids = tiny(), some_ids(3, 4)
    once, again = (
        sample(model, ids, 9, generator=torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert torch.equal(once, again)
    assert torch.equal(sample(model, ids, 9, temperature=0), generate(model, ids, 9))


# A cache ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("context_length", [203, 202, 50])
def test_with_a_cache_the_tokens_are_the_same(context_length):
    torch.manual_seed(1)
    model = TinyLM(V, C, H, context_length, LAYERS).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 3  # otherwise the text would repeat itself
    ids = some_ids(5, 3)
    expected = generate(model, ids, 200)
    assert min(len(row.unique()) for row in expected[:, -40:]) > 4, "too easy a text"
    assert torch.equal(generate_cached(model, ids, 200), expected)


@both_dtypes
@pytest.mark.parametrize("T", [1, 5, LENGTH, LENGTH + 3])
@pytest.mark.parametrize("new", [0, 1, 2, LENGTH])
def test_a_cache_begins_with_a_text_of_any_length(T, new, dtype):
    model, ids = tiny(dtype), some_ids(30, T)
    assert torch.equal(generate_cached(model, ids, new), generate(model, ids, new))


def test_with_a_cache_each_token_goes_through_the_model_once():
    model = TinyLM(V, C, H, 100, LAYERS)
    pushed = {generate: 0, generate_cached: 0}
    for way in pushed:
        positions: list[int] = []
        hook = model.blocks[-1].norm2.register_forward_hook(
            lambda norm, inputs, output, positions=positions: positions.append(output.shape[1])
        )
        way(model, some_ids(2, 1), 100)
        hook.remove()
        pushed[way] = sum(positions)
    assert pushed == {generate: 5_050, generate_cached: 100}


def test_a_cache_disables_dropout():
    model, ids = tiny(dropout=0.5), some_ids(3, 4)
    expected = generate(model, ids, 4)
    assert torch.equal(generate_cached(model.train(), ids, 4), expected)


# Looking inside --------------------------------------------------------------------------------


def test_the_scores_of_heads_give_the_attentions_of_gpt2():
    model, ids = tiny(torch.float64).train(), some_ids(5, 7)
    scores = head_scores(model, ids)
    assert model.training
    weights = torch.softmax(scores.masked_fill(causal_mask(7), -math.inf), dim=-1)
    twin = gpt2_twin(model.eval(), attn_implementation="eager")
    assert_equal(weights, torch.stack(twin(ids, output_attentions=True).attentions, dim=1))


# The display during training -------------------------------------------------------------------


@pytest.fixture
def screen(monkeypatch):
    """The page's content, as if it had a viewer."""
    shown: list = []
    monkeypatch.setattr(live, "_someone_looks", lambda: True)

    class Place:
        def update(self, page):
            assert page.data == ""
            shown.remove(self.box)

    def display(box, display_id):
        assert display_id
        shown.append(box)
        place = Place()
        place.box = box
        return place

    monkeypatch.setattr("IPython.display.display", display)
    return shown


def test_while_it_trains_there_is_a_bar_and_a_curve_and_then_nothing(screen):
    with live.live_loss(40, levels={"floor": 1.2}) as show:
        (box,) = screen
        screen.append("printed by the loop")
        bar, curve = box.children
        assert curve.layout.display == "none"
        show([3.0, 2.0, 1.5])
        assert (bar.value, bar.max) == (3, 40)
        assert bytes(curve.value).startswith(b"\x89PNG")
        drawn = bytes(curve.value)
        show([3.0, 2.0, 1.5, 1.4])
        assert bytes(curve.value) == drawn, "too soon after the last drawing"
    assert screen == ["printed by the loop"]


def test_between_the_steps_of_a_training_the_bar_moves(screen):
    model, batches = nn.Linear(2, 1), [torch.ones(1, 2)] * 3
    with live.watch_training(model, batches, loss=lambda out, _: out.mean()):
        bar = screen[0].children[0]
        model(batches[0])
        assert bar.value == 0
        model(batches[1])
        assert bar.value == 1
    assert screen == [] and not model._forward_hooks and not model._forward_pre_hooks


def test_without_a_viewer_nothing_is_shown(capsys):
    with live.live_loss(4) as show:
        assert show is None
    assert capsys.readouterr().out == ""
    code = "from course_utils.show.live import _someone_looks\n_someone_looks()"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name="python3").execute()
    assert notebook.cells[0].outputs[0].data["text/plain"] == "False"
