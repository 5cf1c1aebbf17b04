"""Real kernels in the sandbox: what they can do, what they can't, and how they end."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from jupyter_client import KernelManager
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.preprocessors import Execute
from traitlets.config import Config

from tools import ROOT as COURSE
from whywrong_nbgrader import provisioner, sandbox
from whywrong_nbgrader.inside import calls
from whywrong_nbgrader.provisioner import JUPYTER, KERNEL

full = pytest.mark.full("kernels in the sandbox in detail")
SECRET = "no-business-of-a-student"
SOON = 60  # seconds; without a limit, some of these would never end


@pytest.fixture(scope="module", autouse=True)
def found_by_name():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(JUPYTER))
        patch.setenv("COURSE_SECRET", SECRET)
        yield


@pytest.fixture
def nothing_left(monkeypatch):
    """The kernels of a test create their folders in one that must be empty at the end."""
    folders = Path(tempfile.mkdtemp(dir="/tmp"))  # tmp_path is too long for a socket
    monkeypatch.setattr(provisioner, "FOLDERS", str(folders))
    before = set(psutil.Process().children(recursive=True))
    yield folders
    assert list(folders.iterdir()) == []
    folders.rmdir()
    after = set(psutil.Process().children(recursive=True)) - before
    assert [words(p) for p in after if words(p)] == []
    assert not [p for p in psutil.process_iter(["cmdline"]) if names(p, folders)]


def words(process):
    """The command line of a process; empty if it has ended."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def names(process, folder):
    return any(str(folder) in word for word in process.info["cmdline"] or ())


def run(*cells, kernel=KERNEL, **options):
    notebook = new_notebook(cells=[new_code_cell(textwrap.dedent(c)) for c in cells])
    NotebookClient(notebook, kernel_name=kernel, timeout=SOON, **options).execute()
    return [cell.outputs for cell in notebook.cells]


def python(*arguments, **how):
    how |= {"capture_output": True, "text": True, "timeout": 2 * SOON}
    return subprocess.run([sys.executable, *arguments], **how)


class Locked:
    """A kernel inside, and a client outside."""

    def __init__(self):
        self.manager = KernelManager(kernel_name=KERNEL)
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SOON)

    def __call__(self, code):
        """The output of a program, or its error."""
        said = []

        def hear(message):
            content = message["content"]
            if message["msg_type"] == "error":
                said.append(f"{content['ename']}: {content['evalue']}")
            said.append(content.get("text", ""))

        self.client.execute_interactive(
            textwrap.dedent(code), timeout=SOON, output_hook=hear, allow_stdin=False
        )
        return "".join(said).strip()

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def inside():
    kernel = Locked()
    yield kernel
    kernel.stop()


@pytest.fixture
def kernel(nothing_left):
    started = Locked()
    yield started
    started.stop()


class TestByName:
    cells = (
        "import course_utils.show.shapes, torch\nprint('on standard output')\ntorch.arange(3)",
        "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); plt.title('a figure');",
        "from IPython.display import Markdown\nMarkdown('*text*')",
    )

    @full
    def test_a_notebook_has_the_outputs_it_has_outside(self, nothing_left):
        locked, outside = run(*self.cells), run(*self.cells, kernel="python3")
        assert locked == outside
        (figure,) = [o for o in locked[1] if o.output_type == "display_data"]
        assert len(figure.data["image/png"]) > 1000

    def test_nbgrader_executes_in_it_and_goes_on_after_an_endless_loop(self, nothing_left):
        sources = ["import socket\nsocket.gethostname()", "while True: pass", "1 + 1"]
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        Execute(kernel_name=KERNEL, timeout=1).preprocess(notebook, {})
        first, endless, last = (cell.outputs for cell in notebook.cells)
        assert first[0].data["text/plain"] == "'student'"
        assert "CellTimeoutError" in [output.get("ename") for output in endless]
        assert last[0].data["text/plain"] == "2"

    @full
    def test_nbval_compares_in_it(self, tmp_path):
        def stored(source, result):
            output = new_output("execute_result", {"text/plain": result}, execution_count=1)
            return new_code_cell(source, outputs=[output], execution_count=1)

        cells = [stored("import socket\nsocket.gethostname()", "'student'"), stored("1 + 1", "3")]
        write(new_notebook(cells=cells), tmp_path / "lesson.ipynb")
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        by_name = ("--nbval", "--nbval-kernel-name", KERNEL)
        done = python("-m", "pytest", "-rA", "--color=no", *by_name, "lesson.ipynb", cwd=tmp_path)
        assert "PASSED lesson.ipynb::Cell 0" in done.stdout
        assert "FAILED lesson.ipynb::Cell 1" in done.stdout

    @full
    def test_without_bubblewrap_it_stops_and_says_what_to_do(self, tmp_path):
        program = f"""
            import nbclient, nbformat
            cell = nbformat.v4.new_code_cell("open('was_here', 'w')")
            notebook = nbformat.v4.new_notebook(cells=[cell])
            nbclient.NotebookClient(notebook, kernel_name={KERNEL!r}).execute()
        """
        alone = os.environ | {"PATH": str(tmp_path)}
        done = python("-c", textwrap.dedent(program), cwd=tmp_path, env=alone)
        assert done.returncode == 1
        said = done.stderr.split("NoSandbox: ")[-1]
        for choice in ("apt install bubblewrap", "container", "--trust-submissions"):
            assert choice in said
        assert list(tmp_path.iterdir()) == []


class TestInside:
    def test_there_is_no_network(self, inside):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as own:
            own.bind(f"\0{SECRET}")
            own.listen()
            server.settimeout(0.2)
            said = inside(f"""
                import socket
                for kind, address in [
                    (socket.AF_INET, {server.getsockname()}),
                    (socket.AF_INET, ("192.0.2.1", 80)),
                    (socket.AF_UNIX, "\\0{SECRET}"),
                ]:
                    try:
                        socket.socket(kind).connect(address)
                    except OSError as error:
                        print(type(error).__name__)
                try:
                    socket.getaddrinfo("example.org", 80)
                except OSError as error:
                    print(type(error).__name__)
                print([name for _, name in socket.if_nameindex()])
            """)
            with pytest.raises(TimeoutError):
                server.accept()
        refused = ["PermissionError", "PermissionError", "ConnectionRefusedError", "gaierror"]
        assert said.split("\n") == [*refused, "['lo']"]

    def test_the_course_is_available_without_its_answers(self, inside):
        assert inside("import course_utils.transformer") == ""
        assert "can't reach" in inside("print(__import__('course_utils').check('x', 1))")
        for hidden in ("exercises", "tools", "whywrong_nbgrader.verdicts"):
            said = inside(f"import {hidden}")
            assert said == f"ModuleNotFoundError: No module named '{hidden}'"

    def test_only_programs_of_the_host_are_seen(self, inside, tmp_path):
        (tmp_path / "gradebook.db").write_text(SECRET)
        places = [tmp_path, Path.home() / ".profile", COURSE / "solutions", "/etc/passwd"]
        there = f"[p for p in {[str(p) for p in places]} if os.path.exists(p)]"
        assert inside(f"import os; print(*{there})") == ""
        programs = ["/usr", "/etc", "/proc", "/dev", sys.prefix, sys.base_prefix]
        said = inside(f"""
            for place, folders, files in os.walk("/"):
                folders[:] = [f for f in folders if os.path.join(place, f) not in {programs}]
                for name in files:
                    print(os.path.join(place, name))
        """)
        own = str(Path(inside.manager.connection_file).parent)
        seen = said.split("\n")
        packages = [
            f"/course/{name}/" for name in ("course_utils", "whywrong", "whywrong_nbgrader")
        ]
        others = [f for f in seen if not f.startswith((own, *packages, sandbox.HOME))]
        assert others == [] and len(seen) > 20
        assert not [f for f in seen if "exercises" in f]
        assert inside("print(os.getcwd(), os.listdir())") == f"{sandbox.HOME} ['.ipython']"

    def test_processes_of_the_host_are_not_seen(self, inside):
        with subprocess.Popen(["sleep", "4322"]) as asleep:
            said = inside("""
                from pathlib import Path
                lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline")]
                print(len(lines), any(b"4322" in line for line in lines))
            """)
            asleep.kill()
        assert said == "2 False"

    def test_the_environment_of_the_host_is_not_seen(self, inside):
        said = inside("""
            import os
            from pathlib import Path
            print(sorted(os.environ))
            print([p.read_text() for p in Path("/proc").glob("[0-9]*/environ")])
        """)
        assert SECRET not in said and "COURSE_SECRET" not in said
        assert "OMP_NUM_THREADS" in said

    def test_it_writes_only_into_its_own_folders(self, inside):
        own = Path(inside.manager.connection_file).parent
        shut = ["/", "/dev", "/usr", "/etc", "/home", "/course", COURSE]
        shut += [sys.prefix, sys.base_prefix, Path(torch.__file__).parent]
        said = inside(f"""
            import os
            for place in {[str(p) for p in shut]} + {["/tmp", "/dev/shm", sandbox.HOME, str(own)]}:
                try:
                    with open(os.path.join(place, "written"), "w"):
                        print(place)
                except OSError:
                    pass
            try:
                open({torch.__file__!r}, "a")
            except OSError as error:
                print(error.strerror)
        """)
        # An environment below /tmp needs a folder in the sandbox's own /tmp.
        way = [str(COURSE)] if COURSE.is_relative_to("/tmp") else []
        written = [*way, "/tmp", "/dev/shm", sandbox.HOME, str(own)]
        assert said.split("\n") == [*written, "Read-only file system"]
        assert not (COURSE / "written").exists()
        (own / "written").unlink()

    @full
    def test_only_its_own_disks_can_be_filled(self, inside):
        said = inside("""
            import os
            for place in ("/tmp", "/dev/shm", os.path.expanduser("~")):
                n = 0
                try:
                    while n < 1000:
                        n += 1
                        with open(f"{place}/{n}", "wb") as file:
                            file.write(bytes(2**24))
                except OSError as error:
                    print(n < 30, error.strerror)
                for i in range(n):
                    os.remove(f"{place}/{i + 1}")
        """)
        assert said.split("\n") == ["True No space left on device"] * 3

    def test_new_namespaces_are_forbidden_if_bwrap_can(self, inside):
        allowed = inside("print(os.system('unshare --user true 2> /dev/null') == 0)")
        assert allowed == str(not sandbox._without_namespaces())


class TestTooMuch:
    @pytest.fixture(autouse=True)
    def left_alone(self, nothing_left, inside):
        """Another kernel survives the one that ends."""
        inside("kept = 1")
        yield
        assert inside("print(kept)") == "1"

    def ended(self, caplog, program, **limits):
        start = time.monotonic()
        with pytest.raises(DeadKernelError):
            run(program, config=Config(SandboxProvisioner=limits))
        assert time.monotonic() - start < SOON
        (said,) = [r.getMessage() for r in caplog.records if "was ended" in r.getMessage()]
        return said.removeprefix("The kernel was ended: it ")

    FILL = """
        import socket, time
        kept = [socket.socketpair() for _ in range(99)]
        for a, b in kept:
            a.setblocking(False)
            try:
                while True: a.send(bytes(2**16))
            except BlockingIOError: pass
        time.sleep(99)
    """

    @full
    @pytest.mark.parametrize(
        "more", ["kept.append(bytearray(2**25))", "children.append(subprocess.Popen(program))"]
    )
    def test_memory(self, caplog, more):
        bomb = f"""
            import ctypes, subprocess, sys, time
            ctypes.CDLL(None).prctl(15, b"\\xff")  # a name that is no text
            kept, children = [], []
            program = [sys.executable, "-S", "-c", {textwrap.dedent(self.FILL)!r}]
            while len(children) < 40:
                {more}
            time.sleep(30)
        """
        assert self.ended(caplog, bomb, memory=1024) == "used more than 1,024 MiB of memory."

    @full
    @pytest.mark.skipif(bool(calls.why_not()), reason=calls.why_not())
    def test_calls_that_no_lesson_needs_are_refused(self, inside):
        """With most of these, memory could be held that belongs to no process."""
        said = inside("""
            import ctypes, json, mmap, os, platform, socket
            libc = ctypes.CDLL(None, use_errno=True)
            from whywrong_nbgrader.inside import calls
            column = [*calls.MACHINES].index(platform.machine())
            known = json.load(open(os.path.join(os.path.dirname(calls.__file__), "refused.json")))
            for name, numbers in known.items():
                if name in calls.SOME or numbers[column] is None:
                    continue
                ctypes.set_errno(0)
                done = libc.syscall(numbers[column], 0, 0, 0, 0, 0)
                if (done, ctypes.get_errno()) not in ((-1, 1), (-1, 38)):
                    print(name, done, ctypes.get_errno())
            pair, zero = socket.socketpair(), open("/dev/zero", "r+b", buffering=0)
            for attempt in (
                lambda: pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10**6),
                *(lambda kind=kind: socket.socket(kind) for kind in (2, 10, 38, 40)),
                lambda: mmap.mmap(-1, 4096),
                lambda: mmap.mmap(zero.fileno(), 4096),
                lambda: open("/proc/sys/kernel/core_pattern", "r+"),
            ):
                try: print("allowed", attempt())
                except (OSError, ValueError): pass
        """)
        assert said == ""

    @full
    def test_processes(self, caplog):
        bomb = "import os\nwhile True:\n    os.fork()"
        # Each has its own memory: on a busy machine, the other limit could be exceeded first.
        assert self.ended(caplog, bomb, memory=8192) == "had more than 64 processes."

    @full
    @pytest.mark.parametrize("then", ["pass", "os.unlink(file.name)"])
    def test_files_next_to_its_sockets(self, caplog, then):
        bomb = f"""
            import os
            from ipykernel import get_connection_file
            own, kept = os.path.dirname(get_connection_file()), []
            while True:
                file = open(f"{{own}}/{{len(kept)}}", "wb")
                file.write(bytes(2**23))
                kept.append(file)
                {then}
        """
        said = self.ended(caplog, bomb, folder_size=64)
        assert said == "wrote more than 64 MiB of files."

    @full
    def test_folders_of_any_depth(self, caplog):
        bomb = """
            import os
            from ipykernel import get_connection_file
            os.chdir(os.path.dirname(get_connection_file()))
            while True:
                os.mkdir("deeper")
                os.chdir("deeper")
        """
        said = self.ended(caplog, bomb)
        assert said in ("made more than 1,000 files.", "could not be watched (File name too long).")

    @full
    def test_a_kernel_that_dies_by_itself_leaves_its_status(self, caplog):
        with pytest.raises(DeadKernelError):
            run("import os\nos._exit(3)")
        assert "The kernel died (3)" in caplog.text

    @full
    def test_a_kernel_that_does_not_start_leaves_its_output(self, caplog):
        with pytest.raises(RuntimeError, match="Kernel died"):
            odd = ["--IPKernelApp.log_level=farewell"]
            start_new_kernel(kernel_name=KERNEL, extra_arguments=odd)
        assert "and said: " in caplog.text and "farewell" in caplog.text


class TestLife:
    def test_it_is_interrupted_by_a_message(self, kernel):
        waiting = threading.Timer(1, kernel.manager.interrupt_kernel)
        waiting.start()
        assert kernel("while True: pass").startswith("KeyboardInterrupt")
        waiting.join()
        assert kernel("print(1)") == "1"

    @full
    def test_a_signal_reaches_it(self, kernel):
        waiting = threading.Timer(1, kernel.manager.signal_kernel, [signal.SIGINT])
        waiting.start()
        assert kernel("while True: pass").startswith("KeyboardInterrupt")
        waiting.join()

    @pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=full)])
    def test_a_signal_ends_it(self, kernel, number):
        kernel.manager.signal_kernel(number)
        assert not kernel.manager.is_alive()

    @full
    @pytest.mark.parametrize("now", [True, False])
    def test_it_restarts_at_the_address_of_its_client(self, kernel, now):
        connection = kernel.manager.get_connection_info()
        file = kernel("from ipykernel import get_connection_file\nprint(get_connection_file())")
        own = Path(file).parent
        kernel(f"import os\nkept, own = 1, '{own}'")
        kernel("os.symlink('/etc/passwd', f'{own}/link'); os.remove(f'{own}/connection.json')")
        kernel.manager.restart_kernel(now=now)
        kernel.client.wait_for_ready(timeout=SOON)
        assert kernel("print(kept)").startswith("NameError")
        assert kernel(f"import os; print(os.path.lexists('{own}/link'))") == "False"
        assert kernel.manager.get_connection_info() == connection

    def test_its_background_processes_end_with_it(self, kernel):
        kernel("""
            import subprocess
            subprocess.Popen(["setsid", "sleep", "4323"], start_new_session=True)
        """)
        (left,) = [p for p in psutil.process_iter(["cmdline"]) if names(p, "4323")]
        kernel.manager.shutdown_kernel()
        assert not words(left)

    @full
    def test_unreadable_folders_are_removed(self, kernel):
        kernel("""
            import os
            from ipykernel import get_connection_file
            own = os.path.dirname(get_connection_file())
            os.makedirs(f"{own}/a/b")
            os.chmod(f"{own}/a", 0)
        """)

    @full
    def test_it_outlives_the_thread_that_started_it(self, nothing_left):
        kernels = []
        thread = threading.Thread(target=lambda: kernels.append(Locked()))
        thread.start()
        thread.join()
        time.sleep(1)
        (kernel,) = kernels
        assert kernel.manager.is_alive() and kernel("print(1)") == "1"
        kernel.stop()

    @full
    def test_it_ends_with_a_program_that_does_not_shut_it_down(self):
        program = f"""
            import json, psutil
            from jupyter_client.manager import start_new_kernel
            manager, client = start_new_kernel(kernel_name={KERNEL!r})
            print(json.dumps([manager.provisioner.pid, manager.connection_file]))
        """
        done = python("-c", textwrap.dedent(program))
        pid, connection = json.loads(done.stdout)
        assert not psutil.pid_exists(pid)
        assert not Path(connection).parents[1].exists()
