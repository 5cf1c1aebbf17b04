"""A real JupyterLab and a real Notebook 7 in a real browser, to test what a student sees.

Only axe-core is downloaded, once. Without a browser or without axe-core, the tests are skipped.
Tests for both programs run in Notebook 7 only in `make test-all`.
"""

import base64
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest
from maps import FULL, SETUP, one
from pages import ROOT, NoBrowser, OpenNotebook, Server, launch, notebooks, serve
from playwright.sync_api import Browser, Locator

AXE_RUN = """(part, every) => {
    const names = every ? axe.getRules().map(rule => rule.ruleId) : ["target-size"];
    const rules = Object.fromEntries(names.map(name => [name, { enabled: true }]));
    return axe.run(part, { rules }).then(result => result.violations); }"""
AXE = "axe-core@4.14.1"
AXE_SHA512 = (
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)


# Both programs show the map; `make test` tests it in JupyterLab.
APPS = ["lab", pytest.param("notebook", marks=pytest.mark.full("the map in Notebook 7"))]
REMEDY = (
    "install Chromium and npm (Debian, Ubuntu: apt install chromium npm), "
    "or name a browser in COURSE_CHROMIUM"
)


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
def violations(axe: str) -> Callable[..., list[str]]:
    """The findings of axe-core for a part of a page, target sizes too: one line per finding.

    `every` adds the rules of level AAA, such as a contrast of 7, and those that axe-core tries out.
    """

    def scan(part: Locator, every: bool = False) -> list[str]:
        if part.page.evaluate("typeof axe === 'undefined'"):
            part.page.evaluate(axe)
        found = part.evaluate(AXE_RUN, every)
        return [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
            for rule in found
            for node in rule["nodes"]
        ]

    return scan


@pytest.fixture(scope="module", params=APPS)
def shared_notebook(request, open_notebook):
    notebook = open_notebook([""], app=request.param)
    notebook.theme("JupyterLab Light")
    notebook.tell(SETUP)
    return notebook


@pytest.fixture
def notebook(shared_notebook):
    """A notebook whose page must report no errors and contact no other host."""
    yield shared_notebook
    errors, outside = shared_notebook.errors[:], shared_notebook.outside[:]
    shared_notebook.errors.clear()
    shared_notebook.outside.clear()
    assert errors == []
    assert outside == []


@pytest.fixture
def full(notebook) -> Locator:
    """A map with all features, as `w` in the kernel."""
    return one(notebook.run(FULL))
