"""`python -m tools.sentences`: what checks and figures say, in the other languages.

`translations/LANGUAGE/strings/` has one JSON file per lesson, with the sentences of its hints,
figures and cards; `frame.json` has those of the engine and the desk, whose parts in braces stand
for names and numbers. A sentence that isn't there stays English: see `whywrong/_course.py`.

    python -m tools.sentences 01             how many of lesson 01 are translated, and what is wrong
    python -m tools.sentences --missing 01   also adds the missing ones to its file, with ""; if
                                             only the English has changed, with both old texts
    python -m tools.sentences --still-true 01   the old translations are right for the new English

The file `common.json` has the cards that every exercise can show: `--missing common`. For a new
language, `--missing frame page` takes the English of its frame from the other languages.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import cycle, pairwise, product
from pathlib import Path

from course_utils.desk.kept_back import kept_back
from whywrong._course import PLACEHOLDER, Strings, localised_line, sentences_of
from whywrong._judging import meanings
from whywrong._texts import shared_sentences
from whywrong.hosting import catalogue

from . import ROOT, SOLUTIONS
from .translations import Language, differences, languages, notebooks

KINDS = (
    *("hints", "captions", "properties", "reasons", "cases", "misconceptions", "drawings"),
    *("sentences of code", "sentences of widgets"),
)
DRAWINGS = ROOT / "course_utils" / "show" / "drawings" / "texts.toml"
COMMON = "common"  # to every exercise: errors of Python and PyTorch, and usual mistakes
USUAL = ROOT / "whywrong" / "usual.md"
FRAME = dict(zip(("frame", "page"), KINDS[-2:], strict=True))
# The code whose sentences these files may contain.
SPEAKERS = (
    "whywrong",
    "course_utils/desk",
    "course_utils/show",
    "course_utils/experiments",
    "whywrong_nbgrader/preprocessors.py",
    "tools/one_run.py",
    "tools/site.py",
    "tools/site_exercises.py",
)
# Of these, what no reader sees, and why.
NOT_FOR_READERS = {
    "whywrong/_texts.py": "tells an author what is wrong in an exercise's file",
    "whywrong/_catalogue.py": "tells an author what is wrong in an exercise's file",
    "course_utils/show/start": "words of the toy language",
    "course_utils/desk/translated.py": "a command of those who set up the course",
    "course_utils/desk/lessons.py": "a command, before there is a folder with a language",
}
NOT_SAID = {
    r".*[<>\\].*|.*: ?[^ ]*;.*": "HTML, a style, a pattern or a script",
    r".*\dpx .*|.*\dem .*": "a style",
    r"(upper|center|lower|outside|offset|row|wrong) \w+( \w+)?": "a place, or a class in HTML",
    r"import math\n.*|def .*|export const.*|make lab.*|Write check.*": "code",
    r"NameError: name .*|not implemented|still running after.*|in the TorchScript .*": "recognised",
    r"\. Did you mean: .*": "what Python adds to an error",
    r"two devices|float32 of float64": "a mark that the check keeps for itself",
    r"No description has been.*|\*\*About this submission.*": "for a class's instructor",
    r"The site is in .*|Run python -m tools.*": "of a command for authors",
    r"… of …\.": "said as “{points:g} of {total:g} points.”",
    r"Maps and models on it work.*": "said in one part or in two, around badges",
    r"the small black cat .*|the cat sings": "an example in the language that it is about",
    r"Open this lesson (on Binder|in Colab)": "a name, on the badge of a service",
    r"loss \(nats.*|.*(kept for backward|MiB kept|vectors kept|and range of|rad a token).*"
    r"|share right|nan values|without a cache.*|decode: write.*|tokens T so far.*"
    r"|the blank before the word|the same before|as in 2017": "drawn in a picture",
}
MOST = 0.5
VARIES = "{}"
LETTERS, PROSE = re.compile(r"[A-Za-z]{2}"), re.compile(r"[A-Za-z]{2,} [a-z]")
# For what varies in a sentence: numbers, words, values and a sentence.
SAMPLES = "3", "x", "a word", "(3, 4)", "[1, 2]", "Think first, then read on."
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
    put("captions", path.stem.replace("_", " "))  # as `progress()` shows it
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
    files[DRAWINGS.parent.name] = dict.fromkeys(_of_drawings(), "drawings")
    for name, kind in FRAME.items():
        files[name] = dict.fromkeys(_of_the_frame(name), kind)
    return files


def _of_the_frame(name: str) -> Iterator[str]:
    """Yield the program's sentences that some language has: `untold` finds the others."""
    for to in languages():
        yield from filter(is_said, _content(to, name))


def _of_drawings() -> Iterator[str]:
    for text in tomllib.loads(DRAWINGS.read_text(encoding="utf-8")).values():
        yield from filter(None, (text["title"], " ".join(text.get("alt", "").split())))
        yield from (step for step in text.get("steps", ()) if " " in step.partition(":")[0])


def kept(to: Language, name: str) -> dict[str, str]:
    """Return the translated sentences of a file."""
    found = _content(to, name).items()
    return {english: own for english, own in found if own and isinstance(own, str)}


def waiting(to: Language) -> dict[str, tuple[str, str]]:
    """Return the sentences with a translation of an earlier text: both of these."""
    files = (to.folder / "strings").glob("*.json")
    found = (entry for file in files for entry in _content(to, file.stem).items())
    return {english: (own[0], own[1]) for english, own in found if isinstance(own, list)}


def _content(to: Language, name: str) -> dict[str, str | list[str]]:
    file = to.folder / "strings" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def put_missing(to: Language, name: str, known: Mapping[str, str]) -> None:
    """Rewrite a lesson's file in the order of the lesson.

    A sentence without a translation gets that of the most similar one that nothing says any more,
    as `[English, translation]`, or "" if there is none.

    Args:
        known: the translated sentences of all files, from which some may have moved here.
    """
    own = _content(to, name)
    unused = [e for e, o in own.items() if e not in wanted()[name] and isinstance(o, str) and o]
    content: dict[str, str | list[str]] = {}
    for english in wanted()[name]:
        content[english] = own.get(english) or known.get(english, "")
        if not content[english] and (near := difflib.get_close_matches(english, unused, 1)):
            content[english] = [near[0], kept(to, name)[near[0]]]
    if content != own:
        _write(to, name, content)


def still_true(to: Language, name: str) -> None:
    """Take the translations of earlier texts for those of the texts of today."""
    own = _content(to, name)
    _write(to, name, {e: o if isinstance(o, str) else o[1] for e, o in own.items()})


def _write(to: Language, name: str, content: dict[str, str | list[str]]) -> None:
    file = to.folder / "strings" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, indent=1)
    file.write_text(f"{text}\n", encoding="utf-8")


def problems(to: Language) -> list[str]:
    """Return what is wrong in the sentences of a language."""
    found = []
    for file in sorted((to.folder / "strings").glob("*.json")):
        for english, own in kept(to, file.stem).items():
            shown, meant = (PLACEHOLDER.sub(ANYTHING, text) for text in (own, english))
            wrong = differences(meant, shown, to)
            if file.stem == DRAWINGS.parent.name:  # names of parts, as in the picture
                wrong = [line for line in wrong if not line.startswith("term: ")]
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


def untold(to: Language) -> list[str]:
    """Return what the program can say to a reader, but not in this language.

    A text that `localised` is called with must be translated as it is; of other texts, such as
    parts of a sentence, all pairs of words must occur in what is translated.
    """
    known = Strings(sentences_of(to.folder))
    pieces = (piece for english in known.exact for piece in PLACEHOLDER.split(english)[::3])
    pairs = {pair for piece in pieces for pair in pairwise(_words(piece))}
    found = []
    for file, parts, is_argument in literals():
        text = "…".join(parts)
        if not (LETTERS if is_argument else PROSE).search(text):
            continue
        if any(re.fullmatch(pattern, text, re.S) for pattern in NOT_SAID):
            continue
        samples = product(SAMPLES, repeat=len(parts) - 1) if len(parts) < 4 else zip(SAMPLES)
        if any(_known(_filled(parts, sample), known) for sample in samples):
            continue
        if is_argument or not all(pair in pairs for p in parts for pair in pairwise(_words(p))):
            found.append(f"{file}: {text!r}")
    everything = {english for sentences in wanted().values() for english in sentences}
    return found + sorted(everything - known.exact.keys() - waiting(to).keys())


def _filled(parts: tuple[str, ...], samples: Iterable[str]) -> str:
    return parts[0] + "".join(s + part for s, part in zip(cycle(samples), parts[1:], strict=False))


def _known(text: str, known: Strings) -> bool:
    lines = [line for line in text.split("\n") if LETTERS.search(line)]
    return all(localised_line(line, known) != line for line in lines)


@cache
def literals() -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Return the texts of the Python code that speaks to a reader.

    Returns:
        For each, its file, its parts, between which something varies, and whether it is what
        `localised` is called with.
    """
    found = []
    for folder in SPEAKERS:
        for path in sorted((ROOT / folder).rglob("*.py")) or [ROOT / folder]:
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(tuple(NOT_FOR_READERS)):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                found += [(name, parts, said) for parts, said in _literals(tree)]
    return tuple(found)


def _literals(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], bool]]:
    inside: set[ast.AST] = set()  # parts of an f-string, docstrings, and errors for programmers
    arguments: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            inside |= set(ast.walk(node))
        elif isinstance(node, ast.JoinedStr):
            inside |= set(node.values)
            formats = (v.format_spec for v in node.values if isinstance(v, ast.FormattedValue))
            inside |= {part for spec in formats if spec for part in ast.walk(spec)}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "localised",
            "in_words",
        ):
            arguments |= set(node.args)
    for node in ast.walk(tree):
        if node not in inside and _is_text(node):
            yield _parts(node), node in arguments


def _is_text(node: ast.AST) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, ast.JoinedStr)


def _parts(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Constant):
        return (str(node.value),)
    values = node.values if isinstance(node, ast.JoinedStr) else []
    shown = (str(v.value) if isinstance(v, ast.Constant) else VARIES for v in values)
    return tuple("".join(shown).split(VARIES))


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
    return f"{to.folder.name}: {counts}"


def total(to: Language) -> str:
    """Return how many sentences are translated, and how many nothing says any more."""
    everything = [english for sentences in wanted().values() for english in sentences]
    known = sentences_of(to.folder)
    done = sum(bool(known.get(english)) for english in everything)
    counts = f"{done} of {len(everything)} sentences, {len(waiting(to))} stale"
    return f"{counts}, {len(stale(to))} unused"


def main(arguments: list[str]) -> int:
    names = tuple(a for a in arguments if not a.startswith("--"))
    stems = [stem for stem in wanted() if not names or stem.startswith(names)]
    wrong = []
    for to in languages():
        if "--missing" in arguments:
            known = sentences_of(to.folder)
            for stem in stems:
                put_missing(to, stem, known)
        elif "--still-true" in arguments:
            for stem in stems:
                still_true(to, stem)
        print("\n".join([covered(to, stems), *stale(to)]))
        wrong += problems(to)
    print("\n".join(wrong) or "Nothing is wrong in what is translated.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
