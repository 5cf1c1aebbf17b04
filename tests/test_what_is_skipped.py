"""A run that can't test everything says so at its end; in CI it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full("what a run says of what it skips")

COURSE = Path(__file__).parent.parent
SOME = "tests/browser/test_attention_map_browser.py"
THERE = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST")}
QUICK = ["-p", "no:cacheprovider", "-o", "addopts=--disable-plugin-autoload -p xdist -p timeout"]


def run_without_a_browser(*options, **environment):
    """Some of the browser tests, as on a machine without Chromium."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *QUICK, *options, "-k", "lab and arrow", SOME],
        cwd=COURSE,
        env={**THERE, "COURSE_CHROMIUM": "no-such-browser", **environment},
        capture_output=True,
        text=True,
    )


def test_what_was_not_tested_is_the_last_thing_said():
    done = run_without_a_browser("-n", "1", "--dist", "loadfile")
    *_, said, total = done.stdout.strip().splitlines()
    assert done.returncode == 0
    skipped = re.search(r"(\d+) skipped", total)[1]
    assert said == (
        f"NOT TESTED HERE, {skipped} tests: what a student sees in a browser (no browser found as "
        "no-such-browser). To test it, install Chromium and npm (Debian, Ubuntu: apt install "
        "chromium npm), or name a browser in COURSE_CHROMIUM."
    )


@pytest.mark.parametrize("how", [(), ("-n", "1", "--dist", "loadfile")])
def test_in_ci_a_missing_browser_is_a_failure(how):
    done = run_without_a_browser("-q", *how, CI="true")
    assert done.returncode == 1
    assert "In CI nothing may be skipped. what a student sees in a browser" in done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
