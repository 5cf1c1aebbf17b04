"""Which cells of a lesson depend on which others, by the names that they use and change."""

import ast
import symtable

from course_utils.desk.guesses import NONE_YET
from tools.editions import checked_exercise

IGNORED = {"nbval-ignore-output", "measured"}


def names(source):
    """The names that a cell imports, those that it uses, and those that it may change."""
    top = symtable.symtable(source, "cell", "exec")
    imports = {name.get_name() for name in top.get_symbols() if name.is_imported()}
    changes = {name.get_name() for name in top.get_symbols() if name.is_assigned()}
    uses = {name.get_name() for name in top.get_symbols() if name.is_referenced()}
    inner = list(top.get_children())
    for table in inner:
        inner += table.get_children()
        uses |= {name.get_name() for name in table.get_symbols() if name.is_global()}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name)))):  # losses.append(2.4)
                changes.add(name)
            case ast.Attribute(ast.Name(name)) | ast.Subscript(ast.Name(name)):
                changes |= {name} if isinstance(node.ctx, ast.Store) else set()
    return imports, uses, changes - imports


def with_needed(cells, wanted):
    """The numbers of these cells and of those that define what they use."""
    known = [names(cell.source) for cell in cells]
    modules = set().union(*(imports for imports, _, _ in known))
    found = set(wanted)
    for number in range(len(cells) - 1, -1, -1):
        imports, _, changes = known[number]
        gives = imports | (changes - modules)
        if any(gives & known[later][1] for later in found if later > number):
            found.add(number)
    return found


def compared(cells):
    """The numbers of a solution's cells whose outputs say something of their results, and of those
    they need. What all others train and show is the reader's own."""
    shown = (n for n, c in enumerate(cells) if not IGNORED & {*c.metadata.get("tags", ())})
    return with_needed(cells, (n for n in shown if not _only_asks(cells[n])))


def _only_asks(cell):
    """Whether all outputs of a cell ask for predictions, whatever its results are."""
    said = [o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return bool(said) and all(NONE_YET in text for text in said)


def that_can_differ(cells):
    """The numbers of the cells of a student's notebook that can do anything else than in its
    solution: those that differ and those that use what these define."""
    known = [names(cell.source) for cell in cells]
    modules = set().union(*(imports for imports, _, _ in known))
    found, touched = set(), set()
    for number, (cell, (_, uses, changes)) in enumerate(zip(cells, known, strict=True)):
        if "nbgrader" in cell.metadata or uses & touched or checked_exercise(cell):
            found.add(number)
            touched |= changes - modules
    return found
