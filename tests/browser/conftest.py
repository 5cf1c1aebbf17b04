"""A real JupyterLab and a real Notebook 7 in a real browser, for tests of what a student sees.

Nothing is downloaded for it but axe-core, once. Without a browser or without axe-core the tests are
skipped. What is tried in both is tried in Notebook 7 a third a day: see tests/turns.py.
"""

import base64
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from pages import ROOT, NoBrowser, OpenNotebook, Server, launch, notebooks, serve
from playwright.sync_api import Browser, Locator

from tests.turns import whose_turn

AXE = "axe-core@4.14.1"
AXE_SHA512 = (
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)


REMEDY = (
    "install Chromium and npm (Debian, Ubuntu: apt install chromium npm), "
    "or name a browser in COURSE_CHROMIUM"
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    twice = [item for item in items if _app(item) == "notebook"]
    later = set(twice) - set(whose_turn(twice))
    config.hook.pytest_deselected(items=[item for item in items if item in later])
    items[:] = [item for item in items if item not in later]


def _app(item: pytest.Item) -> str:
    """Where a test is tried that shares a notebook with others."""
    given = getattr(item, "callspec", None)
    return given.params.get("shared_notebook", "") if given else ""


def _unavailable(reason: str) -> NoReturn:
    reason = f"what a student sees in a browser ({reason}). To test it, {REMEDY}."
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    try:
        with launch() as browser:
            yield browser
    except NoBrowser as error:
        _unavailable(str(error))


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="module")
def open_notebook(
    chromium: Browser, jupyter: Server, request: pytest.FixtureRequest
) -> Iterator[OpenNotebook]:
    """`open_notebook(cells, app="lab")` opens a notebook in a page: see `pages.notebooks`."""
    with notebooks(jupyter, chromium, request.module.__name__.rpartition(".")[2]) as opener:
        yield opener


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from npm, kept in node_modules/ as npm packs it."""
    archive = ROOT / "node_modules" / f"{AXE.replace('@', '-')}.tgz"
    if not archive.exists():
        archive.parent.mkdir(exist_ok=True)
        npm = shutil.which("npm")
        if not npm:
            _unavailable(f"no npm found to fetch {AXE}")
        fetched = subprocess.run(
            [npm, "pack", AXE, "--silent", "--pack-destination", str(archive.parent)],
            capture_output=True,
            text=True,
        )
        if fetched.returncode:
            _unavailable(f"npm could not fetch {AXE}: {fetched.stderr}")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert digest == AXE_SHA512, f"{archive} is not the {AXE} these tests were written for"
    with tarfile.open(archive) as packed:
        source = packed.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


@pytest.fixture
def violations(axe: str) -> Callable[[Locator], list[str]]:
    """What axe-core finds wrong with a part of a page: every rule it has, one line a finding."""

    def scan(part: Locator) -> list[str]:
        if part.page.evaluate("typeof axe === 'undefined'"):
            part.page.evaluate(axe)
        found = part.evaluate("part => axe.run(part).then(result => result.violations)")
        return [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
            for rule in found
            for node in rule["nodes"]
        ]

    return scan
