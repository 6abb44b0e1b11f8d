"""What a workspace has run, or is connected to: bound to what a person has accepted of it.

A `git pull` can put another program under the name of a server, or other text into the file that it
runs. So each entry is kept as it was accepted, part by part, and is held back while it is not that.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.environment import (
    CREDENTIALS,
    has_secret_name,
    has_secret_value,
    own_environment,
)
from alhena.config.errors import ConfigError
from alhena.config.expansion import expanded, names_in
from alhena.config.files import MAX_BYTES, read_limited
from alhena.config.home import trusted_commands_path
from alhena.config.named_files import TooManyWordsError, named_files, printable_path
from alhena.config.old_keys import value_at

SERVERS = "mcpServers"
COMMANDS = ("mcp.serverCommand", "tools.discoveryCommand", "tools.callCommand")
MAX_TEXT = 20_000
"""Characters of an entry that are kept to show the difference; the digests are of all of it."""
MAX_ENTRY = MAX_BYTES // 8
MAX_FOLDER = MAX_BYTES // 4
"""Bytes that are kept of an entry, and of all entries of a folder."""
_AROUND = 8_192
"""Bytes that the name of a folder takes beside them."""
MAX_NAMED = 8
_HARMLESS = frozenset({"description", "timeout", "trust", "includeTools", "excludeTools"})
"""Members of a server's entry that do not say what it is."""
_TABLES = frozenset({"env", "headers", "oauth"})
_WHOLE, _MEMBER, _FILE, _DOTENV = "whole", "member", "file", ".env"
"""What parts are of."""
UNWATCHED = "none of its files is watched: what it runs may change unasked"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """An entry at `path` of the settings, as it is now: in words, and the digests of its parts,
    whose keys are JSON arrays. `given` names the person's variables that it is given. `obstacle`
    says why it could not be accepted at all. `before` has the words that were accepted, None when
    nobody has accepted any; `changed` the parts that are others since, in words."""

    path: tuple[str, ...]
    text: str
    parts: dict[str, str]
    given: tuple[str, ...] = ()
    obstacle: str = ""
    before: str | None = None
    changed: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The dotted key."""
        return ".".join(self.path)

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"MCP server {self.path[1][:100]}" if self.path[0] == SERVERS else self.key

    @property
    def server(self) -> str:
        """The name of the server that it is; "" where it is none."""
        if self.path[0] == SERVERS:
            return self.path[1]
        return "mcp" if self.key == "mcp.serverCommand" else ""

    @property
    def acceptable(self) -> bool:
        """Whether it could be accepted at all."""
        return not self.obstacle

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are watched for it."""
        return tuple(names[1] for names in map(_names, self.parts) if names[0] == _FILE)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that it sets."""
        names = map(_names, self.parts)
        return tuple(each[2] for each in names if each[:2] == [_MEMBER, "env"] and len(each) > 2)

    @property
    def why(self) -> str:
        """Why it is held back."""
        if not self.acceptable:
            return f"it cannot be accepted, for {self.obstacle}"
        if self.before is None:
            return "nobody has accepted it yet"
        more = len(self.changed) - MAX_NAMED
        shown = (each[:100] for each in self.changed[:MAX_NAMED])
        names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
        return f"it is not as it was accepted; changed: {names}"


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was accepted."""

    parts: dict[str, str]
    text: str = ""


_Document = dict[str, dict[str, _Kept]]


def bound_entries(
    settings: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    dotenv: Mapping[str, str] | None = None,
) -> tuple[Bound, ...]:
    """The entries of a workspace's document as it is written, under today's keys. `dotenv` are the
    variables of the project's .env file, which are among `environ`."""
    found: list[Bound] = []
    servers = settings.get(SERVERS)
    if isinstance(servers, dict):
        for name, entry in cast("dict[str, Any]", servers).items():
            found.append(_bound((SERVERS, name), entry, folder, (environ, dotenv or {})))
    for key in COMMANDS:
        command = value_at(settings, key)
        if isinstance(command, str):
            path = tuple(key.split("."))
            found.append(_bound(path, command, folder, (environ, dotenv or {})))
    return tuple(_that_fit(found))


def runs_command(entry: Any) -> bool:
    """Whether an entry has something run, rather than being connected to."""
    if not isinstance(entry, dict):
        return isinstance(entry, str)
    members = cast("dict[str, Any]", entry)
    return not (members.get("httpUrl") or members.get("url"))


def unaccepted(
    entries: Iterable[Bound], folder: Path, environ: Mapping[str, str]
) -> tuple[Bound, ...]:
    """Those entries that nobody has accepted as they are. Raises ConfigError when the file of what
    was accepted cannot be used."""
    entries = tuple(entries)
    if not entries:
        return ()
    path = trusted_commands_path(environ)
    kept = _document(path, _read(path)).get(printable_path(os.path.realpath(folder)), {})
    return tuple(
        each if known is None else _compared(each, known)
        for each in entries
        if (known := kept.get(each.key)) is None or known.parts != each.parts or not each.acceptable
    )


def with_accepted(
    path: Path, data: bytes, folder: Path, accepted: Iterable[Bound], there: Iterable[str]
) -> bytes:
    """The bytes of the file, of which `data` were, with these entries of a folder accepted. Of the
    others those stay whose keys are still `there`. When the file grows too large, first what was
    accepted of folders is left out that are gone, then what was accepted longest ago. Raises
    ConfigError."""
    document = _document(path, data)
    root = printable_path(os.path.realpath(folder))
    present = set(there)
    kept = {key: each for key, each in document.pop(root, {}).items() if key in present}
    new = {each.key: _kept(each) for each in accepted if each.acceptable}
    stale = [key for key in kept if key not in new]
    kept = {key: kept[key] for key in stale} | new
    while stale and len(_written({root: kept})) > MAX_FOLDER + _AROUND:
        del kept[stale.pop(0)]
    if kept:
        document[root] = kept  # at the end: the folder of which was spoken last
    written = _written(document)
    others = [each for each in document if each != root] if len(written) > MAX_BYTES else []
    for other in sorted(others, key=os.path.isdir):
        del document[other]
        written = _written(document)
        if len(written) <= MAX_BYTES:
            break
    if len(written) > MAX_BYTES:
        raise ConfigError(
            f"{path}: what is accepted of {root} does not fit in it.",
            remedy="Move the file away to be asked anew.",
        )
    return written


def _bound(
    path: tuple[str, ...],
    entry: Any,
    folder: Path,
    variables: tuple[Mapping[str, str], Mapping[str, str]],
) -> Bound:
    environ, dotenv = variables
    parts = {_key(_WHOLE): _digest(_deciding(entry))}
    parts |= {_key(*names): digest for names, digest in _parts(entry)}
    obstacle = ""
    lines = [entry if isinstance(entry, str) else _pretty(entry)]
    try:
        files = named_files(expanded(entry, environ, withheld=CREDENTIALS), folder)
    except TooManyWordsError:
        obstacle = "it has more words than can be looked at"
        files = {}
    for name, digest in files.items():
        parts[_key(_FILE, name)] = digest
        lines.append(f"with the file {name} ({digest[:16]})")
    if not files and not obstacle and runs_command(entry):
        lines.append(UNWATCHED)
    for name in _of_dotenv(entry, dotenv):
        value = dotenv[name]
        parts[_key(_DOTENV, name)] = _digest(value)
        hidden = has_secret_name(name) or has_secret_value(value)
        lines.append(f"with {name} of .env" + ("" if hidden else f" = {value}"))
    theirs = {name.upper() for name in dotenv if name not in own_environment(environ)}
    own = names_in(entry) - CREDENTIALS - theirs
    return Bound(
        path=path,
        text="\n".join(lines),
        parts=parts,
        given=tuple(sorted(own)),
        obstacle=obstacle,
    )


def _that_fit(entries: Iterable[Bound]) -> Iterator[Bound]:
    """The entries; those have an obstacle of which too much would have to be kept. So the file has
    room for what was accepted of other folders, whatever a workspace brings."""
    room = MAX_FOLDER
    for each in entries:
        if each.obstacle:
            yield each
            continue
        size = len(_written({"": {each.key: _kept(each)}}))
        if size > min(MAX_ENTRY, room):
            reason = (
                f"what had to be kept of it is too large: {size:,} bytes, of at most "
                f"{MAX_ENTRY:,} for one and {MAX_FOLDER:,} for a folder"
            )
            yield msgspec.structs.replace(each, obstacle=reason)
        else:
            room -= size
            yield each


def _kept(each: Bound) -> _Kept:
    return _Kept(parts=each.parts, text=each.text[:MAX_TEXT])


def _written(document: _Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _compared(now: Bound, known: _Kept) -> Bound:
    changed = [key for key in now.parts if known.parts.get(key) != now.parts[key]]
    changed += (key for key in known.parts if key not in now.parts)
    told = [_said(key) for key in changed if _names(key) != [_WHOLE]] or ["how it is written"]
    return msgspec.structs.replace(now, before=known.text, changed=tuple(told))


def _key(*names: str) -> str:
    """The key of a part: no two parts have the same, whatever their names are."""
    return msgspec.json.encode(names).decode("utf-8")


def _names(key: str) -> list[str]:
    try:
        return msgspec.json.decode(key, type=list[str]) or [""]
    except (msgspec.MsgspecError, UnicodeError):
        return [key]  # of an earlier form


def _said(key: str) -> str:
    """The key of a part in words."""
    match _names(key):
        case [kind, name] if kind == _FILE:
            return f"the file {name}"
        case [kind, name] if kind == _DOTENV:
            return f"{name} of .env"
        case [kind, *names] if kind == _MEMBER and names:
            return ".".join(
                _key(each)[1:-1] if re.search(r"[\s.,\"]|^$", each) else each for each in names
            )
        case names:
            return " ".join(names)


def _parts(entry: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """What an entry says, member by member, as digests."""
    if not isinstance(entry, dict):
        yield ("the command",), _digest(entry)
        return
    for name, value in sorted(_deciding(entry).items()):
        if name in _TABLES and isinstance(value, dict):
            for inner, each in sorted(cast("dict[str, Any]", value).items()):
                yield (_MEMBER, name, inner), _digest(each)
        else:
            yield (_MEMBER, name), _digest(value)


def _deciding(entry: Any) -> Any:
    """An entry without what does not say what it is."""
    if not isinstance(entry, dict):
        return entry
    members = cast("dict[str, Any]", entry)
    return {name: value for name, value in members.items() if name not in _HARMLESS}


def _of_dotenv(entry: Any, dotenv: Mapping[str, str]) -> Iterator[str]:
    """The variables of a .env file that decide what an entry is. A secret that goes where a secret
    belongs does not: it is renewed."""
    if not dotenv:
        return
    deciding = names_in(_without_secrets(entry))
    yield from (name for name in sorted(dotenv) if name.upper() in deciding)


def _without_secrets(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    made: dict[str, Any] = {}
    for name, value in _deciding(entry).items():
        if name in ("env", "headers") and isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            value = {key: each for key, each in table.items() if not _is_secret(key, each)}
        made[name] = value
    return made


def _is_secret(key: str, value: Any) -> bool:
    names = names_in(value)
    return has_secret_name(key) and bool(names) and all(map(has_secret_name, names))


def _read(path: Path) -> bytes:
    try:
        return read_limited(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(
            f"cannot read what was accepted of workspaces in {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error


def _document(path: Path, data: bytes) -> _Document:
    if not data.strip():
        return {}
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: what was accepted of workspaces cannot be used: "
            f"{str(error).replace('`', '')}.",
            remedy="Move the file away to be asked anew.",
        ) from error
    # An earlier form had no digest of the whole: whoever accepted that is asked once more.
    whole = _key(_WHOLE)
    return {
        folder: {key: each for key, each in entries.items() if whole in each.parts}
        for folder, entries in document.items()
        if entries
    }


def _pretty(entry: Any) -> str:
    encoded = msgspec.json.encode(_deciding(entry), order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
