"""The exercises of the course: in `ASSIGNMENT/LESSON/`, a text and a Python file each.

What exercises of several lessons use is in `shared`.
"""
