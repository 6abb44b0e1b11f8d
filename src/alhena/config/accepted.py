"""The servers and commands of workspaces as a person has accepted them, and the comparison
before each start.

A state counts as a whole: what two of them have is never put together.

Between the comparison and the start a file can still become another; nothing here sees that.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import MAX_BYTES, NotReadableError, read_limited
from alhena.config.errors import ConfigError, DamagedError
from alhena.config.home import trusted_commands_path
from alhena.config.layers import Layer
from alhena.config.pinned_entries import Bound, bound_entries, part_words, printable_path

MAX_STATES = 8
"""States of an entry that are kept."""
MAX_ENTRY = MAX_BYTES // 8
MAX_FOLDER = MAX_BYTES // 4
"""Bytes that are kept of a state of an entry, and of all entries of a folder."""
WHOLE, FILE = "whole", "file"
"""What parts are of: the entry as a whole, and a file that it names."""


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as it was accepted: the digests of its parts, whose keys are JSON arrays, and in
    words. `data` are the files that the person has called its own data: they may change."""

    parts: dict[str, str]
    text: str = ""
    data: tuple[str, ...] = ()


class Accepted(State, frozen=True, kw_only=True, omit_defaults=True):
    """The state that was accepted last, and `earlier` those before it, the last first."""

    earlier: tuple[State, ...] = ()

    @property
    def states(self) -> tuple[State, ...]:
        """All of them, the last first."""
        return (self, *self.earlier)


Folder = dict[str, Accepted]
Document = dict[str, Folder]
"""Those that were spoken of last are at the end."""


def part_key(*names: str) -> str:
    """The key of a part: no two parts have the same, whatever their names are."""
    return msgspec.json.encode(names).decode("utf-8")


def part_names(key: str) -> list[str]:
    """What the key of a part was made of."""
    try:
        return msgspec.json.decode(key, type=list[str]) or [""]
    except (msgspec.MsgspecError, UnicodeError):
        return [key]  # of an earlier form


def whole_of(parts: dict[str, str]) -> str:
    """The digest of all that the settings say of an entry."""
    return parts.get(part_key(WHOLE), "")


def read_accepted(path: Path) -> Document:
    """What is in the file, nothing when it is not there. Raises ConfigError: DamagedError where it
    holds something else."""
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
    """What the bytes of the file say. Raises DamagedError."""
    if not data.strip():
        return {}
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, str(error).replace("`", "")) from error
    # An earlier form had no digest of the whole: whoever accepted that is asked once more.
    return {
        folder: {key: each for key, each in entries.items() if whole_of(each.parts)}
        for folder, entries in document.items()
        if entries
    }


def written(document: Document) -> bytes:
    """The bytes of a file that says this."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def size_of(key: str, state: State) -> int:
    """How many bytes a state of an entry takes, or some more."""
    kept = State(parts=state.parts, text=state.text, data=state.data)
    return len(written({"": {key: Accepted(parts={}, earlier=(kept,))}}))


def with_state(known: Accepted | None, state: State) -> Accepted:
    """An entry that is accepted in this state, too. What was called its own data stays so, as long
    as the settings say the same of the entry."""
    states = () if known is None else known.states
    whole = whole_of(state.parts)
    data = set(state.data).union(*(each.data for each in states if whole_of(each.parts) == whole))
    earlier = [each for each in states if each.parts != state.parts][: MAX_STATES - 1]
    last = State(parts=state.parts, text=state.text, data=tuple(sorted(data)))
    return _entry([last, *earlier])


def with_data(known: Accepted, whole: str, data: Iterable[str]) -> Accepted:
    """The same, and files are its own data in those states that have this digest of the whole."""
    more = set(data)
    return _entry(
        msgspec.structs.replace(each, data=tuple(sorted(more.union(each.data))))
        if whole_of(each.parts) == whole
        else each
        for each in known.states
    )


def fitting(entries: Folder, required: Iterable[str], there: Iterable[str]) -> Folder:
    """The entries of a folder with as many of their states as there is room for. The last states of
    those that are `required` are kept in any case; first of the others are the last states of those
    that are `there`, then those of all others, then the earlier ones; of like ones those that were
    spoken of last."""
    first, second = frozenset(required), frozenset(there)
    order = [*reversed(entries)]
    order.sort(key=lambda key: 0 if key in first else 1 if key in second else 2)
    left = MAX_FOLDER
    states: dict[str, list[State]] = {}
    for age in range(MAX_STATES):
        for key in order:
            known = entries[key].states
            if age >= len(known) or len(states.get(key, ())) < age:
                continue
            size = size_of(key, known[age])
            if size <= left or (age == 0 and key in first):
                left -= size
                states.setdefault(key, []).append(known[age])
    return {key: _entry(states[key]) for key in entries if key in states}


def bounded(document: Document, root: str) -> Document:
    """The document as small as it has to be to be read again: first the folders go that are gone,
    then what was accepted earlier of the others, then these, but never `root`; of like ones those
    first of which nobody has spoken for longest."""
    kept = dict(document)
    excess = len(written(kept)) - MAX_BYTES
    others = [each for each in kept if each != root]
    gone = [each for each in others if not os.path.isdir(each)] if excess > 0 else []
    there = [each for each in others if each not in gone]
    for each in gone:
        if excess > 0:
            excess -= _size(each, kept.pop(each))
    for each in there:
        if excess > 0:
            last = {key: _entry(entry.states[:1]) for key, entry in kept[each].items()}
            excess -= _size(each, kept[each]) - _size(each, last)
            kept[each] = last
    for each in there:
        if excess > 0:
            excess -= _size(each, kept.pop(each))
    return kept


def _size(name: str, folder: Folder) -> int:
    return len(written({name: folder})) - len(written({}))


def _entry(states: Iterable[State]) -> Accepted:
    last, *earlier = (State(parts=each.parts, text=each.text, data=each.data) for each in states)
    return Accepted(parts=last.parts, text=last.text, data=last.data, earlier=tuple(earlier))


def _damaged(path: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{path}: what was accepted of workspaces cannot be used: {why}.",
        remedy="alhena trust puts the file aside, and accepts anew what it shows.",
    )


def unaccepted(
    entries: Iterable[Bound], folder: Path, environ: Mapping[str, str]
) -> tuple[Bound, ...]:
    """Those entries that nobody has accepted as they are: all of them, where the file of what was
    accepted cannot be used."""
    entries = tuple(entries)
    if not entries:
        return ()
    try:
        kept = read_accepted(trusted_commands_path(environ))
    except ConfigError as error:
        why = error.message.rstrip(".")
        return tuple(msgspec.structs.replace(each, unknown=why) for each in entries)
    of_folder = kept.get(folder_key(folder), {})
    return tuple(
        each if known is None else _compared(each, known, folder)
        for each in entries
        if (known := of_folder.get(each.key)) is None
        or not each.acceptable
        or all(_differing(state, each) for state in known.states)
    )


def own_data(folder: Path, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The files that a person has called the own data of entries of a folder, by the keys of these
    as they were accepted last. Raises ConfigError."""
    of_folder = read_accepted(trusted_commands_path(environ)).get(folder_key(folder), {})
    return {key: each.data for key, each in of_folder.items() if each.data}


def folder_key(folder: Path) -> str:
    """How a folder is called in the file."""
    return printable_path(os.path.realpath(folder))


def with_accepted(
    path: Path, data: bytes, folder: Path, accepted: Iterable[Bound], there: Iterable[str]
) -> bytes:
    """The bytes of the file, of which `data` were, with these entries of a folder accepted as they
    are. States in which they were accepted before stay, and other entries, too: another branch has
    them. As far as there is room: those whose keys are `there` come before those that are not.
    Raises ConfigError, and DamagedError where the file cannot be used."""
    document = parse_accepted(path, data)
    root = folder_key(folder)
    kept = document.pop(root, {})
    new = {each.key: each.kept for each in accepted if each.acceptable}
    for key, state in new.items():
        kept[key] = with_state(kept.pop(key, None), state)  # at the end: spoken of last
    if kept:
        document[root] = fitting(kept, new, there)
    whole = written(bounded(document, root))
    if len(whole) > MAX_BYTES:
        raise ConfigError(
            f"{path}: what is accepted of {root} does not fit in it.",
            remedy="Move the file away to be asked anew.",
        )
    return whole


def with_own_data(path: Path, data: bytes, folder: Path, entries: Iterable[Bound]) -> bytes:
    """The bytes of the file, of which `data` were, with the `data` of these entries of a folder
    called so where they were accepted, as the settings say them now, and nothing else accepted.
    Raises DamagedError."""
    document = parse_accepted(path, data)
    kept = document.get(folder_key(folder), {})
    for each in entries:
        if each.key in kept:
            kept[each.key] = with_data(kept[each.key], whole_of(each.parts), each.data)
    return written(document)


def without_accepted(path: Path, data: bytes, revoked: Callable[[str, str], bool]) -> bytes:
    """The bytes of the file, of which `data` were, without all states of the entries that are
    `revoked`, who is given a folder and the key of an entry. Raises DamagedError."""
    document = parse_accepted(path, data)
    left = {
        folder: {key: each for key, each in entries.items() if not revoked(folder, key)}
        for folder, entries in document.items()
    }
    return written({folder: entries for folder, entries in left.items() if entries})


def _compared(now: Bound, known: Accepted, folder: Path) -> Bound:
    """An entry of a folder with its difference from that accepted state in which fewest is another:
    what a person would allow beyond what is allowed already. Of like ones it is the last."""
    nearest = min(known.states, key=lambda state: len(_differing(state, now)))
    keys = _differing(nearest, now)
    gone = [key for key in keys if key not in now.parts]
    unwatched = {key: name for key in gone if (name := _file_of(key)) and _lies(folder, name)}
    changed = [key for key in keys if key not in unwatched]
    told = [part_words(key) for key in changed if part_names(key) != [WHOLE]]
    if changed and not told:
        told = ["how it is written"]
    return msgspec.structs.replace(
        now,
        before=nearest.text,
        among=len(known.states),
        changed=tuple(told),
        unwatched=tuple(unwatched.values()),
        doubtful=tuple(sorted(now.loose.intersection(map(_file_of, changed)))),
    )


def _file_of(key: str) -> str:
    """The file that a part is of; "" where it is of none."""
    match part_names(key):
        case [kind, name] if kind == FILE:
            return name
        case _:
            return ""


def _lies(folder: Path, name: str) -> bool:
    """Whether a file is there still: then it is not what has changed."""
    return "\0" not in name and os.path.lexists(os.path.join(folder, name))


def _differing(state: State, now: Bound) -> list[str]:
    """The keys of the parts that are not as they are in a state, those of an entry's own data left
    out."""
    keys = dict.fromkeys((*now.parts, *state.parts))
    return [
        key
        for key in keys
        if state.parts.get(key) != now.parts.get(key) and not _is_own(key, state, now)
    ]


def _is_own(key: str, state: State, now: Bound) -> bool:
    """Whether a part is a file that a person has called an entry's own data, and still may be."""
    match part_names(key):
        case [kind, name] if kind == FILE and name in state.data:
            return name in now.loose or key not in now.parts
        case _:
            return False


class Acceptance:
    """The servers and commands of a workspace's layer as they were read, in `entries`; `pending`
    are those that nobody had accepted then. `where` is the folder with the user's environment;
    `variables` are those for the texts of the settings, `dotenv` the ones among them of the
    project's .env file.
    """

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
        written = layer.written
        self.entries = tuple(each for each in self._bound((written,)) if layer.says(each.path))
        self._entries = {
            each.path: (each.server, _alone(written, each.path)) for each in self.entries
        }
        self.pending = unaccepted(self.entries, self._folder, self._environ)

    @property
    def is_empty(self) -> bool:
        """Whether the workspace has nothing of the kind."""
        return not self._entries

    def server(self, name: str) -> str:
        """Why a server must not be started, as it was read and as its files are now; "" where it
        may be, or is none of the workspace's. Reads files: nothing for an event loop."""
        return self._why(alone for server, alone in self._entries.values() if server == name)

    def command(self, key: str) -> str:
        """The same of a command, by its dotted key."""
        return self._why(alone for path, (_, alone) in self._entries.items() if key == _key(path))

    def _why(self, documents: Iterable[Mapping[str, Any]]) -> str:
        held = unaccepted(self._bound(documents), self._folder, self._environ)
        return f"held back: {held_words(held[0])}" if held else ""

    def _bound(self, documents: Iterable[Mapping[str, Any]]) -> tuple[Bound, ...]:
        return tuple(
            each
            for document in documents
            for each in bound_entries(document, self._folder, self._variables, self._dotenv)
        )


def held_words(entry: Bound) -> str:
    """Why an entry is held back, and what to do about it."""
    remedy = "alhena trust --status shows it, alhena trust accepts it"
    return f"{entry.why}; {remedy}" if entry.acceptable else entry.why


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _alone(document: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The document with nothing but what stands at a path."""
    name, *rest = path
    value = document[name]
    return {name: _alone(cast("dict[str, Any]", value), tuple(rest)) if rest else value}
