"""`python -m tools.translations`: the lessons in other languages, kept in step with the English.

A folder `translations/LANGUAGE/` has one text per notebook, with one block per text cell. Each
block is headed by the id of its cell, as in `<!-- 45a4e4bf -->`. This id is a digest of the English
text: once the English has changed, no cell has the old id, so the translation is known to be stale.

    python -m tools.translations 01             what is wrong or missing in lesson 01
    python -m tools.translations --missing 01   also puts the missing cells' English into its file
    python -m tools.translations --still-true 3c7726ac   this cell's earlier translation is right
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

from course_utils.desk.translated import EDITION, HEAD, blocks, build

from . import NOTEBOOKS, ROOT, SOLUTIONS, notebooks_in

TRANSLATIONS = ROOT / "translations"
ENGLISH, BEFORE = "English", "The translation of what was here before"
FUZZY = "<!-- fuzzy: a translation of an earlier text, shown until there is a new one -->"
DIGITS = dict(
    zip(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
        map(str, range(11)),
        strict=True,
    )
)
IN_WORDS = re.compile(rf"\b({'|'.join(DIGITS)})s?\b")  # also zeros and ones
COUNTS = re.compile(
    r"\b(?:no|not|never|one|two|three|four|five|six|seven|eight|nine|ten|half|all)\b"
)

FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$\n]+(?:\n[^$\n]+)?\$", re.S)
WORDS = re.compile(r"(?<=\\text)\{[^{}]*\}")  # words in a formula, which may be translated
TARGET = re.compile(r"(?<=\])\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|https?://[^\s)>，。）]+")
TAG = re.compile(r"</?\w[^>\n]*>")
HEADING = re.compile(r"^(#+) ", re.M)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Not every language has commas between thousands, but each may have spaces that don't break.
THOUSANDS = re.compile("(?<=\\d)[,\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}](?=\\d{3}(?!\\d))")
COUNTED = re.compile(r"(\d+(?:\.\d+)?)(?: (?:minute|point|hour|sitting)s?\b)?")
ROW = re.compile(r"^\|.*\|$", re.M)
PAGE = MarkdownIt()
Terms = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


# ---------------------------------------------------------------- a language's folder


@dataclass(frozen=True)
class Language:
    """The content of `language.toml` and `terms.md` in a language's folder.

    Args:
        folder: its name is the language's code.
        name: the language's name in the language itself.
        title: the title of the course.
        html: the code for pages, such as "zh-CN".
        stale: the line above a cell that is still English.
        changed: the line above a translation of an earlier text.
        never: patterns that no translation contains, and why.
        terms: the English forms of each term, and its translations, one of which must be used.
    """

    folder: Path
    name: str
    title: str
    html: str
    stale: str
    changed: str
    never: Mapping[str, str]
    terms: Terms


def languages() -> list[Language]:
    return [language(path.parent) for path in sorted(TRANSLATIONS.glob("*/language.toml"))]


@cache
def language(folder: Path) -> Language:
    told = tomllib.loads((folder / "language.toml").read_text(encoding="utf-8"))
    table = (folder / "terms.md").read_text(encoding="utf-8").partition("| note |")[2]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in ROW.findall(table)[1:]]
    terms = [(tuple(row[0].split(" / ")), tuple(row[1].split(" / "))) for row in rows]
    known = {key: told[key] for key in ("name", "title", "html", "stale", "changed")}
    return Language(folder, **known, never=told.get("never", {}), terms=tuple(terms))


# ---------------------------------------------------------------- blocks


def cells(path: Path) -> dict[str, str]:
    """Return the English text cells of a notebook, by id."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {c["id"]: "".join(c["source"]) for c in found if c["cell_type"] == "markdown"}


def translated(folder: Path, path: Path) -> dict[str, str]:
    """Return a language's blocks for a notebook of solutions/, by cell id."""
    file = place(folder, path)
    return blocks(file.read_text(encoding="utf-8")) if file.exists() else {}


def place(folder: Path, path: Path) -> Path:
    inside = SOLUTIONS in path.parents
    name = path.relative_to(SOLUTIONS) if inside else Path(path.parent.name, path.name)
    return (folder / name).with_suffix(".md")


def put_missing(to: Language, path: Path) -> int:
    """Rewrite a notebook's file in the order of its cells, with the English of missing ones.

    The translation of an earlier text in the same place is kept: it is shown below a line that says
    so if numbers, code and the like have stayed, else it is in a comment below the English. A file
    in which nothing is missing stays as it is.

    Returns:
        The number of cells without a translation.
    """
    folder, english, done = to.folder, cells(path), translated(to.folder, path)
    were, kept = earlier(path), raw(to, path)
    before: dict[str, tuple[str, str]] = {}
    old, new = list(done), list(english)
    for _, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        unused = [(id, done[id]) for id in old[a:b] if id not in english]
        missing = [id for id in new[c:d] if id not in done]
        before |= dict(zip(missing, unused, strict=False))
    parts = []
    for id, text in english.items():
        said = f"<!-- {ENGLISH}:\n{text}\n-->"
        if id in done and FUZZY not in kept[id]:
            said = done[id]
        elif id in kept:
            said = kept[id]
        elif id in before and only_prose(were.get(before[id][0], ""), text):
            said = f"{FUZZY}\n{to.changed}\n\n{before[id][1]}\n{said}"
        elif id in before:
            said += f"\n<!-- {BEFORE}:\n{before[id][1]}\n-->"
        parts.append(f"<!-- {id} -->\n{said}\n")
    file, text = place(folder, path), "\n".join(parts)
    if not file.exists() or file.read_text(encoding="utf-8").split() != text.split():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return sum(id not in done for id in english)


def raw(to: Language, path: Path) -> dict[str, str]:
    """Return a language's blocks for a notebook with their comments, by cell id."""
    file = place(to.folder, path)
    parts = HEAD.split(file.read_text(encoding="utf-8"))[1:] if file.exists() else []
    return {id: body.strip() for id, body in zip(parts[::2], parts[1::2], strict=True)}


def earlier(path: Path) -> dict[str, str]:
    """Return the English text cells of the last commit, by id; empty if there is none."""
    name = Path(os.path.relpath(path, ROOT)).as_posix()
    git = ["git", "-C", str(ROOT), "show", f"HEAD:{name}"]
    shown = subprocess.run(git, capture_output=True, text=True, encoding="utf-8")
    found = json.loads(shown.stdout)["cells"] if shown.returncode == 0 else []
    return {c["id"]: "".join(c["source"]) for c in found if c["cell_type"] == "markdown"}


def only_prose(before: str, now: str) -> bool:
    """Return whether numbers, also in words, negations, code, formulas and links have stayed."""
    a, b = ({**_kept(t), "counts": Counter(COUNTS.findall(t.casefold()))} for t in (before, now))
    return bool(before) and a == b


def still_true(to: Language, ids: Collection[str]) -> int:
    """Take the earlier translations of these cells for those of the texts of today."""
    count = 0
    for path in notebooks():
        file = place(to.folder, path)
        for id, body in raw(to, path).items():
            if id in ids and body.startswith(FUZZY):
                said = blocks(f"<!-- {id} -->\n{body}")[id].removeprefix(to.changed).strip()
                text = file.read_text(encoding="utf-8").replace(body, said)
                file.write_text(text, encoding="utf-8")
                count += 1
    return count


# ---------------------------------------------------------------- what a translation must keep


def differences(english: str, said: str, to: Language) -> list[str]:
    """List what a cell's translation changes but must not change; empty if all is well."""
    ours, theirs = _kept(english), _kept(said)
    found = []
    for what in ours:
        missing, extra = ours[what] - theirs[what], theirs[what] - ours[what]
        if what == "number":  # a digit may stand for a number word
            extra -= Counter(DIGITS[word] for word in IN_WORDS.findall(english.casefold()))
        for name, counted in (("missing", missing), ("too many", extra)):
            if counted:
                found.append(f"{what} {name}: {', '.join(sorted(counted.elements()))}")
    if HEADING.findall(_prose(english)) != HEADING.findall(_prose(said)):
        found.append("heading levels differ")
    words = _prose(said)
    for forms, answers in _used(english, to):
        if not any(answer.casefold() in said.casefold() for answer in answers):
            found.append(f"term: {forms[0]} is {' / '.join(answers)}")
    for pattern, why in to.never.items():
        found += [f"{why}: {match[0]!r}" for match in re.finditer(pattern, words)]
    return found


def _kept(text: str) -> dict[str, Counter[str]]:
    fenced = FENCED.findall(text)
    rest = FENCED.sub(" ", text)
    code = [match[2] for match in CODE.finditer(rest)]
    rest = CODE.sub(" ", rest)
    formulas = [re.sub(r"\s+", " ", WORDS.sub("", f)) for f in FORMULA.findall(rest)]
    rest = FORMULA.sub(" ", rest)
    targets = TARGET.findall(rest)
    rest = TARGET.sub(" ", rest)
    return {
        "code": Counter(fenced + code),
        "formula": Counter(formulas),
        "link": Counter(targets),
        "tag": Counter(TAG.findall(rest)),
        "number": Counter(NUMBER.findall(THOUSANDS.sub("", TAG.sub(" ", rest)))),
        **_emphasis(text),
        "table row": Counter("|" for _ in ROW.findall(rest)),
    }


def _emphasis(text: str) -> dict[str, Counter[str]]:
    """Count what a page shows in bold or italics; stars next to punctuation may stay stars."""
    for pattern in (FENCED, CODE, FORMULA):
        text = pattern.sub("x", text)
    page = PAGE.render(text)
    names = {"bold": "strong", "emphasis": "em"}
    counts = {what: Counter([f"<{tag}>"] * page.count(f"<{tag}>")) for what, tag in names.items()}
    return counts | {"star that is no emphasis": Counter(re.findall(r"\*+", page))}


def _prose(text: str) -> str:
    """Replace code, formulas and addresses in a text by a mark, so that words don't join."""
    for pattern in (FENCED, CODE, FORMULA, TARGET):
        text = pattern.sub("\N{OBJECT REPLACEMENT CHARACTER}", text)
    return TAG.sub("\n", text)


def _used(english: str, to: Language) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Find the terms in an English text; "attention weights" isn't also found as "weights"."""
    text = _prose(english)
    for pattern, forms, answers in _longest_first(to.terms):
        text, count = pattern.subn("\n", text)
        if count:
            yield forms, answers


@cache
def _longest_first(terms: Terms) -> list[tuple[re.Pattern[str], tuple[str, ...], tuple[str, ...]]]:
    return [
        (_any_of(forms), forms, answers)
        for forms, answers in sorted(terms, key=lambda term: -max(map(len, term[0])))
    ]


def _any_of(forms: tuple[str, ...]) -> re.Pattern[str]:
    escaped = map(re.escape, sorted(forms, key=len, reverse=True))
    words = "|".join(e.replace(r"\ ", r"[\s-]+").replace(r"\-", r"[\s-]") for e in escaped)
    return re.compile(rf"(?<![\w-])(?:{words})(?:s|es)?(?![\w-])", re.I)


# ---------------------------------------------------------------- all notebooks


def notebooks(begins: tuple[str, ...] = ("",)) -> list[Path]:
    """Return the notebooks of solutions/ whose names begin in one of these ways."""
    return [path for path in notebooks_in(SOLUTIONS) if path.name.startswith(begins)]


def problems(to: Language, path: Path) -> list[str]:
    """Return what is wrong in the translations of one notebook, cell by cell."""
    english = cells(path)
    return [
        f"{place(to.folder, path).relative_to(ROOT)}, {id}: {wrong}"
        for id, said in translated(to.folder, path).items()
        if id in english and FUZZY not in raw(to, path)[id]
        for wrong in differences(english[id], said, to)
    ]


def coverage(to: Language, path: Path) -> tuple[int, int, int]:
    """Count the translated text cells, all text cells, and the blocks whose cell has changed."""
    english, done = cells(path), translated(to.folder, path).keys()
    old = {id for id, body in raw(to, path).items() if body.startswith(FUZZY)}
    return len((english.keys() & done) - old), len(english), len((done - english.keys()) | old)


def covered(to: Language, paths: list[Path]) -> Iterator[str]:
    """Yield one line per notebook, and a last line with the sums."""
    counts = [coverage(to, path) for path in paths]
    for path, (done, all_, old) in zip(paths, counts, strict=True):
        said = f", {old} of an earlier text" if old else ""
        yield f"{to.folder.name} {path.stem:26} {done:3} of {all_:3} cells{said}"
    yield total(to, paths)


def total(to: Language, paths: list[Path]) -> str:
    """Return a line that says how many text cells are translated."""
    done, all_, old = map(sum, zip(*(coverage(to, path) for path in paths), strict=True))
    return f"{to.folder.name}: {done} of {all_} text cells in {to.name}, {old} stale"


def follow(path: Path, before: list[str], after: list[str]) -> None:
    """Update translations of cells in which nothing but counted minutes and points has changed.

    Args:
        path: a notebook of solutions/.
        before, after: the texts of its cells, in the same order.
    """
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    for to in languages():
        own, file = translated(to.folder, path), place(to.folder, path)
        for a, b in changed:
            old, new = text_id(a), text_id(b)
            said = recounted(own.get(old, ""), a, b)
            if said:
                text = file.read_text(encoding="utf-8").replace(own[old], said, 1)
                text = text.replace(f"<!-- {old} -->", f"<!-- {new} -->", 1)
                file.write_text(text, encoding="utf-8")


def recounted(said: str, before: str, after: str) -> str:
    """Return a translation with the new text's numbers; "" if more has changed, or in doubt."""
    if COUNTED.sub("#", before) != COUNTED.sub("#", after):
        return ""
    numbers = [[m[1] for m in COUNTED.finditer(text)] for text in (before, after)]
    for old, new in zip(*numbers, strict=True):
        if old != new:
            said, count = re.subn(rf"(?<![\d.]){re.escape(old)}(?![\d.]*\d)", new, said)
            if count != 1:
                return ""
    return said


def text_id(text: str) -> str:
    """Return the id that `editions` gives to a text cell."""
    return hashlib.sha1(f"markdown\n{text}".encode()).hexdigest()[:8]


def has(to: Language, path: Path) -> bool:
    """Return whether anything in a notebook is translated."""
    return bool(translated(to.folder, path))


def complete(to: Language) -> bool:
    """Return whether a language has all lessons; one that is being added has only some."""
    return all(has(to, path) for path in notebooks())


def build_editions() -> None:
    """Write the student edition in all languages, and overwrite the existing one."""
    for to in languages():
        build(to.folder, to.folder / EDITION, NOTEBOOKS, again=True)


def main(arguments: list[str]) -> int:
    put = "--missing" in arguments
    if "--still-true" in arguments:
        counts = [still_true(to, arguments) for to in languages()]
        print(f"{sum(counts)} cells are right as they are.")
        return 0
    paths = notebooks(tuple(a for a in arguments if not a.startswith("--")) or ("",))
    wrong = []
    for to in languages():
        if put:
            for path in paths:
                put_missing(to, path)
                print(place(to.folder, path).relative_to(ROOT))
        wrong += [line for path in paths for line in problems(to, path)]
        print("\n".join(covered(to, paths)))
    print("\n".join(wrong) or "Nothing is wrong in what is translated.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
