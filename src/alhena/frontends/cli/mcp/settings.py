"""alhena mcp add, remove, enable and disable: the entries of the settings."""

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from alhena.agent.toolset.mcp import turn
from alhena.config.documents import settings_document
from alhena.config.home import path_within, user_settings_path, workspace_settings_path
from alhena.config.jsonc import with_value, without_value
from alhena.config.mcp_servers import EVERY
from alhena.config.pinned_entries import folder_key
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_arguments, split_list
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.files import change_json
from alhena.frontends.shared.folder_trust import accept, forget_accepted
from alhena.frontends.shared.streams import write_stdout
from alhena.near_names import near_name
from alhena.system.workspace import current_directory

SCOPES = ("user", "project")
TRANSPORTS = ("stdio", "sse", "http")
_REMEDY = "See alhena mcp --help."
_OPTIONS = {
    "-s": "scope",
    "--scope": "scope",
    "-t": "transport",
    "--transport": "transport",
    "--type": "transport",
    "-e": "env",
    "--env": "env",
    "-H": "header",
    "--header": "header",
    "--timeout": "timeout",
    "--description": "description",
    "--include-tools": "include_tools",
    "--exclude-tools": "exclude_tools",
}
_FLAGS = {"--trust": "trust", "-d": "debug", "--debug": "debug"}


def _parse_add(argv: list[str]) -> tuple[str, str, dict[str, Any]]:
    """The name, the scope and the entry of `alhena mcp add ARGV`. Raises UsageError, which quotes
    no value of a variable or a header."""
    words, said = _split_options(argv)
    if len(words) < 2:
        raise UsageError("a name and a command, or a URL, are needed.", remedy=_REMEDY)
    name, target, *args = words
    remote = target.startswith(("http://", "https://"))
    transport = _one_of(said, "transport", TRANSPORTS) or ("http" if remote else "stdio")
    if transport != "stdio" and not remote:
        raise UsageError(f"{transport} needs an http(s) URL.", remedy=_REMEDY)
    if not remote and "://" in target:
        scheme = target.partition("://")[0]
        raise UsageError(f"{scheme}:// is no http(s) URL, and no command.", remedy=_REMEDY)
    if transport == "stdio" and remote:
        raise UsageError("a URL is no command.", remedy="Use --transport http or sse.")
    env = dict(_pair(text, "=", "-e NAME=VALUE") for text in said.get("env", ()))
    headers = dict(_pair(text, ":", '-H "NAME: VALUE"') for text in said.get("header", ()))
    if transport == "stdio" and headers:
        raise UsageError("a command has no headers.", remedy="Give it variables with -e.")
    if transport != "stdio" and (env or args):
        raise UsageError("a URL has no arguments and no variables.", remedy="Give headers with -H.")
    entry: dict[str, Any] = {"command": target, "args": args, "env": env}
    if transport != "stdio":
        entry = {"url": target, "type": transport, "headers": headers}
    entry |= {
        "timeout": _milliseconds(_last_value(said, "timeout")),
        "trust": "trust" in said,
        "description": _last_value(said, "description"),
        "includeTools": list(split_list(said.get("include_tools"))),
        "excludeTools": list(split_list(said.get("exclude_tools"))),
    }
    entry = {key: value for key, value in entry.items() if value not in (None, False, [], {})}
    return name, _one_of(said, "scope", SCOPES) or "project", entry


def _split_options(argv: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The words, and what options of ours say."""
    words: list[str] = []
    said: dict[str, list[str]] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if word == "--":
            words += rest
            break
        if word in _FLAGS:
            said.setdefault(_FLAGS[word], [])
        elif word in _OPTIONS:
            if not rest:
                raise UsageError(f"{word} needs a value.", remedy=_REMEDY)
            said.setdefault(_OPTIONS[word], []).append(rest.pop(0))
        elif equals and flag in _OPTIONS and flag.startswith("--"):
            said.setdefault(_OPTIONS[flag], []).append(value)
        elif word.startswith("-") and len(words) < 2:
            raise UsageError(f"unknown option {flag}.", remedy=_REMEDY)
        else:
            words.append(word)
    return words, said


def _last_value(said: dict[str, list[str]], key: str) -> str | None:
    values = said.get(key)
    return values[-1] if values else None


def _one_of(said: dict[str, list[str]], key: str, choices: tuple[str, ...]) -> Any:
    value = _last_value(said, key)
    if value is not None and value not in choices:
        raise UsageError(
            f"--{key} is one of {', '.join(choices)}.",
            remedy="Options of the server's own stand after --.",
        )
    return value


def _pair(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise UsageError(f"one of them is not of the form {form}.", remedy=_REMEDY)
    return name.strip(), value.strip() if sign == ":" else value


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError("--timeout is a number of milliseconds above 0.", remedy=_REMEDY)
    return int(text)


UNCHANGED = "the settings are as they were"
SERVERS = "mcpServers"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


def add(argv: list[str]) -> int:
    """Carries out `alhena mcp add ARGV`."""
    name, scope, entry = _parse_add(argv)
    _require_name(name)
    file = settings_file(scope)
    done = "updated in" if name in entries_of(file) else "added to"
    change_json(file, lambda text: with_value(text, (SERVERS, name), entry), UNCHANGED)
    _say(f"MCP server {name!r} {done} the {scope} settings ({entry.get('type', 'stdio')}).")
    if scope == "project":
        accept_written({name})
    return 0


def accept_written(names: Collection[str]) -> None:
    """Accepts servers of the project settings: whoever wrote them there has seen them. Says so if
    they are not used here."""
    place = place_here(told=False)
    written = {(SERVERS, name) for name in names}
    accept(place, [each for each in place.pending if each.path in written])
    place = place_here(told=False)
    which = "server is" if len(names) == 1 else "servers are"
    if not place.trust.trusted:
        _say(f"This folder is not trusted; the {which} not used. To trust it: alhena trust")
    elif unused := {*names} - {*place.settings.mcp_servers}:
        _say(f"Not used here: {', '.join(sorted(unused))}. To see why: alhena settings check")


def remove(argv: list[str]) -> int:
    """Carries out `alhena mcp remove ARGV`."""
    options = parse_arguments("alhena mcp remove", argv, "NAME -s|--scope=user|project")
    name, scope = options.name, options.scope
    scopes = ("project", "user") if scope is None else (scope,)
    files = {each: settings_file(each, writing=scope is not None) for each in scopes}
    having = [each for each, file in files.items() if name in entries_of(file)]
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
    name: str = parse_arguments(f"alhena mcp {word}", argv, "NAME").name
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


def settings_file(scope: str, *, writing: bool = True) -> Path:
    """The file of a scope. Raises UsageError for the project settings of the home directory, which
    are the user's, and InputError where it is a symlink."""
    user = user_settings_path(os.environ)
    if scope == "user":
        return user
    here = current_directory()
    project = workspace_settings_path(here)
    if os.path.realpath(project) == os.path.realpath(user):
        if not writing:
            return project
        raise UsageError(
            "the settings of the home directory are the user's.", remedy="Use --scope user."
        )
    return path_within(here, project.relative_to(here))


def entries_of(file: Path) -> dict[str, Any]:
    """The servers of a file. Raises ConfigError."""
    document = settings_document(file)
    servers = cast("dict[str, Any]", document).get(SERVERS) if isinstance(document, dict) else None
    return cast("dict[str, Any]", servers) if isinstance(servers, dict) else {}


def _require_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{one_line(name, 80)!r} is no name for an MCP server.",
            remedy="Use letters, digits, dashes, dots and underscores, at most 63.",
        )


def _near(name: str, known: list[str]) -> str:
    near = near_name(name, known)
    return f"Did you mean {near}?" if near else "See alhena mcp list."


def _say(line: str) -> None:
    write_stdout(f"{one_line(line, 1_000)}\n")
