"""JSON objects of a foreign body, read with their positions; arguments of calls; errors of
dialects.

Odd token counts or chunk numbers from a server do not invalidate an answer.
"""

import math
from typing import Any

import msgspec

from alhena.wire.content import encode_value
from alhena.wire.errors import WireError
from alhena.wire.json_values import as_array, as_object, decode_json, excerpt, scrub

_MOST_OBJECTS = 4


def read_arguments(text: str) -> dict[str, Any] | None:
    """Parses a JSON object; empty for an empty text, None for anything else."""
    if not text.strip():
        return {}
    try:
        return as_object(decode_json(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def answered_arguments(text: str) -> dict[str, Any] | None:
    """Parses the arguments in a model's answer, including odd forms: `null` for tools without
    parameters, an object encoded as a string, or an empty or equal object before the real one."""
    found = read_arguments(text)
    if found is not None:
        return found
    try:
        value = decode_json(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _last_of(text)
    if value is None:
        return {}
    return read_arguments(value) if isinstance(value, str) else None


def _last_of(text: str) -> dict[str, Any] | None:
    """The last of several concatenated objects, if all others are empty or equal."""
    from json import JSONDecoder

    decoder = JSONDecoder()
    found: list[dict[str, Any]] = []
    rest = text.strip()
    while rest.startswith("{") and len(found) < _MOST_OBJECTS:
        try:
            _, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):  # also for a number that is too long
            return None
        value = read_arguments(rest[:end])  # rejects numbers outside JSON
        if value is None:
            return None
        found.append(value)
        rest = rest[end:].lstrip()
    if rest or not found or any(one not in ({}, found[-1]) for one in found):
        return None
    return found[-1]


def old_arguments(value: object) -> dict[str, Any]:
    """The arguments of an earlier call, however broken: nothing a client remembers may end its
    conversation. An object encoded several times is that object, nothing at all is an empty one,
    and anything else becomes the value of `arguments`."""
    for _ in range(_MOST_OBJECTS):
        if not isinstance(value, str):
            break
        value = scrub(value)
        found = answered_arguments(value)
        if found is not None:
            return found
        try:
            value = decode_json(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            break
    if value is None:
        return {}
    found = as_object(value)
    if found is not None:
        return found
    return {"arguments": value}


def write_arguments(args: dict[str, Any] | None) -> str:
    """Encodes arguments as JSON."""
    return encode_value(args or {}).decode()


class DialectError(WireError):
    """A request or an answer that violates its dialect, or has no Gemini equivalent.

    `path` is the position, such as `messages[2].content[0].id`.
    """

    kind = "bad_request"

    def __init__(self, message: str, path: str = "", *, remedy: str | None = None) -> None:
        super().__init__(f"{path}: {message}" if path else message, remedy=remedy)
        self.path = path


class InexpressibleAnswerError(DialectError):
    """The model's answer ended in a way the dialect cannot express; a retry may help."""

    kind = "unusable_answer"


_LARGEST = 3.4028234e38
"""The largest 32-bit float, the limit of Gemini's numbers."""


class Fields:
    """A JSON object and its position. null means an absent field."""

    __slots__ = ("_values", "path")

    def __init__(self, value: object, path: str = "") -> None:
        values = as_object(value)
        if values is None:
            raise DialectError(
                f"must be an object, not {_describe_kind(value)}.", path or "the body"
            )
        self._values = values
        self.path = path

    def place(self, key: str) -> str:
        """The position of a field."""
        return f"{self.path}.{key}" if self.path else key

    def fail(self, key: str, message: str) -> DialectError:
        """The error about a field."""
        return DialectError(message, self.place(key))

    def value(self, key: str) -> Any:
        """The raw field; None when absent."""
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        """The field's text, safe to send."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.fail(key, f"must be a string, not {_describe_kind(value)}.")
        return scrub(value)

    def required_text(self, key: str) -> str:
        """The text of a required, non-empty field."""
        value = self.text(key)
        if not value:
            raise self.fail(key, "is missing." if value is None else "must not be empty.")
        return value

    def number(self, key: str) -> float | None:
        """The field's finite number."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(key, f"must be a number, not {_describe_kind(value)}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fail(key, "must be a finite number.")
        if abs(value) > _LARGEST:
            raise self.fail(key, "is out of range.")
        return value

    def integer(self, key: str) -> int | None:
        """The field's integer."""
        value = self.number(key)
        if value is None:
            return None
        if value != int(value):
            raise self.fail(key, "must be a whole number.")
        return int(value)

    def flag(self, key: str) -> bool:
        """The field's boolean; False when absent."""
        value = self._values.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, not {_describe_kind(value)}.")
        return value

    def array(self, key: str) -> list[Any] | None:
        """The field's array."""
        value = self._values.get(key)
        if value is None:
            return None
        items = as_array(value)
        if items is None:
            raise self.fail(key, f"must be an array, not {_describe_kind(value)}.")
        return items

    def objects(self, key: str) -> list["Fields"]:
        """The objects in the field's array; empty when it is absent."""
        items = self.array(key) or []
        return [Fields(item, f"{self.place(key)}[{at}]") for at, item in enumerate(items)]

    def object(self, key: str) -> "Fields | None":
        """The field's object."""
        value = self._values.get(key)
        return None if value is None else Fields(value, self.place(key))

    def plain(self, key: str) -> dict[str, Any] | None:
        """The field's raw object, whose content is not ours."""
        value = self._values.get(key)
        values = as_object(value)
        if values is None and value is not None:
            raise self.fail(key, f"must be an object, not {_describe_kind(value)}.")
        return values


def content_pieces(fields: Fields, key: str, kind: str) -> list[Fields]:
    """The pieces of a text or an array; a string, alone or in the array, is a text of type
    `kind`."""
    if isinstance(fields.value(key), str):
        return [Fields({"type": kind, "text": fields.text(key)}, fields.place(key))]
    items = enumerate(fields.array(key) or ())
    return [
        Fields(
            {"type": kind, "text": item} if isinstance(item, str) else item,
            f"{fields.place(key)}[{at}]",
        )
        for at, item in items
    ]


def strings(fields: Fields, key: str) -> tuple[str, ...] | None:
    """The strings in a field's array."""
    items = fields.array(key)
    if items is None:
        return None
    for at, item in enumerate(items):
        if not isinstance(item, str):
            raise DialectError(
                f"must be a string, not {_describe_kind(item)}.", f"{fields.place(key)}[{at}]"
            )
    return tuple(scrub(item) for item in items)


EFFORTS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}
"""Reasoning effort -> thinking tokens."""
_READ_EFFORTS = {**EFFORTS, "max": EFFORTS["xhigh"], "ultra": EFFORTS["xhigh"]}
"""The efforts of clients; the last ones are not written, because few models take them."""


def read_effort(fields: Fields, key: str) -> int | None:
    """The thinking tokens of the effort in a field."""
    effort = fields.text(key)
    if effort is None:
        return None
    if effort not in _READ_EFFORTS:
        raise unknown(fields, key, effort, f"there are {', '.join(_READ_EFFORTS)}")
    return _READ_EFFORTS[effort]


_MOST_STOPS = 5
"""Maximum stop sequences of a request to Gemini."""


def read_stops(fields: Fields, key: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stop sequences to send, and the rest, which have to be applied to the answer; a string
    is one. Empty and repeated ones do not count."""
    value = fields.value(key)
    given = (fields.text(key) or "",) if isinstance(value, str) else strings(fields, key) or ()
    stops = tuple(dict.fromkeys(stop for stop in given if stop))
    return stops[:_MOST_STOPS], stops[_MOST_STOPS:]


def limit_of(fields: Fields, key: str) -> int | None:
    """The positive integer in a field."""
    value = fields.integer(key)
    if value is not None and value < 1:
        raise fields.fail(key, "must be at least 1.")
    return value


def refuse(fields: Fields, key: str, why: str) -> None:
    """Raises for a field with any value but null, false, 0 and empty."""
    if fields.value(key):
        raise fields.fail(key, f"{describe_value(fields.value(key))} is not supported: {why}.")


def describe_value(value: object) -> str:
    """The beginning of a value's JSON."""
    from json import dumps

    try:
        return excerpt(dumps(value, ensure_ascii=False), 60)
    except (ValueError, RecursionError):
        return _describe_kind(value)


def unknown(fields: Fields, key: str, value: str, known: str) -> DialectError:
    """The error for an unknown value of a closed set."""
    return fields.fail(key, f'"{excerpt(value, 40)}" is not supported; {known}.')


def _describe_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if as_array(value) is not None else "an object"


_MOST = 2**53
"""Maximum plausible count."""


def word(fields: Fields, key: str) -> str | None:
    """The text in a field; None for anything else."""
    value = fields.value(key)
    return scrub(value) if isinstance(value, str) else None


def count(fields: Fields, key: str) -> int:
    """The number in a field, also as text, truncated to an integer; 0 for anything else."""
    found = number(fields, key)
    return 0 if found is None else found


def number(fields: Fields, key: str) -> int | None:
    """The same, but None for anything else."""
    value = fields.value(key)
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and abs(value) <= _MOST else None


def inner(fields: Fields, key: str) -> Fields:
    """The object in a field; an empty one for anything else."""
    return Fields(as_object(fields.value(key)) or {}, fields.place(key))


_NEXT = "gemini:"
_OWN = "gemini-own:"
_FOREIGN = "foreign:"
_REDACTED = "redacted:"
RESPONSES = "responses:"
"""The mark of a signature with reasoning of the Responses API (`responses.items`)."""
_SEALS = ("Zm9yZWln", "cmVkYWN0", "cmVzcG9u")
"""The base64 prefixes of the kinds of foreign signatures."""


def for_next_part(signature: str) -> str:
    """The opaque text for the signature of the next part."""
    return _NEXT + signature


def of_next_part(opaque: str) -> str | None:
    """The signature of the next part in an opaque text; None without one."""
    return opaque.removeprefix(_NEXT) if opaque.startswith(_NEXT) else None


def own_opaque(signature: str) -> str:
    """The opaque text for the signature of a thought."""
    if signature.startswith(_FOREIGN):
        return signature.removeprefix(_FOREIGN)
    return _OWN + signature


def own_signature(opaque: str) -> str | None:
    """The signature of a thought with this opaque text; None when it belongs to another part."""
    if not opaque or opaque.startswith(_NEXT):
        return None
    return opaque.removeprefix(_OWN) if opaque.startswith(_OWN) else _FOREIGN + opaque


def mark_redacted(data: str) -> str:
    """Foreign redacted thinking as the signature of an empty thought."""
    return _REDACTED + data


def redacted_data(signature: str) -> str | None:
    """The redacted thinking in such a signature."""
    return signature.removeprefix(_REDACTED) if signature.startswith(_REDACTED) else None


def is_foreign(signature: str) -> bool:
    """True when the signature of a thought comes from another service."""
    return signature.startswith((_FOREIGN, _REDACTED))


def seal_signature(signature: str) -> str:
    """A signature as base64, which clients of Gemini's dialect expect."""
    from base64 import b64encode

    if not is_foreign(signature) and not signature.startswith(RESPONSES):
        return signature
    return b64encode(signature.encode("utf-8")).decode()


def unseal_signature(signature: str) -> str:
    """Reverses `seal_signature`; other signatures are unchanged."""
    from base64 import b64decode

    if not signature.startswith(_SEALS):
        return signature
    try:
        opened = b64decode(signature, validate=True).decode("utf-8")
    except ValueError:  # not base64, or not UTF-8
        return signature
    return opened if is_foreign(opened) or opened.startswith(RESPONSES) else signature
