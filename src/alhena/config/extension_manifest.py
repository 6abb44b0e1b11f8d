"""The files that describe an extension: its manifest, its origin, and what was accepted."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from alhena.config.documents import parse_settings, read_limited, read_value
from alhena.display_text import one_line
from alhena.errors import ConfigError
from alhena.values import Value

T = TypeVar("T")


MANIFEST = "gemini-extension.json"


METADATA = ".gemini-extension-install.json"


HOOKS = "hooks/hooks.json"


_NAME = re.compile(r"[A-Za-z0-9-]{1,100}")


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|/)\}")


_RESERVED = frozenset({"user", "workspace", "none"})


_COMFORT = frozenset({"description", "themes", "migratedTo"})
"""Members whose wrong values are ignored."""


class ExtensionSetting(Value, frozen=True, kw_only=True, rename="camel"):
    """A value that an extension asks the user for; it is the variable `env_var` of its servers and
    hooks."""

    name: str
    env_var: str
    description: str = ""
    sensitive: bool = False


class Manifest(Value, frozen=True, kw_only=True, rename="camel"):
    """The content of gemini-extension.json; other members are ignored."""

    name: str
    version: str
    description: str = ""
    mcp_servers: dict[str, dict[str, Any]] = msgspec.field(
        default_factory=dict[str, dict[str, Any]]
    )
    context_file_name: str | tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    settings: tuple[ExtensionSetting, ...] = ()
    themes: tuple[dict[str, Any], ...] = ()
    migrated_to: str | None = None


class Installation(Value, frozen=True, kw_only=True, rename="camel"):
    """The content of the metadata file that the reference reads and writes, too."""

    source: str
    type: str = "local"
    ref: str | None = None
    auto_update: bool = False
    allow_pre_release: bool = False


class ExtensionPin(Value, frozen=True, kw_only=True):
    """The accepted state of an installed extension: the digests of its `parts` by their names;
    `files` is a digest of their sizes and times. `next` are the parts that are about to take their
    place."""

    parts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    files: str = ""
    next: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def manifest_document(folder: Path) -> Any:
    """The manifest in `folder` as it is written. Raises ConfigError, which names file and line."""
    path = folder / MANIFEST
    try:
        return parse_settings(path, read_limited(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error


def manifest_of(folder: Path, document: Any) -> Manifest:
    """The manifest that a document from `folder` is, whose variables may be replaced. Raises
    ConfigError, which names the file and the remedy."""
    path = folder / MANIFEST
    try:
        manifest = read_value(document, Manifest)
    except msgspec.ValidationError as error:
        from alhena.config.checking import explain_error

        place, told = explain_error(error)
        key = place or "the document"
        name = re.split(r"[.\[]", key)[0]
        if name in _COMFORT and name in document:
            rest = {each: value for each, value in document.items() if each != name}
            return manifest_of(folder, rest)
        raise ConfigError(
            f"{path}: {key}: {told}.",
            remedy="Correct that value.",
            page="extensions",
        ) from error
    if not _NAME.fullmatch(manifest.name) or manifest.name.lower() in _RESERVED:
        raise ConfigError(
            f"{path}: {one_line(repr(manifest.name))} cannot be the name of an extension.",
            remedy="Use letters, digits and dashes, and not user, workspace or none.",
            page="extensions",
        )
    return manifest


def hooks_in(document: Any) -> Iterator[dict[str, Any]]:
    """The hooks of a document, as far as it has the right form; they need not be under a key."""
    top = object_in(document)
    for groups in object_in(top.get("hooks", top)).values():
        for group in _objects_in(groups):
            yield from _objects_in(group.get("hooks", group))


def _objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, or the one in its place."""
    return [object_in(each) for each in array_in(value) or [value] if isinstance(each, dict)]


def substitute_paths(
    value: Any, folder: Path, workspace: Path, values: Mapping[str, str] | None = None
) -> Any:
    """A JSON value with `${extensionPath}`, `${workspacePath}`, `${/}` and `${pathSeparator}`
    replaced, and the names of `values`; other names stay."""
    texts = {
        **(values or {}),
        "extensionPath": str(folder),
        "workspacePath": str(workspace),
        "/": os.sep,
        "pathSeparator": os.sep,
    }
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: texts.get(found[1], found[0]), value)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [substitute_paths(each, folder, workspace, values) for each in items]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {key: substitute_paths(each, folder, workspace, values) for key, each in members}
    return value


def object_in(value: Any) -> dict[str, Any]:
    """A value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def array_in(value: Any) -> list[Any]:
    """A value if it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def read_installation(home: Path) -> Installation | None:
    """The metadata of an installed extension, None without any. Raises ConfigError."""
    path = home / METADATA
    if not os.path.lexists(path):
        return None
    return read_json(path, Installation)


def read_json(path: Path, kind: type[T]) -> T:
    """A JSON file of ours or of the reference; a missing one is empty. Raises ConfigError."""
    try:
        return msgspec.json.decode(read_limited(path) or b"{}", type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return msgspec.convert({}, kind)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        from alhena.config.checking import plain_message

        told = plain_message(str(error).replace("`", ""))
        raise ConfigError(
            f"{path}: {told}.",
            remedy="Correct it or remove it.",
            page="extensions",
        ) from error
