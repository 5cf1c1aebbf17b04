"""Experiments for the lessons: the measurements are here, the calls and figures in the lessons.

Each experiment has a module; the experiments on heads share one, and all share `training` and
`measuring`. Stored models were trained by `python -m training.small_models`.
"""
