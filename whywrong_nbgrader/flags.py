"""Flags for a person: answers that may be someone else's work. They cost no points.

An answer's compiled code is compared with the course's finished part, and its text with published
solutions and with other answers. docs/attacks.md says what these comparisons can't find.
"""

from __future__ import annotations

import inspect
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from whywrong.hosting import catalogue, names_written

from .classroom import Classroom, Work
from .helper import TooMuch, helper
from .reading import read
from .restoring import Released
from .submissions import handed_out, lesson, released

# With fewer prints of a text, or instructions of a program, two people may write the same.
TELLING, TELLING_CODE, USUAL_CODE = 30, 30, 15
ALIKE = 0.8  # the share of an answer's prints that the other text has, too
COMMON = 0.05  # a print that a larger share of the class has is ignored
PART = 1 / 8  # of a student's prints: in many answers, what two people write alike adds up
MOSTLY = 0.6  # of a longer text, or of all that is published: who has so much has taken it
INDENTED = re.compile(r"^[ \t]+(?:def|class) +(\w+)", re.M)  # for example below `if True:`
AT_ONCE = 100  # texts per request

Prints = Mapping[str, frozenset[int]]  # of an answer, by exercise


def flagged(classroom: Classroom) -> dict[str, list[str]]:
    """What a person should look at, in words, by student."""
    said: dict[str, list[str]] = defaultdict(list)
    for work in classroom.works:
        _compiled(work, said[work.student])
    given = _handed_out(classroom)
    published = _published(classroom)
    written = {(w.student, id): text for w in classroom.works for id, text in answers(w).items()}
    finished = {id: _finished(id) for _, id in written}
    texts = {*written.values(), *given.values(), *published.values(), *finished.values()}
    prints, stuck = printed(texts)
    for (student, id), text in written.items():
        if text in stuck:
            said[student].append(f"{id} takes too much time or memory to parse")
    own: dict[str, dict[str, frozenset[int]]] = defaultdict(dict)
    for (student, id), text in written.items():
        if _is_telling(id):
            own[student][id] = prints[text] - prints[given.get(id, "")]
    known = {
        id: [prints[text] - prints[given.get(id, "")] for text in (published.get(id, ""), part)]
        for id, part in finished.items()
        if _is_telling(id)
    }
    all_known = sum(max(map(len, texts)) for texts in known.values())
    rare = _without_common(own)
    enough = {s: max(TELLING, PART * sum(map(len, found.values()))) for s, found in own.items()}
    theirs: dict[str, Prints] = {}
    for student, found in own.items():
        taken = _taken(found, known)
        copied = sum(taken.values()) >= max(TELLING, MOSTLY * all_known)
        rarely = _taken({id: rare[student][id] for id in taken}, known)
        if copied or sum(rarely.values()) >= enough[student]:
            said[student].append(f"the text of the published solution: {', '.join(taken)}")
        theirs[student] = {id: text for id, text in found.items() if id not in taken}
    for student, line in _pairs(theirs):
        said[student].append(line)
    return {student: lines for student, lines in said.items() if lines}


def _compiled(work: Work, said: list[str]) -> None:
    """Says which answers of a notebook compiled to the course's own code."""
    if not work.graded:
        return
    same = work.graded.codes
    if sum(max(n - USUAL_CODE, 0) for n in same.values()) >= TELLING_CODE:
        said += [f"{id} compiles to the course's own finished part" for id in sorted(same)]
    said += [f"{id} {how}" for id, how in sorted(work.graded.origins.items())]


def printed(texts: Iterable[str]) -> tuple[dict[str, frozenset[int]], set[str]]:
    """Returns the prints of texts, and the texts that can't be parsed within limits."""
    found: dict[str, frozenset[int]] = {"": frozenset()}
    stuck: set[str] = set()
    left = sorted({*texts} - {""})
    batches = [left[n : n + AT_ONCE] for n in range(0, len(left), AT_ONCE)]
    while batches:
        batch = batches.pop()
        try:
            made = helper().ask("prints", batch, seconds=1 + 0.02 * len(batch))
            found |= zip(batch, map(frozenset, made), strict=True)
        except TooMuch:
            half = len(batch) // 2
            batches += [batch[:half], batch[half:]] if half else []
            if not half:
                stuck |= {*batch}
                found[batch[0]] = frozenset()
    return found, stuck


def _shared(mine: frozenset[int], theirs: frozenset[int]) -> int:
    """Returns the number of shared prints, if these are most of `mine`; otherwise 0."""
    shared = len(mine & theirs)
    return shared if mine and shared >= ALIKE * len(mine) else 0


def _taken(found: Prints, known: Mapping[str, Sequence[frozenset[int]]]) -> dict[str, int]:
    """Returns how many prints of each answer are from a text that is known."""
    most = {id: max(_shared(prints, text) for text in known[id]) for id, prints in found.items()}
    return {id: n for id, n in most.items() if n}


def _is_telling(exercise: str) -> bool:
    """Returns whether equal text is evidence; in quizzes and handed-out programs it isn't."""
    known = catalogue().find(exercise)
    return known is None or (known.kind != "quiz" and known.rules.as_found is None)


def _without_common(own: Mapping[str, Prints]) -> dict[str, dict[str, frozenset[int]]]:
    """Returns each answer's prints without common ones, which come with the exercise."""
    often = Counter(
        (id, p) for found in own.values() for id, prints in found.items() for p in prints
    )
    most = max(10, COMMON * len(own))
    return {
        student: {
            id: frozenset(p for p in prints if often[id, p] <= most) for id, prints in found.items()
        }
        for student, found in own.items()
    }


def _pairs(own: Mapping[str, Prints]) -> Iterator[tuple[str, str]]:
    """Yields, for each student, who wrote the same and in which exercises, if that is too much for
    chance: of 50 classes without copies, one has such a pair."""
    others, chance = max(len(own) - 1, 1), defaultdict[tuple[str, str], float](float)
    same = defaultdict[tuple[str, str], list[str]](list)
    for id in sorted({id for found in own.values() for id in found}):
        texts = {student: found[id] for student, found in own.items() if len(found.get(id, "")) > 4}
        alike = defaultdict[str, set[str]](set)
        for a, b in combinations(texts, 2):
            shared, lengths = len(texts[a] & texts[b]), sorted((len(texts[a]), len(texts[b])))
            if shared >= ALIKE * lengths[0] and shared >= MOSTLY * lengths[1]:
                alike[a].add(b)
                alike[b].add(a)
        for a, b in ((a, b) for a, with_a in alike.items() for b in with_a if a < b):
            # Somebody else may have written the same: so often in this class, or once if it is
            # small and the text is long.
            often = len((alike[a] | alike[b]) - {a, b}) + 1
            chance[a, b] += math.log(often / max(others, len(texts[a] & texts[b])))
            same[a, b].append(id)
    pairs = len(own) * others / 2
    said = defaultdict[str, dict[str, list[str]]](dict)
    for (a, b), unlikely in sorted(chance.items()):
        # Any other answers, as many as these, could have been the ones that are alike.
        both = sum(len(own[a][id]) > 4 < len(own[b][id]) for id in own[a].keys() & own[b].keys())
        some = math.comb(both, len(same[a, b]))
        if unlikely + math.log(50 * max(pairs, 1) * some) < 0:
            for one, other in ((a, b), (b, a)):
                said[one].setdefault(", ".join(same[a, b]), []).append(other)
    for student, by_exercises in said.items():
        for exercises, names in by_exercises.items():
            yield student, f"the same text as {', '.join(sorted(names))} in {exercises}"


def answers(work: Work) -> dict[str, str]:
    """The cells that define an answer, by exercise; of several, the last."""
    checked = {c.checks for c in work.cells if c.checks}
    found: dict[str, str] = {}
    for cell in work.cells:
        if not cell.checks:
            names = [*names_written(cell.source), *INDENTED.findall(cell.source)]
            as_read = {unicodedata.normalize("NFKC", name) for name in names if len(name) < 100}
            found |= dict.fromkeys(as_read & checked, cell.source)
    return found


def _defining(cells: Iterable[str]) -> dict[str, str]:
    return {name: source for source in cells for name in names_written(source)}


def _handed_out(classroom: Classroom) -> dict[str, str]:
    """The answers' cells as they were released: stubs and broken programs."""
    found: dict[str, str] = {}
    for notebook in classroom.notebooks:
        path = lesson(classroom.directory, classroom.assignment, f"{notebook}.ipynb")
        cells: Sequence[Released] = [
            *released(classroom.directory.db_url, classroom.assignment, notebook).values()
        ]
        found |= _defining(handed_out(path))
        found |= _defining(c.source for c in cells if c.cell_type == "code" and not c.locked)
    return found


def _finished(exercise: str) -> str:
    known = catalogue().find(exercise)
    part: Any = known and known.finished
    try:
        return inspect.getsource(part) if callable(part) else ""
    except (OSError, TypeError):
        return ""


def _published(classroom: Classroom) -> dict[str, str]:
    """The answers in the course's own solutions, which are public."""
    paths = sorted(classroom.lessons.glob("*.ipynb"))
    cells = [c["source"] for path in paths for c in read(path).cells]
    return _defining(source for source in cells if "### BEGIN SOLUTION" in source)
