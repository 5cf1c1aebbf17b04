"""Attacks by submitted files and cells, and on the pages that show them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from .evil_kit import ASSIGNMENT, MEAN, ONE, QUIZ_AND_MEAN, THREE, Hand, attack, put_after_imports

# ---------------------------------------------------------------- files


@attack("files", points=0.0, said="can't be read|missing|link", told="link", before=True)
def link_to_the_solution(hand: Hand) -> None:
    """The notebook is a link to the solution."""
    solved = hand.place.course / "solutions" / ASSIGNMENT / f"{ONE}.ipynb"
    (hand.folder / f"{ONE}.ipynb").symlink_to(solved)


@attack("files", told="link|not a file", said="naive_mean: not", paid=1.0)
def odd_files_beside(hand: Hand) -> None:
    """The submission also has links to secrets, an endless file, a pipe and a huge empty file."""
    hand.quiz_done()
    course = hand.place.course
    for name, target in {
        "data.csv": course / "gradebook.db",
        "secret.txt": course / ".grading" / "secret",
        "all": course,
        "zeros.bin": Path("/dev/zero"),
    }.items():
        (hand.folder / name).symlink_to(target)
    with (hand.folder / "holes.bin").open("wb") as file:
        file.truncate(2**40)  # it takes no space until somebody copies it
    os.mkfifo(hand.folder / "pipe.txt")


@attack("files", said="naive_mean: not", paid=1.0)
def names_that_lead_away(hand: Hand) -> None:
    """Files have names that mean something to a shell, to Windows or to an archive."""
    hand.quiz_done()
    for name in ("..\\..\\gradebook.db", "-rf", "$(touch evil)", "a\nb", "‮txt.ipynb.sh"):
        (hand.folder / name).write_text("evil")
    (hand.folder / "course_utils").mkdir()
    (hand.folder / "course_utils" / "__init__.py").write_text("raise SystemExit('evil')")
    for shadow in ("torch.py", "sitecustomize.py", "conftest.py", "nbgrader_config.py"):
        (hand.folder / shadow).write_text("raise SystemExit('evil')")


@attack("files", points=0.0, said="can't be read|not a file", told="not a file")
def folder_instead(hand: Hand) -> None:
    """A folder has the notebook's name."""
    (hand.folder / f"{ONE}.ipynb").mkdir()
    (hand.folder / f"{ONE}.ipynb" / "evil.txt").write_text("evil")


@attack("files", points=0.0, said="", told="")
def no_notebook(hand: Hand) -> None:
    """The submitted folder is empty."""


@attack("files", points=QUIZ_AND_MEAN, said="Right", told="is graded", before=True, paid=3.0)
def renamed_notebook(hand: Hand) -> None:
    """The notebook was downloaded twice: `01_naive_mean (1).ipynb`."""
    hand.lesson().solve()
    hand.opened[0].path = hand.folder / f"{ONE} (1).ipynb"


@attack("files", said="naive_mean: not", told="is another notebook, which is not graded", paid=1.0)
def two_notebooks(hand: Hand) -> None:
    """The notebook has a copy with better answers."""
    hand.quiz_done().write(MEAN, "def naive_mean(x):\n    return x")
    hand.lesson().solve()
    hand.opened[1].path = hand.folder / f"Copy of {ONE}.ipynb"


@attack("files", QUIZ_AND_MEAN, "Right", told='so "x is graded; ', own=True, paid=QUIZ_AND_MEAN)
def name_that_is_a_remark(hand: Hand) -> None:
    """The only notebook's name looks like other remarks, on an honest student."""
    hand.lesson().solve()
    name = "x is graded; the same text as ada in naive_mean; ada belongs to ben.ipynb"
    hand.opened[0].path = hand.folder / name


@attack("files", said="naive_mean: not", told="in code cells .* and 880 more", paid=1.0)
def nine_hundred_repairs(hand: Hand) -> None:
    """Each of 900 cells has to be repaired, for which it would get a remark of its own."""
    cells = hand.quiz_done().content.cells
    cells += [new_code_cell(f"x{number} =\u00a0‘{number}’") for number in range(900)]


@attack("files", points=0.0, said="can't be read", told="can't be read", before=True)
def not_json(hand: Hand) -> None:
    """The notebook is an HTML page."""
    hand.file(b"<!DOCTYPE html><html><script>alert('evil')</script></html>")


@attack("files", points=0.0, said="can't be read|not attempted|NameError", own=True)
def cells_of_another_kind(hand: Hand) -> None:
    """A cell is a number, a source is a list of lists, and metadata is a string."""
    raw = json.loads((hand.place.released / f"{ONE}.ipynb").read_text(encoding="utf-8"))
    raw["cells"][0]["source"] = [["evil"], 1]
    raw["cells"][1]["metadata"] = "evil"
    raw["cells"].append(7)
    hand.file(json.dumps(raw).encode())


@attack("files", points=6.0, said="not attempted|NameError|can't be read", told="is graded")
def another_lesson(hand: Hand) -> None:
    """The notebook is another lesson, solved, under the name of this one."""
    notebook = hand.lesson(THREE)
    notebook.solve()
    notebook.path = hand.folder / f"{ONE}.ipynb"


# ---------------------------------------------------------------- cells


@attack("files", points=QUIZ_AND_MEAN, said="restored", before=True)
def deleted_cells(hand: Hand) -> None:
    """Both checks are deleted; the answers are right."""
    notebook = hand.lesson()
    notebook.solve()
    notebook.delete("check-naive_mean", "check-naive_mean_shapes")


@attack("files", said="naive_mean: not", before=True, paid=1.0)
def copied_cells(hand: Hand) -> None:
    """The quiz's check is in the notebook six times, each copy worth a hundred points."""
    notebook = hand.quiz_done()
    copied = notebook.copy("check-naive_mean_shapes", after="naive_mean")
    copied.metadata.nbgrader.points = 100
    notebook.content.cells += [copied] * 4


@attack("files", said="naive_mean: not", told="", paid=1.0)
def retyped_cells(hand: Hand) -> None:
    """The check is a text cell whose metadata asks for grading by hand."""
    notebook = hand.quiz_done()
    check = notebook.cell("check-naive_mean")
    check["cell_type"] = "markdown"
    del check["outputs"], check["execution_count"]
    check.metadata.nbgrader.update(points=100, solution=True, locked=False, task=True)


@attack("files", points=QUIZ_AND_MEAN, said="Right", before=True, paid=QUIZ_AND_MEAN)
def reordered_cells(hand: Hand) -> None:
    """The cells are in the opposite order; the answers are right."""
    notebook = hand.lesson()
    notebook.solve()
    notebook.content.cells.reverse()


@attack("files", said="naive_mean: not", own=True, paid=1.0)
def odd_metadata(hand: Hand) -> None:
    """Metadata contains lists, deep objects and scripts instead of strings."""
    notebook = hand.quiz_done()
    deep: Any = {}
    for _ in range(50):
        deep = {"deep": deep}
    notebook.content.metadata["kernelspec"] = {
        "name": "../../evil",
        "display_name": "<script>evil()</script>",
        "language": "evil",
    }
    notebook.content.metadata["celltoolbar"] = deep
    lexer = f'"><script>evil()</script>{"x" * 99}'
    notebook.content.metadata["language_info"] = {"name": lexer, "pygments_lexer": lexer}
    odd = new_code_cell("1")
    odd.metadata["nbgrader"] = {"grade_id": ["check-naive_mean"], "points": "NaN"}
    odd.metadata["tags"] = ["<script>evil()</script>"]
    notebook.content.cells.append(odd)


# ---------------------------------------------------------------- pages

SCRIPT = "<script>evil()</script>"
PAGES = r"naive_mean: not"


@attack("pages", said=PAGES, before=True, paid=1.0)
def script_in_outputs(hand: Hand) -> None:
    """A cell's output has HTML, SVG, JavaScript and a widget that run in the reader's browser."""
    hand.cell(f"""
        from IPython.display import HTML, SVG, Javascript, display
        class Evil:
            def _repr_html_(self): return {SCRIPT!r} + "<img src=x onerror=evil()>"
            def _repr_mimebundle_(self, *a, **k):
                return {{
                    "text/html": {SCRIPT!r} + '<a href="javascript:evil()">here</a>',
                    "application/javascript": "evil()",
                    "image/svg+xml": '<svg onload="evil()"><script>evil()</script></svg>',
                    "text/latex": "$\\\\href{{javascript:evil()}}{{here}}$",
                    "text/markdown": "[here](javascript:evil())",
                    "image/png": 'x" onerror="evil()',
                    "application/vnd.jupyter.widget-view+json": {{"model_id": "evil"}},
                }}
        display(HTML({SCRIPT!r}), Javascript("evil()"), Evil())
        link = "\\href{{javascript:evil()}}{{x}}"
        for math in (f"${{link}}$", f"\\({{link}}\\)"):
            display(HTML("<p>" + math + "</p>"))
        display(HTML("<div style='position:fixed;top:0;left:0;width:100%;height:100%'>evil</div>"))
        display(HTML("<iframe srcdoc='<script>evil()</script>'></iframe><base href=//evil>"))
        Evil()
    """)


@attack("pages", said=PAGES, before=True, paid=1.0)
def script_in_markdown(hand: Hand) -> None:
    """Text cells have scripts, script links, and formulas that are links."""
    notebook = hand.quiz_done()
    for text in (
        SCRIPT + "<img src=x onerror=evil()>",
        "[here](javascript:evil()) and [there][ref] and ![x](javascript:evil())\n\n"
        "[ref]: javascript:evil()",
        "[here](&#106;avascript:evil()) [here](JaVaScRiPt:evil()) [here](\njavascript:evil())",
        "[here](data:text/html;base64,PHNjcmlwdD5ldmlsKCk8L3NjcmlwdD4=)",
        "$\\href{javascript:evil()}{here}$ and $$\\href{javascript:evil()}{here}$$",
        "\\begin{equation}\\href{javascript:evil()}{here}\\end{equation}",
        "<javascript:evil()> &lt;script&gt;evil()&lt;/script&gt;",
        "```html\n</code></pre><script>evil()</script>\n```",
        "```mermaid\ngraph TD; A[<img src=x onerror=evil()>]\n```",
        "\\begin{a}" * 30_000,
        "](" + " " * 300_000,
    ):
        notebook.content.cells.append(new_markdown_cell(text))
    raw = new_raw_cell(SCRIPT)
    raw.metadata["raw_mimetype"] = raw.metadata["format"] = "text/html"
    notebook.content.cells.append(raw)
    notebook.content.cells[-2]["attachments"] = {"x.svg": {"image/svg+xml": SCRIPT}}


@attack("pages", said=PAGES, own=True, paid=1.0, before=True)
def script_in_the_card(hand: Hand) -> None:
    """An answer raises an error and prints text that are scripts, which the card shows."""
    hand.answer(f"""
        evil = {SCRIPT!r}
        math = "$" + chr(92) + "href{{javascript:evil()}}{{here}}$"
        Evil = type(evil, (Exception,), {{"__module__": evil}})
        def naive_mean(x):
            print(evil + "</pre>" + evil)
            raise Evil(evil + math + "`" + evil + "` *" + evil + "*")
    """)


@attack("pages", said=PAGES, own=True, paid=1.0)
def broken_text(hand: Hand) -> None:
    """A cell and an answer print surrogates, which no file can contain, and control characters."""
    hand.cell(
        "print('half \\ud800 of it \\x00 \\x1b[31m \\u202e')\nraise ValueError('\\udfff')",
        "def naive_mean(x):\n    print('\\ud800')\n    raise ValueError('\\ud800\\x00')",
    )


@attack("files", said="naive_mean: not", own=True, paid=1.0)
def sources_that_weigh(hand: Hand) -> None:
    """Sources are too deep, too slow to parse and to highlight, or have surrogates."""
    notebook = hand.answer("def naive_mean(x):\n    return x" + " + x" * 5_000)
    for source in (
        "(" * 5_000,
        "x = " + "-" * 50_000 + "1",
        "'\\udcff \udcff'",
        "a" + ".a" * 50_000,
        "\n " * 20_000,
        *["x.\n" * 6_000] * 9,
    ):
        notebook.content.cells.append(new_code_cell(source))


@attack("pages", said="naive_mean: not", own=True, paid=1.0)
def outputs_that_weigh(hand: Hand) -> None:
    """Outputs have deeply nested tags and many terminal colours, which are slow to sanitise."""
    notebook = hand.quiz_done()
    for tag in ("<div>", "<ul><li>", "<details>", "<b></p>"):
        put_after_imports(
            notebook,
            "from IPython.display import display\n"
            f"page = {tag!r} * (190_000 // {len(tag)})\n"
            "for _ in range(9): display({'text/html': page}, raw=True)",
        )
    put_after_imports(notebook, "print(30_000 * '\\x1b[1m')")


@attack("pages", said="naive_mean: not", told="link", own=True, paid=1.0)
def names_for_a_terminal(hand: Hand) -> None:
    """Names of links and notebooks clear the instructor's terminal and write points on it."""
    hand.quiz_done()
    name = "\x1b[2J\x1b]0;evil\x07\x1b[1;1Hada 100.00\n=1+1"
    (hand.folder / name).symlink_to("/etc/passwd")
    (hand.folder / f"{name}.ipynb").write_text("{}")
