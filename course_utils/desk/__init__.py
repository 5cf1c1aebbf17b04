"""The student's desk: checks, hints, points, predictions, the environment, lessons as files."""
