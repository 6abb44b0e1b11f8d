"""Servers and commands of a workspace as they are now: the entry, its variables, and the files
that its command names.

Looked at is each word of the command: as it stands, behind a `=`, and word by word where it is a
command line itself (`sh -c "python srv.py"`). What a program reads by itself is not seen.

A `git pull` can put another program under the name of a server, or other text into the file that it
runs. So each entry is kept as it was accepted, part by part, and is held back while it is not that.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.accepted_states import (
    FILE,
    MAX_ENTRY,
    MAX_FOLDER,
    WHOLE,
    State,
    part_key,
    part_names,
    size_of,
)
from alhena.config.documents import NotReadableError, read_limited, value_at
from alhena.config.environment import (
    CREDENTIALS,
    has_secret_name,
    has_secret_value,
    own_environment,
)
from alhena.config.layers import expanded, names_in

MAX_FILE = 64 << 20
"""Bytes of a file that are read; a larger one is known by its size and time."""
MAX_READ = 256 << 20
"""Bytes that are read for all entries of a folder together."""
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
    """A command cannot be looked at; the text says why, as in "it cannot be accepted, for …"."""


class NamedFiles(dict[str, str]):
    """Files by their path in the folder, each with its digest. `loose` are those that may be a
    program's own data: only a person can tell."""

    loose: frozenset[str] = frozenset()


class Looks:
    """The files of a folder's entries, each read once, and as many bytes as may still be read."""

    def __init__(self) -> None:
        self._bytes = MAX_READ
        self._digests: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """The digest of a file; of a very large one its size and time. Raises TooManyWordsError."""
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
    """The files that a command line, or the command and arguments of a server's entry, name in a
    folder or from there. Data that is known by its suffix is left out. Raises TooManyWordsError."""
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
    """A path as a text that can be written down, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _command(entry: Any) -> tuple[list[str], str]:
    """The words of a command, and the directory that it starts in."""
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
    """The texts of a word that may be paths."""
    for each in dict.fromkeys([word, *(_split(word) if " " in word else ())]):
        for text in (each, each.partition("=")[2]):
            if text and "\0" not in text:
                yield text


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _within(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _runs(path: str) -> bool:
    """True for a file that can be executed, or begins with `#!`."""
    try:
        with open(path, "rb") as file:
            return os.access(path, os.X_OK) or file.read(2) == b"#!"
    except OSError:
        return True


SERVERS = "mcpServers"
COMMANDS = ("mcp.serverCommand", "tools.discoveryCommand", "tools.callCommand")
MAX_TEXT = 20_000
"""Characters of an entry that are kept to show the difference; the digests are of all of it."""
MAX_NAMED = 8
_HARMLESS = frozenset({"description", "timeout", "trust", "includeTools", "excludeTools"})
"""Members of a server's entry that do not say what it is."""
_TABLES = frozenset({"env", "headers", "oauth"})
_MEMBER, _DOTENV = "member", ".env"
"""What else parts are of."""
UNWATCHED = "none of its files is watched: what it runs may change unasked"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """An entry at `path` of the settings, as it is now: in words, and the digests of its parts,
    whose keys are JSON arrays. `given` names the person's variables that it is given. `obstacle`
    says why it could not be accepted at all. `loose` are those of its files that may be its own
    data, `data` those that a person calls so.

    `before` has the words of that accepted state which is most like this one, None when nobody has
    accepted any, and `among` says how many there are; `changed` are the parts that are others than
    there, in words, and `doubtful` those of these files that are `loose`. `unwatched` are files
    that were watched there, are not any more, and still lie where they did. `unknown` says why
    nobody can tell what was accepted."""

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
        """True when it could be accepted at all."""
        return not self.obstacle

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are watched for it."""
        return tuple(names[1] for names in map(part_names, self.parts) if names[0] == FILE)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that it sets."""
        names = map(part_names, self.parts)
        return tuple(each[2] for each in names if each[:2] == [_MEMBER, "env"] and len(each) > 2)

    @property
    def why(self) -> str:
        """The reason why it is held back."""
        if not self.acceptable:
            return f"it cannot be accepted, for {self.obstacle}"
        if self.unknown:
            return f"it cannot be told whether it was accepted: {self.unknown}"
        if self.before is None:
            return "nobody has accepted it yet"
        told = (("changed", self.changed), ("no longer watched", self.unwatched))
        differs = "; ".join(f"{how}: {_first_of(names)}" for how, names in told if names)
        if self.among > 1:
            return (
                f"it is as in none of the {self.among} states in which it was accepted; against "
                f"the nearest {differs}"
            )
        return f"it is not as it was accepted; {differs}"

    @property
    def kept(self) -> State:
        """What would be kept of it."""
        return State(parts=self.parts, text=self.text[:MAX_TEXT], data=self.data)


def bound_entries(
    settings: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    dotenv: Mapping[str, str] | None = None,
) -> tuple[Bound, ...]:
    """The entries of a workspace's document as it is written, under today's keys. `dotenv` are the
    variables of the project's .env file, which are among `environ`. However many entries there are,
    looking at them has an end: `obstacle` says so of those for which nothing was left."""
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
    return tuple(_that_fit(found))


def runs_command(entry: Any) -> bool:
    """True when an entry has something run, or may have: where it says a URL, too, which of them it
    is shows only when its variables are put in."""
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


def _that_fit(entries: Iterable[Bound]) -> Iterator[Bound]:
    """The entries; those have an obstacle of which too much would have to be kept. So the file has
    room for what was accepted of other folders, whatever a workspace brings."""
    room = MAX_FOLDER
    for each in entries:
        if each.obstacle:
            yield each
            continue
        size = size_of(each.key, each.kept)
        if size > min(MAX_ENTRY, room):
            reason = (
                f"what had to be kept of it is too large: {size:,} bytes, of at most "
                f"{MAX_ENTRY:,} for one and {MAX_FOLDER:,} for a folder"
            )
            yield msgspec.structs.replace(each, obstacle=reason)
        else:
            room -= size
            yield each


def _first_of(names: tuple[str, ...]) -> str:
    more = len(names) - MAX_NAMED
    shown = ", ".join(each[:100] for each in names[:MAX_NAMED])
    return shown + (f" and {more} more" if more > 0 else "")


def part_words(key: str) -> str:
    """The key of a part in words."""
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


def _pretty(entry: Any) -> str:
    encoded = msgspec.json.encode(_deciding(entry), order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
