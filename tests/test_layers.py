"""No file or function is too long; packages depend on each other in one direction."""

import ast
import re
from collections import defaultdict
from functools import cache
from importlib import import_module

import pytest

from tools import ROOT

PACKAGES = (
    "course_utils",
    "exercises",
    "tests",
    "tools",
    "training",
    "whywrong",
    "whywrong_nbgrader",
)
LINES_OF_A_FILE, LINES_OF_A_FUNCTION, LINES_OF_A_SCRIPT = 800, 60, 400
# Which other packages each package may import; tests may import anything.
MAY_IMPORT = {
    "whywrong": set(),
    "whywrong_nbgrader": {"whywrong"},
    "exercises": {"course_utils", "whywrong"},
    "course_utils": {"exercises", "whywrong", "whywrong_nbgrader"},
    "tools": {"course_utils", "whywrong", "whywrong_nbgrader"},
    "training": {"course_utils"},
}
ONLY_IN = {
    ("course_utils", "exercises"): {"desk/checks"},
    ("course_utils", "whywrong"): {"desk/checks", "desk/language", "desk/lessons", "desk/points"},
    ("course_utils", "whywrong_nbgrader"): {"__main__"},
}
DOORS = "whywrong", "whywrong.probing", "whywrong.hosting"
PRIVATE = re.compile(r"_(?!_)\w+")


@cache
def files():
    return {
        path.relative_to(ROOT).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def tree(file):
    return ast.parse(files()[file])


@cache
def imported(file):
    """The modules that a file imports, and the names that it imports from each."""
    return list(_imported(file))


def _imported(file):
    package = file.split("/")[:-1]
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            begin = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*begin, *filter(None, [node.module])])
            yield module, tuple(alias.name for alias in node.names)


def test_files_are_short():
    long = {
        file: lines
        for file, text in files().items()
        if (lines := len(text.splitlines())) > LINES_OF_A_FILE
    }
    assert long == {}


def test_scripts_are_short_and_so_is_what_they_declare():
    """A declaration ends before an empty line that is followed by the left margin."""
    long = {}
    for path in sorted((ROOT / "course_utils").rglob("*.js")):
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"\n\n(?=\S)", re.sub(r"^/\*\*.*?\*/$", "", text, flags=re.M | re.S)):
            lines = part.strip().splitlines()
            if len(lines) > LINES_OF_A_FUNCTION:
                long[f"{path.name}: {lines[0]}"] = len(lines)
        if text.count("\n") > LINES_OF_A_SCRIPT:
            long[path.name] = text.count("\n")
    assert long == {}


def test_functions_are_short():
    long = {
        f"{file}: {node.name}": length
        for file in files()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
    }
    assert long == {}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_depend_on_each_other_one_way(package):
    wrong = set()
    for file in (f for f in files() if f.startswith(f"{package}/")):
        for module, _ in imported(file):
            other = module.split(".")[0]
            if other == package or other not in PACKAGES:
                continue
            place = file.removeprefix(f"{package}/")
            if other not in MAY_IMPORT[package] or place not in ONLY_IN.get(
                (package, other), {place}
            ):
                wrong.add(f"{file} imports {module}")
    assert sorted(wrong) == []


def test_the_parts_that_students_read_import_no_drawing_and_no_desk():
    course = [f.split("/") for f in files() if f.startswith("course_utils/")]
    parts = ["/".join(f) for f in course if len(f) == 2 and not f[1].startswith("__")]
    parts += ["/".join(f) for f in course if f[1] == "data"]
    used = {m.split(".")[1] for f in parts for m, _ in imported(f) if m.startswith("course_utils.")}
    assert len(parts) > 8 and not used & {"show", "desk", "experiments"}


def test_figures_import_no_experiment_and_the_desk_imports_neither():
    above = {"desk": {"show", "experiments"}, "show": {"experiments"}}
    wrong = {
        f"{file} imports {module}"
        for room, floors in above.items()
        for file in files()
        if file.startswith(f"course_utils/{room}/")
        for module, _ in imported(file)
        if module.startswith("course_utils.") and module.split(".")[1] in floors
    }
    assert wrong == set()


def test_there_are_no_import_cycles():
    uses = defaultdict(set)
    for file in files():
        for module, names in imported(file):
            path = module.replace(".", "/")
            found = {f"{path}/{name}" for name in names} & files().keys()
            uses[file] |= (found or {path} & files().keys()) - {file}
    settled = set()
    while ready := {f for f in files() if f not in settled and uses[f] <= settled}:
        settled |= ready
    around = set(files()) - settled
    while ends := {f for f in around if not any(f in uses[g] for g in around)}:
        around -= ends
    assert {f: sorted(uses[f] & around) for f in around} == {}


def test_no_private_name_is_imported():
    private = {
        f"{file} imports {name} from {module}"
        for file in files()
        if not file.startswith("tests/")
        for module, names in imported(file)
        if module.split(".")[0] in PACKAGES or "." in module
        for name in names
        if PRIVATE.fullmatch(name) and module.split(".")[0] in PACKAGES
    }
    assert private == set()


def test_the_engine_is_entered_by_its_doors():
    """Only authors' tools and tests look at what is behind them."""
    doors = {name: set(import_module(name).__all__) for name in DOORS}
    past = {
        f"{file} imports {', '.join(sorted(hidden))} from {module}"
        for file in files()
        if not file.startswith(("tests/", "tools/", "whywrong/"))
        for module, names in imported(file)
        if module.split(".")[0] == "whywrong"
        if (hidden := set(names) - doors.get(module, set()) or (set() if names else {module}))
    }
    assert past == set()


def test_the_engine_s_other_modules_are_private():
    inside = {f.removeprefix("whywrong/") for f in files() if f.startswith("whywrong/")}
    doors = {door.partition(".")[2] or "__init__" for door in DOORS}
    assert {name for name in inside if not name.startswith("_")} | {"__init__"} == doors


def test_the_engine_s_tests_need_nothing_of_the_course():
    used = {m for f in files() if f.startswith("tests/whywrong/") for m, _ in imported(f)}
    assert not {m.split(".")[0] for m in used} & {*PACKAGES} - {"tests", "whywrong"}


def test_no_lesson_s_exercises_import_another_lesson_s():
    wrong = {
        f"{file} imports {module}"
        for file in files()
        if re.match(r"exercises/\d", file)
        for module, _ in imported(file)
        if module.startswith("exercises") and not module.startswith("exercises.shared")
    }
    assert wrong == set()
