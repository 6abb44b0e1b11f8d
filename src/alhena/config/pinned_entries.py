"""Servers and commands of a workspace: their state now, and the states in which they were accepted.

The state of an entry is how it is written, the files of the folder that its command names, and the
variables that the project's .env file puts in. A `git pull` can replace any of these; an entry is
held back unless it is in an accepted state, which counts as a whole.

Each word of a command is examined: as it is, after a `=`, and split into words if it is itself a
command line (`sh -c "python srv.py"`). Files a program reads by itself are not seen, nor is a
change between the comparison and the start.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import (
    MAX_BYTES,
    NotReadableError,
    TooLargeError,
    names_in,
    read_limited,
    value_at,
)
from alhena.config.environment import (
    CREDENTIALS,
    has_secret_name,
    has_secret_value,
    own_environment,
)
from alhena.config.home import trusted_commands_path
from alhena.config.layers import Layer, expand_variables
from alhena.display_text import first_of
from alhena.errors import ConfigError, DamagedError

SERVERS = "mcpServers"
COMMANDS = ("mcp.serverCommand", "tools.discoveryCommand", "tools.callCommand")
MAX_STATES = 8
"""Maximum accepted states of an entry."""
MAX_TEXT = 20_000
"""Maximum characters of an entry kept for the diff; the digests cover all of it."""
MAX_FILE = 64 << 20
"""Maximum bytes of a file that are read; a larger one is identified by size and time."""
MAX_NAMED = 8
UNWATCHED = "no file of it is checked for changes"
_ENTRY, _FILE = "the entry", "the file "
DATA = frozenset(
    {
        *(".db", ".db3", ".sqlite", ".sqlite3", ".parquet", ".csv", ".tsv", ".jsonl", ".ndjson"),
        *(".log", ".lock", ".pid", ".sock"),
    }
)
CODE = frozenset(
    {
        *("", ".py", ".pyz", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".tsx", ".sh", ".bash"),
        *(".rb", ".pl", ".php", ".lua", ".jar", ".go", ".rs", ".exe"),
    }
)
_HARMLESS = frozenset(
    {"description", "timeout", "trust", "includeTools", "excludeTools", "alwaysDeclare"}
)
"""Members of a server entry that do not affect its identity."""


class AcceptedState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted state: the digests of its parts by their names in words, and a text for people.
    `data` are files declared as its own data: they may change."""

    parts: dict[str, str]
    text: str = ""
    data: tuple[str, ...] = ()


class AcceptedStates(msgspec.Struct, frozen=True):
    """The accepted states of an entry, latest first."""

    states: tuple[AcceptedState, ...] = ()


Document = dict[str, dict[str, AcceptedStates]]
"""By folder and entry; the most recently used are last."""


class BoundEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of an entry at `path` of the settings: its text, and the digests of its
    parts. `given` names the person's variables it receives, `variables` those it sets. `loose` are
    its files that may be its own data, `data` those that a person declared so.

    `before`: text of the closest accepted state, None if there is none; `changed` names the parts
    that differ from it, and `doubtful` those of these files that are `loose`. `unknown` is the
    reason why accepted states cannot be determined."""

    path: tuple[str, ...]
    text: str
    parts: dict[str, str]
    given: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    loose: frozenset[str] = frozenset()
    data: tuple[str, ...] = ()
    before: str | None = None
    changed: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def key(self) -> str:
        """The dotted key."""
        return ".".join(self.path)

    @property
    def label(self) -> str:
        """The name used in messages."""
        return f"MCP server {self.path[1][:100]}" if self.path[0] == SERVERS else self.key

    @property
    def server(self) -> str:
        """The name of the server; "" for other entries."""
        if self.path[0] == SERVERS:
            return self.path[1]
        return "mcp" if self.key == "mcp.serverCommand" else ""

    @property
    def files(self) -> tuple[str, ...]:
        """The files watched for it."""
        return _files(self.parts)

    @property
    def why(self) -> str:
        """The reason why it is blocked."""
        if self.unknown:
            return f"it cannot be told whether it was accepted: {self.unknown}"
        if self.before is None:
            return "it is not accepted yet"
        names = first_of([each[:100] for each in self.changed], MAX_NAMED)
        return f"it has changed since it was accepted; changed: {names}"


def bound_entries(
    settings: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    dotenv: Mapping[str, str] | None = None,
) -> tuple[BoundEntry, ...]:
    """The entries of a workspace document as written, with renamed keys. `dotenv` are the variables
    of the project's .env file, which are part of `environ`."""
    found: dict[tuple[str, ...], Any] = {}
    servers = settings.get(SERVERS)
    if isinstance(servers, dict):
        for name, entry in cast("dict[str, Any]", servers).items():
            found[SERVERS, name] = entry
    for key in COMMANDS:
        command = value_at(settings, key)
        if isinstance(command, str):
            found[tuple(key.split("."))] = command
    return tuple(
        _bound(path, entry, folder, (environ, dotenv or {})) for path, entry in found.items()
    )


def runs_command(entry: Any) -> bool:
    """True when an entry runs a command, or may: with a URL as well, only expansion decides."""
    if not isinstance(entry, dict):
        return isinstance(entry, str)
    members = cast("dict[str, Any]", entry)
    return bool(members.get("command")) or not (members.get("httpUrl") or members.get("url"))


def _bound(
    path: tuple[str, ...],
    entry: Any,
    folder: Path,
    variables: tuple[Mapping[str, str], Mapping[str, str]],
) -> BoundEntry:
    environ, dotenv = variables
    deciding = msgspec.json.encode(_deciding(entry), order="deterministic")
    parts = {_ENTRY: _digest(deciding)}
    lines = [entry if isinstance(entry, str) else msgspec.json.format(deciding, indent=2).decode()]
    files, loose = named_files(expand_variables(entry, environ, withheld=CREDENTIALS), folder)
    for name, digest in files.items():
        parts[_FILE + name] = digest
        lines.append(f"with the file {name} ({digest[:16]})")
    if not files and runs_command(entry):
        lines.append(UNWATCHED)
    for name in _of_dotenv(entry, dotenv):
        value = dotenv[name]
        parts[f"{name} of .env"] = _digest(value.encode("utf-8"))
        hidden = has_secret_name(name) or has_secret_value(value)
        lines.append(f"with {name} of .env" + ("" if hidden else f" = {value}"))
    theirs = {name.upper() for name in dotenv if name not in own_environment(environ)}
    env = cast("dict[str, Any]", entry).get("env") if isinstance(entry, dict) else None
    return BoundEntry(
        path=path,
        text="\n".join(lines),
        parts=parts,
        given=tuple(sorted(names_in(entry) - CREDENTIALS - theirs)),
        variables=tuple(sorted(cast("dict[str, Any]", env))) if isinstance(env, dict) else (),
        loose=loose,
    )


def named_files(entry: Any, folder: Path) -> tuple[dict[str, str], frozenset[str]]:
    """The digests of the files in a folder named by a command line, or by the command and arguments
    of a server entry; and those of them that may be a program's own data: only a person can tell.
    Files with a suffix of data are left out."""
    root = os.path.realpath(folder)
    words, cwd = _words_of_entry(entry)
    files, strict = dict[str, str](), set[str]()
    for number, text in ((n, text) for n, word in enumerate(words) for text in _readings(word)):
        for place in {os.path.join(root, cwd), root}:
            path = os.path.normpath(os.path.join(place, os.path.expanduser(text)))
            real = os.path.realpath(path)
            inside = path if _is_below(path, root) else real
            suffix = os.path.splitext(path)[1].lower()
            named_from_here = _is_below(inside, root) or text[0] not in "/~"
            if not named_from_here or suffix in DATA or not os.path.isfile(path):
                continue
            name = printable_path(os.path.relpath(inside, root))
            files[name] = files.get(name) or file_digest(real)
            code = not CODE.isdisjoint({suffix, os.path.splitext(real)[1].lower()})
            if number == 0 or code or _runs(real):
                strict.add(name)
    return files, frozenset(files) - strict


_STATE = frozenset(
    {
        *(
            "cache",
            "caches",
            "data",
            "database",
            "db",
            "history",
            "log",
            "logs",
            "memories",
            "memory",
        ),
        *(
            "metrics",
            "output",
            "queue",
            "session",
            "sessions",
            "state",
            "states",
            "stats",
            "storage",
        ),
        *("store", "temp", "tmp"),
    }
)
"""Words by which an option, a folder or a file says that it holds what a program writes."""


def holds_state(text: str) -> bool:
    """True for an option, or a path, that names the state of a program by one of its words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return not _STATE.isdisjoint(re.split(r"[^a-z]+", words.lower()))


def state_files(entry: Any, folder: Path) -> frozenset[str]:
    """Those of the files that `named_files` cannot tell from a program's own data that are called
    its state: by their path, or by the option before them."""
    _, loose = named_files(entry, folder)
    words = [text for word in _words_of_entry(entry)[0] for text in _readings(word)]
    found = {name for name in loose if holds_state(name)}
    for option, text in pairwise(words):
        if option.startswith("-") and holds_state(option.partition("=")[0]):
            value = option.partition("=")[2] or text
            found |= named_files(["", value], folder)[1] & loose
    return frozenset(found)


def printable_path(path: str) -> str:
    """A path as encodable text, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _words_of_entry(entry: Any) -> tuple[list[str], str]:
    """The words of the command of an MCP server or setting, which name files, and its directory."""
    if isinstance(entry, str):
        return _split(entry), ""
    if isinstance(entry, list):
        return [each for each in cast("list[Any]", entry) if isinstance(each, str)], ""
    if not isinstance(entry, dict):
        return [], ""
    members = cast("dict[str, Any]", entry)
    args = members.get("args")
    given = [members.get("command"), *(cast("list[Any]", args) if isinstance(args, list) else [])]
    cwd = members.get("cwd")
    words = [each for each in given if isinstance(each, str)]
    return words, os.path.expanduser(cwd) if isinstance(cwd, str) else ""


def _readings(word: str) -> Iterator[str]:
    """The texts in a word that may be paths."""
    for each in dict.fromkeys([word, *(_split(word) if " " in word else ())]):
        for text in (each, each.partition("=")[2]):
            if text and "\0" not in text:
                yield text


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quote
        return text.split()


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _runs(path: str) -> bool:
    """True for a file that is executable or begins with `#!`."""
    try:
        with open(path, "rb") as file:
            return os.access(path, os.X_OK) or file.read(2) == b"#!"
    except OSError:
        return True


def file_digest(path: str) -> str:
    """The digest of a file; for a very large one, size and time."""
    try:
        return _digest(read_limited(path, MAX_FILE))
    except TooLargeError:
        status = os.stat(path)
        return f"{status.st_size} bytes of {status.st_mtime_ns}"
    except OSError as error:
        return f"unreadable ({error.strerror})"


def _deciding(entry: Any) -> Any:
    """An entry without the members that do not affect its identity."""
    if not isinstance(entry, dict):
        return entry
    members = cast("dict[str, Any]", entry)
    return {name: value for name, value in members.items() if name not in _HARMLESS}


def _of_dotenv(entry: Any, dotenv: Mapping[str, str]) -> Iterator[str]:
    """The variables of a .env file that affect an entry's identity. Secrets in places for secrets
    do not: they are rotated."""
    if dotenv:
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


def _digest(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def _files(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(each.removeprefix(_FILE) for each in parts if each.startswith(_FILE))


def read_accepted(path: Path) -> Document:
    """Reads the file; empty if missing. Raises ConfigError: DamagedError for an invalid file."""
    try:
        return _parse_document(path, read_limited(path))
    except FileNotFoundError:
        return {}
    except (NotReadableError, IsADirectoryError) as error:
        raise _damaged_file_error(path, error.strerror or str(error)) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read what was accepted of workspaces in {path}: {error.strerror or error}.",
            remedy="Make the file readable.",
        ) from error


def _parse_document(path: Path, data: bytes) -> Document:
    """Parses the content of the file. Raises DamagedError."""
    if not data.strip():
        return {}
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged_file_error(path, str(error).replace("`", "")) from error
    return {  # entries of an older form have no states
        folder: {key: each for key, each in entries.items() if each.states}
        for folder, entries in document.items()
    }


def _damaged_file_error(path: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{path}: what was accepted of workspaces cannot be used: {why}.",
        remedy="alhena trust moves the file aside and asks again.",
    )


def _encode_document(document: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def folder_key(folder: Path) -> str:
    """The key of a folder in the file."""
    return printable_path(os.path.realpath(folder))


def find_unaccepted(
    entries: Iterable[BoundEntry], folder: Path, environ: Mapping[str, str]
) -> tuple[BoundEntry, ...]:
    """The entries that are not accepted in their current state; all of them if the file of accepted
    entries is unusable."""
    entries = tuple(entries)
    if not entries:
        return ()
    try:
        kept = read_accepted(trusted_commands_path(environ)).get(folder_key(folder), {})
    except ConfigError as error:
        why = error.message.rstrip(".")
        return tuple(msgspec.structs.replace(each, unknown=why) for each in entries)
    compared = (_compare_entry(each, kept.get(each.key, AcceptedStates())) for each in entries)
    return tuple(each for each in compared if each is not None)


def _compare_entry(now: BoundEntry, known: AcceptedStates) -> BoundEntry | None:
    """An entry with its differences from the closest accepted state, the latest of equals; None
    when there are none."""
    if not known.states:
        return now
    nearest = min(known.states, key=lambda state: len(_differing(state, now)))
    changed = _differing(nearest, now)
    if not changed:
        return None
    doubtful = tuple(sorted(now.loose.intersection(_files(changed))))
    return msgspec.structs.replace(
        now, before=nearest.text, changed=tuple(changed), doubtful=doubtful
    )


def _differing(state: AcceptedState, now: BoundEntry) -> list[str]:
    """The parts that differ from a state, without files that a person declared as the entry's own
    data, and that may still be."""
    own = {_FILE + name for name in state.data if name in now.loose or name not in now.files}
    keys = dict.fromkeys((*now.parts, *state.parts))
    return [key for key in keys if key not in own and state.parts.get(key) != now.parts.get(key)]


def with_accepted(path: Path, data: bytes, folder: Path, accepted: Iterable[BoundEntry]) -> bytes:
    """Returns new file content (`data` is the old) with these entries of a folder accepted in their
    current state. Earlier states and other entries stay, because other branches have them. Without
    enough room, other folders go, least recently used first. Raises ConfigError, and DamagedError
    for an unusable file."""
    document = _parse_document(path, data)
    root = folder_key(folder)
    kept = document.pop(root, {})
    for each in accepted:
        kept[each.key] = _with_state(kept.pop(each.key, AcceptedStates()), each)
    others = list(document)
    document[root] = kept
    while len(whole := _encode_document(document)) > MAX_BYTES:
        if not others:
            raise ConfigError(
                f"{path}: what is accepted of {root} does not fit in it.",
                remedy="Move the file away to be asked again.",
            )
        del document[others.pop(0)]
    return whole


def _with_state(known: AcceptedStates, now: BoundEntry) -> AcceptedStates:
    """Adds the current state of an entry. Files declared as its own data stay so while it is
    written the same."""
    same = (each.data for each in known.states if each.parts.get(_ENTRY) == now.parts[_ENTRY])
    data = tuple(sorted(set(now.data).union(*same)))
    state = AcceptedState(parts=now.parts, text=now.text[:MAX_TEXT], data=data)
    earlier = [each for each in known.states if each.parts != now.parts]
    return AcceptedStates((state, *earlier[: MAX_STATES - 1]))


def with_own_data(path: Path, data: bytes, folder: Path, entries: Iterable[BoundEntry]) -> bytes:
    """Returns new file content (`data` is the old) with the `data` of these entries of a folder
    recorded in their accepted states with the current settings; accepts nothing else. Raises
    DamagedError."""
    document = _parse_document(path, data)
    kept = document.get(folder_key(folder), {})
    for each in entries:
        if each.key not in kept:
            continue
        states = [
            msgspec.structs.replace(state, data=tuple(sorted({*state.data, *each.data})))
            if state.parts.get(_ENTRY) == each.parts[_ENTRY]
            else state
            for state in kept[each.key].states
        ]
        kept[each.key] = AcceptedStates(tuple(states))
    return _encode_document(document)


def without_accepted(path: Path, data: bytes, revoked: Callable[[str, str], bool]) -> bytes:
    """Returns new file content (`data` is the old) without all states of the entries for which
    `revoked(folder, key)` is true. Raises DamagedError."""
    left = {
        folder: {key: each for key, each in entries.items() if not revoked(folder, key)}
        for folder, entries in _parse_document(path, data).items()
    }
    return _encode_document({folder: entries for folder, entries in left.items() if entries})


class Acceptance:
    """The servers and commands of a workspace layer as read, in `entries`; `pending` are those not
    accepted at that time. `where` is the folder with the user's environment; `variables` expand the
    texts of the settings, `dotenv` are those of them from the project's .env file."""

    def __init__(
        self,
        layer: Layer,
        where: tuple[Path, Mapping[str, str]],
        variables: Mapping[str, str],
        dotenv: Mapping[str, str],
    ) -> None:
        folder, self._environ = where
        self._folder = Path(os.path.realpath(folder))
        self._variables, self._dotenv = variables, dotenv
        self._layer = layer
        self.entries = self._bound()
        self.pending = find_unaccepted(self.entries, self._folder, self._environ)

    def server(self, name: str) -> str:
        """The reason why a server must not start, checked against its files now; "" if it may, or
        if it is not from the workspace. Reads files: do not call in an event loop."""
        return self._why(lambda each: each.server == name)

    def command(self, key: str) -> str:
        """The same for a command, by its dotted key."""
        return self._why(lambda each: each.key == key)

    def _why(self, concerns: Callable[[BoundEntry], bool]) -> str:
        held = find_unaccepted(filter(concerns, self._bound()), self._folder, self._environ)
        return f"held back: {blocked_entry_reason(held[0])}" if held else ""

    def _bound(self) -> tuple[BoundEntry, ...]:
        document = self._layer.written
        bound = bound_entries(document, self._folder, self._variables, self._dotenv)
        return tuple(each for each in bound if self._layer.says(each.path))


def blocked_entry_reason(entry: BoundEntry) -> str:
    """The reason why an entry is blocked, and the remedy."""
    return f"{entry.why}; alhena trust --status shows it, alhena trust accepts it"
