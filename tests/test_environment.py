"""The course's first cell says in one line what is wrong; `device()` chooses the device."""

import errno
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from course_utils import reset
from course_utils.__main__ import main
from course_utils.desk import environment
from course_utils.desk.environment import READY, check_environment, device

FILE = Path(environment.__file__)


def lie_about(monkeypatch, **versions):
    """Let `importlib.metadata` report other versions; None means not installed."""
    real = environment.importlib.metadata.version

    def version(name):
        if name not in versions:
            return real(name)
        if versions[name] is None:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(environment.importlib.metadata, "version", version)


def test_the_environment_of_these_tests_is_ready():
    assert check_environment() == [READY]


def test_an_old_python_is_reported_with_its_version(monkeypatch):
    monkeypatch.setattr(environment, "OLDEST_PYTHON", (99, 0))
    (line,) = check_environment()
    assert ".".join(map(str, sys.version_info[:3])) in line
    assert "make lab" in line


def test_a_missing_package_is_named(monkeypatch):
    lie_about(monkeypatch, torch=None)
    (line,) = check_environment()
    assert line.startswith(f"torch is missing from {sys.prefix}.")


def test_a_version_outside_the_range_is_named_with_the_range(monkeypatch):
    lie_about(monkeypatch, ipywidgets="7.6.0")
    (line,) = check_environment()
    assert line.startswith("ipywidgets 7.6.0 is outside the range the course supports (<9,>=7.7.1)")


def test_students_do_not_need_extras(monkeypatch):
    lie_about(monkeypatch, nbgrader=None, pytest=None)
    assert check_environment() == [READY]


def test_lessons_with_the_package_of_another_checkout_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "COURSE", tmp_path)
    (line,) = check_environment()
    assert f"This page is in {tmp_path}, but course_utils comes from {FILE.parents[2]}." in line


def test_importing_it_imports_no_torch():
    code = "import sys, course_utils.desk.environment; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("value", [None, "", "cpu"])
def test_the_device_is_the_cpu_unless_named(monkeypatch, value, capsys):
    monkeypatch.delenv("COURSE_DEVICE", raising=False)
    if value is not None:
        monkeypatch.setenv("COURSE_DEVICE", value)
    assert device() == torch.device("cpu")
    assert capsys.readouterr().out == ""


def test_cuda_without_a_cuda_device_says_so_and_gives_the_cpu(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_DEVICE", "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device() == torch.device("cpu")
    (line,) = capsys.readouterr().out.splitlines()
    assert line == ("COURSE_DEVICE is cuda, but PyTorch finds no such device here: using the CPU.")


def test_cuda_with_a_cuda_device_is_taken(monkeypatch, capsys):
    monkeypatch.setenv("COURSE_DEVICE", "cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device() == torch.device("cuda:1")
    assert capsys.readouterr().out == ""


def test_the_cpu_may_be_named_with_its_index(monkeypatch, capsys):
    """Tests a device name that differs from its tensors' device, like `cuda` and `cuda:0`."""
    monkeypatch.setenv("COURSE_DEVICE", "cpu:0")
    assert device() == torch.device("cpu:0")
    assert torch.zeros(3, device=device()).device == torch.zeros(3).to(device()).device
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", ["gpu", "mps", "cuda:", "cuda:x", "cpu:0x", "cpu:1"])
def test_another_device_is_refused_with_the_allowed_names(monkeypatch, value):
    monkeypatch.setenv("COURSE_DEVICE", value)
    with pytest.raises(ValueError, match=f"COURSE_DEVICE is '{value}'; it must be cpu, cuda"):
        device()


class TestTheCommand:
    def test_alone_prints_its_help(self, capsys):
        assert main([]) == 0
        assert "copy the lessons into a folder of your own" in capsys.readouterr().out

    def test_copies_the_lessons_into_a_new_folder_alone(self, tmp_path, capsys):
        (tmp_path / "there").mkdir()
        (tmp_path / "file").touch()
        for place, said in (
            ("there", "is there already: name a new folder."),
            ("file/below", "can't be copied to"),
        ):
            assert main(["new", str(tmp_path / place)]) == 1
            said_there = capsys.readouterr()
            assert said in said_there.err and said_there.out == ""

    @pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
    def test_says_why_the_system_refuses_a_copy(self, tmp_path, capsys, monkeypatch, number):
        def refused(*args, **kwargs):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("shutil.copytree", refused)
        assert main(["new", str(tmp_path / "mine")]) == 1
        assert capsys.readouterr().err.endswith(f"mine: {os.strerror(number)}.\n")

    def test_names_a_package_that_the_lessons_lack(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "course_utils.desk.lessons", None)
        assert main(["new", str(tmp_path / "mine")]) == 1
        assert "install the course with its extra `lab`" in capsys.readouterr().err


def test_reset_of_a_misspelt_exercise_asks_which_one():
    assert "Did you mean softmax?" in str(reset("softmaxx"))
    assert "progress() lists all." in str(reset("quite another"))
