"""What a project's manifest says about it."""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

MANIFESTS = (
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "setup.cfg",
    "Gemfile",
)
READMES = ("README.md", "README.rst", "README.txt", "README")


def first_of(wanted: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The first wanted name among the names, whatever its case, as it is written there."""
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name.lower()] for name in wanted if name.lower() in by_lower), None)


def facts(path: str, text: str) -> tuple[tuple[str, str], ...]:
    """Name, version, description and the like, as (label, value) in a fixed order."""
    name = path.rsplit("/", 1)[-1].lower()
    if name.endswith(".toml"):
        table = _toml(text)
        return _chosen(
            _table(table, "project") or _table(table, "package") or _table(table, "tool", "poetry")
        )
    if name == "package.json":
        return _chosen(_json(text))
    if name == "go.mod":
        found = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
        return (("name", found[1]),) if found else ()
    if name == "setup.cfg":
        pairs = re.findall(r"^(name|version|description)\s*=\s*(.+)$", text, re.MULTILINE)
        return _chosen(dict(cast("list[tuple[str, str]]", pairs)))
    return ()


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}


def _table(root: dict[str, Any], *keys: str) -> dict[str, Any]:
    value: Any = root
    for key in keys:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_LABELS = (
    ("name", "name"),
    ("version", "version"),
    ("description", "description"),
    ("license", "licence"),
    ("requires-python", "Python"),
)


def _chosen(table: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    chosen = [(label, table[key]) for key, label in _LABELS if isinstance(table.get(key), str)]
    for key, label in (("scripts", "scripts"), ("dependencies", "dependencies")):
        value = table.get(key)
        if isinstance(value, dict | list) and value:
            entries = list(cast("Iterable[object]", value))[:12]
            chosen.append((label, ", ".join(map(str, entries))))
    return tuple(chosen)
