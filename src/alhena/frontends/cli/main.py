"""Dispatch of the command line, and the top-level boundary where every error becomes a line."""

import sys
from collections.abc import Callable
from importlib import import_module

from alhena.errors import AlhenaError

COMMANDS = {
    "tools": ("list", "call"),
    "policy": ("explain",),
    "wire": ("check",),
}
"""The commands and what they can be told; `alhena.frontends.cli.NAME.run` carries one out. A first
word followed by anything else begins a prompt: `alhena policy changes since May?`."""


def run(argv: list[str]) -> int:
    """Carries out a command line; returns the exit code. Errors go to stderr as one line."""
    debug = "--debug" in argv or "-d" in argv
    try:
        return _command(argv)(argv)
    except AlhenaError as error:
        return report(error, debug=debug)
    except KeyboardInterrupt:
        sys.stderr.write("alhena: interrupted.\n")
        return 130
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as error:
        if debug:
            raise
        first = (str(error).splitlines() or [""])[0]
        sys.stderr.write(
            f"alhena: unexpected {type(error).__name__}: {first} "
            "This is a defect; run again with --debug to see where.\n"
        )
        return 1


def report(error: AlhenaError, *, debug: bool) -> int:
    """Prints an error on stderr (with its traceback when debugging); returns its exit code."""
    if debug:
        import traceback

        traceback.print_exception(error)
    sys.stderr.write(f"alhena: {one_line(str(error))}\n")
    return error.exit_code


def one_line(text: str) -> str:
    """`text` on one line, control characters escaped, so that it cannot act on a terminal."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in joined)


def _command(argv: list[str]) -> Callable[[list[str]], int]:
    name = argv[0] if argv else ""
    if name in COMMANDS and (len(argv) == 1 or argv[1] in (*COMMANDS[name], "-h", "--help")):
        command = import_module(f"alhena.frontends.cli.{name}").run
        return lambda rest: command(rest[1:])
    return _prompt


def _prompt(argv: list[str]) -> int:
    from alhena.frontends.cli.arguments import parse_run, run_parser
    from alhena.version import __version__

    arguments = parse_run([a for a in argv if a not in ("-h", "--help")])
    if "-h" in argv or "--help" in argv:
        sys.stdout.write(run_parser().format_help())
        return 0
    if "-v" in argv or "--version" in argv:
        sys.stdout.write(f"{__version__}\n")
        return 0
    from alhena.frontends.headless.run import run_headless

    return run_headless(arguments)


def _closed_pipe() -> int:
    """Whoever read our output went away: nothing more to say, and no noise at exit."""
    import os

    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)
    return 1
