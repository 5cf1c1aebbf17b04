"""For instructors: what nbgrader does differently in this course."""
