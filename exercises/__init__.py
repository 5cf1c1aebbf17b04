"""The exercises of the course: a text and a Python file each, in `ASSIGNMENT/LESSON/`.

Code that several lessons use is in `shared`.
"""
