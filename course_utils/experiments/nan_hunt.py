"""Lesson 05: a NaN that occurs in a backward pass, even if no parameter's gradient shows it."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


def nan_on_the_way_back(loss: Tensor) -> bool:
    """Return whether any operation's gradient contains a NaN, even if the NaN reaches no layer.

    PyTorch's anomaly detection checks each operation of the backward pass and stops at the first
    whose gradient contains a NaN.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            try:
                loss.backward()
            except RuntimeError as error:
                if "nan values" not in str(error):
                    raise
                return True
    return False
