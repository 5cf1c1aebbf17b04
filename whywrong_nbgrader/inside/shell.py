"""Runs a notebook's cells in this process; records outputs in notebook format."""

from __future__ import annotations

import builtins
import io
import sys
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Instance
from traitlets.config import Config

MOST_TEXT = 400_000  # characters of one stream
MOST_OUTPUT = 4_000_000  # characters of a cell's outputs together


class Outputs:
    """A cell's output so far, up to a limit."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self._room = MOST_OUTPUT

    def stream(self, name: str, text: str) -> None:
        if not self.kept or self.kept[-1].get("name") != name:
            self.kept.append({"output_type": "stream", "name": name, "text": ""})
        last = self.kept[-1]
        room = min(MOST_TEXT - len(last["text"]), self._room)
        if room > 0:
            last["text"] += text[:room]
            self._room -= len(text[:room])

    def add(self, **output: Any) -> None:
        data = output.get("data", {})
        data |= {k: b64encode(v).decode() for k, v in data.items() if isinstance(v, bytes)}
        size = sum(len(str(v)) for v in output.get("data", {}).values())
        if size <= self._room:
            self._room -= size
            self.kept.append(output)
        else:
            self.stream("stderr", "An output was too large to be stored.\n")


@dataclass(eq=False)
class _Stream(io.TextIOBase):
    _outputs: Outputs
    _name: str

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._outputs.stream(self._name, str(text))
        return len(text)


class _Publisher(DisplayPublisher):
    shell: Any

    def publish(self, data: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
        kept = {"data": dict(data), "metadata": dict(metadata or {})}
        self.shell.outputs.add(output_type="display_data", **kept)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.outputs.begin()


class _Hook(DisplayHook):
    shell: Any

    def start_displayhook(self) -> None:
        pass

    write_output_prompt = finish_displayhook = start_displayhook

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        kept = {"data": dict(format_dict), "metadata": dict(md_dict or {})}
        kept["execution_count"] = self.prompt_count
        self.shell.outputs.add(output_type="execute_result", **kept)


class Shell(InteractiveShell):
    """IPython as in a kernel, but without a kernel."""

    display_pub_class: Any = _Publisher
    displayhook_class: Any = _Hook
    outputs = Instance(Outputs, ())

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        try:
            said = str(evalue)
        except BaseException:
            said = ""
        lines = [str(line)[:10_000] for line in stb][:200]
        error = {"ename": str(etype.__name__), "evalue": said[:10_000], "traceback": lines}
        self.outputs.add(output_type="error", **error)

    def run(self, source: str) -> tuple[list[dict[str, Any]], bool]:
        """The outputs of a cell, and whether it ran without an error."""
        self.outputs.begin()
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Stream(self.outputs, "stdout"), _Stream(self.outputs, "stderr")
        try:
            result = self.run_cell(source, store_history=True)
            success = bool(result.success)
        except BaseException as error:  # a cell that ends the process gets an error
            self._showtraceback(type(error), error, [f"{type(error).__name__}: {error}"])
            success = False
        finally:
            sys.stdout, sys.stderr = before
        return self.outputs.kept, success


def _no_input(prompt: object = "") -> str:
    raise RuntimeError("nobody is there to answer input() while a class is graded")


def make_shell() -> Shell:
    """The one shell of this process, with figures drawn as in a notebook."""
    quiet = Config({"HistoryManager": {"enabled": False}})  # it would need a thread
    shell: Shell = Shell.instance(config=quiet, colors="nocolor")
    builtins.input = _no_input
    shell.enable_matplotlib("inline")
    return shell
