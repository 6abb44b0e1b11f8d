"""Saying that a folder is trusted or not, and what that is about."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from alhena.config.documents import settings_document
from alhena.config.environment import CREDENTIALS, has_secret_name
from alhena.config.errors import ConfigError
from alhena.config.expansion import names_in
from alhena.config.home import trusted_folders_path, workspace_settings_path
from alhena.config.jsonc_edit import with_value, without_keys
from alhena.config.old_keys import renewed, value_at
from alhena.config.place import Place
from alhena.config.trust import TrustLevel, trust_entries
from alhena.display_text import exact, one_line
from alhena.frontends.json_files import change_json

MAX_NAMED = 12
"""How many names of one kind are shown."""
UNCHANGED = "what is trusted was not written down"
MAX_COMMAND = 8_000
"""Characters of a command that are shown; of a longer one its end, too, and how much is between."""


def say_trust(environ: Mapping[str, str], folder: Path, level: TrustLevel) -> Path:
    """Writes down what the user says of a folder; returns the file. Everything else in it stays.
    Raises ConfigError when it cannot be read or written."""
    file = trusted_folders_path(environ)
    names = [path for path, _ in trust_entries(file) if _same(path, folder)]
    name = names[0] if names else os.path.realpath(folder)

    def changed(text: str) -> str:
        for other in names[1:]:
            text = with_value(text, (other,), str(level))
        return with_value(text, (name,), str(level))

    change_json(file, changed, UNCHANGED)
    return file


def forget_trust(environ: Mapping[str, str], folder: Path) -> bool:
    """Takes back what the user has said of a folder; whether there was anything. Raises
    ConfigError."""
    file = trusted_folders_path(environ)
    names = {path for path, _ in trust_entries(file) if _same(path, folder)}
    if names:
        change_json(file, lambda text: without_keys(text, names), UNCHANGED)
    return bool(names)


def waiting(place: Place) -> list[str]:
    """What of a folder would become active if it were trusted, a line each. Nothing of it is
    carried out; what it says is made harmless to print."""
    lines: list[str] = []
    for name in place.unread:
        details = list(_details(place, name))
        lines.append(f"{one_line(name)}{': ' + details[0] if details else ''}")
        lines += (f"    {each}" for each in details[1:])
    return lines


def _details(place: Place, name: str) -> Iterator[str]:
    if name == ".gemini/settings.json":
        yield from _of_settings(workspace_settings_path(place.cwd))
    elif name.endswith(".env"):
        from alhena.config.env_files import read_env_file

        found = read_env_file(place.cwd / name, {}, (), local=True)
        yield f"variables {_some(list(found.variables)) or '(none)'}"
    elif name == ".gemini/policies":
        yield "rules that make the policy stricter"
    else:
        yield "what the model is told of the project"


def _of_settings(path: Path) -> Iterator[str]:
    try:
        document = settings_document(path)
    except ConfigError as error:
        yield one_line(error.message)
        return
    if not isinstance(document, dict):
        yield "empty" if document is None else "no settings"
        return
    settings, _ = renewed(cast("dict[str, Any]", document))
    yield _some(list(settings)) or "empty"
    servers = settings.get("mcpServers")
    if isinstance(servers, dict):
        for name, entry in cast("dict[str, Any]", servers).items():
            yield f"MCP server {one_line(name, 60)}: {_shown(_server_words(entry))}"
            yield from _given(entry, f"MCP server {one_line(name, 60)}")
    for key in ("mcp.serverCommand", "tools.discoveryCommand", "tools.callCommand"):
        command = value_at(settings, key)
        if isinstance(command, str):
            yield f"{key}: {_shown(command)}"
            yield from _given(command, key)
    hooks = settings.get("hooks")
    if isinstance(hooks, dict) and hooks:
        events = _some(list(cast("dict[str, Any]", hooks)))
        yield f"hooks of {events}, which are asked about one by one (alhena hooks trust)"


def _server_words(entry: Any) -> str:
    if not isinstance(entry, dict):
        return "?"
    members = cast("dict[str, Any]", entry)
    url = members.get("httpUrl") or members.get("url")
    if url:
        return str(url)
    arguments = members.get("args")
    words: list[Any] = [members.get("command", "?")]
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    return " ".join(map(str, words))


def _given(value: Any, what: str) -> Iterator[str]:
    """Which of the user's variables something is given, each of them."""
    names = sorted(names_in(value) - CREDENTIALS)
    if names:
        told = (
            f"{name} (a secret by its name)" if has_secret_name(name) else name for name in names
        )
        yield f"{what} is given what these variables of yours hold: {', '.join(told)}"


def _shown(text: str) -> str:
    told = exact(text)
    more = len(told) - MAX_COMMAND
    if more > 0:
        half = MAX_COMMAND // 2
        told = f"{told[:half]} [… {more:,} more characters …] {told[-half:]}"
    return one_line(told, len(told))


def _some(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    shown = ", ".join(one_line(name, 60) for name in names[:MAX_NAMED])
    return shown + (f" and {more} more" if more > 0 else "")


def _same(path: str, folder: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(folder)
