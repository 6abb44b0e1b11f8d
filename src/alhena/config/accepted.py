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

from alhena.config.accepted_states import (
    FILE,
    WHOLE,
    Accepted,
    State,
    bounded,
    fitting,
    parse_accepted,
    part_names,
    read_accepted,
    whole_of,
    with_data,
    with_state,
    written,
)
from alhena.config.documents import MAX_BYTES
from alhena.config.errors import ConfigError
from alhena.config.home import trusted_commands_path
from alhena.config.layers import Layer
from alhena.config.pinned_entries import Bound, bound_entries, part_words, printable_path


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
    """True when a file is there still: then it is not what has changed."""
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
    """True when a part is a file that a person has called an entry's own data, and still may be."""
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
        """True when the workspace has nothing of the kind."""
        return not self._entries

    def server(self, name: str) -> str:
        """The reason why a server must not be started, as it was read and as its files are now; ""
        where it may be, or is none of the workspace's. Reads files: nothing for an event loop."""
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
    """The reason why an entry is held back, and what to do about it."""
    remedy = "alhena trust --status shows it, alhena trust accepts it"
    return f"{entry.why}; {remedy}" if entry.acceptable else entry.why


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _alone(document: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The document with nothing but what stands at a path."""
    name, *rest = path
    value = document[name]
    return {name: _alone(cast("dict[str, Any]", value), tuple(rest)) if rest else value}
