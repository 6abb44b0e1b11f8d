"""What `modelConfigs` of the settings says to no effect: keys that nobody takes from there, and
values of which nothing can be made."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from alhena.config.settings import ModelConfigSettings
from alhena.models.configs import REQUEST_KEYS, converted
from alhena.models.service_keys import ENTRIES, field_of
from alhena.wire.plain import as_array, as_object
from alhena.wire.request import GenerationConfig, ThinkingConfig

MAX_TOLD = 10
"""So many of them are told one by one."""

_CONDITIONS: Mapping[str, tuple[type, str]] = {
    "model": (str, "a name"),
    "overrideScope": (str, "a name"),
    "isRetry": (bool, "true or false"),
}
_SETTINGS = frozenset(GenerationConfig.__struct_encode_fields__) | REQUEST_KEYS
_THINKING = frozenset(ThinkingConfig.__struct_encode_fields__)
_OURS = {
    "tools": "a conversation declares its own tools",
    "toolConfig": "a conversation sets that itself",
    "systemInstruction": "it has an instruction of its own: GEMINI_SYSTEM_MD replaces that",
    "cachedContent": "it cannot go with an instruction and tools",
    "httpOptions": "it is about the connection: GOOGLE_GEMINI_BASE_URL and "
    "GEMINI_CLI_CUSTOM_HEADERS are for that",
    "abortSignal": "it is nothing that can stand in a file",
    "automaticFunctionCalling": "calls are run here, and not by a client library",
}
"""Keys that a client library takes in a `generateContentConfig`, and why they are not taken."""

_Odd = Iterator[tuple[str, str]]


def oddities(settings: ModelConfigSettings) -> tuple[str, ...]:
    """A line for each key that has no effect: where it stands, why, and what to do."""
    found = [
        f"modelConfigs.{place}: {why}."
        for name in ENTRIES
        for place, why in _of_entries(name, getattr(settings, field_of(name)))
    ]
    if len(found) > MAX_TOLD:
        more = f"modelConfigs: {len(found) - MAX_TOLD} more things are of no effect."
        found[MAX_TOLD:] = [more]
    return tuple(found)


def _of_entries(name: str, entries: Any) -> _Odd:
    if (aliases := as_object(entries)) is not None:
        for alias, entry in aliases.items():
            yield from _of_entry(f"{name}.{alias}", entry, frozenset({"extends", "modelConfig"}))
        return
    for index, entry in enumerate(as_array(entries) or ()):
        place = f"{name}[{index}]"
        yield from _of_entry(place, entry, frozenset({"match", "modelConfig"}))
        fields = as_object(entry) or {}
        match = as_object(fields.get("match")) or {}
        for key in _given(match):
            why = _never_fits(key, match[key])
            if why:
                why = f"{why}, so that the override never applies"
                yield f"{place}.match.{key}", f"{why}; correct or remove it in settings.json"
        if match.get("isRetry") is not None and (as_object(fields.get("modelConfig")) or {}).get(
            "model"
        ):
            why = "a further attempt asks the same model; model.fallback is about others"
            yield f"{place}.modelConfig.model", f"not used: {why}"


def _of_entry(place: str, entry: Any, known: frozenset[str]) -> _Odd:
    fields = as_object(entry) or {}
    yield from _unknown(place, fields, known)
    config = as_object(fields.get("modelConfig")) or {}
    yield from _unknown(f"{place}.modelConfig", config, {"model", "generateContentConfig"})
    generation = as_object(config.get("generateContentConfig")) or {}
    place = f"{place}.modelConfig.generateContentConfig"
    yield from _unknown(place, generation, _SETTINGS, _OURS.get)
    thinking = as_object(generation.get("thinkingConfig")) or {}
    yield from _unknown(f"{place}.thinkingConfig", thinking, _THINKING)
    try:
        converted({key: value for key, value in generation.items() if value is not None})
    except msgspec.ValidationError as error:
        yield place, f"not usable: {error}; whoever it is for is not asked"


def _never_fits(key: str, value: Any) -> str:
    """Why a condition is never met, "" if it can be."""
    if key not in _CONDITIONS:
        return f"not known{_near(key, _CONDITIONS)}"
    kind, words = _CONDITIONS[key]
    return "" if isinstance(value, kind) else f"not {words}"


def _unknown(
    place: str,
    fields: Mapping[str, Any],
    known: Collection[str],
    reason: Callable[[str], str | None] = lambda _key: None,
) -> _Odd:
    for key in _given(fields):
        if key in known:
            continue
        why = reason(key)
        if why is not None:
            yield f"{place}.{key}", f"not sent: {why}; remove it from settings.json"
        else:
            said = f"not known{_near(key, known)}, and of no effect"
            yield f"{place}.{key}", f"{said}; correct or remove it in settings.json"


def _given(fields: Mapping[str, Any]) -> list[str]:
    return [key for key, value in fields.items() if value is not None]


def _near(key: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    folded = {each.casefold(): each for each in known}
    asked = key.replace("_", "").casefold()
    found = get_close_matches(asked, sorted(folded), n=1, cutoff=0.75)
    return f" (did you mean {folded[found[0]]}?)" if found else ""
