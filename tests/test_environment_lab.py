"""`make lab` serves the course: it is started like a person would, and queried like a browser."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

COURSE = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address that `make lab` prints, in the environment of these tests."""
    home = tmp_path_factory.mktemp("home")
    options = "--no-browser --ServerApp.port=0 --ServerApp.open_browser=False"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JUPYTER")}
    server = subprocess.Popen(
        # -o: this environment is complete, whoever created it.
        ["make", "-o", f"{sys.prefix}/.lab", "lab", f"VENV={sys.prefix}", f"ARGS={options}"],
        cwd=COURSE,
        env={**environment, "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said = []
    try:
        for line in server.stdout:
            said.append(line)
            if found := re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab\S*token=\w+", line):
                yield found[0]
                break
        else:
            pytest.fail("make lab printed no address:\n" + "".join(said))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate(timeout=60)


def get(address, tries=60):
    """The page at an address, which the server prints a moment before it listens there."""
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.URLError as error:
            tries -= 1
            if tries == 0 or not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.5)


def test_the_address_is_the_start_page(address):
    assert urlsplit(address).path == "/lab/tree/notebooks/index.ipynb"
    assert "<title>JupyterLab</title>" in get(address)
    settings = "/lab/api/settings/@jupyterlab/apputils-extension:notification"
    asked = json.loads(get(address.replace(urlsplit(address).path, settings)))
    assert asked["schema"]["properties"]["fetchNews"]["default"] == "false"
