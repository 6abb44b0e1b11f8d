"""Prompts of MCP servers as commands, at the terminal and in `-p`.

Where there are no servers, nothing of them is imported.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from alhena.agent.workbench import Workbench
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.mcp.prompts import PromptCommand


def server_prompts(bench: Workbench, own: Container[str] = ()) -> "dict[str, PromptCommand]":
    """The prompts of the servers that are connected, by the names of their commands. Of a server
    that the policy denies there are none. `own` are names of other commands."""
    if bench.servers is None:
        return {}
    from alhena.agent.session_resources import refuses_server
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
