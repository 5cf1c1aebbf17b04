"""nbgrader for this course, from generate_assignment to export, as it is.

Say where your students hand in with `c.Exchange.root`, or use nbgrader's own default.
"""

import os
import sys

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader import preprocessors as nbgrader

from whywrong_nbgrader import preprocessors as course
from whywrong_nbgrader.collecting import CollectFiles

c = get_config()  # noqa: F821  (given by traitlets)

# nbgrader calls `alembic` by its name: let it be found where the environment is not activated.
_programs = os.path.dirname(sys.executable)
if _programs not in os.environ["PATH"].split(os.pathsep):
    os.environ["PATH"] = _programs + os.pathsep + os.environ["PATH"]

c.CourseDirectory.course_id = "averages-to-transformers"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    "feedback",
    ".course_progress.json*",
    ".grading",
]

# Valid in a function, a method, a class and on its own; a stub runs and gives None.
c.ClearSolutions.code_stub = {"python": "...  # your code here"}

# notebooks/ is part of the course, so it is there before nbgrader has made it: make it again, or
# nbgrader skips the assignment and its gradebook never hears of it.
c.GenerateAssignment.force = True
c.GenerateAssignment.preprocessors = [
    nbgrader.IncludeHeaderFooter,
    nbgrader.LockCells,
    course.ClearAnswers,
    nbgrader.ClearOutput,
    nbgrader.CheckCellMetadata,
    nbgrader.ComputeChecksums,
    nbgrader.SaveCells,
    nbgrader.ClearHiddenTests,
    nbgrader.ComputeChecksums,
    nbgrader.CheckCellMetadata,
]

c.ExchangeFactory.collect = CollectFiles

c.Autograde.sanitize_preprocessors = [
    nbgrader.ClearOutput,
    nbgrader.OverwriteKernelspec,
    course.MendCells,
    nbgrader.CheckCellMetadata,
]
c.Autograde.exporter_class = course.CarefulExporter
# In the place of Execute: submissions run behind walls, and their points are made outside.
c.Autograde.autograde_preprocessors = [
    course.RunSubmission,
    nbgrader.LimitOutput,
    nbgrader.SaveAutoGrades,
    nbgrader.AssignLatePenalties,
    nbgrader.CheckCellMetadata,
]

c.GenerateFeedback.preprocessors = [
    nbgrader.GetGrades,
    course.TidyFeedback,
    CSSHTMLHeaderPreprocessor,
]
c.HTMLExporter.filters = {"highlight_code": course.CarefulHighlight}
# No big ¶ beside each heading.
c.HTMLExporter.exclude_anchor_links = True
