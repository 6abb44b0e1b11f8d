"""Checks a settings file for wrong values and unknown keys."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from alhena.config.documents import settings_document, without_value
from alhena.config.reference_keys import REFERENCE_KEYS, TRANSLATED, known_keys
from alhena.config.settings import Settings, settings_of
from alhena.near_names import near_name

MAX_TOLD = 20
"""Maximum wrong values reported per file."""
MAX_MESSAGE = 200
"""Maximum characters of one message."""
_KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "null": "null",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_PLACE = re.compile(r" - at `(?:key in `)?\$([^`]*)`*$")


_COMFORT = (
    *("ui", "ide", "contextManagement", "hooksConfig.notifications", "context.importFormat"),
    *("context.includeDirectoryTree", "context.discoveryMaxDirs", "general.enableNotifications"),
    *("general.notificationMethod", "general.vimMode", "general.maxAttempts"),
    *("general.retryFetchErrors", "model.compressionThreshold", "tools.shell.pty"),
    *("tools.shell.enableInteractiveShell", "tools.truncateToolOutputThreshold"),
)
"""Keys and sections of looks and comfort, whose wrong values are ignored. Others restrict
something, or say where something goes."""


class WrongValue(msgspec.Struct, frozen=True, kw_only=True):
    """An invalid value of a settings file: its place and the reason, and the remedy."""

    path: tuple[str, ...]
    told: str
    remedy: str

    @property
    def is_comfort(self) -> bool:
        """True if the value only concerns looks or comfort."""
        key = ".".join(self.path)
        return any(key == each or key.startswith(f"{each}.") for each in _COMFORT)


def wrong_values(
    document: Any, file: str, line_of: Callable[[tuple[str, ...]], int | None]
) -> list[WrongValue]:
    """The invalid values of a document in document order. `line_of` returns the line of a key's
    value."""
    found: list[WrongValue] = []
    while len(found) < MAX_TOLD:
        try:
            msgspec.convert(document, Settings)
        except msgspec.ValidationError as error:
            text = str(error)
        else:
            break
        place = _PLACE.search(text)
        said = place[1] if place else ""
        path = tuple(name for name in said.partition("[")[0].split(".") if name)
        message = plain_message(text[: place.start()] if place else text)
        entry = said[said.index("[") :] if "[" in said else ""
        line = line_of(path)
        told = (file if line is None else f"{file}:{line}", ".".join(path) + entry, message)
        remedy = _remedy(path, message)
        found.append(WrongValue(path=path, told=": ".join(filter(None, told)), remedy=remedy))
        if not path:
            break
        document = without_value(cast("dict[str, Any]", document), path)
    return found


def unused_keys(document: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys without effect here: those of the reference, and unknown ones."""
    known, sections = known_keys() | TRANSLATED.keys(), _sections()
    for name, value in document.items():
        path = (*above, name)
        key = ".".join(path)
        if key in known or key == "$schema":
            continue
        if key in sections and isinstance(value, dict):
            yield from unused_keys(cast("dict[str, Any]", value), path)
        else:
            yield path


@cache
def _sections() -> frozenset[str]:
    names = (key.split(".") for key in known_keys() | REFERENCE_KEYS | TRANSLATED.keys())
    return frozenset(".".join(parts[:count]) for parts in names for count in range(1, len(parts)))


def similar_key(path: tuple[str, ...]) -> str | None:
    """The most similar known key or section, or the key with the same last name in another
    section."""
    every = known_keys() | REFERENCE_KEYS | _sections()
    last = path[-1].casefold()
    same = sorted(key for key in every if key.rpartition(".")[2].casefold() == last)
    if len(same) == 1:
        return same[0]
    return near_name(".".join(path), every, 0.8)


def explain_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """The place in a value, such as `hooks[0].timeout` ("" for all of it), and what is wrong
    there, in plain words."""
    text = str(error)
    place = _PLACE.search(text)
    message = plain_message(text[: place.start()] if place else text)
    return (place[1].lstrip(".") if place else "", message)


def plain_message(text: str) -> str:
    """Converts msgspec's message to plain words."""
    if bound := re.fullmatch(r"Expected `(\w+)` (>=|<=|>|<) (.+)", text):
        low = bound[3].removesuffix(".0")
        return f"it has to be {_KINDS.get(bound[1], bound[1])} of {_BOUNDS[bound[2]]} {low}"
    if re.fullmatch(r"Expected `str` of length >= 1", text):
        return "it has to be a text that is not empty"
    if missing := re.fullmatch(r"Object missing required field `(.+)`", text):
        return f"it has no {missing[1]!r}"
    found = re.fullmatch(r"Expected `(.+)`, got `(.+)`", text)
    if found is None:
        return text.replace("`", "").rstrip(".")[:MAX_MESSAGE]
    wanted = " or ".join(_KINDS.get(kind.strip(), kind.strip()) for kind in found[1].split("|"))
    return f"it has to be {wanted}, not {_KINDS.get(found[2], found[2])}"


def _remedy(path: tuple[str, ...], message: str) -> str:
    allowed = _accepted_words(path) if message.startswith("Invalid enum value") else ()
    if allowed:
        return f"Write {', '.join(allowed[:-1])} or {allowed[-1]}, or remove the key."
    return "Correct that value or remove the key."


def _accepted_words(path: tuple[str, ...]) -> tuple[str, ...]:
    """The words that a key accepts; none for a key with other values."""
    kind: Any = Settings
    for name in path:
        fields = msgspec.structs.fields(kind)
        kind = next((field.type for field in fields if field.encode_name == name), None)
        if kind is None:
            return ()
    kinds = (kind,) if get_origin(kind) is Literal else get_args(kind)
    words = [each for one in kinds if get_origin(one) is Literal for each in get_args(one)]
    return tuple(str(word) for word in words)


def load_settings(path: Path) -> Settings:
    """Loads the settings of a file; the defaults if it is missing.

    Comments and trailing commas are allowed. Raises ConfigError naming the file, the position and
    the remedy when it is unreadable, not JSON, or a known key has a value of the wrong type.
    """
    value = settings_document(path)
    return Settings() if value is None else settings_of(value, str(path))
