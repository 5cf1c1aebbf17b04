"""Whose work it is: nobody of an honest class is listed, and copies are, whatever was changed."""

import ast
import inspect
import io
import random
import re
import textwrap
import tokenize
from functools import cache
from types import SimpleNamespace

import nbformat
import pytest

from tools import NOTEBOOKS, ROOT, SOLUTIONS
from tools.attempts import attempts
from tools.matrix import answers
from whywrong.hosting import catalogue
from whywrong_nbgrader import flags
from whywrong_nbgrader.alike import normal
from whywrong_nbgrader.cells import Cell
from whywrong_nbgrader.classroom import Work

from .nbgrader_class import right_answer

full = pytest.mark.full("honest classes of 150 in four assignments, and copies in them")
ASSIGNMENTS = ("1-averages", "2-single-head", "3-multi-head", "4-transformer", "5-encoder-decoder")
NAMES = "a acc att avg b c ctx den e exps h heads hidden i idx j k_ L logits m means n norm num "
NAMES += "out probs q_ rel res result rows s seq steps t tmp total v_ w weights x1 x2 y z"
each_assignment = pytest.mark.parametrize(
    "assignment", [pytest.param(a, marks=() if a == "3-multi-head" else full) for a in ASSIGNMENTS]
)


# ---------------------------------------------------------------- texts


@cache
def texts(assignment):
    """Each exercise's answers that somebody typed, the likeliest last, with its lesson."""
    found = {}
    for path in sorted((SOLUTIONS / assignment).glob("*.ipynb")):
        lesson = f"{assignment}/{path.stem}"
        for id in (exercise.id for exercise in catalogue().outline[lesson]):
            if catalogue().find(id).kind != "quiz":
                own = [one.program.text for one in attempts(lesson).get(id, ())]
                right = map(source, answers(lesson).RIGHT.get(id, {}).values())
                named = [re.sub(r"^def \w+", f"def {id}", s) for s in right if s]
                found[id] = path.stem, own + named
    return found


def source(part):
    """The text of a function, if it has one of its own."""
    try:
        text = textwrap.dedent(inspect.getsource(part))
    except (OSError, TypeError):
        return ""
    return text if text.startswith("def ") else ""


def renamed(text, draw, stub="", often=0.6):
    """The text with other names for most of the local variables and attributes that are its own."""
    tree, names = ast.parse(text), NAMES.split()
    draw.shuffle(names)
    nodes = [*ast.walk(tree)]
    words = set(re.findall(r"\w+", stub)) | {
        node.arg for node in nodes if isinstance(node, ast.arg)
    }
    words |= {node.id for node in nodes if isinstance(node, ast.Name)} & {*names}
    inside = [n for f in nodes if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
    own = {
        n.id if isinstance(n, ast.Name) else n.attr
        for n in inside
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    free = [name for name in names if name not in words]
    other = {n: free.pop() for n in sorted(own - words) if free and draw.random() < often}
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = other.get(node.id, node.id)
        elif isinstance(node, ast.Attribute):
            node.attr = other.get(node.attr, node.attr)
    return ast.unparse(tree)


@cache
def stubs(assignment):
    paths = [NOTEBOOKS / assignment / p.name for p in (SOLUTIONS / assignment).glob("*.ipynb")]
    cells = [c for path in paths for c in nbformat.read(path, 4).cells]
    return {c.id: c.source for c in cells if c.id in texts(assignment)}


def calls_written_otherwise(text):
    """`x.exp()` is `torch.exp(x)` in it, and `a @ b` is `torch.matmul(a, b)`."""

    class Otherwise(ast.NodeTransformer):
        def visit_BinOp(self, node):
            self.generic_visit(node)
            operands = f"({ast.unparse(node.left)}, {ast.unparse(node.right)})"
            product = isinstance(node.op, ast.MatMult)
            return ast.parse(f"torch.matmul{operands}").body[0].value if product else node

    text = ast.unparse(Otherwise().visit(ast.parse(text)))
    return re.sub(r"\b(\w+)\.(exp|tril|triu)\(", r"torch.\2(\1, ", text).replace(", )", ")")


def styled(text, draw, stub):
    text = renamed(text, draw, stub)
    return calls_written_otherwise(text) if draw.random() < 0.4 else text


def honest(assignment, students=0, seed=0):
    """A class of this size; by default, as many as there are texts, so that no two have the same.
    In a larger one, some ways to write an answer are more usual than others."""
    draw, chosen = random.Random(f"{assignment} {seed}"), {}
    least = min(len(known) for _, known in texts(assignment).values())
    for id, (_, known) in texts(assignment).items():
        of = draw.sample(known, len(known))
        often = [1 / (n + 1) for n in range(len(of))]
        chosen[id] = draw.choices(of, often, k=students) if students else of
    return {
        f"s{n:03}": {id: styled(of[n], draw, stubs(assignment)[id]) for id, of in chosen.items()}
        for n in range(students or least)
    }


def published(assignment):
    return {id: right_answer(lesson, id) for id, (lesson, _) in texts(assignment).items()}


@pytest.fixture
def listed(monkeypatch):
    def of(assignment, students):
        """What is said of each student who is listed."""
        monkeypatch.setattr(flags, "_handed_out", lambda _: stubs(assignment))
        works = [
            Work(student, "all", [c for id, t in own.items() for c in (Cell(t), Cell("", id))])
            for student, own in students.items()
        ]
        return flags.flagged(SimpleNamespace(works=works, lessons=SOLUTIONS / assignment))

    return of


# ---------------------------------------------------------------- an honest class


def comments(text):
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string.strip("# ") for token in read if token.type == tokenize.COMMENT}


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_no_text_of_an_honest_class_was_made_from_the_published_solution(assignment):
    """It would have its comments, which no comparison reads."""
    for id, solved in published(assignment).items():
        theirs = comments(solved)
        assert not [text for text in texts(assignment)[id][1] if comments(text) & theirs], id


@each_assignment
def test_nobody_is_listed_who_wrote_an_answer_alone(listed, assignment):
    for seed in range(3):
        assert listed(assignment, honest(assignment, seed=seed)) == {}


@each_assignment
def test_in_an_honest_class_of_150_nobody_is_listed(listed, assignment):
    """A third of an honest class writes the shortest answers as they are published."""
    assert listed(assignment, honest(assignment, 150)) == {}


# ---------------------------------------------------------------- copies


def with_statement(text, statement):
    """The text with a statement at the start of each function."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body[:0] = ast.parse(statement).body
    return ast.unparse(tree)


CHANGES = {
    "nothing": lambda text: text,
    "comments": lambda text: re.sub("\n", "  # mine\n", ast.unparse(ast.parse(text))),
    "layout": lambda text: ast.unparse(ast.parse(text)).replace("    ", "\t").replace(", ", ",  "),
    "docstrings": lambda text: with_statement(text, "'What I think it does.'"),
    "below an if": lambda text: f"if True:\n{textwrap.indent(text, '    ')}",
    "full-width letters": lambda text: text.replace("torch", "\uff54orch").replace("x", "\uff58"),
    "a cell's own lines before it": lambda text: f"import math\nprint('mine')\n{text}",
    "a print in each function": lambda text: with_statement(text, "print('here')"),
    "calls written otherwise": calls_written_otherwise,
}


@pytest.mark.parametrize(
    ("assignment", "change"),
    [
        pytest.param(a, change, marks=() if a == "3-multi-head" else full)
        for a in ASSIGNMENTS
        for change in CHANGES
        # Its answers have three lines each; with a fourth, they are somebody's own.
        if (a, change) != ("1-averages", "a print in each function")
    ],
)
def test_a_copy_is_listed_whatever_was_changed(listed, assignment, change):
    students = honest(assignment)
    change = CHANGES[change]
    pal = {id: change(text) for id, text in students["s003"].items()}
    reader = {id: change(text) for id, text in published(assignment).items()}
    told = listed(assignment, students | {"pal": pal, "reader": reader})
    assert told.pop("reader")[0].startswith("the text of the published solution: ")
    assert told.keys() == {"pal", "s003"}
    assert told["pal"][0].startswith("the same text as s003 in ")


@full
@pytest.mark.parametrize("assignment", ["2-single-head", "3-multi-head", "5-encoder-decoder"])
def test_one_copied_answer_is_listed_if_it_is_long(listed, assignment):
    students, solved = honest(assignment), published(assignment)
    long = max(solved, key=lambda id: len(re.findall(r"\w+|[^\w\s]", normal(solved[id]))))
    students["s003"][long] = solved[long]
    told = listed(assignment, students)
    assert told.keys() == {"s003"} and long in str(told)


@each_assignment
def test_many_copies_of_everything_that_is_published_are_listed(listed, assignment):
    students, solved = honest(assignment), published(assignment)
    copies = {f"c{n:02}": solved for n in range(30)}
    assert listed(assignment, students | copies).keys() == copies.keys()


def on_the_page(assignment):
    """In how many of six classes of 150 a copy in each disguise is listed, says docs/attacks.md."""
    page = (ROOT / "docs" / "attacks.md").read_text("utf-8")
    table = page[page.index("| disguise |") :].partition("\n\n")[0]
    head, _, *rows = ([cell.strip() for cell in line.split("|")] for line in table.splitlines())
    column = head.index(f"`{assignment}`")
    return {row[1]: int(row[column]) for row in rows}


@full
@pytest.mark.parametrize("assignment", ["1-averages", "3-multi-head"])
def test_disguised_copies_are_listed_in_classes_of_150_and_nobody_else(listed, assignment):
    found = dict.fromkeys([*CHANGES, "other names"], 0)
    for seed in range(7, 13):
        students, draw, copies = honest(assignment, 150, seed=seed), random.Random(seed), {}
        names = sorted(students)
        for number, disguise in enumerate(found):
            change = CHANGES.get(disguise)
            copied, copy = draw.choice(names), f"z{number}"
            students[copy] = {
                id: change(text)
                if change
                else renamed(text, random.Random(number), stubs(assignment)[id], 0.9)
                for id, text in students[copied].items()
            }
            copies[copy] = copied
        told = listed(assignment, students)
        assert told.keys() <= {*copies, *copies.values()}
        for disguise, (copy, copied) in zip(found, copies.items(), strict=True):
            found[disguise] += any(copied in said for said in told.get(copy, ()))
    assert found == on_the_page(assignment)
