"""Grading from outside the sandbox: what is sent, what is received, and what is stored."""

import ast
import dataclasses
import html
import json
import math
import pickle
import pickletools
import socket
import subprocess
import sys
import types

import pytest
import torch
from safetensors.torch import save

from course_utils.show.figures import heatmap
from tools import ROOT
from whywrong import Case, Observation
from whywrong.hosting import cached_key, joined, pack
from whywrong_nbgrader import classroom, explain, outputs, reading, results, verdicts, work
from whywrong_nbgrader.cells import Cell
from whywrong_nbgrader.classroom import Work
from whywrong_nbgrader.fork_server import ForkServer
from whywrong_nbgrader.helper import helper
from whywrong_nbgrader.inside import wire
from whywrong_nbgrader.inside.answers import Probing
from whywrong_nbgrader.notebooks import Graded, Times, grade
from whywrong_nbgrader.outputs import clean_data, clean_outputs
from whywrong_nbgrader.preprocessors import CarefulHighlight, markdown
from whywrong_nbgrader.results import CantKeep, Results, Settings
from whywrong_nbgrader.verdicts import Untrustworthy, facts, goes_in, observation, shown_case

COURSE = joined(())

pytestmark = pytest.mark.timeout(300)
full = pytest.mark.full("costly details of grading")
EXERCISES = [pytest.param(e, id=e.id) for e in COURSE]


@pytest.fixture(scope="module")
def server():
    with ForkServer() as server:
        yield server


def seed_of(_):
    return 4321


# ---------------------------------------------------------------- what is sent


def codes(value):
    """The code of functions, and of a class's methods."""
    found = list(vars(value).values()) if isinstance(value, type) else [value, type(value)]
    found += list(vars(type(value)).values()) if not isinstance(value, type) else []
    return {
        f.__code__.co_code
        for f in found
        if isinstance(f, types.FunctionType) and len(f.__code__.co_code) > 60
    }


@pytest.mark.parametrize("exercise", EXERCISES)
def test_nothing_sent_to_the_sandbox_reveals_the_answer(exercise):
    hidden = [m.answer for m in exercise.misconceptions]
    hidden += [exercise.expect, *(p.holds for p in exercise.properties)]
    if not verdicts._is_inside(exercise.reference):
        hidden.append(exercise.reference)
    secret = set().union(*map(codes, hidden))
    written = [m.program.text for m in exercise.misconceptions if m.program]
    written += [said for m in exercise.misconceptions for said in (m.what, m.why, m.look)]
    sent = goes_in(exercise, COURSE, COURSE.earlier_parts(exercise, exercise.rules.uses))
    sent_now = sent
    sent += b"".join(map(shown_case, exercise.cases(7)))
    assert not [code for code in secret if code in sent]
    assert not [text for text in written if text and text.encode() in sent]
    texts = {said for _, said, _ in pickletools.genops(sent_now) if isinstance(said, str)}
    texts -= {f.name for f in dataclasses.fields(Probing)} | {e.name for e in exercise.entries}
    for e in exercise.entries:
        assert e.why not in texts or not e.why
        assert not e.choices or e.answer not in texts
    words = [w for c in exercise.cases(7) for said in c.refuses or () for w in said.split("|")]
    assert not [w for w in words if len(w) > 12 and w.encode() in sent]
    probing, _ = pickle.loads(sent_now)
    assert probing.id == exercise.id


def test_no_answers_are_inside(server):
    shown = "import os; print({at: sorted(n) for at, _, n in os.walk('/.course')})"
    with server.fork() as fork:
        said, _ = fork.ask({"do": "run", "source": shown}, b"", 30)
        files = ast.literal_eval(said["outputs"][0]["text"])
        assert {at.split("/")[2] for at in files if at != "/.course"} == {
            *("course_utils", "whywrong", "whywrong_nbgrader")
        }
        assert "attention.py" in files["/.course/course_utils"]
        assert "__main__.py" not in files["/.course/course_utils"]
        grader = {at: names for at, names in files.items() if "whywrong_nbgrader" in at}
        assert set(grader) == {"/.course/whywrong_nbgrader", "/.course/whywrong_nbgrader/inside"}
        assert grader["/.course/whywrong_nbgrader"] == ["__init__.py"]
        look = "import sys; print([k for k in sys.modules if 'exercises' in k])"
        said, _ = fork.ask({"do": "run", "source": look}, b"", 30)
        assert said["outputs"][0]["text"] == "[]\n"


# ---------------------------------------------------------------- what is received


def test_an_honest_observation_is_accepted():
    seen = Observation({"out": torch.tensor([1.0, math.nan])}, {"types": {"out": "Tensor"}})
    seen.facts |= {"traits": {"a": [1, None, True]}, "modified": ["x"], "unstable": "random"}
    back = observation(pack([seen]))
    assert torch.equal(back.tensors["out"].isnan(), seen.tensors["out"].isnan())
    assert back.facts == seen.facts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 100,
        (2**60).to_bytes(8, "little") + b"{}",
        save({"0/x": torch.zeros(1)}),
        save({"0/x": torch.zeros(1)}, {"facts": "[{}, {}]"}),
        save({"7/x": torch.zeros(1)}, {"facts": "[{}]"}),
        save({"x": torch.zeros(1)}, {"facts": "[{}]"}),
        save({"0/x": torch.zeros(1, dtype=torch.complex64)}, {"facts": "[{}]"}),
        save({"0/x": torch.zeros(2_000_000)}, {"facts": "[{}]"}),
        save({f"0/{n}": torch.zeros(1) for n in range(500)}, {"facts": "[{}]"}),
        save({}, {"facts": "[" * 100_000}),
        save({}, {"facts": json.dumps([{"traits": {"a": "x" * 300_000}}])}),
        save({}, {"facts": json.dumps([{"traits": [[[[[[[[[[[[1]]]]]]]]]]]]}])}),
    ],
)
def test_a_reply_that_is_not_an_observation_is_refused(data):
    with pytest.raises(Untrustworthy):
        observation(data)


def test_facts_in_an_unknown_form_are_left_out():
    odd = {
        "error": {"type": 3, "bases": "ValueError", "message": None, "kind": "praise"},
        "types": {"out": 5},
        "modified": "x",
        "overwritten": "no",
        "unstable": 1,
        "printed": {"lines": 2, "first": ["a"]},
        "points": 100,
    }
    kept = facts(odd)
    assert set(kept) == {"error", "printed"}
    assert kept["error"]["kind"] == "exception" and kept["error"]["bases"] == []


def test_whether_an_error_came_later_is_true_or_left_out():
    assert facts({"error": {"later": True}})["error"]["later"] is True
    for odd in (False, 1, "yes", ["x" * 300], None):
        assert "later" not in facts({"error": {"later": odd}})["error"]


def test_additional_parameters_are_names_with_sizes_or_left_out():
    assert facts({"besides": [["head.bias", 4]]}) == {"besides": [("head.bias", 4)]}
    for odd in ("head.bias", ["head.bias"], [["a", "4"]], [["a", True]], [["a", -1]], [[4, "a"]]):
        assert facts({"besides": odd}) == {}


class Saying:
    """A notebook process with arbitrary replies."""

    used = 0.0

    def __init__(self, *answers):
        self.answers = list(answers)

    def ask(self, words, data, seconds):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize(
    "answers",
    [
        [({}, b"")],
        [({"described": 5}, b"")],
        [({"described": {"callable": True, "arguments": [["x", "NO_KIND", True]]}}, b"")],
        [({"described": {"callable": True}}, b""), ({}, b"")],
        [({"described": {"callable": True}}, b""), ({}, b"nonsense")],
        [({"described": {"callable": True}}, b""), ({}, pack([Observation()]))],
        [
            ({"described": {"callable": True}}, b""),
            ({}, pack([Observation({"out": torch.zeros(1)}, {"traits": {"": 1}, "types": {}})])),
        ],
    ],
)
@pytest.mark.parametrize("id", ["naive_mean", "MultiHeadAttention", "naive_mean_shapes"])
def test_a_process_with_odd_replies_earns_nothing(answers, id):
    exercise = COURSE.find(id)
    report = verdicts.verdict(exercise, COURSE, Saying(*answers), cached_key(exercise, 5), 5.0)
    assert report.points == 0 and not report.passed


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (wire.HEAD.pack(2**31, 0), wire.BadMessage),
        (wire.HEAD.pack(2, 2**60) + b"{}", wire.BadMessage),
        (wire.HEAD.pack(4, 0) + b"nope", wire.BadMessage),
        (wire.HEAD.pack(2, 0) + b"[]", wire.BadMessage),
        (wire.HEAD.pack(100_000, 0) + b"[" * 100_000, wire.BadMessage),
        (wire.HEAD.pack(10, 0) + b"{", wire.OutOfTime),
        (b"", wire.OutOfTime),
    ],
)
def test_invalid_messages_are_distinguished_from_valid_ones(sent, error):
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        with pytest.raises(error):
            wire.receive(here, wire.within(0.2))


def test_a_closed_connection_is_not_a_timeout():
    here, there = socket.socketpair()
    there.close()
    with here, pytest.raises(wire.Ended):
        wire.receive(here, wire.within(5))


# ---------------------------------------------------------------- outputs


def test_nothing_in_an_output_can_run_in_a_browser():
    page = (
        '<b onclick="x()">bold</b><script>x()</script><img src="http://a/b.png" onerror="x()">'
        '<a href="javascript:x()">a</a><div style="background:url(http://a);color:red">d</div>'
        "<iframe src=x></iframe><svg><script>x</script></svg><style>body{}</style>"
    )
    other = {"application/javascript": "x()", "image/svg+xml": "<svg onload=x()>"}
    other |= {"text/markdown": page, "image/png": "AAAA<script>", "text/plain": "<b>"}
    cleaned = clean_data({"text/html": page, **other})
    assert set(cleaned) == {"text/html", "text/plain"}
    for word in ("script", "onclick", "onerror", "http", "javascript", "iframe", "style>", "svg"):
        assert word not in cleaned["text/html"]
    assert "<b>bold</b>" in cleaned["text/html"] and "color:red" in cleaned["text/html"]


def test_a_figure_is_stored_with_its_text_alternative():
    figure, _ = heatmap(torch.eye(2), "<who> looks & where")._repr_mimebundle_()
    cleaned = clean_data(figure)
    assert set(cleaned) == {"text/html", "image/png", "text/plain"}
    for kept in ("data:image/webp;base64,", 'alt="Heat map: ', 'width="', "max-width"):
        assert kept in cleaned["text/html"]


@pytest.mark.parametrize(
    "source",
    [
        *("http://a/b.png", "//a/b.png", "data:text/html;base64,AAAA", "javascript:x()"),
        *("data:image/svg+xml;base64,AAAA", "data:image/png;base64,AA&quot; onerror=x()", ""),
    ],
)
def test_no_other_picture_is_fetched_or_hides_other_output(source):
    page = f'<img src="{source}" onerror="x()" srcset="http://a/b.png 2x">'
    cleaned = clean_data({"text/html": page, "text/plain": "x"})
    assert set(cleaned) <= {"text/html", "text/plain"}
    assert cleaned.get("text/html", "<img>") == "<img>"


@pytest.mark.parametrize(
    ("style", "kept"),
    [
        ("margin:4px", True),
        ("text-align:left", True),
        ("margin:-99em 0", False),
        ("margin-top:-99em", False),
    ],
)
def test_no_margin_lets_an_output_cover_a_card(style, kept):
    cleaned = clean_data({"text/html": f'<div style="{style}">x</div>'})["text/html"]
    assert cleaned == (f'<div style="{style}">x</div>' if kept else "<div>x</div>")


@pytest.mark.parametrize(
    "outputs", [None, 5, "text", [5], [{}], [{"output_type": "stream"}], [{"output_type": "error"}]]
)
def test_malformed_outputs_do_no_harm(outputs):
    for output in clean_outputs(outputs):
        assert output["output_type"] == "error" and output["traceback"] == []


def test_code_that_is_slow_to_highlight_is_shown_without_colours():
    colour = CarefulHighlight()
    assert '<span class="k">def</span>' in colour("def f(x):   \n    return x")
    for slow in ("a" + ".a" * 5_000, "<b>\n" * 6_000):
        page = colour(slow)
        assert "<span" not in page and html.escape(slow) in page
    assert len(colour("\n " * 5_000)) < 10_000, "blanks at the ends of lines are slow too"


def test_a_text_that_takes_too_long_to_format_is_shown_as_it_was_typed(monkeypatch):
    monkeypatch.setattr(CarefulHighlight, "until", helper().spent + 0.01)
    typed = r"\begin{a}" * 2_000  # takes a few seconds
    assert f"<pre>{typed}" in markdown(typed)


def test_a_flood_of_output_is_cut():
    (cut,) = clean_outputs([{"output_type": "stream", "name": "stdout", "text": "x" * 10**7}])
    assert len(cut["text"]) < outputs.MOST_TEXT + 100 and "characters more" in cut["text"]


# ---------------------------------------------------------------- notebooks


START = Cell("import torch\nfrom course_utils import check")
RIGHT = Cell(
    "def naive_mean(x):\n"
    "    return torch.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], 1)"
)
CHECK = Cell('check("naive_mean", naive_mean)', "naive_mean")


def graded(server, *cells, **times):
    return grade(cells, COURSE, server, seed_of, Times(**times))


def test_a_right_answer_has_all_points_and_the_card(server):
    done = graded(server, START, RIGHT, CHECK)
    assert done.reports["naive_mean"]["points"] == 2 and not done.happened
    (output,) = done.outputs[2]
    assert output["data"]["text/plain"] == "2.0" and "Right on every case" in str(output)
    assert done.tier == "sandbox"


def test_hints_and_points_stay_at_the_student_s_desk(server):
    asks = Cell(f"{RIGHT.source}\nprint(desk.hint('naive_mean'), desk.progress())")
    done = graded(server, START, Cell("import course_utils as desk"), asks, CHECK)
    (said,) = done.outputs[2]
    assert "no hints while" in said["text"] and "No progress is stored" in said["text"]


def test_a_right_answer_may_wait_within_its_time(server):
    pauses = Cell("import time\npauses = [0.5]")
    waits = Cell(RIGHT.source.replace(":\n", ":\n    time.sleep(sum(pauses)); pauses.clear()\n", 1))
    done = graded(server, START, pauses, waits, CHECK, check=40.0)
    assert done.reports["naive_mean"]["points"] == 2, done.reports["naive_mean"]["message"]


def test_compiled_code_runs_as_it_is_written(server):
    answer = Cell(
        "class Mean(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.cumsum(1) / torch.arange(1, x.shape[1] + 1).to(x)[:, None]\n"
        "mean = torch.compile(Mean(), backend='eager')\n"
        "@torch.compile\n"
        "def naive_mean(x):\n"
        "    return mean(x)\n"
        "print(naive_mean(torch.ones(1, 2, 1)).tolist())"
    )
    done = graded(server, START, answer, CHECK, cell=10.0)
    assert done.outputs[1][0]["text"] == "[[[1.0], [1.0]]]\n" and not done.happened
    report = done.reports["naive_mean"]
    assert report["points"] == 2 and "run without `torch.compile`" in str(report["notes"])


@full
def test_the_time_in_which_the_compiler_is_loaded_is_not_the_answer_s(server):
    answer = Cell(
        f"{RIGHT.source.replace('naive', 'my')}\n\ndef naive_mean(x):\n"
        "    return torch.compile(my_mean)(x)"
    )
    done = graded(server, START, answer, CHECK, check=1.5)
    assert done.reports["naive_mean"]["points"] == 2, done.reports["naive_mean"]["message"]


def test_the_finished_part_s_code_is_noted_where_an_answer_calls_a_copy_of_it(server):
    answer = Cell(
        "import types\nfrom course_utils.attention import naive_mean as its\n"
        "copy = types.FunctionType(its.__code__.replace(co_name='copy'), its.__globals__)\n"
        "def naive_mean(x):\n    return copy(x)"
    )
    assert [*graded(server, START, answer, CHECK).codes] == ["naive_mean"]
    assert not graded(server, START, RIGHT, CHECK).codes


def test_notebooks_share_loaded_modules_and_no_collection_copies_them(server):
    done = graded(server, Cell("import gc\nprint(gc.get_freeze_count() > 100_000, gc.isenabled())"))
    assert done.outputs[0][0]["text"] == "True True\n"


@full
def test_workers_share_loaded_modules():
    seen = "from whywrong_nbgrader import preloaded; import gc; print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 100_000


@pytest.mark.parametrize(
    "ending",
    [*("import os; os._exit(1)", "return 1"), pytest.param("return pow(3, 10**9)", marks=full)],
)
def test_an_answer_does_not_pay_for_an_earlier_one_that_ends_its_process(server, ending):
    name = "softmax_mean"
    answer = (
        "def softmax_mean(x):\n"
        "    T = x.shape[1]\n"
        "    hidden = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)\n"
        "    return masked_softmax(torch.zeros(T, T).to(x), hidden) @ x"
    )
    earlier = Cell(f"def masked_softmax(scores, hidden):\n    {ending}")
    cells = START, earlier, Cell(answer), Cell(f'check("{name}", {name})', name)
    report = graded(server, *cells, check=1.0).reports[name]
    assert report["points"] == 2 and "course's version instead" in report["notes"][-1]


EARLIER = {
    "an executor": "from concurrent.futures import ThreadPoolExecutor\n"
    "pool = ThreadPoolExecutor(1)\npool.submit(int).result()\n"
    "elsewhere = lambda f: pool.submit(f).result()",
    "an event loop": "import asyncio, threading\nloop = asyncio.new_event_loop()\n"
    "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
    "async def call(f): return f()\n"
    "elsewhere = lambda f: asyncio.run_coroutine_threadsafe(call(f), loop).result()",
}


@pytest.mark.parametrize("thread", EARLIER)
def test_a_forbidden_part_is_seen_in_a_thread_of_an_earlier_cell(server, thread):
    answer = "def softmax(scores, dim=-1):\n    return elsewhere(lambda: {}(scores, dim))"
    check = Cell('check("softmax", softmax)', "softmax")
    mine = "(lambda s, d: (s - s.amax(d, True)).exp() / (s - s.amax(d, True)).exp().sum(d, True))"
    for by, points in (("torch.softmax", 0), (mine, 2)):
        done = graded(server, START, Cell(EARLIER[thread]), Cell(answer.format(by)), check)
        assert done.reports["softmax"]["points"] == points, done.reports["softmax"]["message"]


WRONG = Cell("def naive_mean(x):\n    return x.flip(1).cumsum(1) * 2 + x.mean()")


def test_the_same_cells_give_the_same_whatever_was_graded_between(server):
    first = graded(server, START, WRONG, CHECK)
    graded(server, START, Cell("def naive_mean(x):\n    return x.cumsum(1) / 2"), CHECK)
    graded(server, START, Cell("naive_mean = 3"), CHECK)
    assert graded(server, START, WRONG, CHECK).to_dict() == first.to_dict()


@full
def test_the_same_cells_give_the_same_in_another_server(server):
    first = graded(server, START, WRONG, CHECK)
    with ForkServer() as another:
        assert graded(another, START, WRONG, CHECK).to_dict() == first.to_dict()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("while True: pass", "still running after 1 seconds"),
        ("while True:\n try:\n  while True: pass\n except BaseException: pass", "still running"),
        ("import os; os._exit(0)", "ended the notebook's process"),
        ("import os; os.kill(os.getpid(), 11)", ""),  # process 1 of its namespace can't be killed
        ("import ctypes; ctypes.string_at(0)", "ended the notebook's process"),
        ("import sys; sys.exit()", ""),
        pytest.param("x = []\nwhile True: x.append(bytearray(2**26))", "", marks=full),
    ],
)
def test_the_rest_of_a_notebook_is_graded_whatever_a_cell_does(server, source, said):
    done = graded(server, START, RIGHT, Cell(source), Cell("print(1 + 1)"), CHECK, cell=1.0)
    assert done.reports["naive_mean"]["points"] == 2
    assert "2\n" in str(done.outputs[3][0].get("text"))
    assert any(said in line for line in done.happened) if said else True


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import os; os._exit(0)",
        "import time; time.sleep(100)",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_an_answer_that_ends_badly_loses_its_own_points(server, body):
    bad = Cell(f"def naive_mean(x):\n    {body}")
    shapes = COURSE.find("naive_mean_shapes")
    quiz = Cell(f"naive_mean_shapes = {shapes.reference!r}")
    cells = START, bad, CHECK, quiz, Cell("", "naive_mean_shapes")
    done = graded(server, *cells, check=1.0)
    assert done.reports["naive_mean"]["points"] == 0
    assert done.reports["naive_mean_shapes"]["points"] == shapes.points


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def naive_mean(x)\n    return x", "Cell 2 doesn't compile on Python "),
        (
            "import math\nfrom mine import total\n\ndef naive_mean(x):\n    return x",
            "Cell 2, which defines it, failed in line 2 (ModuleNotFoundError: No module named",
        ),
        (
            "from mine import naive_mean",
            "Cell 2, which defines it, failed in line 1 (ModuleNotFoundError: No module named",
        ),
    ],
)
def test_a_missing_name_is_reported_with_the_failed_cell(server, source, said):
    report = graded(server, START, Cell(source), CHECK).reports["naive_mean"]
    assert "NameError: name 'naive_mean' is not defined" in report["message"]
    assert report["notes"][0].startswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("return total(x)", "`total` is defined in cell 4, which runs later."),
        ("return totals(x)", "No cell of the submitted notebook defines `totals`."),
        (
            "import mine",
            "The file mine.py isn't there when a class is graded: only notebooks are.",
        ),
        (
            "return half(x)",
            "Cell 1, which defines it, failed in line 1 (ZeroDivisionError: division by zero).",
        ),
    ],
)
def test_what_an_answer_misses_is_said_in_words(server, line, said):
    failed, later = Cell("half = 1 / 0"), Cell("def total(x):\n    return x")
    done = graded(server, failed, Cell(f"def naive_mean(x):\n    {line}"), CHECK, later)
    assert done.reports["naive_mean"]["notes"][0] == said


def test_a_complaint_about_a_quiz_is_answered_entry_by_entry(server, monkeypatch):
    monkeypatch.setattr(explain, "server", lambda tier: server)
    quiz = COURSE.find("naive_mean_shapes")
    given = Cell(f"naive_mean_shapes = {quiz.reference | {'out': (4, 8)}!r}")
    handed_in = Work("ada", "01_naive_mean", [given, Cell("", quiz.id)])
    told = [*explain._told(handed_in, [], quiz, Settings("any", "sandbox", Times()))]
    assert told[-1] == "  out: [4, 8], right: (4, 8, 2)"


def test_a_complaint_is_answered_with_the_inputs_that_are_short():
    case = Case("two texts", {"few": torch.zeros(24), "many": torch.zeros(25)})
    _, few, last = explain._case(cached_key(COURSE.find("naive_mean"), 5), case, 0, None)
    assert few.startswith("     few = (24,) float32 [0, 0,") and "many" not in last


def test_a_notebook_has_a_time_limit(server):
    slow = Cell("import time; time.sleep(1.2)")
    done = graded(server, START, RIGHT, slow, slow, CHECK, notebook=2.0)
    assert done.reports["naive_mean"]["points"] == 0
    assert "seconds ended" in done.reports["naive_mean"]["message"]


def test_nothing_of_one_notebook_is_left_for_the_next(server):
    places = "left", "/tmp/left", "/dev/shm/left"
    leave = f"for place in {places}: open(place, 'w').write('x')\nimport torch\n"
    leave += "torch.left = 1; _ = torch.manual_seed(5)"
    look = f"import os, torch; print(sum(map(os.path.exists, {places})), "
    look += "hasattr(torch, 'left'), torch.initial_seed(), len(os.listdir('/proc')))"
    assert not any(graded(server, Cell(leave)).outputs), "it could write everywhere"
    assert graded(server, Cell(look)).outputs[0][0]["text"] == "0 False 0 0\n"


@full
def test_without_a_sandbox_the_tier_is_recorded_and_answers_are_still_judged_outside():
    with ForkServer(trusted=True) as server:
        done = graded(server, START, RIGHT, CHECK)
        assert done.tier == "trusted" and done.reports["naive_mean"]["points"] == 2
        done = graded(server, START, Cell("while True: pass"), RIGHT, CHECK, cell=1.0)
        assert done.reports["naive_mean"]["points"] == 2


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        ("{}".encode("utf-16"), "it has no cells"),
        (b"<!DOCTYPE html>", "it is a web page"),
        (b"my answers", "it is not JSON, the format of notebooks$"),
        (b'{"nbformat": 4; "metadata": {}}', "format of notebooks, from line 1 on"),
        (b"[" * 10**6 + b"]" * 10**6, "it is nested too deeply"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 7}', "not a notebook"),
        (b'{"cells": [' + b"{}," * 1001 + b"{}]}", "it has 1,002 cells"),
        (b" " * (reading.MOST_BYTES + 1), "delete its outputs"),
    ],
)
def test_a_file_that_is_not_a_notebook_is_refused_with_the_reason(tmp_path, content, said):
    (tmp_path / "one.ipynb").write_bytes(content)
    with pytest.raises(reading.Unreadable, match=said):
        reading.read(tmp_path / "one.ipynb")


# ---------------------------------------------------------------- results


def test_a_result_depends_on_cells_secret_tier_and_times():
    settings = Settings("s", "sandbox", Times())
    name = settings.name([START, RIGHT])
    others = [
        settings.name([START]),
        settings.name([START, Cell(RIGHT.source, "naive_mean")]),
        Settings("t", "sandbox", Times()).name([START, RIGHT]),
        Settings("s", "trusted", Times()).name([START, RIGHT]),
        Settings("s", "sandbox", Times(cell=5)).name([START, RIGHT]),
    ]
    assert settings.name([START, RIGHT]) == name and len({name, *others}) == 6


def test_a_notebook_whose_process_was_killed_gets_a_second_try_alone(monkeypatch):
    done, runs = Graded(tier="sandbox"), []

    def together(left, killed, settings, workers):
        runs.append([*left])
        if len(runs) == 1:
            left.clear()
            killed.append("one")
            yield "other", done
        elif len(runs) == 3:
            yield "one", done

    monkeypatch.setattr(work, "_together", together)
    made = work.results_of({"one": [], "other": []}, Settings("any", "sandbox", Times()), 2)
    assert [*made] == [("other", done), ("one", done)]
    assert runs == [["one", "other"], ["one"], ["one"]]


@pytest.mark.parametrize("made", [Graded(happened=["it was slow"], starved=True), "it was killed"])
def test_what_lacked_time_or_memory_is_listed_and_runs_again(tmp_path, made):
    kept, settings, one = Results(tmp_path), Settings("any", "sandbox", Times()), Work("ada", "01")
    name = settings.name([START])
    classroom._take([one], work.stored(kept, settings, [START], name, made))
    assert kept.find(name) is None and one.trouble and not one.notes
    work.stored(kept, settings, [START], name, Graded())
    assert kept.find(name) == Graded()


def test_a_stored_result_is_found_but_a_damaged_one_is_not(tmp_path, server):
    kept, done = Results(tmp_path), graded(server, START, RIGHT, CHECK)
    kept.keep("ab" * 32, done)
    assert kept.find("ab" * 32).to_dict() == json.loads(json.dumps(done.to_dict()))
    assert kept.find("cd" * 32) is None
    (file,) = (tmp_path / ".grading" / "results" / "ab").iterdir()
    file.write_text(file.read_text()[:50])
    assert kept.find("ab" * 32) is None


def test_a_result_that_can_t_be_stored_is_reported(tmp_path):
    (tmp_path / ".grading").write_text("no folder")
    with pytest.raises(CantKeep, match="can't be written"):
        Results(tmp_path).keep("ab" * 32, Graded())


def test_the_secret_is_created_once_and_private(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_GRADING_SEED", raising=False)
    results.secret.cache_clear()
    first = results.secret(tmp_path)
    results.secret.cache_clear()
    assert results.secret(tmp_path) == first and len(first) == 32
    assert (tmp_path / ".grading" / "secret").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("COURSE_GRADING_SEED", "my own")
    results.secret.cache_clear()
    assert results.secret(tmp_path) == "my own"
    results.secret.cache_clear()
    seeds = results.seed_from("my own")
    assert seeds("naive_mean") != seeds("softmax") != results.seed_from("another")("softmax")


def test_nbgrader_s_commands_load_no_pytorch():
    """Most of them run nothing, while a person waits."""
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    loads = [line for line in config.splitlines() if line.startswith(("from ", "import "))]
    assert any("whywrong_nbgrader" in line for line in loads)
    last = "print([n for n in ('torch', 'matplotlib') if n in sys.modules])"
    asked = "\n".join(["import sys", *loads, last])
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
