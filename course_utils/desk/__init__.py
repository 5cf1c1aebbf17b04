"""The student's desk: checks, hints, points, predictions, the environment, copies of lessons."""
