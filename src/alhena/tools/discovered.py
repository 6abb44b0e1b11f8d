"""Tools that a configured command lists and another runs (TOOLS-07)."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import escaped, one_line
from alhena.system.errors import ProcessStartError
from alhena.tools.base import BaseInvocation, declaration_of
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecConfirmation,
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.params import convert_spellings, validate
from alhena.tools.registry import DISCOVERED_PREFIX as PREFIX
from alhena.tools.registry import is_declarable
from alhena.tools.shell_output import CapturedOutput
from alhena.values import Value
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import FunctionDeclaration

if TYPE_CHECKING:
    from alhena.system.output import CapturedText
    from alhena.system.processes import CommandLimits, ProcessCommand, ProcessEnding, ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.tools.output_store import OutputStore

MAX_TOOLS = 512
MAX_PROBLEMS = 20
"""Number of invalid items after which the rest of a listing is not read."""
_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_VALUES = frozenset({"default", "enum", "const", "example", "examples"})
_LISTS = ("function_declarations", "functionDeclarations")
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class DeclaredTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the command declares it, under its own name. `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def registered_name(self) -> str:
        """The name used by models and policies."""
        return PREFIX + self.name


class DiscoveredTools(Value, frozen=True, kw_only=True):
    """The tools found; `problems` are sentences about unusable items."""

    tools: tuple[DeclaredTool, ...] = ()
    problems: tuple[str, ...] = ()


def arguments(command: str) -> tuple[str, ...]:
    """Splits a command string with shell quoting; no shell runs it. Raises ValueError for an empty
    command, an unclosed quote or a NUL."""
    if "\0" in command:
        raise ValueError("it contains a NUL character")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ValueError(f"its quotes do not match ({str(error).lower()})") from error
    if not words:
        raise ValueError("it is empty")
    return words


def read_listing(output: bytes) -> DiscoveredTools:
    """Reads a JSON array of declarations, or of objects that list them as `function_declarations`
    or `functionDeclarations`. Invalid items become problems; valid ones are used. Raises ValueError
    when the output is not such an array."""
    try:
        decoded: object = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"its output is not JSON: {error}") from error
    items = [decoded] if as_object(decoded) is not None else as_array(decoded)
    if items is None:
        raise ValueError("its output is no JSON array")
    tools: dict[str, DeclaredTool] = {}
    problems: list[str] = []
    for place, item in _declarations(items):
        if len(tools) == MAX_TOOLS or len(problems) == MAX_PROBLEMS:
            problems.append(f"{place} and what follows is left out, which is too much")
            break
        found = _tool(item)
        if isinstance(found, str):
            problems.append(f"{place}: {found}")
        elif found.name in tools:
            problems.append(f"{place}: {found.name} is declared twice; the first one is used")
        else:
            tools[found.name] = found
    return DiscoveredTools(tools=tuple(tools.values()), problems=tuple(problems))


def _declarations(items: list[object]) -> Iterator[tuple[str, object]]:
    for number, item in enumerate(items, 1):
        given = as_object(item)
        lists = [] if given is None else [given[key] for key in _LISTS if key in given]
        if not lists:
            yield f"item {number}", item
        for each in lists:
            inner = as_array(each) or [each]
            for place, one in enumerate(inner, 1):
                yield f"item {number}.{place}", one


def _tool(item: object) -> DeclaredTool | str:
    """Returns the declaration, or the reason why the item is not one."""
    given = as_object(item)
    if given is None:
        return "it is no object"
    name, description = given.get("name"), given.get("description")
    if not isinstance(name, str) or not name:
        return "it has no name"
    if not is_declarable(PREFIX + name):
        return (
            f"{name[:80]!r} cannot be the name of a tool: up to {63 - len(PREFIX)} letters, "
            "digits, '_', '.' and '-' can"
        )
    schema = next((given[key] for key in _SCHEMAS if given.get(key) is not None), _NO_PARAMETERS)
    parameters = as_object(schema)
    if parameters is None:
        return f"the parameters of {name} are no object"
    try:
        parameters = _json_schema(parameters)
    except RecursionError:
        return f"the parameters of {name} are nested too deeply"
    text = description if isinstance(description, str) else ""
    return DeclaredTool(name=name, description=text, parameters=parameters)


def _json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Converts a schema that may be in the Gemini form (types in capitals, `nullable`) to JSON
    Schema."""
    made = {key: each if key in _VALUES else _convert_schema(each) for key, each in schema.items()}
    kind = made.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        lower = kind.lower()
        made["type"] = [lower, "null"] if made.pop("nullable", False) is True else lower
    return made


def _convert_schema(value: object) -> object:
    if (inner := as_object(value)) is not None:
        return _json_schema(inner)
    items = as_array(value)
    return value if items is None else [_convert_schema(each) for each in items]


DISCOVERY_SECONDS = 30.0
"""Timeout of a discovery command."""
MAX_LISTING = 10 << 20
"""Maximum bytes of the listing on stdout."""
MAX_SAID = 10 * MAX_LISTING
"""Maximum bytes on stdout and stderr together."""
_SHOWN = 500


async def discover(
    command: str,
    cwd: str,
    env: dict[str, str],
    groups: "ProcessGroups | None" = None,
    sandbox: "Sandbox | None" = None,
) -> DiscoveredTools:
    """Runs `command` in `cwd` with `env` and returns the tools it lists. Any failure gives no tools
    and a problem with the reason. Processes left running are killed."""
    from alhena.system.output import OutputCapture
    from alhena.system.processes import CommandLimits, ProcessCommand, run_process
    from alhena.tools.shell_output import stop_reason

    try:
        words = arguments(command)
    except ValueError as error:
        return DiscoveredTools(problems=(f"it cannot be run: {error}",))
    process = ProcessCommand(
        argv=tuple(map(os.fsencode, words)),
        cwd=cwd,
        env=env,
        merge_stderr=False,
        leaves_nothing=True,
        label=command,
    )
    printed = bytearray()

    def take(data: bytes) -> None:
        printed.extend(data[: MAX_LISTING + 1 - len(printed)])

    said = OutputCapture(head=_SHOWN, tail=_SHOWN)
    limits = CommandLimits(inactivity=0, total=DISCOVERY_SECONDS, output=MAX_SAID)
    try:
        ending = await run_process(
            process if sandbox is None else sandbox.confine(process),
            take,
            limits=limits,
            groups=groups,
            errors=said.feed,
        )
    except ProcessStartError as error:
        return DiscoveredTools(problems=(str(error).removesuffix("."),))
    diagnostics = one_line(said.finish_capture().text.strip(), 2 * _SHOWN)
    behind = f": {diagnostics}" if diagnostics else ""
    if len(printed) > MAX_LISTING:
        return DiscoveredTools(problems=(f"it printed more than {MAX_LISTING >> 20} MB",))
    if stopped := stop_reason(ending, limits):
        return DiscoveredTools(problems=(f"{stopped.rstrip('.')}{behind}",))
    if ending.exit_code != 0:
        how = f"signal {ending.signal}" if ending.exit_code is None else str(ending.exit_code)
        return DiscoveredTools(problems=(f"it ended with {how}{behind}",))
    try:
        return read_listing(bytes(printed))
    except ValueError as error:
        return DiscoveredTools(problems=(f"{error}{behind}",))


CALL_SECONDS = 600.0
"""Timeout of a call."""
MAX_OUTPUT = 1 << 30
"""Maximum bytes of output before a call is stopped."""
DIAGNOSTICS = 4_000
"""Characters of stderr kept from each end."""


class CallCommand(Value, frozen=True, kw_only=True):
    """The command that runs discovered tools. `text` is the command from the settings, `words` its
    arguments; `groups` kills processes left running. Long output goes to `outputs`. Before each run
    `why_held` returns the reason why the command may no longer run, "" if it may; None: no check.
    """

    text: str
    words: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]
    redaction: EnvironmentRedaction
    sandbox: "Sandbox | None" = None
    groups: "ProcessGroups | None" = None
    outputs: "OutputStore | None" = None
    inactivity: float = 300.0
    why_held: Callable[[], str] | None = None


class DiscoveredTool:
    """A tool of `tools.discoveryCommand`; `tools.callCommand` runs it."""

    kind = Kind.OTHER
    is_output_markdown = False
    can_update_output = True

    def __init__(self, listed: DeclaredTool, discovery: str, call: CallCommand) -> None:
        self.name = listed.registered_name
        self.display_name = listed.name
        self.own_name = listed.name
        self.call = call
        self.parameter_schema = listed.parameters
        self.description = (
            f"{listed.description}\n\n"
            f"The project brings this tool: `{one_line(discovery, 200)}` lists it. A call runs "
            f"`{one_line(call.text, 200)} {listed.name}` with the parameters as JSON on its "
            "standard input, and gives its standard output. What it writes to stderr comes behind "
            "that as diagnostics. A failed call says Stdout, Stderr, Error, Exit Code and Signal."
        ).strip()

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> "DiscoveredInvocation | ToolFailure":
        """Checks the parameters against the tool's schema; a failure is a value."""
        normal = convert_spellings(self.parameter_schema, params)
        return validate(self.parameter_schema, normal) or DiscoveredInvocation(normal, self)


class DiscoveredInvocation(BaseInvocation):
    """One call of a discovered tool."""

    def __init__(self, params: dict[str, Any], tool: DiscoveredTool) -> None:
        super().__init__(params)
        self._tool = tool
        self._input = msgspec.json.encode(params)

    def describe(self) -> str:
        """Formats the call as an expression."""
        return escaped(f"{self._tool.own_name}({self._input.decode('utf-8')})")

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails:
        """Shows the command and its input."""
        del context
        call = self._tool.call
        command = f"{call.text} {self._tool.own_name} <<< {self._input.decode('utf-8')}"
        return ExecConfirmation(
            title=f"Run the project's tool {self._tool.own_name}?",
            command=command,
            command_shown=escaped(command),
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the command. The call fails when the command cannot start, is stopped or ends with a
        non-zero exit code; output on stderr alone is not a failure."""
        from alhena.system.output import OutputCapture
        from alhena.system.processes import CommandLimits, run_process
        from alhena.tools.shell_output import live_output

        call = self._tool.call
        if held := await self._why_held():
            return ToolResult.from_failure(held, ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR)
        live = live_output(context.update_output, context.update_screen)
        output = DiscoveredOutput(
            call.outputs,
            context.call_id,
            prefix="",
            live=live,
        )
        errors = OutputCapture(head=DIAGNOSTICS, tail=DIAGNOSTICS)
        limits = CommandLimits(inactivity=call.inactivity, total=CALL_SECONDS, output=MAX_OUTPUT)
        finished = False
        try:
            ending = await run_process(
                self._command(),
                output.feed,
                limits=limits,
                groups=call.groups,
                started=context.report_pid,
                errors=errors.feed,
            )
            finished = True
        except ProcessStartError as error:
            return ToolResult.from_failure(
                f"{self._tool.own_name} could not be started: {error}",
                ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR,
            )
        finally:
            live.stop()
            if not finished:
                output.discard()
        return self._result(ending, output, errors.finish_capture(), limits)

    async def _why_held(self) -> str:
        why_held = self._tool.call.why_held
        if why_held is None:
            return ""
        from alhena.threads import in_daemon_thread

        why = await in_daemon_thread(why_held)
        return f"{self._tool.own_name} is not run: tools.callCommand is {why}" if why else ""

    def _command(self) -> "ProcessCommand":
        from alhena.system.environment import child_environment
        from alhena.system.processes import ProcessCommand

        call = self._tool.call
        made = child_environment(call.environ, call.redaction)
        command = ProcessCommand(
            argv=(*map(os.fsencode, call.words), os.fsencode(self._tool.own_name)),
            cwd=call.cwd,
            env=made.variables,
            merge_stderr=False,
            stdin=self._input,
            label=f"{call.text} {self._tool.own_name}",
        )
        return command if call.sandbox is None else call.sandbox.confine(command)

    def _result(
        self,
        ending: "ProcessEnding",
        output: "CapturedOutput",
        errors: "CapturedText",
        limits: "CommandLimits",
    ) -> ToolResult:
        from alhena.tools.shell_output import or_none, stop_reason

        captured = output.capture.finish_capture()
        stderr = errors.text.strip("\n")
        stopped = stop_reason(ending, limits)
        data: dict[str, Any] = {"exit_code": ending.exit_code, "signal": ending.signal}
        if ending.exit_code == 0 and not stopped:
            suffix = f"\n\nDiagnostics (stderr):\n{stderr}" if stderr else ""
            return ToolResult(
                llm_content=captured.text + suffix,
                display=captured.text.removesuffix("\n") + suffix,
                data=data,
                spilled=output.store_whole(captured, suffix),
            )
        output.discard()
        lines = (
            f"Stdout: {captured.text.removesuffix(chr(10)) or '(empty)'}",
            f"Stderr: {stderr or '(empty)'}",
            f"Error: {stopped or '(none)'}",
            f"Exit Code: {or_none(ending.exit_code)}",
            f"Signal: {or_none(ending.signal)}",
        )
        return ToolResult.from_failure(
            "\n".join(lines), ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR
        )


class DiscoveredOutput(CapturedOutput):
    """Output of one call, stored in its own file when long."""

    tool = "discovered_tool"
