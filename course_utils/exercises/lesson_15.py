"""Lesson 15, the capstone: a blank page, a run accounted for, a head explained."""

from __future__ import annotations

from .lesson_15_blank import MY_GPT
from .lesson_15_head import MY_HEAD
from .lesson_15_run import MY_RUN

EXERCISES = (MY_GPT, MY_RUN, MY_HEAD)
