"""Puts the lessons into the wheel, for `course new`; all else is in pyproject.toml."""

import os
import shutil
import tempfile
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
            target = target.with_name("translations")
            leave = shutil.ignore_patterns("notebooks", "terms.md")  # made from the rest
            shutil.copytree("translations", target, ignore=leave, dirs_exist_ok=True)


# setuptools writes beside the sources, which may be read-only.
beside = {} if os.access(".", os.W_OK) else {"egg_info": {"egg_base": tempfile.mkdtemp()}}
setup(cmdclass={"build_py": WithLessons}, options=beside)
