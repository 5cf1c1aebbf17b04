"""Translations keep what the English has and use the table's terms; an old one is known as old."""

import pytest

from tools import SOLUTIONS, translations
from tools.translations import TRANSLATIONS, Language, blocks, differences, languages

PLAIN = Language(TRANSLATIONS / "xx", "Plain", "> old", {"bad": "a bad word"}, ())
TERMS = Language(
    PLAIN.folder,
    *("Plain", "> old", {}),
    ((("weight",), ("Gewicht",)), (("attention weight",), ("Aufmerksamkeit",))),
)


@pytest.mark.parametrize("to", languages(), ids=lambda to: to.folder.name)
def test_every_translated_cell_keeps_what_the_english_has(to):
    assert [
        line for path in translations.notebooks() for line in translations.problems(to, path)
    ] == []


@pytest.mark.parametrize("to", languages(), ids=lambda to: to.folder.name)
def test_every_file_is_of_a_notebook(to):
    known = {translations.place(to.folder, path) for path in translations.notebooks()}
    texts = set(to.folder.rglob("*.md")) - {to.folder / "terms.md"}
    assert texts - known == set()


def test_a_block_is_found_by_the_id_of_its_cell_and_comments_are_left_out():
    text = "<!-- 0123abcd -->\n# Titel\n\n<!-- 89abcdef -->\n<!-- English:\nText\n-->\n"
    assert blocks(text) == {"0123abcd": "# Titel"}


@pytest.mark.parametrize(
    ("english", "said", "wrong"),
    [
        ("Run `f(x)`.", "Starte `f(y)`.", ["code missing: f(x)", "code too many: f(y)"]),
        ("Then $x^2$.", "Dann $x^3$.", ["formula missing: $x^2$", "formula too many: $x^3$"]),
        ("See [it](a.ipynb#b).", "Siehe [das](a.ipynb).", ["link missing: (a.ipynb#b)"]),
        ("About 30 minutes", "Etwa 31 Minuten", ["number missing: 30", "number too many: 31"]),
        ("## 2. Masks", "### 2. Masken", ["heading levels differ"]),
        ("**Predict:** which?", "Welche?", ["bold missing: <strong>"]),
        ("| a | b |", "a, b", ["table row missing: |"]),
        ("Well", "A bad word", ["a bad word: 'bad'"]),
        (r"$\text{source}$", r"$\text{Quelle}$", []),
        ("`a` is 1, `b` is 2", "`b` ist 2, `a` ist 1", []),
    ],
)
def test_a_difference_is_named(english, said, wrong):
    assert differences(english, said, PLAIN)[: len(wrong) or None] == wrong


def test_stars_beside_punctuation_that_stay_stars_are_found():
    assert differences("**Predict:** it", "**预测：**它", PLAIN) != []
    assert differences("**Predict:** it", "**预测**：它", PLAIN) == []


def test_a_term_is_asked_for_and_the_longest_counts():
    assert differences("Two weights.", "Zwei.", TERMS) == ["term: weight is Gewicht"]
    assert differences("Attention weights.", "Aufmerksamkeiten.", TERMS) == []
    assert differences("Read `weight`.", "Lies `weight`.", TERMS) == []


def test_a_changed_sentence_makes_its_translation_stale(tmp_path, monkeypatch):
    """What is missing is put beside its English, and beside what was there before."""
    path = SOLUTIONS / "1-averages" / "01_naive_mean.ipynb"
    english = translations.cells(path)
    first, second, *rest = english
    file = translations.place(tmp_path, path)
    file.parent.mkdir()
    said = "".join(f"<!-- {id} -->\nText {id}\n" for id in ["00000000", second, *rest])
    file.write_text(said, encoding="utf-8")
    to = Language(tmp_path, *("Plain", "> old", {}), ())
    assert translations.coverage(to, path) == (len(english) - 1, len(english), 1)
    assert translations.put_missing(tmp_path, path) == 1
    text = file.read_text(encoding="utf-8")
    assert english[first] in text and "Text 00000000" in text
    assert list(blocks(text)) == [second, *rest]
    file.write_text(text.replace("<!-- English", "Neu\n<!-- English", 1), encoding="utf-8")
    assert translations.put_missing(tmp_path, path) == 0
    assert "English" not in file.read_text(encoding="utf-8")
