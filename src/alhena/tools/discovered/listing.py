"""Runs a discovery command once and reads the declarations it prints."""

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.display_text import one_line
from alhena.system.errors import ProcessStartError
from alhena.tools.names import is_declarable
from alhena.values import Value
from alhena.wire.json_values import as_array, as_object

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox

PREFIX = "discovered_tool_"
"""Prefix of the names of discovered tools, so that none can pass for a built-in tool."""
MAX_TOOLS = 512
MAX_ITEMS = 10_000
"""Maximum number of items read from a listing."""
MAX_PROBLEMS = 10
"""Maximum number of problems reported individually."""
_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_VALUES = frozenset({"default", "enum", "const", "example", "examples"})
_LISTS = ("function_declarations", "functionDeclarations")
_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the command declares it, under its own name. `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def registered_name(self) -> str:
        """The name used by models and policies."""
        return PREFIX + self.name


class Listing(Value, frozen=True, kw_only=True):
    """The tools found; `problems` are sentences about unusable items."""

    tools: tuple[ListedTool, ...] = ()
    problems: tuple[str, ...] = ()


def arguments(command: str) -> tuple[str, ...]:
    """Splits a command string with shell quoting; no shell runs it. Raises ValueError for an empty
    command, an unclosed quote or a NUL."""
    if "\0" in command:
        raise ValueError("it holds a NUL character")
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ValueError(f"its quotes do not match ({str(error).lower()})") from error
    if not words:
        raise ValueError("it is empty")
    return words


def read_listing(output: bytes) -> Listing:
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
    tools: dict[str, ListedTool] = {}
    problems: list[str] = []
    limit: list[str] = []
    for number, (place, item) in enumerate(_declarations(items)):
        if len(tools) == MAX_TOOLS:
            limit = [f"only its first {MAX_TOOLS} tools are used"]
            break
        if number == MAX_ITEMS:
            limit = [f"only its first {MAX_ITEMS:,} items are read"]
            break
        found = _tool(item)
        if isinstance(found, str):
            problems.append(f"{place}: {found}")
        elif found.name in tools:
            problems.append(f"{place}: {found.name} is declared twice; the first one is used")
        else:
            tools[found.name] = found
    more = len(problems) - MAX_PROBLEMS
    beyond = [f"there are {more:,} more items that cannot be used"] if more > 0 else []
    return Listing(
        tools=tuple(tools.values()), problems=(*problems[:MAX_PROBLEMS], *beyond, *limit)
    )


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


def _tool(item: object) -> ListedTool | str:
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
    return ListedTool(
        name=name,
        description=description if isinstance(description, str) else "",
        parameters=_json_schema(parameters),
    )


def _json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Converts a schema that may be in the Gemini form (types in capitals, `nullable`) to JSON
    Schema."""
    made: dict[str, Any] = {}
    open_: list[tuple[dict[str, Any], dict[str, Any]]] = [(schema, made)]
    while open_:
        source, target = open_.pop()
        for key, value in source.items():
            if key in _VALUES:
                target[key] = value
            elif isinstance(value, list):
                target[key] = [_copy(item, open_) for item in cast("list[object]", value)]
            else:
                target[key] = _copy(value, open_)
        kind = target.get("type")
        if isinstance(kind, str) and kind in _TYPES:
            lower = kind.lower()
            target["type"] = [lower, "null"] if target.pop("nullable", False) is True else lower
    return made


def _copy(value: object, open_: list[tuple[dict[str, Any], dict[str, Any]]]) -> object:
    """Copies a value; returns an empty object, filled later, for an object."""
    source = as_object(value)
    if source is None:
        return value
    target: dict[str, Any] = {}
    open_.append((source, target))
    return target


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
) -> Listing:
    """Runs `command` in `cwd` with `env` and returns the tools it lists. Any failure gives no tools
    and a problem with the reason. Processes left running are killed."""
    from alhena.system.processes import Command, Limits, Stop, run_process
    from alhena.system.terminal_text import OutputCapture

    try:
        words = arguments(command)
    except ValueError as error:
        return Listing(problems=(f"it cannot be run: {error}",))
    process = Command(
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
    limits = Limits(inactivity=0, total=DISCOVERY_SECONDS, output=MAX_SAID)
    try:
        ending = await run_process(
            process if sandbox is None else sandbox.confine(process),
            take,
            limits=limits,
            groups=groups,
            errors=said.feed,
        )
    except ProcessStartError as error:
        return Listing(problems=(str(error).removesuffix("."),))
    diagnostics = one_line(said.captured().text.strip(), 2 * _SHOWN)
    behind = f"; it said: {diagnostics}" if diagnostics else ""
    if len(printed) > MAX_LISTING:
        return Listing(problems=(f"it printed more than {MAX_LISTING >> 20} MB",))
    if ending.stopped is Stop.OUTPUT:
        return Listing(problems=(f"it wrote more than {MAX_SAID >> 20} MB{behind}",))
    if ending.stopped is not None:
        return Listing(problems=(f"it took more than {DISCOVERY_SECONDS:g} s{behind}",))
    if ending.exit_code != 0:
        how = f"signal {ending.signal}" if ending.exit_code is None else str(ending.exit_code)
        return Listing(problems=(f"it ended with {how}{behind}",))
    try:
        return read_listing(bytes(printed))
    except ValueError as error:
        return Listing(problems=(f"{error}{behind}",))
