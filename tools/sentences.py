"""`python -m tools.sentences`: what checks and figures say, in the other languages.

`translations/LANGUAGE/strings/` has one JSON file per lesson, with the sentences of its hints,
figures and cards; `frame.json` has those of the engine and the desk, whose parts in braces stand
for names and numbers. A sentence that isn't there stays English: see `whywrong/_language.py`.

    python -m tools.sentences 01             how many of lesson 01 are translated, and what is wrong
    python -m tools.sentences --missing 01   also adds the missing ones to its file, with ""

The file `common.json` has the cards that every exercise can show: `--missing common`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from course_utils.desk.guesses import kept_back
from whywrong._language import PLACEHOLDER
from whywrong._texts import meanings, shared_sentences
from whywrong.hosting import catalogue

from . import ROOT, SOLUTIONS
from .translations import Language, differences, languages, notebooks

KINDS = "hints", "captions", "properties", "reasons", "cases", "misconceptions"
COMMON = "common"  # to every exercise: errors of Python and PyTorch, and usual mistakes
USUAL = ROOT / "whywrong" / "usual.md"
FRAME = "frame", "page"  # sentences of Python code, and of widgets
# The code whose sentences these files may contain.
SPEAKERS = (
    "whywrong",
    "course_utils/desk",
    "course_utils/show",
    "course_utils/experiments",
    "tools/one_run.py",
    "tools/site.py",
    "tools/site_exercises.py",
)
MOST = 0.5
ANYTHING = "\N{WORD JOINER}"  # for a placeholder, next to which any mark may be
EXPRESSION = re.compile(r"\$\{[^{}]*\}")  # in a template string of JavaScript
TITLE = re.compile(r'"(Figure \d+ · [^"\n]+)"')


def of_lesson(path: Path) -> dict[str, str]:
    """Return the sentences of a lesson with their kinds, the most important first."""
    number, name = path.stem[:2], path.relative_to(SOLUTIONS).with_suffix("").as_posix()
    exercises = catalogue().by_lesson.get(name, ())
    found: dict[str, str] = {}

    def put(kind: str, *sentences: str) -> None:
        for sentence in sentences:
            if sentence.strip():
                found.setdefault(sentence, kind)

    for exercise in exercises:
        put("hints", *exercise.hints)
    put("captions", *_texts(kept_back().get(number, {})), *_titles(path))
    for exercise in exercises:
        for property in exercise.properties:
            put("properties", property.text, property.breaks)
        put("properties", exercise.rules.forbidden_text)
        for entry in exercise.entries:
            put("reasons", entry.why, entry.ask)
        put("cases", *(case.name for case in exercise.cases(0)))
    for exercise in exercises:
        for misconception in exercise.misconceptions:
            put("misconceptions", *misconception.advice)
    return found


def _texts(kept: object) -> Iterator[str]:
    values = kept.values() if isinstance(kept, dict) else kept if isinstance(kept, list) else ()
    for value in values:
        if isinstance(value, str) and " " in value:
            yield value
        else:
            yield from _texts(value)


def _titles(path: Path) -> list[str]:
    """Return the titles of figures in a lesson's code."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [
        t for c in cells if c["cell_type"] == "code" for t in TITLE.findall("".join(c["source"]))
    ]


@cache
def wanted() -> dict[str, dict[str, str]]:
    """Return the sentences of all cards, each in the file of the first lesson that contains it."""
    advice: list[tuple[str, ...]] = [m.advice for _, m in meanings()]
    advice += [tuple(one.values()) for one in shared_sentences(USUAL).values()]
    files = {COMMON: {text: "misconceptions" for three in advice for text in three if text}}
    seen = set(files[COMMON])
    for path in notebooks():
        if path.parent != SOLUTIONS:
            own = {text: kind for text, kind in of_lesson(path).items() if text not in seen}
            files[path.stem] = own
            seen |= own.keys()
    return files


def kept(to: Language, name: str) -> dict[str, str]:
    """Return the translated sentences of a file."""
    file = to.folder / "strings" / f"{name}.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {english: own for english, own in found.items() if own}


def put_missing(to: Language, name: str) -> None:
    """Rewrite a lesson's file in the order of the lesson, with "" for what is missing."""
    known = kept(to, name)
    file = to.folder / "strings" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    content = {english: known.get(english, "") for english in wanted()[name]}
    text = json.dumps(content, ensure_ascii=False, indent=1)
    file.write_text(f"{text}\n", encoding="utf-8")


def problems(to: Language) -> list[str]:
    """Return what is wrong in the sentences of a language."""
    found = []
    for file in sorted((to.folder / "strings").glob("*.json")):
        for english, own in kept(to, file.stem).items():
            shown, meant = (PLACEHOLDER.sub(ANYTHING, text) for text in (own, english))
            wrong = differences(meant, shown, to)
            if _names(english) != _names(own):
                wrong.append("the placeholders differ")
            found += [f"{_place(file, english)}: {w}" for w in wrong]
    return found


def stale(to: Language) -> list[str]:
    """Return the translated sentences that are no longer in use; no test fails because of them."""
    return [
        f"{_place(file, english)}: nothing says this any more"
        for file in sorted((to.folder / "strings").glob("*.json"))
        for english in kept(to, file.stem)
        if english not in wanted().get(file.stem, ())
        and not (file.stem in FRAME and is_said(english))
    ]


def _place(file: Path, english: str) -> str:
    return f"{file.relative_to(ROOT)}, {english[:60]!r}"


def _names(text: str) -> Counter[str]:
    return Counter(name for name, _ in PLACEHOLDER.findall(text))


def is_said(template: str) -> bool:
    """Return whether the program has most word pairs of a sentence with placeholders.

    Most is enough, because some sentences are put together from several strings.
    """
    pieces = map(_words, PLACEHOLDER.split(template)[::3])
    pairs = [" ".join(pair) for words in pieces for pair in pairwise(words)]
    return sum(pair in program() for pair in pairs) >= MOST * len(pairs)


@cache
def program() -> str:
    """Return all strings of the modules that speak to a reader, and of their scripts."""
    texts = []
    for folder in SPEAKERS:
        for path in sorted((ROOT / folder).rglob("*")) or [ROOT / folder]:
            if path.suffix == ".py":
                nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                constants = (n.value for n in nodes if isinstance(n, ast.Constant))
                texts += [value for value in constants if isinstance(value, str)]
            elif path.suffix in (".js", ".md", ".toml"):
                texts.append(path.read_text(encoding="utf-8").replace("\\n", " "))
    return "\n".join(" ".join(_words(text)) for text in texts)


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", EXPRESSION.sub(" ", text).casefold())


def covered(to: Language, names: list[str]) -> str:
    """Return a line that says how many sentences of each kind are translated."""
    all_, done = Counter[str](), Counter[str]()
    for name in names:
        known = kept(to, name)
        all_.update(wanted()[name].values())
        done.update(kind for english, kind in wanted()[name].items() if english in known)
    counts = ", ".join(f"{done[kind]} of {all_[kind]} {kind}" for kind in KINDS if all_[kind])
    return f"{to.folder.name}: {counts}; {sum(len(kept(to, name)) for name in FRAME)} of the frame"


def main(arguments: list[str]) -> int:
    names = tuple(a for a in arguments if not a.startswith("--"))
    stems = [stem for stem in wanted() if not names or stem.startswith(names)]
    wrong = []
    for to in languages():
        if "--missing" in arguments:
            for stem in stems:
                put_missing(to, stem)
        print("\n".join([covered(to, stems), *stale(to)]))
        wrong += problems(to)
    print("\n".join(wrong) or "Nothing is wrong in what is translated.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
