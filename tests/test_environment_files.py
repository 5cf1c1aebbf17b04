"""The lists of requirements agree, and `make` says in one line what is missing."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from course_utils.desk.lessons import lay_out

COURSE = Path(__file__).parent.parent
PROJECT = tomllib.loads((COURSE / "pyproject.toml").read_text())["project"]
# conda-forge's names: PyTorch without CUDA, and matplotlib without its desktop windows.
CONDA_NAMES = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base"}


def required(*extras):
    """`{name: range}` of the base dependencies and of some extras."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return {r.name: r.specifier for r in requirements if r.name != PROJECT["name"]}


def pins():
    lines = (COURSE / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def conda(path):
    """Channels, `{name: range}` of the conda packages, and the list under `pip:`."""
    file = yaml.safe_load((COURSE / path).read_text())
    pip, packages = [], {}
    for entry in file["dependencies"]:
        if isinstance(entry, dict):
            pip += entry["pip"]
            continue
        name, range_ = re.fullmatch(r"([\w-]+)(.*)", entry).groups()
        # conda's single = means "any release of this series".
        packages[name] = SpecifierSet(re.sub(r"^=([\d.]+)$", r"==\1.*", range_))
    return file["channels"], packages, pip


def run(*command, cwd=COURSE):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("path", ["environment.yml", "binder/environment.yml"])
def test_conda_lists_name_what_pyproject_names_with_the_same_ranges(path):
    channels, packages, _ = conda(path)
    assert channels == ["conda-forge"]
    assert packages.pop("pip") == SpecifierSet()
    python = SpecifierSet("==3.12.*" if path.startswith("binder") else PROJECT["requires-python"])
    assert packages.pop("python") == python
    wanted = required("lab")
    if not path.startswith("binder"):
        wanted |= required("lab", "submit", "grading") | {"nbval": required("test")["nbval"]}
    assert packages == {CONDA_NAMES.get(name, name): range_ for name, range_ in wanted.items()}


def test_conda_installs_the_course_and_binder_leaves_that_to_postbuild():
    assert conda("environment.yml")[2] == ["--editable ."]
    assert conda("binder/environment.yml")[2] == []
    post_build = COURSE / "binder/postBuild"
    assert "pip install --no-cache-dir --no-deps --editable ." in post_build.read_text()
    assert post_build.stat().st_mode & 0o111, "Binder runs postBuild as a program"


def test_constraints_pin_everything_in_the_ranges_of_pyproject():
    pinned = pins()
    wrong = {
        name: (str(range_), pinned.get(name))
        for name, range_ in required("lab", "submit", "grading", "site", "test").items()
        if name not in pinned or not range_.contains(pinned[name])
    }
    assert wrong == {}


def test_repo2docker_reads_the_tree_without_docker(tmp_path):
    # A clone of what git knows: repo2docker copies the whole folder, environments included.
    tree = tmp_path / "course"
    assert run("git", "clone", "--quiet", str(COURSE), str(tree)).returncode == 0
    tool = Path(sys.executable).with_name("jupyter-repo2docker")
    done = run(str(tool), "--no-build", "--debug", str(tree), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    recipe = done.stdout + done.stderr
    assert '--file "binder/environment.yml"' in recipe
    assert "RUN ./binder/postBuild" in recipe


OLD = '[ "$1" = --version ] && echo "Python 3.8.10"\nexit 1'
BARE = 'case "$2" in *ensurepip*) exit 1;; esac\nexit 0'


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "There is no .*/python here: install Python 3.11 or newer"),
        (OLD, "needs Python 3.11 or newer; .*/python is Python 3.8.10"),
        (BARE, "install its venv module"),
    ],
    ids=["no Python", "an old one", "one without venv"],
)
def test_make_says_what_is_missing(program, said, tmp_path):
    python = tmp_path / "python"
    if program:
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)
    done = run("make", "lab", f"PYTHON={python}", "VENV=.venv-of-nobody")
    assert done.returncode != 0
    assert re.search(said, done.stderr)
    assert not (COURSE / ".venv-of-nobody").exists()


def test_make_refuses_a_place_for_the_environment_that_it_cannot_name():
    assert "VENV can't have a blank in its path" in run("make", "lab", "VENV=/tmp/a folder").stderr


@pytest.mark.full("the wheel")
def test_neither_the_wheel_nor_a_new_course_contains_the_answers(tmp_path):
    built, lessons = tmp_path / "wheel", tmp_path / "lessons"
    assert run("git", "clone", "--quiet", str(COURSE), str(tmp_path / "course")).returncode == 0
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    assert run(*pip, f"--wheel-dir={built}", str(tmp_path / "course")).returncode == 0
    (wheel,) = built.iterdir()
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        assert "exercises/1-averages/01_naive_mean/naive_mean.md" in names
        assert not [
            n for n in names if re.search("^(tests|training)/|first-attempts|solutions/", n)
        ]
        lesson = re.compile(r"course_utils/notebooks/.*\.ipynb")
        assert {n for n in names if n.endswith("ipynb")} == set(filter(lesson.match, names))
        assert {"course_utils/translations/zh/strings/frame.json"} < set(names)
    lay_out(lessons)
    for path in lessons.rglob("*.ipynb"):
        assert not re.search("BEGIN SOLUTION|HIDDEN TESTS", path.read_text())


@pytest.mark.full("benchmarks, cut short")
@pytest.mark.parametrize(
    "command",
    [
        "language_model.py --rounds 1 --seeds 1 --steps 2",
        "translation.py --rounds 1 --seeds 1 --seconds 1 --training 600",
        "ratios.py --rounds 1 --threads 1",
        "course.py checks naive_mean",
        "grading.py --predict",
    ],
)
def test_a_benchmark_runs(command):
    name, *options = command.split()
    done = run(sys.executable, COURSE / "benchmarks" / name, *options)
    assert done.returncode == 0, done.stderr
