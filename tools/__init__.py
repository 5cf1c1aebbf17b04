"""Tools for authors: the two editions of the lessons, their minutes, the matrix of answers."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
EXERCISES = ROOT / "exercises"
ANSWERS = ROOT / "tests" / "answers"  # the answers that the matrix tries
START_PAGE = "index.ipynb"


def notebooks_in(folder: Path) -> list[Path]:
    """All notebooks below a folder, without the copies that JupyterLab keeps of open ones."""
    return [p for p in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
