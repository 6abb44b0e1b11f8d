"""Files of the user's in JSON with comments, changed for them."""

from collections.abc import Callable
from pathlib import Path

from alhena.config.errors import ConfigError
from alhena.config.jsonc import JsonEditError
from alhena.hooks.user_files import change_file


def change_json(
    file: Path,
    changed: Callable[[str], str],
    failure: str,
    *,
    remedy: str = "Change it in an editor.",
) -> None:
    """Puts what `changed` makes of a file in its place, in one step. Raises ConfigError with
    `remedy` when it cannot be changed so, with `failure` when it cannot be written: it holds what
    it held."""

    def rewritten(data: bytes) -> bytes:
        try:
            return changed(data.decode("utf-8")).encode("utf-8")
        except (JsonEditError, UnicodeError) as error:
            raise ConfigError(f"{file} {error}; it was left alone.", remedy=remedy) from error

    change_file(file, rewritten, failure)
