"""Attacks on the verdict: on the check, on what the host receives, and on what answers may call."""

from __future__ import annotations

from base64 import b64encode
from textwrap import dedent

from nbformat.v4 import new_code_cell, new_output

from whywrong.hosting import cached_key, joined

from .evil_kit import MEAN, ONE, QUIZ_AND_MEAN, THREE, Hand, attack, forging
from .nbgrader_class import right_answer

# ---------------------------------------------------------------- the check


@attack("verdicts", before=True, paid=1.0)
def patched_check(hand: Hand) -> None:
    """The check is replaced by one that gives full points."""
    hand.cell("""
        import course_utils, course_utils.desk.checks, builtins
        class Full(float):
            passed = True
            def __repr__(self): return "2.0"
        check = builtins.check = course_utils.check = lambda *a, **k: Full(2)
        course_utils.desk.checks.check = check
    """)


@attack("verdicts", before=True)
def patched_comparisons(hand: Hand) -> None:
    """Every function that compares tensors says yes."""
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
    """An IPython transformer removes every assert and every check from later cells."""
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
    """An answer returns a report with full points, and prints the points and the card."""
    hand.cell(
        "print('2.0')\nprint('naive_mean: right, 2 of 2 points')",
        """
        from IPython.display import display
        from whywrong import Report
        def naive_mean(x):
            print("naive_mean: right, 2 of 2 points")
            display(2.0)
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


@attack("verdicts", before=True, paid=1.0)
def hard_coded(hand: Hand) -> None:
    """An answer knows the results of the visible cases by heart."""
    exercise = joined(()).find(MEAN)
    assert exercise is not None
    key = cached_key(exercise, 0)
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


# ---------------------------------------------------------------- results that are no tensors

RESULTS = {
    "all_nan": "x * float('nan')",
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


# ---------------------------------------------------------------- what the host receives


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


@attack("verdicts", QUIZ_AND_MEAN, said="", told="", own=True, paid=2.0)
def replaced_observer(hand: Hand) -> None:
    """The code that observes the answer is made to observe the course's own part instead."""
    forging(
        hand,
        """
        import whywrong_nbgrader.inside.answers as answers
        from course_utils.attention import naive_mean as finished
        real = answers.run
        answers.run = lambda probing, answer, *a, **k: real(probing, finished, *a, **k)
        answers.part_codes = lambda parts: {}
        """,
    )


@attack("verdicts", said="naive_mean: not|can't be judged", own=True)
def facts_of_odd_kinds(hand: Hand) -> None:
    """Facts have unexpected types, very long texts and very large numbers."""
    forging(
        hand,
        """
        odd = [
            {"types": [1], "traits": {"x": 1e308}, "entries": {"out": ["(" * 900] * 900}},
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


@attack("limits", said="can't be judged", own=True)
def a_million_observations(hand: Hand) -> None:
    """The reply to one case is small and takes gigabytes when it is read."""
    forging(
        hand,
        """
        def packed(seen):
            return safetensors({"__metadata__": {"facts": "[" + "{}," * 15_000_000 + "{}]"}})
        server["_packed"] = packed
        """,
    )


@attack("verdicts", said="naive_mean: not", own=True, paid=1.0)
def looks_for_what_is_expected(hand: Hand) -> None:
    """An answer searches all objects of its process for the expected result."""
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


# ---------------------------------------------------------------- what an answer may not call


@attack("verdicts", said="finished part", own=True, paid=1.0)
def borrows_plainly(hand: Hand) -> None:
    """An answer calls the course's finished part."""
    hand.answer("""
        from course_utils import attention
        def naive_mean(x):
            return attention.naive_mean(x)
    """)


@attack("verdicts", QUIZ_AND_MEAN, said="", told="compiles to", own=True, paid=QUIZ_AND_MEAN)
def borrows_bytecode(hand: Hand) -> None:
    """An answer calls the finished part's bytecode under another name."""
    hand.answer("""
        import types
        from course_utils import attention
        code = attention.naive_mean.__code__.replace(co_name="mine", co_filename="mine")
        mine = types.FunctionType(code, attention.naive_mean.__globals__)
        def naive_mean(x):
            return mine(x)
    """)


@attack("verdicts", QUIZ_AND_MEAN, said="", told="compiled from a text", paid=QUIZ_AND_MEAN)
def borrows_as_text(hand: Hand) -> None:
    """The published solution's text is in base64, so that no comparison of texts sees it."""
    hidden = b64encode(right_answer(ONE, MEAN).encode())
    hand.answer(f"""
        import base64
        exec(base64.b64decode({hidden!r}).decode())
    """)


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
