"""The file of accepted workspace entries: for each folder its entries, and for each entry its
accepted states.

A state counts as a whole: states are never combined.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from alhena.config.documents import MAX_BYTES, NotReadableError, read_limited
from alhena.config.errors import ConfigError, DamagedError

MAX_STATES = 8
"""Maximum states of an entry."""
MAX_ENTRY = MAX_BYTES // 8
MAX_FOLDER = MAX_BYTES // 4
"""Maximum bytes of a state of an entry, and of all entries of a folder."""
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


def size_of(key: str, state: State) -> int:
    """Upper estimate of the encoded size of a state."""
    kept = State(parts=state.parts, text=state.text, data=state.data)
    return len(written({"": {key: Accepted(parts={}, earlier=(kept,))}}))


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


def fitting(entries: Folder, required: Iterable[str], there: Iterable[str]) -> Folder:
    """Limits the entries of a folder to the available room. The last states of `required` entries
    always stay; next come the last states of entries that are `there`, of all others, then earlier
    states; among equals the most recently used."""
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
    """Shrinks the document to a readable size: first drops folders that no longer exist, then
    earlier states, then other folders, least recently used first, but never `root`."""
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
        remedy="alhena trust moves the file aside and asks again.",
    )
