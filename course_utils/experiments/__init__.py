"""Experiments for the lessons: the measurements are here, calls and figures in the lessons.

One module per experiment, and one for the experiments on heads.
"""
