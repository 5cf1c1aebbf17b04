"""Joins many modules into one script, for a widget and for a page without a server.

This folder contains the modules that the attention map, the explorer and the translating line
share, and the translating line itself.
"""

import json
import re
from functools import cache
from pathlib import Path

from .. import colours

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.[^"]*)";$', re.M)
EXPORTED = re.compile(r"^export (?:function|const|class) (\w+)", re.M)
# Only comments on lines of their own.
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)\n", re.M | re.S)
EXPORT = re.compile(r"^export (?=function|const|class)", re.M)


@cache
def joined(entry: Path) -> str:
    """Join a module's script with those of all modules that it imports, each in its own scope.

    Comments are left out, because the script is sent with every widget and stored in every page.
    """
    names: dict[Path, str] = {}
    parts: list[str] = []

    def linked(path: Path) -> str:
        def taken(found: re.Match[str]) -> str:
            needed = (path.parent / found[2]).resolve()
            if needed not in names:
                text = linked(needed)
                exported = ", ".join(EXPORTED.findall(text))
                names[needed] = f"${needed.parent.name}_{needed.stem}"
                text = f"{EXPORT.sub('', text)}\nreturn {{ {exported} }};"
                parts.append(f"const {names[needed]} = (() => {{\n{text}\n}})();\n")
            return f"const {found[1].replace(' as ', ': ')} = {names[needed]};"

        return IMPORT.sub(taken, _source(path))

    last = linked(entry.resolve())
    return "".join([*parts, last])


def _source(path: Path) -> str:
    """The text of a module; `colours.js` is generated from the course's colours."""
    if path == FOLDER.resolve() / "colours.js":
        made = {name.upper(): json.dumps(kept) for name, kept in colours.for_the_page().items()}
        return "".join(f"export const {name} = {text};\n" for name, text in made.items())
    return COMMENT.sub("", path.read_text(encoding="utf-8"))
