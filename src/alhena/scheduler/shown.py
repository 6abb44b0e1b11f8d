"""What is shown of a call that waits for a person, and what that person should be told of it."""

from collections.abc import Iterator
from typing import Any, assert_never, cast

import msgspec

from alhena.policy.names import is_shell
from alhena.scheduler.plain import plain
from alhena.scheduler.track import TrackedCall
from alhena.tools.confirmation import (
    AskUserConfirmation,
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
)
from alhena.tools.registry import RegisteredTool

LOOKED_AT = 200_000
"""Characters of unusual lines of a change that are looked at; of the rest it is said that they are
not."""


def refined(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    """`details` with what may deceive a reader, and all programs of a command as the policy sees
    them; everything in it encodes to JSON. Raises what msgspec raises where that cannot be."""
    warned = _warned(details, call, entry)
    try:
        msgspec.json.encode(warned)
    except UnicodeEncodeError:
        return msgspec.convert(plain(warned), type(warned))
    return warned


def _warned(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    match details:
        case ExecConfirmation():
            return _command(details) if is_shell(call.asked(entry)) else details
        case EditConfirmation():
            warnings = (*details.warnings, *_of_change(details))
            return msgspec.structs.replace(details, warnings=warnings)
        case InfoConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_of_words(details)))
        case McpConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_of_server(details)))
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return details
        case _:
            assert_never(details)


def in_words(call: TrackedCall, entry: RegisteredTool) -> ConfirmationDetails:
    """What to show of a call that its tool has no words for."""
    shown = entry.tool.display_name
    if entry.server is None:
        prompt = call.description or entry.tool.name
        return InfoConfirmation(title=f"Run {shown}?", prompt=prompt)
    return McpConfirmation(
        title="Confirm MCP Tool Execution",
        server_name=entry.server,
        tool_name=entry.tool.name,
        tool_display_name=shown,
        tool_args=call.params,
        tool_description=entry.tool.description,
        tool_parameter_schema=entry.tool.parameter_schema,
    )


def holds_alone(details: ConfirmationDetails) -> bool:
    """Whether an answer to this can never hold for another call: questions to a person, plans, and
    what may deceive a reader. Auto-edit mode is none that a change could lead to by deceit."""
    if isinstance(details, ExecConfirmation | InfoConfirmation | McpConfirmation):
        return bool(details.warnings)
    return isinstance(details, AskUserConfirmation | ExitPlanModeConfirmation)


def _command(details: ExecConfirmation) -> ExecConfirmation:
    from alhena.policy.bash.reader import analyse
    from alhena.policy.bash.suggest import root_commands
    from alhena.suspicious_text import suspicious

    # What cannot be read at all is named by how it begins.
    roots = root_commands(analyse(details.command)) or tuple(details.command.split(None, 1)[:1])
    return msgspec.structs.replace(
        details,
        root_command=", ".join(roots),
        root_commands=roots,
        warnings=suspicious(details.command, roots),
    )


def _of_change(details: EditConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    yield from (f"the path {each}" for each in suspicious(details.file_path))
    known = frozenset((details.original_content or "").split("\n"))
    lines = details.new_content.split("\n")
    odd = [
        line if not (line.isascii() and line.isprintable()) and line not in known else ""
        for line in lines
    ]
    text = "\n".join(odd)
    if len(text) - len(lines) > LOOKED_AT:
        yield f"only the first {LOOKED_AT:,} characters of unusual lines were looked at"
        kept = LOOKED_AT + len(lines)
        text = text[:kept]
    yield from (f"the new content {each}" for each in hidden(text))


def _of_words(details: InfoConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    yield from (f"the text {each}" for each in hidden(details.prompt))
    for url in details.urls:
        yield from (f"a URL {each}" for each in suspicious(url))


def _of_server(details: McpConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    for what, name in (("server", details.server_name), ("tool", details.tool_display_name)):
        yield from (f"the name of the {what} {each}" for each in suspicious(name))
    for text in _texts(plain(details.tool_args)):
        yield from (f"an argument {each}" for each in hidden(text))
    yield from (f"the description {each}" for each in hidden(details.tool_description))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in cast("dict[str, Any]", value).items():
                yield from _texts(key)
                yield from _texts(item)
        case list():
            for item in cast("list[Any]", value):
                yield from _texts(item)
        case _:
            return
