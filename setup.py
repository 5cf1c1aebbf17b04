"""Puts the lessons into the wheel, for `course new`, and leaves out the answers that tests try; all
else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithLessons(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "course_utils", "notebooks")
            leave = shutil.ignore_patterns(".ipynb_checkpoints", ".course_progress*")
            shutil.copytree("notebooks", target, ignore=leave, dirs_exist_ok=True)
            for answers in Path(self.build_lib).glob("exercises/**/answers*.py"):
                answers.unlink()  # some are modules, which exclude-package-data doesn't leave out


setup(cmdclass={"build_py": WithLessons})
