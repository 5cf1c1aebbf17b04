"""Experiments for the lessons: measurements are here; calls and figures are in the lessons.

Each experiment has a module; the experiments on heads share one.
"""
