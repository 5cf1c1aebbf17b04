"""Titles and text alternatives that would answer a question if they stood in a lesson's cell.

One module a lesson; see `course_utils.guesses.caption`.
"""
