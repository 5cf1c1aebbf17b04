"""The start page: a trained model to play with, the path, and the first cell in a wrong kernel."""

import math
import random
import re
import subprocess
import sys

import nbformat
import pytest
import torch
from PIL import Image

from course_utils.attention import causal_mask, count_parameters, masked_softmax
from course_utils.language_model import head_scores
from course_utils.show.explorer import explore
from course_utils.show.start import EXAMPLES, SUBJECT, playground, write_page
from course_utils.show.start.language import END, LONGEST, NOUNS, PLACES, VERBS, WORDS
from course_utils.show.start.model import CONTEXT_LENGTH, IDS, WEIGHTS, next_words, read, trained
from tools import ROOT as COURSE
from tools import SOLUTIONS, first_cell
from training.start_model import agreement, batch, draw, loss, train
from whywrong_nbgrader.cells import WIDGET_VIEW

PICTURES = COURSE / "docs" / "pictures"


def page(folder=SOLUTIONS):
    return nbformat.read(folder / "index.ipynb", as_version=4)


# ---- the language ------------------------------------------------------------------------------


def test_every_sentence_is_of_known_words_ends_once_and_fits():
    chance = random.Random(5)
    sentences = [draw(chance).words for _ in range(3_000)]
    assert {word for words in sentences for word in words} == set(WORDS)
    assert len(set(WORDS)) == len(WORDS)
    assert all(words.index(END) == len(words) - 1 for words in sentences)
    assert max(map(len, sentences)) == LONGEST == CONTEXT_LENGTH


def test_the_probability_of_a_sentence_is_how_often_it_is_drawn():
    """Words tell all that was chosen, so nothing is counted twice and the least loss is true."""
    chance = random.Random(6)
    known = {}
    for _ in range(3_000):
        sentence = draw(chance)
        text, nats = " ".join(sentence.words), sentence.log_probability
        assert math.isclose(known.setdefault(text, nats), nats, rel_tol=1e-12)
    # One first word, then 8 of 28 second words are adjectives' four at 1/4 · 1/4 each.
    second = [draw(chance).words[1] for _ in range(8_000)]
    assert abs(second.count("old") / 8_000 - 1 / 16) < 0.01


# ---- the model ---------------------------------------------------------------------------------


def test_the_weights_are_small_and_the_page_tells_their_number():
    assert WEIGHTS.stat().st_size < 2**20
    said = " ".join(" ".join(cell.source for cell in page().cells).split())
    assert f"{count_parameters(trained()):,} parameters" in said
    assert f"{len(WORDS)} different words" in said


@torch.no_grad()
def test_it_has_learned_nearly_all_there_is_to_learn():
    ids, least = batch(random.Random("never seen"), 2_000)
    assert least - 0.02 < float(loss(trained(), ids)) < least + 0.01
    assert agreement(trained(), ids) > 0.999


def test_the_command_learns_and_gives_the_same_model_each_time():
    ids, _ = batch(random.Random("more"), 200)
    before, after, again = train(steps=1), train(steps=20), train(steps=20)
    with torch.no_grad():
        assert float(loss(after, ids)) < float(loss(before, ids)) - 1
    for one, other in zip(after.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_head_of_the_page_looks_for_the_subject():
    """What the page says it does "in each of a thousand new sentences"."""
    chance, sentences, wanted = random.Random(99), [], []
    nouns = {*NOUNS["one"], *NOUNS["many"]}
    while len(sentences) < 1_000:
        words = draw(chance).words
        first, *others = [place for place, word in enumerate(words) if word in nouns]
        if words[first + 1] not in {*PLACES, "that"} or not others:
            continue
        verb = others[0] + (1 if words[first + 1] in PLACES else 2)
        sentences.append([END, *words[:verb]])
        wanted.append(first + 1)
    last = torch.tensor([len(words) - 1 for words in sentences])
    longest = int(last.max()) + 1  # full stops behind a sentence are behind its last row
    ids = torch.tensor([_ids(words + [END] * (longest - len(words))) for words in sentences])
    with torch.no_grad():
        scores = head_scores(trained(), ids)[:, int(SUBJECT[0]), int(SUBJECT[-1])]
    weights = masked_softmax(scores, causal_mask(longest))
    assert weights[range(1_000), last].argmax(dim=-1).tolist() == wanted


def _ids(words):
    return [IDS[word] for word in words]


def test_a_verb_agrees_with_its_subject_and_not_with_the_nearest_noun():
    for text, number in zip(EXAMPLES, ["many", "one", "one"], strict=True):
        words = next_words(read(text)[0])
        assert next(iter(words)) in VERBS[number]
        assert math.isclose(sum(words.values()), 1, rel_tol=1e-5)


@pytest.mark.parametrize(
    "text, seen, unknown",
    [
        ("", [END], []),
        ("The DOG", [END, "the", "dog"], []),
        ("the king sings. the", [END, "the"], []),
        ("the zebra near a zebra", [END, "the", "near"], ["zebra", "a"]),
        ("the cat " * 20, ["the", "cat"] * 6, []),
    ],
)
def test_it_reads_one_sentence_of_words_it_knows(text, seen, unknown):
    words, strange = read(text)
    assert (words[-len(seen) :], strange) == (seen, unknown)
    assert len(words) <= CONTEXT_LENGTH
    assert len(next_words(words)) == len(WORDS)


def test_importing_the_model_draws_nothing_from_the_reader_s_seed():
    trained.cache_clear()
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    trained()
    assert torch.equal(torch.rand(1), wanted)


# ---- the playground ----------------------------------------------------------------------------


def test_without_a_script_there_is_a_table_of_what_the_model_expects():
    shown = playground("the dogs near the cat")
    assert (
        next(word for word in re.findall(r"scope=\"row\"[^>]*>(\w+)<", shown._html()))
        in VERBS["many"]
    )
    for text in ["zebra", "", ".", "the <b>dog</b> near", "the " * 50, "🐱 the dog"]:
        assert "<b>" not in playground(text)._html()
        assert repr(playground(text)).count("\n") == 7


@pytest.mark.parametrize(
    "model, words, message",
    [
        (torch.nn.Linear(2, 3), WORDS, "the model lacks embed.token.weight"),
        (trained(), WORDS[1:], "41 words for a vocabulary of 42"),
    ],
)
def test_a_model_of_other_names_and_a_list_of_other_length_are_refused(model, words, message):
    with pytest.raises(ValueError, match=message):
        explore(model, words)


def test_the_page_is_one_small_file_that_asks_for_nothing(tmp_path):
    page = write_page(tmp_path / "explorer.html")
    assert page.stat().st_size < 300_000
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"<link|<img|src=|url\(|import ", text)
    assert [text.count(mark) for mark in ("<script", "</script>")] == [3, 3]


# ---- the page ----------------------------------------------------------------------------------


def test_the_first_keypress_plays_and_says_the_remedy_in_a_wrong_kernel():
    code = [cell.source for cell in page().cells if cell.cell_type == "code"]
    play = "from course_utils.show.start import playground", "playground()"
    check = "from course_utils import report_environment", "report_environment()"
    assert code[0] == first_cell.text().replace(check[0], play[0]).replace(check[1], play[1])
    assert code[1].split("\n\n") == [*check]
    line, stopped = in_a_wrong_kernel(code[0])
    assert line.startswith("This Python does not have the course") and stopped == "stopped"


def test_the_page_keeps_a_table_and_no_state_of_a_widget():
    notebook = page()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kept = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any("next-word-static" in html for html in kept)
    assert not any(WIDGET_VIEW in output.get("data", {}) for output in outputs)
    assert "widgets" not in notebook.metadata


def test_pictures_of_the_readmes_exist_are_used_and_one_of_them_moves():
    texts = [path.read_text(encoding="utf-8") for path in COURSE.glob("README*.md")]
    shown = [name for text in texts for name in re.findall(r"\]\((docs/pictures/[^)]+)\)", text)]
    there = {f"docs/pictures/{path.name}" for path in PICTURES.glob("*.*[!y]")}
    assert there == set(shown)
    assert all((COURSE / path).stat().st_size < 2**20 for path in shown)
    for path in PICTURES.glob("*.webp"):
        with Image.open(path) as moving:
            seconds = 0.0
            for number in range(moving.n_frames):
                moving.seek(number)
                moving.load()
                seconds += moving.info["duration"] / 1000
        assert 4 < seconds <= 8 and path.stat().st_size <= 500_000


# ---- a wrong kernel ----------------------------------------------------------------------------

WITHOUT_THE_COURSE = """
import importlib.metadata, os, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "course_utils"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def requires(name):
    raise importlib.metadata.PackageNotFoundError(name)

sys.meta_path.insert(0, Missing())
importlib.metadata.requires = requires
os.chdir(sys.argv[1])
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for code in sys.argv[2:]:
    done = shell.run_cell(code)
    print("went on" if done.success else "stopped")
"""


def in_a_wrong_kernel(*cells):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_COURSE, str(SOLUTIONS), *cells],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


def test_in_a_wrong_kernel_each_cell_stops_with_the_remedy_and_no_traceback():
    line, stopped, again, stopped_again = in_a_wrong_kernel(first_cell.text(), "check(1)")
    assert line.startswith("This Python does not have the course: choose its kernel")
    assert (again, stopped, stopped_again) == (line, "stopped", "stopped")


def test_in_colab_the_remedy_is_to_install_the_course():
    colab = "import sys; sys.modules['google.colab'] = sys"
    _, line, stopped = in_a_wrong_kernel(colab, first_cell.text())
    assert line.startswith("Colab does not have the course yet.") and "%pip install" in line
    assert stopped == "stopped"


def test_after_a_right_environment_memory_is_given_back_and_a_failed_import_shown_as_ever():
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "shell = S.instance(colors='nocolor')\n"
        "shell.run_cell('from course_utils import report_environment\\nreport_environment()')\n"
        "shell.run_cell('import not_there')\n"
        "print([f.__name__ for f in shell.events.callbacks['post_run_cell']])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=COURSE
    )
    assert "Everything the course needs is here." in done.stdout
    assert "Traceback (most recent call last)" in done.stdout
    assert "['give_back_memory']" in done.stdout
