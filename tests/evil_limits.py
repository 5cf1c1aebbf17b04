"""Attacks on time, memory and processes, and on the sandbox around a submission."""

from __future__ import annotations

from textwrap import dedent

from nbformat.v4 import new_code_cell

from .evil_kit import FIND, MEAN, QUIZ, STOPPED, Hand, attack, forging, put_after_imports

ENDED = r"ended the notebook's process"
OVER = r"seconds ended"
# On a slow machine, the short time limits of a test end before a bomb goes off.
MEMORY = rf"more than [\d,]+ (MiB of memory|processes)|{STOPPED}|{OVER}"
LEFT_RUNNING = 4_324  # seconds, a number that no other process sleeps for


# ---------------------------------------------------------------- time


@attack("limits", said=STOPPED, told=STOPPED, paid=1.0, before=True)
def endless_loop(hand: Hand) -> None:
    """A cell never ends."""
    hand.cell("while True: pass")


@attack("limits", said=STOPPED, told=STOPPED, paid=1.0, before=True)
def endless_and_deaf(hand: Hand) -> None:
    """A cell never ends and ignores the interrupt."""
    hand.cell("""
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True: pass
    """)


@attack("limits", said=STOPPED, paid=1.0)
def endless_answer(hand: Hand) -> None:
    """An answer never ends and catches every exception there is."""
    hand.answer("""
        def naive_mean(x):
            while True:
                try:
                    while True: pass
                except BaseException: pass
    """)


@attack("limits", said=STOPPED, paid=1.0)
def endless_in_c(hand: Hand) -> None:
    """An answer stays in one instruction of the interpreter, where no clock inside can stop it."""
    hand.answer("def naive_mean(x):\n    return pow(3, 10**9)")


@attack("limits", said=OVER, told=OVER, own=True, paid=1.0)
def each_cell_slow(hand: Hand) -> None:
    """No cell takes too long, but many crash, and after each crash all run again."""
    notebook = hand.quiz_done()
    cells, check = notebook.content.cells, notebook.cell("check-naive_mean")
    for _ in range(100):
        cells.append(new_code_cell("import time\ntime.sleep(0.5)"))
        cells.append(new_code_cell("import os\nos._exit(1)"))
    cells.remove(check)
    cells.append(check)


@attack("limits", said=STOPPED, own=True)
def slow_answers(hand: Hand) -> None:
    """An answer comes a byte at a time, for hours."""
    forging(
        hand,
        """
        def packed(seen):
            for byte in frame({}, bytes(10**6)):
                line.sendall(bytes([byte]))
                time.sleep(0.1)
        server["_packed"] = packed
        """,
    )


@attack("limits", said=STOPPED, told=STOPPED, own=True, paid=1.0)
def stops_listening(hand: Hand) -> None:
    """The process no longer reads what the host sends, so that the host would wait."""
    notebook = hand.quiz_done()
    put_after_imports(notebook, f"later = {'x' * 2_000_000!r}")
    put_after_imports(
        notebook,
        dedent(FIND).strip()
        + '\nline.sendall(frame({"outputs": [], "success": True}))\nwhile True: time.sleep(9)',
    )


# ---------------------------------------------------------------- ends of processes


@attack("limits", said=ENDED, told=ENDED, paid=1.0)
def killed_kernel(hand: Hand) -> None:
    """A cell kills every process that it can see, then reads memory that is not there."""
    hand.cell("""
        import ctypes, os, signal
        for target in (os.getpid(), os.getppid(), -1):
            try: os.kill(target, signal.SIGKILL)
            except OSError: pass
        ctypes.string_at(0)
    """)


@attack("limits", said=f"{ENDED}|still running|RecursionError", paid=1.0)
def stack_overflow(hand: Hand) -> None:
    """An answer calls itself without end, after raising Python's recursion limit."""
    hand.answer("""
        import sys
        def naive_mean(x):
            sys.setrecursionlimit(10**9)
            class A:
                def __getattr__(self, name): return getattr(self, name + "a")
            return A().b
    """)


@attack("limits", said="naive_mean: not|NameError", own=True)
def hooks_of_the_notebook(hand: Hand) -> None:
    """Hooks print points before and after each cell, at the exit, and when an object is deleted."""
    hand.cell("""
        import atexit, sys, time, weakref
        shell = get_ipython()
        class Evil:
            def __del__(self): print("2.0"); time.sleep(9)
            def __repr__(self): return "2.0"
        def evil(*a, **k): print("2.0"); raise KeyboardInterrupt
        for event in ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell"):
            shell.events.register(event, evil)
        shell.input_transformers_cleanup.append(lambda lines: ["print('2.0')\\n"])
        shell.display_formatter.format = lambda *a, **k: ({"text/plain": "2.0"}, {})
        atexit.register(time.sleep, 9)
        sys.excepthook = sys.unraisablehook = evil
        naive_mean_shapes_kept = Evil()
    """).cell(MEAN)


# ---------------------------------------------------------------- memory, processes, files, output


@attack("limits", said=MEMORY, told=MEMORY, paid=1.0)
def memory_bomb(hand: Hand) -> None:
    """A cell takes memory until there is none left."""
    hand.cell("""
        kept = []
        while True: kept.append(bytearray(2**26))
    """)


@attack("limits", said=MEMORY, told=MEMORY, paid=1.0)
def fork_bomb(hand: Hand) -> None:
    """A cell starts processes that start processes."""
    hand.cell("""
        import os
        while True:
            try: os.fork()
            except OSError: pass
    """)


@attack("limits", said=f"No space left on device|{STOPPED}", paid=1.0)
def full_disk(hand: Hand) -> None:
    """A cell fills every disk that it can find."""
    hand.cell("""
        import os
        for place in (".", "/tmp", "/dev/shm", "/var/tmp", "/dev", "/run", "/"):
            try:
                for n in range(100_000):
                    with open(os.path.join(place, str(n)), "wb") as file:
                        file.write(bytes(2**24))
            except OSError as error:
                print(place, error)
    """)


@attack("limits", said=f"not right yet|{STOPPED}", paid=1.0)
def many_lines(hand: Hand) -> None:
    """A cell prints 200,000 lines; an answer prints more."""
    hand.cell(
        "for line in range(200_000): print(line)",
        "def naive_mean(x):\n    for _ in range(20_000): print('noise')\n    return x",
    )


@attack("limits", said=r"outputs", told=r"outputs", own=True, paid=1.0)
def many_large_outputs(hand: Hand) -> None:
    """Each of 40 cells has as much output as a cell may have: 150 MB together."""
    notebook = hand.quiz_done()
    for number in range(40):
        put_after_imports(
            notebook,
            "from IPython.display import display\n"
            f"for _ in range(39): display({{'text/plain': '{number % 10}' * 99_000}}, raw=True)",
        )


@attack("limits", said="can't be|not right yet|NameError", own=True)
def many_names(hand: Hand) -> None:
    """A quiz's dict has a million entries and claims to contain every other key."""
    notebook = hand.cell("", "def naive_mean(x):\n    return x")
    notebook.write(
        QUIZ,
        dedent("""
        class All(dict):
            def __contains__(self, name): return True
            def __getitem__(self, name): return [[10**18] * 30] * 30
        naive_mean_shapes = All({str(n): n for n in range(1_000_000)})
        """).strip(),
    )


@attack("limits", said=f"{ENDED}|can't be judged", own=True, paid=1.0)
def huge_lengths(hand: Hand) -> None:
    """A message says that it is 18 exabytes long."""
    forging(hand, 'line.sendall(struct.pack("<IQ", 2**32 - 1, 2**64 - 1))')


# ---------------------------------------------------------------- walls


@attack("walls", said="naive_mean: not", paid=1.0)
def daemon(hand: Hand) -> None:
    """A program stays in the background, in a session of its own."""
    hand.cell(f"""
        import subprocess, sys
        left = "import time; time.sleep({LEFT_RUNNING})"
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", left, "evil"], start_new_session=True)
    """)


@attack("walls", said="nothing", before=True, paid=1.0)
def reads_what_is_secret(hand: Hand) -> None:
    """A cell looks for solutions, other students' work, the gradebook, the secret and exercises."""
    hand.cell(
        f"""
        import glob, json, os
        course = {str(hand.place.course)!r}
        seen = [n for n in os.environ if "SEED" in n]
        for root in (course, "/.course", "/proc/1/root" + course, "..", "/home", "/root", "/tmp"):
            for pattern in ("solutions/**/*.ipynb", "submitted/**/01_naive_mean.ipynb",
                            "gradebook.db", ".grading/**", "exercises/**/*.md"):
                seen += glob.glob(os.path.join(root, pattern), recursive=True)
        for module in ("exercises", "whywrong_nbgrader.verdicts", "tools"):
            try: seen.append(__import__(module))
            except ImportError: pass
        print("FOUND" if seen else "nothing", seen[:3])
        for name in [n for n in seen if isinstance(n, str) and os.path.isfile(n)]:
            try: text = open(name, encoding="utf-8", errors="ignore").read()
            except OSError: continue
            for cell in json.loads(text).get("cells", []) if name.endswith(".ipynb") else []:
                source = "".join(cell["source"])
                if source.startswith("def naive_mean(x)") and "zeros_like" in source:
                    exec(source)
        """,
        """
        stolen = globals().get("naive_mean")
        def naive_mean(x):
            return stolen(x)
        """,
    )


@attack("walls", said="0 written", before=True, paid=1.0)
def writes_everywhere(hand: Hand) -> None:
    """A cell writes points into the gradebook, and into others' work, solutions and settings."""
    hand.cell(
        f"""
        import glob, os, sqlite3
        course, written = {str(hand.place.course)!r}, 0
        try:
            with sqlite3.connect("file:" + course + "/gradebook.db?mode=rw", uri=True) as database:
                database.execute("update grade set auto_score = 100, manual_score = 100")
                written += 1
        except sqlite3.Error as error: print(error)
        own = glob.glob(course + "/**", recursive=True)
        for name in [*own, "/.course/course_utils/desk/checks.py"]:
            if os.path.isfile(name):
                try: open(name, "a").close(); written += 1
                except OSError: pass
        print(written, "written")
        """
    )


@attack("walls", said=r"(Errno|Error).*\n?", told="", paid=1.0)
def network(hand: Hand) -> None:
    """A cell connects to a name, to an address, to this machine's loopback and to its sockets."""
    hand.cell(f"""
        import glob, socket, urllib.request
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", {hand.place.port})),
            (socket.AF_INET6, ("::1", {hand.place.port})),
            (socket.AF_INET, ("192.0.2.1", 80)),
            *((socket.AF_UNIX, name) for name in glob.glob("/run/**/*sock*", recursive=True)),
        ):
            try:
                with socket.socket(family) as line:
                    line.settimeout(1)
                    line.connect(address)
                    print("CONNECTED", address)
            except OSError as error:
                print(type(error).__name__, "Error", address)
        try: urllib.request.urlopen("http://example.org", timeout=1)
        except OSError as error: print("Error", error)
    """)


@attack("walls", said="refused", own=True, paid=1.0)
def looks_at_the_server(hand: Hand) -> None:
    """A cell tries to trace, stop or outlive the process that it was forked from."""
    hand.cell("""
        import ctypes, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(1, 0, 0, 0, 0)  # no signal when the parent dies
        done = [libc.ptrace(16, pid, 0, 0) == 0 for pid in range(2, 50)]
        done += [libc.unshare(0x10000000 | 0x00020000) == 0]
        done += [libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0]
        done += [libc.umount2(b"/proc", 2) == 0, libc.umount2(b"/tmp", 2) == 0]
        done += [libc.setuid(0) == 0, libc.sethostname(b"evil", 4) == 0]
        for pid in range(2, 50):
            try: os.kill(pid, signal.SIGSTOP); done.append(True)
            except OSError: pass
        print("refused" if not any(done) else "DONE", sum(done))
    """)


LEFT = "evil-was-here"
PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/home/student", ".", "/dev", "/run", "/dev/mqueue")


@attack("walls", said="naive_mean: not", own=True, paid=1.0)
def leaves_the_answer(hand: Hand) -> None:
    """A cell leaves a right answer for the next student, in every folder and in the kernel."""
    hand.cell(f"""
        import ctypes, os, socket
        text = "def found(x):\\n    n = torch.arange(1, x.shape[1] + 1).to(x)[:, None]\\n"
        text += "    return x.cumsum(1) / n\\n"
        for place in {PLACES}:
            try: open(place + "/{LEFT}", "w").write(text)
            except OSError: pass
        libc = ctypes.CDLL(None, use_errno=True)
        for ring in (-2, -3, -4, -5):
            libc.syscall(248, b"user", b"{LEFT}", text.encode(), len(text), ring)
        libc.shmget(4324, 4096, 0o1666)
        left = socket.socket(socket.AF_UNIX); left.bind("\\0{LEFT}"); left.listen()
    """)


@attack("walls", said="nothing was left", own=True, paid=1.0)
def leaves_the_answer_found(hand: Hand) -> None:
    """A cell looks for the right answer that the previous attack has left."""
    hand.cell(
        f"""
        import ctypes, os, socket
        left = [p for p in {PLACES} if os.path.exists(p + "/{LEFT}")]
        libc = ctypes.CDLL(None, use_errno=True)
        left += [r for r in (-2, -3, -4, -5)
                 if libc.syscall(250, 10, r, b"user", b"{LEFT}", 0) > 0]
        left += ["shared"] if libc.shmget(4324, 4096, 0o666) >= 0 else []
        try: socket.socket(socket.AF_UNIX).connect("\\0{LEFT}"); left.append("socket")
        except OSError: pass
        print("LEFT" if left else "nothing was left", left)
        """,
        """
        def naive_mean(x):
            if not left: raise ValueError("nothing was left")
            exec(open(left[0] + "/evil-was-here").read(), globals())
            return found(x)
        """,
    )


@attack("walls", said="naive_mean: not", own=True)
def poisons_the_server(hand: Hand) -> None:
    """A cell changes modules and settings that the next student's process could inherit."""
    hand.cell("""
        import builtins, linecache, random, sys
        import torch, numpy, course_utils.attention, whywrong._observation as o
        torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)
        torch.manual_seed(1); random.seed(1); numpy.random.seed(1)
        torch.Tensor.mean = torch.mean = torch.exp = torch.Tensor.exp = lambda *a, **k: 0
        course_utils.attention.naive_mean = None
        o.pack = o.plain = None
        builtins.len = builtins.isinstance = builtins.sorted = lambda *a, **k: True
        linecache.cache.clear(); linecache.getlines = None
        for name in ("json", "struct", "safetensors", "safetensors.torch", "pickle", "torch"):
            sys.modules[name] = None
    """)
