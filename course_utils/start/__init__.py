"""The start page: a small trained model to play with, and what shows it."""

from .playground import playground

__all__ = ["playground"]
