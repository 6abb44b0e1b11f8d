"""The files and resources that a prompt names, and prompts of MCP servers.

Where there are no servers, nothing of them is imported.
"""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

from alhena.agent.toolset.workbench import Workbench
from alhena.frontends.mentions import attachment, existing, mentioned, missing_words
from alhena.scheduler.states import CompletedToolCall
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.mcp.prompts import PromptCommand

CallTool = Callable[[str, Mapping[str, object]], Awaitable[CompletedToolCall | None]]
"""Calls a tool as a person would have it; None when it was interrupted."""


async def referenced(
    text: str, bench: Workbench, call: CallTool, warn: Callable[[str], None]
) -> tuple[Part, ...]:
    """What is sent with a prompt for its @paths. `warn` is told of those that are not there, which
    stay mere text."""
    words = mentioned(text)
    resources = resources_among(bench, words)
    others = [word for word in words if word not in resources]
    paths, missing = existing(others, bench.workspace.cwd)
    if missing:
        warn(missing_words(missing))
    attached: list[Part] = []
    for uri in resources:
        read = await call("read_mcp_resource", {"uri": uri})
        if read is not None and not read.response.error:
            attached += resource_attachment(uri, read.response.response_parts)
    if not paths:
        return tuple(attached)
    done = await call("read_many_files", {"paths": list(paths)})
    if done is not None and not done.response.error:
        attached += attachment(done.response.response_parts)
    return tuple(attached)


def resources_among(bench: Workbench, words: Sequence[str]) -> tuple[str, ...]:
    """Those of the words behind an @ that mean resources of servers."""
    if bench.servers is None:
        return ()
    from alhena.mcp.resources import find

    servers = bench.servers.servers
    return tuple(word for word in words if ":" in word and find(servers, word) is not None)


def resource_attachment(uri: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """What read_mcp_resource answered, as parts of a prompt."""
    pieces: list[Part] = []
    for part in parts:
        if part.function_response is None:
            pieces.append(part)
        elif len(parts) == 1:
            pieces.append(Part(text=str(part.function_response.response.get("output", ""))))
    return (Part(text=f"\nContent from @{uri}:\n"), *pieces)


def server_prompts(bench: Workbench, own: Container[str] = ()) -> "dict[str, PromptCommand]":
    """The prompts of the servers that are connected, by the names of their commands. Of a server
    that the policy denies there are none. `own` are names of other commands."""
    if bench.servers is None:
        return {}
    from alhena.agent.toolset.mcp import refuses_server
    from alhena.mcp.prompts import prompt_commands

    servers = [
        each for each in bench.servers.servers.values() if not refuses_server(bench, each.name)
    ]
    return prompt_commands(servers, own.__contains__)


async def filled_prompt(command: "PromptCommand", rest: str) -> tuple[str, tuple[Part, ...]]:
    """The text of a prompt with the arguments in `rest`, and what goes with it. Raises InputError
    and McpError."""
    from alhena.mcp.prompts import filled_in

    parts = await filled_in(command, rest)
    text = "\n\n".join(part.text for part in parts if part.text)
    return text, tuple(part for part in parts if not part.text)
