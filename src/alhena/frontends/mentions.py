"""Prompts that name files (@path), resources and prompts of MCP servers.

Where there are no servers, nothing of them is imported.
"""

import os
import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.agent.toolset.workbench import Workbench
    from alhena.mcp.resources import PromptCommand
    from alhena.scheduler.states import CompletedToolCall

HEAD = "\n--- Content from referenced files ---\n"
MAX_SHELL_OUTPUT = 10_000
NAMED = 5

_MENTION = re.compile(r'(?<!\\)(?<![\w@])@(?:"([^"\n]+)"|((?:\\.|[^\s,;!?()\[\]{}"\\])+))')


def mentioned(prompt: str) -> tuple[str, ...]:
    """The paths that a prompt names with an @, in order and each once; backslashes and quotes are
    resolved, a full stop at the end belongs to the sentence."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(prompt):
        quoted, bare = match.groups()
        path = quoted or re.sub(r"\\(.)", r"\1", bare).rstrip(".:")
        if path:
            found[path] = None
    return tuple(found)


def existing(paths: Sequence[str], cwd: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of the paths that are there, and those that are not: the latter stay mere text."""
    there = tuple(path for path in paths if os.path.lexists(cwd / os.path.expanduser(path)))
    return there, tuple(path for path in paths if path not in there)


def missing_words(paths: Sequence[str]) -> str:
    """What is said of paths that are not there."""
    named = ", ".join(f"@{path}" for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    if len(paths) == 1:
        return f"{named}: there is no such file; sent as text."
    return f"{named}{more}: there are no such files; sent as text."


def quoted_path(path: str) -> str:
    """A path as it is written behind an @."""
    return re.sub(r"""([\s,;!?()\[\]{}"\\])""", r"\\\1", path)


def attachment(parts: Sequence[Part]) -> tuple[Part, ...]:
    """What read_many_files answered, as parts of a prompt."""
    texts: list[Part] = []
    media = [part for part in parts if part.function_response is None]
    for part in parts:
        if part.function_response is not None and not media:
            output = part.function_response.response.get("output")
            texts.append(Part(text=str(output)))
    return (Part(text=HEAD), *texts, *media)


def shell_note(command: str, output: str) -> Part:
    """What the model is told of a command that the person ran."""
    if len(output) > MAX_SHELL_OUTPUT:
        output = output[:MAX_SHELL_OUTPUT] + "\n... (truncated)"
    return Part(
        text=f"I ran the following shell command:\n```sh\n{command}\n```\n\n"
        f"This produced the following result:\n```\n{output}\n```"
    )


CallTool = Callable[[str, Mapping[str, object]], Awaitable["CompletedToolCall | None"]]
"""Calls a tool as a person would have it; None when it was interrupted."""


async def referenced(
    text: str, bench: "Workbench", call: CallTool, warn: Callable[[str], None]
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


def resources_among(bench: "Workbench", words: Sequence[str]) -> tuple[str, ...]:
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


def server_prompts(bench: "Workbench", own: Container[str] = ()) -> "dict[str, PromptCommand]":
    """The prompts of the servers that are connected, by the names of their commands. Of a server
    that the policy denies there are none. `own` are names of other commands."""
    if bench.servers is None:
        return {}
    from alhena.agent.toolset.mcp import refuses_server
    from alhena.mcp.resources import prompt_commands

    servers = [
        each for each in bench.servers.servers.values() if not refuses_server(bench, each.name)
    ]
    return prompt_commands(servers, own.__contains__)


async def filled_prompt(command: "PromptCommand", rest: str) -> tuple[str, tuple[Part, ...]]:
    """The text of a prompt with the arguments in `rest`, and what goes with it. Raises InputError
    and McpError."""
    from alhena.mcp.resources import filled_in

    parts = await filled_in(command, rest)
    text = "\n\n".join(part.text for part in parts if part.text)
    return text, tuple(part for part in parts if not part.text)
