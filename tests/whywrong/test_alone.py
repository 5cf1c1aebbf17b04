"""The engine works without the course: these tests pass where only `whywrong` can be imported."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import whywrong

HERE = Path(__file__).parent


@pytest.mark.full("the engine without the course")
def test_its_tests_pass_without_the_course(tmp_path):
    """All packages of this environment, except the course that is installed in it."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "course_utils" not in path.name:
            (packages / path.name).symlink_to(path)
    shutil.copytree(Path(whywrong.__file__).parent, tmp_path / "whywrong")
    shutil.copytree(HERE, tmp_path / "tests" / "whywrong")
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    full(what): takes long\n")
    run = subprocess.run(
        # -S: without the links to the course in this environment
        [sys.executable, "-S", "-m", "pytest", "-q", "-k", "not test_alone", "tests/whywrong"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(packages)])},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    assert "No module named" not in run.stdout
