"""Servers and commands of a workspace in their current state: the entry, its variables, and the
files its command names; and the file of their accepted states.

Each word of the command is examined: as it is, after a `=`, and split into words if it is itself a
command line (`sh -c "python srv.py"`). Files a program reads by itself are not seen.

A `git pull` can replace the program under a server's name, or the content of the file it runs. So
each accepted entry is recorded part by part, and is blocked when it changes.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import NotReadableError, read_limited, value_at
from alhena.config.environment import (
    CREDENTIALS,
    has_secret_name,
    has_secret_value,
    own_environment,
)
from alhena.config.layers import expanded, names_in
from alhena.errors import ConfigError, DamagedError

MAX_STATES = 8
"""Maximum states of an entry."""
WHOLE, FILE = "whole", "file"
"""Kinds of parts: the entry as a whole, and a file it names."""


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as accepted: a text for people and the digests of its parts, whose keys are JSON
    arrays. `data` are files declared as its own data: they may change."""

    parts: dict[str, str]
    text: str = ""
    data: tuple[str, ...] = ()


class Accepted(State, frozen=True, kw_only=True, omit_defaults=True):
    """The last accepted state, and `earlier` states, latest first."""

    earlier: tuple[State, ...] = ()

    @property
    def states(self) -> tuple[State, ...]:
        """All states, latest first."""
        return (self, *self.earlier)


Folder = dict[str, Accepted]
Document = dict[str, Folder]
"""Most recently used entries are last."""


def part_key(*names: str) -> str:
    """The key of a part, unique for any names."""
    return msgspec.json.encode(names).decode("utf-8")


def part_names(key: str) -> list[str]:
    """The names encoded in a part key."""
    try:
        return msgspec.json.decode(key, type=list[str]) or [""]
    except (msgspec.MsgspecError, UnicodeError):
        return [key]  # an older form


def whole_of(parts: dict[str, str]) -> str:
    """The digest of the whole entry in the settings."""
    return parts.get(part_key(WHOLE), "")


def read_accepted(path: Path) -> Document:
    """Reads the file; empty if missing. Raises ConfigError: DamagedError for an invalid file."""
    try:
        return parse_accepted(path, read_limited(path))
    except FileNotFoundError:
        return {}
    except (NotReadableError, IsADirectoryError) as error:
        raise _damaged(path, error.strerror or str(error)) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read what was accepted of workspaces in {path}: {error.strerror or error}.",
            remedy="Make the file readable.",
        ) from error


def parse_accepted(path: Path, data: bytes) -> Document:
    """Parses the content of the file. Raises DamagedError."""
    if not data.strip():
        return {}
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, str(error).replace("`", "")) from error
    # An older form had no digest of the whole: such entries have to be accepted again.
    return {
        folder: {key: each for key, each in entries.items() if whole_of(each.parts)}
        for folder, entries in document.items()
        if entries
    }


def written(document: Document) -> bytes:
    """Encodes the file."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def with_state(known: Accepted | None, state: State) -> Accepted:
    """Adds an accepted state to an entry. Files declared as its own data stay so while the settings
    of the entry are unchanged."""
    states = () if known is None else known.states
    whole = whole_of(state.parts)
    data = set(state.data).union(*(each.data for each in states if whole_of(each.parts) == whole))
    earlier = [each for each in states if each.parts != state.parts][: MAX_STATES - 1]
    last = State(parts=state.parts, text=state.text, data=tuple(sorted(data)))
    return _entry([last, *earlier])


def with_data(known: Accepted, whole: str, data: Iterable[str]) -> Accepted:
    """Declares files as own data in the states with this digest of the whole."""
    more = set(data)
    return _entry(
        msgspec.structs.replace(each, data=tuple(sorted(more.union(each.data))))
        if whole_of(each.parts) == whole
        else each
        for each in known.states
    )


def _entry(states: Iterable[State]) -> Accepted:
    last, *earlier = (State(parts=each.parts, text=each.text, data=each.data) for each in states)
    return Accepted(parts=last.parts, text=last.text, data=last.data, earlier=tuple(earlier))


def _damaged(path: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{path}: what was accepted of workspaces cannot be used: {why}.",
        remedy="alhena trust moves the file aside and asks again.",
    )


MAX_FILE = 64 << 20
"""Maximum bytes of a file that are read; a larger one is identified by size and time."""
MAX_READ = 256 << 20
"""Maximum bytes read for all entries of a folder together."""
MAX_WORDS = 10_000
_DATA = frozenset(
    {
        *(".db", ".db3", ".sqlite", ".sqlite3", ".parquet", ".csv", ".tsv", ".jsonl", ".ndjson"),
        *(".log", ".lock", ".pid", ".sock"),
    }
)
_CODE = frozenset(
    {
        *("", ".py", ".pyz", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".tsx", ".sh", ".bash"),
        *(".rb", ".pl", ".php", ".lua", ".jar", ".go", ".rs", ".exe"),
    }
)


class TooManyWordsError(Exception):
    """A command cannot be analysed; the text completes "it cannot be accepted, for …"."""


class NamedFiles(dict[str, str]):
    """Digests of files by their path in the folder. `loose` are those that may be a program's own
    data: only a person can tell."""

    loose: frozenset[str] = frozenset()


class Looks:
    """The files of a folder's entries, each read once, and the remaining number of bytes to
    read."""

    def __init__(self) -> None:
        self._bytes = MAX_READ
        self._digests: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """The digest of a file; for a very large one, size and time. Raises TooManyWordsError."""
        from hashlib import sha256

        if path not in self._digests:
            try:
                data = read_limited(path, MAX_FILE)
            except NotReadableError:
                status = os.stat(path)
                made = f"{status.st_size} bytes of {status.st_mtime_ns}"
            except OSError as error:
                made = f"unreadable ({error.strerror})"
            else:
                self._bytes -= len(data)
                if self._bytes < 0:
                    raise TooManyWordsError(
                        "the files that the entries name are too large altogether"
                    )
                made = sha256(data).hexdigest()
            self._digests[path] = made
        return self._digests[path]


def named_files(entry: Any, folder: Path, looks: Looks | None = None) -> NamedFiles:
    """The files in a folder named by a command line, or by the command and arguments of a server
    entry. Files with a suffix of data are left out. Raises TooManyWordsError."""
    looks = looks or Looks()
    root = os.path.realpath(folder)
    words, cwd = _command(entry)
    made, strict = NamedFiles(), set[str]()
    texts = [(number, text) for number, word in enumerate(words) for text in _readings(word)]
    if len(texts) > MAX_WORDS:
        raise TooManyWordsError("it has more words than can be looked at")
    for number, text in texts:
        for place in {os.path.join(root, cwd), root}:
            path = os.path.normpath(os.path.join(place, os.path.expanduser(text)))
            real = os.path.realpath(path)
            inside = path if _within(path, root) else real
            suffix = os.path.splitext(path)[1].lower()
            named_from_here = _within(inside, root) or text[0] not in "/~"
            if not named_from_here or suffix in _DATA or not os.path.isfile(path):
                continue
            name = printable_path(os.path.relpath(inside, root))
            made[name] = looks.digest(real)
            code = not _CODE.isdisjoint({suffix, os.path.splitext(real)[1].lower()})
            if number == 0 or code or _runs(real):
                strict.add(name)
    made.loose = frozenset(made) - strict
    return made


def printable_path(path: str) -> str:
    """A path as encodable text, whatever its bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _command(entry: Any) -> tuple[list[str], str]:
    """The words of a command, and its working directory."""
    if isinstance(entry, str):
        return _split(entry), ""
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


def _within(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _runs(path: str) -> bool:
    """True for a file that is executable or begins with `#!`."""
    try:
        with open(path, "rb") as file:
            return os.access(path, os.X_OK) or file.read(2) == b"#!"
    except OSError:
        return True


SERVERS = "mcpServers"
COMMANDS = ("mcp.serverCommand", "tools.discoveryCommand", "tools.callCommand")
MAX_TEXT = 20_000
"""Maximum characters of an entry kept for the diff; the digests cover all of it."""
MAX_NAMED = 8
_HARMLESS = frozenset({"description", "timeout", "trust", "includeTools", "excludeTools"})
"""Members of a server entry that do not affect its identity."""
_TABLES = frozenset({"env", "headers", "oauth"})
_MEMBER, _DOTENV = "member", ".env"
"""Further kinds of parts."""
UNWATCHED = "no file of it is checked for changes"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of an entry at `path` of the settings: its text, and the digests of its
    parts, whose keys are JSON arrays. `given` names the person's variables it receives. `obstacle`
    is the reason why it cannot be accepted at all. `loose` are its files that may be its own data,
    `data` those that a person declared so.

    `before`: text of the closest accepted state, None if there is none; `among` is the number of
    accepted states; `changed` describes the parts that differ from it, and `doubtful` lists those
    of these files that are `loose`. `unwatched` are files watched in that state, no longer watched,
    and still present. `unknown` is the reason why accepted states cannot be determined."""

    path: tuple[str, ...]
    text: str
    parts: dict[str, str]
    given: tuple[str, ...] = ()
    obstacle: str = ""
    loose: frozenset[str] = frozenset()
    data: tuple[str, ...] = ()
    before: str | None = None
    among: int = 0
    changed: tuple[str, ...] = ()
    unwatched: tuple[str, ...] = ()
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
    def acceptable(self) -> bool:
        """True when it can be accepted."""
        return not self.obstacle

    @property
    def files(self) -> tuple[str, ...]:
        """The files watched for it."""
        return tuple(names[1] for names in map(part_names, self.parts) if names[0] == FILE)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables it sets."""
        names = map(part_names, self.parts)
        return tuple(each[2] for each in names if each[:2] == [_MEMBER, "env"] and len(each) > 2)

    @property
    def why(self) -> str:
        """The reason why it is blocked."""
        if not self.acceptable:
            return f"it cannot be accepted, for {self.obstacle}"
        if self.unknown:
            return f"it cannot be told whether it was accepted: {self.unknown}"
        if self.before is None:
            return "it is not accepted yet"
        told = (("changed", self.changed), ("no longer watched", self.unwatched))
        differs = "; ".join(f"{how}: {_first_of(names)}" for how, names in told if names)
        if self.among > 1:
            return (
                f"it is as in none of the {self.among} states in which it was accepted; against "
                f"the nearest {differs}"
            )
        return f"it has changed since it was accepted; {differs}"

    @property
    def kept(self) -> State:
        """The state to record."""
        return State(parts=self.parts, text=self.text[:MAX_TEXT], data=self.data)


def bound_entries(
    settings: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    dotenv: Mapping[str, str] | None = None,
) -> tuple[Bound, ...]:
    """The entries of a workspace document as written, with renamed keys. `dotenv` are the variables
    of the project's .env file, which are part of `environ`. The work is bounded: `obstacle` marks
    entries beyond the limit."""
    found: list[Bound] = []
    variables, looks = (environ, dotenv or {}), Looks()
    servers = settings.get(SERVERS)
    if isinstance(servers, dict):
        for name, entry in cast("dict[str, Any]", servers).items():
            found.append(_bound((SERVERS, name), entry, (folder, looks), variables))
    for key in COMMANDS:
        command = value_at(settings, key)
        if isinstance(command, str):
            path = tuple(key.split("."))
            found.append(_bound(path, command, (folder, looks), variables))
    return tuple(found)


def runs_command(entry: Any) -> bool:
    """True when an entry runs a command, or may: with a URL as well, only expansion decides."""
    if not isinstance(entry, dict):
        return isinstance(entry, str)
    members = cast("dict[str, Any]", entry)
    return bool(members.get("command")) or not (members.get("httpUrl") or members.get("url"))


def _bound(
    path: tuple[str, ...],
    entry: Any,
    where: tuple[Path, Looks],
    variables: tuple[Mapping[str, str], Mapping[str, str]],
) -> Bound:
    folder, looks = where
    environ, dotenv = variables
    parts = {part_key(WHOLE): _digest(_deciding(entry))}
    parts |= {part_key(*names): digest for names, digest in _parts(entry)}
    obstacle = ""
    lines = [entry if isinstance(entry, str) else _pretty(entry)]
    try:
        meant = expanded(entry, environ, withheld=CREDENTIALS)
        files = named_files(meant, folder, looks)
    except TooManyWordsError as error:
        obstacle = str(error)
        files = NamedFiles()
    for name, digest in files.items():
        parts[part_key(FILE, name)] = digest
        lines.append(f"with the file {name} ({digest[:16]})")
    if not files and not obstacle and runs_command(entry):
        lines.append(UNWATCHED)
    for name in _of_dotenv(entry, dotenv):
        value = dotenv[name]
        parts[part_key(_DOTENV, name)] = _digest(value)
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
        loose=files.loose,
    )


def _first_of(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_NAMED
    shown = ", ".join(each[:100] for each in names[:MAX_NAMED])
    return shown + (f" and {more} more" if more > 0 else "")


def part_words(key: str) -> str:
    """Describes a part key in words."""
    match part_names(key):
        case [kind, name] if kind == FILE:
            return f"the file {name}"
        case [kind, name] if kind == _DOTENV:
            return f"{name} of .env"
        case [kind, *names] if kind == _MEMBER and names:
            return ".".join(
                part_key(each)[1:-1] if re.search(r"[\s.,\"]|^$", each) else each for each in names
            )
        case names:
            return " ".join(names)


def _parts(entry: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """The digests of an entry, member by member."""
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
    """An entry without the members that do not affect its identity."""
    if not isinstance(entry, dict):
        return entry
    members = cast("dict[str, Any]", entry)
    return {name: value for name, value in members.items() if name not in _HARMLESS}


def _of_dotenv(entry: Any, dotenv: Mapping[str, str]) -> Iterator[str]:
    """The variables of a .env file that affect an entry's identity. Secrets in places for secrets
    do not: they are rotated."""
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


def _pretty(entry: Any) -> str:
    encoded = msgspec.json.encode(_deciding(entry), order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
