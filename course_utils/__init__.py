"""The package that the lessons of "From Averages to Transformers" import.

Use `check`, `hint`, `progress` and `reset` while you learn; `device` chooses the device, and
`yours` lets a demonstration use your answer once it is right; `figures` has the functions that
draw. The finished parts of the lessons, which are written to be read, are in
`course_utils.attention`, `course_utils.transformer` and `course_utils.language_model`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .desk.checks import check, hint, progress, yours
    from .desk.environment import check_environment, device, report_environment
    from .desk.lessons import reset
    from .show import figures

_HOME = {
    "check": "desk.checks",
    "hint": "desk.checks",
    "progress": "desk.checks",
    "yours": "desk.checks",
    "device": "desk.environment",
    "check_environment": "desk.environment",
    "report_environment": "desk.environment",
    "reset": "desk.lessons",
}
__all__ = [
    "check",
    "check_environment",
    "device",
    "figures",
    "hint",
    "progress",
    "report_environment",
    "reset",
    "yours",
]


def __getattr__(name: str) -> Any:
    # Names are loaded on first use, so that importing is fast and the environment check works
    # without PyTorch.
    if name == "figures":
        return import_module(".show.figures", __name__)
    if name not in _HOME:
        raise AttributeError(f"course_utils has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
