"""Rooms one can live in: no file and no function of the package is too long to be read at once."""

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import course_utils

PACKAGE = Path(course_utils.__file__).parent
LINES_OF_A_FILE = 1000  # of Python
LINES_OF_A_FUNCTION = {".py": 60, ".js": 80}  # with the functions inside, without docstrings
DOCUMENTED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Function:
    name: str
    line: int
    length: int


def sources(ending: str) -> dict[str, str]:
    """The package's files by their paths."""
    paths = sorted(PACKAGE.rglob(f"*{ending}"))
    assert paths, f"the package has no {ending} file"
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in paths}


def too_long(functions: list[Function], most: int) -> list[str]:
    return [f"{f.name}, line {f.line}: {f.length} lines" for f in functions if f.length > most]


# ---- Python ------------------------------------------------------------------------------------


def python_functions(source: str) -> list[Function]:
    """Every function with its length, without its docstring and those of what is inside it."""
    return [
        Function(node.name, node.lineno, lines(node) - sum(map(lines, docstrings(node))))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def docstrings(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


# ---- JavaScript --------------------------------------------------------------------------------

PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<regex>/(?:\\.|\[(?:\\.|[^]\\\n])*]|[^/\\[\n])+/\w*)
    |(?P<word>[\w$]+)
    |(?P<mark>=>|\S)""",
    re.DOTALL | re.VERBOSE,
)
TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^\\`$])*(`|\$\{)", re.DOTALL)  # up to its end or a value
VALUE_NEXT = {"case", "delete", "do", "else", "in", "of", "return", "throw", "typeof", "void"}
NO_FUNCTION = {"await", "catch", "for", "if", "switch", "while", "with"}  # before "(…) {…}"
PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    text: str
    line: int


def tokens(source: str) -> list[Token]:
    """Words and marks; strings and regular expressions are empty, and so is a template's text.

    A value in a template comes in parentheses: `a${b}c` between backticks is ` ( b ) `.
    """
    found: list[Token] = []
    open_braces: list[str] = []
    position = 0
    ends = [match.start() for match in re.finditer("\n", source)]

    def add(text: str) -> None:
        found.append(Token(text, bisect_left(ends, position) + 1))

    while piece := PIECE.search(source, position):
        text, position = piece[0], piece.end()
        if piece["regex"] and is_value(found):
            text, position = "/", piece.start() + 1
        elif piece["string"] or piece["regex"]:
            text = '""'
        in_template = text == "`"
        if text == "{":
            open_braces.append(text)
        elif text == "}" and open_braces.pop() == "${":
            text, in_template = ")", True
        if not piece["comment"]:
            add(text)
        if in_template:
            rest = TEMPLATE.match(source, position)
            assert rest, "a template has no end"
            position = rest.end()
            if rest[1] == "${":
                open_braces.append("${")
            add("(" if rest[1] == "${" else "`")
    assert not open_braces, "a brace has no end"
    return found


def is_value(found: list[Token]) -> bool:
    """Whether a value has ended, so that a slash divides it."""
    last = found[-1].text if found else ""
    return last not in VALUE_NEXT and re.fullmatch(r'[\w$]+|[\])`]|""', last) is not None


def partners(found: list[Token]) -> dict[int, int]:
    """Where each bracket's other half is, both ways."""
    other: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(found):
        if token.text in PAIRS:
            opened.append(i)
        elif token.text in PAIRS.values():
            start = opened.pop()
            assert PAIRS[found[start].text] == token.text, f"line {token.line}: {token.text}"
            other |= {start: i, i: start}
    assert not opened
    return other


def script_functions(source: str) -> list[Function]:
    """Every function, method and arrow, from its name or its first parameter to its end."""
    found = tokens(source)
    partner = partners(found)
    functions = []
    for i, token in enumerate(found):
        start = partner.get(i - 1, i - 1)  # the first parameter's parenthesis, if there is one
        before = found[start - 1].text
        if token.text == "=>":
            name = found[start - 2].text if before in "=:" else "=>"
            end = partner[i + 1] if found[i + 1].text == "{" else end_of_value(found, partner, i)
        elif token.text == "{" and found[i - 1].text == ")" and before not in NO_FUNCTION:
            name, end, start = before, partner[i], start - 1
        else:
            continue
        first = found[start].line
        functions.append(Function(name, first, found[end].line - first + 1))
    return functions


def end_of_value(found: list[Token], partner: dict[int, int], i: int) -> int:
    """The last token of the value that follows token `i`."""
    i += 1
    while i < len(found) and found[i].text not in {",", ";", ")", "]", "}"}:
        i = partner.get(i, i) + 1
    return i - 1


# ---- the package -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sources(".py"))
def test_a_python_file_has_at_most_1000_lines(path):
    assert len(sources(".py")[path].splitlines()) <= LINES_OF_A_FILE


@pytest.mark.parametrize("path", sources(".py"))
def test_a_python_function_has_at_most_60_lines(path):
    functions = python_functions(sources(".py")[path])
    assert too_long(functions, LINES_OF_A_FUNCTION[".py"]) == []


@pytest.mark.parametrize("path", sources(".js"))
def test_a_javascript_function_has_at_most_80_lines(path):
    functions = script_functions(sources(".js")[path])
    assert too_long(functions, LINES_OF_A_FUNCTION[".js"]) == []


# ---- the measure -------------------------------------------------------------------------------


@pytest.mark.parametrize(("statements", "found"), [(59, []), (60, ["f, line 3: 61 lines"])])
def test_a_long_python_function_is_found_and_its_docstring_does_not_count(statements, found):
    body = ['"""One line.\n\n    And more.\n    """', *["x = 1"] * statements]
    source = "# a comment\n@decorator\ndef f():\n    " + "\n    ".join(body) + "\n"
    assert too_long(python_functions(source), 60) == found


def test_a_python_method_and_a_function_in_a_function_are_measured():
    source = "class A:\n    async def m(self):\n        def inner():\n            pass\n"
    assert python_functions(source) == [Function("m", 2, 3), Function("inner", 3, 2)]


NINETY = {
    "function": ("function planted({ a = {} }) {", "}"),
    "asynchronous": ("async function* planted(a, b = (1)) {", "}"),
    "arrow": ("const planted = (a) => {", "};"),
    "arrow without parentheses": ("const planted = a => {", "};"),
    "arrow of a value": ("const planted = (a) => run(() => {", "});"),
    "method": ("class A extends B { planted() {", "} }"),
    "method of an object": ("const a = { planted(b) {", "} };"),
    "property": ("const a = { planted: function (b) {", "} };"),
    "handler": ("a.planted = (event) => {", "};"),
}
HOSTILE = r"""
const s = "}" + '}\'}' + `}${"}"}}${`{${{ a: `}` }.a}`}\`\${`; // }
/* } */ const r = /[}/]\/}/g.test(s) ? a / b / c : (a) / 2 / `}`; // it's
const o = { a: 1 }; if (/}/.test(s)) { for (const x of [1]) { b(); } } else { c(); }
while (x) { y = x / 2; x = y / 3; } return /{/;
"""


@pytest.mark.parametrize(("opening", "closing"), NINETY.values(), ids=NINETY)
@pytest.mark.parametrize("filler", ["", HOSTILE])
def test_a_planted_function_of_90_lines_is_found(opening, closing, filler):
    inside = (filler.strip("\n").split("\n") if filler else []) + ["x();"] * 88
    planted = "\n".join([opening, *inside[:88], closing])
    for source in sources(".js").values():
        middle = source.index("\nfunction ") + 1
        grown = script_functions(f"{source[:middle]}{planted}\n{source[middle:]}")
        longest = max(grown, key=lambda function: function.length)
        assert longest.length == 90
        assert longest.line == source.count("\n", 0, middle) + 1
        known = script_functions(source)
        kept = [function for function in grown if function.line < longest.line]
        after = [function for function in grown if function.line > longest.line + 89]
        assert [f.length for f in kept + after] == [f.length for f in known]


def test_javascript_functions_are_measured_from_their_heads_to_their_ends():
    source = "\n".join(
        [
            "const pick = (list) =>",
            "  list",
            "    .map((x) => `${x}",
            "  }`)",
            "    .filter(Boolean);",
            "export function outer(",
            "  a,",
            ") {",
            "  const { b } = a, inner = () => ({ b });",
            "  return inner;",
            "}",
        ]
    )
    assert [(f.name, f.line, f.length) for f in script_functions(source)] == [
        ("pick", 1, 5),
        ("=>", 3, 2),
        ("outer", 6, 6),
        ("inner", 9, 1),
    ]


@pytest.mark.parametrize("source", ["f() {", "f(`${a);", "(]", "`"])
def test_javascript_that_cannot_be_read_is_not_passed_over(source):
    with pytest.raises((AssertionError, IndexError)):
        script_functions(source)
