"""Which model may answer when another one cannot."""

import re

from alhena.errors import ModelError, ServerFaultError
from alhena.models.errors import ModelNotFoundError, QuotaError

_NAME = re.compile(r"gemini-\d+(?:\.\d+)?-(pro|flash-lite|flash)(-preview(?:-[\w.-]+)?)?")
_PREVIEW_FLASH = "gemini-3-flash-preview"
_STABLE = "gemini-2.5-"


def successors(model: str) -> tuple[str, ...]:
    """All models that may come to answer instead of `model`, one after another."""
    found: list[str] = []
    waiting = [model]
    while waiting:
        asked = waiting.pop()
        for error in (ModelNotFoundError("gone", status=404), QuotaError("spent", status=429)):
            other = fallback_model(asked, error)
            if other is not None and other not in found:
                found.append(other)
                waiting.append(other)
    return tuple(found)


def fallback_model(model: str, error: ModelError) -> str | None:
    """The next model after `model`, when `error` says that it is out of quota or room, is not to be
    had, or goes on failing; None when there is none, or another model would fail alike.

    From pro it goes to flash of the same series, from a preview that is not there to its stable
    elder; nothing leads back, so a chain of such steps ends.
    """
    found = _NAME.fullmatch(model.removeprefix("models/"))
    if found is None:
        return None
    size, preview = found[1], found[2]
    if isinstance(error, ModelNotFoundError):
        return f"{_STABLE}{size}" if preview else None
    if not isinstance(error, QuotaError | ServerFaultError) or error.status is None:
        return None
    if preview:
        return _PREVIEW_FLASH if size == "pro" else f"{_STABLE}{size}"
    return found[0].replace("-pro", "-flash") if size == "pro" else None
