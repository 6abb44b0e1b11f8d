"""The settings of the directory that a command is carried out in."""

import os
from collections.abc import Iterable

from alhena.config.place import Place, open_place
from alhena.display_text import one_line
from alhena.frontends.streams import write_stderr
from alhena.system.workspace import current_directory


def place_here(*, skip_trust: bool = False, told: bool = True) -> Place:
    """The settings of the working directory; what a person should know of them goes to stderr
    when `told`. Raises ConfigError, and InputError when there is no such directory."""
    place = open_place(current_directory(), os.environ, skip_trust=skip_trust)
    if told:
        tell(place.warnings)
    return place


def tell(warnings: Iterable[str]) -> None:
    """Warnings on stderr, a line each."""
    for warning in warnings:
        write_stderr(f"alhena: warning: {one_line(warning)}\n")


def included(place: Place, given: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The workspace roots beside the working directory: those given, then those of the setting
    context.includeDirectories that are there; and a warning for each that is not."""
    roots, warnings = list(given), list[str]()
    for name in place.settings.context.include_directories:
        path = name
        if name == "~" or name.startswith("~/"):
            path = place.environ.get("HOME", "~") + name[1:]
        if os.path.isdir(place.cwd / path):
            roots.append(path)
        else:
            warnings.append(f"context.includeDirectories: there is no directory {name}.")
    return tuple(dict.fromkeys(roots)), tuple(warnings)
