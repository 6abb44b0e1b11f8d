"""The file of what was accepted of workspaces: for each folder its entries, and of each entry the
states in which a person has accepted it.

A state counts as a whole: what two of them have is never put together.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from alhena.config.documents import MAX_BYTES, NotReadableError, read_limited
from alhena.config.errors import ConfigError, DamagedError

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
    """The number of bytes a state of an entry takes, or some more."""
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
