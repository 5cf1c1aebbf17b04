"""nbgrader's configuration for this course, from generate_assignment to export.

Your own settings, such as `c.Exchange.root`, the directory where students submit, belong in the
file `own_config.py` next to this one, which git ignores.
"""

import os
import sys

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader import preprocessors as nbgrader

from whywrong_nbgrader import folders
from whywrong_nbgrader import preprocessors as course
from whywrong_nbgrader.collecting import CollectFiles, ReleaseFeedback

c = get_config()  # noqa: F821  (given by traitlets)

# nbgrader runs `alembic` by name: make it available if the environment is not activated.
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

# Valid in a function, a method, a class and on its own; a stub runs and returns None.
c.ClearSolutions.code_stub = {"python": "...  # your code here"}

# notebooks/ is part of the course, so it exists before nbgrader has built it. Rebuild it; otherwise
# nbgrader skips the assignment and never enters it in the gradebook.
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

# Nobody is a student only because a folder has this name: see `course grade --enrol`.
c.Autograde.create_student = False
c.ExchangeFactory.collect = CollectFiles
c.ExchangeFactory.release_feedback = ReleaseFeedback

# Files as Canvas and Moodle name them: name, number of the student, another number or word, file.
# Students' archives stay packed: `course grade` reads them within limits.
c.FileNameCollectorPlugin.named_regexp = (
    r".*/extracted/(?:[^/]*/)*?[^/_]+_(?:LATE_)?(?P<student_id>\d+)"
    r"_(?:\d+|assignsubmission_file)[_/](?P<file_id>.+)"
)
c.FileNameCollectorPlugin.valid_ext = [".ipynb", ".IPYNB", ".json", ""]
c.FileNameCollectorPlugin.valid_ext += [*folders.WRITTEN, *folders.DOCUMENTS, *folders.ARCHIVES]
c.ExtractorPlugin.zip_ext = []

c.Autograde.sanitize_preprocessors = [
    nbgrader.ClearOutput,
    nbgrader.OverwriteKernelspec,
    course.RestoreCells,
    nbgrader.CheckCellMetadata,
]
c.Autograde.exporter_class = course.CarefulExporter
# Replaces Execute: submissions run in a sandbox, and their points are computed outside.
c.Autograde.autograde_preprocessors = [
    course.RunSubmission,
    nbgrader.LimitOutput,
    nbgrader.SaveAutoGrades,
    nbgrader.AssignLatePenalties,
    nbgrader.CheckCellMetadata,
]

# Otherwise pages stay as they are when points or comments change in the gradebook.
c.GenerateFeedback.force = True
c.GenerateFeedback.preprocessors = [
    nbgrader.GetGrades,
    course.TidyFeedback,
    CSSHTMLHeaderPreprocessor,
]
c.HTMLExporter.filters = {
    "highlight_code": course.CarefulHighlight,
    "markdown2html": course.markdown,
    # nbconvert's takes quadratic time in the brackets that a student writes.
    "strip_files_prefix": lambda text: text,
}
c.HTMLExporter.extra_template_basedirs = course.TEMPLATES
# No large ¶ next to each heading.
c.HTMLExporter.exclude_anchor_links = True

if os.path.exists(os.path.join(os.path.dirname(__file__), "own_config.py")):
    load_subconfig("own_config.py")  # noqa: F821  (given by traitlets)
