"""Takes credentials out of what is about to be written down."""

from collections.abc import Mapping
from typing import Any, cast

from alhena.config.environment import REDACTED, credentials, has_secret_name, without_secrets


class Redaction:
    """Knows the credentials of this session, and what others look like."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # The longest first: one may be a part of another.
        self._own = sorted(credentials(environ), key=len, reverse=True)

    def text(self, text: str) -> str:
        """`text` without credentials, and with `?` for what UTF-8 cannot carry."""
        for value in self._own:
            text = text.replace(value, REDACTED)
        text = without_secrets(text)
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

    def value(self, value: Any) -> Any:
        """The same for every text in a plain value. A text under the name of a secret is one."""
        match value:
            case str():
                return self.text(value)
            case dict():
                members = cast("dict[str, Any]", value)
                return {self.text(key): self._member(key, members[key]) for key in members}
            case list() | tuple():
                return [self.value(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def _member(self, name: str, value: Any) -> Any:
        secret = isinstance(value, str) and value and has_secret_name(name)
        return REDACTED if secret else self.value(value)
