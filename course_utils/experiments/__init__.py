"""Experiments for the lessons: the measurements are here, the calls and figures in the lessons.

Each experiment has a module; the experiments on heads share one.
"""
