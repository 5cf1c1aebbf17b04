"""The blank page: its card's messages on parts, on two mistakes together, and on names."""

import pytest
import torch.nn.functional as F
from torch import nn

from tools import ANSWERS
from tools.matrix import loaded
from whywrong import check_exercise
from whywrong._exercise import Program
from whywrong.hosting import catalogue

COURSE = catalogue()
MY_GPT = COURSE.find("MyGPT")
CAPSTONE = loaded(ANSWERS / MY_GPT.lesson / "answers.py")
MY_GPT_RIGHT, MY_GPT_WRONG = CAPSTONE.MY_GPT_RIGHT, CAPSTONE.MY_GPT_WRONG
FourClasses, LoadsItsOwnWay, Norm = CAPSTONE.FourClasses, CAPSTONE.LoadsItsOwnWay, CAPSTONE.Norm
TiedLater, Wide, with_block = CAPSTONE.TiedLater, CAPSTONE.Wide, CAPSTONE.with_block


def checked(answer):
    return check_exercise(MY_GPT, answer, 0, COURSE)


def failing(answer):
    return {row.id: row.text for row in checked(answer).behaviours if row.holds is False}


class Exact(Wide):
    def forward(self, x):
        return self.contract(F.gelu(self.expand(x)))


class Sample(Norm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (x.var(-1, keepdim=True) + self.eps).sqrt() * self.scale + self.shift


class HeadWithBias(FourClasses):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.head = nn.Linear(self.head.in_features, self.head.out_features)


class TestParts:
    def test_different_parts_are_named(self):
        assert "Your `feed_forward`, tried by itself" in failing(with_block(think=Exact)).get(
            "network_alone", ""
        )
        both = failing(with_block(think=Exact, norm=Sample))
        assert {"norms_alone", "network_alone"} <= both.keys()
        assert not {"attention_alone", "embed_alone", "head_alone", "block_alone"} & both.keys()

    def test_if_all_parts_are_right_their_connection_is_blamed(self):
        assert "Each part is right by itself" in failing(TiedLater)["well_joined"]

    @pytest.mark.parametrize("name", MY_GPT_RIGHT)
    def test_a_right_answer_s_card_does_not_mention_parts(self, name):
        report = checked(MY_GPT_RIGHT[name])
        assert report.passed
        assert not [row for row in report.behaviours if "itself" in row.text]


def test_two_defaults_of_pytorch_are_named_together():
    answer = type("MyGPT", (with_block(think=Exact, norm=Sample),), {"last": Sample})
    assert checked(answer).misconceptions == ("exact_gelu", "unbiased_variance")


def test_two_mistakes_in_nested_parts_are_named():
    _, answer = MY_GPT_WRONG["the exact GELU, and no mask"]
    report = checked(answer)
    assert set(report.misconceptions) == {"exact_gelu", "no_mask"}


def test_an_additional_parameter_is_named():
    assert "`head.bias`" in failing(HeadWithBias)["parameters"]


@pytest.mark.parametrize("attribute", ["blocks", "stack"])
def test_blocks_in_a_list_are_named_whatever_their_attribute_is_called(attribute):
    """The attention is written otherwise than in the catalogue, so its errors differ, too."""
    source = MY_GPT.right.source
    for old, new in (
        ("nn.ModuleList(Block(d_model, num_heads) for _", "list(Block(d_model, num_heads) for _"),
        ("self.blocks", f"self.{attribute}"),
        ("query @ key.transpose(-2, -1)", 'torch.einsum("bhtd,bhsd->bhts", query, key)'),
    ):
        assert old in source
        source = source.replace(old, new)
    report = checked(Program(source, MY_GPT.right.names).answer)
    assert report.misconceptions == ("blocks_in_a_plain_list",)
    assert report.points == 0, "as in TinyLM: an optimizer trains none of the blocks"


def test_parts_in_a_dict_are_named_in_any_class():
    class Network(nn.Module):
        def __init__(self, d_model, d_ff, dropout=0.0):
            super().__init__()
            self.layers = {"in": nn.Linear(d_model, d_ff), "out": nn.Linear(d_ff, d_model)}
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            wide = F.gelu(self.layers["in"](x), approximate="tanh")
            return self.dropout(self.layers["out"](wide))

    report = check_exercise(COURSE.find("FeedForward"), Network, 0, COURSE)
    assert report.misconceptions == ("unregistered",)


def test_missing_parameters_are_named_with_their_replacements_only():
    answer = type("MyGPT", (FourClasses,), {"last": nn.LayerNorm})
    report = checked(answer)
    listed = "missing: norm.scale, norm.shift\nyours also has: norm.weight, norm.bias"
    assert report.message == "2 parameters are missing." and listed in report.detail
    assert "query" not in report.message
    assert report.misconceptions == ("norm_of_py_torch",)


def test_the_error_of_an_own_load_state_dict_is_shown():
    class Mistyped(LoadsItsOwnWay):
        def load_state_dict(self, state, *args, **kwargs):
            self.tokens.data.copy_(state["embed.tokens.weight"])

    said = "Your `load_state_dict` raised KeyError: 'embed.tokens.weight'"
    assert said in str(checked(Mistyped))


def test_missing_names_in_the_state_dict_are_noted_without_cost():
    report = checked(LoadsItsOwnWay)
    assert report.passed and "a `state_dict` of your own" in report.notes[0]
    assert not checked(MY_GPT_RIGHT["a state_dict of its own"]).notes
    assert not checked(MY_GPT_RIGHT["PyTorch's norm under other names"]).notes


def test_the_case_names_each_number():
    assert "for vocab_size 5, d_model 9, num_heads 1" in str(checked(TiedLater))


@pytest.mark.parametrize("name", ["scales begin at 0", "shifts begin at 1"])
def test_norms_are_initialised_correctly(name):
    points, answer = MY_GPT_WRONG[name]
    report = checked(answer)
    assert report.points == points == 5.25 and "yours have another" in str(report)
