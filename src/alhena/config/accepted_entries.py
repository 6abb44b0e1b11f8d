"""Compares the servers and commands of workspaces with their accepted states before each start.

A state counts as a whole: states are never combined.

A file can still change between the comparison and the start; that is not detected.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.documents import MAX_BYTES
from alhena.config.home import trusted_commands_path
from alhena.config.layers import Layer
from alhena.config.pinned_entries import (
    FILE,
    WHOLE,
    Accepted,
    Bound,
    State,
    bound_entries,
    parse_accepted,
    part_names,
    part_words,
    printable_path,
    read_accepted,
    whole_of,
    with_data,
    with_state,
    written,
)
from alhena.errors import ConfigError


def unaccepted(
    entries: Iterable[Bound], folder: Path, environ: Mapping[str, str]
) -> tuple[Bound, ...]:
    """The entries that are not accepted in their current state; all of them if the file of accepted
    entries is unusable."""
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
    """The files a person declared as own data of a folder's entries, by entry key, in their last
    accepted state. Raises ConfigError."""
    of_folder = read_accepted(trusted_commands_path(environ)).get(folder_key(folder), {})
    return {key: each.data for key, each in of_folder.items() if each.data}


def folder_key(folder: Path) -> str:
    """The key of a folder in the file."""
    return printable_path(os.path.realpath(folder))


def with_accepted(path: Path, data: bytes, folder: Path, accepted: Iterable[Bound]) -> bytes:
    """Returns new file content (`data` is the old) with these entries of a folder accepted in their
    current state. Earlier states and other entries stay, because other branches have them. Without
    enough room, other folders go, least recently used first. Raises ConfigError, and DamagedError
    for an unusable file."""
    document = parse_accepted(path, data)
    root = folder_key(folder)
    kept = document.pop(root, {})
    for each in accepted:
        if each.acceptable:  # moved to the end: most recently used
            kept[each.key] = with_state(kept.pop(each.key, None), each.kept)
    others = list(document)
    if kept:
        document[root] = kept
    while len(whole := written(document)) > MAX_BYTES:
        if not others:
            raise ConfigError(
                f"{path}: what is accepted of {root} does not fit in it.",
                remedy="Move the file away to be asked again.",
            )
        del document[others.pop(0)]
    return whole


def with_own_data(path: Path, data: bytes, folder: Path, entries: Iterable[Bound]) -> bytes:
    """Returns new file content (`data` is the old) with the `data` of these entries of a folder
    recorded in their accepted states with the current settings; accepts nothing else. Raises
    DamagedError."""
    document = parse_accepted(path, data)
    kept = document.get(folder_key(folder), {})
    for each in entries:
        if each.key in kept:
            kept[each.key] = with_data(kept[each.key], whole_of(each.parts), each.data)
    return written(document)


def without_accepted(path: Path, data: bytes, revoked: Callable[[str, str], bool]) -> bytes:
    """Returns new file content (`data` is the old) without all states of the entries for which
    `revoked(folder, key)` is true. Raises DamagedError."""
    document = parse_accepted(path, data)
    left = {
        folder: {key: each for key, each in entries.items() if not revoked(folder, key)}
        for folder, entries in document.items()
    }
    return written({folder: entries for folder, entries in left.items() if entries})


def _compared(now: Bound, known: Accepted, folder: Path) -> Bound:
    """Compares an entry of a folder with the accepted state that has the fewest differences, the
    latest of equals."""
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
    """The file of a part; "" for other parts."""
    match part_names(key):
        case [kind, name] if kind == FILE:
            return name
        case _:
            return ""


def _lies(folder: Path, name: str) -> bool:
    """True when a file still exists, so that it is not the change."""
    return "\0" not in name and os.path.lexists(os.path.join(folder, name))


def _differing(state: State, now: Bound) -> list[str]:
    """The keys of parts that differ from a state, without the entry's own data."""
    keys = dict.fromkeys((*now.parts, *state.parts))
    return [
        key
        for key in keys
        if state.parts.get(key) != now.parts.get(key) and not _is_own(key, state, now)
    ]


def _is_own(key: str, state: State, now: Bound) -> bool:
    """True when a part is a file that a person declared as the entry's own data, and that may still
    be."""
    match part_names(key):
        case [kind, name] if kind == FILE and name in state.data:
            return name in now.loose or key not in now.parts
        case _:
            return False


class Acceptance:
    """The servers and commands of a workspace layer as read, in `entries`; `pending` are those not
    accepted at that time. `where` is the folder with the user's environment; `variables` expand the
    texts of the settings, `dotenv` are those of them from the project's .env file.
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
        """True when the workspace has no servers or commands."""
        return not self._entries

    def server(self, name: str) -> str:
        """The reason why a server must not start, checked against its files now; "" if it may, or
        if it is not from the workspace. Reads files: do not call in an event loop."""
        return self._why(alone for server, alone in self._entries.values() if server == name)

    def command(self, key: str) -> str:
        """The same for a command, by its dotted key."""
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
    """The reason why an entry is blocked, and the remedy."""
    remedy = "alhena trust --status shows it, alhena trust accepts it"
    return f"{entry.why}; {remedy}" if entry.acceptable else entry.why


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _alone(document: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The document reduced to the value at a path."""
    name, *rest = path
    value = document[name]
    return {name: _alone(cast("dict[str, Any]", value), tuple(rest)) if rest else value}
