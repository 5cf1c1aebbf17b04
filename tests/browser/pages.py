"""Jupyter's own pages in the system's own Chromium, for tests and for benchmarks.

The browser's own rules refuse every request to another host, and `Notebook.outside` records it. A
handler for all requests would do the same, but cost a fifth of the time that a page needs to open.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import psutil
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    sync_playwright,
)

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TOKEN = "a-server-of-these-tests-alone"
START_SECONDS = 120
WAIT_MS = 60_000  # for opening a page; two cores may be busy with other tests
ACT_MS = 20_000  # for anything within a page


class NoBrowser(Exception):
    """Chromium was not found."""


@contextmanager
def launch() -> Iterator[Browser]:
    """The system's Chromium, without a window, from `COURSE_CHROMIUM` or by its usual names."""
    named = os.environ.get("COURSE_CHROMIUM")
    names = (named,) if named else BROWSERS
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise NoBrowser(f"no browser found as {', '.join(names)}")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    arguments += ["--disable-background-networking"]
    arguments += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Server:
    """A running Jupyter server and the folder it serves."""

    url: str
    folder: Path

    def ask(self, path: str, method: str = "GET") -> Any:
        """A reply of the server's own API, parsed from JSON."""
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def stop_kernels(self) -> None:
        for kernel in self.ask("api/kernels"):
            self.ask(f"api/kernels/{kernel['id']}", method="DELETE")


@contextmanager
def serve(home: Path) -> Iterator[Server]:
    """JupyterLab and Notebook 7 on one server, with all settings and folders under `home`."""
    folder = home / "notebooks"
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    environment |= {
        f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")
    }
    environment |= {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    # A question about news would cover the page.
    notification = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    (home / "settings" / notification).parent.mkdir(parents=True)
    (home / "settings" / notification).write_text('{"fetchNews": "false"}')
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.port_retries=0"]
    command += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.extension_manager=readonly"]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True"]
    with open(home / "log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    server: Server | None = None
    try:
        server = Server(_address(process, home), folder)
        yield server
    finally:
        if server:
            server.stop_kernels()
        started = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        for left in psutil.wait_procs(started, timeout=10)[1]:
            left.kill()


def _address(process: subprocess.Popen[bytes], home: Path) -> str:
    """The server's address, once it responds."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        for info in (home / "runtime").glob("jpserver-*.json"):
            try:
                url = json.loads(info.read_text())["url"]
                Server(url, home).ask("api/status")
                return url
            except (ValueError, OSError):
                pass
        time.sleep(0.2)
    raise RuntimeError(f"Jupyter did not start:\n{(home / 'log').read_text()[-3000:]}")


@dataclass
class Notebook:
    """A notebook open in a browser's page."""

    page: Page
    server: Server
    name: str
    outside: list[str] = field(default_factory=list)  # requests to other hosts
    errors: list[str] = field(default_factory=list)  # errors that the page reported

    def command(self, name: str, **arguments: Any) -> None:
        """One of Jupyter's own commands; returns when it is done."""
        self.page.evaluate(
            "([name, given]) => window.jupyterapp.commands.execute(name, given).then(() => null)",
            [name, arguments],
        )

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def run(self, code: str) -> Locator:
        """Make `code` the only cell, run it, and return the element with its outputs."""
        self.page.evaluate(
            """code => {
                const panel = window.jupyterapp.shell.currentWidget;
                const cells = panel.model.sharedModel;
                cells.deleteCellRange(0, cells.cells.length);
                cells.insertCell(0, { cell_type: "code", source: code });
                panel.content.activeCellIndex = 0;
            }""",
            code,
        )
        self.command("notebook:run-cell")
        outputs = self.page.evaluate(
            "window.jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()"
        )
        failed = [output for output in outputs if output["output_type"] == "error"]
        assert not failed, f"{failed[0]['ename']}: {failed[0]['evalue']}"
        return self.page.locator(".jp-Cell").first.locator(".jp-Cell-outputArea")

    def ask(self, expression: str) -> str:
        """The `repr` of `expression` in the notebook's kernel; no cell is changed."""
        return self.page.evaluate(
            """async expression => {
                const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
                const future = kernel.requestExecute(
                    { code: "", user_expressions: { it: expression } });
                const { it } = (await future.done).content.user_expressions;
                return it.data ? it.data["text/plain"] : `${it.ename}: ${it.evalue}`;
            }""",
            expression,
        )

    def tell(self, code: str) -> None:
        """Have the notebook's kernel run `code` outside any cell."""
        status = self.page.evaluate(
            """async code => {
                const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
                const { content } = await kernel.requestExecute({ code }).done;
                return content.status === "ok" ? "ok" : `${content.ename}: ${content.evalue}`;
            }""",
            code,
        )
        assert status == "ok", status

    def cells(self) -> int:
        return self.page.evaluate(
            "window.jupyterapp.shell.currentWidget.model.sharedModel.cells.length"
        )

    def saved(self) -> nbformat.NotebookNode:
        """The notebook's file after it was saved."""
        self.command("docmanager:save")
        return nbformat.read(self.server.folder / self.name, as_version=4)

    def theme(self, name: str) -> None:
        """ "JupyterLab Light" or "JupyterLab Dark"."""
        current = self.page.evaluate("document.body.dataset.jpThemeName")
        if current == name:
            return
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function(
            "name => document.body.dataset.jpThemeName === name", arg=name, timeout=WAIT_MS
        )
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def reload(self) -> None:
        self.page.reload()
        _wait_until_open(self.page)

    def screenshot(self, path: Path, what: Locator | None = None) -> None:
        (what or self.page).screenshot(path=path)


def knows(notebook: Notebook, expression: str, value: str) -> None:
    """Wait until the kernel has this value, which the page sends shortly after showing it."""
    for _ in range(100):
        if notebook.ask(expression) == value:
            return
        notebook.page.wait_for_timeout(50)
    assert notebook.ask(expression) == value


def _wait_until_open(page: Page) -> None:
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=WAIT_MS)
    page.wait_for_function(
        """async () => {
            const context = window.jupyterapp?.shell.currentWidget?.sessionContext;
            await context?.ready;
            return context?.session?.kernel?.status === "idle";
        }""",
        timeout=WAIT_MS,
    )


OpenNotebook = Callable[..., Notebook]


@contextmanager
def notebooks(server: Server, browser: Browser, title: str) -> Iterator[OpenNotebook]:
    """Opens notebooks: `open(cells, app="lab", **settings of a browser's context)`.

    `cells` is a list of code cells or the path of a notebook, which is copied; `app` is "lab" or
    "notebook". Pages are closed and kernels stopped at the end.
    """
    contexts: list[BrowserContext] = []

    def open_one(cells: list[str] | Path, app: str = "lab", **settings: Any) -> Notebook:
        if isinstance(cells, Path):
            notebook = nbformat.read(cells, as_version=4)
        else:
            notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        name = f"{title}-{len(contexts)}-{app}.ipynb"
        nbformat.write(notebook, server.folder / name)

        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | settings)
        contexts.append(context)
        context.set_default_timeout(ACT_MS)
        opened = Notebook(context.new_page(), server, name)

        def note(request: Request) -> None:
            if urlsplit(request.url).hostname not in ("127.0.0.1", None):  # a blob URL has no host
                opened.outside.append(request.url)

        def complain(message: ConsoleMessage) -> None:
            if message.type == "error":
                opened.errors.append(message.text)

        context.on("request", note)
        opened.page.on("console", complain)
        opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
        path = {"lab": f"lab/workspaces/{name[:-6]}/tree", "notebook": "notebooks"}[app]
        opened.page.goto(f"{server.url}{path}/{name}?token={TOKEN}")
        _wait_until_open(opened.page)
        if app == "lab":
            opened.command("application:toggle-left-area")
        opened.errors.clear()  # Notebook 7 itself reports two when it starts
        return opened

    try:
        yield open_one
    finally:
        for context in contexts:
            context.close()
        server.stop_kernels()
