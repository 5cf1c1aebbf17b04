"""The attention map's Python side; what the page makes of it is in browser/."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from bs4 import BeautifulSoup
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from course_utils.show.attention_map import AttentionMap, attention_map, static

WORDS = ["The", "cat", "sat", "on", "the", "mat"]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def scores(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rows_of(source: str) -> list[list[str]]:
    """The cells of a table, row by row."""
    rows = BeautifulSoup(source, "html.parser")("tr")
    return [[cell.text for cell in row(["td", "th"])] for row in rows]


def html_of(widget: AttentionMap) -> str:
    return widget._repr_mimebundle_()[0]["text/html"]


# ---- weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_what_scaled_dot_product_attention_uses(dtype):
    query, key = scores(2, 3, 5, 4).to(dtype), scores(2, 3, 7, 4, seed=1).to(dtype)
    hidden = scores(2, 3, 5, 7, seed=2) > 0.3
    hidden[..., 0] = False
    shown = attention_map(
        query @ key.transpose(-2, -1), range(5), range(7), hidden, scale=0.5, layer=1, head=2
    )
    identity = torch.eye(7, dtype=dtype)
    wanted = F.scaled_dot_product_attention(
        query[1, 2], key[1, 2], identity, attn_mask=~hidden[1, 2], scale=0.5
    )
    torch.testing.assert_close(shown.weights, wanted)
    assert shown.weights.dtype == dtype


def test_weights_follow_head_layer_temperature_and_masks():
    raw = scores(2, 3, 6, 6)
    shown = attention_map(raw, WORDS, causal=True)
    shown.layer, shown.head, shown.temperature = 1, 2, 0.5
    causal = raw[1, 2].masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
    torch.testing.assert_close(shown.weights, (causal / 0.5).softmax(-1))
    shown.active_masks = []
    torch.testing.assert_close(shown.weights, (raw[1, 2] / 0.5).softmax(-1))


def test_all_masks_together_hide_what_any_of_them_hides():
    hidden = torch.zeros(6, 6, dtype=torch.bool)
    hidden[5, 0] = True
    padding = torch.tensor([False, False, True, False, False, False])
    shown = attention_map(scores(6, 6), WORDS, hidden=hidden, causal=True, pad_mask=padding)
    wanted = hidden | torch.ones(6, 6).triu(1).bool() | padding
    assert torch.equal(shown.weights == 0, wanted)


@pytest.mark.parametrize("shape", [(), (6,), (1, 6), (6, 1), (6, 6), (3, 1, 6), (2, 3, 6, 6)])
def test_a_mask_that_broadcasts_is_taken_as_pytorch_takes_it(shape):
    raw, hidden = scores(2, 3, 6, 6), scores(*shape, seed=3) > 0
    shown = attention_map(raw, WORDS, hidden=hidden, layer=1, head=1)
    wanted = raw.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)[1, 1]
    torch.testing.assert_close(shown.weights, wanted)


def test_a_score_of_minus_infinity_is_hidden():
    raw = scores(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -math.inf)
    assert html_of(attention_map(raw, WORDS)).count(">hidden</td>") == 15


def test_a_row_that_sees_nothing_has_weights_of_zero_and_says_so():
    hidden = torch.zeros(6, 6, dtype=torch.bool)
    hidden[2] = True
    shown = attention_map(scores(6, 6), WORDS, hidden=hidden, row=2)
    assert shown.weights[2].tolist() == [0.0] * 6
    assert "“sat” sees no key: every weight is 0; the row sums to 0.000" in repr(shown)
    assert rows_of(html_of(shown))[3] == ["sat", *["hidden"] * 6, "0.000"]


def test_half_precision_gradients_and_the_tensors_themselves_are_left_alone():
    raw = scores(4, 4).to(torch.bfloat16).requires_grad_()
    before = raw.detach().clone()
    shown = attention_map(raw, "abcd")
    assert not shown.weights.requires_grad
    assert torch.equal(raw, before)
    with torch.no_grad():
        raw.zero_()
    torch.testing.assert_close(shown.weights, before.float().softmax(-1))


# ---- sentences ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([0.1, 3.0, 0.2], "“a” attends most to “b” (0.90); the row sums to 1.000"),
        ([0.0, 0.0, 0.0], "“a” attends equally to all 3 keys it sees (0.33 each)"),
        ([1.0, 1.0, 0.0], "“a” attends most to “a” and “b” (0.42 each)"),
        ([1.0, -math.inf, -math.inf], "“a” attends only to “a” (1.00)"),
    ],
)
def test_the_sentence_names_what_a_row_attends_to(rows, wanted):
    assert wanted in repr(attention_map(torch.tensor([rows] * 3), "abc", row=0))


def test_a_repeated_token_is_told_apart_by_its_position():
    raw = torch.zeros(3, 3)
    raw[2, 0] = 5.0
    shown = attention_map(raw, ["the", "cat", "the"], row=2)
    assert "“the” at 2 attends most to “the” at 0 (0.99)" in repr(shown)


def test_many_equal_keys_are_counted_and_halves_round_up():
    raw = torch.zeros(9, 9)
    raw[0, 8] = -50.0
    shown = repr(attention_map(raw, "abcdefghi", row=0))
    assert "“a” attends most to “a” and 7 more (0.13 each)" in shown


def test_the_line_of_text_is_the_same_every_time():
    lines = {repr(attention_map(scores(4, 6, 6), WORDS, row=2)) for _ in range(3)}
    assert len(lines) == 1
    assert lines.pop().startswith("attention_map(6 queries × 6 keys, head 0 of 0–3): “sat” attends")


# ---- the table ---------------------------------------------------------------------------------


def test_the_table_has_every_weight_to_two_digits_and_each_row_with_its_sum():
    shown = attention_map(scores(6, 6), WORDS, causal=True)
    header, *body = rows_of(html_of(shown))
    assert header == ["query", *WORDS, "sum"]
    for query, (label, *cells, total) in enumerate(body):
        assert label == WORDS[query]
        assert total == "1.000"
        for key, cell in enumerate(cells):
            if key > query:
                assert cell == "hidden"
            else:
                assert abs(float(cell) - shown.weights[query, key].item()) <= 0.005001


def test_the_table_shows_the_step_that_is_asked_for():
    two = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    at = {"queries": ["a", "b"], "causal": True, "scale": 0.5, "values": torch.eye(2), "row": 1}
    source = html_of(attention_map(two, step="scores", **at))
    assert "<caption" in source and ">Scores: one row per query" in source
    assert rows_of(source)[1:] == [["a", "1.00", "-2.00"], ["b", "0.50", "3.00"]]
    source = html_of(attention_map(two, step="masked", **at))
    assert rows_of(source)[1:] == [["a", "0.50", "hidden"], ["b", "0.25", "1.50"]]
    source = html_of(attention_map(two, step="weighted sum", **at))
    assert "“b”: 0.22 · (1.00, 0.00) + 0.78 · (0.00, 1.00) = (0.22, 0.78)" in source


def test_the_table_can_be_read_where_styles_and_classes_are_taken_away():
    shown = attention_map(scores(4, 6, 6), WORDS, hidden=torch.ones(6, 6).triu(1).bool(), row=2)
    source = html_of(shown)
    bare = re.sub(r' (class|style)="[^"]*"', "", source)
    assert "<style" not in source and "<script" not in source
    assert rows_of(bare) == rows_of(source)
    assert repr(shown).partition(": ")[2] in bare
    assert (
        "<caption>Attention weights, head 0 of 0–3: one row per query, one column per key" in bare
    )
    scopes = [heading.get("scope") for heading in BeautifulSoup(bare, "html.parser")("th")]
    assert scopes == ["col"] * 8 + ["row"] * 6


def test_the_other_heads_are_named_under_the_table():
    source = html_of(attention_map(scores(3, 6, 6), WORDS, head=1))
    assert re.findall(r"<p>(head \d)?", source) == ["", "head 0", "head 2"]


def test_labels_are_escaped_and_spaces_can_be_seen():
    labels = ["<b>&", " the", "\n", "", "我", "🐱"]
    shown = attention_map(scores(6, 6), labels)
    page = html_of(shown)
    assert [row[0] for row in rows_of(page)[1:]] == ["<b>&", "␣the", "⏎", "(empty)", "我", "🐱"]
    assert not BeautifulSoup(page, "html.parser")("b")


def test_a_long_map_is_cut_to_the_part_with_the_chosen_row():
    shown = attention_map(scores(60, 60), [f"t{i}" for i in range(60)], row=40)
    heads, *rows = rows_of(html_of(shown))
    assert [row[0] for row in rows] == heads[1:-1] == [f"t{i}" for i in range(17, 41)]
    assert all(row[-1] == "1.000" for row in rows)
    assert "queries 17–40 of 60 and keys 17–40 of 60 are shown" in html_of(shown)


def test_the_table_adds_less_than_20_kib_for_4_heads_of_12_tokens():
    shown = attention_map(scores(4, 12, 12), WORDS * 2)
    assert len(html_of(shown).encode()) < 20 * 1024


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_scores_of_any_precision_are_known_as_what_query_and_key_make(dtype):
    query, key = scores(2, 3, 6, 8).to(dtype), scores(2, 1, 6, 8, seed=1).to(dtype)
    shown = attention_map(query @ key.transpose(-2, -1), WORDS, query=query, key=key)
    assert shown._data["key"]["shape"] == [2, 1, 6, 8]


def test_heads_are_told_by_their_names():
    shown = attention_map(scores(2, 6, 6), WORDS, head_names=["previous", "first"], head=1)
    assert ", head 1 of 0–1 (first)): “mat”" in repr(shown)
    assert "<p>head 0 (previous): “mat”" in html_of(shown)
    layered = attention_map(scores(2, 1, 6, 6), WORDS, head_names=[["a"], ["b"]], layer=1)
    assert "layer 1 of 0–1" in repr(layered)


# ---- in a notebook -----------------------------------------------------------------------------


def test_a_cell_puts_out_the_table_and_then_the_widget():
    InteractiveShell.instance()
    shown = attention_map(scores(6, 6), WORDS)
    with capture_output() as captured:
        shown._ipython_display_()
    table, widget = (output.data for output in captured.outputs)
    assert set(table) == {"text/plain", "text/html"}
    assert set(widget) == {"text/plain", "text/html", WIDGET_VIEW}
    assert widget["text/plain"] == widget["text/html"] == ""
    assert widget[WIDGET_VIEW]["model_id"] == shown.model_id
    InteractiveShell.clear_instance()


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": torch.zeros(3)}, r"got \(3,\)"),
        ({"scores": torch.zeros(2, 2, 2, 3, 3)}, r"got \(2, 2, 2, 3, 3\)"),
        ({"scores": torch.zeros(0, 3)}, r"got \(0, 3\)"),
        ({"scores": torch.full((3, 3), math.nan)}, r"\(3, 3\) hold nan or inf"),
        ({"scores": torch.full((3, 3), math.inf)}, r"\(3, 3\) hold nan or inf"),
        ({"scores": torch.zeros(3, 3, dtype=torch.complex64)}, "real numbers; got torch.complex64"),
        ({"scores": torch.zeros(3, 3, dtype=torch.bool)}, "real numbers; got torch.bool"),
        ({"scores": "abc"}, "scores must be a tensor; got str"),
        ({"scores": torch.zeros(50, 300, 300)}, "4,500,000 numbers; a page takes up to 4,000,000"),
        ({"queries": "ab"}, r"queries must be 3 labels for scores \(3, 3\); got 2"),
        ({"keys": "abcd"}, r"keys must be 3 labels for scores \(3, 3\); got 4"),
        ({"scores": torch.zeros(3, 4)}, r"3 queries and 4 keys"),
        ({"scores": torch.zeros(3, 4), "keys": "abcd", "causal": True}, "as many keys as queries"),
        ({"hidden": torch.zeros(2, 3).bool()}, r"hidden \(2, 3\) .* scores \(3, 3\)"),
        ({"hidden": torch.zeros(2, 3, 3).bool()}, r"hidden \(2, 3, 3\) .* scores \(3, 3\)"),
        ({"hidden": torch.zeros(3, 3)}, "bool, True where hidden; got torch.float32"),
        ({"pad_mask": torch.zeros(4).bool()}, r"pad_mask must be \(3,\).* got \(4,\)"),
        ({"pad_mask": torch.zeros(2, 3).bool()}, r"pad_mask must be \(3,\).* got \(2, 3\)"),
        ({"values": torch.zeros(4, 2)}, r"values must be \(3, D\) for scores .* got \(4, 2\)"),
        ({"values": torch.zeros(2, 3, 2)}, r"values must be \(3, D\) for .* got \(2, 3, 2\)"),
        (
            {"scores": torch.zeros(2, 3, 3), "values": torch.zeros(4, 2)},
            r"values must be \(3, D\) or \(2, 3, D\) for scores \(2, 3, 3\); got \(4, 2\)",
        ),
        (
            {"scores": torch.zeros(4, 2, 3, 3), "values": torch.zeros(4, 2)},
            r"values must be \(3, D\), \(2, 3, D\) or \(4, 2, 3, D\) for scores",
        ),
        ({"values": torch.full((3, 2), math.nan)}, r"values \(3, 2\) hold nan"),
        ({"scale": 0.0}, "scale must be a finite number above 0; got 0.0"),
        ({"query": torch.zeros(3, 2)}, "query and key belong together"),
        (
            {"query": torch.zeros(4, 2), "key": torch.zeros(3, 2)},
            r"query must be \(3, D\) for scores \(3, 3\); got \(4, 2\)",
        ),
        (
            {"query": torch.zeros(3, 2), "key": torch.zeros(3, 4)},
            r"equally wide; got \(1, 1, 3, 2\) and \(1, 1, 3, 4\)",
        ),
        (
            {"query": torch.ones(3, 2), "key": torch.ones(3, 2)},
            r"scores must be query @ key.transpose\(-2, -1\), before any scale; .* 2 apart",
        ),
        ({"head_names": ["a", "b"]}, r"head_names must be 1 names; got \[2\]"),
        ({"temperature": 0.0}, "temperature must be from 0.1 to 10; got 0.0"),
        ({"row": 3}, "row must be from 0 to 2; got 3"),
        ({"head": 1}, "head must be from 0 to 0; got 1"),
        ({"layer": -2}, "layer must be from 0 to 0; got -2"),
        ({"step": "scaled"}, r"step must be one of \['scores', 'softmax'\]; got 'scaled'"),
    ],
)
def test_what_does_not_fit_is_a_value_error_with_the_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_map(**{"scores": torch.zeros(3, 3), "queries": "abc"} | arguments)


def test_a_wrong_choice_is_refused_later_too_and_changes_nothing():
    shown = attention_map(scores(2, 6, 6), WORDS, causal=True, row=3)
    for name, wrong in [("row", 6), ("head", 2), ("temperature", 20.0), ("active_masks", ["pad"])]:
        before = getattr(shown, name)
        with pytest.raises(ValueError, match=name):
            setattr(shown, name, wrong)
        assert getattr(shown, name) == before


def test_negative_choices_count_from_the_end():
    shown = attention_map(scores(4, 6, 6), WORDS, head=-1)
    shown.row = -2
    assert (shown.head, shown.row) == (3, 4)


def test_only_the_steps_there_is_something_for_are_there():
    def steps(**arguments):
        return attention_map(scores(6, 6), WORDS, **arguments)._data["steps"]

    assert steps() == ["scores", "softmax"]
    query, key = scores(6, 4), scores(6, 4, seed=1)
    shown = attention_map(query @ key.T, WORDS, query=query, key=key)
    assert shown._data["steps"] == ["query · key", "scores", "softmax"]
    assert steps(causal=True) == ["scores", "masked", "softmax"]
    assert steps(scale=0.5, pad_mask=torch.zeros(6).bool(), values=scores(6, 2)) == [
        "scores",
        "scaled",
        "masked",
        "softmax",
        "weighted sum",
    ]


@pytest.mark.parametrize(
    ("label", "wanted"),
    [("a b", "a b"), (" a", "␣a"), ("a ", "a␣"), ("  ", "␣␣"), ("a\n", "a⏎"), ("", "(empty)")],
)
def test_labels_show_the_spaces_at_their_ends(label, wanted):
    assert static.visible(label) == wanted
