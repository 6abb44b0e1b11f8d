"""`alhena mcp import`: adds MCP servers that the files of other tools define."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import parse_settings, read_limited
from alhena.config.environment import REDACTED, has_secret_name, has_secret_value, without_secrets
from alhena.config.home import config_home
from alhena.config.jsonc import with_value
from alhena.config.mcp_servers import McpServer, harmless_url, harmless_words, server_of
from alhena.display_text import one_line
from alhena.errors import ConfigError, InputError, UsageError
from alhena.frontends.cli.mcp.settings import (
    SERVERS,
    UNCHANGED,
    accept_written,
    entries_of,
    settings_file,
)
from alhena.frontends.shared.arguments import parse_arguments
from alhena.frontends.shared.files import change_json
from alhena.frontends.shared.streams import write_stderr, write_stdout
from alhena.system.workspace import current_directory, is_within

MAX_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a file. Claude Code keeps its whole state in the file with its servers."""
MAX_LINE = 4_000
_OF_FOLDER = (".mcp.json", ".agents/mcp_config.json", ".vscode/mcp.json")
_OF_GEMINI = "config/mcp_config.json"
_OF_HOME = (".codex/config.toml", ".claude.json")

_SAME = frozenset({"command", "args", "env", "cwd", "url", "httpUrl", "headers", "type", "timeout"})
_SAME_TOO = frozenset({"description", "includeTools", "excludeTools", "oauth"})
_RENAMED = {
    "serverUrl": "url",
    "http_headers": "headers",
    "enabled_tools": "includeTools",
    "enabledTools": "includeTools",
    "disabled_tools": "excludeTools",
    "disabledTools": "excludeTools",
}
_SWITCHES = frozenset({"disabled", "enabled"})
_OF_EDITOR = re.compile(r"\$\{(?:input:[^{}]*|workspaceFolder[^{}]*|userHome)\}")
_ENV = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_REFERENCE = re.compile(r"(?:(?:Bearer|Basic|token) )?\$(?:[A-Za-z_]\w*|\{[\w:.-]+\})")


class ForeignServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a file, as an entry of `mcpServers`. `scope` is the settings that it is for by
    its origin; `off`: its file turns it off; `problem`: the reason why it cannot be used; `notes`
    are for the person."""

    name: str
    source: str
    scope: str
    entry: dict[str, Any]
    off: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()


def import_servers(argv: list[str]) -> int:
    """Carries out `alhena mcp import ARGV`; returns the exit code."""
    options = parse_arguments(
        "alhena mcp import", argv, "[NAME…] --all --dry-run -s|--scope=user|project"
    )
    file, names = _file_and_names(list(options.name), everything=options.all)
    if options.all and names:
        raise UsageError("--all takes no names of servers.", remedy="Leave out one of them.")
    found = list(_read_servers(file) if file else _read_all())
    for each in found:
        write_stdout(_found_text(each, options.scope))
    where = str(file) if file else "the six places"
    if not found:
        write_stdout(f"There are no MCP servers in {one_line(where)}.\n")
    chosen = _choose(found, names, where)
    if options.dry_run or not (options.all or names):
        if found:
            write_stdout(
                "Nothing was added. To add them: alhena mcp import --all, or their names.\n"
            )
        return 0
    _add(chosen, options.scope)
    return 0


def _file_and_names(words: list[str], *, everything: bool) -> tuple[Path | None, list[str]]:
    """The first word is a file if it looks like one or is one, or no names are wanted."""
    if not words:
        return None, []
    first = words[0]
    named = os.sep in first or first.endswith((".json", ".jsonc", ".toml"))
    if everything or named or os.path.isfile(first):
        return Path(os.path.abspath(os.path.expanduser(first))), words[1:]
    return None, words


def _read_all() -> Iterator[ForeignServer]:
    """The servers of the six places. A file that cannot be used is named on stderr."""
    own = config_home(os.environ)
    home = Path(os.environ.get("HOME") or own.parent)
    here = current_directory()
    places = [(here / name, name, _scope_of(here / name)) for name in _OF_FOLDER]
    places.append((own / _OF_GEMINI, f"~/.gemini/{_OF_GEMINI}", "user"))
    places += [(home / name, f"~/{name}", "user") for name in _OF_HOME]
    for path, shown, scope in places:
        try:
            yield from _read(path, shown, scope)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ConfigError, OSError) as error:
            why = getattr(error, "strerror", None) or error
            write_stderr(f"alhena: warning: {shown} is not read: {one_line(str(why))}\n")


def _read_servers(path: Path) -> Iterator[ForeignServer]:
    try:
        yield from _read(path, str(path), _scope_of(path))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}.", remedy="Name another file."
        ) from error


def _scope_of(path: Path) -> str:
    """The settings that the servers of a file are for: the project's if it is in this folder."""
    here = current_directory()
    if here == config_home(os.environ).parent or not is_within(str(path), str(here)):
        return "user"
    return "project"


def _read(path: Path, shown: str, scope: str) -> Iterator[ForeignServer]:
    """The servers of a file. Raises OSError and ConfigError."""
    data = read_limited(path, MAX_BYTES)
    if not data.strip():
        return
    document = _toml(path, data) if path.suffix == ".toml" else parse_settings(path, data)
    for label, servers in _tables(document):
        for name, members in servers.items():
            yield _server(name, members, f"{shown}{label}", scope)


def _toml(path: Path, data: bytes) -> Any:
    try:
        found = tomllib.loads(data.decode("utf-8-sig"))
        return msgspec.json.decode(msgspec.json.encode(found))  # dates become texts
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        place = re.search(r"at line \d+", str(error))
        raise ConfigError(
            f"{path} is not valid TOML{f' ({place[0]})' if place else ''}.", remedy="Correct it."
        ) from error


def _tables(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of servers in a document: of most tools, of Codex, of VS Code, and Claude Code's
    for this folder."""
    top = _table(document)
    for key in ("mcpServers", "mcp_servers", "servers"):
        yield "", _table(top.get(key))
    project = _table(top.get("projects")).get(str(current_directory()))
    yield " (this folder)", _table(_table(project).get("mcpServers"))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _server(name: str, members: Any, source: str, scope: str) -> ForeignServer:
    if not isinstance(members, dict):
        return ForeignServer(
            name=name, source=source, scope=scope, entry={}, problem="it is no object"
        )
    given = cast("dict[str, Any]", members)
    entry, notes = _convert_entry(given)
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:63]
    if plain != name:
        notes.append(f"its name there is {name!r}")
    made = server_of(plain, entry)
    return ForeignServer(
        name=plain,
        source=source,
        scope=scope,
        entry=entry,
        off=given.get("disabled") is True or given.get("enabled") is False,
        problem=made.removeprefix("settings: ") if isinstance(made, str) else "",
        notes=tuple(notes),
    )


def _convert_entry(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The entry of `mcpServers` for another tool's, and notes on what differs."""
    entry: dict[str, Any] = {}
    left_out: list[str] = []
    for key, value in given.items():
        if key in _SAME or key in _SAME_TOO:
            entry[key] = value
        elif key in _RENAMED:
            entry[_RENAMED[key]] = value
        elif key == "tool_timeout_sec" and isinstance(value, int | float):
            entry["timeout"] = round(value * 1000)
        elif key not in (*_SWITCHES, *_CODEX):
            left_out.append(key)
    for key, put in _CODEX.items():
        if key in given:
            put(entry, given[key])
    if entry.get("type") == "local":
        del entry["type"]
    notes = [f"left out: {', '.join(left_out)}"] if left_out else []
    changed = _without_env_prefix(entry)
    if changed != entry:
        notes.append("${env:NAME} is written ${NAME}")
    asked = sorted(set(_OF_EDITOR.findall(msgspec.json.encode(changed).decode("utf-8"))))
    if asked:
        notes.append(f"only an editor fills in {', '.join(asked)}: put a value or $VARIABLE there")
    return changed, notes


def _put_bearer(entry: dict[str, Any], value: Any) -> None:
    entry.setdefault("headers", {})["Authorization"] = f"Bearer ${{{value}}}"


def _put_headers(entry: dict[str, Any], value: Any) -> None:
    named = {header: f"${{{name}}}" for header, name in _table(value).items()}
    entry["headers"] = {**_table(entry.get("headers")), **named}


def _put_variables(entry: dict[str, Any], value: Any) -> None:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    passed = {each: f"${{{each}}}" for each in listed if isinstance(each, str)}
    entry["env"] = {**passed, **_table(entry.get("env"))}


_CODEX = {
    "bearer_token_env_var": _put_bearer,
    "env_http_headers": _put_headers,
    "env_vars": _put_variables,
}
"""Members of Codex that name variables."""


def _without_env_prefix(value: Any) -> Any:
    if isinstance(value, str):
        return _ENV.sub(r"${\1}", value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {key: _without_env_prefix(each) for key, each in table.items()}
    if isinstance(value, list):
        return [_without_env_prefix(each) for each in cast("list[Any]", value)]
    return value


def _found_text(found: ForeignServer, scope: str | None) -> str:
    """A server in full, but for the values of secrets."""
    lines = [f"{found.name} from {found.source}, for the {scope or found.scope} settings"]
    if found.problem:
        lines.append(f"cannot be used: {found.problem}")
    else:
        lines += _server_lines(cast("McpServer", server_of(found.name, found.entry)))
    lines += found.notes
    if found.off:
        lines.append("turned off there; --all leaves it out")
    first, *rest = (one_line(each, MAX_LINE) for each in lines)
    return "\n".join((first, *(f"    {each}" for each in rest))) + "\n"


def _server_lines(server: McpServer) -> Iterator[str]:
    if server.address is not None:
        yield f"url {harmless_url(server.address)} ({server.transport})"
    else:
        words = harmless_words(server.args)
        yield " ".join(("command", without_secrets(server.command or ""), *words))
        if server.cwd is not None:
            yield f"in {without_secrets(server.cwd)}"
    for kind, values in (("env", server.env), ("header", server.headers)):
        for name, value in values.items():
            yield f"{kind} {name}={_harmless(name, str(value))}"


def _harmless(name: str, value: str) -> str:
    if _REFERENCE.fullmatch(value):
        return value
    secret = has_secret_name(name) or has_secret_value(value)
    return REDACTED if secret else without_secrets(value)


def _choose(found: Iterable[ForeignServer], names: list[str], where: str) -> list[ForeignServer]:
    """The named servers, or all usable ones; the first of several of one name. Raises InputError
    for a name that cannot be added."""
    first: dict[str, ForeignServer] = {}
    for each in found:
        if each.problem:
            continue
        known = first.setdefault(each.name, each)
        if known.entry != each.entry:
            _warn(
                f"{each.name!r} of {each.source} differs from that of {known.source}, which is "
                "used. To use the other, name its file."
            )
    if not names:
        return [each for each in first.values() if not each.off]
    for name in names:
        if name not in first:
            why = next((each.problem for each in found if each.name == name), "")
            said = f"the MCP server {name!r} cannot be used: {why}" if why else ""
            raise InputError(
                said or f"there is no MCP server {name!r} in {where}.",
                remedy="alhena mcp import --dry-run lists them.",
            )
    return [first[name] for name in dict.fromkeys(names)]


def _add(chosen: list[ForeignServer], scope: str | None) -> None:
    """Writes servers into the settings. One that is there with another content stays as it is."""
    for target in ("user", "project"):
        wanted = [each for each in chosen if (scope or each.scope) == target]
        if not wanted:
            continue
        file = settings_file(target)
        known = entries_of(file)
        new = [each for each in wanted if each.name not in known]
        for each in wanted:
            if each.name in known and known[each.name] != each.entry:
                _warn(
                    f"the {target} settings have another MCP server {each.name!r}, which stays. "
                    f"To replace it: alhena mcp remove {each.name} -s {target}"
                )
            elif each.name in known:
                write_stdout(f"MCP server {each.name!r} is in the {target} settings already.\n")
        if not new:
            continue

        def add_entries(text: str, new: list[ForeignServer] = new) -> str:
            for each in new:
                text = with_value(text, (SERVERS, each.name), each.entry)
            return text

        change_json(file, add_entries, UNCHANGED)
        for each in new:
            write_stdout(f"MCP server {each.name!r} added to the {target} settings.\n")
        if target == "project":
            accept_written({each.name for each in new})


def _warn(text: str) -> None:
    write_stderr(f"alhena: warning: {one_line(text, 1_000)}\n")
