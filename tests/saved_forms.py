"""Forms in which real editors, converters, sync tools and habits save a solved lesson.

Each form is the same right answers with one trouble, and the points that are fair. Comments name
where such a file was seen.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
import quopri
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jupytext
import nbformat

from tools import NOTEBOOKS

LESSON, ALL = "03_softmax_masking", 6.0
RIGHT = {
    "softmax": """def softmax(scores, dim=-1):
    z = torch.exp(scores - torch.amax(scores, dim, keepdim=True))
    total = torch.sum(z, dim, keepdim=True)
    return z / total""",
    "masked_softmax": """def masked_softmax(scores, hidden):
    kept = torch.where(hidden, torch.full_like(scores, -torch.inf), scores)
    return softmax(kept, dim=-1)""",
    "softmax_mean": """def softmax_mean(x):
    n = x.size(1)
    at = torch.arange(n, device=x.device)
    later = at[None, :] > at[:, None]
    w = masked_softmax(torch.zeros(n, n, dtype=x.dtype, device=x.device), later)
    return torch.matmul(w, x)""",
}
Notebook = dict[str, Any]
Make = Callable[[Notebook], Any]


@dataclass(frozen=True)
class Form:
    """A way to save a lesson, with the points that are fair."""

    make: Make  # changes a notebook, or returns the file's bytes
    points: float
    noted: str  # a pattern in the instructor's remarks; empty: none is needed


FORMS: dict[str, Form] = {}


def form(points: float = ALL, noted: str = "") -> Callable[[Make], Make]:
    def known(make: Make) -> Make:
        FORMS[make.__name__.replace("_", "-")] = Form(make, points, noted)
        return make

    return known


def released() -> Notebook:
    path = NOTEBOOKS / "1-averages" / f"{LESSON}.ipynb"
    found: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return found


def solved() -> Notebook:
    nb = released()
    for name, text in RIGHT.items():
        cell(nb, name)["source"] = lines(text)
    return nb


def file_of(name: str) -> bytes:
    """The bytes of a form."""
    nb = solved()
    made = FORMS[name].make(nb)
    return made if isinstance(made, bytes) else dumps(nb)


def dumps(nb: Any) -> bytes:
    return (json.dumps(nb, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def is_alike(text: str, pattern: str) -> bool:
    return re.search(pattern or "^$", text, re.S) is not None  # "": nothing was to be said


# ---------------------------------------------------------------- parts of a notebook


def cell(nb: Notebook, name: str) -> dict[str, Any]:
    (found,) = [c for c in nb["cells"] if grade_id(c) == name]
    return found


def grade_id(c: dict[str, Any]) -> str:
    return str(c["metadata"].get("nbgrader", {}).get("grade_id"))


def at(nb: Notebook, name: str) -> int:
    return int(nb["cells"].index(cell(nb, name)))


def code(source: str) -> dict[str, Any]:
    made = {"cell_type": "code", "execution_count": None, "id": f"n{abs(hash(source)) % 10**9}"}
    return {**made, "metadata": {}, "outputs": [], "source": lines(source)}


def coded(nb: Notebook) -> list[dict[str, Any]]:
    return [c for c in nb["cells"] if c["cell_type"] == "code"]


def every(nb: Notebook) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = nb["cells"]
    return cells


def whole(nb: Notebook) -> list[Notebook]:
    return [nb]


def about(nb: Notebook) -> list[Notebook]:
    return [nb["metadata"]]


def imports(nb: Notebook) -> dict[str, Any]:
    return next(
        c for c in coded(nb) if "from course_utils import attention" in "".join(c["source"])
    )


# ---------------------------------------------------------------- changes

LOST = object()  # as a value: the key is gone


def sets(parts: Callable[[Notebook], list[Notebook]], **values: Any) -> Make:
    """Gives these parts of a notebook other values."""

    def make(nb: Notebook) -> None:
        for part in parts(nb):
            part.update({key: value for key, value in values.items() if value is not LOST})
            for key in [key for key, value in values.items() if value is LOST]:
                del part[key]

    return make


def shows(*outputs: Any) -> Make:
    """A cell has these outputs."""
    return lambda nb: coded(nb)[1].update(outputs=list(outputs))


def displayed(data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": data}


def sources(change: Callable[[str], Any]) -> Make:
    """Each cell's source, as one text, is changed."""
    return lambda nb: [c.update(source=change("".join(c["source"]))) for c in nb["cells"]]


def writes(name: str, text: str) -> Make:
    """An answer is this text."""
    return lambda nb: cell(nb, name).update(source=lines(text))


def put(nb: Notebook, place: int, *sources: str) -> None:
    nb["cells"][place:place] = [code(source) for source in sources]


def stub(nb: Notebook, name: str = "softmax") -> None:
    """Puts the exercise's stub back."""
    cell(nb, name)["source"] = cell(released(), name)["source"]


def fenced(nb: Notebook, text: str) -> None:
    """The softmax is a stub, and a new text cell above it is this text."""
    stub(nb)
    made = {"cell_type": "markdown", "id": f"t{len(text)}", "metadata": {}, "source": lines(text)}
    nb["cells"].insert(at(nb, "softmax"), made)


def of_2014(nb: Notebook) -> None:
    """Before 2015, a notebook had sheets, and a code cell had an `input`."""
    for c in coded(nb):
        c["input"] = c.pop("source")
    nb["worksheets"] = [{"cells": nb.pop("cells"), "metadata": {}}]
    nb["nbformat"] = 3


def halve(nb: Notebook, name: str, where: str) -> None:
    """An answer's cell is split before a line, as the editor does it."""
    c = cell(nb, name)
    first, second = "".join(c["source"]).split(where, 1)
    c["source"] = lines(first)
    half = copy.deepcopy(c) | {"id": "half", "source": lines(where + second)}
    nb["cells"].insert(nb["cells"].index(c) + 1, half)


def elsewhere(place: Callable[[Notebook], int], *sources: str) -> Make:
    """The stub of the softmax is left as it was, and these cells are somewhere else."""

    def make(nb: Notebook) -> None:
        stub(nb)
        put(nb, place(nb), *sources)

    return make


def above_the_imports(line: str) -> Make:
    return lambda nb: imports(nb)["source"].insert(0, f"{line}\n")


def after_the_answer(text: str) -> Make:
    return writes("softmax", f"{RIGHT['softmax']}\n\n{text}")


def saved(change: Callable[[bytes], bytes]) -> Make:
    """The file's bytes are changed."""
    return lambda nb: change(dumps(nb))


def encoded(encoding: str) -> Make:
    return saved(lambda data: data.decode().encode(encoding))


def swapped(old: bytes, new: bytes) -> Make:
    return saved(lambda data: data.replace(old, new, 1))


def before(name: str) -> Callable[[Notebook], int]:
    return lambda nb: at(nb, name)


def cells_put(place: Callable[[Notebook], int], *sources: str) -> Make:
    return lambda nb: put(nb, place(nb), *sources)


def first(nb: Notebook) -> int:
    return 0


def last(nb: Notebook) -> int:
    return len(nb["cells"])


# ---------------------------------------------------------------- forms of one line or two

WIDGETS = {
    "application/vnd.jupyter.widget-state+json": {"abc": {"model_module": "@jupyter-widgets/base"}}
}
PLOT = {"application/vnd.plotly.v1+json": {"y": [float("nan"), float("inf")]}}
ERROR = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": "one string"}
INTERFACE = {"name": "x.ipynb", "type": "notebook", "format": "json"}
FOR_R = {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}
PAGE = b"\n<!DOCTYPE html>\n<html><title>03.ipynb</title></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n"
PROGRAM = b"#!/usr/bin/env python\n\ndef softmax(scores): ..."
COUNT = b'   "execution_count": null,\n'
HEAD = b"<<<<<<< HEAD\n"
MERGE, FOUND = "merge conflict.*Git", "answer to softmax was found in code cell"
IMPORTS, EDITED = "imports were changed", "locked cell check-softmax was edited"

SOFTMAX, STUB = RIGHT["softmax"], "".join(cell(released(), "softmax")["source"])
CHECKED = SOFTMAX + '\n\ncheck("softmax", softmax)'
WRONG = "def softmax(scores, dim=-1):\n    return scores / 2"
SHIFTED = "(scores - scores.amax(dim, keepdim=True)).exp()"
TWO_LINES = [
    "def softmax(scores, dim=-1):",
    f"    return {SHIFTED} / {SHIFTED}.sum(dim, keepdim=True)",
]
HELPER = "def largest(scores, dim):\n    return torch.amax(scores, dim, keepdim=True)"
WITH_HELPER = SOFTMAX.replace("torch.amax(scores, dim, keepdim=True)", "largest(scores, dim)")
INSTALL = "subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('figure.png')"
FOLDER = "import os\nos.makedirs('out/a')\nopen('out/a/x.txt', 'w').write('x')"
DRIVE = "from google.colab import drive; drive.mount('/content')"
NEWER = "def softmax_mean(x):\n    print(f'{x['a']}')\n" + RIGHT["softmax_mean"].split("\n", 1)[1]

# By the points that are fair, and the remark.
SIMPLE: dict[tuple[float, str], dict[str, Make]] = {
    (ALL, ""): {
        "notebook-of-2014": of_2014,
        "as-it-should-be": sets(whole),
        # The format
        "stream-without-name": shows(
            {"output_type": "stream", "text": ["hello\n"]}
        ),  # cookbook#569
        "display-without-metadata": shows(
            {"output_type": "display_data", "data": {"text/plain": ["x"]}}
        ),
        "traceback-is-a-string": shows(ERROR),
        "outputs-of-an-unknown-kind": shows({"output_type": "rich", "data": 5}, None, "text"),
        "minor-2-with-ids": sets(whole, nbformat_minor=2),  # vscode-jupyter#11288
        "unknown-keys": sets(every, outputExpanded=False),  # nbformat#73
        "widgets-without-state": sets(about, widgets=WIDGETS),  # colabtools#5288
        "kernel-of-another-language": sets(whole, metadata=FOR_R),
        "minor-9": sets(whole, nbformat_minor=9),
        "version-5": sets(whole, nbformat=5, nbformat_minor=0),
        "sources-are-strings": sources(str),
        "sources-are-lists-of-letters": sources(list),
        "nan-in-outputs": shows(displayed(PLOT)),
        "a-number-with-ten-thousand-digits": swapped(b'minor": 5', b'minor": ' + b"5" * 10_000),
        "outputs-of-18-mib": shows(displayed({"text/html": ["<p>" + "x" * (18 * 2**20)]})),
        # Text
        "sources-with-cr-lf": sources(lambda source: source.replace("\n", "\r\n")),
        "sources-with-cr": sources(lambda source: source.replace("\n", "\r")),
        "file-with-cr-lf-and-mark": saved(lambda x: b"\xef\xbb\xbf" + x.replace(b"\n", b"\r\n")),
        "escaped-letters": lambda nb: json.dumps(nb).encode("ascii"),
        "half-a-letter": swapped(b"def softmax(scores", b"# \\ud83d\\ndef softmax(scores"),
        "a-mark-in-a-cell": lambda nb: cell(nb, "softmax").update(source="\ufeff" + SOFTMAX),
        "from-an-interface": lambda nb: dumps(INTERFACE | {"content": nb}),  # Jupyter's API
        # Cells and lines
        "answer-between-stub-and-check": elsewhere(before("check-softmax"), SOFTMAX),
        "saves-a-picture": after_the_answer(FIGURE),
        "writes-beside-itself": after_the_answer(FOLDER),
        "reads-a-file-that-is-not-there": after_the_answer("data = open('my_data.csv').read()"),
        "times-its-answer": after_the_answer("%timeit softmax(torch.zeros(3))"),
        "asks-for-input": after_the_answer("input('a number? ')"),
        "stops-at-a-breakpoint": after_the_answer("breakpoint()"),
        "exits": after_the_answer("exit()"),
        "a-breakpoint-in-a-cell": cells_put(before("softmax"), "import pdb; pdb.set_trace()"),
        "resets-all-before": cells_put(first, "%reset -f"),
        "shell-command-above": cells_put(
            first, "!pip install torch", "%pip install numpy", "!nvidia-smi"
        ),
        "prints-in-its-answer": writes(
            "softmax", SOFTMAX.replace("    z", "    print(scores)\n    z")
        ),
    },
    (ALL, "execution_count"): {
        "no-execution-count": sets(coded, execution_count=LOST),  # ipython#9638
        "counts-are-strings": sets(coded, execution_count="7"),
    },
    (ALL, "outputs"): {
        "no-outputs": sets(coded, outputs=LOST),  # generated notebooks
        "outputs-are-null": sets(coded, outputs=None),  # tools that write null for "nothing"
    },
    (ALL, "metadata"): {"no-cell-has-metadata": sets(every, metadata=LOST)},
    (ALL, "`metadata`"): {"no-metadata-at-all": sets(whole, metadata=LOST)},
    (ALL, r"same id(?! \()"): {"duplicate-ids": sets(every, id="same")},
    (ALL, "kernel"): {
        "kernelspec-is-empty": sets(about, kernelspec={}),  # cocalc#2612
        "kernelspec-is-null": sets(about, kernelspec=None),
    },
    (ALL, "nbformat_minor"): {
        "no-minor": sets(whole, nbformat_minor=LOST),  # notebook#5228
        "minor-is-a-string": sets(whole, nbformat_minor="5"),
    },
    (ALL, "`nbformat`"): {
        "only-cells": lambda nb: dumps({"cells": nb["cells"]}),
        "a-bare-list-of-cells": lambda nb: dumps(nb["cells"]),
    },
    (ALL, "no type"): {"cells-without-type": sets(coded, cell_type=LOST)},  # generated notebooks
    (ALL, "without ends"): {
        "lines-without-ends": sources(str.splitlines),  # shown as lines
        "two-lines-without-ends": lambda nb: cell(nb, "softmax").update(source=TWO_LINES),
    },
    (ALL, "UTF-16"): {
        "utf-16": encoded("utf-16"),  # PowerShell's redirection
        "utf-16-without-a-mark": encoded("utf-16-le"),
    },
    (ALL, "UTF-32"): {"utf-32": encoded("utf-32")},
    # Power failures and sync tools; a shorter file written over a longer one; a text as JSON.
    (ALL, "zeros"): {"zeros-at-the-end": saved(lambda data: data + b"\0" * 2048)},
    (ALL, "after its end"): {"an-older-end": saved(lambda data: data + data[-300:])},
    (ALL, "inside a string"): {
        "a-string-of-json": saved(lambda x: json.dumps(x.decode()).encode())
    },
    (ALL, IMPORTS): {
        "matplotlib-widget": above_the_imports("%matplotlib widget"),
        "matplotlib-tk": above_the_imports("%matplotlib tk"),
        "a-missing-package": above_the_imports("import seaborn_of_my_own"),
        "pip-by-subprocess": above_the_imports(f"import subprocess, sys; {INSTALL}"),
        "imports-deleted": lambda nb: nb["cells"].remove(imports(nb)),
        "all-cells-in-the-opposite-order": lambda nb: nb["cells"].reverse(),
    },
    (ALL, FOUND): {
        "answer-below-the-check": elsewhere(lambda nb: at(nb, "check-softmax") + 1, SOFTMAX),
        "answer-above-the-stub": elsewhere(before("softmax"), SOFTMAX),
        "answer-at-the-end": elsewhere(last, "# my answers", SOFTMAX),
        "answer-above-the-imports": elsewhere(first, SOFTMAX),
    },
    (ALL, "found in text cell"): {
        "answer-fenced-in-a-text": lambda nb: fenced(
            nb, f"My answer:\n\n```python\n{SOFTMAX}\n```"
        ),
        "answer-as-a-text-of-its-own": lambda nb: fenced(nb, SOFTMAX),
    },
    (4, "different answers to softmax are in text cells"): {
        "two-answers-in-texts": lambda nb: (fenced(nb, SOFTMAX), fenced(nb, WRONG)),
    },
    (ALL, "stub below the answer"): {
        "answer-above-the-stub-in-its-cell": lambda nb: cell(nb, "softmax").update(
            source=SOFTMAX + "\n\n" + "".join(cell(released(), "softmax")["source"])
        ),
    },
    (ALL, "was split"): {
        "answer-split-inside-its-function": lambda nb: halve(nb, "softmax", "    total"),
    },
    (ALL, "invisible characters were removed"): {
        "no-break-spaces": writes("softmax", SOFTMAX.replace("    ", "\u00a0   ")),
        "zero-width-spaces": writes("softmax", SOFTMAX.replace("z =", "\u200bz =")),
        "nul-in-an-answer": writes("softmax", SOFTMAX.replace("z =", "z\0 =")),
    },
    (ALL, "typographic quotes were replaced"): {
        "typographic-quotes": writes("softmax", SOFTMAX + "\nprint(“ready”)"),
    },
    (ALL, "for Colab were left out"): {
        "google-colab": above_the_imports(DRIVE),
        "google-colab-above-an-answer": writes("softmax", f"{DRIVE}\n\n{SOFTMAX}"),
    },
    (ALL, "full-width punctuation"): {
        "full-width-punctuation": writes("softmax", SOFTMAX.replace("):", "\uff09\uff1a")),
    },
    (ALL, "tabs were replaced"): {
        "tabs-and-spaces": writes("softmax", SOFTMAX.replace("    return", "\treturn")),
    },
    (ALL, "misplaced lines with %"): {
        "a-cell-s-command-below-code": writes("softmax", f"import time\n%%time\n{SOFTMAX}"),
        "a-space-in-a-command": writes("softmax", f"% matplotlib inline\n{SOFTMAX}"),
    },
    (ALL, "text around the code"): {
        "a-chat-s-whole-reply": writes(
            "softmax", f"Here's the function:\n\n```python\n{SOFTMAX}\n```\n\nDon't forget tests!"
        ),
    },
    (ALL, "there twice"): {"answer-twice-in-a-line": writes("softmax", SOFTMAX * 2)},
    (ALL, "as in a mail"): {
        "base64": saved(base64.encodebytes),
        "quoted-printable": saved(quopri.encodestring),
    },
    (ALL, "several notebooks"): {
        "a-notebook-in-a-cell": lambda nb: dumps({"cells": [code(dumps(nb).decode())]}),
    },
    (ALL, "has all answers .cells are lost in 1 place"): {
        "quotes-that-are-not-escaped": swapped(
            b'check(\\"softmax\\", softmax)', b'check("softmax", softmax)'
        ),
    },
    (ALL, "`&gt;` and the like"): {
        "entities-of-a-web-page": writes(
            "softmax_mean", RIGHT["softmax_mean"].replace(">", "&gt;")
        ),
    },
    (ALL, "not valid JSON"): {
        "a-comma-after-the-last-cell": saved(
            lambda x: x.replace(b'\n ],\n "metadata', b',\n ],\n "metadata')
        ),
        "a-comma-is-missing-after-a-cell": swapped(b"\n  },\n  {", b"\n  }\n  {"),
    },
    (ALL, "the last of 2"): {
        "two-attempts-above-the-stub": elsewhere(before("softmax"), WRONG, SOFTMAX),
    },
    (4, ""): {
        "a-deleted-helper": writes("softmax", WITH_HELPER),
        "a-helper-file": writes("softmax", f"from my_helpers import largest\n\n\n{WITH_HELPER}"),
    },
    (4, FOUND): {"wrong-answer-above-the-stub": elsewhere(before("softmax"), WRONG)},
    (4, "doesn't compile on Python 3.11"): {
        "syntax-of-a-newer-python": writes("softmax_mean", NEWER),
    },
    # A full disk, or a broken upload.
    (4, "cut off in line"): {
        "cut-off-late": saved(lambda x: x[: x.index(b"def softmax_mean") + 30])
    },
    (2, "cut off in line"): {"cut-off-early": saved(lambda data: data[:9000])},
    (4, MERGE): {
        "a-merge-conflict-in-a-later-answer": swapped(
            b'   "def masked_softmax', b"\n" + HEAD + b'   "def masked_softmax'
        ),
    },
    (ALL, MERGE): {
        "a-merge-conflict": swapped(
            b'"cells": [', b'"cells": [\n' + HEAD + b"=======\n>>>>>>> abc"
        ),
        "merge-conflicts-in-counts": saved(
            lambda x: x.replace(COUNT, HEAD + COUNT + b"=======\n" + COUNT + b">>>>>>> a\n")
        ),
    },
    (ALL, "marks of a merge conflict"): {
        "a-merge-conflict-in-a-cell": lambda nb: cell(nb, "softmax").update(
            source=f"<<<<<<< a\n{STUB}\n=======\n{SOFTMAX}\n>>>>>>> b"
        ),
    },
    (0, "empty"): {"an-empty-file": lambda nb: b""},
    (0, "Git LFS"): {"a-pointer-of-git-lfs": lambda nb: POINTER},
    (0, "web page"): {"a-web-page": lambda nb: PAGE},  # GitHub's page, saved with "Save as"
    (0, "archive"): {
        "a-zip-archive": saved(lambda data: b"PK\x03\x04" + data),
        "a-compressed-file": saved(gzip.compress),
    },
    (0, "zeros"): {"only-zeros": lambda nb: b"\0" * 20_000},
    (0, "program"): {"the-python-program": lambda nb: PROGRAM},  # under the old name
    (0, "not JSON"): {"another-format-of-text": lambda nb: b"cells:\n  - code: 1\n"},
    (0, "not a notebook"): {
        "from-github-s-interface": lambda nb: dumps(
            {"name": "x", "encoding": "base64", "data": base64.b64encode(dumps(nb)).decode()}
        ),
    },
}
for (_points, _noted), _forms in SIMPLE.items():
    FORMS.update({name: Form(make, _points, _noted) for name, make in _forms.items()})


# ---------------------------------------------------------------- the other forms


@form(noted="metadata")
def one_cell_without_metadata(nb):
    nb["cells"].insert(3, {"cell_type": "code", "id": "abc", "source": ["1 + 1"]})


@form(noted="valid `id`")
def ids_that_are_none(nb):  # CoursIA#6254
    nb["cells"][0]["id"], nb["cells"][3]["id"], nb["cells"][4]["id"] = "", "has blanks é", "x" * 90


@form(noted="valid `id`")
def ids_are_numbers(nb):
    for n, c in enumerate(nb["cells"]):
        c["id"] = n


@form()
def version_3(nb):  # notebook#5228
    read = nbformat.reads(dumps(nb).decode(), 4)
    return nbformat.writes(nbformat.convert(read, 3), version=3).encode()


@form()
def types_in_capitals(nb):
    for c in nb["cells"]:
        c["cell_type"] = c["cell_type"].capitalize()


@form(noted="between the cells")
def null_between_cells(nb):
    nb["cells"][5:5] = [None, 7, "text"]


@form(noted="valid `source`")
def an_empty_source_is_null(nb):
    nb["cells"].append(code("") | {"source": None})


@form()
def metadata_of_other_tools(nb):
    for c in nb["cells"]:
        c["metadata"] |= {"vscode": {"languageId": "python"}, "colab": {"base_uri": "https://x"}}
        c["metadata"] |= {"executionInfo": {"user": None, "elapsed": float("nan")}}


@form()
def attachments_and_pictures(nb):
    text = {"cell_type": "markdown", "id": "pic", "metadata": {}, "source": ["![x](attachment:x)"]}
    nb["cells"].append(text | {"attachments": {"x": {"image/png": "AAAA" * 100_000}}})


@form()
def outputs_of_25_mib(nb):  # a loop that prints
    text = [f"{n:030}\n" for n in range(700_000)]
    coded(nb)[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]


@form(noted="it was not UTF-8 text")
def windows_1252(nb):  # otter-grader#928
    cell(nb, "softmax")["source"].append("\n# voilà, c'est fini — né")
    return dumps(nb).decode().encode("cp1252", "replace")


@form(noted="it was not UTF-8 text")
def gb18030(nb):  # its second bytes may be a backslash
    cell(nb, "softmax")["source"].append("\n# 求和，然後歸一化：許功蓋，誠、閱、乗")
    return dumps(nb).decode().encode("gb18030", "replace")


@form(noted="it was not UTF-8 text")
def shift_jis(nb):
    cell(nb, "softmax")["source"].append("\n# 表を作る。ソフトマックスの計算、能力、予定")
    return dumps(nb).decode().encode("shift_jis", "replace")


@form(noted="not UTF-8")
def one_byte_of_another_encoding(nb):
    cell(nb, "softmax")["source"].append("\n# caf@@ — naïve")
    return dumps(nb).replace(b"@@", b"\xe9")


@form()
def tabs_and_control_characters(nb):
    nb["cells"].insert(2, code("print('a\tb')"))
    return dumps(nb).replace(b"a\\tb", b"a\tb\x01")


@form()
def empty_nbgrader_metadata(nb):  # 18 of 138 public notebooks of a large course
    added = [code("1 + 1"), code("2 + 2")]
    added[0]["metadata"] = {"nbgrader": {}}
    added[1]["metadata"] = {"nbgrader": {"grade": True, "solution": True, "points": 5}}
    nb["cells"][5:5] = added


@form()
def metadata_of_an_old_schema(nb):  # nbgrader#883
    for c in nb["cells"]:
        if known := c["metadata"].get("nbgrader"):
            known["schema_version"] = 1


@form(noted="was missing")
def metadata_is_lost(nb):  # nbgrader#1398
    for c in nb["cells"]:
        c["metadata"] = {}


@form()
def through_jupytext(nb):
    text = jupytext.writes(nbformat.reads(dumps(nb).decode(), 4), "py:percent")
    return nbformat.writes(jupytext.reads(text, "py:percent")).encode()


@form(noted="was missing")
def one_cell_holds_all(nb):  # downloaded as Python, and opened again
    nb["cells"] = [code("\n\n".join("".join(c["source"]) for c in coded(nb)))]


@form(noted=EDITED)
def answer_in_the_check_s_cell(nb):  # editors that ignore locks
    stub(nb)
    cell(nb, "check-softmax")["source"] = lines(CHECKED)


@form(noted=EDITED)
def answer_merged_into_the_check(nb):
    cell(nb, "check-softmax")["source"] = lines(CHECKED)
    nb["cells"].remove(cell(nb, "softmax"))


@form(noted="check-softmax was missing")
def check_merged_into_the_answer(nb):
    cell(nb, "softmax")["source"] = lines(CHECKED)
    nb["cells"].remove(cell(nb, "check-softmax"))


def without_code(c: dict[str, Any], kind: str) -> None:
    c["cell_type"] = kind
    del c["outputs"], c["execution_count"]


@form()
def answer_as_markdown(nb):  # nbgrader#1941
    without_code(cell(nb, "softmax"), "markdown")


@form(noted="softmax was in a text cell, between fences")
def answer_as_markdown_in_fences(nb):  # pasted from a chat
    c = cell(nb, "softmax")
    without_code(c, "markdown")
    c["source"] = f"```python\n{SOFTMAX}\n```"


@form()
def answer_and_check_as_raw(nb):
    for name in ("softmax", "check-softmax"):
        without_code(cell(nb, name), "raw")


@form()
def answer_split_in_two(nb):  # nbgrader#1083
    c = cell(nb, "masked_softmax")
    c["source"] = lines(
        "def kept(scores, hidden):\n"
        "    return torch.where(hidden, torch.full_like(scores, -torch.inf), scores)\n"
    )
    answer = "def masked_softmax(scores, hidden):\n    return softmax(kept(scores, hidden), dim=-1)"
    second = copy.deepcopy(c) | {"id": "halved", "source": lines(answer)}
    nb["cells"].insert(nb["cells"].index(c) + 1, second)


@form(noted=FOUND)
def backup_of_stub_and_check_at_the_end(nb):
    for name in ("softmax", "check-softmax"):
        c = cell(released(), name)
        nb["cells"].append(c | {"id": c["id"] + "-copy"})


@form()
def backup_of_the_check_at_the_end(nb):
    nb["cells"].append(copy.deepcopy(cell(nb, "check-softmax")) | {"id": "copied"})


@form()
def backup_of_the_stub_above(nb):
    nb["cells"].insert(at(nb, "softmax"), cell(released(), "softmax") | {"id": "copied"})


@form()
def earlier_attempt_below(nb):
    c = copy.deepcopy(cell(nb, "softmax")) | {"id": "copied"}
    c["source"] = lines("def softmax(scores, dim=-1):\n    return scores / scores.sum()\n")
    nb["cells"].insert(at(nb, "check-softmax") + 1, c)


@form(noted=IMPORTS)
def imports_deleted_and_own_ones(nb):
    nb["cells"].remove(imports(nb))
    put(nb, 1, "import torch\nfrom course_utils import *")


@form()
def a_section_moved_to_the_end(nb):
    place = at(nb, "softmax")
    moved = nb["cells"][place : place + 2]
    del nb["cells"][place : place + 2]
    nb["cells"] += moved


@form()
def text_of_a_locked_cell_with_other_blanks(nb):
    c = cell(nb, "check-softmax")
    c["source"] = ["\n", *(f"{line.rstrip()}  \n" for line in c["source"]), "\n"]


@form()
def a_helper_above(nb):
    cell(nb, "softmax")["source"] = lines(WITH_HELPER)
    put(nb, at(nb, "softmax"), HELPER)


@form(4)
def a_helper_below(nb):
    cell(nb, "softmax")["source"] = lines(WITH_HELPER)
    put(nb, len(nb["cells"]), HELPER)
