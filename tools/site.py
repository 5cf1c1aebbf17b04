"""`make site`: the lessons as pages, with maps and models that need no kernel, in site/build/html.

The pages are the student edition with the outputs of solutions/: hidden tests are not in it, and a
solution is folded below its exercise. What maps show is kept in site/live/ (see tools/live.py).
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from course_utils.desk.guesses import NONE_YET
from course_utils.desk.kept_back import kept_back
from course_utils.desk.language import sentences_of_the_page
from course_utils.desk.translated import translated
from course_utils.show import colours, explorer
from course_utils.show.start import playground
from whywrong import check_exercise
from whywrong.hosting import Exercise, catalogue, language, localised, speaking

from . import EXERCISES, NOTEBOOKS, ROOT, SOLUTIONS, first_cell, live, one_run, site_exercises
from .address import binder, colab, repository
from .keys import digest
from .translations import Language, complete, has, languages, place

SITE = ROOT / "site"
BUILD = SITE / "build"
SOURCE = BUILD / "source"
HTML = BUILD / "html"
STATIC = BUILD / "static"
START = SOLUTIONS / "index.ipynb"
CARDS = BUILD / "cards"
HEADING = re.compile(r"^#{1,4} .*$", re.M)
MARKERS = re.compile(r"^\s*### (BEGIN|END) SOLUTION\n?", re.M)
AS_FOUND = re.compile(r"\n\s*### AS FOUND.*?(?=\n\s*### END SOLUTION|\Z)", re.S)
STUB = re.compile(r"\A\w+ = \.\.\..*\n")  # the line that an answer replaces
LOADED = r"\s*<(?:link|script)\b[^>]*/{}\.(?:css|js)[^>]*>(?:</script>)?"
NOTEBOOK_SHEET = "_static/mystnb.*.css"
TERMINAL = re.compile(r"^div\.highlight \.-Color\[.*?^}\n+", re.M | re.S)  # 512 colours, unused
CHECK = re.compile(r'check\("(\w+)"')
RECALL = re.compile(r'recall\("(\d\d)"')
TEXT = re.compile(r"(?:(?<=>)|^)[^<>]+(?=<|$)")
UNREAD = re.compile(r"(<(?:svg|script|style|pre)\b.*?</(?:svg|script|style|pre)>)", re.S)
WORDS = re.compile(r'(?<= )(alt|aria-label|title)="([^"]*)"')
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# On a phone, a wide table scrolls, also by keyboard; only a section may have the focus for that.
SCROLLS = re.compile(
    r'<div (class="table-wrapper colwidths-auto docutils container"'
    r'|(?:class="[\w-]+" )?style="[^"]*overflow-x: ?auto[^"]*")>'
)
DIV = re.compile(r"<div\b|</div>")
# What the theme leaves out for those who don't see the page.
FOR_READERS = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Lessons">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    'role="heading"><span class="caption-text">': (
        'role="heading" aria-level="2"><span class="caption-text">'
    ),
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
    '<script src="_static/searchtools.js">': (
        '<script src="_static/search.js"></script>\n<script src="_static/searchtools.js">'
    ),
}
# What is added to every page in English.
ADDED = re.compile(
    r'(?<=aria-label=")(?:Lessons|On this page|table|formula)(?=")|(?<=<h1>)Search(?=</h1>)'
)
HIDE = {"Show a solution": "Hide a solution", "Show the imports": "Hide the imports"}
FOR_EXAMPLE = "An answer that people often give, and the card that answers it:"
ON_THE_START_PAGE = "masked_softmax"  # the exercise whose card it shows
OF_A_READER = re.compile(r"^\w+: yours runs here.*\n?", re.M)  # who has written nothing here
NO_KERNEL = (
    "Reading is enough to see this. To type here yourself, run the lesson: the widget needs Python."
)


def build(out: Path = HTML) -> int:
    """Write the sources that differ from the last build's and have Sphinx make their pages; all
    pages, if something that they share has changed. Sphinx's exit status, 1 after a warning."""
    editions: list[Language | None] = [None, *languages()]
    files = static_files()
    for to in editions:
        files |= sources(to)
    last, shared = BUILD / "shared", _shared_by_all(files)
    if not last.exists() or last.read_text() != shared:
        for folder in BUILD.glob("*"):
            if folder != CARDS:
                shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    last.unlink(missing_ok=True)  # after a failure, all pages are made again, with all warnings
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for sheet in out.rglob(NOTEBOOK_SHEET):  # its link has a digest if it is there already
        sheet.unlink()
    began = time.time()
    running = [_sphinx(to, out) for to in editions]
    status = max(sphinx.wait() for sphinx in running)
    for sheet in out.rglob(NOTEBOOK_SHEET):
        sheet.write_text(TERMINAL.sub("", sheet.read_text(encoding="utf-8")), encoding="utf-8")
    spoken = {to.folder.name for to in languages()}
    for page in out.rglob("*.html"):
        if page.stat().st_mtime < began - 2:  # some file systems round
            continue
        name = page.relative_to(out).parts[0]
        shown = for_readers(page.read_text(encoding="utf-8"), name if name in spoken else "")
        page.write_text(without_unused(shown), encoding="utf-8")
    if status == 0:
        last.write_text(shared)
    return status


def without_unused(text: str) -> str:
    """Leave out the scripts and style sheets of widgets that a page doesn't show."""
    for name in live.WIDGETS:
        if f'"widget": "{name}"' not in text:
            text = re.sub(LOADED.format(name), "", text)
    return text if "course-live" in text else re.sub(LOADED.format("live"), "", text)


def _shared_by_all(files: dict[Path, str]) -> str:
    """A digest of what each page shows or is made with: the pages' names and headings, the style
    sheets and scripts, this program, and the packages' versions."""
    parts = [path.read_bytes() for path in (Path(__file__), ROOT / "constraints.txt")]
    parts += [path.read_bytes() for path in sorted(SITE.glob("*.py"))]
    parts += [path.read_bytes() for path in sorted((SITE / "static").iterdir())]
    for path, text in files.items():
        parts.append(str(path).encode())
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        is_static = path.parent == STATIC
        parts.append((text if is_static else "\n".join(HEADING.findall(text))).encode())
    return digest(*parts)


def for_readers(text: str, spoken: str) -> str:
    """Add what the theme leaves out for those who don't see the page, in the page's language."""
    for old, new in FOR_READERS.items():
        text = text.replace(old, new)
    with speaking(spoken):
        return ADDED.sub(lambda added: localised(added[0]), sectioned(text))


def sectioned(text: str) -> str:
    """Turn the boxes of wide tables into sections that a keyboard can scroll."""
    while found := SCROLLS.search(text):
        depth = 0
        for part in DIV.finditer(text, found.start()):
            depth += 1 if part[0] == "<div" else -1
            if depth == 0:
                break
        opened = f'<section {found[1]} tabindex="0" role="group" aria-label="table">'
        inside = text[found.end() : part.start()]
        text = f"{text[: found.start()]}{opened}{inside}</section>{text[part.end() :]}"
    return text


def _sphinx(to: Language | None, out: Path) -> subprocess.Popen[bytes]:
    source = _folder(to)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(SITE), "-q", "-W"]
    command += ["--keep-going", "-d", str(BUILD / f"doctrees-{source.name}")]
    if to is not None:
        command += [f"-Dlanguage={to.html.replace('-', '_')}", f"-Dhtml_title={to.title}"]
        out = out / to.folder.name
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.Popen([*command, str(source), str(out)], env=environment)


def _folder(to: Language | None) -> Path:
    return SOURCE if to is None else BUILD / to.folder.name


def sources(to: Language | None = None) -> dict[Path, str]:
    """The sources of all pages, in English or in another language."""
    lessons, files = sorted(SOLUTIONS.glob("*/*.ipynb")), {}
    with speaking(to.folder.name if to else ""):
        for path in [*sorted(SOLUTIONS.glob("*.ipynb")), *lessons]:
            try:
                page = nbformat.writes(lesson_page(path, to))
            except ValueError as error:
                name = path.relative_to(ROOT)
                remedy = f"Run python -m tools.editions {name}"
                raise SystemExit(f"{name}: {error}. {remedy}") from None
            files[_folder(to) / path.relative_to(SOLUTIONS)] = page
        for name, text in site_exercises.pages(lessons, to):
            files[_folder(to) / name] = f"{text}\n{other_languages(name, to)}\n"
    return files


def static_files() -> dict[Path, str]:
    """The widgets' scripts, as texts, their style sheets, and the start page's parameters."""
    (start,) = (state for states in live.kept(START).values() for state in states)
    files = {STATIC / "start.js": f"globalThis.courseStart = {json.dumps(start['buffers'])};\n"}
    for name, widget in live.WIDGETS.items():
        text = json.dumps(_text(widget._esm), ensure_ascii=False)
        files[STATIC / f"{name}.js"] = f"(globalThis.courseWidgets ??= {{}}).{name} = {text};\n"
        files[STATIC / f"{name}.css"] = _text(widget._css)
    return files


def _text(source: Any) -> str:
    return source.read_text(encoding="utf-8") if isinstance(source, Path) else str(source)


# ---------------------------------------------------------------- one lesson


def lesson_page(path: Path, to: Language | None = None) -> NotebookNode:
    """Return a notebook of solutions/ as the site shows it, in English or another language."""
    name = path.relative_to(SOLUTIONS)
    text = path.read_text(encoding="utf-8")
    if to is not None:
        text = json.dumps(translated(json.loads(text), place(to.folder, path), to.stale))
    solved = nbformat.reads(text, as_version=4)
    asked = nbformat.read(NOTEBOOKS / name, as_version=4)
    states, runs = live.kept(path), one_run.kept(path)
    cells: list[NotebookNode] = []
    explained = False
    for cell, student in zip(solved.cells, asked.cells, strict=True):
        if cell.cell_type == "markdown":
            cells.append(new_markdown_cell(_linked(cell.source, path), id=cell.id))
            continue
        outputs = [_to_read(cell, output) for output in _outputs(cell, states.get(cell.id, []))]
        if cell.id in runs:
            note, *ran = one_run.shown(runs[cell.id])
            outputs = [note, *(_to_read(cell, output) for output in _to_anybody(ran))]
        elif outputs and "measured" in cell.metadata.get("tags", []):
            outputs = one_run.shown(outputs)
        shown = _code(student.source, cell)
        if "### BEGIN SOLUTION" in cell.source:
            answer = STUB.sub("", MARKERS.sub("", AS_FOUND.sub("", cell.source)))
            cells += [shown, _folded(answer, "Show a solution", outputs, f"{cell.id}-solution")]
            continue
        shown.outputs = outputs
        cells.append(shown)
        checked = CHECK.match(cell.source)
        if checked and not explained and (example := example_of(checked[1])):
            cells += example
            explained = True
    if path.parent == SOLUTIONS:
        page = _start(cells, to) if path.name == "index.ipynb" else cells
    else:
        page = [cells[0], new_markdown_cell(how_to(name), id="how-to"), *cells[1:]]
    page.insert(0, new_markdown_cell(other_languages(name, to), id="languages"))
    metadata = {**solved.metadata, "mystnb": {"execution_mode": "off"}}
    metadata.pop("widgets", None)
    return nbformat.v4.new_notebook(cells=page, metadata=metadata)


def example_of(exercise_id: str) -> list[NotebookNode]:
    """The likeliest wrong program for an exercise and its card; nothing for a quiz."""
    exercise = catalogue().find(exercise_id)
    if exercise is None:
        return []
    wrong = next((m for m in exercise.misconceptions if m.program), None)
    if wrong is None or wrong.program is None:
        return []
    card = _card(exercise, wrong.answer)
    text = site_exercises.COMMENT.sub("", wrong.program.text)
    code = f'{text.strip()}\n\ncheck("{exercise_id}", {exercise_id})'
    shown = new_code_cell(
        code,
        id=f"{exercise_id}-wrong"[:64],
        outputs=[new_output("display_data", {"text/html": card})],
    )
    return [new_markdown_cell(localised(FOR_EXAMPLE), id=f"{exercise_id}-card"[:64]), shown]


def _card(exercise: Exercise, answer: object) -> str:
    """The card for a wrong answer, kept until something that it can depend on changes."""
    kept = CARDS / f"{exercise.id}-{digest(_behind_cards(language()).encode())[:16]}.html"
    if not kept.exists():
        card = check_exercise(exercise, answer, catalogue=catalogue())._repr_html_()
        CARDS.mkdir(parents=True, exist_ok=True)
        kept.write_text(card, encoding="utf-8")
    return kept.read_text(encoding="utf-8")


@cache
def _behind_cards(spoken: str) -> str:
    folders = ("whywrong/**/*", "exercises/**/*", "course_utils/**/*.py", "constraints.txt")
    patterns = (*folders, f"translations/{spoken or '-'}/strings/*")
    paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return digest(*(p.read_bytes() for p in paths if p.is_file() and p.suffix != ".pyc"))


def _code(source: str, cell: NotebookNode) -> NotebookNode:
    folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    if source.startswith(first_cell.BEGINS):
        return new_code_cell("", id=cell.id, metadata={"tags": ["remove-cell"]})
    if folded:
        return _folded(source, "Show the imports", [], cell.id)
    return new_code_cell(source, id=cell.id)


def _folded(source: str, prompt: str, outputs: list[NotebookNode], id: str) -> NotebookNode:
    shown = {"code_prompt_show": localised(prompt), "code_prompt_hide": localised(HIDE[prompt])}
    metadata = {"tags": ["hide-input"], "mystnb": shown}
    return new_code_cell(source, id=id, metadata=metadata, outputs=outputs)


def _outputs(cell: NotebookNode, states: list[live.State]) -> list[NotebookNode]:
    """The stored outputs, each table of a map or an explorer with what the live one needs.

    Raises:
        ValueError: what is kept is not what the tables show.
    """
    outputs, waiting = [], list(states)
    if [state["table"] for state in states] != live.tables(cell):
        raise ValueError(f"cell {cell.id}: what site/live/ keeps of its maps is of another run")
    for output in cell.outputs:
        page = output.get("data", {}).get("text/html", "")
        if live.is_live("".join(page)):
            output = new_output("display_data", {"text/html": _alive(page, waiting.pop(0))})
        elif live.PYTHON_ONLY in page:
            output = new_output(
                "display_data", {"text/html": f"{_in_words(page)}<p>{localised(NO_KERNEL)}</p>"}
            )
        elif output.get("data") and not "".join(map(str, output.data.values())).strip():
            continue  # where the widget was
        elif '.ipynb"' in page:  # of `progress()`
            page = re.sub(r'(href="[^":]+)\.ipynb"', r'\1.html"', page)
            output = new_output("display_data", {"text/html": page})
        outputs.append(output)
    return _to_anybody(outputs)


def _to_anybody(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Leave out the lines that are true of a reader who has solved exercises."""
    for output in outputs:
        if output.output_type == "stream":
            output.text = OF_A_READER.sub("", output.text)
    return [output for output in outputs if output.get("text") != ""]


def _to_read(cell: NotebookNode, output: NotebookNode) -> NotebookNode:
    """Return an output for reading: without requests to type, and without cards of stubs."""
    page = "".join(output.get("data", {}).get("text/html", ""))
    checked, recalled = CHECK.match(cell.source), RECALL.match(cell.source)
    if checked and any(EXERCISES.glob(f"*/*/{checked[1]}.md")):
        where = f"../exercises/{checked[1]}.html"
        card = localised("In the notebook, a card with your points appears here. For teachers:")
        page = f'<p>{card} <a href="{where}">{localised("what it can say")}</a>.</p>'
    elif recalled:
        kept = kept_back()[recalled[1]]["recall"]
        pairs = zip(kept["answers"], kept["because"], strict=True)
        lines = "".join(
            f"<li><code>{html.escape(str(answer))}</code>. {html.escape(localised(why))}</li>"
            for answer, why in pairs
        )
        page = (
            f"<details><summary>{localised('Show the answers')}</summary><ol>{lines}</ol></details>"
        )
    elif NONE_YET in page:
        page = page.replace(html.escape(NONE_YET), localised("Think first, then read on."))
        page = page.replace("Or show the result.", localised("The result"))
        page = _explained(page)
    elif language() and output.output_type == "stream":
        return new_output("stream", name=output.name, text=localised(output.text))
    elif not (language() and page):
        return output
    return new_output("display_data", {"text/html": _in_words(page)})


def _in_words(page: str) -> str:
    """Translate an output, which is stored in English, text by text; pictures only in words."""
    if not language():
        return page
    page = WORDS.sub(lambda of: f'{of[1]}="{html.escape(_label(html.unescape(of[2])))}"', page)
    parts = UNREAD.split(page)
    parts[::2] = (TEXT.sub(_text_in_words, part) for part in parts[::2])
    return "".join(parts)


def _label(text: str) -> str:
    """Translate a text alternative, which may be a list of steps."""
    steps = text.removesuffix(".").split("; ")
    return localised(text) if len(steps) == 1 else f"{'; '.join(map(localised, steps))}."


def _text_in_words(text: re.Match[str]) -> str:
    return html.escape(localised(html.unescape(text[0])), quote=False)


def _explained(page: str) -> str:
    """Translate the explanations below results, which are stored in English."""
    if language():
        for lesson in kept_back().values():
            for why in lesson.get("why", {}).values():
                stored = html.escape("\n".join(textwrap.wrap(why, 90)))
                page = page.replace(stored, html.escape(localised(why)))
    return page


def _alive(table: str, state: live.State) -> str:
    if state["widget"] == "Explorer":
        # A page knows nothing about its reader, and its address says what is shown.
        state["state"] |= {"_built": None, "_linked": True}
        onward = state["state"].get("_onward", "")
        state["state"]["_onward"] = onward.replace(".ipynb", ".html")
    extra = ""
    if state["state"].get("_pairs"):
        # The first button works at once; what the model needs besides may come later.
        state["state"]["_measured"] = playground(state["state"]["text"]).measured()
        version = digest(json.dumps(state.pop("buffers")).encode())[:8]
        load = f'<script defer="defer" src="_static/start.js?v={version}"></script>'
        extra = f"<script>{explorer.BOX}</script>{load}"
    if "_data" in state["state"]:
        state["state"]["_data"]["colours"] = colours.for_the_page()
    if language():
        state["state"]["_said"] = sentences_of_the_page()
    shown, rest = (
        json.dumps(part, ensure_ascii=False, sort_keys=True).replace("</", "<\\/")
        for part in (state.pop("state"), state)
    )
    return (
        f'<div class="course-live"><script type="application/json">{shown}</script>{extra}'
        f'<div class="course-table">{_in_words(table)}</div>'
        f'<script type="application/json">{rest}</script></div>'
    )


def _linked(text: str, path: Path) -> str:
    """Links to files beside the lessons lead to the repository, or are their names alone."""

    def led(match: re.Match[str]) -> str:
        target = (path.parent / match[1]).resolve()
        if (
            match[2] and target.suffix == ".ipynb"
        ):  # Jupyter's anchors keep capitals, Sphinx's don't
            return f"]({match[1]}{match[2].lower()})"
        if "://" in match[1] or not target.exists() or SOLUTIONS in target.parents:
            return match[0]
        address = repository()
        place = target.relative_to(ROOT).as_posix()
        return f"]({address}/blob/main/{place})" if address else f"] (`{place}`)"

    if path.name == "glossary.ipynb":
        text = re.sub(r"^### ", "## ", text, flags=re.M)
    linked = LINK.sub(led, text)
    return re.sub(r"\[([^\]\[]+)\] (\(`[^`]+`\))", r"\1 \2", linked)


# ---------------------------------------------------------------- what the site adds


def how_to(name: Path) -> str:
    """How to do the exercises of a lesson, with links if the repository's address is known."""
    place = f"notebooks/{name.as_posix()}"
    static = "../" * (len(name.parts) - 1) + "_static"
    if language():
        place = f"translations/{language()}/{place}"
    badges = "".join(
        f'<a href="{html.escape(link)}">'
        f'<img src="{static}/{file}.svg" alt="{alt}" height="20"></a>\n'
        for link, file, alt in (
            (binder(place), "binder", "Open this lesson on Binder"),
            (colab(place), "colab", "Open this lesson in Colab"),
        )
        if link and not (file == "colab" and language())  # Colab opens only committed files
    )
    address = repository()
    lab = f"make lab COURSE_LANGUAGE={language()}" if language() else "make lab"
    clone = f"`git clone {address}`, then `{lab}` in its folder" if address else f"`{lab}`"
    where = f"open the lesson in a browser,\n\n{badges}\n\nor" if badges else "open the lesson"
    about = localised(
        "Maps and models on it work; code does not run, and nothing checks your answers. To do the "
        f"exercises, {where} on your own computer: {clone}. Its file is `{place}`."
    )
    title = localised("This page is for reading")
    return f":::{{admonition}} {title}\n:class: how-to\n{about}\n:::"


def other_languages(name: Path, to: Language | None) -> str:
    """Return links from a page to the same page in English and in the languages that have it."""
    up = "../" * (len(name.parts) - 1 + (to is not None))
    page = name.with_suffix(".html").as_posix()
    others = [(f"{up}{page}", "en", "English")] if to else []
    others += [
        (f"{up}{one.folder.name}/{page}", one.html, one.name)
        for one in languages()
        if one != to and (has(one, SOLUTIONS / name) if name.suffix == ".ipynb" else complete(one))
    ]
    links = (
        f'<a href="{at}" lang="{code}" hreflang="{code}">{name}</a>' for at, code, name in others
    )
    return f'<p class="languages">{" · ".join(links)}</p>'


def _start(cells: list[NotebookNode], to: Language | None = None) -> list[NotebookNode]:
    """The start page: the model first, no cell to run, and the table of contents."""
    first = cells[0]
    first.source = first.source.rpartition("\n\n")[0]  # there is no cell to select
    shown = [c for c in cells if c.cell_type == "markdown" or c.outputs]
    shown = [c for c in shown if "progress()" not in c.source]
    for cell in shown:
        if cell.cell_type == "code":
            cell.metadata = NotebookNode(tags=["remove-input"])
    lessons = sorted(p.relative_to(SOLUTIONS).as_posix() for p in SOLUTIONS.glob("*/*.ipynb"))
    toctree = ":::{toctree}\n:hidden:\n:caption: "
    toc = "\n".join([f"{toctree}{localised('Lessons')}\n", *lessons, ":::"])
    toc += f"\n\n{toctree}{localised('Besides')}\n\nglossary.ipynb\nexercises/index.md\n:::"
    place = Path("index.ipynb")
    way_in = new_markdown_cell(how_to(place), id="how-to")
    card = example_of(ON_THE_START_PAGE)
    return [*shown[:3], *card, way_in, *shown[3:], new_markdown_cell(toc, id="toc")]


if __name__ == "__main__":
    status = build()
    if status == 0:
        print(f"The site is in {HTML.relative_to(ROOT)}: open {HTML.relative_to(ROOT)}/index.html")
    sys.exit(status)
