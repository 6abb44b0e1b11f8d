"""`alhena agents`: lists the agents that get tasks, shows, checks and begins definitions."""

import os
import shlex
from pathlib import Path
from typing import Any

from msgspec.json import encode

from alhena.agent.subagents import AgentDefinition, builtin_agents
from alhena.agent.subagents.files import (
    AgentFiles,
    FoundAgent,
    content,
    impossible_tools,
    parse_agents,
)
from alhena.agent.subagents.remote import RemoteAgent
from alhena.config.environment import own_environment
from alhena.config.home import config_home, path_within
from alhena.display_text import one_line
from alhena.errors import AlhenaError, InputError, UsageError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here, tell
from alhena.frontends.shared.listings import Listing, agent_files, agent_row, print_listing
from alhena.frontends.shared.streams import write_json, write_stdout
from alhena.tools.registry import is_declarable

USAGE = """\
usage: alhena agents list [--json] [--skip-trust]
       alhena agents show NAME [--json] [--skip-trust]
       alhena agents validate FILE
       alhena agents new NAME [--scope user|workspace]
       alhena agents auth NAME [--logout]

Subagents work on tasks of the model in conversations of their own. They are defined in
agents/*.toml and agents/*.md of ~/.gemini, and of .gemini in this folder if it is trusted and you
accepted them (alhena trust).

list, show: the agents with their files, and why some are not used.

validate: checks a file; exit code 1 if it cannot be used.

new: writes an example definition; overwrites nothing.

auth: signs in to a remote agent whose auth has the type oauth, in a browser.

options:
  --logout       delete the sign-in
  --scope        workspace: in .gemini of this folder
  --skip-trust   treat this folder as trusted
  --json         print JSON
"""
_NEW = '''\
name = "{name}"
description = "Says what it does, and when to give it a task: the model reads this."
tools = ["read_file", "list_directory", "glob", "search_file_content"]  # or ["*"]

[prompts]
system_prompt = """
You ...
"""

[run]
max_turns = 30
timeout_mins = 10
'''
_ARGUMENTS = {
    "list": "--json --skip-trust",
    "show": "NAME --json --skip-trust",
    "validate": "FILE",
    "new": "NAME --scope=user|workspace",
    "auth": "NAME --logout --skip-trust",
}


def run(argv: list[str]) -> int:
    """Carries out `alhena agents ARGV`; returns the exit code."""
    options = parse_command("alhena agents", argv, _ARGUMENTS)
    if options.command == "validate":
        return _validate(Path(options.file))
    if options.command == "new":
        return _new(options.name, options.scope)
    if options.command == "auth" and options.logout:
        return _sign_out(options.name)
    place = place_here(skip_trust=options.skip_trust)
    files = agent_files(place)
    if options.command == "auth":
        return _sign_in(options.name, files)
    if options.command == "show":
        return _show(options.name, files, as_json=options.json)
    tell((*files.problems, *files.notes, *([place.notice] if place.notice else [])))
    rows = (
        *map(agent_row, builtin_agents()),
        *(agent_row(each.definition, each) for each in files.found),
    )
    return print_listing(Listing(noun="agent", rows=rows), as_json=options.json)


def _sign_in(name: str, files: AgentFiles) -> int:
    import asyncio

    from alhena.agent.subagents.sign_in import sign_in
    from alhena.frontends.cli.auth import TerminalPerson

    remote = {each.name: each.definition for each in files.usable}
    agent = remote.get(name)
    if not isinstance(agent, RemoteAgent):
        remedy = "`alhena agents list` names them."
        raise UsageError(f"there is no remote agent {name!r}.", remedy=remedy)
    asyncio.run(sign_in(agent, TerminalPerson(), own_environment(os.environ)))
    write_stdout(f"Signed in to {one_line(name)}.\n")
    return 0


def _sign_out(name: str) -> int:
    import asyncio

    from alhena.agent.subagents.credentials import token_file

    there = asyncio.run(token_file(os.environ).forget(name))
    name = one_line(name)
    write_stdout(f"Signed out of {name}.\n" if there else f"You are not signed in to {name}.\n")
    return 0


def _show(name: str, files: AgentFiles, *, as_json: bool) -> int:
    found: list[FoundAgent | AgentDefinition] = [
        *(each for each in files.found if each.name == name),
        *(each for each in builtin_agents() if each.name == name),
    ]
    if not found:
        known = [each.name for each in (*files.found, *builtin_agents())]
        raise UsageError(f"there is no agent {name!r}.", remedy=f"There are: {', '.join(known)}.")
    first = found[0]
    agent = first.definition if isinstance(first, FoundAgent) else first
    facts = _facts(agent)
    if isinstance(first, FoundAgent):
        facts |= {"file": str(first.path)} | ({"not used": first.unused} if first.unused else {})
    if as_json:
        write_json(facts)
        return 0
    prompt = facts.pop("system_prompt", "")
    for key, value in facts.items():
        write_stdout(f"{key}: {value if isinstance(value, str) else encode(value).decode()}\n")
    if prompt:
        write_stdout(f"\n{prompt.strip()}\n")
    return 0


def _facts(agent: AgentDefinition | RemoteAgent) -> dict[str, Any]:
    if isinstance(agent, RemoteAgent):
        return {"name": agent.name, "description": agent.description, "card": agent.card}
    return {
        "name": agent.name,
        "description": agent.description,
        "tools": list(agent.tools),
        "model": agent.model or "that of the session",
        "temperature": agent.temperature,
        "max_turns": agent.max_turns,
        "timeout_mins": agent.time_limit_s / 60,
        "output": agent.result_schema,
        **({"mcp_servers": servers} if (servers := server_lines(agent)) else {}),
        "system_prompt": agent.system_prompt,
    }


def server_lines(agent: AgentDefinition | RemoteAgent) -> list[str]:
    """The MCP servers of an agent, each with its command line or URL, for people."""
    if not isinstance(agent, AgentDefinition) or not agent.mcp_servers:
        return []
    return [f"{name}: {_command_line(each)}" for name, each in agent.mcp_servers.items()]


def _command_line(entry: dict[str, Any]) -> str:
    """The command line of a server's entry, or its URL."""
    words = [entry.get("command"), *(entry.get("args") or ())]
    if words[0]:
        return shlex.join(map(str, words))
    return str(entry.get("httpUrl") or entry.get("url") or "")


def _validate(path: Path) -> int:
    where = one_line(str(path))
    try:
        agents, warnings = parse_agents(path, content(path)[0])
    except AlhenaError as error:
        raise InputError(f"{where}: {error.message.rstrip('.')}.") from error
    tell([f"{where} {each}." for each in warnings])
    tell([f"{each}." for each in map(impossible_tools, agents) if each])
    names = ", ".join(agent.name for agent in agents)
    write_stdout(f"{where} is valid: {names}.\n")
    return 0


def _new(name: str, scope: str | None) -> int:
    if not is_declarable(name):
        raise UsageError(f"{name!r} is no name of an agent.", remedy="Use a-z, 0-9, - and _.")
    path = config_home(os.environ) / "agents" / f"{name}.toml"
    if scope == "workspace":
        path = path_within(Path.cwd(), f".gemini/agents/{name}.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(_NEW.format(name=name))
    except FileExistsError as error:
        raise InputError(f"{path} exists.", remedy="Choose another name, or edit it.") from error
    write_stdout(f"{path} is written. Change it, then run `alhena agents validate {path}`.\n")
    return 0
