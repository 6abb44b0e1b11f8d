"""From a request body in plain JSON, in any of its three forms, to what the rules look at."""

from typing import Any

import msgspec

from alhena.wire.conformance.rules import Findings
from alhena.wire.conformance.shape import (
    BODY,
    GENERATION_CONFIG,
    SETTINGS,
    Field,
    Kind,
    Reader,
    Shape,
    camel,
)
from alhena.wire.content import Content
from alhena.wire.plain import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerationConfig, Tool

_ENVELOPE_KEYS = frozenset(
    {"model", "project", "userPromptId", "request", "enabledCreditTypes", "requestId", "userAgent"}
)
_ENVELOPED = Shape({**BODY.fields, "sessionId": Field(Kind.STRING)})
_CLIENT_ONLY = (
    "abortSignal",
    "httpOptions",
    "automaticFunctionCalling",
    "modelArmorConfig",
    "continuationToken",
    "automaticContinuation",
)
_CLIENT_CONFIG = Shape(
    {
        **GENERATION_CONFIG.fields,
        **SETTINGS.fields,
        **{name: Field(Kind.ANY) for name in _CLIENT_ONLY},
    }
)
"""Client libraries take settings and generation settings side by side, and some of their own."""


class Body(msgspec.Struct, kw_only=True):
    """A body as far as it could be read. `mode` and `allowed` are as given, for they may be none
    that exist; `calls` says whether they were looked for at all. Of the generation settings
    `config` has the form of the answer only.

    `contents_at` and `settings_at` are what paths in it start with.
    """

    contents: tuple[Content, ...] = ()
    config: GenerateContentConfig = GenerateContentConfig()
    calls: bool = False
    mode: str | None = None
    allowed: tuple[str, ...] | None = None
    contents_at: str = ""
    settings_at: str = ""

    def place(self, path: str) -> str:
        """The path of a violation in the value that was given."""
        start = self.contents_at if path.startswith("contents") else self.settings_at
        return start + path


def read_body(value: object, findings: Findings) -> Body | None:
    """The body in `value`; None when it is no object. What departs from the shape is reported."""
    given = as_object(value)
    if given is None:
        findings.add("C4", "$", "a request is a JSON object.")
        return None
    reader = Reader(findings)
    if "request" in given:
        _check_envelope(given, findings)
        fields = reader.read_object(given["request"], _ENVELOPED, "request")
        return _body(fields, fields, "request.", "request.")
    if "config" in given:
        return _read_client_form(given, reader, findings)
    fields = reader.read_object(given, BODY, "")
    return _body(fields, fields, "", "")


def _check_envelope(given: dict[str, Any], findings: Findings) -> None:
    for key in given:
        name = camel(key)
        if name in BODY.fields and name != "model":
            findings.add("C8", key, f'"{key}" belongs inside "request".')
        elif name not in _ENVELOPE_KEYS:
            findings.add("C4", key, f'the API knows no field "{key}" here.')


def _read_client_form(given: dict[str, Any], reader: Reader, findings: Findings) -> Body:
    for key in given.keys() - {"model", "contents", "config"}:
        findings.add("C4", key, f'"{key}" is no field of a {{model, contents, config}} request.')
    outer = reader.read_object({"contents": _contents(given.get("contents"))}, BODY, "")
    config: dict[str, Any] = dict(as_object(given["config"]) or {})
    if not isinstance(given["config"], (dict, type(None))):
        findings.add("C4", "config", "an object is expected here.")
    for key in ("systemInstruction", "system_instruction"):
        if config.get(key) is not None:
            config[key] = next(iter(_contents(config[key])), config[key])
    settings = reader.read_object(config, _CLIENT_CONFIG, "config")
    return _body(outer, settings, "", "config.")


def _contents(value: Any) -> Any:
    """Contents as client libraries take them: a string, a part, a list of parts, or contents."""
    items = as_array(value)
    if items is None:
        items = [] if value is None else [value]
    if items and all(isinstance(item, str) or _is_part(item) for item in items):
        parts = [{"text": item} if isinstance(item, str) else item for item in items]
        return [{"role": "user", "parts": parts}]
    return items


def _is_part(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and "parts" not in fields and "role" not in fields


def _body(
    outer: dict[str, Any] | None,
    settings: dict[str, Any] | None,
    contents_at: str,
    settings_at: str,
) -> Body:
    outer = outer or {}
    settings = settings or {}
    given: dict[str, Any] | None = settings.get("toolConfig", {}).get("functionCallingConfig")
    calling = given or {}
    allowed = calling.get("allowedFunctionNames")
    generation = settings.get("generationConfig", {}) | settings
    return Body(
        contents=msgspec.convert(outer.get("contents", ()), tuple[Content, ...]),
        config=GenerateContentConfig(
            system_instruction=msgspec.convert(settings.get("systemInstruction"), Content | None),
            tools=msgspec.convert(settings.get("tools", ()), tuple[Tool, ...]),
            generation_config=GenerationConfig(
                response_schema=generation.get("responseSchema"),
                response_mime_type=generation.get("responseMimeType"),
            ),
        ),
        calls=given is not None,
        mode=calling.get("mode"),
        allowed=None if allowed is None else tuple(map(str, allowed)),
        contents_at=contents_at,
        settings_at=settings_at,
    )
