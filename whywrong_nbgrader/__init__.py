"""For instructors: nbgrader plug-ins, the sandbox, and the grading of a class."""
