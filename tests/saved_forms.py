"""Forms in which real editors, converters, sync tools and habits save a solved lesson.

Each form is the same right answers with one trouble, and the points that are fair. Sources name
where such a file was seen.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Form:
    """A way to save a lesson, with the points that are fair."""

    make: Callable[[Notebook], Any]  # changes a notebook, or returns the file's bytes
    points: float
    noted: str  # a pattern in the instructor's remarks; empty: none is needed


FORMS: dict[str, Form] = {}


def form(points: float = ALL, noted: str = "") -> Callable[[Callable], Callable]:
    def known(make: Callable[[Notebook], Any]) -> Callable:
        FORMS[make.__name__.strip("_").replace("_", "-")] = Form(make, points, noted)
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


def dumps(nb: Any, **how: Any) -> bytes:
    return (json.dumps(nb, indent=1, ensure_ascii=False, **how) + "\n").encode("utf-8")


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def cell(nb: Notebook, name: str) -> dict[str, Any]:
    (found,) = [c for c in nb["cells"] if grade_id(c) == name]
    return found


def grade_id(c: dict[str, Any]) -> str:
    return str(c["metadata"].get("nbgrader", {}).get("grade_id"))


def at(nb: Notebook, name: str) -> int:
    return int(nb["cells"].index(cell(nb, name)))


def code(source: str, **more: Any) -> dict[str, Any]:
    made = {"cell_type": "code", "execution_count": None, "id": f"n{abs(hash(source)) % 10**9}"}
    return {**made, "metadata": {}, "outputs": [], "source": lines(source), **more}


def coded(nb: Notebook) -> list[dict[str, Any]]:
    return [c for c in nb["cells"] if c["cell_type"] == "code"]


def stub(nb: Notebook, name: str = "softmax") -> None:
    """Puts the exercise's stub back."""
    cell(nb, name)["source"] = cell(released(), name)["source"]


def put(nb: Notebook, place: int, *sources: str) -> None:
    nb["cells"][place:place] = [code(source) for source in sources]


def imports(nb: Notebook) -> dict[str, Any]:
    return next(
        c for c in coded(nb) if "from course_utils import attention" in "".join(c["source"])
    )


# Not quite the format of notebooks --------------------------------------------------------------


@form()
def as_it_should_be(nb):
    pass


@form(noted="execution_count")
def no_execution_count(nb):  # ipython#9638, azuredatastudio#4863
    for c in coded(nb):
        del c["execution_count"]


@form(noted="outputs")
def no_outputs(nb):  # generated notebooks
    for c in coded(nb):
        del c["outputs"]


@form(noted="metadata")
def one_cell_without_metadata(nb):
    nb["cells"].insert(3, {"cell_type": "code", "id": "abc", "source": ["1 + 1"]})


@form(noted="metadata")
def no_cell_has_metadata(nb):
    for c in nb["cells"]:
        del c["metadata"]


@form()
def stream_without_name(nb):  # fw-ai/cookbook#569
    coded(nb)[1]["outputs"] = [{"output_type": "stream", "text": ["hello\n"]}]


@form()
def display_without_metadata(nb):
    coded(nb)[1]["outputs"] = [{"output_type": "display_data", "data": {"text/plain": ["x"]}}]


@form()
def traceback_is_a_string(nb):
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": "one string"}
    coded(nb)[1]["outputs"] = [error]


@form()
def outputs_of_an_unknown_kind(nb):
    coded(nb)[1]["outputs"] = [{"output_type": "rich", "data": 5}, None, "text"]


@form(noted="outputs")
def outputs_are_null(nb):  # tools that write null for "nothing"
    for c in coded(nb):
        c["outputs"] = None


@form(noted="execution_count")
def counts_are_strings(nb):
    for c in coded(nb):
        c["execution_count"] = "7"


@form()
def minor_2_with_ids(nb):  # vscode-jupyter#11288
    nb["nbformat_minor"] = 2


@form()
def unknown_keys(nb):  # nbformat#73
    for c in nb["cells"]:
        c["outputExpanded"] = False


@form(noted="same id")
def duplicate_ids(nb):
    for c in nb["cells"]:
        c["id"] = "same"


@form(noted="valid `id`")
def ids_that_are_none(nb):  # CoursIA#6254
    nb["cells"][0]["id"], nb["cells"][3]["id"], nb["cells"][4]["id"] = "", "has blanks é", "x" * 90


@form(noted="valid `id`")
def ids_are_numbers(nb):
    for n, c in enumerate(nb["cells"]):
        c["id"] = n


@form()
def widgets_without_state(nb):  # colabtools#5288
    kind = "application/vnd.jupyter.widget-state+json"
    nb["metadata"]["widgets"] = {kind: {"abc": {"model_module": "@jupyter-widgets/base"}}}


@form(noted="kernel")
def kernelspec_is_empty(nb):  # cocalc#2612
    nb["metadata"]["kernelspec"] = {}


@form(noted="kernel")
def kernelspec_is_null(nb):
    nb["metadata"]["kernelspec"] = None


@form(noted="`metadata`")
def no_metadata_at_all(nb):
    del nb["metadata"]


@form()
def kernel_of_another_language(nb):
    nb["metadata"] = {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}


@form()
def minor_9(nb):
    nb["nbformat_minor"] = 9


@form(noted="nbformat_minor")
def no_minor(nb):  # notebook#5228
    del nb["nbformat_minor"]


@form(noted="nbformat_minor")
def minor_is_a_string(nb):
    nb["nbformat_minor"] = "5"


@form(noted="`nbformat`")
def only_cells(nb):
    return dumps({"cells": nb["cells"]})


@form(noted="`nbformat`")
def a_bare_list_of_cells(nb):
    return dumps(nb["cells"])


@form()
def version_3(nb):  # notebook#5228
    import nbformat

    read = nbformat.reads(dumps(nb).decode(), 4)
    return nbformat.writes(nbformat.convert(read, 3), version=3).encode()


@form()
def version_5(nb):
    nb["nbformat"], nb["nbformat_minor"] = 5, 0


@form(noted="no type")
def cells_without_type(nb):  # generated notebooks
    for c in coded(nb):
        del c["cell_type"]


@form()
def types_in_capitals(nb):
    for c in nb["cells"]:
        c["cell_type"] = c["cell_type"].capitalize()


@form(noted="between the cells")
def null_between_cells(nb):
    nb["cells"][5:5] = [None, 7, "text"]


@form()
def sources_are_strings(nb):
    for c in nb["cells"]:
        c["source"] = "".join(c["source"])


@form(noted="without ends")
def lines_without_ends(nb):  # generated notebooks; VS Code shows them as lines
    for c in nb["cells"]:
        c["source"] = [line.rstrip("\n") for line in c["source"]]


@form(noted="valid `source`")
def an_empty_source_is_null(nb):
    nb["cells"].append(code("") | {"source": None})


@form()
def metadata_of_other_tools(nb):
    for c in nb["cells"]:
        c["metadata"] |= {"vscode": {"languageId": "python"}, "colab": {"base_uri": "https://x"}}
        c["metadata"] |= {"executionInfo": {"user": None, "elapsed": float("nan")}}


@form()
def nan_in_outputs(nb):
    data = {"application/vnd.plotly.v1+json": {"y": [float("nan"), float("inf")]}}
    output = {"output_type": "display_data", "metadata": {}, "data": data}
    coded(nb)[1]["outputs"] = [output]


@form()
def a_number_with_ten_thousand_digits(nb):
    return dumps(nb).replace(b'"nbformat_minor": 5', b'"nbformat_minor": ' + b"5" * 10_000)


@form()
def attachments_and_pictures(nb):
    text = {"cell_type": "markdown", "id": "pic", "metadata": {}, "source": ["![x](attachment:x)"]}
    nb["cells"].append(text | {"attachments": {"x": {"image/png": "AAAA" * 100_000}}})


# Text -------------------------------------------------------------------------------------------


@form()
def sources_with_cr_lf(nb):
    for c in nb["cells"]:
        c["source"] = "".join(c["source"]).replace("\n", "\r\n")


@form()
def sources_with_cr(nb):
    for c in nb["cells"]:
        c["source"] = "".join(c["source"]).replace("\n", "\r")


@form()
def file_with_cr_lf_and_mark(nb):
    return b"\xef\xbb\xbf" + dumps(nb).replace(b"\n", b"\r\n")


@form(noted="UTF-16")
def utf_16(nb):  # PowerShell's redirection
    return dumps(nb).decode().encode("utf-16")


@form(noted="UTF-16")
def utf_16_without_a_mark(nb):
    return dumps(nb).decode().encode("utf-16-le")


@form(noted="UTF-32")
def utf_32(nb):
    return dumps(nb).decode().encode("utf-32")


@form(noted="Windows-1252")
def windows_1252(nb):  # otter-grader#928
    cell(nb, "softmax")["source"].append("\n# voilà, c'est fini — né")
    return dumps(nb).decode().encode("cp1252", "replace")


@form(noted="not UTF-8")
def one_byte_of_another_encoding(nb):
    cell(nb, "softmax")["source"].append("\n# caf@@ — naïve")
    return dumps(nb).replace(b"@@", b"\xe9")


@form()
def escaped_letters(nb):
    return json.dumps(nb).encode("ascii")


@form()
def half_a_letter(nb):
    return dumps(nb).replace(b"def softmax(scores", b"# \\ud83d\\ndef softmax(scores")


@form()
def a_mark_in_a_cell(nb):
    cell(nb, "softmax")["source"] = "\ufeff" + RIGHT["softmax"]


@form()
def tabs_and_control_characters(nb):
    nb["cells"].insert(2, code("print('a\tb')"))
    return dumps(nb).replace(b"a\\tb", b"a\tb\x01")


@form(noted="zeros")
def zeros_at_the_end(nb):  # power failures, sync tools
    return dumps(nb) + b"\0" * 2048


@form(noted="after its end")
def an_older_end(nb):  # a shorter file written over a longer one
    return dumps(nb) + dumps(nb)[-300:]


@form(noted="inside a string")
def a_string_of_json(nb):  # json.dump(nbformat.writes(nb), file)
    return json.dumps(dumps(nb).decode()).encode()


@form()
def from_an_interface(nb):  # Jupyter's contents API
    return dumps({"name": "x.ipynb", "type": "notebook", "format": "json", "content": nb})


# Files that can't be read -----------------------------------------------------------------------


@form(0, noted="empty")
def an_empty_file(nb):
    return b""


@form(0, noted="merge conflict.*Git")
def a_merge_conflict(nb):
    return dumps(nb).replace(b'"cells": [', b'"cells": [\n<<<<<<< HEAD\n=======\n>>>>>>> abc', 1)


@form(2, noted="merge conflict.*Git")
def a_merge_conflict_in_a_later_answer(nb):
    mark = b'<<<<<<< HEAD\n   "def masked_softmax'
    return dumps(nb).replace(b'   "def masked_softmax', mark, 1)


@form(2, noted="cut off in line")
def cut_off_early(nb):
    return dumps(nb)[:9000]


@form(4, noted="cut off in line")
def cut_off_late(nb):  # a full disk, a broken upload
    text = dumps(nb)
    return text[: text.index(b"def softmax_mean") + 30]


@form(0, noted="Git LFS")
def a_pointer_of_git_lfs(nb):
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n"


@form(0, noted="web page")
def a_web_page(nb):  # GitHub's page saved with "Save as"
    return b"\n<!DOCTYPE html>\n<html><title>03.ipynb</title></html>"


@form(0, noted="archive")
def a_zip_archive(nb):
    return b"PK\x03\x04" + dumps(nb)


@form(0, noted="archive")
def a_compressed_file(nb):
    return gzip.compress(dumps(nb))


@form(0, noted="zeros")
def only_zeros(nb):
    return b"\0" * 20_000


@form(0, noted="program")
def the_python_program(nb):  # "Download as Python" under the old name
    return b"#!/usr/bin/env python\n\ndef softmax(scores): ..."


@form(0, noted="not JSON")
def another_format_of_text(nb):
    return b"cells:\n  - code: 1\n"


@form(0, noted="no cells")
def from_github_s_interface(nb):
    return dumps({"name": "x", "encoding": "base64", "data": base64.b64encode(dumps(nb)).decode()})


@form()
def outputs_of_18_mib(nb):
    page = {"text/html": ["<p>" + "x" * (18 * 2**20)]}
    output = {"output_type": "display_data", "metadata": {}, "data": page}
    coded(nb)[1]["outputs"] = [output]


@form()
def outputs_of_25_mib(nb):  # a loop that prints
    text = [f"{n:030}\n" for n in range(700_000)]
    coded(nb)[1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]


# Cells ------------------------------------------------------------------------------------------


@form()
def empty_nbgrader_metadata(nb):  # 18 of 138 public notebooks of a large course
    added = [code("1 + 1"), code("2 + 2")]
    added[0]["metadata"] = {"nbgrader": {}}
    added[1]["metadata"] = {"nbgrader": {"grade": True, "solution": True, "points": 5}}
    nb["cells"][5:5] = added


@form()
def metadata_of_an_old_schema(nb):  # nbgrader#883
    for c in nb["cells"]:
        if about := c["metadata"].get("nbgrader"):
            about["schema_version"] = 1


@form(noted="was missing")
def metadata_is_lost(nb):  # nbgrader#1398
    for c in nb["cells"]:
        c["metadata"] = {}


@form(noted="was missing")
def through_jupytext(nb):
    import jupytext
    import nbformat

    text = jupytext.writes(nbformat.reads(dumps(nb).decode(), 4), "py:percent")
    return nbformat.writes(jupytext.reads(text, "py:percent")).encode()


@form(noted="was missing")
def one_cell_holds_all(nb):  # downloaded as Python, and opened again
    nb["cells"] = [code("\n\n".join("".join(c["source"]) for c in coded(nb)))]


@form(noted="locked cell check-softmax was edited.*found in cell")
def answer_in_the_check_s_cell(nb):  # editors that ignore locks
    stub(nb)
    source = RIGHT["softmax"] + '\n\ncheck("softmax", softmax)'
    cell(nb, "check-softmax")["source"] = lines(source)


@form(noted="locked cell check-softmax was edited")
def answer_merged_into_the_check(nb):
    source = RIGHT["softmax"] + '\n\ncheck("softmax", softmax)'
    cell(nb, "check-softmax")["source"] = lines(source)
    nb["cells"].remove(cell(nb, "softmax"))


@form(noted="check-softmax was missing")
def check_merged_into_the_answer(nb):
    cell(nb, "softmax")["source"] = lines(RIGHT["softmax"] + '\n\ncheck("softmax", softmax)')
    nb["cells"].remove(cell(nb, "check-softmax"))


@form(noted="answer to softmax was found in cell")
def answer_below_the_check(nb):
    stub(nb)
    put(nb, at(nb, "check-softmax") + 1, RIGHT["softmax"])


@form(noted="answer to softmax was found in cell")
def answer_above_the_stub(nb):
    stub(nb)
    put(nb, at(nb, "softmax"), RIGHT["softmax"])


@form()
def answer_between_stub_and_check(nb):
    stub(nb)
    put(nb, at(nb, "check-softmax"), RIGHT["softmax"])


@form(noted="answer to softmax was found in cell")
def answer_at_the_end(nb):
    stub(nb)
    put(nb, len(nb["cells"]), "# my answers", RIGHT["softmax"])


@form(4, noted="answer to softmax was found in cell")
def wrong_answer_above_the_stub(nb):
    stub(nb)
    put(nb, at(nb, "softmax"), "def softmax(scores, dim=-1):\n    return scores / 2")


@form(noted="the last of 2")
def two_attempts_above_the_stub(nb):
    stub(nb)
    wrong = "def softmax(scores, dim=-1):\n    return scores / 2"
    put(nb, at(nb, "softmax"), wrong, RIGHT["softmax"])


@form()
def answer_as_markdown(nb):  # nbgrader#1941
    c = cell(nb, "softmax")
    c["cell_type"] = "markdown"
    del c["outputs"], c["execution_count"]


@form()
def answer_and_check_as_raw(nb):
    for name in ("softmax", "check-softmax"):
        c = cell(nb, name)
        c["cell_type"] = "raw"
        del c["outputs"], c["execution_count"]


@form()
def answer_split_in_two(nb):  # nbgrader#1083
    c = cell(nb, "masked_softmax")
    c["source"] = lines(
        "def kept(scores, hidden):\n"
        "    return torch.where(hidden, torch.full_like(scores, -torch.inf), scores)\n"
    )
    second = copy.deepcopy(c) | {"id": "halved"}
    answer = "def masked_softmax(scores, hidden):\n    return softmax(kept(scores, hidden), dim=-1)"
    second["source"] = lines(answer)
    nb["cells"].insert(nb["cells"].index(c) + 1, second)


@form(noted="answer to softmax was found in cell")
def backup_of_stub_and_check_at_the_end(nb):
    for name in ("softmax", "check-softmax"):
        c = copy.deepcopy(cell(released(), name))
        nb["cells"].append(c | {"id": c["id"] + "-copy"})


@form()
def backup_of_the_check_at_the_end(nb):
    c = copy.deepcopy(cell(nb, "check-softmax"))
    nb["cells"].append(c | {"id": "copied"})


@form()
def backup_of_the_stub_above(nb):
    c = copy.deepcopy(cell(released(), "softmax"))
    nb["cells"].insert(at(nb, "softmax"), c | {"id": "copied"})


@form()
def earlier_attempt_below(nb):
    c = copy.deepcopy(cell(nb, "softmax")) | {"id": "copied"}
    c["source"] = lines("def softmax(scores, dim=-1):\n    return scores / scores.sum()\n")
    nb["cells"].insert(at(nb, "check-softmax") + 1, c)


@form(noted="imports were changed")
def imports_deleted_and_own_ones(nb):
    nb["cells"].remove(imports(nb))
    put(nb, 1, "import torch\nfrom course_utils import *")


@form(noted="imports were changed")
def imports_deleted(nb):
    nb["cells"].remove(imports(nb))


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


# One line too many ------------------------------------------------------------------------------


def above_the_imports(nb: Notebook, line: str) -> None:
    c = imports(nb)
    c["source"] = [f"{line}\n", *c["source"]]


@form(noted="imports were changed")
def matplotlib_widget(nb):
    above_the_imports(nb, "%matplotlib widget")


@form(noted="imports were changed")
def matplotlib_tk(nb):
    above_the_imports(nb, "%matplotlib tk")


@form(noted="imports were changed")
def a_missing_package(nb):
    above_the_imports(nb, "import seaborn_of_my_own")


@form(noted="imports were changed")
def google_colab(nb):
    above_the_imports(nb, "from google.colab import drive; drive.mount('/content')")


@form(noted="imports were changed")
def pip_by_subprocess(nb):
    above_the_imports(
        nb,
        "import subprocess, sys; subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])",
    )


def after_the_answer(nb: Notebook, text: str) -> None:
    cell(nb, "softmax")["source"] = lines(f"{RIGHT['softmax']}\n\n{text}")


@form()
def saves_a_picture(nb):
    text = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('figure.png')"
    after_the_answer(nb, text)


@form()
def writes_beside_itself(nb):
    after_the_answer(nb, "import os\nos.makedirs('out/a')\nopen('out/a/x.txt', 'w').write('x')")


@form()
def reads_a_file_that_is_not_there(nb):
    after_the_answer(nb, "data = open('my_data.csv').read()")


@form()
def times_its_answer(nb):
    after_the_answer(nb, "%timeit softmax(torch.zeros(3))")


@form()
def asks_for_input(nb):
    after_the_answer(nb, "input('a number? ')")


@form()
def stops_at_a_breakpoint(nb):
    after_the_answer(nb, "breakpoint()")


@form()
def a_breakpoint_in_a_cell(nb):
    put(nb, at(nb, "softmax"), "import pdb; pdb.set_trace()")


@form()
def exits(nb):
    after_the_answer(nb, "exit()")


@form()
def resets_all_before(nb):
    put(nb, 0, "%reset -f")


@form()
def prints_in_its_answer(nb):
    cell(nb, "softmax")["source"] = lines(
        RIGHT["softmax"].replace("    z =", "    print(scores)\n    z =")
    )


@form()
def shell_command_above(nb):
    put(nb, 0, "!pip install torch", "%pip install numpy", "!nvidia-smi")


@form(4, noted="doesn't compile on Python 3.11")
def syntax_of_a_newer_python(nb):
    cell(nb, "softmax_mean")["source"] = lines(
        "def softmax_mean(x):\n    print(f'{x['a']}')\n" + RIGHT["softmax_mean"].split("\n", 1)[1]
    )


HELPER = "def largest(scores, dim):\n    return torch.amax(scores, dim, keepdim=True)"
WITH_HELPER = RIGHT["softmax"].replace(
    "torch.amax(scores, dim, keepdim=True)", "largest(scores, dim)"
)


@form()
def a_helper_above(nb):
    cell(nb, "softmax")["source"] = lines(WITH_HELPER)
    put(nb, at(nb, "softmax"), HELPER)


@form(4)
def a_deleted_helper(nb):
    cell(nb, "softmax")["source"] = lines(WITH_HELPER)


@form(4)
def a_helper_below(nb):
    cell(nb, "softmax")["source"] = lines(WITH_HELPER)
    put(nb, len(nb["cells"]), HELPER)


@form(4)
def a_helper_file(nb):
    cell(nb, "softmax")["source"] = lines("from my_helpers import largest\n\n\n" + WITH_HELPER)


def is_alike(text: str, pattern: str) -> bool:
    return re.search(pattern, text, re.S) is not None
