"""Words that no lesson needs but a cheater might: a reason to look, but no proof.

A submission's process contains the finished parts, because lessons use them. An answer that calls
one by name is refused; one that works around this leaves such a word behind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

MODULES = {"_ctypes", "_thread", "atexit", "builtins", "cffi", "cloudpickle", "code", "codecs"}
MODULES |= {"ctypes", "dill", "dis", "faulthandler", "gc", "importlib", "inspect", "linecache"}
MODULES |= {"marshal", "mmap", "multiprocessing", "pickle", "pkgutil", "runpy", "signal"}
MODULES |= {"socket", "subprocess", "tracemalloc", "zipimport"}
OF_THE_ENGINE = {"whywrong", "whywrong_nbgrader", "exercises"}
NAMES = {"__builtins__", "__import__", "breakpoint", "compile", "eval", "exec", "get_ipython"}
NAMES |= {"globals", "vars"}
ATTRIBUTES = {"_C", "__builtins__", "__closure__", "__code__", "__globals__", "__loader__"}
ATTRIBUTES |= {"__mro__", "__reduce__", "__self__", "__subclasses__", "_current_frames", "_exit"}
ATTRIBUTES |= {"_getframe", "addaudithook", "dup", "dup2", "execv", "f_back", "f_builtins"}
ATTRIBUTES |= {"f_code", "f_globals", "f_locals", "fork", "jit", "kill", "meta_path", "ops"}
ATTRIBUTES |= {"path_hooks", "popen", "setprofile", "setrecursionlimit", "settrace", "spawnl"}
ATTRIBUTES |= {"system", "tb_frame"}
MOST_READ = 20_000  # characters of a cell
DYNAMIC = {"delattr", "getattr", "setattr"}
COMMAND = re.compile(
    r"^\s*(?:!|%%?(?:bash|sh|script|system|sx|run|load_ext|writefile|python\w*)\b)"
)
WORD = re.compile(r"\w+")


@lru_cache(maxsize=4096)  # most of a class has many a cell alike
def odd_words(source: str) -> frozenset[str]:
    """The suspicious words of a cell."""
    source = source[:MOST_READ]
    lines = source.splitlines()
    found = frozenset("a system command" for line in lines if COMMAND.match(line))
    python = "\n".join("" if re.match(r"\s*[!%]", line) else line for line in lines)
    try:
        tree = ast.parse(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found | (set(WORD.findall(source)) & (MODULES | NAMES | ATTRIBUTES - {"ops", "_C"}))
    return found | {word for node in ast.walk(tree) for word in _odd(node)}


def _odd(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for name in node.names:
            yield from _odd_module(name.name)
    elif isinstance(node, ast.ImportFrom):
        yield from _odd_module(node.module or "")
        for name in node.names:
            yield from _odd_module(f"{node.module}.{name.name}")
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield node.id
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in DYNAMIC:
        if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
            yield "getattr with a name that is computed"
    elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        yield node.attr
    elif isinstance(node, ast.Attribute) and node.attr == "modules":
        if isinstance(node.value, ast.Name) and node.value.id == "sys":  # models have `modules` too
            yield "sys.modules"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from {node.value} & ATTRIBUTES


def _odd_module(name: str) -> Iterator[str]:
    parts = name.split(".")
    if parts[0] in MODULES:
        yield parts[0]
    if parts[0] in OF_THE_ENGINE or parts[1:2] == ["desk"]:
        yield ".".join(parts[:2])
