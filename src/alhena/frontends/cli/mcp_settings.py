"""`alhena mcp add|remove|enable|disable`: what the settings say of servers."""

import os
import re
from pathlib import Path
from typing import Any, cast

from alhena.agent.toolset.mcp import turn
from alhena.config.accepted import folder_key
from alhena.config.documents import settings_document
from alhena.config.home import user_settings_path, workspace_settings_path
from alhena.config.jsonc import with_value, without_value
from alhena.config.mcp_servers import EVERY
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.cli.mcp_arguments import Added, parse_add, scope_of
from alhena.frontends.files import change_json
from alhena.frontends.here import place_here
from alhena.frontends.streams import write_stdout
from alhena.frontends.trusting import accept, forget_accepted
from alhena.system.workspace import current_directory, is_within

UNCHANGED = "the settings are as they were"
SERVERS = "mcpServers"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


def add(argv: list[str]) -> int:
    """Carries out `alhena mcp add ARGV`."""
    wanted = parse_add(argv)
    _require_name(wanted.name)
    file = _settings_file(wanted.scope)
    known = _entries(file)
    entry = _entry(wanted)
    change_json(file, lambda text: with_value(text, (SERVERS, wanted.name), entry), UNCHANGED)
    done = "updated in" if wanted.name in known else "added to"
    _say(f"MCP server {wanted.name!r} {done} the {wanted.scope} settings ({wanted.transport}).")
    if wanted.scope == "project":
        place = place_here(told=False)
        # Whoever has written it down here has seen it.
        accept(place, [each for each in place.pending if each.path == (SERVERS, wanted.name)])
        if not place.trust.trusted:
            _say(
                "This folder is not trusted, so that it is not used yet. To trust it: alhena trust"
            )
    return 0


def remove(argv: list[str]) -> int:
    """Carries out `alhena mcp remove ARGV`."""
    name, scope = scope_of("remove", argv)
    scopes = ("project", "user") if scope is None else (scope,)
    files = {each: _settings_file(each, writing=scope is not None) for each in scopes}
    having = [each for each, file in files.items() if name in _entries(file)]
    if not having:
        raise InputError(
            f"there is no MCP server {name!r} in the {' or '.join(scopes)} settings.",
            remedy="See alhena mcp list.",
        )
    if len(having) > 1:
        raise UsageError(
            f"the MCP server {name!r} is in the project and in the user settings.",
            remedy="Say which is meant: --scope project or --scope user.",
        )
    file = files[having[0]]
    change_json(file, lambda text: without_value(text, (SERVERS, name)), UNCHANGED)
    _say(f"MCP server {name!r} removed from the {having[0]} settings.")
    if having[0] == "project":
        root, entry = folder_key(current_directory()), f"{SERVERS}.{name}"
        forget_accepted(os.environ, lambda folder, key: (folder, key) == (root, entry))
    return 0


def enable(argv: list[str]) -> int:
    """Carries out `alhena mcp enable ARGV`."""
    return _turn(argv, enabled=True)


def disable(argv: list[str]) -> int:
    """Carries out `alhena mcp disable ARGV`."""
    return _turn(argv, enabled=False)


def _turn(argv: list[str], *, enabled: bool) -> int:
    word = "enable" if enabled else "disable"
    if "--session" in argv:
        raise UsageError(
            "--session means a session, of which there is none here.",
            remedy=f"In one it is /mcp {word} NAME --session.",
        )
    name, _ = scope_of(word, argv, scoped=False)
    place = place_here()
    known = list(place.settings.mcp_servers)
    there = name == "mcp" and place.settings.mcp.server_command
    if name not in known and name not in place.held_servers and not there:
        raise InputError(
            f"there is no MCP server {name!r} in the settings.", remedy=_near(name, known)
        )
    turn(place.environ, name, enabled=enabled)
    _say(f"MCP server {name!r} is turned {'on' if enabled else 'off'}.")
    if enabled and name in place.held_servers:
        _say(f"It is held back all the same: {place.held_servers[name]}.")
    if enabled and {name, EVERY} & {*place.settings.mcp.excluded}:
        _say("The setting mcp.excluded names it all the same, so that it is not started.")
    return 0


def _settings_file(scope: str, *, writing: bool = True) -> Path:
    """The file of a scope. Raises UsageError for the project settings of the home directory, which
    are the user's, and InputError where a symlink leads out of the project: whoever wrote that
    chose the file."""
    user = user_settings_path(os.environ)
    if scope == "user":
        return user
    here = current_directory()
    project = workspace_settings_path(here)
    real = os.path.realpath(project)
    if real == os.path.realpath(user):
        if not writing:
            return project
        raise UsageError(
            "the settings of the home directory are the user's.", remedy="Use --scope user."
        )
    if not is_within(real, os.path.realpath(here)):
        raise InputError(
            f"the project settings {project} lead out of the project, to {real}; they were left "
            "alone.",
            remedy="Put a file of the project in place of the symlink, or use --scope user.",
        )
    return project


def _entries(file: Path) -> dict[str, Any]:
    """The servers of a file. Raises ConfigError."""
    document = settings_document(file)
    servers = cast("dict[str, Any]", document).get(SERVERS) if isinstance(document, dict) else None
    return cast("dict[str, Any]", servers) if isinstance(servers, dict) else {}


def _entry(wanted: Added) -> dict[str, Any]:
    """What goes into the settings."""
    where: dict[str, Any]
    if wanted.transport == "stdio":
        where = {"command": wanted.target, "args": list(wanted.args), "env": wanted.env}
    else:
        where = {"url": wanted.target, "type": wanted.transport, "headers": wanted.headers}
    more = {
        "timeout": wanted.timeout,
        "trust": wanted.trust or None,
        "description": wanted.description,
        "includeTools": list(wanted.include_tools),
        "excludeTools": list(wanted.exclude_tools),
    }
    return {key: value for key, value in {**where, **more}.items() if value not in (None, [], {})}


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{one_line(name, 80)!r} is no name for an MCP server.",
            remedy="Use letters, digits, dashes, dots and underscores, at most 63.",
        )


def _near(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else "See alhena mcp list."


def _say(line: str) -> None:
    write_stdout(f"{one_line(line, 1_000)}\n")
