"""The command line of the course, `course` or `python -m course_utils`."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from .desk.environment import READY, check_environment


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course", description="The course's own commands.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="test whether everything that the course needs is installed")
    commands.add_parser("progress", help="list all lessons and exercises with your points")
    new = commands.add_parser("new", help="copy the lessons into a folder of your own")
    new.add_argument("folder", type=Path)
    new.add_argument("--language", default="", help="such as zh; English if left out")
    new.add_argument(
        "--exchange", type=Path, help="the directory in which your class submits with nbgrader"
    )
    looking = commands.add_parser("look", help="before handing in: will these be read?")
    looking.add_argument(
        "places", type=Path, nargs="+", help="notebooks, or folders with notebooks"
    )
    grading = commands.add_parser("grade", help="grade a class; for instructors")
    explaining = commands.add_parser("explain", help="show which part of a student's answer ran")
    missing = None
    gc.disable()  # collecting modules that stay loaded is useless and takes an eighth of the time
    try:
        from whywrong_nbgrader import command, explain
    except ImportError as error:  # the packages for grading are not installed with the course
        missing = error.name
        for parser_without in (grading, explaining):
            parser_without.add_argument("rest", nargs="*")
    else:
        command.add_arguments(grading)
        explain.add_arguments(explaining)
    finally:
        gc.enable()
    args = parser.parse_args(argv)
    if args.command in ("grade", "explain"):
        if missing:
            said = f"Grading needs {missing}: install the course with its extra `grading`."
            print(said, file=sys.stderr)
            return 2
        return command.grade(args) if args.command == "grade" else explain.explain(args)
    if args.command == "look":
        from whywrong_nbgrader.reading import look

        found = list(look(args.places))
        print("\n".join(f"{place}: {said}" for place, said, _ in found))
        return 0 if all(fine for *_, fine in found) else 1
    if args.command == "doctor":
        lines = check_environment()
        print("\n".join(lines))
        return 0 if lines == [READY] else 1
    if args.command == "new":
        from .desk.lessons import lay_out

        try:
            print(lay_out(args.folder, args.language, args.exchange))
        except (FileExistsError, ValueError) as error:
            there = f"{args.folder} is there already: name a new folder."
            print(error if isinstance(error, ValueError) else there, file=sys.stderr)
            return 1
        return 0
    from .desk.checks import progress

    print(progress())
    return 0


if __name__ == "__main__":
    sys.exit(main())
