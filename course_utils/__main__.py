"""`python -m course_utils`: the course from the command line."""

from __future__ import annotations

import argparse
import sys

from .environment import READY, check_environment


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_utils", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="is everything here that the course needs?")
    commands.add_parser("progress", help="all lessons and exercises with your points")
    args = parser.parse_args(argv)
    if args.command == "doctor":
        lines = check_environment()
        print("\n".join(lines))
        return 0 if lines == [READY] else 1
    from .desk import progress

    print(progress())
    return 0


if __name__ == "__main__":
    sys.exit(main())
