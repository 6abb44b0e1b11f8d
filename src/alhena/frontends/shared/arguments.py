"""The arguments of a run: `alhena [options] [PROMPT …]`."""

import argparse
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Literal, NoReturn

import msgspec

from alhena.errors import InputError, UsageError
from alhena.frontends.shared.streams import is_terminal
from alhena.near_names import near_name
from alhena.policy.model import ApprovalMode
from alhena.values import Limits

EPILOG = """\
commands:
  alhena batch TASKS          run many tasks; status, resume, pause, limits, cancel, retry-failed,
                              show, tail, report, diff
  alhena tools list|call      list the tools; run one call through the policy
  alhena policy explain|test  explain the decision on a call; test the examples of rules
  alhena agents list|show     subagents; validate, new, auth
  alhena commands list        custom commands: commands/**/*.toml
  alhena skills list          skills; enable, disable, install, link, uninstall
  alhena extensions list      extensions; install, update, enable, disable, link, uninstall,
                              config, new, validate
  alhena hooks list|test      hooks and whether they run; enable, disable, trust, migrate
  alhena memory show|import   the text of GEMINI.md files; a file with its imports
  alhena sessions list|show   recorded sessions of this project; export, delete, adopt,
                              checkpoints, restore
  alhena trace [SESSION]      show a session step by step; --html FILE: as a page
  alhena auth login|status    sign in with a Google account; show model access; logout
  alhena models list          known models and their limits
  alhena mcp list|add|auth    MCP servers; import, remove, enable, disable, serve
  alhena settings show|check  show effective settings; find mistakes; get, set: one setting;
                              path: list the files
  alhena trust                trust this folder: read its settings and context
  alhena serve                serve the model over HTTP to Anthropic and OpenAI clients
  alhena wire check|convert   check a request against the rules of the API; convert it
  alhena shim gemini          write a command gemini that runs alhena
  alhena completion SHELL     print completions for bash, zsh or fish
  alhena docs [TOPIC]         show a page of the documentation

Run `alhena COMMAND --help` for the arguments of a command.
"""


class OutputFormat(StrEnum):
    """Values of --output-format."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class RunArguments(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line. `prompt` is None when none was given; `words` are those it was made
    of, unless they stood behind `--`; `sessions` are the arguments of `alhena sessions` when
    options ask for that; `mcp_servers` and `extensions` the only ones that are wanted,
    None for all."""

    prompt: str | None = None
    words: tuple[str, ...] = ()
    prompt_interactive: str | None = None
    model: str | None = None
    service_tier: Literal["flex", "standard", "priority"] | None = None
    small: bool = False
    output_format: OutputFormat | None = None
    approval_mode: ApprovalMode | None = None
    include_directories: tuple[str, ...] = ()
    policy_paths: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] | None = None
    extensions: tuple[str, ...] | None = None
    list_extensions: bool = False
    bug_report: bool = False
    skip_trust: bool = False
    sandbox: bool | None = None
    fake_responses: str | None = None
    fake_strict: bool = True
    record_responses: str | None = None
    resume: str | None = None
    session_id: str | None = None
    worktree: str | None = None
    checkpointing: bool = False
    sessions: tuple[str, ...] = ()
    debug: bool = False
    all_files: bool = False
    limits: Limits = Limits()
    acp: bool = False
    screen_reader: bool = False
    wants_help: bool = False
    wants_version: bool = False


def before_dashes(argv: list[str]) -> tuple[list[str], list[str]]:
    """Splits arguments at the first `--`: those that may be options, and the rest, which are
    not."""
    end = argv.index("--") if "--" in argv else len(argv)
    return argv[:end], argv[end + 1 :]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line: UsageError instead of usage and exit."""

    def parse_words(
        self, argv: list[str], namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Options and `words` in any order. What `parse_intermixed_args` makes of `--` is another
        thing in each version of Python, and in some of them an option follows it."""
        given, rest = before_dashes(argv)
        self.usage = self.usage or ""  # else argparse formats it for errors, which imports shutil
        found = self.parse_intermixed_args(given, namespace or argparse.Namespace())
        found.words = [*(found.words or ()), *rest]
        return found

    @property
    def actions(self) -> tuple[argparse.Action, ...]:
        """Its arguments, in order."""
        return tuple(self._actions)

    def error(self, message: str) -> NoReturn:
        """Raises the error for the top level to print."""
        raise UsageError(f"{message}.", remedy=f"{self._meant(message)}See {self.prog} --help.")

    def _meant(self, message: str) -> str:
        """The option that is like a misspelt one."""
        given = message.removeprefix("unrecognized arguments: ").split(" ")[0].partition("=")[0]
        if not given.startswith("--") or given in message[: -len(given)]:
            return ""
        known = [each for each in self._option_string_actions if each.startswith("--")]
        near = near_name(given, known)
        return f"Did you mean {near}? " if near else ""


def add_arguments(parser: argparse.ArgumentParser, words: str) -> None:
    """Adds arguments written as in a usage: `NAME`, `[NAME]`, `NAME…` (one or more), `[NAME…]`,
    `--flag`, `--option=VALUE`, `--option=a|b`, `--option=VALUE…` (repeatable), `-o|--option`; and
    --debug, which every command takes."""
    add = parser.add_argument
    for word in (*words.split(), "-d|--debug"):
        name, takes, value = word.partition("=")
        names = name.split("|")
        if not name.startswith("-"):
            kind = ("*" if "[" in name else "+") if "…" in name else "?" if "[" in name else None
            plain = name.strip("[…]")
            add(plain.lower(), metavar=plain, nargs=kind)
        elif not takes:
            add(*names, action="store_true")
        elif "|" in value:
            add(*names, choices=value.split("|"))
        else:
            repeats = "append" if "…" in value else "store"
            add(*names, metavar=value.strip("…"), action=repeats)


def parse_arguments(program: str, argv: list[str], words: str) -> argparse.Namespace:
    """The arguments of a command, given as for `add_arguments`. Raises UsageError."""
    parser = Parser(prog=program, add_help=False, allow_abbrev=False)
    add_arguments(parser, words)
    return parser.parse_args(argv)


def parse_command(program: str, argv: list[str], commands: Mapping[str, str]) -> argparse.Namespace:
    """The same for a command with subcommands, each with its arguments; `command` is the one that
    was given."""
    parser = Parser(prog=program, add_help=False, allow_abbrev=False)
    below = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for name, words in commands.items():
        add_arguments(below.add_parser(name, add_help=False, allow_abbrev=False), words)
    return parser.parse_args(argv)


def subcommand_help(usage: str, word: str) -> str:
    """The part of a command's help that is about its subcommand `word`: its line of usage, the
    words about it and about all. The whole help where it has no such subcommand."""
    import re
    import textwrap

    head, *paragraphs = usage.split("\n\n")
    lines = [each[len("usage: ") :] for each in re.split(r"\n(?= {7}alhena )", head)]
    names = ["".join(each.split()[2:3]).split("|") for each in lines]
    own = [line for line, each in zip(lines, names, strict=True) if word in each]
    if not own:
        return usage
    known = "|".join(re.escape(name) for each in names for name in each)
    label = re.compile(rf"(?:(?<=\. )|^)((?:{known})(?:, (?:{known}))*): ")
    shown = ["usage: " + "\n       ".join(own)]
    about = True  # of indented options: whether what they belong to is shown
    for paragraph in paragraphs:
        first, *rest = label.split(" ".join(paragraph.split()))
        if not rest:
            about = about or paragraph[:1] != " "
            shown += [paragraph.strip("\n")] * about
            continue
        shown += [textwrap.fill(first, 100)] * bool(first)
        for subject, text in zip(rest[::2], map(str.strip, rest[1::2]), strict=True):
            about = word in subject.split(", ")
            shown += [textwrap.fill(f"{subject}: {text}", 100)] * about
    return "\n\n".join(shown) + "\n"


def whole(text: str) -> int:
    """A whole number above 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def turns(text: str) -> int:
    """A number of turns; -1: no limit."""
    return -1 if text == "-1" else whole(text)


def amount(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


_LIMITS = (
    ("turns", turns, "stop a run after N model turns (-1: no limit)"),
    ("tokens", whole, "stop a run after N tokens"),
    ("seconds", amount, "stop a run after N seconds"),
    ("cost", amount, "stop a run after N US dollars, by the price table"),
)


_PROMPTS = {
    **dict.fromkeys(("-p", "--prompt"), "--prompt"),
    **dict.fromkeys(("-i", "--prompt-interactive"), "--prompt-interactive"),
}


def run_parser() -> Parser:
    """The parser of a run."""
    parser = Parser(
        prog="alhena",
        description="An agent for Gemini models that works in your files.",
        epilog=EPILOG,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=80),
        allow_abbrev=False,
        add_help=False,
    )
    _add_prompt_options(parser)
    _add_model_options(parser)
    _add_session_options(parser)
    add = parser.add_argument
    add("--fake-responses", metavar="FILE", help="answer from recorded responses, in order")
    add("--fake-responses-non-strict", metavar="FILE", help="the same, matched by method")
    add("--record-responses", metavar="FILE", help="append every response to FILE")
    add(
        "--screen-reader",
        action="store_true",
        help="print plain lines with headings; redraw nothing",
    )
    add("-d", "--debug", action="store_true", help="show tracebacks")
    add("--bug-report", action="store_true", help="print versions and settings for a report")
    add("-v", "--version", action="store_true", help="print the version")
    # Only now: for each argument argparse creates a formatter, which would import shutil.
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _add_model_options(parser: Parser) -> None:
    """The model and how it is asked."""
    add = parser.add_argument
    add("-m", "--model", metavar="NAME", help="the model; `demo` needs no key and no network")
    add(
        "--service-tier",
        choices=["flex", "standard", "priority"],
        help="flex costs half and may wait, priority costs more and is served first",
    )
    add(
        "--small",
        action="store_true",
        help="a short prompt and six tools, for models with a small window",
    )


def _add_prompt_options(parser: Parser) -> None:
    """The prompt and what the model may do."""
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this text")
    add(
        "words",
        nargs="*",
        metavar="PROMPT",
        help="the task; standard input is put before it. After --, every word is part of it",
    )
    add("-p", "--prompt", metavar="PROMPT", help="the prompt, as an option")
    add(
        *("-i", "--prompt-interactive"),
        metavar="PROMPT",
        help="start an interactive session with this prompt",
    )
    add(
        "-o",
        "--output-format",
        choices=[item.value for item in OutputFormat],
        help="text as it arrives, one JSON document, or JSON lines",
    )
    add(
        "--approval-mode",
        choices=["default", "auto_edit", "yolo", "plan"],
        help="default asks before changes; auto_edit runs edits, yolo everything; plan only reads",
    )
    add("-y", "--yolo", action="store_true", help="the same as --approval-mode yolo")
    add("--include-directories", action="append", metavar="DIR", help="more workspace roots")
    add(
        "-a",
        "--all-files",
        action="store_true",
        help="start with the text of all files in the workspace",
    )
    add("--policy", action="append", metavar="FILE", help="more policies (a file or directory)")
    add(
        "--allowed-tools",
        action="append",
        metavar="TOOLS",
        help="tools that need no approval: read_file,'run_shell_command(git status)'",
    )
    add(
        "--allowed-mcp-server-names",
        action="append",
        metavar="NAMES",
        help="use only these MCP servers",
    )
    add(
        *("--acp", "--experimental-acp"),
        action="store_true",
        help="serve an editor over the Agent Client Protocol",
    )


def _add_session_options(parser: Parser) -> None:
    """Options of a session: its place, its limits, and the one that it resumes."""
    add = parser.add_argument
    add(
        *("-e", "--extensions"),
        action="append",
        metavar="NAMES",
        help="use only these extensions, disabled ones too; none: no extension",
    )
    add("-l", "--list-extensions", action="store_true", help="list the extensions in use")
    add("--skip-trust", action="store_true", help="trust this folder for this run")
    add(
        *("-s", "--sandbox"),
        action=argparse.BooleanOptionalAction,
        help="run commands in a sandbox, or not; overrides the settings",
    )
    add(
        *("-r", "--resume"),
        nargs="?",
        const="latest",
        metavar="SESSION",
        help="resume the latest session of this project, or the one with this number or id",
    )
    add(
        *("-c", "--continue"),
        action="store_const",
        const="latest",
        dest="resume",
        help="resume the latest session of this project",
    )
    add("--session-id", metavar="ID", help="start a session with this id")
    add(
        *("-w", "--worktree"),
        metavar="NAME",
        help="work in the git worktree of this name; created if missing",
    )
    for name, kind, what in _LIMITS:
        add(f"--max-{name}", type=kind, metavar="N", help=what)
    add(
        "--checkpointing",
        action="store_true",
        help="snapshot files before each call that may change them; overrides the settings",
    )
    add("--list-sessions", action="store_true", help="the same as `alhena sessions list`")
    add("--delete-session", metavar="SESSION", help="the same as `alhena sessions delete SESSION`")


def piped_session_error() -> InputError:
    """The error for a session at a terminal whose input is no terminal."""
    return InputError(
        "The --prompt-interactive flag cannot be used when input is piped from stdin.",
        remedy="Use -p for a run without a terminal.",
    )


def split_options(argv: list[str]) -> tuple[list[str], list[str]] | None:
    """The options before the first word, and the rest; None where a prompt is among them, or one
    of them may or may not take a word."""
    actions = {name: action for action in run_parser().actions for name in action.option_strings}
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        name, given, _ = argv[at].partition("=")
        action = actions.get(name)
        if action is None or action.nargs == "?" or action.dest in ("prompt", "prompt_interactive"):
            return None
        takes = action.nargs != 0 and not given
        at += 2 if takes else 1
    return argv[:at], argv[at:]


def parse_run(argv: list[str]) -> RunArguments:
    """The arguments of a run; raises UsageError."""
    found = run_parser().parse_words(_prompt_behind_dashes(argv))
    if found.prompt is not None and found.words:
        raise UsageError("a prompt was given twice.", remedy="Use either -p or the positional one.")
    if found.prompt_interactive is not None and (found.prompt is not None or found.words):
        if not is_terminal(sys.stdin):
            raise piped_session_error()
        raise UsageError(
            "-i contradicts a prompt of a run without a session.", remedy="Give only one prompt."
        )
    if found.yolo and found.approval_mode not in (None, "yolo"):
        raise UsageError(
            f"--yolo contradicts --approval-mode {found.approval_mode}.", remedy="Give only one."
        )
    if found.fake_responses and found.fake_responses_non_strict:
        raise UsageError("two files of recorded responses were given.", remedy="Give only one.")
    if found.resume is not None and found.session_id is not None:
        raise UsageError("--resume contradicts --session-id.", remedy="Give only one.")
    if found.model is not None and not found.model.strip():
        raise UsageError("the model's name is empty.", remedy="Name one, or leave out -m.")
    given = vars(found) | {
        "prompt": found.prompt if found.prompt is not None else " ".join(found.words) or None,
        "words": () if "--" in argv else found.words,
        "approval_mode": "yolo" if found.yolo else found.approval_mode,
        "include_directories": split_list(found.include_directories),
        "policy_paths": split_list(found.policy),
        "allowed_tools": split_tools(found.allowed_tools),
        "mcp_servers": found.allowed_mcp_server_names
        and split_list(found.allowed_mcp_server_names),
        "extensions": found.extensions and split_list(found.extensions),
        "fake_responses": found.fake_responses or found.fake_responses_non_strict,
        "fake_strict": not found.fake_responses_non_strict,
        "resume": None if found.resume is None else found.resume.strip() or "latest",
        "session_id": found.session_id and found.session_id.strip(),
        "sessions": _sessions(found.delete_session, listing=found.list_sessions),
        "limits": Limits(**{name: getattr(found, f"max_{name}") for name, _, _ in _LIMITS}),
        "wants_help": found.help,
        "wants_version": found.version,
    }
    return msgspec.convert(given, RunArguments)


def _prompt_behind_dashes(argv: list[str]) -> list[str]:
    """`-p -- PROMPT` is `-p PROMPT`, whatever the prompt looks like."""
    given, rest = before_dashes(argv)
    option = _PROMPTS.get(given[-1]) if given else None
    return [*given[:-1], f"{option}={' '.join(rest)}"] if option and rest else argv


def _sessions(delete: str | None, *, listing: bool) -> tuple[str, ...]:
    if delete is not None and listing:
        raise UsageError("--list-sessions contradicts --delete-session.", remedy="Give only one.")
    return ("list",) if listing else () if delete is None else ("delete", delete)


def split_list(values: list[str] | None) -> tuple[str, ...]:
    """Repeated options and comma-separated lists alike."""
    return tuple(
        item.strip() for value in values or () for item in value.split(",") if item.strip()
    )


def split_tools(values: list[str] | None) -> tuple[str, ...]:
    """As `split_list`, but a comma between brackets is part of a command."""
    found: list[str] = []
    for value in values or ():
        entry, depth = "", 0
        for char in value:
            depth += (char == "(") - (char == ")" and depth > 0)
            if char == "," and depth == 0:
                found.append(entry)
                entry = ""
            else:
                entry += char
        found.append(entry)
    return tuple(item.strip() for item in found if item.strip())
