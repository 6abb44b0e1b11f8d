"""What MCP servers bring to the input line: their prompts as commands, resources behind an @.

Where there are no servers, nothing of them is imported.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alhena.agent.workbench import Workbench
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.mcp.prompts import PromptCommand


def server_prompts(bench: Workbench) -> "dict[str, PromptCommand]":
    """The prompts of the servers that are connected, by the names of their commands. Of a server
    that the policy denies there are none."""
    if bench.servers is None:
        return {}
    from alhena.agent.session_resources import refuses_server
    from alhena.frontends.terminal.commands import COMMANDS
    from alhena.mcp.prompts import prompt_commands

    own = {name for each in COMMANDS for name in (each.name, *each.aliases)}
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
