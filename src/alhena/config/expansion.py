"""Variables of the environment in the texts of settings: `$NAME`, `${NAME}`, `${NAME:-default}`.
`\\$` is a dollar sign."""

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

MAX_ADDED = 4 * 1024 * 1024
"""Characters that the variables of one document come to, at most; what is beyond stays as it is."""
_COMMANDS = frozenset({"command"})
"""Keys of hooks whose texts a shell reads, which knows how to quote what a variable holds."""
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = rf"\\\$|\$(?:(?P<plain>{_NAME})|\{{(?P<braced>{_NAME})(?::-(?P<default>[^{{}}]*))?\}})"


def expanded(value: Any, environ: Mapping[str, str], *, withheld: Collection[str] = ()) -> Any:
    """`value`, a document of settings or a text, with the variables in its texts put in; keys of
    objects stay as they are.

    A variable that is not set or empty stands for its default. The text stays as it is where a
    variable is not set and has no default, and where its name is in `withheld`.
    """
    return _Expansion(environ, withheld).of(value)


class _Expansion:
    def __init__(self, environ: Mapping[str, str], withheld: Collection[str]) -> None:
        self._environ = environ
        self._withheld = withheld
        self._left = MAX_ADDED
        self._pattern = re.compile(_VARIABLE)

    def of(self, value: Any, key: str = "") -> Any:
        """`value` with its variables; `key` is its dotted key."""
        match value:
            case str():
                return self._pattern.sub(self._put_in, value) if "$" in value else value
            case list():
                return [self.of(item, key) for item in cast("list[Any]", value)]
            case dict():
                hooks = key.partition(".")[0] == "hooks"
                members = cast("dict[str, Any]", value)
                return {
                    name: item
                    if hooks and name in _COMMANDS
                    else self.of(item, f"{key}.{name}" if key else name)
                    for name, item in members.items()
                }
            case _:
                return value

    def _put_in(self, found: re.Match[str]) -> str:
        name = found["plain"] or found["braced"]
        if name is None:
            return "$"
        text = self._environ.get(name)
        if not text and found["default"] is not None:
            text = found["default"]
        if text is None or name.upper() in self._withheld:
            return found[0]
        self._left -= len(text)
        return text if self._left >= 0 else found[0]


def names_in(value: Any) -> frozenset[str]:
    """The variables that the texts of a value name, in upper case."""
    found: set[str] = set()
    pattern = re.compile(_VARIABLE)
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            names = (match["plain"] or match["braced"] for match in pattern.finditer(each))
            found.update(name.upper() for name in names if name)
        elif isinstance(each, list):
            waiting += cast("list[Any]", each)
        elif isinstance(each, dict):
            waiting += cast("dict[str, Any]", each).values()
    return frozenset(found)
