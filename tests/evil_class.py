"""A class in which many hand in something that no lesson asks for, beside a few honest students.

Each attack is a function that makes one submission, for a student of its name; its docstring says
what it tries. Every attack has right answers to the quiz of lesson 01 beside it, unless it says
otherwise: what is right is to be paid, whatever stands beside it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell

from course_utils.checking.checker import kept_key
from course_utils.exercises import COURSE as CATALOGUE

from .nbgrader_class import ASSIGNMENT, FULL, Notebook

ONE, THREE = "01_naive_mean", "03_softmax_masking"
QUIZ, MEAN = "naive_mean_shapes", "naive_mean"
ALL = sum(points for lesson in FULL.values() for points in lesson.values())


@dataclass(frozen=True)
class Place:
    """What an attacker is up against.

    Attributes:
        course: the course's folder, which attackers are taken to know.
        released: the lessons as they were handed out.
        port: somebody listens there, on this machine, and should hear nothing.
    """

    course: Path
    released: Path
    port: int


class Hand:
    """One student's submission, and what can be done to it."""

    def __init__(self, place: Place, student: str) -> None:
        self.place = place
        self.folder = place.course / "submitted" / student / ASSIGNMENT
        self.folder.mkdir(parents=True)
        (self.folder / "timestamp.txt").write_text("2026-01-05 09:00:00.000000 UTC")
        self.opened: list[Notebook] = []

    def lesson(self, name: str = ONE) -> Notebook:
        """A lesson without its texts and demonstrations, to be written when all is done."""
        notebook = Notebook(self.place.released / f"{name}.ipynb")
        notebook.path = self.folder / f"{name}.ipynb"
        notebook.delete_demonstrations()
        notebook.content.cells = [c for c in notebook.content.cells if c.cell_type == "code"]
        self.opened.append(notebook)
        return notebook

    def quiz_done(self) -> Notebook:
        notebook = self.lesson()
        notebook.solve(QUIZ)
        return notebook

    def cell(self, source: str, answer: str = "") -> Notebook:
        """The quiz is right, and there is a cell behind the imports."""
        notebook = self.quiz_done()
        put_behind_imports(notebook, source)
        if answer:
            notebook.write(MEAN, dedent(answer).strip())
        return notebook

    def answer(self, source: str) -> Notebook:
        """The quiz is right, and this is handed in as the mean."""
        return self.cell("", source)

    def file(self, content: bytes, name: str = f"{ONE}.ipynb") -> None:
        (self.folder / name).write_bytes(content)

    def finish(self) -> None:
        for notebook in self.opened:
            text = nbformat.writes(notebook.content)
            half = re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)
            notebook.path.write_text(half, encoding="utf-8")


def put_behind_imports(notebook: Notebook, source: str) -> None:
    if source:
        cells = notebook.content.cells
        (place,) = [i for i, c in enumerate(cells) if c.source.startswith("import torch\n")]
        cells.insert(place + 1, new_code_cell(dedent(source).strip()))


@dataclass(frozen=True)
class Attack:
    """What one submission tries, and what must come of it.

    Attributes:
        held_by: what must stop it: "limits", "walls", "verdicts", "files" or "pages".
        points: the most it may get of the assignment's points.
        said: a pattern of what its author must read, on any page of feedback.
        told: a pattern of what the instructor must read, in the log or in the notebook; nothing
            where it is a wrong answer like others.
        own: it knows the code that it attacks.
        before: it can be shown to stock nbgrader without harm.
        paid: the least it must get, for what is right beside it and was not tampered with.
    """

    make: Callable[[Hand], Any]
    held_by: str
    points: float
    said: str
    told: str
    own: bool
    before: bool
    paid: float

    @property
    def student(self) -> str:
        return self.make.__name__.replace("_", "-")

    @property
    def tries(self) -> str:
        return " ".join((self.make.__doc__ or "").split())


ATTACKS: dict[str, Attack] = {}
ONLY_QUIZ = 1.0
QUIZ_AND_MEAN = 3.0


def attack(
    held_by: str,
    points: float = ONLY_QUIZ,
    said: str = "naive_mean: not",
    told: str = "",
    own: bool = False,
    before: bool = False,
    paid: float = 0.0,
) -> Callable[[Callable[[Hand], Any]], Callable[[Hand], Any]]:
    def known(make: Callable[[Hand], Any]) -> Callable[[Hand], Any]:
        made = Attack(make, held_by, points, said, told, own, before, paid)
        assert made.student not in ATTACKS
        ATTACKS[made.student] = made
        return make

    return known


# ---------------------------------------------------------------- honest students


def ada(hand: Hand) -> None:
    """All right."""
    for lesson in FULL:
        hand.lesson(lesson).solve()


def ben(hand: Hand) -> None:
    """Half right, with a misconception and a mishap."""
    hand.quiz_done()
    lesson = hand.lesson(THREE)
    lesson.solve("softmax")
    lesson.write(
        "masked_softmax",
        "def masked_softmax(scores, hidden):\n"
        "    return softmax(scores, dim=-1).masked_fill(hidden, 0)",
    )


def zoe(hand: Hand) -> None:
    """All right, too late."""
    (hand.folder / "timestamp.txt").write_text("2026-02-05 09:00:00.000000 UTC")
    hand.lesson().solve()


def zed(hand: Hand) -> None:
    """Nothing done."""
    hand.lesson()


HONEST: dict[Callable[[Hand], None], float] = {ada: ALL, ben: 3.25, zoe: 3.0, zed: 0.0}


# ---------------------------------------------------------------- time, memory, processes, disk


STOPPED = r"still running after [\d.]+ seconds"
OVER = r"seconds were over"
# On a slow machine the short times of a test are over before a bomb goes off.
MEMORY = rf"more than [\d,]+ (MiB of memory|processes)|{STOPPED}|{OVER}"


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


@attack("limits", said=STOPPED, told=STOPPED, paid=1.0)
def endless_and_catching(hand: Hand) -> None:
    """A cell never ends and catches every exception there is."""
    hand.cell("""
        def on():
            while True:
                try:
                    while True: pass
                except BaseException:
                    on()
        on()
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
    """An answer holds the interpreter in one instruction, so that no clock inside can strike."""
    hand.answer("def naive_mean(x):\n    return pow(3, 10**9)")


@attack(
    "limits", said=r"ended the notebook's process", told=r"ended the notebook's process", paid=1.0
)
def killed_kernel(hand: Hand) -> None:
    """A cell kills its own process, and all it can see."""
    hand.cell("""
        import os, signal, resource
        for target in (os.getpid(), os.getppid(), -1):
            try: os.kill(target, signal.SIGKILL)
            except OSError: pass
        os.abort()
    """)


@attack(
    "limits",
    said=r"ended the notebook's process",
    told=r"ended the notebook's process",
    paid=1.0,
    before=True,
)
def segfault(hand: Hand) -> None:
    """A cell reads where nothing is."""
    hand.cell("import ctypes\nctypes.string_at(0)")


@attack("limits", said=r"ended the notebook's process|still running|RecursionError", paid=1.0)
def stack_overflow(hand: Hand) -> None:
    """An answer calls itself for ever, without Python's bound."""
    hand.answer("""
        import sys
        def naive_mean(x):
            sys.setrecursionlimit(10**9)
            class A:
                def __getattr__(self, name): return getattr(self, name + "a")
            return A().b
    """)


@attack("limits", said="SystemExit", paid=1.0, before=True)
def sys_exit(hand: Hand) -> None:
    """A cell and an answer leave by sys.exit."""
    hand.cell("import sys\nsys.exit(0)", "def naive_mean(x):\n    raise SystemExit(0)")


@attack("limits", said=r"ended the notebook's process", paid=1.0, before=True)
def os_exit(hand: Hand) -> None:
    """An answer ends the process it is checked in, with the status of success."""
    hand.answer("import os\ndef naive_mean(x):\n    os._exit(0)")


@attack("limits", said=MEMORY, told=MEMORY, paid=1.0)
def memory_bomb(hand: Hand) -> None:
    """A cell takes memory until there is none."""
    hand.cell("""
        import mmap, os
        kept = []
        while True:
            for _ in range(4):
                file = os.memfd_create("x")
                os.write(file, b"x" * 2**26)
                kept.append(mmap.mmap(file, 2**26))
    """)


@attack("limits", said=MEMORY, told=MEMORY, paid=1.0)
def fork_bomb(hand: Hand) -> None:
    """A cell makes processes that make processes."""
    hand.cell("""
        import os
        while True:
            try: os.fork()
            except OSError: pass
    """)


@attack("limits", said=f"No space left on device|{STOPPED}", paid=1.0)
def full_disk(hand: Hand) -> None:
    """A cell writes until every disk it can find is full, and leaves it so."""
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


@attack("limits", said="characters more", paid=1.0)
def one_long_line(hand: Hand) -> None:
    """A cell prints one line of 100 MB."""
    hand.cell("print('long ' * 20_000_000)")


@attack("limits", said=r"outputs", told=r"outputs", own=True, paid=1.0)
def many_large_outputs(hand: Hand) -> None:
    """Each of 40 cells puts out as much as a cell may: the notebook would grow to 150 MB."""
    notebook = hand.quiz_done()
    for number in range(40):
        put_behind_imports(
            notebook,
            "from IPython.display import display\n"
            f"for _ in range(39): display({{'text/plain': '{number % 10}' * 99_000}}, raw=True)",
        )


@attack("limits", said=r"seconds were over", told=r"seconds were over", own=True, paid=1.0)
def each_cell_slow(hand: Hand) -> None:
    """No cell takes too long, and together they take an hour; each crash has them run again."""
    notebook = hand.quiz_done()
    cells, check = notebook.content.cells, notebook.cell("check-naive_mean")
    for _ in range(100):
        cells.append(new_code_cell("import time\ntime.sleep(0.5)"))
        cells.append(new_code_cell("import os\nos._exit(1)"))
    cells.remove(check)
    cells.append(check)


@attack("walls", said="naive_mean: not", paid=1.0)
def daemon(hand: Hand) -> None:
    """A program goes on in the background, in a session of its own, to wait for the next."""
    hand.cell(f"""
        import subprocess, sys
        left = "import time; time.sleep({LEFT_RUNNING})"
        for _ in range(2):
            subprocess.Popen([sys.executable, "-c", left, "evil"], start_new_session=True)
    """)


LEFT_RUNNING = 4_324  # seconds, a number nobody else sleeps for


# ---------------------------------------------------------------- reading and writing


FOUND = "there was something to read"


def reading(hand: Hand, pattern: str, otherwise: str = "") -> None:
    """A cell looks everywhere for files, and takes an answer out of them."""
    hand.cell(
        f"""
        import glob, json, re
        course = {str(hand.place.course)!r}
        seen = []
        for root in (course, "/course", "/proc/1/root" + course, "..", "/home", "/root", "/tmp"):
            seen += glob.glob(root + {pattern!r}, recursive=True)
        {otherwise}
        print({FOUND!r}.upper() if seen else "nothing", seen[:3])
        for name in seen:
            try: text = open(name, encoding="utf-8", errors="ignore").read()
            except OSError: continue
            for cell in json.loads(text).get("cells", []) if name.endswith(".ipynb") else []:
                source = "".join(cell["source"])
                if "def naive_mean(x)" in source and "zeros_like" in source:
                    exec(source)
        """,
        """
        stolen = globals().get("naive_mean")
        def naive_mean(x):
            return stolen(x)
        """,
    )


@attack("walls", said="nothing", before=True, paid=1.0)
def reads_solutions(hand: Hand) -> None:
    """A cell runs the finished answer out of solutions/."""
    reading(hand, "/solutions/**/*.ipynb")


@attack("walls", said="nothing", before=True, paid=1.0)
def reads_others(hand: Hand) -> None:
    """A cell runs the answer of whoever handed in before."""
    reading(hand, "/submitted/**/01_naive_mean.ipynb")


@attack("walls", said="nothing", before=True, paid=1.0)
def reads_the_gradebook(hand: Hand) -> None:
    """A cell reads everybody's points, and the hidden tests, out of the gradebook."""
    reading(hand, "/gradebook.db")


@attack("walls", said="nothing", before=True, paid=1.0)
def reads_hidden_cases(hand: Hand) -> None:
    """A cell looks for the secret that hidden cases are drawn from, and for the exercises."""
    reading(
        hand,
        "/.grading/**",
        """import os
        from pathlib import Path
        seen += [n for n in os.environ if "SEED" in n]
        for module in ("course_utils.exercises", "course_utils.grading", "course_utils.editions"):
            try: seen.append(__import__(module))
            except ImportError: pass""",
    )


@attack("walls", said="0 written", before=True, paid=1.0)
def writes_everywhere(hand: Hand) -> None:
    """A cell writes points into the gradebook, and over others' work, solutions and settings."""
    hand.cell(
        f"""
        import glob, os, sqlite3
        course, written = {str(hand.place.course)!r}, 0
        try:
            with sqlite3.connect("file:" + course + "/gradebook.db?mode=rw", uri=True) as database:
                database.execute("update grade set auto_score = 100, manual_score = 100")
                written += 1
        except sqlite3.Error as error: print(error)
        for name in glob.glob(course + "/**", recursive=True) + ["/course/course_utils/desk.py"]:
            if os.path.isfile(name):
                try: open(name, "a").close(); written += 1
                except OSError: pass
        print(written, "written")
        """
    )


@attack("walls", said=r"(Errno|Error).*\n?", told="", paid=1.0)
def network(hand: Hand) -> None:
    """A cell calls out: to a name, to an address, to this machine's loopback, to its sockets."""
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


# ---------------------------------------------------------------- deceiving the check


@attack("verdicts", before=True, paid=1.0)
def patched_check(hand: Hand) -> None:
    """The check is replaced by one that gives full points."""
    hand.cell("""
        import course_utils, course_utils.desk, builtins
        class Full(float):
            passed = True
            def __repr__(self): return "2.0"
        check = builtins.check = course_utils.check = lambda *a, **k: Full(2)
        course_utils.desk.check = check
    """)


@attack("verdicts", before=True)
def patched_comparisons(hand: Hand) -> None:
    """Whatever compares tensors says yes."""
    hand.cell("""
        import torch, torch.testing
        yes = lambda *a, **k: True
        torch.allclose = torch.equal = torch.isclose = torch.Tensor.allclose = yes
        torch.testing.assert_close = torch.testing.assert_allclose = lambda *a, **k: None
        torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.all = yes
        torch.Tensor.__bool__ = torch.Tensor.__le__ = torch.Tensor.__lt__ = yes
    """)


@attack("verdicts", paid=1.0, before=True)
def assertions_removed(hand: Hand) -> None:
    """A transformer of IPython takes every assert out of the cells to come."""
    hand.cell("""
        import ast
        class Gone(ast.NodeTransformer):
            def visit_Assert(self, node): return ast.Pass()
            def visit_Expr(self, node):
                called = getattr(getattr(node.value, "func", None), "id", "")
                return ast.Pass() if called == "check" else node
        get_ipython().ast_transformers.append(Gone())
    """)


@attack("verdicts", before=True, paid=1.0)
def forged_report(hand: Hand) -> None:
    """The answer is a report with full points, and so is what it returns."""
    hand.cell(
        "",
        """
        from course_utils.checking.report import Report
        def naive_mean(x):
            return Report("naive_mean", 2.0, 2.0, True)
        naive_mean.__call__ = lambda x: 2.0
        """,
    )


@attack("verdicts", before=True, paid=1.0)
def forged_outputs(hand: Hand) -> None:
    """The check's cell comes with an output that says 2.0, and an extra one says 100."""
    notebook = hand.quiz_done()
    result = new_output("execute_result", {"text/plain": "100.0"}, execution_count=1)
    notebook.cell("check-naive_mean").outputs = [result]
    extra = new_code_cell("100.0", outputs=[result])
    extra.metadata["nbgrader"] = {**notebook.cell("check-naive_mean").metadata.nbgrader}
    extra.metadata["nbgrader"]["grade_id"] = "check-more"
    notebook.content.cells.append(extra)


@attack("verdicts", paid=1.0, before=True)
def printed_points(hand: Hand) -> None:
    """An answer prints the points and the card of a right one."""
    hand.cell(
        "print('2.0')\nprint('naive_mean: right, 2 of 2 points')",
        """
        def naive_mean(x):
            print("naive_mean: right, 2 of 2 points")
            from IPython.display import display
            display(2.0)
            return 2.0
        """,
    )


@attack("verdicts", before=True, paid=1.0)
def hard_coded(hand: Hand) -> None:
    """An answer knows the results of the visible cases by heart."""
    exercise = CATALOGUE.find(MEAN)
    assert exercise is not None
    key = kept_key(exercise, 0)
    table = {
        str(tuple(case["x"].shape)): expected["out"].tolist()
        for case, expected in zip(key.cases, key.expected, strict=True)
        if "out" in expected and case["x"].numel() < 100
    }
    hand.answer(
        f"""
        known = {table!r}
        def naive_mean(x):
            found = known.get(str(tuple(x.shape)))
            return torch.zeros_like(x) if found is None else torch.tensor(found).to(x)
        """
    )


# What an answer can return beside a tensor, by the attack's name.
RESULTS = {
    "all_nan": "x * float('nan')",
    "all_infinite": "x + float('inf')",
    "empty_tensor": "torch.empty(0)",
    "complex_numbers": "x + 0j",
    "sparse_tensor": "x.to_sparse()",
    "on_meta": "x.to('meta')",
    "giant_tensor": "torch.zeros(1).expand(2**20, 2**20, 2**10)",
    "eight_bits": "x.to(torch.float8_e4m3fn)",
    "nested_tensor": "torch.nested.nested_tensor([x[0], x[0]])",
    "zero_by_huge": "torch.empty(0, 2**31, 2**31)",
    "equal_to_all": "type('E', (), {'__eq__': lambda *a: True, 'shape': x.shape})()",
}


def _returning(name: str, result: str) -> None:
    def make(hand: Hand) -> None:
        hand.answer(f"def naive_mean(x):\n    return {result}")

    make.__name__, make.__doc__ = name, f"An answer returns `{result}`."
    attack("verdicts")(make)


for _name, _result in RESULTS.items():
    _returning(_name, _result)


@attack("verdicts", paid=1.0, before=True)
def tensor_that_agrees(hand: Hand) -> None:
    """An answer returns a tensor of its own class, to which everything is equal and right."""
    hand.answer("""
        class Right(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func in (torch.allclose, torch.equal, torch.Tensor.__eq__): return True
                return super().__torch_function__(func, types, args, kwargs or {})
            def __eq__(self, other): return True
            def isfinite(self): return torch.ones(1, dtype=torch.bool)
        def naive_mean(x):
            return torch.zeros_like(x).as_subclass(Right)
    """)


# ---------------------------------------------------------------- files


@attack("files", points=0.0, said="can't be read|not there|link", told="link", before=True)
def link_to_the_solution(hand: Hand) -> None:
    """The notebook is a link to the solved one."""
    solved = hand.place.course / "solutions" / ASSIGNMENT / f"{ONE}.ipynb"
    (hand.folder / f"{ONE}.ipynb").symlink_to(solved)


@attack("files", points=0.0, said="can't be read|not there|link", told="link")
def link_to_another_student(hand: Hand) -> None:
    """The notebook is a link to somebody's who has it all right."""
    (hand.folder / f"{ONE}.ipynb").symlink_to(f"../../ada/{ASSIGNMENT}/{ONE}.ipynb")


@attack("files", told="link", said="naive_mean: not", paid=1.0)
def links_beside(hand: Hand) -> None:
    """Beside the notebook lie links to the gradebook, to the secret and to the whole course."""
    hand.quiz_done()
    (hand.folder / "data.csv").symlink_to(hand.place.course / "gradebook.db")
    (hand.folder / "secret.txt").symlink_to(hand.place.course / ".grading" / "secret")
    (hand.folder / "all").symlink_to(hand.place.course)


@attack("files", told="link|no file", said="naive_mean: not", paid=1.0)
def endless_files_beside(hand: Hand) -> None:
    """Beside it: a link to a file that never ends, a pipe, a terabyte that takes no place."""
    hand.quiz_done()
    (hand.folder / "zeros.bin").symlink_to("/dev/zero")
    with (hand.folder / "holes.bin").open("wb") as file:
        file.truncate(2**40)  # it takes no place until somebody copies it
    os.mkfifo(hand.folder / "pipe.txt")


@attack("files", said="naive_mean: not", paid=1.0)
def names_that_lead_away(hand: Hand) -> None:
    """Files have names that mean something to a shell, to Windows or to an archive."""
    hand.quiz_done()
    for name in ("..\\..\\gradebook.db", "-rf", "$(touch evil)", "a\nb", "‮txt.ipynb.sh"):
        (hand.folder / name).write_text("evil")
    (hand.folder / "course_utils").mkdir()
    (hand.folder / "course_utils" / "__init__.py").write_text("raise SystemExit('evil')")
    for shadow in ("torch.py", "sitecustomize.py", "conftest.py", "nbgrader_config.py"):
        (hand.folder / shadow).write_text("raise SystemExit('evil')")


@attack("files", points=0.0, said="can't be read|no file", told="no file")
def folder_instead(hand: Hand) -> None:
    """A folder has the notebook's name."""
    (hand.folder / f"{ONE}.ipynb").mkdir()
    (hand.folder / f"{ONE}.ipynb" / "evil.txt").write_text("evil")


@attack("files", points=0.0, said="", told="")
def no_notebook(hand: Hand) -> None:
    """There is a folder, and nothing in it."""


@attack("files", points=QUIZ_AND_MEAN, said="", told="", before=True)
def renamed_notebook(hand: Hand) -> None:
    """The notebook has been downloaded twice: `01_naive_mean (1).ipynb`."""
    hand.lesson().solve()
    hand.opened[0].path = hand.folder / f"{ONE} (1).ipynb"


@attack("files", said="naive_mean: not", told="", paid=1.0)
def two_notebooks(hand: Hand) -> None:
    """The notebook is there, and so is a copy with more in it."""
    hand.quiz_done()
    hand.lesson().solve()
    hand.opened[1].path = hand.folder / f"Copy of {ONE}.ipynb"


@attack("files", points=0.0, said="can't be read", told="can't be read", before=True)
def not_json(hand: Hand) -> None:
    """The notebook is an HTML page."""
    hand.file(b"<!DOCTYPE html><html><script>alert('evil')</script></html>")


@attack("files", points=0.0, said="can't be read", told="can't be read")
def not_utf8(hand: Hand) -> None:
    """The notebook is written in UTF-16."""
    text = (hand.place.released / f"{ONE}.ipynb").read_text(encoding="utf-8")
    hand.file(text.encode("utf-16"))


@attack("files", points=0.0, said="can't be read", told="can't be read")
def no_bytes(hand: Hand) -> None:
    """The notebook has 0 bytes."""
    hand.file(b"")


@attack("files", points=0.0, said="can't be read", told="can't be read")
def too_many_bytes(hand: Hand) -> None:
    """The notebook has 30 MB of outputs."""
    notebook = hand.quiz_done()
    notebook.content.cells[-1] = new_code_cell(
        "1", outputs=[new_output("stream", text="evil" * 8_000_000)]
    )


@attack("files", points=0.0, said="can't be read", told="can't be read", own=True)
def deep_json(hand: Hand) -> None:
    """The notebook is a list in a list, a million deep."""
    hand.file(b"[" * 1_000_000 + b"]" * 1_000_000)


@attack("files", points=0.0, said="can't be read|not attempted|NameError", own=True)
def cells_of_another_kind(hand: Hand) -> None:
    """Cells are numbers, sources are lists of lists, metadata are texts."""
    raw = json.loads((hand.place.released / f"{ONE}.ipynb").read_text(encoding="utf-8"))
    raw["cells"][0]["source"] = [["evil"], 1]
    raw["cells"][1]["metadata"] = "evil"
    raw["cells"].append(7)
    hand.file(json.dumps(raw).encode())


@attack("files", points=0.0, said="not attempted|NameError|can't be read")
def another_lesson(hand: Hand) -> None:
    """The notebook is another lesson's, solved, under this one's name."""
    notebook = hand.lesson(THREE)
    notebook.solve()
    notebook.path = hand.folder / f"{ONE}.ipynb"


@attack("files", points=0.0, said="not attempted|NameError|can't be read", own=True)
def another_format(hand: Hand) -> None:
    """The notebook says it is of a format that will come in ten years."""
    raw = json.loads((hand.place.released / f"{ONE}.ipynb").read_text(encoding="utf-8"))
    hand.file(json.dumps({**raw, "nbformat": 99, "nbformat_minor": -1}).encode())


# ---------------------------------------------------------------- cells


@attack("files", points=QUIZ_AND_MEAN, said="put back", before=True)
def deleted_cells(hand: Hand) -> None:
    """Both checks are deleted; the answers are right."""
    notebook = hand.lesson()
    notebook.solve()
    notebook.delete("check-naive_mean", "check-naive_mean_shapes")


@attack("files", said="naive_mean: not", before=True, paid=1.0)
def copied_cells(hand: Hand) -> None:
    """The quiz's check stands there five times, worth a hundred each."""
    notebook = hand.quiz_done()
    copied = notebook.copy("check-naive_mean_shapes", behind="naive_mean")
    copied.metadata.nbgrader.points = 100
    notebook.content.cells += [copied] * 4


@attack("files", said="naive_mean: not", told="", paid=1.0)
def retyped_cells(hand: Hand) -> None:
    """The check is text and the answer raw; the metadata say that it is graded by hand."""
    notebook = hand.quiz_done()
    check = notebook.cell("check-naive_mean")
    check["cell_type"] = "markdown"
    del check["outputs"], check["execution_count"]
    check.metadata.nbgrader.update(points=100, solution=True, locked=False, task=True)


@attack("files", points=QUIZ_AND_MEAN, said="NameError|right", before=True)
def reordered_cells(hand: Hand) -> None:
    """The cells stand the other way round; the answers are right."""
    notebook = hand.lesson()
    notebook.solve()
    notebook.content.cells.reverse()


@attack("files", said="naive_mean: not", own=True, paid=1.0)
def edited_check(hand: Hand) -> None:
    """The locked check asks for another exercise, whose answer is there, and is worth more."""
    notebook = hand.quiz_done()
    check = notebook.cell("check-naive_mean")
    check.source = 'check("naive_mean_shapes", naive_mean_shapes)\n2.0'
    check.metadata.nbgrader.update(points=1e308, locked=False, schema_version=99)


@attack("files", said="naive_mean: not", own=True, paid=1.0)
def odd_metadata(hand: Hand) -> None:
    """Metadata are lists, numbers and objects where texts are asked, and deep ones."""
    notebook = hand.quiz_done()
    deep: Any = {}
    for _ in range(50):
        deep = {"deep": deep}
    notebook.content.metadata["kernelspec"] = {
        "name": "../../evil",
        "display_name": "<script>evil()</script>",
        "language": "evil",
    }
    notebook.content.metadata["celltoolbar"] = deep
    lexer = f'"><script>evil()</script>{"x" * 99}'
    notebook.content.metadata["language_info"] = {"name": lexer, "pygments_lexer": lexer}
    odd = new_code_cell("1")
    odd.metadata["nbgrader"] = {"grade_id": ["check-naive_mean"], "points": "NaN"}
    odd.metadata["tags"] = ["<script>evil()</script>"]
    notebook.content.cells.append(odd)


# ---------------------------------------------------------------- pages

SCRIPT = "<script>evil()</script>"
PAGES = r"naive_mean: not"


@attack("pages", said=PAGES, before=True, paid=1.0)
def script_in_outputs(hand: Hand) -> None:
    """A cell puts out HTML, SVG, JavaScript and a widget that act in the browser of who reads."""
    hand.cell(f"""
        from IPython.display import HTML, SVG, Javascript, display
        class Evil:
            def _repr_html_(self): return {SCRIPT!r} + "<img src=x onerror=evil()>"
            def _repr_mimebundle_(self, *a, **k):
                return {{
                    "text/html": {SCRIPT!r} + '<a href="javascript:evil()">here</a>',
                    "application/javascript": "evil()",
                    "image/svg+xml": '<svg onload="evil()"><script>evil()</script></svg>',
                    "text/latex": "$\\\\href{{javascript:evil()}}{{here}}$",
                    "text/markdown": "[here](javascript:evil())",
                    "image/png": 'x" onerror="evil()',
                    "application/vnd.jupyter.widget-view+json": {{"model_id": "evil"}},
                }}
        display(HTML({SCRIPT!r}), Javascript("evil()"), Evil())
        link = "\\href{{javascript:evil()}}{{x}}"
        for math in (f"${{link}}$", f"\\({{link}}\\)"):
            display(HTML("<p>" + math + "</p>"))
        display(HTML("<div style='position:fixed;top:0;left:0;width:100%;height:100%'>evil</div>"))
        display(HTML("<iframe srcdoc='<script>evil()</script>'></iframe><base href=//evil>"))
        Evil()
    """)


@attack("pages", said=PAGES, before=True, paid=1.0)
def script_in_markdown(hand: Hand) -> None:
    """Cells of text bring along scripts, links that act, and mathematics that links."""
    notebook = hand.quiz_done()
    for text in (
        SCRIPT + "<img src=x onerror=evil()>",
        "[here](javascript:evil()) and [there][ref] and ![x](javascript:evil())\n\n"
        "[ref]: javascript:evil()",
        "[here](&#106;avascript:evil()) [here](JaVaScRiPt:evil()) [here](\njavascript:evil())",
        "[here](data:text/html;base64,PHNjcmlwdD5ldmlsKCk8L3NjcmlwdD4=)",
        "$\\href{javascript:evil()}{here}$ and $$\\href{javascript:evil()}{here}$$",
        "\\begin{equation}\\href{javascript:evil()}{here}\\end{equation}",
        "<javascript:evil()> &lt;script&gt;evil()&lt;/script&gt;",
        "```html\n</code></pre><script>evil()</script>\n```",
        "```mermaid\ngraph TD; A[<img src=x onerror=evil()>]\n```",
        "\\begin{a}" * 30_000,
        "](" + " " * 300_000,
    ):
        notebook.content.cells.append(new_markdown_cell(text))
    raw = new_raw_cell(SCRIPT)
    raw.metadata["raw_mimetype"] = raw.metadata["format"] = "text/html"
    notebook.content.cells.append(raw)
    notebook.content.cells[-2]["attachments"] = {"x.svg": {"image/svg+xml": SCRIPT}}


@attack("pages", said=PAGES, own=True, paid=1.0, before=True)
def script_in_the_card(hand: Hand) -> None:
    """What an answer is called, raises and prints is script, and comes to stand on the card."""
    hand.answer(f"""
        evil = {SCRIPT!r}
        math = "$" + chr(92) + "href{{javascript:evil()}}{{here}}$"
        Evil = type(evil, (Exception,), {{"__module__": evil}})
        def naive_mean(x):
            print(evil + "</pre>" + evil)
            raise Evil(evil + math + "`" + evil + "` *" + evil + "*")
    """)


@attack("pages", said=PAGES, own=True, paid=1.0)
def broken_text(hand: Hand) -> None:
    """A cell and an answer print half characters, which no file holds, and control characters."""
    hand.cell(
        "print('half \\ud800 of it \\x00 \\x1b[31m \\u202e')\nraise ValueError('\\udfff')",
        "def naive_mean(x):\n    print('\\ud800')\n    raise ValueError('\\ud800\\x00')",
    )


# ---------------------------------------------------------------- knowing this code

# The process that a notebook is in asks and answers on one socket; what answers there can be found.
FIND = """
import json, os, socket, stat, struct, sys, threading, time, types
def frames():
    for frame in sys._current_frames().values():
        while frame:
            yield frame
            frame = frame.f_back
server = next(f.f_globals for f in frames() if "_watch_over" in f.f_globals)
def is_socket(fd):
    try: return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError: return False
line = socket.socket(fileno=os.dup(next(filter(is_socket, range(3, 64)))))
def token():
    for frame in frames():
        if frame.f_code.co_name == "_run" and "asked" in frame.f_locals:
            return frame.f_locals["asked"]["token"]
def frame(words, data=b""):
    said = words if isinstance(words, bytes) else json.dumps({"token": token()} | words).encode()
    return struct.pack("<IQ", len(said), len(data)) + said + data
def safetensors(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data
def facts(values):
    return {"__metadata__": {"facts": json.dumps(values)}}
"""


def forging(hand: Hand, source: str, answer: str = "def naive_mean(x):\n    return x") -> None:
    hand.cell(dedent(FIND).strip() + "\n" + dedent(source).strip(), answer)


@attack("verdicts", said="naive_mean: not", own=True)
def frames_from_a_thread(hand: Hand) -> None:
    """A thread writes answers to the host, before and while it asks."""
    forging(
        hand,
        """
        zeros = {"0/out": {"dtype": "F32", "shape": [1, 1, 1], "data_offsets": [0, 4]}}
        zeros |= facts([{"types": {"out": "Tensor"}}])
        def speak():
            while True:
                line.sendall(frame({"there": True, "described": {"callable": True}}))
                line.sendall(frame({}, safetensors(zeros, bytes(4))))
                time.sleep(0.01)
        threading.Thread(target=speak, daemon=True).start()
        """,
    )


@attack("verdicts", said="naive_mean: not|NameError", own=True)
def answered_in_advance(hand: Hand) -> None:
    """A cell lays answers ready for the questions to come: a description, then zeros."""
    forging(
        hand,
        """
        for shape in ([2, 3, 1], [1, 1, 1], [2, 5, 3]):
            header = {"0/out": {"dtype": "F32", "shape": shape, "data_offsets": [0, 60]}}
            line.sendall(frame({"there": True, "described": {"callable": True}}))
            line.sendall(frame({}, safetensors(header | facts([{}]), bytes(60))))
        """,
    )


@attack("verdicts", points=QUIZ_AND_MEAN, said="", told="worth a look", own=True)
def replaced_observer(hand: Hand) -> None:
    """What looks at the answer is replaced by one that looks at the course's own instead."""
    forging(
        hand,
        """
        import course_utils.inside.answers as answers
        from course_utils.attention import naive_mean as finished
        real = answers.run
        answers.run = lambda probing, answer, *a: real(probing, finished, *a)
        answers.part_codes = lambda parts: {}
        """,
    )


@attack("verdicts", said="naive_mean: not", own=True)
def replaced_results(hand: Hand) -> None:
    """What keeps results keeps what pleases: right kinds, no errors, no traces, and zeros."""
    forging(
        hand,
        """
        from course_utils.checking import observation
        from course_utils.checking.observation import Observation
        def put(self, name, value):
            self.facts.setdefault("types", {})[name] = "Tensor"
            self.tensors[name] = torch.zeros_like(value)
        Observation.put = put
        def packed(seen):
            seen.facts = {"types": {"out": "Tensor"}, "traits": {}, "elsewhere": "there"}
            seen.tensors = {n: torch.zeros_like(t) for n, t in seen.tensors.items()}
            return observation.pack([seen])
        server["_packed"] = packed
        """,
    )


@attack("verdicts", said="naive_mean: not", own=True)
def no_tensors_at_all(hand: Hand) -> None:
    """Nothing comes back but facts: all is well, and gradients need no reading."""
    forging(
        hand,
        """
        well = {"types": {"out": "Tensor"}, "unread": ["grad:x"], "elsewhere": "there"}
        server["_packed"] = lambda seen: safetensors(facts([well]))
        """,
    )


@attack("verdicts", said="naive_mean: not", own=True)
def every_case_refused(hand: Hand) -> None:
    """Every case is answered by the error that some case may want."""
    forging(
        hand,
        """
        error = {"type": "ValueError", "bases": ["ValueError"], "message": "x T C", "kind": "call"}
        server["_packed"] = lambda seen: safetensors(facts([{"error": error}]))
        """,
    )


@attack("verdicts", said="naive_mean: not", own=True, paid=1.0)
def looks_for_what_is_expected(hand: Hand) -> None:
    """An answer searches all objects of its process for what it should give."""
    hand.answer("""
        import gc, sys
        def naive_mean(x):
            gc.unfreeze()  # what was loaded before is left out of the list otherwise
            for one in gc.get_objects():
                if isinstance(one, dict):
                    for word in ("expected", "out", "key", "solution"):
                        found = one.get(word)
                        if isinstance(found, dict): found = found.get("out")
                        if type(found) is torch.Tensor and found.shape == x.shape:
                            return found
            return torch.zeros_like(x)
    """)


@attack("verdicts", said="naive_mean: not", own=True, paid=1.0)
def remembers_cases(hand: Hand) -> None:
    """An answer keeps each case on disk, ends its process, and hopes to see the case again."""
    hand.answer("""
        import os
        def naive_mean(x):
            for place in ("/dev/shm", "."):
                open(f"{place}/seen", "ab").write(repr(x.tolist()).encode())
            seen = open("/dev/shm/seen", "rb").read()
            if len(seen) < 2000:
                os._exit(1)
            return torch.zeros_like(x)
    """)


@attack("limits", said="ended the notebook's process|can't be judged", own=True, paid=1.0)
def huge_lengths(hand: Hand) -> None:
    """A message says that it is 18 exabytes long."""
    forging(hand, 'line.sendall(struct.pack("<IQ", 2**32 - 1, 2**64 - 1))')


@attack("limits", said="ended the notebook's process|can't be judged", own=True, paid=1.0)
def deep_message(hand: Hand) -> None:
    """A message is a list in a list, four million deep."""
    forging(hand, 'line.sendall(frame(b"[" * 4_000_000))')


@attack("limits", said="can't be judged", own=True)
def a_million_observations(hand: Hand) -> None:
    """What comes back for one case is small, and unfolds to gigabytes where it is read."""
    forging(
        hand,
        """
        def packed(seen):
            return safetensors({"__metadata__": {"facts": "[" + "{}," * 15_000_000 + "{}]"}})
        server["_packed"] = packed
        """,
    )


@attack("limits", said="can't be judged", own=True)
def header_of_900_megabytes(hand: Hand) -> None:
    """The header of the tensors says that it is 900 MB long."""
    forging(hand, 'server["_packed"] = lambda seen: struct.pack("<Q", 900_000_000) + b"{}"')


@attack("verdicts", said="can't be judged", own=True)
def colliding_names(hand: Hand) -> None:
    """Several tensors have one name, and some belong to cases before the first."""
    forging(
        hand,
        """
        def packed(seen):
            t = seen.tensors["out"].float().contiguous()
            place = [0, t.numel() * 4]
            one = json.dumps({"dtype": "F32", "shape": list(t.shape), "data_offsets": place})
            names = ("0/out", "0/out", "-1/out", "00/out", "0/0/out", "0/judged:out")
            head = ",".join(f'"{n}":{one}' for n in names)
            told = json.dumps(facts([{"types": {"out": "Tensor"}}]))[1:-1]
            return safetensors(("{" + told + "," + head + "}").encode(), bytes(t.numel() * 4))
        server["_packed"] = packed
        """,
    )


@attack("verdicts", said="naive_mean: not|can't be judged", own=True)
def facts_of_odd_kinds(hand: Hand) -> None:
    """Facts are of kinds that nobody expects, endless texts, and numbers beyond all measure."""
    forging(
        hand,
        """
        odd = [
            {"types": [1], "traits": {"x": 1e308}, "given": {"out": ["(" * 900] * 900}},
            {"types": {"out": "Tensor" * 9000}, "printed": {"lines": 10**400, "first": [""] * 9}},
            {"error": {"kind": "stub", "message": 7}, "borrowed": "all", "half": []},
            {"error": [], "unstable": {}, "traits": [], "printed": {"lines": True, "first": []}},
            {"left_behind": ["x" * 10**6] * 5, "types": {"out": "NoneType"}, "ops": [[]]},
        ]
        def packed(seen):
            odd.append(odd.pop(0))
            return safetensors(json.dumps(facts([odd[0]])).replace("1e+308", "NaN").encode())
        server["_packed"] = packed
        """,
    )


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
    """The process no longer reads what it is asked, so that the host waits to be rid of it."""
    notebook = hand.quiz_done()
    put_behind_imports(notebook, f"later = {'x' * 3_000_000!r}")
    put_behind_imports(
        notebook,
        dedent(FIND).strip()
        + '\nline.sendall(frame({"outputs": [], "success": True}))\nwhile True: time.sleep(9)',
    )


@attack("limits", said="Too many open files|OSError|naive_mean: not", own=True)
def every_file_open(hand: Hand) -> None:
    """A cell opens files until there is no number left for another."""
    hand.cell("""
        import os
        kept = []
        while True:
            kept.append(os.dup(0))
    """)


@attack(
    "limits", said="thread|ended the notebook's process|naive_mean: not|MiB", own=True, paid=1.0
)
def every_thread_busy(hand: Hand) -> None:
    """A cell starts threads until there can be none, each busy for ever."""
    hand.cell("""
        import threading
        def work():
            while True: pass
        while True:
            threading.Thread(target=work, daemon=True).start()
    """)


@attack("walls", said="refused", own=True, paid=1.0)
def looks_at_the_server(hand: Hand) -> None:
    """A cell tries to trace, to stop or to outlive the process it was forked from."""
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
    """A right answer is left for the next student, wherever one can write, and in the kernel."""
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
    """The next student looks for it."""
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
    """Everything that the next student's process is made from is changed: here."""
    hand.cell("""
        import builtins, linecache, random, sys
        import torch, numpy, course_utils.attention, course_utils.checking.observation as o
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


@attack("limits", said="naive_mean: not|NameError", own=True)
def hooks_of_the_notebook(hand: Hand) -> None:
    """Hooks run evil before and after each cell, at the end, and when an object goes."""
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


@attack("limits", said=STOPPED + "|can't be judged|naive_mean: not", own=True, paid=1.0)
def endless_to_look_at(hand: Hand) -> None:
    """An answer never ends when it is asked what it is, before it is called."""
    hand.answer("""
        class Evil:
            def __call__(self, x): return x
            def __getattr__(self, name):
                while True:
                    try:
                        while True: pass
                    except BaseException: pass
        naive_mean = Evil()
    """)


@attack("limits", said="can't be|not right yet|NameError", own=True)
def many_names(hand: Hand) -> None:
    """A quiz's dict has a million entries and says that it holds any other too."""
    notebook = hand.cell(
        "",
        "def naive_mean(x):\n    return x",
    )
    notebook.write(
        QUIZ,
        dedent("""
        class All(dict):
            def __contains__(self, name): return True
            def __getitem__(self, name): return [[10**18] * 30] * 30
        naive_mean_shapes = All({str(n): n for n in range(1_000_000)})
        """).strip(),
    )


# What calls the finished part by an odd way: it may get the points of a right answer.
BORROWED = {
    "borrows_plainly": (
        ONLY_QUIZ,
        """
        from course_utils import attention
        def naive_mean(x):
            return attention.naive_mean(x)
        """,
    ),
    "borrows_by_importlib": (
        ONLY_QUIZ,
        """
        import importlib
        def naive_mean(x):
            return getattr(importlib.import_module("course_utils.attention"), "naive" + "_mean")(x)
        """,
    ),
    "borrows_bytecode": (
        QUIZ_AND_MEAN,
        """
        import types
        from course_utils import attention
        code = attention.naive_mean.__code__.replace(co_name="mine", co_filename="mine")
        mine = types.FunctionType(code, attention.naive_mean.__globals__)
        def naive_mean(x):
            return mine(x)
        """,
    ),
    "borrows_source": (
        QUIZ_AND_MEAN,
        """
        import inspect
        from course_utils import attention
        space = dict(vars(attention))
        exec(inspect.getsource(attention.naive_mean), space)
        mine = space["naive_mean"]
        def naive_mean(x):
            return mine(x)
        """,
    ),
    "borrows_unpickled": (
        QUIZ_AND_MEAN,
        """
        import marshal, types
        from course_utils import attention
        data = marshal.dumps(attention.naive_mean.__code__)
        code = marshal.loads(data.replace(b"naive", b"other"))
        naive_mean = types.FunctionType(code, vars(attention))
        """,
    ),
    "borrows_in_a_child": (
        QUIZ_AND_MEAN,
        """
        import io, subprocess, sys
        def naive_mean(x):
            data = io.BytesIO(); torch.save(x.detach(), data)
            done = subprocess.run(
                [sys.executable, "-c", "import io, sys, torch\\n"
                 "from course_utils.attention import naive_mean\\n"
                 "x = torch.load(io.BytesIO(sys.stdin.buffer.read()))\\n"
                 "torch.save(naive_mean(x), sys.stdout.buffer)"],
                input=data.getvalue(), capture_output=True)
            return torch.load(io.BytesIO(done.stdout))
        """,
    ),
}


def _borrowing(name: str, points: float, source: str) -> None:
    def make(hand: Hand) -> None:
        hand.answer(source)

    make.__name__ = name
    make.__doc__ = f"An answer calls the course's finished part: {name.replace('_', ' ')}."
    refused = points == ONLY_QUIZ
    said, told = ("finished part", "") if refused else ("", "worth a look")
    attack("verdicts", points, said, told, own=True)(make)


for _name, (_points, _source) in BORROWED.items():
    _borrowing(_name, _points, _source)


def softmax_by(hand: Hand, source: str) -> None:
    hand.lesson(THREE).write("softmax", dedent(source).strip())


@attack("verdicts", points=0.0, said="yours to build", own=True)
def forbidden_operator(hand: Hand) -> None:
    """The operator that the exercise is about is called under another name."""
    softmax_by(
        hand,
        """
        def softmax(scores, dim=-1):
            return torch.ops.aten._softmax.default(scores, dim, False)
        """,
    )


@attack("verdicts", points=0.0, said="yours to build", own=True)
def forbidden_compiled(hand: Hand) -> None:
    """The operator that the exercise is about is called by a compiled program."""
    softmax_by(
        hand,
        """
        def softmax(scores, dim=-1):
            source = "def f(x, d: int):\\n    return torch.softmax(x, d)\\n"
            return torch.jit.CompilationUnit(source).f(scores, dim)
        """,
    )


@attack("verdicts", points=2.0, said="", told="worth a look", own=True)
def forbidden_forgotten(hand: Hand) -> None:
    """What watches which operators run is made to forget them."""
    softmax_by(
        hand,
        """
        import course_utils.inside.answers as answers
        real = answers.run
        def forgetful(*a):
            seen = real(*a)
            for one in seen:
                one.facts["ops"] = one.facts["borrowed"] = []
            return seen
        answers.run = forgetful
        def softmax(scores, dim=-1):
            return torch.softmax(scores, dim)
        """,
    )


@attack("files", said="naive_mean: not", own=True, paid=1.0)
def sources_that_weigh(hand: Hand) -> None:
    """Sources that take a reader long, or too deep: sums of 5,000 terms, and half characters."""
    notebook = hand.answer("def naive_mean(x):\n    return x" + " + x" * 5_000)
    for source in (
        "(" * 5_000,
        "x = " + "-" * 50_000 + "1",
        "'\\udcff \udcff'",
        "a" + ".a" * 50_000,
        "\n " * 20_000,
        *["x.\n" * 6_000] * 9,
    ):
        notebook.content.cells.append(new_code_cell(source))


@attack("pages", said="naive_mean: not", own=True, paid=1.0)
def outputs_that_weigh(hand: Hand) -> None:
    """Tags in tags, and colours for a terminal: what cleans them takes as long as it takes."""
    notebook = hand.quiz_done()
    for tag in ("<div>", "<ul><li>", "<details>", "<b></p>"):
        put_behind_imports(
            notebook,
            "from IPython.display import display\n"
            f"page = {tag!r} * (190_000 // {len(tag)})\n"
            "for _ in range(9): display({'text/html': page}, raw=True)",
        )
    put_behind_imports(notebook, "print(30_000 * '\\x1b[1m')")


@attack("pages", said="naive_mean: not", told="link", own=True, paid=1.0)
def names_for_a_terminal(hand: Hand) -> None:
    """The names of links and notebooks clear the instructor's terminal and write points on it."""
    hand.quiz_done()
    name = "\x1b[2J\x1b]0;evil\x07\x1b[1;1Hada 100.00\n=1+1"
    (hand.folder / name).symlink_to("/etc/passwd")
    (hand.folder / f"{name}.ipynb").write_text("{}")


# ---------------------------------------------------------------- the class


def hand_in(place: Place, evil: bool) -> None:
    """All of them hand in."""
    made: list[Callable[[Hand], Any]] = [*HONEST, *(a.make for a in ATTACKS.values() if evil)]
    for make in made:
        hand = Hand(place, make.__name__.replace("_", "-"))
        make(hand)
        hand.finish()
