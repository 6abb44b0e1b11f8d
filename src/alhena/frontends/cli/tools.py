"""alhena tools list and call, and the toolset options that commands share."""

import argparse
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import Permissions, SessionSpec
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.config.home import config_home
from alhena.display_text import escaped, without_controls
from alhena.errors import InputError, UsageError
from alhena.events import Event, WarningEvent
from alhena.frontends.shared.arguments import Parser, split_list, split_tools
from alhena.frontends.shared.current_settings import (
    place_here,
    require_trust,
    tell,
    workspace_roots,
)
from alhena.frontends.shared.listings import Listing, print_listing, tool_rows
from alhena.frontends.shared.streams import is_terminal, write_json, write_stderr, write_stdout
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode
from alhena.session.records import new_session_id
from alhena.tools.contract import ToolDisplay, ToolErrorType
from alhena.wire.content import ToolCallRequestInfo

if TYPE_CHECKING:
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.toolset.model_access import Source
    from alhena.scheduler.states import CompletedToolCall
    from alhena.system.processes import ProcessGroups
    from alhena.tools.builtin.subagents import RunAgent


FLAGS = (
    "--approval-mode --policy --allowed-tools --skip-trust --sandbox --include-directories --model"
)
"""Flags of a run that may stand before the command."""


def add_toolset_arguments(parser: Parser) -> None:
    """Adds the options that say what the toolset is."""
    add = parser.add_argument
    add("--approval-mode", choices=["default", "auto_edit", "yolo", "plan"])
    add("--policy", action="append", default=[], metavar="FILE")
    add("--allowed-tools", action="append", default=[], metavar="TOOLS")
    add("--skip-trust", action="store_true")
    add("-s", "--sandbox", action=argparse.BooleanOptionalAction)
    add("--include-directories", action="append", default=[], metavar="DIR")
    add("-d", "--debug", action="store_true", help="show tracebacks")


def toolset_options(found: argparse.Namespace) -> SessionSpec:
    """The options of a toolset from the arguments, for this directory. Raises ConfigError."""
    place = place_here(skip_trust=found.skip_trust)
    settings = place.settings
    roots, missing = workspace_roots(place, split_list(found.include_directories))
    tell(missing)
    mode = ApprovalMode(found.approval_mode or settings.general.default_approval_mode)
    require_trust(mode, place.cwd, place.trust)
    return SessionSpec(
        place=msgspec.structs.replace(place, directories=roots),
        permissions=Permissions(
            approval_mode=mode,
            may_act=place.trust.trusted,
            policy=split_list(found.policy),
            allowed_tools=split_tools(found.allowed_tools),
            sandbox=found.sandbox,
        ),
    )


def open_model(options: SessionSpec, given: str | None) -> "Source":
    """The model for tools that use one: chosen as a run would choose it, when one is used."""

    @cache
    def answering() -> tuple[ContentGenerator, str]:
        from alhena.agent.chat import SessionModels
        from alhena.models.providers.select import ModelChoice, choose_generator
        from alhena.system.private_files import PrivateFiles

        environ, settings = options.place.environ, options.place.settings
        files = PrivateFiles(config_home(environ))
        model = SessionModels(given, environ, settings).name
        chosen = choose_generator(
            ModelChoice(
                model=model, environ=environ, settings=settings, private_files=lambda: files
            )
        )
        return chosen.generator, chosen.model

    return answering


def open_agents(links: SessionLinks, bench: Toolset, remote: "RemoteAgents | None") -> "RunAgent":
    """Makes what runs subagents; imported before the first."""
    from alhena.agent import delegation

    return delegation.open_agents(links, bench, remote)


TOOL_FAILED = 54
CALL_ID = "call-1"


def make_parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser of the command, and those of `list` and `call`."""
    parser = Parser(prog="alhena tools", description="Lists or calls the tools of this workspace.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    listing = commands.add_parser("list", help="list all tools with their parameters")
    calling = commands.add_parser(
        "call",
        help="run one tool through the policy",
        usage="alhena tools call NAME [ARGS] [options]",
    )
    calling.add_argument(
        "words",
        nargs="*",
        metavar="NAME ARGS",
        help="the tool's name, and its parameters as a JSON object",
    )
    calling.add_argument("-m", "--model", metavar="NAME", help="for tools that ask a model")
    for each in (listing, calling):
        each.add_argument("--json", action="store_true", help="print JSON")
        add_toolset_arguments(each)
    return parser, {"list": listing, "call": calling}


def run(argv: list[str]) -> int:
    """Carries out `alhena tools ARGV`; returns the exit code."""
    parser, parsers = make_parsers()
    if argv[:1] == ["call"]:  # its options may stand between the name and the parameters
        found = parsers["call"].parse_words(argv[1:], argparse.Namespace(command="call"))
    else:
        found = parser.parse_args(argv)
    options = toolset_options(found)
    links = SessionLinks(
        session_id=new_session_id(),
        answering=open_model(options, getattr(found, "model", None)),
        delegate=open_agents,
        emit=warn,
    )
    if found.command == "call":
        done = _call(options, links, *_tool_and_parameters(parsers["call"], found.words))
        if found.json:
            write_json(done)
        elif done["error"]:
            write_stderr(f"alhena: {escaped(done['error']['message'], block=True)}\n")
        else:
            told: str = done["llmContent"]
            write_stdout(f"{without_controls(told) if is_terminal(sys.stdout) else told}\n")
        return TOOL_FAILED if done["error"] else 0
    bench = _open(options, links)
    if bench.sources.waiting:
        import asyncio

        asyncio.run(_look(bench))
    return print_listing(Listing(noun="tool", rows=tool_rows(bench.registry)), as_json=found.json)


def _tool_and_parameters(parser: Parser, words: list[str]) -> tuple[str, str]:
    """The tool, and its parameters. Raises UsageError."""
    if not words:
        parser.error("a tool has to be named")
    if len(words) > 2:
        parser.error(f"the parameters are to be one JSON object, not {len(words) - 1} words")
    return words[0], words[1] if len(words) > 1 else "{}"


def _open(
    options: SessionSpec, links: SessionLinks, groups: "ProcessGroups | None" = None
) -> Toolset:
    """The toolset with all tools that a session can have; its warnings go to stderr."""
    from alhena.tools.builtin.ask_user import AskUser

    bench = open_toolset(options, links, groups)
    bench.registry.register(AskUser(None))
    tell(bench.warnings)
    return bench


async def _gather(bench: Toolset) -> None:
    """Has the tools of other sources in the registry, too."""
    known = len(bench.warnings)
    await bench.sources.gather()
    tell(bench.warnings[known:])


async def _look(bench: Toolset) -> None:
    """The tools of other sources for a listing: what brought them is ended again."""
    try:
        await _gather(bench)
    finally:
        await bench.sources.close()


def warn(event: Event) -> None:
    """Tells a person what a hook has to say, or what went wrong with one."""
    if isinstance(event, WarningEvent):
        tell((event.message,))


def _call(options: SessionSpec, links: SessionLinks, name: str, text: str) -> dict[str, Any]:
    """Runs one call; what comes of it is always the same kind of object."""
    import asyncio

    from alhena.frontends.shared.streams import parse_json
    from alhena.system.processes import ProcessGroups

    try:
        args = parse_json(text)
    except InputError as error:
        raise UsageError(
            f"the parameters are not JSON: {error.message}",
            remedy='Give an object: alhena tools call NAME \'{"key": "value"}\'.',
        ) from error
    if not isinstance(args, dict):
        return _refused_json(name, "the parameters are no JSON object")
    request = ToolCallRequestInfo(
        call_id=CALL_ID, name=name, args=cast("dict[str, Any]", args), is_client_initiated=True
    )

    async def call_once() -> "CompletedToolCall":
        groups = ProcessGroups()
        bench = _open(options, links, groups)
        try:
            await _gather(bench)
            return (await bench.scheduler(lambda _event: None).schedule(request))[0]
        finally:
            await bench.sources.close()
            await groups.close()

    return _as_json(asyncio.run(call_once()))


def _refused_json(name: str, message: str) -> dict[str, Any]:
    """The object of a call that could not even be read."""
    from alhena.tools.response import error_parts

    return {
        "status": "error",
        "llmContent": message,
        "returnDisplay": message,
        "error": {"message": message, "type": ToolErrorType.INVALID_TOOL_PARAMS},
        "responseParts": error_parts(name, CALL_ID, message),
    }


def _as_json(done: "CompletedToolCall") -> dict[str, Any]:
    """{status, llmContent, returnDisplay, error, responseParts}; `error` is null on success."""
    response = done.response
    error = None
    if response.error is not None:
        error = {"message": response.error, "type": response.error_type}
    return {
        "status": done.status,
        "llmContent": _output(done),
        "returnDisplay": _display(response.result_display),
        "error": error,
        "responseParts": response.response_parts,
    }


def _output(done: "CompletedToolCall") -> str:
    """The text the model gets."""
    for part in done.response.response_parts:
        if part.function_response is not None:
            values = part.function_response.response
            return str(values.get("output", values.get("error", "")))
    return ""


def _display(display: ToolDisplay | None) -> Any:
    return display if display is None or isinstance(display, str) else msgspec.to_builtins(display)
