"""The catalogue: every exercise of the course, one module a lesson, loaded when first asked for."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from ..checking.catalogue import Catalogue
from ..checking.exercise import Exercise
from ..checking.key import Symptoms

LESSONS = {
    "1-averages/01_naive_mean": "lesson_01",
    "1-averages/02_tril_matmul": "lesson_02",
    "1-averages/03_softmax_masking": "lesson_03",
    "2-single-head/04_single_head": "lesson_04",
    "2-single-head/05_padding_mask": "lesson_05",
    "3-multi-head/06_heads_side_by_side": "lesson_06",
    "3-multi-head/07_split_heads": "lesson_07",
    "4-transformer/08_block": "lesson_08",
    "4-transformer/09_positions": "lesson_09",
    "4-transformer/10_tiny_lm": "lesson_10",
    "5-encoder-decoder/11_cross_attention": "lesson_11",
    "5-encoder-decoder/12_translation": "lesson_12",
    "6-practice/13_performance": "lesson_13",
    "6-practice/14_pitfall_clinic": "lesson_14",
    "7-capstone/15_capstone": "lesson_15",
}


def _load() -> dict[str, tuple[Exercise, ...]]:
    return {
        lesson: importlib.import_module(f".{module}", __name__).EXERCISES
        for lesson, module in LESSONS.items()
    }


SYMPTOMS = Path(__file__).with_name("symptoms.json")


def _symptoms() -> dict[str, Symptoms]:
    """Kept by `python -m tests.matrix --keep`: the cases on which each property fails."""
    return {
        id: {
            name: frozenset((property, i) for property, cases in broken.items() for i in cases)
            for name, broken in known.items()
        }
        for id, known in json.loads(SYMPTOMS.read_text()).items()
    }


COURSE = Catalogue(_load, _symptoms)
