"""Translations keep what the English has and use the table's terms; an old one is known as old."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from course_utils.desk.language import folders
from course_utils.desk.translated import PLAY, blocks, build, translated
from tools import NOTEBOOKS, ROOT, SOLUTIONS, notebooks_in, sentences, site, translations
from tools.translations import TRANSLATIONS, Language, complete, differences, languages
from whywrong.hosting import MARKER

HEADS = "Plain", "Title", "xx", "> old", "> changed"
PLAIN = Language(TRANSLATIONS / "xx", *HEADS, {"bad": "a bad word"}, ())
LESSON = SOLUTIONS / "1-averages" / "01_naive_mean.ipynb"
TERMS = Language(
    PLAIN.folder,
    *(*HEADS, {}),
    ((("weight",), ("Gewicht",)), (("attention weight",), ("Aufmerksamkeit",))),
)


@pytest.mark.parametrize("to", languages(), ids=lambda to: to.folder.name)
def test_every_translated_cell_keeps_what_the_english_has(to):
    assert [
        line for path in translations.notebooks() for line in translations.problems(to, path)
    ] == []


@pytest.mark.parametrize("to", languages(), ids=lambda to: to.folder.name)
def test_the_program_finds_the_language_and_every_file_is_of_a_notebook(to):
    assert folders()[to.folder.name] == to.folder
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
        ("one weight is 1", "ein Gewicht ist 2", ["number missing: 1", "number too many: 2"]),
        ("two weights are one", "2 Gewichte sind 1", []),
        ("zeros above ones", "0 über 1", []),
        ("## 2. Masks", "### 2. Masken", ["heading levels differ"]),
        ("**Predict:** which?", "Welche?", ["bold missing: <strong>"]),
        ("| a | b |", "a, b", ["table row missing: |"]),
        ("Well", "A bad word", ["a bad word: 'bad'"]),
        (r"$\text{source}$", r"$\text{Quelle}$", []),
        ("`a` is 1, `b` is 2", "`b` ist 2, `a` ist 1", []),
        ("61,008 words", "61\N{NARROW NO-BREAK SPACE}008 Wörter", []),
        ("61,008 words", "61.008 Wörter", ["number missing: 61008", "number too many: 61.008"]),
    ],
)
def test_a_difference_is_named(english, said, wrong):
    assert differences(english, said, PLAIN)[: len(wrong) or None] == wrong


@pytest.fixture(scope="module", params=[*languages(), None], ids=lambda to: to and to.folder.name)
def edition(request, tmp_path_factory):
    """A language and its edition, also for one that has only begun."""
    made = tmp_path_factory.mktemp("edition")
    to = request.param or begun(made / "xx")
    build(to.folder, made / "notebooks")
    return to, made / "notebooks"


def begun(folder):
    """A language with its settings, its terms and one cell."""
    (folder / "1-averages").mkdir(parents=True)
    settings = dict(zip(("name", "title", "html", "stale", "changed"), HEADS, strict=True))
    toml = "".join(f'{key} = "{value}"\n' for key, value in settings.items())
    (folder / "language.toml").write_text(toml, encoding="utf-8")
    (folder / "terms.md").write_text("| English | Xx | note |\n|---|---|---|\n", encoding="utf-8")
    first = next(iter(translations.cells(LESSON)))
    file = folder / "1-averages" / "01_naive_mean.md"
    file.write_text(f"<!-- {first} -->\nErste Zelle\n", encoding="utf-8")
    return translations.language(folder)


def test_an_edition_is_the_english_one_but_for_its_texts(edition):
    """So one gradebook grades both: code, outputs, ids and metadata are the same."""
    to, out = edition
    for path in notebooks_in(NOTEBOOKS):
        ours, theirs = read(path), read(out / path.relative_to(NOTEBOOKS))
        assert theirs["metadata"].pop("course") == {"language": to.folder.name}
        for cell, own in zip(ours["cells"], theirs["cells"], strict=True):
            if cell["cell_type"] == "markdown":
                cell["source"] = own["source"]
            elif "pictured" in cell["metadata"].get("tags", []):  # of a poster with words
                said = bool(sentences.kept(to, "page").get(PLAY))
                assert (own["outputs"] != cell["outputs"]) == said
                cell["outputs"] = own["outputs"]
        assert theirs == ours


def test_a_cell_without_a_translation_is_english_and_says_so(edition):
    to, out = edition
    path = LESSON
    first, second, *_ = translations.cells(path)
    (out.parent / "own.md").write_text(f"<!-- {second} -->\nText\n", encoding="utf-8")
    made = translated(read(path), out.parent / "own.md", to.stale)["cells"]
    said = ["".join(cell["source"]) for cell in made if cell["cell_type"] == "markdown"]
    assert said[:2] == [f"{to.stale}\n\n{translations.cells(path)[first]}", "Text"]


def test_every_link_in_an_edition_leads_somewhere(edition):
    """Also the links into the glossary, whose headings stay as they are."""
    _, out = edition
    anchors = {
        f"#{h.strip().replace(' ', '-')}" for h in re.findall(r"^### (.*)$", glossary(out), re.M)
    }
    for path in out.rglob("*.ipynb"):
        for cell in read(path)["cells"]:
            if cell["cell_type"] == "markdown":
                for target in re.findall(r"\]\(([^):\s]+)\)", "".join(cell["source"])):
                    file, anchor, name = target.partition("#")
                    if file.endswith(".ipynb"):
                        assert (path.parent / file).exists(), (path.name, target)
                    if file.endswith("glossary.ipynb") and anchor:
                        assert f"#{name}" in anchors, (path.name, target)


def test_a_language_begins_with_the_english_of_what_the_others_have(tmp_path):
    """And `--missing` leaves a file alone in which nothing is missing."""
    to = begun(tmp_path / "xx")
    sentences.put_missing(to, "frame", {})
    file = to.folder / "strings" / "frame.json"
    frame = json.loads(file.read_text(encoding="utf-8"))
    assert "{count:g} checks pass." in frame and not any(frame.values())
    assert not complete(to) and sentences.total(to).startswith("0 of ")
    text = json.dumps(dict.fromkeys(reversed(frame), "x"))
    file.write_text(text, encoding="utf-8")
    sentences.put_missing(to, "frame", {})
    assert file.read_text(encoding="utf-8") == text


def test_a_page_leads_to_the_languages_that_have_it(tmp_path, monkeypatch):
    to = begun(tmp_path / "xx")
    monkeypatch.setattr(site, "languages", lambda: [to])
    first, second = (Path("1-averages", name) for name in ("01_naive_mean.ipynb", "02_x.ipynb"))
    assert 'href="../xx/1-averages/01_naive_mean.html" lang="xx"' in site.other_languages(
        first, None
    )
    assert "xx" not in site.other_languages(second, None)
    assert "xx" not in site.other_languages(Path("exercises", "naive_mean.md"), None)
    assert 'href="../../1-averages/02_x.html" lang="en"' in site.other_languages(second, to)


def test_what_a_reader_has_written_stays(edition, tmp_path):
    to, _ = edition
    build(to.folder, tmp_path)
    mine = tmp_path / "1-averages" / "01_naive_mean.ipynb"
    mine.write_text("my answers", encoding="utf-8")
    build(to.folder, tmp_path)
    assert mine.read_text(encoding="utf-8") == "my answers"
    assert (tmp_path / MARKER).read_text(encoding="utf-8").strip() == to.folder.name


def test_make_lab_adds_a_new_lesson_to_an_edition_that_exists(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    edition = tmp_path / "translations" / "xx" / "notebooks"
    for file in (edition.parent / "language.toml", edition / MARKER, tmp_path / "constraints.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    make = ["make", "-n", "lab", "-o", ".venv/.lab"]
    added = []
    for _ in range(2):
        told = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=True)
        added.append("course_utils.desk.translated" in told.stdout)
        lesson = tmp_path / "notebooks" / "8-beyond" / "18_new.ipynb"
        lesson.parent.mkdir(parents=True, exist_ok=True)
        lesson.touch()
        os.utime(edition / MARKER, (0, 0))
    assert added == [False, True]


@pytest.mark.parametrize(
    ("before", "after", "said", "now"),
    [
        ("## 1. Rows (1 minute)", "## 1. Rows (2 minutes)", "## 1. 行（1 分钟）", ""),
        (
            "## 2. Rows (1 minute)",
            "## 2. Rows (3 minutes)",
            "## 2. 行（1 分钟）",
            "## 2. 行（3 分钟）",
        ),
        ("about 31 minutes, 3.1", "about 9 minutes, 3.1", "约 31 分钟，3.1", "约 9 分钟，3.1"),
        ("Rows (1 minute)", "Columns (2 minutes)", "行（1 分钟）", ""),
    ],
)
def test_new_minutes_are_put_into_the_translation_if_it_is_clear_where(before, after, said, now):
    assert translations.recounted(said, before, after) == now


def test_a_translation_follows_its_cell_when_the_minutes_are_counted_anew(tmp_path, monkeypatch):
    path = LESSON
    to = Language(tmp_path, *HEADS, {}, ())
    monkeypatch.setattr(translations, "languages", lambda: [to])
    file = translations.place(tmp_path, path)
    file.parent.mkdir()
    text = "Rows (7 minutes)"
    file.write_text(
        f"<!-- {translations.text_id(text)} -->\nZeilen (7 Minuten)\n", encoding="utf-8"
    )
    translations.follow(path, [text], ["Rows (8 minutes)"])
    new = translations.text_id("Rows (8 minutes)")
    assert blocks(file.read_text(encoding="utf-8")) == {new: "Zeilen (8 Minuten)"}


@pytest.mark.parametrize("page", sorted(ROOT.glob("README.*.md")), ids=lambda page: page.name)
def test_a_readme_in_another_language_names_what_exists_and_types_what_the_english_one_does(page):
    text, english = (p.read_text(encoding="utf-8") for p in (page, ROOT / "README.md"))
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (ROOT / target).exists()] == []
    option = re.compile(r" (?:COURSE_LANGUAGE=|--language )[\w-]+")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    typed = "\n".join(lines for kind, lines in fences if not kind).splitlines()
    own = {"-m course_utils.desk.translated", "course new my-course", "lab my-course"}
    strange = [line for line in typed if line and option.sub("", line) not in english]
    assert [line for line in strange if not any(part in line for part in own)] == []


def glossary(out):
    return "\n\n".join("".join(cell["source"]) for cell in read(out / "glossary.ipynb")["cells"])


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_stars_beside_punctuation_that_stay_stars_are_found():
    assert differences("**Predict:** it", "**预测：**它", PLAIN) != []
    assert differences("**Predict:** it", "**预测**：它", PLAIN) == []


def test_a_term_is_asked_for_and_the_longest_counts():
    assert differences("Two weights.", "Zwei.", TERMS) == ["term: weight is Gewicht"]
    assert differences("Attention weights.", "Aufmerksamkeiten.", TERMS) == []
    assert differences("Read `weight`.", "Lies `weight`.", TERMS) == []


def test_a_changed_sentence_makes_its_translation_stale(tmp_path, monkeypatch):
    """What is missing is put beside its English, and beside what was there before."""
    path = LESSON
    english = translations.cells(path)
    first, second, *rest = english
    file = translations.place(tmp_path, path)
    file.parent.mkdir()
    said = "".join(f"<!-- {id} -->\nText {id}\n" for id in ["00000000", second, *rest])
    file.write_text(said, encoding="utf-8")
    to = Language(tmp_path, *HEADS, {}, ())
    assert translations.coverage(to, path) == (len(english) - 1, len(english), 1)
    assert translations.put_missing(to, path) == 1
    text = file.read_text(encoding="utf-8")
    assert english[first] in text and "Text 00000000" in text
    assert list(blocks(text)) == [second, *rest]
    file.write_text(text.replace("<!-- English", "Neu\n<!-- English", 1), encoding="utf-8")
    assert translations.put_missing(to, path) == 0
    assert "English" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("now", "shown"), [("Two rows, as `x` says.", True), ("Three rows, so `x`.", False)]
)
def test_an_earlier_translation_is_shown_if_only_prose_has_changed(
    now, shown, tmp_path, monkeypatch
):
    path = LESSON
    to, was = Language(tmp_path, *HEADS, {}, ()), "Two rows, so `x`."
    old, new = map(translations.text_id, (was, now))
    monkeypatch.setattr(translations, "languages", lambda: [to])
    monkeypatch.setattr(translations, "cells", lambda path: {new: now})
    monkeypatch.setattr(translations, "earlier", lambda path: {old: was})
    file = translations.place(tmp_path, path)
    file.parent.mkdir()
    file.write_text(f"<!-- {old} -->\nZwei Zeilen: `x`.\n", encoding="utf-8")
    for _ in range(2):  # nothing is lost the second time
        translations.put_missing(to, path)
        text = file.read_text(encoding="utf-8")
        assert "Zwei Zeilen" in text and now in text
        assert blocks(text) == ({new: "> changed\n\nZwei Zeilen: `x`."} if shown else {})
        assert translations.coverage(to, path) == (0, 1, int(shown))
    translations.main(["--still-true", new])
    text = file.read_text(encoding="utf-8")
    assert blocks(text) == ({new: "Zwei Zeilen: `x`."} if shown else {})
    assert translations.coverage(to, path) == (int(shown), 1, 0)
