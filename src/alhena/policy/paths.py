"""The files that a call would touch, matched against the `paths` of rules."""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from alhena.policy.surroundings import Surroundings
    from alhena.system.ignore import IgnoreFile

_HOME = "~/"


def path_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The (key, path) pairs of a call: strings, and strings in lists, under keys that speak of a
    path, a directory or a file, or are called source or destination; nested keys as `a.b`, at any
    depth and also in lists."""
    for name, key, text in text_arguments(args):
        if _speaks_of_a_path(key):
            yield name, text


def text_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every string of a call, in order: its dotted name, the last key of it, and the string."""
    left: list[tuple[str, str, Any]] = [("", "", args)]
    while left:
        name, key, value = left.pop()
        if isinstance(value, str):
            yield name, key, value
        elif isinstance(value, Mapping):
            above = f"{name}." if name else ""
            entries = cast("Mapping[Any, Any]", value).items()
            left += reversed([(f"{above}{inner}", str(inner), item) for inner, item in entries])
        elif isinstance(value, list | tuple):
            items = cast("list[Any] | tuple[Any, ...]", value)
            left += reversed([(name, key, item) for item in items])


def _speaks_of_a_path(key: str) -> bool:
    lowered = key.lower()
    return (
        "path" in lowered
        or "file" in lowered
        or "director" in lowered
        or lowered in {"dir", "source", "destination"}
    )


class TouchedPaths:
    """The files of one call, as written and where symbolic links lead."""

    def __init__(self, args: Mapping[str, Any], surroundings: "Surroundings | None") -> None:
        roots = surroundings.roots if surroundings else ()
        home = os.path.expanduser("~")
        # For each file its places; for each place the (path, at home) pairs patterns are tried on.
        self._files = [
            [tuple(_views(place, roots, home)) for place in _places(path, surroundings)]
            for _, path in path_arguments(args)
        ]

    def any_covered(self, patterns: tuple[str, ...]) -> bool:
        """Is one of the files meant? Upper and lower case are the same."""
        compiled = _compiled(tuple(pattern.casefold() for pattern in patterns))
        return any(
            _covers(compiled[at_home], path.casefold(), or_directory=True)
            for places in self._files
            for views in places
            for path, at_home in views
        )

    def all_covered(self, patterns: tuple[str, ...]) -> bool:
        """Are there files, and is each meant wherever it leads?"""
        compiled = _compiled(patterns)
        return bool(self._files) and all(
            any(_covers(compiled[at_home], path) for path, at_home in views)
            for places in self._files
            for views in places
        )


def _places(path: str, surroundings: "Surroundings | None") -> set[str]:
    if surroundings is None:
        return {os.path.normpath(os.path.join("/", path))}
    expanded = os.path.expanduser(path.removeprefix("@"))
    absolute = os.path.normpath(os.path.join(surroundings.cwd, expanded))
    return {absolute, surroundings.real(absolute)}


def _views(place: str, roots: tuple[str, ...], home: str) -> Iterator[tuple[str, bool]]:
    inside = [place[len(root.rstrip("/")) + 1 :] for root in roots if _is_below(place, root)]
    yield from ((path, False) for path in inside or [place.lstrip("/")])
    if _is_below(place, home):
        yield place[len(home.rstrip("/")) + 1 :], True


def _is_below(path: str, top: str) -> bool:
    return path.startswith(top.rstrip("/") + "/")


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple["IgnoreFile", "IgnoreFile"]:
    """The patterns for the workspace, and those that begin with `~/`."""
    from alhena.system.ignore import IgnoreFile

    here = [pattern for pattern in patterns if not pattern.startswith(_HOME)]
    home = [f"/{pattern[2:]}" for pattern in patterns if pattern.startswith(_HOME)]
    return IgnoreFile("\n".join(here)), IgnoreFile("\n".join(home))


def _covers(patterns: "IgnoreFile", path: str, *, or_directory: bool = False) -> bool:
    """Is the path, or a directory above it, meant? `or_directory`: it may be a directory, too."""
    names = path.encode("utf-8", "surrogatepass").decode("latin-1").split("/")
    prefix = ""
    for index, name in enumerate(names):
        inner = index < len(names) - 1
        if patterns.verdict(prefix, name, inner or or_directory):
            return True
        prefix += f"{name}/"
    return False
