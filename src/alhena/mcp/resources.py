"""Resources and prompts of servers: tools that list and read resources, and prompts as commands."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from alhena.display_text import escaped, exact
from alhena.errors import InputError
from alhena.mcp.connection import ListedPrompt, ListedResource, McpError
from alhena.mcp.server import Server
from alhena.mcp.tool import MAX_MEDIA, content_of, is_base64
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed_result
from alhena.tools.contract import (
    ExecutionContext,
    LlmContent,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.registry import READ_RESOURCE
from alhena.wire.content import Blob, Part, takes_media
from alhena.wire.json_values import as_array, as_object

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ANYTHING = {"+": ".+", "#": ".*", "?": ".*", "&": ".*", "/": ".*", ";": ".*", ".": ".*"}
"""The patterns for expressions of templates with these operators."""

NO_CONTENT = "No content returned from resource."


class FoundResource(msgspec.Struct, frozen=True):
    """A resource: its server and its URI."""

    server: Server
    uri: str


def offers_resources(servers: Mapping[str, Server]) -> bool:
    """True while one of the servers has resources, or templates of them."""
    return any(each.offer.resources or each.offer.templates for each in servers.values())


def find(servers: Mapping[str, Server], reference: str) -> FoundResource | None:
    """Resolves `server:uri`, a URI that a server lists, or one that fits the templates of a single
    server; None if none matches.

    With an explicit server any URI may be read, even an unlisted one: templates cover many.
    """
    named = [name for name in servers if reference.startswith(f"{name}:")]
    name = max(named, key=len, default=None)
    uri = "" if name is None else reference[len(name) + 1 :].strip()
    of_named = FoundResource(servers[name], uri) if name is not None and uri else None
    if of_named is not None and ":" in uri.partition("/")[0]:
        return of_named  # a server cannot claim a reference to another server
    for server in servers.values():
        if any(each.uri == reference for each in server.offer.resources):
            return FoundResource(server, reference)
    fitting = [
        server
        for server in servers.values()
        if any(_fits(each.uri, reference) for each in server.offer.templates)
    ]
    if of_named is None and len(fitting) == 1:
        return FoundResource(fitting[0], reference)
    return of_named


def _fits(template: str, uri: str) -> bool:
    """True for a URI that a template (RFC 6570) may give, if that says at least the scheme."""
    if _SCHEME.match(template) is None:
        return False
    pieces = _EXPRESSION.split(template)
    pattern = "".join(
        re.escape(piece) if at % 2 == 0 else _ANYTHING.get(piece[:1], "[^/?#]+")
        for at, piece in enumerate(pieces)
    )
    return re.fullmatch(pattern, uri) is not None


def list_resources(servers: Iterable[Server]) -> list[tuple[Server, ListedResource]]:
    """All resources, by server, and behind them the templates."""
    return [
        (server, each)
        for server in servers
        for each in (*server.offer.resources, *server.offer.templates)
    ]


async def read(found: FoundResource) -> LlmContent | ToolFailure:
    """Reads a resource: text as it is, supported media as parts, and the type of other data."""
    try:
        result = await found.server.read_resource(found.uri)
    except McpError as error:
        return ToolFailure(f"Failed to read resource: {error}", ToolErrorType.MCP_TOOL_ERROR)
    items = as_array(result.get("contents")) or []
    pieces = [piece for item in items if (piece := _piece(as_object(item) or {})) is not None]
    if not pieces:
        return NO_CONTENT
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(f"{piece}\n" for piece in pieces)
    return tuple(Part(text=piece) if isinstance(piece, str) else piece for piece in pieces)


def _piece(content: dict[str, Any]) -> str | Part | None:
    text: object = content.get("text")
    if isinstance(text, str):
        return text
    blob: object = content.get("blob")
    if not isinstance(blob, str):
        return None
    mime: object = content.get("mimeType")
    kind = mime if isinstance(mime, str) and mime else "application/octet-stream"
    if kind.startswith("text/") or len(blob) > MAX_MEDIA or not is_base64(blob):
        return f"[Binary Data ({kind})]"
    from alhena.tools.media import correct_blob

    found = correct_blob(Blob(mime_type=kind, data=blob))
    if isinstance(found, str):
        return f"[Binary Data ({kind}): {found}]"
    return Part(inline_data=found) if takes_media(found.mime_type) else f"[Binary Data ({kind})]"


class ListMcpResources(DeclarativeTool):
    """Lists the resources of `servers`."""

    name = "list_mcp_resources"

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _ListResources(params, self._servers)


class _ListResources(BaseInvocation):
    def __init__(self, params: dict[str, Any], servers: Mapping[str, Server]) -> None:
        super().__init__(params)
        self._servers = servers

    def describe(self) -> str:
        """Describes the call to people in one line."""
        only = self.params.get("serverName")
        return f"List the MCP resources of {only}" if only else "List all MCP resources"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Lists one resource per line."""
        del context
        only = self.params.get("serverName")
        servers = [each for each in self._servers.values() if only in (None, "", each.name)]
        lines = [
            "- "
            + " | ".join(
                filter(
                    None,
                    (
                        escaped(f"{server.name}:{each.uri}"),
                        escaped(each.title or each.name),
                        " ".join(exact(each.description).split()),
                    ),
                )
            )
            for server, each in list_resources(servers)
        ]
        if not lines:
            told = f"No resources found for server: {only}" if only else "No MCP resources found."
            return ToolResult(llm_content=told, display=told)
        text = "Available MCP Resources:\n" + "\n".join(lines) + "\n"
        return ToolResult(llm_content=text, display=f"Listed {len(lines)} resources.")


class ReadMcpResource(DeclarativeTool):
    """Reads a resource of `servers`."""

    name = READ_RESOURCE

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _ReadResource(params, find(self._servers, params["uri"]))

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a listed resource, or at least an existing server."""
        if find(self._servers, params["uri"]) is None:
            return ToolFailure(
                f"Resource not found for URI: {params['uri']}",
                ToolErrorType.MCP_RESOURCE_NOT_FOUND,
            )
        return None


class _ReadResource(BaseInvocation):
    def __init__(self, params: dict[str, Any], found: FoundResource | None) -> None:
        super().__init__(params)
        self._found = found

    def describe(self) -> str:
        """Describes the call to people in one line."""
        return f"Read the MCP resource {self.params['uri']}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the contents."""
        del context
        uri: str = self.params["uri"]
        if self._found is None:
            message = f"Resource not found for URI: {uri}"
            return ToolResult.from_failure(message, ToolErrorType.MCP_RESOURCE_NOT_FOUND)
        content = await read(self._found)
        if isinstance(content, ToolFailure):
            return failed_result(content)
        return ToolResult(llm_content=content, display=f"Read resource {uri}.")


class PromptCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that can be called by a command name."""

    name: str
    server: Server
    prompt: ListedPrompt


def prompt_commands(
    servers: Iterable[Server], taken: Callable[[str], bool]
) -> dict[str, PromptCommand]:
    """Maps command names to the prompts of all servers: blanks become dashes; a name that is taken
    gets the server's name as a prefix."""
    found: dict[str, PromptCommand] = {}
    for server in servers:
        for prompt in server.offer.prompts:
            name = "-".join(escaped(prompt.name).split())
            if name in found or taken(name):
                name = f"{server.name}.{name}"
            if name not in found and not taken(name):
                found[name] = PromptCommand(name=name, server=server, prompt=prompt)
    return found


def prompt_arguments(prompt: ListedPrompt, text: str) -> dict[str, str]:
    """Parses the arguments of a command: `--name=value`, `--name="two words"`, and positional ones.
    Extra words belong to the last required argument.

    Raises InputError for unclosed quotes, unknown names, and missing required arguments.
    """
    known = [each.name for each in prompt.arguments]
    given: dict[str, str] = {}
    loose: list[str] = []
    for word in _words(text):
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and name:
            if name not in known:
                raise InputError(
                    f"the prompt {prompt.name} has no argument --{name}.",
                    remedy=f"It has: {', '.join(known) or 'none'}.",
                )
            given[name] = value
        else:
            loose.append(word)
    open_names = [name for name in known if name not in given]
    required = [each.name for each in prompt.arguments if each.required and each.name in open_names]
    if len(required) == 1 and loose:
        given[required[0]] = " ".join(loose)
    else:
        given |= dict(zip(open_names, loose, strict=False))
        if len(loose) > len(open_names) and open_names:
            given[open_names[-1]] = " ".join(loose[len(open_names) - 1 :])
    missing = [
        f"--{each.name}" for each in prompt.arguments if each.required and each.name not in given
    ]
    if missing:
        raise InputError(
            f"Missing required argument(s): {', '.join(missing)}", remedy=usage(prompt)
        )
    return given


def usage(prompt: ListedPrompt) -> str:
    """Describes the arguments of a prompt."""
    shown = (f'--{each.name}="…"' for each in prompt.arguments)
    return f"Give it as {' '.join(shown)}." if prompt.arguments else "It takes no arguments."


async def fetch_prompt(command: PromptCommand, text: str) -> tuple[Part, ...]:
    """Fetches a prompt with the arguments in `text`. Raises InputError and McpError."""
    arguments = prompt_arguments(command.prompt, text)
    result = await command.server.get_prompt(command.prompt.name, arguments)
    return prompt_parts(command.prompt.name, result)


def prompt_parts(name: str, result: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of all messages of a prompt, in order."""
    parts: list[Part] = []
    for item in as_array(result.get("messages")) or []:
        message = as_object(item) or {}
        content = message.get("content")
        blocks = as_array(content) or [content]
        made = content_of(name, {"content": blocks})
        pieces = (made,) if isinstance(made, str | Part) else made
        for piece in pieces:
            part = Part(text=piece) if isinstance(piece, str) else piece
            if part.text is None or part.text:
                parts.append(part)
    return tuple(parts)


def _words(text: str) -> list[str]:
    """Splits a line into words with shell quoting. Raises InputError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(
            f"the arguments cannot be read: {str(error).lower()}.",
            remedy="Close the quote, or put a backslash before it.",
        ) from error
