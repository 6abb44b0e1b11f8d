"""`alhena settings`: what holds here, where it was said, and what is wrong with it."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.effective_settings import Place
from alhena.config.environment import REDACTED, has_secret_name, without_secrets
from alhena.config.home import (
    config_home,
    path_within,
    system_defaults_path,
    system_settings_path,
    user_settings_path,
    workspace_settings_path,
)
from alhena.config.layers import ORDER, Layer, LayerKind
from alhena.config.reference_keys import known_keys
from alhena.display_text import escaped, one_line
from alhena.errors import ConfigError, InputError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here, tell, workspace_roots
from alhena.frontends.shared.files import write_setting
from alhena.frontends.shared.setting_values import (
    layer_of,
    list_settings,
    parse_setting,
    setting_at,
    value_text,
)
from alhena.frontends.shared.streams import write_json, write_stdout
from alhena.near_names import near_name
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.agent.trial import Trial

USAGE = """\
usage: alhena settings show [KEY] [--origin] [--all] [--json] [--skip-trust]
       alhena settings get KEY
       alhena settings set KEY VALUE [--project]
       alhena settings path [--json]
       alhena settings check [--json] [--skip-trust]

show: prints the effective settings of this folder. KEY is a setting (model.name) or a section
(model). Secrets are not shown.

  --origin       with file, line and layer of each
  --all          with the defaults

get: prints the effective value of one setting, without its name.

set: writes one setting with a plain value to your file; comments and the rest of it stay.

  --project      to .gemini/settings.json of this folder

path: lists the settings files, the highest layer last, and the .env files.

check: reads all settings and tries them as a run does: policies, sandbox, hooks, limits, models,
telemetry. Exit code 1 when there are findings, 52 when no run can start with them.

Lists and sections are changed in an editor: path names the files. In a session /settings is a menu.

  --skip-trust   treat this folder as trusted
  --json         print JSON
"""
_ARGUMENTS = {
    "show": "[KEY] --origin --all --json --skip-trust",
    "get": "KEY",
    "set": "KEY VALUE --project",
    "path": "--json",
    "check": "--json --skip-trust",
}
DEFAULT = "default"
_HIDDEN = ("headers", "env")
"""Members of a server, or of a hook, whose values are redacted."""


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A key with its value, and where that was said: the layers that have a say in it."""

    key: str
    value: Any
    origin: list[dict[str, Any]]


def run(argv: list[str]) -> int:
    """Carries out `alhena settings ARGV`; returns the exit code."""
    options = parse_command("alhena settings", argv, _ARGUMENTS)
    if options.command == "path":
        return _path(as_json=options.json)
    if options.command in ("get", "set"):
        return _get(options.key) if options.command == "get" else _set(options)
    place = place_here(skip_trust=options.skip_trust, told=False)
    return (_show if options.command == "show" else _check)(options, place)


def _show(options: "Namespace", place: Place) -> int:
    found = list_shown_settings(place)
    if options.key is not None:
        inside = f"{options.key}."
        found = [each for each in found if each.key == options.key or each.key.startswith(inside)]
        if not found:
            raise InputError(
                f"there is no setting {options.key!r}, and none in a section of that name.",
                remedy="See alhena settings show --all.",
            )
    elif not options.all:
        found = [each for each in found if each.origin[0]["layer"] != DEFAULT]
    tell(place.warnings)
    if options.json:
        write_json(found if options.origin else {each.key: each.value for each in found})
        return 0
    for each in found:
        value = msgspec.json.encode(each.value).decode("utf-8")
        where = "  # " + ", ".join(map(_where, each.origin)) if options.origin else ""
        write_stdout(f"{escaped(f'{each.key} = {value}{where}')}\n")
    if not found:
        write_stdout("Nothing is set: the defaults apply.\n")
    return 0


def _get(key: str) -> int:
    if key not in list_settings():
        raise _unknown(key)
    value = _public(tuple(key.split(".")), setting_at(place_here(told=False).settings, key))
    write_stdout(f"{escaped('' if value is None else value_text(value))}\n")
    return 0


def _set(options: "Namespace") -> int:
    """Writes one setting; says so where another layer, or no trust in the folder, outweighs it."""
    key, kinds, place = options.key, list_settings(), place_here(told=False)
    if key not in kinds:
        raise _unknown(key)
    value = parse_setting(key, options.value)
    if key == _THEME and value and (unknown := _unknown_theme(place, value)) is not None:
        raise InputError(unknown[0], remedy=unknown[1])
    file = user_settings_path(os.environ)
    if options.project:
        file = path_within(place.cwd, Path(".gemini") / "settings.json")
        file.parent.mkdir(exist_ok=True)
    write_setting(file, tuple(key.split(".")), value)
    write_stdout(f"{escaped(f'{key} is {value_text(value)} in {file}.')}\n")
    now = place_here(told=False)
    if setting_at(now.settings, key) != value:
        why = f"The {layer_of(now, key)} settings outweigh it."
        if options.project and now.unread:
            why = "This folder is not trusted: alhena trust."
        tell([f"{key} is still {value_text(setting_at(now.settings, key))}. {why}"])
    return 0


_THEME = "ui.theme"


def _unknown_theme(place: Place, name: str) -> tuple[str, str] | None:
    """Cause and remedy where no theme of this place has a name."""
    from alhena.frontends.terminal.looks.theme import unknown_theme  # it loads prompt_toolkit

    return unknown_theme(name, place.settings.ui.custom_themes)


def _unknown(key: str) -> InputError:
    """The error for a key that is no setting with a plain value."""
    near = near_name(key, list_settings())
    remedy = f"Did you mean {near}?" if near else "See alhena settings show --all."
    return InputError(f"there is no setting {key!r} with a plain value.", remedy=remedy)


def list_shown_settings(place: Place) -> list[ShownSetting]:
    """All settings that hold in a place, in alphabetical order, with what others have in their
    files that means nothing here; secrets taken out."""
    known = known_keys()
    holding = cast("dict[str, Any]", msgspec.to_builtins(place.settings))
    # That of a workspace's mcp.serverCommand is among the servers, and shown under its own key.
    holding["mcpServers"] = {
        name: entry
        for name, entry in holding["mcpServers"].items()
        if any(layer.says(("mcpServers", name)) for layer in place.layers)
    }
    values = dict(_leaves(holding, (), known))
    for layer in place.layers:
        for path, value in _leaves(layer.document, (), known):
            values.setdefault(path, value)
    variables = place.secret_variables()
    return [
        ShownSetting(
            key=".".join(path),
            value=_public(path, variables.name_secrets(path, value)),
            origin=_origins(place, path),
        )
        for path, value in sorted(values.items())
    ]


def _leaves(
    document: dict[str, Any], path: tuple[str, ...], known: frozenset[str]
) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in document.items():
        here = (*path, name)
        if isinstance(value, dict) and value and ".".join(here) not in known:
            found += _leaves(cast("dict[str, Any]", value), here, known)
        else:
            found.append((here, cast("Any", value)))
    return found


def _origins(place: Place, path: tuple[str, ...]) -> list[dict[str, Any]]:
    """The layers that say something of a key, the strongest first."""
    found: list[dict[str, Any]] = []
    for layer in reversed(place.layers):
        if layer.says(path):
            name = {"layer": str(layer.kind), "file": str(layer.path), "line": layer.line(path)}
            found.append(name)
    return found or [{"layer": DEFAULT, "file": None, "line": None}]


def _where(origin: dict[str, Any]) -> str:
    if origin["file"] is None:
        return DEFAULT
    line = "" if origin["line"] is None else f":{origin['line']}"
    return f"{origin['layer']} ({origin['file']}{line})"


def _public(path: tuple[str, ...], value: Any) -> Any:
    """A value without what is secret in it, by its name or by what it is."""
    match value:
        case str():
            secret = has_secret_name(path[-1]) and bool(value)
            return REDACTED if secret else without_secrets(value)
        case list() | tuple():
            items = cast("list[Any]", value)
            # In these a word may say that the next one is a secret.
            if path[-1] == "args" and all(isinstance(item, str) for item in items):
                from alhena.config.mcp_servers import harmless_words

                items = list(harmless_words(items))
            return [_public(path, item) for item in items]
        case dict():
            members: dict[str, Any] = {**cast("dict[str, Any]", value)}
            if path[-1] in _HIDDEN:
                return dict.fromkeys(members, REDACTED)
            return {name: _public((*path, name), item) for name, item in members.items()}
        case _:
            return value


def _path(*, as_json: bool) -> int:
    place = place_here(told=False)
    there = {layer.kind: layer for layer in place.layers}
    paths = {
        LayerKind.SYSTEM_DEFAULTS: system_defaults_path(os.environ),
        LayerKind.USER: user_settings_path(os.environ),
        LayerKind.WORKSPACE: workspace_settings_path(current_directory()),
        LayerKind.SYSTEM: system_settings_path(os.environ),
    }
    rows = [(str(kind), str(paths[kind]), _state(place, kind, there.get(kind))) for kind in ORDER]
    rows += ((".env", str(file.path), "read") for file in place.env_files)
    if as_json:
        write_json([{"layer": kind, "file": file, "state": state} for kind, file, state in rows])
        return 0
    for kind, file, state in rows:
        write_stdout(f"{kind:16} {state:12} {escaped(file)}\n")
    return 0


def _state(place: Place, kind: LayerKind, layer: Layer | None) -> str:
    if kind is LayerKind.WORKSPACE and ".gemini/settings.json" in place.unread:
        return "not trusted"
    return "missing" if layer is None else "read"


def _check(options: "Namespace", place: Place) -> int:
    trial = _try_settings(place)
    odd = (
        *(*place.warnings, *place.remarks, *_server_problems(place)),
        *(*trial.warnings, *_key_problems(place), *_theme_problems(place)),
    )
    told = (*dict.fromkeys(odd), *((place.notice,) if place.notice else ()))
    if options.json:
        write_json({"errors": trial.errors, "warnings": told, "notes": place.notes})
    else:
        kinds = (("error", trial.errors), ("warning", told), ("note", place.notes))
        for kind, lines in kinds:
            for each in lines:
                write_stdout(f"{kind}: {one_line(each)}\n")
        if trial.errors:
            write_stdout("With these settings no run begins.\n")
        elif not odd:
            write_stdout("The settings are valid.\n")
    return ConfigError.exit_code if trial.errors else 1 if odd else 0


def _key_problems(place: Place) -> tuple[str, ...]:
    """Problems of the file of keys."""
    path = config_home(place.environ) / "keybindings.json"
    if not os.path.lexists(path):
        return ()
    from alhena.frontends.terminal.keybindings import read_key_file

    file = read_key_file(place.environ)
    unknown = ", ".join(file.unknown)
    idle = (f"{path}: commands without effect in this version: {unknown}.",) if unknown else ()
    return (*file.problems, *idle)


def _theme_problems(place: Place) -> tuple[str, ...]:
    name = place.settings.ui.theme
    unknown = _unknown_theme(place, name) if name else None
    return () if unknown is None else (" ".join(unknown),)


EXTRAS = {
    "a2a": "a2a-sdk",
    "acp": "agent-client-protocol",
    "gateway": "starlette",
    "otel": "opentelemetry-sdk",
    "ray": "ray",
}
"""Each extra with a package that it brings."""


def print_bug_report(model: str | None) -> int:
    """Prints what a report of a defect needs, as Markdown; returns the exit code. No text of a
    setting, path or name of the person is in it."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from alhena.frontends.cli.auth import find_status
    from alhena.models.catalogue import default_model
    from alhena.system.own_programs import find_program
    from alhena.system.private_files import PrivateFiles
    from alhena.version import __version__

    place = place_here(told=False)
    access = find_status(place.environ, place.settings, PrivateFiles(config_home(os.environ)))
    extras: list[str] = []
    for name, package in EXTRAS.items():
        try:
            extras.append(f"{name} ({package} {version(package)})")
        except PackageNotFoundError:
            continue
    programs = [name for name in ("bash", "bwrap", "git", "rg") if find_program(name, os.environ)]
    chosen = model or place.environ.get("GEMINI_MODEL") or place.settings.model.name
    rows = {
        "alhena": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "System": platform.platform(),
        "Terminal": place.environ.get("TERM") or "none",
        "Encoding": sys.stdout.encoding if sys.stdout else "none",
        "Model": chosen or default_model(),
        "Model access": access.transport or "none",
        "Extras": ", ".join(extras) or "none",
        "Programs": ", ".join(programs) or "none",
        "Trusted folder": "no" if place.unread else "yes, or nothing to trust",
        "Settings files": ", ".join(str(layer.kind) for layer in place.layers) or "none",
    }
    lines = ["## Versions and settings", "", *(f"- {name}: {rows[name]}" for name in rows)]
    shown = [each for each in list_shown_settings(place) if each.origin[0]["layer"] != DEFAULT]
    lines += [f"- `{each.key}`: {_size_of(each.value)}" for each in shown]
    write_stdout("\n".join(one_line(line) for line in lines) + "\n")
    return 0


def _size_of(value: Any) -> str:
    """A value that is no text, else its kind and length: texts may be private."""
    if isinstance(value, bool | int | float) or value is None:
        return str(value).lower()
    length = len(value)
    return (
        f"a text of {length} characters"
        if isinstance(value, str)
        else f"{length} {'entry' if length == 1 else 'entries'}"
    )


def _try_settings(place: Place) -> "Trial":
    """Loads everything a run here would load, to collect its warnings and errors."""
    import asyncio

    from alhena.agent.toolset.options import Permissions, SessionSpec
    from alhena.agent.trial import Trial, try_session
    from alhena.policy.model import ApprovalMode

    roots, missing = workspace_roots(place, ())
    mode = ApprovalMode(place.settings.general.default_approval_mode)
    options = SessionSpec(
        place=msgspec.structs.replace(place, directories=roots),
        permissions=Permissions(approval_mode=mode),
    )
    trial = asyncio.run(try_session(options))
    return Trial(trial.errors, (*missing, *trial.warnings))


def _server_problems(place: Place) -> tuple[str, ...]:
    """Problems with MCP servers. A session reports each when it starts the server."""
    if not place.settings.mcp_servers:
        return ()
    from alhena.config.mcp_server_checks import odd_members, server_problems

    return (*server_problems(place.layers).values(), *odd_members(place.layers))
