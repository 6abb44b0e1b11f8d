"""What a workspace has run, held against what a person has accepted of it: when a session reads it,
and again whenever something of it is about to be started.

Between the comparison and the start a file can still become another; nothing here sees that.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from alhena.config.accepted import unaccepted
from alhena.config.bound import Bound, bound_entries
from alhena.config.layers import Layer


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
