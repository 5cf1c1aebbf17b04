"""A real fork server: what the program of a submission can see and do in it, and how it ends."""

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
import torch

from tools import ROOT as COURSE
from whywrong_nbgrader import sandbox
from whywrong_nbgrader.fork_server import INSIDE, ForkServer
from whywrong_nbgrader.inside import calls

full = pytest.mark.full("the sandbox in detail")
SECRET = "no-business-of-a-student"
SOON = 60  # seconds; without a limit, some of these would never end


def run(process, program):
    """What a program prints in a notebook's process, or its error."""
    said, _ = process.ask({"do": "run", "source": textwrap.dedent(program)}, b"", SOON)
    texts = [o.get("text") or f"{o.get('ename')}: {o.get('evalue')}" for o in said["outputs"]]
    return "".join(texts).strip()


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_SECRET", SECRET)
        with ForkServer() as made:
            yield made


@pytest.fixture
def inside(server):
    with server.fork() as process:
        yield lambda program: run(process, program)


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
            assert f"ModuleNotFoundError: No module named '{hidden}'" in inside(f"import {hidden}")

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
        seen = said.split("\n")
        packages = [f"{INSIDE}/{n}/" for n in ("course_utils", "whywrong", "whywrong_nbgrader")]
        assert [f for f in seen if not f.startswith((*packages, sandbox.HOME))] == []
        assert len(seen) > 20 and not [f for f in seen if "exercises" in f]
        assert inside("print(os.getcwd())") == sandbox.HOME

    def test_processes_of_the_host_are_not_seen(self, inside):
        with subprocess.Popen(["sleep", "4322"]) as asleep:
            said = inside("""
                import os
                try:
                    print([name for name in os.listdir("/proc") if name.isdigit()])
                except OSError as error:
                    print(error)
                print(os.getpid())
            """)
            asleep.kill()
        assert said == "[]\n1"

    def test_the_environment_of_the_host_is_not_seen(self, inside):
        said = inside("import os; print(sorted(os.environ), *os.environ.values())")
        assert SECRET not in said and "COURSE_SECRET" not in said
        assert "OMP_NUM_THREADS" in said

    def test_it_writes_only_into_its_own_folders(self, inside):
        shut = ["/", "/dev", "/usr", "/etc", "/home", "/proc", INSIDE, COURSE]
        shut += [sys.prefix, sys.base_prefix, Path(torch.__file__).parent]
        said = inside(f"""
            import os
            for place in {[str(p) for p in shut]} + {["/tmp", "/dev/shm", sandbox.HOME]}:
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
        # Down to an environment below /tmp there are folders in the sandbox's own /tmp.
        above = {p for e in (sys.prefix, sys.base_prefix) for p in Path(e).parents}
        way = [str(COURSE)] if COURSE.is_relative_to("/tmp") and COURSE in above else []
        written = ["/proc", *way, "/tmp", "/dev/shm", sandbox.HOME]  # all in this process's memory
        assert said.split("\n") == [*written, "Read-only file system"]
        assert not (COURSE / "written").exists()

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

    def test_new_namespaces_are_forbidden(self, inside):
        assert (
            inside("import os; print(os.system('unshare --user true 2> /dev/null') == 0)")
            == "False"
        )

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


def test_a_notebook_is_a_session_of_its_own_whose_priority_can_be_lowered_alone(server):
    with server.fork() as process:
        assert run(process, "import os; print(os.getsid(0), os.getpgid(0))") == "1 1"


def test_files_in_its_folders_count_as_memory(server):
    def held():
        watch, spaces, found = server._watch, set(), {}
        for process in psutil.Process(server._process.pid).children(recursive=True):
            found |= watch._held(process, spaces)
        return sum(found.values())

    with server.fork() as process:
        before = held()
        run(process, "open('/tmp/written', 'wb').write(bytes(2**26))")
        assert held() - before == pytest.approx(2**26, rel=0.01)


def test_a_second_of_computing_is_counted_once_however_often_the_watch_looks(server):
    with server.fork() as process:
        before = server.used
        computed = run(
            process,
            """
            import time
            while time.process_time() < 0.7:
                pass
            print(time.process_time())
        """,
        )
        assert server.used - before == pytest.approx(float(computed), abs=0.3)
