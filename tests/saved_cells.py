"""Forms in which habits change the cells of a solved lesson; see saved_forms.py."""

from __future__ import annotations

import copy

import nbformat

from .saved_forms import (
    RIGHT,
    Notebook,
    at,
    cell,
    code,
    coded,
    dumps,
    form,
    imports,
    lines,
    put,
    released,
    stub,
)

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


@form()
def through_jupytext(nb):
    import jupytext

    text = jupytext.writes(nbformat.reads(dumps(nb).decode(), 4), "py:percent")
    return nbformat.writes(jupytext.reads(text, "py:percent")).encode()


@form(noted="was missing")
def one_cell_holds_all(nb):  # downloaded as Python, and opened again
    nb["cells"] = [code("\n\n".join("".join(c["source"]) for c in coded(nb)))]


@form(noted="locked cell check-softmax was edited")
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


@form(noted="imports were changed")
def all_cells_in_the_opposite_order(nb):
    nb["cells"].reverse()


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
    install = "subprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])"
    above_the_imports(nb, f"import subprocess, sys; {install}")


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
