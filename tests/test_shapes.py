"""Shape traces show each reshape in the author's code, as text and as a table."""

import re

import pytest
import torch
from bs4 import BeautifulSoup
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention, naive_mean, padding_mask, tril_mean
from course_utils.show.shapes import LETTER_COLORS, letter_shape, trace_shapes
from course_utils.transformer import TransformerBlock

SIZES = {"B": 1, "T": 4, "C": 768, "H": 8, "D": 96, "V": 9735}


def language_model() -> nn.Module:
    attention = MultiHeadAttention(768, 768, context_length=10, num_heads=8)
    return nn.Sequential(nn.Embedding(9735, 768), attention, nn.Linear(768, 9735, bias=False))


@pytest.fixture(scope="module")
def trace():
    return trace_shapes(language_model(), torch.tensor([[5, 1, 8, 2]]), names=SIZES)


def test_the_head_shapes_table_is_shown_line_by_line(trace):
    table = [
        ("embedding", (1, 4, 768)),
        ("view", (1, 4, 8, 96)),
        ("transpose", (1, 8, 4, 96)),
        ("transpose", (1, 8, 96, 4)),
        ("@", (1, 8, 4, 4)),
        ("softmax", (1, 8, 4, 4)),
        ("@", (1, 8, 4, 96)),
        ("reshape", (1, 4, 768)),
        ("linear", (1, 4, 9735)),
    ]
    steps = iter((step.operation, step.outputs[0]) for step in trace.steps)
    for line in table:
        assert line in steps, f"{line} is missing, or not where it belongs"


def test_the_text_is_stable_and_holds_sizes_and_letters(trace):
    lines = str(trace).splitlines()
    assert lines[0] == "Shapes through Sequential"
    assert lines[1] == "B = 1, T = 4, C = 768, H = 8, D = 96, V = 9735"
    assert re.split(r"\s{3,}", lines[3]) == ["input", "(1, 4) B T"]
    assert re.split(r"\s{3,}", lines[6]) == ["view", "(1, 4, 768) B T C", "(1, 4, 8, 96) B T H D"]
    assert re.split(r"\s{3,}", lines[-2]) == [
        "1.out_proj: linear",
        "(1, 4, 768) B T C",
        "(1, 4, 768) B T C",
    ]
    again = trace_shapes(language_model(), torch.tensor([[0, 0, 0, 0]]), names=SIZES)
    assert str(again) == str(trace) == repr(trace)


def test_what_a_product_adds_up_over_has_one_letter():
    sizes = {"B": 2, "T": 5, "S": 5, "D": 3}
    parts = torch.zeros(3, 2, 5, 3).unbind()
    lines = str(trace_shapes(lambda q, k, v: q @ k.mT @ v, *parts, names=sizes)).splitlines()
    assert "B T D  (2, 3, 5) B D T" in lines[-2] and "B T S  (2, 5, 3) B S D" in lines[-1]


def test_both_inputs_of_a_product_are_shown(trace):
    products = [step.inputs for step in trace.steps if step.operation == "@"]
    assert products == [((1, 8, 4, 96), (1, 8, 96, 4)), ((1, 8, 4, 4), (1, 8, 4, 96))]


def test_a_layer_is_named_by_its_path_in_the_module(trace):
    owners = [step.owner for step in trace.steps if step.operation == "linear"]
    assert owners == ["1.query", "1.key", "1.value", "1.out_proj", "2"]


def test_the_table_has_headings_and_one_colour_a_letter(trace):
    bundle = trace._repr_mimebundle_()
    assert bundle["text/plain"] == str(trace)
    page = BeautifulSoup(bundle["text/html"], "html.parser")
    assert [th.text for th in page.select("th[scope=col]")] == ["operation", "from", "to"]
    assert page.caption.text == "Shapes through Sequential"
    assert len(page.select("tbody tr")) == len(trace.steps) + 1
    for chip in page.select("span"):
        letter, size = chip.text.split()
        assert SIZES[letter] == int(size)
        assert f"background: {LETTER_COLORS[letter]}" in chip["style"]
    assert len(set(LETTER_COLORS.values())) == len(LETTER_COLORS)


def test_letters_contrast_with_their_background_in_any_theme():
    for color in LETTER_COLORS.values():
        channels = torch.tensor([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = ((channels + 0.055) / 1.055) ** 2.4
        luminance = linear @ torch.tensor([0.2126, 0.7152, 0.0722])
        assert (luminance + 0.05) / 0.05 >= 7  # black on the chip


@pytest.mark.parametrize(
    ("shape", "letters", "expected"),
    [
        ((2, 3, 5), {"B": 2, "T": 3, "C": 5}, "B T C"),
        ((2, 3, 3), {"B": 2, "T": 3, "C": 5}, "B T T"),
        ((2, 3, 3), {"B": 2, "T": 3, "S": 3}, "B T S"),
        ((4, 4, 4, 6), {"B": 4, "H": 4, "T": 4, "D": 6}, "B H T D"),
        ((1, 4, 1), {"B": 1, "T": 4}, "B T 1"),
        ((2, 4, 2), {"B": 2, "T": 4}, "B T 2"),
        ((1, 1, 4, 1), {"B": 1, "H": 1, "T": 4}, "B H T 1"),
        ((7, 3), {"T": 3}, "7 T"),
        ((), {"T": 3}, ""),
    ],
)
def test_a_size_gets_the_first_letter_the_shape_does_not_have_yet(shape, letters, expected):
    assert " ".join(letter_shape(shape, letters)) == expected


def test_the_first_input_names_the_letters_by_default():
    assert trace_shapes(tril_mean, torch.zeros(2, 4, 3)).letters == {"B": 2, "T": 4, "C": 3}
    heads = trace_shapes(torch.relu, torch.zeros(2, 4, 3, 5))
    assert heads.letters == {"B": 2, "H": 4, "T": 3, "D": 5}
    assert "(7)" in str(trace_shapes(torch.relu, torch.zeros(7)))


def test_only_tensors_that_depend_on_the_inputs_are_shown():
    steps = trace_shapes(tril_mean, torch.zeros(2, 4, 3)).steps
    assert [(step.operation, step.inputs) for step in steps] == [("@", ((4, 4), (2, 4, 3)))]


def test_a_mask_input_is_traced_too():
    attention = MultiHeadAttention(6, 6, context_length=9, num_heads=2)
    trace = trace_shapes(attention, torch.zeros(3, 5, 6), padding_mask([2, 5, 1], 5))
    assert ("[…]", (3, 1, 1, 5)) in [(step.operation, step.outputs[0]) for step in trace.steps]


def test_writing_into_a_tensor_is_a_step_and_is_traced_further():
    steps = trace_shapes(naive_mean, torch.zeros(1, 2, 3)).steps
    assert [step.operation for step in steps] == ["[…]", "mean", "[…] ="] * 2


def test_attributes_keywords_and_several_results_are_followed():
    def split(x: Tensor) -> Tensor:
        first, second = torch.split(x.mT, [1, 2], dim=1)
        return torch.add(input=first, other=second)

    steps = trace_shapes(split, torch.zeros(2, 4, 3)).steps
    assert [step.operation for step in steps] == ["mT", "split", "+"]
    assert steps[1].outputs == ((2, 1, 4), (2, 2, 4))


def test_a_shape_changed_in_place_is_shown_unchanged_before():
    (step,) = trace_shapes(lambda x: x.unsqueeze_(0), torch.zeros(2, 3)).steps
    assert (step.inputs, step.outputs) == (((2, 3),), ((1, 2, 3),))


def test_a_long_trace_is_cut_and_says_so():
    trace = trace_shapes(naive_mean, torch.zeros(2, 10, 3), limit=5)
    *above, last = str(trace).splitlines()
    assert last == "… and 55 more steps"
    assert [line.split()[0] for line in above[3:]] == ["input", *["[…]", "mean", "[…]"] * 2][:6]
    page = BeautifulSoup(trace._repr_mimebundle_()["text/html"], "html.parser")
    assert len(page.find_all("tr")) == 1 + 1 + 5 and page.p.text == last
    assert len(trace.steps) == 60
    assert "more" not in str(trace_shapes(naive_mean, torch.zeros(2, 10, 3), limit=60))


def test_an_error_brings_the_steps_up_to_it():
    def merge_without_copy(x: Tensor) -> Tensor:
        return x.transpose(1, 2).view(2, 12)

    with pytest.raises(RuntimeError, match="view size is not compatible") as caught:
        trace_shapes(merge_without_copy, torch.zeros(2, 4, 3))
    (note,) = caught.value.__notes__
    lines = [re.split(r"\s{3,}", line) for line in note.splitlines()]
    assert lines[-2] == ["transpose", "(2, 4, 3) B T C", "(2, 3, 4) B C T"]
    assert lines[-1] == ["view", "(2, 3, 4) B C T", "an error"]


def test_tracing_changes_neither_module_nor_input_nor_the_random_numbers_after_it():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    x = torch.randn(2, 4, 3, requires_grad=True)
    before = x.detach().clone()
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    trace_shapes(module, x)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(x, before)
    assert module.training
    assert all(parameter.grad is None for parameter in module.parameters())


def test_names_are_escaped_in_the_table():
    trace = trace_shapes(torch.relu, torch.zeros(2), names={"<b>": 2})
    page = trace._repr_mimebundle_()["text/html"]
    assert "<b>" not in page
    assert "&lt;b&gt; 2" in page


def test_parts_are_one_step_each_and_the_output_has_a_line():
    block = TransformerBlock(6, 2, context_length=9)
    parts = ["norm1", "attention", "dropout", "norm2", "feed_forward", "feed_forward.dropout"]
    trace = trace_shapes(block, torch.zeros(3, 5, 6), parts=parts)
    names = [line.split()[0] for line in str(trace).splitlines()[3:]]
    ten = ["input", *parts[:3], "+", *parts[3:], "+", "output"]
    assert names == ten
    assert {shape for step in trace.steps for shape in step.outputs} == {(3, 5, 6)}


def test_a_part_within_a_part_ends_its_step():
    inner = nn.Sequential(nn.Linear(4, 7), nn.Linear(7, 2))
    trace = trace_shapes(nn.Sequential(inner), torch.zeros(3, 4), parts=["0", "0.1"])
    assert [(s.name, s.outputs) for s in trace.steps] == [
        ("0", ((3, 7),)),
        ("0.1", ((3, 2),)),
        ("output", ((3, 2),)),
    ]


def test_after_a_trace_the_parts_are_as_before():
    block = TransformerBlock(6, 2, context_length=9)
    trace_shapes(block, torch.zeros(3, 5, 6), parts=["norm1"])
    assert not block.norm1._forward_hooks and not block.norm1._forward_pre_hooks
    with pytest.raises(AttributeError):
        trace_shapes(block, torch.zeros(3, 5, 6), parts=["norm3"])
