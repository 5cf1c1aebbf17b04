"""The command line of the course, `course` or `python -m course_utils`."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from pathlib import Path

from .desk.environment import READY, check_environment


def main(argv: list[str] | None = None) -> int:
    try:
        return _run(argv)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends soon
        print("Stopped.", file=sys.stderr)
        return 130


def _run(argv: list[str] | None) -> int:
    parser, graders = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    if args.command in ("grade", "explain"):
        if isinstance(graders, str):
            said = f"Grading needs {graders}: install the course with its extra `grading`."
            print(said, file=sys.stderr)
            return 2
        return int(graders[args.command](args))
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
        said, made = _new(args)
        print(said, file=sys.stdout if made else sys.stderr)
        return 0 if made else 1
    from .desk.checks import progress

    print(progress())
    return 0


def _parser() -> tuple[argparse.ArgumentParser, dict | str]:
    """The parser, and what runs `grade` and `explain`, or the name of the package they lack."""
    parser = argparse.ArgumentParser(prog="course", description="The course's own commands.")
    commands = parser.add_subparsers(dest="command")
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
    gc.disable()  # collecting modules that stay loaded is useless and takes an eighth of the time
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL)  # modules may catch its exception
    try:
        from whywrong_nbgrader import command, explain
    except ImportError as error:  # the packages for grading are not installed with the course
        for parser_without in (grading, explaining):
            parser_without.add_argument("rest", nargs="*")
        return parser, error.name or "a package"
    finally:
        signal.signal(signal.SIGINT, interrupted)
        gc.enable()
    command.add_arguments(grading)
    explain.add_arguments(explaining)
    return parser, {"grade": command.grade, "explain": explain.explain}


def _new(args: argparse.Namespace) -> tuple[str, bool]:
    """What `course new` says, and whether it has copied the lessons."""
    try:
        from .desk.lessons import lay_out

        return lay_out(args.folder, args.language, args.exchange), True
    except FileExistsError:
        return f"{args.folder} is there already: name a new folder.", False
    except ValueError as error:
        return str(error), False
    except ImportError as error:
        extra = "install the course with its extra `lab`"
        return f"The lessons need {error.name or error}: {extra}.", False
    except OSError as error:  # such as shutil.Error, which lists the files
        reason = error.strerror or "not all files could be copied"
        return f"The lessons can't be copied to {args.folder}: {reason}.", False


if __name__ == "__main__":
    sys.exit(main())
