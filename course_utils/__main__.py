"""`course`, or `python -m course_utils`: the course from the command line."""

from __future__ import annotations

import argparse
import sys

from .environment import READY, check_environment


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course", description="The course's own commands.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="is everything here that the course needs?")
    commands.add_parser("progress", help="all lessons and exercises with your points")
    grading = commands.add_parser("grade", help="grade a class; for instructors")
    try:
        from .grading import command
    except ImportError as error:  # what grading needs is not installed with the course
        missing = error.name
        grading.add_argument("rest", nargs="*")
    else:
        missing = None
        command.add_arguments(grading)
    args = parser.parse_args(argv)
    if args.command == "grade":
        if missing:
            print(f"Grading needs {missing}: pip install --editable '.[grading]'", file=sys.stderr)
            return 2
        return command.grade(args)
    if args.command == "doctor":
        lines = check_environment()
        print("\n".join(lines))
        return 0 if lines == [READY] else 1
    from .desk import progress

    print(progress())
    return 0


if __name__ == "__main__":
    sys.exit(main())
