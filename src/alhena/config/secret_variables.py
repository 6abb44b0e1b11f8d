"""Settings as people may see them: in the place of what a secret variable has put in, its name."""

import re
from typing import Any, cast

from alhena.config.dotted import value_on
from alhena.config.environment import (
    CREDENTIALS,
    NEVER_KEPT,
    has_secret_name,
    has_secret_value,
    own_environment,
)
from alhena.config.expansion import names_in
from alhena.config.place import Place


class SecretVariables:
    """The variables of a place whose values are nobody's business, and where its files name them.
    Where a project has some of its own, both its values and the user's count."""

    def __init__(self, place: Place) -> None:
        blocked = place.settings.security.environment_variable_redaction.blocked
        names = CREDENTIALS | NEVER_KEPT | {name.upper() for name in blocked}
        own = own_environment(place.environ)
        of_files = (pair for file in place.env_files for pair in file.variables.items())
        every = {*place.environ.items(), *own.items(), *of_files}
        found = [
            (name, value)
            for name, value in every
            if value and (name.upper() in names or has_secret_name(name) or has_secret_value(value))
        ]
        # A value that is a part of another must not be found first.
        self._variables = sorted(found, key=lambda pair: (-len(pair[1]), pair))
        self._written = [layer.written for layer in place.layers]

    def named(self, path: tuple[str, ...], value: Any) -> Any:
        """What stands at a path of the settings with `${NAME}` for what such a variable holds, as
        far as a file has named it there. `value` is plain."""
        meant = {name for written in self._written for name in names_in(value_on(written, path))}
        texts = {held: f"${{{name}}}" for name, held in self._variables if name.upper() in meant}
        if not texts:
            return value
        return _replaced(value, re.compile("|".join(map(re.escape, texts))), texts)


def _replaced(value: Any, pattern: re.Pattern[str], texts: dict[str, str]) -> Any:
    match value:
        case str():
            return pattern.sub(lambda found: texts[found[0]], value)
        case list() | tuple():
            return [_replaced(item, pattern, texts) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _replaced(item, pattern, texts) for name, item in members.items()}
        case _:
            return value
