"""Dispatch of the command line, and the top-level boundary where errors become lines and exit
codes."""

import gc
import os
import stat
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import pairwise
from typing import NoReturn

from alhena.display_text import one_line
from alhena.errors import AlhenaError, InterruptedRunError, UsageError
from alhena.frontends.shared.streams import (
    StreamError,
    is_terminal,
    report,
    write_stderr,
    write_stdout,
)
from alhena.near_names import VERY_NEAR, near_name

COMMANDS = {
    "batch": (
        *("status", "resume", "pause", "limits", "cancel", "retry-failed"),
        *("show", "tail", "report", "diff"),
    ),
    "agents": ("list", "show", "validate", "new", "auth"),
    "commands": ("list",),
    "skills": ("list", "enable", "disable", "install", "link", "uninstall"),
    "extensions": (
        *("list", "install", "update", "enable", "disable", "uninstall", "link"),
        *("config", "new", "validate"),
    ),
    "tools": ("list", "call"),
    "policy": ("explain", "test"),
    "wire": ("check", "convert"),
    "hooks": ("list", "test", "enable", "disable", "trust", "migrate"),
    "memory": ("show", "import"),
    "sessions": ("list", "show", "export", "delete", "checkpoints", "restore", "adopt"),
    "auth": ("login", "status", "logout"),
    "models": ("list",),
    "mcp": ("serve", "add", "import", "remove", "list", "auth", "enable", "disable"),
    "serve": (),
    "settings": ("show", "get", "set", "path", "check"),
    "trace": (),
    "trust": (),
    "shim": ("gemini",),
    "completion": ("bash", "zsh", "fish"),
    "docs": (),
}
"""The commands and what they can be told; `alhena.frontends.cli.NAME.run` carries one out, and its
USAGE is its help. A first word that several others follow begins a prompt: `alhena policy changes
since May?`."""


def run(argv: list[str]) -> int:
    """Carries out a command line; returns the exit code. Errors go to stderr as one line."""
    options = argv[: argv.index("--")] if "--" in argv else argv
    debug = "--debug" in options or "-d" in options
    try:
        return _command(argv)(argv)
    except StreamError as error:
        return _unwritable(error, debug=debug, document=_error_object(error, options))
    except AlhenaError as error:
        if not _wants_json(options):
            return report(error, debug=debug)
        from alhena.frontends.headless.run import RunResult
        from alhena.frontends.shared.arguments import OutputFormat

        return RunResult(OutputFormat.JSON, None, debug=debug).fail(error)
    except KeyboardInterrupt:
        error = InterruptedRunError("interrupted.")
        return report(error, debug=False, document=_error_object(error, options))
    except Exception as error:
        if debug:
            raise
        first = one_line((str(error).splitlines() or [""])[0])
        defect = AlhenaError(
            f"unexpected {type(error).__name__}: {first}",
            remedy="This is a defect; run again with --debug to see where.",
        )
        return report(defect, debug=False, document=_error_object(defect, options))


def _error_object(error: AlhenaError, options: list[str]) -> str | None:
    """The error for standard error where JSON is asked for."""
    if not _wants_json(options):
        return None
    from alhena.frontends.headless.output import error_json
    from alhena.frontends.shared.streams import json_document
    from alhena.session.records import new_session_id

    return json_document({"session_id": new_session_id(), "error": error_json(error)})


def _command(argv: list[str]) -> Callable[[list[str]], int]:
    name = argv[0] if argv else ""
    if len(argv) == 2 and name == "help" and argv[1] in COMMANDS:
        return lambda _argv: carry_out(argv[1], ["--help"])
    if _is_command(argv):
        return lambda rest: carry_out(name, rest[1:])
    if name.startswith("-") and any(word in COMMANDS for word in argv):
        return _behind_options(argv) or _prompt
    return _prompt


def _is_command(words: list[str]) -> bool:
    name = words[0] if words else ""
    short = len(words) <= 2 or words[1].startswith("-") or words[2].startswith("-")
    return name in COMMANDS and (short or words[1] in COMMANDS[name])


def _behind_options(argv: list[str]) -> Callable[[list[str]], int] | None:
    """The command behind options of a run; it gets those that it knows."""
    from alhena.frontends.shared.arguments import split_options

    found = split_options(argv)
    if found is None or not _is_command(found[1]):
        return None
    options, (name, *words) = found
    command = import_module(f"alhena.frontends.cli.{name}")
    usage: str = getattr(command, "USAGE", "") or getattr(command, "FLAGS", "")
    yolo = "--approval-mode=yolo"
    known = {"-d": "--debug", "-y": yolo, "--yolo": yolo, "-s": "--sandbox", "-m": "--model"}
    for at, option in enumerate(options):
        option = known.get(option, option)
        flag = option.partition("=")[0]
        if flag == "--debug":
            words.append(flag)
        elif flag.startswith("--") and flag in usage:
            words += (option, *(each for each in options[at + 1 : at + 2] if each[:1] != "-"))
    if _wants_json(options) and "--json" in usage:
        words.append("--json")
    return lambda _argv: carry_out(name, words)


def carry_out(name: str, words: list[str]) -> int:
    """Carries out one of COMMANDS, or shows its USAGE; returns the exit code."""
    command = import_module(f"alhena.frontends.cli.{name}")
    usage: str = getattr(command, "USAGE", "")
    if usage and ("-h" in words or "--help" in words):
        from alhena.frontends.shared.arguments import subcommand_help

        write_stdout(subcommand_help(usage, words[0]))
        return 0
    return command.run(words)


def _prompt(argv: list[str]) -> int:
    from alhena.frontends.shared.arguments import parse_run, run_parser
    from alhena.version import __version__

    arguments = parse_run(argv)
    if arguments.wants_help or arguments.words == ("help",):
        write_stdout(run_parser().format_help())
        return 0
    if arguments.wants_version:
        write_stdout(f"{__version__}\n")
        return 0
    if arguments.bug_report:
        from alhena.frontends.cli import settings

        return settings.print_bug_report(arguments.model)
    if arguments.words:
        refuse_commands(arguments.words, COMMANDS)
    if arguments.list_extensions:
        from alhena.frontends.cli import extensions

        return extensions.show_used(arguments.extensions)
    if arguments.sessions:
        from alhena.frontends.cli import sessions

        return sessions.run(list(arguments.sessions))
    _warn_in_words()
    if arguments.worktree is not None:
        from alhena.config.environment import without_repository
        from alhena.frontends.shared.worktree import enter_worktree

        enter_worktree(arguments.worktree, os.environ)
        for name in os.environ.keys() - without_repository(os.environ).keys():
            del os.environ[name]  # the session's commands work in the worktree
    if arguments.acp:
        from alhena.frontends.acp.server import run_acp

        return run_acp(arguments)
    gc.disable()  # until the session is open: what is loaded till then stays
    at_terminal = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    silent = arguments.prompt is None and arguments.output_format is None
    if arguments.prompt_interactive is not None or (silent and at_terminal):
        from alhena.frontends.terminal.run import run_terminal

        if arguments.worktree is not None:
            _warn_of_submodules()
        return run_terminal(arguments)
    from alhena.frontends.headless.start import start_headless

    return start_headless(arguments)


def _warn_of_submodules() -> None:
    import warnings

    from alhena.frontends.shared.worktree import describe_empty_submodules

    if empty := describe_empty_submodules(os.environ):
        warnings.warn(empty, RuntimeWarning, stacklevel=2)


def _wants_json(options: list[str]) -> bool:
    """True when a command line that may not parse asks for one JSON document."""
    named = {("-o", "json"), ("--output-format", "json")}.intersection(pairwise(options))
    return bool(named or {"-ojson", "-o=json", "--output-format=json"}.intersection(options))


def _warn_in_words() -> None:
    """Has warnings that come when no event is heard any more (a session is closed) said as others
    are, without the place in the code."""
    import warnings

    plain = warnings.formatwarning

    def form(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if category is RuntimeWarning:
            return f"alhena: warning: {one_line(str(message))}\n"
        return plain(message, category, filename, lineno, line)

    warnings.formatwarning = form


def _unwritable(error: StreamError, *, debug: bool, document: str | None) -> int:
    """The result could not be written: said once, and not again when the interpreter flushes.

    A closed reader (`| head`) is ignored.
    """
    if sys.stdout is not None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, 1)
        os.close(descriptor)
    return 1 if error.closed else report(error, debug=debug, document=document)


VERBS = frozenset(
    {*("set", "get", "reset", "edit", "status", "info"), *("add", "remove", "delete")}
)
"""Common actions of other programs. Few prompts have one as the second word."""
_AS_PROMPT = "To send these words to the model, use -p '…'."


def refuse_commands(words: tuple[str, ...], commands: Mapping[str, tuple[str, ...]]) -> None:
    """Raises UsageError for the words of a prompt that are a command behind options, or a
    misspelled one."""
    name, second = words[0], words[1] if len(words) > 1 else ""
    if name in commands and (len(words) <= 2 or second in commands[name]):
        _refuse(
            f"the options stand before the command {name}.",
            f"Put the command first: alhena {name}{' ' + second if second else ''} [options].",
        )
    if name in commands and second in VERBS:
        _refuse(f"there is no command {name} {second}.", f"See alhena {name} --help.")
    near = _near(name, second, commands) if second else None
    if near is not None:
        _refuse(f"there is no command {name}.", f"Did you mean alhena {near} {second}?")
    if not second and name.replace("-", "").isalpha() and name.islower() and _lacks_piped_text():
        _ask_about(name, commands)


def _lacks_piped_text() -> bool:
    """True when standard input brings nothing that a single word could be about."""
    if sys.stdin is None:
        return True
    try:
        status = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return True
    empty = stat.S_ISREG(status.st_mode) and not status.st_size
    return empty or stat.S_ISCHR(status.st_mode)


def _ask_about(name: str, commands: Mapping[str, tuple[str, ...]]) -> None:
    """Asks whether a single word is a prompt; without a person it is refused."""
    near = near_name(name, commands, VERY_NEAR)
    hint = f"Did you mean alhena {near}?" if near else "See alhena --help for the commands."
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        _refuse(f"there is no command {name}.", hint)
    write_stderr(f"There is no command {name}. {hint}\nSend it to the model as a prompt? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"there is no command {name}.", remedy=hint)


def _near(name: str, action: str, commands: Mapping[str, tuple[str, ...]]) -> str | None:
    """The command that is like `name` and can be told `action`."""
    able = [each for each, actions in commands.items() if action in actions]
    if not able or name in able:
        return None
    return near_name(name, able, VERY_NEAR)


def _refuse(what: str, hint: str) -> NoReturn:
    raise UsageError(what, remedy=f"{hint} {_AS_PROMPT}")
