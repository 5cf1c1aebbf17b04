"""Forms in which real editors, converters, sync tools and habits save a solved lesson.

Each form is the same right answers with one trouble, and the points that are fair. Sources name
where such a file was seen.
"""

from __future__ import annotations

import base64
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
    mark = b'\n<<<<<<< HEAD\n   "def masked_softmax'
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


@form(0, noted="not a notebook")
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


def is_alike(text: str, pattern: str) -> bool:
    return re.search(pattern, text, re.S) is not None
