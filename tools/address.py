"""Where the course's repository is, and the links that follow from it.

The address is written in one place, `Repository` under `[project.urls]` in pyproject.toml. Until it
is there, the address that a clone came from serves for the site. Without either, pages have no
badges, and say `make lab` alone.

    python -m tools.address

prints the links to share.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from urllib.parse import quote

from . import ROOT, START_PAGE

GITHUB = re.compile(
    r"(?:https://(?:[^@/]+@)?|git@|ssh://git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


@cache
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def declared() -> str:
    """The address in pyproject.toml, or nothing."""
    return project().get("urls", {}).get("Repository", "").rstrip("/")


@cache
def repository() -> str:
    """`https://github.com/OWNER/NAME`: as declared, or as this clone's own origin has it."""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        origin = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # no git here
        origin = ""
    found = GITHUB.fullmatch(declared()) or GITHUB.fullmatch(origin)
    return f"https://github.com/{found[1]}" if found else ""


def release() -> str:
    """The tag of this version."""
    return f"v{project()['version']}"


def binder(place: str) -> str:
    """The link that opens a file of this release on Binder, if the address is known."""
    name = repository().removeprefix("https://github.com/")
    opened = quote(f"lab/tree/{place}", safe="")
    return f"https://mybinder.org/v2/gh/{name}/{release()}?urlpath={opened}" if name else ""


def colab(place: str) -> str:
    """The link that opens a notebook of this release in Colab, if the address is known."""
    name = repository().removeprefix("https://github.com/")
    site = "https://colab.research.google.com/github"
    return f"{site}/{name}/blob/{release()}/{quote(place)}" if name else ""


def install() -> str:
    """What Colab needs to be told."""
    return f"git+{declared() or repository()}@{release()}"


if __name__ == "__main__":
    start = f"notebooks/{START_PAGE}"
    if repository():
        print(f"Binder: {binder(start)}\nColab:  {colab(start)}\npip:    {install()}")
    else:
        print("No address: write Repository under [project.urls] in pyproject.toml.")
