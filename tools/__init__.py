"""Tools for authors: the two editions of the lessons, their minutes, the matrix of answers."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
EXERCISES = ROOT / "exercises"
ANSWERS = ROOT / "tests" / "answers"  # that the matrix tries, one folder per lesson
START_PAGE = "index.ipynb"
