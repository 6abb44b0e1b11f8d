"""Choices of a person that later sessions know, in ~/.gemini/alhena_state.json."""

from collections.abc import Mapping
from typing import Any

import msgspec

from alhena.config.home import config_home
from alhena.system.errors import FileError
from alhena.system.private_files import PrivateFiles

NAME = "alhena_state.json"


class Remembered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`demo`: demo mode was chosen, so access to a model is not asked for again. `named_settings`:
    keys without effect that a person has been told of."""

    demo: bool = False
    named_settings: tuple[str, ...] = ()


def remembered(environ: Mapping[str, str]) -> Remembered:
    """The choices so far; none where the file cannot be used."""
    try:
        data = PrivateFiles(config_home(environ)).read(NAME)
        return Remembered() if data is None else msgspec.json.decode(data, type=Remembered)
    except (FileError, msgspec.DecodeError):
        return Remembered()


def remember(environ: Mapping[str, str], **changes: Any) -> None:
    """Adds choices. Raises FileError."""
    now = msgspec.structs.replace(remembered(environ), **changes)
    PrivateFiles(config_home(environ)).write(NAME, msgspec.json.encode(now))
